"""Finds failures in pasted, quoted, commented or exported text.

People copy stack traces from the Web UI, a mail or a comment, as one JSON element per frame, or escaped for HTML.
`exceptions_in` strips this formatting and finds the traces, both outside and below records. `failures_in` also finds
failures without an exception: error records, and the lines in `formats/failure-lines.toml`. The lines below a record
belong to it. A line with only a date ends the record, and dates the next exception.

Bad text never raises, and all patterns are bounded.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import Final

from flowdiag.parsers.exceptions import (
    Classified,
    classify,
    engine_of_class,
)
from flowdiag.parsers.kubernetes_requests import short_request
from flowdiag.parsers.lines import prefix
from flowdiag.parsers.lines.decoration import (
    COUNT,
    LINE,
    is_html,
    message_lines,
    record_in_cells,
    strip_decoration,
    strip_marks,
    unescape,
    without_quotes,
)
from flowdiag.parsers.lines.failure_lines import (
    failure_line,
    is_harmless_record,
    is_wrapper_failure,
)
from flowdiag.parsers.lines.plain_records import plain_runs
from flowdiag.parsers.lines.traces import (
    ANNOUNCES,
    is_exception_line,
    is_trace_line,
    referenced_cause,
)
from flowdiag.parsers.logs import paste_patterns as p
from flowdiag.parsers.logs.bodies import lines_of
from flowdiag.parsers.logs.cuts import describe_cut_failure, read_notebook
from flowdiag.parsers.logs.headers import header_of, json_record
from flowdiag.parsers.logs.line_prefixes import RELAYED, prefix_of_lines
from flowdiag.parsers.logs.misread import without_misread_letters
from flowdiag.parsers.logs.paste_patterns import GRAVE, fact_in
from flowdiag.parsers.logs.pasted import Heading, Pasted
from flowdiag.parsers.logs.records import Record
from flowdiag.parsers.logs.vague import vague_failures

PASTE_BYTES: Final = 256 * 1024
"""Maximum size of a text that is searched completely; a larger text is searched only before its first header."""
PROSE_BYTES: Final = 4 * 1024
"""Maximum size of a text in which exceptions in sentences count; longer prose, such as a runbook, only explains them."""
HEAD_BYTES: Final = 64 * 1024
_MESSAGE: Final = 3000
_MOST: Final = 200  # maximum exceptions of one text


def shown_engine(one: Pasted) -> str | None:
    """Return the engine that the exception itself reveals, or None."""
    if one.engine is not None:
        return one.engine
    found = one.classify()
    return None if found is None else engine_of_class(found.name)


def engine_and_class(one: Pasted, known: str | None) -> tuple[str, Classified | None]:
    """Return the engine of an exception, flink or spark, and its failure class.

    Args:
        one: the exception.
        known: the engine that wrote the text, if known.
    """
    engine = known or one.engine
    found = one.classify(engine)
    if engine is None and found is not None:
        engine = engine_of_class(found.name)
    return engine or "flink", found


def _is_log_record(record: Record) -> bool:
    """Return whether a JSON object is a log record, because it has a time, a logger or a level.

    A time in an exception's message is not a time of the object.
    """
    head = record.head
    if head.logger or head.level:
        return True
    if head.local_us is None and head.utc_us is None:
        return False
    text = head.text[head.inner :]
    if p.ELEMENT.match(text) is None:
        return True
    within = prefix.parse(text)
    return (within.local_us, within.utc_us) != (head.local_us, head.utc_us)


def exceptions_in(data: bytes, *, whole: bool = True) -> Iterator[Pasted]:
    """Yield the exceptions in a text, in order, unless they are only mentioned in prose.

    Args:
        data: the text in UTF-8.
        whole: whether to search after the first header as well. Exceptions below a record have the record's level.
    """
    count = 0
    segments = _Segments(data, whole)
    for found in segments.blocks():
        if found.chain and not found.plain and _is_informative(found):
            yield found
            count += 1
            if count == _MOST:
                return
    if count == 0 and not segments.headed and len(data) <= PROSE_BYTES:
        quoted = (one for one in _quoted_in_prose(data) if one.classify() is not None)
        yield from islice(quoted, 1)


def failures_in(data: bytes, *, whole: bool = True, vague: bool = True) -> Iterator[Pasted]:
    """Yield the failures in a text, in order: exceptions, error records, and lines that report a failure.

    Args:
        data, whole: see `exceptions_in`.
        vague: whether wordings such as `failed to` count in a short text that contains no other failure.
    """
    count = 0
    short = len(data) <= PROSE_BYTES
    segments = _Segments(data, whole)
    headless: list[Pasted] = []
    for found in segments.blocks():
        if found.headless:
            headless.append(found)
        elif found.chain and (short or found.level or _is_informative(found)):
            yield found
            count += 1
            if count == _MOST:
                return
    if count == 0 and short:
        quoted = [] if segments.headed else [*_quoted_in_prose(data)] or headless[:1]
        yield from islice(quoted or (vague_failures(data) if vague else ()), _MOST)


def _is_informative(one: Pasted) -> bool:
    """Return whether the text is more than an exception's name in a sentence."""
    return bool(one.frames or one.python or one.task or one.classify() is not None)


