"""Saved answers of Flink's REST interface and History Server archives → rows of `EVENTS`.

An answer is recognised by its keys, since users name the files as they like; ids that a body
lacks (most lack the job, some the vertex) come from the file's name, the folders above it or the
files beside it. An archive is a list of such answers with their paths, each a JSON text inside
the JSON. Shapes of Flink 1.4 to 2.3: catalogue/flink.md section 6.

What a row means follows `flowdiag.parsers.schema`; more about the rows of this module:

| event | from | notes |
|---|---|---|
| checkpoint_status | checkpoints, details | `utc_us`, `epoch_ms`: trigger; `duration_ms`: end to end; `to_state` and fields.status: `COMPLETED`, `FAILED`, `IN_PROGRESS`; `cause`: failure message; fields.type, is_savepoint, num_subtasks, num_acknowledged_subtasks, latest_ack_ms, failure_ms, external_path, discarded, checkpointed_size, processed_data, persisted_data, detail (`history`, `latest`, `details`) |
| checkpoint_vertex | details | the same per vertex; `utc_us`: its latest acknowledgement |
| checkpoint_subtask | details of a vertex | `utc_us`: acknowledgement; `duration_ms`: end to end; `bytes`; fields.status (`completed`, `pending_or_failed`), ack_ms, sync_ms, async_ms, alignment_ms, start_delay_ms, alignment_buffered, alignment_processed, alignment_persisted, unaligned, aborted, checkpointed_size, checkpoint_status |
| checkpoint_config, checkpoint_counts | config, checkpoints | fields as in the JSON, nested keys joined by a dot |
| restored | checkpoints | `utc_us`: the restore |
| job_state | jobs | `to_state` at `utc_us`; fields.at_STATE: when it was last in each, ms |
| vertex, edge | job, vertex, plan | fields.order counts from the sources |
| placed | vertex, subtask times | a subtask's attempt and its place; fields.status, io metrics as in the JSON, ms_STATE: time spent |
| task_state | exceptions | to FAILED, with `cause`, place and time; without a task: a failure of the job |
| taskmanager_registered | taskmanagers | no time: fields.last_heartbeat_ms is when it was last heard of |
| metric | backpressure, metrics | as in metrics reports, one sample |
| configuration | configurations | fields.key, fields.value |
| process_identity | overview, config | fields.version, fields.timezone_offset_ms |

Every row has fields.origin: `rest` or `archive` (`dump` for `flowdiag.parsers.statistics_dump`).
Times that the JSON says are -1 or 0 are absent. Percentiles of `end_to_end_duration` in summaries
are time stamps in Flink, so that summaries are not read at all.
"""

from __future__ import annotations

import gzip
import html
import json
import math
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

import msgspec
import pyarrow as pa

from flowdiag.parsers.errors import FlowdiagError
from flowdiag.parsers.messages import parse_task
from flowdiag.parsers.metric_reports import recognise_metric
from flowdiag.parsers.schema import EVENTS, Event

if TYPE_CHECKING:
    from flowdiag.parsers.sources import Source

Row = dict[str, Any]

MAX_FILE_BYTES: Final = 512 * 1024 * 1024
"""A larger file is not read: nobody's cluster answers that much, and it must fit in memory."""
MAX_BODY_BYTES: Final = 64 * 1024 * 1024
"""One answer, in a file or in an archive; decoded it takes about ten times as much memory."""
BATCH_ROWS: Final = 8192
CAUSE_CHARACTERS: Final = 500
FIELD_CHARACTERS: Final = 2000
SAMPLES: Final = 3

_SIBLINGS: Final = 400
_SIBLING_BYTES: Final = 512 * 1024

# Paths as Flink names them; what stands behind a colon is a parameter.
OVERVIEW: Final = "/overview"
DASHBOARD: Final = "/config"
JOBS: Final = "/jobs"
JOBS_OVERVIEW: Final = "/jobs/overview"
JOB: Final = "/jobs/:jobid"
JOB_CONFIG: Final = "/jobs/:jobid/config"
JOB_STATUS: Final = "/jobs/:jobid/status"
JOB_JM_CONFIG: Final = "/jobs/:jobid/jobmanager/config"
JOB_METRICS: Final = "/jobs/:jobid/metrics"
PLAN: Final = "/jobs/:jobid/plan"
EXCEPTIONS: Final = "/jobs/:jobid/exceptions"
CHECKPOINTS: Final = "/jobs/:jobid/checkpoints"
CHECKPOINT_CONFIG: Final = "/jobs/:jobid/checkpoints/config"
DETAILS: Final = "/jobs/:jobid/checkpoints/details/:checkpointid"
SUBTASKS: Final = "/jobs/:jobid/checkpoints/details/:checkpointid/subtasks/:vertexid"
VERTEX: Final = "/jobs/:jobid/vertices/:vertexid"
SUBTASK_TIMES: Final = "/jobs/:jobid/vertices/:vertexid/subtasktimes"
VERTEX_TASKMANAGERS: Final = "/jobs/:jobid/vertices/:vertexid/taskmanagers"
BACKPRESSURE: Final = "/jobs/:jobid/vertices/:vertexid/backpressure"
WATERMARKS: Final = "/jobs/:jobid/vertices/:vertexid/watermarks"
VERTEX_METRICS: Final = "/jobs/:jobid/vertices/:vertexid/metrics"
SUBTASK: Final = "/jobs/:jobid/vertices/:vertexid/subtasks/:subtaskindex"
ATTEMPT: Final = "/jobs/:jobid/vertices/:vertexid/subtasks/:subtaskindex/attempts/:attempt"
SUBTASK_METRICS: Final = "/jobs/:jobid/vertices/:vertexid/subtasks/:subtaskindex/metrics"
TASKMANAGERS: Final = "/taskmanagers"
TASKMANAGER: Final = "/taskmanagers/:taskmanagerid"
TASKMANAGER_METRICS: Final = "/taskmanagers/:taskmanagerid/metrics"
JOBMANAGER_CONFIG: Final = "/jobmanager/config"
JOBMANAGER_METRICS: Final = "/jobmanager/metrics"

# Answered by Flink, and of no interest to any rule.
_UNINTERESTING = re.compile(
    r"/(?:accumulators|environment|execution-result|flamegraph|rescales?|thread-dump|logs?|stdout"
    r"|resource-requirements|jm-operator-metrics|applications|application-summary|datasets"
    r"|savepoints|jars|cluster|blockers|history)(?:[/?]|$)"
)

_JOB_ID = re.compile(r"[0-9a-fA-F]{32}")


@dataclass(frozen=True, slots=True)
class Ids:
    """What a path or a name says about an answer; None where it says nothing."""

    job_id: str | None = None
    checkpoint: int | None = None
    vertex_id: str | None = None
    subtask_index: int | None = None
    taskmanager: str | None = None


