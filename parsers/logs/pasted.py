"""A failure in a pasted text: its exceptions, the record above it, its class, engine and process."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from flowdiag.parsers.components import component_of, links_of, process_of
from flowdiag.parsers.exceptions import OF_TABLES, Classified, classify, is_of_other_service
from flowdiag.parsers.lines import prefix
from flowdiag.parsers.lines.contexts import with_context
from flowdiag.parsers.lines.failure_lines import failure_line
from flowdiag.parsers.lines.traces import ANNOUNCES, own_frame, python_root, read_trace, thrown_at
from flowdiag.parsers.logs.paste_patterns import GRAVE, engine_in
from flowdiag.parsers.spark.causes import (
    PythonTrace,
    full_heap,
    without_lost_task,
    without_query,
)

_MESSAGE: Final = 3000
_WORDS: Final = 2  # a Python error with fewer words in its first line explains nothing


class Heading(NamedTuple):
    """The log record above an exception: the offset of its line, its logger, message and time."""

    offset: int
    logger: str | None
    message: str
    stamp: prefix.Stamp | None


@dataclass(slots=True)
class Pasted:
    """A failure in a pasted text, usually an exception with its causes.

    Attributes:
        offset: offset of the first line in the decoded stream.
        local_us, utc_us: time, from a date above or before the exception.
        clock: see `Prefix`.
        chain: the exceptions as class and message, outermost first.
        glued: the chain, with wrapped lines joined without spaces.
        at: offset of the first line of each exception.
        python, python_at: the last line of a Python traceback in the exception, and its offset.
        then: the error that Python raised while it handled `python`, or because of it.
        frames: number of stack frames.
        level: level of the record above; None outside records.
        task, location: the other columns, if the exception is a row of the Web UI's table of exceptions.
        thread: name of the query thread that the exception ended, as printed by the JVM.
        python_trace: the user's own frames of a Python traceback.
        inline: whether its date is on the same line, so that it may be the message of a record.
        lines: lines of the stack trace, without formatting.
        heading: the record above; None outside records.
        plain: whether the failure has no exception. Its chain is then its message.
        headless: whether the text has only the frames of a stack trace.
        notebook: class of the error in a notebook, with the code of the cell.
        row: the row of a table, if the exception is one of its cells.
        after: the record below, which may name the address of a failed connection.
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
    then: str | None = None
    frames: int = 0
    level: str | None = None
    task: str | None = None
    location: str | None = None
    thread: str | None = None
    python_trace: PythonTrace = field(default_factory=PythonTrace)
    inline: bool = False
    lines: list[str] = field(default_factory=list)
    heading: Heading | None = None
    plain: bool = False
    headless: bool = False
    notebook: str | None = None
    row: str | None = None
    after: str = ""

    def add(self, offset: int, text: str) -> None:
        """Add the next exception of the chain, with the offset of its line."""
        self.chain.append(text)
        self.glued.append(text)
        self.at.append(offset)

    def classify(self, engine: str | None = None) -> Classified | None:
        """Return the failure class, even if a line break split the message inside a word."""
        if self.python is not None:
            found = classify([self.python], engine)
            if found is not None:
                found = found._replace(link=len(self.chain))
                return None if self._is_elsewhere(found, self.python) else found
        found = self.classified_by_words(engine)
        if found is None or self._is_elsewhere(found, self.chain[found.link]):
            return None
        if found.name == "class-loading" and _LOADS_MAIN.search("\n".join(self.lines)) is not None:
            return found._replace(name="main-class-missing")
        if found.kind == "out-of-memory":
            found.values.update(self._process(engine))
        return found

    def classified_by_words(self, engine: str | None) -> Classified | None:
        """Return the failure class by the wording alone, without checking where the exception comes from."""
        found = classify(self.chain, engine) or classify(self.glued, engine)
        return found or classify(self._with_method(), engine)

    def _with_method(self) -> list[str]:
        """Return the chain. If the deepest exception has no message, append the method that threw it."""
        if not self.chain or self.plain or ": " in self.chain[-1]:
            return []
        methods = links_of(self.chain, self.lines)[-1].methods[:1]
        return [*self.chain[:-1], f"{self.chain[-1]} at {methods[0]}"] if methods else []

    def _is_elsewhere(self, found: Classified, text: str) -> bool:
        """Return whether the exception matches this class by its wording but comes from an unrelated component."""
        logger = self.heading.logger if self.heading is not None else None
        if found.name in _ELSEWHERE and (found.name != "invalid-sql" or text.startswith(OF_TABLES)):
            process = process_of(self.chain, self.lines, logger)
            if process is not None and process.name in _ELSEWHERE[found.name]:
                return True
        source = component_of(self.chain[: found.link + 1], self.lines, logger)
        return is_of_other_service(found.name, text, source)

    def _process(self, engine: str | None) -> Mapping[str, str]:
        """Return fields for the process that ran out of memory, if the trace shows it."""
        logger = self.heading.logger if self.heading is not None else None
        process = process_of(self.chain, self.lines, logger)
        values: dict[str, str] = {} if process is None else {"process": process.name}
        above = self.heading.message if self.heading is not None else ""
        if engine == "flink":
            return values
        return {**values, **full_heap((*self.lines[:1], self.thread or "", above, *self.lines[1:]))}

    def cause(self, found: Classified | None, *, outer: bool) -> tuple[str, int]:
        """Return the decisive exception (the classified or the deepest exception) with its context, and its offset."""
        above = self.heading.message if self.heading is not None and self.level in GRAVE else ""
        at = self.offset if self.python_at is None else self.python_at
        of_python = self.python is not None and self.at[-1] <= at  # no `Caused by` follows it
        if self.python and of_python and (found is None or found.link >= len(self.chain) or outer):
            cause = with_context([without_query(self._whole_python_error(self.python))], 0, above)
            return (f"{cause} (then {self.then})" if self.then else cause), at
        chain = [
            python_root(without_lost_task(without_query(text[:_MESSAGE]))) for text in self.chain
        ]
        link = len(chain) - 1 if found is None or outer else min(found.link, len(chain) - 1)
        frame = own_frame(self.lines) or thrown_at(self.lines)
        return with_context(chain, link, above, frame, self.after), self.at[link]

    def _whole_python_error(self, error: str) -> str:
        """Return a Python error, with the next lines of its message if its first line contains almost nothing."""
        name, _, message = error.partition(":")
        last = self.chain[-1] if self.chain else ""
        is_cut = len(message.split()) < _WORDS or error.endswith(ANNOUNCES)
        return last if is_cut and last.startswith(name) else error

    @property
    def user_frame(self) -> str | None:
        """The topmost frame of user code; see `read_trace`."""
        return read_trace(self.lines).user_frame

    @property
    def is_of_dstream(self) -> bool:
        """Whether the exception failed a DStream batch rather than a streaming query."""
        text = "\n".join((*self.chain, *self.lines))
        return (
            "org.apache.spark.streaming." in text
            and "StreamingQuery" not in text
            and "sql.execution.streaming" not in text
            and ('thread "main"' not in text or _OF_BATCH.search(text) is not None)
        )

    @property
    def engine(self) -> str | None:
        """The engine, from the classes in the trace, or None if they do not show it."""
        above = self.heading.message if self.heading is not None else ""
        text = "\n".join((*self.chain, *self.lines, above))
        flink, spark = text.count("org.apache.flink."), text.count("org.apache.spark.")
        if not flink and not spark:
            if self.thread:
                return "spark"
            line = failure_line(self.chain[0]) if self.plain else None
            return engine_in(text) or (None if line is None else line.engine)
        return "flink" if flink >= spark else "spark"


# `spark-submit` loads the main class.
_LOADS_MAIN: Final = re.compile(
    r"Utils\$?\.classForName\([^\n]{0,80}\n\s{0,8}at [^\n]{0,80}\.SparkSubmit\b"
)
# The main thread alone proves nothing, because it also sets up the application.
_OF_BATCH: Final = re.compile(r"Job aborted|streaming\.(?:scheduler|dstream)\.")
# Processes that read no records, and processes that plan no statements. In the latter, the planner's classes mean bad
# rows.
_ELSEWHERE: Final = {
    "unreadable-record": (
        "flink-jobmanager", "flink-client", "flink-main", "flink-history-server", "flink-kubernetes-operator",
    ),
    "invalid-sql": ("flink-taskmanager", "spark-executor"),
}  # fmt: skip
