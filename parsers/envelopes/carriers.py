"""JSON around log lines: what loggers, container runtimes and log stores wrap them in.

Two ways in. `unwrap_json` takes one line of a file that has one JSON object per line, and
`read_document` takes a whole file that holds many events: answers and exports of log stores,
arrays, tables. Both give the same records, `Unwrapped`.

Shapes are told by their keys alone. Known are log4j 2's JsonLayout and JsonTemplateLayout (ECS,
GELF, Logstash), Spark's structured logging, AWS Managed Flink, docker's json-file, Fluent Bit,
Fluentd and Filebeat, Loki and Grafana, Elasticsearch, OpenSearch and Kibana, CloudWatch, Google
Cloud Logging, Splunk, Azure Monitor, Datadog, Graylog, journald and OpenTelemetry. JSON within
JSON is unwrapped as well: what the inner one says of the record itself counts, and what the
outer one says of its process.

A file with one JSON object per line is streamed in the order it has, even if that is newest
first; a document is put in order, oldest first (see `read_document`).
"""

from __future__ import annotations

import csv
import io
import itertools
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from operator import itemgetter
from typing import Any, Final

import msgspec

from flowdiag.parsers.sources.rolling import group_of

Fields = Mapping[str, Any]

DOCUMENT_BYTES: Final = 256 * 1024 * 1024
"""A JSON document must fit into memory, decoded: a larger one is not read."""

_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()
_DEPTH: Final = 6  # of JSON within JSON


@dataclass(slots=True)
class Unwrapped:
    """The record inside one JSON object; null where it does not say.

    `text` is a log line of any layout or the bare message, and may have several lines (a stack
    trace); it has no line end. `timestamp_us` is the instant in UTC microseconds; a time without
    a zone gives none. `local_us` is the wall clock as printed, with or without zone, in
    microseconds since 1970-01-01T00:00 of that clock. `process` names who wrote the record: pod,
    container, log stream, host and file, whichever is the first to be known. `trace` is the stack
    trace as Java prints it. `partial` tells that docker cut the line (at 16 KiB) and the next
    record of this process continues it.
    """

    text: str
    timestamp_us: int | None = None
    process: str | None = None
    level: str | None = None
    logger: str | None = None
    thread: str | None = None
    trace: str | None = None
    local_us: int | None = None
    partial: bool = False


def unwrap_json(line: bytes) -> Unwrapped | None:
    """Unwrap one JSON line of any known shape; None if it is none.

    A comma behind the object or a bracket before it, as in arrays written line by line, are
    allowed. A line that is cut or damaged is none: read it as text.

    >>> unwrap_json(b'{"log":"INFO started\\\\n","stream":"stdout","time":"1970-01-01T00:00:01Z"}')
    ... # doctest: +ELLIPSIS
    Unwrapped(text='INFO started', timestamp_us=1000000, ...)
    """
    line = line.strip(b" \t\r\n,[]\xef\xbb\xbf") if line[:1] != b"{" else line.rstrip(b"\r\n ,]")
    if line[:1] != b"{" or line[-1:] != b"}":
        return None
    value = _decode(line)
    return _unwrap(value, _DEPTH) if isinstance(value, dict) else None


def _decode(data: bytes | str) -> object:
    """Decode JSON; None if it is damaged."""
    try:
        return msgspec.json.decode(data)
    except RecursionError:
        return None
    except (msgspec.DecodeError, UnicodeDecodeError):
        pass
    try:  # NaN, and control characters that were not escaped
        return json.loads(data, strict=False)
    except (ValueError, RecursionError):
        return None


# -- one object ----------------------------------------------------------------------------

