"""Converts decoded REST responses to rows of `EVENTS`, with one reader per kind of response."""

from __future__ import annotations

import functools
import html
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from flowdiag.parsers.components import part_of
from flowdiag.parsers.flink.metric_table import parts_of, recognize_metric
from flowdiag.parsers.flink.rest_shapes import Ids, Kind
from flowdiag.parsers.json_values import (
    as_amount,
    as_count,
    as_integer,
    as_moment,
    as_number,
    as_string,
    as_text,
    flatten,
    microseconds,
    object_at,
    objects_at,
)
from flowdiag.parsers.lines.contexts import with_context
from flowdiag.parsers.lines.traces import CAUSE_CHARACTERS, Trace, middle_of, own_frame, read_trace
from flowdiag.parsers.messages import parse_task
from flowdiag.parsers.rows import Event, Row
from flowdiag.parsers.secrets import is_secret_key
from flowdiag.parsers.sources.collected import TaskPlaces
from flowdiag.parsers.sources.file_times import NO_MOMENT, Moment
from flowdiag.parsers.stacks.dumps import Thread, flink_threads, jcmd_threads, thread_rows
from flowdiag.parsers.stacks.profiles import (
    Sample,
    flame_graph_samples,
    flight_samples,
    profile_rows,
    speedscope_samples,
)


@dataclass(slots=True)
class Context:
    """Facts about a response that its readers need but its body lacks.

    Attributes:
        origin: rest, archive or dump.
        ids: IDs in the path of the response.
        tasks: vertex names by ID, from the document or its neighbors.
        detailed: checkpoints whose details are in the same document.
        moment: when values without their own time were measured.
        places: names and locations from a file of a collection; None for other files.
        measured: subtasks (vertex, index) whose time shares the document contains as metrics.
        metric_names: metrics to keep, as named in the table; None for all.
        document: name of the file.
    """

    origin: str = "rest"
    ids: Ids = field(default_factory=Ids)
    tasks: Mapping[str, str] = field(default_factory=dict)
    detailed: frozenset[int] = frozenset()
    moment: Moment = NO_MOMENT
    places: TaskPlaces | None = None
    measured: frozenset[tuple[str, int]] = frozenset()
    metric_names: frozenset[str] | None = None
    document: str = ""

    def row(
        self, event: Event, template: str, fields: Mapping[str, object], **columns: object
    ) -> Row:
        """Build a row with the IDs from the path, unless `columns` contains others."""
        columns.setdefault("job_id", self.ids.job_id)
        texts = {key: text for key, value in fields.items() if (text := as_text(value)) is not None}
        texts["origin"] = self.origin
        return {"event": event.value, "template": template, "fields": texts, **columns}


MAX_TRACE_CHARACTERS: Final = 1024 * 1024


def trace_of(text: str) -> Trace:
    """Parse a stack trace or a plain message. The cause of a message is its first line.

    >>> trace_of("Checkpoint expired before completing.").cause
    'Checkpoint expired before completing.'
    """
    lines = text[:MAX_TRACE_CHARACTERS].splitlines()
    first = next((line.strip() for line in lines if line.strip()), "")[:CAUSE_CHARACTERS] or None
    trace = read_trace(lines)
    return replace(trace, exception=trace.exception or first, cause=trace.cause or first)


_ENDPOINT = re.compile(r"(?P<host>\[[0-9a-fA-F:.%]+\]|[^:\s]+):(?P<port>-?[0-9]{1,5})\Z")
_NOWHERE: Final = frozenset(("", "(unassigned)", "unassigned", "null", "unknown"))


