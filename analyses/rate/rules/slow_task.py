"""One task of a batch takes much longer than the others.

What it reports
---------------
Batches or triggers in which one task of the longest stage takes much longer than its siblings: with
as much more to read, it is skew; with as much as they, a straggler.

Why it matters
--------------
A batch is as long as its longest task: the other cores wait for it.

How it decides
--------------
Tasks are added up by stage while the event log is read. In at least `share` of the present batches
the slowest task takes `ratio` times the mean of the others or more, at least `floor` longer, and
`part` of the batch's time. Records (or bytes) tell skew from stragglers: with `more` times as many as
the others it is skew. Where a source counts none, as receivers and Kafka's direct stream, the same
partition number in `same` of these batches points to skew, with less confidence.

What to do
----------
Skew: another key, salting, more partitions; for Kafka `minPartitions`. Stragglers: see RT304;
speculation where tasks may run twice.

False alarms
------------
Stages with a single task have no siblings, and are left out. Long tasks of receivers are no part of
a batch.
"""

from __future__ import annotations

from collections import Counter
from statistics import median

from flowdiag.analyses.rate import helpers as h


class Slow(h.Limits):
    """What RT303 compares with."""

    ratio: float = h.limit(3.0, "ratio", "sibling tasks of one size differ by a factor of two")
    floor: float = h.limit(500, "ms", "shorter differences are those of starting tasks")
    share: float = h.limit(0.6, "share", "of the present batches; single ones are hiccups")
    part: float = h.limit(0.5, "share", "of the batch's time: other stages matter more")
    more: float = h.limit(2.0, "ratio", "of records: with as many as the others it is no skew")
    same: float = h.limit(0.8, "share", "of these batches, the same partition: it is no chance")


def judge(assessed: h.Assessed, limits: Slow) -> h.Iterator[h.Finding | h.Inconclusive]:
    """One finding per application or query whose batches wait for one task."""
    for flow in h.flows_of(assessed):
        units = [unit for unit in flow.units if unit.rows]
        slow = [unit for unit in units if _waits(unit, limits)]
        if slow and len(slow) >= limits.share * len(units):
            yield _finding(flow, slow, len(units), limits)


def _waits(unit: h.Unit, limits: Slow) -> bool:
    """Whether a batch waits for one task of its longest stage."""
    stage = unit.stage
    if stage is None or stage.others_ms is None:
        return False
    return (
        stage.longest_ms >= limits.ratio * stage.others_ms
        and stage.longest_ms - stage.others_ms >= limits.floor
        and stage.longest_ms >= limits.part * unit.lasted_ms
    )


def skewed(stage: h.StageLoad, more: float = 2.0) -> bool | None:
    """Whether the slowest task had as much more to read; None where nothing counts records."""
    others = stage.others_records
    if others is None or not stage.records:
        return None
    return stage.slowest_records >= more * max(others, 1.0)


def _finding(flow: h.Flow, slow: list[h.Unit], population: int, limits: Slow) -> h.Finding:
    stages = [unit.stage for unit in slow if unit.stage is not None]
    known = [one for stage in stages if (one := skewed(stage, limits.more)) is not None]
    where, times = Counter(stage.index for stage in stages).most_common(1)[0]
    same = where if times >= limits.same * len(stages) else None
    skew = sum(known) >= len(known) / 2 if known else same is not None
    share = median(s.slowest_records / s.records for s in stages if s.records) if known else None
    ratio = median(s.longest_ms / max(s.others_ms or 1.0, 1.0) for s in stages)
    longest = median(s.longest_ms for s in stages)
    told = f", with {h.fmt.percent(share)} of the records" if share is not None and skew else ""
    of = f" of {flow.query.label}" if flow.query else ""
    return h.flow_finding(
        flow,
        slow,
        subject=_task(flow, stages[-1], same),
        title=f"In {len(slow)} of {flow.plural(population)}{of} one task takes {ratio:.1f} times as "
        f"long as the others{told}",
        why=f"one task takes {h.fmt.duration(longest)}, {ratio:.1f} times as long as its siblings{told}",
        confidence=h.Confidence.HIGH if known else h.Confidence.LOW,
        cause="data-skew" if skew else "stragglers",
        rank=h.Rank.ROOT_CAUSE if known else h.Rank.MECHANISM,
        last_us=None,
        count=len(slow),
        measurements=_measurements(ratio, longest, share, stages[-1].tasks, limits),
        actions=h.remedies("data-skew", flow.assessed.app, "spread")
        if skew
        else h.remedies("stragglers", flow.assessed.app),
        explain=_skew_explained(bool(known)) if skew else h.explanation("stragglers"),
    )


def _measurements(
    ratio: float, longest: float, share: float | None, tasks: int, limits: Slow
) -> tuple[h.Measurement, ...]:
    against = "slowest task against the mean of the others, median"
    return (
        h.measurement("ratio", round(ratio, 2), "ratio", limits.ratio, over=against),
        h.measurement("slowest-task", longest, "ms"),
        h.measurement(
            "record-share", h.round_or_none(share), "share", over=h.fmt.plural(tasks, "task")
        ),
    )


def _skew_explained(counted: bool) -> str:
    if counted:
        return "It has that much more to do: the data are skewed."
    return "It is the same partition each time, which points to skew; no record was counted."


def _task(flow: h.Flow, stage: h.StageLoad, same: int | None) -> h.Subject:
    """The task: with its partition where it is the same each time."""
    of = flow.subject
    return h.Subject(
        kind="task",
        job_name=of.job_name,
        application=of.application,
        query=of.query,
        stage=stage.stage,
        subtask_index=same,
        parallelism=None if same is None else stage.tasks,
        executor=stage.executor,
        host=stage.host,
    )


RULE = h.Rule("RT303", judge, Slow, causes=("data-skew", "stragglers"))