# The text of the record, the more telling keys first. A key may be a path (`log.level`), which
# is looked up as it is written and as nested objects.
_TEXT: Final = (
    "_raw", "log", "line", "textPayload", "message", "msg", "logEvent", "short_message", "Message",
    "LogMessage", "LogEntry", "@message", "MESSAGE", "Line", "body.stringValue", "body", "content",
    "text", "event.original",
)  # fmt: skip
_TIME: Final = (
    "instant", "@timestamp", "timestamp", "timeMillis", "ts", "time", "_time", "tsNs",
    "timeUnixNano", "observedTimeUnixNano", "TimeGenerated", "TimeStamp", "Time", "date", "Date",
    "datetime", "@t", "__REALTIME_TIMESTAMP", "_SOURCE_REALTIME_TIMESTAMP", "receiveTimestamp",
    "ingestionTime",
)  # fmt: skip
_LEVEL: Final = (
    "level", "log.level", "loglevel", "log_level", "levelname", "_level", "severity",
    "severityText", "LogLevel", "messageType", "@l", "status",
)  # fmt: skip
_LOGGER: Final = (
    "loggerName", "logger_name", "log.logger", "logger", "_logger", "LoggerName", "logger.name",
)  # fmt: skip
_THREAD: Final = (
    "thread", "threadName", "thread_name", "process.thread.name", "_thread", "thread.name",
)  # fmt: skip
_TRACE: Final = (
    "thrown", "error.stack_trace", "stack_trace", "stackTrace", "stacktrace",
    "throwableInformation", "exception", "throwable", "error.stack", "full_message",
)  # fmt: skip
_POD: Final = (
    "kubernetes.pod_name", "kubernetes.pod.name", "resource.labels.pod_name", "pod", "pod_name",
    "podName", "PodName", "k8s.pod.name", "k8s_pod_name", "kubernetes_pod_name", "pod.name",
)  # fmt: skip
_CONTAINER: Final = (
    "com.docker.compose.service", "attrs.tag", "container_name", "container.name", "containerName",
    "docker.container.name", "CONTAINER_NAME", "ContainerName", "container",
    "resource.labels.container_name", "kubernetes.container_name", "kubernetes.container.name",
    "container_id", "container.id", "docker.container_id", "ContainerID",
)  # fmt: skip
_STREAM: Final = ("logStreamName", "logStream", "@logStream", "log_stream")
_HOST: Final = (
    "host.name", "host", "hostname", "_HOSTNAME", "Computer", "host.hostname", "agent.hostname",
    "beat.hostname", "instance", "node", "node_name", "resource.labels.instance_id",
)  # fmt: skip
_FILE: Final = ("log.file.path", "filename", "file", "path", "source", "log_file")
# Too coarse to tell processes apart, except where it is all that a log store knows them by.
_SERVICE: Final = ("service_name", "service", "component", "app", "job", "unit")
_LABELS: Final = ("labels", "stream", "fields", "tags", "metadata", "structuredMetadata")
# Every pod of a native Kubernetes cluster calls its container so.
_NO_LABELS: Final = ("flink-main-container", "stdout", "stderr")

_LEVELS: Final = {
    "WARNING": "WARN", "ERR": "ERROR", "CRITICAL": "FATAL", "SEVERE": "ERROR", "FINE": "DEBUG",
    "FINER": "TRACE", "FINEST": "TRACE", "NOTICE": "INFO", "EMERGENCY": "FATAL", "ALERT": "FATAL",
    "INFORMATION": "INFO",
} | {name: name for name in ("TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL")}  # fmt: skip
_SYSLOG: Final = ("FATAL", "FATAL", "FATAL", "ERROR", "WARN", "INFO", "INFO", "DEBUG")

# An object whose event lies one level deeper; the outer one gives time and labels.
_INNER: Final = (
    "result", "_source", "jsonPayload", "attributes", "logEvent", "event", "properties", "message",
    "fields",
)  # fmt: skip
_DOCKER: Final = frozenset({"log", "stream", "time"})


_WORDS: Final = (
    _TEXT, _TIME, _LEVEL, _LOGGER, _THREAD, _TRACE, _POD, _CONTAINER, _STREAM, _HOST, _FILE,
    _SERVICE,
)  # fmt: skip
(
    _IS_TEXT, _IS_TIME, _IS_LEVEL, _IS_LOGGER, _IS_THREAD, _IS_TRACE, _IS_POD, _IS_CONTAINER,
    _IS_STREAM, _IS_HOST, _IS_FILE, _IS_SERVICE,
) = range(len(_WORDS))  # fmt: skip

# What a key means, and its rank among those that mean the same: one look-up per key of an object
# costs a tenth of asking for every known key.
_MEANING: Final = {
    key: (what, rank)
    for what, keys in enumerate(_WORDS)
    if what != _IS_SERVICE
    for rank, key in enumerate(keys)
}
_LABEL_MEANING: Final = {
    key: (what, 1000 + rank)
    for what, keys in enumerate(_WORDS)
    if what >= _IS_POD
    for rank, key in enumerate(keys)
}
# Not looked into for keys such as `log.level`: they hold an event or a stack trace.
_CLOSED: Final = frozenset(_INNER) - {"fields", "event"} | {"thrown", "exception", "instant"}

_Found = list[list[tuple[int, Any]]]
_rank = itemgetter(0)


