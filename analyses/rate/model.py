"""What would have happened under other settings: a model of receivers, queue and job.

The job costs so much per batch and per record (`state.cost_line`); receivers let through what the
token bucket permits (`token_bucket`); batches queue for one worker; when one completes, the estimator
computes and the limit changes (`pid`). Kafka's direct stream has no bucket: its share by lag is taken
from the source of Spark 2.4 to 4.3 (catalogue/spark.md 1.4).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Final

from flowdiag.analyses.rate.pid import Estimator, Gains, Observation, Step
from flowdiag.analyses.rate.token_bucket import LONG_MAX, TokenBucket

_RANGE: Final = re.compile(
    r"topic: (?P<topic>[^\t\n]{1,300})\tpartition: (?P<partition>\d{1,9})"
    r"\toffsets: (?P<low>\d{1,18}) to (?P<high>\d{1,18})"
)
SETTLED: Final = 0.1  # of the final rate: within it a rate has settled


@dataclass(frozen=True, slots=True)
class KafkaRange:
    """What a batch took of one partition."""

    topic: str
    partition: int
    low: int
    high: int

    @property
    def count(self) -> int:
        """Offsets, which compacted topics have fewer records than."""
        return self.high - self.low


def kafka_ranges(description: str | None) -> tuple[KafkaRange, ...]:
    """The ranges in the description of a Kafka input, one line each (all versions).

    >>> kafka_ranges("topic: t\\tpartition: 0\\toffsets: 5 to 9\\tcount: 4")
    (KafkaRange(topic='t', partition=0, low=5, high=9),)
    """
    return tuple(
        KafkaRange(m["topic"], int(m["partition"]), int(m["low"]), int(m["high"]))
        for m in _RANGE.finditer(description or "")
    )


def kafka_share(
    lag: Mapping[str, int],
    *,
    estimate: float | None,
    batch_seconds: float,
    max_rate: Mapping[str, int] | int = 0,
    min_rate: Mapping[str, int] | int = 1,
) -> dict[str, int] | None:
    """The most records per partition of one batch, as `DirectKafkaInputDStream` computes it.

    Args:
        lag: latest minus current offset by partition, 0 where negative.
        estimate: the estimator's rate (or `initialRate` before the first); None or 0: no back pressure.
        batch_seconds: the batch interval.
        max_rate: `maxRatePerPartition`, 0 for none.
        min_rate: `minRatePerPartition`: records per batch, although it is documented per second.

    Returns:
        By partition; None where nothing limits the batch.

    >>> kafka_share({"a": 50, "b": 50}, estimate=100.0, batch_seconds=1.0)
    {'a': 50, 'b': 50}
    """

    def of(rates: Mapping[str, int] | int, partition: str) -> int:
        return rates if isinstance(rates, int) else rates.get(partition, 0)

    total = sum(max(0, count) for count in lag.values())
    effective: dict[str, float] = {}
    for partition, count in lag.items():
        most = of(max_rate, partition)
        if estimate is not None and estimate > 0:
            if total == 0:
                return None
            share = max(0, count) / float(total) * estimate
            effective[partition] = min(share, most) if most > 0 else share
        else:
            effective[partition] = float(most)
    if sum(effective.values()) <= 0:
        return None
    return {
        partition: max(int(batch_seconds * rate), of(min_rate, partition))
        for partition, rate in effective.items()
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What a batch costs: `fixed_ms + per_record_ms * records`."""

    fixed_ms: float
    per_record_ms: float
    error_ms: float = 0.0

    def takes(self, records: int) -> int:
        """Processing time of a batch, at least a millisecond."""
        return max(1, round(self.fixed_ms + self.per_record_ms * records))


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings that can be tried.

    Rates are records per second; `max_rate` None is Spark's `Long.MaxValue`, `initial_rate` None falls
    back to it. `back_pressure` False leaves only `max_rate`.
    """

    interval_ms: int
    gains: Gains = field(default_factory=Gains)
    max_rate: float | None = None
    initial_rate: float | None = None
    back_pressure: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulated:
    """One batch of a simulation; `step` is what the estimator made of it."""

    time_ms: int
    records: int
    scheduling_ms: int
    processing_ms: int
    step: Step | None

    @property
    def total_ms(self) -> int:
        """Scheduling and processing."""
        return self.scheduling_ms + self.processing_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a simulation comes to.

    Args:
        batches: in the order of their times, those that completed within the time.
        steady_per_s: records per second processed in the last third.
        delay_ms: median total delay of the last third.
        settling_ms: from the start until the rate stays within a tenth of its last values; None: never.
        overshoot: highest rate over the steady one, minus one.
        queued: batches left in the queue.
        waiting: records the source still held back.
    """

    batches: tuple[Simulated, ...]
    steady_per_s: float
    delay_ms: float
    settling_ms: int | None
    overshoot: float
    queued: int
    waiting: float


