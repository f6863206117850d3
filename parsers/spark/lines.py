"""The lines of an event log that matter, told by how they begin.

Spark writes the name of the event first, so a few bytes of a line say whether it is wanted; a literal
search through all of it, as logs need, would take twice as long as decoding what is found. Ends of
tasks, nearly all of a log, are handed over where they lie in the window: nothing is copied.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from typing import BinaryIO, Final

from flowdiag.parsers.lines.scan import (
    BUFFER_BYTES,
    HEAD_BYTES,
    LINE_BYTES,
    Line,
    LineScanner,
    Matcher,
)

FIRST_KEY: Final = re.compile(
    rb'[^\S\n]{0,16}\{[^\S\n]{0,16}"[Ee]vent"[^\S\n]{0,4}:[^\S\n]{0,4}"([\w.$]{1,200})"'
)
"""The beginning of a line whose first key names the event."""

TASK_END: Final = b"SparkListenerTaskEnd"
_TASK_LINE: Final = b'{"Event":"SparkListenerTaskEnd",'  # as Spark writes it
_QUERY: Final = b"StreamingQueryListener$Query"  # within the name of a class

TakeTask = Callable[[bytes | memoryview, int], None]


class EventScanner(LineScanner):
    """Iterates over the wanted lines of one byte range, except those that end tasks.

    A line whose first key is not the event's name is wanted where `matcher` finds something in it.

    Args:
        stream, start, end, buffer_bytes: as of `LineScanner`.
        matcher: for lines that begin otherwise.
        wanted: names of events.
        take_task: gets each line that ends a task, and its offset, in the order of the stream; the
            bytes are valid during the call only.
    """

    def __init__(
        self,
        stream: BinaryIO,
        matcher: Matcher,
        start: int = 0,
        end: int = -1,
        *,
        wanted: Collection[str],
        take_task: TakeTask,
        buffer_bytes: int = BUFFER_BYTES,
    ) -> None:
        """Place the scanner in front of the range; nothing is read yet."""
        super().__init__(stream, matcher, start, end, buffer_bytes=buffer_bytes)
        self._wanted = frozenset(name.encode() for name in wanted)
        self._take_task = take_task

    def _lines_of(self, scanned: int, stop: int) -> Iterator[Line]:
        while scanned < stop:
            line, scanned = self._next(scanned, stop)
            if line is None:
                return
            yield line

    def _next(self, position: int, stop: int) -> tuple[Line | None, int]:
        """The next wanted line in window positions [position, stop), and where to look on."""
        buffer, base, take = self._buffer, self._base, self._take_task
        find, begins = buffer.find, buffer.startswith
        last = stop if self._end is None else min(stop, self._end - base)
        with memoryview(buffer) as view:
            while position < last:
                end = find(b"\n", position, stop)
                if end < 0:
                    end = stop
                if begins(_TASK_LINE, position) and end - position <= LINE_BYTES:
                    take(view[position:end], base + position)
                    position = end + 1
                    continue
                head = FIRST_KEY.match(buffer, position, end)
                name = head[1] if head is not None else None
                if name == TASK_END and end - position <= LINE_BYTES:
                    take(view[position:end], base + position)
                elif self._wants(name, view[position : min(end, position + HEAD_BYTES)]):
                    return self._line(position, end), end + 1
                position = end + 1
        return None, stop

    def _wants(self, name: bytes | None, head: memoryview) -> bool:
        if name is None:
            return bool(self._matcher.find(head))
        return name in self._wanted or name == TASK_END or _QUERY in name

    def _line(self, start: int, end: int) -> Line:
        self._line_start = start
        if end - start > LINE_BYTES:
            self._line_end = start + LINE_BYTES
            self.truncated_lines += 1
            return Line(self._base + start, bytes(self._buffer[start : self._line_end]), True)
        self._line_end = end
        return Line(self._base + start, self._content(start, end), False)
