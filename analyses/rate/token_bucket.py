"""Simulates the receiver's rate limiter, Guava's `SmoothBursty` as Spark uses it.

`org.apache.spark.streaming.receiver.RateLimiter` requires one permit per record. It never raises the limit above
`maxRate`, and ignores a limit of zero or less. It keeps the unused permits of one second, so after an idle second a
burst of `rate` records passes at once. The next request waits for the permits of a request. Times are microseconds, and
rates are permits per second.
"""

from __future__ import annotations

import math

BURST_S = 1.0
LONG_MAX = 2**63 - 1


class TokenBucket:
    """A rate limiter. The caller provides the clock, so a simulation does not have to wait.

    >>> bucket = TokenBucket(rate=2.0, now_us=0)
    >>> [bucket.acquire(now) for now in (0, 0, 500_000)]  # paid by the next: 0, 0.5 s, 0.5 s more
    [0, 500000, 1000000]
    """

    def __init__(self, *, rate: float, now_us: int, max_rate: float = math.inf) -> None:
        """Start without permits.

        Args:
            rate: the initial limit; from Spark 2.0 on, `min(initialRate, maxRate)`.
            now_us: the creation time.
            max_rate: `spark.streaming.receiver.maxRate`.

        Raises:
            ValueError: a rate that is not above zero.
        """
        if rate <= 0:
            raise ValueError("rate should be > 0")
        self._max_rate = max_rate
        self._stored = 0.0
        self._capacity = 0.0
        self._interval_us = 0.0
        self._next_free_us = now_us
        self._set(min(rate, max_rate))

    @property
    def rate(self) -> float:
        """The current limit."""
        return 1e6 / self._interval_us

    def update(self, rate: float, now_us: int) -> None:
        """Apply a published limit, and scale the stored permits with it."""
        if rate <= 0:
            return
        self._resync(now_us)
        self._set(min(rate, self._max_rate))

    def acquire(self, now_us: int, permits: int = 1) -> int:
        """Return when a request made at `now_us` passes, in microseconds."""
        self._resync(now_us)
        granted_us = self._next_free_us
        used = min(float(permits), self._stored)
        fresh = permits - used
        self._next_free_us += int(fresh * self._interval_us)
        self._stored -= used
        return max(granted_us, now_us)

    def count_passing(self, offered: int, from_us: int, to_us: int) -> int:
        """Return how many of `offered` waiting records pass between two times.

        The result is the same as after that many calls of `acquire`.
        """
        if offered <= 0 or to_us <= from_us:
            return 0
        self._resync(from_us)
        if self._next_free_us >= to_us:
            return 0
        at_once = min(float(offered), self._stored)
        self._stored -= at_once
        passed = int(at_once)
        left = offered - passed
        if left > 0:
            slots = math.ceil((to_us - self._next_free_us) / self._interval_us)
            paced = min(left, max(0, slots))
            self._next_free_us += int(paced * self._interval_us)
            passed += paced
        return passed

    def _set(self, rate: float) -> None:
        before = self._capacity
        self._interval_us = 1e6 / rate
        self._capacity = BURST_S * rate
        self._stored = 0.0 if before == 0.0 else self._stored * self._capacity / before

    def _resync(self, now_us: int) -> None:
        if now_us > self._next_free_us:
            earned = (now_us - self._next_free_us) / self._interval_us
            self._stored = min(self._capacity, self._stored + earned)
            self._next_free_us = now_us
