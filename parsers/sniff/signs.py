"""Finds signs of logs, engines and roles: words and patterns that identify the writer of a text."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from flowdiag.parsers.lines.scan import PlaceFinder
from flowdiag.parsers.sniff.verdict import Sniffed

# Messages of a running Flink that are rare in prose about Flink, each with a literal and the full pattern.
_MESSAGES: Final = tuple(
    (literal, re.compile(pattern))
    for literal, pattern in (
        (b"heckpoint ", rb"heckpoint \d"),
        (b" switched from", rb" switched from (?:state )?[A-Z_]{4,12} to "),
        (b"Deploying ", rb"Deploying .{1,300}?\(\d+/\d+\)"),
        (b"Source: ", rb"Source: .{1,300}?\(\d+/\d+\)"),
        (b"Registering TaskManager with ", rb"Registering TaskManager with "),
        (b"Native memory allocation (", rb"Native memory allocation \(\w{1,20}\) failed to "),
        (b" Java Runtime Environment", rb"A fatal error has been detected by the Java Runtime "),
    )
)
_TIME: Final = re.compile(rb".{0,80}?\d\d:\d\d:\d\d")
_LEVEL: Final = re.compile(rb"\b(?:TRACE|DEBUG|INFO|WARN|WARNING|ERROR|FATAL|SEVERE)\b")
_TIMED: Final = 0.05  # minimum share of lines
_TRACE: Final = re.compile(
    rb"\s+at [\w.$/@]+\([^)\n]*\)|(?:Caused by: )?[\w.$]+(?:Exception|Error)\b"
)

FLINK_WORDS: Final = (
    b"org.apache.flink", b"org/apache/flink", b"o.a.f.", b"CheckpointCoordinator",
    b"ExecutionGraph", b"JobMaster", b"TaskExecutor", b"TaskManagerRunner", b"StreamTask",
    b"ClusterEntrypoint", b"org.apache.iceberg.flink", b"org.apache.paimon.flink", b"org.apache.doris.flink",
    b"com.ververica.cdc.", b"com.starrocks.connector.flink", b"org.apache.hudi.sink.",
)  # fmt: skip
# HDFS's NameNode has a logger with this name as well, so only messages about Spark's blocks count.
_BLOCK_MANAGER: Final = b" BlockManager:"
_OF_SPARKS_BLOCKS: Final = re.compile(
    rb" BlockManager: [^\n]{0,200}?(?:BlockManager|[Bb]lock manager|[Bb]roadcast|RDD|\brdd_|[Ss]huffle|taskresult_"
    rb"|\binput-\d|block replication policy|on this machine|from memory|to disk|remote block|to the master)"
)
SPARK_WORDS: Final = (
    b"org.apache.spark", b"org/apache/spark", b"o.a.s.s.", b"SparkContext", b"DAGScheduler",
    b"TaskSetManager", b"MicroBatchExecution", b"JobGenerator", b"ReceiverTracker",
    b"CoarseGrainedExecutorBackend", _BLOCK_MANAGER, b"BlockManagerInfo", b"SparkListener", b"JobScheduler: ",
    b"PIDRateEstimator", b"ProcessingTimeExecutor", b"ReceiverSupervisorImpl", b"ProgressReporter",
    b"TaskSchedulerImpl", b"YarnScheduler", b"YarnClusterScheduler", b"YarnAllocator",
    b"Job aborted due to stage failure", b" (TID", b"Structured Streaming", b"pyspark",
    b"org.apache.iceberg.spark", b"org.apache.hudi.HoodieSpark", b"com.databricks.", b"com.datastax.spark",
    b"com.mongodb.spark", b"org.elasticsearch.spark", b"org.opensearch.spark", b"net.snowflake.spark",
)  # fmt: skip
# SeaTunnel's own engine also has a CheckpointCoordinator. When SeaTunnel runs on Flink, it writes Flink's logs.
_SEATUNNEL: Final = (b"org.apache.seatunnel.engine.", b"o.a.s.e.s.", b"hz.main.seaTunnel")

SEATUNNEL: Final = "an Apache SeaTunnel log, which uses Flink's class names"

# Classes that log in only one kind of process. A star matches any beginning of the name.
_ROLES: Final = {
    "flink": {
        "jobmanager": (
            "CheckpointCoordinator", "CheckpointFailureManager", "ExecutionGraph", "JobMaster",
            "*Dispatcher", "*ClusterEntrypoint", "*SlotManager", "*SlotManagerImpl",
            "*ResourceManager", "DefaultScheduler", "AdaptiveScheduler", "SlotPoolImpl",
            "DispatcherRestEndpoint", "jobmanager.JobManager", "DeclarativeSlotPoolBridge",
        ),
        "taskmanager": (
            "*TaskExecutor", "*TaskExecutorRunner", "*TaskManagerRunner", "StreamTask",
            "taskmanager.TaskManager", "taskmanager.Task", "f.r.t.Task", "TaskSlotTableImpl",
            "NettyShuffleEnvironment", "SubtaskCheckpointCoordinatorImpl",
            "AsyncCheckpointRunnable", "TaskManagerServices", "*JobLeaderService",
        ),
        "client": ("CliFrontend", "RestClusterClient", "*ClusterDescriptor"),
    },
    "spark": {
        "driver": (
            "SparkContext", "DAGScheduler", "TaskSetManager", "TaskSchedulerImpl", "JobScheduler",
            "JobGenerator", "ReceiverTracker", "MicroBatchExecution", "ContinuousExecution",
            "InputInfoTracker",
        ),
        "executor": (
            "*CoarseGrainedExecutorBackend", "Executor", "ReceiverSupervisorImpl",
            "BlockGenerator",
        ),
    },
}  # fmt: skip
# What follows a logger in a layout or in JSON. In a stack frame, a dot follows.
_AFTER_LOGGER: Final = re.compile(rb"(?::\d+)?(?:\s{0,80}(?:\[[^\]\n]{0,120}\]\s*)?[-:|] |\"|\])")
_HEADERS: Final = re.compile(rb"^(?:Container: container_\w+ on |LogType: ?\S)", re.MULTILINE)
_HEADER_WORDS: Final = (b"Container: container_", b"LogType:")
_ENOUGH: Final = 20


def holds_flink_message(data: bytes) -> bool:
    """Return whether the data contains a message that only a running Flink process logs."""
    return any(literal in data and message.search(data) for literal, message in _MESSAGES)


def engine_lines(data: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield lines that may be messages of an engine: `flink` or `spark`, and the first `LINE_BYTES` of the line.

    The search jumps from one engine word to the next, because a text without signs can have millions of lines.
    """
    at = 0
    while found := _ENGINE_WORD.search(data, at):
        begin = data.rfind(b"\n", 0, found.start()) + 1
        end = data.find(b"\n", found.end())
        at = len(data) if end < 0 else end + 1
        line = data[begin : min(at, begin + LINE_BYTES)].removesuffix(b"\n")
        if has_any(line, FLINK_WORDS) or holds_flink_message(line):
            yield "flink", line
        elif has_any(line, SPARK_WORDS):
            yield "spark", line


