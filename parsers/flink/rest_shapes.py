"""Recognizes which REST path a JSON document comes from, and finds the IDs in its body or file name.

Responses are recognized by their keys, because users choose the file names.
IDs that the body lacks may be in the name of the file or of the folders above it.
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
from flowdiag.parsers.stacks.dumps import is_flink_dump, is_jcmd_dump
from flowdiag.parsers.stacks.profiles import is_flame_graph, is_flight_recording, is_speedscope


class Kind(StrEnum):
    """Supported responses, by path; a segment that starts with a colon is a parameter."""

    OVERVIEW = "/overview"
    DASHBOARD = "/config"
    JOBS = "/jobs"
    RESCALES = "/jobs/:jobid/rescales/history"
    RESCALE = "/jobs/:jobid/rescales/details/:rescaleid"
    RESOURCE_REQUIREMENTS = "/jobs/:jobid/resource-requirements"
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
    THREAD_DUMP = "/taskmanagers/:taskmanagerid/thread-dump"
    JOBMANAGER_CONFIG = "/jobmanager/config"
    JOBMANAGER_METRICS = "/jobmanager/metrics"
    JOBMANAGER_THREAD_DUMP = "/jobmanager/thread-dump"
    JCMD_THREAD_DUMP = "/thread-dump"
    FLAME_GRAPH = "/jobs/:jobid/vertices/:vertexid/flamegraph"
    SPEEDSCOPE = "/speedscope"
    FLIGHT_RECORDING = "/flight-recording"


# Responses that no rule uses.
UNINTERESTING = re.compile(
    r"/(?:accumulators|environment|execution-result|rescales?|rescaling|logs?|stdout"
    r"|jm-operator-metrics|applications|application-summary|datasets"
    r"|savepoints|jars|cluster|blockers|history)(?:[/?]|$)"
)

_JOB_ID = re.compile(r"[0-9a-fA-F]{32}")
# Paths with fewer parameters first, because /jobs/overview is not a job.
_PATTERNS: Final = sorted(
    ((kind, kind.split("/")[1:]) for kind in Kind), key=lambda entry: entry[0].count(":")
)


@dataclass(frozen=True, slots=True)
class Ids:
    """The IDs found in a path or a name."""

    job_id: str | None = None
    checkpoint: int | None = None
    vertex_id: str | None = None
    subtask_index: int | None = None
    taskmanager: str | None = None
    by_folder: bool = False  # the job ID is only the name of a folder, which may be unrelated


def rest_path_of(document: object, file_name: str = "") -> str | None:
    """Return the REST path of a decoded response, or None for other JSON.

    Args:
        document: the decoded JSON; only its keys and a few values matter.
        file_name: path and name of the file, which may contain IDs.

    Returns:
        The path with known IDs filled in. Unknown IDs stay as in Flink's documentation: `:jobid`, `:vertexid` …

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


def recognize(head: bytes, file_name: str = "") -> tuple[str, str | None] | None:
    """Recognize a JSON file by its first bytes, which may end anywhere.

    Returns:
        `("archive", None)`, `("rest", path)` with the path from `rest_path_of`, or None.

    >>> recognize(b'{"archive": [{"path": "/jobs/overview", "json": "{')
    ('archive', None)
    >>> recognize(b'{"jid": "0123456789abcdef0123456789abcdef", "state": "RUNNING", "vertices": [{')
    ('rest', '/jobs/0123456789abcdef0123456789abcdef')
    """
    head = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if ARCHIVE_HEAD.match(head):
        return "archive", None
    if head[:1] not in (b"{", b"["):
        return None
    document = _first_value(head)
    if isinstance(document, Mapping) and is_har(document):
        return "rest", None
    path = rest_path_of(document, file_name)
    return None if path is None else ("rest", path)


def _first_value(head: bytes) -> object:
    """Decode the first JSON value of a text, which may be truncated or contain more values."""
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
    """Return the kind of a decoded response by its keys. The file name decides between kinds with the same keys."""
    if isinstance(document, Mapping):
        return _kind_of_object(document, file_name.lower())
    if isinstance(document, list):
        return _kind_of_list(document, file_name.lower())
    return None


