"""Triggers spend their time on reading state, from RocksDB or from the checkpoint location.

What it reports
---------------
- A query that is at its limit because its tasks wait for reads and writes of RocksDB.
- A query whose tasks load the state again in most triggers, because they move to other executors.

Why it matters
--------------
More shuffle partitions or input limits do not help while each key costs a disk read.

How it decides
--------------
The rule only applies if triggers overrun their interval, take at least `use` of it, or follow each other without a
pause. The values are medians over at least `min-triggers` recent triggers with rows.

Reads: the rule divides `rocksdbGetLatency` and `rocksdbPutLatency` by the number of partitions that run
concurrently. The result must be at least `share` of the trigger. The finding also lists block cache misses and
writer stalls.

Loads: in at least `reload-share` of the triggers, partitions load their state from the checkpoint location
(`rocksdbNumLoadedFromDfs`), or do not find it in the memory of the executor (`loadedMapCacheMissCount`). Spark 4.1 and
later also report how long the loads take (`rocksdbLoadLatencyMs`).

False alarms
------------
The first triggers after a restart load the whole state once.
"""

from statistics import median

from flowdiag.analyses.rate import helpers as h
from flowdiag.analyses.rate.cores import cores_of
from flowdiag.analyses.rate.state_store import (
    ACCESS,
    LOAD,
    has_bounded_memory,
    reloads,
    spent_ms,
    total,
)


class Limits(h.Limits):
    reload_share: float = h.limit(
        h.defaults.MOSTLY, "share", "minimum share of triggers with reloads; tasks sometimes move"
    )
    share: float = h.step_share_limit(0.4)
    min_triggers: float = h.min_count_limit("triggers")
    use: float = h.use_limit()


def judge(assessed: h.AssessedApplication, limits: Limits) -> h.Results:
    """Yield at most one finding about reads and one about loads per query."""
    cores = cores_of(assessed.app)
    for flow in h.flows_of(assessed):
        query = flow.query
        if query is None or not h.has_no_pause(flow, use=limits.use):
            continue
        late = [t for t in h.late_triggers(query.triggers) if t.rows and t.duration_ms and t.state]
        if len(late) < max(1, limits.min_triggers):
            continue
        took = median(spent_ms(t, ACCESS, cores) for t in late)
        share = median(min(1.0, spent_ms(t, ACCESS, cores) / (t.duration_ms or 1)) for t in late)
        if took and share >= limits.share:
            yield _slow(assessed, query, late, took, share, limits)
        loaded = [*reloads(late)]
        if len(loaded) >= max(1, limits.reload_share * (len(late) - 1)):
            yield _reload_finding(assessed, query, late, loaded, limits)


def _slow(
    assessed: h.AssessedApplication,
    query: h.QueryFacts,
    late: h.Sequence[h.Trigger],
    took: float,
    share: float,
    limits: Limits,
) -> h.Finding:
    hits, misses = (total(late, (f"rocksdbReadBlockCache{kind}Count",)) for kind in ("Hit", "Miss"))
    stalls = total(late, ("rocksdbWriterStallLatencyMs",))
    gets = total(late, ("rocksdbGetCount",))
    part, over = h.fmt.percent(share), f"median of {h.fmt.plural(len(late), 'trigger')}"
    measured = [
        h.measurement("state-access", round(took), "ms", over=over),
        h.measurement("state-access-share", round(share, 3), "share", limits.share, over=over),
    ]
    if gets:
        each = total(late, ("rocksdbGetLatency",)) * 1000 / gets
        measured.append(h.measurement("time-per-read", round(each), "us", over=f"{gets:,} reads"))
    if hits + misses:
        measured.append(
            h.measurement("block-cache-misses", round(misses / (hits + misses), 3), "share")
        )
    if stalls:
        measured.append(h.measurement("writer-stalls", stalls, "ms", over="sum over partitions"))
    return h.trigger_finding(
        assessed,
        query,
        late,
        title=f"{h.fmt.capital(query.label)} spends {h.fmt.duration(took)} of each trigger on reads and writes of its "
        f"state, {part} of its time",
        why=f"reads and writes of its state take {part} of each trigger",
        cause="slow-state-access",
        rank=h.Rank.ROOT_CAUSE,
        measurements=tuple(measured),
        actions=h.remedies(
            "slow-state-access",
            assessed.app,
            "bound" if has_bounded_memory(assessed.app) else "cache",
            "disk",
        ),
    )


def _reload_finding(
    assessed: h.AssessedApplication,
    query: h.QueryFacts,
    late: h.Sequence[h.Trigger],
    loaded: h.Sequence[tuple[h.Trigger, int]],
    limits: Limits,
) -> h.Finding:
    of = f"{len(loaded)} of {h.fmt.plural(len(late), 'trigger')}"
    share = len(loaded) / len(late)
    return h.trigger_finding(
        assessed,
        query,
        [trigger for trigger, _ in loaded],
        title=f"{h.fmt.capital(query.label)} reloads state from its checkpoint in {of}",
        why=f"its tasks reload state from the checkpoint location in {of}",
        cause="state-reloaded",
        confidence=h.Confidence.MEDIUM,
        rank=h.Rank.ROOT_CAUSE,
        measurements=(
            h.measurement("reload-share", round(share, 3), "share", limits.reload_share, over=of),
            h.measurement("partitions", max(count for _, count in loaded), over="most per trigger"),
            h.measurement(
                "load-time", total(late, (LOAD,)) or None, "ms", over="sum over partitions"
            ),
        ),
        actions=h.remedies("state-reloaded", assessed.app),
    )


RULE = h.Rule(
    "RT414", judge, Limits, causes=("slow-state-access", "state-reloaded"), needs="triggers"
)