@dataclass(slots=True)
class DocumentCounts:
    """What became of a document's answers: for the `split` row.

    Attributes:
        bytes: decoded bytes read.
        candidates: answers in it (one in a REST file, hundreds in an archive).
        recognised: those whose shape or path is known.
        samples: the paths or keys of the others, a few.
        first_us, last_us: of the rows' times.
    """

    bytes: int = 0
    candidates: int = 0
    recognised: int = 0
    samples: list[str] = field(default_factory=list)
    first_us: int | None = None
    last_us: int | None = None

    @property
    def not_understood(self) -> int:
        """Answers of unknown shape."""
        return self.candidates - self.recognised

    def missed(self, what: str) -> None:
        """Keep one more sample of what is not understood."""
        if len(self.samples) < SAMPLES:
            self.samples.append(what[:300])

    def saw(self, utc_us: int | None) -> None:
        """Widen the time range."""
        if utc_us is not None:
            self.first_us = utc_us if self.first_us is None else min(self.first_us, utc_us)
            self.last_us = utc_us if self.last_us is None else max(self.last_us, utc_us)


@dataclass(slots=True)
class Context:
    """What is known beside the body that is read.

    Attributes:
        origin: rest, archive or dump.
        ids: from the path.
        tasks: names of vertices by id, where the document or its neighbours tell.
        detailed: checkpoints whose details come with the same document.
    """

    origin: str = "rest"
    ids: Ids = field(default_factory=Ids)
    tasks: Mapping[str, str] = field(default_factory=dict)
    detailed: frozenset[int] = frozenset()

    def row(
        self, event: Event, template: str, fields: Mapping[str, object], **columns: object
    ) -> Row:
        """A row with the ids of the path, unless the body knows better."""
        columns.setdefault("job_id", self.ids.job_id)
        texts = {key: text for key, value in fields.items() if (text := _text(value)) is not None}
        texts["origin"] = self.origin
        return {"event": event.value, "template": template, "fields": texts, **columns}


# ---------------------------------------------------------------------------------------------
# recognising


def rest_path_of(document: object, file_name: str = "") -> str | None:
    """The REST path that a decoded answer belongs to, or None for other JSON.

    Args:
        document: the decoded JSON; only its keys and a few values are looked at.
        file_name: path and name of the file, which may supply ids.

    Returns:
        the path with known ids filled in; unknown ones stay as Flink's `:jobid`, `:vertexid` …

    >>> rest_path_of({"mode": "exactly_once", "interval": 1, "timeout": 2}, "cfg.json")
    '/jobs/:jobid/checkpoints/config'
    >>> rest_path_of({"some": "thing"}) is None
    True
    """
    kind = _kind_of(document, file_name)
    return None if kind is None else _fill(kind, _ids_of(document, file_name))


def recognise(head: bytes, file_name: str = "") -> tuple[str, str | None] | None:
    """Say what a JSON file is by its first bytes, which may end anywhere.

    Returns:
        `("archive", None)`, `("rest", path)` as by `rest_path_of`, or None.

    >>> recognise(b'{"archive": [{"path": "/jobs/overview", "json": "{')
    ('archive', None)
    >>> recognise(b'{"jid": "0123456789abcdef0123456789abcdef", "state": "RUNNING", "vertices": [{')
    ('rest', '/jobs/0123456789abcdef0123456789abcdef')
    """
    head = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if _ARCHIVE_HEAD.match(head):
        return "archive", None
    if head[:1] not in (b"{", b"["):
        return None
    try:
        document = decode_json(head)
    except ValueError:
        try:
            document = decode_json(_completed(head[:65536]))
        except ValueError:
            return None
    if isinstance(document, Mapping) and _is_har(document):
        return "rest", None
    path = rest_path_of(document, file_name)
    return None if path is None else ("rest", path)


_ARCHIVE_HEAD = re.compile(rb'\{\s*"archive"\s*:\s*\[')


def _completed(head: bytes) -> bytes:
    """Close what a cut JSON text leaves open, behind its last complete value.

    >>> _completed(b'{"a": [1, {"b": "x, y", "c": tr')
    b'{"a": [1, {"b": "x, y"}]}'
    """
    stack = bytearray()
    best: tuple[int, bytes] = (0, b"")
    position = 0
    for token in _JSON_TOKENS.finditer(head):
        position = token.end()
        kind = head[token.start()]
        if kind in b"{[":
            stack.append(kind + 2)  # `{` and `[` are two below their closing brackets
            best = (position, bytes(stack))
        elif kind in b"}]":
            if stack:
                stack.pop()
            best = (position, bytes(stack))
        elif kind == 0x2C:  # a comma: what stands before it is complete
            best = (token.start(), bytes(stack))
    end, closing = best
    return head[:end] + closing[::-1]


_JSON_TOKENS = re.compile(rb'"(?:[^"\\]|\\.)*"|[{}\[\],]', re.DOTALL)


def _kind_of(document: object, file_name: str) -> str | None:
    if isinstance(document, Mapping):
        return _kind_of_object(document, file_name.lower())
    if isinstance(document, list):
        return _kind_of_list(document, file_name.lower())
    return None


def _kind_of_object(body: Mapping[str, Any], name: str) -> str | None:
    has = body.keys().__contains__
    if has("counts") and (has("history") or has("latest")):
        return CHECKPOINTS
    if has("id") and has("num_acknowledged_subtasks"):
        if isinstance(body.get("subtasks"), list):
            return SUBTASKS
        return DETAILS if has("trigger_timestamp") else None
    if has("mode") and has("interval") and has("timeout"):
        return CHECKPOINT_CONFIG
    if has("jid"):
        if has("vertices"):
            return JOB
        return JOB_CONFIG if has("execution-config") else None
    if isinstance(body.get("plan"), Mapping) and isinstance(body["plan"].get("nodes"), list):
        return PLAN
    if has("root-exception") or has("exceptionHistory") or has("all-exceptions"):
        return EXCEPTIONS
    if has("id") and has("name"):
        if _items(body, "taskmanagers"):
            return VERTEX_TASKMANAGERS
        subtasks = _items(body, "subtasks")
        if subtasks and "timestamps" in subtasks[0]:
            return SUBTASK_TIMES
        if has("parallelism") and isinstance(body.get("subtasks"), list):
            return VERTEX
        return None
    if has("subtask") and has("attempt") and has("status"):
        return ATTEMPT
    if has("id") and has("path") and has("dataPort"):
        return TASKMANAGER
    if isinstance(body.get("taskmanagers"), list):
        items = _items(body, "taskmanagers")
        return TASKMANAGERS if not items or "path" in items[0] else None
    if has("slots-total") and has("taskmanagers"):
        return OVERVIEW
    if has("flink-version") and has("timezone-offset"):
        return DASHBOARD
    for key in ("jobs", "running", "finished"):
        items = _items(body, key)
        if items and "jid" in items[0]:
            return JOBS_OVERVIEW
        if items and key == "jobs" and {"id", "status"} <= items[0].keys():
            return JOBS
    if has("status") and ("backpressure-level" in body or "backpressureLevel" in body):
        return BACKPRESSURE
    if body.keys() == {"status"}:
        # The answer of Flink up to 1.12 before its first sample, and of /jobs/:jobid/status.
        return BACKPRESSURE if "backpressure" in name else None
    return None


