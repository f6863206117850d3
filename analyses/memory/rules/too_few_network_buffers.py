"""Fewer network buffers than the job requires.

What it reports
---------------
TaskManagers on which the pools of the tasks that are placed there require more segments than exist: how
many are missing, which tasks require most, and the smallest setting that is enough. Also
`Insufficient number of network buffers` where the plan of the job is not known.

Why it matters
--------------
The task that comes last fails, whichever it is; the job restarts, the tasks are placed anew, and another
one fails. Raising the heap or the number of slots makes it worse.

How it decides
--------------
By the arithmetic of the version (see `flowdiag.analyses.flink.buffers`): an input gate requires its exclusive
buffers for every channel from another TaskManager and one that floats, a result partition one buffer per
subpartition and one more. Placement comes from the deployments, the graph from the plan (REST or archive),
the segments from the pool's own line. What the error says is the proof; without the plan only a lower
bound is known.

What to do
----------
Raise the network memory to the number given. It is enough for every placement of the same job with the
same parallelism on TaskManagers with as many slots; a new parallelism needs a new number.

False alarms
------------
A job that was rescaled between the saved plan and the log. Blocking (batch) exchanges need other numbers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from flowdiag.analyses.finding import (
    Action,
    Finding,
    Inconclusive,
    Measurement,
    Rank,
    Severity,
    State,
    Subject,
    Vote,
    cite,
    weigh,
)
from flowdiag.analyses.flink import judging as j
from flowdiag.analyses.flink.job import Incident, JobFacts
from flowdiag.analyses.memory import model as m
from flowdiag.analyses.memory.advice import enough_buffers
from flowdiag.analyses.memory.facts import BufferNeeds, MemoryFacts
from flowdiag.analyses.rule import Limits, Rule, Signal

_SAID: Final = re.compile(
    r"Insufficient number of network buffers: required ([0-9]{1,9}), but only ([0-9]{1,9}) available"
    r"(?:.{0,80}?currently set to ([0-9]{1,9}) of ([0-9]{1,9}) bytes each)?"
)


def judge(facts: MemoryFacts, limits: Limits) -> Iterator[Finding | Inconclusive]:
    """One finding for all TaskManagers that are short, the worst named."""
    errors = [(job, i) for job in facts.jobs for i in job.incidents if _is_error(i)]
    short = [needs for needs in facts.buffers if needs.missing]
    if errors or short:
        yield _finding(facts, errors, short)


def _is_error(incident: Incident) -> bool:
    if incident.kind == "network-buffers":
        return True
    return incident.kind == "task-failure" and "number of network buffers" in (incident.cause or "")


def _finding(
    facts: MemoryFacts, errors: list[tuple[JobFacts, Incident]], short: list[BufferNeeds]
) -> Finding:
    job = errors[0][0] if errors else _job_of(facts, short[0])
    worst = max(short or facts.buffers, key=lambda needs: needs.required, default=None)
    votes = []
    if errors:
        said = _SAID.search(errors[-1][1].cause or "")
        votes.append(
            Vote(signal="error", says=j.shorten(said[0] if said else "the error", 90), weight=3)
        )
    if short and worst is not None:
        votes.append(
            Vote(
                signal="arithmetic",
                says=f"{worst.required} required on {worst.taskmanager}, {worst.segments} exist",
                weight=3,
            )
        )
    running_after = bool(errors) and job is not None and _recovered(job, errors[-1][1])
    times = [i.time_us for _, i in errors if i.time_us is not None]
    cited = cite(
        [(i.ref, i.time_us) for _, i in errors[:8]]
        + [(n.process.refs.get("segments"), None) for n in short[:2] if n.process]
    )
    option, actions = _advice(worst if worst is not None and worst.required else None, errors)
    state = State.RECOVERED if running_after else State.ONGOING
    return Finding(
        job=job.key if job else None,
        severity=Severity.WARNING if running_after else Severity.CRITICAL,
        state=state,
        subject=_subject(job, worst),
        title=_title(worst, errors, short),
        why=_why(worst, errors, short),
        cause="insufficient-network-buffers",
        confidence=weigh(votes),
        rank=Rank.ROOT_CAUSE,
        option=option,
        first_us=min(times, default=None),
        last_us=max(times, default=None),
        count=max(1, len(errors)),
        explain="Every gate and every result partition takes its required buffers when its task is "
        "deployed; the task that comes last fails, so that the failed task says nothing about the cause.",
        measurements=tuple(_measured(worst)),
        evidence=cited,
        actions=tuple(actions),
        votes=tuple(votes),
    )


def _job_of(facts: MemoryFacts, needs: BufferNeeds) -> JobFacts | None:
    names = {need.job for need in needs.tasks}
    return next((job for job in facts.jobs if (job.name or job.key.job_id) in names), None)


def _recovered(job: JobFacts, last: Incident) -> bool:
    """Whether the job ran again after the last error: a checkpoint, or nothing wrong until the end."""
    ran = [c.ended_us for c in job.checkpoints if c.status == "completed" and c.ended_us]
    return any((last.time_us or 0) < ended for ended in ran)


def _subject(job: JobFacts | None, worst: BufferNeeds | None) -> Subject:
    return Subject(
        kind="taskmanager" if worst else "job",
        job_id=job.key.job_id if job else None,
        job_name=job.name if job else None,
        taskmanager=worst.taskmanager if worst else None,
        host=worst.host if worst else None,
    )


def _title(
    worst: BufferNeeds | None, errors: list[tuple[JobFacts, Incident]], short: list[BufferNeeds]
) -> str:
    if worst is not None and short:
        return (
            f"{worst.taskmanager} has {worst.segments} network buffers, its tasks require "
            f"{worst.required}"
        )
    said = _SAID.search(errors[-1][1].cause or "") if errors else None
    if said:
        return (
            f"Too few network buffers: {said[1]} more required, {said[2]} left of {said[3] or '?'}"
        )
    return "Too few network buffers"


def _why(
    worst: BufferNeeds | None, errors: list[tuple[JobFacts, Incident]], short: list[BufferNeeds]
) -> str:
    if worst is not None and short:
        return f"{worst.missing} segments of {j.bytes_text(worst.segment_bytes)} are missing"
    return j.shorten(errors[-1][1].cause or "", 140) if errors else "the pools do not fit"


def _measured(worst: BufferNeeds | None) -> Iterator[Measurement]:
    if worst is None:
        return
    yield Measurement(
        name="required-buffers",
        value=worst.required,
        unit="segments",
        threshold=worst.segments,
        population=f"{len(worst.tasks)} subtasks on {worst.taskmanager}",
    )
    yield Measurement(name="enough-for-any-placement", value=worst.any_placement, unit="segments")
    yield Measurement(name="desired-buffers", value=worst.desired, unit="segments")
    hungry = max(worst.tasks, key=lambda need: need.required, default=None)
    if hungry is not None:
        yield Measurement(
            name="most-by-one-subtask",
            value=hungry.required,
            unit="segments",
            population=f"{hungry.task} ({hungry.subtask_index + 1})",
        )


def _advice(
    worst: BufferNeeds | None, errors: list[tuple[JobFacts, Incident]]
) -> tuple[str | None, list[Action]]:
    if worst is not None and (found := enough_buffers(worst)) is not None:
        options, memory = found
        key = next(iter(options))
        current = worst.process.configured.get(key) if worst.process else None
        effect = ""
        if memory is not None and worst.process is not None:
            effect = f"the heap becomes {j.bytes_text(memory.heap)}, the process stays as large"
        actions = [
            Action(
                text="The smallest network memory that is enough for any placement of this job"
                + (f" (set also {', '.join(list(options)[1:])})" if len(options) > 1 else ""),
                option=key,
                current=current,
                proposed=options[key],
                risk=effect or None,
                restart_needed=True,
                verify="the pool's line 'Allocated … number of memory segments' shows "
                f"{worst.smallest // worst.segment_bytes} or more",
            ),
            Action(
                text="Fewer buffers per job: less parallelism, fewer all-to-all exchanges, or chained "
                "operators"
            ),
        ]
        return key, actions
    said = _SAID.search(errors[-1][1].cause or "") if errors else None
    least = None
    if said and said[3] and said[4]:
        least = (int(said[3]) - int(said[2]) + int(said[1])) * int(said[4])
    return m.NETWORK_MIN, [
        Action(
            text="Raise the network memory; at least this much, since tasks that come later are not "
            "counted yet (give the plan, /jobs/:id/plan, for the exact number)",
            option=m.NETWORK_MIN,
            proposed=m.as_option(least) if least else None,
            restart_needed=True,
        )
    ]


RULE: Final = Rule(
    "MM201",
    judge,
    signals=(
        Signal("error", 3, "a task failed with Insufficient number of network buffers"),
        Signal(
            "arithmetic", 3, "the pools placed on a TaskManager require more segments than exist"
        ),
    ),
    whole=True,
)
