"""Defines the signals that vote on the culprit, and their weights.

`SIGNALS` is the voting table in reports and docs. The modules `*_signals` contain one function per
signal, each of which yields a `SuspectVote` for subtasks, a whole task or a TaskManager.
`flowdiag.analyses.flink.suspects.voting` counts the votes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from flowdiag.analyses.flink.suspects.case import Case, Suspect
from flowdiag.analyses.flink.tasks.placement import SubtaskKey
from flowdiag.analyses.model import fmt
from flowdiag.analyses.model.finding import Cited
from flowdiag.analyses.model.signals import signals_of

SIGNALS: Final = signals_of("culprit")
WEIGHTS: Final = {signal.name: signal.weight for signal in SIGNALS}
METRIC_SIGNALS: Final = frozenset(
    {
        "end-of-back-pressure",
        "falling-behind",
        "busiest-subtask",
        "whole-task-busy",
        "records-in",
        "input-queue",
        "saturated-input",
        "no-records",
        "time-per-record",
        "same-taskmanager",
        "garbage-collection",
    }
)
"""The signals that are based on metrics alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SuspectVote:
    """A signal's vote that one of the suspects is the culprit, with the given weight.

    `text` is shown in the report, `detail` is a short reason with the number.
    """

    signal: str
    weight: int
    suspects: frozenset[Suspect]
    text: str
    detail: str
    refs: tuple[Cited, ...] = ()


def vote_for(
    signal: str,
    suspects: Collection[Suspect],
    text: str,
    detail: str,
    refs: tuple[Cited, ...] = (),
    *,
    certain: bool = True,
) -> SuspectVote:
    """Build a vote with the signal's weight, or with weight 1 if it is not `certain`."""
    return SuspectVote(
        signal=signal,
        weight=WEIGHTS[signal] if certain else 1,
        suspects=frozenset(suspects),
        text=text,
        detail=detail,
        refs=refs,
    )


def group_suspects(case: Case, keys: frozenset[SubtaskKey]) -> tuple[frozenset[Suspect], str]:
    """Return the subtasks as suspects and as text. If all subtasks of a task are included, the task replaces them."""
    tasks: dict[str, set[int]] = defaultdict(set)
    for key in keys:
        tasks[key.task].add(key.subtask_index)
    suspects: set[Suspect] = set()
    for task, indexes in tasks.items():
        if len(indexes) > 1 and len(indexes) >= case.size(task) > 0:
            suspects.add(Suspect(task=task))
        else:
            suspects |= {Suspect(task=task, subtask_index=index) for index in indexes}
    ranked = sorted(suspects)
    text = fmt.listed(case.name(suspect) for suspect in ranked[:3])
    if len(ranked) > 3:
        text += f" and {len(ranked) - 3} more"
    return frozenset(suspects), text