def place_of(item: Mapping[str, Any]) -> dict[str, Any]:
    """Return location columns and the port, from `host`, `endpoint`, `location` and `taskmanager-id` in any version.

    `endpoint` (1.20 and later) has the full host name, as in logs, and is the only key from 2.0 on. In some versions,
    `host` is a short name; in others, it includes the port.
    """
    host = port = None
    for key in ("endpoint", "location", "host"):
        text = as_string(item.get(key))
        if text is None or text.lower() in _NOWHERE:
            continue
        found = _ENDPOINT.match(text)
        host = found["host"] if found else text
        port = int(found["port"]) if found else None
        break
    taskmanager = as_string(item.get("taskmanager-id")) or as_string(item.get("taskManagerId"))
    if taskmanager is not None and taskmanager.lower() in _NOWHERE:
        taskmanager = None
    return {"host": host, "taskmanager": taskmanager, "port": port}


def _jobs_overview(body: Any, context: Context) -> Iterator[Row]:
    for key in ("jobs", "running", "finished"):
        for item in objects_at(body, key):
            yield from _job_state(item, context)


def _jobs(body: Any, context: Context) -> Iterator[Row]:
    for item in objects_at(body, "jobs"):
        job_id, state = as_string(item.get("id")), as_string(item.get("status"))
        if job_id and state:
            yield context.row(Event.JOB_STATE, "rest-jobs", {}, job_id=job_id, to_state=state)


def _job_state(body: Mapping[str, Any], context: Context) -> Iterator[Row]:
    state = as_string(body.get("state"))
    if state is None:
        return
    moments = {
        name: moment
        for name, value in object_at(body, "timestamps").items()
        if (moment := as_moment(value)) is not None
    }
    when = moments.get(state) or as_moment(body.get("end-time"))
    yield context.row(
        Event.JOB_STATE,
        "rest-job",
        {
            **{f"at_{name}": moment for name, moment in moments.items()},
            "start_ms": as_moment(body.get("start-time")),
            "end_ms": as_moment(body.get("end-time")),
            "now_ms": as_moment(body.get("now")),
            "scheduler": body.get("schedulerType"),
            "application_id": body.get("application-id"),
        },
        job_id=as_string(body.get("jid")) or context.ids.job_id,
        job_name=as_string(body.get("name")),
        to_state=state,
        utc_us=microseconds(when),
    )


def _job(body: Any, context: Context) -> Iterator[Row]:
    job_id = as_string(body.get("jid"))
    if job_id:
        context = replace(context, ids=replace(context.ids, job_id=job_id))
    yield from _job_state(body, context)
    for order, item in enumerate(objects_at(body, "vertices")):
        yield _vertex_row(item, context, order)
    yield from _plan(body, context)


def _vertex_row(item: Mapping[str, Any], context: Context, order: int | None) -> Row:
    return context.row(
        Event.VERTEX,
        "rest-vertex",
        {
            "order": order,
            "status": item.get("status"),
            "start_ms": as_moment(item.get("start-time")),
            "end_ms": as_moment(item.get("end-time")),
            **flatten(object_at(item, "metrics")),
        },
        vertex_id=as_string(item.get("id")),
        task=as_string(item.get("name")),
        parallelism=as_count(item.get("parallelism")),
        utc_us=microseconds(as_moment(item.get("start-time"))),
    )


def _plan(body: Any, context: Context) -> Iterator[Row]:
    plan = object_at(body, "plan")
    job_id = as_string(plan.get("jid")) or context.ids.job_id
    for node in objects_at(plan, "nodes"):
        vertex_id = as_string(node.get("id"))
        description = html.unescape(as_string(node.get("description")) or "")
        for source in objects_at(node, "inputs"):
            upstream = as_string(source.get("id"))
            if vertex_id and upstream:
                yield context.row(
                    Event.EDGE,
                    "rest-edge",
                    {
                        "upstream": upstream,
                        "ship_strategy": source.get("ship_strategy"),
                        "exchange": source.get("exchange"),
                        "number": source.get("num"),
                        "description": description.replace("<br/>", " ").strip(),
                    },
                    job_id=job_id,
                    job_name=as_string(plan.get("name")),
                    vertex_id=vertex_id,
                    task=context.tasks.get(vertex_id),
                    parallelism=as_count(node.get("parallelism")),
                )