def _sorted_out(value: Fields) -> _Found:
    """The values of an object by their meaning, the best first."""
    found: _Found = [[] for _ in _WORDS]
    for key, inner in value.items():
        if (meaning := _MEANING.get(key)) is not None:
            found[meaning[0]].append((meaning[1], inner))
        if inner.__class__ is dict and key not in _CLOSED:
            _sort_nested(inner, f"{key}.", key in _LABELS, found, 3)
    for hits in found:
        if len(hits) > 1:
            hits.sort(key=_rank)
    return found


def _sort_nested(value: Fields, path: str, labels: bool, found: _Found, depth: int) -> None:
    for key, inner in value.items():
        meaning = _MEANING.get(path + key)
        if meaning is None and labels:
            meaning = _LABEL_MEANING.get(key)
        if meaning is not None:
            found[meaning[0]].append((meaning[1], inner))
        if inner.__class__ is dict and depth:
            _sort_nested(inner, f"{path}{key}.", False, found, depth - 1)


def _first(hits: list[tuple[int, Any]]) -> str | None:
    """The best string with anything in it."""
    for _, value in hits:
        if isinstance(value, list):  # Kibana and Elasticsearch give fields as lists
            value = value[0] if len(value) == 1 else None
        if isinstance(value, str) and value and not value.isspace():
            return value
    return None


def _text_of(value: Fields, keys: Sequence[str]) -> str | None:
    """The first of these keys that holds a string with anything in it."""
    return _first([(0, value.get(key)) for key in keys])


def _unwrap(value: Fields, depth: int) -> Unwrapped | None:
    if "timestamp_us" in value:
        return _own(value)
    if depth <= 0:
        return None
    inner: Unwrapped | None = None
    found = _sorted_out(value)
    text = _first(found[_IS_TEXT])
    if text is None:
        for key in _INNER:
            below = value.get(key)
            if isinstance(below, dict) and (inner := _unwrap(below, depth - 1)) is not None:
                break
        if inner is None:
            return None
    else:
        stripped = text.strip()
        if stripped[:1] == "{" and stripped[-1:] == "}":
            below = _decode(stripped)
            if isinstance(below, dict):
                inner = _unwrap(below, depth - 1)
    instant, local = _time_of(found[_IS_TIME])
    process = _process_of(found)
    if inner is not None:
        if inner.timestamp_us is None:
            inner.timestamp_us = instant
        if inner.local_us is None:
            inner.local_us = local
        inner.process = process or inner.process
        inner.level = inner.level or _level_of(found[_IS_LEVEL], value)
        inner.logger = inner.logger or _first(found[_IS_LOGGER])
        inner.thread = inner.thread or _first(found[_IS_THREAD])
        inner.trace = inner.trace or _trace_of(found[_IS_TRACE])
        return inner
    assert text is not None
    trace = _trace_of(found[_IS_TRACE])
    full = value.get("full_message")
    if isinstance(full, str) and full.startswith(text.rstrip()):
        # Some GELF writers repeat the message in front of the trace, and cut the short one.
        first, _, rest = full.partition("\n")
        text, trace = first, rest if rest.strip() else None
    return Unwrapped(
        text=text.rstrip("\r\n"),
        timestamp_us=instant,
        process=process,
        level=_level_of(found[_IS_LEVEL], value),
        logger=_first(found[_IS_LOGGER]),
        thread=_first(found[_IS_THREAD]),
        trace=trace,
        local_us=local,
        partial=not text.endswith("\n") and _DOCKER <= value.keys() <= _DOCKER | {"attrs"},
    )


def _own(value: Fields) -> Unwrapped | None:
    """One line of the stream that `sources.open_source` makes of a document."""
    try:
        return msgspec.convert(dict(value), _Own).unwrapped()
    except msgspec.ValidationError:
        return None


class _Own(msgspec.Struct, omit_defaults=True):
    """The wire form of `Unwrapped`."""

    message: str
    timestamp_us: int | None
    process: str | None
    level: str | None
    logger: str | None
    thread: str | None
    trace: str | None = None
    local_us: int | None = None

    def unwrapped(self) -> Unwrapped:
        return Unwrapped(
            text=self.message,
            timestamp_us=self.timestamp_us,
            process=self.process,
            level=self.level,
            logger=self.logger,
            thread=self.thread,
            trace=self.trace,
            local_us=self.local_us,
        )


