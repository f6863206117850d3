"""Reads the JSON lines of Spark event logs and of flowdiag's listener into rows of `EVENTS`.

Most of an event log consists of task events, and most of a task event is irrelevant. So only relevant events are
decoded, and only their required keys. Tasks are summed up per stage and executor while they are read (event
`spark_tasks`), and not kept individually. The sums of a file's splits are combined later. docs/listener.md describes
the lines of the listener.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, BinaryIO, Final

import msgspec

from flowdiag.parsers.lines.scan import Line, LineScanner, make_matcher
from flowdiag.parsers.lines.traces import own_frame
from flowdiag.parsers.messages import MOMENT_MAX
from flowdiag.parsers.rows import Event, Row, Tally
from flowdiag.parsers.spark.causes import full_heap, python_frame, shorten
from flowdiag.parsers.spark.lineage import RddInfo, lineage_of
from flowdiag.parsers.spark.lines import FIRST_KEY, EventScanner
from flowdiag.parsers.spark.plan import EXECUTION_START, plan_rows
from flowdiag.parsers.spark.progress import parse_instant, progress_row
from flowdiag.parsers.spark.tasks import TASK_END, OpenTasks, TaskEndReason, TaskSum, state_rows

# Event names as they appear in lines. The listener's names are distinct words as well.
_LOGGED: Final = (
    "SparkListenerLogStart",
    "SparkListenerApplicationStart",
    "SparkListenerApplicationEnd",
    "SparkListenerEnvironmentUpdate",
    "SparkListenerJobStart",
    "SparkListenerJobEnd",
    "SparkListenerStageCompleted",
    "SparkListenerTaskStart",
    "SparkListenerTaskEnd",
    "SparkListenerExecutorAdded",
    "SparkListenerExecutorRemoved",
    "StreamingQueryListener$Query",
)
_DUMPED: Final = (
    "flowdiag_listener",
    "streaming_started",
    "batch_submitted",
    "batch_started",
    "batch_completed",
    "output_operation_completed",
    "receiver_started",
    "receiver_error",
    "receiver_stopped",
    "query_started",
    "query_progress",
    "query_idle",
    "query_terminated",
    '"dropped"',
    '"unreadable"',
)

SETTINGS: Final = (
    "spark.app.id",
    "spark.cores.max",
    "spark.default.parallelism",
    "spark.driver.memory",
    "spark.dynamicAllocation.",
    "spark.eventLog.",
    "spark.executor.cores",
    "spark.executor.instances",
    "spark.executor.memory",
    "spark.executor.pyspark.memory",
    "spark.locality.wait",
    "spark.master",
    "spark.python.",
    "spark.scheduler.",
    "spark.speculation",
    "spark.sql.adaptive.enabled",
    "spark.sql.shuffle.partitions",
    "spark.sql.streaming.",
    "spark.streaming.",
    "spark.submit.deployMode",
    "spark.task.",
)
"""Prefixes of the options that a report may need. Other options are dropped, because they may be secrets."""

_TEXT_CHARACTERS: Final = 2000
_MOST_FAILED: Final = 5
_EXECUTORS: Final = ("SparkListenerExecutorAdded", "SparkListenerExecutorRemoved")
_MAX_SETTINGS: Final = 400


class _EventName(msgspec.Struct):
    Event: str = ""
    event: str = ""


_EVENT_NAME = msgspec.json.Decoder(_EventName)
_ANY = msgspec.json.Decoder()
_DAMAGE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError, TypeError)


class _Sum(msgspec.Struct, gc=False):
    name: str = msgspec.field(name="Name", default="")
    value: Any = msgspec.field(name="Value", default=None)


class _StageInfo(msgspec.Struct):
    stage: int = msgspec.field(name="Stage ID")
    attempt: int = msgspec.field(name="Stage Attempt ID", default=0)
    name: str = msgspec.field(name="Stage Name", default="")
    tasks: int = msgspec.field(name="Number of Tasks", default=0)
    submitted: int | None = msgspec.field(name="Submission Time", default=None)
    completed: int | None = msgspec.field(name="Completion Time", default=None)
    failure: str | None = msgspec.field(name="Failure Reason", default=None)
    sums: list[_Sum] = msgspec.field(name="Accumulables", default_factory=list)


class _StageCompleted(msgspec.Struct):
    info: _StageInfo = msgspec.field(name="Stage Info")


_STAGE_COMPLETED = msgspec.json.Decoder(_StageCompleted)


class _StageName(msgspec.Struct):
    stage: int = msgspec.field(name="Stage ID", default=-1)
    name: str = msgspec.field(name="Stage Name", default="")
    rdds: list[RddInfo] = msgspec.field(name="RDD Info", default_factory=list)


class _JobStart(msgspec.Struct):
    job: int = msgspec.field(name="Job ID")
    submitted: int | None = msgspec.field(name="Submission Time", default=None)
    stages: list[int] = msgspec.field(name="Stage IDs", default_factory=list)
    infos: list[_StageName] = msgspec.field(name="Stage Infos", default_factory=list)
    properties: dict[str, Any] | None = msgspec.field(name="Properties", default=None)


_JOB_START = msgspec.json.Decoder(_JobStart)


class _Exception(msgspec.Struct):
    message: str = msgspec.field(name="Message", default="")


class _Result(msgspec.Struct):
    result: str = msgspec.field(name="Result", default="")
    exception: _Exception | None = msgspec.field(name="Exception", default=None)


class _JobEnd(msgspec.Struct):
    job: int = msgspec.field(name="Job ID")
    completed: int | None = msgspec.field(name="Completion Time", default=None)
    result: _Result | None = msgspec.field(name="Job Result", default=None)


_JOB_END = msgspec.json.Decoder(_JobEnd)


def drop_oversized_numbers(row: Row) -> None:
    """Remove numbers that are too large for their columns; real values never are."""
    for name, value in row.items():
        if isinstance(value, int) and not isinstance(value, bool):
            most = 2**31 if name in ("attempt", "parallelism") else 2**63
            if not -most <= value < most:
                row[name] = None


class EventReader:
    """Converts the candidate lines of a scanner to rows.

    Damaged lines, and lines of an unknown listener version, count as unrecognized.
    """

    def __init__(self, source: int, tally: Tally) -> None:
        """Prepare to read; `tally` counts the event lines while rows are consumed."""
        self._source = source
        self._tasks: dict[tuple[int, int, str], TaskSum] = {}
        self._open = OpenTasks()
        self._tally = tally
        self._plans: list[Row] = []
        self._failed: dict[str, tuple[int, int | None, TaskEndReason]] = {}  # by text
        self._stateless: set[int] = set()  # stages of jobs without a state store
        self._alone = True  # whether no event shows an application or a job

    def scanner(self, stream: BinaryIO, start: int = 0, end: int = -1) -> EventScanner:
        """Return a scanner that finds the lines for `rows` in a byte range and passes task events to this reader."""
        return EventScanner(
            stream,
            make_matcher((*_LOGGED, *_DUMPED)),
            start,
            end,
            event_names=_READERS,
            take_task=self._add_task,
        )

    def rows(self, scanner: LineScanner) -> Iterator[Row]:
        """Yield the rows of the scanner's range. The sums of tasks follow once their stage is complete."""
        for line in scanner:
            self._tally.candidates += 1
            for row in self._line(line):
                drop_oversized_numbers(row)
                if row.get("checkpoint", 0) is None and row["event"] != Event.SPARK_PROGRESS:
                    continue  # a job or stage has no number
                row["source"] = self._source
                row.setdefault("offset", line.offset)
                if (time := row.get("utc_us")) is not None and time > 0:
                    self._tally.add_time(time)
                yield row
        yield from self._flush(None)
        if self._alone:
            yield from self._lost_executors()

    def _line(self, line: Line) -> list[Row]:
        try:
            first = FIRST_KEY.match(line.data)
            if first is not None:
                name = first[1].decode()
            else:
                who = _EVENT_NAME.decode(line.data)
                name = who.Event or who.event
            if name in ("SparkListenerTaskStart", "SparkListenerTaskEnd"):
                self._tally.candidates -= 1  # `_add_task` counts this line
                self._add_task(line.data, line.offset)
                return []
            read = _READERS.get(name)
            if read is None and "StreamingQueryListener$Query" in name:
                read = _query_event
            if read is None:
                return []  # some other line that mentions an event
            rows = read(line.data)
        except _DAMAGE:
            self._add_unrecognized(line.data)
            return []
        self._tally.recognised += 1
        self._alone &= name in _EXECUTORS
        if read is plan_rows:
            rows = [row for row in rows if row not in self._plans]  # each trigger repeats the plan
            self._plans += [{**row} for row in rows]
        self._add_stateless(name, line.data, rows)
        if name == "SparkListenerStageCompleted":
            done = rows[0]
            self._stateless.discard(done["checkpoint"])
            return [*self._flush((done["checkpoint"], done["attempt"])), *rows]
        if name == "SparkListenerLogStart" and self._tasks:
            return [*self._flush(None), *rows]
        return rows

    def _add_stateless(self, name: str, data: bytes | memoryview, rows: list[Row]) -> None:
        """Keep the stages of a job without a state store, so that `_add_task` does not search for one."""
        if name == "SparkListenerJobStart" and b"StateStore" not in bytes(data):
            stages = msgspec.json.decode(rows[0]["fields"]["stages"], type=list[int])
            self._stateless.update(stages)

    def _add_unrecognized(self, data: bytes | memoryview) -> None:
        self._tally.add_unrecognized(
            bytes(data[:200]).removesuffix(b"\r").decode("utf-8", "replace")
        )

    def _add_task(self, data: bytes | memoryview, offset: int) -> None:
        if self._open.add_start(data, offset):
            return
        self._tally.candidates += 1
        try:
            end = TASK_END.decode(data)
        except _DAMAGE:
            self._add_unrecognized(data)
            return
        self._tally.recognised += 1
        info = end.info
        self._open.add_end(info.task, offset)
        key = (end.stage, end.attempt, info.executor)
        total = self._tasks.get(key)
        if total is None:
            total = self._tasks[key] = TaskSum(offset, info.host)
        total.add(end)
        if end.stage not in self._stateless and not info.failed and not info.killed:
            total.add_state(info.index, state_rows(data))
        reason = end.end
        if info.failed and reason is not None and len(self._failed) < _MOST_FAILED:
            self._failed.setdefault(
                reason.loss or reason.exception or "", (offset, _us(info.finished), reason)
            )

    def exceptions(self) -> Iterator[tuple[int, str]]:
        """Yield the offset and text of exceptions in pasted task events without job events to show their effect."""
        for text, (offset, _, reason) in self._failed.items() if self._alone else ():
            if text and reason.reason != "ExecutorLostFailure":
                yield offset, text

    def _lost_executors(self) -> Iterator[Row]:
        """Yield the executors lost according to pasted task events."""
        for text, (offset, ended_us, reason) in self._failed.items():
            if text and reason.reason == "ExecutorLostFailure":
                fields = _fields({"what": "removed", "executor": reason.executor})
                row = _row(Event.SPARK_EXECUTOR, ended_us, cause=_text(text), fields=fields)
                yield row | {"source": self._source, "offset": offset}

    def _flush(self, stage: tuple[int, int] | None) -> list[Row]:
        """Return the sums of one stage, or of all stages, and drop them."""
        keys = [key for key in self._tasks if stage is None or key[:2] == stage]
        rows = []
        for key in keys:
            rows.append(self._tasks.pop(key).row(key))
        if stage is None:
            rows += self._open.rows()
        for row in rows:
            row["source"] = self._source
        return rows


