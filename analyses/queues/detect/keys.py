"""States in RocksDB or ForSt whose number of keys rises steadily."""

from __future__ import annotations

from typing import Final, NamedTuple

from flowdiag.analyses.flink.tasks.placement import SubtaskKey
from flowdiag.analyses.flink.trends import fifth_medians, is_straight, kendall
from flowdiag.analyses.queues import helpers as h

FEWEST: Final = 5
"""Minimum number of samples: fewer do not allow a comparison of two halves."""
KEYS: Final = "estimate-num-keys"
STALE: Final = 5.0
"""Minimum ratio of all files to valid data that shows that most of a state was overwritten or removed."""
_TIMERS: Final = "_timer_state"


class KeyGrowth(NamedTuple):
    """The number of keys of one operator over time, summed over its subtasks.

    Args:
        largest: the store with the most keys.
        state: the column family with the most keys, which has the name of the state; None if the metric has none.
        counts: number of keys in each sample, in order.
        first_us, last_us: times of the first and the last sample.
    """

    largest: h.Store
    state: str | None
    counts: list[float]
    first_us: int
    last_us: int

    @property
    def are_timers(self) -> bool:
        """Whether most keys are timers, which have separate column families."""
        return self.state is not None and self.state.startswith(_TIMERS)

    @property
    def duration_ms(self) -> float:
        return (self.last_us - self.first_us) / 1000

    @property
    def per_hour(self) -> float:
        return (self.counts[-1] - self.counts[0]) / max(1.0, self.duration_ms) * 3_600_000


def key_growths(
    job: h.JobQueues, *, span_ms: float, factor: float, tau: float, straight: float
) -> h.Iterator[KeyGrowth]:
    """Yield the operators whose number of keys grows steadily, and in a straight line, over the whole input."""
    for stores in h.by_operator(job, KEYS).values():
        size, live = h.files_and_live(stores) or (0.0, 0.0)
        if live and size >= STALE * live:
            continue  # the estimate counts each version of a key
        growth = _growth_of(stores)
        if growth is None or growth.duration_ms < span_ms:
            continue
        before, _, after = fifth_medians(growth.counts)
        if (
            after >= factor * max(1.0, before)
            and kendall(growth.counts) >= tau
            and is_straight(growth.counts, straight)
        ):
            yield growth


def _growth_of(stores: list[h.Store]) -> KeyGrowth | None:
    """Return the total number of keys at each sample of the largest store, once all stores have reported."""
    largest = max(stores, key=lambda store: store.latest(KEYS) or 0.0)
    points = sorted(
        (
            (point.until_us, store is largest, store.key, point.last)
            for store in stores
            for point in store.metrics[KEYS].points
            if point.last is not None
        ),
        key=lambda point: point[:2],
    )
    latest: dict[SubtaskKey, float] = {}
    sums: list[tuple[int, float]] = []
    for time_us, is_largest, key, keys in points:
        latest[key] = keys
        if is_largest and len(latest) == len(stores):
            sums.append((time_us, sum(latest.values())))
    if len(sums) < FEWEST:
        return None
    return KeyGrowth(
        largest=largest,
        state=largest.metrics[KEYS].family,
        counts=[keys for _, keys in sums],
        first_us=sums[0][0],
        last_us=sums[-1][0],
    )
