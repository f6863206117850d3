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
Which TaskManager, by the JobManager's line. Why, by what else the logs say within `near`: its container ended
or its connections broke (gone); its own log notices the time-out, within `notice`, but `behind` or more after
the JobManager's (it stood still); both notice it together (the network between them); its metric reports show
garbage collection for much of that minute. Without its own log, reports or container nothing is said about why.

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
from typing import Final, NamedTuple

from flowdiag.analyses.startup.kit import (
    UNKNOWN_JOB,
    Cited,
    Finding,
    Incident,
    Iterator,
    Limits,
    Rank,
    Ref,
    Rule,
    Severity,
    Signal,
    StartupFacts,
    Subject,
    Trouble,
    Vote,
    cite,
    explained,
    incidents_of,
    limit,
    measured,
    of_troubles,
    of_worker,
    ran_after,
    remedies,
    say,
    weigh,
)

_TEMPLATES: Final = ("heartbeat-timed-out", "taskmanager-unreachable")
_SAID: Final = re.compile(
    r"eartbeat of TaskManager with id|TaskManager with id \S+ is no longer reach"
)
_BROKEN: Final = re.compile(
    r"unexpectedly closed by remote task manager|Lost connection to task manager|Connection refused|"
    r"Connecting to remote task manager|Connection reset by peer|RemoteTransportException"
)
_SAME_US: Final = 20_000_000  # ResourceManager and JobMaster say it both


class _Why(NamedTuple):
    """A reason for a loss: in words, the cause that it is, and which of its remedies helps."""

    words: str
    cause: str
    remedy: str


_WHY: Final = {
    "gone": _Why("its process was gone", "taskmanager-lost", "how-it-ended"),
    "stood-still": _Why("it stood still", "process-paused", "pause"),
    "garbage": _Why("it collected garbage", "garbage-collection", "memory"),
    "network": _Why("the network between it and the JobManager failed", "network", "between"),
    "": _Why("its logs do not say why", "taskmanager-lost", "its-log"),
}


class Missed(Limits):
    """What ST305 compares with."""

    behind: float = limit(
        5,
        "s",
        "both sides count the same time-out: who notices it so much later did not run meanwhile",
    )
    near: float = limit(
        60, "s", "a time-out of 50 s and its check: what happened so near belongs to the loss"
    )
    notice: float = limit(600, "s", "a process that stood still notices when it runs again")


