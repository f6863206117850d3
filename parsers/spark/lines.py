"""Finds the relevant lines of an event log by their beginnings.

Spark writes the event name first, so a few bytes decide whether a line is relevant. Searching whole lines for
literals, as in logs, would take twice as long as decoding the hits. Task events, which are nearly all of an event
log, are passed on inside the read buffer without being copied.
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
"""Matches the beginning of a line whose first key is the event name."""

TASK_START: Final = b"SparkListenerTaskStart"
TASK_END: Final = b"SparkListenerTaskEnd"
# Task events as Spark writes them.
_TASK_LINES: Final = (b'{"Event":"SparkListenerTaskEnd",', b'{"Event":"SparkListenerTaskStart",')
_QUERY: Final = b"StreamingQueryListener$Query"  # part of the name of a class

TakeTask = Callable[[bytes | memoryview, int], None]


class EventScanner(LineScanner):
    """Iterates over the relevant lines of a byte range, except task events.

    If the first key of a line is not the event name, the line is relevant if `matcher` finds a match in it.

    Args:
        stream, start, end, buffer_bytes: see `LineScanner`.
        matcher: for lines whose first key is not the event name.
        event_names: names of the relevant events.
        take_task: is called with each task event line and its offset, in the order of the stream. The bytes are valid
            only during the call.
    """

    def __init__(
        self,
        stream: BinaryIO,
        matcher: Matcher,
        start: int = 0,
        end: int = -1,
        *,
        event_names: Collection[str],
        take_task: TakeTask,
        buffer_bytes: int = BUFFER_BYTES,
    ) -> None:
        """Position the scanner before the range, without reading."""
        super().__init__(stream, matcher, start, end, buffer_bytes=buffer_bytes)
        self._event_names = frozenset(name.encode() for name in event_names)
        self._take_task = take_task

    def _lines_of(self, scanned: int, stop: int) -> Iterator[Line]:
        while scanned < stop:
            line, scanned = self._next(scanned, stop)
            if line is None:
                return
            yield line

    def _next(self, position: int, stop: int) -> tuple[Line | None, int]:
        """Return the next relevant line in [position, stop), and the position to continue from."""
        buffer, base, take = self._buffer, self._base, self._take_task
        find, begins = buffer.find, buffer.startswith
        last = stop if self._end is None else min(stop, self._end - base)
        with memoryview(buffer) as view:
            while position < last:
                end = find(b"\n", position, stop)
                if end < 0:
                    end = stop
                if begins(_TASK_LINES, position) and end - position <= LINE_BYTES:
                    take(view[position:end], base + position)
                    position = end + 1
                    continue
                head = FIRST_KEY.match(buffer, position, end)
                name = head[1] if head is not None else None
                if name in (TASK_START, TASK_END) and end - position <= LINE_BYTES:
                    take(view[position:end], base + position)
                elif (
                    self._matcher.find(view[position : min(end, position + HEAD_BYTES)])
                    if name is None
                    else name in self._event_names
                    or name in (TASK_START, TASK_END)
                    or _QUERY in name
                ):
                    return self._line(position, end), end + 1
                position = end + 1
        return None, stop

    def _line(self, start: int, end: int) -> Line:
        self._line_start = start
        if end - start > LINE_BYTES:
            self._line_end = start + LINE_BYTES
            self.truncated_lines += 1
            return Line(self._base + start, bytes(self._buffer[start : self._line_end]), True)
        self._line_end = end
        return Line(self._base + start, self._content(start, end), False)