Body = Mapping[str, Any]


def _kind_of_object(body: Body, name: str) -> str | None:
    for matches, kind in _OBJECTS:
        if matches(body):
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
        # Back pressure up to Flink 1.12 before the first sample, or /jobs/:jobid/status.
        return Kind.BACKPRESSURE if "backpressure" in name else None
    return None


def _has_keys(*keys: str) -> Callable[[Body], bool]:
    """Return a predicate for objects that contain all of these keys."""
    required = frozenset(keys)
    return lambda body: required <= body.keys()


def _is_checkpoints(body: Body) -> bool:
    return "counts" in body and ("history" in body or "latest" in body)


def _is_requirements(body: Body) -> bool:
    """Return whether every key is a vertex ID with the bounds of its parallelism."""
    return bool(body) and all(
        _JOB_ID.fullmatch(str(key))
        and "upperBound" in object_at(object_at(body, key), "parallelism")
        for key in body
    )


def _is_plan(body: Body) -> bool:
    plan = body.get("plan")
    return isinstance(plan, Mapping) and isinstance(plan.get("nodes"), list)


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


_EXCEPTION_KEYS: Final = frozenset(("root-exception", "exceptionHistory", "all-exceptions"))
_OBJECTS: Final[tuple[tuple[Callable[[Body], bool], Kind | Callable[[Body], str | None]], ...]] = (
    (_is_checkpoints, Kind.CHECKPOINTS),
    (_has_keys("id", "num_acknowledged_subtasks"), _checkpoint),
    (is_flink_dump, Kind.THREAD_DUMP),
    (is_jcmd_dump, Kind.JCMD_THREAD_DUMP),
    (is_flame_graph, Kind.FLAME_GRAPH),
    (is_speedscope, Kind.SPEEDSCOPE),
    (is_flight_recording, Kind.FLIGHT_RECORDING),
    (_has_keys("mode", "interval", "timeout"), Kind.CHECKPOINT_CONFIG),
    (_has_keys("rescaleUuid", "triggerCause"), Kind.RESCALE),
    (_is_requirements, Kind.RESOURCE_REQUIREMENTS),
    (_has_keys("jid"), _job),
    (_is_plan, Kind.PLAN),
    (lambda body: not _EXCEPTION_KEYS.isdisjoint(body), Kind.EXCEPTIONS),
    (_has_keys("id", "name"), _vertex),
    (_has_keys("subtask", "attempt", "status"), Kind.ATTEMPT),
    (_has_keys("id", "path", "dataPort"), Kind.TASKMANAGER),
    (lambda body: isinstance(body.get("taskmanagers"), list), _taskmanagers),
    (_has_keys("slots-total", "taskmanagers"), Kind.OVERVIEW),
    (_has_keys("flink-version", "timezone-offset"), Kind.DASHBOARD),
)
"""Predicate and kind of each response, most specific first; a function as kind returns None for unknown variants."""


def _kind_of_list(body: list[Any], name: str) -> str | None:
    first = body[0] if body else None
    if not isinstance(first, Mapping):
        return None
    if {"rescaleUuid", "triggerCause"} <= first.keys():
        return Kind.RESCALES
    if {"key", "value"} <= first.keys():
        return Kind.JOB_JM_CONFIG if "jobs" in _words(name) else Kind.JOBMANAGER_CONFIG
    if first.keys() & {"value", "min", "max", "sum", "avg"} and "id" in first:
        words = set(_words(name))
        if "vertices" in words:
            words.discard("taskmanager")  # the metrics of a vertex on one TaskManager
        return next((kind for word, kind in _METRICS if word in words), Kind.VERTEX_METRICS)
    return None


