"""Measures how far a job is behind its sources and whether it catches up, from metrics or a consumer group's lag."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Final, Literal

from flowdiag.analyses.flink.helpers import measurement
from flowdiag.analyses.flink.tasks.placement import SubtaskKey
from flowdiag.analyses.flink.tasks.pressure import Load
from flowdiag.analyses.flink.tasks.stall import LEAST_US
from flowdiag.analyses.model.derived import once
from flowdiag.analyses.model.finding import Evidence, Measurement, cite
from flowdiag.analyses.neighbours.facts import Lag
from flowdiag.analyses.queues.facts import Flow, Gauge, JobQueues, Sample
from flowdiag.analyses.queues.loads import loads_in
from flowdiag.analyses.queues.movement import time_without_records_us
from flowdiag.analyses.queues.proof import evidence_in
from flowdiag.analyses.queues.starts import NEAR_START_US

Direction = Literal["growing", "constant", "shrinking"]

GROWTH: Final = 0.03
"""Minimum growth as a share of the records read. A smaller change is noise."""
UNCOMMITTED: Final = 1.5
"""Maximum ratio of records read to records committed: both rates agree while checkpoints complete."""
EXPLAINED: Final = 0.5
"""Minimum share of the growth of a lag that records explain which the job has read and not committed."""
FEW_POINTS: Final = 3
FEW_SAMPLES: Final = 5
MOST_POINTS: Final = 120
"""Maximum number of points. More would not be visible in a chart."""
ALMOST: Final = 0.1
"""Maximum step in the opposite direction, and maximum distance of the last point from the extreme, as shares of the
total change. Such steps are normal, because commits follow checkpoints.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trend:
    """A lag over time.

    Args:
        first, last: number of records at the first and the last point.
        per_s: change in records per second.
        rate: records read per second; None if unknown.
        duration_s: time from the first to the last point.
        first_us, last_us: times of the first and the last point.
        evidence: lines that show the first and the last point.
        of: the source task, or the consumer group.
        points: times and numbers of records, at most `MOST_POINTS` of them.
        past_rise: the rise to the highest point, if the job has read most of that lag since.
    """

    of: str
    first: float
    last: float
    per_s: float
    rate: float | None
    duration_s: float
    first_us: int
    last_us: int
    steady: bool
    evidence: tuple[Evidence, ...] = ()
    points: tuple[tuple[int, float], ...] = ()
    past_rise: Trend | None = None

    @property
    def direction(self) -> Direction:
        """Whether the lag steadily grows or shrinks by more than noise."""
        noise = GROWTH * (self.rate or 0.0)
        if not self.steady or abs(self.per_s) <= noise:
            return "constant"
        return "growing" if self.per_s > 0 else "shrinking"

    @property
    def behind_s(self) -> float | None:
        """The time to read the waiting records at the current rate, or None if the job reads nothing."""
        return self.last / self.rate if self.rate else None


Point = tuple[int, float]


Cite = Callable[[int, int], tuple[Evidence, ...]]
"""Returns the evidence for the lag at two times."""


def _trend(
    of: str, points: Sequence[Point], rate: float | None, evidence_at: Cite, *, whole: bool = True
) -> Trend | None:
    """Return the trend of a lag from its points in order, or None if there are too few points.

    Args:
        of: see `Trend`.
        points: times and numbers of records.
        rate: see `Trend`.
        evidence_at: returns the evidence for the last and the first point.
        whole: whether to search for a past rise.
    """
    if len(points) < 2 or points[-1][0] <= points[0][0]:
        return None
    duration_s = (points[-1][0] - points[0][0]) / 1e6
    first, last = points[0][1], points[-1][1]
    allowed = ALMOST * abs(last - first)
    sign = 1 if last >= first else -1
    steps = [sign * (b - a) for (_, a), (_, b) in pairwise(points)]
    return Trend(
        of=of,
        first=first,
        last=last,
        per_s=(last - first) / duration_s,
        rate=rate,
        duration_s=duration_s,
        first_us=points[0][0],
        last_us=points[-1][0],
        # Many small steps back add up to a lag that is past its peak.
        steady=all(step >= -allowed for step in steps)
        and max(sign * records for _, records in points) <= sign * last + allowed,
        evidence=evidence_at(points[-1][0], points[0][0]),
        points=_thin_out(points),
        past_rise=_past_rise(of, points, rate, evidence_at) if whole else None,
    )


