"""One partition of a topic has most of the records.

What it reports
---------------
A Kafka partition that brings most of the records of the batches, or in which most of a query's
backlog waits.

Why it matters
--------------
A partition is read by one task: the batch is as long as that one takes, and limits that are split by
lag give it no more than its share.

How it decides
--------------
DStreams: the offset ranges of the present batches, or those that the executors' logs name; queries:
latest less end offsets of the late triggers, by partition. One of at least `partitions` partitions
has `ratio` times the mean of the others, and `floor` records more, in `share` of them (`fewest` at
least). Only where batches queue, are held back or take `use` of the interval, or a backlog grows.

What to do
----------
Write with another key, or repartition behind the source; `minPartitions` splits one partition over
several tasks.

False alarms
------------
A partition that was behind for another reason, such as a broker that was away, and catches up.
"""

from __future__ import annotations

from dataclasses import replace

from flowdiag.analyses.rate import helpers as h
from flowdiag.analyses.rate.partitions import (
    Least,
    Uneven,
    read_by,
    read_by_tasks,
    uneven,
    waiting_by,
)


class Skew(h.Limits):
    """What RT310 compares with."""

    ratio: float = h.limit(3.0, "ratio", "keys spread partitions by less")
    floor: float = h.limit(1000, "records", "a task reads as many in no time")
    partitions: float = h.limit(3, "partitions", "of two, one has more")
    share: float = h.limit(h.defaults.MOSTLY, "share", "of the present batches")
    fewest: float = h.limit(h.defaults.FEW, "batches", "fewer are chance")
    use: float = h.limit(h.defaults.NARROW, "share", "of the interval: with less, nothing is short")


def judge(assessed: h.Assessed, limits: Skew) -> h.Iterator[h.Finding | h.Inconclusive]:
    """One finding per application or query with such a partition."""
    app = assessed.app
    late = h.late_window(app.completed)
    least = Least(
        ratio=limits.ratio,
        floor=limits.floor,
        partitions=limits.partitions,
        share=limits.share,
        fewest=limits.fewest,
    )
    for state in assessed.dstreams:
        if not h.is_limited(state) and not h.short_of_time(state, use=limits.use):
            continue
        counts = [read_by(batch) for batch in late]
        found, cited = uneven(counts, least), h.evidence_of(late)
        if found is None and not any(counts):
            # Nothing describes the batches: what the tasks of executors say of all of them.
            found, cited = read_by_tasks(app.partitions, least), ()
        if found is not None:
            told = (one for one in app.partitions if one.name == found.partition)
            cited = cited or h.cite((one.ref, None) for one in told)
            yield _finding(assessed, None, found, cited, limits)
    for query, state in assessed.queries:
        waiting = state.stability in (h.Stability.OVERLOADED, h.Stability.THROTTLED)
        if not waiting or state.backlog is None or not state.backlog.rises:
            continue
        triggers = h.late_triggers(query.triggers)
        found = uneven([waiting_by(trigger) for trigger in triggers], least)
        if found is not None:
            yield _finding(assessed, query.name or query.id, found, h.evidence_of(triggers), limits)


def _finding(
    assessed: h.Assessed,
    query: str | None,
    found: Uneven,
    cited: tuple[h.Evidence, ...],
    limits: Skew,
) -> h.Finding:
    share = found.count / max(1.0, found.count + found.others * (found.partitions - 1))
    what = (
        f"has {h.fmt.percent(share)} of the backlog"
        if query
        else f"brings {h.fmt.percent(share)} of the records"
    )
    units = "triggers" if query else "batches"
    return h.application_finding(
        assessed,
        subject=h.partition_subject(assessed.app, found.partition, query),
        title=f"Partition {found.partition} {what} of {found.partitions} partitions, and stands out "
        f"in {found.units} of {found.of} {units}",
        explain="One task reads it, and the batch is as long as that task.",
        why=f"{what} of {found.partitions} partitions",
        cause="data-skew",
        rank=h.Rank.ROOT_CAUSE,
        count=found.units,
        measurements=(
            h.measurement(
                "ratio",
                round(found.count / max(found.others, 1.0), 2),
                "ratio",
                limits.ratio,
                over=f"{found.partitions} partitions in {found.of} {units}",
            ),
            h.measurement("records", found.count, "records", over=f"over {units}"),
        ),
        evidence=cited,
        actions=_actions(assessed, query is not None, found.partitions),
    )


def _actions(assessed: h.Assessed, query: bool, partitions: int) -> tuple[h.Action, ...]:
    spread, split = h.remedies("data-skew", assessed.app, "spread-partition", "split-partition")
    if query:  # the direct stream of Spark Streaming has no such option
        wanted = h.write("minPartitions", 2 * partitions)
        split = replace(split, option="minPartitions", proposed=wanted)
    return spread, split


RULE = h.Rule("RT310", judge, Skew, causes=("data-skew",))