# -- the event log -------------------------------------------------------------------------------


def _dict(data: bytes) -> dict[str, Any]:
    value = _ANY.decode(data)
    if not isinstance(value, dict):
        raise TypeError("not an object")
    return value


def _us(milliseconds: object) -> int | None:
    if isinstance(milliseconds, int) and not isinstance(milliseconds, bool):
        return milliseconds * 1000 if 0 < milliseconds <= MOMENT_MAX else None
    return None


def _moment(value: object) -> int | None:
    """Return epoch milliseconds, or None if they are implausible."""
    time = _non_negative(value)
    return time if time is not None and time <= MOMENT_MAX else None


def _non_negative(value: object) -> int | None:
    """Return an integer in range, or None for negative numbers, because PySpark writes -1 for "none"."""
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if 0 <= value < 2**62 else None


def _fields(values: Mapping[str, object]) -> dict[str, str]:
    return {key: str(value) for key, value in values.items() if value is not None}


def _text(value: object, most: int = _TEXT_CHARACTERS) -> str | None:
    if not isinstance(value, str) or not value.strip():
        return None
    return value[:most]


def _cause(value: object) -> str | None:
    """Shorten an exception and its stack trace, but keep the decisive line."""
    return shorten(value, _TEXT_CHARACTERS) if isinstance(value, str) and value.strip() else None


