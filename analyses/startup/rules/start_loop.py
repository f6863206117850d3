"""Restart loop and its first cause.

What it reports
---------------
The rule reports jobs that keep failing and restarting without recovering in between. It shows the first
cause of the series instead of its consequences.

Why it matters
--------------
Later restarts often fail for other reasons, such as missing slots, closed connections or canceled tasks.
The first failure is the cause, but it is soon buried in the log.

How it decides
--------------
A series of failures ends when the job recovers: a checkpoint completes, or nothing fails for ten minutes. A
series is a loop if it has at least `restarts` failures or restarts. Restarts count from `slack` before the
first failure until `slack` after the last. The cause is the most fundamental failure of the first minute:
memory, buffers, a lost TaskManager and user code come before missing slots.

What to do
----------
Fix the first failure. The restart strategy only determines how often it repeats.

False alarms
------------
If the log begins in the middle of a series, its first failure is not the first of the series.
"""

from typing import Final

from flowdiag.analyses.flink.failures.crises import Crisis, crises
from flowdiag.analyses.knowledge.causes import CAUSES, checking_command
from flowdiag.analyses.knowledge.exceptions import CAUSE_OF_FAILURE
from flowdiag.analyses.startup import helpers as h
from flowdiag.analyses.startup.detect.first_failure import first_failure_place

# If buffers or slots are missing, it is arbitrary which task fails, so no task is blamed.
_ARBITRARY: Final = ("network-buffers", "no-resource")


class Limits(h.Limits):
    restarts: float = h.limit(
        3, "restarts", "minimum number of restarts; after a failure, one or two are normal"
    )
    slack: float = h.limit(1, "s", "maximum time between records of a failure and its restart")


def judge(job: h.JobStarting, limits: Limits) -> h.Iterator[h.Finding]:
    """Report each series of failures."""
    slack_us = round(limits.slack * 1_000_000)
    for crisis in crises(job.job, job.cluster.common):
        restarts, started = crisis.bursts, list[h.Start]()
        if crisis.first_us is not None and crisis.last_us is not None:
            # With a short back-off, several failures look like one burst.
            during = range(crisis.first_us - slack_us, crisis.last_us + slack_us + 1)
            started = [s for s in job.starts if s.kind == "restart" and s.started_us in during]
            restarts = max(restarts, len(started))
        if restarts >= limits.restarts:
            ran = any(start.running_us is not None for start in started)
            yield _finding(job, crisis, restarts, "in a row" if ran else "without success")


def _finding(job: h.JobStarts, crisis: Crisis, restarts: int, outcome: str) -> h.Finding:
    root = crisis.root.incident
    # A task that lost its connection runs on another TaskManager, so it is not blamed either.
    survivor = crisis.root.kind == "taskmanager-lost" and root.task is not None
    arbitrary = survivor or crisis.root.kind in _ARBITRARY
    subject, where = first_failure_place(job, root)
    cause = CAUSE_OF_FAILURE.get(crisis.root.kind, "task-failure")
    text = root.cause or root.text.get("exception") or root.text.get("text") or crisis.root.kind
    first_line = text.split("\n", 1)[0]
    strategy = h.fmt.shorten(job.restart_strategy, 120) if job.restart_strategy else None
    return h.start_finding(
        job,
        ongoing=crisis.state is h.State.ONGOING,
        subject=None if arbitrary else subject,
        title=f"{restarts} restarts {outcome}; first failure: {h.fmt.shorten(first_line, 90)}"
        + ("; the job failed for good" if crisis.final else ""),
        why=_reason_text(cause, first_line)
        if arbitrary
        else f"{where}: {h.fmt.shorten(text, 110)}",
        cause=cause,
        rank=h.Rank.REPETITION
        if survivor
        else h.Rank.ARBITRARY_CAUSE
        if arbitrary
        else h.Rank.ROOT_CAUSE,
        first_us=crisis.first_us,
        last_us=crisis.last_us,
        count=restarts,
        explain="Later failures in the series are consequences or repetitions."
        + (f" Restart strategy: {strategy}." if strategy else ""),
        measurements=(h.measurement("restarts", restarts, "restarts"),),
        evidence=h.cite(crisis.refs),
        ranked=True,
        actions=(_fix_first(cause),),
    )


def _reason_text(cause: str, text: str) -> str:
    """Return the reason without the task. If it is a bare class name, put the meaning of the cause before it."""
    meaning = CAUSES[cause].meaning if cause in CAUSES and " " not in text else None
    return h.fmt.shorten(f"{meaning}: {text}" if meaning else text, 120)


def _fix_first(cause: str) -> h.Action:
    """Return an action that points to the remedy for the first failure, in another finding or command."""
    command = checking_command(cause) or "checkpoints"
    text = "Fix the first failure, which causes the later ones"
    if command == "startup":
        return h.Action(text=f"{text}. Another finding lists the remedy")
    return h.Action(text=f"{text}. flowdiag {command} lists the remedy", command=command)


RULE: Final = h.Rule(
    "ST102",
    judge,
    Limits,
    causes=tuple(sorted({*CAUSE_OF_FAILURE.values(), "task-failure"})),
    needs="starts",
    severity=h.Severity.CRITICAL,
)
