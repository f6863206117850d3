"""Maps exception classes and kinds of failures to causes."""

from __future__ import annotations

from typing import Final

CAUSE_OF_FAILURE: Final = {
    "user-code": "task-failure",
    "unknown": "task-failure",
    "snapshot": "snapshot-exception",
    "no-resource": "not-enough-slots",
    "network-buffers": "insufficient-network-buffers",
    "taskmanager-lost": "taskmanager-lost",
    "out-of-memory": "out-of-memory",
    "task-stuck": "task-hangs",
}
"""The cause of each kind of failure (`flink.crises.kind_of`)."""

CAUSE_OF_CLASS: Final[dict[str, tuple[str, tuple[str, ...]]]] = {
    "trigger-late": ("overloaded", ("partitions",)),
    "network-memory-missing": ("out-of-memory", ("network-fraction", "network-max")),
    "metaspace-full": ("out-of-memory", ("more", "spark-overhead")),
    "direct-memory-full": ("out-of-memory", ("more", "spark-overhead")),
    "threads-used-up": ("out-of-memory", ("more", "spark-overhead")),
    "native-memory-full": ("out-of-memory", ("spare-room", "spark-overhead")),
    "jvm-crashed": ("jvm-crashed", ()),
    "heap-full": ("out-of-memory", ("more", "spark-heap")),
    "virtual-memory-exceeded": ("out-of-memory", ("virtual-memory",)),
    "container-killed": ("out-of-memory", ("more", "spark-overhead")),
    "memory-full": ("out-of-memory", ("more", "spark-heap")),
    "python-memory-full": ("out-of-memory", ("spark-python",)),
    "python-worker-lost": ("python-worker-lost", ()),
    "network-buffers": ("insufficient-network-buffers", ("count",)),
    "not-enough-slots": ("not-enough-slots", ("more-slots", "slots")),
    "jobmanager-lost": ("jobmanager-lost", ("pause",)),
    "leadership-lost": ("leadership-lost", ()),
    "taskmanager-lost": ("taskmanager-lost", ()),
    "executor-lost": ("executor-lost", ("reason",)),
    "fenced-transaction": ("fenced-transaction", ()),
    "kafka-denied": ("kafka-denied", ()),
    "too-few-replicas": ("too-few-replicas", ()),
    "producer-buffer-full": ("slow-kafka", ("brokers", "buffer")),
    "kafka-timeout": ("kafka-timeout", ()),
    "unknown-topic": ("unknown-topic", ()),
    "record-too-large": ("record-too-large", ()),
    "constraint-violated": ("constraint-violated", ()),
    "database-deadlock": ("database-deadlock", ()),
    "lock-wait-ended": ("database-lock", ("find", "timeouts")),
    "offsets-gone": ("offsets-out-of-range", ("retention",)),
    "offsets-went-back": ("offsets-went-back", ()),
    "hdfs-no-datanode": ("storage-failure", ("datanodes",)),
    "checkpoint-file-exists": ("checkpoint-directory-shared", ()),
    "storage-full": ("storage-failure", ("full",)),
    "hdfs-safe-mode": ("storage-failure", ("safe-mode",)),
    "storage-endpoint": ("storage-failure", ("endpoint",)),
    "storage-denied": ("storage-failure", ("denied",)),
    "storage-read-only": ("storage-failure", ("read-only",)),
    "storage-throttled": ("storage-failure", ("throttled",)),
    "file-missing": ("storage-failure", ("missing",)),
    "storage-failure": ("storage-failure", ("fix-error",)),
    "service-unreachable": ("service-unreachable", ()),
    "connections-used-up": ("no-connection-left", ()),
    "serializer-changed": ("state-incompatible", ()),
    "state-has-no-operator": ("state-without-operator", ()),
    "state-store-broken": ("state-store-broken", ()),
    "state-store-locked": ("state-store-locked", ()),
    "max-parallelism-changed": ("max-parallelism-changed", ()),
    "restore-failed": ("restore-failed", ()),
    "savepoint-failed": ("savepoint-failed", ()),
    "snapshot-failed": ("snapshot-exception", ()),
    "two-writers": ("two-writers", ()),
    "schema-changed": ("schema-changed", ()),
    "checkpoint-changed": ("query-changed", ()),
    "frame-too-large": ("frame-too-large", ("larger", "smaller")),
    "rest-message-too-large": ("frame-too-large", ("rest",)),
    "unsupported-java": ("unsupported-java", ()),
    "class-loading": ("class-loading", ("missing", "conflict")),  # `flink.linkage` decides
    "class-conflict": ("class-loading", ("conflict",)),
    "factory-missing": ("class-loading", ("factory",)),
    "filesystem-missing": ("class-loading", ("filesystem", "spark-filesystem")),
    "invalid-sql": ("invalid-sql", ()),
    "invalid-options": ("invalid-options", ()),
    "unreadable-record": ("unreadable-record", ()),
    "change-log-off": ("change-log-off", ()),
    "kubernetes-denied": ("kubernetes-denied", ()),
    "kubernetes-conflict": ("kubernetes-request", ("conflict",)),
    "kubernetes-missing": ("kubernetes-request", ("missing",)),
    "kubernetes-invalid": ("kubernetes-request", ("field",)),
    "kubernetes-failed": ("kubernetes-request", ("server",)),
    "tls-plain": ("tls-failed", ("plain",)),
    "tls-store": ("tls-failed", ("store",)),
    "tls-handshake": ("tls-failed", ("trust", "options")),
    "log-position-lost": ("log-position-lost", ("snapshot",)),
    "slot-missing": ("log-position-lost", ("snapshot", "keep-slot")),
    "slot-in-use": ("slot-in-use", ()),
    "transaction-too-long": ("transaction-too-long", ()),
    "not-serializable": ("not-serializable", ()),
    "submission-failed": ("submission-failed", ("reason",)),
    "deployment-failed": ("deployment-failed", ("events",)),
    "yarn-deployment-failed": ("deployment-failed", ("attempts",)),
    "main-class-missing": ("class-loading", ("main",)),
    "quota-exceeded": ("deployment-failed", ("quota",)),
    "restore-by-hand": ("deployment-failed", ("by-hand",)),
    "task-stuck": ("task-hangs", ("timeout", "kill-sooner")),
    "rpc-timeout": ("rpc-trouble", ("other-side",)),
    "coordinator-failed": ("coordinator-failed", ()),
    "restarts-used-up": ("restarts-used-up", ()),
    # The problem is the job's code or a permission, so a side output does not help.
    "classloader-closed": ("task-failure", ("fix-error",)),
    "service-denied": ("task-failure", ("grant",)),
    "fetch-failed": ("shuffle-fetch", ()),
    "kryo-buffer-full": ("result-too-large", ("kryo-buffer",)),
    "result-too-large": ("result-too-large", ("less",)),
}
"""The cause of each exception class (`parsers.exceptions`) and the remedies that apply (all if empty).
Classes without an entry have no specific cause."""


def cause_of_class(name: str | None, otherwise: str) -> tuple[str, tuple[str, ...]]:
    """Return the cause of an exception class and the remedies that apply.

    >>> cause_of_class("storage-full", "task-failure"), cause_of_class(None, "task-failure")
    (('storage-failure', ('full',)), ('task-failure', ()))
    """
    return CAUSE_OF_CLASS.get(name or "", (otherwise, ()))
