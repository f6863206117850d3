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
exception of the job itself; lost TaskManagers are CP302, memory is CP303. What the storage refused to several
TaskManagers is CP312, and nobody's fault. Declines are counted by
subtask: one that gave its own cause is accused, or that declined `repeated` checkpoints without a
reason; those that declined `alike` as many are accused with it. Where only TaskManagers tell of failed
snapshots, `repeated` of one subtask are needed. Critical when the job failed for good or has been
restarted three times without a completed checkpoint at the end of the input; a warning when ongoing or
above 1% of the checkpoints.

What to do
----------
Mend what the deepest cause names. A record that cannot be parsed fails the job again after each
restart: skip or divert it.

False alarms
------------
What a cancel, a stop, a rescaling or a JobManager fail-over ends is no failure.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final, NamedTuple

from flowdiag.analyses.checkpoints.storage import refused
from flowdiag.analyses.flink import helpers as h
from flowdiag.analyses.flink.crises import classify_incident
from flowdiag.analyses.flink.exception_texts import exception_measurements, option_actions
from flowdiag.analyses.flink.judging import without_package
from flowdiag.analyses.flink.linkage import linkage
from flowdiag.analyses.knowledge.causes import CAUSES
from flowdiag.analyses.knowledge.exceptions import CAUSE_OF_CLASS, cause_of_class
from flowdiag.analyses.model.derived import once
from flowdiag.parsers.exceptions import Classified, is_root_cause, task_named_in
from flowdiag.parsers.flink.failures import failure_kind


class Failed(h.Limits):
    """What CP301 compares with."""

    repeated: float = h.limit(
        3,
        "checkpoints",
        "a decline without a reason may be a task that is closing; not so often in a row",
    )
    alike: float = h.limit(
        2 / 3,
        "share",
        "who declines nearly as often as the first is no other: what both write to is sick",
    )


# By the kind of a crisis' root: the cause, and what the title says of the task (None: it is nobody's).
_CAUSES: Final = {
    "user-code": "task-failure",
    "unknown": "task-failure",
    "snapshot": "snapshot-exception",
    "storage": "storage-failure",
    "transaction": "task-failure",
    "network-buffers": "insufficient-network-buffers",
    "no-resource": "not-enough-slots",
}
# Only where an exception by itself says so: with records around it other rules know more.
_ALONE: Final = {
    "jobmanager-lost": "jobmanager-lost",
    "task-stuck": "task-hangs",
    "expired": None,
}
_OF_JOBS: Final = ("exception", "job-failing", "job-failure")
_NOBODYS: Final = {
    "insufficient-network-buffers": "Too few network buffers",
    "not-enough-slots": "Not enough slots for the job",
}


def judge(job: h.Job, limits: Failed) -> h.Iterator[h.Finding]:
    """One finding per task and cause."""
    groups: dict[tuple[str | None, str | None], list[h.Crisis]] = {}
    for crisis in job.crises:
        alone = crisis.kind in _ALONE and all(f.incident.kind in _OF_JOBS for f in crisis.failures)
        if crisis.kind in _CAUSES or alone:
            key = (_cause_of(crisis)[0], crisis.root.incident.task)
            groups.setdefault(key, []).append(crisis)
    for (cause, _), group in groups.items():
        yield _failed(job, cause, group)
    if job.declines or job.checkpoints:
        yield from _declined(job, limits)
    else:
        yield from _told(job, limits)


def _cause_of(crisis: h.Crisis) -> tuple[str | None, tuple[str, ...]]:
    """The word for what a crisis began with, and the remedies that fit; all if none is named."""
    kind = crisis.kind
    word = _CAUSES[kind] if kind in _CAUSES else _ALONE.get(kind)
    if word in _NOBODYS or word is None:
        return word, _REMEDIES.get(word or "", ())
    said = classify_incident(crisis.root.incident)
    if said is not None and said.name == "class-loading":
        found = linkage(crisis.root.incident.cause or "")
        return "class-loading", (found[0],) if found is not None else ()
    return cause_of_class(said.name if said is not None else None, word)


