"""The options that flowdiag proposes to change, and the syntax of their values.

`write` formats every proposed value so that the engine accepts it. Flink accepts `2400 ms` but not `2.4 s`, Spark
accepts `2400ms`, and both require whole numbers of bytes. `shown` formats a value from an input with its unit.

Sources: `TimeUtils`, `MemorySize` and the option classes of Flink 1.9 to 2.3; `JavaUtils` and
`ConfigBuilder` of Spark 3.3 to 4.3; the Kafka documentation for Kafka's options.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NewType

from flowdiag.analyses.model import fmt
from flowdiag.parsers.units import duration_ms, size_bytes

Proposed = NewType("Proposed", str)
"""A value that the engine accepts. Only `write` and `accepted` create one."""

Value = bool | int | float | str
"""A value to propose: milliseconds, bytes, a number, a switch or a word."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionType:
    """The type of an option, as its engine parses it.

    Args:
        name: the name in the engine's documentation.
        accepts: the values that the engine accepts, in their usual forms.
        write: formats a value. Text remains unchanged.
        shown: formats a configured value for readers.
        unit: the unit of a bare number, for readers. Empty if the value includes its unit or has none.
    """

    name: str
    accepts: re.Pattern[str]
    write: Callable[[Value], str] = str
    shown: Callable[[str], str] = str
    unit: str = ""


_MOST: Final = 10.0**14  # fits 64 bits in any unit
_MOST_INT: Final = 10.0**9 - 1  # fits 32 bits


def _number(value: Value) -> float:
    """Clamp a calculated number to the range that engines accept."""
    if isinstance(value, str):
        raise TypeError(value)
    return min(max(0.0, float(value)), _MOST)


_LONGER: Final = (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1000))


def _duration(value: Value) -> str:
    """Format milliseconds as Flink parses them, in the largest unit that gives a whole number."""
    whole = max(1, round(_number(value)))
    for unit, size in _LONGER:
        if whole % size == 0:
            return f"{whole // size} {unit}"
    return f"{whole} ms"


def _whole_number(value: Value) -> str:
    return str(round(min(_number(value), _MOST_INT)))


def _count(value: Value) -> str:
    return str(max(1, round(min(_number(value), _MOST_INT))))


def _unbounded_count(value: Value) -> str:
    return str(max(1, round(_number(value))))


def _decimal(value: Value) -> str:
    return f"{_number(value):g}" if _number(value) % 1 else f"{_number(value):.1f}"


def _switch(value: Value) -> str:
    return "true" if value else "false"


def _bytes(value: Value) -> str:
    """Format bytes as both engines parse them, in the largest unit that gives a whole number."""
    whole = max(0, round(_number(value)))
    for letter, size in (("g", 2**30), ("m", 2**20), ("k", 2**10)):
        if whole and whole % size == 0:
            return f"{whole // size}{letter}"
    return f"{whole}b"


def _mebibytes(value: Value) -> str:
    return f"{max(1, -(-round(_number(value)) // 2**20))}m"


def _processing_time(value: Value) -> str:
    whole = max(1, round(_number(value)))
    return f"{whole} milliseconds" if whole % 1000 else f"{whole // 1000} seconds"


def _batch_duration(value: Value) -> str:
    whole = max(1, round(_number(value)))
    return f"Milliseconds({whole})" if whole % 1000 else f"Seconds({whole // 1000})"


def _as_time(text: str) -> str:
    ms = duration_ms(text)
    return fmt.duration(ms) if ms is not None else text


def _as_size(text: str) -> str:
    size = size_bytes(text)
    return fmt.size(size) if size is not None else text


def _as_mebibytes(text: str) -> str:
    size = size_bytes(f"{text}m" if text.isdecimal() else text)
    return fmt.size(size) if size is not None else text


def _text(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.ASCII)


_LONG: Final = _text(r"[0-9]{1,18}")
_INT: Final = _text(r"[0-9]{1,9}")  # 32 bits
_REAL: Final = _text(r"[0-9]{1,15}(?:\.[0-9]{1,15})?(?:[eE][+-]?[0-9]{1,2})?")

