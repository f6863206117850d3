"""Tasks collect garbage, spill, or wait for a shuffle.

What it reports
---------------
Batches or triggers whose tasks spend much of their time on garbage collection or on fetching
shuffled blocks, or that write to disk what does not fit into memory.

Why it matters
--------------
It is time in which no record is processed, and memory or the network is what is short, not cores.

How it decides
--------------
From the metrics of the tasks in the event log, of the longest stage of the present batches:
garbage collection above `gc` of the tasks' time, or waits for shuffled blocks above `fetch`, in at
least `share` of them; or bytes spilled in as many. Only where batches queue, or take almost the
whole interval.

What to do
----------
Garbage: more memory per core (fewer cores or more memory per executor), fewer objects. Spills: more
partitions. Waits: fewer, larger blocks; look at the disks and the network of who serves them.

False alarms
------------
Garbage collection is counted for each task that runs meanwhile: with many tasks per executor it can
be added up to more than it cost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
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
from flowdiag.analyses.rate import judging as j
from flowdiag.analyses.rate import state as rate_state
from flowdiag.analyses.rate.facts import StageLoad
from flowdiag.analyses.rate.state import Assessed
from flowdiag.analyses.rule import Limits, Rule, limit


@dataclass(frozen=True, slots=True)
class _Kind:
    """One kind of overhead: its share of a stage, and the words for it."""

    cause: str
    of: Callable[[StageLoad], float]
    threshold: str
    unit: str
    words: str
    action: Action


_KINDS: Final = (
    _Kind(
        "gc-pressure",
        lambda stage: stage.gc_ms / max(1, stage.total_ms),
        "gc",
        "share",
        "collect garbage for {:.0%} of their time",
        Action(
            text="More memory per core: larger executors, or fewer cores in each",
            option="spark.executor.memory",
            restart_needed=True,
            verify="JVM GC Time of the tasks over their run time",
        ),
    ),
    _Kind(
        "shuffle-fetch",
        lambda stage: stage.fetch_ms / max(1, stage.total_ms),
        "fetch",
        "share",
        "wait for shuffled blocks for {:.0%} of their time",
        Action(
            text="See which executors serve the blocks: their disks, network and garbage collection",
            option="spark.reducer.maxSizeInFlight",
            verify="Fetch Wait Time of the tasks",
        ),
    ),
    _Kind(
        "spill",
        lambda stage: float(stage.spilled_bytes),
        "spill",
        "bytes",
        "spill {:.0f} bytes to disk",
        Action(
            text="More partitions, so that each fits into memory",
            option="spark.sql.shuffle.partitions",
            restart_needed=True,
            verify="Disk Bytes Spilled of the tasks",
        ),
    ),
)


class TaskOverheadLimits(Limits):
    """What RT307 compares with."""

    gc: float = limit(0.2, "share", "Spark's own page marks a tenth; it counts per task")
    fetch: float = limit(0.3, "share", "of the tasks' time")
    spill: float = limit(1_000_000, "bytes", "of a stage: less costs nothing")
    share: float = limit(0.6, "share", "of the present batches")


def judge(assessed: Assessed, limits: TaskOverheadLimits) -> Iterator[Finding | Inconclusive]:
    """One finding per kind of overhead and application or query."""
    for state in assessed.dstreams:
        if j.short_of_time(state):
            late = rate_state.late_window(assessed.app.completed)
            stages = [b.stage for b in late if b.stage is not None]
            cited = j.of_batches(b for b in late if b.stage is not None)
            subject = j.application_subject(assessed.app)
            yield from _findings(assessed, subject, stages, cited, limits)
    for query, state in assessed.queries:
        if j.short_of_time(state):
            triggers = rate_state.late_triggers(query.triggers)
            stages = [t.stage for t in triggers if t.stage is not None]
            cited = j.of_triggers(t for t in triggers if t.stage is not None)
            subject = j.query_subject(assessed.app, query)
            yield from _findings(assessed, subject, stages, cited, limits)


def _findings(
    assessed: Assessed,
    subject: Subject,
    stages: Sequence[StageLoad],
    cited: tuple[Evidence, ...],
    limits: TaskOverheadLimits,
) -> Iterator[Finding]:
    if len(stages) < rate_state.FEW:
        return
    for kind in _KINDS:
        least: float = getattr(limits, kind.threshold)
        values = [kind.of(stage) for stage in stages]
        over = [value for value in values if value >= least]
        if len(over) < limits.share * len(values):
            continue
        middle = median(values)
        words = kind.words.format(middle)
        units = "triggers" if subject.query else "batches"
        yield Finding(
            job=assessed.key,
            severity=Severity.WARNING,
            state=State.ONGOING,
            subject=subject,
            title=f"In {len(over)} of {len(values)} {units} the tasks of the longest stage {words}",
            explain="No record is processed meanwhile.",
            why=f"its tasks {words}",
            cause=kind.cause,
            rank=Rank.MECHANISM,
            last_us=assessed.app.last_us,
            count=len(over),
            measurements=(
                Measurement(
                    name=kind.cause,
                    value=round(middle, 3),
                    unit=kind.unit,
                    threshold=least,
                    population=f"median of {len(values)} {units}, all tasks of the longest stage",
                ),
            ),
            evidence=cited,
            actions=(j.with_current(kind.action, assessed.app),),
        )


RULE: Final = Rule("RT307", judge, TaskOverheadLimits)
