"""The pools of a process as derived by the model."""

from __future__ import annotations

from dataclasses import dataclass

from flowdiag.analyses.memory.model import options as o
from flowdiag.analyses.memory.model.options import Remark
from flowdiag.analyses.memory.model.sizes import MIB, human_readable


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskManagerMemory:
    """The pools of a TaskManager in Flink 1.10 and later, in bytes."""

    framework_heap: int
    task_heap: int
    framework_off_heap: int
    task_off_heap: int
    network: int
    managed: int
    metaspace: int
    overhead: int

    @property
    def heap(self) -> int:
        """The value of -Xmx and -Xms."""
        return self.framework_heap + self.task_heap

    @property
    def direct(self) -> int:
        """The value of -XX:MaxDirectMemorySize."""
        return self.framework_off_heap + self.task_off_heap + self.network

    @property
    def off_heap(self) -> int:
        """The sum of managed and direct memory."""
        return self.managed + self.direct

    @property
    def flink(self) -> int:
        """The total Flink memory."""
        return self.heap + self.off_heap

    @property
    def process(self) -> int:
        """The total process memory, which is the size of the container."""
        return self.flink + self.metaspace + self.overhead

    @property
    def jvm_parameters(self) -> str:
        """The JVM options that Flink's scripts pass."""
        return (
            f"-Xmx{self.heap} -Xms{self.heap} -XX:MaxDirectMemorySize={self.direct}"
            f" -XX:MaxMetaspaceSize={self.metaspace}"
        )

    def pools(self) -> dict[str, int]:
        """Return the sizes by Flink's option name, including totals."""
        return {
            o.PROCESS: self.process,
            o.FLINK: self.flink,
            o.FRAMEWORK_HEAP: self.framework_heap,
            o.TASK_HEAP: self.task_heap,
            o.MANAGED: self.managed,
            o.FRAMEWORK_OFF_HEAP: self.framework_off_heap,
            o.TASK_OFF_HEAP: self.task_off_heap,
            "taskmanager.memory.network": self.network,
            "taskmanager.memory.jvm-metaspace.size": self.metaspace,
            "taskmanager.memory.jvm-overhead": self.overhead,
        }

    def report(self) -> list[str]:
        """Return the lines that Flink prints when a TaskManager starts."""
        rows = (
            ("  Total Process Memory:", self.process),
            ("    Total Flink Memory:", self.flink),
            ("      Total JVM Heap Memory:", self.heap),
            ("        Framework:", self.framework_heap),
            ("        Task:", self.task_heap),
            ("      Total Off-heap Memory:", self.off_heap),
            ("        Managed:", self.managed),
            ("        Total JVM Direct Memory:", self.direct),
            ("          Framework:", self.framework_off_heap),
            ("          Task:", self.task_off_heap),
            ("          Network:", self.network),
            ("    JVM Metaspace:", self.metaspace),
            ("    JVM Overhead:", self.overhead),
        )
        head = "Final TaskExecutor Memory configuration:"
        return [head, *(f"{label:<33}{human_readable(size)}" for label, size in rows)]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobManagerMemory:
    """The pools of a JobManager in Flink 1.11 and later, in bytes."""

    heap: int
    off_heap: int
    metaspace: int
    overhead: int
    direct_limit: bool = False

    @property
    def flink(self) -> int:
        """The total Flink memory."""
        return self.heap + self.off_heap

    @property
    def process(self) -> int:
        """The total process memory."""
        return self.flink + self.metaspace + self.overhead

    @property
    def jvm_parameters(self) -> str:
        """The JVM options that Flink's scripts pass."""
        direct = f" -XX:MaxDirectMemorySize={self.off_heap}" if self.direct_limit else ""
        return f"-Xmx{self.heap} -Xms{self.heap}{direct} -XX:MaxMetaspaceSize={self.metaspace}"

    def pools(self) -> dict[str, int]:
        """Return the sizes by Flink's option name, including totals."""
        return {
            "jobmanager.memory.process.size": self.process,
            "jobmanager.memory.flink.size": self.flink,
            "jobmanager.memory.heap.size": self.heap,
            "jobmanager.memory.off-heap.size": self.off_heap,
            "jobmanager.memory.jvm-metaspace.size": self.metaspace,
            "jobmanager.memory.jvm-overhead": self.overhead,
        }

    def report(self) -> list[str]:
        """Return the lines that Flink prints when a JobManager starts."""
        rows = (
            ("  Total Process Memory:", self.process),
            ("    Total Flink Memory:", self.flink),
            ("      JVM Heap:", self.heap),
            ("      Off-heap:", self.off_heap),
            ("    JVM Metaspace:", self.metaspace),
            ("    JVM Overhead:", self.overhead),
        )
        head = "Final Master Memory configuration:"
        return [head, *(f"{label:<24}{human_readable(size)}" for label, size in rows)]


@dataclass(frozen=True, slots=True, kw_only=True)
class LegacyMemory:
    """A TaskManager up to Flink 1.9, in bytes. `managed` is None if it is a share of the free heap."""

    total: int
    cutoff: int
    heap: int
    network: int
    managed: int | None
    direct: int | None

    @property
    def jvm_parameters(self) -> str:
        """The JVM options. A standalone TaskManager has practically no direct memory limit."""
        size = f"{self.heap // MIB}"
        direct = "8388607T" if self.direct is None else f"{self.direct // MIB}m"
        unit = "M" if self.direct is None else "m"
        return f"-Xms{size}{unit} -Xmx{size}{unit} -XX:MaxDirectMemorySize={direct}"

    def pools(self) -> dict[str, int]:
        """Return the sizes by option name in Flink 1.9 and earlier."""
        found = {
            "taskmanager.heap.size": self.total,
            "heap": self.heap,
            "taskmanager.network.memory": self.network,
        }
        if self.managed is not None:
            found["taskmanager.memory.size"] = self.managed
        if self.cutoff:
            found["containerized.heap-cutoff"] = self.cutoff
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Derivation:
    """The sizes that Flink derives from options.

    Args:
        memory: the pools; None if Flink rejects the options.
        remarks: messages that Flink logs.
        error: the messages of Flink's error, outermost first.
    """

    memory: TaskManagerMemory | JobManagerMemory | LegacyMemory | None
    remarks: tuple[Remark, ...] = ()
    error: tuple[str, ...] = ()