def _kind_of_list(body: list[Any], name: str) -> str | None:
    first = body[0] if body else None
    if not isinstance(first, Mapping):
        return None
    if {"key", "value"} <= first.keys():
        return JOB_JM_CONFIG if "jobs" in _words(name) else JOBMANAGER_CONFIG
    if first.keys() & {"value", "min", "max", "sum", "avg"} and "id" in first:
        words = _words(name)
        if "taskmanagers" in words or ("taskmanager" in words and "vertices" not in words):
            return TASKMANAGER_METRICS
        if "jobmanager" in words:
            return JOBMANAGER_METRICS
        if "vertices" in words or "vertex" in words or "watermarks" in words:
            return WATERMARKS if "watermarks" in words else VERTEX_METRICS
        return JOB_METRICS if "jobs" in words else VERTEX_METRICS
    return None


def _words(name: str) -> list[str]:
    return [word for word in re.split(r"[^0-9A-Za-z]+", name) if word]


def _ids_of(document: object, file_name: str) -> Ids:
    """Ids from the body, and from the names of the file and its folders."""
    words = _words(unquote(file_name))
    job_id = vertex_id = None
    checkpoint = subtask = None
    loose: list[str] = []
    for before, word in zip([""] + [w.lower() for w in words], words, strict=False):
        if _JOB_ID.fullmatch(word):
            if before in ("jobs", "job", "jid", "jobid"):
                job_id = word.lower()
            elif before in ("vertices", "vertex", "vertexid", "subtasks", "vid"):
                vertex_id = word.lower()
            else:
                loose.append(word.lower())
        elif word.isdecimal() and len(word) <= 18:
            if before in ("details", "detail", "checkpoint", "checkpoints", "chk", "cp"):
                checkpoint = int(word)
            elif before in ("subtasks", "subtask") and len(word) <= 6:
                subtask = int(word)
    in_file = [word.lower() for word in _words(os.path.basename(file_name))]
    loose = [word for word in loose if word in in_file]
    if isinstance(document, Mapping):
        body_job = document.get("jid")
        if not isinstance(body_job, str) and isinstance(document.get("plan"), Mapping):
            body_job = document["plan"].get("jid")
        if isinstance(body_job, str) and _JOB_ID.fullmatch(body_job):
            job_id = body_job
        body_id = document.get("id")
        if isinstance(body_id, str) and _JOB_ID.fullmatch(body_id) and "name" in document:
            vertex_id = body_id
        elif "num_subtasks" in document:
            number = _integer(body_id)
            checkpoint = checkpoint if number is None else number
    for word in loose:
        if job_id is None and word != vertex_id:
            job_id = word
        elif vertex_id is None and word != job_id:
            vertex_id = word
    return Ids(job_id, checkpoint, vertex_id, subtask)


def _fill(kind: str, ids: Ids) -> str:
    for name, value in (
        (":jobid", ids.job_id),
        (":checkpointid", ids.checkpoint),
        (":vertexid", ids.vertex_id),
        (":subtaskindex", ids.subtask_index),
        (":taskmanagerid", ids.taskmanager),
    ):
        if value is not None:
            kind = kind.replace(name, str(value))
    return kind


def _route(path: str) -> tuple[str, Ids] | None:
    """The kind and the ids of a path, as archives and browsers record it."""
    path = unquote(path.partition("?")[0]).rstrip("/").removesuffix(".json")
    path = re.sub(r"^\w+://[^/]*", "", path)
    start = min(
        (at for at in (path.find(root) for root in _ROOTS) if at >= 0),
        default=-1,
    )
    if start < 0:
        return None
    segments = path[start:].split("/")[1:]
    if segments and segments[0] == "v1":
        segments = segments[1:]
    if segments and segments[0] == "joboverview":
        return JOBS_OVERVIEW, Ids()
    for kind, pattern in _PATTERNS:
        found = _match(pattern, segments)
        if found is not None:
            return kind, found
    return None


_ROOTS: Final = ("/jobs", "/joboverview", "/overview", "/config", "/taskmanagers", "/jobmanager")


def _match(pattern: list[str], segments: list[str]) -> Ids | None:
    if len(pattern) != len(segments):
        return None
    found: dict[str, str] = {}
    for expected, given in zip(pattern, segments, strict=True):
        if expected.startswith(":"):
            found[expected] = given
        elif expected != given:
            return None
    checkpoint, subtask = found.get(":checkpointid"), found.get(":subtaskindex")
    return Ids(
        found.get(":jobid"),
        int(checkpoint) if checkpoint and checkpoint.isdecimal() else None,
        found.get(":vertexid"),
        int(subtask) if subtask and subtask.isdecimal() and len(subtask) <= 6 else None,
        found.get(":taskmanagerid"),
    )


# ---------------------------------------------------------------------------------------------
# values: JSON of ten versions, of forks and of hostile hands; nothing here raises


