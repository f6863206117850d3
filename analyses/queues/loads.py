"""The samples and loads of subtasks in given windows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Final

from flowdiag.analyses.flink.job import SubtaskLoad
from flowdiag.analyses.flink.tasks.placement import SubtaskKey
from flowdiag.analyses.flink.tasks.pressure import (
    ENOUGH_SAMPLES,
    FULL,
    QUEUE_TIMES,
    Load,
    by_task,
    is_stalled,
    load_of,
    queue_ratio,
    read_loads,
)
from flowdiag.analyses.flink.tasks.shares import windows_of
from flowdiag.analyses.model.derived import once
from flowdiag.analyses.queues.facts import Gauge, JobQueues, Sample, merge_gauges, time_span
from flowdiag.analyses.queues.movement import job_stall

ENOUGH_TIMES: Final = 2
"""Minimum number of samples. A sample is a mean over seconds, so a single one may be a burst. Two are evidence if
other tasks wait.
"""
FILLED: Final = 0.25
"""Minimum mean share of a queue's capacity in use. A subtask that keeps up empties its input between two samples."""

Loads = dict[SubtaskKey, Load]


@once
def _by_window(job: JobQueues) -> dict[int, dict[SubtaskKey, Sample]]:
    found: dict[int, dict[SubtaskKey, Sample]] = defaultdict(dict)
    for key, each in job.samples.items():
        for sample in each:
            found[sample.window][key] = sample
    return found


def samples_in(job: JobQueues, windows: Iterable[int] | None) -> dict[SubtaskKey, list[Sample]]:
    """Return the samples of each subtask in the given windows; None means all windows."""
    if windows is None:
        return {key: list(each) for key, each in job.samples.items() if each}
    held = _by_window(job)
    found: dict[SubtaskKey, list[Sample]] = {}
    for window in sorted(set(windows)):
        for key, sample in held.get(window, {}).items():
            found.setdefault(key, []).append(sample)
    return found


@once
def has_samples_over_time(job: JobQueues) -> bool:
    """Return whether the input contains samples over time, not only single responses."""
    return any(
        sum(sample.samples for sample in each) >= ENOUGH_TIMES for each in job.samples.values()
    )


@once
def sampled_subtasks(job: JobQueues) -> int:
    """Return the number of subtasks with samples over time. If there are none, single responses count."""
    least = ENOUGH_TIMES if has_samples_over_time(job) else 1
    return sum(sum(sample.samples for sample in each) >= least for each in job.samples.values())


def lacks_samples(job: JobQueues) -> bool:
    """Return whether subtasks are without samples over time, such as those of a TaskManager whose log is missing."""
    return sampled_subtasks(job) < sum(job.topology.parallelism.values())


@once
def most_samples(job: JobQueues) -> int:
    """Return the number of samples of the subtask with the most."""
    return max((sum(s.samples for s in each) for each in job.samples.values()), default=0)


def loads_in(job: JobQueues, windows: Iterable[int] | None = None) -> Loads:
    """Return the loads of all subtasks over the given windows. Without samples over time, return the totals from REST.

    The result is cached for these windows, so callers must not change it.
    """
    cache, key = _load_cache(job), None if windows is None else tuple(windows)
    if key not in cache:
        cache[key] = _loads(job, key)
    return cache[key]


def loads_since_start(job: JobQueues) -> Loads:
    """Return the totals of all subtasks from REST or an archive."""
    return read_loads(job.job, job.topology, job.totals)


@once
def _load_cache(job: JobQueues) -> dict[tuple[int, ...] | None, Loads]:
    return {}


def _loads(job: JobQueues, windows: tuple[int, ...] | None) -> Loads:
    found = {
        key: replace(_load(key, each), buffers_peak=_peak(each))
        for key, each in samples_in(job, windows).items()
    }
    if not has_samples_over_time(job) and job.totals:
        return found | loads_since_start(job)
    if len(job.topology.tasks) == 1:
        # If one chain is the whole job, no task counts records, but its operators do.
        records = 0.0 if job_stall(job) is not None else None
        found = {key: replace(load, records=records) for key, load in found.items()}
    return _with_queues_as_work(job, found)