def _level_of(hits: list[tuple[int, Any]], value: Fields) -> str | None:
    for _, found in hits:
        if isinstance(found, str) and (level := _LEVELS.get(found.strip().upper())):
            return level
        if isinstance(found, int) and "short_message" in value and 0 <= found < len(_SYSLOG):
            return _SYSLOG[found]
    return None


def _process_of(found: _Found) -> str | None:
    for hits in found[_IS_POD : _IS_STREAM + 1]:
        if hits and (name := _first([hit for hit in hits if hit[1] not in _NO_LABELS])):
            return name.lstrip("/")
    host = _first(found[_IS_HOST])
    # Several processes may log on one host, each to files of its own.
    path = _first([hit for hit in found[_IS_FILE] if re.search(r"[/\\]", str(hit[1]))])
    if path:
        return f"{host}:{group_of(path)}" if host else group_of(path)
    return host or _first(found[_IS_SERVICE])


def _process_of_labels(labels: Fields) -> str | None:
    return _process_of(_sorted_out({"labels": labels}))


def _trace_of(hits: list[tuple[int, Any]]) -> str | None:
    for _, found in hits:
        if isinstance(found, str) and found and not found.isspace():
            return found.rstrip()
        if isinstance(found, dict) and (trace := "\n".join(_throwable(found, _DEPTH))):
            return trace
        if isinstance(found, list) and found and all(isinstance(line, str) for line in found):
            return "\n".join(found).rstrip()
    return None


def _throwable(thrown: Fields, depth: int) -> Iterator[str]:
    """Print an exception object as Java would: the keys of log4j's, Logstash's and Spark's."""
    name = _text_of(thrown, ("name", "class", "exception_class", "type", "exceptionClass"))
    message = _text_of(
        thrown, ("message", "localizedMessage", "msg", "exception_message", "exceptionMessage")
    )
    if name or message:
        yield ": ".join(part for part in (name, message) if part)
    for key in ("extendedStackTrace", "stackTrace", "stacktrace", "stack_trace", "throwable"):
        frames = thrown.get(key)
        if isinstance(frames, str):
            lines = frames.rstrip().split("\n")
            # Printed traces begin with what stands above already.
            yield from lines[1:] if name and lines[0].startswith(name) else lines
            break
        if isinstance(frames, list):
            yield from (line for frame in frames if (line := _frame(frame)))
            break
    cause = thrown.get("cause")
    if isinstance(cause, dict) and depth:
        for i, line in enumerate(_throwable(cause, depth - 1)):
            yield line if i else f"Caused by: {line}"


def _frame(frame: object) -> str | None:
    if isinstance(frame, str):
        return frame
    if not isinstance(frame, dict):
        return None
    place = f"{frame.get('class')}.{frame.get('method')}"
    return f"\tat {place}({frame.get('file') or 'Unknown Source'}:{frame.get('line')})"


# -- times ---------------------------------------------------------------------------------

_WRITTEN: Final = re.compile(
    r"\s*(\d{4})[-/.](\d\d)[-/.](\d\d)(?:[T _-]|, ?)(\d\d):(\d\d):(\d\d)(?:[.,:](\d{1,12}))?"
    r"\s*(Z|UTC|GMT|[+-]\d\d(?::?\d\d)?)?",
    re.IGNORECASE | re.ASCII,
)
_KIBANA: Final = re.compile(
    r"\s*([A-Z][a-z]{2})[a-z]* (\d{1,2}), (\d{4}) @ (\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?", re.ASCII
)
_AMERICAN: Final = re.compile(
    r"\s*(\d{1,2})/(\d{1,2})/(\d{4}),? (\d{1,2}):(\d\d):(\d\d)(?:\.(\d{1,9}))? ?([AP])M", re.ASCII
)
_NUMBER: Final = re.compile(r"\s*(\d{1,20})(?:\.(\d{1,12}))?\s*\Z", re.ASCII)
_MONTHS: Final = (
    "Jan",
    "Feb",
    "Mar",
    "Apr",
    "May",
    "Jun",
    "Jul",
    "Aug",
    "Sep",
    "Oct",
    "Nov",
    "Dec",
)

Times = tuple[int | None, int | None]