def _past_rise(
    of: str, points: Sequence[Point], rate: float | None, evidence_at: Cite
) -> Trend | None:
    """Return the rise from the lowest point before the highest one, or None if the lag at the end is still large."""
    records = [number for _, number in points]
    peak = records.index(max(records))
    low = min(range(peak + 1), key=lambda at: (records[at], -at))
    if records[-1] - records[low] > ALMOST * (records[peak] - records[low]):
        return None
    return _trend(of, points[low : peak + 1], rate, evidence_at, whole=False)


def _thin_out(points: Sequence[Point]) -> tuple[Point, ...]:
    """Return at most `MOST_POINTS` points at even distances, including both ends."""
    step = max(1, -(-len(points) // MOST_POINTS))
    return (*points[:-1:step], points[-1])


def pending_of(job: JobQueues, task: str) -> dict[int, dict[SubtaskKey, Gauge]]:
    """Return the number of waiting records of each subtask of a source, by window."""
    found: dict[int, dict[SubtaskKey, Gauge]] = defaultdict(dict)
    for key, each in job.samples.items():
        for sample in each if key.task == task else ():
            if (gauge := sample.gauges.get("pending")) is not None:
                found[sample.window][key] = gauge
    return dict(sorted(found.items()))


def _counting_samples(job: JobQueues, key: SubtaskKey, since_us: int) -> list[Sample]:
    """Return a subtask's samples that begin at or after a time and count emitted records."""
    return [
        sample
        for sample in job.samples.get(key, ())
        if sample.increases.get("records_out") is not None and (sample.first_us or 0) >= since_us
    ]


def read_rate(
    job: JobQueues, keys: Sequence[SubtaskKey], since_us: int | None = None
) -> float | None:
    """Return how many records per second the given source subtasks emit, or None if unknown."""
    records, span = 0.0, 0.0
    for key in keys:
        known = _counting_samples(job, key, since_us or 0)
        times = [(s.first_us, s.last_us) for s in known]
        firsts = [first for first, _ in times if first is not None]
        lasts = [last for _, last in times if last is not None]
        if firsts and lasts and max(lasts) > min(firsts):
            records += sum(s.increases["records_out"] for s in known)
            span = max(span, (max(lasts) - min(firsts)) / 1e6)
    return records / span if span else None


def trend_of(job: JobQueues, task: str, only: SubtaskKey | None = None) -> Trend | None:
    """Return the trend of a source's waiting records, for all subtasks or for a single subtask."""
    windows = pending_of(job, task)
    keys = sorted({key for known in windows.values() for key in known if only in (None, key)})
    complete = {window: known for window, known in windows.items() if set(keys) <= known.keys()}
    if not keys or sum(known[keys[0]].n for known in complete.values()) < FEW_SAMPLES:
        return None
    points = [
        (middle, sum(known[key].mean for key in keys))
        for window, known in complete.items()
        if (middle := _middle_us(job, keys, window)) is not None
    ]
    largest = max(keys, key=lambda key: max(known[key].high for known in complete.values()))
    return _trend(
        task, points, read_rate(job, keys), lambda *times_us: _reports(job, largest, times_us)
    )


def _middle_us(job: JobQueues, keys: Sequence[SubtaskKey], window: int) -> int | None:
    """Return the midpoint of the time that the samples of a window cover."""
    times = [
        (sample.first_us + sample.last_us) // 2
        for key in keys
        for sample in job.samples[key]
        if sample.window == window and sample.first_us is not None and sample.last_us is not None
    ]
    return max(times, default=None)


def _reports(job: JobQueues, key: SubtaskKey, times_us: Sequence[int]) -> tuple[Evidence, ...]:
    """Return the reports of a subtask that are closest to the given times as evidence."""
    closest = (
        min(job.samples[key], key=lambda sample: abs((sample.last_us or 0) - time_us))
        for time_us in times_us
    )
    found = {id(sample): sample for sample in closest}.values()
    return cite((evidence_in(sample, ("pending",), key), sample.last_us) for sample in found)


def lags_of_job(job: JobQueues) -> list[Lag]:
    """Return the positions of the job's consumer group.

    The inputs may describe several groups. If the job's group name is unknown, there must be only one group.
    """
    lags = job.neighbours.lags
    groups = {lag.row.group for lag in lags}
    if len(groups) > 1:
        lags = tuple(lag for lag in lags if lag.row.group and lag.row.group == job.job.name)
    return list(lags)


def partitions_of_job(job: JobQueues) -> dict[str, list[Lag]]:
    """Return the dated positions of each partition, in order."""
    found: dict[str, list[Lag]] = defaultdict(list)
    for lag in lags_of_job(job):
        if lag.row.time_us is not None and lag.row.lag is not None:
            found[lag.row.name].append(lag)
    for each in found.values():
        each.sort(key=lambda lag: lag.row.time_us or 0)
    return dict(found)


def group_trend(job: JobQueues, only: str | None = None) -> Trend | None:
    """Return the trend of a consumer group's lag, for all partitions or for a single partition."""
    partitions = {
        name: each for name, each in partitions_of_job(job).items() if only in (None, name)
    }
    points = _totals(partitions)
    if len(points) < FEW_POINTS:
        return None
    rates = [rate for each in partitions.values() if (rate := _commit_rate(each)) is not None]
    worst = max(partitions.values(), key=lambda each: each[-1].row.lag or 0)
    return _trend(
        f"group {worst[-1].row.group or worst[-1].row.topic}",
        points,
        sum(rates) if rates else None,
        lambda *times_us: cite(
            (lag.ref, lag.row.time_us) for us in times_us for lag in worst if lag.row.time_us == us
        ),
    )


def _totals(partitions: Mapping[str, Sequence[Lag]]) -> list[Point]:
    """Return the sum of the lags at each time when the lags of all partitions are known."""
    by_time: dict[int, dict[str, int]] = defaultdict(dict)
    for name, each in partitions.items():
        for lag in each:
            by_time[lag.row.time_us or 0][name] = lag.row.lag or 0
    return [
        (us, float(sum(known.values())))
        for us, known in sorted(by_time.items())
        if len(known) == len(partitions)
    ]


def _commit_rate_of(job: JobQueues, since_us: int) -> float | None:
    """Return how many records per second all partitions together have advanced since a time, or None if unknown."""
    late = (
        [lag for lag in each if (lag.row.time_us or 0) >= since_us]
        for each in partitions_of_job(job).values()
    )
    rates = [_commit_rate(each) for each in late if each]
    known = [rate for rate in rates if rate is not None]
    return sum(known) if known else None


def _commit_rate(positions: Sequence[Lag]) -> float | None:
    """Return how many records per second the committed offset of a partition advances."""
    first, last = positions[0].row, positions[-1].row
    if first.committed is None or last.committed is None:
        return None
    duration_us = (last.time_us or 0) - (first.time_us or 0)
    return (last.committed - first.committed) / (duration_us / 1e6) if duration_us > 0 else None


FAILED_COMMITS: Final = 3
"""Minimum number of checkpoints without a commit: the first commit of a new group often fails."""


def affected_checkpoints(job: JobQueues) -> set[int | None]:
    """Return the checkpoints whose offsets the source failed to commit, one for each second.

    The commits of a source whose records wait inside it fail together as soon as it polls again.
    """
    found = [i for i in job.job.incidents if i.kind == "commit-failed"]
    by_second = {i.checkpoint if i.time_us is None else i.time_us // 1_000_000: i for i in found}
    return {incident.checkpoint for incident in by_second.values()}


def commits_fail(job: JobQueues) -> bool:
    """Return whether so many commits fail that the lag of the group is overstated."""
    return len(affected_checkpoints(job)) >= FAILED_COMMITS


def commits_fall_behind(job: JobQueues, group: Trend) -> bool:
    """Return whether the job reads much more than its group commits, so that most of the lag is read already.

    Flink commits offsets when a checkpoint completes. Without checkpoints, the lag of the group grows with every
    record. Before a source stops, it also reads records that it does not commit, but the lag grows by many more.
    """
    if group.rate is None or has_back_pressured_sources(job):
        return False
    middle_us = (group.first_us + group.last_us) // 2
    # Compare rates over the same time, because a source that has stopped reading commits nothing either.
    read, committed = _emit_rate_since(job, middle_us), _commit_rate_of(job, middle_us)
    if read is None or committed is None:
        keys = [key for key in job.samples if key.task in job.topology.sources]
        read, committed = read_rate(job, keys), group.rate
    if read is None or read <= UNCOMMITTED * committed:
        return False
    return read - committed >= EXPLAINED * group.per_s


def _emit_rate_since(job: JobQueues, since_us: int) -> float | None:
    """Return how many records per second all sources have emitted since a time, or None if unknown."""
    flows = [
        flow for source in job.topology.sources if (flow := record_counter(job, source)) is not None
    ]
    if not flows or len(flows) < len(job.topology.sources):
        return None
    until_us = max(flow.points[-1].until_us for flow in flows)
    if until_us <= since_us:
        return None
    return sum(flow.increase_since(since_us) for flow in flows) / (until_us - since_us) * 1e6


def record_counter(job: JobQueues, source: str) -> Flow | None:
    """Return the counter of the records that a source emits, preferably with the most points."""
    flows = (flow for flow in job.flows if flow.task == source and flow.name == "numRecordsOut")
    return max((f for f in flows if f.points), key=lambda flow: len(flow.points), default=None)


@once
def job_trend(job: JobQueues) -> Trend | None:
    """Return the trend of the consumer group or, without one, of the source that is furthest behind."""
    found = [trend for task in sorted(job.topology.sources) if (trend := trend_of(job, task))]
    worst = max(found, key=lambda trend: trend.last, default=None)
    group = group_trend(job)
    if group is not None and (commits_fail(job) or commits_fall_behind(job, group)):
        return worst
    # A source that waits for downstream tasks does not poll, so its own number is old and too low. A group that
    # commits nothing seems to fall behind although it may read.
    if group is not None and (worst is None or (group.rate and group.last > worst.last)):
        return group
    return worst


def past_rise(job: JobQueues, behind_s: float) -> Trend | None:
    """Return the largest past rise of a source's lag that made the job late by `behind_s` seconds, or None.

    The job was running all the time: a backlog from before a start, or from a restart, is normal. The lag of a consumer
    group does not count, because it rises between two commits.
    """
    rises = [
        rise
        for task in job.topology.sources
        if (trend := trend_of(job, task)) is not None
        and (rise := trend.past_rise) is not None
        and is_falling_behind(rise, behind_s)
        and len(rise.points) >= FEW_POINTS
        and not any(rise.first_us - NEAR_START_US <= us <= rise.last_us for us in job.starts_us)
    ]
    return max(rises, key=lambda rise: (rise.last, rise.of), default=None)


EMPTY_FETCH_MS: Final = (450.0, 550.0)
"""Duration of a fetch without records: the broker responds after `fetch.max.wait.ms`, 500 ms by default."""


def sees_no_lag(job: JobQueues, source: str, group: Trend) -> bool:
    """Return whether the source itself sees no lag although the lag of its consumer group is large.

    With `isolation.level=read_committed`, Kafka shows no record after the first open transaction of a partition. If
    the broker is slow, the lag that the client knows is out of date, although responses still contain records.
    """
    return group.of not in job.topology.sources and client_sees_none(job, source, group.last)


def client_sees_none(job: JobQueues, source: str, records: float) -> bool:
    """Return whether at the end, Kafka's client of a source sees almost none of these records, and gets no others."""
    windows = pending_of(job, source)
    if not windows:
        return False
    low, high = EMPTY_FETCH_MS
    fetches = [
        [sample.gauges["fetch_ms"].high for sample in each if "fetch_ms" in sample.gauges][-1:]
        for key, each in job.samples.items()
        if key.task == source
    ]
    last = [*chain.from_iterable(fetches)]
    is_empty = bool(last) and all(low <= fetch <= high for fetch in last)
    return is_empty and sum(g.high for g in windows[max(windows)].values()) < GROWTH * records


def is_falling_behind(trend: Trend, behind_s: float) -> bool:
    """Return whether a lag grows and takes at least `behind_s` seconds to read."""
    behind = trend.behind_s
    return trend.direction == "growing" and (behind is None or behind >= behind_s)


def direction_of(trend: Trend, behind_s: float) -> Direction:
    """Return the direction of a lag. A short lag only fluctuates, because commits follow checkpoints."""
    most = max(trend.first, trend.last)
    if trend.rate and most < behind_s * trend.rate:
        return "constant"
    return trend.direction


BLOCKED: Final = 0.9
"""Minimum back-pressured time of a source that hardly polls, so that its own number of waiting records is old."""


def stays_short(trend: Trend, job: JobQueues, behind_s: float) -> bool:
    """Return whether a lag neither grows nor takes `behind_s` seconds or more to read since the middle of the input.

    A backlog at the start does not count. A source that reads nothing, or waits for downstream tasks, does not refresh its
    own number of waiting records.
    """
    stalled_us = time_without_records_us(job, trend.of)
    windows = sorted({sample.window for each in job.samples.values() for sample in each})
    blocked = stalled_us >= LEAST_US or any(
        load.key.task == trend.of and (load.back_pressured or 0.0) >= BLOCKED
        for loads in (loads_in(job), loads_in(job, windows[len(windows) // 2 :]))
        for load in loads.values()
    )
    if blocked or not trend.rate or trend.direction == "growing":
        return False
    late = trend.points[len(trend.points) // 2 :]
    return all(records <= behind_s * trend.rate for _, records in late)


def lag_measurements(
    trend: Trend, behind_s: float, at: str = "at the end"
) -> tuple[Measurement, ...]:
    behind = trend.behind_s
    return (
        measurement("lag", round(trend.last), "records", over=f"of {trend.of}, {at}"),
        measurement("lag-at-start", round(trend.first), "records"),
        measurement("lag-growth", round(trend.per_s, 1), "records/s"),
        measurement("read-rate", None if trend.rate is None else round(trend.rate, 1), "records/s"),
        measurement(
            "delay",
            None if behind is None else round(behind * 1000),
            "ms",
            behind_s * 1000,
            over="time to read the waiting records",
        ),
    )


def active_loads(job: JobQueues, task: str) -> list[Load]:
    """Return the loads of those subtasks of a source that read anything."""
    found = []
    for load in loads_in(job).values():
        read = sum(s.increases.get("records_out", 0.0) for s in job.samples.get(load.key, ()))
        if load.key.task == task and read > 0:
            found.append(load)
    return sorted(found, key=lambda load: load.key)


def silent_subtasks(job: JobQueues, task: str, enough: int = FEW_SAMPLES) -> list[SubtaskKey]:
    """Return the subtasks of a source that neither read records nor have waiting records in any sample."""
    found = []
    for key, each in sorted(job.samples.items()):
        if key.task != task or sum(sample.samples for sample in each) < enough:
            continue
        pending = [sample.gauges["pending"].high for sample in each if "pending" in sample.gauges]
        read = sum(sample.increases.get("records_out", 0.0) for sample in each)
        if read == 0 and not any(pending):
            found.append(key)
    return found


def has_back_pressured_sources(job: JobQueues) -> bool:
    """Return whether a source waits for downstream tasks most of the time."""
    return any(
        load.waits and load.wait_measured and load.key.task in job.topology.sources
        for load in loads_in(job).values()
    )


BUSY: Final = 0.8
"""Minimum busy time of a subtask that cannot keep up with its partition. An idle one waits for the broker."""

Hot = tuple[SubtaskKey, Trend, float]


def hot_subtask(
    job: JobQueues, task: str, share: float, ratio: float, records: float, behind_s: float
) -> Hot | None:
    """Return the subtask with most of a source's lag, with trend and share, or None if no subtask stands out.

    A subtask that waits for downstream tasks reads slowly because of them, and refreshes its lag at other times than
    its siblings.

    Args:
        job: the job.
        task: the source.
        share: minimum share of the lag at the end.
        ratio: minimum lag as a multiple of the siblings' mean.
        records: minimum ratio to the mean number of records that the siblings emit.
        behind_s: minimum number of seconds behind.
    """
    windows = pending_of(job, task)
    waiting = {key: gauge.mean for key, gauge in windows[max(windows)].items()} if windows else {}
    if len(waiting) < 2:
        return None
    emitted = {
        each: sum(s.increases.get("records_out", 0.0) for s in job.samples.get(each, ()))
        for each in waiting
    }
    key = max(waiting, key=lambda key: (waiting[key], emitted[key], key))
    load = loads_in(job).get(key)
    waits = load is not None and load.waits and load.wait_measured
    if waits or emitted[key] < records * _mean_of_others(emitted, key):
        return None
    alone = ratio * _mean_of_others(waiting, key)
    trend = trend_of(job, task, key) if waiting[key] else None
    stands_out = waiting[key] >= max(share * sum(waiting.values()), alone)
    if stands_out and trend is not None and is_falling_behind(trend, behind_s):
        return key, trend, waiting[key] / sum(waiting.values())
    return _hot_by_group(job, key, share, ratio, behind_s)


def _hot_by_group(
    job: JobQueues, key: SubtaskKey, share: float, ratio: float, behind_s: float
) -> Hot | None:
    """Return a subtask if it is busy and the consumer group has a hot partition.

    Such a subtask rarely fetches, so its own numbers are too low. The group knows the partition's lag.
    """
    load = loads_in(job).get(key)
    if load is None or (load.busy or 0.0) < BUSY:
        return None
    name = hot_partition(job, share, ratio)
    trend = None if name is None else group_trend(job, name)
    if name is None or trend is None or not is_falling_behind(trend, behind_s):
        return None
    return key, trend, _share_of_lag(job, name)


def _mean_of_others(values: Mapping[SubtaskKey, float], key: SubtaskKey) -> float:
    return sum(value for other, value in values.items() if other != key) / (len(values) - 1)


def _last_lags(job: JobQueues) -> dict[str, int]:
    """Return the last known lag of each partition of the consumer group."""
    return {name: each[-1].row.lag or 0 for name, each in partitions_of_job(job).items()}


def _share_of_lag(job: JobQueues, partition: str) -> float:
    last = _last_lags(job)
    return last[partition] / sum(last.values())


def hot_partition(job: JobQueues, share: float, ratio: float) -> str | None:
    """Return the partition with most of the consumer group's lag, or None if none stands out."""
    last = _last_lags(job)
    if len(last) < 2:
        return None
    name = max(last, key=lambda name: (last[name], name))
    others = [lag for other, lag in last.items() if other != name]
    stands_out = last[name] >= max(share * sum(last.values()), ratio * sum(others) / len(others), 1)
    return name if stands_out else None


def uneven_sources(job: JobQueues, behind_s: float, busy: float) -> bool:
    """Return whether a hot partition or missing partitions explain the lag of a source."""
    return any(
        hot_subtask(job, task, 0.5, 3, 1.5, behind_s) or lacks_partitions(job, task, busy)
        for task in job.topology.sources
    )


def lacks_partitions(job: JobQueues, task: str, busy: float) -> bool:
    """Return whether some subtasks of a source read nothing while all others are busy."""
    loads = active_loads(job, task)
    if not loads or not silent_subtasks(job, task):
        return False
    return all(not load.measured or (load.busy or 0.0) >= busy for load in loads)
