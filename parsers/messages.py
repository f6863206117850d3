"""Converts text captured by message templates to `EVENTS` values: locations, task names, attempt IDs.

Never raises: a value that cannot be parsed is left out rather than guessed. Sources: Flink catalogue, sections 2.1
(deploy line), 2.3 (attempt IDs), 2.4 (locations).
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Final, NamedTuple

Values = dict[str, object]

INT64_MAX: Final = 2**63 - 1
INT32_MAX: Final = 2**31 - 1
MOMENT_MAX: Final = 253_402_300_799_999
"""The last millisecond of the year 9999; a larger value is not a time."""
DURATION_MAX: Final = 2**52
"""The longest duration, in milliseconds, that fits into a column of microseconds."""

_INT64_COLUMNS: Final = ("checkpoint", "bytes")
_INT32_COLUMNS: Final = ("subtask_index", "parallelism", "attempt")
_TEXT_COLUMNS: Final = (
    "job_id",
    "job_name",
    "vertex_id",
    "taskmanager",
    "host",
    "from_state",
    "to_state",
    "cause",
)


class TaskName(NamedTuple):
    """The parts of a task name printed as `name (i/n)#a`; unlike `i`, the subtask index starts at 0."""

    task: str
    subtask_index: int | None = None
    parallelism: int | None = None
    attempt: int | None = None


class Location(NamedTuple):
    """Where a task runs: the TaskManager's resource ID, its host and its data port."""

    taskmanager: str | None = None
    host: str | None = None
    data_port: int | None = None


class AttemptId(NamedTuple):
    """An execution attempt ID. Before Flink 1.16 the ID does not contain the last four fields."""

    attempt_id: str
    graph_id: str | None = None
    vertex_id: str | None = None
    subtask_index: int | None = None
    attempt: int | None = None


_SUBTASK = re.compile(
    r"[ \t\xa0]*\(([0-9]{1,9})[ ]?/[ ]?([0-9]{1,9})\)(?:[ ]?#([0-9]{1,9}))?[ \t]*\Z"
)


def parse_task(text: str) -> TaskName:
    """Split a task name and the subtask at its right end; the name itself can contain parentheses.

    >>> parse_task("Sink: a (1/2) -> b (3/4)#1")
    TaskName(task='Sink: a (1/2) -> b', subtask_index=2, parallelism=4, attempt=1)
    >>> parse_task("Source: no subtask here")
    TaskName(task='Source: no subtask here', subtask_index=None, parallelism=None, attempt=None)
    """
    # A name can be many kilobytes of SQL: search only its end.
    tail = max(0, len(text) - 64)
    found = _SUBTASK.search(text, tail)
    if found is None:
        return TaskName(text.strip())
    number, parallelism = int(found[1]), int(found[2])
    if not 1 <= number <= parallelism:
        return TaskName(text.strip())
    attempt = int(found[3]) if found[3] is not None else None
    return TaskName(text[: found.start()].strip(), number - 1, parallelism, attempt)


_FOUR_PARTS = re.compile(r"([0-9a-fA-F]{32})_([0-9a-fA-F]{32})_([0-9]{1,9})_([0-9]{1,9})\Z")
_EXECUTION_VERTEX = re.compile(r"([0-9a-fA-F]{32})_([0-9]{1,9})\Z")


def parse_attempt_id(text: str) -> AttemptId:
    """Parse an attempt ID in either format.

    >>> parse_attempt_id("f2862289958b430bc3dc20f39794ca2c").vertex_id is None
    True
    >>> parse_attempt_id("a" * 32 + "_" + "b" * 32 + "_2_7")[3:]
    (2, 7)
    """
    parts = _FOUR_PARTS.match(text)
    if parts is None:
        return AttemptId(text)
    return AttemptId(text, parts[1], parts[2], int(parts[3]), int(parts[4]))


_LOCATION = re.compile(
    r"""
    \s*(?P<id>[^\s@]*)            # resource id, with or without (host:port); anonymized: empty
    [ \t\xa0]*@[ \t\xa0]*
    (?P<host>[^\s()]*)            # anonymized: empty
    [ \t\xa0]*
    (?:\(dataPort=(?P<port>-?[0-9]{1,9})?[^)]*\))?
    """,
    re.VERBOSE,
)
_RESOURCE = re.compile(r"(?P<id>[^()\s]+)(?:\((?P<meta>[^()]*)\)?)?\s*\Z")
_SLOT_ON_HOST = re.compile(r"slot\s+(?P<slot>\S+)\s+on\s+(?P<host>\S+)\s*\Z")
# A Java object without toString (`SingleLogicalSlot@6929f626` in 1.11) is not a location.
_JAVA_IDENTITY = re.compile(r"(?:[\w$]+\.)*[A-Z][\w$]*@[0-9a-f]{1,8}\Z")
_PORT = re.compile(r":[0-9]{1,5}\Z")
_NOWHERE: Final = frozenset(
    ("unknown location", "unknown", "(unassigned)", "unassigned", "not deployed", "null", "")
)


def parse_resource_id(text: str) -> Location:
    """Split off the `(host:port)` that some lines append to YARN's resource IDs.

    >>> parse_resource_id("container_1_000002(worker-3:34772)")
    Location(taskmanager='container_1_000002', host='worker-3', data_port=None)
    """
    text = text.strip().rstrip(".")
    found = _RESOURCE.match(text)
    if found is None:
        return Location(text or None)
    host = found["meta"] or None
    if host is not None:
        host = _PORT.sub("", host.strip()) or None
    return Location(found["id"], host)


