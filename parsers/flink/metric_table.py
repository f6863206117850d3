"""Recognizes metric identifiers: the names by the table `formats/metrics.toml`, and the processes, jobs and tasks in
their scopes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import takewhile
from typing import Final

from flowdiag.parsers.formats import read_format


@dataclass(frozen=True, slots=True)
class KnownMetric:
    """A metric in `formats/metrics.toml`.

    Attributes:
        name: name as registered. `#` matches a number; `*` matches a part without dots, or the name of a split.
        scope: task, task-or-operator, operator, process, jm-job or jm.
        kind: counter, gauge, meter or histogram.
        unit: unit of the registered values (nanoseconds are not converted).
        versions: range of Flink versions that register the metric.
        absent: the value that means "none yet", which does not count as a sample; None if there is none.
    """

    name: str
    scope: str
    kind: str
    unit: str
    versions: str
    absent: float | None


@cache
def known_metrics() -> dict[str, KnownMetric]:
    """Return all metrics of the table by name."""
    return {
        name: KnownMetric(
            name=name,
            scope=scope,
            kind=row["kind"],
            unit=row["unit"],
            versions=row["versions"],
            absent=float(row["absent"]) if "absent" in row else None,
        )
        for scope, rows in read_format("formats/metrics.toml").items()
        for name, row in rows.items()
    }


@cache
def _lengths() -> dict[str, list[int]]:
    """Return the possible lengths of a metric name in parts, longest first, by its last part."""
    found: dict[str, set[int]] = {}
    for name in known_metrics():
        parts = name.split(".")
        found.setdefault(parts[-1], set()).add(len(parts))
    return {last: sorted(lengths, reverse=True) for last, lengths in found.items()}


def recognize_metric(parts: list[str]) -> tuple[KnownMetric, int] | None:
    """Find the known metric at the end of an identifier's parts; the longest name wins.

    Returns:
        The metric and the number of parts of its name.

    >>> recognize_metric(["h", "taskmanager", "t", "Status", "JVM", "CPU", "Load"])[1]
    4
    >>> recognize_metric("0.window.sums.rocksdb.is-write-stopped".split("."))[1]
    3
    >>> recognize_metric("Source: a.split.topic.v1-0.watermark.currentWatermark".split("."))[1]
    5
    """
    names = known_metrics()
    if (found := _metric_of_group(parts, names)) is not None:
        return found
    for length in _lengths().get(parts[-1], ()):
        if length > len(parts):
            continue
        tail = parts[-length:]
        metric = names.get(".".join(tail))
        if metric is None:
            metric = names.get(".".join("#" if part.isdecimal() else part for part in tail))
        if metric is None and length > 2:
            metric = names.get(".".join((*tail[:-2], "*", tail[-1])))
        if metric is not None:
            return metric, length
    metric = names.get(parts[-1].translate(_DIGITS_TO_NUMBER))
    return None if metric is None else (metric, 1)


def _metric_of_group(
    parts: list[str], names: Mapping[str, KnownMetric]
) -> tuple[KnownMetric, int] | None:
    """Find a metric whose identifier also contains the name of a split or column family, which may contain dots."""
    group = parts[-2] if len(parts) > 2 else None
    if group == STORE and (metric := names.get(f"*.{STORE}.{parts[-1]}")) is not None:
        return metric, 4 if parts[-4:-3] == [FAMILY] else 3
    if group == "watermark" and SPLIT in parts[:-3]:
        metric = names.get(f"{SPLIT}.*.watermark.{parts[-1]}")
        if metric is not None:
            return metric, parts[:-3][::-1].index(SPLIT) + 4
    return None


def parts_of(identifier: str) -> list[str]:
    """Split an identifier at its dots, including the dot in `rocksdb.NAME` if a reporter replaced it.

    >>> parts_of("tm.job.window.0.sums.rocksdb_is-write-stopped")[-3:]
    ['sums', 'rocksdb', 'is-write-stopped']
    """
    parts = identifier.split(".")
    if parts[-1].startswith(f"{STORE}_"):
        parts[-1:] = parts[-1].split("_", 1)
    return parts


SPLIT: Final = "split"
STORE: Final = "rocksdb"
"""Metric group of RocksDB and ForSt."""
FAMILY: Final = "column_family"
"""Metric group above the name of a column family, if that name is a metric variable."""
_DIGITS_TO_NUMBER: Final = {ord(digit): "#" for digit in "0123456789"}


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