def simulate(
    job: Job,
    settings: Settings,
    offered_per_s: Sequence[float],
    *,
    batches: int | None = None,
    blocked: bool = True,
) -> Outcome:
    """Run a receiver, its queue and its job through as many intervals.

    Args:
        job: what batches cost.
        settings: what is tried.
        offered_per_s: what the source offers, per interval; the last value holds on.
        batches: number of intervals; by default as many as there are offers.
        blocked: whether the source keeps what the receiver does not take (a socket, a topic), so that it
            comes later.
    """
    interval = settings.interval_ms
    count = batches if batches is not None else len(offered_per_s)
    top = settings.max_rate if settings.max_rate is not None else float(LONG_MAX)
    first = settings.initial_rate if settings.initial_rate is not None else top
    bucket = TokenBucket(rate=min(first, top), now_us=0, max_rate=top)
    estimator = Estimator(batch_interval_ms=interval, gains=settings.gains)
    held = 0.0
    free_ms = 0  # when the job has nothing to do
    pending: list[tuple[int, float]] = []  # (time, new rate): limits on their way
    done: list[Simulated] = []
    for number in range(count):
        begin, end = number * interval, (number + 1) * interval
        fresh = offered_per_s[min(number, len(offered_per_s) - 1)]
        held += fresh * interval / 1000
        records = _received(bucket, pending, (begin, end), held, fresh)
        held = held - records if blocked else 0.0
        start = max(end, free_ms)
        took = job.takes(records)
        free_ms = start + took
        step = None
        if settings.back_pressure:
            step = estimator.compute(
                Observation(
                    time_ms=free_ms,
                    elements=records,
                    processing_delay_ms=took,
                    scheduling_delay_ms=start - end,
                )
            )
            if step.published is not None and step.published > 0:
                pending.append((free_ms, float(step.published)))
        done.append(
            Simulated(
                time_ms=end,
                records=records,
                scheduling_ms=start - end,
                processing_ms=took,
                step=step,
            )
        )
    return _outcome(done, interval, count, held)


def _received(
    bucket: TokenBucket,
    pending: list[tuple[int, float]],
    span: tuple[int, int],
    held: float,
    fresh: float,
) -> int:
    """The records that pass the limiter within an interval, whose limit may change meanwhile.

    Args:
        bucket: the limiter.
        pending: times and rates that are on their way to it; those that arrive are taken out.
        span: beginning and end of the interval, milliseconds.
        held: what the source has until the end.
        fresh: of that, records per second that come in this interval.
    """
    (begin, end), records = span, 0
    cuts = [time for time, _ in pending if begin < time < end]
    for low, high in zip([begin, *cuts], [*cuts, end], strict=True):
        while pending and pending[0][0] <= low:
            bucket.update(pending.pop(0)[1], low * 1000)
        # The source's records come evenly; what was held back is there at once.
        unborn = max(0.0, fresh * (end - high) / 1000)
        ready = int(max(0.0, held - records - unborn))
        records += bucket.passing(ready, low * 1000, high * 1000)
    return records


def _outcome(done: list[Simulated], interval: int, count: int, held: float) -> Outcome:
    over = count * interval
    finished = [one for one in done if one.time_ms + one.total_ms <= over] or done[:1]
    late = finished[-max(3, len(finished) // 3) :]
    steady = median(one.records for one in late) * 1000 / interval
    rates = [(one.time_ms, one.records * 1000 / interval) for one in done]
    settled: int | None = None
    for time, rate in reversed(rates):
        if abs(rate - steady) > SETTLED * max(steady, 1.0):
            break
        settled = time
    top = max((rate for _, rate in rates), default=0.0)
    return Outcome(
        batches=tuple(done),
        steady_per_s=steady,
        delay_ms=float(median(one.total_ms for one in late)),
        settling_ms=settled,
        overshoot=top / steady - 1 if steady else 0.0,
        queued=len(done) - len(finished),
        waiting=held,
    )


def changed(settings: Settings, **values: object) -> Settings:
    """The settings with some of them replaced; gains by their names."""
    gains = {
        k: v for k, v in values.items() if k in ("proportional", "integral", "derived", "min_rate")
    }
    others = {k: v for k, v in values.items() if k not in gains}
    result = replace(settings, **others)  # type: ignore[arg-type]
    return replace(result, gains=replace(settings.gains, **gains)) if gains else result  # type: ignore[arg-type]
