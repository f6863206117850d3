"""What a file is, judged by its content: never by its name or extension.

`sniff` looks at the first bytes, at a few from the middle and the end of large files, and decodes
whole JSON documents. Whatever may be a log is called one, since a log that is skipped is worse
than a text that is read in vain: `not-read` needs a reason that can be told to the user.
"""

from __future__ import annotations

import codecs
import functools
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Final

import msgspec

from flowdiag.parsers.envelopes import carriers as envelopes
from flowdiag.parsers.flink.prometheus import FLINK_METRIC
from flowdiag.parsers.flink.rest_shapes import recognise
from flowdiag.parsers.lines.scan import PlaceFinder
from flowdiag.parsers.sources.collected import MANIFEST_LINE, collected_kind
from flowdiag.parsers.spark.events import is_event_log
from flowdiag.parsers.spark.rest import recognise_answer

HEAD_BYTES: Final = 256 * 1024
"""So many first bytes are looked at."""

DOCUMENT_BYTES: Final = 256 * 1024 * 1024
"""A JSON document must fit into memory, decoded: a larger one is not read."""

_DOUBTFUL_BYTES: Final = 8 * 1024 * 1024  # of a text without a sign of a log, searched for messages
_LINES: Final = 50
_LONG_LINE: Final = 16 * 1024 * 1024  # an event log may begin with a line longer than the head


@dataclass(frozen=True, slots=True, kw_only=True)
class Sniffed:
    """The verdict on one file; the fields are those of `sources.Source`."""

    kind: str
    engine: str = "unknown"
    role: str = "unknown"
    encoding: str = "utf-8"
    url: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """What `sniff` may look at of a file, decompressed.

    Attributes:
        name: path and name; only ids in names of REST answers are taken from it.
        head: the first `HEAD_BYTES`, or all there is.
        complete: `head` is all there is.
        elsewhere: some lines from the middle and the end, if they are cheap to get.
        read: gives the first n bytes.
    """

    name: str
    head: bytes
    complete: bool
    elsewhere: bytes
    read: Callable[[int], bytes]


def sniff(sample: Sample) -> Sniffed:
    """Judge one file that is no container and not compressed any more."""
    if not sample.head:
        return _not_read("empty file")
    if reason := _binary_format(sample.head):
        return _not_read(reason)
    encoding = _encoding(sample.head)
    if encoding.startswith(("utf-16", "utf-32")):
        read = sample.read
        sample = replace(
            sample,
            head=_to_utf8(sample.head, encoding),
            elsewhere=b"",
            read=lambda size: _to_utf8(read(2 * size), encoding)[:size],
        )
    elif not sample.complete:
        # Whole lines: a character that is cut is not a wrong one.
        encoding = _encoding(sample.head[: sample.head.rfind(b"\n") + 1] + sample.elsewhere)
    verdict = _sniff_text(sample)
    return verdict if encoding == verdict.encoding else replace(verdict, encoding=encoding)


def _not_read(reason: str, engine: str = "unknown") -> Sniffed:
    return Sniffed(kind="not-read", reason=reason, engine=engine)


# -- bytes ---------------------------------------------------------------------------------

