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
Batches whose number leaves the same remainder take `ratio` times the median, and `longer` more at
least, `times` times or more, and no others do. It is the merging where the distance is
`compactInterval` (the driver's log, the configuration, or Spark's ten) and the batch is the last of
its ten.

What to do
----------
Nothing, while the batch behind it is in time again. Where they become longer and longer: a longer
`compactInterval`, `retention` of the sink's log, or a table format without such a log.

False alarms
------------
A job of another application that runs as regularly.
"""

from __future__ import annotations

from typing import Final

from flowdiag.analyses.rate import helpers as h

_SINK: Final = "spark.sql.streaming.fileSink.log.compactInterval"
_SOURCE: Final = "spark.sql.streaming.fileSource.log.compactInterval"
_DEFAULT: Final = "10"


class Regular(h.Limits):
    """What RT408 compares with."""

    ratio: float = h.limit(h.defaults.PERIODIC, "ratio", "of the usual length")
    longer: float = h.limit(h.defaults.LONGER_MS, "ms", "than the usual ones: less is noise")
    times: float = h.limit(h.defaults.TIMES, "times", "two are at some distance in any case")


def judge(assessed: h.Assessed, limits: Regular) -> h.Iterator[h.Finding | h.Inconclusive]:
    """One note per query with such batches."""
    for query, state in assessed.queries:
        if query.real_time or state.stability is h.Stability.FAILING:
            continue
        timed = [t for t in query.triggers if t.duration_ms is not None]
        found = h.triggers.periodic(
            timed, ratio=limits.ratio, longer_ms=limits.longer, times=limits.times
        )
        if found is not None:
            yield _finding(assessed, query, found, limits)


def merging(app: h.ApplicationFacts, query: h.QueryFacts, found: h.defaults.Periodic) -> str | None:
    """The option of the log whose merging explains it; None where none does."""
    if found.phase != found.every - 1:
        return None
    last = query.triggers[-1]
    told = {r.fields.get("batches") for r in app.incidents if r.template == "compact-interval"}
    of_sink = "FileSink" in (last.sink or "")
    of_source = any("FileStreamSource" in (s.get("name") or "") for s in last.sources)
    for option, there in ((_SINK, of_sink), (_SOURCE, of_source)):
        wanted = {app.settings.get(option, _DEFAULT), *told}
        if there and str(found.every) in wanted:
            return option
    return None


def _finding(
    assessed: h.Assessed, query: h.QueryFacts, found: h.defaults.Periodic, limits: Regular
) -> h.Finding:
    app = assessed.app
    option = merging(app, query, found)
    of = {_SINK: "the log of its file sink", _SOURCE: "the log of its file source"}
    why = f"it merges {of[option]}" if option else "the input does not say why"
    return h.trigger_finding(
        assessed,
        query,
        [t for t in query.triggers if t.batch in found.batches],
        severity=h.Severity.INFO,
        title=f"Every {found.every}th batch of {query.label} takes "
        f"{h.fmt.duration(found.long_ms)} instead of {h.fmt.duration(found.usual_ms)}: {why}",
        explain="No overload: the batches behind them are as short as the others.",
        cause=None,
        rank=h.Rank.CONSEQUENCE,
        option=option,
        measurements=(
            h.measurement(
                "ratio",
                round(found.long_ms / max(1.0, found.usual_ms), 2),
                "ratio",
                limits.ratio,
                over=f"{len(found.batches)} batches, each the {found.every}th",
            ),
        ),
        actions=(
            h.Action(
                text="Nothing to do while they are in time; merge less often if they grow",
                verify="duration of these batches",
            ),
        ),
    )


RULE = h.Rule("RT408", judge, Regular)