DURATION: Final = OptionType(
    name="Duration",
    accepts=_text(
        r"[0-9]{1,15} ?(?:|d|days?|h|hours?|min|minutes?|s|secs?|seconds?|ms|millis?|milliseconds?)"
    ),
    write=_duration,
    shown=_as_time,
)
MILLIS: Final = OptionType(
    name="Long, milliseconds", accepts=_LONG, write=_unbounded_count, shown=_as_time, unit="ms"
)
MILLIS_INT: Final = OptionType(
    name="Integer, milliseconds", accepts=_INT, write=_count, shown=_as_time, unit="ms"
)
MEMORY: Final = OptionType(
    name="MemorySize",
    accepts=_text(
        r"[0-9]{1,18} ?(?:|b|bytes|k|kb|kibibytes|m|mb|mebibytes|g|gb|gibibytes|t|tb|tebibytes)"
    ),
    write=_bytes,
    shown=_as_size,
)
BYTES: Final = OptionType(
    name="Integer, bytes", accepts=_INT, write=_whole_number, shown=_as_size, unit="bytes"
)
MEGABYTES: Final = OptionType(
    name="Integer, megabytes", accepts=_INT, write=_count, shown=_as_mebibytes, unit="MiB"
)
INTEGER: Final = OptionType(name="Integer", accepts=_INT, write=_whole_number)
COUNT: Final = OptionType(name="Integer above 0", accepts=_text(r"[1-9][0-9]{0,8}"), write=_count)
SHARE: Final = OptionType(name="Float below 1", accepts=_text(r"0|0?\.[0-9]{1,15}"), write=_decimal)
BOOLEAN: Final = OptionType(name="Boolean", accepts=_text(r"true|false"), write=_switch)
FAILS: Final = OptionType(  # tolerated failures, for versions that tolerate all or none
    name="Boolean",
    accepts=_text(r"true|false"),
    write=lambda value: "false" if value else "true",
)
SPARK_TIME: Final = OptionType(
    name="time",
    accepts=_text(r"[0-9]{1,15}(?:us|ms|s|m|min|h|d)"),
    write=lambda v: f"{_count(v)}ms",
    shown=_as_time,
)
SPARK_MEMORY: Final = OptionType(
    name="bytes",
    accepts=_text(r"[0-9]{1,15}(?:b|k|kb|m|mb|g|gb|t|tb|p|pb)?"),
    write=_mebibytes,
    shown=_as_mebibytes,
)
RATE: Final = OptionType(
    name="Long, records per second",
    accepts=_text(r"[1-9][0-9]{0,17}"),
    write=_unbounded_count,
    unit="records/s",
)
RATE_REAL: Final = OptionType(
    name="Double, records per second",
    accepts=_REAL,
    write=lambda value: f"{max(1.0, _number(value)):.0f}",
    unit="records/s",
)
REAL: Final = OptionType(name="Double", accepts=_REAL, write=_decimal)
CLASS: Final = OptionType(name="class", accepts=_text(r"[A-Za-z_$][\w$]*(?:\.[A-Za-z_$][\w$]*)+"))
PROCESSING_TIME: Final = OptionType(
    name="interval",
    accepts=_text(r"[1-9][0-9]{0,12} (?:milliseconds|seconds|minutes|hours)"),
    write=_processing_time,
    shown=_as_time,
)
BATCH_DURATION: Final = OptionType(
    name="Spark Streaming Duration",
    accepts=_text(r"(?:Milliseconds|Seconds|Minutes)\([1-9][0-9]{0,12}\)"),
    write=_batch_duration,
    shown=_as_time,
)


def one_of(*words: str) -> OptionType:
    """Return the type of an option that accepts only certain words."""
    return OptionType(name=" | ".join(words), accepts=_text("|".join(map(re.escape, words))))


Version = tuple[int, int]

# Keys that had another type up to some version.
_OLDER: Final[dict[str, tuple[Version, OptionType]]] = {
    "heartbeat.timeout": ((1, 20), MILLIS),
    "task.cancellation.timeout": ((1, 20), MILLIS),
    "state.backend.fs.memory-threshold": ((1, 10), BYTES),
    "taskmanager.network.memory.min": ((1, 4), BYTES),
    "taskmanager.network.memory.max": ((1, 4), BYTES),
    "restart-strategy": ((1, 11), one_of("none", "fixed-delay", "failure-rate")),
}

BATCH_INTERVAL: Final = "StreamingContext(…, batchDuration)"
TRIGGER_INTERVAL: Final = "Trigger.ProcessingTime(…)"

