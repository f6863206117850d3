"""Flink's memory model, as defined in FLIP-49 and FLIP-116 and in earlier versions.

All functions are pure and take options as text. Results, notes and errors are identical to those of Flink's own
calculator (`BashJavaUtils`, which calls `TaskExecutorProcessUtils` and `JobManagerProcessUtils`).
`tests/analyses/test_memory_model.py` compares them with its output in ten versions
(`fixtures/recordings/memory`).

Pitfalls: fractions are 32-bit floats, widened to doubles and multiplied as decimals (0.1 becomes
0.10000000149011612). Every product is truncated. If a total and its parts are set, the remainder goes to the JVM
overhead (or the network memory) and must be in its range.
"""

from flowdiag.analyses.memory.model.derive import jobmanager_memory, taskmanager_memory
from flowdiag.analyses.memory.model.options import (
    BUFFERS,
    DEFAULT_SEGMENT,
    FLINK,
    FRAMEWORK_HEAP,
    FRAMEWORK_OFF_HEAP,
    LATEST,
    MANAGED,
    MANAGED_FRACTION,
    MEMORY_KEYS,
    NETWORK_FRACTION,
    NETWORK_MAX,
    NETWORK_MIN,
    PROCESS,
    TASK_HEAP,
    TASK_OFF_HEAP,
    Version,
    segment_size,
)
from flowdiag.analyses.memory.model.pools import (
    Derivation,
    JobManagerMemory,
    LegacyMemory,
    TaskManagerMemory,
)
from flowdiag.analyses.memory.model.sizes import (
    MIB,
    MemoryOptionError,
    as_option,
    human_readable,
    parse_size,
)

__all__ = [
    "BUFFERS",
    "DEFAULT_SEGMENT",
    "FLINK",
    "FRAMEWORK_HEAP",
    "FRAMEWORK_OFF_HEAP",
    "LATEST",
    "MANAGED",
    "MANAGED_FRACTION",
    "MEMORY_KEYS",
    "MIB",
    "NETWORK_FRACTION",
    "NETWORK_MAX",
    "NETWORK_MIN",
    "PROCESS",
    "TASK_HEAP",
    "TASK_OFF_HEAP",
    "Derivation",
    "JobManagerMemory",
    "LegacyMemory",
    "MemoryOptionError",
    "TaskManagerMemory",
    "Version",
    "as_option",
    "human_readable",
    "jobmanager_memory",
    "parse_size",
    "segment_size",
    "taskmanager_memory",
]