def _items(body: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    value = body.get(key)
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def _object(body: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = body.get(key)
    return value if isinstance(value, Mapping) else {}


def _string(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _integer(value: object, largest: int = 2**63 - 1) -> int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, float):
        if not math.isfinite(value):
            return None
        value = int(value)
    elif isinstance(value, str):
        if not re.fullmatch(r"-?[0-9]{1,19}", value):
            return None
        value = int(value)
    if isinstance(value, int) and -largest - 1 <= value <= largest:
        return value
    return None


def _small(value: object) -> int | None:
    number = _integer(value, 2**31 - 1)
    return number if number is not None and number >= 0 else None


def _duration(value: object) -> int | None:
    """Milliseconds or bytes; Flink says -1 for "not known"."""
    number = _integer(value)
    return number if number is not None and number >= 0 else None


def _moment(value: object) -> int | None:
    """Epoch milliseconds; -1 and 0 are no time. Bounded, so that microseconds fit too."""
    number = _integer(value, 2**52)
    return number if number is not None and number > 0 else None


def _us(moment_ms: int | None) -> int | None:
    return None if moment_ms is None else moment_ms * 1000


def _text(value: object) -> str | None:
    if value is None or value == "":
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, str):
        return value[:FIELD_CHARACTERS]
    return None


def _flat(body: Mapping[str, Any], prefix: str = "", depth: int = 3) -> dict[str, object]:
    """Nested keys joined by dots; lists are left out."""
    flat: dict[str, object] = {}
    for key, value in body.items():
        if isinstance(value, Mapping):
            if depth:
                flat |= _flat(value, f"{prefix}{key}.", depth - 1)
        elif not isinstance(value, list):
            flat[f"{prefix}{key}"] = value
    return flat


def deepest_cause(trace: str) -> str | None:
    """The last `Caused by:` of a stack trace, or its first line.

    >>> deepest_cause("java.lang.Exception: a\\n\\tat x\\nCaused by: java.io.IOException: b\\n\\tat y")
    'java.io.IOException: b'
    """
    first = deepest = None
    for line in trace[: 1024 * 1024].splitlines():
        line = line.strip()
        if line.startswith("Caused by: "):
            deepest = line.removeprefix("Caused by: ")
        elif first is None and line:
            first = line
    cause = deepest or first
    return None if cause is None else cause[:CAUSE_CHARACTERS]


_ENDPOINT = re.compile(r"(?P<host>\[[0-9a-fA-F:.%]+\]|[^:\s]+):(?P<port>-?[0-9]{1,5})\Z")
_NOWHERE: Final = frozenset(("", "(unassigned)", "unassigned", "null", "unknown"))


def _place(item: Mapping[str, Any]) -> dict[str, Any]:
    """Columns and port from `host`, `endpoint`, `location`, `taskmanager-id` of any version.

    `endpoint` (1.20+) has the full name, as the logs do, and is all that 2.0+ has; `host` is
    short in some versions and has the port in others.
    """
    host = port = None
    for key in ("endpoint", "location", "host"):
        text = _string(item.get(key))
        if text is None or text.lower() in _NOWHERE:
            continue
        found = _ENDPOINT.match(text)
        host = found["host"] if found else text
        port = int(found["port"]) if found else None
        break
    taskmanager = _string(item.get("taskmanager-id")) or _string(item.get("taskManagerId"))
    if taskmanager is not None and taskmanager.lower() in _NOWHERE:
        taskmanager = None
    return {"host": host, "taskmanager": taskmanager, "port": port}


# ---------------------------------------------------------------------------------------------
# readers: one per shape


def _jobs_overview(body: Any, context: Context) -> Iterator[Row]:
    for key in ("jobs", "running", "finished"):
        for item in _items(body, key):
            yield from _job_state(item, context)


def _jobs(body: Any, context: Context) -> Iterator[Row]:
    for item in _items(body, "jobs"):
        job_id, state = _string(item.get("id")), _string(item.get("status"))
        if job_id and state:
            yield context.row(Event.JOB_STATE, "rest-jobs", {}, job_id=job_id, to_state=state)


def _job_state(body: Mapping[str, Any], context: Context) -> Iterator[Row]:
    state = _string(body.get("state"))
    if state is None:
        return
    moments = {
        name: moment
        for name, value in _object(body, "timestamps").items()
        if (moment := _moment(value)) is not None
    }
    when = moments.get(state) or _moment(body.get("end-time"))
    yield context.row(
        Event.JOB_STATE,
        "rest-job",
        {
            **{f"at_{name}": moment for name, moment in moments.items()},
            "start_ms": _moment(body.get("start-time")),
            "end_ms": _moment(body.get("end-time")),
            "now_ms": _moment(body.get("now")),
            "max_parallelism": _small(body.get("maxParallelism")),
            "job_type": body.get("job-type") or body.get("jobType"),
            "scheduler": body.get("schedulerType"),
            "application_id": body.get("application-id"),
        },
        job_id=_string(body.get("jid")) or context.ids.job_id,
        job_name=_string(body.get("name")),
        to_state=state,
        utc_us=_us(when),
    )


def _job(body: Any, context: Context) -> Iterator[Row]:
    job_id = _string(body.get("jid"))
    if job_id:
        context = replace(context, ids=replace(context.ids, job_id=job_id))
    yield from _job_state(body, context)
    for order, item in enumerate(_items(body, "vertices")):
        yield _vertex_row(item, context, order)
    yield from _plan(body, context)


def _vertex_row(item: Mapping[str, Any], context: Context, order: int | None) -> Row:
    return context.row(
        Event.VERTEX,
        "rest-vertex",
        {
            "order": order,
            "status": item.get("status"),
            "start_ms": _moment(item.get("start-time")),
            "end_ms": _moment(item.get("end-time")),
            "max_parallelism": _small(item.get("maxParallelism")),
            "slot_sharing_group": item.get("slotSharingGroupId"),
            **_flat(_object(item, "metrics")),
        },
        vertex_id=_string(item.get("id")),
        task=_string(item.get("name")),
        parallelism=_small(item.get("parallelism")),
        utc_us=_us(_moment(item.get("start-time"))),
    )


def _plan(body: Any, context: Context) -> Iterator[Row]:
    plan = _object(body, "plan")
    job_id = _string(plan.get("jid")) or context.ids.job_id
    for node in _items(plan, "nodes"):
        vertex_id = _string(node.get("id"))
        description = html.unescape(_string(node.get("description")) or "")
        for source in _items(node, "inputs"):
            upstream = _string(source.get("id"))
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
                    job_name=_string(plan.get("name")),
                    vertex_id=vertex_id,
                    task=context.tasks.get(vertex_id),
                    parallelism=_small(node.get("parallelism")),
                )


def _exceptions(body: Any, context: Context) -> Iterator[Row]:
    entries = _items(_object(body, "exceptionHistory"), "entries")
    if entries:
        # From 1.13 on the older keys repeat the latest entry.
        for entry in entries:
            yield _failure(entry, context, "stacktrace", "taskName", concurrent=False)
            for other in _items(entry, "concurrentExceptions"):
                yield _failure(other, context, "stacktrace", "taskName", concurrent=True)
        return
    listed = _items(body, "all-exceptions")
    for item in listed:
        yield _failure(item, context, "exception", "task", concurrent=False)
    root, when = _string(body.get("root-exception")), _moment(body.get("timestamp"))
    if root and not any(
        item.get("exception") == root and _moment(item.get("timestamp")) == when for item in listed
    ):
        item = {"exception": root, "timestamp": when}
        yield _failure(item, context, "exception", "task", concurrent=False)


def _failure(
    item: Mapping[str, Any], context: Context, trace: str, task: str, *, concurrent: bool
) -> Row:
    text = _string(item.get(trace)) or ""
    name = _string(item.get(task))
    known = parse_task(name.replace(" - execution #", "#")) if name else None
    place = _place(item)
    return context.row(
        Event.TASK_STATE,
        "rest-exception",
        {
            "exception": item.get("exceptionName") or text.strip().partition("\n")[0].strip(),
            "scope": "task" if known else "job",
            "concurrent": concurrent,
            "data_port": place["port"],
            "labels": ", ".join(
                f"{key}={value}" for key, value in _object(item, "failureLabels").items()
            ),
        },
        task=known.task if known else None,
        subtask_index=known.subtask_index if known else None,
        parallelism=known.parallelism if known else None,
        attempt=known.attempt if known else None,
        host=place["host"],
        taskmanager=place["taskmanager"],
        to_state="FAILED",
        cause=deepest_cause(text),
        utc_us=_us(_moment(item.get("timestamp"))),
    )


def _checkpoints(body: Any, context: Context) -> Iterator[Row]:
    counts = _object(body, "counts")
    if counts:
        yield context.row(Event.CHECKPOINT_COUNTS, "rest-checkpoint-counts", _flat(counts))
    seen = set(context.detailed)
    for item in _items(body, "history"):
        number = _integer(item.get("id"))
        if number is not None and number not in seen:
            seen.add(number)
            yield from checkpoint_rows(item, context, detail="history")
    latest = _object(body, "latest")
    for key in ("completed", "savepoint", "failed"):
        item = _object(latest, key)
        number = _integer(item.get("id"))
        if number is not None and number not in seen:
            # Older than the history, which holds ten.
            seen.add(number)
            yield from checkpoint_rows(item, context, detail="latest")
    restored = _object(latest, "restored")
    if _integer(restored.get("id")) is not None:
        yield context.row(
            Event.RESTORED,
            "rest-restored",
            {
                "is_savepoint": restored.get("is_savepoint"),
                "external_path": restored.get("external_path"),
            },
            checkpoint=_integer(restored.get("id")),
            utc_us=_us(_moment(restored.get("restore_timestamp"))),
        )


_NO_PATH: Final = "<checkpoint-not-externally-addressable>"


