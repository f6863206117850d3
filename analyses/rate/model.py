"""Simulates other settings with a model of receivers, queue and job.

The job has a cost per batch and per record (`cost_line`). Receivers accept as many records as the token bucket permits
(`token_bucket`), and batches queue for one worker. When a batch completes, the estimator computes a new limit (`pid`).
Kafka's direct stream has no bucket. It divides the rate by lag, as in the source code of Spark 2.4 to 4.3.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from heapq import heappop, heappush
from statistics import median
from typing import Final

from flowdiag.analyses.rate.pid import Estimator, Gains, Observation, Step
from flowdiag.analyses.rate.token_bucket import LONG_MAX, TokenBucket

_RANGE: Final = re.compile(
    r"topic: (?P<topic>[^\t\n]{1,300})\tpartition: (?P<partition>\d{1,9})"
    r"\toffsets: (?P<low>\d{1,18}) to (?P<high>\d{1,18})"
)
SETTLED: Final = 0.1  # maximum deviation of settled rates and delays, as a share of the final ones
RESTING: Final = 0.25  # share of the interval; smaller differences of the delay do not count
BUSY: Final = 1.001  # share of the interval; longer batches queue up
FLOORED: Final = 10  # consecutive updates at the floor that prove that it limits the rate
LEAST: Final = 60  # batches of the shortest simulation
LONGEST: Final = 3_840  # batches of the longest simulation: over two hours of two-second batches


@dataclass(frozen=True, slots=True)
class KafkaRange:
    """The offsets of one partition in a batch."""

    topic: str
    partition: int
    low: int
    high: int

    @property
    def count(self) -> int:
        """The number of offsets. A compacted topic has fewer records."""
        return self.high - self.low


def kafka_ranges(description: str | None) -> tuple[KafkaRange, ...]:
    """Return the offset ranges in the description of a Kafka input, which has one line per partition.

    >>> kafka_ranges("topic: t\\tpartition: 0\\toffsets: 5 to 9\\tcount: 4")
    (KafkaRange(topic='t', partition=0, low=5, high=9),)
    """
    return tuple(
        KafkaRange(m["topic"], int(m["partition"]), int(m["low"]), int(m["high"]))
        for m in _RANGE.finditer(description or "")
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """The cost of a batch: `fixed_ms + per_record_ms * records`.

    `at_once` batches run concurrently (`spark.streaming.concurrentJobs`).
    """

    fixed_ms: float
    per_record_ms: float
    error_ms: float = 0.0
    at_once: int = 1

    def takes(self, records: int) -> int:
        """Return the processing time of a batch in ms, at least 1."""
        return max(1, round(self.fixed_ms + self.per_record_ms * records))

    def sustains_per_s(self, interval_ms: int) -> float:
        """Return the maximum records per second that can be processed within the interval.

        >>> Job(fixed_ms=500, per_record_ms=5).sustains_per_s(1000)
        100.0
        """
        room = self.at_once * interval_ms - self.fixed_ms
        return max(0.0, room / self.per_record_ms) * 1000 / interval_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of a simulation.

    Rates are records per second. If `max_rate` is None, it is Spark's `Long.MaxValue`. `initial_rate` defaults to
    `max_rate`. Without `back_pressure`, only `max_rate` applies.
    """

    interval_ms: int
    gains: Gains = field(default_factory=Gains)
    max_rate: float | None = None
    initial_rate: float | None = None
    back_pressure: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulated:
    """One batch of a simulation. `step` is the estimator's result, if the batch completed in time."""

    time_ms: int
    records: int
    scheduling_ms: int
    processing_ms: int
    step: Step | None

    @property
    def total_ms(self) -> int:
        return self.scheduling_ms + self.processing_ms

    @property
    def start_ms(self) -> int:
        return self.time_ms + self.scheduling_ms

    @property
    def end_ms(self) -> int:
        return self.time_ms + self.total_ms


