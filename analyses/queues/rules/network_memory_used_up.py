"""Tasks would use more network buffers than there are.

What it reports
---------------
TaskManagers on which the buffers that tasks ask for are more than there are, or none was free.

Why it matters
--------------
Pools that get little above their minimum empty at every burst: tasks wait although nobody is slow.

How it decides
--------------
`RequestedMemoryUsage` above `requested` (1.15 and later; Flink warns of it itself), on the mean of `samples` at
least: a warning where a task waits for more than `waits` of the time and no slow task explains it, information
otherwise, since full throughput may not need them. Or `hardly` a segment available on average, at times none,
in windows with `samples`: a warning unless a slow task explains that everything fills up.

What to do
----------
More network memory; fewer buffers per channel, or a smaller parallelism where channels are many.

False alarms
------------
Jobs that are fast enough as they are.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from flowdiag.analyses.queues import helpers as h


class UsedUp(h.Limits):
    """What BP202 compares with."""

    requested: float = h.limit(1.0, "share", "of the network memory; Flink warns above 100%")
    waits: float = h.limit(0.1, "share", "Flink's own limit between no and low back pressure")
    hardly: float = h.limit(0.05, "share", "of the segments, on average: the next burst has none")
    samples: float = h.limit(5, "samples", "single ones are racy")


class _Tight(NamedTuple):
    """A TaskManager short of segments: the share of them that is requested, free ones and all."""

    name: str
    requested: float | None
    free: float | None
    total: float | None
    exhausted: bool


def judge(job: h.JobQueues, limits: UsedUp) -> h.Iterator[h.Finding]:
    """One finding per job."""
    tight = [
        found
        for name, each in job.machines.items()
        if (found := _tight(name, each, limits)) is not None
    ]
    if tight:
        yield _finding(job, sorted(tight, key=lambda t: (-(t.requested or 0.0), t.name)), limits)


def _tight(name: str, each: h.Sequence[h.Machine], limits: UsedUp) -> _Tight | None:
    """The TaskManager in numbers; None if there are enough segments."""
    requested = h.joined(m.gauges.get("segments_requested") for m in each)
    free = h.joined(m.gauges.get("segments_free") for m in each)
    total = h.joined(m.gauges.get("segments") for m in each)
    too_many = (
        requested is not None
        and requested.n >= limits.samples
        and requested.mean / 100 > limits.requested
    )
    exhausted = _exhausted(each, limits.hardly) >= limits.samples
    if not too_many and not exhausted:
        return None
    return _Tight(
        name,
        None if requested is None else requested.mean / 100,
        None if free is None else free.mean,
        None if total is None else total.high,
        exhausted,
    )


def _exhausted(each: h.Sequence[h.Machine], hardly: float) -> int:
    """Samples of the windows in which hardly a segment was free, and at times none."""
    return sum(
        free.n
        for m in each
        if (free := m.gauges.get("segments_free")) is not None
        and (total := m.gauges.get("segments")) is not None
        and free.low <= 0
        and free.mean <= hardly * total.high
    )


def _finding(job: h.JobQueues, tight: list[_Tight], limits: UsedUp) -> h.Finding:
    waits = any(
        load.wait_measured and (load.pressed or 0.0) > limits.waits
        for load in h.loads_in(job).values()
    )
    unexplained = (waits or any(t.exhausted for t in tight)) and not h.serious(job)
    worst = tight[0]
    said = (
        f"{h.fmt.percent(worst.requested)} of it is asked for"
        if worst.requested is not None and worst.requested > limits.requested
        else "at times no buffer is free"
    )
    taskmanagers = h.fmt.plural(len(tight), "TaskManager")
    last = [report for t in tight for report in job.machines[t.name][-1:]]
    return h.job_finding(
        job,
        subject=h.machine(job, worst.name) if len(tight) == 1 else None,
        title=f"Network memory is tight on {taskmanagers}: {said}"
        + (", and tasks wait" if waits else ""),
        severity=h.Severity.WARNING if unexplained else h.Severity.INFO,
        cause="network-memory",
        confidence=h.Confidence.MEDIUM if unexplained else h.Confidence.LOW,
        rank=h.Rank.MECHANISM,
        count=len(tight),
        measurements=tuple(_measured(worst)),
        # The last report of each TaskManager, of all that it wrote.
        evidence=h.records_of(last, "segments_requested", "segments_free"),
        evidence_total=sum(len(h.records_of(job.machines[t.name])) for t in tight),
        ranked=True,
        actions=h.remedies("network-memory", job.job),
    )


def _measured(tight: _Tight) -> h.Iterator[h.Measurement]:
    over = f"mean on {tight.name}"
    if tight.requested is not None:
        yield h.measurement(
            "requested-network-memory", round(tight.requested, 3), "share", over=over
        )
    if tight.free is not None:
        yield h.measurement("free-segments", round(tight.free, 3), "buffers", over=over)
    if tight.total is not None:
        yield h.measurement("segments", round(tight.total, 3), "buffers", over=over)


RULE: Final = h.Rule("BP202", judge, UsedUp, causes=("network-memory",))