def _failed(job: h.Job, cause: str | None, group: list[h.Crisis]) -> h.Finding:
    last = group[-1]
    root = _placed(last.root.incident)
    said = classify_incident(root)
    bursts = sum(crisis.bursts for crisis in group)
    alike = sum(
        failure.incident.task == last.root.incident.task and failure.kind == last.kind
        for crisis in group
        for failure in crisis.failures
    )
    text = h.exception_text(_telling(root, said))
    name = _name(root)
    votes = h.votes_for(
        {
            "exception": _why(root, name, text) if text else None,
            "no-exception": None if text else f"{name}: no exception in the input",
            "first-failure": "nothing failed before it" if last.failures[0] is last.root else None,
            "every-time": f"{alike} failures of this task in {bursts} restarts"
            if bursts > 1 and alike * 2 > bursts
            else None,
        },
        RULE.signals,
    )
    explain = _explain(cause) + _record(said)
    if last.loop:
        explain += (
            f" {last.bursts} failures without a completed checkpoint between: a restart loop."
        )
    return h.crisis_finding(
        job,
        group,
        subject=None if cause in _NOBODYS or cause is None else h.subtask_subject(job, root),
        title=_title(name, cause, bursts, text, last),
        why=_why(root, name, text) if text and cause not in (*_NOBODYS, None) else None,
        cause=cause,
        # Below a record of unknown words it may have been caught.
        confidence=h.weigh(votes) if text and "headed" not in root.text else h.Confidence.LOW,
        rank=h.Rank.ROOT_CAUSE if text and cause is not None else h.Rank.SYMPTOM,
        count=bursts,
        explain=explain,
        measurements=(
            h.measurement("failures", bursts, "times"),
            *([h.measurement("failures-of-this-task", alike, "times")] if root.task else ()),
            *exception_measurements(said),
        ),
        actions=_actions(job, last, said),
        votes=votes,
    )


def _placed(root: h.Incident) -> h.Incident:
    """The failure of a job with the subtask that its exception names."""
    if root.task is not None or root.kind == "task-failure":
        return root
    name = task_named_in((root.text.get("exception", ""), root.cause or ""))
    if name is None:
        return root
    return replace(
        root, task=name.task, subtask_index=name.subtask_index, parallelism=name.parallelism
    )


def _telling(root: h.Incident, said: Classified | None) -> str | None:
    """The exception that says why: mostly the deepest, but what is below it may only be a detail."""
    outer = root.text.get("exception")
    if said is not None and outer and root.kind != "exception" and said.link == 0:
        return outer if is_root_cause(said.name) else root.cause or outer
    return root.cause or outer


def _why(root: h.Incident, name: str, text: str) -> str:
    return f"{name}: {text}" if root.task is not None else text


def _explain(cause: str | None) -> str:
    """What the cause does to the job; where that is plain, what it is."""
    if cause is None:
        return _UNNAMED
    meaning = CAUSES[cause].meaning
    return h.explanation(cause) or f"{meaning[:1].upper()}{meaning[1:]}."


def _record(said: Classified | None) -> str:
    """Where a record stands that cannot be read, as Kafka's consumer says it."""
    if said is None or said.name != "unreadable-record" or "offset" not in said.values:
        return ""
    told = said.values
    place = told.get("partition") or f"{told.get('topic', 'the topic')}-{told.get('number', '?')}"
    return f" The record stands at offset {told['offset']} of {place}."


_UNNAMED: Final = "The checkpoint took longer than its timeout; the exception does not say which subtask was late."


def _actions(job: h.Job, crisis: h.Crisis, said: Classified | None) -> tuple[h.Action, ...]:
    """What to do about it, and the options that the exception itself names."""
    cause, names = _cause_of(crisis)
    known = h.remedies(cause, job, *names) if cause is not None else ()
    # A command that counts what is needed knows more than the options that the exception names.
    counted = any(action.command for action in known)
    return known if counted else (*known, *option_actions(said, known))


# Of the remedies of a cause those that fit a failure.
_REMEDIES: Final = {
    "insufficient-network-buffers": ("count",),
    "not-enough-slots": ("more-slots",),
}


def _name(incident: h.Incident) -> str:
    return h.subtask_name(incident) if incident.task is not None else _JOB


_JOB: Final = "the job"


def _title(name: str, cause: str | None, bursts: int, text: str, crisis: h.Crisis) -> str:
    if cause in _NOBODYS:
        what = _NOBODYS[cause]
    elif cause is None:
        what = "A checkpoint expired, and the exception names nobody"
    elif cause == "snapshot-exception":
        what = f"{name} throws while it takes a snapshot"
    elif cause == "jvm-crashed":  # nothing that the job's own code threw
        said = (crisis.root.incident.cause or text).rpartition("Runtime Environment:")[2]
        what, text = "A JVM crashed", " ".join(said.replace("#", " ").split())
    else:
        what = f"{name} failed"
    times = f", {bursts} restarts" if bursts > 1 else ""
    tail = "; the job failed for good" if crisis.final else ""
    if what == f"{_JOB} failed":
        what, tail = "The job failed", " for good" if crisis.final else ""
    detail = f": {h.fmt.shorten(without_package(text), 100)}" if text else ""
    return f"{what}{times}{tail}{detail}"


