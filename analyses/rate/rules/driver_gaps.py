"""The driver works while no job runs.

What it reports
---------------
Batches or triggers in which no Spark job runs for much of the time.

Why it matters
--------------
All cores wait for one thread: more of them do not help.

How it decides
--------------
A batch's processing time (a trigger's `addBatch`) less what all its Spark jobs took, added up as if
none overlapped: what is left is the driver's, and at least that. Reported where it is `share` of
the batch or more, and `floor` at least, in most of the present batches. Only where batches queue, or
take almost the whole interval, and where the event log tells of jobs.

What to do
----------
Look at what the function of `foreachRDD` or `foreachBatch` does itself: calls to a database, loops
over collected rows, listing or renaming of files, planning of large queries.

False alarms
------------
An event log that lost events lacks jobs; the report says so.
"""

from __future__ import annotations

from collections.abc import Iterator
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
from flowdiag.analyses.flink.judging import duration_text
from flowdiag.analyses.rate import judging as j
from flowdiag.analyses.rate import state as rate_state
from flowdiag.analyses.rate.facts import Batch, Trigger
from flowdiag.analyses.rate.state import Assessed
from flowdiag.analyses.rule import Limits, Rule, limit


class DriverGapsLimits(Limits):
    """What RT308 compares with."""

    share: float = limit(0.5, "share", "of the batch: more than all its jobs together")
    floor: float = limit(500, "ms", "to start and end jobs takes tens of milliseconds")
    batches: float = limit(0.6, "share", "of the present batches")


def judge(assessed: Assessed, limits: DriverGapsLimits) -> Iterator[Finding | Inconclusive]:
    """One finding per application or query whose driver holds batches up."""
    for state in assessed.dstreams:
        if not j.short_of_time(state) or assessed.app.lost:
            continue
        late = [
            b for b in rate_state.late_window(assessed.app.completed) if batch_gap(b) is not None
        ]
        pairs = [(batch_gap(b) or 0, b.processing_ms or 0) for b in late]
        found = _finding(
            assessed,
            j.application_subject(assessed.app),
            pairs,
            j.of_batches(late),
            limits,
        )
        if found is not None:
            yield found
    for query, state in assessed.queries:
        if not j.short_of_time(state) or assessed.app.lost:
            continue
        triggers = [
            t
            for t in rate_state.late_triggers(query.triggers)
            if trigger_gap(t) is not None and t.rows
        ]
        found = _finding(
            assessed,
            j.query_subject(assessed.app, query),
            [(trigger_gap(t) or 0, t.duration_ms or 0) for t in triggers],
            j.of_triggers(triggers),
            limits,
        )
        if found is not None:
            yield found


def batch_gap(batch: Batch) -> int | None:
    """The time of a batch in which certainly no job ran; None where it is not told."""
    if batch.work is None or batch.work.busy_ms is None or batch.processing_ms is None:
        return None
    return None if batch.approximate else max(0, batch.processing_ms - batch.work.busy_ms)


def trigger_gap(trigger: Trigger) -> int | None:
    """The time of a trigger's `addBatch` in which certainly no job ran; None where it is not told."""
    lasted = trigger.durations.get("addBatch")
    if trigger.work is None or trigger.work.busy_ms is None or lasted is None:
        return None
    return max(0, lasted - trigger.work.busy_ms)


def _finding(
    assessed: Assessed,
    subject: Subject,
    pairs: list[tuple[int, int]],
    cited: tuple[Evidence, ...],
    limits: DriverGapsLimits,
) -> Finding | None:
    if len(pairs) < rate_state.FEW:
        return None
    over = [gap for gap, lasted in pairs if gap >= limits.floor and gap >= limits.share * lasted]
    if len(over) < limits.batches * len(pairs):
        return None
    gap = median(one for one, _ in pairs)
    share = median(one / max(1, lasted) for one, lasted in pairs)
    units = "triggers" if subject.query else "batches"
    return Finding(
        job=assessed.key,
        severity=Severity.WARNING,
        state=State.ONGOING,
        subject=subject,
        title=(
            f"In {len(over)} of {len(pairs)} {units} no job runs for {duration_text(gap)}, "
            f"{share:.0%} of the time"
        ),
        explain="The driver alone works then: more cores do not make it shorter.",
        why=f"no job runs for {duration_text(gap)} of each batch",
        cause="driver-gaps",
        rank=Rank.EXPLANATION,
        last_us=assessed.app.last_us,
        count=len(over),
        measurements=(
            Measurement(
                name="without-a-job",
                value=round(gap),
                unit="ms",
                threshold=limits.floor,
                population=f"median of {len(pairs)} {units}",
            ),
            Measurement(name="share", value=round(share, 3), unit="share", threshold=limits.share),
        ),
        evidence=cited,
        actions=(
            Action(
                text="Take thread dumps of the driver, and move what it does there into tasks",
                verify="processing time against the jobs of a batch",
            ),
        ),
    )


RULE: Final = Rule("RT308", judge, DriverGapsLimits)
