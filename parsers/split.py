"""Parses a byte range of a source into Arrow batches of events.

`parse_split` needs only Python and Arrow, not Spark. It never raises for bad input: the `split` row at the end of
every split reports all problems, including internal faults.

A candidate line contains an anchor (`scan`). For each candidate, the parser strips carriers and JSON envelopes,
parses the header (`prefix`), recognizes the message and checks its position (`records`), and reads the lines below it
(`reader`, `traces`). Every decision depends only on the record and its neighboring lines, never on earlier parts of
the split.
"""

from __future__ import annotations

import contextlib
import functools
import io
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import BinaryIO, Final

import pyarrow as pa

from flowdiag.parsers.catalogue import Catalogue, load_catalogue
from flowdiag.parsers.errors import FlowdiagError, Unreadable, error_clause
from flowdiag.parsers.faults import InternalFault, describe_fault, is_internal_fault
from flowdiag.parsers.flink.prometheus import read_prometheus
from flowdiag.parsers.flink.rest import read_document
from flowdiag.parsers.flink.web_ui import TEXT_BYTES as TABLE_TEXT_BYTES
from flowdiag.parsers.flink.web_ui import contains_table, copied_rows
from flowdiag.parsers.lines.scan import LineScanner, SignFinder
from flowdiag.parsers.logs.paste_patterns import GRAVE
from flowdiag.parsers.logs.paste_rows import ended_with, paste_rows
from flowdiag.parsers.logs.pasted import Pasted
from flowdiag.parsers.logs.pastes import HEAD_BYTES, PASTE_BYTES
from flowdiag.parsers.logs.reader import STRUCTURE, Reader
from flowdiag.parsers.logs.records import Recognizer, open_record
from flowdiag.parsers.rows import EVENTS, Event, Row, RowBuilder, Tally
from flowdiag.parsers.source import LINES, Source, open_source, stream_error
from flowdiag.parsers.sources.excerpts import TEXT_BYTES as EXCERPTED_BYTES
from flowdiag.parsers.sources.excerpts import excerpts, excerpts_at
from flowdiag.parsers.spark.events import EventReader, drop_oversized_numbers
from flowdiag.parsers.spark.reports import TEXT_BYTES as REPORT_TEXT_BYTES
from flowdiag.parsers.spark.reports import contains_report, printed_reports
from flowdiag.parsers.spark.rest import answer_rows
from flowdiag.parsers.spark.web_ui import contains_batches
from flowdiag.parsers.spark.web_ui import copied_rows as spark_tables
from flowdiag.parsers.stacks.dumps import TEXT_BYTES as DUMP_TEXT_BYTES
from flowdiag.parsers.stacks.dumps import contains_dump, printed_rows, without_dumps, wrapped_rows
from flowdiag.parsers.stacks.profiles import is_collapsed
from flowdiag.parsers.stacks.texts import ReadStacks, stack_text_of

TASK_BYTES: Final = 96 * 1024 * 1024
"""Maximum bytes per task. A reused Spark worker stalls for about 40 ms per task, so tasks should be large."""
_LEAST_BYTES: Final = 16 * 1024 * 1024  # minimum bytes per task, unless the whole input is smaller
# Number of tasks for an input of medium size: enough to keep all workers busy until the end.
_TASKS: Final = 16
UNPACKED: Final = 10  # typical compression ratio of logs


@dataclass(frozen=True, slots=True)
class Split:
    """A byte range of a source's decoded stream; an `end` of -1 means the end of the stream."""

    source: Source
    start: int
    end: int


