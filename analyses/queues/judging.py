"""Subjects, severities, measurements and evidence of the findings about a spell of back pressure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from msgspec.structs import replace

from flowdiag.analyses.flink import judging
from flowdiag.analyses.flink.suspects import MAX_STACKS, culprit_measurements
from flowdiag.analyses.flink.suspects.remedies import explanation, remedies_for
from flowdiag.analyses.flink.tasks.placement import SubtaskKey
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
from flowdiag.analyses.queues.facts import JobQueues, merge_gauges
from flowdiag.analyses.queues.loads import loads_in, samples_in
from flowdiag.analyses.queues.proof import COUNTED, WAITING, WORKING, evidence_in, strongest_reports
from flowdiag.analyses.queues.root import Spell, find_spells, subtask_name
from flowdiag.analyses.queues.working import cpu_use

# A recovered spell that took less than this share of the metrics' time was isolated.
_ISOLATED: Final = 0.01


def severity_of(job: JobQueues, spell: Spell) -> Severity:
    """Return the severity of a spell. The normal cost of a start or a restore is informational."""
    if spell.is_ordinary:
        return Severity.INFO
    share = len(spell.windows) / max(len(job.windows), 1)
    if spell.state is State.RECOVERED and share <= _ISOLATED:
        return Severity.INFO
    return grade(state=spell.state, share=share, fatal=spell.fatal)


def host_of(job: JobQueues, taskmanager: str | None) -> str | None:
    if taskmanager is None:
        return None
    places = [(s.taskmanager, s.host) for each in job.samples.values() for s in each]
    places += [(attempt.taskmanager, attempt.host) for attempt in job.job.attempts]
    return next((host for name, host in places if name == taskmanager and host), None)


def task_subject(job: JobQueues, name: str) -> Subject:
    vertices = job.job.graph.vertices if job.job.graph else ()
    return Subject(
        kind="task",
        job_id=job.job.key.job_id or None,
        job_name=job.job.name,
        task=name,
        vertex_id=next((v.vertex_id for v in vertices if v.task == name), None),
        # The metrics of a chain do not show which operator is slow.
        operator=None if " -> " in name else name,
        parallelism=job.topology.parallelism.get(name),
    )


def service_subject(job: JobQueues, service: str, task: str | None = None) -> Subject:
    """Return an external system as a subject, with the affected job and, if known, the task that waits for it."""
    return Subject(
        kind="service",
        service=service,
        job_id=job.job.key.job_id or None,
        job_name=job.job.name,
        task=task,
    )


def state_at_end(job: JobQueues, last_us: int | None, recent_s: float) -> State:
    """Return whether a problem is ongoing at the end of the input. With an unknown time, it counts as ongoing.

    Args:
        job: the job.
        last_us: when the problem last occurred.
        recent_s: the longest time between `last_us` and the end of the input.
    """
    end_us = job.job.last_us
    over = end_us is not None and last_us is not None and end_us - last_us > recent_s * 1e6
    return State.RECOVERED if over else State.ONGOING


def subtask_subject(job: JobQueues, key: SubtaskKey, taskmanager: str | None) -> Subject:
    attempts = [
        a for a in job.job.attempts if a.task == key.task and a.subtask_index == key.subtask_index
    ]
    return replace(
        task_subject(job, key.task),
        kind="subtask",
        subtask_index=key.subtask_index,
        attempt_id=attempts[-1].attempt_id if attempts else None,
        taskmanager=taskmanager,
        host=host_of(job, taskmanager),
    )


def taskmanager_subject(job: JobQueues, taskmanager: str) -> Subject:
    return replace(
        judging.job_subject(job.job),
        kind="taskmanager",
        taskmanager=taskmanager,
        host=host_of(job, taskmanager),
    )


def culprit_subject(job: JobQueues, spell: Spell) -> Subject:
    suspect = spell.culprit.suspect
    if suspect.kind == "taskmanager":
        return taskmanager_subject(job, suspect.taskmanager)
    if suspect.kind == "task":
        return task_subject(job, suspect.task)
    return subtask_subject(job, spell.culprit_loads[0].key, spell.culprit_loads[0].taskmanager)


def culprit_text(job: JobQueues, spell: Spell) -> str:
    """Return the name of a spell's culprit for reports: a TaskManager, a task, or up to three subtasks."""
    suspect = spell.culprit.suspect
    if suspect.kind == "taskmanager":
        return fmt.place(suspect.taskmanager, host_of(job, suspect.taskmanager))
    if suspect.kind == "task":
        return fmt.shorten(spell.task)
    hidden = len(spell.culprit_loads) - 3
    names = fmt.listed((subtask_name(job, load.key) for load in spell.culprit_loads[:3]), " and ")
    return names + (f" and {hidden} more" if hidden > 0 else "")


def measurements_of(spell: Spell) -> tuple[Measurement, ...]:
    upstream = [max(spell.before, key=lambda pair: pair[1])] if spell.before else []
    return (
        *culprit_measurements(spell.culprit),
        *(
            Measurement(
                name="back-pressured-before",
                value=round(min(share, 1.0), 4),
                unit="share",
                population=f"of the time, a subtask of {fmt.shorten(task)}",
            )
            for task, share in upstream
        ),
        Measurement(name="samples", value=spell.samples, unit="samples"),
    )


