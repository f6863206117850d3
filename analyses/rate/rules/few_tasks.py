"""Batches use fewer tasks than there are cores.

What it reports
---------------
An application or query that is at its limit although the longest stage of its batches has at most half
as many tasks as there are free cores.

Why it matters
--------------
Cores without a task are idle. A receiver creates one block per block interval, and each block becomes one
task. A Kafka topic is read with one task per partition.

How it decides
--------------
The number of free cores comes from the executors in the event log or from the configuration, minus one
core per receiver. The rule checks the stage with the longest task in each recent batch. In at least
`share` of the batches, this stage uses at most `core-share` of the free cores, and its longest task takes at
least `longest-task` of the batch. The rule only applies if the job is at its limit: batches queue, take at
least `use` of the interval, or are kept small by back pressure.

If the stages use at most `too-few` of the free cores and the batches have enough records for all cores, the
finding names few tasks as the cause. The same applies to a query with one task per partition of its topics. Its
arriving rows must need more cores than these tasks use, but at most `needed-cores` of the free cores. Otherwise the
finding names no cause. A batch with one record needs only one task, no matter how many cores are free.

What to do
----------
For receivers, use a shorter `spark.streaming.blockInterval` (at least 50 ms) or `repartition`. For
topics, add partitions, set `minPartitions`, or use `repartition`.

False alarms
------------
Some stages must run in one task, such as a global sort.
"""

from statistics import median

from flowdiag.analyses.rate import helpers as h
from flowdiag.analyses.rate.cores import cores_of, free_cores
from flowdiag.analyses.rate.detect.tasks import more_tasks


class Limits(h.Limits):
    core_share: float = h.limit(
        0.5, "share", "maximum share of free cores in use; above it, more tasks gain little"
    )
    share: float = h.limit(0.6, "share", "minimum share of recent batches with this few tasks")
    too_few: float = h.limit(
        0.25, "share", "maximum share of free cores that the stage uses if tasks are too few"
    )
    needed_cores: float = h.limit(
        0.8, "share", "maximum share of the free cores that the arriving rows need"
    )
    longest_task: float = h.limit(
        0.5, "share", "minimum share of a batch that its longest task takes"
    )
    use: float = h.use_limit()


def judge(assessed: h.AssessedApplication, limits: Limits) -> h.Results:
    """Yield one finding per application or query that leaves cores idle."""
    for flow in h.flows_of(assessed):
        cores = free_cores(assessed.app) if flow.query is None else cores_of(assessed.app)
        if cores is None or not h.is_at_limit(flow.state, use=limits.use):
            continue
        units = [unit for unit in flow.units if unit.rows]
        few = [
            (unit, stage)
            for unit in units
            if (stage := unit.stage) is not None
            and stage.tasks <= limits.core_share * cores
            and stage.longest_ms >= limits.longest_task * unit.duration_ms
        ]
        if few and len(few) >= limits.share * len(units):
            yield _finding(flow, few, len(units), cores, limits)


def _finding(
    flow: h.Flow, few: list[tuple[h.Unit, h.StageLoad]], count: int, cores: int, limits: Limits
) -> h.Finding:
    tasks = median(stage.tasks for _, stage in few)
    longest = h.fmt.duration(median(stage.longest_ms for _, stage in few))
    text = f"{tasks:.0f} task{'s' if tasks > 1 else ''}"
    free = h.fmt.plural(cores, "core is", "cores are")
    enough_records = median(unit.records or 0 for unit, _ in few) >= cores
    needed = _needed_cores(few)
    would_keep_up = needed is not None and tasks < needed <= limits.needed_cores * cores
    alone = enough_records and (tasks <= limits.too_few * cores or would_keep_up)
    over, most = (
        f"median of the longest stage; {cores} free cores",
        round(limits.core_share * cores, 1),
    )
    return h.flow_finding(
        flow,
        [unit for unit, _ in few],
        title=f"{len(few)} of {flow.plural(count)} run in {text} (the longest takes {longest}), although {free} free",
        explain=h.explanation("few-tasks"),
        why=f"its longest stage has {text} for {cores} cores",
        cause="few-tasks" if alone else None,
        rank=_rank(alone=alone, would_keep_up=would_keep_up),
        count=len(few),
        measurements=(h.measurement("tasks", tasks, "tasks", most, over=over),),
        actions=more_tasks(flow, cores),
    )


def _rank(*, alone: bool, would_keep_up: bool) -> h.Rank:
    """Return the rank of the finding. More tasks help, but may not be the whole problem."""
    if alone and would_keep_up:
        return h.Rank.ROOT_CAUSE
    return h.Rank.MECHANISM if alone else h.Rank.REPETITION


def _needed_cores(few: list[tuple[h.Unit, h.StageLoad]]) -> float | None:
    """Return how many tasks must run all the time to process rows as fast as they arrive. None if unknown, or if the
    topics of the query have more partitions than the stage has tasks.
    """
    found = [
        trigger.input_per_s * stage.total_ms / 1000 / unit.records
        for unit, stage in few
        if isinstance(trigger := unit.record, h.Trigger) and trigger.input_per_s and unit.records
        if stage.tasks == sum(source.get("partition_count") or 0 for source in trigger.sources)
    ]
    return median(found) if found else None


RULE = h.Rule("RT306", judge, Limits, causes=("few-tasks",), needs="work")
