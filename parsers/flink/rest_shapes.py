"""Which REST path a JSON answers, and the ids that its body or its name tells.

Answers are recognised by their keys, since users name the files as they like (catalogue/flink.md
section 6). Ids that a body lacks may stand in the file's name or in the folders above it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final
from urllib.parse import unquote

from flowdiag.parsers.json_values import (
    as_integer,
    as_string,
    close_truncated_json,
    decode_json,
    object_at,
    objects_at,
)


class Kind(StrEnum):
    """Answers that are read, by their paths; what stands behind a colon is a parameter."""

    OVERVIEW = "/overview"
    DASHBOARD = "/config"
    JOBS = "/jobs"
    JOBS_OVERVIEW = "/jobs/overview"
    JOB = "/jobs/:jobid"
    JOB_CONFIG = "/jobs/:jobid/config"
    JOB_STATUS = "/jobs/:jobid/status"
    JOB_JM_CONFIG = "/jobs/:jobid/jobmanager/config"
    JOB_METRICS = "/jobs/:jobid/metrics"
    PLAN = "/jobs/:jobid/plan"
    EXCEPTIONS = "/jobs/:jobid/exceptions"
    CHECKPOINTS = "/jobs/:jobid/checkpoints"
    CHECKPOINT_CONFIG = "/jobs/:jobid/checkpoints/config"
    DETAILS = "/jobs/:jobid/checkpoints/details/:checkpointid"
    SUBTASKS = "/jobs/:jobid/checkpoints/details/:checkpointid/subtasks/:vertexid"
    VERTEX = "/jobs/:jobid/vertices/:vertexid"
    SUBTASK_TIMES = "/jobs/:jobid/vertices/:vertexid/subtasktimes"
    VERTEX_TASKMANAGERS = "/jobs/:jobid/vertices/:vertexid/taskmanagers"
    BACKPRESSURE = "/jobs/:jobid/vertices/:vertexid/backpressure"
    WATERMARKS = "/jobs/:jobid/vertices/:vertexid/watermarks"
    VERTEX_METRICS = "/jobs/:jobid/vertices/:vertexid/metrics"
    SUBTASK = "/jobs/:jobid/vertices/:vertexid/subtasks/:subtaskindex"
    ATTEMPT = "/jobs/:jobid/vertices/:vertexid/subtasks/:subtaskindex/attempts/:attempt"
    SUBTASK_METRICS = "/jobs/:jobid/vertices/:vertexid/subtasks/:subtaskindex/metrics"
    TASKMANAGERS = "/taskmanagers"
    TASKMANAGER = "/taskmanagers/:taskmanagerid"
    TASKMANAGER_METRICS = "/taskmanagers/:taskmanagerid/metrics"
    JOBMANAGER_CONFIG = "/jobmanager/config"
    JOBMANAGER_METRICS = "/jobmanager/metrics"


# Answered by Flink, and of no interest to any rule.
UNINTERESTING = re.compile(
    r"/(?:accumulators|environment|execution-result|flamegraph|rescales?|thread-dump|logs?|stdout"
    r"|resource-requirements|jm-operator-metrics|applications|application-summary|datasets"
    r"|savepoints|jars|cluster|blockers|history)(?:[/?]|$)"
)

_JOB_ID = re.compile(r"[0-9a-fA-F]{32}")
# Paths with fewer parameters first: /jobs/overview is no job.
_PATTERNS: Final = sorted(
    ((kind, kind.split("/")[1:]) for kind in Kind), key=lambda entry: entry[0].count(":")
)


@dataclass(frozen=True, slots=True)
class Ids:
    """What a path or a name says about an answer; None where it says nothing."""

    job_id: str | None = None
    checkpoint: int | None = None
    vertex_id: str | None = None
    subtask_index: int | None = None
    taskmanager: str | None = None
    by_folder: bool = False  # the job is but the name of a folder, which may mean anything


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
    kind = kind_of(document, file_name)
    if kind is None:
        return None
    ids = ids_of(document, file_name)
    return _fill(kind, replace(ids, job_id=None) if ids.by_folder else ids)


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
    if ARCHIVE_HEAD.match(head):
        return "archive", None
    if head[:1] not in (b"{", b"["):
        return None
    document = _first_of(head)
    if isinstance(document, Mapping) and is_har(document):
        return "rest", None
    path = rest_path_of(document, file_name)
    return None if path is None else ("rest", path)


def _first_of(head: bytes) -> object:
    """The first JSON value of a text that may be cut, or go on with a second one; None if none."""
    try:
        return decode_json(head)
    except ValueError:
        pass
    text = head[:65536].decode("utf-8", "replace")
    try:
        return json.JSONDecoder().raw_decode(text)[0]
    except (ValueError, RecursionError):
        pass
    try:
        return decode_json(close_truncated_json(head[:65536]))
    except ValueError:
        return None


ARCHIVE_HEAD = re.compile(rb'\{\s*"archive"\s*:\s*\[')


def kind_of(document: object, file_name: str) -> str | None:
    """The kind of a decoded answer, by its keys; the name decides only between equal shapes."""
    if isinstance(document, Mapping):
        return _kind_of_object(document, file_name.lower())
    if isinstance(document, list):
        return _kind_of_list(document, file_name.lower())
    return None


Body = Mapping[str, Any]


def _kind_of_object(body: Body, name: str) -> str | None:
    for is_one, kind in _OBJECTS:
        if is_one(body):
            return kind(body) if callable(kind) else kind
    for key in ("jobs", "running", "finished"):
        items = objects_at(body, key)
        if items and "jid" in items[0]:
            return Kind.JOBS_OVERVIEW
        if items and key == "jobs" and {"id", "status"} <= items[0].keys():
            return Kind.JOBS
    if "status" in body and ("backpressure-level" in body or "backpressureLevel" in body):
        return Kind.BACKPRESSURE
    if body.keys() == {"status"}:
        # The answer of Flink up to 1.12 before its first sample, and of /jobs/:jobid/status.
        return Kind.BACKPRESSURE if "backpressure" in name else None
    return None


def _with(*keys: str) -> Callable[[Body], bool]:
    """Whether an object has all of these keys."""
    wanted = frozenset(keys)
    return lambda body: wanted <= body.keys()


def _is_checkpoints(body: Body) -> bool:
    return "counts" in body and ("history" in body or "latest" in body)


def _is_plan(body: Body) -> bool:
    plan = body.get("plan")
    return isinstance(plan, Mapping) and isinstance(plan.get("nodes"), list)


def _is_exceptions(body: Body) -> bool:
    return not body.keys().isdisjoint(("root-exception", "exceptionHistory", "all-exceptions"))


def _is_taskmanagers(body: Body) -> bool:
    return isinstance(body.get("taskmanagers"), list)


def _checkpoint(body: Body) -> str | None:
    if isinstance(body.get("subtasks"), list):
        return Kind.SUBTASKS
    return Kind.DETAILS if "trigger_timestamp" in body else None


def _job(body: Body) -> str | None:
    if "vertices" in body:
        return Kind.JOB
    return Kind.JOB_CONFIG if "execution-config" in body else None


def _vertex(body: Body) -> str | None:
    if objects_at(body, "taskmanagers"):
        return Kind.VERTEX_TASKMANAGERS
    subtasks = objects_at(body, "subtasks")
    if subtasks and "timestamps" in subtasks[0]:
        return Kind.SUBTASK_TIMES
    if "parallelism" in body and isinstance(body.get("subtasks"), list):
        return Kind.VERTEX
    return None


def _taskmanagers(body: Body) -> str | None:
    items = objects_at(body, "taskmanagers")
    return Kind.TASKMANAGERS if not items or "path" in items[0] else None


_OBJECTS: Final[tuple[tuple[Callable[[Body], bool], Kind | Callable[[Body], str | None]], ...]] = (
    (_is_checkpoints, Kind.CHECKPOINTS),
    (_with("id", "num_acknowledged_subtasks"), _checkpoint),
    (_with("mode", "interval", "timeout"), Kind.CHECKPOINT_CONFIG),
    (_with("jid"), _job),
    (_is_plan, Kind.PLAN),
    (_is_exceptions, Kind.EXCEPTIONS),
    (_with("id", "name"), _vertex),
    (_with("subtask", "attempt", "status"), Kind.ATTEMPT),
    (_with("id", "path", "dataPort"), Kind.TASKMANAGER),
    (_is_taskmanagers, _taskmanagers),
    (_with("slots-total", "taskmanagers"), Kind.OVERVIEW),
    (_with("flink-version", "timezone-offset"), Kind.DASHBOARD),
)
"""What tells an answer, the surest first, and its kind; None: it is like one, and is none that is known."""


def _kind_of_list(body: list[Any], name: str) -> str | None:
    first = body[0] if body else None
    if not isinstance(first, Mapping):
        return None
    if {"key", "value"} <= first.keys():
        return Kind.JOB_JM_CONFIG if "jobs" in _words(name) else Kind.JOBMANAGER_CONFIG
    if first.keys() & {"value", "min", "max", "sum", "avg"} and "id" in first:
        words = _words(name)
        if "taskmanagers" in words or ("taskmanager" in words and "vertices" not in words):
            return Kind.TASKMANAGER_METRICS
        if "jobmanager" in words:
            return Kind.JOBMANAGER_METRICS
        if "vertices" in words or "vertex" in words or "watermarks" in words:
            return Kind.WATERMARKS if "watermarks" in words else Kind.VERTEX_METRICS
        return Kind.JOB_METRICS if "jobs" in words else Kind.VERTEX_METRICS
    return None


def _words(name: str) -> list[str]:
    return [word for word in re.split(r"[^0-9A-Za-z]+", name) if word]


def ids_of(document: object, file_name: str) -> Ids:
    """Ids from the body, else from the names of the file and its folders.

    `jobs_<id>`, `vertices/<id>`, `details-7` and the like say themselves what they are. An id
    that stands alone is the vertex's where the answer lacks one, else the job's.
    """
    words = _words(unquote(file_name))
    job_id = vertex_id = None
    checkpoint = subtask = taskmanager = None
    for before, word in zip(["", *(w.lower() for w in words)], words, strict=False):
        if _JOB_ID.fullmatch(word):
            if before in ("jobs", "job", "jid", "jobid"):
                job_id = word.lower()
            elif before in ("vertices", "vertex", "vertexid", "subtasks", "vid"):
                vertex_id = word.lower()
        elif word.isdecimal() and len(word) <= 18:
            if before in ("details", "detail", "checkpoint", "checkpoints", "chk", "cp"):
                checkpoint = int(word)
            elif before in ("subtasks", "subtask") and len(word) <= 6:
                subtask = int(word)
    if isinstance(document, Mapping):
        body_job = document.get("jid") or object_at(document, "plan").get("jid")
        if isinstance(body_job, str) and _JOB_ID.fullmatch(body_job):
            job_id = body_job
        body_id = document.get("id")
        if isinstance(body_id, str) and _JOB_ID.fullmatch(body_id) and "name" in document:
            vertex_id = body_id
        elif "dataPort" in document:
            taskmanager = as_string(body_id)
        elif "num_subtasks" in document:
            number = as_integer(body_id)
            checkpoint = checkpoint if number is None else number
    ids = Ids(job_id, checkpoint, vertex_id, subtask, taskmanager)
    return _with_loose_ids(ids, kind_of(document, file_name), unquote(file_name))


def _with_loose_ids(ids: Ids, kind: str | None, file_name: str) -> Ids:
    """Fill in the ids that stand in the names without a word before them."""
    *folders, name = re.split(r"[/\\]", file_name)
    taken = (ids.job_id, ids.vertex_id)
    # A folder counts when its whole name is an id, as in a History Server's directory.
    above = [word.lower() for word in folders if _JOB_ID.fullmatch(word)]
    inside = [word.lower() for word in _words(name) if _JOB_ID.fullmatch(word)]
    above = [word for word in above if word not in taken]
    inside = [word for word in inside if word not in taken]
    if kind is not None and ":vertexid" in kind and ids.vertex_id is None and inside:
        ids = replace(ids, vertex_id=inside.pop())
    if ids.job_id is None and inside:
        ids = replace(ids, job_id=inside[0])
    elif ids.job_id is None and above:
        ids = replace(ids, job_id=above[-1], by_folder=True)
    return ids


def _fill(kind: str, ids: Ids) -> str:
    path = str(kind)
    for name, value in (
        (":jobid", ids.job_id),
        (":checkpointid", ids.checkpoint),
        (":vertexid", ids.vertex_id),
        (":subtaskindex", ids.subtask_index),
        (":taskmanagerid", ids.taskmanager),
    ):
        if value is not None:
            path = path.replace(name, str(value))
    return path


def route_of(path: str) -> tuple[str, Ids] | None:
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
        return Kind.JOBS_OVERVIEW, Ids()
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


def is_har(body: Mapping[str, Any]) -> bool:
    """Whether it is what the developer tools of a browser export."""
    return isinstance(object_at(body, "log").get("entries"), list)
