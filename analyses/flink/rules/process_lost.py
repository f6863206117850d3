"""A TaskManager or JobManager was lost.

What it reports
---------------
The TaskManager that disappeared, missed its heartbeats or became unreachable, how that was noticed, how
many failures followed, and whether the job recovered. `flowdiag startup` also reports why, and
JobManagers that TaskManagers gave up or whose process restarted.

Why it matters
--------------
The task that fails first runs on a *survivor*: it lost its connection. Only the text of that exception
and "no longer reachable" name the lost TaskManager. Restarts that fail for missing slots then bury it.
Raising the heartbeat timeout hides a pause, and does not help a process that is gone.

How it decides
--------------
A crisis (see CP301) whose root is a lost connection, a heartbeat timeout, or a killed container. The lost
TaskManager is the peer named in the exceptions, by resource ID if available (1.15+), else by host, and
the TaskManager whose heartbeat failed. Among several, the one named most is reported. A failed task alone
never makes its TaskManager the culprit. Memory as the reason outranks the loss (CP303). Critical if the
job failed for good or cannot restart, a warning if that affects over 1% of the checkpoints, information
otherwise.

`flowdiag startup` starts from the JobManager's line while a job started or ran, and takes the reason from
other logs within `near`:

- the container ended, or connections broke: the process is gone
- its own log shows the timeout, within `notice`, but `behind` or more after the JobManager's: it paused
- both sides notice at the same time: the network between them failed
- metric reports show garbage collection for much of that minute

Without its own log, reports or container the reason stays open. A JobManager restarted if its process
begins, in the same log or in another, and no earlier JobManager logs anything after that. It is
information only if no job was cut off and no TaskManager missed it.

What to do
----------
Find out why it went: `kubectl describe pod`, the NodeManager's log, `dmesg` on the host, its memory, the
garbage collection log, the network. Keep a spare slot or two, so that the job can restart at once.

False alarms
------------
TaskManagers that the JobManager released, idle ones that leave, and the end of the cluster are not losses.
`flowdiag startup` reports a TaskManager that is shut down on purpose while a job runs on it. A long
garbage collection looks like a loss until the TaskManager registers again: only the heartbeat was lost.
"""

from __future__ import annotations

from dataclasses import replace
from functools import singledispatch
from typing import Any, Final

from flowdiag.analyses.flink import helpers as h
from flowdiag.analyses.flink.failures.lost_taskmanagers import (
    Lost,
    loss_signals,
    lost_in,
    own_records,
)
from flowdiag.analyses.model.keys import Ref


class ProcessLost(h.Limits):
    """Thresholds of CP302."""

    behind: float = h.limit(
        5,
        "s",
        "both sides count the same timeout: a process that notices it so much later was paused",
    )
    near: float = h.limit(
        60, "s", "a timeout of 50 s and its check: events within that time belong to the loss"
    )
    notice: float = h.limit(600, "s", "a paused process notices the timeout when it resumes")


@singledispatch
def judge(facts: Any, limits: ProcessLost) -> h.Iterator[h.Finding]:
    """One finding per lost process, by the facts of the topic."""
    raise TypeError(f"no topic judges {type(facts).__name__}")


@judge.register
def judge_crises(facts: h.ClusterFacts, limits: ProcessLost) -> h.Iterator[h.Finding]:
    """One finding per job and lost TaskManager, by the crises of the job."""
    for job in h.jobs_of(facts):
        groups: dict[Lost, list[h.Crisis]] = {}
        for crisis in job.crises:
            if crisis.kind == "taskmanager-lost":
                groups.setdefault(lost_in(job, crisis), []).append(crisis)
        for lost, group in groups.items():
            yield _finding(job, lost, group)


def _finding(job: h.Job, lost: Lost, group: list[h.Crisis]) -> h.Finding:
    last, where, known = group[-1], h.fmt.place(*lost), lost != (None, None)
    votes = _votes(lost, last)
    restarts = sum(crisis.bursts for crisis in group)
    slots = sum(len(crisis.of_kind("no-resource")) for crisis in group)
    down = last.final or last.state is h.State.ONGOING
    what = (
        f"TaskManager {where} was lost" if known else "A TaskManager was lost; no record names it"
    )
    followed = f", {restarts} failures followed" if restarts > 1 else ""
    numbers = [("losses", len(group), "times"), ("failures", restarts, "restarts")]
    if slots:
        numbers.append(("failures-for-slots", slots, "failures"))
    finding = h.crisis_finding(
        job,
        group,
        subject=h.taskmanager_subject(job, *lost),
        title=f"{what}{followed}{h.outcome_text(last)}",
        why=f"{where}: {votes[0].text if votes else 'a connection broke'}" if known else None,
        cause="taskmanager-lost",
        confidence=h.weigh(votes) if known else h.Confidence.LOW,
        rank=h.Rank.ROOT_CAUSE,
        explain="The tasks that failed first ran elsewhere and lost their connection to it."
        + (f" {slots} failures for missing slots followed: a consequence." if slots else ""),
        measurements=tuple(h.measurement(*number) for number in numbers),
        evidence=h.cite(_records(group)),
        actions=h.remedies("taskmanager-lost", job, "find-out", "spare-slots", place=where),
        votes=votes,
    )
    return replace(finding, severity=h.Severity.CRITICAL) if slots and down else finding


def _votes(lost: Lost, crisis: h.Crisis) -> tuple[h.Vote, ...]:
    votes = h.votes_for(loss_signals(lost, crisis), RULE.signals)
    # Records about other TaskManagers contradict nothing if no TaskManager is accused.
    return votes if any(vote.weight > 0 for vote in votes) else ()


def _records(group: list[h.Crisis]) -> h.Iterator[tuple[Ref | None, int | None]]:
    """Yield the records of the losses, the last crisis first."""
    for crisis in reversed(group):
        yield from ((incident.ref, incident.time_us) for incident in own_records(crisis))
        yield from crisis.refs


RULE: Final = h.Rule(
    "CP302",
    judge,
    ProcessLost,
    signals=(
        h.Signal("heartbeat", 3, "its heartbeat timed out, or it is no longer reachable"),
        h.Signal("named-peer", 3, "tasks on other TaskManagers lost their connection to it"),
        h.Signal("worker-ended", 3, "the cluster reports that its container or pod ended"),
        h.Signal("shut-down", 3, "its own tasks report that it is shutting down"),
        h.Signal("other-peers", -1, "other TaskManagers are named as well"),
        h.Signal("container-ended", 3, "the resource manager saw its container end"),
        h.Signal("connections-broke", 2, "peers lost their connections to it before the heartbeat"),
        h.Signal("noticed-late", 3, "its own log has the timeout much later than the JobManager's"),
        h.Signal("noticed-together", 2, "both sides log it at the same time: both were alive"),
        h.Signal(
            "collected-garbage", 3, "its reports show garbage collection for much of that minute"
        ),
    ),
    whole=True,
    causes=(
        "taskmanager-lost",
        "garbage-collection",
        "jobmanager-lost",
        "network",
        "process-paused",
    ),
)
