"""One partition of a topic has most of the records.

What it reports
---------------
A Kafka partition that delivers most of the records of the batches, or that has most of a query's backlog.

Why it matters
--------------
A single task reads the partition, so the batch takes as long as that task. A rate limit does not help, because
Spark divides it over the partitions in proportion to their lag.

How it decides
--------------
For DStreams, the rule uses the offset ranges of the recent batches, or the ranges in the executors' logs.
For queries, it uses the backlog of each partition in the recent triggers: the latest offset minus the end
offset.

Among at least `partitions` partitions, one must have `ratio` times the mean of the others, and at least `floor` records
more. The same partition must stand out in `share` of the batches or triggers. The rule needs at least `min-batches`
batches or triggers. In addition, batches must queue, be limited by back pressure, or take `use` of the interval. For a
query, the backlog must grow.

What to do
----------
Choose a key that spreads the records evenly, or repartition after the source. For queries, set
`minPartitions` to split one partition into several tasks.

False alarms
------------
A partition may have fallen behind for another reason, such as a broker outage, and may be catching up.
"""

from dataclasses import replace

from flowdiag.analyses.rate import helpers as h
from flowdiag.analyses.rate import partitions as p


class Limits(h.Limits):
    ratio: float = h.limit(
        3.0, "ratio", "minimum ratio of records to the other partitions' mean; even keys stay below"
    )
    floor: float = h.limit(
        1000, "records", "minimum number of records above the mean; fewer take almost no time"
    )
    partitions: float = h.limit(
        3, "partitions", "minimum number of partitions; one of two always has more records"
    )
    share: float = h.limit(h.defaults.MOSTLY, "share", "minimum share of batches with this skew")
    min_batches: float = h.min_count_limit("batches")
    use: float = h.use_limit()


def judge(assessed: h.AssessedApplication, limits: Limits) -> h.Results:
    """Yield one finding per application or query with a skewed partition."""
    least = p.PartitionLimits(
        ratio=limits.ratio,
        floor=limits.floor,
        partitions=limits.partitions,
        share=limits.share,
        fewest=limits.min_batches,
    )
    for state in assessed.dstreams:
        if h.is_limited(state) or h.is_at_limit(state, use=limits.use):
            found, evidence = _partition_of_batches(assessed, least)
            if found is not None:
                yield _finding(assessed, None, found, evidence, limits)
    for query, state in assessed.queries:
        if h.is_limited(state) and state.backlog is not None and state.backlog.is_rising:
            triggers = h.late_triggers(query.triggers)
            found = p.uneven_partition(
                [p.backlog_by_partition(trigger) for trigger in triggers], least
            )
            if found is not None:
                evidence = h.evidence_of(triggers)
                yield _finding(assessed, query.name or query.id, found, evidence, limits)


def _partition_of_batches(
    assessed: h.AssessedApplication, least: p.PartitionLimits
) -> tuple[p.UnevenPartition | None, tuple[h.Evidence, ...]]:
    late = h.late_window(assessed.app.completed)
    counts = [p.records_by_partition(batch) for batch in late]
    found, evidence = p.uneven_partition(counts, least), h.evidence_of(late)
    if found is None and not any(counts):
        # Without batch descriptions, executor logs show which partitions the tasks read.
        found, evidence = p.uneven_by_tasks(assessed.app.partitions, least), ()
    if found is not None and not evidence:
        read = (one for one in assessed.app.partitions if one.name == found.partition)
        evidence = h.cite((one.ref, None) for one in read)
    return found, evidence


def _finding(
    assessed: h.AssessedApplication,
    query: str | None,
    found: p.UnevenPartition,
    evidence: tuple[h.Evidence, ...],
    limits: Limits,
) -> h.Finding:
    rest = found.others * (found.partitions - 1)
    share = h.fmt.percent(found.count / max(1.0, found.count + rest))
    text = f"has {share} of the backlog" if query else f"delivers {share} of the records"
    units = (
        h.fmt.plural(found.of, "trigger") if query else h.fmt.plural(found.of, "batch", "batches")
    )
    ratio = round(found.count / max(found.others, 1.0), 2)
    over = f"{found.partitions} partitions in {units}"
    spread, split = h.remedies("data-skew", assessed.app, "spread-partition", "split-partition")
    if query:  # the direct stream of DStreams has no such option
        number = h.write("minPartitions", 2 * found.partitions)
        split = replace(split, option="minPartitions", proposed=number)
    return h.application_finding(
        assessed,
        subject=h.partition_subject(assessed.app, found.partition, query),
        title=f"Partition {found.partition} {text} of {found.partitions} partitions, and stands out "
        f"in {found.units} of {units}",
        explain="A single task reads it, so the batch takes as long as that task.",
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


RULE = h.Rule("RT310", judge, Limits, causes=("data-skew",), needs="work")
