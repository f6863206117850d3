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
size. Medians of the present, `fewest` triggers at least; only where triggers overrun, or take `use`
of their interval or more.

What to do
----------
State: RocksDB with changelog checkpoints; fewer shuffle partitions for a small state. Metadata: a
faster file system for the checkpoint location, or asynchronous progress tracking.

False alarms
------------
A large state that was rebalanced: the first commits afterwards write all of it.
"""

from __future__ import annotations

from statistics import median

from flowdiag.analyses.rate import helpers as h
from flowdiag.analyses.rate.cores import cores_of


class Slow(h.Limits):
    """What RT407 compares with."""

    share: float = h.limit(0.3, "share", "of the trigger")
    floor: float = h.limit(500, "ms", "a commit to an object store takes some hundred")
    fewest: float = h.limit(h.defaults.FEW, "triggers", "fewer are chance")
    use: float = h.limit(h.defaults.NARROW, "share", "of the interval: with less, nothing is short")


def judge(assessed: h.Assessed, limits: Slow) -> h.Iterator[h.Finding | h.Inconclusive]:
    """At most one finding for the state and one for the metadata of a query."""
    for query, state in assessed.queries:
        late = [t for t in h.late_triggers(query.triggers) if t.rows and t.duration_ms]
        if not h.short_of_time(state, use=limits.use) or len(late) < max(1, limits.fewest):
            continue
        for kind, took in (
            ("state", [commit_ms(t, assessed.app) for t in late]),
            ("metadata", [metadata_ms(t) for t in late]),
        ):
            # Commits run while other tasks compute: they never are more than the trigger.
            shares = [min(1.0, ms / (t.duration_ms or 1)) for ms, t in zip(took, late, strict=True)]
            if median(took) >= limits.floor and median(shares) >= limits.share:
                told = (kind, median(took), median(shares))
                yield _finding(assessed, query, late, told, limits)


def commit_ms(trigger: h.Trigger, app: h.ApplicationFacts) -> float:
    """What the commits of the state took of a trigger's time, at least."""
    cores = cores_of(app)
    total = 0.0
    for one in trigger.state:
        sum_ms, partitions = one.get("commit_ms") or 0.0, one.get("partitions") or 1
        at_once = min(partitions, cores) if cores else partitions
        total += sum_ms / max(1, at_once)
    return total


def metadata_ms(trigger: h.Trigger) -> float:
    """What offsets and commits took of a trigger's time."""
    return float(trigger.durations.get("walCommit", 0) + trigger.durations.get("commitOffsets", 0))


def _finding(
    assessed: h.Assessed,
    query: h.QueryFacts,
    late: h.Sequence[h.Trigger],
    told: tuple[str, float, float],
    limits: Slow,
) -> h.Finding:
    kind, took, share = told
    what = "committing its state" if kind == "state" else "writing offsets and commits"
    return h.trigger_finding(
        assessed,
        query,
        late,
        title=f"{h.fmt.capital(query.label)} spends {h.fmt.duration(took)} of each trigger on {what}, "
        f"{h.fmt.percent(share)} of its time",
        explain=h.explanation("slow-state-commits"),
        why=f"spends {h.fmt.percent(share)} of its triggers on {what}",
        cause="slow-state-commits" if kind == "state" else "slow-metadata-writes",
        rank=h.Rank.MECHANISM,
        measurements=(
            h.measurement(f"{kind}-commit", round(took), "ms"),
            h.measurement(
                "share",
                round(share, 3),
                "share",
                limits.share,
                over=f"median of {h.fmt.plural(len(late), 'trigger')}",
            ),
        ),
        actions=_actions(assessed.app, late[-1], kind),
    )


def _actions(app: h.ApplicationFacts, last: h.Trigger, kind: str) -> tuple[h.Action, ...]:
    if kind == "state":
        rocksdb = any(one.get("rocksdb") for one in last.state)
        return h.remedies("slow-state-commits", app, "changelog" if rocksdb else "rocksdb")
    return (
        h.Action(
            text="Put the checkpoint location on a faster file system",
            verify="walCommit and commitOffsets of the triggers",
        ),
    )


RULE = h.Rule("RT407", judge, Slow, causes=("slow-state-commits", "slow-metadata-writes"))
