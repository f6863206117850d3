"""Builds the explanation and the remedies for a culprit from `CAUSES`, in the same way for every command."""

from __future__ import annotations

from typing import Final

from flowdiag.analyses.flink import helpers as h
from flowdiag.analyses.flink.job import JobFacts
from flowdiag.analyses.flink.settings import setup_of
from flowdiag.analyses.flink.suspects import NamedCulprit
from flowdiag.analyses.knowledge.causes import CAUSES
from flowdiag.analyses.model import fmt
from flowdiag.analyses.model.finding import Action
from flowdiag.analyses.stacks import CodeReading, names_in_advice

_SLOW_HALVES: Final = {
    "barrier": "Its barrier waits behind queued data, or the task has not processed the barrier "
    "yet. The snapshot has not started.",
    "snapshot": (
        "Its barrier arrived and was forwarded, but its snapshot took too long. No input shows "
        "whether the synchronous or the asynchronous part is slow."
    ),
}
_UNKNOWN_CAUSE: Final = (
    "The cause is not yet known. Records in and busy time per subtask would show whether its "
    "data is skewed, its TaskManager is slow, or its snapshot is slow."
)

FULL_CORES: Final = 0.85
"""CPU load of a process as a share of its cores. Above this, more subtasks on these cores gain nothing."""

# The remedies of a cause that fit a culprit. Causes that are not listed use all their remedies.
_FITTING_REMEDIES: Final = {
    "slow-taskmanager": ("look-at-machine",),
    "task-hangs": ("thread-dump", "timeout"),
}


def explanation(found: NamedCulprit) -> str:
    """Return the effect of the cause and the strongest opposing vote."""
    name = found.cause or (found.code.cause if found.code is not None else None)
    cause = CAUSES[name].explanation if name else ""
    text = cause or _SLOW_HALVES.get(found.half or "", _UNKNOWN_CAUSE)
    against = next((vote.text for vote in found.votes if vote.weight < 0), None)
    return text if against is None else f"{text} Not all signals agree: {against}."


def remedies_for(
    job: JobFacts, found: NamedCulprit, cpu: float | None = None
) -> tuple[Action, ...]:
    """Return the remedies that fit the culprit and the exhausted resource.

    Args:
        job: the job.
        found: the culprit.
        cpu: the CPU load of its TaskManagers as a share; None if unknown.
    """
    subject = found.subject
    place = fmt.place(subject.taskmanager, subject.host)
    if found.cause is None and found.code is None:
        host = f"Then check {place}" if subject.taskmanager or subject.host else ""
        parts = "the subtask with its siblings"
        if subject.kind == "task":
            parts = "the subtasks of the task with each other"
        siblings = f"Compare {parts}: records in, busy time, state size"
        compare = Action(
            text=". ".join(filter(None, (siblings, host))),
            verify="it acknowledges at the same time as its siblings, and no task waits for it",
        )
        return (compare, *h.remedies("data-skew", job, "overtake", "debloat"))
    if found.cause is None:
        return remedies_for_code(job, found.code) if found.code is not None else ()
    known = _FITTING_REMEDIES.get(found.cause) or tuple(CAUSES[found.cause].remedies)
    left_out = _unfitting_remedies(job, found, cpu)
    names = [name for name in known if name not in left_out]
    first = remedies_for_code(job, found.code, found.cause)[:1] if found.code is not None else ()
    return first + h.remedies(
        found.cause,
        job,
        *names,
        place=place,
        task=fmt.shorten(subject.task or "it"),
        cpu=fmt.percent(min(cpu or 0.0, 1.0)),
        present=f" from {subject.parallelism}" if subject.parallelism else "",
    )


def _unfitting_remedies(job: JobFacts, found: NamedCulprit, cpu: float | None) -> frozenset[str]:
    """Return the remedies to leave out, given the task, its state backend and the known line of code."""
    names = ["parallelism" if cpu is not None and cpu >= FULL_CORES else "cores"]
    if " -> " not in (found.subject.task or ""):
        names.append("chain")
    if setup_of(job).backend != "rocksdb":
        names.append("state-memory")
    if found.code is not None:
        names += ["thread-dump", "flame-graph"]
    return frozenset(names)


def remedies_for_code(
    job: JobFacts, code: CodeReading, cause: str | None = None
) -> tuple[Action, ...]:
    """Return the remedies for what a task's threads do, with the names of the methods.

    A call that never returns (`cause` is `task-hangs`) first needs a timeout. A known line needs no dump.
    """
    names = sorted(
        (name for name in CAUSES[code.cause].remedies if name != "dumps" or not code.stack.frame),
        key=lambda name: not (cause == "task-hangs" and name == "limit-wait"),
    )
    return h.remedies(code.cause, job, *names, **names_in_advice(code, "the operator"))