class Settling(StrEnum):
    SETTLED = "settled"
    GROWS = "delay-grows"  # never, because batches take longer than the interval and nothing lowers the rate
    SWINGS = "rate-swings"  # never, because the rate keeps oscillating
    LATER = "later"  # the delay still changes after the longest simulation


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of a simulation: its settled state, or its state at the requested end.

    Args:
        batches: the requested number of batches, in time order.
        settling: whether rate and delay settle.
        steady_per_s: records per second processed in the last third.
        delay_ms: median total delay of the last third.
        settling_ms: time until rate and delay stay within a tenth of their last values, or None.
        overshoot: highest rate over the steady rate, minus one.
        queued: number of batches left in the queue.
        waiting: number of records that remain in the source.
    """

    batches: tuple[Simulated, ...]
    settling: Settling
    steady_per_s: float
    delay_ms: float
    settling_ms: int | None
    overshoot: float
    queued: int
    waiting: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """The input of a simulation.

    Args:
        job: the cost of a batch.
        settings: the unchanged settings.
        streams: number of input streams, whose limits and minimum rates add up.
        offered_per_s: input rate of each batch.
        offered_from: origin of the input rate, as a clause for the report.
    """

    job: Job
    settings: Settings
    streams: int
    offered_per_s: tuple[float, ...]
    offered_from: str


def simulate(
    job: Job,
    settings: Settings,
    offered_per_s: Sequence[float],
    *,
    batches: int | None = None,
    blocked: bool = True,
) -> Outcome:
    """Simulate a receiver, its queue and its job for `batches` intervals or until they settle.

    Args:
        job: the cost of batches.
        settings: the settings.
        offered_per_s: rate of the source in each interval; the last value continues.
        batches: number of intervals; by default the number of values in `offered_per_s`.
        blocked: whether the source keeps unread records for later, like a socket or a topic.
    """
    count = batches if batches is not None else len(offered_per_s)
    run = _Run(job, settings, offered_per_s, blocked=blocked)
    played = run.batches_until(count)
    held = run.held
    length = max(count, LEAST)
    # Nothing settles while the offered rate still changes.
    least = length + LEAST if len(offered_per_s) > 1 else length
    done = run.batches_until(least)
    while (rest := _settled_state(done, settings, job)) is None and len(done) < max(LONGEST, least):
        done = run.batches_until(2 * len(done))
    if rest is None:
        drifts = abs(_drift(_late_batches(done))) > settings.interval_ms
        rest = Settling.LATER if drifts else Settling.SWINGS, None
    settling, settled_ms = rest
    if settling is Settling.SETTLED:
        return _outcome(done, played, settings.interval_ms, settling, settled_ms, run.held)
    return _outcome(played, played, settings.interval_ms, settling, None, held)


class _Run:
    """A simulation that can be continued."""

    def __init__(
        self, job: Job, settings: Settings, offered_per_s: Sequence[float], *, blocked: bool
    ) -> None:
        """Start with empty queues; takes the same arguments as `simulate`."""
        top = settings.max_rate if settings.max_rate is not None else float(LONG_MAX)
        first = settings.initial_rate if settings.initial_rate is not None else top
        self._job, self._settings = job, settings
        self._offered, self._blocked = offered_per_s, blocked
        self._bucket = TokenBucket(rate=min(first, top), now_us=0, max_rate=top)
        self._estimator = Estimator(batch_interval_ms=settings.interval_ms, gains=settings.gains)
        self._free_ms = [0] * job.at_once  # when each worker becomes free: a heap
        self._pending: list[
            tuple[int, float]
        ] = []  # (time, new rate) of limits that have not arrived yet
        self._running: list[tuple[int, int]] = []  # (end, number) of batches: a heap
        self._done: list[Simulated] = []
        self.held = 0.0

    def batches_until(self, count: int) -> tuple[Simulated, ...]:
        """Return the first `count` batches; `step` is None for unfinished batches."""
        for number in range(len(self._done), count):
            self._batch(number)
        return tuple(self._done[:count])

    def _batch(self, number: int) -> None:
        interval = self._settings.interval_ms
        begin, end = number * interval, (number + 1) * interval
        self._observe(end)
        fresh = self._offered[min(number, len(self._offered) - 1)]
        self.held += fresh * interval / 1000
        records = _count_received(self._bucket, self._pending, (begin, end), self.held, fresh)
        self.held = self.held - records if self._blocked else 0.0
        start = max(end, heappop(self._free_ms))
        took = self._job.takes(records)
        heappush(self._free_ms, start + took)
        heappush(self._running, (start + took, number))
        self._done.append(
            Simulated(
                time_ms=end,
                records=records,
                scheduling_ms=start - end,
                processing_ms=took,
                step=None,
            )
        )

    def _observe(self, now_ms: int) -> None:
        """Run the estimator for the batches that have completed, in order of completion."""
        while self._settings.back_pressure and self._running and self._running[0][0] < now_ms:
            time, number = heappop(self._running)
            batch = self._done[number]
            step = self._estimator.compute(
                Observation(
                    time_ms=time,
                    elements=batch.records,
                    processing_delay_ms=batch.processing_ms,
                    scheduling_delay_ms=batch.scheduling_ms,
                )
            )
            self._done[number] = replace(batch, step=step)
            if step.published is not None and step.published > 0:
                self._pending.append((time, float(step.published)))


def _count_received(
    bucket: TokenBucket,
    pending: list[tuple[int, float]],
    span: tuple[int, int],
    held: float,
    fresh: float,
) -> int:
    """Return how many records pass the limiter in an interval during which the limit may change.

    Args:
        bucket: the limiter.
        pending: times and rates of limits that have not arrived yet; arrived ones are removed.
        span: start and end of the interval, in milliseconds.
        held: number of records that the source has by the end of the interval.
        fresh: new records per second within the interval.
    """
    (begin, end), records = span, 0
    cuts = [time for time, _ in pending if begin < time < end]
    for low, high in zip([begin, *cuts], [*cuts, end], strict=True):
        while pending and pending[0][0] <= low:
            bucket.update(pending.pop(0)[1], low * 1000)
        # New records arrive evenly, and older ones are available immediately.
        unborn = max(0.0, fresh * (end - high) / 1000)
        ready = int(max(0.0, held - records - unborn))
        records += bucket.count_passing(ready, low * 1000, high * 1000)
    return records


def _late_batches(done: Sequence[Simulated]) -> Sequence[Simulated]:
    return done[-max(3, len(done) // 3) :]


def _settled_state(
    done: Sequence[Simulated], settings: Settings, job: Job
) -> tuple[Settling, int | None] | None:
    """Return how the simulation settles and since which batch, or None if that is still open."""
    late, interval = _late_batches(done), settings.interval_ms
    drift = _drift(late)
    busy = sum(one.processing_ms for one in late) > len(late) * job.at_once * interval * BUSY
    if busy and drift > 0 and _cannot_go_lower(done, settings):
        return Settling.GROWS, None
    if busy or abs(drift) > SETTLED * interval:
        return None
    steady = median(one.records for one in late)
    delay = median(one.total_ms for one in late)
    # A batch contains whole records, and a limit that changes within an interval may add one.
    rate_off = max(SETTLED * steady, 1.5)
    delay_off = max(SETTLED * delay, RESTING * interval)
    since = None
    for one in reversed(done):
        if abs(one.records - steady) > rate_off or abs(one.total_ms - delay) > delay_off:
            break
        since = one.time_ms
    if since is None or since > late[0].time_ms:
        return None
    return Settling.SETTLED, since


def _drift(late: Sequence[Simulated]) -> float:
    """Return how much longer the delay is in the second half than in the first, in ms."""
    half = len(late) // 2
    first = median(one.total_ms for one in late[: half or 1])
    return float(median(one.total_ms for one in late[half:]) - first)


def _cannot_go_lower(done: Sequence[Simulated], settings: Settings) -> bool:
    """Return whether the rate has reached its lower limit: there is no estimator, or the floor determines the rate."""
    if not settings.back_pressure:
        return True
    steps = [one.step for one in done if one.step is not None and one.step.new_rate is not None]
    floor = settings.gains.min_rate * settings.interval_ms / 1000
    floored = all(one.records <= floor * (1 + SETTLED) for one in _late_batches(done))
    return floored and bool(steps) and all(step.is_at_floor for step in steps[-FLOORED:])


def _outcome(
    done: Sequence[Simulated],
    played: tuple[Simulated, ...],
    interval: int,
    settling: Settling,
    settling_ms: int | None,
    held: float,
) -> Outcome:
    over = len(done) * interval
    finished = [one for one in done if one.end_ms <= over] or list(done[:1])
    if settling is Settling.SETTLED:
        steady = median(one.records for one in _late_batches(done)) * 1000 / interval
    else:
        steady = _processed_per_s(done, over * 2 // 3, over)
    top = max((one.records for one in played), default=0) * 1000 / interval
    return Outcome(
        batches=played,
        settling=settling,
        steady_per_s=steady,
        delay_ms=float(median(one.total_ms for one in _late_batches(finished))),
        settling_ms=settling_ms,
        overshoot=top / steady - 1 if steady else 0.0,
        queued=len(done) - len(finished),
        waiting=held,
    )


def _processed_per_s(done: Sequence[Simulated], from_ms: int, to_ms: int) -> float:
    """Return the records processed per second in a span. A batch partly outside the span counts proportionally."""
    parts = (
        one.records
        * max(0, min(one.end_ms, to_ms) - max(one.start_ms, from_ms))
        / one.processing_ms
        for one in done
    )
    return sum(parts) * 1000 / max(1, to_ms - from_ms)


def with_changes(settings: Settings, **values: object) -> Settings:
    """Return the settings with some values replaced; gains can be given by name."""
    gains = {
        k: v for k, v in values.items() if k in ("proportional", "integral", "derived", "min_rate")
    }
    others = {k: v for k, v in values.items() if k not in gains}
    result = replace(settings, **others)  # type: ignore[arg-type]
    return replace(result, gains=replace(settings.gains, **gains)) if gains else result  # type: ignore[arg-type]