def _exceptions(body: Any, context: Context) -> Iterator[Row]:
    if entries := objects_at(object_at(body, "exceptionHistory"), "entries"):
        # From 1.13 on, the older keys only repeat the latest entry.
        for entry in entries:
            yield _failure(entry, context, "stacktrace", "taskName", concurrent=False)
            for other in objects_at(entry, "concurrentExceptions"):
                yield _failure(other, context, "stacktrace", "taskName", concurrent=True)
        return
    listed = objects_at(body, "all-exceptions")
    for item in listed:
        yield _failure(item, context, "exception", "task", concurrent=False)
    root, when = as_string(body.get("root-exception")), as_moment(body.get("timestamp"))
    begins = [str(x.get("exception")).partition("\n")[0] for x in listed]
    if root and root.partition("\n")[0] not in begins:
        item = {"exception": root, "timestamp": when}
        yield _failure(item, context, "exception", "task", concurrent=False)


def _failure(
    item: Mapping[str, Any], context: Context, text: str, task: str, *, concurrent: bool
) -> Row:
    whole = as_string(item.get(text)) or as_string(item.get("exceptionName")) or ""
    trace = trace_of(whole)
    name = as_string(item.get(task))
    known = parse_task(name.replace(" - execution #", "#")) if name else None
    place = place_of(item)
    return context.row(
        Event.TASK_STATE,
        "rest-exception",
        {
            "exception": trace.exception,
            "user_frame": trace.user_frame,
            "own_frame": own_frame(whole.splitlines()),
            **middle_of(trace.chain),
            "scope": "task" if known else "job",
            "concurrent": concurrent,
            "data_port": place["port"],
            "labels": ", ".join(f"{k}={v}" for k, v in object_at(item, "failureLabels").items()),
            "component": part_of(trace.chain, whole.splitlines()),
        },
        task=known.task if known else None,
        subtask_index=known.subtask_index if known else None,
        parallelism=known.parallelism if known else None,
        attempt=known.attempt if known else None,
        host=place["host"],
        taskmanager=place["taskmanager"],
        to_state="FAILED",
        cause=with_context(trace.chain, -1) if trace.chain[1:] else trace.cause,
        utc_us=microseconds(as_moment(item.get("timestamp"))),
    )


def _checkpoints(body: Any, context: Context) -> Iterator[Row]:
    if counts := object_at(body, "counts"):
        yield context.row(Event.CHECKPOINT_COUNTS, "rest-checkpoint-counts", flatten(counts))
    seen = set(context.detailed)
    for item in objects_at(body, "history"):
        number = as_integer(item.get("id"))
        if number is not None and number not in seen:
            seen.add(number)
            yield from checkpoint_rows(item, context, detail="history")
    latest = object_at(body, "latest")
    for key in ("completed", "savepoint", "failed"):
        item = object_at(latest, key)
        number = as_integer(item.get("id"))
        if number is not None and number not in seen:
            # May be older than the history, which contains ten checkpoints.
            seen.add(number)
            yield from checkpoint_rows(item, context, detail="latest")
    restored = object_at(latest, "restored")
    if as_integer(restored.get("id")) is not None:
        yield context.row(
            Event.RESTORED,
            "rest-restored",
            {
                "is_savepoint": restored.get("is_savepoint"),
                "external_path": restored.get("external_path"),
            },
            checkpoint=as_integer(restored.get("id")),
            utc_us=microseconds(as_moment(restored.get("restore_timestamp"))),
        )


_NO_PATH: Final = "<checkpoint-not-externally-addressable>"


