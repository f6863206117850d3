"""Reads the files of `flowdiag collect`: responses with their paths and times, in one JSON document per tick.

`flowdiag.parsers.live.folder` writes these files. The responses are the same as saved ones, but the owner and the
time of each are known, which readers of saved responses have to guess.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from flowdiag.parsers.json_values import as_moment, as_string, object_at, objects_at

SCHEMA: Final = "flowdiag.collected/1"
MANIFEST: Final = "manifest.jsonl"

HEAD = re.compile(rb'\{\s*"schema"\s*:\s*"flowdiag\.collected/\d+"\s*,\s*"kind"\s*:\s*"(\w+)"')
MANIFEST_LINE = re.compile(
    rb'\{\s*"what"\s*:\s*"run"\s*,\s*"schema"\s*:\s*"flowdiag\.collected/\d+"'
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectedAnswer:
    """A response in a tick.

    Attributes:
        path: path of the request.
        time_ms: when the response arrived.
        at_ms: when its values were measured, if known.
        body: the decoded response.
    """

    path: str
    time_ms: int | None
    at_ms: int | None
    body: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Collected:
    """A file of a collection.

    Attributes:
        kind: flink, spark or prometheus.
        time_ms: start of the tick.
        context: names and locations, in a format that depends on the kind.
        answers: the responses, in file order.
    """

    kind: str
    time_ms: int | None
    context: Mapping[str, Any] = field(default_factory=dict)
    answers: tuple[CollectedAnswer, ...] = ()


def collected_kind(head: bytes) -> str | None:
    """Return the kind of a collected file from its first bytes, or None for other files.

    >>> collected_kind(b'{"schema":"flowdiag.collected/1","kind":"flink","tick":1')
    'flink'
    """
    found = HEAD.match(head.removeprefix(b"\xef\xbb\xbf").lstrip())
    return found[1].decode() if found else None


def collected_of(body: object) -> Collected | None:
    """Parse a decoded file of a collection; return None for other values."""
    if not isinstance(body, Mapping):
        return None
    kind = as_string(body.get("kind"))
    if kind is None or not str(body.get("schema", "")).startswith("flowdiag.collected/"):
        return None
    return Collected(
        kind=kind,
        time_ms=as_moment(body.get("time_ms")),
        context=object_at(body, "context"),
        answers=tuple(_answers(body)),
    )


def _answers(body: Mapping[str, Any]) -> Iterator[CollectedAnswer]:
    for item in objects_at(body, "answers"):
        path = as_string(item.get("path"))
        if path is not None and "body" in item:
            yield CollectedAnswer(
                path=path,
                time_ms=as_moment(item.get("time_ms")),
                at_ms=as_moment(item.get("at_ms")),
                body=item["body"],
            )


@dataclass(slots=True)
class TaskPlaces:
    """Names of jobs and vertices, and locations of subtasks, from a file collected from Flink."""

    names: dict[str, str] = field(default_factory=dict)
    owners: dict[str, str] = field(default_factory=dict)
    jobs: dict[str, str] = field(default_factory=dict)
    managers: dict[str, list[str | None]] = field(default_factory=dict)
    hosts: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, context: Mapping[str, Any]) -> TaskPlaces:
        """Read the context of a file."""
        found = cls()
        for job_id, job in object_at(context, "jobs").items():
            if not isinstance(job, Mapping):
                continue
            if name := as_string(job.get("name")):
                found.jobs[job_id] = name
            for vertex_id, vertex in object_at(job, "vertices").items():
                if isinstance(vertex, Mapping) and (task := as_string(vertex.get("name"))):
                    found.names[vertex_id] = task
                    found.owners[vertex_id] = job_id
                    managers = vertex.get("taskmanagers")
                    if isinstance(managers, list):
                        found.managers[vertex_id] = [as_string(manager) for manager in managers]
        for manager, host in object_at(context, "taskmanagers").items():
            if text := as_string(host):
                found.hosts[manager] = text
        return found

    def taskmanager(self, vertex_id: str | None, subtask_index: int | None) -> str | None:
        """Return the TaskManager that ran a subtask during the tick."""
        managers = self.managers.get(vertex_id or "", ())
        if subtask_index is None or not 0 <= subtask_index < len(managers):
            return None
        return managers[subtask_index]
