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

Among at least `partitions` partitions, one must have `ratio` times the mean of the others, and at least `floor`
records more. If a single task takes most of the time of the batches, `few` records are enough. The same partition
must stand out in `share` of the batches or triggers. The rule needs at least `min-batches` batches or triggers. In
addition, batches must queue, be limited by back pressure, or take `use` of the interval. For a query, the backlog
must grow.

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
from flowdiag.analyses.rate.detect.stragglers import waits_for_task


class Limits(h.Limits):
    ratio: float = h.limit(
        3.0, "ratio", "minimum ratio of records to the other partitions' mean; even keys stay below"
    )
    floor: float = h.limit(
        1000, "records", "minimum number of records above the mean; fewer take almost no time"
    )
    few: float = h.limit(
        20, "records", "the same if a single task takes most of the time: its records are expensive"
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
    if _wait_for_one_task(assessed):
        least = replace(least, floor=limits.few)
    for state in assessed.dstreams:
        if h.is_limited(state) or h.is_at_limit(state, use=limits.use):
            found, evidence = _partition_of_batches(assessed, least)
            if found is not None:
                late = h.batches.is_overloaded(state)
                severity = h.Severity.CRITICAL if late else h.Severity.WARNING
                yield _finding(assessed, None, found, evidence, limits, severity)
    for query, state in assessed.queries:
        if h.is_limited(state) and state.backlog is not None and state.backlog.is_rising:
            triggers = h.late_triggers(query.triggers)
            found = p.uneven_partition(
                [p.backlog_by_partition(trigger) for trigger in triggers], least
            )
            if found is not None:
                evidence = h.evidence_of(triggers)
                yield _finding(assessed, query.name or query.id, found, evidence, limits)


def _wait_for_one_task(assessed: h.AssessedApplication) -> bool:
    """Return whether most batches of the DStreams wait for their slowest task."""
    units = [unit for flow in h.flows_of(assessed) if not flow.subject.query for unit in flow.units]
    slow = [
        unit
        for unit in units
        if unit.stage is not None
        and waits_for_task(unit.duration_ms, unit.stage, ratio=3.0, floor=500, part=0.5)
    ]
    return bool(slow) and len(slow) >= h.defaults.MOSTLY * len(units)


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
    severity: h.Severity = h.Severity.WARNING,
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
        severity=severity,
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


RULE = h.Rule(
    "RT310", judge, Limits, causes=("data-skew",), needs="work", severity=h.Severity.CRITICAL
)