def checkpoint_rows(body: Mapping[str, Any], context: Context, *, detail: str) -> Iterator[Row]:
    """Yield a `checkpoint_status` row, and a `checkpoint_vertex` row for each listed vertex."""
    number = as_integer(body.get("id"))
    if number is None:
        number = context.ids.checkpoint
    trigger = as_moment(body.get("trigger_timestamp"))
    savepoint = body.get("is_savepoint")
    path = as_string(body.get("external_path"))
    message = as_string(body.get("failure_message"))
    yield context.row(
        Event.CHECKPOINT_STATUS,
        f"{_prefix(context)}-checkpoint",
        {
            "status": body.get("status"),
            "type": body.get("checkpoint_type") or ("SAVEPOINT" if savepoint else "CHECKPOINT"),
            "is_savepoint": savepoint,
            "num_subtasks": as_count(body.get("num_subtasks")),
            "num_acknowledged_subtasks": as_count(body.get("num_acknowledged_subtasks")),
            "latest_ack_ms": as_moment(body.get("latest_ack_timestamp")),
            "failure_ms": as_moment(body.get("failure_timestamp")),
            "external_path": None if path == _NO_PATH else path,
            "discarded": body.get("discarded"),
            "checkpointed_size": as_amount(body.get("checkpointed_size")),
            "alignment_buffered": as_amount(body.get("alignment_buffered")),
            "processed_data": as_amount(body.get("processed_data")),
            "persisted_data": as_amount(body.get("persisted_data")),
            "detail": detail,
        },
        checkpoint=number,
        epoch_ms=trigger,
        utc_us=microseconds(trigger),
        duration_ms=as_amount(body.get("end_to_end_duration")),
        bytes=as_amount(body.get("state_size")),
        to_state=as_string(body.get("status")),
        cause=trace_of(message).cause if message else None,
    )
    for vertex_id, task in object_at(body, "tasks").items():
        if isinstance(task, Mapping):
            yield _checkpoint_vertex(task, vertex_id, number, context)


def _prefix(context: Context) -> str:
    return "dump" if context.origin == "dump" else "rest"


def _checkpoint_vertex(
    task: Mapping[str, Any], vertex_id: str, checkpoint: int | None, context: Context
) -> Row:
    return context.row(
        Event.CHECKPOINT_VERTEX,
        f"{_prefix(context)}-checkpoint-vertex",
        {
            "status": task.get("status"),
            "num_subtasks": as_count(task.get("num_subtasks")),
            "num_acknowledged_subtasks": as_count(task.get("num_acknowledged_subtasks")),
            "latest_ack_ms": as_moment(task.get("latest_ack_timestamp")),
            "checkpointed_size": as_amount(task.get("checkpointed_size")),
            "alignment_buffered": as_amount(task.get("alignment_buffered")),
            "processed_data": as_amount(task.get("processed_data")),
            "persisted_data": as_amount(task.get("persisted_data")),
        },
        checkpoint=checkpoint,
        vertex_id=vertex_id,
        task=context.tasks.get(vertex_id),
        parallelism=as_count(task.get("num_subtasks")),
        utc_us=microseconds(as_moment(task.get("latest_ack_timestamp"))),
        duration_ms=as_amount(task.get("end_to_end_duration")),
        bytes=as_amount(task.get("state_size")),
        to_state=as_string(task.get("status")),
    )


def _subtasks(body: Any, context: Context) -> Iterator[Row]:
    number = as_integer(body.get("id"))
    if number is None:
        number = context.ids.checkpoint
    vertex_id = context.ids.vertex_id
    parallelism = as_count(body.get("num_subtasks"))
    if vertex_id and number not in context.detailed:
        yield _checkpoint_vertex(body, vertex_id, number, context)
    for item in objects_at(body, "subtasks"):
        parts, alignment = object_at(item, "checkpoint"), object_at(item, "alignment")
        ack = as_moment(item.get("ack_timestamp"))
        yield context.row(
            Event.CHECKPOINT_SUBTASK,
            "rest-checkpoint-subtask",
            {
                "status": item.get("status"),
                "checkpoint_status": body.get("status"),
                "ack_ms": ack,
                "sync_ms": as_amount(parts.get("sync")),
                "async_ms": as_amount(parts.get("async")),
                "alignment_ms": as_amount(alignment.get("duration")),
                "alignment_buffered": as_amount(alignment.get("buffered")),
                "alignment_processed": as_amount(alignment.get("processed")),
                "alignment_persisted": as_amount(alignment.get("persisted")),
                "start_delay_ms": as_amount(item.get("start_delay")),
                "checkpointed_size": as_amount(item.get("checkpointed_size")),
                "unaligned": item.get("unaligned_checkpoint"),
                "aborted": item.get("aborted"),
            },
            checkpoint=number,
            vertex_id=vertex_id,
            task=context.tasks.get(vertex_id or ""),
            subtask_index=as_count(item.get("index")),
            parallelism=parallelism,
            utc_us=microseconds(ack),
            duration_ms=as_amount(item.get("end_to_end_duration")),
            bytes=as_amount(item.get("state_size")),
            to_state=as_string(item.get("status")),
        )