def read_time(value: object) -> Times:
    """Read the time of a carrier: (instant, wall clock), each in microseconds or None.

    Numbers, also as strings, are epochs whose unit is told by their magnitude: seconds with or
    without fraction, milliseconds, microseconds, nanoseconds; they give the instant only. Written
    times give the wall clock, and the instant only if they have a zone: a time without one may
    be of any. Finer fractions than microseconds are cut.

    >>> read_time("1970-01-01T02:00:01.5+02:00")
    (1500000, 7201500000)
    >>> read_time("1970-01-01_00:00:01,250"), read_time(1_500_000_000_123)
    ((None, 1250000), (1500000000123000, None))
    """
    if isinstance(value, bool):
        return None, None
    if isinstance(value, int):
        return _epoch(value, ""), None
    if isinstance(value, float):
        if not 0 < value < 1e20:
            return None, None
        if 1e8 <= value < 1e11:
            return round(value * 1e6), None
        return _epoch(int(value), ""), None
    if isinstance(value, dict):
        seconds, nanos = value.get("epochSecond"), value.get("nanoOfSecond", 0)
        if seconds is None:  # protobuf's form
            seconds, nanos = value.get("seconds"), value.get("nanos", 0)
        if isinstance(seconds, int) and isinstance(nanos, int) and abs(seconds) < 10**11:
            return seconds * 1_000_000 + nanos // 1000, None
        return None, None
    if isinstance(value, list) and len(value) == 1:
        return read_time(value[0])
    if not isinstance(value, str) or len(value) > 64:
        return None, None
    if found := _NUMBER.match(value):
        return _epoch(int(found[1]), found[2] or ""), None
    if found := _WRITTEN.match(value):
        local = _wall_clock(*found.group(1, 2, 3, 4, 5, 6, 7))
        shift = _zone(found[8])
        return (None if local is None or shift is None else local - shift), local
    if (found := _KIBANA.match(value)) and found[1] in _MONTHS:
        month = str(_MONTHS.index(found[1]) + 1)
        return None, _wall_clock(found[3], month, *found.group(2, 4, 5, 6, 7))
    if found := _AMERICAN.match(value):
        hour = int(found[4]) % 12 + (12 if found[8] == "P" else 0)
        return None, _wall_clock(found[3], found[1], found[2], str(hour), *found.group(5, 6, 7))
    return None, None


def _epoch(number: int, fraction: str) -> int | None:
    if number < 10**8:  # before 1973: a time since the start of something
        return None
    if number < 10**11:
        return number * 1_000_000 + int(fraction[:6].ljust(6, "0") or 0)
    if number < 10**14:
        return number * 1000 + int(fraction[:3].ljust(3, "0") or 0)
    if number < 10**17:
        return number
    return number // 1000 if number < 10**20 else None


def _wall_clock(
    year: str, month: str, day: str, hour: str, minute: str, second: str, fraction: str | None
) -> int | None:
    try:
        days = date(int(year), int(month), int(day)).toordinal() - _EPOCH_DAY
    except ValueError:
        return None
    if int(hour) > 24 or int(minute) > 59 or int(second) > 60:
        return None
    seconds = days * 86_400 + int(hour) * 3600 + int(minute) * 60 + int(second)
    return seconds * 1_000_000 + int((fraction or "")[:6].ljust(6, "0"))


def _zone(text: str | None) -> int | None:
    """Microseconds that a zone is ahead of UTC."""
    if not text:
        return None
    if text[0] not in "+-":
        return 0
    digits = text[1:].replace(":", "").ljust(4, "0")
    ahead = int(digits[:2]) * 3600 + int(digits[2:]) * 60
    return (-ahead if text[0] == "-" else ahead) * 1_000_000


def _time_of(hits: list[tuple[int, Any]]) -> Times:
    """The first instant, and the first wall clock, that any of the usual keys has."""
    instant = local = None
    for _, found in hits:
        this_instant, this_local = read_time(found)
        instant = this_instant if instant is None else instant
        local = this_local if local is None else local
        if instant is not None and local is not None:
            break
    return instant, local


# -- documents of many events ----------------------------------------------------------------

# Objects that hold nothing but a list of events, each an object.
_LISTS: Final = (
    "events", "entries", "messages", "logs", "records", "data", "results", "value", "frames",
)  # fmt: skip


def read_document(data: bytes) -> list[Unwrapped] | None:
    """Read a whole file that holds many log events; None if it is no such file.

    Takes JSON of any known shape (one document, or several one after the other), CSV with a
    column of log lines, and the text that Grafana Explore downloads.

    The events of one process stand together, oldest first; processes follow in the order of
    their first appearance, so that lines of different processes never interrupt a record. Events
    without a time stay behind the event before them, equal times keep their order; if the
    input is newest first, it is turned round before.
    """
    data = data.removeprefix(b"\xef\xbb\xbf").strip()
    if data[:1] in (b"{", b"["):
        events = [*_json_events(data)]
    else:
        text = data.decode("utf-8", "replace")
        events = [*(_grafana_text(text) or _table(text))]
    return _in_order(_joined(events)) if events else None