_FORMATS: Final = (
    (b"\xca\xfe\xba\xbe", "Java class file"),
    (b"JAVA PROFILE 1.0", "Java heap dump"),
    (b"FLR\0", "Java Flight Recorder file: `jfr print` makes text of it"),
    (b"\xca\xfe\xd0\x0d", "packed Java archive"),
    (b"\xac\xed\0\x05", "serialized Java object"),
    (b"\x49\x60\x67\x2d", "metadata of a Flink checkpoint or savepoint"),
    (b"LPKSHHRH", "systemd journal: `journalctl -o short-iso` makes text of it"),
    (b"\x7fELF", "program or core dump"),
    (b"MZ", "Windows program"),
    (b"\x89PNG", "image"),
    (b"\xff\xd8\xff", "image"),
    (b"GIF8", "image"),
    (b"%PDF-", "PDF document"),
    (b"PAR1", "Parquet file"),
    (b"Obj\x01", "Avro file"),
    (b"ORC", "ORC file"),
    (b"SQLite format 3\0", "SQLite database"),
    (b"7z\xbc\xaf\x27\x1c", "7z archive: unpack it first"),
    (b"Rar!\x1a\x07", "rar archive: unpack it first"),
    (b"\x1f\x9d", "compressed with `compress`: unpack it first"),
    (b"LZIP", "compressed with lzip: unpack it first"),
    (b"\x89LZO", "compressed with lzop: unpack it first"),
    (b"\x02\x21\x4c\x18", "compressed with lz4's legacy format: unpack it first"),
    (b"!<arch>\n", "ar archive"),
    (b"\xd4\xc3\xb2\xa1", "packet capture"),
)
# Tab, line ends, form feed, backspace and the escape of terminal codes are no sign of binary data.
_CONTROLS: Final = bytes(set(range(32)) - set(b"\t\n\r\f\b\x1b\0"))
_SPEAKING: Final = frozenset(b"MZ ORC LZIP".split())


def binary_reason(head: bytes) -> str | None:
    """Why a file that begins so is no text of any kind; None if it may be one."""
    return _binary_format(head) or ("binary file" if _is_binary(head, 0.3) else None)


def _binary_format(head: bytes) -> str | None:
    for magic, reason in _FORMATS:
        if head.startswith(magic):
            # Short magic words may begin a text as well.
            if magic in _SPEAKING and not _is_binary(head[:4096]):
                continue
            return reason
    return None


def _is_binary(data: bytes, share: float = 0.05) -> bool:
    """Whether there are too many control characters; runs of NUL, as in holes, do not count."""
    rest = data.replace(b"\0", b"")
    return len(rest) - len(rest.translate(None, _CONTROLS)) > share * len(rest)


def _encoding(data: bytes) -> str:
    """The encoding by byte-order mark, by where the NUL bytes stand, or by what is valid.

    >>> [_encoding(text.encode(name)) for text, name in (("a log", "utf-16-be"), ("é!", "latin-1"))]
    ['utf-16-be', 'latin-1']
    """
    for mark, name in (
        (codecs.BOM_UTF8, "utf-8"),
        (codecs.BOM_UTF32_LE, "utf-32-le"),
        (codecs.BOM_UTF32_BE, "utf-32-be"),
        (codecs.BOM_UTF16_LE, "utf-16-le"),
        (codecs.BOM_UTF16_BE, "utf-16-be"),
    ):
        if data.startswith(mark):
            return name
    piece = data[: 64 * 1024]
    if b"\0" in piece:
        even, odd = piece[0::2], piece[1::2]
        # Mostly ASCII, so that every other byte is NUL; a file with holes has NUL in both places.
        if odd and odd.count(0) > 0.4 * len(odd) and even.count(0) < 0.05 * len(even):
            return "utf-16-le"
        if odd and even.count(0) > 0.4 * len(even) and odd.count(0) < 0.05 * len(odd):
            return "utf-16-be"
    if data.isascii():
        return "utf-8"
    # A last character that is cut is left out; a few stray bytes do not make it latin-1.
    text = codecs.getincrementaldecoder("utf-8")("replace").decode(data)
    stray = text.count("\ufffd")
    return "latin-1" if stray > sum(not c.isascii() for c in text) - stray else "utf-8"


def _to_utf8(data: bytes, encoding: str) -> bytes:
    text = data.decode(encoding, "replace").removeprefix("\ufeff")
    return text.encode("utf-8", "replace")


# -- signs of logs, engines and roles --------------------------------------------------------

