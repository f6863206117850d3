"""From a byte range of a source to Arrow batches of events: the one generator.

`parse_split` is pure Python and Arrow, needs no Spark and never raises for bad input: whatever
goes wrong is said in the `split` row with which every split ends.

A candidate line (one that holds an anchor) goes through: carriers and JSON envelopes off, header
read (`prefix`), message recognised (`catalogue`), the plausibility of both together judged, the
lines that belong to the record read (`traces`). Every decision depends on the record and the
lines beside it, never on what came before in the split.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
import pyarrow as pa

from flowdiag.parsers import prefix
from flowdiag.parsers.catalogue import Catalogue, Recognised, load_catalogue
from flowdiag.parsers.envelopes import unwrap_json
from flowdiag.parsers.errors import FlowdiagError
from flowdiag.parsers.metric_reports import MetricFolder
from flowdiag.parsers.prefix import Prefix, simple_name
from flowdiag.parsers.rest import DocumentCounts, read_document
from flowdiag.parsers.scan import Line, LineScanner, LiteralFinder, Matcher, make_matcher
from flowdiag.parsers.schema import EVENTS, Event
from flowdiag.parsers.sources import Source, open_source, stream_error
from flowdiag.parsers.spark_events import EventReader, event_matcher
from flowdiag.parsers.spark_rest import answer_rows
from flowdiag.parsers.statistics_dump import explode
from flowdiag.parsers.traces import is_exception_line, is_trace_line, read_trace

TASK_BYTES: Final = 96 * 1024 * 1024
"""Bytes per task: a reused Spark worker stalls some 40 ms for each, so not many small ones."""
BATCH_ROWS: Final = 2048
"""Rows per batch: with more, their memory is fresh each time, and its page faults cost more."""
UNPACKED: Final = 10  # logs shrink about so much
TRACE_LINES: Final = 400
TRACE_BYTES: Final = 64 * 1024
REPORT_BYTES: Final = 16 * 1024 * 1024
PARTIAL_BYTES: Final = 1024 * 1024
SAMPLE_CHARACTERS: Final = 300
SAMPLES: Final = 3
MAX_ENVELOPES: Final = 4
WRAPPED_LINES: Final = 3
INNER_LINES: Final = 4000

_REPORT_BEGIN: Final = "Starting metrics report"
_REPORT_END: Final = b"Finished metrics report"
_STRUCTURE: Final = (_REPORT_BEGIN, "Container: ", "LogType:", " <==")


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


def parse_split(split: Split, *, catalogue: Catalogue | None = None) -> Iterator[pa.RecordBatch]:
    """Read a split into batches of `EVENTS`.

    Args:
        split: from `plan_splits`.
        catalogue: messages to recognise; by default all that flowdiag knows.

    Yields:
        batches of at most 2048 rows (of metrics: 8192); the very last row is the only one of event `split`, with
        fields bytes, candidates (lines with an anchor), recognised, not_understood (lines of a
        checkpoint class that match no message), sample_1 to sample_3 of them, logger_hits (lines
        of a checkpoint class), truncated_lines, first_us and last_us (wall clock as printed, or
        the instant where only that is printed), error (one clause, absent if all went well).
    """
    source = split.source
    if source.kind in ("rest", "archive"):
        yield from _read_whole(split)
        return
    if source.kind == "spark-rest":
        yield from _read_answer(split)
        return
    if source.kind == "spark-events":
        yield from _read_spark_events(split)
        return
    tally = _Tally()
    builder = RowBuilder()
    error: str | None = None
    scanner: LineScanner | None = None
    try:
        with open_source(source) as stream:
            knowledge = _knowledge(catalogue if catalogue is not None else load_catalogue())
            scanner = LineScanner(stream, knowledge.matcher, split.start, split.end)
            reader = _Reader(source.index, scanner, knowledge, tally)
            for found in reader.events():
                if isinstance(found, pa.RecordBatch):
                    yield found
                    continue
                builder.add(found)
                if len(builder) == BATCH_ROWS:
                    yield builder.take()
            yield from reader.folder.flush()
            error = stream_error(stream) or scanner.error
            tally.saw_edges(scanner)
    except (OSError, ValueError, FlowdiagError) as problem:
        error = _clause(problem)
    if scanner is not None:
        tally.bytes = scanner.bytes_read
        tally.truncated += scanner.truncated_lines
    builder.add(tally.row(split, error))
    yield builder.take()


def _read_whole(split: Split) -> Iterator[pa.RecordBatch]:
    """REST answers and archives: read by their own reader, with the same last row."""
    tally = _Tally()
    counts = DocumentCounts()
    error: str | None = None
    try:
        yield from read_document(split.source, counts)
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
    builder.add(tally.row(split, error))
    yield builder.take()


def _read_answer(split: Split) -> Iterator[pa.RecordBatch]:
    """A saved answer of Spark's REST interface, with the same last row."""
    tally = _Tally()
    builder = RowBuilder()
    error: str | None = None
    try:
        with open_source(split.source) as stream:
            data = stream.read()
            tally.bytes = len(data)
            error = stream_error(stream)
        for row in answer_rows(data, split.source.name):
            builder.add({**row, "source": split.source.index})
            tally.candidates += 1
            tally.recognised += 1
            tally.saw_instant(row.get("utc_us"))
    except (OSError, ValueError, FlowdiagError) as problem:
        error = error or _clause(problem)
    builder.add(tally.row(split, error))
    yield builder.take()


