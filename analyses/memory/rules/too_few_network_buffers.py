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
from dataclasses import replace
from typing import Final

from flowdiag.analyses.flink.crises import classify_incident
from flowdiag.analyses.flink.exception_texts import exception_measurements
from flowdiag.analyses.memory import helpers as h
from flowdiag.analyses.memory.advice import current, enough_buffers, network_keys

_SAID: Final = re.compile(
    r"Insufficient number of network buffers: required ([0-9]{1,9}), but only ([0-9]{1,9}) available"
    r"(?:.{0,80}?currently set to ([0-9]{1,9}) of ([0-9]{1,9}) bytes each)?"
)

_Errors = list[tuple[h.JobFacts, h.Incident]]


_SIGNALS: Final = (
    h.Signal("error", 3, "a task failed with Insufficient number of network buffers"),
    h.Signal("arithmetic", 3, "the pools placed on a TaskManager require more segments than exist"),
)


def judge(facts: h.MemoryFacts, limits: h.Limits) -> h.Iterator[h.Finding]:
    """One finding for all TaskManagers that are short, the worst named."""
    errors = [(job, i) for job in facts.jobs for i in job.incidents if _is_error(i)]
    short = [needs for needs in facts.buffers if needs.missing]
    if errors or short:
        yield _finding(facts, errors, short)


def _is_error(incident: h.Incident) -> bool:
    if incident.kind == "network-buffers":
        return True
    return incident.kind == "task-failure" and "number of network buffers" in (incident.cause or "")


def _finding(facts: h.MemoryFacts, errors: _Errors, short: list[h.BufferNeeds]) -> h.Finding:
    job = errors[0][0] if errors else _job_of(facts, short[0])
    worst = max(short or facts.buffers, key=lambda needs: needs.required, default=None)
    said = _said(errors)
    votes = h.votes_for(
        {
            "error": h.fmt.shorten(said[0] if said else "the error", 90) if errors else None,
            "arithmetic": f"{worst.required} required on {worst.taskmanager}, {worst.segments} exist"
            if short and worst is not None
            else None,
        },
        _SIGNALS,
    )
    recovered = bool(errors) and job is not None and _recovered(job, errors[-1][1])
    times = [i.time_us for _, i in errors if i.time_us is not None]
    failed = [(i.ref, i.time_us) for _, i in errors]
    pools = [(needs.process.refs.get("segments"), None) for needs in short if needs.process]
    actions = tuple(_actions(worst, errors))
    return h.of_place(
        job,
        worst.taskmanager if worst else None,
        worst.host if worst else None,
        otherwise="taskmanager" if worst else "job",
        severity=h.Severity.WARNING if recovered else h.Severity.CRITICAL,
        state=h.State.RECOVERED if recovered else h.State.ONGOING,
        title=_title(worst, errors, short),
        why=_why(worst, errors, short),
        cause="insufficient-network-buffers",
        confidence=h.weigh(votes),
        rank=h.Rank.ROOT_CAUSE,
        option=_counted(actions[0].option, job, worst),
        first_us=min(times, default=None),
        last_us=max(times, default=None),
        count=max(1, len(errors)),
        explain="Every gate and every result partition takes its required buffers when its task is "
        "deployed; the task that comes last fails, so that the failed task says nothing about the cause.",
        measurements=(
            *_measured(worst),
            *(
                exception_measurements(classify_incident(errors[-1][1]))
                if errors and worst is None
                else ()
            ),
        ),
        # Of both kinds: the errors first, then the pools.
        evidence=h.cite([*failed[:8], *pools[:2]]),
        evidence_total=len(h.cite([*failed, *pools])),
        actions=actions,
        votes=votes,
    )


def _counted(option: str | None, job: h.JobFacts | None, worst: h.BufferNeeds | None) -> str:
    """The option that sets the number: the same whatever bound is in the way, for the fingerprint."""
    if option == h.model.BUFFERS:
        return option
    process = worst.process if worst is not None else None
    version = process.version if process is not None else job.version if job is not None else None
    return network_keys(version)[0]


