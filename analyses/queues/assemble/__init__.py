"""Builds the queues of each job from measured rows, without Spark.

Start with `assemble_queues`. It may import the facts of this topic and of `flowdiag.analyses.flink`, but no rule.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Final

from flowdiag.analyses.flink.job import UNKNOWN_JOB, ClusterFacts, Garbage, Incident, JobFacts
from flowdiag.analyses.flink.judging import job_failed
from flowdiag.analyses.flink.tasks.placement import SubtaskKey
from flowdiag.analyses.flink.tasks.topology import Topology
from flowdiag.analyses.model import fmt
from flowdiag.analyses.model.keys import JobKey
from flowdiag.analyses.neighbours.facts import Neighbours
from flowdiag.analyses.queues.assemble.capacities import capacities_of, printed_version, version_by
from flowdiag.analyses.queues.assemble.event_times import flows_of, marks_of, stores_of
from flowdiag.analyses.queues.assemble.owners import Owners, Places, Row, Tasks, with_graph
from flowdiag.analyses.queues.assemble.samples import (
    ref_of,
    samples_of,
    starts_of,
    taskmanager_sample_of,
)
from flowdiag.analyses.queues.facts import (
    GateQueue,
    JobQueues,
    QueueFacts,
    Sample,
    TaskManagerSample,
)
from flowdiag.parsers.json_values import as_number
from flowdiag.parsers.live.flink_values import MEANS_OF_A_MINUTE
from flowdiag.parsers.notes import InputNote, Kind
from flowdiag.parsers.units import version_of

NO_NEIGHBOURS: Final = Neighbours()
_ENDS: Final = frozenset({"cancelled", "finished"})


def assemble_queues(
    rows: Sequence[Row],
    common: ClusterFacts,
    *,
    window_us: int,
    neighbours: Neighbours = NO_NEIGHBOURS,
) -> QueueFacts:
    """Build the facts from rows.

    Args:
        rows: rows of `measure.queue_frame`.
        common: the facts that all topics share.
        window_us: length of a window.
        neighbours: the systems around the jobs. If several jobs run, no input shows to which of them these systems
            belong.
    """
    by_what: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        by_what[row["what"]].append(row)
    owners = Owners(common.jobs)
    windows = _by_owner(by_what["window"], owners)
    others: dict[JobKey, dict[str, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for row in chain.from_iterable(by_what[what] for what in ("gate", "mark", "flow", "store")):
        others[owners.of(row)][row["what"]].append(row)
    machines = _machines(by_what["machine"])
    reports: Row = by_what["names"][0] if by_what["names"] else {}
    known = {job.key: job for job in common.jobs}
    for key, found in windows.items():
        if key not in known:
            known[key] = owners.unknown_job(key, found)
    if not known and not neighbours.empty:
        known[UNKNOWN_JOB.key] = UNKNOWN_JOB
    jobs = tuple(
        _job(job, windows[key], others[key], machines, reports, common, window_us)
        for key, job in known.items()
    )
    records = tuple(i for i in common.incidents if i.kind in _OF_CLIENTS)
    if _owner_of_neighbours(jobs) is None and any(map(_is_trouble, records)):
        # The log of a TaskManager with several jobs does not show whose client wrote a record.
        empty = _job(_unknown(jobs), (), {}, machines, reports, common, window_us)
        jobs = (*jobs, _with_other_systems(empty, NO_NEIGHBOURS, records))
    else:
        jobs = _with_neighbours(jobs, neighbours, records)
    return QueueFacts(common=common, jobs=jobs)


_OF_CLIENTS: Final = frozenset(
    {
        "commit-failed",
        "refused",
        "produce-refused",
        "offset-reset",
        "partitions",
        "slot-created",
        "unreachable",
        "server",
    }
)
"""Kinds of log records that clients of other systems write."""


def _with_neighbours(
    jobs: tuple[JobQueues, ...], neighbours: Neighbours, records: tuple[Incident, ...]
) -> tuple[JobQueues, ...]:
    owner = _owner_of_neighbours(jobs)
    return tuple(
        _with_other_systems(job, neighbours, records) if job is owner else job for job in jobs
    )


def _unknown(jobs: Sequence[JobQueues]) -> JobFacts:
    last_us = max((job.job.last_us for job in jobs if job.job.last_us is not None), default=None)
    return replace(UNKNOWN_JOB, last_us=last_us)


def _is_trouble(record: Incident) -> bool:
    """Return whether a record is more than part of an ordinary start."""
    ordinary = ("server", "slot-created", "offset-reset", "partitions")
    return record.kind not in ordinary or "offset" in record.text


def _with_other_systems(
    job: JobQueues, neighbours: Neighbours, records: tuple[Incident, ...]
) -> JobQueues:
    incidents = (*job.job.incidents, *(i for i in records if i not in job.job.incidents))
    return replace(job, neighbours=neighbours, job=replace(job.job, incidents=incidents))


def _machines(rows: Iterable[Row]) -> dict[str, list[TaskManagerSample]]:
    found: dict[str, list[TaskManagerSample]] = defaultdict(list)
    for machine in sorted(map(taskmanager_sample_of, rows), key=lambda m: m.window):
        found[machine.taskmanager].append(machine)
    return found


def _by_owner(rows: Iterable[Row], owners: Owners) -> dict[JobKey, list[Row]]:
    found: dict[JobKey, list[Row]] = defaultdict(list)
    for row in rows:
        found[owners.of(row)].append(row)
    return found


def _owner_of_neighbours(jobs: Sequence[JobQueues]) -> JobQueues | None:
    """Return the job that neighbors are about: the only one, the only running one, or the only one with a backlog."""
    running = [
        job
        for job in jobs
        if not any(i.kind in _ENDS for i in job.job.incidents) and not job_failed(job.job)
    ]
    lagging = [
        job
        for job in running
        if any("pending" in sample.gauges for each in job.samples.values() for sample in each)
    ]
    return next((found[0] for found in (jobs, running, lagging) if len(found) == 1), None)


def _job(
    job: JobFacts,
    rows: Sequence[Row],
    others: Mapping[str, Sequence[Row]],
    machines: Mapping[str, Sequence[TaskManagerSample]],
    reports: Row,
    common: ClusterFacts,
    window_us: int,
) -> JobQueues:
    job = with_graph(job, rows)
    topology = Topology(job)
    tasks = Tasks(job, topology)
    version, version_from = version_by(job, common, reports)
    of_a_minute = version is not None and version >= MEANS_OF_A_MINUTE
    samples = samples_of(rows, tasks, Places(job), of_a_minute=of_a_minute)
    if version_of(job.version) is None:
        job = replace(job, version=printed_version(job, common, reports))
    mine = {sample.taskmanager for each in samples.values() for sample in each}
    ours = {name: tuple(machines[name]) for name in sorted(machines.keys() & mine)}
    return JobQueues(
        job=replace(job, garbage=_garbage(ours)),
        topology=topology,
        samples=samples,
        taskmanagers=ours,
        capacity=capacities_of(job, topology, samples, version),
        gates=_gates(others.get("gate", ()), tasks),
        marks=marks_of(others.get("mark", ()), tasks),
        flows=flows_of(others.get("flow", ()), tasks),
        stores=stores_of(others.get("store", ()), tasks),
        window_us=window_us,
        starts_us=starts_of(job, samples),
        version=version,
        version_from=version_from,
        gaps=(
            *_notes_on_gaps(topology, samples),
            *_note_on_early_end(job, samples, common),
            *_notes_on_impossible_values(ours),
        ),
        cores=_cores(common),
    )


def _cores(common: ClusterFacts) -> dict[str | None, float]:
    """Return the number of cores that each TaskManager reports."""
    every = [*common.incidents, *chain.from_iterable(job.incidents for job in common.jobs)]
    found = [(i.taskmanager, as_number(i.text.get("hardware.cpuCores"))) for i in every]
    return {name: cores for name, cores in found if cores}


def _garbage(machines: Mapping[str, Sequence[TaskManagerSample]]) -> tuple[Garbage, ...]:
    """Convert TaskManager samples to the garbage collections that the search for causes needs."""
    return tuple(
        Garbage(
            taskmanager=name,
            host=one.host,
            gc_ms=one.gc_ms,
            span_ms=one.span_ms,
            samples=one.samples,
            first_us=one.first_us,
            last_us=one.last_us if one.last_us is not None else one.first_us,
            ref=one.ref,
        )
        for name, each in machines.items()
        for one in each
        if one.gc_ms is not None and one.span_ms and one.first_us is not None
    )


def _gates(rows: Iterable[Row], tasks: Tasks) -> tuple[GateQueue, ...]:
    found = [
        GateQueue(
            key=SubtaskKey(task, row["subtask_index"]),
            gate=row["gate"],
            samples=row["samples"],
            total=row["total_length"],
            shortest=row["min_length"],
            longest=row["max_length"],
            mean=row["avg_length"],
            ref=ref_of(row),
        )
        for row in rows
        if (task := tasks.of(row)) is not None
    ]
    return tuple(sorted(found, key=lambda gate: (gate.key, gate.gate)))


def _notes_on_impossible_values(
    machines: Mapping[str, Sequence[TaskManagerSample]],
) -> Iterator[InputNote]:
    """Yield a note for each kind of value that no TaskManager can have."""
    reporting: defaultdict[str, set[str]] = defaultdict(set)
    for name, windows in machines.items():
        for kind in chain.from_iterable(window.impossible for window in windows):
            reporting[kind].add(name)
    for kind, names in reporting.items():
        several = len(names) > 1
        who = f"{len(names)} of {len(machines)} TaskManagers" if several else min(names)
        text = f"{who} {'report' if several else 'reports'} {kind}: flowdiag ignores these values"
        yield InputNote(Kind.IMPOSSIBLE, text)


_UNREFRESHED_US: Final = 60_000_000
"""Metrics are normally at most this old: they are requested twice a minute or reported once a minute."""


def _note_on_early_end(
    job: JobFacts, samples: Mapping[SubtaskKey, Sequence[Sample]], common: ClusterFacts
) -> Iterator[InputNote]:
    """Yield a note if the metrics end long before the last JobManager response that shows the job running."""
    lasts = [s.last_us for each in samples.values() for s in each if s.last_us is not None]
    if not lasts or not common.has_rest or job.last_us is None:
        return
    last_us = max(lasts)
    if job.last_us - last_us < _UNREFRESHED_US or (
        job_failed(job) or any(i.kind in _ENDS for i in job.incidents)
    ):
        return
    yield InputNote(
        Kind.NO_METRICS,
        f"no metrics after {fmt.clock(last_us)} UTC, although the input shows the job until "
        f"{fmt.clock(job.last_us)}. If a TaskManager is lost, the JobManager may not refresh "
        "metrics for up to `web.timeout` (10 minutes by default)",
        first_us=last_us,
        last_us=job.last_us,
    )


def _notes_on_gaps(
    topology: Topology, samples: Mapping[SubtaskKey, Sequence[Sample]]
) -> Iterator[InputNote]:
    """Yield a note for each kind of missing metric, and for counters that decrease."""
    if not samples:
        return
    for task in topology.tasks:
        size = topology.parallelism[task]
        missing = [i for i in range(size) if SubtaskKey(task, i) not in samples]
        if missing:
            listed = ", ".join(str(index + 1) for index in missing[:8])
            more = ", …" if len(missing) > 8 else ""
            text = f"no metrics for {len(missing)} of {size} subtasks of {task}: {listed}{more}"
            yield InputNote(Kind.NO_METRICS, text)
    every = list(chain.from_iterable(samples.values()))
    fell = sum(sample.resets > 0 for sample in every)
    if fell:
        text = f"counters of {fell} of {len(every)} series decrease, as after a restart"
        yield InputNote(Kind.COUNTERS_RESET, f"{text}: flowdiag adds up their increases")
    gauges = {name for sample in every for name in sample.gauges}
    if gauges.isdisjoint(("input_queue", "in_pool")):
        yield InputNote(Kind.NO_METRICS, "no metrics for input queues and buffers")
    if "busy" not in gauges:
        text = "no busy times (1.13 and later): buffer usage is used instead"
        yield InputNote(Kind.NO_METRICS, text)
