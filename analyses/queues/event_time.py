"""Finds the watermarks of a job that do not advance, and the source, subtask or split that holds them back.

The watermark of a task is the minimum over its input channels. So the walk from a task upstream, along the subtasks
whose output has the same watermark, ends at the subtask that holds the watermark back.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Final, NamedTuple

from flowdiag.analyses.flink.tasks.placement import SubtaskKey
from flowdiag.analyses.model.derived import once
from flowdiag.analyses.queues.facts import Flow, JobQueues, Mark, MarkPoint
from flowdiag.analyses.queues.movement import Silence

END_OF_INPUT: Final = 9.2e18
"""Larger watermarks mark the end of the input."""
_COMMITTER: Final = re.compile("(?i)commit")
"""Operators of a sink that receive no records of their own."""
_SINK: Final = re.compile("(?i)^sink|writer|commit")
"""Operators at the end of a chain, which emit nothing."""
_PROCESSING_TIME: Final = re.compile(r"ProcessingTime|(?i:proc_?time)|GlobalWindows")
_SQL_WINDOW: Final = re.compile(
    r"(?:Local|Global|Group)?Window(?:Aggregate|Rank|Deduplicate|Join|TableFunction)"
)
_SPLIT: Final = "split."
_OF_WATERMARK: Final = ".watermark."


class ConstantWatermark(NamedTuple):
    """The period at the end of the metrics in which a watermark does not advance.

    Args:
        value: the watermark in milliseconds; None if the subtask never had one.
        since_us, until_us: start and end of the period.
        point: the last sample, as evidence.
    """

    value: float | None
    since_us: int
    until_us: int
    point: MarkPoint

    @property
    def duration_ms(self) -> float:
        return (self.until_us - self.since_us) / 1000

    def explains(self, other: ConstantWatermark) -> bool:
        """Return whether this upstream watermark explains the downstream watermark `other`."""
        if self.value is None or other.value is None:
            return self.value is None
        return self.value <= other.value + 1


def constant_period(mark: Mark | None) -> ConstantWatermark | None:
    """Return the period in which a watermark is constant, or None if it advances, has ended, or has a single sample."""
    if mark is None or not mark.points:
        return None
    end = mark.points[-1]
    value = None if end.n == 0 else end.last
    if value is not None and value >= END_OF_INPUT:
        return None
    since_us, buckets = end.time_us, 0
    for point in reversed(mark.points):
        if not (point.n == 0 if value is None else point.low == point.high == value):
            break
        since_us, buckets = point.time_us, buckets + 1
    if buckets == 0 or (buckets == 1 and (end.n < 2 or end.until_us <= since_us)):
        return None
    reached_us = _reached_us(value, mark.points[: len(mark.points) - buckets])
    return ConstantWatermark(value, int(min(since_us, reached_us)), end.until_us, end)


REAL_TIME_US: Final = 60_000_000
"""Maximum delay of a watermark behind the clock in a job that does not replay old records."""


def _reached_us(value: float | None, points: Sequence[MarkPoint]) -> float:
    """Return when a watermark reached a value in the last of these buckets, or infinity if it did not.

    Watermarks follow the clock at a constant distance, which the bucket before shows. Without it, only the last sample
    is certain.
    """
    if value is None or not points or points[-1].last != value:
        return inf
    last = points[-1]
    if len(points) < 2 or points[-2].last is None:
        return last.until_us
    delay_us = points[-2].until_us - points[-2].last * 1000
    if not 0 <= delay_us <= REAL_TIME_US:
        return last.until_us
    return min(max(round(value * 1000 + delay_us), last.time_us), last.until_us)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Holder:
    """The subtasks of one task that hold a watermark back.

    Args:
        task, keys: the task and these subtasks.
        held: the watermark of the first subtask.
        whole: whether `keys` contains all subtasks of the task.
        reading: the subtasks that emit records nevertheless.
        splits: the splits that hold the watermark back, by subtask, if metrics name splits (Flink 2.1 and later).
        unassigned: the subtasks without a split, if other subtasks of the task have one.
        others: number of splits of these subtasks whose watermark advances.
    """

    task: str
    keys: tuple[SubtaskKey, ...]
    held: ConstantWatermark
    whole: bool
    reading: tuple[SubtaskKey, ...]
    splits: Mapping[SubtaskKey, tuple[str, ...]]
    unassigned: tuple[SubtaskKey, ...]
    others: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EventTime:
    """The event-time metrics of a job, by owner."""

    inputs: Mapping[SubtaskKey, Mark]
    outputs: Mapping[SubtaskKey, tuple[Mark, ...]]
    splits: Mapping[SubtaskKey, Mapping[str, Mark]]
    idle: Mapping[tuple[SubtaskKey, str], float]
    gauges: Mapping[tuple[SubtaskKey, str], Mark]
    flows: Mapping[tuple[str, str | None, str], Flow]
    untimed: frozenset[str]
    """Tasks with processing-time windows."""

    @property
    def operators(self) -> tuple[tuple[str, str], ...]:
        """Tasks and operators that drop late records, and so need event time."""
        return tuple(
            (task, operator)
            for task, operator, name in self.flows
            if name == "numLateRecordsDropped" and operator is not None and task not in self.untimed
        )

    def output_of(self, key: SubtaskKey) -> Mark | None:
        """Return the output watermark of a subtask: the highest among its operators."""
        return max(
            self.outputs.get(key, ()), key=lambda mark: mark.latest or float("-inf"), default=None
        )

    def named_marks(self, key: SubtaskKey) -> Iterator[tuple[str | None, Mark]]:
        """Yield the output watermark of a subtask, or else its input watermark, and those of its splits with their names."""
        output = self.output_of(key) or self.inputs.get(key)
        if output is not None:
            yield None, output
        yield from self.splits.get(key, {}).items()

    def flow(self, task: str, operator: str, name: str) -> Flow | None:
        """Return a counter of an operator or of its task: a task and its only operator may share counters."""
        return self.flows.get((task, operator, name)) or self.flows.get((task, None, name))

    def received(self, task: str, operator: str, since_us: int = 0) -> float:
        """Return how many records an operator has received since a time."""
        flow = self.flow(task, operator, "numRecordsIn")
        return 0.0 if flow is None else flow.increase_since(since_us)

    @property
    def declares_idle(self) -> bool | None:
        """Whether any split is declared idle at the end, or None if no metric shows it."""
        return any(self.idle.values()) if self.idle else None


@once
def event_time(job: JobQueues) -> EventTime:
    """Return the event-time metrics of a job."""
    inputs: dict[SubtaskKey, Mark] = {}
    outputs: dict[SubtaskKey, list[Mark]] = defaultdict(list)
    splits: dict[SubtaskKey, dict[str, Mark]] = defaultdict(dict)
    idle: dict[tuple[SubtaskKey, str], float] = {}
    gauges: dict[tuple[SubtaskKey, str], Mark] = {}
    for mark in job.marks:
        split, _, name = mark.name.removeprefix(_SPLIT).rpartition(_OF_WATERMARK)
        if split and name == "currentWatermark":
            splits[mark.key][split] = mark
        elif split:
            if name == "idleTimeMsPerSecond" and mark.latest is not None:
                idle[mark.key, split] = mark.latest
        elif mark.name == "currentOutputWatermark":
            outputs[mark.key].append(mark)
        elif mark.name == "currentInputWatermark":
            inputs[mark.key] = mark
        else:
            gauges[mark.key, mark.name] = mark
    return EventTime(
        inputs=inputs,
        outputs={key: tuple(each) for key, each in outputs.items()},
        splits=splits,
        idle=idle,
        gauges=gauges,
        flows={(flow.task, flow.operator, flow.name): flow for flow in job.flows},
        untimed=frozenset(
            task for task in job.topology.tasks if needs_event_time(job, task) is False
        ),
    )


def needs_event_time(job: JobQueues, task: str) -> bool | None:
    """Return whether the windows of a task use event time, according to Flink's description, or None if unknown.

    Processing-time windows also register `numLateRecordsDropped`. The description of a task with a custom name may not
    mention its windows.
    """
    vertices = job.job.graph.vertices if job.job.graph is not None else ()
    text = next((v.description for v in vertices if v.task == task and v.description), None)
    if text is None or "window" not in text.lower():
        text = task if _SQL_WINDOW.search(task) is not None else None
    if text is None:
        return None
    return "EventTime" in text or _PROCESSING_TIME.search(text) is None


class StuckOperator(NamedTuple):
    """Subtasks of a task that receive records while their watermark does not advance.

    Args:
        task, operator: the task, and its operator that needs event time if the metrics name it.
        keys: the subtasks.
        held: the watermark of the first subtask, from when it is stuck for all of them.
        records, emitted: number of records that the operator receives and emits in that time.
        certain: whether it certainly needs event time, because the plan describes its windows or a source has a
            watermark.
    """

    task: str
    operator: str | None
    keys: tuple[SubtaskKey, ...]
    held: ConstantWatermark
    records: float
    emitted: float
    certain: bool


def stuck_operators(job: JobQueues) -> Iterator[StuckOperator]:
    """Yield the operators that need event time but receive records while their watermark does not advance, sources
    first.
    """
    times = event_time(job)
    for task, operator in sorted(times.operators, key=lambda each: job.topology.order(each[0])):
        found = stuck_subtasks(job, task)
        if found is None:
            continue
        keys, standing = found
        emitted = times.flow(task, operator, "numRecordsOut")
        if emitted is None:
            continue
        out = emitted.increase_since(standing.since_us)
        known = needs_event_time(job, task)
        if known is None and standing.value is None and out:
            continue  # windows that close without a watermark use processing time
        yield StuckOperator(
            task,
            operator,
            keys,
            standing,
            times.received(task, operator, standing.since_us),
            out,
            bool(known) or has_watermarks(job, task),
        )


def stuck_subtasks(
    job: JobQueues, task: str
) -> tuple[tuple[SubtaskKey, ...], ConstantWatermark] | None:
    """Return the subtasks of a task whose watermark is constant, and the period in which all of them are.

    This is the input watermark, or the output watermark of a source.
    """
    times = event_time(job)
    keys = (SubtaskKey(task, index) for index in range(job.topology.parallelism.get(task, 0)))
    is_source = task in job.topology.sources
    found = {
        key: standing
        for key in keys
        if (
            standing := constant_period(
                times.output_of(key) if is_source else times.inputs.get(key)
            )
        )
    }
    if not found:
        return None
    first = min(found)
    since_us = max(standing.since_us for standing in found.values())
    return tuple(found), found[first]._replace(since_us=since_us)


def holders(job: JobQueues, task: str, standing: ConstantWatermark) -> list[Holder]:
    """Walk the job graph upstream from a task to the subtasks that hold its watermark back."""
    times = event_time(job)
    found: dict[str, Holder] = {}
    _walk(job, times, task, standing, found, set())
    if task in job.topology.sources and (keys := _holders_in(job, times, task, standing)):
        found[task] = _holder(job, times, task, keys, standing)
    return sorted(found.values(), key=lambda holder: job.topology.order(holder.task))


def _holders_in(
    job: JobQueues, times: EventTime, task: str, standing: ConstantWatermark
) -> dict[SubtaskKey, ConstantWatermark]:
    """Return the subtasks of a task that send the watermark `standing` and are not declared idle."""
    keys = (SubtaskKey(task, index) for index in range(job.topology.parallelism.get(task, 0)))
    return {
        key: out
        for key in keys
        if (out := constant_period(times.output_of(key))) is not None
        and out.explains(standing)
        and not _is_idle(times, key)
    }


def has_no_watermarks(job: JobQueues, task: str) -> bool:
    """Return whether no source upstream of a task ever had a watermark."""
    outputs = list(_source_marks(job, task))
    return bool(outputs) and all(
        (now := constant_period(mark)) and now.value is None for mark in outputs
    )


def has_watermarks(job: JobQueues, task: str) -> bool:
    """Return whether any source upstream of a task, or any of its splits, has a watermark."""
    return any(mark.latest is not None for mark in _source_marks(job, task))


def _source_marks(job: JobQueues, task: str) -> Iterator[Mark]:
    times = event_time(job)
    for key, marks in times.outputs.items():
        if key.task in job.topology.sources and (
            key.task == task or task in job.topology.downstream(key.task)
        ):
            yield from marks
            yield from times.splits.get(key, {}).values()


def _walk(
    job: JobQueues,
    times: EventTime,
    task: str,
    standing: ConstantWatermark,
    found: dict[str, Holder],
    seen: set[str],
) -> None:
    for before in job.topology.upstream.get(task, ()):
        if before in seen:
            continue
        seen.add(before)
        keys = _holders_in(job, times, before, standing)
        if not keys:
            continue
        fed = [key for key, out in keys.items() if _is_fed_late(times, key, out, standing)]
        if fed and job.topology.upstream.get(before):
            _walk(job, times, before, standing, found, seen)
            continue
        found[before] = _holder(job, times, before, keys, standing)


def _is_idle(times: EventTime, key: SubtaskKey) -> bool:
    """Return whether all splits of a source subtask are declared idle, so that it holds no watermark back."""
    splits = times.splits.get(key)
    return bool(splits) and all(times.idle.get((key, split), 0.0) > 0 for split in splits or ())


def _is_fed_late(
    times: EventTime, key: SubtaskKey, out: ConstantWatermark, standing: ConstantWatermark
) -> bool:
    """Return whether the input of a subtask holds its watermark back.

    A subtask with a watermark that receives none assigns watermarks itself, as after `assignTimestampsAndWatermarks`.
    """
    fed = constant_period(times.inputs.get(key))
    if fed is None or (fed.value is None and out.value is not None):
        return False
    return fed.explains(standing)


def _holder(
    job: JobQueues,
    times: EventTime,
    task: str,
    keys: Mapping[SubtaskKey, ConstantWatermark],
    standing: ConstantWatermark,
) -> Holder:
    silent: dict[SubtaskKey, tuple[str, ...]] = {}
    others = 0
    for key in keys:
        splits = times.splits.get(key, {})
        late = tuple(
            name
            for name, mark in sorted(splits.items())
            if (out := constant_period(mark)) is not None and out.explains(standing)
        )
        others += len(splits) - len(late)
        if late:
            silent[key] = late
    named = any(key.task == task for key in times.splits)
    return Holder(
        task=task,
        keys=tuple(keys),
        held=keys[min(keys)],
        whole=len(keys) == job.topology.parallelism.get(task),
        reading=tuple(key for key in keys if emits_records(job, key, keys[key])),
        splits=silent,
        unassigned=tuple(key for key in keys if named and not times.splits.get(key)),
        others=others,
    )


def emits_records(job: JobQueues, key: SubtaskKey, standing: ConstantWatermark) -> bool:
    """Return whether a subtask emits records while its watermark does not advance."""
    idle = event_time(job).gauges.get((key, "sourceIdleTime"))
    if idle is not None and idle.latest is not None:
        return idle.latest * 2 < standing.duration_ms
    return any(
        sample.increases.get("records_out", 0.0) > 0
        for sample in job.samples.get(key, ())
        if sample.last_us is None or sample.last_us > standing.since_us
    )


AHEAD_MS: Final = 600_000.0
"""Minimum time that a watermark is ahead of the clock. Clocks of two hosts rarely differ by minutes."""
_UNITS: Final = {1e3: "microseconds", 1e6: "nanoseconds", 1e-3: "seconds"}


def is_ahead(value_ms: float | None, time_us: int, by_ms: float = AHEAD_MS) -> bool:
    """Return whether a watermark is in the future."""
    return value_ms is not None and by_ms <= value_ms - time_us / 1000 < END_OF_INPUT / 2


def unit_of(value_ms: float, time_us: int) -> str | None:
    """Return the real unit of event times read as milliseconds, or None if they are milliseconds or just old.

    >>> unit_of(1.7956e15, 1_795_600_000_000_000), unit_of(1.7956e12, 1_795_600_000_000_000)
    ('microseconds', None)
    """
    factor = value_ms / (time_us / 1000)
    return next((unit for size, unit in _UNITS.items() if size / 2 < factor < size * 2), None)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WrongTimes:
    """Subtasks of a source whose watermark is in the future, or in a wrong unit.

    Args:
        task, keys: the source and these subtasks.
        split: the split, if a single split has such a watermark.
        value, ahead_ms: the watermark, and how far it is ahead of the clock.
        unit: the unit of its event times, if it is not milliseconds.
        since_us, until_us: start and end of the time with such a watermark.
        marks: the gauges, as evidence.
    """

    task: str
    keys: tuple[SubtaskKey, ...]
    split: str | None
    value: float
    ahead_ms: float
    unit: str | None
    since_us: int
    until_us: int
    marks: tuple[Mark, ...]


def wrong_times(job: JobQueues, task: str, ahead_s: float) -> WrongTimes | None:
    """Return the subtasks of a source with wrong event times, or None if there are none."""
    times = event_time(job)
    keys = [SubtaskKey(task, index) for index in range(job.topology.parallelism.get(task, 0))]
    found = [
        (key, split, mark, since_us)
        for key in keys
        for split, mark in times.named_marks(key)
        if (since_us := _wrong_since(mark, ahead_s)) is not None
    ]
    if not found:
        return None
    end = found[0][2].points[-1]
    value = end.last or 0.0
    splits = {split for _, split, _, _ in found if split is not None}
    return WrongTimes(
        task=task,
        keys=tuple(sorted({key for key, *_ in found})),
        split=min(splits) if len(splits) == 1 else None,
        value=value,
        ahead_ms=value - end.until_us / 1000,
        unit=unit_of(value, end.until_us),
        since_us=min(since_us for *_, since_us in found),
        until_us=end.until_us,
        marks=tuple(mark for _, _, mark, _ in found[:3]),
    )


def _wrong_since(mark: Mark, ahead_s: float) -> int | None:
    """Return since when a watermark has been wrong. None if it is right at the end."""
    since_us = None
    for point in reversed(mark.points):
        value = point.last
        if value is None or not 0 < value < END_OF_INPUT:
            break
        if not is_ahead(value, point.until_us, ahead_s * 1000) and not unit_of(
            value, point.until_us
        ):
            break
        since_us = point.time_us
    return since_us


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ShiftedTimes:
    """A source whose watermarks differ from the clock by the same time zone shift, because local times are read as UTC.

    Args:
        shift_ms: how far they are behind the clock; negative if they are ahead.
        since_us, until_us: start and end of the measured time.
        marks: the gauges, as evidence.
    """

    shift_ms: float
    since_us: int
    until_us: int
    marks: tuple[Mark, ...]


def shifted_times(
    job: JobQueues, task: str, *, delay_ms: float, steady_ms: float, duration_ms: float
) -> ShiftedTimes | None:
    """Return the shift of a source, or None if it is not constant, or not the same in all subtasks.

    Args:
        job: the job.
        task: the source.
        delay_ms: how far a watermark may be behind the newest event.
        steady_ms: how much the difference from the clock may vary.
        duration_ms: the minimum measured time.
    """
    marks = _output_marks(job, task)
    points = _known_points(marks)
    if not points:
        return None
    since_us, until_us = points[0][0], points[-1][0]
    lags = [us / 1000 - value for us, value in points]
    low, high = min(lags), max(lags)
    shift = _zone_shift(low)
    steady = (until_us - since_us) / 1000 >= duration_ms and high - low <= steady_ms
    if shift is None or not steady or high - shift > delay_ms:
        return None
    return ShiftedTimes(
        shift_ms=shift, since_us=since_us, until_us=until_us, marks=tuple(marks[:3])
    )


def _output_marks(job: JobQueues, task: str) -> list[Mark]:
    """Return the output watermarks of all subtasks of a task. Empty if any is missing."""
    times, size = event_time(job), job.topology.parallelism.get(task, 0)
    found = [times.output_of(SubtaskKey(task, index)) for index in range(size)]
    marks = [mark for mark in found if mark is not None]
    return marks if len(marks) == size else []


def _known_points(marks: Iterable[Mark]) -> list[tuple[int, float]]:
    """Return the times and values of the watermarks, in order. Empty if a value is no time since 1970."""
    points = [(p.until_us, p.last) for m in marks for p in m.points if p.n and p.last is not None]
    valid = all(0 < value < END_OF_INPUT for _, value in points)
    return sorted(points) if valid else []


def _zone_shift(lag_ms: float) -> float | None:
    """Return the largest difference from UTC, or between two time zones, that is not above a lag.

    Small differences are full hours. Zones with half hours begin at three hours, and those with quarters at five.

    >>> [_zone_shift(hours * 3_600_000.0) for hours in (-5.75, 2.5)]
    [-20700000.0, 7200000.0]
    """
    for steps in range(int(lag_ms // _QUARTER_MS), int(lag_ms // _QUARTER_MS) - 4, -1):
        least = 4 if steps % 4 == 0 else 12 if steps % 2 == 0 else 20
        if least <= abs(steps) <= _FARTHEST_ZONE:
            return steps * _QUARTER_MS
    return None


_QUARTER_MS: Final = 900_000.0
_FARTHEST_ZONE: Final = 14 * 4


def late_behind(job: JobQueues, source: str, since_us: int) -> tuple[float, float, str] | None:
    """Return the operator at or below a source that drops most late records, as (dropped, received, name), or None."""
    times = event_time(job)
    found = [
        (dropped, received, operator)
        for task, operator in times.operators
        if task == source or task in job.topology.downstream(source)
        if (
            dropped := times.flows[task, operator, "numLateRecordsDropped"].increase_since(since_us)
        )
        and (received := times.received(task, operator, since_us)) >= dropped
    ]
    return max(found, default=None)


def silent_operator(job: JobQueues) -> Silence | None:
    """Return an operator inside a chain that receives records but passes none on to the rest of the chain."""
    flows = event_time(job).flows
    for (task, operator, name), received in flows.items():
        emitted = flows.get((task, operator, "numRecordsOut"))
        if name != "numRecordsIn" or operator is None or emitted is None:
            continue
        since_us = emitted.constant_since_us
        keys = [key for key in sorted(job.samples) if key.task == task]
        if (
            since_us is None
            or not keys
            or _SINK.search(operator)
            or not received.increase_since(since_us)
        ):
            continue
        if _passes_nothing_on(job, task, since_us):
            return Silence(
                task=task,
                operator=operator,
                since_us=since_us,
                until_us=emitted.points[-1].until_us,
                records=received.increase_since(since_us),
                watermark_ms=None,
                key=keys[0],
                samples=job.samples[keys[0]],
            )
    return None


def _passes_nothing_on(job: JobQueues, task: str, since_us: int) -> bool:
    """Return whether another operator of the chain, or a task downstream of the chain, receives nothing."""
    flows = event_time(job).flows
    passed = flows.get((task, None, "numRecordsOut"))
    if (
        passed is not None
        and not passed.increase_since(since_us)
        and job.topology.direct_successors(task)
    ):
        return True
    return any(_is_dry(flows, task, other, since_us) for chain, other, _ in flows if chain == task)


def _is_dry(
    flows: Mapping[tuple[str, str | None, str], Flow],
    task: str,
    operator: str | None,
    since_us: int,
) -> bool:
    """Return whether an operator neither receives nor emits records. Committers are never dry."""
    known = [flows.get((task, operator, name)) for name in ("numRecordsIn", "numRecordsOut")]
    return (
        operator is not None
        and not _COMMITTER.search(operator)
        and all(flow is not None and not flow.increase_since(since_us) for flow in known)
    )
