"""A process missed its heartbeats.

What it reports
---------------
TaskManagers that the JobManager gave up for missing heartbeats or as unreachable while a job started or ran,
and JobManagers that TaskManagers gave up.

Why it matters
--------------
Every task there is restarted elsewhere. Raising the time-out hides a pause, and does nothing for a process
that is gone.

How it decides
--------------
Which TaskManager, by the JobManager's line. Why, by what else the logs say: its container ended or its
connections broke (gone); its own log notices the time-out much later than the JobManager's (it stood still);
both notice it together (the network between them); its metric reports show garbage collection for much of
that minute. Without its own log, reports or container nothing is said about why.

What to do
----------
Depends on why: the container's exit and memory, the garbage collector's log, the network.

False alarms
------------
A TaskManager that is shut down on purpose while a job runs on it.
"""

from __future__ import annotations

import re
from collections import defaultdict
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
    Vote,
    cite,
    weigh,
)
from flowdiag.analyses.flink import judging as j
from flowdiag.analyses.flink.job import Incident
from flowdiag.analyses.keys import Ref
from flowdiag.analyses.rule import Limits, Rule, Signal, limit
from flowdiag.analyses.startup.facts import StartupFacts, Trouble

_NEAR_US: Final = 60_000_000
_TEMPLATES: Final = ("heartbeat-timed-out", "taskmanager-unreachable")
_SAID: Final = re.compile(
    r"eartbeat of TaskManager with id|TaskManager with id \S+ is no longer reach"
)
_BROKEN: Final = re.compile(
    r"unexpectedly closed by remote task manager|Lost connection to task manager|Connection refused|"
    r"Connecting to remote task manager|Connection reset by peer|RemoteTransportException"
)
_WHY: Final = {
    "gone": "its process was gone",
    "stood-still": "it stood still",
    "garbage": "it collected garbage",
    "network": "the network between it and the JobManager failed",
    "": "its logs do not say why",
}
_CAUSE: Final = {
    "gone": "taskmanager-lost",
    "stood-still": "process-paused",
    "garbage": "garbage-collection",
    "network": "network",
    "": "taskmanager-lost",
}
_ADVICE: Final = {
    "gone": "See how its process or container ended: exit code, OOMKilled, preemption, a crash (hs_err)",
    "stood-still": "Look for what stops a process: the garbage collector's log (-Xlog:gc*,safepoint), swap, "
    "a throttled or paused container, a suspended machine",
    "garbage": "flowdiag memory with the same inputs: give the heap more room, or hold less in it",
    "network": "Look at the network between the two hosts at that time; both processes were alive",
    "": "Give that TaskManager's log and GC log too: they tell a pause from a broken network",
}


class MissedHeartbeatsLimits(Limits):
    """What ST305 compares with."""

    behind: float = limit(
        5,
        "s",
        "both sides count the same time-out: who notices it so much later did not run meanwhile",
    )


def judge(facts: StartupFacts, limits: MissedHeartbeatsLimits) -> Iterator[Finding | Inconclusive]:
    """One finding for each TaskManager, and one for the JobManager."""
    by_worker: dict[str, list[Incident]] = defaultdict(list)
    for incident in _losses(facts):
        by_worker[incident.taskmanager or "?"].append(incident)
    for name, incidents in sorted(by_worker.items()):
        yield _of_worker(facts, name, incidents, limits.behind * 1_000_000)
    masters = [t for t in facts.of_kind("master-heartbeat-lost") if _in_a_life(facts, t.first_us)]
    alone = [t for t in masters if t.taskmanager not in by_worker]
    if alone:
        yield _of_master(facts, alone)


def _in_a_life(facts: StartupFacts, time_us: int | None) -> bool:
    """Whether a job was on its way then: TaskManagers that leave an idle cluster are no trouble."""
    if time_us is None:
        return False
    for job in facts.jobs:
        if not job.starts:
            continue
        ends = [job.ended_us] + [
            i.time_us for i in job.job.incidents if i.kind in ("cancelled", "finished", "suspended")
        ]
        end = min((us for us in ends if us is not None), default=1 << 62)
        if job.starts[0].started_us <= time_us < end:
            return True
    return False


