"""Triggers spend their time on state commits or on metadata.

What it reports
---------------
A query that is short of time while much of each trigger goes to committing its state stores, or to
writing offsets and commits to the checkpoint location.

Why it matters
--------------
Every trigger pays it, however few rows there are.

How it decides
--------------
State: `commitTimeMs` adds up all partitions; divided by the partitions that run at once it is at
least `share` of the trigger, and `floor`. Metadata: `walCommit` and `commitOffsets` of the same
size. Medians of the present; only where triggers overrun or almost fill their interval.

What to do
----------
State: RocksDB with changelog checkpoints; fewer shuffle partitions for a small state. Metadata: a
faster file system for the checkpoint location, or asynchronous progress tracking.

False alarms
------------
A large state that was rebalanced: the first commits afterwards write all of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median
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
from flowdiag.analyses.rate.cores import cores_of
from flowdiag.analyses.rate.facts import ApplicationFacts, QueryFacts, Trigger
from flowdiag.analyses.rate.state import Assessed
from flowdiag.analyses.rule import Limits, Rule, limit

PROVIDER: Final = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB: Final = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
CHANGELOG: Final = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"


class SlowCommitsLimits(Limits):
    """What RT407 compares with."""

    share: float = limit(0.3, "share", "of the trigger")
    floor: float = limit(500, "ms", "a commit to an object store takes some hundred")


def judge(assessed: Assessed, limits: SlowCommitsLimits) -> Iterator[Finding | Inconclusive]:
    """At most one finding for the state and one for the metadata of a query."""
    for query, state in assessed.queries:
        if not j.short_of_time(state):
            continue
        late = [t for t in rate_state.late_triggers(query.triggers) if t.rows and t.duration_ms]
        if len(late) < rate_state.FEW:
            continue
        for kind, took in (
            ("state", [commit_ms(t, assessed.app) for t in late]),
            ("metadata", [metadata_ms(t) for t in late]),
        ):
            # Commits run while other tasks compute: they never are more than the trigger.
            shares = [min(1.0, ms / (t.duration_ms or 1)) for ms, t in zip(took, late, strict=True)]
            over = median(took) >= limits.floor
            if over and median(shares) >= limits.share:
                told = (kind, median(took), median(shares))
                yield _finding(assessed, query, late, told, limits.share)


def commit_ms(trigger: Trigger, app: ApplicationFacts) -> float:
    """What the commits of the state took of a trigger's time, at least."""
    cores = cores_of(app)
    total = 0.0
    for one in trigger.state:
        sum_ms, partitions = one.get("commit_ms") or 0.0, one.get("partitions") or 1
        at_once = min(partitions, cores) if cores else partitions
        total += sum_ms / max(1, at_once)
    return total


def metadata_ms(trigger: Trigger) -> float:
    """What offsets and commits took of a trigger's time."""
    return float(trigger.durations.get("walCommit", 0) + trigger.durations.get("commitOffsets", 0))


def _finding(
    assessed: Assessed,
    query: QueryFacts,
    late: Sequence[Trigger],
    told: tuple[str, float, float],
    limit: float,
) -> Finding:
    app = assessed.app
    kind, took, share = told
    what = "committing its state" if kind == "state" else "writing offsets and commits"
    return Finding(
        job=assessed.key,
        severity=Severity.WARNING,
        state=State.ONGOING,
        subject=j.query_subject(app, query),
        title=(
            f"Query {query.name or query.id} spends {duration_text(took)} of each trigger on {what}, "
            f"{share:.0%} of its time"
        ),
        explain="Each trigger pays this, however few rows it has.",
        why=f"spends {share:.0%} of its triggers on {what}",
        cause="slow-state-commits" if kind == "state" else "slow-metadata-writes",
        rank=Rank.MECHANISM,
        first_us=late[0].time_us,
        last_us=late[-1].time_us,
        count=len(late),
        measurements=(
            Measurement(name=f"{kind}-commit", value=round(took), unit="ms"),
            Measurement(
                name="share",
                value=round(share, 3),
                unit="share",
                threshold=limit,
                population=f"median of {len(late)} triggers",
            ),
        ),
        evidence=j.of_triggers(late),
        actions=(_action(app, late[-1], kind),),
    )


def _action(app: ApplicationFacts, last: Trigger, kind: str) -> Action:
    if kind == "metadata":
        return Action(
            text="Put the checkpoint location on a faster file system",
            verify="walCommit and commitOffsets of the triggers",
        )
    if any(one.get("rocksdb") for one in last.state):
        return Action(
            text="Write changes instead of whole snapshots",
            option=CHANGELOG,
            current=app.settings.get(CHANGELOG),
            proposed="true",
            restart_needed=True,
            verify="stateOperators.commitTimeMs",
        )
    return Action(
        text="Keep the state in RocksDB, and write its changes only",
        option=PROVIDER,
        current=app.settings.get(PROVIDER),
        proposed=ROCKSDB,
        risk="a query keeps the provider that it began with: it needs a new checkpoint location",
        restart_needed=True,
        verify="stateOperators.commitTimeMs",
    )


RULE: Final = Rule("RT407", judge, SlowCommitsLimits)
