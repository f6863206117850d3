"""What the credit model wants to know of a job, taken from its measured queues and its options."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Final

from flowdiag.analyses.flink.buffers import Settings, Version
from flowdiag.analyses.flink.job import JobFacts, Status, SubtaskLoad
from flowdiag.analyses.flink.judging import milliseconds
from flowdiag.analyses.flink.placement import SubtaskKey
from flowdiag.analyses.queues.credits.job import Debloating, Flow
from flowdiag.analyses.queues.facts import JobQueues, Sample

_SIZE: Final = re.compile(r"(?P<number>\d{1,12}(?:\.\d{1,6})?) ?(?P<unit>[a-z]*)")
_UNITS: Final = {
    "": 1, "b": 1, "bytes": 1,
    "k": 1 << 10, "kb": 1 << 10, "kibibytes": 1 << 10,
    "m": 1 << 20, "mb": 1 << 20, "mebibytes": 1 << 20,
}  # fmt: skip
_MEMORY: Final = "taskmanager.network.memory"
_SEGMENT: Final = "taskmanager.memory.segment-size"
_DEFAULT_SEGMENT: Final = 32768


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedSubtask:
    """One subtask over the time that is looked at; None where nothing told.

    Args:
        records_in, records_out: per second.
        bytes_in: per second.
        busy, back_pressured: milliseconds per second.
        is_back_pressured: share of the samples (1.10+).
        queue: mean `inputQueueLength`.
    """

    subtask_index: int
    taskmanager: str | None = None
    records_in: float | None = None
    records_out: float | None = None
    bytes_in: float | None = None
    busy: float | None = None
    back_pressured: float | None = None
    is_back_pressured: float | None = None
    queue: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedTask:
    """A vertex with all its subtasks, by index."""

    name: str
    subtasks: tuple[ObservedSubtask, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """A job as it ran.

    Args:
        tasks: from the sources on.
        edges: upstream, downstream, Flink's word for how records are shipped.
        flow: the options.
        version: of Flink.
        checkpoint_ms: median duration of completed checkpoints in that time.
        overhead_ms: of a checkpoint without waiting for barriers: until the first subtask begins, and the
            longest that one takes for itself.
        snapshot_ms: synchronous part, by task.
    """

    tasks: tuple[ObservedTask, ...]
    edges: tuple[tuple[str, str, str], ...]
    flow: Flow
    version: tuple[int, int]
    checkpoint_ms: float | None = None
    overhead_ms: float | None = None
    snapshot_ms: Mapping[str, float] = field(default_factory=dict)


def bytes_of(text: str | None, otherwise: int) -> int:
    """A size as Flink writes it.

    >>> bytes_of("4kb", 0), bytes_of("32768", 0), bytes_of("1 mb", 0), bytes_of("much", 7)
    (4096, 32768, 1048576, 7)
    """
    match = _SIZE.fullmatch((text or "").strip().lower())
    if match is None or match["unit"] not in _UNITS:
        return otherwise
    return max(1, int(float(match["number"]) * _UNITS[match["unit"]]))


def flow_of(options: Mapping[str, str], version: Version, segments: int | None = None) -> Flow:
    """The options of the model, with the defaults, limits and removals of each version.

    Args:
        options: by key.
        version: of Flink; before 1.5 there are no credits, and the model is only near.
        segments: of each TaskManager, where known.

    >>> flow_of({}, (2, 3)).overdraft, flow_of({}, (1, 10)).most_per_channel
    (20, None)
    """
    fixed = version >= (2, 0)  # these options are gone
    overdraft = 20 if fixed else 5

    def number(key: str, default: int) -> int:
        text = "" if fixed else options.get(f"{_MEMORY}.{key}", "").strip()
        return int(text) if text.isdecimal() and len(text) < 9 else default

    def on(*keys: str) -> bool:
        return any(options.get(key, "").strip().lower() == "true" for key in keys)

    def length(default: float, *keys: str) -> float:
        for key in keys:
            value = milliseconds(options.get(key))
            if value is not None:
                return value
        return default

    settings = Settings.of(options, version)
    debloating = None
    if version >= (1, 14) and on(f"{_MEMORY}.buffer-debloat.enabled"):
        debloating = debloating_of(version, length(1000.0, f"{_MEMORY}.buffer-debloat.target"))
    flush = length(100.0, "execution.buffer-timeout.interval", "execution.buffer-timeout")
    if options.get("execution.buffer-timeout.enabled", "").strip().lower() == "false":
        flush = -1.0
    aligned = length(
        0.0,
        "execution.checkpointing.aligned-checkpoint-timeout",
        "execution.checkpointing.alignment-timeout",
    )
    unaligned = on("execution.checkpointing.unaligned", "execution.checkpointing.unaligned.enabled")
    return Flow(
        per_channel=settings.per_channel,
        floating=settings.floating,
        most_per_channel=None if version < (1, 11) else number("max-buffers-per-channel", 10),
        overdraft=0 if version < (1, 16) else number("max-overdraft-buffers-per-gate", overdraft),
        segment_bytes=bytes_of(options.get(_SEGMENT), _DEFAULT_SEGMENT),
        flush_ms=flush,
        debloating=debloating,
        unaligned=unaligned and aligned <= 0,
        aligned_timeout_ms=aligned if unaligned and aligned > 0 else None,
        interval_ms=length(0.0, "execution.checkpointing.interval"),
        segments=segments,
    )


def debloating_of(version: Version, target_ms: float) -> Debloating:
    """Debloating as a version does it (catalogue/flink.md 7.1)."""
    if version < (1, 15):
        return Debloating(target_ms=target_ms, period_ms=500.0, threshold=0.5, least_bytes=1024)
    start = 1024 if version >= (2, 0) else None
    return Debloating(target_ms=target_ms, start_bytes=start)


def observe(job: JobQueues, options: Mapping[str, str]) -> Observed | None:
    """What the model needs; None where the graph, or every rate, is unknown.

    Args:
        job: measured.
        options: the job's and the cluster's configuration.
    """
    graph = job.job.graph
    if graph is None or not graph.edges:
        return None
    places = _places(job)
    totals = {SubtaskKey(load.task, load.subtask_index): load for load in job.totals}
    wanted = _settled(job)
    tasks = []
    for vertex in _ordered([v.task for v in graph.vertices], graph.edges):
        count = job.topology.parallelism.get(vertex) or 0
        subtasks = []
        for index in range(count):
            key = SubtaskKey(vertex, index)
            found = _subtask(
                key, job.samples.get(key, ()), wanted, totals.get(key), places.get(key)
            )
            subtasks.append(found)
        if not subtasks:
            return None
        tasks.append(ObservedTask(name=vertex, subtasks=tuple(subtasks)))
    if all(s.records_in is None for task in tasks for s in task.subtasks):
        return None
    patterns = {(up, down): word for up, down, word in graph.shipping}
    segments = [
        gauge.high
        for each in job.machines.values()
        for machine in each
        if (gauge := machine.gauges.get("segments")) is not None and gauge.high > 0
    ]
    version = job.version or (1, 20)
    checkpoint, overhead, snapshots = _checkpoints(job.job, _begin_us(job, wanted))
    return Observed(
        tasks=tuple(tasks),
        edges=tuple((up, down, patterns.get((up, down), "HASH")) for up, down in graph.edges),
        flow=flow_of(options, version, int(min(segments)) if segments else None),
        version=version,
        checkpoint_ms=checkpoint,
        overhead_ms=overhead,
        snapshot_ms=snapshots,
    )


def _ordered(tasks: Sequence[str], edges: Sequence[tuple[str, str]]) -> list[str]:
    found: list[str] = []
    left = list(dict.fromkeys(tasks))
    while left:
        ready = [t for t in left if all(up in found or up not in left for up, d in edges if d == t)]
        found += ready or left
        left = [t for t in left if t not in found]
    return found


def _places(job: JobQueues) -> dict[SubtaskKey, str]:
    found = {
        SubtaskKey(a.task, a.subtask_index): a.taskmanager
        for a in job.job.attempts
        if a.task is not None and a.subtask_index is not None and a.taskmanager
    }
    for key, samples in job.samples.items():
        if samples and samples[-1].taskmanager:
            found[key] = samples[-1].taskmanager
    return found


def _settled(job: JobQueues) -> set[int]:
    """The later half of the windows: in the first ones a job fills its queues."""
    windows = job.windows
    return set(windows[len(windows) // 2 :])


def _begin_us(job: JobQueues, wanted: set[int]) -> int:
    """When the windows that are looked at begin."""
    firsts = (
        sample.first_us
        for each in job.samples.values()
        for sample in each
        if sample.window in wanted and sample.first_us is not None
    )
    return min(firsts, default=0)


def _subtask(
    key: SubtaskKey,
    every: Sequence[Sample],
    wanted: set[int],
    total: SubtaskLoad | None,
    place: str | None,
) -> ObservedSubtask:
    """Medians over the windows."""
    samples = [s for s in every if s.window in wanted]

    def rate(name: str) -> float | None:
        rates = []
        for number, sample in enumerate(every):
            increase = sample.increases.get(name)
            if sample.window in wanted and increase is not None and not sample.resets:
                span_ms = _span_ms(sample, every[number - 1] if number else None)
                if span_ms > 0:
                    rates.append(increase * 1000.0 / span_ms)
        return median(rates) if rates else None

    def mean(name: str) -> float | None:
        means = [gauge.mean for s in samples if (gauge := s.gauges.get(name)) is not None]
        return median(means) if means else None

    busy, waiting = mean("busy"), mean("back_pressured")
    if total is not None:
        busy = total.busy if busy is None else busy
        waiting = total.back_pressured if waiting is None else waiting
    return ObservedSubtask(
        subtask_index=key.subtask_index,
        taskmanager=place,
        records_in=rate("records_in"),
        records_out=rate("records_out"),
        bytes_in=rate("bytes_in"),
        busy=busy,
        back_pressured=waiting,
        is_back_pressured=mean("is_back_pressured"),
        queue=mean("input_queue"),
    )


def _span_ms(sample: Sample, before: Sample | None) -> float:
    """The time in which the counters of a window rose: from the last sample before it on.

    Where there are several samples, one more of their distances: the time of a series' first window is
    that of the first report in it, with or without the series.
    """
    if sample.last_us is None or sample.first_us is None:
        return 0.0
    inside = (sample.last_us - sample.first_us) / 1000.0
    if before is None:
        return inside
    if sample.samples > 1 and inside > 0:
        return inside * sample.samples / (sample.samples - 1)
    return (sample.last_us - before.last_us) / 1000.0 if before.last_us is not None else 0.0


def _checkpoints(
    job: JobFacts, since_us: int
) -> tuple[float | None, float | None, dict[str, float]]:
    """Median duration, median time beside the wait for barriers, synchronous part by task.

    Durations are of the time that the rates are of: earlier ones may have met empty queues.
    """
    durations = [
        float(c.duration_ms)
        for c in job.checkpoints
        if c.status is Status.COMPLETED
        and c.duration_ms is not None
        and not c.is_savepoint
        and c.triggered_us is not None
        and c.triggered_us >= since_us
    ]
    begun: dict[int, list[float]] = {}
    own: dict[int, list[float]] = {}
    syncs: dict[str, list[float]] = {}
    for part in job.subtask_checkpoints:
        if part.task is not None and part.sync_ms is not None and part.sync_ms >= 0:
            syncs.setdefault(part.task, []).append(float(part.sync_ms))
        if not part.acknowledged or part.end_to_end_ms is None:
            continue
        # Up to 1.10 nothing says when the first barrier came: then its wait cannot be told from the rest.
        begin = max(0, part.start_delay_ms or 0)
        waited = begin + max(0, part.alignment_ms or 0)
        begun.setdefault(part.checkpoint, []).append(float(begin))
        if part.start_delay_ms is not None:
            alone = float(max(0, part.end_to_end_ms - waited))
            own.setdefault(part.checkpoint, []).append(alone)
        else:
            own.setdefault(part.checkpoint, []).append(float(part.end_to_end_ms))
    known = all(part.start_delay_ms is not None for part in job.subtask_checkpoints)
    longest = max if known else min
    overheads = [min(begun[number]) + longest(own[number]) for number in begun]
    return (
        median(durations) if durations else None,
        median(overheads) if overheads else None,
        {task: median(values) for task, values in sorted(syncs.items())},
    )
