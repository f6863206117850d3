"""A limit per trigger lets through less than comes in.

What it reports
---------------
A query whose triggers always take as much as a limit per trigger permits, and have time left.

Why it matters
--------------
The limit, not the job, decides the throughput: the source piles up behind it.

How it decides
--------------
Files: the source logs `maxFilesPerTrigger` and how many new files each trigger took; four fifths of
the present took as many as permitted. Other sources: a backlog stays behind most triggers, which
all read the same number of rows. And the triggers end well before the next one.

What to do
----------
Raise the limit until triggers take about half of their interval.

False alarms
------------
A limit that smooths the first triggers after a start: they are left out once the backlog is worked
off.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from flowdiag.analyses.finding import (
    Action,
    Finding,
    Inconclusive,
    Measurement,
    Rank,
    Severity,
    State,
)
from flowdiag.analyses.rate import judging as j
from flowdiag.analyses.rate import state as rate_state
from flowdiag.analyses.rate.facts import QueryFacts
from flowdiag.analyses.rate.stability import Stability
from flowdiag.analyses.rate.state import Assessed, StreamState
from flowdiag.analyses.rule import Limits, Rule, limit


class CappedQueryLimits(Limits):
    """What RT403 compares with."""

    share: float = limit(rate_state.NARROW, "share", "of the late triggers, filled up")


def judge(assessed: Assessed, limits: CappedQueryLimits) -> Iterator[Finding | Inconclusive]:
    """One finding per query that a limit holds back."""
    for query, state in assessed.queries:
        if state.caps and state.stability is Stability.THROTTLED:
            yield _finding(assessed, query, state)


def _option(query: QueryFacts, kind: str) -> str | None:
    if kind == "files":
        return "maxFilesPerTrigger"
    names = " ".join(source.get("name", "") for t in query.triggers[-1:] for source in t.sources)
    return "maxOffsetsPerTrigger" if "Kafka" in names else None


def _finding(assessed: Assessed, query: QueryFacts, state: StreamState) -> Finding:
    app, cap = assessed.app, state.caps[0]
    option = _option(query, cap.kind)
    limit = option or "a limit per trigger"
    current = str(query.file_limit) if cap.kind == "files" else None
    late = rate_state.late_triggers(query.triggers)
    use = f"{state.use:.0%}" if state.use is not None else "an unknown part"
    proposed = None
    if query.file_limit and state.use and cap.kind == "files":
        proposed = str(max(query.file_limit + 1, int(query.file_limit * 0.6 / state.use)))
    subject = j.option_subject(app, option) if option else j.query_subject(app, query)
    return Finding(
        job=assessed.key,
        severity=Severity.WARNING,
        state=State.ONGOING,
        subject=subject,
        title=(
            f"{cap.share:.0%} of the triggers of query {query.name or query.id} take all that {limit}"
            + (f" = {current}" if current else "")
            + f" permits, in {use} of the interval"
        ),
        explain="More is there than the limit lets through, and the triggers have time left.",
        why=f"{limit}{' = ' + current if current else ''} lets through less than comes in",
        cause="max-rate",
        rank=Rank.ROOT_CAUSE,
        option=option,
        first_us=late[0].time_us,
        last_us=late[-1].time_us,
        count=round(cap.share * len(late)),
        measurements=(
            Measurement(
                name="triggers-at-limit",
                value=round(cap.share, 3),
                unit="share",
                threshold=rate_state.NARROW,
            ),
            Measurement(
                name="use", value=None if state.use is None else round(state.use, 3), unit="share"
            ),
        ),
        evidence=j.of_triggers(late),
        actions=(
            Action(
                text="Raise the limit until triggers take about half of their interval",
                option=option,
                current=current,
                proposed=proposed,
                restart_needed=True,
                verify="rows per trigger, and triggerExecution against the interval",
            ),
        ),
    )


RULE: Final = Rule("RT403", judge, CappedQueryLimits)
