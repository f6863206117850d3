"""Batches or triggers fall behind.

What it reports
---------------
An application whose batches wait longer and longer. The finding shows the delay in intervals, when and
how fast it grows, and the number of queued batches.

A query whose triggers take longer than their interval, read more rows each time because each trigger
takes longer, or leave a growing backlog.

Why it matters
--------------
Results arrive later and later. Queued blocks of receivers fill the memory of the executors. Records that
wait in a topic are lost when its retention ends.

How it decides
--------------
The rule evaluates the last third of the completed batches or triggers, but at least twelve. It skips the first,
cold batches and triggers.

Batches: The delay is the wait of the last batches, or the age of the oldest queued batch if that is
higher. The application is overloaded if the delay follows a rising robust trend (Theil-Sen and
Mann-Kendall), rises by at least `delay-growth` intervals, and has reached `delay` intervals. It is also
overloaded if the delay is at least `high-delay` intervals and does not fall, while batches overrun or at least
`high-delay` batches are queued. From `critical-delay` intervals on, the finding is critical.

If the input ends after a few overruns with a short delay, the result is inconclusive (example: the first half of
spark/3.5.7/overloaded). The finding is recovered if the application has worked off a delay of at least `critical-delay`
intervals, and at least `on-time` batches were on time before the delay. With back pressure and fewer than `settling`
batches on time, a recovered finding is only a note, because the estimator was still adjusting the rate. The same
applies to a query whose triggers overran for at least `critical-delay` intervals in a row, with at least `on-time`
triggers on time before and after. A log at WARN only contains late triggers: there, a long silence must follow them.

Triggers: The trigger interval comes from `--trigger-interval`, the driver's log, or the regular pattern of start
times. The query is overloaded if the median trigger and more than `overrun-share` of the triggers take longer than the
interval, and no pause follows them (in spark/4.3.0/query-no-interval-stable, pauses follow). If the overload has just
begun, the last four triggers are enough if each overruns and takes longer than the one before. Without a known
interval, the query is overloaded if the durations follow a rising robust trend. It is also overloaded if rows
arrive at least `arrival-ratio` times as fast as they are processed while triggers read more and more rows. A growing
backlog (latest offsets minus end offsets) also counts, unless a limit on the rows per trigger explains the growth.

Two triggers are enough if the second takes at least five intervals and rows arrive at least twice as fast as it
processes them. The confidence is then low.

In real-time mode (`--real-time`, the configuration, or the driver's log), only the backlog counts. If triggers
merely look like that mode, the result is inconclusive. Queries with the triggers `Once` and `AvailableNow` never
match, because their input and processing rates are equal. If the last trigger takes at least `critical-delay` intervals,
the finding is critical.

The confidence is low with fewer than `late-batches` batches or triggers, unless the last one is the slowest. A few
triggers that take less than one and a half intervals may be a normal start, so the result is
inconclusive. The `stability` field in the report's data uses the default limits, not the configured ones.

What to do
----------
Check the findings of RT301 to RT304 for a single slow component. Otherwise, add cores and at least as many blocks
or partitions, or enable back pressure. Use a longer interval if each batch or trigger has a high fixed cost. A
limit on rows per trigger keeps triggers short but does not raise the throughput.

False alarms
------------
A long pause of the driver, or a restart with a backlog, also causes a delay. In both cases the delay falls again,
so the finding is reported as recovered.
"""

from flowdiag.analyses.rate import helpers as h
from flowdiag.analyses.rate.overload import batches, queries


class Limits(h.Limits):
    delay_growth: float = h.limit(
        h.defaults.RISE, "intervals", "minimum growth of the scheduling delay; less growth is noise"
    )
    high_delay: float = h.limit(
        h.defaults.LOST, "intervals", "minimum delay without growth; a single batch causes less"
    )
    late_batches: float = h.limit(
        h.defaults.LATE, "batches", "minimum number for high confidence; a slow start has fewer"
    )
    on_time: float = h.limit(3, "batches", "minimum number of batches on time before the overload")
    settling: float = h.limit(
        h.defaults.LATE, "batches", "number of batches on time after which the rate has settled"
    )
    critical_delay: float = h.limit(
        h.defaults.FAILING_DELAY, "intervals", "minimum delay that is critical; bursts cause less"
    )
    overrun_share: float = h.limit(
        h.defaults.MOSTLY, "share", "minimum share of triggers that overrun; bursts cause few"
    )
    arrival_ratio: float = h.limit(
        h.defaults.FASTER, "ratio", "minimum ratio of the arrival rate to the processing rate"
    )
    delay: float = h.delay_limit()


def judge(assessed: h.AssessedApplication, limits: Limits) -> h.Results:
    """Yield one finding per application or query that falls behind."""
    for state in assessed.dstreams:
        if state.stability is h.Stability.INCONCLUSIVE:
            yield h.Inconclusive(
                reason=state.because, checks=("later-batches", "listener"), job=assessed.key
            )
        elif h.batches.is_overloaded(
            state, delay=limits.delay, rise=limits.delay_growth, lost=limits.high_delay
        ):
            yield batches.late_batches(
                assessed,
                state,
                failing=limits.critical_delay,
                few=limits.late_batches,
                delay=limits.delay,
            )
        elif past := batches.drained_overload(
            assessed,
            state,
            failing=limits.critical_delay,
            before=limits.on_time,
            settled=limits.settling,
        ):
            yield past
    for query, state in assessed.queries:
        past_query = queries.past_late_query(
            assessed, query, state, failing=limits.critical_delay, before=limits.on_time
        )
        if query.ended_overload and past_query:
            yield past_query
        elif state.stability is h.Stability.INCONCLUSIVE:
            yield queries.inconclusive_query(assessed, query, state)
        elif state.stability not in (h.Stability.FAILING, h.Stability.IDLE):
            late = h.triggers.timed_triggers(query)
            because = h.triggers.falling_behind(
                state, query, late, overrun=limits.overrun_share, faster=limits.arrival_ratio
            )
            if because is not None:
                yield queries.late_query(
                    assessed,
                    query,
                    state,
                    because,
                    failing=limits.critical_delay,
                    few=limits.late_batches,
                )
            elif past_query:
                yield past_query


RULE = h.Rule(
    "RT101",
    judge,
    Limits,
    core=True,
    causes=("overloaded",),
    needs="work",
    severity=h.Severity.CRITICAL,
)