LINE_BYTES: Final = 4096

_ENGINE_WORD: Final = re.compile(
    b"|".join(
        re.escape(word)
        for word in (*FLINK_WORDS, *SPARK_WORDS, *(literal for literal, _ in _MESSAGES))
    )
)


def has_any(data: bytes, words: Iterable[bytes]) -> bool:
    """Return whether data contains one of these words."""
    return any(word in data for word in words)


_LOGGERS: Final = {
    engine: {
        role: tuple((name.lstrip("*").encode(), name[0] == "*") for name in names)
        for role, names in classes.items()
    }
    for engine, classes in _ROLES.items()
}
"""Each role's classes as bytes, with whether other letters may precede them."""

_WORDS: Final = tuple(
    dict.fromkeys(
        (
            *FLINK_WORDS,
            *SPARK_WORDS,
            *_SEATUNNEL,
            *_HEADER_WORDS,
            *(literal for literal, _ in _MESSAGES),
            *(word for roles in _LOGGERS.values() for all_ in roles.values() for word, _ in all_),
        )
    )
)
"""Every word that helps to identify the writer of a text."""


@functools.cache
def _finder() -> PlaceFinder:
    return PlaceFinder(_WORDS)


class Signs:
    """Signs that identify the writer of a text, found in one pass.

    Attributes:
        holds_flink_message: whether the text contains a message of Flink.
        engine: flink, spark or unknown.
    """

    def __init__(self, data: bytes) -> None:
        self._data = data
        found = _finder().places(data)
        self._places = {_WORDS[number]: places for number, places in found.items()}
        blocks = [
            at for at in self._places.pop(_BLOCK_MANAGER, ()) if _OF_SPARKS_BLOCKS.match(data, at)
        ]
        if blocks:
            self._places[_BLOCK_MANAGER] = blocks
        self.holds_flink_message = any(
            literal in self._places and message.search(data, self._places[literal][0])
            for literal, message in _MESSAGES
        )
        flink, spark = self._count(FLINK_WORDS), self._count(SPARK_WORDS)
        self.engine = "flink" if flink >= spark else "spark"
        if not flink and not spark and not self.holds_flink_message:
            self.engine = "unknown"

    def _count(self, words: Iterable[bytes]) -> int:
        return sum(len(self._places[word]) for word in words if word in self._places)

    @property
    def is_seatunnel(self) -> bool:
        """Whether SeaTunnel's own engine wrote the text."""
        return self._count(_SEATUNNEL) > 0 and not self._count(FLINK_WORDS[:3])

    @property
    def role(self) -> str:
        """The kind of process that wrote the text; `mixed` for several kinds."""
        data, engine = self._data, self.engine
        headers = (at for word in _HEADER_WORDS for at in self._places.get(word, ()))
        if engine == "flink" and any(_HEADERS.match(data, at) for at in headers):
            return "mixed"
        counts = {
            role: sum(self._logs(word, loose) for word, loose in words if word in self._places)
            for role, words in _LOGGERS.get(engine, {}).items()
        }
        clients = counts.pop("client", 0)
        if all(count > 1 for count in counts.values()) and counts:
            return "mixed"
        if any(counts.values()):
            return max(counts, key=lambda role: counts[role])
        return "client" if clients else "unknown"

    def _logs(self, word: bytes, loose: bool) -> int:
        """Count the places, up to `_ENOUGH`, where this class is the logger."""
        data = self._data
        count = 0
        for at in self._places[word]:
            before = data[at - 1 : at] if at else b" "
            if _AFTER_LOGGER.match(data, at + len(word)) and (
                loose or not (before.isalnum() or before == b"_")
            ):
                count += 1
                if count == _ENOUGH:
                    break
        return count


