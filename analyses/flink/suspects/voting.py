"""Counts the votes of the signals. The suspect with the most weight is the culprit."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from typing import Final

from flowdiag.analyses.flink.suspects import acknowledgement_signals as acknowledgements
from flowdiag.analyses.flink.suspects import load_signals as loads
from flowdiag.analyses.flink.suspects import snapshot_signals as snapshots
from flowdiag.analyses.flink.suspects import taskmanager_signals as taskmanagers
from flowdiag.analyses.flink.suspects.case import Case, Suspect
from flowdiag.analyses.flink.suspects.signals import METRIC_SIGNALS, WEIGHTS, SuspectVote
from flowdiag.analyses.flink.tasks.placement import SubtaskKey
from flowdiag.analyses.flink.tasks.pressure import ENOUGH_SAMPLES
from flowdiag.analyses.model import fmt
from flowdiag.analyses.model.finding import Confidence, Vote, weigh

VOTERS: Final[tuple[Callable[[Case], Iterable[SuspectVote]], ...]] = (
    acknowledgements.late_acknowledgements,
    acknowledgements.subtask_acknowledgements,
    snapshots.snapshot_duration,
    snapshots.snapshot_aborted,
    loads.end_of_back_pressure,
    loads.busiest_subtask,
    taskmanagers.time_per_record,
    taskmanagers.same_taskmanager,
    taskmanagers.late_placement,
    taskmanagers.garbage_collection,
    acknowledgements.first_source,
    snapshots.stuck_task,
)
_MEASURED: Final = frozenset(
    {"snapshot-duration", "end-of-back-pressure", "time-per-record", "stuck-task"}
)
_UNMONITORED: Final = "unmonitored-taskmanagers"
_FROM_TASKMANAGERS: Final = METRIC_SIGNALS | {"abort-notifications"}
"""Signals from TaskManager metrics and logs, which cannot name a subtask if its TaskManager's data is missing."""
_MOST_NAMED: Final = 3  # maximum number of TaskManagers without metrics in a text


def collect_votes(case: Case) -> list[SuspectVote]:
    """Return the votes of all signals that do not depend on a suspect."""
    return [suspect_vote for voter in VOTERS for suspect_vote in voter(case)]


def supporting_votes(case: Case, suspect: Suspect) -> list[SuspectVote]:
    """Return the votes of signals that only support other votes, because healthy jobs also show skew and queues."""
    if suspect.kind != "subtask":
        worst = case.worst_of(suspect)
        if worst is None:
            return []
        found = list(loads.group_votes(case, suspect, worst))
        if suspect.kind == "task":
            found += snapshots.snapshot_time(case, suspect, worst.key)
        return found
    key = SubtaskKey(suspect.task, suspect.subtask_index)
    taskmanager = Suspect(taskmanager=case.manager_of(key) or "")
    return [
        *snapshots.snapshot_time(case, suspect, key),
        *(
            replace(suspect_vote, suspects=frozenset({suspect}))
            for suspect_vote in acknowledgements.abort_notifications(case)
            if taskmanager in suspect_vote.suspects
        ),
        *loads.subtask_votes(case, suspect),
    ]


def leading_suspects(case: Case, suspect_votes: Sequence[SuspectVote]) -> tuple[Suspect, ...]:
    """Return the suspect with the most weight, several if they tie, or none if no suspect stands out.

    A TaskManager on which every record is slow explains its slow subtasks, unless the leading subtask has
    more to do than its siblings.
    """
    scores = _scores(case, suspect_votes)
    ranked = [
        suspect
        for suspect in sorted(scores, key=lambda s: (-scores[s][0], -scores[s][1], s))
        if _is_in_scope(case, suspect)
    ]
    if not ranked or _placed_by_chance(suspect_votes, ranked[0]):
        return ()
    best = ranked[0]
    slow = _slow_taskmanager_of(case, best)
    if slow is not None:
        return (slow,)
    return _resolve_tie(case, suspect_votes, [s for s in ranked if scores[s] == scores[best]])


