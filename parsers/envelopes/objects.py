"""Extracts the log record from a JSON object.

The keys alone identify the format (`keys`). JSON within JSON is unwrapped as well: the inner object provides the
record, and the outer one its process.

A file with one JSON object per line is streamed in its own order, even if the newest record is first. A document is
sorted by time (see `documents`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from flowdiag.parsers.envelopes.content import record_in, time_in
from flowdiag.parsers.envelopes.errors import lines_of_errors
from flowdiag.parsers.envelopes.keys import (
    INNER,
    IS_FILE,
    IS_HOST,
    IS_LEVEL,
    IS_LOGGER,
    IS_POD,
    IS_SERVICE,
    IS_STREAM,
    IS_TEXT,
    IS_THREAD,
    IS_TIME,
    IS_TRACE,
    LEVELS,
    NO_LABELS,
    SYSLOG,
    Fields,
    Meanings,
    first_text,
    values_by_meaning,
)
from flowdiag.parsers.envelopes.times import time_of
from flowdiag.parsers.json_values import decode_leniently
from flowdiag.parsers.sources.rolling import group_of

DEPTH: Final = 6  # maximum nesting of JSON within JSON


@dataclass(slots=True)
class Unwrapped:
    """The record in a JSON object. Missing values are None.

    Attributes:
        text: a log line in any layout, or the bare message, without a final newline. It can have several lines
            (a stack trace).
        timestamp_us: the instant in UTC microseconds; None for a time without a zone.
        process: name of the process that wrote the record: the first available of pod, container, log stream, host
            and file.
        trace: the stack trace as Java prints it.
        local_us: the printed wall clock in microseconds since 1970-01-01T00:00 of that clock.
        partial: whether Docker split the line (at 16 KiB), so that the next record of the process continues it.
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
    """Unwrap a JSON line of any known shape; return None for other lines.

    A comma after the object or a bracket before it is allowed, as in arrays written line by line. Truncated or
    damaged JSON also gives None, and should be read as text.

    >>> unwrap_json(b'{"log":"INFO started\\\\n","stream":"stdout","time":"1970-01-01T00:00:01Z"}')
    ... # doctest: +ELLIPSIS
    Unwrapped(text='INFO started', timestamp_us=1000000, ...)
    """
    line = line.strip(b" \t\r\n,[]\xef\xbb\xbf") if line[:1] != b"{" else line.rstrip(b"\r\n ,]")
    if line[:1] != b"{" or line[-1:] != b"}":
        return None
    value = decode_or_none(line)
    return unwrap(value, DEPTH) if isinstance(value, dict) else None


def decode_or_none(data: bytes | str) -> object:
    """Decode JSON; return None if it is damaged."""
    try:
        return msgspec.json.decode(data)
    except RecursionError:
        return None
    except (msgspec.DecodeError, UnicodeError):
        pass
    try:
        return decode_leniently(data)
    except ValueError:
        return None


_DOCKER: Final = frozenset({"log", "stream", "time"})


def first_string(value: Fields, keys: Sequence[str]) -> str | None:
    """Return the first string at these keys that is not blank."""
    return first_text([(0, value.get(key)) for key in keys])


def unwrap(value: Fields, depth: int) -> Unwrapped | None:
    """Return the record in a decoded object, or None. `depth` limits JSON within JSON."""
    if "timestamp_us" in value:
        # A line of the stream that `source.open_source` creates for a document.
        try:
            return msgspec.convert(dict(value), _EventLine).unwrapped()
        except msgspec.ValidationError:
            return None
    if depth <= 0:
        return None
    found = values_by_meaning(value)
    text = first_text(found[IS_TEXT])
    if text is None or text.lstrip()[:1] == "{":
        inner = _inner_record(value, text, depth - 1)
        if inner is not None:
            return _with_outer_values(inner, value, found)
    if text is None:
        text = record_in(value)
        if text is None:
            return None
        found[IS_TIME].append((0, time_in(value)))
    instant, local = time_of(found[IS_TIME])
    trace = _trace_of(found[IS_TRACE]) or _errors_of(value)
    full = value.get("full_message")
    if isinstance(full, str) and full.startswith(text.rstrip()):
        # Some GELF writers repeat the message before the trace, and truncate the short message.
        first, _, rest = full.partition("\n")
        text, trace = first, rest if rest.strip() else None
    whole = text.endswith("\n")
    if trace is None:
        text = _with_error(text.rstrip("\r\n"), value)
    return Unwrapped(
        text=text.rstrip("\r\n"),
        timestamp_us=instant,
        process=process_of(found),
        level=_level_of(found[IS_LEVEL], value),
        logger=first_text(found[IS_LOGGER]),
        thread=first_text(found[IS_THREAD]),
        trace=trace,
        local_us=local,
        partial=not whole and _DOCKER <= value.keys() <= _DOCKER | {"attrs"},
    )


def _with_error(text: str, value: Fields) -> str:
    """Append the error that an object has under a separate key, as in logs of Go programs."""
    error = value.get("error") or value.get("err")
    if not isinstance(error, str) or not error.strip() or error in text or "logger" not in value:
        return text
    return f"{text.rstrip('. ')}: {' '.join(error.split())}"


def _inner_record(value: Fields, text: str | None, depth: int) -> Unwrapped | None:
    """Return the record in JSON inside the text, or in a nested object if the object has no text."""
    if text is not None:
        stripped = text.strip()
        below = decode_or_none(stripped) if stripped[-1:] == "}" else None
        return unwrap(below, depth) if isinstance(below, dict) else None
    for key in INNER:
        below = value.get(key)
        if isinstance(below, dict) and (inner := unwrap(below, depth)) is not None:
            return inner
    return None


