"""From a byte range of a source to Arrow batches of events: the one generator.

`parse_split` is pure Python and Arrow, needs no Spark and never raises for bad input: whatever
goes wrong is said in the `split` row with which every split ends.

A candidate line (one that holds an anchor, `scan`) goes through: carriers and JSON envelopes off,
header read (`prefix`), message recognised and its place judged (`records`), the lines below it
read (`reader`, `traces`). Every decision depends on the record and the
lines beside it, never on what came before in the split.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from flowdiag.parsers.catalogue import Catalogue, load_catalogue
from flowdiag.parsers.errors import FlowdiagError
from flowdiag.parsers.flink.prometheus import SampleCounts, read_prometheus
from flowdiag.parsers.flink.rest import DocumentCounts, read_document
from flowdiag.parsers.lines.reader import STRUCTURE, Reader, Tally
from flowdiag.parsers.lines.records import Recogniser
from flowdiag.parsers.lines.scan import LineScanner
from flowdiag.parsers.rows import EVENTS, Event
from flowdiag.parsers.sources.open import Source, open_source, stream_error
from flowdiag.parsers.spark.events import EventReader, fit
from flowdiag.parsers.spark.rest import answer_rows

TASK_BYTES: Final = 96 * 1024 * 1024
"""Bytes per task: a reused Spark worker stalls some 40 ms for each, so not many small ones."""
BATCH_ROWS: Final = 2048
"""Rows per batch: with more, their memory is fresh each time, and its page faults cost more."""
UNPACKED: Final = 10  # logs shrink about so much


@dataclass(frozen=True, slots=True)
class Split:
    """A byte range of a source's decoded stream; `end` is -1 for "to the end"."""

    source: Source
    start: int
    end: int


def plan_splits(sources: Sequence[Source], target_bytes: int = TASK_BYTES) -> list[list[Split]]:
    """Cut the sources into tasks of about `target_bytes` each; small files are packed together.

    Sources that cannot be cut (compressed, UTF-16, documents) are one split each; a compressed one
    counts as `UNPACKED` times its size. Sources that are not read get no split. Small files are
    packed in the order of the sources.
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
        weight = source.size if source.codec == "none" else source.size * UNPACKED
        if current and current_bytes + weight > target_bytes:
            tasks.append(current)
            current, current_bytes = [], 0
        current.append(Split(source, 0, -1))
        current_bytes += weight
    if current:
        tasks.append(current)
    return tasks


class RowBuilder:
    """Collects rows and makes record batches of `EVENTS` of them."""

    def __init__(self) -> None:
        """Start with no rows."""
        self._rows: list[dict[str, Any]] = []
        self._used: set[str] = set()

    def __len__(self) -> int:
        """The number of rows not yet taken."""
        return len(self._rows)

    def add(self, row: dict[str, Any]) -> None:
        """Add one row; columns that it lacks are null."""
        self._rows.append(row)
        self._used.update(row)

    def take(self) -> pa.RecordBatch:
        """The rows so far as one batch; the builder is empty afterwards."""
        rows = self._rows
        arrays = []
        for column in EVENTS:
            name = column.name
            if name not in self._used:
                arrays.append(pa.nulls(len(rows), column.type))
                continue
            values: list[Any] = [row.get(name) for row in rows]
            if name == "fields":
                values = [None if value is None else list(value.items()) for value in values]
            arrays.append(pa.array(values, type=column.type))
        self._rows = []
        self._used = set()
        return pa.RecordBatch.from_arrays(arrays, schema=EVENTS)


def parse_split(
    split: Split,
    *,
    catalogue: Catalogue | None = None,
    metrics: Collection[str] | None = None,
    builder: RowBuilder | None = None,
) -> Iterator[pa.RecordBatch]:
    """Read a split into batches of `EVENTS`.

    Args:
        split: from `plan_splits`.
        catalogue: messages to recognise; by default all that flowdiag knows.
        metrics: names of the metrics of reports that become rows; None for all that are known.
        builder: gets the rows of several splits in turn, and keeps the last ones of each.

    Yields:
        batches of at most 2048 rows (of metrics: 8192); the very last row is the only one of event `split`, with
        fields bytes, candidates (lines with an anchor), recognised, not_understood (lines of a
        checkpoint class that match no message), sample_1 to sample_3 of them, logger_hits (lines
        of a checkpoint class), truncated_lines, first_us and last_us (wall clock as printed, or
        the instant where only that is printed), error (one clause, absent if all went well).
    """
    source = split.source
    if source.kind in ("rest", "archive"):
        yield from _read_whole(split, metrics, builder)
        return
    if source.kind == "prometheus":
        yield from _read_samples(split, metrics)
        return
    if source.kind == "spark-rest":
        yield from _read_answer(split)
        return
    if source.kind == "spark-events":
        yield from _read_spark_events(split)
        return
    tally = Tally()
    shared, builder = builder, RowBuilder() if builder is None else builder
    error: str | None = None
    scanner: LineScanner | None = None
    try:
        with open_source(source) as stream:
            known = _recogniser(catalogue if catalogue is not None else _catalogue_of(source))
            scanner = LineScanner(stream, known.matcher, split.start, split.end)
            reader = Reader(source.index, scanner, known, tally, metrics)
            for found in reader.events():
                if isinstance(found, pa.RecordBatch):
                    yield found
                    continue
                builder.add(found)
                if len(builder) >= BATCH_ROWS:
                    yield builder.take()
            yield from reader.folder.flush()
            error = stream_error(stream) or scanner.error
            tally.saw_edges(scanner)
    except (OSError, ValueError, FlowdiagError) as problem:
        error = _clause(problem)
    if scanner is not None:
        tally.bytes = scanner.bytes_read
        tally.truncated += scanner.truncated_lines
    builder.add(_split_row(split, tally, error))
    if shared is None or len(builder) >= BATCH_ROWS:
        yield builder.take()


def parse_splits(
    splits: Iterable[Split], *, metrics: Collection[str] | None = None
) -> Iterator[pa.RecordBatch]:
    """Read splits as `parse_split` does, one after the other, those of small logs into one batch.

    A batch costs as much as the rows of a small file.
    """
    builder = RowBuilder()
    for split in splits:
        yield from parse_split(split, metrics=metrics, builder=builder)
    if len(builder):
        yield builder.take()


def _catalogue_of(source: Source) -> Catalogue:
    return load_catalogue("spark" if source.engine == "spark" else "flink")


def _read_whole(
    split: Split, metrics: Collection[str] | None, builder: RowBuilder | None
) -> Iterator[pa.RecordBatch]:
    """REST answers and archives: read by their own reader, with the same last row."""
    tally = Tally()
    counts = DocumentCounts()
    error: str | None = None
    try:
        with open_source(split.source) as stream:
            yield from read_document(stream, split.source, counts, metrics)
    except (OSError, ValueError, FlowdiagError) as problem:
        error = _clause(problem)
    tally.bytes, tally.candidates, tally.recognised = (
        counts.bytes,
        counts.candidates,
        counts.recognised,
    )
    tally.not_understood, tally.samples = counts.not_understood, list(counts.samples)
    tally.first_us, tally.last_us = counts.first_us, counts.last_us
    shared, builder = builder, RowBuilder() if builder is None else builder
    builder.add(_split_row(split, tally, error))
    if shared is None or len(builder) >= BATCH_ROWS:
        yield builder.take()


def _read_samples(split: Split, metrics: Collection[str] | None) -> Iterator[pa.RecordBatch]:
    """What Prometheus scrapes or keeps, with the same last row."""
    tally = Tally()
    counts = SampleCounts()
    error: str | None = None
    try:
        with open_source(split.source) as stream:
            yield from read_prometheus(stream, split.source, counts, metrics)
            error = stream_error(stream)
    except (OSError, ValueError, FlowdiagError) as problem:
        error = _clause(problem)
    tally.bytes, tally.candidates, tally.recognised = (
        counts.bytes,
        counts.candidates,
        counts.recognised,
    )
    tally.not_understood, tally.samples = counts.not_understood, list(counts.samples)
    tally.first_us, tally.last_us = counts.first_us, counts.last_us
    builder = RowBuilder()
    builder.add(_split_row(split, tally, error))
    yield builder.take()


def _read_answer(split: Split) -> Iterator[pa.RecordBatch]:
    """A saved answer of Spark's REST interface, with the same last row."""
    tally = Tally()
    builder = RowBuilder()
    error: str | None = None
    try:
        with open_source(split.source) as stream:
            data = stream.read()
            tally.bytes = len(data)
            error = stream_error(stream)
        for row in answer_rows(data, split.source.name):
            fit(row)
            builder.add({**row, "source": split.source.index})
            tally.candidates += 1
            tally.recognised += 1
            tally.saw_instant(row.get("utc_us"))
    except (OSError, ValueError, FlowdiagError) as problem:
        error = error or _clause(problem)
    builder.add(_split_row(split, tally, error))
    yield builder.take()


