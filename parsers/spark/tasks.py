"""Reads task events in an event log: sums of the tasks that ended, and the tasks that did not."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import msgspec

from flowdiag.parsers.rows import Event, Row


class _TaskInfo(msgspec.Struct, gc=False):
    task: int = msgspec.field(name="Task ID", default=-1)
    index: int = msgspec.field(name="Index", default=-1)
    launched: int = msgspec.field(name="Launch Time", default=0)
    finished: int = msgspec.field(name="Finish Time", default=0)
    executor: str = msgspec.field(name="Executor ID", default="")
    host: str = msgspec.field(name="Host", default="")
    failed: bool = msgspec.field(name="Failed", default=False)
    killed: bool = msgspec.field(name="Killed", default=False)


class _Input(msgspec.Struct, gc=False):
    records: int = msgspec.field(name="Records Read", default=0)
    bytes: int = msgspec.field(name="Bytes Read", default=0)


class _Output(msgspec.Struct, gc=False):
    records: int = msgspec.field(name="Records Written", default=0)


class _ShuffleRead(msgspec.Struct, gc=False):
    waited: int = msgspec.field(name="Fetch Wait Time", default=0)
    records: int = msgspec.field(name="Total Records Read", default=0)
    remote: int = msgspec.field(name="Remote Bytes Read", default=0)
    local: int = msgspec.field(name="Local Bytes Read", default=0)


class _Metrics(msgspec.Struct, gc=False):
    run: int = msgspec.field(name="Executor Run Time", default=0)
    gc: int = msgspec.field(name="JVM GC Time", default=0)
    spilled: int = msgspec.field(name="Disk Bytes Spilled", default=0)
    input: _Input | None = msgspec.field(name="Input Metrics", default=None)
    output: _Output | None = msgspec.field(name="Output Metrics", default=None)
    shuffle: _ShuffleRead | None = msgspec.field(name="Shuffle Read Metrics", default=None)


class TaskEndReason(msgspec.Struct, gc=False):
    reason: str = msgspec.field(name="Reason", default="")
    executor: str | None = msgspec.field(name="Executor ID", default=None)
    loss: str | None = msgspec.field(name="Loss Reason", default=None)
    name: str | None = msgspec.field(name="Class Name", default=None)
    description: str | None = msgspec.field(name="Description", default=None)
    trace: str | None = msgspec.field(name="Full Stack Trace", default=None)

    @property
    def exception(self) -> str | None:
        """The exception with its stack trace, if an exception ended the task."""
        return self.trace or (self.name and f"{self.name}: {self.description or ''}")


class TaskEnd(msgspec.Struct, gc=False):
    stage: int = msgspec.field(name="Stage ID")
    info: _TaskInfo = msgspec.field(name="Task Info")
    attempt: int = msgspec.field(name="Stage Attempt ID", default=0)
    metrics: _Metrics | None = msgspec.field(name="Task Metrics", default=None)
    end: TaskEndReason | None = msgspec.field(name="Task End Reason", default=None)


TASK_END = msgspec.json.Decoder(TaskEnd)
_STATE: Final = b'"number of total state rows"'
_STATE_ROWS: Final = re.compile(
    _STATE + rb'\s{0,4},\s{0,4}"Update"\s{0,4}:\s{0,4}"?([0-9]{1,18})\b'
)
_TASK_ID: Final = re.compile(rb'"Task ID"\s{0,4}:\s{0,4}([0-9]{1,18})\s{0,4},')
_IS_START: Final = re.compile(rb'\{\s{0,16}"Event"\s{0,4}:\s{0,4}"SparkListenerTaskStart"')
_MOST_OPEN: Final = 10_000  # maximum tasks that run at the same time


def state_rows(data: bytes | memoryview) -> int:
    """Return the rows in the state stores of an ended task; Spark leaves out empty ones.

    Decoding all accumulators of each task would take as long as the rest of the event.
    """
    line = bytes(data)
    at, rows = line.find(_STATE), 0
    while at >= 0:
        found = _STATE_ROWS.match(line, at)
        rows += int(found[1]) if found is not None else 0
        at = line.find(_STATE, at + 1)
    return rows


class OpenTasks:
    """Tasks whose start or end is outside the split."""

    __slots__ = ("_ended", "_started")

    def __init__(self) -> None:
        self._started: dict[int, tuple[int, bytes]] = {}
        self._ended: dict[int, int] = {}

    def add_start(self, data: bytes | memoryview, offset: int) -> bool:
        """Keep a line that starts a task, undecoded, because nearly all tasks end. Return whether the line is one."""
        if _IS_START.match(data) is None:
            return False
        found = _TASK_ID.search(data)
        if found is not None and len(self._started) < _MOST_OPEN:
            self._started[int(found[1])] = (offset, bytes(data))
        return True

    def add_end(self, task: int, offset: int) -> None:
        if self._started.pop(task, None) is None and 0 <= task and len(self._ended) < _MOST_OPEN:
            self._ended[task] = offset

    def rows(self) -> Iterator[Row]:
        """Yield a row for each of these tasks, and drop the tasks."""
        for task, (offset, line) in self._started.items():
            try:
                begun = TASK_END.decode(line)
            except (msgspec.DecodeError, UnicodeDecodeError):
                continue
            info = begun.info
            fields = {"what": "started", "task_id": task, "executor": info.executor}
            yield {
                "offset": offset,
                "event": Event.SPARK_TASK.value,
                "checkpoint": begun.stage,
                "attempt": begun.attempt,
                "subtask_index": info.index,
                "host": info.host or None,
                "utc_us": info.launched * 1000 or None,
                "fields": {name: str(value) for name, value in fields.items()},
            }
        for task, offset in self._ended.items():
            yield {
                "offset": offset,
                "event": Event.SPARK_TASK.value,
                "fields": {"what": "ended", "task_id": str(task)},
            }
        self._started.clear()
        self._ended.clear()


class TaskSum:
    """Totals over the tasks of a stage attempt on one executor."""

    __slots__ = (
        "bytes", "failed", "fetch", "first", "gc", "host", "index", "largest_state", "last", "longest", "offset",
        "reason", "records", "slowest_records", "spilled", "state_index", "state_rows", "tasks", "total", "written",
    )  # fmt: skip

    def __init__(self, offset: int, host: str) -> None:
        self.offset, self.host = offset, host
        self.tasks = self.failed = self.total = self.records = self.bytes = 0
        self.gc = self.spilled = self.fetch = self.written = 0
        self.longest, self.index, self.slowest_records = -1, -1, 0
        self.first, self.last = 2**62, 0
        self.reason: str | None = None
        self.state_rows, self.largest_state, self.state_index = 0, -1, -1

    def add_state(self, index: int, rows: int) -> None:
        """Add the rows in the state of one partition."""
        if not rows:
            return
        self.state_rows += rows
        if rows > self.largest_state or (rows == self.largest_state and index < self.state_index):
            self.largest_state, self.state_index = rows, index

    def add(self, end: TaskEnd) -> None:
        info, metrics = end.info, end.metrics
        if info.failed or info.killed:
            self.failed += info.failed
            if info.failed and self.reason is None and end.end is not None:
                self.reason = end.end.reason
            return
        launched, finished = info.launched, info.finished
        lasted = finished - launched if finished > launched else 0
        records = 0
        if metrics is not None:
            read, shuffle = metrics.input, metrics.shuffle
            if read is not None:
                records += read.records
                self.bytes += read.bytes
            if shuffle is not None:
                records += shuffle.records
                self.bytes += shuffle.remote + shuffle.local
                self.fetch += shuffle.waited
            if metrics.output is not None:
                self.written += metrics.output.records
            self.gc += metrics.gc
            self.spilled += metrics.spilled
        self.tasks += 1
        self.total += lasted
        self.records += records
        self.first = min(self.first, launched)
        self.last = max(self.last, finished)
        if lasted > self.longest or (lasted == self.longest and info.index < self.index):
            self.longest, self.index, self.slowest_records = lasted, info.index, records

    def row(self, key: tuple[int, int, str]) -> Row:
        fields = {
            "executor": key[2],
            "tasks": self.tasks,
            "failed": self.failed,
            "total_ms": self.total,
            "longest_ms": self.longest,
            "index": self.index,
            "slowest_records": self.slowest_records,
            "records": self.records,
            "gc_ms": self.gc,
            "spilled": self.spilled,
            "fetch_ms": self.fetch,
            "written": self.written,
            "reason": self.reason,
        }
        if self.state_index >= 0:
            fields |= {
                "state_rows": self.state_rows,
                "largest_state": self.largest_state,
                "state_index": self.state_index,
            }
        return {
            "offset": self.offset,
            "event": Event.SPARK_TASKS.value,
            "checkpoint": key[0],
            "attempt": key[1],
            "host": self.host or None,
            "bytes": self.bytes,
            "utc_us": self.last * 1000 if self.last else None,
            "fields": {name: str(value) for name, value in fields.items() if value is not None},
        }
