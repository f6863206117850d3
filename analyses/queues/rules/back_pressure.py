"""Tasks are back-pressured.

What it reports
---------------
The tasks that wait for output buffers most of the time. If the logs and metrics do not show which task these tasks
wait for, the report lists the missing data.

Why it matters
--------------
A waiting task reads more slowly than it could. Back pressure spreads up to the sources, which fall behind.
The slow task is always downstream of the waiting tasks.

How it decides
--------------
A task waits if it is back-pressured for at least 50% of the time. Flink's Web UI uses the same threshold for high
back pressure. The times come from metrics (1.13 and later) or from the share of samples with `isBackPressured`
(1.10 and later). The value of a task is the highest value of its subtasks. Before Flink 1.10, metrics only contain
buffer usage, and this rule reports nothing.

If no task downstream is slow, the back pressure must last for `duration` and appear in at least `samples` samples.
Back pressure that has ended must also have begun more than `warm-up` before or after any start, and must appear
in more than `burst-share` of the metric windows.

The rule does not report a job as healthy if fewer than `coverage` of its subtasks have metrics, or if no subtask has
`samples` samples. The report then lists as suspects the tasks that are busy while others wait.

What to do
----------
Check the task directly downstream of the last waiting task. Another finding usually names this task. If none does,
collect the metrics of all TaskManagers.

False alarms
------------
A job that reads a backlog after a start is back-pressured because it runs at full speed.
"""

from itertools import chain

from flowdiag.analyses.flink.tasks.pressure import KNOWN_SIBLINGS, PRESSED
from flowdiag.analyses.queues import gaps
from flowdiag.analyses.queues import helpers as h


class Limits(h.Limits):
    duration: float = h.limit(60, "s", "minimum duration; bursts and warm-up are shorter")
    coverage: float = h.limit(
        KNOWN_SIBLINGS, "share", "minimum share of subtasks with metrics; others may hide the cause"
    )
    samples: float = h.limit(5, "samples", "minimum number of samples; fewer may be misleading")
    warm_up: float = h.limit(
        120, "s", "minimum time since a start; sources first read their backlog at full speed"
    )
    burst_share: float = h.limit(
        0.01, "share", "maximum share of metric windows with back pressure that counts as a burst"
    )


def judge(job: h.JobQueues, limits: Limits) -> h.Results:
    """Yield at most one finding per job, or the reason why the result is inconclusive."""
    if spells := h.serious_spells(job):
        if waiting := h.waiting_tasks(job):
            first = spells[0]
            note = "The findings above name the slow task."
            yield _finding(job, waiting, first.first_us, first.last_us, first.state, note)
        return
    if missing := gaps.missing_metrics(job, limits.coverage):
        yield missing
        return
    windows = h.pressed_windows(job)
    explanation = bool(h.find_spells(job))
    # A job that has read all its input no longer falls behind.
    done = h.has_finished(job) and not windows
    if not done and h.most_samples(job) < limits.samples and (windows or not explanation):
        yield gaps.too_few_samples(job, windows)
    elif windows and not explanation:
        yield from _back_pressure_without_cause(job, windows, limits)


def _back_pressure_without_cause(job: h.JobQueues, windows: list[int], limits: Limits) -> h.Results:
    """Report back pressure that no slow task downstream explains."""
    samples = list(chain.from_iterable(h.samples_in(job, windows).values()))
    first, last = h.time_span(samples)
    ordered, ongoing = h.has_task_order(job), windows[-1] == job.windows[-1]
    if first is None or last is None:
        return
    few = max(s.samples for s in samples) * len(windows) < limits.samples
    if ordered and last - first < limits.duration * 1e6:
        if ongoing:
            yield from gaps.short_at_end(job, windows, last - first)
    elif ongoing or not (few or _is_burst(job, windows, first, limits)):
        yield from _lasting(job, windows, (first, last), few=few)


def _lasting(
    job: h.JobQueues, windows: list[int], span: tuple[int, int], *, few: bool
) -> h.Results:
    """Report back pressure that lasts or returns, or why its cause is unknown."""
    ongoing = windows[-1] == job.windows[-1]
    if barriers := gaps.late_barriers(job, windows):
        yield barriers
    elif unknown := gaps.unknown_root(job, windows, few=few):
        if ongoing or h.has_task_order(job):
            yield unknown
    elif waiting := h.waiting_tasks(
        job, windows
    ):  # empty if no subtask waits in most of these windows
        state = h.State.ONGOING if ongoing else h.State.RECOVERED
        note = (
            "No downstream task is busy all the time. Bursts, a slow network, or a varying "
            "load may be the cause."
        )
        yield _finding(job, waiting, *span, state, note)


def _is_burst(job: h.JobQueues, windows: list[int], first_us: int, limits: Limits) -> bool:
    """Return whether the back pressure has ended and was rare or began near a start."""
    near = any(abs(first_us - start) <= limits.warm_up * 1e6 for start in job.starts_us)
    return near or len(windows) <= limits.burst_share * len(job.windows)


def _finding(
    job: h.JobQueues,
    waiting: list[tuple[str, float]],
    first: int | None,
    last: int | None,
    state: h.State,
    note: str,
) -> h.Finding:
    shares = [(name, min(share, 1.0)) for name, share in waiting]
    names = h.fmt.listed(h.fmt.shorten(name, 40) for name, _ in shares[:4])
    most = h.fmt.percent(max((share for _, share in shares), default=0.0))
    tasks = {name for name, _ in shares}
    reports = {key: each for key, each in job.samples.items() if key.task in tasks and each}
    over = "of the time, the most back-pressured subtask of {}"
    return h.job_finding(
        job,
        severity=h.Severity.WARNING,
        state=state,
        title=f"{h.fmt.plural(len(shares), 'task is', 'tasks are')} back-pressured up to {most} of the "
        f"time: {names}",
        rank=h.Rank.CONSEQUENCE,
        first_us=first,
        last_us=last,
        explain=f"A back-pressured task waits for a slow downstream task. {note}",
        measurements=tuple(
            h.measurement(
                "back-pressured",
                round(share, 4),
                "share",
                PRESSED,
                over.format(h.fmt.shorten(name)),
            )
            for name, share in shares[:6]
        ),
        # The worst report of each subtask, out of all its reports.
        evidence=tuple(
            record
            for key, each in reports.items()
            for record in h.records_of(h.strongest_reports(each, h.WAITING, 1), *h.WAITING, key=key)
        ),
        evidence_total=sum(map(len, reports.values())),
        ranked=True,
    )


RULE = h.Rule("BP101", judge, Limits, core=True, needs="task-metrics")
