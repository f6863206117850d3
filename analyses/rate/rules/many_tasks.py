"""Batches run more tasks than they have records.

What it reports
---------------
An application or query that is short of time although the longest stage of its batches has many more
tasks than cores, and more tasks than the batch has records.

Why it matters
--------------
Scheduling a task, starting it and committing its part of the state takes tens of milliseconds, with or
without records. Hundreds of tasks add seconds to each batch, and a lower rate does not help.

How it decides
--------------
The longest stage has at least `more` times as many tasks as cores, and more tasks than the batch has
records. Its tasks, spread over the cores, take `part` of the batch, and no task takes more than `longest`
of it. This applies to `share` of the recent batches with records, and to at least `fewest`. The rule
requires batches that queue or take `use` of the interval, and an event log with tasks.

What to do
----------
Reduce the shuffle partitions to one or two times the number of cores. A stateful query keeps the number
from its first start in its checkpoint.

False alarms
------------
A handful of expensive records: one task then takes most of the batch, and the rule does not apply.
"""

from __future__ import annotations

from statistics import median

from flowdiag.analyses.rate import helpers as h
from flowdiag.analyses.rate.cores import cores_of


class Many(h.Limits):
    """Limits of RT312."""

    more: float = h.limit(4.0, "ratio", "of tasks to cores; up to three is recommended")
    part: float = h.limit(0.5, "share", "of the batch, for its tasks; below it, others matter more")
    longest: float = h.limit(0.2, "share", "of the batch, for one task; above it, the task works")
    share: float = h.limit(h.defaults.MOSTLY, "share", "of the recent batches")
    fewest: float = h.limit(2, "batches", "a single one may be chance")
    use: float = h.limit(h.defaults.NARROW, "share", "of the interval; below it, time is not short")


def judge(assessed: h.Assessed, limits: Many) -> h.Iterator[h.Finding]:
    """Yield one finding per application or query whose tasks are almost empty."""
    cores = cores_of(assessed.app)
    for flow in h.flows_of(assessed):
        if cores is None or not h.short_of_time(flow.state, use=limits.use):
            continue
        units = [unit for unit in flow.units if unit.records]
        many = [
            (unit, stage)
            for unit in units
            if (stage := unit.stage) is not None
            and stage.tasks >= limits.more * cores
            and stage.tasks > (unit.records or 0)
            and stage.longest_ms <= limits.longest * unit.lasted_ms
            and stage.total_ms / cores >= limits.part * unit.lasted_ms
        ]
        if len(many) >= max(1.0, limits.fewest, limits.share * len(units)):
            yield _finding(flow, many, len(units), cores, limits)


def _finding(
    flow: h.Flow, many: list[tuple[h.Unit, h.StageLoad]], count: int, cores: int, limits: Many
) -> h.Finding:
    tasks = round(median(stage.tasks for _, stage in many))
    held = round(median(unit.records or 0 for unit, _ in many))
    took = h.fmt.duration(median(unit.lasted_ms for unit, _ in many))
    text = f"{h.fmt.plural(tasks, 'task')} for {h.fmt.plural(held, 'record')}"
    most, of = round(limits.more * cores, 1), h.fmt.plural(cores, "core")
    return h.flow_finding(
        flow,
        [unit for unit, _ in many],
        title=f"{len(many)} of {flow.plural(count)} take {took} for {text}: the tasks take the time",
        why=f"each runs {text}",
        cause="fixed-cost",
        confidence=h.Confidence.HIGH if len(many) >= h.defaults.FEW else h.Confidence.MEDIUM,
        rank=h.Rank.ROOT_CAUSE,
        count=len(many),
        measurements=(
            h.measurement("tasks", tasks, "tasks", most, over=f"median of the longest stage; {of}"),
            h.measurement("records", held, "records", over=f"median of {flow.plural(len(many))}"),
        ),
        actions=h.remedies("fixed-cost", flow.assessed.app, "fewer-tasks", cores=str(cores)),
    )


RULE = h.Rule("RT312", judge, Many, causes=("fixed-cost",))
