"""From measured rows to the queues of each job; no Spark here."""

from __future__ import annotations

import re
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from flowdiag.analyses.flink.buffers import POINTWISE, feeders
from flowdiag.analyses.flink.job import ClusterFacts, Graph, JobFacts, Vertex
from flowdiag.analyses.flink.options import Version, version_of
from flowdiag.analyses.flink.placement import SubtaskKey
from flowdiag.analyses.flink.topology import Topology
from flowdiag.analyses.keys import JobKey, Ref
from flowdiag.analyses.queues.capacity import Capacity, GateShape, input_capacity
from flowdiag.analyses.queues.facts import (
    GateQueue,
    Gauge,
    JobQueues,
    Machine,
    QueueFacts,
    Sample,
    joined,
    options_of,
)
from flowdiag.analyses.queues.measure import (
    COUNTERS,
    GAUGES,
    MACHINE_GAUGES,
    OPERATOR_GAUGES,
)

Row = Mapping[str, Any]

# A job that (re)starts more often than this is in a loop; its starts are no news.
_MOST_STARTS: Final = 200
_STARTS: Final = frozenset(
    {"started", "restored", "restart", "job-restarting", "job-running", "submitted"}
)
# When a subtask was deployed is a start only where most others were deployed then too.
_TOGETHER_US: Final = 30_000_000
_WATERMARKS: Final = ("watermark",)


def assemble_queues(rows: Sequence[Row], common: ClusterFacts, *, window_us: int) -> QueueFacts:
    """Facts from rows.

    Args:
        rows: of `measure.queue_frame`.
        common: what `analyses.assemble` made of the rest.
        window_us: length of a window.
    """
    by_what: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        by_what[row["what"]].append(row)
    owners = _Owners(common.jobs)
    windows: dict[JobKey, list[Row]] = defaultdict(list)
    for row in by_what["window"]:
        windows[owners.of(row)].append(row)
    gate_rows: dict[JobKey, list[Row]] = defaultdict(list)
    for row in by_what["gate"]:
        gate_rows[owners.of(row)].append(row)
    machines: dict[str, list[Machine]] = defaultdict(list)
    for machine in sorted(map(_machine, by_what["machine"]), key=lambda m: m.window):
        machines[machine.taskmanager].append(machine)
    told: Row = by_what["names"][0] if by_what["names"] else {}
    known = {job.key: job for job in common.jobs}
    for key, found in windows.items():
        if key not in known:
            known[key] = owners.unknown_job(key, found)
    return QueueFacts(
        common=common,
        jobs=tuple(
            _job(job, windows[key], gate_rows[key], machines, told, common, window_us)
            for key, job in known.items()
        ),
    )


class _Owners:
    """To which job a row of metrics belongs."""

    def __init__(self, jobs: Sequence[JobFacts]) -> None:
        self._ids = {job.key.job_id: job.key for job in jobs if job.key.job_id}
        self._jobs = jobs
        self._by_name: dict[str, list[JobFacts]] = defaultdict(list)
        for job in jobs:
            if job.name:
                for name in {job.name, _mangled(job.name)}:
                    self._by_name[name].append(job)

    def of(self, row: Row) -> JobKey:
        """By its id, else by its name and time, else the only job; else a job of that name."""
        if row["job_id"]:
            return self._ids.get(row["job_id"], JobKey("", row["job_id"]))
        name = row["job_name"] or ""
        found = self._by_name.get(name) or self._by_name.get(_mangled(name)) or []
        if len(found) > 1 and row.get("first_us") is not None:
            found = [
                job
                for job in found
                if (job.first_us or 0) <= row["last_us"]
                and row["first_us"] <= (job.last_us or 1 << 62)
            ] or found
        if found:
            # The later of two runs under one name, where their times do not tell.
            return found[-1].key
        if len(self._jobs) == 1:
            return self._jobs[0].key
        return JobKey(name, "")

    def unknown_job(self, key: JobKey, rows: Sequence[Row]) -> JobFacts:
        """A job that only its metrics tell of."""
        named = next((row["job_name"] for row in rows if row["job_name"]), None)
        return JobFacts(key=key, name=named, version=None)


def _mangled(name: str) -> str:
    """A name as the Prometheus reporter prints it."""
    return re.sub(r"[^A-Za-z0-9]", "_", name)


