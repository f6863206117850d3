"""Signals from snapshots of single subtasks, and from tasks that do not react to cancellation."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from flowdiag.analyses.flink.failures.episodes import incidents
from flowdiag.analyses.flink.job import Incident
from flowdiag.analyses.flink.suspects.case import Case, Suspect, is_running_at_abort, sync_share
from flowdiag.analyses.flink.suspects.signals import SuspectVote, group_suspects, vote_for
from flowdiag.analyses.flink.tasks.placement import SubtaskKey
from flowdiag.analyses.model import fmt

SNAPSHOT_SHARE: Final = 0.3
"""Minimum share of time. A lower share is the normal cost of synchronous snapshots."""


def snapshot_duration(case: Case) -> Iterator[SuspectVote]:
    """Vote for subtasks whose synchronous or asynchronous part took up half the timeout."""
    for key, slow in sorted(case.slow_parts.items()):
        suspect, longest = Suspect.of(key), fmt.duration(slow.longest_ms)
        yield vote_for(
            "snapshot-duration",
            {suspect},
            f"the {slow.part}hronous part of {case.name(suspect)} took up to {longest}"
            f" ({slow.times}×)",
            f"its {slow.part}hronous part took {longest}",
            slow.refs,
        )


def snapshot_aborted(case: Case) -> Iterator[SuspectVote]:
    """Vote for subtasks whose asynchronous part was still running when the checkpoint was aborted."""
    aborted: dict[SubtaskKey, list[Incident]] = defaultdict(list)
    for incident in case.aborted_parts:
        task = case.topology.canonical(incident.task)
        if (
            task is not None
            and incident.subtask_index is not None
            and is_running_at_abort(case, incident)
        ):
            aborted[SubtaskKey(task, incident.subtask_index)].append(incident)
    if not aborted:
        return
    often = max(len(members) for members in aborted.values())
    chosen = frozenset(key for key, members in aborted.items() if len(members) * 4 >= often * 3)
    suspects, text = group_suspects(case, chosen)
    yield vote_for(
        "snapshot-aborted",
        suspects,
        f"{text}: asynchronous part still running when the checkpoint was aborted, {often}×",
        f"its asynchronous part was still running at the abort {often} times",
        tuple(i.ref for key in sorted(chosen) for i in aborted[key] if i.ref is not None),
        certain=often >= 2 and len(chosen) == 1,
    )


def snapshot_time(case: Case, suspect: Suspect, key: SubtaskKey) -> Iterator[SuspectVote]:
    """Vote in support of a suspected subtask that spends much of its time in synchronous snapshots."""
    share = sync_share(case.job, key)
    if share is not None and share >= SNAPSHOT_SHARE:
        text = f"{fmt.percent(share)} of its time went into synchronous snapshots"
        yield vote_for("snapshot-time", {suspect}, text, text)


def stuck_task(case: Case) -> Iterator[SuspectVote]:
    """Vote for tasks that do not react to cancellation."""
    first: dict[SubtaskKey, Incident] = {}
    for incident in incidents(case.job, "task-stuck"):
        task = case.topology.canonical(incident.task)
        if task is None or incident.subtask_index is None:
            continue
        if case.episode.last_us is None or (incident.time_us or 0) < (case.episode.first_us or 0):
            continue
        first.setdefault(SubtaskKey(task, incident.subtask_index), incident)
    for key, incident in sorted(first.items()):
        suspect = Suspect.of(key)
        method = incident.text.get("method") or incident.cause or "an unknown method"
        yield vote_for(
            "stuck-task",
            {suspect},
            f"{case.name(suspect)} did not react to cancellation, stuck in {method}",
            f"stuck in {fmt.shorten(method, 60)}",
            (incident.ref,) if incident.ref is not None else (),
        )