@functools.lru_cache(maxsize=4096)  # a cluster has few locations and prints each of them often
def parse_location(text: str) -> Location:
    """Parse the location of a task in any format that Flink or an anonymizer writes.

    >>> parse_location("container_1_000002 @ worker-3.example (dataPort=40090)")
    Location(taskmanager='container_1_000002', host='worker-3.example', data_port=40090)
    >>> parse_location("Unknown location")
    Location(taskmanager=None, host=None, data_port=None)
    >>> parse_location("worker-3")
    Location(taskmanager=None, host='worker-3', data_port=None)
    """
    text = text.strip().rstrip(".").strip()
    if text.lower() in _NOWHERE or text.startswith("["):
        return Location()
    if _JAVA_IDENTITY.match(text):
        return Location()
    found = _LOCATION.match(text)
    if found is not None:
        resource = parse_resource_id(found["id"]) if found["id"] else Location()
        port = int(found["port"]) if found["port"] else None
        return Location(resource.taskmanager, found["host"] or resource.host, port)
    slot = _SLOT_ON_HOST.match(text)
    if slot is not None:
        return Location(None, slot["host"])
    if " " in text or "\t" in text:
        return Location()
    if "(" in text:
        return parse_resource_id(text)
    return Location(None, text)


def _integer(text: str, largest: int) -> int | None:
    try:
        value = int(text)
    except ValueError:
        return None
    return value if -largest - 1 <= value <= largest else None


def _set(values: Values, name: str, value: object) -> None:
    if value is not None and value != "":
        values.setdefault(name, value)


def _put_field(values: Values, name: str, text: str) -> None:
    text = text.strip()
    if text:
        fields = values.setdefault("fields", {})
        assert isinstance(fields, dict)
        fields[name] = text


def _put_task(values: Values, text: str) -> None:
    name = parse_task(text)
    _set(values, "task", name.task)
    _set(values, "subtask_index", name.subtask_index)
    _set(values, "parallelism", name.parallelism)
    _set(values, "attempt", name.attempt)


def _put_attempt_id(values: Values, text: str) -> None:
    attempt = parse_attempt_id(text)
    _set(values, "attempt_id", attempt.attempt_id)
    _set(values, "vertex_id", attempt.vertex_id)
    _set(values, "subtask_index", attempt.subtask_index)
    _set(values, "attempt", attempt.attempt)


def _put_execution_vertex(values: Values, text: str) -> None:
    found = _EXECUTION_VERTEX.match(text)
    if found is None:
        _set(values, "vertex_id", text)
        return
    _set(values, "vertex_id", found[1])
    _set(values, "subtask_index", int(found[2]))


def _put_location(values: Values, text: str) -> None:
    where = parse_location(text)
    _set(values, "taskmanager", where.taskmanager)
    _set(values, "host", where.host)
    if where.data_port is not None:
        _put_field(values, "data_port", str(where.data_port))


def _put_resource_id(values: Values, text: str) -> None:
    where = parse_resource_id(text)
    _set(values, "taskmanager", where.taskmanager)
    _set(values, "host", where.host)


def _put_seconds(values: Values, text: str) -> None:
    seconds = _integer(text, DURATION_MAX // 1000)
    if seconds is not None:
        _set(values, "duration_ms", seconds * 1000)


def _put_end(values: Values, text: str) -> None:
    """Store the duration of an operation, calculated from its end time and its start at `epoch_ms`."""
    _put_field(values, "end_epoch_ms", text)
    begin, end = values.get("epoch_ms"), _integer(text, MOMENT_MAX)
    if isinstance(begin, int) and end is not None:
        _set(values, "duration_ms", end - begin)


def _integer_column(name: str, largest: int) -> Callable[[Values, str], None]:
    def put(values: Values, text: str) -> None:
        _set(values, name, _integer(text, largest))

    return put


def _text_column(name: str) -> Callable[[Values, str], None]:
    def put(values: Values, text: str) -> None:
        _set(values, name, text.strip())

    return put


_CUT_ID = re.compile(r"[0-9a-f]{1,31}\Z")


def _put_job_id(values: Values, text: str) -> None:
    """Store a job ID: 32 hex digits or a pseudonym. Fewer hex digits mean a truncated line and are ignored."""
    if _CUT_ID.match(text) is None:
        values["job_id"] = text


# How to store each named group of a template. Groups with other names become `fields`.
_PUT: Final[dict[str, Callable[[Values, str], None]]] = {
    **{name: _integer_column(name, INT64_MAX) for name in _INT64_COLUMNS},
    "epoch_ms": _integer_column("epoch_ms", MOMENT_MAX),
    "duration_ms": _integer_column("duration_ms", DURATION_MAX),
    **{name: _integer_column(name, INT32_MAX) for name in _INT32_COLUMNS},
    **{name: _text_column(name) for name in _TEXT_COLUMNS},
    "task": _put_task,
    "job_id": _put_job_id,
    "attempt_id": _put_attempt_id,
    "execution_vertex": _put_execution_vertex,
    "location": _put_location,
    "resource_id": _put_resource_id,
    "seconds": _put_seconds,
    "end_epoch_ms": _put_end,
}


def convert(groups: dict[str, str | None]) -> Values:
    """Convert captured groups to `EVENTS` columns; groups that match no column go to `fields`.

    >>> convert({"checkpoint": "7", "type": "SAVEPOINT", "job_id": None})
    {'checkpoint': 7, 'fields': {'type': 'SAVEPOINT'}}
    """
    values: Values = {}
    for name, text in groups.items():
        if text is None:
            continue
        put = _PUT.get(name)
        if put is None:
            _put_field(values, name, text)
        else:
            put(values, text)
    return values
