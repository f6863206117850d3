"""Derives the input of the credit model from the measured queues and the options of a job."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Final

from flowdiag.analyses.flink.job import JobFacts, Status, SubtaskLoad
from flowdiag.analyses.flink.tasks.buffers import Settings, Version
from flowdiag.analyses.flink.tasks.placement import SubtaskKey
from flowdiag.analyses.queues.credits.job import Debloating, Flow
from flowdiag.analyses.queues.facts import JobQueues, Sample
from flowdiag.parsers.units import duration_ms

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
    """One subtask over the observed time. Unknown values are None.

    Args:
        records_in, records_out, bytes_in: rates per second.
        busy, back_pressured: milliseconds per second.
        is_back_pressured: share of the samples in which it is back-pressured (1.10+).
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
class ObservedJob:
    """An observed job.

    Args:
        tasks: the vertices, sources first.
        edges: upstream task, downstream task, and Flink's name for the ship strategy.
        flow: the options of the network.
        version: Flink's version.
        checkpoint_ms: median duration of the checkpoints that completed in the observed time.
        overhead_ms: duration of a checkpoint without the wait for barriers: the time until the first subtask starts,
            plus the longest snapshot of a subtask.
        snapshot_ms: duration of the synchronous part, by task.
    """

    tasks: tuple[ObservedTask, ...]
    edges: tuple[tuple[str, str, str], ...]
    flow: Flow
    version: tuple[int, int]
    checkpoint_ms: float | None = None
    overhead_ms: float | None = None
    snapshot_ms: Mapping[str, float] = field(default_factory=dict)


def bytes_of(text: str | None, otherwise: int) -> int:
    """Convert a size in Flink's notation to bytes.

    >>> bytes_of("4kb", 0), bytes_of("32768", 0), bytes_of("1 mb", 0), bytes_of("much", 7)
    (4096, 32768, 1048576, 7)
    """
    match = _SIZE.fullmatch((text or "").strip().lower())
    if match is None or match["unit"] not in _UNITS:
        return otherwise
    return max(1, int(float(match["number"]) * _UNITS[match["unit"]]))


def flow_of(options: Mapping[str, str], version: Version, segments: int | None = None) -> Flow:
    """Return the options of the model. Each version has its own defaults, limits and removed options.

    Args:
        options: the configuration, by key.
        version: Flink's version. Before 1.5 there are no credits, so the model is an approximation.
        segments: number of network buffers of each TaskManager, if known.

    >>> flow_of({}, (2, 3)).overdraft, flow_of({}, (1, 10)).most_per_channel
    (20, None)
    """
    fixed = version >= (2, 0)  # removed options
    overdraft = 20 if fixed else 5

    def number(key: str, default: int) -> int:
        text = "" if fixed else options.get(f"{_MEMORY}.{key}", "").strip()
        return int(text) if text.isdecimal() and len(text) < 9 else default

    def on(*keys: str) -> bool:
        return any(options.get(key, "").strip().lower() == "true" for key in keys)

    settings = Settings.of(options, version)
    debloating = None
    if version >= (1, 14) and on(f"{_MEMORY}.buffer-debloat.enabled"):
        debloating = debloating_of(
            version, _duration_ms(options, 1000.0, f"{_MEMORY}.buffer-debloat.target")
        )
    flush = _duration_ms(
        options, 100.0, "execution.buffer-timeout.interval", "execution.buffer-timeout"
    )
    if options.get("execution.buffer-timeout.enabled", "").strip().lower() == "false":
        flush = -1.0
    aligned = _duration_ms(
        options,
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
        interval_ms=_duration_ms(options, 0.0, "execution.checkpointing.interval"),
        segments=segments,
    )


def _duration_ms(options: Mapping[str, str], default: float, *keys: str) -> float:
    """Return the first valid duration among the options, or the default."""
    for key in keys:
        value = duration_ms(options.get(key))
        if value is not None:
            return value
    return default


def debloating_of(version: Version, target_ms: float) -> Debloating:
    """Return the parameters of buffer debloating, which depend on the version."""
    if version < (1, 15):
        return Debloating(target_ms=target_ms, period_ms=500.0, threshold=0.5, least_bytes=1024)
    start = 1024 if version >= (2, 0) else None
    return Debloating(target_ms=target_ms, start_bytes=start)


