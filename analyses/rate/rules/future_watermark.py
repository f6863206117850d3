"""The watermark is ahead of the clock, or event times have the wrong unit or time zone.

What it reports
---------------
A query whose newest event lies in the future. Typical reasons are a single wrong date, milliseconds that Spark
reads as seconds, and local times that Spark reads as UTC. The rule also reports a query whose event times are all
too small by the same factor.

Why it matters
--------------
A watermark never moves back, not even after a restart, because the checkpoint contains it. Until the clock reaches
the watermark, the query drops each row with a correct time as late. With the wrong unit, windows have wrong dates
and wrong lengths.

How it decides
--------------
`eventTime.max` of a trigger is at least `ahead` later than the end of the trigger. If this is true for one batch
but not for earlier batches, the finding names this batch. With at least `min-triggers` triggers with events, the rule
also looks for a systematic mistake, and compares each event time with the clock. If the times differ by a factor
of 1,000 or a million in either direction, with a deviation of at most `ratio`, the unit is wrong. If they are
ahead by a constant multiple of 15 minutes, with a deviation of at most `jitter`, the time zone is wrong. They may also
be behind the start of each trigger by full hours for at least 20 s. From three hours on, this may be a multiple of half
an hour, and from five hours on, of 15 minutes. Triggers that are more than 15 minutes apart do not count.

The finding is recovered once the clock has passed the watermark, or after a start with a new checkpoint. It is
critical while operators drop rows because of the watermark.

False alarms
------------
A column may contain both past events and events that are planned for the future. A source may deliver its events late
by exactly a few hours.
"""

from flowdiag.analyses.rate import event_time as e
from flowdiag.analyses.rate import helpers as h


class Limits(h.Limits):
    ahead: float = h.limit(
        e.AHEAD_MS, "ms", "minimum lead over the clock; clocks rarely differ by minutes"
    )
    ratio: float = h.limit(
        0.02, "share", "maximum deviation from a factor of 1,000 or a million, as in a wrong unit"
    )
    jitter: float = h.limit(
        60_000, "ms", "maximum deviation from a multiple of 15 minutes, as in a wrong time zone"
    )
    min_triggers: float = h.limit(
        3, "triggers", "minimum number of triggers; fewer may agree by chance"
    )


def judge(assessed: h.AssessedApplication, limits: Limits) -> h.Results:
    """Yield at most one finding per query."""
    for query, _ in assessed.queries:
        timed = [t for t in query.triggers if t.max_event_us is not None or t.watermark_us]
        ahead = [t for t in timed if _is_in_future(t, limits)]
        events = [t for t in timed if t.max_event_us is not None]
        mistake = e.mistake_of(
            events, fewest=limits.min_triggers, ratio=limits.ratio, jitter_ms=limits.jitter
        )
        if mistake is not None:
            yield _wrong_times_finding(assessed, query, events, mistake)
        elif ahead:
            yield _jump(assessed, query, ahead[0], limits)


def _is_in_future(trigger: h.Trigger, limits: Limits) -> bool:
    """Return whether a trigger's events or watermark are in the future."""
    newest = trigger.max_event_us
    late = newest is not None and newest > e.end_us(trigger) + limits.ahead * 1000
    return late or e.is_ahead(trigger, limits.ahead)


def _wrong_times_finding(
    assessed: h.AssessedApplication,
    query: h.QueryFacts,
    events: h.Sequence[h.Trigger],
    mistake: e.Mistake,
) -> h.Finding:
    newest = events[-1].max_event_us or 0
    return h.trigger_finding(
        assessed,
        query,
        events,
        title=f"The event times of {query.label} {mistake.clause}",
        why=f"event times {mistake.clause}",
        cause="wrong-event-time",
        rank=h.Rank.ROOT_CAUSE,
        measurements=(
            h.measurement("newest-event", e.day_of(newest), over=f"batch {events[-1].batch}"),
            h.measurement("current-time", e.day_of(e.end_us(events[-1]))),
        ),
        actions=h.remedies("wrong-event-time", assessed.app, conversion=mistake.conversion),
    )


def _jump(
    assessed: h.AssessedApplication, query: h.QueryFacts, first: h.Trigger, limits: Limits
) -> h.Finding:
    newest, mark = first.max_event_us or 0, first.watermark_us or 0
    # The input may begin after the event.
    named = newest > e.end_us(first) + limits.ahead * 1000
    after = [t for t in query.triggers if t.time_us >= first.time_us and not (named and t is first)]
    state = h.State.ONGOING if _is_in_future(query.triggers[-1], limits) else h.State.RECOVERED
    dropped = sum(t.dropped for t in after)
    far = newest if named else mark
    lead_us = far - e.end_us(first)
    title, why = _words(query, first, far, named=named)
    return h.trigger_finding(
        assessed,
        query,
        after if first in after else [first, *after],
        severity=h.grade(state=state, share=1.0, fatal=state is h.State.ONGOING and dropped > 0),
        state=state,
        title=title,
        explain=h.explanation("future-watermark")
        + (e.effect_text(after, dropped) if after else ""),
        why=why,
        cause="future-watermark",
        rank=h.Rank.ROOT_CAUSE,
        measurements=(
            h.measurement("ahead-of-clock", round(lead_us / 1000), "ms", limits.ahead),
            h.measurement("dropped-rows", dropped, "rows", over="counted by stateful operators"),
        ),
        actions=h.remedies(
            "future-watermark", assessed.app, column=query.plan.column or "event_time"
        ),
    )


def _words(query: h.QueryFacts, first: h.Trigger, far: int, *, named: bool) -> tuple[str, str]:
    """Return title and reason, with the batch that contains the event if it is known."""
    batch = "a batch" if first.batch is None else f"batch {first.batch}"
    ahead = f"dated {e.day_of(far)}, {e.lead_text(far - e.end_us(first))} ahead of the clock"
    late = f"is dated {e.day_of(far)}, so rows with correct times are late"
    if named:
        title = f"{h.fmt.capital(batch)} of {query.label} contains an event {ahead}"
        return title, f"an event of {batch} {late}"
    since = batch if first.batch is not None else h.fmt.clock(first.time_us)
    title = (
        f"The watermark of {query.label} is {ahead}: an event that arrived before {since} moved it"
    )
    return title, f"its watermark {late}"


RULE = h.Rule(
    "RT411",
    judge,
    Limits,
    causes=("future-watermark", "wrong-event-time"),
    needs="triggers",
    severity=h.Severity.CRITICAL,
)
