"""Builds the samples of each subtask and each TaskManager from metrics, window by window."""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from flowdiag.analyses.flink.job import JobFacts
from flowdiag.analyses.flink.tasks.placement import SubtaskKey
from flowdiag.analyses.model.keys import Ref
from flowdiag.analyses.queues.assemble.owners import Places, Row, Tasks
from flowdiag.analyses.queues.facts import Gauge, Sample, TaskManagerSample
from flowdiag.analyses.queues.measure import COUNTERS, GAUGES, MACHINE_GAUGES, OPERATOR_GAUGES

# A job with more starts is in a restart loop.
_MOST_STARTS: Final = 200

_STARTS: Final = frozenset(
    {"started", "restored", "restart", "job-restarting", "job-running", "submitted"}
)

# A deployment counts as a start only if most subtasks are deployed at the same time.
_MORE_THAN_TIME: Final = 1.05  # tolerance: a counter and the clock are not read at the same moment
_TOGETHER_US: Final = 30_000_000

_LATE_POLL_S: Final = 10.0  # a consumer that waits for records polls at least every second
_WATERMARKS: Final = ("watermark",)
_TIMES: Final = ("busy", "idle", "back_pressured")


def ref_of(row: Row) -> Ref | None:
    """Return the position of a row's record, or None."""
    return None if row["source"] is None else Ref(row["source"], row["offset"])


def _gauge(value: Mapping[str, Any] | None, *, of_a_minute: bool = False) -> Gauge | None:
    if value is None or not value["n"]:
        return None
    n, total = value["n"], value["total"]
    if of_a_minute and value.get("latest") is not None:
        # The latest value covers this window. Earlier values also cover time before it.
        total = n * value["latest"]
    return Gauge(n, total, value["low"], value["high"])


def samples_of(
    rows: Sequence[Row], tasks: Tasks, places: Places, *, of_a_minute: bool = False
) -> dict[SubtaskKey, tuple[Sample, ...]]:
    """Return the samples of each subtask, one per window, in order.

    Args:
        rows: one per subtask and window.
        tasks, places: resolve the vertex and the TaskManager of a row.
        of_a_minute: whether Flink reports busy, idle and back-pressured times as means over the last minute.
    """
    found: dict[tuple[SubtaskKey, int], list[Sample]] = defaultdict(list)
    for row in rows:
        task = tasks.of(row)
        if task is None:
            continue
        manager, host = places.of(row)
        gauges = {
            name: gauge
            for name in (*GAUGES, *OPERATOR_GAUGES)
            if (gauge := _gauge(row[name], of_a_minute=of_a_minute and name in _TIMES)) is not None
        }
        sample = Sample(
            window=row["window"],
            taskmanager=manager,
            host=host,
            gauges=_without_null_zeros(gauges),
            increases={name: row[name] for name in COUNTERS if row[name] is not None},
            samples=row["samples"] or 0,
            resets=row["resets"] or 0,
            first_us=row["first_us"],
            last_us=row["last_us"],
            ref=ref_of(row),
        )
        found[(SubtaskKey(task, row["subtask_index"]), sample.window)].append(sample)
    by_key: dict[SubtaskKey, list[Sample]] = defaultdict(list)
    for (key, _), reported in sorted(found.items(), key=lambda item: item[0]):
        by_key[key].append(_merge_reporters(reported))
    pace = _sampling_interval_us(sample for each in by_key.values() for sample in each)
    return {
        key: tuple(_without_old_backlog(_extend_to_last_report(sample, pace)) for sample in each)
        for key, each in by_key.items()
    }


def _without_old_backlog(sample: Sample) -> Sample:
    """Drop the number of waiting records if the consumer has not polled for a while.

    Kafka's consumer counts them when it polls. If its records wait inside the source for a slow task, it stops polling, and
    the metric keeps its last value, often 0.
    """
    polled = sample.gauges.get("last_poll_s")
    if polled is None or polled.low < _LATE_POLL_S:
        return sample
    gauges = {name: gauge for name, gauge in sample.gauges.items() if name != "pending"}
    return replace(sample, gauges=gauges)


