"""The data that the batches of a DStream application keep in memory grows without bound.

What it reports
---------------
A DStream application whose batches cache more and more data, as `updateStateByKey` and `mapWithState` do if no key
is ever removed.

Why it matters
--------------
Each batch copies the whole state. Batches take longer and longer until an executor runs out of memory, or writes
the state to disk.

How it decides
--------------
The rule adds up the blocks that each batch caches, according to the log lines of the memory store, and takes the
largest RDD of each batch. It judges the later half of the batches, at least `batches`. Their sizes must follow a
rising robust trend, grow by at least `growth`, and shrink in at most `decreases` of the steps. The last size is at least
`floor`. If the records per batch rise as well, the sizes must grow `growth-ratio` times as much.

False alarms
------------
After a start, the set of keys may still grow and level off later, and a window may still be filling. Check whether
the growth slows down.
"""

from bisect import bisect_right
from itertools import pairwise

from flowdiag.analyses.rate import helpers as h
from flowdiag.analyses.rate.stability import trend


class Limits(h.Limits):
    batches: float = h.limit(
        12, "batches", "minimum number of batches; the first batches fill the cache"
    )
    growth: float = h.limit(
        0.1, "share", "minimum growth of the cache over the second half of the batches"
    )
    decreases: float = h.limit(
        0.1, "share", "maximum share of decreases; the data of single batches fluctuates"
    )
    floor: float = h.limit(
        1 << 20, "bytes", "minimum size of the cache; smaller caches fit on any executor"
    )
    growth_ratio: float = h.limit(
        2, "times", "minimum ratio of growth to input growth; the cache holds input records"
    )


def _cached_by_batch(app: h.ApplicationFacts) -> list[tuple[h.Batch, int]]:
    """Return each batch that cached an RDD, with the bytes of its largest RDD."""
    batches = sorted(app.completed, key=lambda batch: batch.start_ms or batch.time_ms)
    starts = [batch.start_ms or batch.time_ms for batch in batches]
    largest: dict[int, int] = {}
    for cached in app.cached:
        place = bisect_right(starts, cached.time_ms) - 1
        if place >= 0:
            largest[place] = max(largest.get(place, 0), cached.bytes)
    return [(batches[place], size) for place, size in sorted(largest.items())]


def judge(assessed: h.AssessedApplication, limits: Limits) -> h.Results:
    """Yield one finding per application whose cached data grows."""
    app = assessed.app
    kept = _cached_by_batch(app)
    late = kept[len(kept) // 2 :]
    if len(late) < max(2, limits.batches):
        return
    sizes = [float(size) for _, size in late]
    first, last = sizes[0], sizes[-1]
    falls = sum(after < before for before, after in pairwise(sizes))
    slope = trend([batch.time_ms / 1000 for batch, _ in late], sizes)
    if slope is None or not slope.is_rising or last < limits.floor:
        return
    if last - first < limits.growth * first or falls > limits.decreases * (len(sizes) - 1):
        return
    counts = [batch.records for batch, _ in late if batch.records]
    if (
        counts
        and last / max(1.0, first)
        < limits.growth_ratio * counts[-1] / counts[0]
        > limits.growth_ratio
    ):
        return
    span = h.fmt.duration(late[-1][0].time_ms - late[0][0].time_ms)
    yield h.batch_finding(
        assessed,
        [batch for batch, _ in late],
        title=f"The data that each batch caches grew to {h.fmt.size(last)}, by "
        f"{h.fmt.percent((last - first) / max(1.0, first))} within {span}, and does not shrink",
        explain=f"At this rate it doubles in {h.fmt.duration(last / slope.slope * 1000)}. State of a DStream grows "
        "like this if no key is ever removed.",
        why=f"its cached data grows by {h.fmt.size(slope.slope)} per second and does not shrink",
        cause="growing-state",
        rank=h.Rank.ROOT_CAUSE,
        measurements=(
            h.measurement("cache-size", round(last), "bytes", limits.floor),
            h.measurement(
                "growth", round((last - first) / max(1.0, first), 3), "share", limits.growth
            ),
        ),
        actions=h.remedies("growing-state", app, "keys"),
    )


RULE = h.Rule("RT109", judge, Limits, causes=("growing-state",), needs="batches")