def _checkpoint_config(body: Any, context: Context) -> Iterator[Row]:
    yield context.row(Event.CHECKPOINT_CONFIG, "rest-checkpoint-config", flatten(body))


def _vertex(body: Any, context: Context) -> Iterator[Row]:
    yield _vertex_row(body, context, None)
    for item in objects_at(body, "subtasks"):
        yield from _placed_rows(
            item,
            context,
            vertex_id=as_string(body.get("id")),
            task=as_string(body.get("name")),
            parallelism=as_count(body.get("parallelism")),
        )


def _placed_rows(item: Mapping[str, Any], context: Context, **columns: object) -> Iterator[Row]:
    place = place_of(item)
    moments = {
        f"at_{name}": as_moment(value) for name, value in object_at(item, "timestamps").items()
    }
    spent = {
        f"ms_{name}": as_amount(value) for name, value in object_at(item, "status-duration").items()
    }
    start = as_moment(item.get("start-time")) or as_moment(item.get("start_time"))
    yield context.row(
        Event.PLACED,
        "rest-subtask",
        {
            "status": item.get("status"),
            "start_ms": start,
            "end_ms": as_moment(item.get("end-time")),
            "data_port": place["port"],
            **moments,
            **spent,
            **flatten(object_at(item, "metrics")),
        },
        subtask_index=as_count(item.get("subtask")),
        attempt=as_count(item.get("attempt")),
        host=place["host"],
        taskmanager=place["taskmanager"],
        utc_us=microseconds(start or moments.get("at_DEPLOYING")),
        duration_ms=as_amount(item.get("duration")),
        **columns,
    )
    for other in objects_at(item, "other-concurrent-attempts"):
        if not other.get("other-concurrent-attempts"):
            yield from _placed_rows(other, context, **columns)


def _subtask_times(body: Any, context: Context) -> Iterator[Row]:
    subtasks = objects_at(body, "subtasks")
    for item in subtasks:
        yield from _placed_rows(
            item,
            context,
            vertex_id=as_string(body.get("id")),
            task=as_string(body.get("name")),
            parallelism=len(subtasks),
        )


def _attempt(body: Any, context: Context) -> Iterator[Row]:
    vertex_id = context.ids.vertex_id
    yield from _placed_rows(
        body, context, vertex_id=vertex_id, task=context.tasks.get(vertex_id or "")
    )


def _vertex_taskmanagers(body: Any, context: Context) -> Iterator[Row]:
    # The numbers are sums over the subtasks of the vertex on a TaskManager. Only the name is useful.
    yield _vertex_row({"id": body.get("id"), "name": body.get("name")}, context, None)


def _taskmanagers(body: Any, context: Context) -> Iterator[Row]:
    for item in objects_at(body, "taskmanagers"):
        yield from _taskmanager(item, context)


_ACTOR_HOST = re.compile(r"@(?P<host>\[[0-9a-fA-F:.%]+\]|[^:/@\s]+)(?::[0-9]+)?/")


