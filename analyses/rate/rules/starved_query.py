"""A query waits for the jobs of another query in the same application.

What it reports
---------------
A query whose triggers are long only while another query of the application is running.

Why it matters
--------------
By default, Spark runs jobs in submission order. A short query has to wait for the jobs before it, and a change to its
own code does not help.

How it decides
--------------
A trigger is slow if it takes at least `floor`, and longer than its interval if that is known. The first trigger of a
run does not count. Another query must be running during at least `share` of the slow trigger.

With an event log, the jobs of the slow trigger must take at least `ratio` times as long as all tasks of its longest
stage. The rest is time spent waiting for a core. Without task times, the trigger must start during a trigger of the
other query, and end within `end-gap` of that trigger's end. In that case, at least `fast-triggers` other triggers with
rows must be `ratio` times shorter.

At least `min-triggers` triggers must meet these conditions, and make up at least `wait-share` of the total time of slow
triggers.

False alarms
------------
Without an event log, two queries that wait for the same external service at the same time look the same.
"""

from statistics import median

from flowdiag.analyses.rate import helpers as h
from flowdiag.analyses.rate.detect.starved import Starvation, measured_waits


class Limits(h.Limits):
    floor: float = h.limit(
        1000, "ms", "minimum duration of a trigger; shorter triggers fit into most intervals"
    )
    share: float = h.limit(0.5, "share", "minimum overlap of the trigger with the other query")
    ratio: float = h.limit(
        3,
        "ratio",
        "minimum ratio to a trigger that did not wait; a busy core or more rows explain "
        "smaller ratios",
    )
    end_gap: float = h.limit(
        1500, "ms", "maximum time from the end of the other trigger to the end of this one"
    )
    min_triggers: float = h.limit(
        3, "triggers", "minimum number of slow triggers; two may be a coincidence"
    )
    fast_triggers: float = h.limit(
        2, "triggers", "minimum number of fast triggers without the other query"
    )
    wait_share: float = h.limit(
        0.7, "share", "minimum share of the slow triggers' time spent waiting for the other query"
    )


def judge(assessed: h.AssessedApplication, limits: Limits) -> h.Results:
    """Yield at most one finding per query."""
    starvation = Starvation(
        floor=limits.floor,
        share=limits.share,
        longer=limits.ratio,
        after=limits.end_gap,
        short=limits.fast_triggers,
    )
    for query, _ in assessed.queries:
        slow = starvation.slow(query)
        others = [other for other, _ in assessed.queries if other is not query]
        by_other = [(starvation.starved(query, slow, other), other) for other in others]
        starved, other = max(by_other, key=lambda one: len(one[0]), default=([], query))
        times = [sum(t.duration_ms or 0 for t in some) for some in (starved, slow)]
        if len(starved) >= max(1, limits.min_triggers) and times[0] >= limits.wait_share * times[1]:
            yield _finding(assessed, query, starved, other)


def _finding(
    assessed: h.AssessedApplication,
    query: h.QueryFacts,
    starved: h.Sequence[h.Trigger],
    other: h.QueryFacts,
) -> h.Finding:
    reading = [t for t in query.triggers if t.rows and t.duration_ms]
    fast = [t.duration_ms or 0 for t in reading if t not in starved]
    took = h.fmt.duration(median(t.duration_ms or 0 for t in starved))
    instead = f" instead of {h.fmt.duration(median(fast))}" if fast else ""
    of = f"{len(starved)} of {h.fmt.plural(len(reading), 'trigger')}"
    ongoing = starved[-1] in query.triggers[-max(1, len(query.triggers) // 3) :]
    state = h.State.ONGOING if ongoing else h.State.RECOVERED
    waits = [*measured_waits(starved)]
    return h.trigger_finding(
        assessed,
        query,
        starved,
        severity=h.grade(state=state, share=len(starved) / len(reading)),
        state=state,
        title=f"{h.fmt.capital(query.label)} waits for the jobs of {other.label}: {of} took {took}{instead}",
        why=f"its jobs wait until the tasks of {other.label} have freed a core",
        cause="starved-query",
        confidence=h.Confidence.HIGH if waits else h.Confidence.MEDIUM,
        rank=h.Rank.ROOT_CAUSE,
        measurements=(
            h.measurement("starved-triggers", len(starved), "triggers", over=of),
            *waits,
        ),
        actions=h.remedies("starved-query", assessed.app),
    )


RULE = h.Rule("RT413", judge, Limits, causes=("starved-query",), needs="triggers")
