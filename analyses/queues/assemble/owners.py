"""Assigns rows of metrics to jobs, tasks and TaskManagers."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

from flowdiag.analyses.flink.job import Graph, JobFacts, Vertex, original_host
from flowdiag.analyses.flink.tasks.topology import Topology
from flowdiag.analyses.model.keys import JobKey

Row = Mapping[str, Any]


class Owners:
    """Assigns rows of metrics to jobs."""

    def __init__(self, jobs: Sequence[JobFacts]) -> None:
        self._ids = {job.key.job_id: job.key for job in jobs if job.key.job_id}
        self._jobs = jobs
        self._by_name: dict[str, list[JobFacts]] = defaultdict(list)
        for job in jobs:
            if job.name:
                for name in {job.name, mangle(job.name)}:
                    self._by_name[name].append(job)

    def of(self, row: Row) -> JobKey:
        """Return the job of a row, by ID or by name and time. If none matches, return the only job or a new one."""
        if row["job_id"]:
            return self._ids.get(row["job_id"], JobKey("", row["job_id"]))
        name = row["job_name"] or ""
        found = self._by_name.get(name) or self._by_name.get(mangle(name)) or []
        found = _jobs_at(found, row)
        if any(run_at_once(one, other) for one, other in combinations(found, 2)):
            return JobKey(name, "")
        if found:
            # Several runs with this name match the time of the row: take the last one.
            return found[-1].key
        if len(self._jobs) == 1:
            return self._jobs[0].key
        return JobKey(name, "")

    def unknown_job(self, key: JobKey, rows: Sequence[Row]) -> JobFacts:
        """Return a new job for metrics that belong to no known job."""
        named = next((row["job_name"] for row in rows if row["job_name"]), None)
        return JobFacts(key=key, name=named, version=None)


def _jobs_at(jobs: list[JobFacts], row: Row) -> list[JobFacts]:
    """Return the jobs that have records at the time of a row. If none has, or the row has no time, return all jobs."""
    if len(jobs) < 2 or row.get("first_us") is None:
        return jobs
    alive = [
        job
        for job in jobs
        if (job.first_us or 0) <= row["last_us"] and row["first_us"] <= (job.last_us or 1 << 62)
    ]
    return alive or jobs


def run_at_once(one: JobFacts, other: JobFacts) -> bool:
    """Return whether the times of the two jobs overlap."""
    begun = max(one.first_us or 0, other.first_us or 0)
    return begun < min(job.last_us or 1 << 62 for job in (one, other))


def successive_runs(jobs: Sequence[JobFacts]) -> list[tuple[tuple[str, ...], str, int]]:
    """Return the names, ID and start of each job that ran before or after another job of the same name.

    Metric reports do not show job IDs, but they show times. Jobs that ran at the same time are left out.
    """
    by_name: dict[str, list[JobFacts]] = defaultdict(list)
    for job in jobs:
        if job.name and job.key.job_id and job.first_us is not None:
            by_name[job.name].append(job)
    return [
        ((name, mangle(name)), job.key.job_id, job.first_us or 0)
        for name, found in by_name.items()
        if len(found) > 1 and not any(run_at_once(*pair) for pair in combinations(found, 2))
        for job in sorted(found, key=lambda job: job.first_us or 0)
    ]


def mangle(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9]", "_", name)


def with_graph(job: JobFacts, rows: Sequence[Row]) -> JobFacts:
    """Add the vertices that metrics name, without order or edges, to a job that has neither graph nor attempts."""
    if job.graph is not None or job.attempts:
        return job
    sizes: dict[str, int] = {}
    for row in rows:
        task = row["task"] or row["vertex_id"]
        if task and row["subtask_index"] is not None:
            sizes[task] = max(sizes.get(task, 0), row["subtask_index"] + 1)
    if not sizes:
        return job
    ranked = sorted(sizes, key=lambda task: (not _is_source(task), task))
    return replace(
        job,
        graph=Graph(
            job=job.key,
            vertices=tuple(
                Vertex(job=job.key, vertex_id=None, task=task, parallelism=sizes[task])
                for task in ranked
            ),
            edges=(),
            source="metrics",
        ),
    )


def _is_source(task: str) -> bool:
    """Return whether a task's name shows that it is a source, even if a reporter has changed the name.

    >>> _is_source("Source: orders"), _is_source("Source:_orders____Map"), _is_source("enrich")
    (True, True, False)
    """
    return task.startswith("Source:")


class Tasks:
    """Assigns rows of metrics to vertices, by their names in the graph."""

    def __init__(self, job: JobFacts, topology: Topology) -> None:
        self._topology = topology
        vertices = job.graph.vertices if job.graph is not None else ()
        self._ids = {vertex.vertex_id: vertex.task for vertex in vertices if vertex.vertex_id}
        for attempt in job.attempts:
            if attempt.vertex_id and attempt.task:
                self._ids.setdefault(attempt.vertex_id, attempt.task)

    def of(self, row: Row) -> str | None:
        """Return the vertex of a row, by its ID or by its name, which a reporter may have changed."""
        known = self._ids.get(row["vertex_id"])
        return known or self._topology.canonical(row["task"] or row["vertex_id"])


class Places:
    """Resolves TaskManagers and hosts to their names in the rest of the input."""

    def __init__(self, job: JobFacts) -> None:
        self._names = {
            mangle(name): name
            for attempt in job.attempts
            for name in (attempt.host, attempt.taskmanager)
            if name
        }
        self._hosts = {
            attempt.taskmanager: attempt.host
            for attempt in job.attempts
            if attempt.taskmanager and attempt.host
        }

    def of(self, row: Row) -> tuple[str | None, str | None]:
        """Return TaskManager and host. The host is None if it appears only in metric scopes, where `_` replaces dots."""
        manager, host = (
            self._names.get(mangle(row[name] or ""), row[name]) for name in ("taskmanager", "host")
        )
        return manager, self._hosts.get(manager or "", original_host(host) if manager else host)