def checkpoint_rows(body: Mapping[str, Any], context: Context, *, detail: str) -> Iterator[Row]:
    """One `checkpoint_status` row, and a `checkpoint_vertex` row for each vertex that is listed."""
    number = _integer(body.get("id"))
    if number is None:
        number = context.ids.checkpoint
    trigger = _moment(body.get("trigger_timestamp"))
    savepoint = body.get("is_savepoint")
    path = _string(body.get("external_path"))
    message = _string(body.get("failure_message"))
    yield context.row(
        Event.CHECKPOINT_STATUS,
        f"{_prefix(context)}-checkpoint",
        {
            "status": body.get("status"),
            "type": body.get("checkpoint_type") or ("SAVEPOINT" if savepoint else "CHECKPOINT"),
            "is_savepoint": savepoint,
            "savepoint_format": body.get("savepointFormat"),
            "num_subtasks": _small(body.get("num_subtasks")),
            "num_acknowledged_subtasks": _small(body.get("num_acknowledged_subtasks")),
            "latest_ack_ms": _moment(body.get("latest_ack_timestamp")),
            "failure_ms": _moment(body.get("failure_timestamp")),
            "external_path": None if path == _NO_PATH else path,
            "discarded": body.get("discarded"),
            "checkpointed_size": _duration(body.get("checkpointed_size")),
            "metadata_size": _duration(body.get("metadata_size")),
            "alignment_buffered": _duration(body.get("alignment_buffered")),
            "processed_data": _duration(body.get("processed_data")),
            "persisted_data": _duration(body.get("persisted_data")),
            "detail": detail,
        },
        checkpoint=number,
        epoch_ms=trigger,
        utc_us=_us(trigger),
        duration_ms=_duration(body.get("end_to_end_duration")),
        bytes=_duration(body.get("state_size")),
        to_state=_string(body.get("status")),
        cause=deepest_cause(message) if message else None,
    )
    for vertex_id, task in _object(body, "tasks").items():
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
            "num_subtasks": _small(task.get("num_subtasks")),
            "num_acknowledged_subtasks": _small(task.get("num_acknowledged_subtasks")),
            "latest_ack_ms": _moment(task.get("latest_ack_timestamp")),
            "checkpointed_size": _duration(task.get("checkpointed_size")),
            "alignment_buffered": _duration(task.get("alignment_buffered")),
            "processed_data": _duration(task.get("processed_data")),
            "persisted_data": _duration(task.get("persisted_data")),
        },
        checkpoint=checkpoint,
        vertex_id=vertex_id,
        task=context.tasks.get(vertex_id),
        parallelism=_small(task.get("num_subtasks")),
        utc_us=_us(_moment(task.get("latest_ack_timestamp"))),
        duration_ms=_duration(task.get("end_to_end_duration")),
        bytes=_duration(task.get("state_size")),
        to_state=_string(task.get("status")),
    )


def _details(body: Any, context: Context) -> Iterator[Row]:
    yield from checkpoint_rows(body, context, detail="details")


def _subtasks(body: Any, context: Context) -> Iterator[Row]:
    number = _integer(body.get("id"))
    if number is None:
        number = context.ids.checkpoint
    vertex_id = context.ids.vertex_id
    parallelism = _small(body.get("num_subtasks"))
    if vertex_id and number not in context.detailed:
        yield _checkpoint_vertex(body, vertex_id, number, context)
    for item in _items(body, "subtasks"):
        parts, alignment = _object(item, "checkpoint"), _object(item, "alignment")
        ack = _moment(item.get("ack_timestamp"))
        yield context.row(
            Event.CHECKPOINT_SUBTASK,
            "rest-checkpoint-subtask",
            {
                "status": item.get("status"),
                "checkpoint_status": body.get("status"),
                "ack_ms": ack,
                "sync_ms": _duration(parts.get("sync")),
                "async_ms": _duration(parts.get("async")),
                "alignment_ms": _duration(alignment.get("duration")),
                "alignment_buffered": _duration(alignment.get("buffered")),
                "alignment_processed": _duration(alignment.get("processed")),
                "alignment_persisted": _duration(alignment.get("persisted")),
                "start_delay_ms": _duration(item.get("start_delay")),
                "checkpointed_size": _duration(item.get("checkpointed_size")),
                "unaligned": item.get("unaligned_checkpoint"),
                "aborted": item.get("aborted"),
            },
            checkpoint=number,
            vertex_id=vertex_id,
            task=context.tasks.get(vertex_id or ""),
            subtask_index=_small(item.get("index")),
            parallelism=parallelism,
            utc_us=_us(ack),
            duration_ms=_duration(item.get("end_to_end_duration")),
            bytes=_duration(item.get("state_size")),
            to_state=_string(item.get("status")),
        )


def _checkpoint_config(body: Any, context: Context) -> Iterator[Row]:
    yield context.row(Event.CHECKPOINT_CONFIG, "rest-checkpoint-config", _flat(body))


def _vertex(body: Any, context: Context) -> Iterator[Row]:
    yield _vertex_row(body, context, None)
    for item in _items(body, "subtasks"):
        yield from _placed(
            item,
            context,
            vertex_id=_string(body.get("id")),
            task=_string(body.get("name")),
            parallelism=_small(body.get("parallelism")),
        )


def _placed(item: Mapping[str, Any], context: Context, **columns: object) -> Iterator[Row]:
    place = _place(item)
    moments = {f"at_{name}": _moment(value) for name, value in _object(item, "timestamps").items()}
    spent = {
        f"ms_{name}": _duration(value) for name, value in _object(item, "status-duration").items()
    }
    start = _moment(item.get("start-time")) or _moment(item.get("start_time"))
    yield context.row(
        Event.PLACED,
        "rest-subtask",
        {
            "status": item.get("status"),
            "start_ms": start,
            "end_ms": _moment(item.get("end-time")),
            "data_port": place["port"],
            "short_host": item.get("host"),
            **moments,
            **spent,
            **_flat(_object(item, "metrics")),
        },
        subtask_index=_small(item.get("subtask")),
        attempt=_small(item.get("attempt")),
        host=place["host"],
        taskmanager=place["taskmanager"],
        utc_us=_us(start or moments.get("at_DEPLOYING")),
        duration_ms=_duration(item.get("duration")),
        **columns,
    )
    for other in _items(item, "other-concurrent-attempts"):
        if not other.get("other-concurrent-attempts"):
            yield from _placed(other, context, **columns)


def _subtask_times(body: Any, context: Context) -> Iterator[Row]:
    subtasks = _items(body, "subtasks")
    for item in subtasks:
        yield from _placed(
            item,
            context,
            vertex_id=_string(body.get("id")),
            task=_string(body.get("name")),
            parallelism=len(subtasks),
        )


def _attempt(body: Any, context: Context) -> Iterator[Row]:
    vertex_id = context.ids.vertex_id
    yield from _placed(body, context, vertex_id=vertex_id, task=context.tasks.get(vertex_id or ""))


def _vertex_taskmanagers(body: Any, context: Context) -> Iterator[Row]:
    # The same numbers as in the vertex, summed per TaskManager: only the name is of use.
    yield _vertex_row({"id": body.get("id"), "name": body.get("name")}, context, None)


def _taskmanagers(body: Any, context: Context) -> Iterator[Row]:
    for item in _items(body, "taskmanagers"):
        yield from _taskmanager(item, context)