def _frame(value: object) -> dict[str, str]:
    """Return the deepest frames of an exception, in the user's Python code and in other code, as fields.

    Frames of an OutOfMemoryError also show whose heap is full.
    """
    lines = value.splitlines() if isinstance(value, str) else []
    found = {"python_frame": python_frame(lines), "own_frame": own_frame(lines), **full_heap(lines)}
    return {name: frame for name, frame in found.items() if frame is not None}


def _row(event: Event, utc_us: int | None = None, **columns: object) -> Row:
    return {"event": event.value, "utc_us": utc_us, **columns}


def _log_start(data: bytes) -> list[Row]:
    version = _dict(data).get("Spark Version")
    return [
        _row(Event.SPARK_LOG_STARTED, fields=_fields({"version": version, "origin": "event-log"}))
    ]


def _application_start(data: bytes) -> list[Row]:
    event = _dict(data)
    identity, attempt = event.get("App ID"), event.get("App Attempt ID")
    key = str(identity) if identity else None
    if key and attempt and str(attempt) != "1":
        key += f"/{attempt}"
    started = _us(event.get("Timestamp"))
    return [
        _row(
            Event.SPARK_APPLICATION,
            started,
            application=key,
            job_name=_text(event.get("App Name"), 500),
            fields=_fields({"what": "started", "origin": "event-log"}),
        )
    ]


