"""Exceptions without a log record: pasted, quoted, commented, exported.

People copy traces from the Web UI, a mail or a comment, as one JSON element per frame, or escaped for HTML.
`exceptions_in` strips this formatting and finds the traces outside records: those before the first header of
a log, and all traces in a text without headers. A record owns the lines below it. A line with only a date
ends the record and is the time of the next exception.

Bad text never raises; all patterns are bounded.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from flowdiag.parsers.components import process_of
from flowdiag.parsers.exceptions import (
    Classified,
    classify,
    engine_of_class,
    is_root_cause,
    is_wrapper,
    task_named_in,
)
from flowdiag.parsers.flink.failures import lost_peer
from flowdiag.parsers.lines import prefix
from flowdiag.parsers.lines.records import Record, open_record
from flowdiag.parsers.lines.traces import (
    CAUSE_CHARACTERS,
    is_exception_line,
    is_trace_line,
    python_root,
    read_trace,
)
from flowdiag.parsers.messages import parse_task
from flowdiag.parsers.rows import Event, Row
from flowdiag.parsers.spark.causes import full_heap, python_frame, without_lost_task

PASTE_BYTES: Final = 256 * 1024
"""Texts up to this size are searched completely, larger ones only before the first header."""
PROSE_BYTES: Final = 4 * 1024
"""In longer texts, such as runbooks and documentation, sentences with exceptions only explain them."""
HEAD_BYTES: Final = 64 * 1024
_LINE: Final = 8192  # characters of a line
_MESSAGE: Final = 3000
_MOST: Final = 200  # exceptions of one text
_PIECES: Final = 2000  # lines from one formatted line


@dataclass(slots=True)
class Pasted:
    """One exception with its causes.

    Attributes:
        offset: of its first line in the decoded stream.
        local_us, utc_us: time of the date above or before it.
        clock: as in `Prefix`.
        chain: classes and messages, outermost first.
        glued: the same texts, joined without spaces where they were wrapped.
        at: offsets of their first lines.
        python, python_at: last line of a Python traceback inside the exception, and its offset.
        frames: number of frames.
        level: of the record above; None outside records.
        task, location: other columns of its row in the Web UI's table of exceptions.
        thread: name of the query thread that it ended, as printed by the JVM.
        python_frame: the deepest frame of the user's own Python code.
        inline: whether its date is on the same line, so that it may be the message of a record.
        lines: of the trace, without formatting.
    """

    offset: int
    local_us: int | None = None
    utc_us: int | None = None
    clock: str | None = None
    chain: list[str] = field(default_factory=list)
    glued: list[str] = field(default_factory=list)
    at: list[int] = field(default_factory=list)
    python_at: int | None = None
    python: str | None = None
    frames: int = 0
    level: str | None = None
    task: str | None = None
    location: str | None = None
    thread: str | None = None
    python_frame: str | None = None
    inline: bool = False
    lines: list[str] = field(default_factory=list)

    def add(self, offset: int, text: str) -> None:
        """Add the next exception of the chain and the offset of its line."""
        self.chain.append(text)
        self.glued.append(text)
        self.at.append(offset)

    def classified(self, engine: str | None = None) -> Classified | None:
        """Return its class of failure, also for a message wrapped in the middle of a word."""
        if self.python is not None:
            found = classify([self.python], engine)
            if found is not None:
                return found._replace(link=len(self.chain))
        found = classify(self.chain, engine) or classify(self.glued, engine)
        if found is not None and found.kind == "out-of-memory":
            found.values.update(self._process(engine))
        return found

    def _process(self, engine: str | None) -> Mapping[str, str]:
        """Return the process whose memory ran out, as values, if the trace shows it."""
        process = process_of(self.chain, self.lines)
        values: dict[str, str] = {} if process is None else {"process": process.name}
        if engine == "flink":
            return values
        return {**values, **full_heap((*self.lines[:1], self.thread or "", *self.lines[1:]))}

    def cause(self, found: Classified | None, *, outer: bool) -> tuple[str, int]:
        """Return class and message of the decisive exception and its offset: the classified one or the deepest."""
        if self.python is not None and (found is None or found.link >= len(self.chain) or outer):
            return self.python, self.offset if self.python_at is None else self.python_at
        decisive = found is not None and not outer and found.link < len(self.chain)
        link = found.link if decisive and found is not None else -1
        return python_root(without_lost_task(self.chain[link][:_MESSAGE])), self.at[link]

    @property
    def user_frame(self) -> str | None:
        """Topmost frame of user code, as in `read_trace`."""
        return read_trace(self.lines).user_frame

    @property
    def of_dstream(self) -> bool:
        """Whether it made a batch of a DStream fail, not a streaming query."""
        text = "\n".join((*self.chain, *self.lines))
        return (
            "org.apache.spark.streaming." in text
            and "StreamingQuery" not in text
            and ("sql.execution.streaming" not in text)
        )

    @property
    def engine(self) -> str | None:
        """Engine of the trace, by its classes; None if it cannot be determined."""
        text = "\n".join((*self.chain, *self.lines))
        flink, spark = text.count("org.apache.flink."), text.count("org.apache.spark.")
        if not flink and not spark:
            return "spark" if self.thread or _OF_SPARK.search(text) is not None else None
        return "flink" if flink >= spark else "spark"


_OF_SPARK: Final = re.compile(
    r"(?i:py4j)|pyspark|StreamingQuery|\[STREAM_FAILED\]|Structured Streaming|\(TID \d"
    r"|Job aborted due to stage failure"
)


# --- formatting -----------------------------------------------------------------------------------

_ANSI = re.compile(r"\x1b\[[0-9;]{0,12}m")
_TAGS = re.compile(
    r"</?(?:p|pre|code|div|li|ul|ol|span|b|i|td|th|tr|table|blockquote)(?: [^<>]{0,200})?>"
)
_BREAK = re.compile(r"<br ?/?>")
_DECORATION = re.compile(
    r"\s{0,40}(?:(?:\*+|#+|//+|>+|--|;|[-•+–·|])(?:\s{1,8}|(?=[\"'>\t]|at |Caused by|[a-z]+\.[a-z]))|\d{1,3}[.)] )"
)
_COUNT = re.compile(
    r"\s{0,8}\|?\s{0,8}\d{1,7}\s{0,3}[x×]?\s{0,8}[|\t]\s{0,8}|\s{0,8}\d{1,7} ?[x×] (?=[a-z])|\s{0,8}\d{1,7}\s{2,8}(?=(?:[a-z]\w{0,40}\.){2})"
)
_KEY = re.compile(r"\s{0,40}[{,]?\s{0,8}\"[\w .-]{1,60}\"\s{0,3}:\s{0,3}(?=\")")
_SEPARATE = re.compile(r"(?<!\\)\"\s{0,3},\s{0,3}\"")
_JOINED = re.compile(
    r"\s{1,16}(?=at (?:[\w.$-]{1,80}/{1,2})?[\w.$<>-]{3,300}\([^()\n]{1,120}\)|Caused by: |\.\.\. \d{1,4} (?:more|common))"
)


def _strip_decoration(text: str, escaped: bool) -> list[str]:
    """Return the lines inside one formatted line."""
    text = _ANSI.sub("", text[:_LINE].rstrip("\r"))
    if escaped:
        text = html.unescape(html.unescape(_BREAK.sub("\n", _TAGS.sub("", text))))
    text = text.replace("\xa0", " ")
    pieces = [text]
    stripped = text.strip()
    ends = stripped.endswith(('"', '",', '"]', '"}')) and stripped.count('"') % 2 == 1
    if stripped[:1] in '["{,' or ends:
        key = _KEY.match(text)
        text = text[key.end() :] if key is not None else text
        bare = text.strip().strip("[]{}, ")
        pieces = [_string(piece) for piece in _SEPARATE.split(bare)]
    elif "\\n" in text and ("\\tat " in text or "\\n    at " in text or "\\nCaused" in text):
        pieces = [_string(text)]
    lines = [line for piece in pieces for line in piece.split("\n")]
    found = [part for line in lines for part in _JOINED.split(_strip_marks(line))]
    return found[:_PIECES]


def _string(text: str) -> str:
    """Return a JSON string without quotes, with line ends, tabs and quotes unescaped."""
    text = text.strip().removeprefix('"').removesuffix('"')
    for escape, plain in (("\\n", "\n"), ("\\r", ""), ("\\t", "\t"), ('\\"', '"'), ("\\/", "/")):
        text = text.replace(escape, plain)
    return text


def _strip_marks(line: str) -> str:
    """Strip up to four marks of comments, quotes, lists and tables from a line."""
    for _ in range(4):
        found = _DECORATION.match(line)
        if found is None or found.end() == 0:
            break
        line = line[found.end() :]
    return line.rstrip().removesuffix("|").removesuffix("*/").rstrip()


# --- rows -----------------------------------------------------------------------------------------

_QUERY = re.compile(
    r"Identifier: (?P<name>[^\[\n]{0,200}?) ?\[id = (?P<id>[0-9a-f-]{36}), runId = (?P<run>[0-9a-f-]{36})\]"
)
_QUERY_ID = re.compile(
    r"[Qq]uery (?P<name>[^\[\n]{0,200}?) ?\[id = (?P<id>[0-9a-f-]{36}), runId = (?P<run>[0-9a-f-]{36})\]"
)
_SILENT = re.compile(r"eartbeat of TaskManager|is no longer reachable")
_GRAVE: Final = frozenset({"ERROR", "FATAL"})
_VALUES: Final = frozenset(
    {"class", "exception", "user_frame", "options", "origin", "what", "run_id"}
)


def paste_rows(
    data: bytes, engine: str, source: int, *, whole: bool, failed: bool
) -> Iterator[Row]:
    """Yield rows for the exceptions that no record reports.

    Args:
        data: the start of the text, or all of it.
        engine: of the source: flink, spark or unknown.
        source: its index.
        whole: whether `data` is the whole text.
        failed: whether records report failures; exceptions below other records then only repeat them.
    """
    known = engine if engine in ("flink", "spark") else None
    for pasted in exceptions_in(data, whole=whole):
        written_by, found = engine_and_class(pasted, known)
        if pasted.inline and not pasted.frames:
            continue
        if pasted.level is not None and (failed or not _is_failure(pasted, found, written_by)):
            continue
        yield _row(pasted, found, written_by, source)


def engine_and_class(one: Pasted, known: str | None) -> tuple[str, Classified | None]:
    """Return the engine of an exception, flink or spark, and its class of failure.

    Args:
        one: the exception.
        known: engine that wrote the text, if known.
    """
    engine = known or one.engine
    found = one.classified(engine)
    if engine is None and found is not None:
        engine = engine_of_class(found.name)
    return engine or "flink", found


def _is_failure(one: Pasted, found: Classified | None, engine: str | None) -> bool:
    """Return whether an exception below an unknown record is a failure, not a handled exception.

    Clients log errors before a retry: timeouts, refused connections, missing files. Spark's own messages
    report the end of a job or a query.
    """
    if one.thread is not None:
        return True  # uncaught: the query's own thread ended
    if one.level not in _GRAVE or found is None:
        return False
    if engine == "spark":
        return any(_ENDED.search(text) for text in one.chain)
    by_flink = any(text.startswith("org.apache.flink.") for text in one.chain)
    known = is_root_cause(found.name) or is_wrapper(found.name)
    return known and (by_flink or found.kind == "out-of-memory")


_ENDED = re.compile(r"StreamingQueryException|Job aborted|Writing job aborted|Py4JJavaError")


def _row(one: Pasted, found: Classified | None, engine: str, source: int) -> Row:
    outer = found is not None and is_wrapper(found.name)
    cause, offset = one.cause(found, outer=outer)
    fields = _fields(one, found, engine)
    row: Row = {
        "source": source,
        "offset": offset,
        "template": "bare-exception",
        "local_us": one.local_us,
        "utc_us": one.utc_us,
        "cause": cause[:CAUSE_CHARACTERS],
        "fields": fields,
    }
    if one.clock is not None:
        row["clock"] = one.clock
    if one.level is not None:
        row["level"] = fields["headed"] = one.level
    if engine == "spark":
        return row | _of_query(one, fields)
    row["event"] = Event.EXCEPTION.value
    row |= _task_columns(one)
    if found is not None and found.kind == "taskmanager-lost":
        peer = next((p for text in reversed(one.chain) if any(p := lost_peer(text))), None)
        if peer is not None:
            fields["lost_taskmanager"], fields["lost_host"] = peer[0] or "", peer[1] or ""
            if _SILENT.search(cause):
                row["taskmanager"], row["host"] = peer
    return row


def _fields(one: Pasted, found: Classified | None, engine: str) -> dict[str, str]:
    fields = {"exception": one.chain[0][:CAUSE_CHARACTERS]}
    if found is not None:
        fields["class"] = found.name
        fields |= {name: value for name, value in found.values.items() if name not in _VALUES}
        if found.options:
            fields["options"] = " ".join(found.options)
    if (frame := one.user_frame) is not None:
        fields["user_frame"] = frame
    if engine == "spark" and one.python_frame is not None:
        fields["python_frame"] = one.python_frame
    return fields


def _task_columns(one: Pasted) -> Row:
    """Return the outermost subtask, operator or source named by an exception of Flink, as columns."""
    if one.task is not None:
        name = parse_task(one.task)
        return {
            "task": name.task,
            "subtask_index": name.subtask_index,
            "parallelism": name.parallelism,
            "host": one.location,
        }
    named = task_named_in(one.chain)
    if named is None:
        return {}
    return {
        "task": named.task,
        "subtask_index": named.subtask_index,
        "parallelism": named.parallelism,
    }


def _of_query(one: Pasted, fields: dict[str, str]) -> Row:
    """Return the columns of a Spark exception: the query that it ended, or a failed batch."""
    text = " ".join((*one.chain, f"query {one.thread}" if one.thread else ""))
    named = _QUERY.search(text) or _QUERY_ID.search(text)
    fields |= {"origin": "paste", "what": "terminated"}
    if named is None and one.of_dstream:
        fields["what"] = "batch"
        return {"event": Event.SPARK_INCIDENT.value}
    row: Row = {"event": Event.SPARK_QUERY.value}
    if named is not None:
        fields |= {"id": named["id"], "run_id": named["run"]}
        row["job_name"] = named["name"].strip() or None
    return row


# --- traces ---------------------------------------------------------------------------------------


def _json_record(line: str, head: prefix.Prefix) -> Record | None:
    """Return the record in a line with a JSON object; None for other lines."""
    if head.complete or not head.text.startswith("{", head.inner):
        return None
    record = open_record(line)
    return record if record.json else None


def _owns(record: Record) -> bool:
    """Return whether a JSON object is a log record, with a time, a logger or a level.

    A time inside the message of an exception is not a time of the object.
    """
    head = record.head
    if head.logger or head.level:
        return True
    if head.local_us is None and head.utc_us is None:
        return False
    text = head.text[head.inner :]
    if _ELEMENT.match(text) is None:
        return True
    within = prefix.parse(text)
    return (within.local_us, within.utc_us) != (head.local_us, head.utc_us)


_NAME = r"(?:[A-Za-z_][\w$]{0,80}\.){1,20}[A-Z][\w$]{0,120}"
_ENDS = r"(?:Exception|Error|Throwable|Failure|Abort|Interrupt|Died|NotCompatible)(?:\$\w{1,80})?"
_ELEMENT = re.compile(
    r"\s{0,40}(?:Exception in thread \"[^\"\n]{0,200}\" |: ?|Root exception:? |Exception: |\[)?"
    rf"(?=[\w$.]{{3,400}}{_ENDS}(?:[:;\])(]|\s|\Z))"
    rf"(?P<text>(?:{_NAME}|[A-Z][a-z0-9]\w{{2,100}}{_ENDS})(?:\Z|[:;] ?.*|\s*\Z|\s\(.*|\([\w.$]{{3,300}}\):? .*))"
)
# An uncaught exception that ended a query's thread.
_THREAD = re.compile(
    r"\s{0,40}Exception in thread \"stream execution thread for (?P<query>[^\"\n]{1,200})\" "
)
# Exception, task name, location: a copied row of the Web UI's table of exceptions.
_TABLE_ROW = re.compile(
    r"(?P<text>[^\t|]{3,3000}?)(?:\t| \| | {2,8})\s{0,4}(?P<task>[^\t|]{1,300}\([0-9]{1,6}/[0-9]{1,6}\))"
    r"(?:(?:\t| \| | {2,8})\s{0,4}(?:(?P<host>[\w.-]{1,255}):[0-9]{1,5}\S{0,60}|\(unassigned\)|\S{1,300})?)?"
    r"[\s|]{0,20}\Z"
)
_BELOW = re.compile(r"\s{0,40}(?:Caused by|Wrapped by|Suppressed|Root cause): ?(?P<text>.*)")
_FRAMEISH = re.compile(
    r"\s{0,40}(?:at )?(?:[\w$-]{1,80}\.){2,20}[\w$<>]{1,120}\([^()\n]{0,120}\)?\s*(?:~?\[.*)?\Z"
)
_IN_MESSAGE = re.compile(
    rf"(?:: |\s)(?P<text>(?:[a-z][\w$]{{0,80}}\.){{2,20}}[A-Z][\w$]{{0,120}}{_ENDS}(?::.*|\s*)\Z)"
)
# In a sentence, in quotes or after a mark of emphasis: only with package and message, or as an error condition
# of Spark, which mails and pages quote without a class.
_IN_PROSE = re.compile(
    rf"(?:^|[\s\"'`“‘«(*{{])(?P<text>(?:[a-z][\w$]{{0,80}}\.){{2,20}}[A-Z][\w$]{{0,120}}{_ENDS}: [^\n]{{3,3000}}"
    r"|\[[A-Z]{2,20}_[A-Z_.]{3,60}\] [^\n]{3,3000})"
)
_PYTHON_BEGIN: Final = "Traceback (most recent call last)"
_PYTHON = re.compile(
    r"(?P<text>(?:[a-z_]\w{0,80}\.){0,10}[A-Z]\w{0,80}(?:Error|Exception|Interrupt|Exit|Warning)(?:: .*)?\Z)"
)
_TAGGED = re.compile(
    r"\s{0,8}(?:time(?:stamp)?|date|at|when|first seen|last seen)\s?[:=]?\s", re.IGNORECASE
)
# The status of a FlinkDeployment (`error:` in YAML, JSON or `kubectl describe`): outermost first, then causes.
_TYPED: Final = tuple(
    re.compile(
        rf"{quote}type{quote}\s?:\s?{quote}(?P<name>{_NAME}){quote}\s?,"
        rf"\s?{quote}message{quote}\s?:\s?{quote}(?P<message>(?:{inside}){{0,3000}})"
    )
    for quote, inside in (('"', r'[^"\\\n]|\\{1,3}"|\\.'), (r'\\"', r'[^"\\\n]|\\\\\\"|\\(?!")'))
)
_SERIAL = re.compile(r"(?:[\w$]{1,80}\.){0,20}SerializedThrowable(?:: |\s*\Z)")


def exceptions_in(data: bytes, *, whole: bool = True) -> Iterator[Pasted]:
    """Yield the exceptions of a text outside records, in order.

    Args:
        data: the text; UTF-8.
        whole: search also after the first header; exceptions below a record then have its level.
    """
    count = 0
    segments = _Segments(data, whole)
    for found in segments.blocks():
        informative = found.frames or found.python or found.task or found.classified() is not None
        if found.chain and informative:
            yield found
            count += 1
            if count == _MOST:
                return
    if count == 0 and not segments.headed and len(data) <= PROSE_BYTES:
        yield from _quoted_in_prose(data)


def _quoted_in_prose(data: bytes) -> Iterator[Pasted]:
    """Yield the first exception of a known class quoted in a sentence."""
    offset = 0
    for raw in data.split(b"\n"):
        for quoted in _IN_PROSE.finditer(raw[: 4 * _LINE].decode("utf-8", "replace")):
            pasted = Pasted(offset)
            pasted.add(offset, quoted["text"].strip()[:_MESSAGE])
            if pasted.classified() is not None:
                yield pasted
                return
        offset += len(raw) + 1


def classify_text(text: str | None, engine: str) -> Classified | None:
    """Return the class of failure of an exception given as text with its trace.

    >>> classify_text("a.b.XException: x\\n\\tat a.B.c(B.java:1)\\nCaused by: java.io.IOException: "
    ...               "No space left on device", "flink").name
    'storage-full'
    """
    data = (text or "")[:PASTE_BYTES].encode("utf-8", "replace")
    one = next(exceptions_in(data), None)
    if one is None:
        return classify([text], engine) if text else None
    return one.classified(engine)


# Spark's text before the exception of a task or the fate of its executor.
class _Segments:
    """Splits a text into exceptions."""

    def __init__(self, data: bytes, whole: bool) -> None:
        self._data = data
        self._whole = whole
        text = data[:HEAD_BYTES]
        self._escaped = any(
            sign in text
            for sign in (b"&lt;", b"&#", b"&gt;", b"&quot;", b"<br", b"<pre", b"<p>", b"&nbsp;")
        )
        self._block: Pasted | None = None
        self._stamp: prefix.Stamp | None = None
        self._level: str | None = None  # of the record whose lines these are
        self._like: prefix.Prefix | None = None  # the last record with carriers
        self._python = False
        self._again = False  # frames followed the last exception of the chain
        self.headed = False  # whether any line was a log record

    def blocks(self) -> Iterator[Pasted]:
        offset = 0
        for raw in self._data.split(b"\n"):
            line = raw[: 4 * _LINE].decode("utf-8", "replace")
            if line.strip():
                yield from self._line(offset, line)
                if self._level is not None and not self._whole:  # a record owns the other lines
                    return
            offset += len(raw) + 1
        if self._block is not None:
            yield self._block

    def _line(self, offset: int, line: str) -> Iterator[Pasted]:
        head = prefix.parse(line)
        if self._like is not None and not head.complete:
            line = prefix.strip_like(line, self._like)
            head = prefix.parse(line)
        record = _json_record(line, head)
        before = self._block
        if record is not None and _owns(record):
            self._end()
            self.headed = True
            self._level, self._stamp = record.head.level or "INFO", None
        elif record is None and head.complete and not self._continues_trace(head):
            self._header(offset, head)
        elif record is None or not self._typed(offset, head.text[head.inner :]):
            yield from self._body(offset, head, record)
            return
        if before is not None:
            yield before

    def _body(self, offset: int, head: prefix.Prefix, record: Record | None) -> Iterator[Pasted]:
        """Read a line that does not start a record. Yield the exceptions that end at it."""
        before = self._block
        texts = [head.text[head.begin if head.complete else head.inner :]]
        if record is not None:
            texts = [record.head.text[record.head.inner :], *(record.more or ())]
        for bare in texts:
            for text in _strip_decoration(bare, self._escaped):
                self._take(offset, text)
                if before is not None and self._block is not before:
                    yield before
                before = self._block

    def _continues_trace(self, head: prefix.Prefix) -> bool:
        """Return whether a line with a header belongs to a trace: some layouts print headers everywhere."""
        body = head.text[head.begin : head.end]
        return is_trace_line(body) or _BELOW.match(body) is not None

    def _header(self, offset: int, head: prefix.Prefix) -> None:
        """Start a record, which owns the lines below it."""
        self._end()
        self.headed = True
        self._like = head if head.carriers else None
        self._level, self._stamp = head.level or "INFO", None
        if self._level not in _GRAVE:
            return
        inner = _IN_MESSAGE.search(head.text[head.begin - 1 : head.end][:_MESSAGE])
        if inner is not None:
            self._element(offset, inner["text"])
            if self._block is not None:
                self._block.local_us, self._block.utc_us = head.local_us, head.utc_us
                self._block.clock = head.clock
        else:
            self._stamp = prefix.Stamp(head.begin, head.local_us, head.utc_us, head.clock)

    def _take(self, offset: int, text: str) -> None:
        """Read one line without formatting."""
        text = text[:_LINE]
        bare = text.strip()
        if not bare:
            return
        if bare.startswith(("```", "~~~")):
            self._end()
            self._level = None
            return
        below = _BELOW.match(text)
        if below is not None or is_trace_line(text) or _FRAMEISH.match(text):
            self._trace_line(offset, text, below)
            return
        if self._python_line(offset, text, bare):
            return
        if self._table_row(offset, text):
            return
        if self._typed(offset, text):
            return
        counted = _COUNT.match(text)
        element = _ELEMENT.match(text, counted.end() if counted is not None else 0)
        if element is not None:
            self._element(offset, element["text"], counted is not None)
            thread = _THREAD.match(text)
            if thread is not None and self._block is not None:
                self._block.thread = thread["query"]
        else:
            self._other(offset, text, bare)

    def _typed(self, offset: int, text: str) -> bool:
        """Read exceptions printed by the Kubernetes operator as JSON objects with type and message."""
        if self._level is not None or "message" not in text:
            return False
        found = next(filter(None, ([*one.finditer(text)] for one in _TYPED)), None)
        if found is None:
            return False
        block = self._begin(offset)
        for one in found:
            message = _string(one["message"]).replace("\\", "")  # of escapes in escapes
            # The operator's wrappers add nothing: their message is the exception.
            inner = bool(_ELEMENT.match(message)) and is_exception_line(message)
            exception = message if inner else f"{one['name']}: {message}".rstrip(" :")
            if exception not in block.chain:
                block.lines.append(exception)
                block.add(offset, exception[:_MESSAGE])
        self._again = True
        return True

    def _end(self) -> None:
        self._block = None
        self._python = False
        self._again = False

    def _begin(self, offset: int) -> Pasted:
        stamp, self._stamp = self._stamp, None
        self._end()
        self._block = Pasted(offset, level=self._level)
        if stamp is not None:
            self._block.local_us, self._block.utc_us = stamp.local_us, stamp.utc_us
            self._block.clock = stamp.clock
        return self._block

    def _trace_line(self, offset: int, text: str, below: re.Match[str] | None) -> None:
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
            self._again = False  # a terminal wrapped the line: its exception follows

    def _link(self, offset: int, block: Pasted, text: str) -> None:
        wrapper = _SERIAL.match(text)
        if wrapper is not None:
            text = text[wrapper.end() :]
        if text.strip() and "CIRCULAR REFERENCE" not in text[:40]:
            block.add(offset, text.strip()[:_MESSAGE])
        self._again = False

    def _element(self, offset: int, text: str, counted: bool = False) -> None:
        block = self._block
        if block is None or self._again or counted or self._stamp is not None:
            block = self._begin(offset)
        block.lines.append(text)
        self._link(offset, block, text)
        if _PYTHON_BEGIN in text:
            self._python = True

    def _table_row(self, offset: int, text: str) -> bool:
        """Read a row of the Web UI's table of exceptions; return whether it is one."""
        row = _TABLE_ROW.match(text)
        element = _ELEMENT.match(row["text"].strip()) if row is not None else None
        if row is None or element is None:
            return False
        self._element(offset, element["text"], counted=True)
        if self._block is not None:
            self._block.task, self._block.location = row["task"], row["host"]
        return True

    def _python_line(self, offset: int, text: str, bare: str) -> bool:
        """Read a line of a Python traceback, whose last line is the error; return whether it is one."""
        if self._block is not None and bare.startswith('File "'):
            self._block.python_frame = python_frame([bare]) or self._block.python_frame
        if bare.startswith(_PYTHON_BEGIN):
            if self._block is None:
                self._begin(offset)
            self._python = True
            return True
        if not self._python or self._block is None:
            return False
        if bare.startswith(('File "', "^", "~")) or text[:1] in " \t":
            self._block.frames += bare.startswith('File "')
            return True
        found = _PYTHON.match(bare)
        if found is None:
            return False
        self._python = False
        if "Py4J" in bare[:80] or "pyspark.errors" in bare[:40]:
            self._link(offset, self._block, bare)
        else:
            self._block.python, self._block.python_at = bare[:_MESSAGE], offset
            if not self._block.chain:
                self._block.add(offset, bare[:_MESSAGE])
        return True

    def _other(self, offset: int, text: str, bare: str) -> None:
        """Read a date, the continuation of the message above, or unrelated text."""
        tagged = _TAGGED.match(text)
        start = tagged.end() if tagged is not None else len(text) - len(text.lstrip())
        stamp = prefix.read_stamp(text, start)
        if stamp is not None:
            rest = text[stamp.end :].strip(" \t|,;-]")
            self._end()
            if len(rest) < 8:
                self._stamp, self._level = stamp, None
                return
            self._stamp = stamp
            if self._table_row(offset, rest):
                return
            element = _ELEMENT.match(rest)
            if element is not None:
                self._element(offset, element["text"])
                if self._block is not None:
                    self._block.inline = True
            else:
                self._level = self._level or "INFO"  # a record of an unknown layout
            return
        block = self._block
        if block is None:
            return
        if not block.chain:
            self._end()
        elif not self._again and len(block.chain[-1]) < _MESSAGE:
            block.chain[-1] += " " + bare
            block.glued[-1] += bare