def evidence_of(job: JobQueues, spell: Spell) -> tuple[Evidence, ...]:
    """Return samples of the culprit, then samples of waiting subtasks, then late acknowledgements."""
    keys = [load.key for load in spell.culprit_loads[:3]]
    code = spell.culprit.code
    refs: list[tuple[Cited | None, int | None]] = [
        (ref, None) for ref in (code.refs[:MAX_STACKS] if code is not None else ())
    ]
    refs += _samples_of(job, spell, keys)
    refs += [(load.work, None) for load in spell.culprit_loads[:3] if not job.samples]
    refs += [
        (item.ref, item.received_us)
        for item in job.job.late
        if SubtaskKey(item.attempt.task or "", item.attempt.subtask_index or 0) in keys
    ][:3]
    return cite(refs)[:MAX_CITED]


def _samples_of(
    job: JobQueues, spell: Spell, keys: list[SubtaskKey]
) -> Iterator[tuple[Cited | None, int | None]]:
    """Yield the samples of the culprits and of two subtasks that wait."""
    held = samples_in(job, spell.windows or None)
    for key in keys if spell.culprit.cause == "data-skew" else ():
        latest = max(held.get(key, ()), key=lambda sample: sample.window, default=None)
        if latest is not None:
            yield evidence_in(latest, COUNTED, key), latest.last_us
    waiting = [load.key for load in spell.loads.values() if load.waits][:2]
    for key in (*keys, *waiting):
        gauges = WORKING if key in keys else WAITING
        for sample in strongest_reports(held.get(key, ()), gauges):
            yield evidence_in(sample, gauges, key), sample.first_us


_MAY_WAIT: Final = (None, "slow-operator", "slow-subtask", "task-hangs")
"""Causes that do not show whether the task computes or waits."""


def spell_finding(job: JobQueues, spell: Spell, title: str) -> Finding:
    """Return a finding about a spell. A spell that a start explains is only info."""
    found = spell.culprit
    note = ""
    if spell.is_ordinary and spell.keeps_up:
        note = " The job keeps up nevertheless: its lag is short and does not grow."
    elif spell.is_ordinary:
        note = (
            " A start, a restore or a rescaling causes back pressure like this until the "
            "backlog is processed."
        )
    if spell.then is not None:
        after = spell.then.subject
        culprit = after.taskmanager
        if after.task:
            culprit = fmt.subtask_of(after.task, after.subtask_index, after.parallelism)
        note += f" The problem has moved: {culprit} has been the culprit since."
    use = cpu_use(job, spell.culprit_loads, spell.loads.values())
    open_question = found.code is None and found.cause in _MAY_WAIT
    waits = use is not None and use.waits and open_question
    return Finding(
        job=job.job.key,
        severity=severity_of(job, spell),
        state=spell.state,
        subject=culprit_subject(job, spell),
        title=title,
        why=f"{found.why}, {use.clause}" if use is not None and waits else found.why,
        cause=found.cause,
        confidence=found.confidence,
        rank=Rank.BOTTLENECK,
        first_us=spell.first_us,
        last_us=spell.last_us,
        count=max(len(spell.windows), 1),
        explain=explanation(found) + note,
        measurements=(*measurements_of(spell), *(use.measurements if use is not None else ())),
        evidence=evidence_of(job, spell),
        actions=remedies_for(job.job, found, _cpu_load(job, spell)),
        votes=found.votes,
    )


def _cpu_load(job: JobQueues, spell: Spell) -> float | None:
    """Return the lowest CPU load among the TaskManagers of the culprit, or None if unknown."""
    names = {load.taskmanager for load in spell.culprit_loads}
    gauges = [
        merge_gauges(machine.gauges.get("cpu") for machine in job.taskmanagers.get(name or "", ()))
        for name in names
    ]
    loads = [gauge.mean for gauge in gauges if gauge is not None]
    return min(loads) if len(loads) == len(names) > 0 else None


def spells_of(job: JobQueues, *causes: str | None) -> list[Spell]:
    """Return the spells with one of these causes. For each TaskManager that is a culprit, return at most one."""
    found: dict[object, Spell] = {}
    for spell in find_spells(job):
        if spell.cause not in causes:
            continue
        key = (spell.taskmanager, None) if spell.taskmanager else (spell.task, spell.first_us)
        found[key] = found[key].merged_with(spell) if key in found else spell
    return list(found.values())


def is_whole_task(spell: Spell) -> bool:
    """Return whether the whole task is slow, rather than single subtasks or a TaskManager."""
    return spell.cause == "slow-operator" or spell.culprit.suspect.kind == "task"


def serious_spells(job: JobQueues) -> list[Spell]:
    """Return the spells that a rule reports as a warning or worse."""
    return [spell for spell in find_spells(job) if severity_of(job, spell) is not Severity.INFO]


def waiting_tasks(job: JobQueues, windows: Sequence[int] | None = None) -> list[tuple[str, float]]:
    """Return the tasks with a subtask that waits most of the time, each with its highest share of time.

    Args:
        job: the job.
        windows: the windows to evaluate; by default those of the first spell, or all if there is no spell.
    """
    spells = find_spells(job) if windows is None else ()
    loads = spells[0].loads if spells else loads_in(job, windows)
    found: dict[str, float] = {}
    for load in loads.values():
        if load.waits and load.wait_measured:
            found[load.key.task] = max(found.get(load.key.task, 0.0), load.back_pressured or 0.0)
    return sorted(found.items(), key=lambda pair: job.topology.order(pair[0]))