def _declined(job: h.Job, limits: Failed) -> h.Iterator[h.Finding]:
    """Snapshots that failed, by the checkpoints that were declined for them."""
    series = [e for e in h.episodes(job) if e.count(h.Status.DECLINED, h.Status.FAILED)]
    storage = refused(job)
    ids = {
        (c.run, c.id)
        for e in series
        for c in e.checkpoints
        if c.status in (h.Status.DECLINED, h.Status.FAILED)
    } - (storage.checkpoints if storage is not None else frozenset())
    declines = [
        replace(d, reason=d.reason or _told_elsewhere(job, d))
        for d in job.declines
        if (d.run, d.checkpoint) in ids
        and not h.is_blameless(d.reason)
        and (d.reason is None or failure_kind(d.reason) not in ("cancelled", "expired"))
    ]
    who = _by_words(declines, len(ids), limits) if declines else _by_absence(job, ids, limits)
    if who is None:
        return
    first = who.attempts[0]
    alone = len(who.attempts) == 1
    name = h.subtask_name(first) if alone else f"{len(who.attempts)} subtasks"
    yield h.episode_finding(
        job,
        series,
        len(ids),
        subject=h.subtask_subject(job, first) if alone else _common_subject(job, who.attempts),
        title=f"{name} cannot take a snapshot: {h.fmt.shorten(who.text, 120) or 'no reason in the input'}",
        why=f"{name}: {who.text or who.votes[0].text} "
        f"({who.times} of {h.fmt.plural(len(ids), 'failed checkpoint')})",
        cause="snapshot-exception",
        confidence=h.weigh(who.votes),
        rank=h.Rank.ROOT_CAUSE,
        count=sum(len(e.checkpoints) for e in series),
        explain="Its snapshot throws, so it declines, and the checkpoint fails for the whole job. "
        "The task itself goes on.",
        measurements=(
            h.measurement(
                "declined-by-this-subtask", who.times, "checkpoints", over=f"{len(ids)} failed ones"
            ),
        ),
        evidence=who.records,
        actions=h.remedies("snapshot-exception", job),
        votes=who.votes,
    )


def _told(job: h.Job, limits: Failed) -> h.Iterator[h.Finding]:
    """Snapshots that failed, where only the TaskManagers tell (no checkpoint is known)."""
    by_subtask: dict[tuple[str, int | None], list[h.Incident]] = {}
    for incident in h.incidents(job, "async-failure", "snapshot-failed"):
        text = incident.cause or ""
        if not text or failure_kind(text) == "cancelled" or h.is_blameless(text):
            continue
        if incident.task is not None:
            by_subtask.setdefault((incident.task, incident.subtask_index), []).append(incident)
    for members in by_subtask.values():
        if len(members) < limits.repeated:
            continue
        last = members[-1]
        text, name = h.exception_text(last.cause), _name(last)
        votes = h.votes_for({"exception": f"{len(members)} snapshots failed: {text}"}, RULE.signals)
        yield h.incident_finding(
            job,
            members,
            ongoing=True,
            subject=h.subtask_subject(job, last),
            title=f"{name} cannot take a snapshot: {h.fmt.shorten(text, 120)}",
            why=f"{name}: {text} ({len(members)} times)",
            cause="snapshot-exception",
            confidence=h.weigh(votes),
            rank=h.Rank.ROOT_CAUSE,
            explain="Its TaskManager tells of the exception; the JobManager's log, which would say "
            "what became of the checkpoints, is not there.",
            measurements=(h.measurement("failed-snapshots", len(members), "checkpoints"),),
            actions=h.remedies("snapshot-exception", job),
            votes=votes,
        )


class Decliner(NamedTuple):
    """Who made checkpoints be declined: one subtask, or several with the same words."""

    attempts: list[h.Attempt]
    text: str
    times: int
    votes: tuple[h.Vote, ...]
    records: tuple[h.Evidence, ...]


def _by_words(declines: list[h.Decline], failed: int, limits: Failed) -> Decliner | None:
    """By the declines themselves."""
    by_subtask: dict[tuple[str | None, int | None], list[h.Decline]] = {}
    for decline in declines:
        key = (decline.attempt.task, decline.attempt.subtask_index)
        by_subtask.setdefault(key, []).append(decline)
    ranked = sorted(by_subtask.values(), key=lambda items: (-len(items), items[0].ref))
    most = ranked[0]
    # Several subtasks with the same words: what they write to is sick, not one of them.
    alike = [items for items in ranked if len(items) >= len(most) * limits.alike]
    text = h.exception_text(most[-1].reason)
    if not text and len(most) < limits.repeated:
        return None
    others = len(declines) - sum(len(items) for items in alike)
    says = f"declined {len(most)} of {failed} failed checkpoints"
    votes = h.votes_for(
        {
            "exception": f"{says}: {text}" if text else None,
            "repeated-declines": None if text else f"{says}, no reason in the input",
            "other-decliners": f"{others} declines came from other subtasks" if others else None,
        },
        RULE.signals,
    )
    records = h.cite((d.ref, d.time_us) for d in most)
    return Decliner([items[-1].attempt for items in alike], text, len(most), votes, records)


