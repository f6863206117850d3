"""Fewer slots than the job requires.

What it reports
---------------
How many slots the job required, how many it got, from how many TaskManagers, and which number to change.

Why it matters
--------------
A standalone cluster fails such a start within seconds, YARN, Kubernetes and the adaptive scheduler wait;
the messages never put required and offered side by side.

How it decides
--------------
From the declared requirements (1.13 and later), the slots that were allocated, and the message that says
what was acquired; before 1.13 from the slot requests. If a TaskManager was lost right before, missing
slots are a consequence, and this is ranked lower.

What to do
----------
More slots per TaskManager, more TaskManagers, or less parallelism; with slot sharing the job needs as many
slots as its widest vertex.

False alarms
------------
TaskManagers that are about to register: see the finding about late ones.
"""

from __future__ import annotations

from bisect import bisect_left
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
    cite,
)
from flowdiag.analyses.flink import judging as j
from flowdiag.analyses.flink.crises import crises
from flowdiag.analyses.rule import Limits, Rule
from flowdiag.analyses.startup.facts import JobStarting, JobStarts, Start, StartupFacts
from flowdiag.parsers.flink.failures import failure_kind


def judge(job: JobStarting, limits: Limits) -> Iterator[Finding | Inconclusive]:
    """One finding per job."""
    times = sorted(
        i.time_us
        for i in job.job.incidents
        if i.time_us and (i.kind == "no-resource" or failure_kind(i.cause or "") == "no-resource")
    )
    short = [s for s in job.starts if _is_short(s, times)]
    if short:
        yield _finding(job.cluster, job, short)


def _is_short(start: Start, times: list[int]) -> bool:
    """Whether a start had too few slots: by its numbers, else by an error for slots within it."""
    if start.held not in ("slots", "back-off"):
        return False
    slots = start.slots
    if slots and slots.required and slots.acquired is not None and start.tasks:
        return slots.acquired < slots.required
    return bisect_left(times, start.started_us) < bisect_left(times, start.ended_us or 1 << 62)


def _finding(facts: StartupFacts, job: JobStarts, short: list[Start]) -> Finding:
    told = next(
        (s.slots for s in reversed(short) if s.slots and s.slots.acquired is not None), None
    )
    told = told or next((s.slots for s in short if s.slots), None)
    widest = max((v.parallelism for v in job.job.graph.vertices), default=0) if job.job.graph else 0
    required = (told.required if told else None) or widest or None
    acquired = told.acquired if told else None
    taskmanagers = len([w for w in facts.workers if w.registered_us]) or None
    ongoing = short[-1] is next((s for s in reversed(job.starts) if s.tasks), None)
    lost = any(c.root.kind not in ("no-resource", "unknown") for c in crises(job.job, facts.common))
    numbers = (
        f"{required or '?'} required, {acquired if acquired is not None else 'fewer'} acquired"
    )
    per = None
    if required and taskmanagers:
        per = -(-required // taskmanagers)
    refs = [(s.slots.ref, None) for s in short if s.slots]
    causes = [
        (i.ref, i.time_us)
        for i in job.job.incidents
        if i.kind == "no-resource" or failure_kind(i.cause or "") == "no-resource"
    ]
    cited = cite([*refs[:2], *causes[:6]])
    return Finding(
        job=job.job.key,
        severity=Severity.CRITICAL if ongoing else Severity.WARNING,
        state=State.ONGOING if ongoing else State.RECOVERED,
        subject=Subject(kind="job", job_id=job.job.key.job_id or None, job_name=job.job.name),
        title=f"Not enough slots: {numbers}"
        + (f", {j.count_text(taskmanagers, 'TaskManager')} registered" if taskmanagers else ""),
        why=f"slots: {numbers}",
        cause="not-enough-slots",
        rank=Rank.REPETITION if lost else Rank.ROOT_CAUSE,
        option="taskmanager.numberOfTaskSlots",
        first_us=short[0].started_us,
        last_us=short[-1].started_us,
        count=len(short),
        explain="With slot sharing a job needs as many slots as its widest vertex has subtasks.",
        measurements=(
            Measurement(name="required-slots", value=required, unit="slots"),
            Measurement(name="acquired-slots", value=acquired, unit="slots", threshold=required),
            Measurement(name="taskmanagers", value=taskmanagers, unit="TaskManagers"),
        ),
        evidence=cited,
        actions=(
            Action(
                text="More slots on each TaskManager (they share its memory)",
                option="taskmanager.numberOfTaskSlots",
                proposed=str(per) if per else None,
                restart_needed=True,
            ),
            Action(text="Or more TaskManagers, or less parallelism"),
        ),
    )


RULE: Final = Rule("ST201", judge)
