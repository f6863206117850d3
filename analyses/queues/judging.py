"""What the rules of `flowdiag queues` share: subjects, grades, numbers and advice for a spell."""

from __future__ import annotations

from typing import Final

from flowdiag.analyses.flink.placement import SubtaskKey
from flowdiag.analyses.flink.suspects import numbers_of
from flowdiag.analyses.flink.suspects.remedies import cures, explanation
from flowdiag.analyses.model import fmt
from flowdiag.analyses.model.finding import (
    MAX_CITED,
    Cited,
    Evidence,
    Finding,
    Measurement,
    Rank,
    Severity,
    State,
    Subject,
    cite,
    grade,
)
from flowdiag.analyses.queues.facts import JobQueues
from flowdiag.analyses.queues.proof import WAITING, WORKING, strongest, told_in
from flowdiag.analyses.queues.root import Spell, find_spells, loads_in, subtask_name

# A recovered spell that lasted less than this share of the metrics was isolated.
_ISOLATED: Final = 0.01


def severity(job: JobQueues, spell: Spell) -> Severity:
    """By the one table; what a start or a restore ordinarily costs is information."""
    if spell.ordinary:
        return Severity.INFO
    windows = job.windows
    share = len(spell.windows) / max(len(windows), 1)
    if spell.state is State.RECOVERED and share <= _ISOLATED:
        return Severity.INFO
    return grade(state=spell.state, share=share, fatal=spell.fatal)


def host_of(job: JobQueues, taskmanager: str | None) -> str | None:
    """The host of a TaskManager, where the input says."""
    if taskmanager is None:
        return None
    for each in job.samples.values():
        for sample in each:
            if sample.taskmanager == taskmanager and sample.host:
                return sample.host
    return next((a.host for a in job.job.attempts if a.taskmanager == taskmanager and a.host), None)


def subtask(job: JobQueues, key: SubtaskKey, taskmanager: str | None) -> Subject:
    """A subtask."""
    vertices = job.job.graph.vertices if job.job.graph else ()
    attempts = [
        a for a in job.job.attempts if a.task == key.task and a.subtask_index == key.subtask_index
    ]
    return Subject(
        kind="subtask",
        job_id=job.job.key.job_id or None,
        job_name=job.job.name,
        task=key.task,
        vertex_id=next((v.vertex_id for v in vertices if v.task == key.task), None),
        operator=_operator(key.task),
        subtask_index=key.subtask_index,
        parallelism=job.topology.parallelism.get(key.task),
        attempt_id=attempts[-1].attempt_id if attempts else None,
        taskmanager=taskmanager,
        host=host_of(job, taskmanager),
    )


def task(job: JobQueues, name: str) -> Subject:
    """A whole vertex."""
    vertices = job.job.graph.vertices if job.job.graph else ()
    return Subject(
        kind="task",
        job_id=job.job.key.job_id or None,
        job_name=job.job.name,
        task=name,
        vertex_id=next((v.vertex_id for v in vertices if v.task == name), None),
        operator=_operator(name),
        parallelism=job.topology.parallelism.get(name),
    )


def machine(job: JobQueues, taskmanager: str) -> Subject:
    """A TaskManager."""
    return Subject(
        kind="taskmanager",
        job_id=job.job.key.job_id or None,
        job_name=job.job.name,
        taskmanager=taskmanager,
        host=host_of(job, taskmanager),
    )


def _operator(name: str) -> str | None:
    """The operator of a task that runs but one; of a chain, metrics do not say which is slow."""
    return None if " -> " in name else name


def subject_of(job: JobQueues, spell: Spell) -> Subject:
    """Who is to blame for a spell."""
    suspect = spell.conviction.suspect
    if suspect.kind == "taskmanager":
        return machine(job, suspect.taskmanager)
    if suspect.kind == "task":
        return task(job, suspect.task)
    return subtask(job, spell.convicted[0].key, spell.convicted[0].taskmanager)


def who(job: JobQueues, spell: Spell) -> str:
    """The accused, for people."""
    suspect = spell.conviction.suspect
    if suspect.kind == "taskmanager":
        return fmt.place(suspect.taskmanager, host_of(job, suspect.taskmanager))
    if suspect.kind == "task":
        return fmt.shorten(spell.task)
    return fmt.listed((subtask_name(job, load.key) for load in spell.convicted[:3]), " and ") + (
        f" and {len(spell.convicted) - 3} more" if len(spell.convicted) > 3 else ""
    )