def _losses(facts: StartupFacts) -> list[Incident]:
    seen: dict[tuple[object, ...], Incident] = {}
    for incident in (
        *facts.common.incidents,
        *(i for job in facts.jobs for i in job.job.incidents),
    ):
        told = incident.text.get("template") in _TEMPLATES or (
            incident.kind == "taskmanager-lost" and _SAID.search(incident.cause or "")
        )
        if told and incident.taskmanager and _in_a_life(facts, incident.time_us):
            # ResourceManager and JobMaster say it both.
            key = (incident.taskmanager, (incident.time_us or 0) // 20_000_000)
            seen.setdefault(key, incident)
    return sorted(seen.values(), key=lambda i: i.time_us or 0)


def _of_worker(
    facts: StartupFacts, name: str, incidents: list[Incident], behind_us: float
) -> Finding:
    first = incidents[0]
    at = first.time_us or 0
    host = first.host or _host(facts, name)
    votes, why, refs = _reasons(facts, name, host, at, behind_us)
    last = incidents[-1].time_us or at
    recovered = any(
        start.running_us is not None and start.running_us > last
        for job in facts.jobs
        for start in job.starts
    )
    unreachable = "no longer reachable" in (first.cause or "")
    did = "became unreachable" if unreachable else "missed its heartbeats"
    return Finding(
        job=facts.jobs[0].job.key if len(facts.jobs) == 1 else None,
        severity=Severity.WARNING,
        state=State.RECOVERED if recovered or facts.running else State.ONGOING,
        subject=Subject(kind="taskmanager", taskmanager=name, host=host),
        title=f"{j.place_text(name, host)} {did}: {_WHY[why]}",
        why=f"{name} {did}; {votes[0].says}" if votes else f"{name} {did}",
        cause=_CAUSE[why],
        confidence=weigh(votes),
        rank=Rank.FIRST_MECHANISM,
        first_us=at,
        last_us=last,
        count=len(incidents),
        explain="Without an answer for heartbeat.timeout (50 s) a process counts as lost, whatever the reason.",
        measurements=(Measurement(name="losses", value=len(incidents), unit="times"),),
        evidence=cite([(i.ref, i.time_us) for i in incidents[:4]] + refs),
        ranked=True,
        actions=(Action(text=_ADVICE[why]),),
        votes=tuple(votes),
    )


def _reasons(
    facts: StartupFacts, name: str, host: str | None, at: int, behind_us: float
) -> tuple[list[Vote], str, list[tuple[Ref | None, int | None]]]:
    """Why, by points; the evidence with it."""
    votes: list[tuple[str, Vote]] = []
    refs: list[tuple[Ref | None, int | None]] = []
    worker = next((w for w in facts.workers if w.name == name), None)
    if worker is not None and worker.ended_us is not None and abs(worker.ended_us - at) < _NEAR_US:
        said = j.shorten(worker.diagnostics or "its container ended", 80)
        votes.append(("gone", Vote(signal="container-ended", says=said, weight=3)))
        refs.append((worker.ref, worker.ended_us))
    broken = [
        i
        for job in facts.jobs
        for i in job.job.incidents
        if i.kind == "task-failure"
        and i.time_us is not None
        and at - _NEAR_US <= i.time_us <= at + 1_000_000
        and (i.text.get("lost_taskmanager") == name or (host and i.text.get("lost_host") == host))
        and _BROKEN.search(f"{i.cause} {i.text.get('exception')} {i.text.get('text')}")
    ]
    if broken:
        votes.append(
            (
                "gone",
                Vote(
                    signal="connections-broke",
                    says=j.shorten(broken[0].cause or "a connection broke", 80),
                    weight=2,
                ),
            )
        )
        refs.append((broken[0].ref, broken[0].time_us))
    own = _own_words(facts, name, at)
    if own is not None:
        late = own - at
        if late >= behind_us:
            says = f"its own log has the time-out {j.duration_text(late / 1000)} later"
            votes.append(("stood-still", Vote(signal="noticed-late", says=says, weight=3)))
        elif abs(late) < behind_us:
            votes.append(
                (
                    "network",
                    Vote(signal="noticed-together", says="both sides noticed it at once", weight=2),
                )
            )
    for minute in facts.collecting:
        if (
            minute.taskmanager == name
            and minute.first_us - _NEAR_US <= at <= minute.last_us + _NEAR_US
        ):
            share = minute.gc_ms / minute.span_ms
            says = f"{share:.0%} of a minute went into garbage collection"
            votes.append(("garbage", Vote(signal="collected-garbage", says=says, weight=3)))
            refs.append((minute.ref, minute.first_us))
            break
    if not votes:
        return [], "", refs
    points: dict[str, int] = defaultdict(int)
    for why, vote in votes:
        points[why] += vote.weight
    # A pause and garbage collection speak for the same: the collector is the reason of the pause.
    if "garbage" in points and "stood-still" in points:
        points["garbage"] += points.pop("stood-still")
    best = max(points, key=lambda why: points[why])
    ordered = sorted(votes, key=lambda pair: pair[0] != best)
    return [vote for _, vote in ordered], best, refs


def _host(facts: StartupFacts, name: str) -> str | None:
    known = next((w.host for w in facts.workers if w.name == name and w.host), None)
    return known or next(
        (
            task.host
            for job in facts.jobs
            for start in job.starts
            for task in start.tasks
            if task.taskmanager == name and task.host
        ),
        None,
    )


def _own_words(facts: StartupFacts, name: str, at: int) -> int | None:
    """When the TaskManager itself noticed, near that time: by heartbeats of its masters, or by its tasks."""
    times = [
        task.own_ended_us
        for job in facts.jobs
        for start in job.starts
        for task in start.tasks
        if task.taskmanager == name
        and task.own_ended_us is not None
        and at - _NEAR_US <= task.own_ended_us <= at + 10 * _NEAR_US
    ]
    times += [
        us
        for trouble in facts.of_kind("master-heartbeat-lost")
        if trouble.taskmanager == name
        for us in trouble.times
        if at - _NEAR_US <= us <= at + 10 * _NEAR_US
    ]
    return min(times, default=None)


def _of_master(facts: StartupFacts, troubles: list[Trouble]) -> Finding:
    names = sorted({trouble.taskmanager or "?" for trouble in troubles})
    registered = len([w for w in facts.workers if w.registered_us]) or len(names)
    everybody = len(names) >= max(2, registered)
    times = [us for trouble in troubles for us in trouble.times]
    who = troubles[0].values.get("master", "JobManager")
    return Finding(
        job=facts.jobs[0].job.key if len(facts.jobs) == 1 else None,
        severity=Severity.WARNING,
        state=State.RECOVERED if facts.running else State.ONGOING,
        subject=Subject(kind="process")
        if everybody or len(names) > 1
        else Subject(kind="taskmanager", taskmanager=names[0], host=troubles[0].host),
        title=f"{j.count_text(len(names), 'TaskManager')} missed the {who}'s heartbeats"
        + (": it stood still or was cut off" if everybody else f", {names[0]} among them"),
        why=f"the {who} did not answer {j.count_text(len(names), 'TaskManager')}",
        cause="jobmanager-lost" if everybody else "network",
        rank=Rank.MECHANISM,
        first_us=min(times, default=None),
        last_us=max(times, default=None),
        count=sum(trouble.count for trouble in troubles),
        explain="Who loses its JobManager fails its tasks and registers anew.",
        evidence=cite((t.ref, t.first_us) for t in troubles[:8]),
        actions=(
            Action(
                text="Look at the JobManager's garbage collection and load at that time"
                if everybody
                else "Look at that host and its network"
            ),
        ),
    )


RULE: Final = Rule(
    "ST305",
    judge,
    MissedHeartbeatsLimits,
    signals=(
        Signal("container-ended", 3, "the resource manager saw its container end"),
        Signal("connections-broke", 2, "peers lost their connections to it before the heartbeat"),
        Signal("noticed-late", 3, "its own log has the time-out much later than the JobManager's"),
        Signal("noticed-together", 2, "both sides have it at the same time: both were alive"),
        Signal(
            "collected-garbage", 3, "its reports show garbage collection for much of that minute"
        ),
    ),
    whole=True,
)
