"""Some batches take longer at regular distances.

What it reports
---------------
Triggers that take longer at regular distances: which batches, how much longer, and whether merging of
metadata files explains it.

Why it matters
--------------
It is not an overload. The file sink merges its log of written files with every tenth batch, and the file
source its own. That batch takes longer the more files there are.

How it decides
--------------
Batches whose ID leaves the same remainder take `ratio` times the median, and at least `longer` more, at
least `times` times. No other batches do. The cause is merging if the distance is `compactInterval` (the
driver's log, the configuration, or Spark's ten) and the batch is the last of its ten.

What to do
----------
No action is needed while the next batch is on time. If the long batches grow, use a longer
`compactInterval`, set a `retention` of the sink's log, or use a table format without such a log.

False alarms
------------
A job of another application that runs at the same distance.
"""

from __future__ import annotations

from typing import Final

from flowdiag.analyses.rate import helpers as h

_SINK: Final = "spark.sql.streaming.fileSink.log.compactInterval"
_SOURCE: Final = "spark.sql.streaming.fileSource.log.compactInterval"
_DEFAULT: Final = "10"
_LOGS: Final = {_SINK: "the log of its file sink", _SOURCE: "the log of its file source"}


class Regular(h.Limits):
    """Limits of RT408."""

    ratio: float = h.limit(h.defaults.PERIODIC, "ratio", "to the median duration")
    longer: float = h.limit(h.defaults.LONGER_MS, "ms", "than the median; less is noise")
    times: float = h.limit(h.defaults.TIMES, "times", "any two have some distance")


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
        option = merge_option(assessed.app, query, found)
        reason = f"it merges {_LOGS[option]}" if option else "the input does not show why"
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
            explain="This is not an overload: the batches after it are as short as the others.",
            cause=None,
            rank=h.Rank.CONSEQUENCE,
            option=option,
            measurements=(h.measurement("ratio", ratio, "ratio", limits.ratio, over=over),),
            actions=(
                h.Action(
                    text="No action is needed while the batches are on time. Merge less often if "
                    "they grow",
                    verify="duration of these batches",
                ),
            ),
        )


def merge_option(
    app: h.ApplicationFacts, query: h.QueryFacts, found: h.defaults.Periodic
) -> str | None:
    """Return the option of the log whose merging explains the long batches, or None."""
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