def _taskmanager(body: Any, context: Context) -> Iterator[Row]:
    taskmanager = as_string(body.get("id"))
    if taskmanager is None:
        return
    host = _ACTOR_HOST.search(as_string(body.get("path")) or "")
    # In 1.4, the hardware keys are in the item itself.
    hardware = object_at(body, "hardware") or {
        key: body.get(key) for key in ("cpuCores", "physicalMemory", "freeMemory", "managedMemory")
    }
    yield context.row(
        Event.TASKMANAGER_REGISTERED,
        "rest-taskmanager",
        {
            "data_port": body.get("dataPort"),
            "last_heartbeat_ms": as_moment(body.get("timeSinceLastHeartbeat")),
            "slots": as_count(body.get("slotsNumber")),
            "free_slots": as_count(body.get("freeSlots")),
            "blocked": body.get("blocked"),
            **flatten(hardware, "hardware."),
            **flatten(object_at(body, "memoryConfiguration"), "memory."),
            **flatten(object_at(body, "metrics"), "metrics."),
        },
        job_id=None,
        taskmanager=taskmanager,
        host=host["host"] if host else None,
    )


def _backpressure(body: Any, context: Context) -> Iterator[Row]:
    vertex_id = context.ids.vertex_id or ""
    if vertex_id not in context.tasks:  # only this response lacks the name
        name = (
            f"vertex {vertex_id}"
            if vertex_id
            else f"the task in {context.document or 'the response'}"
        )
        context = replace(context, tasks={vertex_id: name})
    when = as_moment(body.get("end-timestamp"))
    for item in objects_at(body, "subtasks"):
        if (context.ids.vertex_id, as_count(item.get("subtask"))) in context.measured:
            continue
        samples = {name: as_number(item.get(name)) for name in ("ratio", "idleRatio", "busyRatio")}
        if "busyRatio" in item or "idleRatio" in item:
            # From 1.13 on: the three metrics of the task, divided by 1000.
            named = {
                "backPressuredTimeMsPerSecond": samples["ratio"],
                "idleTimeMsPerSecond": samples["idleRatio"],
                "busyTimeMsPerSecond": samples["busyRatio"],
            }
            values = {name: None if v is None else v * 1000 for name, v in named.items()}
        else:
            # Up to 1.12: the share of samples in which the task waited for a buffer.
            values = {"isBackPressured": samples["ratio"]}
        for name, value in values.items():
            if context.metric_names is not None and name not in context.metric_names:
                continue
            yield from _metric_row(
                context,
                name,
                value,
                subtask_index=as_count(item.get("subtask")),
                utc_us=microseconds(when),
            )


def _metric_row(
    context: Context,
    name: str,
    value: float | None,
    *,
    kind: str = "gauge",
    scope: str = "task",
    operator: str | None = None,
    **columns: object,
) -> Iterator[Row]:
    """Yield a row with one sample; skip a task metric whose task is unknown."""
    vertex_id = context.ids.vertex_id
    task = context.tasks.get(vertex_id or "")
    if scope in ("task", "operator") and (task is None or columns.get("subtask_index") is None):
        return
    if columns.get("utc_us") is None:
        columns["utc_us"], columns["local_us"] = context.moment
    if context.places is not None:
        _fill_in_places(context, context.places, columns)
    row = context.row(Event.METRIC, "rest-metric", {}, vertex_id=vertex_id, task=task, **columns)
    row["metric"] = {
        "name": name,
        "kind": kind,
        "scope": scope,
        "operator": operator,
        "count": 0 if value is None else 1,
        **dict.fromkeys(("first", "last", "min", "max", "sum"), value),
    }
    yield row


def _fill_in_places(context: Context, places: TaskPlaces, columns: dict[str, Any]) -> None:
    """Fill in the job's name and the place of the subtask from the collection's context."""
    columns["job_name"] = places.jobs.get(context.ids.job_id or "")
    if columns.get("taskmanager") is None:
        index = columns.get("subtask_index")
        columns["taskmanager"] = places.taskmanager(context.ids.vertex_id, index)
    columns["host"] = places.hosts.get(columns["taskmanager"] or "")


def _values(body: Any) -> Iterator[tuple[str, float | None]]:
    for item in body if isinstance(body, list) else ():
        if isinstance(item, Mapping) and isinstance(item.get("id"), str) and "value" in item:
            text = item["value"]
            yield item["id"], _BOOLEANS.get(str(text).lower(), as_number(text))