def _application_end(data: bytes) -> list[Row]:
    ended = _us(_dict(data).get("Timestamp"))
    return [_row(Event.SPARK_APPLICATION, ended, fields={"what": "ended", "origin": "event-log"})]


def settings_of(values: object) -> dict[str, str]:
    """Select the options that a report may need.

    >>> settings_of({"spark.streaming.blockInterval": "50ms", "spark.hadoop.secret": "s"})
    {'spark.streaming.blockInterval': '50ms'}
    """
    if isinstance(values, list):  # up to 2.x, some exports contain pairs
        values = {
            str(pair[0]): pair[1] for pair in values if isinstance(pair, list) and len(pair) == 2
        }
    if not isinstance(values, dict):
        return {}
    kept = {
        str(key): str(value)[:500]
        for key, value in values.items()
        if str(key).startswith(SETTINGS) and isinstance(value, (str, int, float))
    }
    return dict(sorted(kept.items())[:_MAX_SETTINGS])


def _environment(data: bytes) -> list[Row]:
    settings = settings_of(_dict(data).get("Spark Properties"))
    return [_row(Event.SPARK_SETTINGS, fields=settings)] if settings else []


def _job_start(data: bytes) -> list[Row]:
    event = _JOB_START.decode(data)
    properties = event.properties or {}

    def text(key: str) -> str | None:
        value = properties.get(key)
        return value if isinstance(value, str) else None

    time = text("spark.streaming.internal.batchTime")
    # Spark lists the files of a source in a job, but the tasks of this job are not those of the batch.
    listing = (text("spark.job.description") or "").startswith("Listing leaf files")
    fields = {
        "what": "started",
        "output": text("spark.streaming.internal.outputOpId"),
        "query": text("sql.streaming.queryId"),
        "run_id": text("spark.jobGroup.id") if text("sql.streaming.queryId") else None,
        "batch_id": text("streaming.sql.batchId"),
        "call_site": _text(text("callSite.short"), 200),
        "stages": msgspec.json.encode(event.stages if not listing else []).decode(),
        "stage_name": _text(max(event.infos, key=lambda one: one.stage).name, 300)
        if event.infos
        else None,
        "lineage": lineage_of(rdd for info in event.infos for rdd in info.rdds) if time else None,
    }
    return [
        _row(
            Event.SPARK_JOB,
            _us(event.submitted),
            checkpoint=event.job,
            epoch_ms=int(time) if time and time.isdecimal() and len(time) < 16 else None,
            fields=_fields(fields),
        )
    ]