def _quoted_in_prose(data: bytes) -> Iterator[Pasted]:
    """Yield the exceptions that are quoted in sentences."""
    for offset, line in lines_of(data):
        for text in _quotes(line):
            pasted = Pasted(offset)
            pasted.add(offset, short_request(text)[:_MESSAGE])
            yield pasted


def _quotes(line: str) -> Iterator[str]:
    """Yield the exceptions that a sentence reports, without the marks around them."""
    for quoted in p.IN_PROSE.finditer(line):
        if p.HYPOTHETICAL.search(line[: quoted.start("text")][-200:]) is not None:
            continue
        mark = line[: quoted.start("text")][-1:]
        text = quoted["text"].partition(mark)[0] if mark in p.MARKS else quoted["text"]
        yield (text if ": " in text else quoted["text"]).strip()


def classify_text(text: str | None, engine: str) -> Classified | None:
    """Return the failure class of an exception, passed as text with its stack trace.

    >>> classify_text("a.b.XException: x\\n\\tat a.B.c(B.java:1)\\nCaused by: java.io.IOException: "
    ...               "No space left on device", "flink").name
    'storage-full'
    """
    data = (text or "")[:PASTE_BYTES].encode("utf-8", "replace")
    one = next(exceptions_in(data), None)
    if one is None:
        return classify([text], engine) if text else None
    return one.classify(engine)


_OPERATOR: Final = "org.apache.flink.kubernetes.operator"
_AFTER_MESSAGE: Final = '","additionalMetadata"'
_CELLS: Final = re.compile(r"\t| {0,4}\|(?: {1,4}|\Z)")


