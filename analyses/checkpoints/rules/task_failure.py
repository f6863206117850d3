"""A task failed, or threw in a snapshot.

What it reports
---------------
The failure that began a series of restarts: which subtask threw what, where, how often the job was
restarted for it, and whether it recovered. Exceptions thrown by a snapshot are reported as
`snapshot-exception`, whether Flink words them as a declined checkpoint (the asynchronous part in all
versions, the synchronous one up to 1.10) or as a task failure (the synchronous part from 1.11). Too few
network buffers are `insufficient-network-buffers`.

Why it matters
--------------
"Checkpoint Coordinator is suspending", cancelled tasks and missing slots fill the log after a failure;
the exception that explains them stands once, at the beginning.

How it decides
--------------
Failures up to the next completed checkpoint are one crisis. Its root is the failure nearest to a
cause within the first minute: memory before a lost TaskManager, that before user code, that before
missing slots; cancellations and other consequences never. This rule reports crises whose root is an
exception of the job itself; lost TaskManagers are CP302, memory is CP303. Declines are counted by
subtask: one that gave its own cause is accused. Critical when the job failed for good or has been
restarted three times without a completed checkpoint at the end of the input; a warning when ongoing or
above 1 % of the checkpoints.

What to do
----------
Mend what the deepest cause names. A record that cannot be parsed fails the job again after each
restart: skip or divert it.

False alarms
------------
What a cancel, a stop, a rescaling or a JobManager fail-over ends is no failure.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final, NamedTuple

from flowdiag.analyses.derived import once
from flowdiag.analyses.finding import (
    Action,
    Confidence,
    Finding,
    Inconclusive,
    Measurement,
    Rank,
    State,
    Subject,
    Vote,
    cite,
    grade,
    weigh,
)
from flowdiag.analyses.flink import judging as j
from flowdiag.analyses.flink.crises import Crisis, crises
from flowdiag.analyses.flink.episodes import blameless, concluded, episodes, incidents
from flowdiag.analyses.flink.job import (
    Attempt,
    Decline,
    Incident,
    JobFacts,
    Status,
    SubtaskCheckpoint,
)
from flowdiag.analyses.flink.kit import Job
from flowdiag.analyses.flink.options import option
from flowdiag.analyses.keys import Ref
from flowdiag.analyses.rule import Limits, Rule, Signal
from flowdiag.parsers.flink.failures import failure_kind

_CAUSES: Final = {
    "user-code": "task-failure",
    "unknown": "task-failure",
    "snapshot": "snapshot-exception",
    "storage": "storage-failure",
    "transaction": "task-failure",
    "network-buffers": "insufficient-network-buffers",
    "no-resource": "not-enough-slots",
}


# A decline without a reason may be a task that is closing; not so often in a row.
_REPEATED: Final = 3


def judge(job: Job, limits: Limits) -> Iterator[Finding | Inconclusive]:
    """One finding per task and cause."""
    groups: dict[tuple[str, str | None], list[Crisis]] = {}
    for crisis in crises(job, job.cluster):
        if crisis.kind in _CAUSES:
            key = (_CAUSES[crisis.kind], crisis.root.incident.task)
            groups.setdefault(key, []).append(crisis)
    for group in groups.values():
        yield _failed(job, group)
    yield from _declined(job) if job.declines or job.checkpoints else _told(job)


def _failed(job: JobFacts, group: list[Crisis]) -> Finding:
    last = group[-1]
    root = last.root.incident
    cause = _CAUSES[last.kind]
    bursts = sum(crisis.bursts for crisis in group)
    alike = [
        failure.incident
        for crisis in group
        for failure in crisis.failures
        if failure.incident.task == root.task and failure.kind == last.kind
    ]
    text = short(root.cause or root.text.get("exception"))
    votes = [
        Vote(
            signal="exception",
            says=f"{_name(root)}: {text or 'no exception in the input'}",
            weight=3 if text else 1,
        )
    ]
    if last.failures[0].incident is root:
        votes.append(Vote(signal="first-failure", says="nothing failed before it", weight=1))
    if bursts > 1 and len(alike) * 2 > bursts:
        votes.append(
            Vote(
                signal="every-time",
                says=f"{len(alike)} failures of this task in {bursts} restarts",
                weight=1,
            )
        )
    accusable = cause not in ("insufficient-network-buffers", "not-enough-slots")
    share = len(group) / max(1, len(concluded(job)))
    cited = cite(ref for crisis in reversed(group) for ref in crisis.refs)
    return Finding(
        job=job.key,
        severity=grade(state=last.state, share=share, fatal=last.fatal),
        state=last.state,
        subject=subject_of(job, root) if accusable else j.job_subject(job),
        title=_title(root, cause, bursts, text, last),
        why=f"{_name(root)}: {text}" if accusable and text else None,
        cause=cause,
        confidence=weigh(votes) if text else Confidence.LOW,
        rank=Rank.ROOT_CAUSE if text else Rank.SYMPTOM,
        first_us=group[0].first_us,
        last_us=last.last_us,
        count=bursts,
        explain=_explain(cause, last),
        measurements=(
            Measurement(name="failures", value=bursts, unit="restarts"),
            Measurement(
                name="failures-of-this-task", value=len(alike), unit="failures", population=text
            ),
        ),
        evidence=cited,
        ranked=True,
        actions=_actions(job, cause),
        votes=tuple(votes),
    )


def short(text: str | None) -> str:
    """An exception in one line: the wrapper that Flink puts around user exceptions is left out.

    >>> short("org.apache.flink.util.SerializedThrowable: java.io.IOException: disk full")
    'java.io.IOException: disk full'
    """
    line = " ".join((text or "").split())
    for wrapper in (
        "org.apache.flink.util.SerializedThrowable: ",
        "org.apache.flink.runtime.util.SerializedThrowable: ",
        "java.util.concurrent.ExecutionException: ",
        "java.util.concurrent.CompletionException: ",
    ):
        while line.startswith(wrapper):
            line = line[len(wrapper) :]
    return j.shorten(line, 200)


def _name(incident: Incident) -> str:
    if incident.task is None:
        return "the job"
    return j.subtask_text(incident.task, incident.subtask_index, incident.parallelism)


def subject_of(job: JobFacts, incident: Incident) -> Subject:
    """The subtask of an incident, or the job."""
    return j.subtask_subject(
        job,
        Attempt(
            job=job.key,
            attempt_id=incident.attempt_id or "",
            task=incident.task,
            subtask_index=incident.subtask_index,
            parallelism=incident.parallelism,
            taskmanager=incident.taskmanager,
            host=incident.host,
        ),
    )


def _title(root: Incident, cause: str, bursts: int, text: str, crisis: Crisis) -> str:
    if cause == "insufficient-network-buffers":
        what = "Too few network buffers"
    elif cause == "not-enough-slots":
        what = "Not enough slots for the job"
    elif cause == "snapshot-exception":
        what = f"{_name(root)} throws while it takes a snapshot"
    else:
        what = f"{_name(root)} failed"
    times = f", {bursts} restarts" if bursts > 1 else ""
    tail = "; the job failed for good" if crisis.final else ""
    detail = f": {j.shorten(text, 100)}" if text else ""
    return f"{what}{times}{tail}{detail}"


def _explain(cause: str, crisis: Crisis) -> str:
    text = {
        "insufficient-network-buffers": (
            "The task that fails is arbitrary: whoever asks for buffers last gets none. Count gates and "
            "result partitions per TaskManager, not tasks."
        ),
        "not-enough-slots": (
            "The job needs more slots than are registered. Nothing before it in the input explains why."
        ),
        "snapshot-exception": (
            "From 1.11 an exception in the synchronous part fails the task, so the job is restarted by "
            "the next checkpoint again."
        ),
    }.get(cause, "Everything that was cancelled or suspended right after it is a consequence.")
    if crisis.loop:
        text += f" {crisis.bursts} failures without a completed checkpoint between: a restart loop."
    return text


def _actions(job: JobFacts, cause: str) -> tuple[Action, ...]:
    if cause == "insufficient-network-buffers":
        return (
            Action(
                text="Give the network more memory",
                option=option("network-fraction", job.version),
                current=j.configured(job, "taskmanager.memory.network.fraction"),
                proposed="0.2",
                risk="less managed or heap memory at the same process size",
                restart_needed=True,
                verify="the number of memory segments in 'Allocated … MB for network buffer pool'",
            ),
            Action(
                text="Raise its upper bound too, if it is the one that holds",
                option=option("network-max", job.version),
                restart_needed=True,
            ),
        )
    if cause == "not-enough-slots":
        return (
            Action(
                text="Start more TaskManagers, or more slots on each",
                option=option("slots", job.version),
                current=j.configured(job, "taskmanager.numberOfTaskSlots"),
                restart_needed=True,
                verify="free slots at least the largest parallelism of a slot sharing group",
            ),
        )
    found = [
        Action(
            text="Mend what the exception names; its trace stands in the cited records or right below",
            verify="the job runs past the record or the checkpoint that failed it",
        )
    ]
    if cause == "task-failure":
        found.append(
            Action(
                text="Divert records that cannot be processed (side output) instead of throwing",
                risk="bad data goes unnoticed if nobody looks at the side output",
            )
        )
    return tuple(found)


def _declined(job: JobFacts) -> Iterator[Finding]:
    series = [e for e in episodes(job) if e.count(Status.DECLINED, Status.FAILED)]
    ids = {
        (c.run, c.id)
        for e in series
        for c in e.checkpoints
        if c.status in (Status.DECLINED, Status.FAILED)
    }
    declines = [
        d
        for d in job.declines
        if (d.run, d.checkpoint) in ids
        and not blameless(d.reason)
        and (d.reason is None or failure_kind(d.reason) not in ("cancelled", "expired"))
    ]
    declines = [replace(d, reason=d.reason or _told_elsewhere(job, d)) for d in declines]
    who = _by_words(declines, len(ids)) if declines else _by_absence(job, ids)
    if who is None:
        return
    first = who.attempts[0]
    if len(who.attempts) == 1:
        subject = j.subtask_subject(job, first)
        name = j.subtask_text(first.task, first.subtask_index, first.parallelism)
    else:
        subject, name = _common_subject(job, who.attempts), f"{len(who.attempts)} subtasks"
    cited = cite(who.records)
    yield Finding(
        job=job.key,
        severity=j.severity_of(job, series, len(ids), len(concluded(job))),
        state=j.state_of(series),
        subject=subject,
        title=f"{name} cannot take a snapshot: "
        f"{j.shorten(who.text, 120) or 'no reason in the input'}",
        why=f"{name}: {who.text or who.votes[0].says} "
        f"({who.times} of {j.count_text(len(ids), 'failed checkpoint')})",
        cause="snapshot-exception",
        confidence=weigh(who.votes),
        rank=Rank.ROOT_CAUSE,
        first_us=series[0].first_us,
        last_us=series[-1].last_us,
        count=sum(len(e.checkpoints) for e in series),
        explain=(
            "Its snapshot throws, so it declines, and the checkpoint fails for the whole job. The task "
            "itself goes on."
        ),
        measurements=(
            Measurement(
                name="declined-by-this-subtask",
                value=who.times,
                unit="checkpoints",
                population=f"{len(ids)} failed ones",
            ),
        ),
        evidence=cited,
        actions=_actions(job, "snapshot-exception"),
        votes=who.votes,
    )


def _told(job: JobFacts) -> Iterator[Finding]:
    """Snapshots that failed, where only the TaskManagers tell (no checkpoint is known)."""
    by_subtask: dict[tuple[str | None, int | None], list[Incident]] = {}
    for incident in job.incidents:
        text = incident.cause or ""
        if incident.kind not in ("async-failure", "snapshot-failed") or not text:
            continue
        if incident.task is None or failure_kind(text) == "cancelled" or blameless(text):
            continue
        by_subtask.setdefault((incident.task, incident.subtask_index), []).append(incident)
    for members in by_subtask.values():
        last = members[-1]
        if len(members) < _REPEATED:
            continue
        text = short(last.cause)
        vote = Vote(signal="exception", says=f"{len(members)} snapshots failed: {text}", weight=3)
        cited = cite((i.ref, i.time_us) for i in members)
        yield Finding(
            job=job.key,
            severity=grade(state=State.ONGOING, share=1.0),
            state=State.ONGOING,
            subject=subject_of(job, last),
            title=f"{_name(last)} cannot take a snapshot: {j.shorten(text, 120)}",
            why=f"{_name(last)}: {text} ({len(members)} times)",
            cause="snapshot-exception",
            confidence=weigh([vote]),
            rank=Rank.ROOT_CAUSE,
            first_us=members[0].time_us,
            last_us=last.time_us,
            count=len(members),
            explain=(
                "Its TaskManager tells of the exception; the JobManager's log, which would say what became "
                "of the checkpoints, is not there."
            ),
            measurements=(
                Measurement(name="failed-snapshots", value=len(members), unit="checkpoints"),
            ),
            evidence=cited,
            actions=_actions(job, "snapshot-exception"),
            votes=(vote,),
        )


class Decliner(NamedTuple):
    """Who made checkpoints be declined: one subtask, or several with the same words."""

    attempts: list[Attempt]
    text: str
    times: int
    votes: tuple[Vote, ...]
    records: list[tuple[Ref | None, int | None]]


def _by_words(declines: list[Decline], failed: int) -> Decliner | None:
    """By the declines themselves."""
    by_subtask: dict[tuple[str | None, int | None], list[Decline]] = {}
    for decline in declines:
        key = (decline.attempt.task, decline.attempt.subtask_index)
        by_subtask.setdefault(key, []).append(decline)
    ranked = sorted(by_subtask.values(), key=lambda items: (-len(items), items[0].ref))
    most = ranked[0]
    # Several subtasks with the same words: what they write to is sick, not one of them.
    alike = [items for items in ranked if len(items) * 3 >= len(most) * 2]
    text = short(most[-1].reason)
    if not text and len(most) < _REPEATED:
        return None
    others = len(declines) - sum(len(items) for items in alike)
    votes = [
        Vote(
            signal="exception",
            says=f"declined {len(most)} of {failed} failed checkpoints"
            + (f": {text}" if text else ", no reason in the input"),
            weight=3 if text else 2,
        )
    ]
    if others:
        says = f"{others} declines came from other subtasks"
        votes.append(Vote(signal="other-decliners", says=says, weight=-1))
    return Decliner(
        [items[-1].attempt for items in alike],
        text,
        len(most),
        tuple(votes),
        [(d.ref, d.time_us) for d in most],
    )


def _by_absence(job: JobFacts, ids: set[tuple[int, int]]) -> Decliner | None:
    """REST and archives do not say who declined, but who never acknowledged any of them."""
    numbers = {number for run, number in ids if run == job.runs}
    missing: dict[int, dict[tuple[str | None, int], SubtaskCheckpoint]] = {}
    for row in job.subtask_checkpoints:
        if row.checkpoint in numbers and not row.acknowledged and row.source != "debug":
            missing.setdefault(row.checkpoint, {})[row.task, row.subtask_index] = row
    if len(missing) < _REPEATED:
        return None
    always = set.intersection(*(set(rows) for rows in missing.values()))
    if len(always) != 1:
        return None
    task, index = next(iter(always))
    rows = [members[task, index] for members in missing.values()]
    known = next((a for a in job.attempts if (a.task, a.subtask_index) == (task, index)), None)
    attempt = known or Attempt(
        job=job.key,
        attempt_id="",
        vertex_id=rows[0].vertex_id,
        task=task,
        subtask_index=index,
        taskmanager=rows[0].taskmanager,
    )
    reason = next((c.reason for c in job.checkpoints if c.id in numbers and c.reason), None)
    vote = Vote(
        signal="always-missing",
        says=f"the only one that acknowledged none of {len(missing)} declined checkpoints",
        weight=2,
    )
    return Decliner([attempt], short(reason), len(missing), (vote,), [(r.ref, None) for r in rows])


def _told_elsewhere(job: JobFacts, decline: Decline) -> str | None:
    """Why a subtask declined, where the line itself is silent (up to 1.10 and for short logs).

    Its own TaskManager tells of the snapshot that failed, the coordinator of the checkpoint that it
    discarded right afterwards; the first decline is what the checkpoint was discarded for.
    """
    who = decline.attempt.task, decline.attempt.subtask_index
    told = _failed_snapshots(job).get((decline.checkpoint, *who))
    if told is not None:
        return told
    identity = decline.run, decline.checkpoint
    first = _first_declines(job).get(identity)
    if first is not None and first.ref == decline.ref:
        return _reasons(job).get(identity)
    return None


@once
def _failed_snapshots(job: JobFacts) -> dict[tuple[int | None, str | None, int | None], str]:
    """What snapshots failed of, by checkpoint and subtask: the first that has a cause of its own."""
    found: dict[tuple[int | None, str | None, int | None], str] = {}
    for incident in incidents(job, "snapshot-failed", "async-failure"):
        place = (incident.checkpoint, incident.task, incident.subtask_index)
        if incident.cause and place not in found and not blameless(incident.cause):
            found[place] = incident.cause
    return found


@once
def _first_declines(job: JobFacts) -> dict[tuple[int, int], Decline]:
    return {(d.run, d.checkpoint): d for d in reversed(job.declines)}


@once
def _reasons(job: JobFacts) -> dict[tuple[int, int], str | None]:
    return {(c.run, c.id): c.reason for c in reversed(job.checkpoints)}


def _common_subject(job: JobFacts, attempts: list[Attempt]) -> Subject:
    """What several decliners share: a TaskManager, a task, or the job."""
    managers = {attempt.taskmanager for attempt in attempts}
    first = attempts[0]
    if len(managers) == 1 and first.taskmanager is not None:
        return Subject(
            kind="taskmanager",
            job_id=job.key.job_id or None,
            job_name=job.name,
            taskmanager=first.taskmanager,
            host=first.host,
        )
    if len({attempt.task for attempt in attempts}) == 1:
        return Subject(
            kind="task",
            job_id=job.key.job_id or None,
            job_name=job.name,
            task=first.task,
            vertex_id=first.vertex_id,
            parallelism=first.parallelism,
        )
    return j.job_subject(job)


RULE: Final = Rule(
    "CP301",
    judge,
    signals=(
        Signal("exception", 3, "the subtask's own exception, with a cause that is no consequence"),
        Signal("first-failure", 1, "it failed before all others of its crisis"),
        Signal("every-time", 1, "the same task failed with the same exception in most restarts"),
        Signal(
            "always-missing",
            2,
            "it is the only subtask that acknowledged none of the declined checkpoints",
        ),
        Signal(
            "other-decliners", -1, "other subtasks declined the same checkpoints with other causes"
        ),
    ),
)