def measurements(spell: Spell) -> tuple[Measurement, ...]:
    """The numbers of a spell."""
    before = max(spell.before, key=lambda pair: pair[1], default=None)
    waits = (
        Measurement(
            name="back-pressured-before",
            value=round(min(before[1], 1.0), 4),
            unit="share",
            population=f"of the time, a subtask of {fmt.shorten(before[0])}",
        )
        if before is not None
        else None
    )
    return (
        *numbers_of(spell.conviction),
        *([waits] if waits is not None else []),
        Measurement(name="samples", value=spell.samples, unit="samples"),
    )


def evidence(job: JobQueues, spell: Spell) -> tuple[Evidence, ...]:
    """The samples that convict, then those of who waits, then late acknowledgements."""
    refs: list[tuple[Cited | None, int | None]] = []
    keys = [load.key for load in spell.convicted[:3]]
    waiting = [load.key for load in spell.loads.values() if load.waits][:2]
    wanted = set(spell.windows)
    for key in (*keys, *waiting):
        gauges = WORKING if key in keys else WAITING
        mine = [s for s in job.samples.get(key, ()) if not wanted or s.window in wanted]
        refs += [(told_in(s, gauges, key), s.first_us) for s in strongest(mine, gauges)]
    refs += [(load.work, None) for load in spell.convicted[:3] if not job.samples]
    refs += [
        (item.ref, item.received_us)
        for item in job.job.late
        if SubtaskKey(item.attempt.task or "", item.attempt.subtask_index or 0) in keys
    ][:3]
    return cite(refs)[:MAX_CITED]


def finding(job: JobQueues, spell: Spell, title: str) -> Finding:
    """A finding about a spell; one that a start explains accuses nobody of anything serious."""
    found = spell.conviction
    note = (
        " This is what a start, a restore or a rescaling costs while the backlog is worked off."
        if spell.ordinary
        else ""
    )
    if spell.then is not None:
        after = spell.then.subject
        name = fmt.subtask_of(after.task, after.subtask_index, after.parallelism)
        note += (
            f" It is over; from then on {name if after.task else after.taskmanager} was to blame."
        )
    return Finding(
        job=job.job.key,
        severity=severity(job, spell),
        state=spell.state,
        subject=subject_of(job, spell),
        title=title,
        why=found.why,
        cause=found.cause,
        confidence=found.confidence,
        rank=Rank.BOTTLENECK,
        first_us=spell.first_us,
        last_us=spell.last_us,
        count=max(len(spell.windows), 1),
        explain=explanation(found) + note,
        measurements=measurements(spell),
        evidence=evidence(job, spell),
        actions=cures(job.job, found),
        votes=found.votes,
    )


def spells_of(job: JobQueues, *causes: str | None) -> list[Spell]:
    """The spells of a job with one of these causes, those of one machine as one."""
    found: dict[object, Spell] = {}
    for spell in find_spells(job):
        if spell.cause not in causes:
            continue
        key = (spell.taskmanager, None) if spell.taskmanager else (spell.task, spell.first_us)
        found[key] = found[key].joined(spell) if key in found else spell
    return list(found.values())


def of_the_whole(spell: Spell) -> bool:
    """Whether it is the task as a whole that is slow, and not some of its subtasks or a machine."""
    return spell.cause == "slow-operator" or spell.conviction.suspect.kind == "task"


def serious(job: JobQueues) -> list[Spell]:
    """The spells that a rule reports at warning or above."""
    return [spell for spell in find_spells(job) if severity(job, spell) is not Severity.INFO]


def waiting_tasks(job: JobQueues) -> list[tuple[str, float]]:
    """Tasks of which a subtask waits most of the time, by the last spell or over everything."""
    spells = find_spells(job)
    loads = spells[0].loads if spells else loads_in(job)
    found: dict[str, float] = {}
    for load in loads.values():
        if load.waits and load.wait_measured:
            found[load.key.task] = max(found.get(load.key.task, 0.0), load.pressed or 0.0)
    return sorted(found.items(), key=lambda pair: job.topology.order(pair[0]))