def _job_end(data: bytes) -> list[Row]:
    event = _JOB_END.decode(data)
    result = event.result or _Result()
    failed = result.result not in ("JobSucceeded", "")
    return [
        _row(
            Event.SPARK_JOB,
            _us(event.completed),
            checkpoint=event.job,
            cause=_cause(result.exception.message) if result.exception else None,
            fields=_fields({"what": "ended", "failed": str(failed).lower()}),
        )
    ]


def _stage_completed(data: bytes) -> list[Row]:
    info = _STAGE_COMPLETED.decode(data).info
    lasted = None
    if info.submitted is not None and info.completed is not None:
        lasted = max(0, info.completed - info.submitted)
    return [
        _row(
            Event.SPARK_STAGE,
            _us(info.completed),
            checkpoint=info.stage,
            attempt=info.attempt,
            task=_text(info.name, 300),
            parallelism=info.tasks,
            duration_ms=lasted,
            cause=_cause(info.failure),
            fields=_times_of_stage(info.sums),
        )
    ]


_SENT_TO_PYTHON: Final = "data sent to Python workers"
_STAGE_TIMES: Final = {
    "internal.metrics.executorRunTime": ("run_ms", 1),
    "internal.metrics.executorCpuTime": ("cpu_ms", 1_000_000),
    "time to run Python workers": ("python_ms", 1),  # 4.0 and later
}


def _times_of_stage(sums: list[_Sum]) -> dict[str, str]:
    """Return the run time of a stage's tasks, and how much of it the JVM and the Python workers took."""
    times: dict[str, int] = {}
    for each in sums:
        found, text = _STAGE_TIMES.get(each.name), str(each.value)
        if found is not None and text.isdecimal() and len(text) < 18:
            times[found[0]] = times.get(found[0], 0) + int(text) // found[1]
    sent = any(each.name == _SENT_TO_PYTHON for each in sums)
    return _fields({**times, "python": "true" if sent else None})


def _executor_added(data: bytes) -> list[Row]:
    event = _dict(data)
    info = event.get("Executor Info")
    info = info if isinstance(info, dict) else {}
    fields = {
        "what": "added",
        "executor": event.get("Executor ID"),
        "cores": _non_negative(info.get("Total Cores")),
    }
    return [
        _row(
            Event.SPARK_EXECUTOR,
            _us(event.get("Timestamp")),
            host=_text(info.get("Host"), 300),
            fields=_fields(fields),
        )
    ]


def _executor_removed(data: bytes) -> list[Row]:
    event = _dict(data)
    return [
        _row(
            Event.SPARK_EXECUTOR,
            _us(event.get("Timestamp")),
            cause=_text(event.get("Removed Reason")),
            fields=_fields({"what": "removed", "executor": event.get("Executor ID")}),
        )
    ]