# What a running Flink says, and prose about Flink hardly ever: each a literal with which it
# begins, and the whole.
_MESSAGES: Final = tuple(
    (literal, re.compile(pattern))
    for literal, pattern in (
        (b"heckpoint ", rb"heckpoint \d"),
        (b" switched from", rb" switched from (?:state )?[A-Z_]{4,12} to "),
        (b"Deploying ", rb"Deploying .{1,300}?\(\d+/\d+\)"),
        (b"Source: ", rb"Source: .{1,300}?\(\d+/\d+\)"),
        (b"Registering TaskManager with ", rb"Registering TaskManager with "),
    )
)
_TIME: Final = re.compile(rb".{0,80}?\d\d:\d\d:\d\d")
_LEVEL: Final = re.compile(rb"\b(?:TRACE|DEBUG|INFO|WARN|WARNING|ERROR|FATAL|SEVERE)\b")
_TIMED: Final = 0.05  # the share of lines
_TRACE: Final = re.compile(
    rb"\s+at [\w.$/@]+\([^)\n]*\)|(?:Caused by: )?[\w.$]+(?:Exception|Error)\b"
)

_FLINK: Final = (
    b"org.apache.flink", b"org/apache/flink", b"o.a.f.", b"CheckpointCoordinator",
    b"ExecutionGraph", b"JobMaster", b"TaskExecutor", b"TaskManagerRunner", b"StreamTask",
    b"ClusterEntrypoint",
)  # fmt: skip
_SPARK: Final = (
    b"org.apache.spark", b"org/apache/spark", b"o.a.s.s.", b"SparkContext", b"DAGScheduler",
    b"TaskSetManager", b"MicroBatchExecution", b"JobGenerator", b"ReceiverTracker",
    b"CoarseGrainedExecutorBackend", b"BlockManager", b"SparkListener", b"JobScheduler: ",
    b"PIDRateEstimator", b"ProcessingTimeExecutor", b"ReceiverSupervisorImpl", b"ProgressReporter",
)  # fmt: skip
# SeaTunnel's own engine has a CheckpointCoordinator, too; run on Flink it leaves Flink's logs.
_SEATUNNEL: Final = (b"org.apache.seatunnel.engine.", b"o.a.s.e.s.", b"hz.main.seaTunnel")

# Classes that log in one kind of process only; a star stands for any beginning of the name.
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
# What follows a logger in a layout, and in JSON; a stack frame has a dot there.
_BEHIND_LOGGER: Final = re.compile(rb"(?::\d+)?(?:\s{0,80}(?:\[[^\]\n]{0,120}\]\s*)?[-:|] |\"|\])")
_HEADERS: Final = re.compile(rb"^(?:Container: container_\w+ on |LogType: ?\S)", re.MULTILINE)
_HEADER_WORDS: Final = (b"Container: container_", b"LogType:")
_ENOUGH: Final = 20


def _says_something(data: bytes) -> bool:
    return any(literal in data and message.search(data) for literal, message in _MESSAGES)


def _has(data: bytes, words: Iterable[bytes]) -> bool:
    return any(word in data for word in words)


_LOGGERS: Final = {
    engine: {
        role: tuple((name.lstrip("*").encode(), name[0] == "*") for name in names)
        for role, names in classes.items()
    }
    for engine, classes in _ROLES.items()
}
"""The classes of each role as bytes, and whether any word may stand in front of them."""

_WORDS: Final = tuple(
    dict.fromkeys(
        (
            *_FLINK,
            *_SPARK,
            *_SEATUNNEL,
            *_HEADER_WORDS,
            *(literal for literal, _ in _MESSAGES),
            *(word for roles in _LOGGERS.values() for all_ in roles.values() for word, _ in all_),
        )
    )
)
"""Every word that is a sign of anything."""


@functools.cache
def _finder() -> PlaceFinder:
    return PlaceFinder(_WORDS)


