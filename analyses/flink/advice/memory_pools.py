"""The kinds of memory that a Flink process can run out of, with their titles and options."""

from __future__ import annotations

from typing import Final, NamedTuple


class Pool(NamedTuple):
    """A kind of memory, with the title of a finding about its exhaustion, its purpose, and a check to suggest.

    Args:
        option: the option's name for `helpers.option`; None if no option helps.
        remedy: a remedy of the cause, for memory outside of Flink's pools.
    """

    title: str
    explanation: str
    check: str
    option: str | None = None
    remedy: str | None = None


POOLS: Final = {
    "heap": Pool(
        "Heap memory ran out",
        "The heap contains the objects of user code and the state of the heap state backend.",
        "Take a heap dump (-XX:+HeapDumpOnOutOfMemoryError) to see what fills the heap",
        "task-heap",
    ),
    "metaspace": Pool(
        "Metaspace ran out",
        "Metaspace contains the loaded classes. A job that restarts endlessly or leaks "
        "class loaders fills the metaspace.",
        "Count loaded classes across restarts. A growing number means a class loader leak",
        "metaspace",
    ),
    "direct": Pool(
        "Direct memory ran out",
        "Direct memory contains the network buffers and the off-heap buffers of user "
        "code and libraries.",
        "Look for libraries that allocate direct buffers (storage and database clients)",
        "direct",
    ),
    "container": Pool(
        "The container was killed for using too much memory",
        "This limit covers everything, including native memory outside all pools "
        "(RocksDB, JNI, glibc arenas).",
        "Compare the process's resident size with the sum of the pools. If the job uses RocksDB, limit "
        "RocksDB's memory (state.backend.rocksdb.memory.managed). On glibc, use jemalloc",
        "overhead",
    ),
    "virtual": Pool(
        "The container was killed for its virtual memory use",
        "YARN counts reserved address space here. Java and glibc reserve far more than they use, so the "
        "process may have enough memory.",
        "Set yarn.nodemanager.vmem-check-enabled to false, or raise yarn.nodemanager.vmem-pmem-ratio",
        remedy="virtual-memory",
    ),
    "network": Pool(
        "The JVM could not reserve the memory for the network buffers",
        "A TaskManager reserves all its network memory as direct memory when it starts.",
        "Compare the network memory with the free memory of the host and with -XX:MaxDirectMemorySize",
    ),
    "native": Pool(
        "The system had no memory left for the JVM",
        "The operating system refused memory to the JVM, because the host or the container has "
        "none left. Flink's memory pools are not the cause.",
        "Compare the sizes of all processes on the host with its memory. Run fewer processes there, or "
        "enlarge the container",
        remedy="spare-room",
    ),
    "threads": Pool(
        "The system could not start a thread",
        "The process, its user or its container has reached its thread limit. This is a system limit, not "
        "one of Flink's memory pools.",
        "Raise the thread limit (ulimit -u, the container's pids limit), and take a thread dump: "
        "clients that are never closed leave threads behind",
        remedy="threads",
    ),
    "unknown": Pool(
        "A process ran out of memory",
        "The exception does not show which memory ran out.",
        "Find out what grows: take a heap dump, and track loaded classes and the process's resident size",
    ),
}