def _resolve_tie(
    case: Case, suspect_votes: Sequence[SuspectVote], tied: Sequence[Suspect]
) -> tuple[Suspect, ...]:
    """Return the tied suspects that are culprits. A single suspect is always a culprit."""
    taskmanagers_tied = [suspect for suspect in tied if suspect.kind == "taskmanager"]
    if len(taskmanagers_tied) == 1:
        (taskmanager,) = taskmanagers_tied
        if all(_fits(case, suspect, taskmanager) for suspect in tied if suspect != taskmanager):
            return (taskmanager,)  # only its own subtasks tie with it
    if len(tied) > 1 and case.end is None and not _are_all_culprits(case, suspect_votes, tied):
        # Only a separate signal can blame the task or the TaskManager that the tied suspects share.
        return ()
    return tuple(suspect for suspect in tied if suspect.kind == tied[0].kind)


def _scores(case: Case, suspect_votes: Sequence[SuspectVote]) -> dict[Suspect, tuple[float, float]]:
    """Return the total weight and the strongest single vote of each suspect.

    A vote for several suspects counts half for each. A vote for the suspect's task or TaskManager adds at
    most one point.
    """
    scores: dict[Suspect, tuple[float, float]] = {}
    for suspect_vote in suspect_votes:
        number = len(suspect_vote.suspects)
        for suspect in suspect_vote.suspects:
            total, strongest = scores.get(suspect, (0.0, 0.0))
            scores[suspect] = (
                total + suspect_vote.weight / (1 if number == 1 else 2),
                max(strongest, suspect_vote.weight / number),
            )
    for suspect, (total, strongest) in scores.items():
        for suspect_vote in suspect_votes:
            if suspect not in suspect_vote.suspects and _fits_any(case, suspect, suspect_vote):
                total += min(1.0, suspect_vote.weight / 2)
        scores[suspect] = (total, strongest)
    return scores


def _is_in_scope(case: Case, suspect: Suspect) -> bool:
    """Return whether a case can be about a suspect. If back pressure ends at a task, only its subtasks are in scope."""
    if case.end is None:
        return True
    if suspect.kind == "taskmanager":
        return any(load.taskmanager == suspect.taskmanager for load in case.end.subtasks)
    return suspect.task == case.end.task and (
        suspect.kind == "task"
        or any(load.key.subtask_index == suspect.subtask_index for load in case.end.subtasks)
    )


def _slow_taskmanager_of(case: Case, suspect: Suspect) -> Suspect | None:
    """Return the TaskManager that slows down an evenly loaded subtask, or None."""
    if suspect.kind != "subtask" or case.slow_taskmanager is None:
        return None
    key, name = SubtaskKey(suspect.task, suspect.subtask_index), case.slow_taskmanager.taskmanager
    even = key in case.loads and loads.is_evenly_loaded(case, case.loads[key])
    return Suspect(taskmanager=name) if even and case.manager_of(key) == name else None


def _placed_by_chance(suspect_votes: Sequence[SuspectVote], suspect: Suspect) -> bool:
    """Return whether the only vote is a weak placement, which may be chance on few TaskManagers."""
    weights = {item.signal: item.weight for item in suspect_votes if suspect in item.suspects}
    return weights.keys() == {"placement"} and weights["placement"] < 2


def _are_all_culprits(
    case: Case, suspect_votes: Sequence[SuspectVote], tied: Sequence[Suspect]
) -> bool:
    """Return whether all tied suspects are culprits: a single signal votes for all of them, and all are busy.

    They must be a minority of the subtasks of one task, because a majority is not an anomaly.
    """
    task = tied[0].task
    return (
        all(s.kind == "subtask" and s.task == task and is_busy(case, s) for s in tied)
        and len(tied) * 2 <= case.size(task)
        and any(suspect_vote.suspects.issuperset(tied) for suspect_vote in suspect_votes)
    )


def is_busy(case: Case, suspect: Suspect) -> bool:
    """Return whether metrics show that a subtask is busy all the time and not back-pressured."""
    load = case.loads.get(SubtaskKey(suspect.task, suspect.subtask_index))
    return load is not None and load.is_working and load.measured and not load.waits


def _fits_any(case: Case, suspect: Suspect, suspect_vote: SuspectVote) -> bool:
    return any(_fits(case, suspect, other) for other in suspect_vote.suspects)


def _fits(case: Case, one: Suspect, other: Suspect) -> bool:
    """Return whether one suspect is the task or the TaskManager of the other."""
    kinds = {one.kind, other.kind}
    if kinds == {"subtask", "task"}:
        return one.task == other.task
    if kinds == {"subtask", "taskmanager"}:
        return _taskmanager(case, one) == _taskmanager(case, other)
    return False


