"""A task does not react to being cancelled.

What it reports
---------------
Tasks that were still in user code long after they had been told to stop, with the method they are stuck
in.

Why it matters
--------------
A restart cannot begin before the old attempt is gone. After `task.cancellation.timeout` (3 minutes)
Flink kills the whole TaskManager, with everybody else's tasks on it. And the method it is stuck in is
often what held the checkpoints up before.

How it decides
--------------
"Task '…' did not react to cancelling signal" with the stack below it: the first line names the method.
From `repeats` records on, or where Flink's watchdog ended the TaskManager for it, it is serious: ongoing as
long as no checkpoint has completed since. Below, it is information. The watchdog does not say which task it
waited for: where no record names one, the TaskManager is told of alone.

What to do
----------
Look at the method: a blocking call without a timeout, a loop that ignores interruption, a lock. Make it
interruptible.

False alarms
------------
A task that takes a minute to close a connection says so once and then ends: information.
"""

from __future__ import annotations

from typing import Final

from flowdiag.analyses.flink import helpers as h
from flowdiag.analyses.model.keys import Ref


class Stuck(h.Limits):
    """What CP310 compares with."""

    repeats: float = h.limit(
        2,
        "records",
        "Flink repeats the message every 30 seconds; once may be an orderly but slow close",
    )


_WATCHDOG: Final = "task-never-ended"


def judge(job: h.Job, limits: Stuck) -> h.Iterator[h.Finding]:
    """One finding per subtask; one for what the watchdog ended without any record that names a task."""
    groups: dict[tuple[str, int | None], list[h.Incident]] = {}
    ends: list[h.Incident] = []
    for incident in h.incidents(job, "task-stuck"):
        if incident.task is not None:
            groups.setdefault((incident.task, incident.subtask_index), []).append(incident)
        elif incident.text.get("template") == _WATCHDOG:
            ends.append(incident)
    told: set[Ref | None] = set()
    for group in groups.values():
        end = _ended_by(group, ends, alone=len(groups) == 1)
        if end is not None:
            told.add(end.ref)
        yield _finding(job, group, end, limits)
    if unnamed := [end for end in ends if end.ref not in told]:
        yield _unnamed(job, unnamed)


def _ended_by(group: list[h.Incident], ends: list[h.Incident], *, alone: bool) -> h.Incident | None:
    """The record of the watchdog that waited for this task, or for one on the same TaskManager."""
    last = group[-1]
    for end in ends:
        here = end.ref is not None and last.ref is not None and end.ref.source == last.ref.source
        same = end.taskmanager == last.taskmanager if end.taskmanager and last.taskmanager else here
        after = 0 <= (end.time_us or 0) - (last.time_us or 0) <= 2000 * (end.duration_ms or 0)
        if after and (same or alone):
            return end
    return None


def _method(incident: h.Incident) -> str:
    """The method a task is stuck in: the innermost frame, and the one of user code that called it."""
    lines = [line.strip() for line in (incident.cause or "").splitlines() if line.strip()]
    innermost = h.fmt.shorten(lines[0].removeprefix("at "), 120) if lines else None
    own = incident.text.get("user_frame")
    if own and innermost and own not in innermost:
        return f"{innermost}, called by {h.fmt.shorten(own, 120)}"
    return innermost or own or "an unknown method"


def _finding(
    job: h.Job, group: list[h.Incident], end: h.Incident | None, limits: Stuck
) -> h.Finding:
    last = group[-1]
    name, method = h.subtask_name(last), _method(last)
    serious = end is not None or len(group) >= limits.repeats
    waited = h.fmt.duration(end.duration_ms) if end is not None else None
    votes = h.votes_for(
        {
            "stuck-stack": f"stuck in {method} ({len(group)}×)",
            "watchdog": f"the watchdog gave up after {waited}" if end is not None else None,
        },
        RULE.signals,
    )
    ended = f", and its TaskManager was ended for it after {waited}" if end is not None else ""
    records = [*([end] if end is not None else []), *reversed(group)]
    return h.incident_finding(
        job,
        [*group, end] if end is not None else group,
        ongoing=serious and not job.completed_after(last.time_us),
        share=len(group) / max(1, len(job.concluded)) if serious else 0.0,
        subject=h.subtask_subject(job, last),
        title=f"{name} does not react to cancelling, stuck in {method}{ended}",
        why=f"{name}: stuck in {method}{ended}" if serious else None,
        cause="task-hangs" if serious else None,
        confidence=h.weigh(votes),
        rank=h.Rank.SHARED_MECHANISM,
        explain="Flink's watchdog ended the whole TaskManager, with all tasks on it: the job restarts elsewhere."
        if end is not None
        else "The job cannot be restarted before this task is gone; if it does not go, its "
        "TaskManager is killed.",
        measurements=(h.measurement("repeated", len(group), "records", limits.repeats),),
        evidence=h.records_of(records),
        ranked=True,
        actions=h.remedies("task-hangs", job, "interruptible", "kill-sooner", method=method),
        votes=votes,
    )


def _unnamed(job: h.Job, ends: list[h.Incident]) -> h.Finding:
    """TaskManagers that the watchdog ended, where no record says for which task."""
    last = ends[-1]
    waited = h.fmt.duration(last.duration_ms)
    says = f"a task did not end within {waited} of being cancelled"
    votes = h.votes_for({"watchdog": says}, RULE.signals)
    where = f" {last.taskmanager}" if last.taskmanager else ""
    return h.incident_finding(
        job,
        ends,
        ongoing=not job.completed_after(last.time_us),
        share=1.0,
        title=f"The TaskManager{where} was ended by the watchdog of cancelling: {says}; no record names the task",
        why=f"{says}, and the TaskManager{where} was ended for it; no record names the task",
        cause="task-hangs",
        confidence=h.weigh(votes),
        rank=h.Rank.SHARED_MECHANISM,
        explain="Flink's watchdog ended the whole TaskManager, with all tasks on it. Which task it was, and in which "
        "method, stands in the records 'did not react to cancelling signal' before it.",
        evidence=h.records_of(reversed(ends)),
        ranked=True,
        actions=h.remedies("task-hangs", job, "kill-sooner"),
        votes=votes,
    )


RULE: Final = h.Rule(
    "CP310",
    judge,
    Stuck,
    signals=(
        h.Signal("stuck-stack", 3, "the stack of the task's thread"),
        h.Signal(
            "watchdog", 3, "the watchdog that ends the TaskManager of a task that does not end"
        ),
    ),
    causes=("task-hangs",),
)