class _Signs:
    """What the words of a text say about who wrote it, found in one pass over it."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        found = _finder().places(data)
        self._places = {_WORDS[number]: places for number, places in found.items()}
        self.says_something = any(
            literal in self._places and message.search(data, self._places[literal][0])
            for literal, message in _MESSAGES
        )
        self.engine = self._engine()

    def _count(self, words: Iterable[bytes]) -> int:
        return sum(len(self._places[word]) for word in words if word in self._places)

    @property
    def is_seatunnel(self) -> bool:
        return self._count(_SEATUNNEL) > 0 and not self._count(_FLINK[:3])

    def _engine(self) -> str:
        flink, spark = self._count(_FLINK), self._count(_SPARK)
        if not flink and not spark:
            return "flink" if self.says_something else "unknown"
        return "flink" if flink >= spark else "spark"

    @property
    def role(self) -> str:
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
        """Count, up to `_ENOUGH`, where this class stands as a logger."""
        data = self._data
        count = 0
        for at in self._places[word]:
            before = data[at - 1 : at] if at else b" "
            if _BEHIND_LOGGER.match(data, at + len(word)) and (
                loose or not (before.isalnum() or before == b"_")
            ):
                count += 1
                if count == _ENOUGH:
                    break
        return count


def _is_seatunnel(data: bytes) -> bool:
    return _has(data, _SEATUNNEL) and not _has(data, _FLINK[:3])


def _log(signs: _Signs, kind: str = "log") -> Sniffed:
    return Sniffed(kind=kind, engine=signs.engine, role=signs.role)


# -- text ----------------------------------------------------------------------------------

_TEXTS: Final = tuple(
    (re.compile(pattern, re.MULTILINE), reason)
    for pattern, reason in (
        (rb"\A\s*<(?:!DOCTYPE )?html", "HTML page"),
        (rb"\A\s*<\?xml", "XML"),
        (rb"^# (?:HELP|TYPE) \w+ ", "Prometheus metrics, but none of Flink's"),
        (rb"^# A fatal error has been detected by the Java Runtime", "crash report of a JVM"),
        (rb"^Full thread dump ", "thread dump"),
        (
            (
                rb"^\[[^\]\n]{1,60}\]\[[^\n]{0,60}\bgc\b|: \[(?:Full )?GC[ (]|\[GC pause"
                rb"|^(?:Java HotSpot|OpenJDK)[^\n]{0,80} for \w+-\w+ JRE"
            ),
            "looks like a GC log",
        ),
    )
)
_SETTING: Final = re.compile(
    rb"\s*(?:#|!|;|//|- )"
    rb"|(?!\s*(?:TRACE|DEBUG|INFO|WARN|WARNING|ERROR|FATAL|SEVERE)\b)"
    rb"\s*(?:[\w.\-\"'*/$]+\s*[:=](?:\s|$)|[\w.\-]+=)"
)
_CODE: Final = re.compile(
    rb"\A#!|^(?:package|import) [\w.*]+;?\r?$|^[ \t]*(?:public |abstract |final ){0,3}(?:class"
    rb"|interface|object|trait) \w[^\n]{0,200}\{\r?$|^[ \t]*(?:def|func) \w+\([^\n]{0,200}[:{]\r?$",
    re.MULTILINE,
)


def _sniff_text(sample: Sample) -> Sniffed:
    head = sample.head.removeprefix(codecs.BOM_UTF8)
    data = head + b"\n" + sample.elsewhere
    if not data.strip(b"\0 \t\r\n"):
        return _not_read("nothing but NUL bytes" if b"\0" in data else "nothing but blanks")
    # What says something may hold more than other texts.
    if _is_binary(data) and (_is_binary(data, 0.3) or not _says_something(data)):
        return _not_read("binary file")
    start = head.lstrip(b"\0 \t\r\n")
    is_json = re.match(rb'\{\s*["}]|\[\s*[\[{"\]]', start)
    verdict = _sniff_json(sample, start) if is_json else _sniff_export(sample, start)
    if verdict is not None:
        return verdict
    if _is_exposition(sample, start):
        return Sniffed(kind="prometheus", engine="flink")
    signs = _Signs(data)
    if signs.is_seatunnel:
        return _not_read("a log of Apache SeaTunnel, which borrows Flink's class names")
    says = signs.says_something
    if says and _is_dated(data):
        return _log(signs)
    lines = [line for line in data.split(b"\n") if line.strip(b"\0 \t\r")]
    lines = lines[:150] + lines[-50:] if len(lines) > 200 else lines
    looks_like_log = _looks_like_log(lines)
    if says and looks_like_log:
        return _log(signs)
    for pattern, reason in _TEXTS:
        if signs.engine == "unknown" and pattern.search(start):
            return _not_read(reason)
    if not any(_TIME.match(line) for line in lines):
        settings = sum(bool(_SETTING.match(line)) for line in lines)
        if settings > 0.8 * len(lines) and not is_json:
            return _doubtful(sample, "looks like a configuration file")
        if _CODE.search(data):
            return _doubtful(sample, "looks like source code")
    if looks_like_log:
        return _log(signs)
    return _doubtful(sample, "damaged JSON" if is_json else "text, but it does not look like a log")


_EXPOSED: Final = re.compile(
    rb"# (?:HELP|TYPE|UNIT) [\w:]+|# EOF|[a-zA-Z_:][\w:]*\s*(?:\{.*\})?\s+[-+]?[\d.INin]|\{\s*\"[\w.:]+\""
)


def _is_exposition(sample: Sample, start: bytes) -> bool:
    """Whether it is what Prometheus scrapes, with metrics of Flink among it."""
    given = start.split(b"\n", 400)[:400]
    odd, most = 0, 0.3 * len(given) + 2
    for line in given:  # hardly any text gets behind this loop
        if line[:1] != b"2":  # the year, in most lines of most logs
            stripped = line.strip()
            if not stripped or _EXPOSED.match(stripped):
                continue
        odd += 1
        if odd > most:
            return False
    lines = [line.strip() for line in given if line.strip()]
    if not sample.complete or len(lines) == 400:
        lines = lines[:-1]
    exposed = sum(bool(_EXPOSED.match(line)) for line in lines)
    # Between the scrapes of a loop may stand a time, or a title.
    if exposed < 0.7 * len(lines) or not lines:
        return False
    data = start if sample.complete else sample.read(_DOUBTFUL_BYTES)
    return any(
        FLINK_METRIC.match(line.lstrip(b' {"')) is not None
        for line in data.split(b"\n")
        if b"flink" in line and not line.startswith(b"#")
    )


def _is_dated(data: bytes) -> bool:
    """Whether so many of the first lines have a time that `_looks_like_log` says yes to all."""
    return _reaches(_TIMED * 200, map(_TIME.match, data.split(b"\n", 50)[:50]))


def _looks_like_log(lines: Sequence[bytes]) -> bool:
    """Times at the beginning of lines, levels or stack traces, on more than a few lines."""
    if not lines:
        return False
    few = len(lines) < 5
    return (
        _reaches(1 if few else max(2, _TIMED * len(lines)), map(_TIME.match, lines))
        or _reaches(
            1 if few else max(3, 0.1 * len(lines)), (_LEVEL.search(line, 0, 200) for line in lines)
        )
        or _reaches(max(1, 0.3 * len(lines)), map(_TRACE.match, lines))
    )


def _reaches(least: float, found: Iterable[object]) -> bool:
    """Whether at least so many of these are there; stops as soon as that is known."""
    count = 0
    for each in found:
        count += each is not None
        if count >= least:
            return True
    return False


def _doubtful(sample: Sample, reason: str) -> Sniffed:
    """Search a text without a sign of a log for known messages, before it is put aside."""
    data = sample.head if sample.complete else sample.read(_DOUBTFUL_BYTES + 1)
    if len(data) > _DOUBTFUL_BYTES:
        return _log(_Signs(sample.head + sample.elsewhere))
    from flowdiag.parsers.catalogue import load_catalogue

    recognise_message = load_catalogue().recognise
    for line in data.split(b"\n"):
        line = line[:4096]
        may_be = _has(line, _FLINK) or _says_something(line)
        if may_be and recognise_message(line.decode("utf-8", "replace")) is not None:
            return _log(_Signs(data))
    return _not_read(reason)


# -- JSON and other exports ------------------------------------------------------------------


def _sniff_json(sample: Sample, start: bytes) -> Sniffed | None:
    """Judge what begins like JSON; None if it is none, or damaged."""
    if (collected := collected_kind(start)) is not None:
        return _sniff_collected(collected)
    if re.match(rb'\{\s*"metric"\s*:', start) and (history := _sniff_history(start)) is not None:
        return history
    if MANIFEST_LINE.match(start):
        return _not_read("the manifest of a collection; its answers are in the files beside it")
    lines = start.split(b"\n")
    if any(is_event_log(line) for line in _first_whole(lines, sample)):
        return Sniffed(kind="spark-events", engine="spark", role="driver")
    if not sample.complete:
        lines = lines[:-1]
    objects = [_object(line) for line in lines[:_LINES] if line.strip()]
    found = [value for value in objects if value is not None]
    if objects and objects[0] is not None and len(objects) > 1 and len(found) > 0.5 * len(objects):
        return _sniff_lines(sample, start, lines, found)
    return _sniff_document(sample)


def _sniff_collected(kind: str) -> Sniffed:
    """A file of `flowdiag collect`."""
    if kind == "flink":
        return Sniffed(kind="rest", engine="flink")
    if kind == "spark":
        return Sniffed(kind="spark-rest", engine="spark", role="driver")
    if kind == "prometheus":
        return Sniffed(kind="prometheus", engine="flink")
    return _not_read("a collection of a kind that this version does not know")


def _first_whole(lines: list[bytes], sample: Sample) -> list[bytes]:
    """The first lines that are complete; of a line longer than what was looked at, all of it."""
    if len(lines) == 1 and not sample.complete:
        data = sample.read(_LONG_LINE)
        lines = data.lstrip(b"\0 \t\r\n").split(b"\n", 1)
        return lines[:1]
    return [line for line in lines[:_LINES] if line.strip()][:3]


def _object(line: bytes) -> dict[str, Any] | None:
    try:
        value = msgspec.json.decode(line.strip(b" \t\r,[]") if line[:1] != b"{" else line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


_BATCHES: Final = ("logEvents", "resourceLogs", "streams", "hits", "data", "events")


def _sniff_lines(
    sample: Sample, start: bytes, lines: list[bytes], found: list[dict[str, Any]]
) -> Sniffed:
    """One JSON object per line: log records, batches of them, answers, or something else."""
    batches = any(isinstance(found[0].get(key), (list, dict)) for key in _BATCHES)
    if start[:1] == b"[" or (batches and envelopes.unwrap_json(lines[0]) is None):
        verdict = _sniff_document(sample)
        if verdict is not None and verdict.kind != "not-read":
            return verdict
    if recognise(lines[0], sample.name) is not None:
        return Sniffed(kind="rest", engine="flink")
    if any(envelopes.unwrap_json(line) is not None for line in lines[:_LINES]):
        if _is_seatunnel(start):
            return _not_read("a log of Apache SeaTunnel, which borrows Flink's class names")
        if _newest_first(lines):  # records of several lines are upside down: turn all round
            verdict = _sniff_document(sample)
            if verdict is not None and verdict.kind == "document":
                return verdict
        return _log(_Signs(start + sample.elsewhere), "json-lines")
    if _says_something(start + sample.elsewhere):
        return _log(_Signs(start + sample.elsewhere))
    return _not_read("JSON lines, but no log records")


def _newest_first(lines: list[bytes]) -> bool:
    """Whether the time of the carrier falls from line to line, as exports have it."""
    events = (envelopes.unwrap_json(line) for line in lines[:-1])
    times = [
        time
        for event in events
        if event is not None
        for time in (event.timestamp_us if event.timestamp_us is not None else event.local_us,)
        if time is not None
    ]
    falls = sum(after < before for before, after in pairwise(times))
    rises = sum(after > before for before, after in pairwise(times))
    return falls > 2 * rises


def _sniff_document(sample: Sample) -> Sniffed | None:
    data = sample.head if sample.complete else sample.read(DOCUMENT_BYTES + 1)
    if len(data) > DOCUMENT_BYTES:
        return _too_large()
    if (history := _sniff_history(data)) is not None:
        return history
    if (answer := recognise(data, sample.name)) is not None:
        return Sniffed(kind=answer[0], engine="flink", url=answer[1])
    if (spark := recognise_answer(data)) is not None:
        url = f"/{spark}" if spark == "environment" else f"/streaming/{spark}"
        return Sniffed(kind="spark-rest", engine="spark", role="driver", url=url)
    if verdict := _sniff_events(data):
        return verdict
    values, whole = envelopes.json_values(data.removeprefix(codecs.BOM_UTF8))
    if not values or not whole:
        return None
    first = values[0]
    if isinstance(first, dict) and str(first.get("schema", "")).startswith("flowdiag."):
        return _not_read("a report of flowdiag")
    return _not_read("JSON, but neither log events nor an answer of a REST interface that is read")


_HISTORY: Final = re.compile(rb'"resultType"\s*:\s*"(?:matrix|vector)"')
_LABELLED: Final = re.compile(rb'"__name__"\s*:\s*"(flink[._](?:task|job)manager)?')


def _sniff_history(data: bytes) -> Sniffed | None:
    """An answer of Prometheus' query interface, or an export of VictoriaMetrics."""
    head = data[:4096]
    if _HISTORY.search(head) is None and not re.match(rb'\s*\{\s*"metric"\s*:\s*\{', head):
        return None
    names = [found[1] for found in _LABELLED.finditer(data)]
    if any(names):
        return Sniffed(kind="prometheus", engine="flink")
    if names:
        return _not_read("an answer of Prometheus about something else than Flink")
    if b'"metric"' in data:
        return _not_read(
            "an answer of Prometheus without names of metrics: ask for the series, not for rate(…)"
        )
    return _not_read("an answer of Prometheus without any series")


