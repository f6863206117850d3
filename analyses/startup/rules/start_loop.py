"""A job restarts in vain, and what began it.

What it reports
---------------
Jobs that failed and restarted again and again without a recovery in between, with the first cause of the
whole series, not with what followed from it.

Why it matters
--------------
Each restart fails for another reason that is near at hand: missing slots, closed connections, cancelled
tasks. The first one is the cause, and it scrolls away.

How it decides
--------------
Failures are grouped until the job recovers (a checkpoint completes, or nothing fails for ten minutes);
`restarts` of them, or of the starts between the first and the last, give or take `slack`, are a loop. The
cause is the failure nearest to a root among those of the first minute: memory, buffers, a lost
TaskManager, user code, before missing slots.

What to do
----------
Look at the first failure; the restart strategy only decides how often you see it.

False alarms
------------
A log that begins in the middle of the series: its first failure is not the first.
"""

from __future__ import annotations

from typing import Any, Final

from flowdiag.analyses.flink.crises import Crisis, crises
from flowdiag.analyses.knowledge.causes import CAUSES, checking_command
from flowdiag.analyses.knowledge.exceptions import CAUSE_OF_FAILURE
from flowdiag.analyses.startup import helpers as h

# In a failure for buffers or slots the task that failed is arbitrary: nobody is accused.
_ARBITRARY: Final = ("network-buffers", "no-resource")


class Loop(h.Limits):
    """What ST102 compares with."""

    restarts: float = h.limit(3, "restarts", "once is a failure, three times in vain is a loop")
    slack: float = h.limit(1, "s", "a failure and the restart after it are logged by two threads")


def judge(job: h.JobStarting, limits: Loop) -> h.Iterator[h.Finding]:
    """One finding per series."""
    for crisis in crises(job.job, job.cluster.common):
        restarts = max(crisis.bursts, _restarts(job, crisis, limits.slack * 1_000_000))
        if restarts >= limits.restarts:
            yield _finding(job, crisis, restarts)


def _restarts(job: h.JobStarts, crisis: Crisis, slack_us: float) -> int:
    """The restarts of a crisis: with a short back-off several failures look like one burst."""
    if crisis.first_us is None or crisis.last_us is None:
        return 0
    low, high = crisis.first_us - slack_us, crisis.last_us + slack_us
    return sum(s.kind == "restart" and low <= s.started_us <= high for s in job.starts)


def _finding(job: h.JobStarts, crisis: Crisis, restarts: int) -> h.Finding:
    root = crisis.root.incident
    # Nor is a task that lost its connection to somebody else: it runs on a survivor.
    bereaved = crisis.root.kind == "taskmanager-lost" and root.task is not None
    arbitrary = bereaved or crisis.root.kind in _ARBITRARY
    cause = CAUSE_OF_FAILURE.get(crisis.root.kind, "task-failure")
    said = root.cause or root.text.get("exception") or root.text.get("text") or crisis.root.kind
    first_line = said.split("\n", 1)[0]
    strategy = h.fmt.shorten(job.restart_strategy, 120) if job.restart_strategy else None
    return h.of_start(
        job,
        ongoing=crisis.state is h.State.ONGOING,
        subject=h.job_subject(job) if arbitrary else h.job_subject(job, **_accused(root)),
        title=f"{restarts} restarts in vain; the first failure: {h.fmt.shorten(first_line, 90)}"
        + ("; it failed for good" if crisis.final else ""),
        why=_why(cause, first_line) if arbitrary else f"{_place(root)}: {h.fmt.shorten(said, 110)}",
        cause=cause,
        rank=h.Rank.REPETITION
        if bereaved
        else h.Rank.ARBITRARY_CAUSE
        if arbitrary
        else h.Rank.ROOT_CAUSE,
        first_us=crisis.first_us,
        last_us=crisis.last_us,
        count=restarts,
        explain="What failed later in the series is a consequence, or the same again."
        + (f" Restart strategy: {strategy}." if strategy else ""),
        measurements=(h.measurement("restarts", restarts, "restarts"),),
        evidence=h.cite(crisis.refs),
        ranked=True,
        actions=(_mend(cause),),
    )


def _why(cause: str, said: str) -> str:
    """What an exception says of nobody in particular; a bare name of a class says too little."""
    meaning = CAUSES[cause].meaning if cause in CAUSES and " " not in said else None
    return h.fmt.shorten(f"{meaning}: {said}" if meaning else said, 120)


def _mend(cause: str) -> h.Action:
    """The cure of the first failure stands where it is judged: in another command, or another finding."""
    command = checking_command(cause) or "checkpoints"
    text = "Mend the first failure, the later ones follow from it"
    if command == "startup":
        return h.Action(text=f"{text}: another finding says how")
    return h.Action(text=f"{text}: flowdiag {command} says how", command=command)


def _accused(root: h.Incident) -> dict[str, Any]:
    """Who failed first, as fields of a subject."""
    somewhere = root.taskmanager or root.host
    kind = "subtask" if root.subtask_index is not None else "taskmanager" if somewhere else "job"
    return {
        "kind": kind,
        "task": root.task,
        "subtask_index": root.subtask_index,
        "parallelism": root.parallelism,
        "taskmanager": root.taskmanager,
        "host": root.host,
    }


def _place(root: h.Incident) -> str:
    if root.task:
        return h.fmt.subtask_of(root.task, root.subtask_index, root.parallelism)
    if root.taskmanager or root.host:
        return h.fmt.place(root.taskmanager, root.host)
    return "the job"


RULE: Final = h.Rule(
    "ST102", judge, Loop, causes=tuple(sorted({*CAUSE_OF_FAILURE.values(), "task-failure"}))
)
