"""Tasks would use more network buffers than there are.

What it reports
---------------
TaskManagers on which the buffers that tasks ask for are more than there are, or none was free.

Why it matters
--------------
Pools that get little above their minimum empty at every burst: tasks wait although nobody is slow.

How it decides
--------------
`RequestedMemoryUsage` above 100 % (1.15 and later; Flink warns of it itself), on the mean of five samples at
least: a warning where tasks wait and no slow task explains it, information otherwise, since full
throughput may not need them. Or hardly a segment available (5 % on average, at times none) in windows with
five samples: a warning unless a slow task explains that everything fills up.

What to do
----------
More network memory; fewer buffers per channel, or a smaller parallelism where channels are many.

False alarms
------------
Jobs that are fast enough as they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from flowdiag.analyses.finding import (
    MAX_CITED,
    Action,
    Confidence,
    Finding,
    Inconclusive,
    Measurement,
    Rank,
    Severity,
    State,
    cite,
)
from flowdiag.analyses.flink import judging as j
from flowdiag.analyses.flink.options import option
from flowdiag.analyses.flink.pressure import ENOUGH_SAMPLES
from flowdiag.analyses.queues.facts import JobQueues, Machine, joined
from flowdiag.analyses.queues.judging import machine, serious
from flowdiag.analyses.queues.root import loads_in
from flowdiag.analyses.rule import Limits, Rule, limit

_WAITS: Final = 0.1
"""Flink's own limit between no and low back pressure."""
_HARDLY: Final = 0.05
"""Of the segments."""


class NetworkMemoryUsedUpLimits(Limits):
    """What BP202 compares with."""

    requested: float = limit(1.0, "share", "of the network memory; Flink warns above 100 %")


def judge(job: JobQueues, limits: NetworkMemoryUsedUpLimits) -> Iterator[Finding | Inconclusive]:
    """One finding per job."""
    tight = [
        found
        for name, each in job.machines.items()
        if (found := _tight(name, each, limits.requested)) is not None
    ]
    if tight:
        yield _finding(job, tight)


def _tight(
    name: str, each: Sequence[Machine], limit: float
) -> tuple[str, float | None, float | None, float | None] | None:
    """The TaskManager, the share that is requested, free and all segments; None if there are enough."""
    requested = joined(m.gauges.get("segments_requested") for m in each)
    free = joined(m.gauges.get("segments_free") for m in each)
    total = joined(m.gauges.get("segments") for m in each)
    too_many = (
        requested is not None and requested.n >= ENOUGH_SAMPLES and requested.mean / 100 > limit
    )
    none_left = _exhausted(each) >= ENOUGH_SAMPLES
    if not too_many and not none_left:
        return None
    return (
        name,
        None if requested is None else requested.mean / 100,
        None if free is None else free.mean,
        None if total is None else total.high,
    )


def _exhausted(each: Sequence[Machine]) -> int:
    """Samples of the windows in which hardly a segment was free, and at times none."""
    return sum(
        free.n
        for m in each
        if (free := m.gauges.get("segments_free")) is not None
        and (total := m.gauges.get("segments")) is not None
        and free.low <= 0
        and free.mean <= _HARDLY * total.high
    )


def _finding(
    job: JobQueues, tight: list[tuple[str, float | None, float | None, float | None]]
) -> Finding:
    waits = any(
        load.wait_measured and (load.pressed or 0.0) > _WAITS for load in loads_in(job).values()
    )
    empty = any(_exhausted(job.machines[name]) >= ENOUGH_SAMPLES for name, *_ in tight)
    unexplained = (waits or empty) and not serious(job)
    tight.sort(key=lambda item: (-(item[1] or 0.0), item[0]))
    name, requested, free, total = tight[0]
    key = option("network-max", job.job.version)
    said = (
        f"{100 * requested:.0f} % of it is asked for"
        if requested is not None and requested > 1
        else "at times no buffer is free"
    )
    return Finding(
        job=job.job.key,
        severity=Severity.WARNING if unexplained else Severity.INFO,
        state=State.ONGOING,
        subject=machine(job, name) if len(tight) == 1 else j.job_subject(job.job),
        title=f"Network memory is tight on {j.count_text(len(tight), 'TaskManager')}: {said}"
        + (", and tasks wait" if waits else ""),
        cause="network-memory",
        confidence=Confidence.MEDIUM if unexplained else Confidence.LOW,
        rank=Rank.MECHANISM,
        count=len(tight),
        explain="Pools that want more share what is left above their minimum. A pool that is empty makes "
        "its task wait for as long as one buffer takes.",
        measurements=tuple(
            item
            for item in (
                _number("requested-network-memory", requested, "share", name),
                _number("free-segments", free, "buffers", name),
                _number("segments", total, "buffers", name),
            )
            if item is not None
        ),
        evidence=cite(
            (m.ref, m.first_us) for name, *_ in tight for m in job.machines.get(name, ())[-1:]
        )[:MAX_CITED],
        actions=(
            Action(
                text="Give TaskManagers more network memory; `flowdiag memory` counts what the job needs",
                option=key,
                current=j.configured(job.job, key) if key else None,
                restart_needed=True,
                verify="RequestedMemoryUsage below 100 %",
            ),
        ),
    )


def _number(name: str, value: float | None, unit: str, place: str) -> Measurement | None:
    if value is None:
        return None
    return Measurement(name=name, value=round(value, 3), unit=unit, population=f"mean on {place}")


RULE: Final = Rule("BP202", judge, NetworkMemoryUsedUpLimits)