def encode_event(event: Unwrapped) -> bytes:
    """One event as a line of the stream that stands for a document; `unwrap_json` reads it."""
    own = _Own(
        message=event.text,
        timestamp_us=event.timestamp_us,
        process=event.process,
        level=event.level,
        logger=event.logger,
        thread=event.thread,
        trace=event.trace,
        local_us=event.local_us,
    )
    return msgspec.json.encode(own) + b"\n"


def json_values(data: bytes) -> tuple[list[object], bool]:
    """The JSON values that a file consists of, one behind the other, and whether that is all.

    What follows the first damage is left out.
    """
    value = _decode(data)
    if value is not None:
        return [value], True
    text = data.decode("utf-8", "replace")
    decoder = json.JSONDecoder(strict=False)
    values: list[object] = []
    at = 0
    while found := _VALUE.match(text, at):
        try:
            value, at = decoder.raw_decode(text, found.end() - 1)
        except (ValueError, RecursionError):
            break
        values.append(value)
    return values, not text[at:].strip(_BETWEEN)


_BETWEEN: Final = " \t\r\n,\0"
_VALUE: Final = re.compile(rf"[{_BETWEEN}]*[{{\[]")


def _json_events(data: bytes) -> Iterator[Unwrapped]:
    for value in json_values(data)[0]:
        for event, labels in _events_in(value, {}, _DEPTH):
            if isinstance(event, str):
                process = _process_of_labels(labels)
                for record in _records_in(event):
                    yield Unwrapped(record, process=process)
            else:
                own = event.get("labels")
                named = labels | own if isinstance(own, dict) else labels
                unwrapped = _unwrap(event | {"labels": named} if named else event, _DEPTH)
                if unwrapped is not None and _is_event(unwrapped):
                    yield unwrapped


def _records_in(text: str) -> Iterator[str]:
    """Cut a text where a line begins with a time: it may be a record, or a whole log."""
    record: list[str] = []
    for line in text.rstrip("\r\n").split("\n"):
        if record and read_time(line[:32])[1] is not None:
            yield "\n".join(record)
            record.clear()
        record.append(line.rstrip("\r"))
    yield "\n".join(record)


def _is_event(unwrapped: Unwrapped) -> bool:
    """A text alone may be anything: an event has a time, or says who wrote it."""
    return (
        unwrapped.timestamp_us is not None
        or unwrapped.local_us is not None
        or unwrapped.level is not None
        or unwrapped.logger is not None
        or unwrapped.process is not None
    )


def _events_in(
    value: object, labels: dict[str, Any], depth: int
) -> Iterator[tuple[str | dict[str, Any], dict[str, Any]]]:
    """Find the events in an answer or export, with the labels they inherit."""
    if not depth:
        return
    if isinstance(value, str):
        yield value, labels
    elif isinstance(value, list):
        for item in value:
            if isinstance(item, list):  # CloudWatch Logs Insights: a row of fields
                item = _pairs(item, "field", "value")
            if isinstance(item, (dict, str)):
                yield from _events_in(item, labels, depth - 1)
    elif isinstance(value, dict):
        for find in (_loki, _elasticsearch, _opentelemetry, _columns, _cloudwatch):
            if (found := find(value, labels, depth - 1)) is not None:
                yield from found
                return
        for key in _LISTS:
            below = value.get(key)
            if isinstance(below, list) and below and isinstance(below[0], (dict, list)):
                yield from _events_in(below, labels, depth - 1)
                return
        for key in ("response", "rawResponse", "data"):
            below = value.get(key)
            if isinstance(below, dict):
                yield from _events_in(below, labels, depth - 1)
                return
        if isinstance(results := value.get("results"), dict):  # Grafana: one per query
            for below in results.values():
                yield from _events_in(below, labels, depth - 1)
            return
        yield value, labels


Found = Iterable[tuple[str | dict[str, Any], dict[str, Any]]] | None


def _pairs(row: object, key: str, value: str) -> dict[str, Any]:
    """Make an object of a list of key-value objects."""
    if not isinstance(row, list):
        return {}
    return {
        item[key]: item.get(value)
        for item in row
        if isinstance(item, dict) and isinstance(item.get(key), str)
    }


_LABEL: Final = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