_ACTOR_HOST = re.compile(r"@(?P<host>\[[0-9a-fA-F:.%]+\]|[^:/@\s]+)(?::[0-9]+)?/")


def _taskmanager(body: Any, context: Context) -> Iterator[Row]:
    taskmanager = _string(body.get("id"))
    if taskmanager is None:
        return
    host = _ACTOR_HOST.search(_string(body.get("path")) or "")
    # In 1.4 the hardware stands on the item itself.
    hardware = _object(body, "hardware") or {
        key: body.get(key) for key in ("cpuCores", "physicalMemory", "freeMemory", "managedMemory")
    }
    yield context.row(
        Event.TASKMANAGER_REGISTERED,
        "rest-taskmanager",
        {
            "data_port": body.get("dataPort"),
            "last_heartbeat_ms": _moment(body.get("timeSinceLastHeartbeat")),
            "slots": _small(body.get("slotsNumber")),
            "free_slots": _small(body.get("freeSlots")),
            "blocked": body.get("blocked"),
            **_flat(hardware, "hardware."),
            **_flat(_object(body, "memoryConfiguration"), "memory."),
            **_flat(_object(body, "metrics"), "metrics."),
        },
        job_id=None,
        taskmanager=taskmanager,
        host=host["host"] if host else None,
    )


def _backpressure(body: Any, context: Context) -> Iterator[Row]:
    when = _moment(body.get("end-timestamp"))
    for item in _items(body, "subtasks"):
        samples = {name: _number(item.get(name)) for name in ("ratio", "idleRatio", "busyRatio")}
        if "busyRatio" in item or "idleRatio" in item:
            # 1.13+: the three metrics of the task, divided by 1000.
            named = {
                "backPressuredTimeMsPerSecond": samples["ratio"],
                "idleTimeMsPerSecond": samples["idleRatio"],
                "busyTimeMsPerSecond": samples["busyRatio"],
            }
            values = {name: None if v is None else v * 1000 for name, v in named.items()}
        else:
            # Before: the share of samples in which the task waited for a buffer.
            values = {"isBackPressured": samples["ratio"]}
        for name, value in values.items():
            yield from _metric_row(
                context, name, value, subtask_index=_small(item.get("subtask")), utc_us=_us(when)
            )


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


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
    """One sample; a task's is left out when nothing tells which task it is."""
    vertex_id = context.ids.vertex_id
    task = context.tasks.get(vertex_id or "")
    if scope in ("task", "operator") and (task is None or columns.get("subtask_index") is None):
        return
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


def _metrics(scope: str) -> Callable[[Any, Context], Iterator[Row]]:
    """Readers of `[{id, value}]`; aggregated answers (`min`, `max` …) name no subtask."""

    def read(body: Any, context: Context) -> Iterator[Row]:
        for item in body if isinstance(body, list) else ():
            if not isinstance(item, Mapping) or not isinstance(item.get("id"), str):
                continue
            text = item.get("value")
            value = {"true": 1.0, "false": 0.0}.get(str(text).lower(), _number(text))
            parts = item["id"].split(".")
            subtask = context.ids.subtask_index
            if scope == "task" and subtask is None and parts[0].isdecimal():
                subtask = _small(parts.pop(0))
            found = recognise_metric(parts)
            if found is None or "value" not in item:
                continue
            metric, length = found
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


_SECRET = re.compile(
    r"password|secret|token|apikey|api-key|credential|private|fs\.\w+\.key", re.IGNORECASE
)


def _configuration(body: Any, context: Context) -> Iterator[Row]:
    for item in body if isinstance(body, list) else ():
        if isinstance(item, Mapping) and isinstance(item.get("key"), str):
            hidden = _SECRET.search(item["key"]) is not None
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
            "timezone_offset_ms": _integer(body.get("timezone-offset")),
            "timezone": body.get("timezone-name"),
            "taskmanagers": _small(body.get("taskmanagers")),
            "slots_total": _small(body.get("slots-total")),
            "slots_available": _small(body.get("slots-available")),
        },
        job_id=None,
    )


def _nothing(body: Any, context: Context) -> Iterator[Row]:
    """An answer that is known, and tells no rule anything."""
    return iter(())


def _job_status(body: Any, context: Context) -> Iterator[Row]:
    state = _string(body.get("status")) if isinstance(body, Mapping) else None
    if state:
        yield context.row(Event.JOB_STATE, "rest-jobs", {}, to_state=state)


_READERS: Final[dict[str, Callable[[Any, Context], Iterator[Row]]]] = {
    OVERVIEW: _overview,
    DASHBOARD: _overview,
    JOBS_OVERVIEW: _jobs_overview,
    JOBS: _jobs,
    JOB: _job,
    JOB_CONFIG: _nothing,
    JOB_STATUS: _job_status,
    JOB_JM_CONFIG: _configuration,
    JOB_METRICS: _metrics("jm-job"),
    PLAN: _plan,
    EXCEPTIONS: _exceptions,
    CHECKPOINTS: _checkpoints,
    CHECKPOINT_CONFIG: _checkpoint_config,
    DETAILS: _details,
    SUBTASKS: _subtasks,
    VERTEX: _vertex,
    SUBTASK_TIMES: _subtask_times,
    VERTEX_TASKMANAGERS: _vertex_taskmanagers,
    BACKPRESSURE: _backpressure,
    WATERMARKS: _metrics("task"),
    VERTEX_METRICS: _metrics("task"),
    SUBTASK: _attempt,
    ATTEMPT: _attempt,
    SUBTASK_METRICS: _metrics("task"),
    TASKMANAGERS: _taskmanagers,
    TASKMANAGER: _taskmanager,
    TASKMANAGER_METRICS: _metrics("tm"),
    JOBMANAGER_CONFIG: _configuration,
    JOBMANAGER_METRICS: _metrics("jm"),
}
# Paths with fewer parameters first: /jobs/overview is no job.
_PATTERNS: Final = sorted(
    ((kind, kind.split("/")[1:]) for kind in _READERS), key=lambda entry: entry[0].count(":")
)


# ---------------------------------------------------------------------------------------------
# documents


class _ArchiveEntry(msgspec.Struct):
    path: str
    json: msgspec.Raw


class _Archive(msgspec.Struct):
    archive: list[_ArchiveEntry]


@dataclass(frozen=True, slots=True)
class _Answer:
    """One answer of a document: where it lies, its path if the document says, its text."""

    offset: int
    path: str | None
    body: Any = None
    raw: Any = None  # JSON text, not decoded yet

    def decoded(self) -> Any:
        """The body; raises ValueError when it is damaged or too large."""
        if self.raw is None:
            return self.body
        if len(memoryview(self.raw)) > MAX_BODY_BYTES:
            raise ValueError("larger than 64 MiB")
        value = decode_json(self.raw)
        # In an archive the answer is a JSON text inside the JSON.
        return (
            decode_json(value.encode("utf-8", "surrogatepass")) if isinstance(value, str) else value
        )


_SURROGATE = re.compile(r"\\u[dD][89a-fA-F][0-9a-fA-F]{2}")


