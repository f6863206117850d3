"""Converts a scanner's candidate lines, and the lines below them, to rows of events."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from enum import Enum, auto
from itertools import islice
from typing import Any, Final, NamedTuple

import pyarrow as pa

from flowdiag.parsers.catalogue import Recognized
from flowdiag.parsers.components import part_of, process_of
from flowdiag.parsers.exceptions import classify, task_named_in
from flowdiag.parsers.flink.metric_reports import MetricFolder
from flowdiag.parsers.flink.statistics_dump import parse_dump
from flowdiag.parsers.lines import prefix
from flowdiag.parsers.lines.contexts import is_vague, message_of, with_context
from flowdiag.parsers.lines.failure_lines import failure_line
from flowdiag.parsers.lines.prefix import Prefix, simple_name
from flowdiag.parsers.lines.scan import Line, LineScanner
from flowdiag.parsers.lines.traces import (
    ANNOUNCES,
    CAUSE_CHARACTERS,
    Trace,
    is_exception_line,
    is_trace_line,
    middle_of,
    own_frame,
    read_trace,
    thrown_at,
)
from flowdiag.parsers.logs.bodies import fold_bodies
from flowdiag.parsers.logs.pastes import PASTE_BYTES
from flowdiag.parsers.logs.records import (
    Recognizer,
    Record,
    body_of,
    is_foreign,
    join,
    open_record,
)
from flowdiag.parsers.rows import SAMPLE_CHARACTERS, Event, Tally
from flowdiag.parsers.spark.causes import (
    OF_THE_JVM,
    decisive_exception,
    full_heap,
    python_error,
    python_frame,
)
from flowdiag.parsers.spark.log import finish
from flowdiag.parsers.spark.rest import application_of_container

TRACE_LINES: Final = 400
TRACE_BYTES: Final = 64 * 1024
REPORT_BYTES: Final = 16 * 1024 * 1024
PARTIAL_BYTES: Final = 1024 * 1024
WRAPPED_LINES: Final = 3
_DIAGNOSTICS: Final = 12  # maximum lines of YARN's diagnostics below the line about a container
_CRASH_LINES: Final = 20  # maximum lines read from the start of a JVM crash report
_CLIENT_OPTIONS: Final = 40  # options are sorted by name
_BOOTSTRAP: Final = re.compile(r"\s{0,40}bootstrap\.servers = \[(?P<servers>[^\]\n]{1,2000})\]")
_SIGNAL: Final = re.compile(
    r"(?:SIG[A-Z0-9]{2,8}|EXCEPTION_[A-Z_]{3,40}|Internal Error) \([^()\n]{1,120}\)"
)
INNER_LINES: Final = 4000

_REPORT_BEGIN: Final = "Starting metrics report"
# A line of pretty-printed JSON with a string, and the starts of the object's other lines.
_MEMBER: Final = re.compile(r'\s{0,200}\{?\s{0,40}"[\w .@/-]{1,80}"\s{0,8}:\s{0,8}"')
_BODY_STARTS: Final = (b"", b'"', b"{", b"}", b"[", b"]")
_GIVEN_UP: Final = "JobException: Recovery is suppressed by "
_REPORT_END: Final = b"Finished metrics report"
STRUCTURE: Final = (_REPORT_BEGIN, "Container: ", "LogType:", " <==")


class _State(Enum):
    """Positions of a record's header and message."""

    HEADER = auto()  # on the same line
    ALONE = auto()  # the header fills its line; the message is on the next one
    JOINED = auto()  # the header is on the line above
    BARE = auto()  # no header


class _Candidate(NamedTuple):
    """A record that may have a known message; `found` is that message if it is already recognized."""

    state: _State
    offset: int
    record: Record
    found: Recognized | None = None


def _is_unused_failure(record: Record, found: Recognized) -> bool:
    """Return whether a record reports a failure through a known message that no rule uses, or only some commands."""
    if found.template.id == "application-not-executed":
        return True
    only_known = found.template.trace and found.template.event is Event.KNOWN
    return only_known and failure_line(body_of(record.head)) is not None


