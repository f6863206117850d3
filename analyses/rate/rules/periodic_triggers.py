"""Every so many batches one takes longer.

What it reports
---------------
Triggers that take longer at regular distances: which batches, how much longer, and whether the
merging of metadata files explains it.

Why it matters
--------------
It is no overload. The sink of files merges its log of written files into one with every tenth batch,
and the source of files its own: that batch is as much longer as there are files.

How it decides
--------------
Batches whose number leaves the same remainder take `ratio` times the median, and 200 ms longer at
least, three times or more, and no others do. It is the merging where the distance is `compactInterval` (the
driver's log, the configuration, or Spark's ten) and the batch is the last of its ten.

What to do
----------
Nothing, while the batch behind it is in time again. Where they become longer and longer: a longer
`compactInterval`, `retention` of the sink's log, or a table format without such a log.

False alarms
------------
A job of another application that runs as regularly.
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
from flowdiag.analyses.flink.judging import duration_text
from flowdiag.analyses.rate import judging as j
from flowdiag.analyses.rate import state as rate_state
from flowdiag.analyses.rate.facts import ApplicationFacts, QueryFacts
from flowdiag.analyses.rate.state import Assessed, Periodic
from flowdiag.analyses.rule import Limits, Rule, limit

_SINK: Final = "spark.sql.streaming.fileSink.log.compactInterval"
_SOURCE: Final = "spark.sql.streaming.fileSource.log.compactInterval"
_DEFAULT: Final = "10"


class PeriodicTriggersLimits(Limits):
    """What RT408 compares with."""

    ratio: float = limit(rate_state.PERIODIC, "ratio", "of the usual length")


def judge(assessed: Assessed, limits: PeriodicTriggersLimits) -> Iterator[Finding | Inconclusive]:
    """One note per query with such batches."""
    for query, state in assessed.queries:
        if state.periodic is not None:
            yield _finding(assessed, query, state.periodic, limits.ratio)


def merging(app: ApplicationFacts, query: QueryFacts, found: Periodic) -> str | None:
    """The option of the log whose merging explains it; None where none does."""
    if found.phase != found.every - 1:
        return None
    last = query.triggers[-1]
    told = {r.fields.get("batches") for r in app.incidents if r.template == "compact-interval"}
    of_sink = "FileSink" in (last.sink or "")
    of_source = any("FileStreamSource" in (s.get("name") or "") for s in last.sources)
    for option, present in ((_SINK, of_sink), (_SOURCE, of_source)):
        wanted = {app.settings.get(option, _DEFAULT), *told}
        if present and str(found.every) in wanted:
            return option
    return None


def _finding(assessed: Assessed, query: QueryFacts, found: Periodic, limit: float) -> Finding:
    app = assessed.app
    option = merging(app, query, found)
    of = {_SINK: "the log of its file sink", _SOURCE: "the log of its file source"}
    why = f"it merges {of[option]}" if option else "the input does not say why"
    slow = [t for t in query.triggers if t.batch in found.batches]
    return Finding(
        job=assessed.key,
        severity=Severity.INFO,
        state=State.ONGOING,
        subject=j.query_subject(app, query),
        title=(
            f"Every {found.every}th batch of query {query.name or query.id} takes "
            f"{duration_text(found.long_ms)} instead of {duration_text(found.usual_ms)}: {why}"
        ),
        explain="No overload: the batches behind them are as short as the others.",
        cause=None,
        rank=Rank.CONSEQUENCE,
        option=option,
        first_us=slow[0].time_us if slow else None,
        last_us=slow[-1].time_us if slow else None,
        count=max(1, len(slow)),
        measurements=(
            Measurement(
                name="ratio",
                value=round(found.long_ms / max(1.0, found.usual_ms), 2),
                unit="ratio",
                threshold=limit,
                population=f"{len(found.batches)} batches, each the {found.every}th",
            ),
        ),
        evidence=j.of_triggers(slow),
        actions=(
            Action(
                text="Nothing to do while they are in time; merge less often if they grow",
                option=option,
                current=(app.settings.get(option) or f"{_DEFAULT} (default)") if option else None,
                verify="duration of these batches",
            ),
        ),
    )


RULE: Final = Rule("RT408", judge, PeriodicTriggersLimits)
