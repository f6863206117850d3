"""Batches run more tasks than they have records.

What it reports
---------------
An application or query that is at its limit. The largest stage of its batches has many more tasks than
there are cores, and more tasks than the batch has records.

Why it matters
--------------
Scheduling a task, starting it, and committing its part of the state take tens of milliseconds, with or
without records. Hundreds of tasks add seconds to each batch, and a lower rate does not help.

How it decides
--------------
The stage with the most task time has at least `tasks-per-core` times as many tasks as there are cores, and more tasks
than the batch has records. The total task time divided by the number of cores is at least `task-share` of the batch,
and no task takes more than `longest-task` of the batch. At least `share` of the recent batches with records, and at
least `min-batches`, meet these conditions. The rule needs an event log with tasks.

The rule only applies if the job is at its limit: batches queue, take at least `use` of the interval, or are kept
small by back pressure. If there are too few batches for a verdict, each must take at least `slow-batch`.

False alarms
------------
A batch may have a few expensive records. Usually one task then takes most of the batch, and the rule does not
apply.
"""

from statistics import median

from flowdiag.analyses.rate import helpers as h
from flowdiag.analyses.rate.cores import cores_of


class Limits(h.Limits):
    tasks_per_core: float = h.limit(
        4.0, "ratio", "minimum number of tasks per core; the recommended maximum is three"
    )
    task_share: float = h.limit(
        0.5, "share", "minimum share of the batch spent in tasks; below it, other work dominates"
    )
    longest_task: float = h.limit(
        0.2, "share", "maximum share of the batch for a single task; a longer task does real work"
    )
    share: float = h.limit(h.defaults.MOSTLY, "share", "minimum share of batches with many tasks")
    min_batches: float = h.limit(
        1, "batches", "minimum number of batches; a single batch shows the plan of all batches"
    )
    slow_batch: float = h.limit(
        2000, "ms", "minimum duration if there are too few batches for a verdict"
    )
    use: float = h.use_limit()


def judge(assessed: h.AssessedApplication, limits: Limits) -> h.Iterator[h.Finding]:
    """Yield one finding per application or query whose tasks are almost empty."""
    cores = cores_of(assessed.app)
    for flow in h.flows_of(assessed):
        if cores is None or not _may_be_at_limit(flow, limits):
            continue
        units = [unit for unit in flow.units if unit.records]
        many = [
            (unit, stage)
            for unit in units
            if unit.stage is not None
            and unit.stage.longest_ms <= limits.longest_task * unit.duration_ms
            and (stage := unit.stage.largest or unit.stage).tasks >= limits.tasks_per_core * cores
            and stage.tasks > (unit.records or 0)
            and stage.total_ms / cores >= limits.task_share * unit.duration_ms
        ]
        if len(many) >= max(1.0, limits.min_batches, limits.share * len(units)):
            yield _finding(flow, many, len(units), cores, limits)


def _may_be_at_limit(flow: h.Flow, limits: Limits) -> bool:
    """Return whether the flow is at its limit, or has slow batches but too few for a verdict."""
    if h.is_at_limit(flow.state, use=limits.use):
        return True
    slow = all(unit.duration_ms >= limits.slow_batch for unit in flow.units)
    return flow.state.stability is h.Stability.INCONCLUSIVE and slow


def _finding(
    flow: h.Flow, many: list[tuple[h.Unit, h.StageLoad]], count: int, cores: int, limits: Limits
) -> h.Finding:
    tasks = round(median(stage.tasks for _, stage in many))
    held = round(median(unit.records or 0 for unit, _ in many))
    took = h.fmt.duration(median(unit.duration_ms for unit, _ in many))
    text = f"{h.fmt.plural(tasks, 'task')} for {h.fmt.plural(held, 'record')}"
    most, of = round(limits.tasks_per_core * cores, 1), h.fmt.plural(cores, "core")
    return h.flow_finding(
        flow,
        [unit for unit, _ in many],
        title=f"{len(many)} of {flow.plural(count)} take {took} to run {text}: most of the time is task overhead",
        why=f"each runs {text}",
        cause="fixed-cost",
        confidence=h.Confidence.HIGH if len(many) >= h.defaults.FEW else h.Confidence.MEDIUM,
        rank=h.Rank.ROOT_CAUSE,
        count=len(many),
        measurements=(
            h.measurement("tasks", tasks, "tasks", most, over=f"median of the largest stage; {of}"),
            h.measurement("records", held, "records", over=f"median of {flow.plural(len(many))}"),
        ),
        actions=h.remedies("fixed-cost", flow.assessed.app, "fewer-tasks", cores=str(cores)),
    )


RULE = h.Rule("RT312", judge, Limits, causes=("fixed-cost",), needs="work")