_BOOLEANS: Final[dict[str, float | None]] = {"true": 1.0, "false": 0.0}


def _metrics(scope: str) -> Callable[[Any, Context], Iterator[Row]]:
    """Return a reader for `[{id, value}]`. It ignores aggregates (`min`, `max` …), which belong to no subtask."""

    def read(body: Any, context: Context) -> Iterator[Row]:
        for name, value in _values(body):
            parts = parts_of(name)
            subtask = context.ids.subtask_index
            if scope == "task" and subtask is None and parts[0].isdecimal():
                subtask = as_count(parts.pop(0))
            found = recognize_metric(parts)
            if found is None:
                continue
            metric, length = found
            if context.metric_names is not None and metric.name not in context.metric_names:
                continue
            operator = ".".join(parts[:-length]) or None
            if value is not None and value == metric.absent:
                value = None
            yield from _metric_row(
                context,
                ".".join(parts[-length:]),
                value,
                kind=metric.kind,
                scope="operator" if operator and scope == "task" else scope,
                operator=operator,
                subtask_index=subtask,
                taskmanager=context.ids.taskmanager,
            )

    return read


def _configuration(body: Any, context: Context) -> Iterator[Row]:
    for item in body if isinstance(body, list) else ():
        if isinstance(item, Mapping) and isinstance(item.get("key"), str):
            hidden = is_secret_key(item["key"])
            yield context.row(
                Event.CONFIGURATION,
                "rest-configuration",
                {"key": item["key"], "value": "******" if hidden else item.get("value")},
            )


def _overview(body: Any, context: Context) -> Iterator[Row]:
    yield context.row(
        Event.PROCESS_IDENTITY,
        "rest-overview",
        {
            "version": body.get("flink-version"),
            "timezone_offset_ms": as_integer(body.get("timezone-offset")),
            "timezone": body.get("timezone-name"),
            "taskmanagers": as_count(body.get("taskmanagers")),
        },
        job_id=None,
    )


def _job_status(body: Any, context: Context) -> Iterator[Row]:
    state = as_string(body.get("status")) if isinstance(body, Mapping) else None
    if state:
        yield context.row(Event.JOB_STATE, "rest-jobs", {}, to_state=state)


def _rescales(body: Any, context: Context) -> Iterator[Row]:
    """Yield the rescales of the adaptive scheduler (2.3 and later). Only details contain the parallelism."""
    for item in body if isinstance(body, list) else [body]:
        if not isinstance(item, Mapping):
            continue
        slots = [part for part in object_at(item, "slots").values() if isinstance(part, Mapping)]

        def total(key: str, parts: Sequence[Mapping[str, Any]] = slots) -> int | None:
            return sum(as_count(part.get(key)) or 0 for part in parts) or None

        yield context.row(
            Event.KNOWN,
            "rest-rescale",
            {
                "uuid": item.get("rescaleUuid"),
                "trigger": item.get("triggerCause"),
                "state": item.get("terminalState"),
                "before": total("preRescaleSlots"),
                "after": total("postRescaleSlots"),
                "desired": total("desiredSlots"),
            },
            utc_us=microseconds(
                as_moment(item.get("endTimestampInMillis"))
                or as_moment(item.get("startTimestampInMillis"))
            ),
        )


def _requirements(body: Any, context: Context) -> Iterator[Row]:
    """Yield the number of slots that the job requires: the parallelism of its widest vertex."""
    bounds = [
        object_at(object_at(body, vertex), "parallelism").get("upperBound") for vertex in body
    ]
    desired = max((as_count(bound) or 0 for bound in bounds), default=0)
    moment = context.moment
    yield context.row(
        Event.KNOWN,
        "rest-resource-requirements",
        {"desired": desired},
        utc_us=moment.utc_us,
        local_us=None if moment.utc_us is not None else moment.local_us,
    )


def _thread_dump(body: Any, context: Context) -> Iterator[Row]:
    yield from _threads(flink_threads(body), context, context.moment.utc_us)