_STRATEGIES: Final = one_of("none", "fixed-delay", "failure-rate", "exponential-delay")

_BACKENDS: Final = one_of("hashmap", "filesystem", "rocksdb", "forst")

TYPES: Final[dict[str, OptionType]] = {
    # Flink: checkpoints. Up to 1.10, they were set in the program.
    "execution.checkpointing.interval": DURATION,
    "execution.checkpointing.timeout": DURATION,
    "execution.checkpointing.min-pause": DURATION,
    "execution.checkpointing.tolerable-failed-checkpoints": INTEGER,
    "StreamExecutionEnvironment.enableCheckpointing(…)": MILLIS,
    "CheckpointConfig.setCheckpointTimeout(…)": MILLIS,
    "CheckpointConfig.setMinPauseBetweenCheckpoints(…)": MILLIS,
    "CheckpointConfig.setTolerableCheckpointFailureNumber(…)": INTEGER,
    "CheckpointConfig.setFailOnCheckpointingErrors(…)": FAILS,
    "execution.checkpointing.unaligned": BOOLEAN,
    "execution.checkpointing.unaligned.enabled": BOOLEAN,
    "execution.checkpointing.checkpoints-after-tasks-finish.enabled": BOOLEAN,
    "state.backend.incremental": BOOLEAN,
    "execution.checkpointing.incremental": BOOLEAN,
    "state.backend.local-recovery": BOOLEAN,
    "state.backend.fs.memory-threshold": MEMORY,
    "state.storage.fs.memory-threshold": MEMORY,
    "execution.checkpointing.data-inline-threshold": MEMORY,
    "execution.savepoint.ignore-unclaimed-state": BOOLEAN,
    # Flink: the job and the cluster.
    "restart-strategy": _STRATEGIES,
    "restart-strategy.type": _STRATEGIES,
    "rest.flamegraph.enabled": BOOLEAN,
    "job.autoscaler.scaling.effectiveness.detection.enabled": BOOLEAN,
    "job.autoscaler.scaling.enabled": BOOLEAN,
    "pipeline.generic-types": BOOLEAN,
    "pipeline.object-reuse": BOOLEAN,
    "heartbeat.timeout": DURATION,
    "task.cancellation.timeout": DURATION,
    "akka.ask.timeout": DURATION,
    "pekko.ask.timeout": DURATION,
    "akka.framesize": OptionType(
        name="String, bytes",
        accepts=_text(r"[0-9]{1,12}b"),
        write=lambda v: f"{_count(v)}b",
        shown=_as_size,
    ),
    "pekko.framesize": OptionType(
        name="String, bytes",
        accepts=_text(r"[0-9]{1,12}b"),
        write=lambda v: f"{_count(v)}b",
        shown=_as_size,
    ),
    "taskmanager.numberOfTaskSlots": COUNT,
    "cluster.evenly-spread-out-slots": BOOLEAN,
    "taskmanager.load-balance.mode": one_of("NONE", "SLOTS", "TASKS"),
    "taskmanager.network.credit-model": BOOLEAN,
    "taskmanager.network.memory.buffer-debloat.enabled": BOOLEAN,
    # Flink: memory.
    "taskmanager.heap.size": MEMORY,
    "taskmanager.heap.mb": MEGABYTES,
    "taskmanager.memory.process.size": MEMORY,
    "taskmanager.memory.flink.size": MEMORY,
    "taskmanager.memory.framework.heap.size": MEMORY,
    "taskmanager.memory.framework.off-heap.size": MEMORY,
    "taskmanager.memory.task.heap.size": MEMORY,
    "taskmanager.memory.task.off-heap.size": MEMORY,
    "taskmanager.memory.managed.size": MEMORY,
    "taskmanager.memory.managed.fraction": SHARE,
    "taskmanager.memory.network.min": MEMORY,
    "taskmanager.memory.network.max": MEMORY,
    "taskmanager.memory.network.fraction": SHARE,
    "taskmanager.memory.jvm-metaspace.size": MEMORY,
    "taskmanager.memory.jvm-overhead.min": MEMORY,
    "taskmanager.memory.jvm-overhead.max": MEMORY,
    "taskmanager.memory.jvm-overhead.fraction": SHARE,
    "taskmanager.memory.segment-size": MEMORY,
    "taskmanager.network.memory.min": MEMORY,
    "taskmanager.network.memory.max": MEMORY,
    "taskmanager.network.memory.fraction": SHARE,
    "taskmanager.network.numberOfBuffers": COUNT,
    "taskmanager.memory.fraction": SHARE,
    "taskmanager.memory.size": MEMORY,
    "jobmanager.heap.size": MEMORY,
    "jobmanager.heap.mb": MEGABYTES,
    "jobmanager.memory.process.size": MEMORY,
    "jobmanager.memory.flink.size": MEMORY,
    "jobmanager.memory.heap.size": MEMORY,
    "jobmanager.memory.off-heap.size": MEMORY,
    "jobmanager.memory.jvm-metaspace.size": MEMORY,
    "jobmanager.memory.jvm-overhead.min": MEMORY,
    "jobmanager.memory.jvm-overhead.max": MEMORY,
    "jobmanager.memory.jvm-overhead.fraction": SHARE,
    "state.backend": _BACKENDS,
    "state.backend.type": _BACKENDS,
    "state.backend.rocksdb.memory.managed": BOOLEAN,
    "state.backend.rocksdb.memory.partitioned-index-filters": BOOLEAN,
    "state.backend.rocksdb.checkpoint.transfer.thread.num": COUNT,
    "state.backend.rocksdb.thread.num": COUNT,
    "state.backend.rocksdb.use-ingest-db-restore-mode": BOOLEAN,
    "state.backend.rocksdb.use-bloom-filter": BOOLEAN,
    "state.backend.rocksdb.writebuffer.size": MEMORY,
    "state.backend.rocksdb.manual-compaction.min-interval": DURATION,
    # Kafka.
    "transaction.timeout.ms": MILLIS_INT,
    "retention.ms": MILLIS,
    # Spark.
    BATCH_INTERVAL: BATCH_DURATION,
    TRIGGER_INTERVAL: PROCESSING_TIME,
    "spark.executor.memory": SPARK_MEMORY,
    "spark.executor.memoryOverhead": SPARK_MEMORY,
    "spark.executor.pyspark.memory": SPARK_MEMORY,
    "spark.python.worker.faulthandler.enabled": BOOLEAN,
    "spark.speculation": BOOLEAN,
    "spark.sql.shuffle.partitions": COUNT,
    "spark.scheduler.mode": one_of("FIFO", "FAIR"),
    "spark.sql.streaming.multipleWatermarkPolicy": one_of("min", "max"),
    "spark.sql.streaming.stateStore.rocksdb.compactOnCommit": BOOLEAN,
    "spark.sql.streaming.stateStore.providerClass": CLASS,
    "spark.sql.streaming.stateStore.rocksdb.boundedMemoryUsage": BOOLEAN,
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": BOOLEAN,
    "spark.streaming.backpressure.enabled": BOOLEAN,
    "spark.streaming.kafka.consumer.cache.enabled": BOOLEAN,
    "spark.streaming.backpressure.initialRate": RATE,
    "spark.streaming.backpressure.pid.minRate": RATE_REAL,
    "spark.streaming.backpressure.pid.proportional": REAL,
    "spark.streaming.backpressure.pid.integral": REAL,
    "spark.streaming.backpressure.pid.derived": REAL,
    "spark.streaming.blockInterval": SPARK_TIME,
    "spark.streaming.concurrentJobs": COUNT,
    "spark.streaming.kafka.maxRatePerPartition": RATE,
    "spark.streaming.receiver.maxRate": RATE,
    "spark.streaming.receiver.writeAheadLog.enable": BOOLEAN,
    "maxFilesPerTrigger": COUNT,
    "maxOffsetsPerTrigger": COUNT,
    "minPartitions": COUNT,
}
"""The type of each option, by its newest key. An option of ForSt has the type of the same option of RocksDB."""