def _said(errors: _Errors) -> re.Match[str] | None:
    """The numbers of the last error."""
    return _SAID.search(errors[-1][1].cause or "") if errors else None


def _job_of(facts: h.MemoryFacts, needs: h.BufferNeeds) -> h.JobFacts | None:
    names = {need.job for need in needs.tasks}
    return next((job for job in facts.jobs if (job.name or job.key.job_id) in names), None)


def _recovered(job: h.JobFacts, last: h.Incident) -> bool:
    """Whether the job ran again after the last error: a checkpoint completed."""
    ran = [c.ended_us for c in job.checkpoints if c.status == "completed" and c.ended_us]
    return any((last.time_us or 0) < ended for ended in ran)


def _title(worst: h.BufferNeeds | None, errors: _Errors, short: list[h.BufferNeeds]) -> str:
    if worst is not None and short:
        return (
            f"{worst.taskmanager} has {worst.segments} network buffers, its tasks require "
            f"{worst.required}"
        )
    said = _said(errors)
    if said:
        return (
            f"Too few network buffers: {said[1]} more required, {said[2]} left of {said[3] or '?'}"
        )
    return "Too few network buffers"


def _why(worst: h.BufferNeeds | None, errors: _Errors, short: list[h.BufferNeeds]) -> str:
    if worst is not None and short:
        return f"{worst.missing} segments of {h.fmt.size(worst.segment_bytes)} are missing"
    return h.fmt.shorten(errors[-1][1].cause or "", 140) if errors else "the pools do not fit"


def _measured(worst: h.BufferNeeds | None) -> h.Iterator[h.Measurement]:
    if worst is None:
        return
    tasks = f"{len(worst.tasks)} subtasks on {worst.taskmanager}"
    yield h.measurement("required-buffers", worst.required, "segments", worst.segments, over=tasks)
    yield h.measurement("enough-for-any-placement", worst.any_placement, "segments")
    yield h.measurement("desired-buffers", worst.desired, "segments")
    hungry = max(worst.tasks, key=lambda need: need.required, default=None)
    if hungry is not None:
        who = f"{hungry.task} ({hungry.subtask_index + 1})"
        yield h.measurement("most-by-one-subtask", hungry.required, "segments", over=who)


def _actions(worst: h.BufferNeeds | None, errors: _Errors) -> h.Iterator[h.Action]:
    process = worst.process if worst is not None else None
    found = enough_buffers(worst) if worst is not None and worst.required else None
    if worst is not None and process is not None and found is not None:
        options, memory = found
        key, *others = options
        yield replace(
            h.advised(
                "insufficient-network-buffers",
                "enough",
                option=key,
                current=process.configured.get(key),
                proposed=options[key],
                version=process.version,
                together={other: options[other] for other in others},
                configured=process.configured,
            ),
            risk=_cost(process, memory),
            verify="the pool's line 'Allocated … number of memory segments' shows "
            f"{worst.smallest // worst.segment_bytes} or more",
        )
        yield h.advised("insufficient-network-buffers", "fewer")
        return
    said = _said(errors)
    least = None
    if said and said[3] and said[4]:
        least = (int(said[3]) - int(said[2]) + int(said[1])) * int(said[4])
    size = h.model.as_option(least) if least else None
    version = errors[-1][0].version if errors else None
    names = network_keys(version)
    yield h.advised(
        "insufficient-network-buffers",
        "at-least",
        option=names[0],
        proposed=size,
        version=version,
        # The upper bound is not known: a lower one above it keeps the TaskManager from starting.
        together={names[1]: size} if size else {},
    )


def _cost(process: h.MemoryProcess, memory: h.model.TaskManagerMemory | None) -> str | None:
    """What becomes of the other pools, as far as the model knows them."""
    if memory is None:
        return None
    now = current(process)
    keeps = now is not None and memory.process <= now.process
    size = "stays as large" if keeps else f"takes {h.fmt.size(memory.process)}"
    return f"the heap becomes {h.fmt.size(memory.heap)}, the process {size}"


RULE: Final = h.Rule(
    "MM201",
    judge,
    signals=_SIGNALS,
    whole=True,
    causes=("insufficient-network-buffers",),
)
