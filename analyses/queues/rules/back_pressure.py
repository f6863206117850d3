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
later); 50% is Flink's own limit for high. The values of a vertex are maxima over its subtasks. Before
1.10 only the usage of buffers tells, and this rule stays silent. Where nobody is found at the end of it, it has
to have lasted for `lasted`, in `samples` at least; if it is over, it must not have begun within `near-start` of a
start, nor be `isolated`. With the metrics of fewer than `known` of the subtasks, or with fewer than `samples`
of every subtask, nobody is called healthy: who works while others wait is said, as a suspicion.

What to do
----------
Look at the task behind the last one that waits: the other findings name it. Where none does, collect the
metrics of all TaskManagers.

False alarms
------------
While a job works off a backlog after a start, back pressure is how it runs at full speed.
"""

from __future__ import annotations

from typing import Final

from flowdiag.analyses.flink.placement import SubtaskKey
from flowdiag.analyses.flink.pressure import KNOWN_SIBLINGS, PRESSED, Load, unseen_end
from flowdiag.analyses.queues import helpers as h

_COLLECT: Final = (
    "save metrics: `flowdiag collect` from a live cluster, metric reports in the logs (Slf4jReporter), or "
    "Prometheus"
)
_FOUND: Final = "The findings above say where it starts."
_NOT_FOUND: Final = (
    "Nobody behind them is busy all the time: bursts, a slow network, or a load that changes."
)


class Pressed(h.Limits):
    """What BP101 compares with."""

    lasted: float = h.limit(60, "s", "shorter waits are bursts, and starts that warm up")
    known: float = h.limit(
        KNOWN_SIBLINGS, "share", "of the subtasks: the end may be one of the rest"
    )
    samples: float = h.limit(5, "samples", "single ones are racy")
    near_start: float = h.limit(120, "s", "a start works off its backlog at full speed")
    isolated: float = h.limit(0.01, "share", "of the windows: what is over and rarer is a burst")


def judge(job: h.JobQueues, limits: Pressed) -> h.Iterator[h.Finding | h.Inconclusive]:
    """One finding per job, or why it cannot be judged."""
    found = h.serious(job)
    if found:
        if h.waiting_tasks(job):
            yield _finding(job, found[0].first_us, found[0].last_us, found[0].state, _FOUND)
        return
    missing = _missing(job, limits.known)
    if missing is not None:
        yield h.Inconclusive(reason=missing, remedy=_COLLECT, job=job.job.key)
        return
    windows = h.pressed_windows(job)
    thin = h.most_samples(job) < limits.samples
    if thin and not (h.find_spells(job) and not windows):
        yield _too_few(job, windows)
    elif windows and not h.find_spells(job):
        yield from _without_end(job, windows, limits)


def _too_few(job: h.JobQueues, windows: list[int]) -> h.Inconclusive:
    """Too few samples to say that nobody is slow; who is suspected is said."""
    number = h.fmt.plural(h.most_samples(job), "sample")
    roots = [root for window in windows for root in h.ends(job, h.loads_in(job, [window]))]
    suspects = _suspects(job, [load for root in roots for load in root.subtasks])
    if suspects is not None:
        reason = f"{suspects}, in {number} only"
    elif windows:
        reason = f"tasks wait, in too few samples to tell for whom ({number})"
    else:
        reason = f"{number} of each subtask at most: too few to say that nobody waits"
    return h.Inconclusive(
        reason=reason,
        remedy="collect metrics for some minutes, every 15 seconds or more often",
        job=job.job.key,
    )


def _suspects(job: h.JobQueues, busy: list[Load], where: str = " behind them") -> str | None:
    """Who works while others wait, in words that convict nobody; None where nobody is seen."""
    names = list(dict.fromkeys(h.subtask_name(job, load.key) for load in busy))
    if not names:
        return None
    shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    works = "works" if len(names) == 1 else "work"
    return f"tasks wait and {shown}{where} {works} all the time"


def _seen_once(job: h.JobQueues) -> str | None:
    """The same of single answers, whether or not anything tells the order of the tasks."""
    loads = [*h.loads_in(job).values()]
    wait = {load.key.task for load in loads if load.waits and load.wait_measured}
    busy = [load for load in loads if load.works and load.measured and load.key.task not in wait]
    said = _suspects(job, busy, where="") if wait else None
    return None if said is None else f"{said} in a single answer: nothing shows that it lasts"


def _missing(job: h.JobQueues, known: float) -> str | None:
    """Why a job cannot be judged at all."""
    if not job.samples and not job.totals:
        return "the input holds no metrics of this job's tasks"
    if all(load.busy is None and load.pressed is None for load in h.loads_in(job).values()):
        if not job.samples:
            return (
                "saved answers count records, and no busy or back-pressured times (1.16 and later)"
            )
        return "the metrics say nothing of busy times, back pressure or buffers"
    if not h.sampled(job):
        return _seen_once(job) or (
            "single answers and counts since the start show no back pressure that lasts: no samples "
            "over time"
        )
    size = sum(job.topology.parallelism.values())
    if size and len(job.samples) < known * size:
        return f"the metrics of {size - len(job.samples)} of {size} subtasks are missing"
    return None


def _without_end(
    job: h.JobQueues, windows: list[int], limits: Pressed
) -> h.Iterator[h.Finding | h.Inconclusive]:
    """Back pressure whose end is not found."""
    wanted = set(windows)
    held = [s for each in job.samples.values() for s in each if s.window in wanted]
    first = min((s.first_us for s in held if s.first_us is not None), default=None)
    last = max((s.last_us for s in held if s.last_us is not None), default=None)
    ongoing = windows[-1] == job.windows[-1]
    if first is None or last is None or (last - first < limits.lasted * 1e6 and h.linked(job)):
        return
    few = max((s.samples for s in held), default=0) * len(windows) < limits.samples
    near_us = limits.near_start * 1e6
    near = any(abs(first - start) <= near_us for start in job.starts_us)
    if not ongoing and (few or near or len(windows) <= limits.isolated * len(job.windows)):
        return
    if holding := h.awaits_barrier(job, windows):
        yield _held_back(job, holding)
        return
    unclear = _unclear(job, windows, few=few)
    if unclear is None:
        state = h.State.ONGOING if ongoing else h.State.RECOVERED
        yield _finding(job, first, last, state, _NOT_FOUND)
    elif ongoing or h.linked(job):
        yield unclear


def _held_back(job: h.JobQueues, holding: tuple[SubtaskKey, ...]) -> h.Inconclusive:
    """Sources that wait since the barriers of others do not come: no back pressure."""
    names = h.fmt.listed((h.subtask_name(job, key) for key in holding[:3]), " and ")
    return h.Inconclusive(
        reason=f"sources wait while nobody downstream works: the barriers of {names} do not come, and what "
        "was sent behind the others' is not read",
        remedy="flowdiag checkpoints tells who holds the checkpoints up; a thread dump of its TaskManager why",
        job=job.job.key,
    )


def _unclear(job: h.JobQueues, windows: list[int], *, few: bool) -> h.Inconclusive | None:
    """Why it cannot be told for whom tasks wait."""
    if few:
        return h.Inconclusive(
            reason="tasks wait, in too few samples to tell for whom",
            remedy="collect metrics for some minutes, every 15 seconds or more often",
            job=job.job.key,
        )
    if not h.linked(job):
        return h.Inconclusive(
            reason="tasks wait, and nothing tells what comes before what",
            remedy="add the job graph: the answer of /jobs/:id or /jobs/:id/plan, or the JobManager's log",
            job=job.job.key,
        )
    unseen = unseen_end(h.loads_in(job, windows), job.topology)
    if unseen is not None:
        return h.Inconclusive(
            reason=f"tasks wait for {h.fmt.shorten(unseen)}, and the metrics of some of its subtasks are missing",
            remedy="add the logs or metrics of every TaskManager",
            job=job.job.key,
        )
    return None


def _finding(
    job: h.JobQueues, first: int | None, last: int | None, state: h.State, note: str
) -> h.Finding:
    waiting = h.waiting_tasks(job)
    most = max((share for _, share in waiting), default=0.0)
    names = h.fmt.listed(h.fmt.shorten(name, 40) for name, _ in waiting[:4])
    tasks = h.fmt.plural(len(waiting), "task waits", "tasks wait")
    wait = {name for name, _ in waiting}
    reports = {key: each for key, each in job.samples.items() if key.task in wait and each}
    return h.job_finding(
        job,
        severity=h.Severity.WARNING,
        state=state,
        title=f"{tasks} up to {h.fmt.percent(min(most, 1.0))} of the time for those downstream: {names}",
        rank=h.Rank.CONSEQUENCE,
        first_us=first,
        last_us=last,
        explain=f"Who waits is not who is slow; the pressure comes from further down. {note}",
        measurements=tuple(
            h.measurement(
                "back-pressured",
                round(min(share, 1.0), 4),
                "share",
                PRESSED,
                over=f"of the time, the subtask of {h.fmt.shorten(name)} that waits most",
            )
            for name, share in waiting[:6]
        ),
        # The worst report of each subtask, of all that it wrote.
        evidence=tuple(
            told
            for key, each in reports.items()
            for told in h.records_of(h.strongest(each, h.WAITING, 1), *h.WAITING, key=key)
        ),
        evidence_total=sum(map(len, reports.values())),
        ranked=True,
    )


RULE: Final = h.Rule("BP101", judge, Pressed, core=True)
