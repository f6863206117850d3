"""Memory ran out.

What it reports
---------------
OutOfMemoryErrors of any kind (heap, metaspace, direct, threads) and containers that the cluster killed for using
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

from typing import Final

from flowdiag.analyses.flink import helpers as h
from flowdiag.analyses.flink.crises import classify_incident, memory_kind
from flowdiag.analyses.flink.exception_texts import exception_measurements, option_actions

# By kind of memory: what happened, the option's name (None: none helps), what the memory is good for.
_KINDS: Final[dict[str, tuple[str, str | None, str]]] = {
    "heap": ("The heap ran out", "task-heap", "objects of user code, heap state"),
    "metaspace": ("Metaspace ran out", "metaspace", "classes of many restarted or leaking jobs"),
    "direct": (
        "Direct memory ran out",
        "direct",
        "off-heap buffers of user code and libraries",
    ),
    "container": (
        "The container was killed for its memory",
        "overhead",
        "native memory outside of all pools (RocksDB, JNI, glibc arenas)",
    ),
    "native": ("The system had no memory left for the JVM", None, ""),
    "threads": ("A thread could not be started", None, ""),
    "unknown": ("Memory ran out", None, ""),
}


def judge(job: h.Job, limits: h.Limits) -> h.Iterator[h.Finding]:
    """One finding per job and TaskManager."""
    groups: dict[tuple[str | None, str], list[h.Crisis]] = {}
    for crisis in job.crises:
        if crisis.kind == "out-of-memory":
            root = crisis.root.incident
            key = (root.taskmanager or root.host, memory_kind(root))
            groups.setdefault(key, []).append(crisis)
    for (place, kind), group in groups.items():
        yield _finding(job, kind, group, known=place is not None)


def _finding(job: h.Job, kind: str, group: list[h.Crisis], *, known: bool) -> h.Finding:
    last = group[-1]
    root = last.root.incident
    where = h.fmt.place(root.taskmanager, root.host)
    text = h.exception_text(root.cause)
    what, name, use = _KINDS[kind]
    votes = h.votes_for(
        {
            "memory-error": text or "killed for its memory",
            "taskmanager-lost-after": f"{where} was lost right afterwards"
            if _lost_after(last, root)
            else None,
        },
        RULE.signals,
    )
    return h.crisis_finding(
        job,
        group,
        subject=h.taskmanager_subject(job, root.taskmanager, root.host),
        title=f"{what} on {where}{h.outcome_text(last)}",
        why=f"{where}: {h.fmt.shorten(text, 120)}" if known else None,
        cause="out-of-memory",
        confidence=h.weigh(votes),
        rank=h.Rank.FATAL,
        option=h.option(name, job.version) if name is not None else None,
        explain=f"{_EXPLAINED.get(kind) or f'This memory serves {use}.'} What failed after it is a"
        " consequence.",
        measurements=(
            h.measurement("memory-errors", len(group), "times", over=kind),
            *exception_measurements(classify_incident(root)),
        ),
        actions=_actions(job, root, kind, name),
        votes=votes,
    )


_EXPLAINED: Final = {
    "threads": "The process, its user or its container may not start more threads: that is a limit of the "
    "system, and no pool of Flink's memory.",
    "native": "The JVM asked the system for memory and got none: the machine or the container is full, whatever "
    "the pools of Flink's memory say.",
    "unknown": "The exception does not say which memory it was.",
}


_OF_THE_SYSTEM: Final = {"threads": "threads", "native": "spare-room"}


def _actions(job: h.Job, root: h.Incident, kind: str, name: str | None) -> tuple[h.Action, ...]:
    """More of the memory that ran out where that helps, and how to find what takes it."""
    if kind in _OF_THE_SYSTEM:
        return h.remedies("out-of-memory", job, _OF_THE_SYSTEM[kind])
    # What the error itself recommends may be of another process.
    named = tuple(option_actions(classify_incident(root), ()))
    more: tuple[h.Action, ...] = ()
    if name is not None and not any((one.option or "").startswith("jobmanager.") for one in named):
        more = h.remedies("out-of-memory", job, f"more-{name}") or h.remedies(
            "out-of-memory", job, "more"
        )
    told = {action.option for action in more}
    return (
        *(one for one in named if one.option not in told),
        *more,
        *h.remedies("out-of-memory", job, "find-growth"),
    )


def _lost_after(crisis: h.Crisis, root: h.Incident) -> bool:
    """Whether the TaskManager whose memory ran out was lost in the same crisis."""
    return root.taskmanager is not None and any(
        root.taskmanager in (f.incident.taskmanager, f.incident.text.get("lost_taskmanager"))
        for f in crisis.of_kind("taskmanager-lost")
    )


RULE: Final = h.Rule(
    "CP303",
    judge,
    signals=(
        h.Signal("memory-error", 3, "the error or the container's diagnostics say it"),
        h.Signal("taskmanager-lost-after", 1, "the same TaskManager was lost right afterwards"),
    ),
    causes=("out-of-memory",),
)