def type_of(option: str, version: Version | None = None) -> OptionType | None:
    """Return the type of an option, or None if flowdiag never proposes a value for it.

    Args:
        option: its key.
        version: the version of the engine. If None, a value must fit all versions.

    >>> type_of("heartbeat.timeout").name, type_of("heartbeat.timeout", (2, 0)).name
    ('Long, milliseconds', 'Duration')
    """
    last, older = _OLDER.get(option, ((0, 0), None))
    if older is not None and (version is None or version <= last):
        return older
    return TYPES.get(option.replace("state.backend.forst.", "state.backend.rocksdb."))


def write(option: str, value: Value, version: Version | None = None) -> Proposed:
    """Format a value for a configuration file, with the unit that the option requires.

    Args:
        option: its key.
        value: milliseconds, bytes, a number, a switch or a word.
        version: the version of the engine, if known.

    Raises:
        KeyError: if the option's type is unknown.
        ValueError: if the engine does not accept the value.

    >>> write("execution.checkpointing.min-pause", 2400), write("spark.streaming.blockInterval", 125.4)
    ('2400 ms', '125ms')
    >>> write("taskmanager.memory.network.max", 163840), write("restart-strategy.type", "sometimes")
    Traceback (most recent call last):
    ValueError: restart-strategy.type does not take 'sometimes'
    """
    kind = type_of(option, version)
    if kind is None:
        raise KeyError(option)
    text = value if isinstance(value, str) else kind.write(value)
    if kind.accepts.fullmatch(text) is None:
        raise ValueError(f"{option} does not take {text!r}")
    return Proposed(text)