def _taskmanager(case: Case, suspect: Suspect) -> str | None:
    if suspect.kind == "taskmanager":
        return suspect.taskmanager
    return case.manager_of(SubtaskKey(suspect.task, suspect.subtask_index))


def vote_on(case: Case, suspect: Suspect, suspect_vote: SuspectVote) -> Vote:
    """Convert a signal's vote to a vote for or against one suspect."""
    if suspect in suspect_vote.suspects:
        alone = len(suspect_vote.suspects) == 1
        weight = suspect_vote.weight if alone else max(1, suspect_vote.weight - 1)
    elif _fits_any(case, suspect, suspect_vote):
        weight = 1
    else:
        weight = -suspect_vote.weight
    return Vote(signal=suspect_vote.signal, text=suspect_vote.text, weight=weight)


def supporting(suspect_votes: Sequence[SuspectVote], votes: Sequence[Vote]) -> list[SuspectVote]:
    """Return the votes for the suspect, strongest first."""
    pairs = sorted(zip(suspect_votes, votes, strict=True), key=lambda pair: -pair[1].weight)
    return [suspect_vote for suspect_vote, vote in pairs if vote.weight > 0]


def confidence_of(case: Case, votes: Sequence[Vote]) -> Confidence:
    """Return the confidence that follows from the votes. It is never high for hints alone, for one unmeasured
    checkpoint, or if a TaskManager that may run the culprit reports nothing.
    """
    confidence = weigh(votes)
    pro = [vote for vote in votes if vote.weight > 0]
    measured = any(vote.signal in _MEASURED for vote in pro)
    few = 0 < len(case.episode.checkpoints) < 2
    # At a known origin of back pressure, votes only decide who causes it, so they are more than hints.
    hints = case.end is None and all(vote.weight == 1 for vote in pro)
    unseen = any(vote.signal == _UNMONITORED for vote in votes)
    if confidence is Confidence.HIGH and (hints or unseen or (few and not measured)):
        return Confidence.MEDIUM
    return confidence


def on_unmonitored_taskmanager(case: Case, signals: Collection[str]) -> bool:
    """Return whether all late subtasks run on TaskManagers without metrics, although only metrics vote.

    Args:
        case: the case.
        signals: the signals that vote for the suspect.
    """
    late = {key for reading in case.reported for key in reading.overdue}
    if not late or not _are_all_from_metrics(signals):
        return False
    return all(case.manager_of(key) in case.unmonitored for key in late)


def _are_all_from_metrics(signals: Collection[str]) -> bool:
    return bool(signals) and METRIC_SIGNALS.issuperset(signals)


def caveats(case: Case, suspect: Suspect, signals: Collection[str]) -> list[Vote]:
    """Return votes against a suspect whose other votes come only from metrics, or only from TaskManager logs.

    Args:
        case: the case of the suspect.
        suspect: the leading suspect.
        signals: the signals that vote for it.
    """
    unmonitored = sorted(case.unmonitored) if case.expired else []
    unseen = bool(unmonitored) and _FROM_TASKMANAGERS.issuperset(signals)
    if not _are_all_from_metrics(signals):
        return [_unmonitored_vote(unmonitored)] if signals and unseen else []
    tasks = {suspect.task} if suspect.task else {root.task for root in case.roots[:1]}
    members = [load for root in case.roots if root.task in tasks for load in root.subtasks]
    fewest = min((load.samples for load in members), default=ENOUGH_SAMPLES)
    found = (
        (
            fewest == 0,
            "totals-only",
            "REST responses and archives only contain totals since the start",
        ),
        (0 < fewest < ENOUGH_SAMPLES, "few-samples", f"only {fmt.plural(fewest, 'sample')}"),
        (case.topology.known_from in (None, "metrics"), "no-graph", "the job graph is unknown"),
    )
    votes = [
        Vote(signal=name, text=text, weight=WEIGHTS[name])
        for applies, name, text in found
        if applies
    ]
    return [*votes, *([_unmonitored_vote(unmonitored)] if unseen else [])]


def _unmonitored_vote(taskmanagers: Sequence[str]) -> Vote:
    text = f"no metrics from {fmt.listed(taskmanagers[:_MOST_NAMED])}"
    return Vote(signal=_UNMONITORED, text=text, weight=WEIGHTS[_UNMONITORED])
