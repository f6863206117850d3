"""What a cause means for whom, and what to do about it, filled in from `CAUSES`: the same in every command."""

from __future__ import annotations

from typing import Final

from flowdiag.analyses.flink import helpers as h
from flowdiag.analyses.flink.job import JobFacts
from flowdiag.analyses.flink.suspects import Conviction
from flowdiag.analyses.knowledge.causes import CAUSES
from flowdiag.analyses.model import fmt
from flowdiag.analyses.model.finding import Action

_HALVES: Final = {
    "barrier": "Its barrier waits (behind data, or for the task); the snapshot itself was not begun.",
    "snapshot": (
        "Its barrier arrived and was passed on, but its snapshot took too long; no input says "
        "whether the synchronous or the asynchronous part."
    ),
}
_UNKNOWN: Final = (
    "Nothing tells yet what ails it. Records in and busy time per subtask would tell whether its data, its "
    "machine or its snapshot is to blame."
)

# Of the remedies of a cause, those that the accused calls for; all where a cause is not named here.
_CURES: Final = {
    "slow-taskmanager": ("look-at-machine",),
    "task-hangs": ("thread-dump", "timeout"),
}


def explanation(found: Conviction) -> str:
    """What it means, and who does not agree."""
    cause = CAUSES[found.cause].explanation if found.cause else ""
    text = cause or _HALVES.get(found.half or "", _UNKNOWN)
    against = next((vote.text for vote in found.votes if vote.weight < 0), None)
    return text if against is None else f"{text} Not all signals agree: {against}."


def cures(job: JobFacts, found: Conviction) -> tuple[Action, ...]:
    """What to do about it, in order."""
    subject = found.subject
    place = fmt.place(subject.taskmanager, subject.host)
    if found.cause is None:
        compare = Action(
            text=f"Compare it with its siblings: records in, busy time, state size; then look at {place}",
            verify="it acknowledges together with its siblings, and nobody waits for it",
        )
        return (compare, *h.remedies("data-skew", job, "overtake", "debloat"))
    chained = " -> " in (subject.task or "")
    known = _CURES.get(found.cause) or tuple(CAUSES[found.cause].remedies)
    names = [name for name in known if name != "chain" or chained]
    return h.remedies(
        found.cause,
        job,
        *names,
        place=place,
        task=fmt.shorten(subject.task or "it"),
        than=f" than its {subject.parallelism}" if subject.parallelism else "",
    )