def _jcmd_thread_dump(body: Any, context: Context) -> Iterator[Row]:
    threads, utc_us = jcmd_threads(body)
    yield from _threads(threads, context, utc_us or context.moment.utc_us)


def _threads(threads: Sequence[Thread], context: Context, utc_us: int | None) -> Iterator[Row]:
    manager = context.ids.taskmanager
    place = f"{manager or context.document} {utc_us or context.moment.local_us or ''}"
    for _, row in thread_rows(threads, place.strip()):
        row["fields"]["origin"] = context.origin
        yield {
            **row,
            "utc_us": utc_us,
            "local_us": None if utc_us is not None else context.moment.local_us,
            "taskmanager": None if manager is None or manager.startswith(":") else manager,
        }


def _flame_graph(body: Any, context: Context) -> Iterator[Row]:
    samples, at_ms = flame_graph_samples(body)
    vertex_id = context.ids.vertex_id
    columns = {"vertex_id": vertex_id, "task": context.tasks.get(vertex_id or "")}
    utc_us = None if at_ms is None else at_ms * 1000
    yield from _profile(samples, context, utc_us, columns | {"job_id": context.ids.job_id})


def _profile(
    samples: Iterable[Sample],
    context: Context,
    utc_us: int | None = None,
    columns: Mapping[str, Any] | None = None,
) -> Iterator[Row]:
    for row in profile_rows(samples, f"{context.document} {utc_us or ''}".strip(), columns):
        row["fields"]["origin"] = context.origin
        yield {**row, "utc_us": utc_us}


READERS: Final[dict[str, Callable[[Any, Context], Iterator[Row]]]] = {
    Kind.OVERVIEW: _overview,
    Kind.DASHBOARD: _overview,
    Kind.JOBS_OVERVIEW: _jobs_overview,
    Kind.JOBS: _jobs,
    Kind.JOB: _job,
    Kind.JOB_CONFIG: lambda body, context: iter(()),  # no rule uses this response
    Kind.FLAME_GRAPH: _flame_graph,
    Kind.SPEEDSCOPE: lambda body, context: _profile(speedscope_samples(body), context),
    Kind.FLIGHT_RECORDING: lambda body, context: _profile(flight_samples(body), context),
    Kind.JOB_STATUS: _job_status,
    Kind.RESCALES: _rescales,
    Kind.RESCALE: _rescales,
    Kind.RESOURCE_REQUIREMENTS: _requirements,
    Kind.JOB_JM_CONFIG: _configuration,
    Kind.JOB_METRICS: _metrics("jm-job"),
    Kind.PLAN: _plan,
    Kind.EXCEPTIONS: _exceptions,
    Kind.CHECKPOINTS: _checkpoints,
    Kind.CHECKPOINT_CONFIG: _checkpoint_config,
    Kind.DETAILS: functools.partial(checkpoint_rows, detail="details"),
    Kind.SUBTASKS: _subtasks,
    Kind.VERTEX: _vertex,
    Kind.SUBTASK_TIMES: _subtask_times,
    Kind.VERTEX_TASKMANAGERS: _vertex_taskmanagers,
    Kind.BACKPRESSURE: _backpressure,
    Kind.WATERMARKS: _metrics("task"),
    Kind.VERTEX_METRICS: _metrics("task"),
    Kind.SUBTASK: _attempt,
    Kind.ATTEMPT: _attempt,
    Kind.SUBTASK_METRICS: _metrics("task"),
    Kind.TASKMANAGERS: _taskmanagers,
    Kind.TASKMANAGER: _taskmanager,
    Kind.TASKMANAGER_METRICS: _metrics("tm"),
    Kind.THREAD_DUMP: _thread_dump,
    Kind.JOBMANAGER_THREAD_DUMP: _thread_dump,
    Kind.JCMD_THREAD_DUMP: _jcmd_thread_dump,
    Kind.JOBMANAGER_CONFIG: _configuration,
    Kind.JOBMANAGER_METRICS: _metrics("jm"),
}