def judge(facts: StartupFacts, limits: Missed) -> Iterator[Finding]:
    """One finding for each TaskManager, and one for the JobManager."""
    by_worker: dict[str, list[Incident]] = defaultdict(list)
    for incident in _losses(facts):
        by_worker[incident.taskmanager or "?"].append(incident)
    for name, incidents in sorted(by_worker.items()):
        yield _of_worker(facts, name, incidents, limits)
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
    for incident in incidents_of(facts):
        told = incident.text.get("template") in _TEMPLATES or (
            incident.kind == "taskmanager-lost" and _SAID.search(incident.cause or "")
        )
        if told and incident.taskmanager and _in_a_life(facts, incident.time_us):
            key = (incident.taskmanager, (incident.time_us or 0) // _SAME_US)
            seen.setdefault(key, incident)
    return sorted(seen.values(), key=lambda i: i.time_us or 0)


def _of_worker(
    facts: StartupFacts, name: str, incidents: list[Incident], limits: Missed
) -> Finding:
    first = incidents[0]
    at = first.time_us or 0
    last = incidents[-1].time_us or at
    host = first.host or _host(facts, name)
    reasons = [*_reasons(facts, name, host, at, limits)]
    why, votes = _weighed(reasons)
    losses: Cited = [(i.ref, i.time_us) for i in incidents]
    beside: Cited = [(r.ref, r.time_us) for r in reasons]
    unreachable = "no longer reachable" in (first.cause or "")
    did = "became unreachable" if unreachable else "missed its heartbeats"
    return of_worker(
        facts,
        name,
        host,
        ongoing=not (facts.running or ran_after(facts, last)),
        severity=Severity.WARNING,
        title=f"{say.place_text(name, host)} {did}: {_WHY[why].words}",
        why=f"{name} {did}; {votes[0].says}" if votes else f"{name} {did}",
        cause=_WHY[why].cause,
        confidence=weigh(votes),
        rank=Rank.FIRST_MECHANISM,
        first_us=at,
        last_us=last,
        count=len(incidents),
        explain="Without an answer for heartbeat.timeout (50 s) a process counts as lost, whatever the reason.",
        measurements=(measured("losses", len(incidents), "times"),),
        # Of both kinds: the first losses, then what says why.
        evidence=cite([*losses[:4], *beside]),
        evidence_total=len(cite([*losses, *beside])),
        ranked=True,
        actions=remedies(_WHY[why].cause, UNKNOWN_JOB, _WHY[why].remedy),
        votes=votes,
    )


class _Reason(NamedTuple):
    """What speaks for one reason (a key of `_WHY`), and its record."""

    why: str
    vote: Vote
    ref: Ref | None = None
    time_us: int | None = None


def _weighed(reasons: list[_Reason]) -> tuple[str, tuple[Vote, ...]]:
    """The reason with most points, and all votes, those for it first."""
    points: dict[str, int] = defaultdict(int)
    for reason in reasons:
        points[reason.why] += reason.vote.weight
    # A pause and garbage collection speak for the same: the collector is the reason of the pause.
    if "garbage" in points and "stood-still" in points:
        points["garbage"] += points.pop("stood-still")
    best = max(points, key=lambda why: points[why], default="")
    return best, tuple(r.vote for r in sorted(reasons, key=lambda r: r.why != best))


def _reasons(
    facts: StartupFacts, name: str, host: str | None, at: int, limits: Missed
) -> Iterator[_Reason]:
    near = limits.near * 1_000_000
    worker = next((w for w in facts.workers if w.name == name), None)
    if worker is not None and worker.ended_us is not None and abs(worker.ended_us - at) < near:
        says = say.shorten(worker.diagnostics or "its container ended", 80)
        vote = Vote(signal="container-ended", says=says, weight=3)
        yield _Reason("gone", vote, worker.ref, worker.ended_us)
    broken = _broken(facts, name, host, at - near, at + 1_000_000)
    if broken is not None:
        says = say.shorten(broken.cause or "a connection broke", 80)
        vote = Vote(signal="connections-broke", says=says, weight=2)
        yield _Reason("gone", vote, broken.ref, broken.time_us)
    own = _own_words(facts, name, at - near, at + limits.notice * 1_000_000)
    late = (own - at) / 1_000_000 if own is not None else None
    if late is not None and late >= limits.behind:
        says = f"its own log has the time-out {say.duration_text(late * 1000)} later"
        yield _Reason("stood-still", Vote(signal="noticed-late", says=says, weight=3))
    elif late is not None and abs(late) < limits.behind:
        says = "both sides noticed it at once"
        yield _Reason("network", Vote(signal="noticed-together", says=says, weight=2))
    for minute in facts.collecting:
        if minute.taskmanager == name and minute.first_us - near <= at <= minute.last_us + near:
            share = minute.gc_ms / minute.span_ms
            says = f"{share:.0%} of a minute went into garbage collection"
            vote = Vote(signal="collected-garbage", says=says, weight=3)
            yield _Reason("garbage", vote, minute.ref, minute.first_us)
            break


def _broken(
    facts: StartupFacts, name: str, host: str | None, low: float, high: float
) -> Incident | None:
    """The first task that failed for a broken connection to that TaskManager in that time."""
    return next(
        (
            i
            for job in facts.jobs
            for i in job.job.incidents
            if i.kind == "task-failure"
            and i.time_us is not None
            and low <= i.time_us <= high
            and (
                i.text.get("lost_taskmanager") == name or (host and i.text.get("lost_host") == host)
            )
            and _BROKEN.search(f"{i.cause} {i.text.get('exception')} {i.text.get('text')}")
        ),
        None,
    )


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


def _own_words(facts: StartupFacts, name: str, low: float, high: float) -> int | None:
    """When the TaskManager itself noticed in that time: by heartbeats of its masters, or by its tasks."""
    ended = [
        task.own_ended_us
        for job in facts.jobs
        for start in job.starts
        for task in start.tasks
        if task.taskmanager == name and task.own_ended_us is not None
    ]
    noticed = [
        us
        for trouble in facts.of_kind("master-heartbeat-lost")
        if trouble.taskmanager == name
        for us in trouble.times
    ]
    return min((us for us in (*ended, *noticed) if low <= us <= high), default=None)


def _of_master(facts: StartupFacts, troubles: list[Trouble]) -> Finding:
    names = sorted({trouble.taskmanager or "?" for trouble in troubles})
    registered = len([w for w in facts.workers if w.registered_us]) or len(names)
    everybody = len(names) >= max(2, registered)
    times = [us for trouble in troubles for us in trouble.times]
    who = troubles[0].values.get("master", "JobManager")
    lost = say.count_text(len(names), "TaskManager")
    one = Subject(kind="taskmanager", taskmanager=names[0], host=troubles[0].host)
    cause, remedy = ("jobmanager-lost", "pause") if everybody else ("network", "host")
    return of_troubles(
        facts,
        troubles,
        ongoing=not facts.running,
        severity=Severity.WARNING,
        subject=one if len(names) == 1 and not everybody else None,
        title=f"{lost} missed the {who}'s heartbeats"
        + (": it stood still or was cut off" if everybody else f", {names[0]} among them"),
        why=f"the {who} did not answer {lost}",
        cause=cause,
        rank=Rank.MECHANISM,
        first_us=min(times, default=None),
        last_us=max(times, default=None),
        explain=explained("jobmanager-lost"),
        ranked=False,
        actions=remedies(cause, UNKNOWN_JOB, remedy),
    )


RULE: Final = Rule(
    "ST305",
    judge,
    Missed,
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
    causes=(
        "garbage-collection",
        "jobmanager-lost",
        "network",
        "process-paused",
        "taskmanager-lost",
    ),
)
