"""Tasks wait for those downstream.

What it reports
---------------
Which tasks wait for output buffers most of the time, and, where the end of the back pressure cannot be
seen, what is missing to see it.

Why it matters
--------------
A task that waits reads no slower than it must: the pressure travels up to the sources, which fall behind.
Who waits is never who is slow.

How it decides
--------------
Back-pressured time (1.13 and later) or the share of samples in which `isBackPressured` holds (1.10 and
later); 50 % is Flink's own limit for high. The values of a vertex are maxima over its subtasks. Before
1.10 only the usage of buffers tells, and this rule stays silent.

What to do
----------
Look at the task behind the last one that waits: the other findings name it. Where none does, collect the
metrics of all TaskManagers.

False alarms
------------
While a job works off a backlog after a start, back pressure is how it runs at full speed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from flowdiag.analyses.finding import (
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
from flowdiag.analyses.flink.pressure import ENOUGH_SAMPLES, KNOWN_SIBLINGS, unseen_end
from flowdiag.analyses.queues.facts import JobQueues
from flowdiag.analyses.queues.judging import serious, waiting_tasks
from flowdiag.analyses.queues.root import (
    NEAR_START_US,
    find_spells,
    linked,
    loads_in,
    pressed_windows,
    sampled,
)
from flowdiag.analyses.rule import Limits, Rule, limit

_COLLECT: Final = (
    "save metrics: `flowdiag collect` from a live cluster, metric reports in the logs (Slf4jReporter), or "
    "Prometheus"
)


class BackPressureLimits(Limits):
    """What BP101 compares with."""

    lasted: float = limit(60, "s", "shorter waits are bursts, and starts that warm up")


def judge(job: JobQueues, limits: BackPressureLimits) -> Iterator[Finding | Inconclusive]:
    """One finding per job, or why it cannot be judged."""
    found = serious(job)
    missing = _missing(job)
    if missing is not None and not found:
        yield Inconclusive(reason=missing, remedy=_COLLECT, job=job.job.key)
        return
    if found and waiting_tasks(job):
        yield _finding(job, found[0].first_us, found[0].last_us, found[0].state, None)
    if found:
        return
    yield from _without_end(job, limits.lasted)


def _missing(job: JobQueues) -> str | None:
    """Why a job cannot be judged at all."""
    if not job.samples and not job.totals:
        return "the input holds no metrics of this job's tasks"
    loads = loads_in(job)
    if all(load.busy is None and load.pressed is None for load in loads.values()):
        if not job.samples:
            return (
                "saved answers count records, and no busy or back-pressured times (1.16 and later)"
            )
        return "the metrics say nothing of busy times, back pressure or buffers"
    if not sampled(job):
        return (
            "single answers and counts since the start show no back pressure that lasts: no samples "
            "over time"
        )
    size = sum(job.topology.parallelism.values())
    if size and len(job.samples) < KNOWN_SIBLINGS * size:
        return f"the metrics of {size - len(job.samples)} of {size} subtasks are missing"
    return None


def _without_end(job: JobQueues, lasted_s: float) -> Iterator[Finding | Inconclusive]:
    """Back pressure whose end is not found."""
    windows = pressed_windows(job)
    if find_spells(job) or not windows:
        return
    held = [s for each in job.samples.values() for s in each if s.window in set(windows)]
    first = min((s.first_us for s in held if s.first_us is not None), default=None)
    last = max((s.last_us for s in held if s.last_us is not None), default=None)
    ongoing = windows[-1] == job.windows[-1]
    if first is None or last is None or (last - first < lasted_s * 1e6 and linked(job)):
        return
    if max((s.samples for s in held), default=0) * len(windows) < ENOUGH_SAMPLES:
        if ongoing:
            yield Inconclusive(
                reason="tasks wait, in too few samples to tell for whom",
                remedy="collect metrics for some minutes, every 15 seconds or more often",
                job=job.job.key,
            )
        return
    near = any(-NEAR_START_US <= first - start <= NEAR_START_US for start in job.starts_us)
    if not ongoing and (near or len(windows) * 100 <= len(job.windows)):
        return
    if not linked(job):
        if ongoing:
            yield Inconclusive(
                reason="tasks wait, and nothing tells what comes before what",
                remedy="add the job graph: the answer of /jobs/:id or /jobs/:id/plan, or the JobManager's log",
                job=job.job.key,
            )
        return
    loads = loads_in(job, windows)
    unseen = unseen_end(loads, job.topology)
    if unseen is not None:
        yield Inconclusive(
            reason=f"tasks wait for {j.shorten(unseen)}, and the metrics of some of its subtasks are missing",
            remedy="add the logs or metrics of every TaskManager",
            job=job.job.key,
        )
        return
    yield _finding(
        job,
        first,
        last,
        State.ONGOING if ongoing else State.RECOVERED,
        "Nobody behind them is busy all the time: bursts, a slow network, or a load that changes.",
    )


def _finding(
    job: JobQueues, first: int | None, last: int | None, state: State, note: str | None
) -> Finding:
    waiting = waiting_tasks(job)
    most = max((share for _, share in waiting), default=0.0)
    names = ", ".join(j.shorten(name, 40) for name, _ in waiting[:4])
    title = (
        f"{j.count_text(len(waiting), 'task waits', 'tasks wait')} for those downstream up to "
        f"{100 * min(most, 1.0):.0f} % of the time: {names}"
    )
    refs = [
        (each[-1].ref, each[-1].first_us)
        for key, each in job.samples.items()
        if any(key.task == name for name, _ in waiting)
    ]
    return Finding(
        job=job.job.key,
        severity=Severity.WARNING,
        state=state,
        subject=j.job_subject(job.job),
        title=title,
        cause=None,
        confidence=Confidence.HIGH,
        rank=Rank.CONSEQUENCE,
        first_us=first,
        last_us=last,
        explain="Who waits is not who is slow; the pressure comes from further down. "
        + (note or "The findings above say where it starts."),
        measurements=tuple(
            Measurement(
                name="back-pressured",
                value=round(min(share, 1.0), 4),
                unit="share",
                threshold=0.5,
                population=f"busiest subtask of {j.shorten(name)}",
            )
            for name, share in waiting[:6]
        ),
        evidence=cite(refs),
        ranked=True,
    )


RULE: Final = Rule("BP101", judge, BackPressureLimits, core=True)