def _job(
    job: JobFacts,
    rows: Sequence[Row],
    gate_rows: Sequence[Row],
    machines: Mapping[str, Sequence[Machine]],
    told: Row,
    common: ClusterFacts,
    window_us: int,
) -> JobQueues:
    job = _with_graph(job, rows)
    topology = Topology(job)
    tasks = _Tasks(job, topology)
    samples = _samples(rows, tasks, _Places(job))
    version, version_from = _version(job, common, told)
    if version_of(job.version) is None:
        job = replace(job, version=_said(job, common, told))
    mine = {sample.taskmanager for each in samples.values() for sample in each}
    return JobQueues(
        job=job,
        topology=topology,
        samples=samples,
        machines={name: tuple(machines[name]) for name in sorted(machines.keys() & mine)},
        capacity=_capacities(job, topology, samples, version),
        gates=tuple(
            sorted(
                (
                    GateQueue(
                        key=SubtaskKey(task, row["subtask_index"]),
                        gate=row["gate"],
                        samples=row["samples"],
                        total=row["total_length"],
                        shortest=row["min_length"],
                        longest=row["max_length"],
                        mean=row["avg_length"],
                        ref=_ref(row),
                    )
                    for row in gate_rows
                    if (task := tasks.of(row)) is not None
                ),
                key=lambda gate: (gate.key, gate.gate),
            )
        ),
        window_us=window_us,
        starts_us=_starts(job, samples),
        version=version,
        version_from=version_from,
        gaps=_gaps(topology, samples, common),
    )


def _ref(row: Row) -> Ref | None:
    return None if row["source"] is None else Ref(row["source"], row["offset"])


def _with_graph(job: JobFacts, rows: Sequence[Row]) -> JobFacts:
    """Vertices from the metrics where nothing else knows them: no order, no edges."""
    if job.graph is not None or job.attempts:
        return job
    sizes: dict[str, int] = {}
    for row in rows:
        task = row["task"] or row["vertex_id"]
        if task and row["subtask_index"] is not None:
            sizes[task] = max(sizes.get(task, 0), row["subtask_index"] + 1)
    if not sizes:
        return job
    ranked = sorted(sizes, key=lambda task: (not is_source(task), task))
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


def is_source(task: str) -> bool:
    """Whether a task reads from outside, by its name, also as reporters mangle it.

    >>> is_source("Source: orders"), is_source("Source:_orders____Map"), is_source("enrich")
    (True, True, False)
    """
    return task.startswith("Source:")


class _Tasks:
    """The vertex that a row of metrics is about, as the graph calls it."""

    def __init__(self, job: JobFacts, topology: Topology) -> None:
        self._topology = topology
        vertices = job.graph.vertices if job.graph is not None else ()
        self._ids = {vertex.vertex_id: vertex.task for vertex in vertices if vertex.vertex_id}
        for attempt in job.attempts:
            if attempt.vertex_id and attempt.task:
                self._ids.setdefault(attempt.vertex_id, attempt.task)

    def of(self, row: Row) -> str | None:
        known = self._ids.get(row["vertex_id"])
        return known or self._topology.canonical(row["task"] or row["vertex_id"])


