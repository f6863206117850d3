"""The signals that vote on the culprit, with the weight of each.

`SIGNALS` is the voting table that reports and docs show. The modules `*_signals` hold one function per
signal: each yields a `SuspectVote` for subtasks, a whole task or a TaskManager.
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
from flowdiag.analyses.model.rule import Signal

SIGNALS: Final[tuple[Signal, ...]] = (
    Signal(
        "late-acknowledgements",
        2,
        "the most upstream subtasks that lag behind their siblings in the late messages of each expired "
        "checkpoint. Weight 1 with a single checkpoint, or if the subtasks change",
    ),
    Signal(
        "subtask-acknowledgements",
        2,
        "the same from REST, an archive or a DEBUG dump, which also show missing acknowledgements. "
        "Weight 1 with a single checkpoint, or if the subtasks change",
    ),
    Signal(
        "snapshot-duration",
        3,
        "the subtask itself reports a synchronous or asynchronous part of at least half the timeout",
    ),
    Signal(
        "snapshot-aborted",
        2,
        "the TaskManager's log shows that the asynchronous part of a subtask was still running when the "
        "checkpoint was aborted. Weight 1 if this happened once, or to several subtasks",
    ),
    Signal(
        "snapshot-time",
        2,
        "the suspect reports that synchronous snapshots use at least 30% of its time. Counts only for "
        "subtasks that another signal points to, because a slow TaskManager has the same effect",
    ),
    Signal(
        "end-of-back-pressure",
        2,
        "busy subtasks that do not wait, while their upstream tasks are back-pressured (1.13+). Weight 1 if "
        "only buffer usage is known, if siblings wait as well, or if several but not all subtasks are busy",
    ),
    Signal(
        "falling-behind",
        1,
        "the same before any upstream task waits: the input queue never empties, or snapshots use up "
        "the subtask's time",
    ),
    Signal(
        "busiest-subtask",
        1,
        "the subtask is busy most of the time and no subtask is busier (1.13+). Its siblings are idle or "
        "at most a third as busy. Only a hint, because a busy subtask is harmless until others wait",
    ),
    Signal("whole-task-busy", 1, "at least two thirds of the task's subtasks are equally busy"),
    Signal(
        "records-in",
        1,
        "the subtask receives at least twice the mean records or bytes of its siblings. Counts only for "
        "subtasks that another signal points to, because skew alone is common and harmless",
    ),
    Signal(
        "input-queue",
        1,
        "the subtask's input queue is at least three times as long as its median sibling's",
    ),
    Signal(
        "saturated-input",
        1,
        "85% of the suspect's input buffers are in use on average, or 50% with peaks of 85%",
    ),
    Signal("no-records", 1, "the suspect is busy and receives no records"),
    Signal(
        "time-per-record",
        2,
        "every comparable subtask on the TaskManager takes at least three times as long per record as its "
        "siblings elsewhere, in two or more vertices. Weight 1 if several subtasks of one vertex take twice as long "
        "there and nowhere else, or if the suspected subtask takes three times as long",
    ),
    Signal(
        "same-taskmanager",
        1,
        "the busy subtasks at the end of back pressure are all subtasks of their task on one TaskManager. "
        "Their data is not skewed, and several of them are busy or another task lags there",
    ),
    Signal(
        "placement",
        2,
        "the outlying late and missing subtasks are (nearly) all subtasks of their vertices on one "
        "TaskManager. Weight 1 unless p is at most 0.01, which requires many subtasks",
    ),
    Signal(
        "first-source",
        2,
        "one source subtask is the first or only late one in at least two checkpoints, and in three "
        "quarters of those with late messages. Metrics show no busy or waiting task, so it holds the "
        "checkpoint lock or is stuck in a fetch. Also if only this source's acknowledgements are missing",
    ),
    Signal(
        "garbage-collection",
        2,
        "the TaskManager's collectors use at least 40% of its time, and twice as much as on the others. "
        "Metric reports contain the times, or else the JVM's own log (`-Xlog:gc`)",
    ),
    Signal(
        "abort-notifications",
        1,
        "from 1.11 a TaskManager logs that a task received the barrier only after the abort, without the "
        "task's name. One such message per checkpoint points to the culprit's TaskManager",
    ),
    Signal(
        "stuck-task", 3, "a task that does not react to cancellation, and the method it is stuck in"
    ),
    Signal(
        "totals-only",
        -2,
        "the only evidence is metrics, and they are totals since the start, not samples",
    ),
    Signal("few-samples", -1, "the only evidence is metrics, with fewer than five samples"),
    Signal(
        "no-graph", -1, "the only evidence is metrics, and no input shows the order of the tasks"
    ),
    Signal(
        "unmonitored-taskmanagers",
        -1,
        "the only evidence is metrics, and some of the job's TaskManagers report none. No culprit is named if all "
        "missing acknowledgements belong to subtasks on these TaskManagers",
    ),
)
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
"""The signals that rest on metrics alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SuspectVote:
    """One signal's vote: any of the suspects is the culprit, with this weight.

    `text` is the vote in a report, `detail` the short reason with its number.
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
    """Build a vote with the signal's weight, or with weight 1 unless `certain`."""
    return SuspectVote(
        signal=signal,
        weight=WEIGHTS[signal] if certain else 1,
        suspects=frozenset(suspects),
        text=text,
        detail=detail,
        refs=refs,
    )


def group_suspects(case: Case, keys: frozenset[SubtaskKey]) -> tuple[frozenset[Suspect], str]:
    """Return subtasks as suspects and as text; all subtasks of a task become the task."""
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
