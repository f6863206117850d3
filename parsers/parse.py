"""From a byte range of a source to Arrow batches of events: the one generator.

`parse_split` is pure Python and Arrow, needs no Spark and never raises for bad input: whatever
goes wrong is said in the `split` row with which every split ends.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import ahocorasick_rs
import pyarrow as pa

from flowdiag.parsers import prefix
from flowdiag.parsers.catalogue import Catalogue, Recognised, load_catalogue
from flowdiag.parsers.prefix import Prefix
from flowdiag.parsers.scan import LineScanner, Matcher, make_matcher
from flowdiag.parsers.schema import EVENTS, Event

if TYPE_CHECKING:
    from flowdiag.parsers.sources import Source

TASK_BYTES: Final = 96 * 1024 * 1024
BATCH_ROWS: Final = 8192
TRACE_LINES: Final = 400
TRACE_BYTES: Final = 64 * 1024
CAUSE_CHARACTERS: Final = 500
SAMPLE_CHARACTERS: Final = 300
SAMPLES: Final = 3


@dataclass(frozen=True, slots=True)
class Split:
    """A byte range of a source's decoded stream; `end` is -1 for "to the end"."""

    source: Source
    start: int
    end: int


def plan_splits(sources: Sequence[Source], target_bytes: int = TASK_BYTES) -> list[list[Split]]:
    """Cut the sources into tasks of about `target_bytes` each; small files are packed together.

    Sources that cannot be cut (compressed, UTF-16, documents) are one split each. Sources that are
    not read get no split. The order of tasks and of splits within them follows the sources.
    """
    tasks: list[list[Split]] = []
    current: list[Split] = []
    current_bytes = 0
    for source in sources:
        if source.kind == "not-read":
            continue
        if source.splittable and source.size > target_bytes:
            count = -(-source.size // target_bytes)
            edges = [source.size * i // count for i in range(count)]
            # The last one is open, so that a file that grows meanwhile is read to its end once.
            ends = [*edges[1:], -1]
            tasks.extend(
                [Split(source, start, end)] for start, end in zip(edges, ends, strict=True)
            )
            continue
        if current and current_bytes + source.size > target_bytes:
            tasks.append(current)
            current, current_bytes = [], 0
        current.append(Split(source, 0, -1))
        current_bytes += source.size
    if current:
        tasks.append(current)
    return tasks


class RowBuilder:
    """Collects rows column by column and makes record batches of them."""

    def __init__(self) -> None:
        """Start with no rows."""
        self._columns: dict[str, list[Any]] = {name: [] for name in EVENTS.names}
        self._appends = [(name, column.append) for name, column in self._columns.items()]
        self.rows = 0

    def add(self, row: dict[str, Any]) -> None:
        """Add one row; columns that it lacks are null."""
        get = row.get
        for name, append in self._appends:
            append(get(name))
        self.rows += 1

    def take(self) -> pa.RecordBatch:
        """The rows so far as one batch; the builder is empty afterwards."""
        arrays = [
            pa.array(
                [None if value is None else list(value.items()) for value in self._columns[name]]
                if name == "fields"
                else self._columns[name],
                type=EVENTS.field(name).type,
            )
            for name in EVENTS.names
        ]
        for column in self._columns.values():
            column.clear()
        self.rows = 0
        return pa.RecordBatch.from_arrays(arrays, schema=EVENTS)


@dataclass(slots=True)
class _Tally:
    """What the `split` row says."""

    candidates: int = 0
    recognised: int = 0
    not_understood: int = 0
    logger_hits: int = 0
    first_us: int | None = None
    last_us: int | None = None
    samples: list[str] = field(default_factory=list)

    def saw(self, local_us: int | None) -> None:
        if local_us is None:
            return
        if self.first_us is None or local_us < self.first_us:
            self.first_us = local_us
        if self.last_us is None or local_us > self.last_us:
            self.last_us = local_us


@dataclass(frozen=True, slots=True)
class _Knowledge:
    """The catalogue with its matchers, built once per process."""

    catalogue: Catalogue
    matcher: Matcher
    automaton: Any  # finds *which* anchors a line holds


@functools.cache
def _knowledge() -> _Knowledge:
    catalogue = load_catalogue()
    automaton = ahocorasick_rs.AhoCorasick(list(catalogue.anchors))
    return _Knowledge(catalogue, make_matcher(catalogue.anchors), automaton)


def parse_split(split: Split) -> Iterator[pa.RecordBatch]:
    """Read a split; yields batches of `EVENTS` rows of which the very last is the `split` row."""
    from flowdiag.parsers.sources import open_source

    source = split.source
    builder = RowBuilder()
    tally = _Tally()
    error: str | None = None
    truncated = size = 0
    try:
        stream = open_source(source)
    except Exception as problem:  # noqa: BLE001 - a damaged file is a row, not a traceback
        error = str(problem) or type(problem).__name__
    else:
        with stream:
            scanner = LineScanner(stream, _knowledge().matcher, split.start, split.end)
            for row in _events(scanner, tally):
                row["source"] = source.index
                builder.add(row)
                if builder.rows == BATCH_ROWS:
                    yield builder.take()
            error = scanner.error
            truncated = scanner.truncated_lines
            size = scanner.bytes_read
    fields = {
        "bytes": str(size),
        "candidates": str(tally.candidates),
        "recognised": str(tally.recognised),
        "not_understood": str(tally.not_understood),
        "logger_hits": str(tally.logger_hits),
        "truncated_lines": str(truncated),
    }
    for number, sample in enumerate(tally.samples, 1):
        fields[f"sample_{number}"] = sample
    if tally.first_us is not None:
        fields["first_us"] = str(tally.first_us)
    if tally.last_us is not None:
        fields["last_us"] = str(tally.last_us)
    if error is not None:
        fields["error"] = error
    builder.add(
        {
            "source": source.index,
            "offset": split.start,
            "event": Event.SPLIT.value,
            "fields": fields,
        }
    )
    yield builder.take()


def _events(scanner: LineScanner, tally: _Tally) -> Iterator[dict[str, Any]]:
    knowledge = _knowledge()
    catalogue = knowledge.catalogue
    for line in scanner:
        tally.candidates += 1
        text = line.data.decode("utf-8", "replace")
        head = prefix.parse(text)
        found = _recognise(knowledge, head)
        simple = prefix.simple_name(head.logger) if head.logger is not None else None
        drift = simple is not None and simple in catalogue.drift_loggers
        tally.logger_hits += drift
        if found is None:
            if drift:
                tally.not_understood += 1
                if len(tally.samples) < SAMPLES:
                    tally.samples.append(head.text[:SAMPLE_CHARACTERS])
            continue
        tally.recognised += 1
        tally.saw(head.local_us)
        row: dict[str, Any] = dict(found.values)
        row["offset"] = line.offset
        row["event"] = found.template.event.value
        row["template"] = found.template.id
        row["local_us"] = head.local_us
        row["utc_us"] = head.utc_us
        row["clock"] = head.clock
        row["level"] = head.level
        row["logger"] = simple
        row["thread"] = head.thread
        row["process"] = head.process
        if found.template.trace:
            _read_trace(scanner, row)
        yield row


def _recognise(knowledge: _Knowledge, head: Prefix) -> Recognised | None:
    best: Recognised | None = None
    tried: set[int] = set()
    begin = head.begin if head.complete else None
    for anchor, _, _ in knowledge.automaton.find_matches_as_indexes(head.text, overlapping=True):
        if anchor in tried:
            continue
        tried.add(anchor)
        found = knowledge.catalogue.recognise(head.text, anchor, begin=begin)
        if found is None or not _plausible(head, found):
            continue
        if best is None or found.start < best.start:
            best = found
    return best


_SEPARATOR_BEFORE = re.compile(r"(?:^|- |: |\] |\| |\t|[\"'`])\s*\Z")
_EXCEPTION_BEFORE = re.compile(r"(?:Exception|Error|Throwable): \Z")


def _plausible(head: Prefix, found: Recognised) -> bool:
    """Whether the message is what the record says, not a quotation in a stack frame."""
    before = head.text[head.begin : found.start]
    if head.complete:
        if before.strip():
            return False
    elif not _SEPARATOR_BEFORE.search(before) or _EXCEPTION_BEFORE.search(before):
        return False
    loggers = found.template.loggers
    if head.logger is not None and loggers:
        return prefix.simple_name(head.logger) in loggers
    return True


_STAMPED = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d")


def _read_trace(scanner: LineScanner, row: dict[str, Any]) -> None:
    first: str | None = None
    deepest: str | None = None
    size = 0
    for number, line in enumerate(scanner.following()):
        size += len(line.data)
        if number >= TRACE_LINES or size > TRACE_BYTES:
            break
        text = line.data.decode("utf-8", "replace")
        if _STAMPED.match(text):
            break
        stripped = text.strip()
        if stripped.startswith("Caused by: "):
            deepest = stripped[11:]
        elif first is None and stripped and not stripped.startswith("at "):
            first = stripped
    if first is not None:
        row["fields"] = {**(row.get("fields") or {}), "exception": first[:CAUSE_CHARACTERS]}
    cause = deepest or first
    if cause is not None and row.get("cause") is None:
        row["cause"] = cause[:CAUSE_CHARACTERS]


def parse_on_driver(tasks: Sequence[Sequence[Split]]) -> pa.Table:
    """Parse here and now, without Spark; one `split` row per split, as everywhere."""
    batches = [batch for task in tasks for split in task for batch in parse_split(split)]
    return pa.Table.from_batches(batches, schema=EVENTS)
