"""Reads saved responses of Spark's REST API about DStreams: `/streaming/statistics` and its siblings.

`/environment` is read as well, because no other response shows whether back pressure is enabled.

Only running applications have this API. The keys of a response show its kind. The
application, which the response does not contain, is identified by an ID in the file name, or later by its batch
times. `totalDelay` and `schedulingDelay` count from the submission time, which no response contains.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec

from flowdiag.parsers.errors import Unreadable
from flowdiag.parsers.messages import MOMENT_MAX
from flowdiag.parsers.rows import Event, Row
from flowdiag.parsers.sources.collected import collected_of
from flowdiag.parsers.sources.printed import PrintedJson, json_printed
from flowdiag.parsers.spark.causes import python_frame, shorten
from flowdiag.parsers.spark.events import settings_of
from flowdiag.parsers.spark.progress import parse_instant, progress_row
from flowdiag.parsers.stacks.dumps import is_spark_dump, spark_threads, thread_rows

_MAX_ITEMS: Final = 1_000_000
_TEXT: Final = 2000
_STACK: Final = 100_000
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{1,6}(?:GMT|Z|[+-]\d\d:?\d\d)?")
_APPLICATION = re.compile(
    r"app-\d{14}-\d{4,8}|application_\d{10,16}_\d{4,9}(?:/\d{1,3}\b)?|local-\d{10,16}"
    r"|spark-(?:application-\d{10,16}|[0-9a-f]{32})"
)
_CONTAINER = re.compile(
    r"container_(?:e\d{1,9}_)?(?P<application>\d{6,20}_\d{1,9})_(?P<attempt>\d{1,6})_\d{1,9}"
)
_EXECUTOR_IN_NAME = re.compile(r"executors[/_]([\w.-]{1,100}?)[/_]threads")
_BATCH_IN_JOB = re.compile(r"\bbatch = ([0-9]{1,15})\b|/batch/\?id=([0-9]{13})\b")
_STAGE_IN_PATH = re.compile(r"/stages/([0-9]{1,9})/([0-9]{1,4})/taskList")
_BATCH_IN_NAME = re.compile(r"(?<!\d)\d{13}(?!\d)")


def recognize_response(data: bytes) -> str | None:
    """Return the kind of a response: statistics, batches, receivers, operations, environment, threads, or None.

    Reports of streaming queries (`lastProgress`) are `progress`. If the data contains several values, the first decides.

    >>> recognize_response(b'{"batchDuration": 1000, "numReceivers": 1}')
    'statistics'
    >>> recognize_response(b"[]") is None
    True
    """
    value = _decode(data)
    if value is None and (printed := json_printed(data)) is not None:
        value = _decode(_values(printed)[0][1])
    return kind_of(value)


def kind_of(value: object) -> str | None:
    """Return the kind of a decoded response; see `recognize_response`."""
    if isinstance(value, dict):
        if isinstance(value.get("sparkProperties"), list):
            return "environment"
        if "batchDuration" in value and ("numReceivers" in value or "numActiveBatches" in value):
            return "statistics"
        return _kind_of_item(value)
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return "threads" if is_spark_dump(value) else _kind_of_item(value[0])
    return None


# The keys of each kind of item: all of the first group are required, and one of the second unless that is empty.
_KINDS: Final[tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...]] = (
    ("batches", ("batchId", "batchTime"), ()),
    ("progress", ("runId", "timestamp"), ("durationMs", "sources")),
    ("operations", ("outputOpId",), ()),
    ("ended-query", ("runId", "status", "exception"), ()),
    ("jobs", ("jobId", "stageIds"), ()),
    ("tasks", ("taskId", "launchTime"), ()),
    ("receivers", ("streamId",), ("streamName", "eventRates")),
)


def _kind_of_item(item: dict[str, Any]) -> str | None:
    for kind, every, one in _KINDS:
        if all(key in item for key in every) and (not one or any(key in item for key in one)):
            return kind
    return None


def application_in(name: str) -> str | None:
    """Find an application ID in a file name, in the format of any cluster manager.

    >>> application_in("rest/applications_app-20260101120000-0003_streaming_batches.json")
    'app-20260101120000-0003'
    """
    found = _APPLICATION.search(name)
    return found[0] if found else None


def application_of_container(container: str) -> str | None:
    """Return the application ID of a YARN container, with the attempt number from the second attempt on.

    >>> application_of_container("container_e17_1466086160000_0007_02_000003")
    'application_1466086160000_0007/2'
    """
    found = _CONTAINER.match(container)
    if found is None:
        return None
    attempt = int(found["attempt"])
    return f"application_{found['application']}" + (f"/{attempt}" if attempt > 1 else "")


def answer_rows(data: bytes, name: str) -> Iterator[Row]:
    """Yield the rows of a response, or of several responses with other text around them.

    `offset` is 0, because documents have no lines. With several responses, it is the start of each.

    Args:
        data: the document.
        name: name of the file, which may contain the application ID and, for operations, the batch time.
    """
    value = _decode(data)
    if value is None:
        yield from _printed_rows(data, name)
        return
    collected = collected_of(value)
    if collected is None:
        yield from _rows_of(
            value, application_in(name), _BATCH_IN_NAME.findall(name.rpartition("/")[2]), name
        )
        return
    for answer in collected.answers:
        yield from _rows_of(
            answer.body,
            application_in(answer.path),
            _BATCH_IN_NAME.findall(answer.path),
            answer.path,
            answer.time_ms,
        )


def _decode(data: bytes) -> object:
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _values(printed: PrintedJson) -> list[tuple[int, bytes]]:
    """Return the offset and text of each JSON value."""
    ends = [*printed.values[1:], len(printed.data)]
    pairs = zip(printed.values, ends, strict=True)
    return [(begin, printed.data[begin:end].strip()) for begin, end in pairs]


def _printed_rows(data: bytes, name: str) -> Iterator[Row]:
    printed = json_printed(data)
    if printed is None:
        raise Unreadable("damaged JSON")
    path = printed.path or ""
    application = application_in(path) or application_in(name)
    times = _BATCH_IN_NAME.findall(path) or _BATCH_IN_NAME.findall(name.rpartition("/")[2])
    for offset, text in _values(printed):
        for row in _rows_of(_decode(text), application, times, path or name):
            row["offset"] = offset
            yield row


def _rows_of(
    value: object,
    application: str | None,
    time: list[str],
    place: str = "",
    at_ms: int | None = None,
) -> Iterator[Row]:
    """Yield the rows of a decoded response.

    Args:
        value: the response.
        application: application ID, if known.
        time: a list with the batch time, or empty if it is unknown.
        place: identifies the response among others, together with its time.
        at_ms: when the response arrived, if known.
    """
    if isinstance(value, list) and is_spark_dump(value):
        process = _EXECUTOR_IN_NAME.search(place)
        for _, row in thread_rows(spark_threads(value), f"{place}@{at_ms or ''}"):
            if process is not None:
                row["fields"]["executor"] = process[1]
            utc_us = None if at_ms is None else at_ms * 1000
            yield row | {"offset": 0, "application": application, "utc_us": utc_us}
    elif value == [] and place.partition("?")[0].endswith("/jobs"):
        yield _request_row(at_ms) | {"offset": 0, "application": application}
    else:
        yield from _item_rows(value, application, time, place, at_ms)


def _item_rows(
    value: object, application: str | None, time: list[str], place: str, at_ms: int | None
) -> Iterator[Row]:
    kind = kind_of(value)
    if kind == "jobs" and at_ms is not None:
        yield _request_row(at_ms) | {"offset": 0, "application": application}
    items = [
        item for item in (value if isinstance(value, list) else [value]) if isinstance(item, dict)
    ]
    readers: dict[str, Callable[[Row], list[Row]]] = {
        "statistics": _statistics,
        "batches": batch_rows,
        "operations": lambda item: _operation(item, int(time[-1]) if time else None),
        "receivers": _receiver,
        "environment": _environment,
        "ended-query": _ended_query,
        "jobs": lambda item: _job(item, at_ms),
        "tasks": lambda item: _task(item, place, at_ms),
        "progress": lambda item: [row for row in [progress_row(item)] if row is not None],
    }
    if (read := readers.get(kind or "")) is None:
        return
    for item in items[:_MAX_ITEMS]:
        for row in read(item):
            row["offset"] = 0
            if application is not None:
                row["application"] = application
            yield row


def _millis(value: object) -> int | None:
    if not isinstance(value, str) or not _TIME.fullmatch(value):
        return None
    us = parse_instant(value.replace("GMT", "+00:00"))
    return None if us is None else us // 1000


def _non_negative(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return int(value) if 0 <= value < 2**62 else None


def _text(value: object, most: int = _TEXT) -> str | None:
    return value[:most] if isinstance(value, str) and value.strip() else None


def _fields(**values: object) -> dict[str, str]:
    return {key: str(value) for key, value in values.items() if value is not None}


def _statistics(item: Row) -> list[Row]:
    started = _millis(item.get("startTime"))
    return [
        {
            "event": Event.SPARK_APPLICATION.value,
            "utc_us": None if started is None else started * 1000,
            "fields": _fields(
                what="streaming",
                origin="rest",
                interval_ms=_non_negative(item.get("batchDuration")),
                receivers=_non_negative(item.get("numReceivers")),
                completed=_non_negative(item.get("numTotalCompletedBatches")),
                retained=_non_negative(item.get("numRetainedCompletedBatches")),
                active=_non_negative(item.get("numActiveBatches")),
            ),
        }
    ]


def _environment(item: Row) -> list[Row]:
    """Read the configuration, which only this response contains."""
    settings = settings_of(item.get("sparkProperties"))
    return [{"event": Event.SPARK_SETTINGS.value, "fields": settings}] if settings else []


def batch_rows(item: Row) -> list[Row]:
    """Return the row of a batch as `/streaming/batches` lists it."""
    time = _non_negative(item.get("batchId"))
    if time is None or time > MOMENT_MAX:
        return []
    status = str(item.get("status") or "")
    state = {"COMPLETED": "completed", "PROCESSING": "started", "QUEUED": "submitted"}.get(status)
    failed = _non_negative(item.get("numFailedOutputOps"))
    interval = _non_negative(item.get("batchDuration"))
    return [
        {
            "event": Event.SPARK_BATCH.value,
            "utc_us": time * 1000,
            "epoch_ms": time,
            "duration_ms": _non_negative(item.get("processingTime")),
            "cause": _text(item.get("firstFailureReason")),
            "fields": _fields(
                origin="rest",
                state=state,
                scheduling=_non_negative(item.get("schedulingDelay")),
                records=_non_negative(item.get("inputSize")),
                outputs=_non_negative(item.get("numTotalOutputOps")),
                failed=failed,
                interval_ms=interval,
            ),
        }
    ]


def _request_row(at_ms: int | None) -> Row:
    """Return a row for the request of running jobs. It shows that jobs missing from the response have ended."""
    return {
        "event": Event.SPARK_JOB.value,
        "utc_us": None if at_ms is None else at_ms * 1000,
        "fields": _fields(what="look", seen=at_ms),
    }


def _job(item: Row, at_ms: int | None) -> list[Row]:
    """Read a running job. Its group is the run ID of a query, and its description contains the batch."""
    if item.get("status") != "RUNNING" or at_ms is None:
        return []
    started, batch = _millis(item.get("submissionTime")), _batch_of(item.get("description"))
    stages = item.get("stageIds")
    whole = [_non_negative(stage) for stage in (stages if isinstance(stages, list) else ())]
    query = "runId = " in str(item.get("description") or "")
    return [
        {
            "event": Event.SPARK_JOB.value,
            "utc_us": None if started is None else started * 1000,
            "checkpoint": _non_negative(item.get("jobId")),
            "epoch_ms": None if query else batch,
            "fields": _fields(
                what="started",
                seen=at_ms,
                run_id=_text(item.get("jobGroup"), 100) if query else None,
                batch_id=batch if query else None,
                stages=msgspec.json.encode(
                    [stage for stage in whole if stage is not None]
                ).decode(),
                stage_name=_text(item.get("name"), 300),
            ),
        }
    ]


def _batch_of(description: object) -> int | None:
    """Return a query's batch number, or a DStream's batch time, from the description of a job.

    >>> _batch_of("orders<br/>id = 3f08900d<br/>runId = e0119127<br/>batch = 17")
    17
    >>> _batch_of('Streaming job from <a href="/streaming/batch/?id=1795646956000">[output operation 0]</a>')
    1795646956000
    """
    found = _BATCH_IN_JOB.search(str(description or ""))
    return None if found is None else int(found[1] or found[2])


def _task(item: Row, place: str, at_ms: int | None) -> list[Row]:
    """Read a running task; the path of the response contains the stage and its attempt."""
    stage, task = _STAGE_IN_PATH.search(place), _non_negative(item.get("taskId"))
    started = _millis(item.get("launchTime"))
    if item.get("status") != "RUNNING" or stage is None or task is None or at_ms is None:
        return []
    return [
        {
            "event": Event.SPARK_TASK.value,
            "utc_us": None if started is None else started * 1000,
            "checkpoint": int(stage[1]),
            "attempt": int(stage[2]),
            "subtask_index": _non_negative(item.get("index")),
            "host": _text(item.get("host"), 300),
            "fields": _fields(
                what="started",
                seen=at_ms,
                task_id=task,
                executor=_text(item.get("executorId"), 100),
            ),
        }
    ]


def _ended_query(item: Row) -> list[Row]:
    """Read a query that the Web UI lists as ended; the time of its end is unknown."""
    error = _text(item.get("exception"), _STACK)
    return [
        {
            "event": Event.SPARK_QUERY.value,
            "job_name": _text(item.get("name"), 300),
            "cause": shorten(error, _TEXT) if error else None,
            "fields": _fields(
                what="terminated",
                id=_text(item.get("id"), 100),
                run_id=_text(item.get("runId"), 100),
                origin="rest",
                python_frame=python_frame(error.splitlines()) if error else None,
            ),
        }
    ]


def _operation(item: Row, time: int | None) -> list[Row]:
    start, end = _millis(item.get("startTime")), _millis(item.get("endTime"))
    if time is None:
        return []
    return [
        {
            "event": Event.SPARK_OUTPUT.value,
            "utc_us": None if end is None else end * 1000,
            "epoch_ms": time,
            "duration_ms": _non_negative(item.get("duration"))
            if item.get("duration") is not None
            else (end - start if start is not None and end is not None else None),
            "cause": _text(item.get("failureReason")),
            "fields": _fields(
                origin="rest",
                output=_non_negative(item.get("outputOpId")),
                name=_text(item.get("name"), 300),
                description=_text(item.get("description"), 300),
            ),
        }
    ]


def _receiver(item: Row) -> list[Row]:
    error = _text(item.get("lastErrorMessage")) or _text(item.get("lastError"))
    at = _millis(item.get("lastErrorTime"))
    listed = item.get("eventRates")
    rates = [
        pair
        for pair in (listed if isinstance(listed, list) else ())
        if isinstance(pair, list)
        and len(pair) == 2
        and all(isinstance(number, (int, float)) for number in pair)
    ]
    return [
        {
            "event": Event.SPARK_RECEIVER.value,
            "utc_us": None if at is None or at <= 0 else at * 1000,
            "host": _text(item.get("executorHost"), 300),
            "cause": error,
            "fields": _fields(
                origin="rest",
                what="statistics",
                stream=_non_negative(item.get("streamId")),
                name=_text(item.get("streamName"), 300),
                executor=_text(item.get("executorId"), 100),
                active=str(bool(item.get("isActive", True))).lower(),
                # Convert the records of a stream per batch to records per second; this is converted back later.
                rates=msgspec.json.encode(rates).decode() if rates else None,
            ),
        }
    ]
