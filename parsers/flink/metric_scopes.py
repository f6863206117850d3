"""Resolves the scope of a metric: the process, the job, the task and the operator that report it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import takewhile


@dataclass(frozen=True, slots=True)
class Place:
    """The parsed scope of an identifier.

    Attributes:
        scope: tm, jm, jm-job, task, operator, or unknown for a custom scope format.
        text: the scope as printed, if it cannot be parsed.
    """

    scope: str
    host: str | None = None
    taskmanager: str | None = None
    job_name: str | None = None
    task: str | None = None
    operator: str | None = None
    subtask_index: int | None = None
    text: str | None = None


def owner_of(scope: str, processes: set[str]) -> str | None:
    """Return the process scope that a task's scope starts with, or None."""
    prefixes = [process for process in processes if scope.startswith(process + ".")]
    if prefixes:
        return max(prefixes, key=len)
    # Without process metrics, assume that the TaskManager's ID contains no dot.
    host, anchor, tail = scope.partition(".taskmanager.")
    taskmanager, dot, _ = tail.partition(".")
    return f"{host}{anchor}{taskmanager}" if anchor and dot else None


def place_of_process(scope: str) -> Place:
    """Resolve the scope of a process metric or of a JobManager's job metric."""
    host, anchor, taskmanager = scope.partition(".taskmanager.")
    if anchor and ".jobmanager" not in host:
        return Place("tm", host=host, taskmanager=taskmanager)
    if scope.endswith(".jobmanager"):
        return Place("jm", host=scope.removesuffix(".jobmanager"))
    host, anchor, job = scope.partition(".jobmanager.")
    if anchor:
        return Place("jm-job", host=host, job_name=job)
    return Place("unknown", text=scope or None)


def jobs_of(bodies: set[str]) -> list[str]:
    """Find the job names in texts of the form `job.task`, in which both parts may contain dots.

    A text with a single dot is unambiguous. Otherwise the job is the common prefix, up to a dot, of all texts that
    start with the same part. If only one text starts with that part, that part is the job.
    """
    groups: dict[str, list[list[str]]] = {}
    for body in bodies:
        parts = body.split(".")
        groups.setdefault(parts[0], []).append(parts)
    jobs = []
    for first, members in groups.items():
        if len(members) == 1 or any(len(parts) <= 2 for parts in members):
            jobs.append(first)
            continue
        shortest = min(map(len, members)) - 1  # leave at least one part for each task
        columns = zip(*(parts[:shortest] for parts in members), strict=True)
        common = takewhile(lambda column: len(set(column)) == 1, columns)
        jobs.append(".".join(column[0] for column in common))
    return sorted(jobs, key=len, reverse=True)


def split_job(body: str, jobs: list[str]) -> tuple[str | None, str]:
    for job in jobs:
        if body.startswith(job + "."):
            return job, body[len(job) + 1 :]
    return None, body


class Chains:
    """Maps operators to tasks: the name of a task contains the names of its chained operators."""

    def __init__(self, tasks: Iterable[tuple[str, str | None, str]]) -> None:
        self._tasks: dict[tuple[str, str | None], list[tuple[str, frozenset[str]]]] = {}
        for owner, job, task in tasks:
            self._tasks.setdefault((owner, job), []).append((task, _members(task)))

    def task_of(self, owner: str, job: str | None, operator: str) -> str | None:
        """Return the task whose chain contains this operator, if there is exactly one."""
        found = [
            task
            for task, members in self._tasks.get((owner, job), ())
            if operator == task or operator in members
        ]
        return found[0] if len(found) == 1 else None


def _members(task: str) -> frozenset[str]:
    """Return the operator names in a task's name.

    A fork is printed as `A -> (B -> C, D)`. Because operator names may contain commas and parentheses, the whole
    parts between arrows are included as well.

    >>> sorted(_members("Source: a -> (Map, Filter -> Sink: b)"))[:3]
    ['(Map', '(Map, Filter', 'Filter']
    """
    names: set[str] = set()
    for part in task.split(" -> "):
        names.add(part)
        for piece in part.split(", "):
            names.add(piece)
            names.add(piece.lstrip("(").rstrip(")"))
    return frozenset(names)
