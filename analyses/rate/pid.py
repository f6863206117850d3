"""Replays the rate estimator of Spark Streaming, exact to the last bit.

The arithmetic of `org.apache.spark.streaming.scheduler.rate.PIDRateEstimator` has not changed from 1.5.0 to 4.3.0.
Python's floats are the JVM's doubles, so the same operations in the same order give the same bits. Do not "simplify"
an expression here.

Rates are records per second. Times and delays are milliseconds.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

_LONG_MAX: Final = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Gains:
    """The options `spark.streaming.backpressure.pid.*` with their defaults.

    Raises:
        ValueError: a value that Spark rejects.
    """

    proportional: float = 1.0
    integral: float = 0.2
    derived: float = 0.0
    min_rate: float = 100.0

    def __post_init__(self) -> None:
        """Reject the values that Spark's `require` rejects."""
        for name in ("proportional", "integral", "derived"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} should be >= 0")
        if self.min_rate <= 0:
            raise ValueError("minRate should be > 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """The estimator's input when a batch completes.

    Args:
        time_ms: when the processing of the batch ended.
        elements: number of records of this stream in the batch.
        processing_delay_ms: processing delay of the whole batch.
        scheduling_delay_ms: scheduling delay of the whole batch since its submission (not since its batch time).
    """

    time_ms: int
    elements: int
    processing_delay_ms: int
    scheduling_delay_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """The estimator's result for one observation.

    `outcome` is `new-rate`, `first-run` or `skipped`. Only `new-rate` publishes a rate. The terms of a skipped
    observation are None, because the estimator computes nothing.
    """

    observation: Observation
    outcome: str
    processing_rate: float | None = None
    error: float | None = None
    historical_error: float | None = None
    d_error: float | None = None
    latest_rate: float | None = None
    unclamped_rate: float | None = None
    new_rate: float | None = None

    @property
    def is_at_floor(self) -> bool:
        """Whether `minRate` alone determined the rate."""
        return (
            self.new_rate is not None
            and self.unclamped_rate is not None
            and self.unclamped_rate < self.new_rate
        )

    @property
    def published(self) -> int | None:
        """The limit for receivers, which `RateController` truncates to a long.

        As in the JVM, larger values become the largest long, and NaN becomes 0.
        """
        if self.new_rate is None or math.isnan(self.new_rate):
            return None if self.new_rate is None else 0
        return int(min(self.new_rate, _LONG_MAX))


class Estimator:
    """The estimator of one input stream.

    >>> estimator = Estimator(batch_interval_ms=20, gains=Gains(integral=0.0, min_rate=10.0))
    >>> observation = Observation(time_ms=0, elements=10, processing_delay_ms=10, scheduling_delay_ms=0)
    >>> estimator.compute(observation).outcome
    'first-run'
    >>> estimator.compute(Observation(
    ...     time_ms=10, elements=10, processing_delay_ms=10, scheduling_delay_ms=0)).new_rate
    1000.0
    """

    def __init__(self, *, batch_interval_ms: int, gains: Gains) -> None:
        """Create an estimator in Spark's initial state: without a rate, an error or a batch.

        Raises:
            ValueError: the batch interval is not above zero.
        """
        if batch_interval_ms <= 0:
            raise ValueError("batch interval should be > 0")
        self._interval_ms = batch_interval_ms
        self._gains = gains
        self._first_run = True
        self._latest_time = -1
        self._latest_rate = -1.0
        self._latest_error = -1.0

    def compute(self, observation: Observation) -> Step:
        accepted = (
            observation.time_ms > self._latest_time
            and observation.elements > 0
            and observation.processing_delay_ms > 0
        )
        if not accepted:
            return Step(observation=observation, outcome="skipped")
        gains = self._gains
        delay_since_update = float(observation.time_ms - self._latest_time) / 1000
        processing_rate = float(observation.elements) / observation.processing_delay_ms * 1000
        latest_rate = self._latest_rate
        error = latest_rate - processing_rate
        historical_error = (
            float(observation.scheduling_delay_ms) * processing_rate / self._interval_ms
        )
        d_error = (error - self._latest_error) / delay_since_update
        unclamped = (
            latest_rate
            - gains.proportional * error
            - gains.integral * historical_error
            - gains.derived * d_error
        )
        new_rate = max(unclamped, gains.min_rate)
        self._latest_time = observation.time_ms
        first, self._first_run = self._first_run, False
        self._latest_rate = processing_rate if first else new_rate
        self._latest_error = 0.0 if first else error
        return Step(
            observation=observation,
            outcome="first-run" if first else "new-rate",
            processing_rate=processing_rate,
            error=error,
            historical_error=historical_error,
            d_error=d_error,
            latest_rate=latest_rate,
            unclamped_rate=unclamped,
            new_rate=None if first else new_rate,
        )


def replay(
    observations: Iterable[Observation], *, batch_interval_ms: int, gains: Gains
) -> Iterator[Step]:
    """Run one stream's completed batches through a new estimator, in order of completion."""
    estimator = Estimator(batch_interval_ms=batch_interval_ms, gains=gains)
    return (estimator.compute(observation) for observation in observations)
