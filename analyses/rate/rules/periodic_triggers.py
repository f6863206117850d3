"""Every Nth batch takes longer.

What it reports
---------------
A query in which every Nth batch takes longer. The report lists these batches, and shows how much longer they take and
whether the compaction of metadata files is the reason.

Why it matters
--------------
This is not an overload. By default, file sinks and file sources compact their metadata log in every tenth batch.
The more files the log lists, the longer that batch takes.

How it decides
--------------
At least `long-batches` batches take `ratio` times the median duration and at least `difference` more. The distance
between any two of them is a multiple of N, and most batches at these positions are long. The cause is
compaction if N equals `compactInterval` and each long batch is the last of N batches. The value of
`compactInterval` comes from the driver's log, the configuration, or Spark's default of 10.

What to do
----------
No action is needed while the next batch starts on time. If the long batches take longer and longer,
increase `compactInterval`, set `retention` for the sink's log, or use a table format without such a log.

False alarms
------------
Another application on the same cluster may run a job with the same period.
"""

from typing import Final

from flowdiag.analyses.rate import helpers as h

_SINK: Final = "spark.sql.streaming.fileSink.log.compactInterval"
_SOURCE: Final = "spark.sql.streaming.fileSource.log.compactInterval"
_DEFAULT: Final = "10"
_LOGS: Final = {
    _SINK: "the metadata log of its file sink",
    _SOURCE: "the metadata log of its file source",
}


class Limits(h.Limits):
    ratio: float = h.limit(
        h.defaults.PERIODIC, "ratio", "minimum ratio of a long batch to the median duration"
    )
    difference: float = h.limit(
        h.defaults.LONGER_MS, "ms", "minimum difference from the median duration; less is noise"
    )
    long_batches: float = h.limit(h.defaults.TIMES, "times", "minimum number of long batches")


def judge(assessed: h.AssessedApplication, limits: Limits) -> h.Results:
    """Yield one note per query with regularly slow batches."""
    for query, state in assessed.queries:
        if query.real_time or state.stability is h.Stability.FAILING:
            continue
        timed = [t for t in query.triggers if t.duration_ms is not None]
        found = h.triggers.find_period(
            timed, ratio=limits.ratio, longer_ms=limits.difference, times=limits.long_batches
        )
        if found is None:
            continue
        option = compaction_option(assessed.app, query, found)
        reason = (
            f"it compacts {_LOGS[option]}" if option else "the logs and metrics do not show why"
        )
        long, typical = h.fmt.duration(found.long_ms), h.fmt.duration(found.typical_ms)
        ratio = round(found.long_ms / max(1.0, found.typical_ms), 2)
        over = f"{len(found.batches)} batches, one in {found.every}"
        yield h.trigger_finding(
            assessed,
            query,
            [t for t in query.triggers if t.batch in found.batches],
            severity=h.Severity.INFO,
            title=f"One in {found.every} batches of {query.label} takes {long} instead of {typical}: "
            f"{reason}",
            explain="This is not an overload: the batches after each long batch have a normal duration.",
            cause=None,
            rank=h.Rank.CONSEQUENCE,
            option=option,
            measurements=(h.measurement("ratio", ratio, "ratio", limits.ratio, over=over),),
            actions=(
                h.Action(
                    text="No action is needed while batches are on time. If these batches take longer and longer, "
                    "compact less often",
                    verify="these batches take less time",
                ),
            ),
        )


def compaction_option(
    app: h.ApplicationFacts, query: h.QueryFacts, found: h.defaults.PeriodicDelay
) -> str | None:
    """Return the option of the metadata log whose compaction explains the long batches, or None."""
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


RULE = h.Rule("RT408", judge, Limits, needs="triggers", severity=h.Severity.INFO)