def _by_absence(job: h.Job, ids: set[tuple[int, int]], limits: Failed) -> Decliner | None:
    """REST and archives do not say who declined, but who never acknowledged any of them."""
    numbers = {number for run, number in ids if run == job.runs}
    missing: dict[int, dict[tuple[str | None, int], h.SubtaskCheckpoint]] = {}
    for row in job.subtask_checkpoints:
        if row.checkpoint in numbers and not row.acknowledged and row.source != "debug":
            missing.setdefault(row.checkpoint, {})[row.task, row.subtask_index] = row
    if not missing or len(missing) < limits.repeated:
        return None
    always = set.intersection(*(set(rows) for rows in missing.values()))
    if len(always) != 1:
        return None
    task, index = next(iter(always))
    rows = [members[task, index] for members in missing.values()]
    known = next((a for a in job.attempts if (a.task, a.subtask_index) == (task, index)), None)
    attempt = known or h.Attempt(
        job=job.key,
        attempt_id="",
        vertex_id=rows[0].vertex_id,
        task=task,
        subtask_index=index,
        taskmanager=rows[0].taskmanager,
    )
    reason = next((c.reason for c in job.checkpoints if c.id in numbers and c.reason), None)
    says = f"the only one that acknowledged none of {len(missing)} declined checkpoints"
    votes = h.votes_for({"always-missing": says}, RULE.signals)
    records = h.cite((row.cited, None) for row in rows)
    return Decliner([attempt], h.exception_text(reason), len(missing), votes, records)


def _told_elsewhere(job: h.JobFacts, decline: h.Decline) -> str | None:
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
def _failed_snapshots(job: h.JobFacts) -> dict[tuple[int | None, str | None, int | None], str]:
    """What snapshots failed of, by checkpoint and subtask: the first that has a cause of its own."""
    found: dict[tuple[int | None, str | None, int | None], str] = {}
    for incident in h.incidents(job, "snapshot-failed", "async-failure"):
        place = (incident.checkpoint, incident.task, incident.subtask_index)
        if incident.cause and place not in found and not h.is_blameless(incident.cause):
            found[place] = incident.cause
    return found


@once
def _first_declines(job: h.JobFacts) -> dict[tuple[int, int], h.Decline]:
    return {(d.run, d.checkpoint): d for d in reversed(job.declines)}


@once
def _reasons(job: h.JobFacts) -> dict[tuple[int, int], str | None]:
    return {(c.run, c.id): c.reason for c in reversed(job.checkpoints)}


def _common_subject(job: h.Job, attempts: list[h.Attempt]) -> h.Subject | None:
    """What several decliners share: a TaskManager, a task, or (None) only the job."""
    first = attempts[0]
    if first.taskmanager is not None and len({a.taskmanager for a in attempts}) == 1:
        return h.taskmanager_subject(job, first.taskmanager, first.host)
    if len({attempt.task for attempt in attempts}) > 1:
        return None
    return h.Subject(
        kind="task",
        job_id=job.key.job_id or None,
        job_name=job.name,
        task=first.task,
        vertex_id=first.vertex_id,
        parallelism=first.parallelism,
    )


RULE: Final = h.Rule(
    "CP301",
    judge,
    Failed,
    signals=(
        h.Signal(
            "exception", 3, "the subtask's own exception, with a cause that is no consequence"
        ),
        h.Signal("no-exception", 1, "it failed, and no input says of what"),
        h.Signal("first-failure", 1, "it failed before all others of its crisis"),
        h.Signal("every-time", 1, "the same task failed with the same exception in most restarts"),
        h.Signal("repeated-declines", 2, "it declined again and again, and no input says why"),
        h.Signal(
            "always-missing",
            2,
            "it is the only subtask that acknowledged none of the declined checkpoints",
        ),
        h.Signal(
            "other-decliners", -1, "other subtasks declined the same checkpoints with other causes"
        ),
    ),
    causes=(*dict.fromkeys((*_CAUSES.values(), *(word for word, _ in CAUSE_OF_CLASS.values()))),),
)
