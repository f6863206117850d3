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
many tasks, and its longest task takes at least half of the batch. Only where batches queue, or take
almost the whole interval.

What to do
----------
Receivers: a shorter `spark.streaming.blockInterval` (50 ms at least), or `repartition`. Topics: more
partitions, `minPartitions`, or `repartition`.

False alarms
------------
Stages that are meant to run in one task, such as a global order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median
from typing import Final

from flowdiag.analyses.finding import (
    Action,
    Evidence,
    Finding,
    Inconclusive,
    Measurement,
    Rank,
    Severity,
    State,
    Subject,
)
from flowdiag.analyses.flink.judging import duration_text, milliseconds
from flowdiag.analyses.rate import judging as j
from flowdiag.analyses.rate import state as rate_state
from flowdiag.analyses.rate.cores import cores_of, free_cores
from flowdiag.analyses.rate.facts import ApplicationFacts, StageLoad
from flowdiag.analyses.rate.state import Assessed
from flowdiag.analyses.rule import Limits, Rule, limit

BLOCK_INTERVAL: Final = "spark.streaming.blockInterval"
SHORTEST_MS: Final = 50  # blocks of less cost more to schedule than they bring
BESIDE: Final = 35  # behind the symptom: more tasks help, but may not be all that is wrong


class FewTasksLimits(Limits):
    """What RT306 compares with."""

    part: float = limit(0.5, "share", "of the free cores: with more of them, little is won")
    share: float = limit(0.6, "share", "of the present batches")
    few: float = limit(0.25, "share", "of the free cores: below it, this alone explains it")


def judge(assessed: Assessed, limits: FewTasksLimits) -> Iterator[Finding | Inconclusive]:
    """One finding per application or query that leaves cores idle."""
    for state in assessed.dstreams:
        cores = free_cores(assessed.app)
        if cores is None or not j.short_of_time(state):
            continue
        late = rate_state.late_window(assessed.app.completed)
        units = [(b.processing_ms or 0, b.stage) for b in late]
        few = _few(units, cores, limits)
        if few:
            yield _finding(
                assessed,
                j.application_subject(assessed.app),
                few,
                (len(late), cores),
                j.of_batches(b for b in late if b.stage in few),
                limits,
                _for_batches(assessed.app, cores),
            )
    for query, state in assessed.queries:
        cores = cores_of(assessed.app)
        if cores is None or not j.short_of_time(state):
            continue
        triggers = [t for t in rate_state.late_triggers(query.triggers) if t.rows]
        few = _few([(t.duration_ms or 0, t.stage) for t in triggers], cores, limits)
        if few:
            yield _finding(
                assessed,
                j.query_subject(assessed.app, query),
                few,
                (len(triggers), cores),
                j.of_triggers(t for t in triggers if t.stage in few),
                limits,
                _for_queries(assessed.app, cores),
            )


def _few(
    units: Sequence[tuple[int, StageLoad | None]], cores: int, limits: FewTasksLimits
) -> list[StageLoad]:
    found = [
        stage
        for lasted, stage in units
        if stage is not None
        and stage.tasks <= limits.part * cores
        and stage.longest_ms >= 0.5 * lasted
    ]
    return found if found and len(found) >= limits.share * len(units) else []


def _for_batches(app: ApplicationFacts, cores: int) -> Action:
    streams = {s.stream for b in app.batches for s in b.streams}
    interval = app.interval_ms or 0
    now = milliseconds(app.settings.get(BLOCK_INTERVAL, "200ms")) or 200.0
    wanted = max(float(SHORTEST_MS), interval * max(1, len(streams)) / cores)
    if app.receivers and wanted < now:
        return Action(
            text=f"Make blocks shorter, so that a batch has {cores} of them",
            option=BLOCK_INTERVAL,
            current=j.setting(app, BLOCK_INTERVAL),
            proposed=f"{wanted:.0f}ms",
            restart_needed=True,
            verify="tasks of the longest stage",
        )
    return Action(
        text=f"Repartition what comes in to {cores} partitions before the expensive part",
        restart_needed=True,
        verify="tasks of the longest stage",
    )


def _for_queries(app: ApplicationFacts, cores: int) -> Action:
    option = "spark.sql.shuffle.partitions"
    return Action(
        text=f"At least {cores} partitions: minPartitions at the source, or repartition",
        option=option,
        current=app.settings.get(option),
        restart_needed=True,
        verify="tasks of the longest stage",
    )


def _finding(
    assessed: Assessed,
    subject: Subject,
    few: list[StageLoad],
    population: tuple[int, int],
    cited: tuple[Evidence, ...],
    limits: FewTasksLimits,
    action: Action,
) -> Finding:
    count, cores = population
    tasks = median(stage.tasks for stage in few)
    longest = median(stage.longest_ms for stage in few)
    alone = tasks <= limits.few * cores
    units = "triggers" if subject.query else "batches"
    return Finding(
        job=assessed.key,
        severity=Severity.WARNING,
        state=State.ONGOING,
        subject=subject,
        title=(
            f"{len(few)} of {count} {units} run in {tasks:.0f} task{'s' if tasks > 1 else ''} "
            f"of {duration_text(longest)} while {cores} cores are free for them"
        ),
        explain="The other cores have nothing to do while the batch waits for these tasks.",
        why=f"its longest stage has {tasks:.0f} task{'s' if tasks > 1 else ''} for {cores} cores",
        cause="few-tasks" if alone else None,
        rank=Rank.MECHANISM if alone else BESIDE,
        last_us=assessed.app.last_us,
        count=len(few),
        measurements=(
            Measurement(
                name="tasks",
                value=tasks,
                unit="tasks",
                threshold=round(limits.part * cores, 1),
                population=f"median of the longest stage; {cores} free cores",
            ),
        ),
        evidence=cited,
        actions=(action,),
    )


RULE: Final = Rule("RT306", judge, FewTasksLimits)
