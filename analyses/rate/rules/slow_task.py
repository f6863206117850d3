"""One task of a batch takes much longer than the others.

What it reports
---------------
Batches or triggers in which one task of the longest stage takes much longer than the others. It is skew if
the task also reads more, and a straggler if it reads as much as the others.

Why it matters
--------------
A batch is as long as its longest task, and the other cores wait for it.

How it decides
--------------
flowdiag adds up the tasks of each stage in the event log. In at least `share` of the present batches, the
slowest task takes `ratio` times the mean of the others, at least `floor` longer, and `part` of the batch.
With `more` times the records (or bytes) of the others, it is skew. Receivers and Kafka's direct stream
count no records: there, the same partition number in `same` of these batches indicates skew, with less
confidence.

What to do
----------
Skew: use another key, salting, or more partitions; for Kafka, set `minPartitions`. Stragglers: see RT304.
Enable speculation if tasks may run twice.

False alarms
------------
Stages with a single task are left out. Receivers' long tasks are not part of a batch.
"""

from __future__ import annotations

from collections import Counter
from statistics import median

from flowdiag.analyses.rate import helpers as h


class Slow(h.Limits):
    """Limits of RT303."""

    ratio: float = h.limit(3.0, "ratio", "equal tasks differ by a factor of two")
    floor: float = h.limit(500, "ms", "shorter differences come from starting tasks")
    share: float = h.limit(0.6, "share", "of the present batches; single ones are hiccups")
    part: float = h.limit(0.5, "share", "of the batch; below it, other stages matter more")
    more: float = h.limit(2.0, "ratio", "of records; with as many as the others it is not skew")
    same: float = h.limit(0.8, "share", "of these batches, with the same partition")


def judge(assessed: h.Assessed, limits: Slow) -> h.Iterator[h.Finding | h.Inconclusive]:
    """Yield one finding per application or query whose batches wait for one task."""
    for flow in h.flows_of(assessed):
        units = [unit for unit in flow.units if unit.rows]
        slow = [unit for unit in units if _waits_for_task(unit, limits)]
        if slow and len(slow) >= limits.share * len(units):
            yield _finding(flow, slow, len(units), limits)


def _waits_for_task(unit: h.Unit, limits: Slow) -> bool:
    stage = unit.stage
    if stage is None or stage.others_ms is None:
        return False
    least = max(
        limits.ratio * stage.others_ms,
        limits.floor + stage.others_ms,
        limits.part * unit.lasted_ms,
    )
    return stage.longest_ms >= least


def skewed(stage: h.StageLoad, more: float = 2.0) -> bool | None:
    """Return whether the slowest task read that many more records; None without counts."""
    others = stage.others_records
    if others is None or not stage.records:
        return None
    return stage.slowest_records >= more * max(others, 1.0)


def _finding(flow: h.Flow, slow: list[h.Unit], count: int, limits: Slow) -> h.Finding:
    stages = [unit.stage for unit in slow if unit.stage is not None]
    verdicts = [verdict for s in stages if (verdict := skewed(s, limits.more)) is not None]
    index, times = Counter(stage.index for stage in stages).most_common(1)[0]
    same = index if times >= limits.same * len(stages) else None
    skew = sum(verdicts) >= len(verdicts) / 2 if verdicts else same is not None
    ratio = median(s.longest_ms / max(s.others_ms or 1.0, 1.0) for s in stages)
    longest = median(s.longest_ms for s in stages)
    share, extra = None, ""
    if verdicts:
        share = median(s.slowest_records / s.records for s in stages if s.records)
        extra = f", with {h.fmt.percent(share)} of the records" if skew else ""
    last, of = stages[-1], f" of {flow.query.label}" if flow.query else ""
    return h.flow_finding(
        flow,
        slow,
        subject=h.Subject(
            kind="task",
            job_name=flow.subject.job_name,
            application=flow.subject.application,
            query=flow.subject.query,
            stage=last.stage,
            subtask_index=same,
            parallelism=None if same is None else last.tasks,
            executor=last.executor,
            host=last.host,
        ),
        title=f"In {len(slow)} of {flow.plural(count)}{of}, one task takes {ratio:.1f} times as long "
        f"as the others{extra}",
        explain=_explanation(skew, counted=bool(verdicts)),
        why=f"one task takes {h.fmt.duration(longest)}, {ratio:.1f} times as long as the others{extra}",
        confidence=h.Confidence.HIGH if verdicts else h.Confidence.LOW,
        cause="data-skew" if skew else "stragglers",
        rank=h.Rank.ROOT_CAUSE if verdicts else h.Rank.MECHANISM,
        last_us=None,
        count=len(slow),
        measurements=(
            h.measurement(
                "ratio",
                round(ratio, 2),
                "ratio",
                limits.ratio,
                over="slowest task to the mean of the others, median",
            ),
            h.measurement("slowest-task", longest, "ms"),
            h.measurement(
                "record-share",
                h.round_or_none(share),
                "share",
                over=h.fmt.plural(last.tasks, "task"),
            ),
        ),
        actions=h.remedies("data-skew", flow.assessed.app, "spread")
        if skew
        else h.remedies("stragglers", flow.assessed.app),
    )


def _explanation(skew: bool, *, counted: bool) -> str:
    if not skew:
        return h.explanation("stragglers")
    if counted:
        return "The task has that many more records: the data is skewed."
    return (
        "It is the same partition each time, which indicates skew. The input has no record counts."
    )


RULE = h.Rule("RT303", judge, Slow, causes=("data-skew", "stragglers"))