def _read_spark_events(split: Split) -> Iterator[pa.RecordBatch]:
    """A Spark event log or the lines of flowdiag's listener, with the same last row."""
    tally = _Tally()
    builder = RowBuilder()
    reader = EventReader(split.source.index)
    error: str | None = None
    scanner: LineScanner | None = None
    try:
        with open_source(split.source) as stream:
            scanner = LineScanner(stream, event_matcher(), split.start, split.end)
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
    builder.add(tally.row(split, error))
    yield builder.take()


def _clause(problem: BaseException) -> str:
    if isinstance(problem, OSError) and problem.strerror:
        return problem.strerror[:1].lower() + problem.strerror[1:]
    return str(problem) or type(problem).__name__


# --- what a split was --------------------------------------------------------------------------


@dataclass(slots=True)
class _Tally:
    """What the `split` row says."""

    bytes: int = 0
    candidates: int = 0
    recognised: int = 0
    not_understood: int = 0
    logger_hits: int = 0
    truncated: int = 0
    first_us: int | None = None
    last_us: int | None = None
    samples: list[str] = field(default_factory=list)

    def saw(self, head: Prefix) -> None:
        if head.clock is not None:
            return  # hours and uptimes are no dates
        time = head.local_us if head.local_us is not None else head.utc_us
        if time is None:
            return
        if self.first_us is None or time < self.first_us:
            self.first_us = time
        if self.last_us is None or time > self.last_us:
            self.last_us = time

    def saw_instant(self, time: int | None) -> None:
        if time is not None:
            self.first_us = time if self.first_us is None else min(self.first_us, time)
            self.last_us = time if self.last_us is None else max(self.last_us, time)

    def saw_edges(self, scanner: LineScanner) -> None:
        """Take in the first and last timestamps of the range, relevant lines or not."""
        lines = scanner.first_bytes.split(b"\n")[:40]
        # What is in front of the first line end may be the rest of a line.
        for data in (*lines, *scanner.last_bytes.split(b"\n")[1:][-40:]):
            self.saw(_open(data[:1024].decode("utf-8", "replace")).head)

    def row(self, split: Split, error: str | None) -> dict[str, Any]:
        fields = {
            "bytes": str(self.bytes),
            "candidates": str(self.candidates),
            "recognised": str(self.recognised),
            "not_understood": str(self.not_understood),
            "logger_hits": str(self.logger_hits),
            "truncated_lines": str(self.truncated),
        }
        for number, sample in enumerate(self.samples, 1):
            fields[f"sample_{number}"] = sample
        if self.first_us is not None:
            fields["first_us"] = str(self.first_us)
            fields["last_us"] = str(self.last_us)
        if error is not None:
            fields["error"] = error
        return {
            "source": split.source.index,
            "offset": split.start,
            "event": Event.SPLIT.value,
            "fields": fields,
        }