def decode_json(text: Any) -> Any:
    """Decode JSON, whatever numbers it has; raises ValueError only."""
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        try:
            # NaN and Infinity without quotes, lone surrogates, huge integers.
            known = bytes(text).decode("utf-8", "replace")
            return json.loads(_SURROGATE.sub(r"\\ufffd", known))
        except (ValueError, RecursionError):
            pass
    except RecursionError:
        pass
    raise ValueError("no valid JSON")


def read_document(source: Source, counts: DocumentCounts | None = None) -> Iterator[pa.RecordBatch]:
    """Read a source of kind `rest` or `archive` into batches of `EVENTS`.

    Args:
        source: opened by `flowdiag.parsers.sources.open_source`.
        counts: filled while the batches are drawn, for the `split` row that the caller makes.

    Yields:
        batches of rows; `offset` is where the answer lies in the decoded stream.

    Raises:
        FlowdiagError: the document is too large, no JSON, or cut; one sentence without the
            file's name. Batches before it are good.
    """
    from flowdiag.parsers.sources import open_source, stream_error

    counts = counts if counts is not None else DocumentCounts()
    with open_source(source) as stream:
        data = _read_capped(stream)
        trouble = stream_error(stream)
    counts.bytes = len(data)
    try:
        yield from _batches(_rows_of(data, source, counts), source.index, counts)
    except ValueError as error:
        raise FlowdiagError(trouble or str(error)) from None
    if trouble:
        raise FlowdiagError(trouble)


def rows_of_bytes(data: bytes, file_name: str = "", *, url: str | None = None) -> list[Row]:
    """All rows of one document given as bytes; raises ValueError for damaged JSON."""
    return [row for _, row in _rows(data, file_name, url, DocumentCounts(), _Neighbours())]


def _read_capped(stream: Any) -> bytes:
    data: bytes = stream.read(MAX_FILE_BYTES + 1) or b""
    while len(data) <= MAX_FILE_BYTES:
        more = stream.read(MAX_FILE_BYTES + 1 - len(data))
        if not more:
            break
        data += more
    if len(data) > MAX_FILE_BYTES:
        raise FlowdiagError("the JSON is larger than 512 MiB")
    return data


def _batches(
    rows: Iterable[tuple[int, Row]], source: int, counts: DocumentCounts
) -> Iterator[pa.RecordBatch]:
    pending: list[Row] = []
    try:
        for offset, row in rows:
            counts.saw(row.get("utc_us"))
            row["source"], row["offset"] = source, offset
            row["fields"] = list(row["fields"].items())
            pending.append(row)
            if len(pending) >= BATCH_ROWS:
                yield pa.RecordBatch.from_pylist(pending, schema=EVENTS)
                pending = []
    finally:
        # What was read before a damaged part is good.
        if pending:
            yield pa.RecordBatch.from_pylist(pending, schema=EVENTS)


def _rows_of(data: bytes, source: Source, counts: DocumentCounts) -> Iterator[tuple[int, Row]]:
    name = source.name if source.name != "-" else ""
    return _rows(data, name, source.url, counts, _Neighbours(source.path, source.member))


def _rows(
    data: bytes, name: str, url: str | None, counts: DocumentCounts, neighbours: _Neighbours
) -> Iterator[tuple[int, Row]]:
    answers = list(_answers(data))
    counts.candidates = len(answers)
    archived = bool(answers) and all(answer.path is not None for answer in answers)
    routes = [_route(answer.path) if answer.path else None for answer in answers]
    superseded = _SUPERSEDED if any(route and route[0] == JOB for route in routes) else ()
    shared = Context(
        origin="archive" if archived and _ARCHIVE_HEAD.match(data.lstrip()) else "rest"
    )
    if archived:
        shared.tasks = _tasks_of(answers, routes)
        shared.detailed = frozenset(
            route[1].checkpoint
            for route in routes
            if route and route[0] == DETAILS and route[1].checkpoint is not None
        )
    for answer, route in zip(answers, routes, strict=True):
        if answer.path and route is None and _UNINTERESTING.search(answer.path):
            counts.recognised += 1
            continue
        try:
            body = answer.decoded()
        except ValueError as error:
            counts.missed(f"{answer.path}: {error}")
            continue
        known = _identify(body, answer, route, name, url, neighbours)
        if known is None:
            counts.missed(answer.path or _describe(body))
            continue
        kind, ids = known
        counts.recognised += 1
        if archived and kind in superseded:
            continue
        context = replace(shared, ids=ids)
        if not archived and _needs_names(kind):
            context.tasks = neighbours.tasks(ids.job_id)
        for row in _READERS[kind](body, context):
            yield answer.offset, row


def _identify(
    body: object,
    answer: _Answer,
    route: tuple[str, Ids] | None,
    name: str,
    url: str | None,
    neighbours: _Neighbours,
) -> tuple[str, Ids] | None:
    """The kind and the ids of one answer, from its path, its body, its names and neighbours."""
    if route is not None and answer.path is not None:
        kind, ids = route
        # The body has the last word: an error page has the path, but not the shape.
        shape = _kind_of(body, answer.path)
        if shape is None and not isinstance(body, list) and kind not in _SHAPELESS:
            return None
        return (shape or kind), _merged(ids, _ids_of(body, ""))
    kind_of_body = _kind_of(body, name)
    if kind_of_body is None:
        return None
    ids = _ids_of(body, name)
    told = _route(url) if url else None
    if told is not None:
        ids = _merged(ids, told[1])
    if ids.job_id is None and ":jobid" in kind_of_body:
        ids = replace(ids, job_id=neighbours.job_id())
    if ids.vertex_id is None and kind_of_body == SUBTASKS:
        ids = replace(ids, vertex_id=neighbours.vertex_of(body))
    return kind_of_body, ids


# In an archive the answer for the job has all that these have.
_SUPERSEDED: Final = (JOBS_OVERVIEW, PLAN)

# Known by their path only: the body may be empty, or nothing but a status.
_SHAPELESS: Final = frozenset(
    (BACKPRESSURE, JOB_STATUS, JOB_CONFIG, EXCEPTIONS, JOBS, JOBS_OVERVIEW)
)


def _merged(first: Ids, second: Ids) -> Ids:
    def either(name: str) -> Any:
        value = getattr(first, name)
        return getattr(second, name) if value is None or str(value).startswith(":") else value

    return Ids(*(either(name) for name in Ids.__slots__))


def _needs_names(kind: str) -> bool:
    return ":vertexid" in kind and kind not in (VERTEX, SUBTASK_TIMES, VERTEX_TASKMANAGERS)


def _describe(body: object) -> str:
    if isinstance(body, Mapping):
        return "an object with the keys " + ", ".join(list(map(str, body))[:8])
    return f"a {type(body).__name__}"


def _answers(data: bytes) -> Iterator[_Answer]:
    """Take a document apart; raises ValueError for damaged JSON."""
    start = len(data) - len(data.removeprefix(b"\xef\xbb\xbf").lstrip())
    text = memoryview(data)[start:]
    if _ARCHIVE_HEAD.match(data, start):
        yield from _archived(data, text, start)
        return
    if len(text) > MAX_BODY_BYTES:
        raise ValueError("the JSON is larger than 64 MiB and no archive")
    try:
        body = decode_json(text)
    except ValueError:
        yield from _concatenated(data, start)
        return
    if isinstance(body, Mapping) and _is_har(body):
        yield from _har(body)
    else:
        yield _Answer(start, None, body)