def _with_outer_values(inner: Unwrapped, value: Fields, found: Meanings) -> Unwrapped:
    """Return the inner record with the process of the outer object. The outer object also fills in missing values."""
    instant, local = time_of(found[IS_TIME])
    if inner.timestamp_us is None:
        inner.timestamp_us = instant
    if inner.local_us is None:
        inner.local_us = local
    inner.process = process_of(found) or inner.process
    inner.level = inner.level or _level_of(found[IS_LEVEL], value)
    inner.logger = inner.logger or first_text(found[IS_LOGGER])
    inner.thread = inner.thread or first_text(found[IS_THREAD])
    inner.trace = inner.trace or _trace_of(found[IS_TRACE])
    return inner


class _EventLine(msgspec.Struct, omit_defaults=True):
    """The serialized form of `Unwrapped`."""

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
        if isinstance(found, str) and (level := LEVELS.get(found.strip().upper())):
            return level
        if isinstance(found, int) and "short_message" in value and 0 <= found < len(SYSLOG):
            return SYSLOG[found]
    return None


def process_of(found: Meanings) -> str | None:
    """Return the process that wrote a record, as named by the record's own keys."""
    for hits in found[IS_POD : IS_STREAM + 1]:
        if hits and (name := first_text([hit for hit in hits if hit[1] not in NO_LABELS])):
            return name.lstrip("/")
    host = first_text(found[IS_HOST])
    # Several processes on a host can log, each to its own files.
    path = first_text([hit for hit in found[IS_FILE] if re.search(r"[/\\]", str(hit[1]))])
    if path:
        return f"{host}:{group_of(path)}" if host else group_of(path)
    return host or first_text(found[IS_SERVICE])


def process_of_labels(labels: Fields) -> str | None:
    """Return the name of the process that wrote a record, from the labels of its stream."""
    return process_of(values_by_meaning({"labels": labels}))


_TRACE_HEAD: Final = 8000  # characters
_PRINTED: Final = re.compile(
    r"Traceback \(most recent call last\)|(?:[a-z_][\w$]{0,80}\.){1,20}[A-Z][\w$]{0,120}(?:Exception|Error|Throwable)\b[\s\S]{0,6000}?\n\s{0,8}at [\w$.]{3,300}\("
)


def _trace_of(hits: list[tuple[int, Any]]) -> str | None:
    for _, found in hits:
        if isinstance(found, str) and found and not found.isspace():
            return found.rstrip()
        if isinstance(found, dict) and (trace := "\n".join(_throwable(found, DEPTH))):
            return trace
        if isinstance(found, list) and found and all(isinstance(line, str) for line in found):
            return "\n".join(found).rstrip()
    return None


def _printed_trace(value: Fields) -> str | None:
    """Return a stack trace below the record's text that is stored under an unknown key."""
    texts = (text for text in value.values() if isinstance(text, str) and "\n" in text)
    found = next((text for text in texts if _PRINTED.match(text[:_TRACE_HEAD])), None)
    return None if found is None else found.rstrip()


def _errors_of(value: Fields) -> str | None:
    """Return the exceptions that a nested object describes, formatted as a stack trace."""
    inner = {
        key: value[key]
        for key in ("error", "errors", "exceptions")
        if isinstance(value.get(key), (dict, list))
    }
    return ("\n".join(lines_of_errors(inner)) if inner else None) or _printed_trace(value)


def _throwable(thrown: Fields, depth: int) -> Iterator[str]:
    """Yield the lines of an exception as Java prints it, from an object of log4j, Logstash or Spark."""
    name = first_string(thrown, ("name", "class", "exception_class", "type", "exceptionClass"))
    message = first_string(
        thrown, ("message", "localizedMessage", "msg", "exception_message", "exceptionMessage")
    )
    if name or message:
        yield ": ".join(part for part in (name, message) if part)
    yield from _frames(thrown, name)
    cause = thrown.get("cause")
    if isinstance(cause, dict) and depth:
        for i, line in enumerate(_throwable(cause, depth - 1)):
            yield line if i else f"Caused by: {line}"


def _frames(thrown: Fields, name: str | None) -> Iterator[str]:
    """Yield the lines below the exception's first line, from a printed trace or a list of frames."""
    keys = ("extendedStackTrace", "stackTrace", "stacktrace", "stack_trace", "throwable")
    frames = next((thrown[key] for key in keys if isinstance(thrown.get(key), (str, list))), ())
    if isinstance(frames, str):
        lines = frames.rstrip().split("\n")
        # A printed trace repeats the first line.
        yield from lines[1:] if name and lines[0].startswith(name) else lines
        return
    for frame in frames:
        if isinstance(frame, str) and frame:
            yield frame
        elif isinstance(frame, dict):
            place = f"{frame.get('class')}.{frame.get('method')}"
            yield f"\tat {place}({frame.get('file') or 'Unknown Source'}:{frame.get('line')})"


def encode_event(event: Unwrapped) -> bytes:
    """Encode an event of a document as a line that `unwrap_json` can read."""
    line = _EventLine(
        message=event.text,
        timestamp_us=event.timestamp_us,
        process=event.process,
        level=event.level,
        logger=event.logger,
        thread=event.thread,
        trace=event.trace,
        local_us=event.local_us,
    )
    return msgspec.json.encode(line) + b"\n"
