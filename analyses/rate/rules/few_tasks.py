"""Batches use fewer tasks than there are cores.

What it reports
---------------
An application or query that is short of time while the longest stage of its batches has half as
many tasks as there are free cores, or fewer.

Why it matters
--------------
Cores without a task wait. A receiver makes one block, and so one task, per block interval; a topic
one task per partition.

How it decides
--------------
Cores are those of the executors (event log) or of the configuration, less one for each receiver.
In at least `share` of the present batches the stage with the longest task has at most `part` of that
many tasks, and its longest task takes at least `longest` of the batch. With `few` of the cores or
less, this alone is the cause. Only where batches queue, or take `use` of the interval or more.

Where the input does not count what these batches hold, or they hold fewer records than there are cores,
it is a remark beside the cause: one record takes one task, however many cores are free.

What to do
----------
Receivers: a shorter `spark.streaming.blockInterval` (50 ms at least), or `repartition`. Topics: more
partitions, `minPartitions`, or `repartition`.

False alarms
------------
Stages that are meant to run in one task, such as a global order.
"""

from __future__ import annotations

from statistics import median
from typing import Final

from flowdiag.analyses.rate import helpers as h
from flowdiag.analyses.rate.cores import cores_of, free_cores

BLOCK_INTERVAL: Final = "spark.streaming.blockInterval"
SHORTEST_MS: Final = 50  # blocks of less cost more to schedule than they bring


class Few(h.Limits):
    """What RT306 compares with."""

    part: float = h.limit(0.5, "share", "of the free cores: with more of them, little is won")
    share: float = h.limit(0.6, "share", "of the present batches")
    few: float = h.limit(0.25, "share", "of the free cores: below it, this alone explains it")
    longest: float = h.limit(
        0.5, "share", "of the batch, for its longest task: it holds the batch up"
    )
    use: float = h.limit(h.defaults.NARROW, "share", "of the interval: with less, nothing is short")


def judge(assessed: h.Assessed, limits: Few) -> h.Iterator[h.Finding | h.Inconclusive]:
    """One finding per application or query that leaves cores idle."""
    for flow in h.flows_of(assessed):
        cores = free_cores(assessed.app) if flow.query is None else cores_of(assessed.app)
        if cores is None or not h.short_of_time(flow.state, use=limits.use):
            continue
        units = [unit for unit in flow.units if unit.rows]
        few = [unit for unit in units if _leaves_cores(unit, cores, limits)]
        if few and len(few) >= limits.share * len(units):
            yield _finding(flow, few, len(units), cores, limits)


def _leaves_cores(unit: h.Unit, cores: int, limits: Few) -> bool:
    stage = unit.stage
    return (
        stage is not None
        and stage.tasks <= limits.part * cores
        and stage.longest_ms >= limits.longest * unit.lasted_ms
    )


def _finding(flow: h.Flow, few: list[h.Unit], count: int, cores: int, limits: Few) -> h.Finding:
    stages = [unit.stage for unit in few if unit.stage is not None]
    tasks = median(stage.tasks for stage in stages)
    longest = h.fmt.duration(median(stage.longest_ms for stage in stages))
    told = f"{tasks:.0f} task{'s' if tasks > 1 else ''}"
    alone = tasks <= limits.few * cores and _to_spread(few, cores)
    return h.flow_finding(
        flow,
        few,
        title=f"{len(few)} of {flow.plural(count)} run in {told} of {longest} while {h.fmt.plural(cores, 'core is', 'cores are')} "
        "free for them",
        explain=h.explanation("few-tasks"),
        why=f"its longest stage has {told} for {cores} cores",
        cause="few-tasks" if alone else None,
        # Behind the symptom: more tasks help, but may not be all that is wrong.
        rank=h.Rank.MECHANISM if alone else h.Rank.REPETITION,
        count=len(few),
        measurements=(
            h.measurement(
                "tasks",
                tasks,
                "tasks",
                round(limits.part * cores, 1),
                over=f"median of the longest stage; {cores} free cores",
            ),
        ),
        actions=_actions(flow, cores),
    )


def _to_spread(few: list[h.Unit], cores: int) -> bool:
    """Whether the batches hold more than that many tasks could have shared: unknown is no."""
    return median(unit.records or 0 for unit in few) >= cores


def _actions(flow: h.Flow, cores: int) -> tuple[h.Action, ...]:
    app = flow.assessed.app
    if flow.query is not None:
        # The option only counts where the tasks are those of a shuffle.
        now = app.settings.get(SHUFFLE_PARTITIONS)
        tasks = {unit.stage.tasks for unit in flow.units if unit.stage is not None}
        if now is not None and tasks == {_number(now)}:
            return h.remedies(
                "few-tasks", app, "shuffle", proposed={"shuffle": cores}, cores=str(cores)
            )
        return h.remedies("few-tasks", app, "partitions", cores=str(cores))
    wanted = _block_interval_ms(app, cores)
    if wanted is None:
        return h.remedies("few-tasks", app, "repartition", cores=str(cores))
    proposed = {"blocks": wanted}
    return h.remedies("few-tasks", app, "blocks", proposed=proposed, cores=str(cores))


def _number(text: str) -> int | None:
    return int(text) if text.isdecimal() and len(text) < 10 else None


def _block_interval_ms(app: h.ApplicationFacts, cores: int) -> float | None:
    """How long blocks may be for a batch to have one per core; None where that does not help."""
    streams = {s.stream for b in app.batches for s in b.streams}
    now = h.milliseconds(app.settings.get(BLOCK_INTERVAL, "200ms")) or 200.0
    wanted = max(float(SHORTEST_MS), (app.interval_ms or 0) * max(1, len(streams)) / cores)
    return wanted if app.receivers and wanted < now else None


SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"

RULE = h.Rule("RT306", judge, Few, causes=("few-tasks",))