def _too_large() -> Sniffed:
    return _not_read(
        f"a document of more than {DOCUMENT_BYTES // 2**20} MB:"
        " split it, or write one event per line (`jq -c '.[]'`)"
    )


def _sniff_events(data: bytes) -> Sniffed | None:
    """A document of log events, if its texts look like those of a log."""
    events = envelopes.read_document(data)
    if not events:
        return None
    texts = [
        b"%b %b - %b"
        % tuple(
            (part or "").encode("utf-8", "replace")
            for part in (event.level, event.logger, event.text)
        )
        for event in _some(events)
    ]
    joined = b"\n".join(texts)
    signs = _Signs(joined)
    if signs.is_seatunnel:
        return _not_read("a log of Apache SeaTunnel, which borrows Flink's class names")
    if signs.engine == "unknown" and not _looks_like_log(texts):
        return None
    return _log(signs, "document")


def _some(events: list[envelopes.Unwrapped]) -> Iterable[envelopes.Unwrapped]:
    return events if len(events) < 6000 else [*events[:4000], *events[-2000:]]


_EXPORT_COLUMN: Final = re.compile(
    rb"(?i)(?:^|[,;\t])\"?(?:_raw|line|@?message|log|msg|textPayload|LogMessage|LogEntry|content"
    rb"|body|jsonPayload\.message|_source\.message)\"?(?:[,;\t]|\s*$)"
)
_GRAFANA_LINE: Final = re.compile(rb"\n\d{13}\t\d{4}-\d\d-\d\dT[\d:.]+Z\t")


def _sniff_export(sample: Sample, start: bytes) -> Sniffed | None:
    """Tables of log lines, and what Grafana downloads as text."""
    first = start.split(b"\n", 1)[0].rstrip(b"\r")
    is_table = len(first) < 4096 and len(_EXPORT_COLUMN.findall(first)) > 0 and len(first) > 8
    if not is_table and not _GRAFANA_LINE.search(b"\n" + start[: 16 * 1024]):
        return None
    data = sample.head if sample.complete else sample.read(DOCUMENT_BYTES + 1)
    if len(data) > DOCUMENT_BYTES:
        return _too_large()
    return _sniff_events(data)