class _Places:
    """TaskManagers and hosts as the rest of the input calls them."""

    def __init__(self, job: JobFacts) -> None:
        self._names = {
            _mangled(name): name
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
        manager, host = (
            self._names.get(_mangled(row[name] or ""), row[name])
            for name in ("taskmanager", "host")
        )
        return manager, self._hosts.get(manager or "", host)


def _gauge(value: Mapping[str, Any] | None) -> Gauge | None:
    if value is None or not value["n"]:
        return None
    return Gauge(value["n"], value["total"], value["low"], value["high"])


def _samples(
    rows: Sequence[Row], tasks: _Tasks, places: _Places
) -> dict[SubtaskKey, tuple[Sample, ...]]:
    found: dict[tuple[SubtaskKey, int], list[Sample]] = defaultdict(list)
    for row in rows:
        task = tasks.of(row)
        if task is None:
            continue
        manager, host = places.of(row)
        gauges = {
            name: gauge
            for name in (*GAUGES, *OPERATOR_GAUGES)
            if (gauge := _gauge(row[name])) is not None
        }
        sample = Sample(
            window=row["window"],
            taskmanager=manager,
            host=host,
            gauges=_believed(gauges),
            increases={name: row[name] for name in COUNTERS if row[name] is not None},
            samples=row["samples"] or 0,
            resets=row["resets"] or 0,
            first_us=row["first_us"],
            last_us=row["last_us"],
            ref=_ref(row),
        )
        found[(SubtaskKey(task, row["subtask_index"]), sample.window)].append(sample)
    by_key: dict[SubtaskKey, list[Sample]] = defaultdict(list)
    for (key, _), told in sorted(found.items(), key=lambda item: item[0]):
        by_key[key].append(_one(told))
    pace = _pace(sample for each in by_key.values() for sample in each)
    return {key: tuple(_ended(sample, pace) for sample in each) for key, each in by_key.items()}


def _pace(samples: Iterable[Sample]) -> float:
    """The usual microseconds from one sample to the next; 0 where no window holds two."""
    steps = [
        (sample.last_us - sample.first_us) / (sample.samples - 1)
        for sample in samples
        if sample.first_us is not None
        and sample.last_us is not None
        and sample.last_us > sample.first_us
        and sample.samples > 1
    ]
    return statistics.median_low(steps) if steps else 0.0


def _ended(sample: Sample, pace: float) -> Sample:
    """With the time of its last sample, which a series that missed a report does not say."""
    if sample.first_us is None or sample.samples < 2:
        return sample
    likely = sample.first_us + round(pace * (sample.samples - 1))
    return replace(sample, last_us=max(sample.last_us or 0, likely))


def _believed(gauges: dict[str, Gauge]) -> dict[str, Gauge]:
    """Without zeros that stand for null: the times of a task add up to a second (5.3, 5.4)."""
    times = [gauges.get(name) for name in ("busy", "idle", "back_pressured")]
    if all(time is not None and time.high <= 0 for time in times):
        for name in ("busy", "idle", "back_pressured"):
            del gauges[name]
    # Sources of the old kind report no busy time (NaN), and Prometheus makes that a zero.
    elif (
        times[0] is not None
        and times[0].high <= 0
        and times[1] is not None
        and times[1].high <= 0
        and times[2] is not None
        and times[2].mean < 900
    ):
        del gauges["busy"]
    for name in _WATERMARKS:
        if name in gauges and gauges[name].low <= 0:
            del gauges[name]
    return gauges


def _one(told: Sequence[Sample]) -> Sample:
    """Of several tellers the one with most samples, completed from the others."""
    ranked = sorted(told, key=lambda sample: -sample.samples)
    best = ranked[0]
    if len(ranked) == 1:
        return best
    gauges: dict[str, Gauge] = {}
    increases: dict[str, float] = {}
    for sample in reversed(ranked):
        gauges.update(sample.gauges)
        increases.update(sample.increases)
    return replace(
        best,
        taskmanager=next((s.taskmanager for s in ranked if s.taskmanager), None),
        host=next((s.host for s in ranked if s.host), None),
        gauges=gauges,
        increases=increases,
        resets=max(s.resets for s in ranked),
    )


def _machine(row: Row) -> Machine:
    gauges = {name: gauge for name in MACHINE_GAUGES if (gauge := _gauge(row[name])) is not None}
    return Machine(
        window=row["window"],
        taskmanager=row["taskmanager"],
        host=row["host"],
        gauges=gauges,
        gc_ms=row["gc_ms"],
        span_ms=row["span_ms"],
        samples=row["samples"] or 0,
        first_us=row["first_us"],
        last_us=row["last_us"],
        ref=_ref(row),
    )


def _version(job: JobFacts, common: ClusterFacts, told: Row) -> tuple[Version | None, str | None]:
    """As the input says, else what the metrics' names tell: the oldest that has them all."""
    said = _said(job, common, told)
    if said is not None:
        return version_of(said), "said"
    names, reported = set(told.get("names") or ()), set(told.get("reported") or ())
    new, old = "Shuffle.Netty.Input.Buffers.inPoolUsage", "buffers.inPoolUsage"
    if new in reported and old not in reported:
        return (2, 0), "metrics"
    for name, version in (
        ("busyTimeMsPerSecond", (1, 13)),
        ("idleTimeMsPerSecond", (1, 11)),
        ("isBackPressured", (1, 10)),
        (new, (1, 9)),
    ):
        if name in names:
            return version, "metrics"
    return None, None


def _said(job: JobFacts, common: ClusterFacts, told: Row) -> str | None:
    """The version that a log or an answer prints."""
    known = (job.version, *(process.version for process in common.processes), told.get("version"))
    return next((text for text in known if version_of(text) is not None), None)


def _capacities(
    job: JobFacts,
    topology: Topology,
    samples: Mapping[SubtaskKey, Sequence[Sample]],
    version: Version | None,
) -> dict[SubtaskKey, Capacity]:
    """Where the edges are known, and of remote and local channels where both ends are placed."""
    if job.graph is None or not job.graph.edges or version is None:
        return {}
    patterns = {(up, down): pattern for up, down, pattern in job.graph.shipping}
    place = {key: each[-1].taskmanager for key, each in samples.items()}
    for attempt in job.attempts:
        if attempt.task and attempt.subtask_index is not None:
            place.setdefault(SubtaskKey(attempt.task, attempt.subtask_index), attempt.taskmanager)
    for load in job.loads:
        place.setdefault(SubtaskKey(load.task, load.subtask_index), load.taskmanager)
    options = options_of(job)
    here: Counter[tuple[str, str | None]] = Counter(
        (key.task, manager) for key, manager in place.items() if manager is not None
    )
    known = {}
    for key in samples:
        shapes = []
        for before in topology.upstream.get(key.task, ()):
            up, down = topology.parallelism[before], topology.parallelism[key.task]
            if not up or key.subtask_index >= down:
                break
            # Without a plan's word an edge connects all with all, unless the sizes speak of forward.
            pattern = patterns.get((before, key.task), "HASH")
            fed = feeders(pattern, up, down, key.subtask_index)
            if len(fed) == up:
                remote = up - min(up, here[(before, place[key])])
            else:
                remote = sum(
                    place.get(SubtaskKey(before, index)) is None
                    or place.get(SubtaskKey(before, index)) != place[key]
                    for index in fed
                )
            shapes.append(
                GateShape(
                    channels=len(fed),
                    remote=remote,
                    subpartitions=max(1, down // up) if pattern in POINTWISE else down,
                )
            )
        else:
            if shapes:
                known[key] = input_capacity(shapes, options, version)
    return known


def _starts(job: JobFacts, samples: Mapping[SubtaskKey, Sequence[Sample]]) -> tuple[int, ...]:
    """When the job began to run, or began again: by its log, its attempts, its counters."""
    found = {
        incident.time_us
        for incident in job.incidents
        if incident.kind in _STARTS and incident.time_us is not None
    }
    deployed = [a.deployed_us for a in job.attempts if a.deployed_us is not None]
    if deployed:
        found.add(min(deployed))
        found.update(
            bucket * _TOGETHER_US
            for bucket, count in Counter(us // _TOGETHER_US for us in deployed).items()
            if count * 2 >= len(samples) > 0
        )
    fallen: Counter[int] = Counter()
    for each in samples.values():
        for sample in each:
            if sample.resets and sample.first_us is not None:
                fallen[sample.first_us // _TOGETHER_US] += 1
    found.update(
        bucket * _TOGETHER_US for bucket, count in fallen.items() if count * 2 >= len(samples)
    )
    return tuple(sorted(found))[-_MOST_STARTS:]


def _gaps(
    topology: Topology,
    samples: Mapping[SubtaskKey, Sequence[Sample]],
    common: ClusterFacts,
) -> tuple[str, ...]:
    """What the metrics leave out, in sentences."""
    if not samples:
        return ()
    found = []
    for task in topology.tasks:
        size = topology.parallelism[task]
        mine = {key.subtask_index for key in samples if key.task == task}
        if len(mine) < size:
            missing = sorted(set(range(size)) - mine)
            listed = ", ".join(str(index + 1) for index in missing[:8])
            more = ", …" if len(missing) > 8 else ""
            found.append(
                f"no metrics of {len(missing)} of {size} subtasks of {task}: {listed}{more}"
            )
    resets = sum(sample.resets > 0 for each in samples.values() for sample in each)
    if resets:
        found.append(
            f"counters of {resets} series fell back to zero: a restart; their increases are added up"
        )
    queues = joined(s.gauges.get("input_queue") for each in samples.values() for s in each)
    pools = joined(s.gauges.get("in_pool") for each in samples.values() for s in each)
    times = joined(s.gauges.get("busy") for each in samples.values() for s in each)
    if queues is None and pools is None:
        found.append("no metrics of input queues and buffers")
    if times is None:
        found.append("no busy times (they begin with 1.13): buffer usage stands in for them")
    return tuple(found)