def observe(job: JobQueues, options: Mapping[str, str]) -> ObservedJob | None:
    """Return the observed job, or None if its graph or all rates are unknown.

    Args:
        job: the measured job.
        options: the configuration of the job and the cluster.
    """
    graph = job.job.graph
    if graph is None or not graph.edges:
        return None
    places = _places(job)
    totals = {SubtaskKey(load.task, load.subtask_index): load for load in job.totals}
    # The first half of the windows does not count, because a job may still fill its queues.
    observed_windows = set(job.windows[len(job.windows) // 2 :])
    tasks = []
    for vertex in _in_order([v.task for v in graph.vertices], graph.edges):
        count = job.topology.parallelism.get(vertex) or 0
        subtasks = []
        for index in range(count):
            key = SubtaskKey(vertex, index)
            found = _observe_subtask(
                key, job.samples.get(key, ()), observed_windows, totals.get(key), places.get(key)
            )
            subtasks.append(found)
        if not subtasks:
            return None
        tasks.append(ObservedTask(name=vertex, subtasks=tuple(subtasks)))
    if all(s.records_in is None for task in tasks for s in task.subtasks):
        return None
    patterns = {(up, down): word for up, down, word in graph.shipping}
    version = job.version or (1, 20)
    return ObservedJob(
        tasks=tuple(tasks),
        edges=tuple((up, down, patterns.get((up, down), "HASH")) for up, down in graph.edges),
        flow=flow_of(options, version, _fewest_segments(job)),
        version=version,
        checkpoint_ms=_checkpoint_ms(job.job, _begin_us(job, observed_windows)),
        overhead_ms=_overhead_ms(job.job),
        snapshot_ms=_snapshot_ms(job.job),
    )


def _fewest_segments(job: JobQueues) -> int | None:
    """Return the network buffers of the TaskManager with the fewest."""
    segments = [
        gauge.high
        for each in job.taskmanagers.values()
        for machine in each
        if (gauge := machine.gauges.get("segments")) is not None and gauge.high > 0
    ]
    return int(min(segments)) if segments else None


def _in_order(tasks: Sequence[str], edges: Sequence[tuple[str, str]]) -> list[str]:
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


def _begin_us(job: JobQueues, observed_windows: set[int]) -> int:
    """Return the start of the observed windows."""
    firsts = (
        sample.first_us
        for each in job.samples.values()
        for sample in each
        if sample.window in observed_windows and sample.first_us is not None
    )
    return min(firsts, default=0)


def _observe_subtask(
    key: SubtaskKey,
    every: Sequence[Sample],
    observed_windows: set[int],
    total: SubtaskLoad | None,
    place: str | None,
) -> ObservedSubtask:
    """Return the medians over the observed windows."""
    samples = [s for s in every if s.window in observed_windows]

    def rate(name: str) -> float | None:
        rates = []
        for number, sample in enumerate(every):
            increase = sample.increases.get(name)
            if sample.window in observed_windows and increase is not None and not sample.resets:
                span_ms = _span_ms(sample, every[number - 1] if number else None)
                if span_ms > 0:
                    rates.append(increase * 1000.0 / span_ms)
        return _median(rates)

    def mean(name: str) -> float | None:
        means = [gauge.mean for s in samples if (gauge := s.gauges.get(name)) is not None]
        return _median(means)

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
    """Return the time span over which the counters of a window increase, from the last sample before it.

    If the window has several samples, this is their span plus one sampling interval. The first window of a series
    starts with the first report, which may not contain the series.
    """
    if sample.last_us is None or sample.first_us is None:
        return 0.0
    inside = (sample.last_us - sample.first_us) / 1000.0
    if before is None:
        return inside
    if sample.samples > 1 and inside > 0:
        return inside * sample.samples / (sample.samples - 1)
    return (sample.last_us - before.last_us) / 1000.0 if before.last_us is not None else 0.0


def _median(values: Sequence[float]) -> float | None:
    return median(values) if values else None


def _checkpoint_ms(job: JobFacts, since_us: int) -> float | None:
    """Return the median duration of completed checkpoints.

    Only checkpoints in the observed time count, because queues may have been empty earlier.
    """
    return _median(
        [
            float(c.duration_ms)
            for c in job.checkpoints
            if c.status is Status.COMPLETED and not c.is_savepoint and c.duration_ms is not None
            if c.triggered_us is not None and c.triggered_us >= since_us
        ]
    )


def _overhead_ms(job: JobFacts) -> float | None:
    """Return the median checkpoint duration, excluding the wait for barriers."""
    delays: dict[int, list[float]] = {}
    own: dict[int, list[float]] = {}
    for part in job.subtask_checkpoints:
        if not part.acknowledged or part.end_to_end_ms is None:
            continue
        delay = max(0, part.start_delay_ms or 0)
        delays.setdefault(part.checkpoint, []).append(float(delay))
        own_ms = part.end_to_end_ms
        # Up to 1.10, the arrival of the first barrier is unknown, so the wait cannot be subtracted.
        if part.start_delay_ms is not None:
            own_ms = max(0, own_ms - delay - max(0, part.alignment_ms or 0))
        own.setdefault(part.checkpoint, []).append(float(own_ms))
    known = all(part.start_delay_ms is not None for part in job.subtask_checkpoints)
    longest = max if known else min
    return _median([min(delays[number]) + longest(own[number]) for number in delays])


def _snapshot_ms(job: JobFacts) -> dict[str, float]:
    """Return the median duration of the synchronous part of a snapshot, by task."""
    found: dict[str, list[float]] = {}
    for part in job.subtask_checkpoints:
        if part.task is not None and part.sync_ms is not None and part.sync_ms >= 0:
            found.setdefault(part.task, []).append(float(part.sync_ms))
    return {task: median(values) for task, values in sorted(found.items())}