def is_seatunnel(data: bytes) -> bool:
    """Return whether SeaTunnel's own engine wrote a text, without searching for other signs."""
    return has_any(data, _SEATUNNEL) and not has_any(data, FLINK_WORDS[:3])


def log_of(signs: Signs, kind: str = "log") -> Sniffed:
    """Return the verdict on a log that contains these signs."""
    return Sniffed(kind=kind, engine=signs.engine, role=signs.role)


def has_time(line: bytes) -> bool:
    """Return whether a line has a time of day near its start."""
    return _TIME.match(line) is not None


def is_dated(data: bytes) -> bool:
    """Return whether so many of the first lines have a time that `looks_like_log` accepts the text at any length."""
    return _has_at_least(_TIMED * 200, map(_TIME.match, data.split(b"\n", 50)[:50]))


def looks_like_log(lines: Sequence[bytes]) -> bool:
    """Return whether enough lines start with a time, or contain a level or a stack trace."""
    if not lines:
        return False
    few = len(lines) < 5
    return (
        _has_at_least(1 if few else max(2, _TIMED * len(lines)), map(_TIME.match, lines))
        or _has_at_least(
            1 if few else max(3, 0.1 * len(lines)), (_LEVEL.search(line, 0, 200) for line in lines)
        )
        or _has_at_least(max(1, 0.3 * len(lines)), map(_TRACE.match, lines))
    )


def _has_at_least(least: float, found: Iterable[object]) -> bool:
    """Return whether at least `least` of the items are not None, without consuming more than necessary."""
    count = 0
    for item in found:
        count += item is not None
        if count >= least:
            return True
    return False