def _load(key: SubtaskKey, each: Sequence[Sample]) -> Load:
    """Return the load of a subtask over all samples. If the subtask hangs, use only samples after its last record."""
    stalled = [*takewhile(_is_stalled, reversed(each))]
    if len(stalled) < len(each) and sum(sample.samples for sample in stalled) >= ENOUGH_SAMPLES:
        load = load_of(key, load_row(key, stalled[::-1]))
        if is_stalled(load):
            return load
    return load_of(key, load_row(key, each))


def _is_stalled(sample: Sample) -> bool:
    """Return whether a subtask neither receives nor emits records during a sample."""
    return sample.increases.get("records_in") == 0 and not sample.increases.get("records_out")


def _with_queues_as_work(job: JobQueues, loads: Loads) -> Loads:
    """Treat a subtask with a long queue as busy if the Flink version does not measure busy time.

    Buffer usage covers remote channels only. From Flink 1.9 on, the queue length includes data that waits at
    local producers, so it counts only if it is much longer than the siblings' queues.
    """
    grouped = by_task(loads)
    adjusted = {}
    for key, load in loads.items():
        if not load.measured and has_long_queue(job, load, grouped[key.task]):
            load = replace(load, busy=max(load.busy or 0.0, FULL))
        adjusted[key] = load
    return adjusted


def _peak(each: Iterable[Sample]) -> float | None:
    gauge = merge_gauges(sample.gauges.get("in_pool") for sample in each)
    return None if gauge is None else gauge.high


def _mean(gauge: Gauge | None) -> float | None:
    return None if gauge is None else gauge.mean


def load_row(key: SubtaskKey, each: Sequence[Sample]) -> SubtaskLoad:
    """Merge the samples of a subtask into one row: means of gauges, and sums of counters."""
    alone = each[0].gauges if len(each) == 1 else None

    def gauge(name: str) -> Gauge | None:
        if alone is not None:
            return alone.get(name)
        return merge_gauges(sample.gauges.get(name) for sample in each)

    def increase(name: str) -> float | None:
        known = [sample.increases[name] for sample in each if name in sample.increases]
        return sum(known) if known else None

    records, rate = increase("records_in"), gauge("records_in_rate")
    if records is None and rate is not None:
        first_us, last_us = time_span(each)
        if first_us is not None and last_us is not None:
            records = rate.mean * (last_us - first_us) / 1e6
    longest = max(each, key=lambda sample: sample.samples)
    alignment, delay = gauge("alignment_ns"), gauge("start_delay_ns")
    return SubtaskLoad(
        job=None,
        task=key.task,
        subtask_index=key.subtask_index,
        taskmanager=longest.taskmanager,
        host=longest.host,
        samples=sum(sample.samples for sample in each),
        busy=_mean(gauge("busy")),
        idle=_mean(gauge("idle")),
        back_pressured=_mean(gauge("back_pressured")),
        is_back_pressured=_mean(gauge("is_back_pressured")),
        records_in=records,
        records_out=increase("records_out"),
        bytes_in=increase("bytes_in"),
        input_queue=_mean(gauge("input_queue")),
        in_pool_usage=_mean(gauge("in_pool")),
        out_pool_usage=_mean(gauge("out_pool")),
        alignment_ms=None if alignment is None else alignment.mean / 1e6,
        start_delay_ms=None if delay is None else delay.mean / 1e6,
        ref=longest.ref,
    )


def task_windows(job: JobQueues, task: str) -> list[Mapping[SubtaskKey, Load]]:
    """Return the loads of a task's subtasks in each window. If checkpoints failed, they cover only that time."""
    return windows_of(job.job, task) or [
        {key: load for key, load in loads_in(job, [window]).items() if key.task == task}
        for window in job.windows
    ]


def has_task_order(job: JobQueues) -> bool:
    """Return whether the input shows the order of the tasks."""
    return job.topology.known_from not in (None, "metrics")


def has_long_queue(job: JobQueues, load: Load, members: Sequence[Load]) -> bool:
    """Return whether a subtask's queue is much longer than its siblings' queues, and fills much of its capacity."""
    capacity = job.capacity.get(load.key)
    if load.queue is None or capacity is None:
        return False
    if load.queue < FILLED * max(capacity.total - capacity.events, 1):
        return False
    ratio = queue_ratio(load, members)
    return ratio is not None and ratio >= QUEUE_TIMES
