"""A limit per trigger lets through less than comes in.

What it reports
---------------
A query whose triggers always take as much as a limit per trigger permits, and have time left.

Why it matters
--------------
The limit, not the job, decides the throughput: the source piles up behind it.

How it decides
--------------
Files: the source logs `maxFilesPerTrigger` and how many new files each trigger took; `share` of the
present took as many as permitted. Other sources: a backlog stays behind `behind` of the triggers, and
`share` of all read `same` of the most rows that one read, or more. And the triggers end well before
the next one.

What to do
----------
Raise the limit until triggers take about half of their interval.

False alarms
------------
A limit that smooths the first triggers after a start: they are left out once the backlog is worked
off.
"""

from __future__ import annotations

from flowdiag.analyses.rate import helpers as h


class Capped(h.Limits):
    """What RT403 compares with."""

    share: float = h.limit(h.defaults.NARROW, "share", "of the late triggers, filled up")
    behind: float = h.limit(
        h.defaults.MOSTLY, "share", "of the late triggers, with a backlog behind"
    )
    same: float = h.limit(
        h.defaults.SAME, "share", "of the most rows that one read: it read as many"
    )


def judge(assessed: h.Assessed, limits: Capped) -> h.Iterator[h.Finding | h.Inconclusive]:
    """One finding per query that a limit holds back."""
    for query, state in assessed.queries:
        pauses = state.stability in (
            h.Stability.THROTTLED,
            h.Stability.STABLE,
            h.Stability.BORDERLINE,
        )
        if query.real_time or not pauses:
            continue
        caps = h.triggers.query_caps(
            query,
            h.triggers.timed_triggers(query),
            overcounted=state.rows_overcounted,
            filled=limits.share,
            behind=limits.behind,
            same=limits.same,
        )
        if caps:
            yield _finding(assessed, query, state, caps[0], limits)


def _option(query: h.QueryFacts, kind: str) -> str | None:
    if kind == "files":
        return "maxFilesPerTrigger"
    names = " ".join(source.get("name", "") for t in query.triggers[-1:] for source in t.sources)
    return "maxOffsetsPerTrigger" if "Kafka" in names else None


def _finding(
    assessed: h.Assessed,
    query: h.QueryFacts,
    state: h.StreamState,
    cap: h.defaults.Cap,
    limits: Capped,
) -> h.Finding:
    app, option = assessed.app, _option(query, cap.kind)
    late = h.late_triggers(query.triggers)
    use = h.fmt.percent(state.use) if state.use is not None else "an unknown part"
    current, more = None, None
    if cap.kind == "files":
        current = str(query.file_limit)
        if query.file_limit and state.use:
            more = max(query.file_limit + 1, int(query.file_limit * 0.6 / state.use))
    told = (option or "a limit per trigger") + (f" = {current}" if current else "")
    return h.trigger_finding(
        assessed,
        query,
        late,
        subject=h.option_subject(app, option) if option else h.query_subject(app, query),
        title=f"{h.fmt.percent(cap.share)} of the triggers of {query.label} take all that {told} "
        f"permits, in {use} of the interval",
        explain="More is there than the limit lets through, and the triggers have time left.",
        why=f"{told} lets through less than comes in",
        cause="max-rate",
        rank=h.Rank.ROOT_CAUSE,
        option=option,
        count=round(cap.share * len(late)),
        measurements=(
            h.measurement("triggers-at-limit", round(cap.share, 3), "share", limits.share),
            h.measurement("use", h.round_or_none(state.use), "share"),
        ),
        actions=(
            h.Action(
                text="Raise the limit until triggers take about half of their interval",
                option=option,
                current=h.Present(current) if current else None,
                proposed=h.write(option, more) if option and more else None,
                measure=None if more else "rows per second of a trigger: half of what is possible",
                restart_needed=True,
                verify="rows per trigger, and triggerExecution against the interval",
            ),
        ),
    )


RULE = h.Rule("RT403", judge, Capped, causes=("max-rate",))