def plan_splits(sources: Sequence[Source], target_bytes: int | None = None) -> list[list[Split]]:
    """Divide the sources into tasks of about `target_bytes` each; small files share a task.

    The default target depends only on the total size of the sources. Every host therefore plans the same tasks, and
    gets the same metric rows, which are aggregated within a task.

    A source that cannot be divided (compressed, UTF-16, a document) is one split. A compressed source counts as
    `UNPACKED` times its size. Sources that are not read get no split. Small files share tasks in the order of the
    sources.
    """
    if target_bytes is None:
        target_bytes = task_bytes(sum(_weight(each) for each in sources))
    tasks: list[list[Split]] = []
    current: list[Split] = []
    current_bytes = 0
    for source in sources:
        if source.kind == "not-read":
            continue
        if source.splittable and source.size > target_bytes:
            count = -(-source.size // target_bytes)
            edges = [source.size * i // count for i in range(count)]
            # The last split has no end, so that it includes data appended to a growing file.
            ends = [*edges[1:], -1]
            tasks.extend(
                [Split(source, start, end)] for start, end in zip(edges, ends, strict=True)
            )
            continue
        weight = _weight(source)
        if current and current_bytes + weight > target_bytes:
            tasks.append(current)
            current, current_bytes = [], 0
        current.append(Split(source, 0, -1))
        current_bytes += weight
    if current:
        tasks.append(current)
    return tasks


def task_bytes(whole: int) -> int:
    """Return the target size of a task, given the number of input bytes.

    >>> [task_bytes(megabytes * 10**6) // 10**6 for megabytes in (100, 300, 1000, 10_000)]
    [16, 18, 62, 100]
    """
    return min(TASK_BYTES, max(_LEAST_BYTES, whole // _TASKS))


def _weight(source: Source) -> int:
    """Return the estimated decompressed size of a source."""
    if source.kind == "not-read":
        return 0
    return source.size if source.codec == "none" else source.size * UNPACKED


@dataclass(frozen=True, slots=True)
class _Task:
    """The split that is being read, and what its reader needs.

    Attributes:
        split: the split.
        tally: running counts for the `split` row.
        rows: collects rows; readers take a batch when it is full.
        metrics: names of the metrics to extract from reports; None for all known metrics.
        catalogue: messages to recognize; None for the default.
    """

    split: Split
    tally: Tally
    rows: RowBuilder
    metrics: Collection[str] | None
    catalogue: Catalogue | None


def parse_split(
    split: Split,
    *,
    catalogue: Catalogue | None = None,
    metrics: Collection[str] | None = None,
    builder: RowBuilder | None = None,
) -> Iterator[pa.RecordBatch]:
    """Read a split into batches of `EVENTS`.

    Args:
        split: a split from `plan_splits`.
        catalogue: messages to recognize; by default all known messages.
        metrics: names of the metrics to extract from reports; None for all known metrics.
        builder: collects rows across splits, so that small splits share a batch. It still holds the last rows
            when this ends, except for the kinds in `_OWN_BATCHES`.

    Yields:
        Batches of at most 2048 rows (8192 for metrics). The last row has the event `split`. Its
        fields are bytes, candidates (lines with an anchor), recognised, not_understood (lines of a
        checkpoint class that match no message), sample_1 to sample_3 of these lines, logger_hits (lines of a
        checkpoint class), truncated_lines, first_us and last_us (printed wall clock, or the instant if only
        that is printed), error (one clause; absent on success) and fault (`faults.encode_fault`, after a
        bug in flowdiag). Rows that Arrow rejects are replaced by additional `split` rows.
    """
    source, tally = split.source, Tally()
    shared = builder is not None and source.kind not in _OWN_BATCHES
    rows = builder if builder is not None and shared else RowBuilder()
    rows.undecided = source.guessed
    read = _READERS.get(source.kind, _read_log)
    try:
        with open_source(source) as stream:
            yield from read(stream, _Task(split, tally, rows, metrics, catalogue))
    except (OSError, Unreadable, FlowdiagError) as problem:
        tally.error = tally.error or error_clause(problem)
    except Exception as error:
        if not is_internal_fault(error):
            raise
        tally.fault = _fault(error, split, tally.at)
    rows.add(tally.row(source.index, split.start))
    if not shared or rows.full:
        yield rows.take()


def _fault(error: Exception, split: Split, at: int | None) -> InternalFault:
    """Describe an error at a stream offset as a fault, with the line number if it can be determined."""
    line = None
    if at is not None and split.source.kind in LINES:
        with contextlib.suppress(OSError, ValueError), open_source(split.source) as stream:
            line = 1 + lines_before(stream, at)
    return describe_fault(error, source=split.source.index, split=split.start, offset=at, line=line)


def lines_before(stream: BinaryIO, offset: int) -> int:
    r"""Count the newlines before an offset in a stream.

    >>> lines_before(io.BytesIO(b"a\nb\nc"), 4)
    2
    """
    count = 0
    while offset > 0 and (data := stream.read(min(offset, 1 << 20))):
        count += data.count(b"\n")
        offset -= len(data)
    return count


def parse_splits(
    splits: Iterable[Split], *, metrics: Collection[str] | None = None
) -> Iterator[pa.RecordBatch]:
    """Parse splits one after the other; the rows of small logs share a batch, because a batch is expensive."""
    builder = RowBuilder()
    for split in splits:
        yield from parse_split(split, metrics=metrics, builder=builder)
    if len(builder):
        yield builder.take()


def parse_on_driver(
    tasks: Sequence[Sequence[Split]], metrics: Collection[str] | None = None
) -> pa.Table:
    """Parse all tasks in this process, without Spark."""
    splits = (split for task in tasks for split in task)
    return pa.Table.from_batches(list(parse_splits(splits, metrics=metrics)), schema=EVENTS)


# -- readers by kind ---------------------------------------------------------------------------


def _read_log(stream: BinaryIO, task: _Task) -> Iterator[pa.RecordBatch]:
    """Read the lines of a log, or the events of a document, which `open_source` turns into lines."""
    split, tally, rows = task.split, task.tally, task.rows
    if _is_profile(split.source):
        if split.start == 0:
            _add_dumps(task)
            tally.bytes = max(split.source.size, 0)
        return
    catalogue = task.catalogue
    if catalogue is None:
        catalogue = load_catalogue("spark" if split.source.engine == "spark" else "flink")
    known = _recognizer(catalogue)
    scanner = LineScanner(
        stream, known.matcher, split.start, split.end, signs=_signs_of(split.source)
    )
    reader = Reader(split.source.index, scanner, known, tally, task.metrics)
    failed = late = False
    try:
        for found in reader.events():
            if isinstance(found, pa.RecordBatch):
                yield found
                continue
            failed = failed or _is_failure(found)
            rows.add(found)
            if rows.full:
                yield rows.take()
        yield from reader.folder.flush()
        if split.start == 0:
            late = _add_pasted(task, (failed, reader.known) if split.end < 0 else None)
            _add_reports(task)
            _add_tables(task)
            _add_dumps(task)
        if not late:
            _add_errors(task, scanner)
        tally.error = stream_error(stream) or scanner.error or tally.error
        reader.extend_time_range()
    finally:
        _count_lines(scanner, tally)


def _is_profile(source: Source) -> bool:
    """Return whether a large text is a profile, which contains no log records."""
    if not PASTE_BYTES < source.size <= DUMP_TEXT_BYTES:
        return False
    with open_source(source) as stream:
        return is_collapsed(stream.read(HEAD_BYTES))


def _is_failure(row: Row) -> bool:
    """Return whether a record reports a failure, which exceptions below other records then only repeat."""
    return row["event"] in _FAILURES or row.get("to_state") in ("FAILED", "FAILING")


_FAILURES: Final = frozenset(
    {
        Event.RESOURCE_FAILURE.value,
        Event.TASKMANAGER_LOST.value,
        Event.EXTERNAL_FAILURE.value,
        Event.SPARK_INCIDENT.value,
        Event.SPARK_OUTPUT.value,
        Event.SPARK_QUERY.value,
    }
)


def _signs_of(source: Source) -> SignFinder | None:
    """Return a finder for failures outside known messages, or None if another step searches every line anyway."""
    plain = source.codec == "none" and source.member is None
    small = plain and 0 <= source.size <= PASTE_BYTES
    return None if small else SignFinder(ERRORS)


def _add_pasted(task: _Task, recorded: tuple[bool, Mapping[int, bool]] | None) -> bool:
    """Add failures outside known records, from all of a small text or the start of a large one.

    Return whether the rest of a large text was searched as well.

    Args:
        task: the first split of the source.
        recorded: the result of `_scan_records`; None if only a part of the source was read.
    """
    split, tally = task.split, task.tally
    source = split.source
    if recorded is not None and not recorded[0] and not tally.recognised and _add_late(task):
        return True
    with open_source(source) as stream:
        data = stream.read(HEAD_BYTES)
        if not 0 <= source.size <= PASTE_BYTES:
            first = data[:2048].lstrip().split(b"\n", 1)[0]
            # If the first line is a record, the lines below belong to it.
            if open_record(first.decode("utf-8", "replace")).head.complete:
                return False
        rest = stream.read(PASTE_BYTES + 1 - len(data)) if len(data) == HEAD_BYTES else b""
    whole = len(data) + len(rest) <= PASTE_BYTES
    text = data + rest if whole else data
    if stack_text_of(data) is not None:
        return False
    if recorded is None:
        recorded = _scan_records(text, source) if whole else (False, {})
    failed, known = recorded
    for row in paste_rows(
        without_dumps(text), source.engine, source.index, whole=whole, failed=failed, known=known
    ):
        _add_failure(task, row)
    return False


def _add_failure(task: _Task, row: Row) -> None:
    tally = task.tally
    task.rows.add(row)
    tally.candidates += 1
    tally.recognised += 1
    if row.get("clock") is None:
        tally.add_time(row["local_us"] if row["local_us"] is not None else row["utc_us"])


def _add_late(task: _Task) -> bool:
    """Add the failures of a large text without known messages. Return whether the text is large."""
    source = task.split.source
    if source.codec == "none" and not PASTE_BYTES < source.size <= EXCERPTED_BYTES:
        return False
    with open_source(source) as stream:
        data = stream.read(EXCERPTED_BYTES + 1)
    if not PASTE_BYTES < len(data) <= EXCERPTED_BYTES:
        return False
    found = excerpts(data)
    for row in paste_rows(
        without_dumps(found.data), source.engine, source.index, whole=True, failed=False
    ):
        _add_failure(task, row | {"offset": found.at(row["offset"])})
    return True


ERRORS: Final = (b"ERROR", b"FATAL", b"SEVERE", b"Exception in thread ", b"Traceback (most recent")
"""Signs of errors in a large log. Exceptions below records without such a sign are often handled."""


def _counts_on_its_own(one: Pasted, source: Source) -> bool:
    """Return whether an exception in a large log counts without a known message.

    In Spark's logs, only exceptions that ended more than a task count, because retries resolve the others.
    """
    if one.level not in GRAVE or not (one.frames or one.python):
        return False
    ended = one.python_trace.in_module or ended_with(one) not in (None, "task")
    return ended or source.engine != "spark"


def _add_errors(task: _Task, scanner: LineScanner) -> None:
    """Add exceptions below error records of a large log, unless a known message reports them."""
    split, source = task.split, task.split.source
    places = scanner.signs.places if scanner.signs is not None else []
    is_part = split.start > 0 or split.end >= 0
    if not places or not (is_part or scanner.bytes_read > PASTE_BYTES):
        return
    with open_source(source) as stream:
        found = excerpts_at(stream, places, seekable=source.splittable)

    def counts(one: Pasted) -> bool:
        begin = found.at(one.offset if one.heading is None else one.heading.offset)
        own = split.start <= begin and (split.end < 0 or begin < split.end)
        return own and _counts_on_its_own(one, source)

    text = without_dumps(found.data)
    known = _scan_records(text, source)[1]
    for row in paste_rows(
        text, source.engine, source.index, whole=True, failed=True, known=known, counts=counts
    ):
        _add_failure(task, row | {"offset": found.at(row["offset"])})


def _add_reports(task: _Task) -> None:
    """Add progress reports that streaming queries print, whether between log records or on their own."""
    source = task.split.source
    if source.engine == "flink" or not 0 <= source.size <= REPORT_TEXT_BYTES:
        return
    with open_source(source) as stream:
        data = stream.read(REPORT_TEXT_BYTES)
    if not contains_report(data):
        return
    for offset, row, damaged in printed_reports(data):
        task.rows.add({"source": source.index, "offset": offset, "template": "printed", **row})
        if damaged and task.tally.error is None:
            places = ", ".join(map(str, damaged))
            task.tally.error = f"damaged JSON: skipped line {places} and read the rest"
        task.tally.candidates += 1
        task.tally.recognised += 1
        task.tally.add_time(row["utc_us"])


def _add_tables(task: _Task) -> None:
    """Add tables copied from the Web UI of Flink or Spark, alone or between other text."""
    source = task.split.source
    contains, read = (
        (contains_batches, spark_tables)
        if source.engine == "spark"
        else (contains_table, copied_rows)
    )
    if not 0 <= source.size <= TABLE_TEXT_BYTES:
        return
    with open_source(source) as stream:
        data = stream.read(TABLE_TEXT_BYTES)
    if not contains(data):
        return
    for offset, row in read(data):
        task.rows.add({**row, "source": source.index, "offset": offset})
        task.tally.candidates += 1
        task.tally.recognised += 1
        if row.get("clock") is None:
            task.tally.add_time(row.get("local_us"))


def _add_dumps(task: _Task) -> None:
    """Add thread dumps of `jstack` and `kill -3`, alone or between log records, and other texts with stacks."""
    source = task.split.source
    if not 0 <= source.size <= DUMP_TEXT_BYTES:
        return
    with open_source(source) as stream:
        data = stream.read(DUMP_TEXT_BYTES)
    read: ReadStacks = printed_rows if contains_dump(data) else wrapped_rows
    if b"Full thread dump " not in data:
        found = stack_text_of(data[:HEAD_BYTES])
        if found is None:
            return
        read = found.rows
    for offset, row in read(data, source.name):
        task.rows.add({**row, "source": source.index, "offset": offset})
        task.tally.candidates += 1
        task.tally.recognised += 1
        task.tally.add_time(row.get("local_us"))


def _scan_records(text: bytes, source: Source) -> tuple[bool, Mapping[int, bool]]:
    """Return whether records of a small text report failures, and `Reader.known` of the text.

    This reads the whole text, because rows must not depend on how it was split.
    """
    known = _recognizer(load_catalogue("spark" if source.engine == "spark" else "flink"))
    scanner = LineScanner(io.BytesIO(text), known.matcher)
    reader = Reader(source.index, scanner, known, Tally(), ())
    failures = [isinstance(row, dict) and _is_failure(row) for row in reader.events()]
    return any(failures), reader.known


def _read_answers(stream: BinaryIO, task: _Task) -> Iterator[pa.RecordBatch]:
    """Read saved responses of Flink's REST API and archives of its History Server."""
    yield from read_document(stream, task.split.source, task.tally, task.metrics)


def _read_samples(stream: BinaryIO, task: _Task) -> Iterator[pa.RecordBatch]:
    """Read metrics that Prometheus scraped or stored."""
    yield from read_prometheus(stream, task.split.source, task.tally, task.metrics)
    task.tally.error = stream_error(stream)


def _read_spark_answers(stream: BinaryIO, task: _Task) -> Iterator[pa.RecordBatch]:
    """Read saved responses of Spark's REST API."""
    source, tally = task.split.source, task.tally
    data = stream.read()
    tally.bytes = len(data)
    tally.error = stream_error(stream)
    for row in answer_rows(data, source.name):
        drop_oversized_numbers(row)
        task.rows.add({**row, "source": source.index})
        tally.candidates += 1
        tally.recognised += 1
        tally.add_time(row.get("utc_us"))
    yield from ()


def _read_spark_events(stream: BinaryIO, task: _Task) -> Iterator[pa.RecordBatch]:
    """Read a Spark event log or the lines of flowdiag's listener."""
    split, tally, rows = task.split, task.tally, task.rows
    reader = EventReader(split.source.index, tally)
    scanner = reader.scanner(stream, split.start, split.end)
    try:
        for row in reader.rows(scanner):
            rows.add(row)
            if rows.full:
                yield rows.take()
        for offset, text in reader.exceptions():
            data = text.encode("utf-8", "replace")
            for row in paste_rows(data, "spark", split.source.index, whole=True, failed=False):
                rows.add(row | {"offset": offset})
        tally.error = stream_error(stream) or scanner.error
    finally:
        _count_lines(scanner, tally)


_READERS: Final[dict[str, Callable[[BinaryIO, _Task], Iterator[pa.RecordBatch]]]] = {
    "log": _read_log,
    "json-lines": _read_log,
    "document": _read_log,
    "rest": _read_answers,
    "archive": _read_answers,
    "prometheus": _read_samples,
    "spark-rest": _read_spark_answers,
    "spark-events": _read_spark_events,
}
"""The reader of each kind of source: it takes an open stream, yields batches, and fills `task.rows`."""

_OWN_BATCHES: Final = frozenset({"prometheus", "spark-rest", "spark-events"})
"""Kinds whose rows do not share batches with other splits."""


def _count_lines(scanner: LineScanner, tally: Tally) -> None:
    tally.bytes, tally.at = scanner.bytes_read, scanner.at
    tally.truncated += scanner.truncated_lines


@functools.lru_cache(maxsize=4)
def _recognizer(catalogue: Catalogue) -> Recognizer:
    return Recognizer(catalogue, STRUCTURE)