def accepted(option: str, text: str | None, version: Version | None = None) -> Proposed | None:
    """Return a value from an input as a proposal, or None if the engine does not accept it.

    >>> accepted("taskmanager.memory.network.max", "160k"), accepted("taskmanager.memory.network.max", "0.5g")
    ('160k', None)
    """
    kind = type_of(option, version)
    if kind is None or text is None or kind.accepts.fullmatch(text.strip()) is None:
        return None
    return Proposed(text.strip())


def shown(option: str | None, text: str, version: Version | None = None) -> str:
    """Format a configured value for readers, with its unit.

    >>> shown("execution.checkpointing.timeout", "8000"), shown("spark.streaming.receiver.maxRate", "40")
    ('8 s', '40 records/s')
    >>> shown("taskmanager.memory.process.size", "1.5g"), shown("taskmanager.memory.process.size", "1536m")
    ('1.5g', '1.5 GiB')
    """
    kind = type_of(option, version) if option is not None else None
    # A value that the engine cannot parse is shown unchanged, because it is the problem.
    if kind is None or (kind.shown is _as_size and not kind.accepts.fullmatch(text.strip())):
        return text
    formatted = kind.shown(text)
    bare = formatted == text and kind.unit and re.fullmatch(r"[0-9.]+", text)
    return f"{text} {kind.unit}" if bare else formatted


def number_of(option: str, text: str, version: Version | None = None) -> float | None:
    """Return a value as a number (milliseconds, bytes or a count), or None for words.

    >>> number_of("execution.checkpointing.timeout", "10 min"), number_of("restart-strategy", "none")
    (600000.0, None)
    """
    kind = type_of(option, version)
    if kind is None:
        return None
    if kind.shown is _as_time:
        return duration_ms(text)
    if kind.shown in (_as_size, _as_mebibytes):
        return size_bytes(f"{text}m" if kind.shown is _as_mebibytes and text.isdecimal() else text)
    try:
        return float(text)
    except ValueError:
        return None


def is_improvement(
    only: str | None, option: str, now: str, proposed: str, version: Version | None
) -> bool:
    """Return whether a proposed value differs from the current one in the right direction.

    Args:
        only: `more`, `less`, or None for any other value.
        option: its key.
        now, proposed: the current and the proposed value.
        version: the version of the engine.

    >>> is_improvement("more", "execution.checkpointing.tolerable-failed-checkpoints", "1000", "3", None)
    False
    >>> is_improvement(None, "execution.checkpointing.unaligned", "True ", "true", None)
    False
    """
    before, after = (number_of(option, text.strip(), version) for text in (now, proposed))
    if before is None or after is None:
        return now.strip().lower() != proposed.lower()
    return (
        after > before if only == "more" else after < before if only == "less" else after != before
    )


def unit_of(option: str | None, text: str) -> str:
    """Return the unit for a proposed bare number, or an empty string if the value includes its unit.

    >>> unit_of("retention.ms", "60000"), unit_of("execution.checkpointing.interval", "1 min")
    ('ms', '')
    """
    kind = TYPES.get(option or "")
    older = _OLDER.get(option or "", (None, None))[1]
    bare = text.replace(".", "", 1).isdecimal()
    if kind is None or not bare:
        return ""
    return kind.unit or (older.unit if older is not None else "")