def _loki(value: dict[str, Any], labels: dict[str, Any], depth: int) -> Found:
    """Answers, pushes and old answers of Loki: streams with labels and lines."""
    if isinstance(streams := value.get("streams"), list):
        return _events_in(streams, labels, depth)
    data = value.get("data")
    if isinstance(data, dict) and data.get("resultType") == "streams":
        return _events_in(data.get("result"), labels, depth)
    lines, stream = value.get("values"), value.get("stream")
    if isinstance(lines, list) and isinstance(stream, dict):
        # A third element holds labels of that line alone.
        return (
            (
                {"timestamp": line[0], "line": line[1]},
                labels | stream | (line[2] if len(line) > 2 and isinstance(line[2], dict) else {}),
            )
            for line in lines
            if isinstance(line, list) and len(line) > 1
        )
    lines, written = value.get("entries"), value.get("labels")
    if isinstance(lines, list) and isinstance(written, str):
        return _events_in(lines, labels | dict(_LABEL.findall(written)), depth)
    return None


def _elasticsearch(value: dict[str, Any], labels: dict[str, Any], depth: int) -> Found:
    hits = value.get("hits")
    if isinstance(hits, dict) and isinstance(hits.get("hits"), list):
        return _events_in(hits["hits"], labels, depth)
    if isinstance(responses := value.get("responses"), list):
        return _events_in(responses, labels, depth)
    return None


def _cloudwatch(value: dict[str, Any], labels: dict[str, Any], depth: int) -> Found:
    """What CloudWatch sends to subscribers: a batch of one log stream."""
    events = value.get("logEvents")
    if not isinstance(events, list):
        return None
    return _events_in(events, labels | {"logStream": value.get("logStream")}, depth)


def _opentelemetry(value: dict[str, Any], labels: dict[str, Any], depth: int) -> Found:
    resources = value.get("resourceLogs")
    if not isinstance(resources, list):
        return None
    found: list[tuple[str | dict[str, Any], dict[str, Any]]] = []
    for resource in resources:
        if not isinstance(resource, dict):
            continue
        named = labels | _attributes(_below(resource, "resource", "attributes"))
        for scope in resource.get("scopeLogs") or resource.get("instrumentationLibraryLogs") or ():
            records = scope.get("logRecords") if isinstance(scope, dict) else None
            for record in records if isinstance(records, list) else ():
                if isinstance(record, dict):
                    found.append((record, named | _attributes(record.get("attributes"))))
    return found


def _below(value: Fields, outer: str, inner: str) -> object:
    below = value.get(outer)
    return below.get(inner) if isinstance(below, dict) else None


def _attributes(attributes: object) -> dict[str, Any]:
    pairs = _pairs(attributes, "key", "value")
    return {
        key: value["stringValue"]
        for key, value in pairs.items()
        if isinstance(value, dict) and "stringValue" in value
    }


def _columns(value: dict[str, Any], labels: dict[str, Any], depth: int) -> Found:
    """Tables: Azure's and Elasticsearch's rows, and the columns of Grafana's data frames."""
    tables = value.get("tables")
    if isinstance(tables, list):
        return _events_in(tables, labels, depth)
    columns, rows = value.get("columns"), value.get("rows") or value.get("values")
    if isinstance(columns, list) and isinstance(rows, list):
        names = [column.get("name") if isinstance(column, dict) else column for column in columns]
        return _rows(names, (row for row in rows if isinstance(row, list)), labels)
    fields, columns = _below(value, "schema", "fields"), _below(value, "data", "values")
    if isinstance(fields, list) and isinstance(columns, list):
        names = [field.get("name") if isinstance(field, dict) else field for field in fields]
        if all(isinstance(column, list) for column in columns):
            return _rows(names, zip(*columns, strict=False), labels)
    return None


# Names of columns, in small letters, and the key that means the same to `_unwrap`.
_COLUMNS: Final = {
    "message": ("_raw", "line", "message", "@message", "log", "msg", "textpayload", "logmessage",
                "logentry", "jsonpayload.message", "content", "body", "_source.message"),
    "timestamp": ("tsns", "_time", "@timestamp", "timestamp", "timegenerated", "date", "time",
                  "datetime"),
    "pod": ("pod", "pod_name", "podname", "kubernetes.pod_name", "kubernetes.pod.name",
            "resource.labels.pod_name"),
    "container_name": ("container_name", "containername", "kubernetes.container_name",
                       "resource.labels.container_name", "container.name"),
    "logStream": ("logstreamname", "@logstream", "logstream"),
    "host": ("host", "hostname", "host.name", "computer", "instance"),
    "source": ("source", "filename", "log.file.path"),
    "labels": ("labels",),
    "level": ("level", "log.level", "severity", "loglevel", "status"),
    "logger": ("logger", "loggername", "logger_name", "log.logger"),
}  # fmt: skip


