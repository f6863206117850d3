"""Every Nth batch takes longer.

What it reports
---------------
Triggers that take longer in every Nth batch: which batches, how much longer, and whether the compaction of
metadata files explains it.

Why it matters
--------------
It is not an overload. The file sink compacts its metadata log in every tenth batch, and so does the file
source. The more files there are, the longer that batch takes.

How it decides
--------------
At least `times` batches take `ratio` times the median duration and at least `longer` more. The distance
between any two of them is a multiple of N, and most batches at these positions are long. The cause is
compaction if N is `compactInterval` (from the driver's log, the configuration, or Spark's default of 10) and
each long batch is the last of its N.

What to do
----------
No action is needed while the next batch is on time. If the long batches grow, increase
`compactInterval`, set a `retention` for the sink's log, or use a table format without such a log.

False alarms
------------
A job of another application that runs with the same period.
"""

from __future__ import annotations

from typing import Final

from flowdiag.analyses.rate import helpers as h

_SINK: Final = "spark.sql.streaming.fileSink.log.compactInterval"
_SOURCE: Final = "spark.sql.streaming.fileSource.log.compactInterval"
_DEFAULT: Final = "10"
_LOGS: Final = {
    _SINK: "the metadata log of its file sink",
    _SOURCE: "the metadata log of its file source",
}


class Regular(h.Limits):
    """Limits of RT408."""

    ratio: float = h.limit(h.defaults.PERIODIC, "ratio", "to the median duration")
    longer: float = h.limit(h.defaults.LONGER_MS, "ms", "than the median; less is noise")
    times: float = h.limit(h.defaults.TIMES, "times", "any two batches are some distance apart")


def judge(assessed: h.Assessed, limits: Regular) -> h.Iterator[h.Finding | h.Inconclusive]:
    """Yield one note per query with such batches."""
    for query, state in assessed.queries:
        if query.real_time or state.stability is h.Stability.FAILING:
            continue
        timed = [t for t in query.triggers if t.duration_ms is not None]
        found = h.triggers.periodic(
            timed, ratio=limits.ratio, longer_ms=limits.longer, times=limits.times
        )
        if found is None:
            continue
        option = compaction_option(assessed.app, query, found)
        reason = f"it compacts {_LOGS[option]}" if option else "the input does not show why"
        long, usual = h.fmt.duration(found.long_ms), h.fmt.duration(found.usual_ms)
        ratio = round(found.long_ms / max(1.0, found.usual_ms), 2)
        over = f"{len(found.batches)} batches, one in {found.every}"
        yield h.trigger_finding(
            assessed,
            query,
            [t for t in query.triggers if t.batch in found.batches],
            severity=h.Severity.INFO,
            title=f"One in {found.every} batches of {query.label} takes {long} instead of {usual}: "
            f"{reason}",
            explain="This is not an overload: the batches after each long batch are as short as the others.",
            cause=None,
            rank=h.Rank.CONSEQUENCE,
            option=option,
            measurements=(h.measurement("ratio", ratio, "ratio", limits.ratio, over=over),),
            actions=(
                h.Action(
                    text="No action is needed while the batches are on time. Compact less often if "
                    "these batches take longer and longer",
                    verify="duration of these batches",
                ),
            ),
        )


def compaction_option(
    app: h.ApplicationFacts, query: h.QueryFacts, found: h.defaults.Periodic
) -> str | None:
    """Return the option of the log whose compaction explains the long batches, or None."""
    if found.phase != found.every - 1:
        return None
    last = query.triggers[-1]
    logged = {r.fields.get("batches") for r in app.incidents_of("compact-interval")}
    used = {
        _SINK: "FileSink" in (last.sink or ""),
        _SOURCE: any("FileStreamSource" in (s.get("name") or "") for s in last.sources),
    }
    for option in (_SINK, _SOURCE):
        if used[option] and str(found.every) in {app.settings.get(option, _DEFAULT), *logged}:
            return option
    return None


RULE = h.Rule("RT408", judge, Regular)