# --- one record ---------------------------------------------------------------------------------


@dataclass(slots=True)
class _Record:
    """A line with everything around its message taken apart."""

    head: Prefix
    more: list[str] | None = None  # further lines that came inside the same JSON line
    json: bool = False
    partial: bool = False  # the container runtime cut the line; its rest is on the next one


def _open(text: str, depth: int = 0) -> _Record:
    """Take carriers and envelopes off a line, however they are nested."""
    head = prefix.parse(text)
    if (
        head.complete
        or depth == MAX_ENVELOPES
        or not head.text.startswith(prefix.JSON_BEGINS, head.inner)
    ):
        return _Record(head)
    if head.text.startswith('"', head.inner):
        inner = _string(head.text[head.inner :])
        if inner is None:
            prefix.search(head)
            return _Record(head)
        record = _open_lines(inner, depth)
    else:
        unwrapped = unwrap_json(head.text[head.inner :].encode("utf-8", "surrogatepass"))
        if unwrapped is None:
            prefix.search(head)
            return _Record(head)
        if unwrapped.logger and not unwrapped.logger.isspace():
            record = _bare(unwrapped.text, depth)
        else:
            record = _open_lines(unwrapped.text, depth)
        inner_head = record.head
        inner_head.logger = inner_head.logger or unwrapped.logger
        inner_head.level = inner_head.level or _level(unwrapped.level)
        inner_head.thread = inner_head.thread or unwrapped.thread
        inner_head.process = inner_head.process or unwrapped.process
        if inner_head.utc_us is None:
            inner_head.utc_us = unwrapped.timestamp_us
        if inner_head.local_us is None:
            inner_head.local_us = unwrapped.local_us
        record.partial = unwrapped.partial
        if unwrapped.trace:
            record.more = [*(record.more or ()), *_split_lines(unwrapped.trace)]
    record.head.process = record.head.process or head.process
    if record.head.utc_us is None:
        record.head.utc_us = head.utc_us
    if record.head.local_us is None and record.head.utc_us is None:
        # A carrier's wall clock is better than none (`aws logs tail` in front of JSON).
        record.head.local_us, record.head.clock = head.local_us, head.clock
    # What was in front of the JSON is in front of the lines that follow, too.
    record.head.carriers = head.carriers
    record.json = True
    return record


def _body(head: Prefix) -> str:
    return head.text[head.begin : head.end]


def _join(above: _Record, below: _Record) -> _Record:
    """One record of a header (and perhaps half a message) and the line below it."""
    header = above.head.text[above.head.inner : above.head.end].rstrip()
    message = below.head.text[below.head.inner :].strip()
    joined = _open(f"{header} {message}")
    joined.head.process = above.head.process
    joined.head.carriers = above.head.carriers
    joined.json = above.json
    if joined.head.utc_us is None:
        joined.head.utc_us = above.head.utc_us
    return joined


def _open_lines(text: str, depth: int) -> _Record:
    first, *more = _split_lines(text)
    record = _open(first, depth + 1)
    if more:
        record.more = [*more, *(record.more or ())]
    return record


def _bare(text: str, depth: int) -> _Record:
    """The message of an envelope that names the logger: no header, unless there is a time."""
    first, *more = _split_lines(text)
    if prefix.read_stamp(first) is not None or first[:1] == "{":
        record = _open(first, depth + 1)
        if record.head.complete:
            record.more = [*more, *(record.more or ())] if more or record.more else None
            return record
    return _Record(Prefix(first, 0, 0, len(first), complete=True, dated=True), more or None)


def _split_lines(text: str) -> list[str]:
    return text.rstrip("\r\n").replace("\r\n", "\n").split("\n")


def _string(text: str) -> str | None:
    """The content of a JSON string that fills the line, as in an array printed line by line."""
    try:
        return msgspec.json.decode(text.strip().rstrip(",").encode("utf-8", "replace"), type=str)
    except msgspec.DecodeError:
        return None