def _rows(names: Sequence[object], rows: Iterable[Sequence[Any]], labels: dict[str, Any]) -> Found:
    """Turn rows into objects; None unless there are a column of text and another one."""
    known = [str(name).strip().removesuffix("[UTC]").strip().lower() for name in names]
    where = {
        key: next((known.index(column) for column in columns if column in known), None)
        for key, columns in _COLUMNS.items()
    }
    if where["message"] is None or len(known) < 2:
        return None
    found: list[tuple[str | dict[str, Any], dict[str, Any]]] = []
    for row in rows:
        event = {
            key: row[at]
            for key, at in where.items()
            if at is not None and at < len(row) and row[at] not in (None, "")
        }
        written = event.get("labels")
        if isinstance(written, str):
            below = _decode(written)
            event["labels"] = below if isinstance(below, dict) else dict(_LABEL.findall(written))
        found.append((event, labels))
    return found


def _table(text: str) -> Iterator[Unwrapped]:
    """Read CSV whose header names a column of log lines, as Splunk, Kibana and Grafana export."""
    first = text[: text.find("\n") + 1]
    separator = "\t" if "\t" in first else ";" if ";" in first and "," not in first else ","
    csv.field_size_limit(64 * 1024 * 1024)
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
    try:
        names = next(rows, [])
        for event, labels in _rows(names, rows, {}) or ():
            if isinstance(event, dict) and (unwrapped := _unwrap(event | labels, _DEPTH)):
                yield unwrapped
    except csv.Error:  # NUL bytes, or a quote that is never closed
        return


_GRAFANA: Final = re.compile(r"(\d{13})\t\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z\t", re.ASCII)


def _grafana_text(text: str) -> list[Unwrapped]:
    """Read what Grafana Explore downloads as text: epoch, time and entry, newest first."""
    events: list[Unwrapped] = []
    labels: object = None
    for line in text.split("\n"):
        line = line.rstrip("\r")
        if found := _GRAFANA.match(line):
            event = _unwrap({"timestamp": found[1], "line": line[found.end() :] or " "}, _DEPTH)
            if event is not None:
                events.append(event)
            else:
                events.append(Unwrapped("", timestamp_us=int(found[1]) * 1000))
        elif events:
            events[-1].text += "\n" + line
        elif line.startswith("Common labels: "):
            labels = _decode(line.removeprefix("Common labels: "))
        elif len(line) > 4096:
            break
    process = _process_of_labels(labels) if isinstance(labels, dict) else None
    for event in events:
        event.process = event.process or process
        event.text = event.text.rstrip("\n")
    return events


def _joined(events: list[Unwrapped]) -> list[Unwrapped]:
    """Put the pieces of lines that docker cut together again."""
    result: list[Unwrapped] = []
    open_pieces: dict[str | None, Unwrapped] = {}
    for event in events:
        begun = open_pieces.pop(event.process, None)
        if begun is None:
            begun = event
            result.append(event)
        else:
            begun.text += event.text
        if event.partial:
            open_pieces[event.process] = begun
    for event in result:
        event.partial = False
    return result


def _in_order(events: list[Unwrapped]) -> list[Unwrapped]:
    by_process: dict[str | None, list[Unwrapped]] = {}
    for event in events:
        by_process.setdefault(event.process, []).append(event)
    return [event for group in by_process.values() for event in _oldest_first(group)]


def _oldest_first(events: list[Unwrapped]) -> list[Unwrapped]:
    times = [event.timestamp_us for event in events]
    if all(time is None for time in times):
        times = [event.local_us for event in events]
    if all(time is None for time in times):
        # Lines without a carrier's time begin with their own, most of them.
        times = [read_time(event.text[:32])[1] for event in events]
    known = [time for time in times if time is not None]
    falls = sum(after < before for before, after in itertools.pairwise(known))
    rises = sum(after > before for before, after in itertools.pairwise(known))
    if not falls:
        return events
    pairs = list(zip(times, events, strict=True))
    if falls > rises:
        pairs.reverse()
    keyed: list[tuple[int, Unwrapped]] = []
    last = min(known)
    for time, event in pairs:
        last = last if time is None else time
        keyed.append((last, event))
    keyed.sort(key=lambda pair: pair[0])
    return [event for _, event in keyed]