def _archived(data: bytes, text: memoryview, start: int) -> Iterator[_Answer]:
    try:
        entries = msgspec.json.decode(text, type=_Archive).archive
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(_damage(error)) from None
    position = start
    for entry in entries:
        # A view into `data`; entries come in order, so that each is found right behind the last.
        found = data.find(memoryview(entry.json), position)
        position = found if found >= 0 else position
        yield _Answer(position, entry.path, raw=entry.json)


def _damage(error: BaseException) -> str:
    """One sentence, without the decoder's own words for it.

    >>> _damage(ValueError("Input data was truncated"))
    'the JSON is cut off'
    """
    text = str(error)
    if "truncated" in text or "Unterminated" in text:
        return "the JSON is cut off"
    found = re.search(r"byte (\d+)|char (\d+)", text)
    return (
        f"the JSON is damaged near byte {found[1] or found[2]}" if found else "the JSON is damaged"
    )


def _concatenated(data: bytes, start: int) -> Iterator[_Answer]:
    """Answers one behind the other, as a loop around curl writes them."""
    text = data.decode("utf-8", "replace")
    decoder = json.JSONDecoder()
    position, found = start, 0
    while True:
        while position < len(text) and text[position].isspace():
            position += 1
        if position >= len(text):
            return
        try:
            body, end = decoder.raw_decode(text, position)
        except RecursionError:
            raise ValueError("the JSON is nested too deeply") from None
        except json.JSONDecodeError as error:
            cut = error.pos >= len(text.rstrip()) or "Unterminated" in error.msg
            raise ValueError(
                "the JSON is cut off" if cut else f"the JSON is damaged near byte {error.pos}"
            ) from None
        found += 1
        # Bytes and characters differ only where names are not ASCII: near enough to cite.
        yield _Answer(min(position, len(data)), None, body)
        position = end


def _is_har(body: Mapping[str, Any]) -> bool:
    return isinstance(_object(body, "log").get("entries"), list)


def _har(body: Mapping[str, Any]) -> Iterator[_Answer]:
    """The requests of a browser, as its developer tools export them."""
    for entry in _items(_object(body, "log"), "entries"):
        url = _string(_object(entry, "request").get("url"))
        content = _string(_object(_object(entry, "response"), "content").get("text"))
        if url and content and content[:1] in "{[" and _route(url):
            yield _Answer(0, url, raw=content.encode("utf-8", "surrogatepass"))


def _tasks_of(answers: list[_Answer], routes: list[tuple[str, Ids] | None]) -> dict[str, str]:
    """Names of vertices: an archive has them in its answer for the job."""
    tasks: dict[str, str] = {}
    for answer, route in zip(answers, routes, strict=True):
        if route and route[0] == JOB:
            try:
                body = answer.decoded()
            except ValueError:
                continue
            if isinstance(body, Mapping):
                tasks |= _names_in(body)
    return tasks


def _names_in(body: Mapping[str, Any]) -> dict[str, str]:
    return {
        vertex_id: name
        for item in _items(body, "vertices")
        if (vertex_id := _string(item.get("id"))) and (name := _string(item.get("name")))
    }


# ---------------------------------------------------------------------------------------------
# neighbours


@dataclass(frozen=True, slots=True)
class _Folder:
    """What the JSON files of one folder say together."""

    job_ids: frozenset[str] = frozenset()
    tasks: Mapping[str, str] = field(default_factory=dict)
    owners: Mapping[str, str] = field(default_factory=dict)  # vertex -> job
    details: tuple[tuple[int, Mapping[str, Any]], ...] = ()


@dataclass(frozen=True, slots=True)
class _Neighbours:
    """The files beside a document, looked at only when the document lacks something."""

    path: str | None = None
    member: str | None = None

    def _folder(self) -> _Folder:
        # Members of a container lie in no folder of ours; a spooled stream has none either.
        if not self.path or self.member is not None:
            return _Folder()
        return _look_into(os.path.dirname(os.path.abspath(self.path)))

    def job_id(self) -> str | None:
        """The job of the folder, if all its files are about one."""
        found = self._folder().job_ids
        return next(iter(found)) if len(found) == 1 else None

    def tasks(self, job_id: str | None) -> dict[str, str]:
        """Names of the vertices of a job."""
        folder = self._folder()
        return {
            vertex_id: name
            for vertex_id, name in folder.tasks.items()
            if job_id is None or folder.owners.get(vertex_id) in (None, job_id)
        }

    def vertex_of(self, body: object) -> str | None:
        """The vertex whose entry in the checkpoint's details has the numbers of this answer."""
        if not isinstance(body, Mapping):
            return None
        keys = ("latest_ack_timestamp", "state_size", "end_to_end_duration", "num_subtasks")
        wanted = [body.get(key) for key in keys]
        found = {
            vertex_id
            for number, tasks in self._folder().details
            if number == body.get("id")
            for vertex_id, task in tasks.items()
            if isinstance(task, Mapping) and [task.get(key) for key in keys] == wanted
        }
        return next(iter(found)) if len(found) == 1 else None


@lru_cache(maxsize=32)
def _look_into(folder: str) -> _Folder:
    """Read the small JSON files of a folder; what cannot be read is left out."""
    job_ids: set[str] = set()
    tasks: dict[str, str] = {}
    owners: dict[str, str] = {}
    details: list[tuple[int, Mapping[str, Any]]] = []
    try:
        with os.scandir(folder) as entries:
            names = sorted(
                entry.path
                for entry in entries
                if entry.is_file() and entry.stat().st_size <= _SIBLING_BYTES
            )[:_SIBLINGS]
    except OSError:
        return _Folder()
    for name in names:
        body = _small_json(name)
        if not isinstance(body, Mapping):
            continue
        kind = _kind_of(body, name)
        if kind is None:
            continue
        job_id = _ids_of(body, name).job_id
        if job_id:
            job_ids.add(job_id)
        if kind == JOBS_OVERVIEW:
            listed = (item.get("jid") for key in ("jobs", "running") for item in _items(body, key))
            job_ids |= {jid for jid in listed if isinstance(jid, str)}
        elif kind == JOB:
            names_here = _names_in(body)
            tasks |= names_here
            owners |= dict.fromkeys(names_here, job_id or "")
        elif kind in (VERTEX, SUBTASK_TIMES, VERTEX_TASKMANAGERS):
            vertex_id, label = _string(body.get("id")), _string(body.get("name"))
            if vertex_id and label:
                tasks[vertex_id] = label
        elif kind == DETAILS:
            number = _integer(body.get("id"))
            if number is not None:
                details.append((number, _object(body, "tasks")))
    return _Folder(frozenset(job_ids), tasks, owners, tuple(details))


def _small_json(path: str) -> object:
    try:
        with open(path, "rb") as file:
            packed = file.read(2) == b"\x1f\x8b"
            file.seek(0)
            stream = gzip.GzipFile(fileobj=file) if packed else file
            data = stream.read(64)
            # A log beside the answers is not worth reading whole.
            if data.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] != b"{":
                return None
            data += stream.read(_SIBLING_BYTES)
        return decode_json(data.removeprefix(b"\xef\xbb\xbf"))
    except (OSError, EOFError, ValueError):
        return None