def _level(printed: str | None) -> str | None:
    if printed is None:
        return None
    return prefix.load_layouts().levels.get(printed.strip().upper(), printed)


# --- what is known ------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, slots=True)
class _Knowledge:
    """A catalogue with its matchers."""

    catalogue: Catalogue
    matcher: Matcher  # finds lines that hold any anchor
    finder: LiteralFinder  # finds which anchors of messages a line holds
    anchors: tuple[int, ...]  # position in the finder -> position in the catalogue
    drift: frozenset[str]


@functools.lru_cache(maxsize=4)
def _knowledge(catalogue: Catalogue) -> _Knowledge:
    known = {template.anchor for template in catalogue.templates}
    anchors = tuple(number for number, one in enumerate(catalogue.anchors) if one in known)
    return _Knowledge(
        catalogue,
        make_matcher((*catalogue.anchors, *_STRUCTURE)),
        LiteralFinder([catalogue.anchors[number] for number in anchors]),
        anchors,
        frozenset(catalogue.drift_loggers),
    )


_SEPARATED = re.compile(r"(?:^|- |-|: |\] ?|\| ?|\t|[\"'`(]|[-—>] )\s*\Z")
_THROWN = re.compile(r"(?:Exception|Error|Throwable)[\w$]*: ?\Z|Caused by: \Z")
_CLASS_BEFORE = re.compile(r"([A-Z][\w$]*)(?::\d+)?\]?\s*(?:\[[^\]\n]*\])?\s*(?:[-:|]\s*)?\Z")
_FOREIGN: Final = frozenset(("seatunnel", "spark", "storm", "samza", "heron", "beam", "gearpump"))
_FAMILIAR: Final = re.compile(
    r"(?:^|[._-])(?:flink|kafka|hadoop|zookeeper|curator|akka|pekko|netty|rocksdb|frocksdb)",
    re.IGNORECASE,
)
_DOMAINS: Final = frozenset(("com", "net", "io", "cn", "ru", "de", "edu", "gov", "c", "n"))


@functools.lru_cache(maxsize=1024)
def _foreign(logger: str) -> bool:
    """Whether a logger belongs to another engine, which may borrow Flink's names and words.

    Abbreviated packages count: `o.a.s.` is SeaTunnel or Spark, `o.a.f.` is Flink.

    >>> _foreign("org.apache.seatunnel.engine.server.checkpoint.CheckpointCoordinator")
    True
    >>> [_foreign(name) for name in ("CheckpointCoordinator", "o.a.f.r.c.CheckpointCoordinator")]
    [False, False]
    """
    package, _, _ = logger.rpartition(".")
    if not package or _FAMILIAR.search(package):
        return False
    parts = package.split(".")
    if _FOREIGN.intersection(parts):
        return True
    if len(parts) < 3:
        return False
    if parts[0] in ("org", "o") and parts[1] in ("apache", "a"):
        return parts[2] not in ("f", "k", "h", "z", "c", "~", "")
    return parts[0] in _DOMAINS


# --- the records of a split ---------------------------------------------------------------------