class _Segments:
    """Splits a text into failures."""

    def __init__(self, data: bytes, whole: bool) -> None:
        self._data = data = without_misread_letters(data)
        self._whole, self._prefix = whole, prefix_of_lines(data)
        self._escaped = is_html(data[:HEAD_BYTES])
        self._done: list[Pasted] = []
        self._block: Pasted | None = None
        self._stamp: prefix.Stamp | None = None  # time of a line with only a date
        self._level: str | None = None  # level of the record that the current lines belong to
        self._heading: Heading | None = None  # the record that the current lines belong to
        self._like: prefix.Prefix | None = None  # the last record with carriers
        self._python, self._indent = False, 0  # the indentation of a traceback's first line
        self._shape = (
            ""  # format of the header of the line above, which a Python traceback may repeat
        )
        self._code = False  # the line above is a Python frame, so the next line is its code
        self._kept = False  # whether the first of two Python errors is the cause of the second
        self._again = False  # whether frames have followed the last exception of the chain
        self._unusual: tuple[int, str] | None = (
            None  # a line that may be an exception with an unusual name
        )
        self._before: tuple[int, str] | None = None  # the line above, if it belongs to no failure
        self._after_empty_line = False  # whether the line above is blank
        self._last = ""  # the last line
        self._above_jvm: str | None = None  # the line above the heading of the JVM's stack trace
        self.headed = False  # whether any line has been a log record

    def blocks(self) -> Iterator[Pasted]:
        """Yield the failures of the text, in order."""
        for offset, line in lines_of(self._data, plain_runs(self._data)):
            if not line.strip("> \t\r"):
                self._after_empty_line = True
            else:
                self._line(offset, record_in_cells(line))
                if self._block is not None and self._block.at[-1:] == [offset]:
                    self._again = self._again or p.WHOLE.match(line) is not None
                self._after_empty_line = False
                yield from self._take_done()
                # The other lines belong to a record.
                if self._level is not None and not self._whole:
                    return
        self._end()
        yield from self._take_done()

    def _take_done(self) -> Iterator[Pasted]:
        done, self._done = self._done, []
        yield from done

    def _line(self, offset: int, line: str) -> None:
        if p.PROMPT.match(line):
            return  # a command, not its output
        if p.SQL_PROMPT.match(line) or p.RULER.match(line):
            self._end()
            self._level = None
            return
        if p.TITLE.match(line) or p.FIELD.match(line):
            self._end()
        if self._is_introduced(line):
            _continue_message(self._block, strip_marks(line).strip())
            return
        head = prefix.parse(line)
        if self._is_sentence(head):
            self._take_decorated(offset, head.text[head.inner :])
        else:
            self._take_headed(offset, line, head)

    def _take_headed(self, offset: int, line: str, head: prefix.Prefix) -> None:
        """Process a line that may start with a log header."""
        if self._like is not None and not head.complete and not (head.dated and head.level):
            line = prefix.strip_like(line, self._like)
            head = prefix.parse(line)
        if head.inner and not head.complete and p.ELEMENT.match(line) is not None:
            self._take_decorated(offset, line)  # a class that looks like a file name
            return
        record = json_record(line, head)
        if record is not None:
            self._json_line(offset, head, record)
            return
        if not self._in_message(head):
            head = header_of(head)
        if head.complete and not self._continues_trace(head):
            self._header(offset, head)
        else:
            if not (head.complete or self._python):
                self._shape = ""
            self._take_decorated(offset, head.text[head.begin if head.complete else head.inner :])

    def _is_sentence(self, head: prefix.Prefix) -> bool:
        """Return whether a line is a sentence in which a word such as `Error` is not a log level."""
        if not self._has_chain() or self._again or head.has_timestamp or not head.level:
            return False
        return re.match(r"\s*[A-Za-z][a-z]+ \w", head.text[head.inner :]) is not None

    def _json_line(self, offset: int, head: prefix.Prefix, record: Record) -> None:
        """Process a line with a JSON object: a log record, exceptions from the Kubernetes operator, or other text."""
        lines = record.more or []
        if _is_log_record(record) and not self._continues_trace(record.head):
            self._header(offset, record.head)
        elif self._read_typed(offset, head.text[head.inner :]):
            return
        else:
            lines = [record.head.text[record.head.inner :], *lines]
        for text in lines:
            self._take_decorated(offset, text)

    def _take_decorated(self, offset: int, text: str) -> None:
        for line in strip_decoration(text, self._escaped):
            self._take(offset, line)

    def _in_message(self, head: prefix.Prefix) -> bool:
        """Return whether a line continues a message or a trace, so that it starts with no header."""
        text = strip_marks(head.text[head.inner :])
        inside = self._block is not None and not self._again and not p.BEGINS_RECORD.match(text)
        return inside or p.ELEMENT.match(text) is not None or is_trace_line(text)

    def _continues_trace(self, head: prefix.Prefix) -> bool:
        """Return whether a line with a header continues a trace, because some layouts print a header on every line."""
        body = head.text[head.begin : head.end]
        if is_trace_line(body) or p.BELOW.match(body) is not None:
            return True
        if self._repeats_header(head) and p.ELEMENT.match(body) is not None:
            return True
        shape = p.DIGITS.sub("0", head.text[: head.begin].rstrip())
        if self._python:
            return shape == self._shape
        self._shape = shape
        return body.lstrip().startswith(p.PYTHON_BEGIN)

    def _repeats_header(self, head: prefix.Prefix) -> bool:
        """Return whether a header is only that of a carrier, or repeats the header of the record above."""
        above = self._heading
        if above is None:
            return False
        same_time = above.stamp is not None and above.stamp[1:] == (
            head.local_us,
            head.utc_us,
            head.clock,
        )
        return head.level is None or (same_time and head.logger == above.logger)

    def _header(self, offset: int, head: prefix.Prefix) -> None:
        """Start a record; the lines below belong to it."""
        if self._block is not None:
            self._block.after = head.text[head.begin : head.end][:_MESSAGE]
        self._end()
        self.headed = True
        self._like = head if head.carriers else None
        self._level, self._stamp = head.level or "INFO", None
        message, *more = message_lines(without_quotes(head.text[head.begin : head.end][:_MESSAGE]))
        stamp = prefix.Stamp(head.begin, head.local_us, head.utc_us, head.clock)
        above, logger = self._heading, head.logger
        if above is not None and not above.message and not head.has_timestamp:  # java.util.logging
            offset, stamp, logger = above.offset, above.stamp or stamp, logger or above.logger
        self._heading = Heading(offset, logger, message, stamp)
        inner = p.IN_MESSAGE.search(f" {message}")
        if inner is not None:
            self._element(offset, p.without_brackets(inner["text"]))
        elif p.PYTHON_BEGIN in message:
            self._begin(offset)
            self._python = True
        elif message and (self._level in GRAVE or failure_line(message) is not None):
            self._begin(offset)
        for line in more:
            self._take(offset, line)

    def _take(self, offset: int, text: str) -> None:
        """Process one line without its decoration."""
        text = text[:LINE]
        bare = text.strip()
        if not bare:
            return
        (unusual, before), self._unusual, self._before = (self._unusual, self._before), None, None
        if p.FENCE.match(text):
            self._end()
            self._level = None
            return
        below = p.BELOW.match(text)
        if below is not None or is_trace_line(text) or p.FRAMEISH.match(text):
            self._trace_line(
                offset, text, below, unusual or (before if bare[:3] == "at " else None)
            )
            return
        if unusual is not None and p.PYTHON_FILE.match(text):
            self._element(*unusual)
        if (
            self._python_line(offset, text, bare)
            or self._table_row(offset, text)
            or self._read_typed(offset, text)
        ):
            return
        counted = COUNT.match(text)
        element = p.ELEMENT.match(text, counted.end() if counted is not None else 0)
        if element is None:
            self._process_other(offset, text, bare)
        else:
            self._first_line(offset, text, element, counted=counted is not None)

    def _is_heading_of_jvm(self, bare: str) -> bool:
        """Return whether a line is the heading of the JVM's stack trace, whose message is above the heading."""
        above, self._last = self._last, bare
        if bare == _JVM:
            self._above_jvm = above
        return bare == _JVM

    def _cell(self, bare: str) -> re.Match[str] | None:
        """Return the exception in a later cell of a table row, unless the line continues a message."""
        if self._has_chain() and not self._again:
            return None
        for cell in _CELLS.split(bare)[1:]:
            if (found := p.ELEMENT.match(cell)) is not None:
                return found
        return None

    def _first_line(self, offset: int, text: str, element: re.Match[str], *, counted: bool) -> None:
        """Process the first line of an exception."""
        bare = text.strip()
        self._end_record(bare)
        if self._block is not None and self._block.plain and is_wrapper_failure(element["text"]):
            self._end()  # a launcher's own exception below the report of the application
        above, self._above_jvm = self._above_jvm, None
        exception = element["text"].strip()
        if above and p.NAME_ONLY.match(exception) is not None:
            # Spark Connect prints the message only there.
            exception = f"{exception}: {p.NAME_FIRST.sub('', above)}"
        block = self._element(offset, exception, counted)
        if (thread := p.THREAD.match(text)) is not None:
            block.thread = thread["query"]
        block.lines[-1] = bare

    def _end_record(self, text: str) -> None:
        """End the record above, unless it is an error: uncaught exceptions are printed outside records."""
        above = self._heading
        if (
            above is not None
            and text.startswith(p.PYTHON_BEGIN)
            and p.PYTHON_LOGGER.match(above.logger or "") is not None
            and p.ANNOUNCED.search(above.message) is not None
        ):
            return
        inside = self._level is not None and self._level not in GRAVE
        if inside and text.startswith(("Exception in thread ", p.PYTHON_BEGIN)):
            self._level, self._heading = "ERROR", None

    def _read_typed(self, offset: int, text: str) -> bool:
        """Process exceptions that the Kubernetes operator prints as JSON objects. Return whether there were any."""
        if self._level is not None or "message" not in text:
            return False
        found = next(filter(None, ([*one.finditer(text)] for one in p.TYPED)), None)
        if found is None:
            return False
        block = self._begin(offset)
        block.heading = Heading(offset, _OPERATOR, "", None)
        for one in found:
            message = unescape(one["message"]).replace("\\", "")  # unescape nested escapes
            # The operator's wrappers add nothing, because their message is the exception.
            inner = bool(p.ELEMENT.match(message)) and is_exception_line(message)
            exception = message if inner else f"{one['name']}: {message}".rstrip(" :")
            if exception not in block.chain:
                block.lines.append(exception)
                block.add(offset, exception[:_MESSAGE])
        # A message that fills the line continues on the next line.
        self._again = found[-1].end() < len(text)
        return True

    def _end(self) -> None:
        block, self._block = self._block, None
        self._python = self._again = self._kept = False
        if block is None:
            return
        above = block.heading
        if above is not None and is_harmless_record(above.logger, above.message, block.chain):
            return
        if not block.chain:
            describe_cut_failure(block)
        block.chain[:] = map(short_request, block.chain)
        if not block.chain or any(map(str.isalpha, block.chain[0])):  # not a ruler
            self._done.append(block)

    def _begin(self, offset: int) -> Pasted:
        stamp, self._stamp = self._stamp or self._stamp_of_prefix(offset), None
        self._end()
        self._block = Pasted(offset, level=self._level)
        if self._level is not None:
            self._block.heading = self._heading
            stamp = stamp or (self._heading.stamp if self._heading is not None else None)
        if stamp is not None:
            self._block.local_us, self._block.utc_us = stamp.local_us, stamp.utc_us
            self._block.clock = stamp.clock
        return self._block

    def _stamp_of_prefix(self, offset: int) -> prefix.Stamp | None:
        """Return the time in the prefix of all lines, or None if the lines have no such prefix."""
        line = self._data[offset : offset + 200].decode("utf-8", "replace")
        known = RELAYED if RELAYED.pattern.match(line) is not None else self._prefix
        return None if known is None else known.stamp(line)

    def _trace_line(
        self,
        offset: int,
        text: str,
        below: re.Match[str] | None,
        unusual: tuple[int, str] | None,
    ) -> None:
        if below is None and unusual is not None and (not self._has_chain() or self._again):
            self._element(*unusual)
        block = self._block
        if below is None:
            if block is None and self._level is None:
                block = self._begin(offset)
            if block is not None:
                block.lines.append(text)
                block.frames += 1
                self._again = True
            return
        if block is None:
            block = self._begin(offset)
        block.lines.append(text)
        if text.lstrip().startswith(("Suppressed", "Wrapped")):
            return
        if below["text"].strip():
            self._link(offset, block, below["text"])
        else:
            self._again = False  # a terminal wrapped the line, and its exception follows

    def _link(self, offset: int, block: Pasted, text: str) -> None:
        wrapper = p.SERIAL.match(text)
        if wrapper is not None:
            text = text[wrapper.end() :]
        text = referenced_cause(_GAP.sub(": ", text.strip(), count=1), block.chain)
        if text:
            block.add(offset, text[:_MESSAGE])
            block.plain = False
        self._again = False

    def _element(self, offset: int, text: str, counted: bool = False) -> Pasted:
        block = self._block
        if block is None or self._again or counted or self._stamp is not None:
            block = self._begin(offset)
        block.lines.append(text)
        self._link(offset, block, text)
        if p.PYTHON_BEGIN in text:
            self._python = True
        return block

    def _table_row(self, offset: int, text: str) -> bool:
        """Process a row of the Web UI's table of exceptions. Return whether the line was such a row."""
        row = p.TABLE_ROW.match(text)
        element = p.ELEMENT.match(row["text"].strip()) if row is not None else None
        if row is None or element is None:
            return False
        self._element(offset, element["text"], counted=True)
        if self._block is not None:
            self._block.task, self._block.location = row["task"], row["host"]
        return True

    def _python_line(self, offset: int, text: str, bare: str) -> bool:
        """Process a line of a Python traceback, which ends with the error. Return whether the line was part of one."""
        below_file, self._code = self._code, bare.startswith('File "')
        if self._block is not None:
            self._block.python_trace.add(bare, again=self._kept)
        if self._begins_traceback(offset, text, bare):
            return True
        if self._block is None:
            return False
        if read_notebook(self._block, bare):
            return True
        # A frame below an error, unless it continues a message.
        if not self._python:
            is_frame = self._code and not any(p.PYTHON_BEGIN in one for one in self._block.chain)
            self._again = self._again or is_frame
            return is_frame
        if self._code or bare.startswith(("^", "~")) or text[self._indent :][:1] in " \t":
            self._block.frames += self._code
            return True
        if p.PYTHON.match(bare) or (not below_file and p.PYTHON_UNUSUAL.match(bare)):
            self._python = False
            self._python_error(offset, self._block, bare)
            return True
        return below_file

    def _begins_traceback(self, offset: int, text: str, bare: str) -> bool:
        """Start a Python traceback at its first line or at a frame. Return whether the line was its first line."""
        if self._is_heading_of_jvm(bare):
            return True
        if p.BEFORE.match(bare) and self._has_chain():
            self._kept = True
            return True
        if (notebook := p.NOTEBOOK.match(bare)) is not None:
            self._begin(offset).notebook = notebook["error"]
        elif bare.startswith(p.PYTHON_BEGIN) and self._block is None:
            self._end_record(bare)
            self._begin(offset)
        if notebook is not None or bare.startswith(p.PYTHON_BEGIN):
            self._python, self._indent = True, len(text) - len(text.lstrip())
            return True
        if self._block is None and self._level is None and p.PYTHON_FILE.match(text):
            block = self._begin(offset)
            self._python = True
            block.python_trace.add(bare)
        return False

    def _python_error(self, offset: int, block: Pasted, text: str) -> None:
        # Below these errors, Java prints its own exception.
        is_bridge = "Py4J" in text[:80] and "Py4JNetworkError" not in text[:80]
        if is_bridge or "pyspark.errors" in text[:40]:
            self._link(offset, block, text)
            return
        if self._kept:
            self._kept = False  # it only occurred while the first one was handled
            if _REENTRANT not in (block.python or ""):
                block.then = text[:_MESSAGE]
                return
            for texts in (block.chain, block.glued, block.at):
                texts.clear()
        block.python, block.python_at = text[:_MESSAGE], offset
        if not block.chain:
            block.add(offset, text[:_MESSAGE])

    def _process_other(self, offset: int, text: str, bare: str) -> None:
        """Process a date, a table row with an exception, or any other line."""
        tagged = p.TAGGED.match(text)
        start = tagged.end() if tagged is not None else len(text) - len(text.lstrip())
        stamp = prefix.read_stamp(text, start)
        if stamp is not None:
            self._take_dated(
                offset, stamp, strip_marks(text[stamp.end :].strip(" \t|,;-]")).lstrip()
            )
        elif (cell := self._cell(bare)) is not None:
            self._take_row(offset, bare, cell)
        else:
            self._take_text(offset, text, bare)

    def _take_row(self, offset: int, text: str, cell: re.Match[str]) -> None:
        """Process a table row that has an exception in one of its cells."""
        self._first_line(offset, cell.string, cell, counted=True)
        if self._block is not None:
            self._block.row = text[:_MESSAGE]

    def _take_text(self, offset: int, text: str, bare: str) -> None:
        """Process a line that reports a failure, the continuation of a message, or unrelated text."""
        if p.EVENT.match(text) is not None:
            self._end()
        block = self._block
        begins = block is None or self._again or _is_failed_start(block)
        if begins and p.announces(text, bare):
            plain = self._begin(offset)
            plain.plain = True
            plain.add(offset, fact_in(bare)[:_MESSAGE])
        elif (begins or not self._has_chain()) and p.UNUSUAL.match(bare):
            self._unusual = offset, bare
        elif block is None and self._level is None and p.CUT_MESSAGE.match(bare) is not None:
            self._before = offset, next(_quotes(bare), bare)
        elif block is not None and not begins:
            self._continue(block, text)

    def _is_introduced(self, line: str) -> bool:
        """Return whether the message above introduces this line, which then belongs to the message even with a date."""
        block = self._block
        if block is None or self._again or block.frames or is_trace_line(line):
            return False
        if block.plain and p.OF_DIAGNOSTICS.match(line) is not None:
            return True
        above = block.chain[-1] if block.chain else block.heading.message if block.heading else ""
        return above.endswith(ANNOUNCES)

    def _has_chain(self) -> bool:
        return self._block is not None and bool(self._block.chain)

    def _continue(self, block: Pasted, text: str) -> None:
        """Append a line to a message, unless the line starts another paragraph."""
        next_row = not block.frames and p.CELL.match(text) is not None  # of a table
        if next_row or (self._after_empty_line and _is_whole(block)):
            self._again = True  # another paragraph
        else:
            _continue_message(block, text.strip())
            self._again = self._again or _AFTER_MESSAGE in text

    def _take_dated(self, offset: int, stamp: prefix.Stamp, text: str) -> None:
        """Process a date, alone or before an exception or a record with an unknown layout."""
        self._end()
        self._stamp = stamp
        if len(text) < 8:
            self._level = None
            return
        if self._table_row(offset, text):
            return
        element = p.ELEMENT.match(text)
        if element is not None:
            self._first_line(offset, text, element, counted=False)
            if self._block is not None:
                self._block.inline = True
            return
        if (cell := self._cell(f"\t{text}")) is not None:
            self._take_row(offset, text, cell)
            return
        self._level, self._stamp = self._level or "INFO", None
        text = next(filter(failure_line, reversed(text.split("\t"))), text)
        self._heading = Heading(offset, None, text[:_MESSAGE], stamp)
        if failure_line(text) is not None:
            self._begin(offset)


def _is_failed_start(block: Pasted) -> bool:
    """Return whether the failure is only that a JVM did not start. The reason may follow."""
    return block.plain and any(text in block.chain[0] for text in _FAILED_START)


_REENTRANT: Final = "reentrant call inside"  # of a signal handler, so the second error shows more
_JVM: Final = "JVM stacktrace:"
_GAP: Final = re.compile(r"(?<=\w): {2,400}")
_FAILED_START: Final = ("Could not create the Java Virtual Machine", "Program will exit")


def _is_whole(block: Pasted) -> bool:
    """Return whether a blank line ends the message. It does not if the message introduces a list."""
    return bool(block.chain) and not block.chain[-1].endswith(":")


def _continue_message(block: Pasted | None, text: str) -> None:
    """Append a line to the message of the last exception, or of the record."""
    if block is None or text.startswith("Driver stacktrace"):
        return
    text = text.partition(_AFTER_MESSAGE)[0]
    if block.chain and len(block.chain[-1]) < _MESSAGE:
        block.chain[-1] += " " + text
        block.glued[-1] += text
    elif not block.chain and block.heading is not None and len(block.heading.message) < _MESSAGE:
        block.heading = block.heading._replace(message=f"{block.heading.message} {text}")