def _query_event(data: bytes) -> list[Row]:
    """Read an event of Structured Streaming, which Jackson writes with the name of its class."""
    event = _dict(data)
    kind = str(event.get("Event", "")).rpartition("$")[2]
    if kind.startswith("QueryProgress"):
        row = progress_row(event.get("progress"))
        if row is None:
            raise ValueError("no progress")
        return [row]
    what = {"QueryStarted": "started", "QueryIdle": "idle", "QueryTerminated": "terminated"}
    for beginning, word in what.items():
        if kind.startswith(beginning):
            return [_query(word, event.get("id"), event.get("runId"), event, "event-log")]
    return []


def _query(what: str, identity: object, run: object, event: dict[str, Any], origin: str) -> Row:
    error = event.get("errorClassOnException", event.get("error_class"))
    fields = {
        "what": what,
        "id": identity,
        "run_id": run,
        "error_class": error,
        "origin": origin,
        **_frame(event.get("exception")),
    }
    return _row(
        Event.SPARK_QUERY,
        parse_instant(event.get("timestamp")),
        job_name=_text(event.get("name"), 300),
        cause=_cause(event.get("exception")),
        fields=_fields(fields),
    )


# -- the listener's lines ------------------------------------------------------------------------


def _header(data: bytes) -> list[Row]:
    event = _dict(data)
    interval = _non_negative(event.get("batch_interval_ms"))
    rows = [
        _row(
            Event.SPARK_APPLICATION,
            _us(event.get("start_time")),
            application=_text(event.get("application_id"), 200),
            job_name=_text(event.get("application_name"), 500),
            fields=_fields(
                {
                    "what": "started",
                    "origin": "listener",
                    "version": event.get("spark_version"),
                    "interval_ms": interval,
                }
            ),
        )
    ]
    settings = settings_of(event.get("configuration"))
    if settings:
        rows.append(_row(Event.SPARK_SETTINGS, fields=settings))
    if _non_negative(event.get("dropped")):
        rows.append(_dropped_row(event["dropped"], _us(event.get("time"))))
    return rows


def _dropped_row(count: object, utc_us: int | None) -> Row:
    fields = _fields({"count": count, "queue": "flowdiag_listener"})
    return _row(Event.SPARK_DROPPED, utc_us, fields=fields)


def _dropped_events(data: bytes) -> list[Row]:
    event = _dict(data)
    return [_dropped_row(event.get("count", 1), _us(event.get("time")))]


def _streaming_started(data: bytes) -> list[Row]:
    event = _dict(data)
    return [
        _row(
            Event.SPARK_APPLICATION,
            _us(event.get("start_time") or event.get("time")),
            fields=_fields(
                {
                    "what": "streaming",
                    "origin": "listener",
                    "interval_ms": _non_negative(event.get("batch_interval_ms")),
                }
            ),
        )
    ]


def _batch_event(state: str) -> Callable[[bytes], list[Row]]:
    def read(data: bytes) -> list[Row]:
        event = _dict(data)
        time = _moment(event.get("batch_time"))
        if time is None:
            raise ValueError("no batch time")
        operations = _items(event.get("output_operations"))
        failed = [each for each in operations if each.get("failure_reason")]
        end = _non_negative(event.get("processing_end_time"))
        streams = [
            {
                "stream": stream.get("stream_id"),
                "records": stream.get("num_records"),
                "description": _text(stream.get("description"), 4000),
            }
            for stream in _items(event.get("streams"))
        ]
        fields = {
            "origin": "listener",
            "state": state,
            "submission": _non_negative(event.get("submission_time")),
            "start": _non_negative(event.get("processing_start_time")),
            "end": end,
            "scheduling": _non_negative(event.get("scheduling_delay")),
            "records": _non_negative(event.get("num_records")),
            "streams": msgspec.json.encode(streams).decode() if streams else None,
            "outputs": len(operations) if state == "completed" else None,
            "failed": len(failed) if state == "completed" else None,
        }
        lasted = _non_negative(event.get("processing_delay"))
        rows = [
            _row(
                Event.SPARK_BATCH,
                _us(end if state == "completed" else event.get("time")),
                epoch_ms=time,
                duration_ms=lasted,
                fields=_fields(fields),
            )
        ]
        if state == "completed":
            rows += [_output(time, operation) for operation in operations]
        return rows

    return read


