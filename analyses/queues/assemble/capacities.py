"""Determines the Flink version, and the input capacity of each subtask."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from flowdiag.analyses.flink.job import ClusterFacts, JobFacts
from flowdiag.analyses.flink.options import Version
from flowdiag.analyses.flink.tasks.buffers import POINTWISE, feeders
from flowdiag.analyses.flink.tasks.placement import SubtaskKey
from flowdiag.analyses.flink.tasks.topology import Topology
from flowdiag.analyses.queues.assemble.owners import Row
from flowdiag.analyses.queues.capacity import Capacity, GateShape, input_capacity
from flowdiag.analyses.queues.facts import Sample, options_of
from flowdiag.parsers.units import version_of


def version_by(
    job: JobFacts, common: ClusterFacts, reports: Row
) -> tuple[Version | None, str | None]:
    """Return the Flink version that the input prints or, without it, the oldest one with all reported metrics."""
    printed = printed_version(job, common, reports)
    if printed is not None:
        return version_of(printed), "said"
    names, reported = set(reports.get("names") or ()), set(reports.get("reported") or ())
    new, old = "Shuffle.Netty.Input.Buffers.inPoolUsage", "buffers.inPoolUsage"
    if new in reported and old not in reported:
        return (2, 0), "metrics"
    for name, since in (
        ("busyTimeMsPerSecond", (1, 13)),
        ("idleTimeMsPerSecond", (1, 11)),
        ("isBackPressured", (1, 10)),
        (new, (1, 9)),
    ):
        if name in names:
            return since, "metrics"
    return None, None


def printed_version(job: JobFacts, common: ClusterFacts, reports: Row) -> str | None:
    """Return the version that a log or a REST response prints."""
    known = (
        job.version,
        *(process.version for process in common.processes),
        reports.get("version"),
    )
    return next((text for text in known if version_of(text) is not None), None)


def capacities_of(
    job: JobFacts,
    topology: Topology,
    samples: Mapping[SubtaskKey, Sequence[Sample]],
    version: Version | None,
) -> dict[SubtaskKey, Capacity]:
    """Return the input capacities. Empty if the edges of the job graph or the version are unknown."""
    if job.graph is None or not job.graph.edges or version is None:
        return {}
    patterns = {(up, down): pattern for up, down, pattern in job.graph.shipping}
    place = _taskmanagers(job, samples)
    options = options_of(job)
    here: Counter[tuple[str, str | None]] = Counter(
        (key.task, manager) for key, manager in place.items() if manager is not None
    )
    known = {}
    for key in samples:
        shapes = []
        for before in topology.upstream.get(key.task, ()):
            # Without a plan, flowdiag assumes that an edge connects every pair of subtasks.
            pattern = patterns.get((before, key.task), "HASH")
            sizes = topology.parallelism[before], topology.parallelism[key.task]
            if not sizes[0] or key.subtask_index >= sizes[1]:
                break
            shapes.append(_shape(key, before, pattern, sizes, place, here))
        else:
            if shapes:
                known[key] = input_capacity(shapes, options, version)
    return known


def _taskmanagers(
    job: JobFacts, samples: Mapping[SubtaskKey, Sequence[Sample]]
) -> dict[SubtaskKey, str | None]:
    """Return the TaskManager of each subtask, from its samples if possible, or else from its attempts or its loads."""
    found = {key: each[-1].taskmanager for key, each in samples.items()}
    for attempt in job.attempts:
        if attempt.task and attempt.subtask_index is not None:
            found.setdefault(SubtaskKey(attempt.task, attempt.subtask_index), attempt.taskmanager)
    for load in job.loads:
        found.setdefault(SubtaskKey(load.task, load.subtask_index), load.taskmanager)
    return found


def _shape(
    key: SubtaskKey,
    before: str,
    pattern: str,
    sizes: tuple[int, int],
    place: Mapping[SubtaskKey, str | None],
    here: Mapping[tuple[str, str | None], int],
) -> GateShape:
    """Return the gate through which a subtask reads from the upstream task `before`.

    `sizes` is the parallelism of both tasks, and `here` counts the subtasks by task and TaskManager.
    """
    up, down = sizes
    fed = feeders(pattern, up, down, key.subtask_index)
    if len(fed) == up:
        remote = up - min(up, here[(before, place[key])])
    else:
        remote = sum(
            place.get(SubtaskKey(before, index)) is None
            or place.get(SubtaskKey(before, index)) != place[key]
            for index in fed
        )
    return GateShape(
        channels=len(fed),
        remote=remote,
        subpartitions=max(1, down // up) if pattern in POINTWISE else down,
    )