class Reader:
    """Turns the candidates of one scanner into rows."""

    def __init__(
        self,
        source: int,
        scanner: LineScanner,
        known: Recognizer,
        tally: Tally,
        metrics: Collection[str] | None = None,
    ) -> None:
        """Prepare to read, without reading anything.

        Args:
            source: index of the source.
            scanner: yields the candidate lines.
            known: recognizes their messages.
            tally: counts for the `split` row, updated while reading.
            metrics: names of the metrics to extract; None for all known metrics.
        """
        self.folder = MetricFolder(source, metrics)
        self.known: dict[int, bool] = {}
        """The records with a known message, by offset, each with whether its stack trace is read."""
        self._source = source
        self._scanner = scanner
        self._known = known
        self._tally = tally

    def events(self) -> Iterator[dict[str, Any] | pa.RecordBatch]:
        """Yield rows (missing columns are null) and batches of metric rows."""
        tally = self._tally
        for line in self._scanner:
            tally.candidates += 1
            data = line.data
            # Stack frames contain class names that are anchors. They are the most frequent false hits.
            if data.lstrip().startswith((b"at ", b"... ")):
                continue
            text = data.decode("utf-8", "replace")
            record = open_record(text)
            if b" metrics report" in data and _REPORT_BEGIN in text:
                yield from self._report(line, record)
                continue
            if record.head.text.startswith(_SECTION_BEGINS, record.head.inner):
                section = self._section(line, record)
                if section is not None:
                    yield section
                    continue
            row = self._record(line, record)
            if row is not None and self._known.catalogue.engine == "spark":
                yield from finish(row, self._continuation(record))
            elif row is not None:
                fields = row.get("fields")
                if fields and "dump" in fields:
                    yield from self._dump_rows(row)
                yield row
            if record.more is not None:
                yield from self._inner_lines(line, record)

    def _record(self, line: Line, record: Record) -> dict[str, Any] | None:
        """Return the row for a candidate line, or None if it has no known message or belongs to another record."""
        candidate = self._candidate(line.offset, record)
        if candidate is None:
            return None
        state, offset, record, found = candidate
        self._add_partials(record)
        body = body_of(record.head)
        if record.head.complete and not body.strip():
            state = _State.ALONE
        if found is None:
            found = self._message_on_line(record, state)
        head = record.head
        drift = self._is_of_drift_class(head, body, found)
        if found is None:
            found = self._message_on_wrapped_lines(record)
            if found is not None and state is _State.ALONE:
                return None  # the line with the message will be joined with this header
        self._tally.logger_hits += drift
        if found is None:
            if drift and (state is not _State.ALONE or head.alone):
                self._add_time(head)
                self._tally.add_unrecognized(head.text[head.inner : head.inner + SAMPLE_CHARACTERS])
            return None
        if found.template.id == _NOT_FINALIZED and not head.complete:
            return None  # an exception outside records, which `pastes` reports
        self._tally.recognised += 1
        self._add_time(head)
        # The message below the header may be the exception itself.
        below = line.offset != offset
        return self._row_with_lines(offset, record, found, is_trace=found.template.trace or below)

    def _row_with_lines(
        self, offset: int, record: Record, found: Recognized, *, is_trace: bool
    ) -> dict[str, Any]:
        """Return the row of a record, completed from the following lines of its message."""
        if offset < PASTE_BYTES and not _is_unused_failure(record, found):
            # A client repeats a refused request, so only many refusals are a finding of their own.
            self.known[offset] = is_trace and found.template.event is not Event.REFUSED
        row = self._row(offset, record.head, found)
        if found.template.trace:
            self._add_trace(record, row)
        if row["event"] == Event.TASKMANAGER_LOST or found.template.id == "worker-terminated":
            self._add_diagnostics(record, row)
        if found.template.id == "jvm-crashed":
            self._add_crash(record, row)
        if found.template.id == "out-of-memory":
            self._add_process(record, row)
        if found.template.id == "kafka-client-configured":
            self._add_bootstrap_servers(record, row)
        return row

    def _message_on_line(self, record: Record, state: _State) -> Recognized | None:
        """Find the message on the record's first line, even if the layout puts the message first."""
        found = self._known.recognize(record.head) if state is not _State.ALONE else None
        if found is None and record.head.complete:
            other = prefix.with_message_first(record.head)
            found = None if other is None else self._known.recognize(other)
            if other is not None and found is not None:
                record.head = other
        return found

    def _message_on_wrapped_lines(self, record: Record) -> Recognized | None:
        if not record.head.complete or record.more is not None:
            return None
        wrapped = self._with_lines(record)
        return None if wrapped is None else self._known.recognize(wrapped)

    def _is_of_drift_class(self, head: Prefix, body: str, found: Recognized | None) -> bool:
        """Return whether a line that flowdiag did not recognize comes from a class whose messages are all known."""
        return (
            head.complete
            and head.logger is not None
            and simple_name(head.logger) in self._known.drift
            and not is_foreign(head.logger, self._known.catalogue.engine)
            and (found is not None or not (is_trace_line(body) or is_exception_line(body)))
        )

    def _candidate(self, offset: int, record: Record) -> _Candidate | None:
        """Return the record of a candidate line, or None if the line belongs to another record."""
        if record.head.complete or record.head.dated:
            return _Candidate(_State.HEADER, offset, record)
        before = self._scanner.preceding()
        if before is None:
            return _Candidate(_State.BARE, offset, record)
        above = open_record(before.data.decode("utf-8", "replace"))
        if self._is_in_quoted_body(record):
            return None
        if not above.head.complete or not above.head.dated:
            return _Candidate(_State.BARE, offset, record)
        return self._below_record(offset, record, before, above)

    def _below_record(
        self, offset: int, record: Record, before: Line, above: Record
    ) -> _Candidate | None:
        """Return the candidate in a line without a header, which belongs to the record above."""
        joined = join(above, record)
        if above.head.alone or not body_of(above.head).strip():
            return _Candidate(_State.JOINED, before.offset, joined)
        # If the record above is a candidate, it reads its own lines.
        if not self._known.is_candidate(before.data):
            found = self._known.recognize(joined.head)
            if found is not None and found.end > joined.head.begin + len(body_of(above.head)):
                return _Candidate(_State.JOINED, before.offset, joined, found)
        # Exceptions and the like have no header, but messages of a logger always have one.
        found = self._known.recognize(record.head)
        if found is None or found.template.loggers:
            return None
        if found.template.id == _NOT_FINALIZED:
            # The event happened at the time of the record above, unless that record reports it.
            if self._known.recognize(above.head) is not None:
                return None
            return _Candidate(_State.JOINED, before.offset, joined, found)
        return _Candidate(_State.BARE, offset, record, found)

    def _is_in_quoted_body(self, record: Record) -> bool:
        """Return whether a line belongs to a JSON body that a record above quotes, so that it is no event."""
        if record.json or not _MEMBER.match(record.head.text, record.head.inner):
            return False
        for line in self._scanner.above():
            if line.data.lstrip()[:1] not in _BODY_STARTS:
                head = open_record(line.data.decode("utf-8", "replace")).head
                return head.complete and head.dated
        return False

    def _inner_lines(self, line: Line, record: Record) -> Iterator[dict[str, Any]]:
        """Yield rows for the other lines of the text inside a JSON line, as if they were lines of the file."""
        for text in (record.more or ())[:INNER_LINES]:
            if not self._known.holds_message(text) or is_trace_line(text):
                continue
            head = prefix.parse(text)
            found = self._known.recognize(head)
            if found is None or (found.template.loggers and not head.complete):
                continue
            self._tally.recognised += 1
            row = self._row(line.offset, head, found)
            if record.head.process is not None:
                row["process"] = record.head.process
            if self._known.catalogue.engine == "spark":
                yield from finish(row, ())
            else:
                yield row

    def _row(self, offset: int, head: Prefix, found: Recognized) -> dict[str, Any]:
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

    # -- times -------------------------------------------------------------------------------

    def _add_time(self, head: Prefix) -> None:
        """Extend the time range to include a record, unless the record has no date."""
        if head.clock is None:
            self._tally.add_time(head.local_us if head.local_us is not None else head.utc_us)

    def extend_time_range(self) -> None:
        """Extend the time range to include the first and last lines of the split, whether candidates or not."""
        scanner = self._scanner
        lines = scanner.first_bytes.split(b"\n")[:40]
        # The bytes before the first newline may be only part of a line.
        lines += scanner.last_bytes.split(b"\n")[1:][-40:]
        # In a short file both ends contain the same lines.
        for data in prefix.lines_bounding_time(
            dict.fromkeys(line[:1024] for line in lines if line)
        ):
            text = data.decode("utf-8", "replace")
            time = prefix.time_of_default_layout(text) if data[:1].isdigit() else None
            if time is not None:
                self._tally.add_time(time)
            else:
                self._add_time(open_record(text).head)

    # -- neighbors --------------------------------------------------------------------------

    def _add_partials(self, record: Record) -> None:
        """Append the other pieces of a line that the container runtime split at 16 KiB."""
        head = record.head
        if not record.partial and not head.text.endswith(" P ", 0, head.inner):
            return
        pieces = [head.text[: head.end]]
        size = len(head.text)
        for line in self._scanner.following():
            text = line.data.decode("utf-8", "replace")
            if record.json:
                opened = open_record(prefix.strip_like(text, head))
                if not opened.json or opened.head.process not in (None, head.process):
                    continue
                piece, continues = opened.head.text, opened.partial
            else:
                piece = prefix.strip_like(text, head)
                continues = text.endswith(" P ", 0, len(text) - len(piece))
            pieces.append(piece)
            size += len(piece)
            if not continues or size > PARTIAL_BYTES:
                break
        head.text = "".join(pieces)
        head.end = len(head.text)

    def _with_lines(self, record: Record) -> Prefix | None:
        """Return the record joined with up to three next lines, or None, because mail programs and terminals wrap."""
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

    def _continuation(self, record: Record) -> Iterator[str]:
        """Yield the record's other lines without their carriers."""
        if record.more is not None:
            return iter(record.more[:TRACE_LINES])
        return self._json_below(record) if record.json else self._text_below(record)

    def _lines_below(self) -> Iterator[str]:
        """Yield the decoded lines below the current candidate, within the limits of a stack trace."""
        size = 0
        for line in islice(self._scanner.following(), TRACE_LINES):
            size += len(line.data)
            if size > TRACE_BYTES:
                return
            yield line.data.decode("utf-8", "replace")

    def _json_below(self, record: Record) -> Iterator[str]:
        head = record.head
        first = True
        for line in self._lines_below():
            text = prefix.strip_like(line, head)
            opened = open_record(text)
            if not opened.json:
                if text.startswith(prefix.JSON_BEGINS):
                    continue  # an empty line in its envelope
                return
            if head.process is not None and opened.head.process not in (None, head.process):
                continue  # a line of another process
            follows = self._follows(opened.head, head, first)
            if follows is None:
                return
            yield follows
            yield from opened.more or ()
            first = False

    def _text_below(self, record: Record) -> Iterator[str]:
        head = record.head
        first = True
        listed = _announces(
            head.text[head.begin : head.end], listed=_THROWN.search(head.text) is not None
        )
        for line in self._lines_below():
            if head.carriers:
                if _is_of_other_process(line, head):
                    continue
                text = prefix.strip_like(line, head)
            elif line[:4] == "\tat ":
                yield line
                continue
            else:
                text = prefix.strip_colors(line)
            if not text.strip() or is_trace_line(text):
                yield text
            elif text.startswith((*_SECTION_BEGINS, "LogLength:")):
                return
            elif (text[0] in " \t" and prefix.read_stamp(text.lstrip()) is None) or (
                listed and not prefix.parse(text).complete
            ):
                yield text
            else:
                follows = self._follows(prefix.parse(text), head, first)
                if follows is None:
                    return
                yield follows
                first = False
            listed = _announces(text, listed=listed)

    @staticmethod
    def _follows(line: Prefix, head: Prefix, first: bool, *, listed: bool = False) -> str | None:
        """Return the text that a line adds to the record above, or None if it starts another record."""
        text = line.text[line.begin : line.end]
        if listed and not line.complete:  # an item of a list may start with a date
            return line.text
        if line.complete or line.dated:
            # Some layouts print a header on every line of a stack trace.
            belongs = is_trace_line(text) or (first and is_exception_line(text))
            return text if belongs and line.complete and line.logger == head.logger else None
        text = line.text[line.inner :]
        if head.local_us is not None or head.utc_us is not None:
            return text
        return text if is_exception_line(text) or is_trace_line(text) else None

    def _add_diagnostics(self, record: Record, row: dict[str, Any]) -> None:
        """Add the exit code from YARN's diagnostics on the lines below, or mark a container that exceeded its memory."""
        below = [text.strip() for text in islice(self._continuation(record), _DIAGNOSTICS)]
        diagnostics = " ".join(filter(None, [row.get("cause"), *below]))[:CAUSE_CHARACTERS]
        found = classify([diagnostics], "flink")
        if found is not None and found.kind == "out-of-memory":
            row["event"], row["cause"] = Event.RESOURCE_FAILURE.value, diagnostics
            return
        ended = next((text for text in below if _EXIT_CODE.match(text) is not None), None)
        if ended is not None:
            row["cause"] = " ".join(filter(None, (row.get("cause"), ended)))

    def _add_crash(self, record: Record, row: dict[str, Any]) -> None:
        """Add the signal that ended a JVM, and the problematic frame, from the comment lines below."""
        parts: list[str] = []
        framed = False
        for line in islice(self._scanner.following(), _CRASH_LINES):
            text = prefix.strip_like(line.data.decode("utf-8", "replace"), record.head)
            text = text.strip(" \t\r#")
            if not parts and (signal := _SIGNAL.match(text)) is not None:
                parts.append(f": {signal[0]}")
            elif framed and text:
                parts.append(f" in {' '.join(text.split())}")
                break
            framed = framed or text.startswith("Problematic frame:")
        row["cause"] = (row["cause"] + "".join(parts))[:CAUSE_CHARACTERS]
        row["fields"] = {"exception": row["cause"]}

    def _add_bootstrap_servers(self, record: Record, row: dict[str, Any]) -> None:
        """Add the brokers that a client of Kafka connects to first, from the list of its options."""
        for text in islice(self._continuation(record), _CLIENT_OPTIONS):
            if (found := _BOOTSTRAP.match(text)) is not None:
                row["fields"] = {**(row.get("fields") or {}), "address": found["servers"]}
                return

    def _add_process(self, record: Record, row: dict[str, Any]) -> None:
        """Add the process that ran out of memory, identified by the record and the stack frames below it."""
        before = self._scanner.preceding()
        above = None if before is None else prefix.parse(before.data.decode("utf-8", "replace"))
        lines = [record.head.text]
        for line in islice(self._scanner.following(), TRACE_LINES):
            lines.append(line.data.decode("utf-8", "replace"))
            if not is_trace_line(lines[-1]):
                break
        process = process_of((), lines, above.logger if above is not None else None)
        if process is not None:
            row["fields"] = {**(row.get("fields") or {}), "process": process.name}

    def _add_trace(self, record: Record, row: dict[str, Any]) -> None:
        lines = [line for _, line in fold_bodies(enumerate(self._continuation(record)))]
        trace = read_trace(lines, row.get("cause") or "")
        of_spark = self._known.catalogue.engine == "spark"
        if trace.cause is not None:
            vague = row["event"] in _OF_STATES or is_vague(trace.cause)
            cause = with_context(trace.chain, -1) if vague and len(trace.chain) > 1 else trace.cause
            row["cause"] = _decisive_with_context(trace.chain) if of_spark else cause
        if (row.get("cause") or "").startswith(OF_THE_JVM):
            row["cause"] = python_error(lines) or row["cause"]
        above = record.head.text[record.head.begin :]
        extra = _trace_fields(row, trace, lines, above, of_spark=of_spark)
        if row["event"] == Event.CHECKPOINT_FAILED and "thrown_at" in extra:
            row["cause"] = f"{row['cause'].removesuffix(': null')} (at {extra['thrown_at']})"
        if extra:
            row["fields"] = {**(row.get("fields") or {}), **extra}

    # -- blocks ------------------------------------------------------------------------------

    def _report(self, line: Line, record: Record) -> Iterator[pa.RecordBatch]:
        """Read a metrics report, whose header is on this line or the line above, and its values on the lines below."""
        scanner = self._scanner
        offset = line.offset
        header = record
        if not record.head.complete and (before := scanner.preceding()) is not None:
            above = open_record(before.data.decode("utf-8", "replace"))
            if above.head.complete and not above.head.text[above.head.begin :].strip():
                offset, header = before.offset, above
        head = header.head
        self._tally.recognised += 1
        self._add_time(head)
        lines: Iterable[bytes]
        cut: Callable[[], list[bytes]] | None = None
        if record.more is not None:
            lines = [text.encode("utf-8", "replace") for text in record.more]
        elif head.carriers or record.json:
            lines = self._report_lines(header)
        else:
            block = scanner.block(_REPORT_END, REPORT_BYTES, before=_REPORT_BEGIN.encode())
            self._tally.truncated += len(block) == REPORT_BYTES
            # Candidates inside the report are read as well, because a split that starts in the middle of the
            # report sees only those.
            lines = block.split(b"\n")
            cut = functools.partial(_lines_before_next_record, block)
        yield from self.folder.add_block(
            lines,
            offset=offset,
            local_us=head.local_us,
            utc_us=head.utc_us,
            clock=head.clock,
            process=head.process,
            cut=cut,
        )

    def _report_lines(self, record: Record) -> Iterator[bytes]:
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
                opened = open_record(text)
                if not opened.json:
                    if text.startswith(prefix.JSON_BEGINS):
                        continue  # an empty line in its envelope
                    return
                text = opened.head.text[opened.head.inner :]
            if prefix.read_stamp(text) is not None and prefix.parse(text).complete:
                return
            if _REPORT_BEGIN in text:
                return
            yield text.encode("utf-8", "replace")
            if "Finished metrics report" in text:
                return

    def _section(self, line: Line, record: Record) -> dict[str, Any] | None:
        """Return the row for a header inside the stream, as in YARN's aggregated logs or `tail` of several files."""
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
            if self._known.catalogue.engine == "spark":
                row["application"] = application_of_container(found["container"])
        elif found["tail"]:
            row["process"] = found["tail"]
            row["fields"] = {"file": found["tail"]}
        elif found["ended"]:
            row["fields"] = {"ended": found["ended"]}
        else:
            row["fields"] = {"file": found["file"]}
        return row

    def _dump_rows(self, row: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """Yield the rows in a `CheckpointStatistics … dump`, and remove the dump from the record's row."""
        fields = row["fields"]
        dump = fields.pop("dump")
        for found in parse_dump(dump, row.get("job_id"), row.get("checkpoint")):
            found["source"] = self._source
            found["offset"] = row["offset"]
            for name in ("level", "logger", "thread", "process"):
                if row.get(name) is not None:
                    found.setdefault(name, row[name])
            yield found


# An exception with the number of the failed checkpoint, which the record above does not print.
_NOT_FINALIZED: Final = "checkpoint-not-finalized"
# Spark records with the exception of a task, batch or query.
_OF_SPARK: Final = (Event.SPARK_INCIDENT, Event.SPARK_QUERY, Event.SPARK_OUTPUT)
_OF_STATES: Final = (Event.TASK_STATE, Event.JOB_STATE, Event.JOB_FINISHED)
# Records of a job or checkpoint whose exception contains the subtask.
_NAMING: Final = (Event.JOB_STATE, Event.CHECKPOINT_FAILED)
_EXIT_CODE: Final = re.compile(r"Exit code: -?[1-9]")  # in YARN's diagnostics
_STRUCTURE_LINE = re.compile(
    r"(?:Container: (?P<container>container_\S+) on (?P<node>\S+)"
    r"|End of LogType: ?(?P<ended>[^\s.][^\s]*?)\.?(?:\s.*)?$"
    r"|LogType: ?(?P<file>\S+)"
    r"|==> (?P<tail>\S.*) <==$)"
)
_SECTION_BEGINS: Final = ("Container: ", "LogType:", "End of LogType:", "==> ")
_PORT = re.compile(r"[_:]\d{1,5}$")


def _decisive_with_context(chain: Sequence[str]) -> str | None:
    """Return the decisive exception of a Spark chain, with the message around it if the exception alone is vague."""
    decisive = decisive_exception(chain)
    if decisive is None:
        return None
    above = chain[: chain.index(decisive)] if decisive in chain else chain[:-1]
    return with_context((*above, decisive), len(above))


def _trace_fields(
    row: dict[str, Any], trace: Trace, lines: list[str], above: str, *, of_spark: bool
) -> dict[str, str]:
    """Return the fields that a stack trace adds to the row of its record."""
    extra: dict[str, str] = {}
    if of_spark and row["event"] == Event.SPARK_QUERY:
        extra |= full_heap(lines)
    if (frame := python_frame(lines)) is not None:
        extra["python_frame"] = frame
    if not of_spark:
        extra |= _memory_process_fields(trace, lines, row.get("logger"))
    if trace.exception is not None:
        extra["exception"] = trace.exception
        if row["event"] == Event.JOB_STATE and _GIVEN_UP in trace.exception:
            # This exception only explains why the job does not restart; the exception below is the failure.
            extra["exception"] = trace.second or trace.exception
    extra |= middle_of(trace.chain)
    extra |= _frames(trace, lines)
    extra |= _origin_fields(row, trace, lines, above)
    if row["event"] in _NAMING and len(trace.chain) > 2:
        extra |= _task_fields(trace.chain)
    return extra


def _frames(trace: Trace, lines: list[str]) -> dict[str, str]:
    """Return, as fields, the user's frames and, for an exception without a message, the frame that threw it."""
    own = own_frame(lines) if trace.user_frame is not None else None
    bare = trace.cause is not None and not message_of(trace.cause)
    at = (own or thrown_at(lines)) if bare else None
    fields = {"user_frame": trace.user_frame, "own_frame": own, "thrown_at": at}
    return {name: frame for name, frame in fields.items() if frame is not None}


def _origin_fields(
    row: dict[str, Any], trace: Trace, lines: list[str], above: str
) -> dict[str, str]:
    """Return the software that threw an exception and, for Spark, the process, as fields of the row."""
    if row["event"] not in (*_OF_SPARK, *_OF_STATES):
        return {}
    chain = trace.chain or tuple(filter(None, (row.get("cause"),)))
    source = part_of(chain, lines)
    record = () if row["event"] == Event.SPARK_QUERY else (row.get("logger"), above)
    process = process_of(chain, lines, *record) if row["event"] in _OF_SPARK else None
    found = {} if process is None else {"process": process.name}
    if source is not None:
        found["component"] = source
    return found


def _memory_process_fields(trace: Trace, lines: list[str], logger: str | None) -> dict[str, str]:
    """Return the field that names the process that ran out of memory."""
    ran_out = any("MemoryError" in text for text in trace.chain)
    process = process_of((), lines, logger) if ran_out else None
    return {} if process is None else {"process": process.name}


def _task_fields(chain: Iterable[str]) -> dict[str, str]:
    """Return the fields of the subtask that a chain of exceptions mentions."""
    named = task_named_in(chain)
    if named is None or not named.task:
        return {}
    found = {"named_task": named.task}
    if named.subtask_index is not None:
        found["named_subtask"] = f"{named.subtask_index + 1}/{named.parallelism or ''}"
    return found


def _is_of_other_process(text: str, head: Prefix) -> bool:
    process = None if head.process is None else prefix.process_of(text, head)
    return process is not None and process != head.process


_THROWN: Final = re.compile(r"(?:Exception|Error): \S")
"""An exception in a record, whose message may have several lines."""


def _announces(text: str, *, listed: bool = False) -> bool:
    """Return whether the message continues on the next line. A list of attempts ends at the first stack frame."""
    return (listed and not is_trace_line(text)) or text.rstrip().endswith(ANNOUNCES)


def _lines_before_next_record(block: bytes) -> list[bytes]:
    found = _next_record().search(block)
    return block[: None if found is None else found.start() + 1].split(b"\n")


@functools.cache
def _next_record() -> re.Pattern[bytes]:
    """Return a pattern for the start of the next record in a truncated report."""
    stampish = prefix.load_layouts().stampish.pattern
    # The pattern starts with a literal, because searching for an assertion would be much slower.
    return re.compile(b"\n(?:" + stampish.encode() + b")")
