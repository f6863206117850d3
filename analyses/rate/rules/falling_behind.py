"""Batches or triggers fall behind.

What it reports
---------------
An application whose batches wait longer and longer: the delay in intervals, its growth, its start, and
the length of the queue. A query whose triggers take longer than their interval, read more each time
because each takes longer, or leave a growing backlog.

Why it matters
--------------
Results arrive later and later. Queued blocks of receivers fill the executors' memory, and records that
wait in a topic are lost when its retention ends.

How it decides
--------------
The present is the last third of the completed batches or triggers, at least twelve, without the cold
ones at the start.

Batches: the delay is the wait of the last batches, or the age of the oldest queued batch. The
application is overloaded if the delay rises by a robust slope (Theil-Sen and Mann-Kendall), by `rise`
intervals or more, and has reached `delay` intervals. It is also overloaded above `lost` intervals if the
delay does not fall and either batches overrun or as many are queued. From `failing` intervals on, the
finding is critical. If the input ends after a few overruns with a short delay, the result is
inconclusive (the first half of spark/3.5.7/overloaded). A delay of `failing` intervals that is drained,
after `before` batches on time, is a recovered finding. With back pressure and fewer than `settled`
batches on time, the estimator was still finding its rate: that is a note.

Triggers: the trigger interval comes from `--trigger-interval`, the driver's log, or the grid of starts.
More than `overrun` of the triggers and their median exceed it, and no pause follows them
(spark/4.3.0/query-no-interval-stable has pauses). Without a known interval, durations rise by a robust slope, or rows
arrive `faster` times as fast as they are processed while triggers grow. A rising backlog (latest minus
end offsets) also counts. In real-time mode (`--real-time`, the configuration, the driver's log) only the
backlog counts. If triggers merely resemble that mode, the result is inconclusive. `Once` and
`AvailableNow` never match: their rates are equal. From `failing` intervals per trigger on, the finding
is critical.

The confidence is low with fewer than `few` batches or triggers, unless the last one is the worst. Fewer
triggers below one and a half intervals may be a start: the result is inconclusive. The word `stability`
in the report's data follows the defaults, not the configured limits.

What to do
----------
Check RT301 to RT304 for a single slow part. Otherwise add cores and as many blocks or partitions, or
enable back pressure. Use a longer interval if each batch or trigger has a high fixed cost. A limit of
rows per trigger keeps triggers short, but does not raise the throughput.

False alarms
------------
A long pause of the driver, or a restart that works off a backlog: the delay falls again, and the finding
is recovered at most.
"""

from __future__ import annotations

from flowdiag.analyses.rate import helpers as h
from flowdiag.analyses.rate.overload import batches, queries


class Late(h.Limits):
    """Limits of RT101."""

    delay: float = h.limit(h.defaults.GROWN, "intervals", "a single long batch delays by less")
    rise: float = h.limit(h.defaults.RISE, "intervals", "over the recent batches; less is noise")
    lost: float = h.limit(h.defaults.LOST, "intervals", "no batch makes up for that on its own")
    few: float = h.limit(h.defaults.LATE, "batches", "fewer may be a start that catches up")
    before: float = h.limit(3, "batches", "on time before an overload that is over")
    settled: float = h.limit(
        h.defaults.LATE, "batches", "on time; the estimator needs late batches to find its rate"
    )
    failing: float = h.limit(
        h.defaults.FAILING_DELAY, "intervals", "ten queued batches are more than a burst"
    )
    overrun: float = h.limit(h.defaults.MOSTLY, "share", "of the triggers; single ones are bursts")
    faster: float = h.limit(h.defaults.FASTER, "ratio", "of arrival to processing rate")


def judge(assessed: h.Assessed, limits: Late) -> h.Iterator[h.Finding | h.Inconclusive]:
    """Yield one finding per application and query that falls behind."""
    for state in assessed.dstreams:
        if state.stability is h.Stability.INCONCLUSIVE:
            remedy = "flowdiag listener export DIR writes a listener that records batches"
            yield h.Inconclusive(reason=state.because, remedy=remedy, job=assessed.key)
        elif h.batches.overloaded(state, delay=limits.delay, rise=limits.rise, lost=limits.lost):
            yield batches.late_batches(
                assessed, state, failing=limits.failing, few=limits.few, delay=limits.delay
            )
        elif past := batches.drained_overload(
            assessed,
            state,
            failing=limits.failing,
            before=limits.before,
            settled=limits.settled,
        ):
            yield past
    for query, state in assessed.queries:
        if state.stability is h.Stability.INCONCLUSIVE:
            yield queries.inconclusive(assessed, query, state)
        elif state.stability not in (h.Stability.FAILING, h.Stability.IDLE):
            late = h.triggers.timed_triggers(query)
            because = h.triggers.falling_behind(
                state, query, late, overrun=limits.overrun, faster=limits.faster
            )
            if because is not None:
                yield queries.late_query(
                    assessed, query, state, because, failing=limits.failing, few=limits.few
                )


RULE = h.Rule("RT101", judge, Late, core=True, causes=("overloaded",))
