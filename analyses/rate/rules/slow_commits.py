"""Triggers spend their time on committing state or writing metadata.

What it reports
---------------
A query that is at its limit because it spends much of each trigger on committing its state, or on writing offsets
and commits to the checkpoint location.

Why it matters
--------------
Every trigger incurs this cost, however few rows it reads.

How it decides
--------------
State: Spark reports `commitTimeMs` as the sum over all partitions. flowdiag divides it by the number of partitions
that run concurrently. The result must be at least `share` of the trigger and at least `floor`. The `customMetrics`
of RocksDB name the part that takes the most time. The rule advises fewer partitions if each holds fewer than
`rows` rows, and there are at least `partitions-per-core` times as many partitions as cores.

Metadata: `walCommit` and `commitOffsets` together must reach the same two limits.

The values are medians over at least `min-triggers` recent triggers. The rule only applies if triggers overrun
their interval or take at least `use` of it.

What to do
----------
State: the metrics of RocksDB show whether uploads, flushes or compaction take the time. Use RocksDB with changelog
checkpointing, no compaction on commit, and fewer shuffle partitions if the state is small.
Metadata: use a faster file system for the checkpoint location, or asynchronous progress tracking.

False alarms
------------
After a large state moves to other executors, the first commits write all of it.
"""

from typing import Final

from flowdiag.analyses.rate import helpers as h
from flowdiag.analyses.rate.cores import cores_of
from flowdiag.analyses.rate.detect.commits import (
    commit_remedies,
    largest_part_text,
    time_of_commits,
)
from flowdiag.analyses.rate.state_store import largest_commit_part

_KINDS: Final = {
    "state": ("committing its state", "slow-state-commits"),
    "metadata": ("writing offsets and commits", "slow-metadata-writes"),
}


class Limits(h.Limits):
    floor: float = h.limit(500, "ms", "minimum time per trigger; object storage is faster")
    rows: float = h.limit(
        1000, "rows", "maximum number of rows per partition; writing fewer takes almost no time"
    )
    partitions_per_core: float = h.limit(
        4.0, "ratio", "minimum number of partitions per core; the recommended maximum is three"
    )
    share: float = h.step_share_limit(0.3)
    min_triggers: float = h.min_count_limit("triggers")
    use: float = h.use_limit()


def judge(assessed: h.AssessedApplication, limits: Limits) -> h.Results:
    """Yield at most one finding for the state and one for the metadata of a query."""
    cores = cores_of(assessed.app)
    for query, state in assessed.queries:
        late = [t for t in h.late_triggers(query.triggers) if t.rows and t.duration_ms]
        if not h.is_at_limit(state, use=limits.use) or len(late) < max(1, limits.min_triggers):
            continue
        for kind in _KINDS:
            took, share = time_of_commits(late, kind, cores)
            if took >= limits.floor and share >= limits.share:
                yield _finding(assessed, query, late, kind, took, share, limits)


def _finding(
    assessed: h.AssessedApplication,
    query: h.QueryFacts,
    late: h.Sequence[h.Trigger],
    kind: str,
    took: float,
    share: float,
    limits: Limits,
) -> h.Finding:
    what, cause = _KINDS[kind]
    largest = largest_commit_part(late) if kind == "state" else None
    part, over = h.fmt.percent(share), f"median of {h.fmt.plural(len(late), 'trigger')}"
    return h.trigger_finding(
        assessed,
        query,
        late,
        title=f"{h.fmt.capital(query.label)} spends {h.fmt.duration(took)} of each trigger "
        f"on {what}, {part} of its time",
        explain=h.explanation("slow-state-commits") + largest_part_text(largest),
        why=f"spends {part} of its triggers on {what}",
        cause=cause,
        rank=h.Rank.MECHANISM,
        measurements=(
            h.measurement(f"{kind}-commit", round(took), "ms"),
            h.measurement("commit-share", round(share, 3), "share", limits.share, over=over),
        ),
        actions=h.remedies("slow-metadata-writes", assessed.app, "location")
        if kind == "metadata"
        else commit_remedies(
            assessed.app, late[-1], largest, rows=limits.rows, more=limits.partitions_per_core
        ),
    )


RULE = h.Rule(
    "RT407", judge, Limits, causes=tuple(cause for _, cause in _KINDS.values()), needs="triggers"
)
