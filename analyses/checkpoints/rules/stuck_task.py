"""A task does not react to its cancellation.

What it reports
---------------
Tasks that still run user code long after their cancellation, and the method in which they are stuck.

Why it matters
--------------
A restart cannot begin before the old attempt has ended. After `task.cancellation.timeout` (3 minutes) Flink
kills the whole TaskManager with all tasks on it. The method in which the task is stuck is often the reason why
earlier checkpoints were delayed.

How it decides
--------------
Flink logs "Task '…' did not react to cancelling signal", followed by a stack trace whose first frame names the
method. The finding is serious if there are at least `repeats` such records for a subtask, or if Flink's watchdog
killed the TaskManager. A serious finding is ongoing until a checkpoint completes. Otherwise the finding is only a
note. The watchdog does not log which task it waited for. If no other record names the task, the finding names only
the TaskManager.

What to do
----------
Check the method for a blocking call without a timeout, a loop that ignores interruption, or a lock. Make the
method interruptible.

False alarms
------------
A task that takes a minute to close a connection may log the line once before it ends. The rule then
reports only a note.
"""

from typing import Final

from flowdiag.analyses.checkpoints.detect.stuck import ended_by, method_of
from flowdiag.analyses.flink import helpers as h

_WATCHDOG: Final = "task-never-ended"
_KILLED: Final = "Flink's watchdog killed the whole TaskManager with all tasks on it."


class Limits(h.Limits):
    repeats: float = h.limit(
        2, "records", "minimum number of messages, one per 30 s; a slow close may log one"
    )


def judge(job: h.Job, limits: Limits) -> h.Iterator[h.Finding]:
    """Yield one finding per subtask, and one for all watchdog kills without a record that names the task."""
    groups: dict[tuple[str, int | None], list[h.Incident]] = {}
    ends: list[h.Incident] = []
    for incident in h.incidents(job, "task-stuck"):
        if incident.task is not None:
            groups.setdefault((incident.task, incident.subtask_index), []).append(incident)
        elif incident.text.get("template") == _WATCHDOG:
            ends.append(incident)
    unnamed = list(ends)
    for group in groups.values():
        end = ended_by(group[-1], ends, alone=len(groups) == 1)
        if end is not None:
            unnamed = [other for other in unnamed if other.ref != end.ref]
        yield _finding(job, group, end, limits)
    if not unnamed:
        return
    last = unnamed[-1]
    clause = f"a task did not end within {h.fmt.duration(last.duration_ms)} of its cancellation"
    votes = h.votes_for({"watchdog": clause}, RULE.signals)
    killed = (
        f"killed TaskManager {last.taskmanager}" if last.taskmanager else "killed a TaskManager"
    )
    yield h.incident_finding(
        job,
        unnamed,
        ongoing=not job.completed_after(last.time_us),
        title=f"The cancellation watchdog {killed}: {clause}, and no record names the task",
        why=f"{clause}, and the watchdog {killed}; no record names the task",
        cause="task-hangs",
        confidence=h.weigh(votes),
        rank=h.Rank.SHARED_MECHANISM,
        explain=f"{_KILLED} The earlier records 'did not react to cancelling signal' name the task and the method.",
        evidence=h.records_of(reversed(unnamed)),
        ranked=True,
        actions=h.remedies("task-hangs", job, "kill-sooner"),
        votes=votes,
    )


def _finding(
    job: h.Job, group: list[h.Incident], end: h.Incident | None, limits: Limits
) -> h.Finding:
    last, ends = group[-1], [end] if end is not None else []
    method = method_of(last)
    signals: dict[str, str | None] = {"stuck-task": f"stuck in {method} ({len(group)}×)"}
    explain = "The job cannot restart before this task ends. If it does not end, Flink kills its TaskManager."
    what = f"stuck in {method}"
    if end is not None:
        waited = h.fmt.duration(end.duration_ms)
        signals["watchdog"] = f"the watchdog gave up after {waited}"
        what += f"; the watchdog killed its TaskManager after {waited}"
        explain = f"{_KILLED} The job restarts elsewhere."
    serious = end is not None or len(group) >= limits.repeats
    name, votes = h.subtask_name(last), h.votes_for(signals, RULE.signals)
    return h.incident_finding(
        job,
        [*group, *ends],
        ongoing=serious and not job.completed_after(last.time_us),
        share=len(group) / max(1, len(job.concluded)) if serious else 0.0,
        subject=h.subtask_subject(job, last),
        title=f"{name} does not react to cancellation, {what}",
        why=f"{name}: {what}" if serious else None,
        cause="task-hangs" if serious else None,
        confidence=h.weigh(votes),
        rank=h.Rank.SHARED_MECHANISM,
        explain=explain,
        measurements=(h.measurement("repetitions", len(group), "records", limits.repeats),),
        evidence=h.records_of([*ends, *reversed(group)]),
        ranked=True,
        actions=h.remedies("task-hangs", job, "interruptible", "kill-sooner", method=method),
        votes=votes,
    )


RULE: Final = h.Rule("CP310", judge, Limits, causes=("task-hangs",), needs="dated-records")