def _output(time: int, operation: dict[str, Any]) -> Row:
    start, end = (
        _non_negative(operation.get("start_time")),
        _non_negative(operation.get("end_time")),
    )
    fields = {
        "origin": "listener",
        "output": operation.get("id"),
        "name": _text(operation.get("name"), 300),
        "description": _text(operation.get("description"), 300),
    }
    return _row(
        Event.SPARK_OUTPUT,
        _us(end),
        epoch_ms=time,
        duration_ms=end - start if start is not None and end is not None else None,
        cause=_cause(operation.get("failure_reason")),
        fields=_fields(fields),
    )


def _items(value: object) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _output_event(data: bytes) -> list[Row]:
    event = _dict(data)
    time = _moment(event.get("batch_time"))
    if time is None:
        raise ValueError("no batch time")
    return [_output(time, event)]


def _receiver_event(what: str) -> Callable[[bytes], list[Row]]:
    def read(data: bytes) -> list[Row]:
        event = _dict(data)
        fields = {
            "origin": "listener",
            "what": what,
            "stream": event.get("stream_id"),
            "name": _text(event.get("name"), 300),
            "executor": event.get("executor_id"),
        }
        return [
            _row(
                Event.SPARK_RECEIVER,
                _us(event.get("time")),
                host=_text(event.get("location"), 300),
                cause=_text(event.get("last_error_message")) or _text(event.get("last_error")),
                fields=_fields(fields),
            )
        ]

    return read


def _listener_query(what: str) -> Callable[[bytes], list[Row]]:
    def read(data: bytes) -> list[Row]:
        event = _dict(data)
        row = _query(what, event.get("id"), event.get("run_id"), event, "listener")
        row["utc_us"] = row["utc_us"] or _us(event.get("time"))
        return [row]

    return read


def _listener_progress(data: bytes) -> list[Row]:
    row = progress_row(_dict(data).get("progress"))
    if row is None:
        raise ValueError("no progress")
    return [row]


_READERS: Final[dict[str, Callable[[bytes], list[Row]]]] = {
    "SparkListenerLogStart": _log_start,
    "SparkListenerApplicationStart": _application_start,
    "SparkListenerApplicationEnd": _application_end,
    "SparkListenerEnvironmentUpdate": _environment,
    "SparkListenerJobStart": _job_start,
    "SparkListenerJobEnd": _job_end,
    "SparkListenerStageCompleted": _stage_completed,
    "SparkListenerExecutorAdded": _executor_added,
    "SparkListenerExecutorRemoved": _executor_removed,
    EXECUTION_START: plan_rows,
    "header": _header,
    "streaming_started": _streaming_started,
    "batch_submitted": _batch_event("submitted"),
    "batch_started": _batch_event("started"),
    "batch_completed": _batch_event("completed"),
    "output_operation_completed": _output_event,
    "receiver_started": _receiver_event("started"),
    "receiver_error": _receiver_event("error"),
    "receiver_stopped": _receiver_event("stopped"),
    "query_started": _listener_query("started"),
    "query_progress": _listener_progress,
    "query_idle": _listener_query("idle"),
    "query_terminated": _listener_query("terminated"),
    "dropped": _dropped_events,
    "unreadable": lambda data: [_dropped_row(1, _us(_dict(data).get("time")))],
}


def is_event_log(line: bytes) -> bool:
    """Return whether a line comes from an event log or a listener file.

    >>> is_event_log(b'{"Event":"SparkListenerLogStart","Spark Version":"3.5.1"}')
    True
    >>> is_event_log(b'{"flowdiag_listener":1,"event":"header"}'), is_event_log(b'{"event":"batch"}')
    (True, False)
    """
    try:
        who = _EVENT_NAME.decode(line.strip())
    except _DAMAGE:
        return False
    if who.Event.startswith(("SparkListener", "org.apache.spark.")):
        return True
    return (who.event in _READERS and who.event != "dropped") or b'"flowdiag_listener"' in line[
        :200
    ]