def _read_spark_events(split: Split) -> Iterator[pa.RecordBatch]:
    """A Spark event log or the lines of flowdiag's listener, with the same last row."""
    tally = Tally()
    builder = RowBuilder()
    reader = EventReader(split.source.index)
    error: str | None = None
    scanner: LineScanner | None = None
    try:
        with open_source(split.source) as stream:
            scanner = reader.scanner(stream, split.start, split.end)
            for row in reader.rows(scanner):
                builder.add(row)
                if len(builder) == BATCH_ROWS:
                    yield builder.take()
            error = stream_error(stream) or scanner.error
    except (OSError, ValueError, FlowdiagError) as problem:
        error = _clause(problem)
    if scanner is not None:
        tally.bytes, tally.truncated = scanner.bytes_read, scanner.truncated_lines
    tally.candidates, tally.recognised = reader.candidates, reader.recognised
    tally.not_understood, tally.samples = reader.not_understood, reader.samples
    tally.first_us, tally.last_us = reader.first_us, reader.last_us
    builder.add(_split_row(split, tally, error))
    yield builder.take()


@functools.lru_cache(maxsize=4)
def _recogniser(catalogue: Catalogue) -> Recogniser:
    return Recogniser(catalogue, STRUCTURE)


def _split_row(split: Split, tally: Tally, error: str | None) -> dict[str, Any]:
    return {
        "source": split.source.index,
        "offset": split.start,
        "event": Event.SPLIT.value,
        "fields": tally.fields(error),
    }


def _clause(problem: BaseException) -> str:
    if isinstance(problem, OSError) and problem.strerror:
        return problem.strerror[:1].lower() + problem.strerror[1:]
    return str(problem) or type(problem).__name__


def parse_on_driver(
    tasks: Sequence[Sequence[Split]], metrics: Collection[str] | None = None
) -> pa.Table:
    """Parse here and now, without Spark; one `split` row per split, as everywhere."""
    splits = (split for task in tasks for split in task)
    return pa.Table.from_batches(list(parse_splits(splits, metrics=metrics)), schema=EVENTS)
