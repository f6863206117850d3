"""Batches run more tasks than they hold records.

What it reports
---------------
An application or query that is short of time while the longest stage of its batches has many more tasks
than there are cores, and fewer records than tasks.

Why it matters
--------------
To schedule a task, to start it and to commit its part of the state takes tens of milliseconds, whether it has
records or not: with hundreds of them a batch takes seconds that no lower rate saves.

How it decides
--------------
In at least `share` of the present batches with records, `fewest` or more: the longest stage has `more` times as
many tasks as there are cores, or more, and more tasks than the batch has records; all of its tasks together,
spread over the cores, take `part` of the batch or more, and none of them takes `longest` of it. Only where
batches queue, or take `use` of the interval or more, and where the event log tells of tasks.

What to do
----------
Fewer shuffle partitions: as many as cores, or twice as many. A query with state keeps the number that it began
with in its checkpoint.

False alarms
------------
A handful of records that cost much each: one task then takes most of the batch, and the rule is silent.
"""

from __future__ import annotations

from statistics import median

from flowdiag.analyses.rate import helpers as h
from flowdiag.analyses.rate.cores import cores_of


class Many(h.Limits):
    """What RT312 compares with."""

    more: float = h.limit(
        4.0, "ratio", "of tasks to cores: up to three times as many is recommended"
    )
    part: float = h.limit(0.5, "share", "of the batch, for its tasks: other things matter more")
    longest: float = h.limit(0.2, "share", "of the batch, for one task: it has something to do")
    share: float = h.limit(h.defaults.MOSTLY, "share", "of the present batches")
    fewest: float = h.limit(2, "batches", "a single one is chance")
    use: float = h.limit(h.defaults.NARROW, "share", "of the interval: with less, nothing is short")


def judge(assessed: h.Assessed, limits: Many) -> h.Iterator[h.Finding]:
    """One finding per application or query whose tasks have next to nothing to do."""
    cores = cores_of(assessed.app)
    for flow in h.flows_of(assessed):
        if cores is None or not h.short_of_time(flow.state, use=limits.use):
            continue
        units = [unit for unit in flow.units if unit.records]
        many = [unit for unit in units if _idle_tasks(unit, cores, limits)]
        if len(many) >= max(1.0, limits.fewest, limits.share * len(units)):
            yield _finding(flow, many, len(units), cores, limits)


def _idle_tasks(unit: h.Unit, cores: int, limits: Many) -> bool:
    """Whether the time of a batch is that of tasks with next to nothing to do."""
    stage = unit.stage
    return (
        stage is not None
        and stage.tasks >= limits.more * cores
        and stage.tasks > (unit.records or 0)
        and stage.longest_ms <= limits.longest * unit.lasted_ms
        and stage.total_ms / cores >= limits.part * unit.lasted_ms
    )


def _finding(flow: h.Flow, many: list[h.Unit], count: int, cores: int, limits: Many) -> h.Finding:
    stages = [unit.stage for unit in many if unit.stage is not None]
    tasks = round(median(stage.tasks for stage in stages))
    held = round(median(unit.records or 0 for unit in many))
    took = h.fmt.duration(median(unit.lasted_ms for unit in many))
    told = f"{h.fmt.plural(tasks, 'task')} for {h.fmt.plural(held, 'record')}"
    return h.flow_finding(
        flow,
        many,
        title=f"{len(many)} of {flow.plural(count)} take {took} for {told}: what costs the time is the tasks",
        why=f"each runs {told}",
        cause="fixed-cost",
        confidence=h.Confidence.HIGH if len(many) >= h.defaults.FEW else h.Confidence.MEDIUM,
        rank=h.Rank.ROOT_CAUSE,
        count=len(many),
        measurements=(
            h.measurement(
                "tasks",
                tasks,
                "tasks",
                round(limits.more * cores, 1),
                over=f"median of the longest stage; {h.fmt.plural(cores, 'core')}",
            ),
            h.measurement("records", held, "records", over=f"median of {flow.plural(len(many))}"),
        ),
        actions=h.remedies("fixed-cost", flow.assessed.app, "fewer-tasks", cores=str(cores)),
    )


RULE = h.Rule("RT312", judge, Many, causes=("fixed-cost",))
