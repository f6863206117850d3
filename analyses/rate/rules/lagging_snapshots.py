"""The state stores of a query upload no snapshots.

What it reports
---------------
A stateful query whose oldest snapshot of a state partition is many batches old.

Why it matters
--------------
The query itself runs normally. But a restart, or a task that moves to another executor, has to replay the changes of
all batches since the last snapshot.

How it decides
--------------
Since version 4.1, Spark reports the version of the last snapshot (`SnapshotLastUploaded`) of the partitions that are
furthest behind. The oldest one must be at least `versions` batches older than the last trigger. At least `intervals`
times the maintenance interval (`spark.sql.streaming.stateStore.maintenanceInterval`, 60 s by default) must have passed
since then. Spark itself logs a warning at the same limits.

False alarms
------------
If `spark.sql.streaming.stateStore.minDeltasForSnapshot` is higher than `versions`, few snapshots are intended.
"""

from flowdiag.analyses.rate import helpers as h
from flowdiag.analyses.rate.state_store import oldest_snapshot
from flowdiag.parsers.units import duration_ms

INTERVAL = "spark.sql.streaming.stateStore.maintenanceInterval"
DEFAULT_INTERVAL_MS = 60_000


class Limits(h.Limits):
    versions: float = h.limit(
        50, "batches", "minimum age of the last snapshot; Spark uploads one about every 10 batches"
    )
    intervals: float = h.limit(10, "ratio", "minimum number of intervals without an upload")


def judge(assessed: h.AssessedApplication, limits: Limits) -> h.Results:
    """Yield one finding per query."""
    interval = duration_ms(assessed.app.settings.get(INTERVAL)) or DEFAULT_INTERVAL_MS
    for query, _ in assessed.queries:
        if not query.triggers:
            continue
        last = query.triggers[-1]
        uploaded = oldest_snapshot(last)
        if uploaded is None or last.batch is None:
            continue
        # The state after batch n has the version n + 1.
        lag = last.batch + 1 - max(0, uploaded)
        later = [t for t in query.triggers if t.batch is not None and t.batch >= uploaded]
        if lag < max(1.0, limits.versions) or not later:
            continue
        since_snapshot_ms = (last.time_us - later[0].time_us) / 1000
        if since_snapshot_ms >= limits.intervals * interval:
            yield _finding(assessed, query, later, lag, since_snapshot_ms, limits)


def _finding(
    assessed: h.AssessedApplication,
    query: h.QueryFacts,
    later: list[h.Trigger],
    lag: int,
    since_snapshot_ms: float,
    limits: Limits,
) -> h.Finding:
    text = (
        f"{h.fmt.capital(query.label)} has a state partition without a snapshot for {lag} batches "
        f"({h.fmt.duration(since_snapshot_ms)})"
    )
    return h.trigger_finding(
        assessed,
        query,
        later,
        severity=h.Severity.WARNING,
        title=text,
        why=text,
        cause="lagging-snapshots",
        rank=h.Rank.SYMPTOM,
        measurements=(
            h.measurement("batches-since-snapshot", lag, "batches", limits.versions),
            h.measurement("since-snapshot", round(since_snapshot_ms), "ms"),
        ),
        actions=h.remedies("lagging-snapshots", assessed.app),
    )


RULE = h.Rule("RT415", judge, Limits, causes=("lagging-snapshots",), needs="triggers")
