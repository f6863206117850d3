"""Reads whole files with many log events: responses and exports of log stores, arrays, tables."""

from __future__ import annotations

import ast
import itertools
import json
import re
from collections.abc import Callable, Iterable, Iterator
from operator import attrgetter
from typing import Any, Final

from flowdiag.parsers.envelopes.objects import (
    DEPTH,
    Unwrapped,
    decode_or_none,
    process_of_labels,
    unwrap,
)
from flowdiag.parsers.envelopes.stores import STORES, Nested, pairs_in
from flowdiag.parsers.envelopes.tables import Event, events_of_csv, events_of_grafana
from flowdiag.parsers.envelopes.times import read_time
from flowdiag.parsers.envelopes.wrapped import unwrapped_lines

DOCUMENT_BYTES: Final = 256 * 1024 * 1024
"""Maximum size of a JSON document, which must fit into memory once decoded."""


# Keys of the list, in objects that contain only a list of event objects.
_LISTS: Final = (
    "events", "entries", "messages", "logs", "records", "data", "results", "value", "frames",
)  # fmt: skip


def read_document(data: bytes) -> list[Unwrapped] | None:
    """Read a whole file with many log events; return None for other files.

    Accepted formats:
    - JSON of any known shape, one or several documents
    - CSV with a column of log lines, and text downloads from Grafana Explore
    - lists of lines printed by Python
    - logs wrapped by a mail program or a terminal

    Events are grouped by process and sorted by time, so that lines of another process never interrupt a
    record. Processes keep the order of their first events. An event without a time stays behind the event before it,
    and events with equal times keep their order. If the newest event is first, the input is reversed first.
    """
    data = data.removeprefix(b"\xef\xbb\xbf").strip()
    if (lines := python_lines(data)) is not None:
        events = [Unwrapped(record) for record in _records_in("\n".join(lines))]
    elif data[:1] in (b"{", b"["):
        events = [*_json_events(data)]
    else:
        text = data.decode("utf-8", "replace")
        if (lines := unwrapped_lines(data)) is not None:
            events = [Unwrapped(record) for record in _records_in("\n".join(lines))]
        else:
            events = [*(events_of_grafana(text) or events_of_csv(text))]
    by_process: dict[str | None, list[Unwrapped]] = {}
    for event in _join_pieces(events):
        by_process.setdefault(event.process, []).append(event)
    return [event for group in by_process.values() for event in _oldest_first(group)] or None


def python_lines(data: bytes) -> list[str] | None:
    r"""Parse a list of lines that Python printed (`print(file.readlines())`); return None for other text.

    >>> python_lines(b"['2026-11-20 INFO a\\n', \"it's\"]")
    ['2026-11-20 INFO a', "it's"]
    """
    data = data.strip()
    if not data.startswith((b"['", b'["')) or not data.endswith((b"']", b'"]')):
        return None
    if len(data) > _PYTHON_BYTES or decode_or_none(data) is not None:
        return None
    try:
        value = ast.literal_eval(data.decode("utf-8", "replace"))
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return None
    texts = value if isinstance(value, list) else []
    return [text.rstrip("\r\n") for text in texts if isinstance(text, str)] or None


# Limited, because Python's parser first builds a tree of the whole text.
_PYTHON_BYTES: Final = 16 * 1024 * 1024


def json_values(data: bytes) -> tuple[list[object], bool]:
    """Return the consecutive JSON values at the start of a file, and whether they are the whole file."""
    value = decode_or_none(data)
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
        for event, labels in _events_in(value, {}, DEPTH):
            if isinstance(event, str):
                process = process_of_labels(labels)
                for record in _records_in(event):
                    yield Unwrapped(record, process=process)
            else:
                own = event.get("labels")
                named = labels | own if isinstance(own, dict) else labels
                unwrapped = unwrap(event | {"labels": named} if named else event, DEPTH)
                if unwrapped is not None and any(part is not None for part in _IDENTITY(unwrapped)):
                    yield unwrapped


def _records_in(text: str) -> Iterator[str]:
    """Split a text, which may be one record or a whole log, before each line that starts with a time."""
    record: list[str] = []
    for line in text.rstrip("\r\n").split("\n"):
        if record and read_time(line[:32])[1] is not None:
            yield "\n".join(record)
            record.clear()
        record.append(line.rstrip("\r"))
    yield "\n".join(record)


# A text with no time, level, logger or process may be anything.
_IDENTITY: Final = attrgetter("timestamp_us", "local_us", "level", "logger", "process")


def _events_in(value: object, labels: dict[str, Any], depth: int) -> Iterator[Event]:
    """Yield the events in a response or export, with the labels that they inherit."""
    if not depth:
        return
    if isinstance(value, str):
        yield value, labels
    elif isinstance(value, list):
        for item in value:
            if isinstance(item, list):  # CloudWatch Logs Insights: a row of fields
                item = pairs_in(item, "field", "value")
            if isinstance(item, (dict, str)):
                yield from _events_in(item, labels, depth - 1)
    elif isinstance(value, dict):
        for find in STORES:
            found = find(value, labels)
            if isinstance(found, Nested):
                yield from _events_in(found.value, found.labels, depth - 1)
                return
            if found is not None:
                yield from found
                return
        below = _nested_in(value)
        if below is None:
            yield value, labels
            return
        for item in below:
            yield from _events_in(item, labels, depth - 1)


def _nested_in(value: dict[str, Any]) -> Iterable[object] | None:
    """Return the inner values that contain the events of an object, or None if the object is one event."""
    for key in _LISTS:
        below = value.get(key)
        if isinstance(below, list) and below and isinstance(below[0], (dict, list)):
            return (below,)
    for key in ("response", "rawResponse", "data"):
        below = value.get(key)
        if isinstance(below, dict):
            return (below,)
    results = value.get("results")  # Grafana: one value per query
    return results.values() if isinstance(results, dict) else None


def _join_pieces(events: list[Unwrapped]) -> list[Unwrapped]:
    """Join the pieces of lines that Docker split."""
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


# Times of an event, the most reliable first. Most lines without a carrier's time start with their own.
_TIMES: Final[tuple[Callable[[Unwrapped], int | None], ...]] = (
    attrgetter("timestamp_us"),
    attrgetter("local_us"),
    lambda event: read_time(event.text[:32])[1],
)


def _oldest_first(events: list[Unwrapped]) -> list[Unwrapped]:
    times: list[int | None] = []
    for time_of in _TIMES:
        times = [time_of(event) for event in events]
        if any(time is not None for time in times):
            break
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