def _sampling_interval_us(samples: Iterable[Sample]) -> float:
    """Return the median time between samples, in microseconds, or 0 if no window contains two."""
    steps = [
        (sample.last_us - sample.first_us) / (sample.samples - 1)
        for sample in samples
        if sample.first_us is not None
        and sample.last_us is not None
        and sample.last_us > sample.first_us
        and sample.samples > 1
    ]
    return statistics.median_low(steps) if steps else 0.0


def _extend_to_last_report(sample: Sample, pace: float) -> Sample:
    """Extend a sample to the probable time of its last report, in case a gap in its series hides that report."""
    if sample.first_us is None or sample.samples < 2:
        return sample
    probable_us = sample.first_us + round(pace * (sample.samples - 1))
    return replace(sample, last_us=max(sample.last_us or 0, probable_us))


def _without_null_zeros(gauges: dict[str, Gauge]) -> dict[str, Gauge]:
    """Drop zeros that stand for missing values: busy, idle and back-pressured times of a task must add up to a
    second.
    """
    times = [gauges.get(name) for name in _TIMES]
    if all(time is not None and time.high <= 0 for time in times):
        for name in _TIMES:
            del gauges[name]
    # Legacy sources report NaN as busy time, which Prometheus turns into a zero.
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


def _merge_reporters(reported: Sequence[Sample]) -> Sample:
    """Return the sample of the reporter with the most values, with missing values filled in from the others.

    Of two with equally many, the one that covers more time wins, whatever the order of the inputs.
    """
    ranked = sorted(reported, key=_covered, reverse=True)
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


def _covered(sample: Sample) -> tuple[int, int, int]:
    """Return the number of values in a sample, the time that they cover, and the time of the last one."""
    last_us = sample.last_us or 0
    return sample.samples, last_us - (sample.first_us or last_us), last_us


def taskmanager_sample_of(row: Row) -> TaskManagerSample:
    """Return the sample of a TaskManager in one window, without impossible values."""
    gauges = {name: gauge for name in MACHINE_GAUGES if (gauge := _gauge(row[name])) is not None}
    gc_ms, span_ms = row["gc_ms"], row["span_ms"]
    impossible = []
    # Concurrent collectors may count more time than passes. Such a count does not show pauses, so it is useless.
    if gc_ms is not None and span_ms and gc_ms > _MORE_THAN_TIME * span_ms:
        impossible.append("more time in garbage collection than has passed")
        gc_ms = None
    used, most = gauges.get("heap_used"), gauges.get("heap_max")
    if used is not None and most is not None and 0 < most.mean < used.mean:
        impossible.append("more heap in use than the maximum")
        del gauges["heap_used"]
    return TaskManagerSample(
        window=row["window"],
        taskmanager=row["taskmanager"],
        host=row["host"],
        gauges=gauges,
        gc_ms=gc_ms,
        span_ms=span_ms,
        samples=row["samples"] or 0,
        first_us=row["first_us"],
        last_us=row["last_us"],
        ref=ref_of(row),
        impossible=tuple(impossible),
    )


def starts_of(job: JobFacts, samples: Mapping[SubtaskKey, Sequence[Sample]]) -> tuple[int, ...]:
    """Return when a job started or restarted, according to its log, its attempts and its counters."""
    found = {
        incident.time_us
        for incident in job.incidents
        if incident.kind in _STARTS and incident.time_us is not None
    }
    deployed = [a.deployed_us for a in job.attempts if a.deployed_us is not None]
    if deployed:
        found.add(min(deployed))
    resets = [
        sample.first_us
        for each in samples.values()
        for sample in each
        if sample.resets and sample.first_us is not None
    ]
    found |= _common_times(deployed, len(samples)) | _common_times(resets, len(samples))
    return tuple(sorted(found))[-_MOST_STARTS:]


def _common_times(times_us: Iterable[int], subtasks: int) -> set[int]:
    """Return the times at which at least half of the subtasks report."""
    counts = Counter(us // _TOGETHER_US for us in times_us)
    return {bucket * _TOGETHER_US for bucket, count in counts.items() if count * 2 >= subtasks > 0}