class _Reader:
    """Turns the candidates of one scanner into rows."""

    def __init__(
        self, source: int, scanner: LineScanner, knowledge: _Knowledge, tally: _Tally
    ) -> None:
        self.folder = MetricFolder(source)
        self._source = source
        self._scanner = scanner
        self._knowledge = knowledge
        self._tally = tally

    def events(self) -> Iterator[dict[str, Any] | pa.RecordBatch]:
        tally = self._tally
        for line in self._scanner:
            tally.candidates += 1
            data = line.data
            # Frames name the classes whose names are anchors: the most frequent of false hits.
            if data.lstrip().startswith((b"at ", b"... ")):
                continue
            text = data.decode("utf-8", "replace")
            record = _open(text)
            if b" metrics report" in data and _REPORT_BEGIN in text:
                yield from self._report(line, record)
                continue
            if record.head.text.startswith(_SECTION_BEGINS, record.head.inner):
                section = self._section(line, record)
                if section is not None:
                    yield section
                    continue
            row = self._record(line, record)
            if row is not None:
                fields = row.get("fields")
                if fields and "dump" in fields:
                    yield from self._explode(row)
                yield row
            if record.more is not None:
                yield from self._inner_lines(line, record)

    def _record(self, line: Line, record: _Record) -> dict[str, Any] | None:
        offset = line.offset
        head = record.head
        found: Recognised | None = None
        if not head.complete and not head.dated and (above := self._above()) is not None:
            # No header of its own: the message of one that stands above it, or part of its text.
            joined = _join(above[1], record)
            if above[1].head.alone or not _body(above[1].head).strip():
                offset, record = above[0].offset, joined
                head = record.head
            else:
                # A record that is a candidate itself reads its own lines.
                if not self._knowledge.matcher.find(above[0].data):
                    found = self._recognise(joined.head)
                if found is not None and found.end > len(_body(above[1].head)) + joined.head.begin:
                    offset, record = above[0].offset, joined
                    head = record.head
                elif self._stands_alone(head):
                    found = None
                else:
                    return None
        if record.partial or head.text.endswith(" P ", 0, head.inner):
            self._add_partials(record)
        body = _body(head)
        without_message = head.complete and not body.strip()
        if found is None and not without_message:
            found = self._recognise(head)
        if found is None and head.complete and (other := prefix.message_first(head)) is not None:
            found = self._recognise(other)
            if found is not None:
                head = record.head = other
        simple = simple_name(head.logger) if head.logger else None
        drift = (
            head.complete
            and simple in self._knowledge.drift
            and not _foreign(head.logger or "")
            and (found is not None or not (is_trace_line(body) or is_exception_line(body)))
        )
        if found is None and head.complete and record.more is None:
            wrapped = self._with_lines(record)
            if wrapped is not None:
                found = self._recognise(wrapped)
                if found is not None and without_message:
                    return None  # the line with the message looks up to this one
        self._tally.logger_hits += drift
        if found is None:
            if drift and (not without_message or head.alone):
                self._tally.not_understood += 1
                self._tally.saw(head)
                if len(self._tally.samples) < SAMPLES:
                    sample = head.text[head.inner : head.inner + SAMPLE_CHARACTERS]
                    self._tally.samples.append(sample)
            return None
        self._tally.recognised += 1
        self._tally.saw(head)
        row = self._row(offset, head, found)
        if found.template.trace:
            self._add_trace(record, row)
        return row

    def _inner_lines(self, line: Line, record: _Record) -> Iterator[dict[str, Any]]:
        """Messages among the further lines of one JSON line, judged as if they were lines."""
        for text in (record.more or ())[:INNER_LINES]:
            if not self._knowledge.finder.which(text) or is_trace_line(text):
                continue
            head = prefix.parse(text)
            found = self._recognise(head)
            if found is None or (found.template.loggers and not head.complete):
                continue
            self._tally.recognised += 1
            row = self._row(line.offset, head, found)
            if record.head.process is not None:
                row["process"] = record.head.process
            yield row

    def _row(self, offset: int, head: Prefix, found: Recognised) -> dict[str, Any]:
        row: dict[str, Any] = {
            "source": self._source,
            "offset": offset,
            "event": found.template.event,
            "template": found.template.id,
            "local_us": head.local_us,
            "utc_us": head.utc_us,
            "level": head.level,
            "logger": simple_name(head.logger) if head.logger else None,
            **found.values,
        }
        if head.clock is not None:
            row["clock"] = head.clock
        if head.thread is not None:
            row["thread"] = head.thread
        if head.process is not None:
            row["process"] = head.process
        return row

    def _above(self) -> tuple[Line, _Record] | None:
        """The record on the line before, if that line has a header."""
        before = self._scanner.preceding()
        if before is None:
            return None
        above = _open(before.data.decode("utf-8", "replace"))
        return (before, above) if above.head.complete and above.head.dated else None

    def _stands_alone(self, head: Prefix) -> bool:
        """Whether a line without header, below a record, is a message: not one of a logger's."""
        found = self._recognise(head)
        return found is not None and not found.template.loggers

    # -- recognising ------------------------------------------------------------------------

    def _recognise(self, head: Prefix) -> Recognised | None:
        """The message of a record, if it is one that is known and plausible where it stands."""
        text = head.text if head.end == len(head.text) else head.text[: head.end]
        which = self._knowledge.finder.which(text)
        if not which:
            return None
        anchors = [self._knowledge.anchors[number] for number in which]
        recognise = self._knowledge.catalogue.recognise
        best: Recognised | None = None
        if head.complete:
            for anchor in anchors:
                found = recognise(text, anchor, begin=head.begin)
                if found is None or text[head.begin : found.start].strip(" \t\"'"):
                    continue
                if head.logger and not _logged_by(head.logger, found):
                    continue
                if best is None or found.end > best.end:
                    best = found
            if best is not None:
                return best
        # Nothing begins where the header ends, or no header was understood: look further right.
        for anchor in anchors:
            found = recognise(text, anchor)
            if found is None or found.start < head.inner or not _plausible(head, found):
                continue
            if best is None or found.start < best.start:
                best = found
        if best is not None and not head.complete:
            _describe(head, best)
        return best

    # -- neighbours --------------------------------------------------------------------------

    def _add_partials(self, record: _Record) -> None:
        """Put together a line that the container runtime cut into pieces of 16 KiB."""
        head = record.head
        pieces = [head.text[: head.end]]
        size = len(head.text)
        for line in self._scanner.following():
            text = line.data.decode("utf-8", "replace")
            if record.json:
                opened = _open(prefix.strip_like(text, head))
                if not opened.json or opened.head.process not in (None, head.process):
                    continue
                piece, goes_on = opened.head.text, opened.partial
            else:
                piece = prefix.strip_like(text, head)
                goes_on = text.endswith(" P ", 0, len(text) - len(piece))
            pieces.append(piece)
            size += len(piece)
            if not goes_on or size > PARTIAL_BYTES:
                break
        head.text = "".join(pieces)
        head.end = len(head.text)

    def _with_lines(self, record: _Record) -> Prefix | None:
        """The record with up to three following lines behind it: mail and terminals wrap lines."""
        head = record.head
        pieces: list[str] = []
        for text in self._continuation(record):
            if is_trace_line(text) or is_exception_line(text) or len(pieces) == WRAPPED_LINES:
                break
            pieces.append(text.strip())
        if not pieces:
            return None
        joined = " ".join((head.text[: head.end].rstrip(), *pieces))
        return Prefix(
            joined, head.inner, head.begin, len(joined), complete=True, logger=head.logger
        )

    def _continuation(self, record: _Record) -> Iterator[str]:
        """The lines that belong to the record, without carriers, within the limits of a trace."""
        if record.more is not None:
            yield from record.more[:TRACE_LINES]
            return
        head = record.head
        plain = not head.carriers and not record.json
        size = 0
        first = True
        for number, line in enumerate(self._scanner.following()):
            data = line.data
            size += len(data)
            if number == TRACE_LINES or size > TRACE_BYTES:
                return
            text = data.decode("utf-8", "replace")
            if plain:
                if data[:4] == b"\tat ":
                    yield text
                    continue
                text = prefix.strip_colours(text)
            else:
                inner = prefix.strip_like(text, head)
                if head.process is not None and not record.json:
                    process = prefix.process_of(text, head)
                    if process is not None and process != head.process:
                        continue  # another process writes in between
                text = inner
            if record.json:
                unwrapped = _open(text)
                if not unwrapped.json:
                    if text.startswith(prefix.JSON_BEGINS):
                        continue  # an empty line in its envelope
                    return
                if head.process is not None and unwrapped.head.process not in (
                    None,
                    head.process,
                ):
                    continue
                follows = self._follows(unwrapped.head, head, first)
                if follows is None:
                    return
                yield follows
                yield from unwrapped.more or ()
            else:
                if not text.strip() or is_trace_line(text):
                    yield text
                    continue
                if _is_structure(text):
                    return
                if text[0] in " \t" and prefix.read_stamp(text.lstrip()) is None:
                    yield text
                    continue
                follows = self._follows(prefix.parse(text), head, first)
                if follows is None:
                    return
                yield follows
            first = False

    @staticmethod
    def _follows(line: Prefix, head: Prefix, first: bool) -> str | None:
        """What a line adds to the record above it; None if it begins a record of its own."""
        text = line.text[line.begin : line.end]
        if line.complete or line.dated:
            # Some layouts put a header in front of every line of a stack trace.
            belongs = is_trace_line(text) or (first and is_exception_line(text))
            return text if belongs and line.complete and line.logger == head.logger else None
        text = line.text[line.inner :]
        if head.local_us is not None or head.utc_us is not None:
            return text
        return text if is_exception_line(text) or is_trace_line(text) else None

    def _add_trace(self, record: _Record, row: dict[str, Any]) -> None:
        given = row.get("cause")
        trace = read_trace(self._continuation(record), given)
        if trace.cause is not None:
            row["cause"] = trace.cause
        extra = {}
        if trace.exception is not None:
            extra["exception"] = trace.exception
        if trace.user_frame is not None:
            extra["user_frame"] = trace.user_frame
        if extra:
            row["fields"] = {**(row.get("fields") or {}), **extra}

    # -- blocks ------------------------------------------------------------------------------

    def _report(self, line: Line, record: _Record) -> Iterator[pa.RecordBatch]:
        """A metrics report: its header is on the line before, its values on those behind."""
        scanner = self._scanner
        offset = line.offset
        header = record
        if not record.head.complete and (before := scanner.preceding()) is not None:
            above = _open(before.data.decode("utf-8", "replace"))
            if above.head.complete and not above.head.text[above.head.begin :].strip():
                offset, header = before.offset, above
        head = header.head
        self._tally.recognised += 1
        self._tally.saw(head)
        lines: Iterable[bytes]
        if record.more is not None:
            lines = [text.encode("utf-8", "replace") for text in record.more]
        elif head.carriers or record.json:
            lines = self._report_lines(header)
        else:
            block = scanner.block(_REPORT_END, REPORT_BYTES)
            self._tally.truncated += len(block) == REPORT_BYTES
            cut = _next_record().search(block)
            lines = (block if cut is None else block[: cut.start()]).split(b"\n")
            scanner.skip_to(
                line.offset + len(line.data) + (len(block) if cut is None else cut.start())
            )
        yield from self.folder.add_block(
            lines,
            offset=offset,
            local_us=head.local_us,
            utc_us=head.utc_us,
            clock=head.clock,
            process=head.process,
        )

    def _report_lines(self, record: _Record) -> Iterator[bytes]:
        head = record.head
        size = 0
        for line in self._scanner.following():
            size += len(line.data)
            if size > REPORT_BYTES:
                self._tally.truncated += 1
                return
            text = line.data.decode("utf-8", "replace")
            process = prefix.process_of(text, head)
            if head.process is not None and process is not None and process != head.process:
                continue
            text = prefix.strip_like(text, head)
            if record.json:
                opened = _open(text)
                if not opened.json:
                    if text.startswith(prefix.JSON_BEGINS):
                        continue  # an empty line in its envelope
                    return
                text = opened.head.text[opened.head.inner :]
            if prefix.read_stamp(text) is not None and prefix.parse(text).complete:
                return
            yield text.encode("utf-8", "replace")
            if "Finished metrics report" in text:
                return

    def _section(self, line: Line, record: _Record) -> dict[str, Any] | None:
        """A header inside the stream: YARN's aggregated logs, or `tail` of several files."""
        found = _STRUCTURE_LINE.match(record.head.text, record.head.inner)
        if found is None:
            return None
        row: dict[str, Any] = {
            "source": self._source,
            "offset": line.offset,
            "event": Event.SECTION.value,
            "template": "section",
        }
        if found["container"]:
            row["process"] = found["container"]
            row["host"] = _PORT.sub("", found["node"]) or None
        elif found["tail"]:
            row["process"] = found["tail"]
            row["fields"] = {"file": found["tail"]}
        elif found["ended"]:
            row["fields"] = {"ended": found["ended"]}
        else:
            row["fields"] = {"file": found["file"]}
        return row

    def _explode(self, row: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """The rows of a `CheckpointStatistics … dump`; the dump itself is dropped from its row."""
        fields = row["fields"]
        dump = fields.pop("dump")
        for found in explode(dump, row.get("job_id"), row.get("checkpoint")):
            found["source"] = self._source
            found["offset"] = row["offset"]
            for name in ("level", "logger", "thread", "process"):
                if row.get(name) is not None:
                    found.setdefault(name, row[name])
            yield found


_STRUCTURE_LINE = re.compile(
    r"(?:Container: (?P<container>container_\S+) on (?P<node>\S+)"
    r"|End of LogType: ?(?P<ended>[^\s.][^\s]*?)\.?(?:\s.*)?$"
    r"|LogType: ?(?P<file>\S+)"
    r"|==> (?P<tail>\S.*) <==$)"
)
_SECTION_BEGINS: Final = ("Container: ", "LogType:", "End of LogType:", "==> ")
_PORT = re.compile(r"[_:]\d{1,5}$")


def _is_structure(text: str) -> bool:
    return text.startswith((*_SECTION_BEGINS, "LogLength:"))


@functools.cache
def _next_record() -> re.Pattern[bytes]:
    """Finds, in the lines of a report that was cut short, where the next record begins."""
    stampish = prefix.load_layouts().stampish.pattern
    return re.compile(b"(?<=\n)" + stampish.encode())


def _logged_by(logger: str, found: Recognised) -> bool:
    loggers = found.template.loggers
    return not loggers or (simple_name(logger) in loggers and not _foreign(logger))


def _plausible(head: Prefix, found: Recognised) -> bool:
    """Whether a message that does not stand directly behind a header is still the record's own.

    Frames, exceptions and other loggers quote messages: those are refused.
    """
    text = head.text
    before = text[head.inner if not head.complete else head.begin : found.start]
    if head.complete and head.logger:
        if not found.template.loggers or not _logged_by(head.logger, found):
            return False
        return _SEPARATED.search(before) is not None and _THROWN.search(before) is None
    if _THROWN.search(before):
        return False
    if not before.strip():
        return True
    named = _CLASS_BEFORE.search(before)
    if named is not None and found.template.loggers:
        full = text[head.inner : found.start][: named.start() + len(named[1])]
        logger = re.split(r"[\s\[(<|]", full)[-1]
        if simple_name(named[1]) in found.template.loggers:
            return not _foreign(logger)
        if "." in logger:
            return False
    return _SEPARATED.search(before) is not None


_LEVEL_WORD = re.compile(r"(?<![\w.])(TRACE|DEBUG|INFO|WARN(?:ING)?|ERROR|FATAL|SEVERE)(?![\w.])")
_BRACKETS = re.compile(r"\[([^\[\]\n]{1,512})\]")


def _describe(head: Prefix, found: Recognised) -> None:
    """Fill in level, logger and thread from a header of unknown shape."""
    before = head.text[head.inner : found.start]
    level = _LEVEL_WORD.search(before)
    if level is not None and head.level is None:
        head.level = _level(level[1])
    names = found.template.loggers
    if names and head.logger is None:
        pattern = r"(?:[\w$-]*\.)*(?:" + "|".join(map(re.escape, names)) + r")(?![\w$])"
        logger = re.search(pattern, before)
        if logger is not None:
            head.logger = logger[0]
    thread = _BRACKETS.search(before)
    if thread is not None and head.thread is None and not _LEVEL_WORD.fullmatch(thread[1].strip()):
        head.thread = thread[1].strip() or None


def parse_on_driver(tasks: Sequence[Sequence[Split]]) -> pa.Table:
    """Parse here and now, without Spark; one `split` row per split, as everywhere."""
    batches = [batch for task in tasks for split in task for batch in parse_split(split)]
    return pa.Table.from_batches(batches, schema=EVENTS)
