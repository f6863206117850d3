"""Memory ran out.

What it reports
---------------
OutOfMemoryErrors of any kind (heap, metaspace, direct) and containers that the cluster killed for using
more memory than they may: on which TaskManager, which kind, and which option is the right one.

Why it matters
--------------
What is seen is a lost TaskManager, a suspended coordinator, failed checkpoints. The reason stands once,
often at INFO, often only in what the cluster says about the container's end.

How it decides
--------------
By the text of the error or of the container's diagnostics. The kind of memory comes from the hint that
Flink appends (1.11+) or from the error itself. It outranks the lost TaskManager that follows. Critical
if the job failed for good or restarts in vain until the end, else by how long ago it was and how often.

What to do
----------
Each kind has an option of its own; raising the heap helps against none of the others.

False alarms
------------
An OutOfMemoryError that user code catches and logs is reported if a task fails at that time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from flowdiag.analyses.checkpoints.rules.task_failure import short
from flowdiag.analyses.finding import (
    Action,
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
from flowdiag.analyses.flink.crises import Crisis, Failure, crises
from flowdiag.analyses.flink.episodes import concluded
from flowdiag.analyses.flink.job import Incident, JobFacts
from flowdiag.analyses.flink.kit import Job
from flowdiag.analyses.flink.options import option
from flowdiag.analyses.rule import Limits, Rule, Signal

# Kind of memory, what says so, name of the option, what the option is good for.
_KINDS: Final = (
    ("metaspace", "Metaspace", "metaspace", "classes of many restarted or leaking jobs"),
    ("direct", "Direct buffer memory", "direct", "off-heap buffers of user code and libraries"),
    (
        "container",
        r"physical|OOMKilled|virtual|Exit (?:code|status):? ?-?1(?:03|04|37)|memory limit",
        "overhead",
        "native memory outside of all pools (RocksDB, JNI, glibc arenas)",
    ),
    ("heap", "heap space|GC overhead", "task-heap", "objects of user code, heap state"),
)


def judge(job: Job, limits: Limits) -> Iterator[Finding | Inconclusive]:
    """One finding per job and TaskManager."""
    groups: dict[tuple[str | None, str], list[Crisis]] = {}
    for crisis in crises(job, job.cluster):
        if crisis.kind == "out-of-memory":
            root = crisis.root.incident
            key = (root.taskmanager or root.host, memory_kind(root))
            groups.setdefault(key, []).append(crisis)
    for (_, kind), group in groups.items():
        yield _finding(job, kind, group)


def memory_kind(incident: Incident) -> str:
    """heap, metaspace, direct or container, by the words of the record."""
    text = " ".join((incident.cause or "", *incident.text.values()))
    for kind, pattern, _, _ in _KINDS:
        if re.search(pattern, text, re.IGNORECASE):
            return kind
    return "container" if incident.kind != "task-failure" else "heap"


def _finding(job: JobFacts, kind: str, group: list[Crisis]) -> Finding:
    last = group[-1]
    root = last.root.incident
    where = j.place_text(root.taskmanager, root.host)
    text = short(root.cause)
    name, use = next((name, use) for known, _, name, use in _KINDS if known == kind)
    key = option(name, job.version)
    votes = [Vote(signal="memory-error", says=text or "killed for its memory", weight=3)]
    followed = [f for f in last.failures if _lost_with(f, root)]
    if followed:
        votes.append(
            Vote(
                signal="taskmanager-lost-after",
                says=f"{where} was lost right afterwards",
                weight=1,
            )
        )
    cited = cite(ref for crisis in reversed(group) for ref in crisis.refs)
    known = root.taskmanager is not None or root.host is not None
    return Finding(
        job=job.key,
        severity=grade(
            state=last.state,
            share=len(group) / max(1, len(concluded(job))),
            fatal=last.fatal,
        ),
        state=last.state,
        subject=Subject(
            kind="taskmanager",
            job_id=job.key.job_id or None,
            job_name=job.name,
            taskmanager=root.taskmanager,
            host=root.host,
        )
        if known
        else j.job_subject(job),
        title=f"{_WORDS[kind]} on {where}" + _tail(last),
        why=f"{where}: {j.shorten(text, 120)}" if known else None,
        cause="out-of-memory",
        confidence=weigh(votes),
        rank=Rank.FATAL,
        option=key,
        first_us=group[0].first_us,
        last_us=last.last_us,
        count=len(group),
        explain=f"This memory serves {use}. What failed after it is a consequence.",
        measurements=(
            Measurement(name="memory-errors", value=len(group), unit="times", population=kind),
        ),
        evidence=cited,
        ranked=True,
        actions=(
            Action(
                text="Give that kind of memory more room",
                option=key,
                current=j.configured(job, key) if key else None,
                risk="the process gets larger, or another pool smaller",
                restart_needed=True,
                verify="Status.JVM.Memory metrics stay below their maximum",
            ),
            Action(
                text="Look for what grows: a heap dump for the heap, the number of loaded classes for "
                "metaspace, RocksDB's block cache and iterators for the container",
            ),
        ),
        votes=tuple(votes),
    )


_WORDS: Final = {
    "heap": "The heap ran out",
    "metaspace": "Metaspace ran out",
    "direct": "Direct memory ran out",
    "container": "The container was killed for its memory",
}


def _tail(crisis: Crisis) -> str:
    if crisis.final:
        return "; the job failed for good"
    return "; the job has not recovered" if crisis.state is State.ONGOING else ""


def _lost_with(failure: Failure, root: Incident) -> bool:
    incident = failure.incident
    return (
        failure.kind == "taskmanager-lost"
        and root.taskmanager is not None
        and root.taskmanager in (incident.taskmanager, incident.text.get("lost_taskmanager"))
    )


RULE: Final = Rule(
    "CP303",
    judge,
    signals=(
        Signal("memory-error", 3, "the error or the container's diagnostics say it"),
        Signal("taskmanager-lost-after", 1, "the same TaskManager was lost right afterwards"),
    ),
)