_METRICS: Final = (
    ("taskmanagers", Kind.TASKMANAGER_METRICS),
    ("taskmanager", Kind.TASKMANAGER_METRICS),
    ("jobmanager", Kind.JOBMANAGER_METRICS),
    ("watermarks", Kind.WATERMARKS),
    ("vertices", Kind.VERTEX_METRICS),
    ("vertex", Kind.VERTEX_METRICS),
    ("jobs", Kind.JOB_METRICS),
)
"""Kinds of metrics by a word in the file name; the first match wins."""


def _words(name: str) -> list[str]:
    return [word for word in re.split(r"[^0-9A-Za-z]+", name) if word]


def ids_of(document: object, file_name: str) -> Ids:
    """Return the IDs in the body or, failing that, the IDs in the names of the file and its folders.

    A word before an ID labels it: `jobs_<id>`, `vertices/<id>`, `details-7`. An unlabeled ID is the
    vertex's if the response needs one, otherwise the job's.
    """
    words = _words(unquote(file_name))
    found: dict[str, Any] = {}
    for label, word in zip(["", *(w.lower() for w in words)], words, strict=False):
        if _JOB_ID.fullmatch(word):
            if (name := _LABELS_OF_IDS.get(label)) is not None:
                found[name] = word.lower()
        elif word.isdecimal():
            name, digits = _LABELS_OF_NUMBERS.get(label, ("", 0))
            if len(word) <= digits:
                found[name] = int(word)
    if isinstance(document, Mapping):
        found |= _ids_in(document)
    return _with_unlabeled_ids(Ids(**found), kind_of(document, file_name), unquote(file_name))


_LABELS_OF_IDS: Final = {
    **dict.fromkeys(("jobs", "job", "jid", "jobid"), "job_id"),
    **dict.fromkeys(("vertices", "vertex", "vertexid", "subtasks", "vid"), "vertex_id"),
}
_LABELS_OF_NUMBERS: Final = {  # label -> ID and maximum number of digits
    **dict.fromkeys(
        ("details", "detail", "checkpoint", "checkpoints", "chk", "cp"), ("checkpoint", 18)
    ),
    **dict.fromkeys(("subtasks", "subtask"), ("subtask_index", 6)),
}


def _ids_in(document: Body) -> dict[str, Any]:
    """Return the IDs in a body, by field of `Ids`."""
    found: dict[str, Any] = {}
    job_id = document.get("jid") or object_at(document, "plan").get("jid")
    if isinstance(job_id, str) and _JOB_ID.fullmatch(job_id):
        found["job_id"] = job_id
    body_id = document.get("id")
    if isinstance(body_id, str) and _JOB_ID.fullmatch(body_id) and "name" in document:
        found["vertex_id"] = body_id
    elif "dataPort" in document:
        found["taskmanager"] = as_string(body_id)
    elif "num_subtasks" in document and (number := as_integer(body_id)) is not None:
        found["checkpoint"] = number
    return found


def _with_unlabeled_ids(ids: Ids, kind: str | None, file_name: str) -> Ids:
    """Fill in IDs that have no label in the names of the file and its folders."""
    *folders, name = re.split(r"[/\\]", file_name)

    def unused_ids(words: list[str]) -> list[str]:
        found = (word.lower() for word in words if _JOB_ID.fullmatch(word))
        return [word for word in found if word not in (ids.job_id, ids.vertex_id)]

    # A folder counts only if its whole name is an ID, as in a History Server's directory.
    above, inside = unused_ids(folders), unused_ids(_words(name))
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
    """Parse a path, as recorded by archives and browsers, into the kind of response and its IDs."""
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
        int(checkpoint)
        if checkpoint and checkpoint.isdecimal() and len(checkpoint) <= 18
        else None,
        found.get(":vertexid"),
        int(subtask) if subtask and subtask.isdecimal() and len(subtask) <= 6 else None,
        found.get(":taskmanagerid"),
    )


def is_har(body: Mapping[str, Any]) -> bool:
    """Return whether a document is a HAR file, as exported by a browser's developer tools."""
    return isinstance(object_at(body, "log").get("entries"), list)
