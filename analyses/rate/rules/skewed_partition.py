"""One partition of a topic has most of the records.

What it reports
---------------
A Kafka partition that delivers most of the records of the batches, or has most of a query's backlog.

Why it matters
--------------
One task reads a partition, so the batch is as long as that task. Limits that are split by lag give the
partition no more than its share.

How it decides
--------------
DStreams: the offset ranges of the recent batches, or the ranges in the executors' logs. Queries: latest
minus end offsets of the late triggers, by partition. One of at least `partitions` partitions has `ratio`
times the mean of the others, and `floor` records more. This applies to `share` of the batches or
triggers, of which there are at least `fewest`. The rule requires batches that queue, are held back or
take `use` of the interval, or a growing backlog.

What to do
----------
Write with another key, or repartition after the source. `minPartitions` splits one partition into several
tasks.

False alarms
------------
A partition that was behind for another reason, such as a broker outage, and catches up.
"""

from __future__ import annotations

from dataclasses import replace

from flowdiag.analyses.rate import helpers as h
from flowdiag.analyses.rate import partitions as p


class Skew(h.Limits):
    """Limits of RT310."""

    ratio: float = h.limit(3.0, "ratio", "keys spread over partitions more evenly")
    floor: float = h.limit(1000, "records", "a task reads fewer in no time")
    partitions: float = h.limit(3, "partitions", "one of two always has more")
    share: float = h.limit(h.defaults.MOSTLY, "share", "of the recent batches")
    fewest: float = h.limit(h.defaults.FEW, "batches", "fewer may be chance")
    use: float = h.limit(h.defaults.NARROW, "share", "of the interval; below it, time is not short")


def judge(assessed: h.Assessed, limits: Skew) -> h.Iterator[h.Finding | h.Inconclusive]:
    """Yield one finding per application or query with such a partition."""
    least = p.Least(
        ratio=limits.ratio,
        floor=limits.floor,
        partitions=limits.partitions,
        share=limits.share,
        fewest=limits.fewest,
    )
    for state in assessed.dstreams:
        if h.is_limited(state) or h.short_of_time(state, use=limits.use):
            found, evidence = _of_batches(assessed, least)
            if found is not None:
                yield _finding(assessed, None, found, evidence, limits)
    for query, state in assessed.queries:
        if h.is_limited(state) and state.backlog is not None and state.backlog.rises:
            triggers = h.late_triggers(query.triggers)
            found = p.uneven([p.backlog_by_partition(trigger) for trigger in triggers], least)
            if found is not None:
                evidence = h.evidence_of(triggers)
                yield _finding(assessed, query.name or query.id, found, evidence, limits)


def _of_batches(
    assessed: h.Assessed, least: p.Least
) -> tuple[p.Uneven | None, tuple[h.Evidence, ...]]:
    late = h.late_window(assessed.app.completed)
    counts = [p.records_by_partition(batch) for batch in late]
    found, evidence = p.uneven(counts, least), h.evidence_of(late)
    if found is None and not any(counts):
        # Without descriptions of the batches, the tasks of the executors show what they read.
        found, evidence = p.uneven_by_tasks(assessed.app.partitions, least), ()
    if found is not None and not evidence:
        read = (one for one in assessed.app.partitions if one.name == found.partition)
        evidence = h.cite((one.ref, None) for one in read)
    return found, evidence


def _finding(
    assessed: h.Assessed,
    query: str | None,
    found: p.Uneven,
    evidence: tuple[h.Evidence, ...],
    limits: Skew,
) -> h.Finding:
    rest = found.others * (found.partitions - 1)
    share = h.fmt.percent(found.count / max(1.0, found.count + rest))
    text = f"has {share} of the backlog" if query else f"delivers {share} of the records"
    units = "triggers" if query else "batches"
    ratio = round(found.count / max(found.others, 1.0), 2)
    over = f"{found.partitions} partitions in {found.of} {units}"
    spread, split = h.remedies("data-skew", assessed.app, "spread-partition", "split-partition")
    if query:  # the direct stream of DStreams has no such option
        number = h.write("minPartitions", 2 * found.partitions)
        split = replace(split, option="minPartitions", proposed=number)
    return h.application_finding(
        assessed,
        subject=h.partition_subject(assessed.app, found.partition, query),
        title=f"Partition {found.partition} {text} of {found.partitions} partitions, and stands out "
        f"in {found.units} of {found.of} {units}",
        explain="One task reads it, and the batch is as long as that task.",
        why=f"{text} of {found.partitions} partitions",
        cause="data-skew",
        rank=h.Rank.ROOT_CAUSE,
        count=found.units,
        measurements=(
            h.measurement("ratio", ratio, "ratio", limits.ratio, over=over),
            h.measurement("records", found.count, "records", over=f"over {units}"),
        ),
        evidence=evidence,
        actions=(spread, split),
    )


RULE = h.Rule("RT310", judge, Skew, causes=("data-skew",))
