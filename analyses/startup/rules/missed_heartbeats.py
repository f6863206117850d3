"""A process missed its heartbeats.

What it reports
---------------
TaskManagers that the JobManager gave up for missing heartbeats or as unreachable while a job started or ran,
and JobManagers that TaskManagers gave up, or whose process began anew.

Why it matters
--------------
Every task there is restarted elsewhere. Raising the timeout hides a pause, and does nothing for a process
that is gone.

How it decides
--------------
Which TaskManager, by the JobManager's line. Why, by what else the logs say within `near`: its container ended
or its connections broke (gone); its own log notices the timeout, within `notice`, but `behind` or more after
the JobManager's (it stood still); both notice it together (the network between them); its metric reports show
garbage collection for much of that minute. Without its own log, reports or container nothing is said about why.
A JobManager was started again where its process begins, in the same log or in another one, and none that ran
before says a word after that; it is information only where no job was cut off and nobody missed it.

What to do
----------
Depends on why: the container's exit and memory, the garbage collector's log, the network.

False alarms
------------
A TaskManager that is shut down on purpose while a job runs on it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Final, NamedTuple

from flowdiag.analyses.startup import helpers as h
from flowdiag.analyses.startup.losses import (
    broken_connection,
    host_of,
    in_a_life,
    losses,
    noticed_us,
)

_AFTER_US: Final = 1_000_000  # peers may log a broken connection right after the loss


class _Why(NamedTuple):
    """A reason for a loss: in words, the cause that it is, and which of its remedies help."""

    words: str
    cause: str
    remedies: tuple[str, ...]


_WHY: Final = {
    "gone": _Why("its process was gone", "taskmanager-lost", ("find-out", "spare-slots")),
    "stood-still": _Why("it stood still", "process-paused", ("pause",)),
    "garbage": _Why("it collected garbage", "garbage-collection", ("heap",)),
    "network": _Why("the network between it and the JobManager failed", "network", ("between",)),
    "": _Why("its logs do not say why", "taskmanager-lost", ("find-out", "its-log")),
}


class Missed(h.Limits):
    """What ST305 compares with."""

    behind: float = h.limit(
        5,
        "s",
        "both sides count the same timeout: who notices it so much later did not run meanwhile",
    )
    near: float = h.limit(
        60, "s", "a timeout of 50 s and its check: what happened so near belongs to the loss"
    )
    notice: float = h.limit(600, "s", "a process that stood still notices when it runs again")


def judge(facts: h.StartupFacts, limits: Missed) -> h.Iterator[h.Finding]:
    """One finding for each TaskManager, and one for the JobManager."""
    by_worker: dict[str, list[h.Incident]] = defaultdict(list)
    for incident in losses(facts):
        by_worker[incident.taskmanager or "?"].append(incident)
    for name, incidents in sorted(by_worker.items()):
        yield _of_worker(facts, name, incidents, limits)
    masters = [t for t in facts.of_kind("master-heartbeat-lost") if in_a_life(facts, t.first_us)]
    alone = [t for t in masters if t.taskmanager not in by_worker]
    again = facts.of_kind("jobmanager-restarted")
    if again:
        yield _restarted(facts, again, alone)
    elif alone:
        yield _of_master(facts, alone)


def _restarted(
    facts: h.StartupFacts, again: Sequence[h.Trouble], missed: Sequence[h.Trouble]
) -> h.Finding:
    """The JobManager's process began anew: every job was recovered, or had to be submitted again."""
    first, last = again[0].first_us or 0, again[-1].first_us or 0
    # Who stops a cluster on purpose ends its jobs before.
    cut = [job for job in facts.jobs if job.ended is None and (job.job.first_us or last) < first]
    gone = [p.last_us for p in facts.processes if p.role == "jobmanager" and p.last_us is not None]
    silent = max((us for us in gone if us < first), default=None)
    since = (
        "" if silent is None else f", {h.fmt.duration((first - silent) / 1000)} after its last word"
    )
    times = f"{h.fmt.plural(len(again), 'time')}, " if len(again) > 1 else ""
    ids = {job.job.key.job_id for job in facts.jobs if (job.job.last_us or 0) > last}
    anew = bool(cut) and ids.isdisjoint(job.job.key.job_id for job in cut)
    return h.of_troubles(
        facts,
        [*again, *missed],
        ongoing=not (facts.running or h.ran_after(facts, last)),
        severity=h.Severity.WARNING if cut or missed else h.Severity.INFO,
        title=f"The JobManager was started again {times}at {h.fmt.clock(first)} UTC{since}",
        why=f"its process began anew at {h.fmt.clock(first)} UTC",
        cause="jobmanager-lost",
        rank=h.Rank.MECHANISM,
        first_us=silent if silent is not None else first,
        last_us=max([last, *(t.last_us or 0 for t in missed)]),
        count=len(again),
        explain=h.explanation("jobmanager-lost")
        + (
            " Its jobs came back under new ids: they were submitted anew, not recovered; without high"
            " availability a JobManager forgets them."
            if anew
            else ""
        ),
        measurements=(h.measurement("restarts", len(again), "times"),),
        ranked=False,
        actions=h.remedies("jobmanager-lost", h.UNKNOWN_JOB, "pause", "survive"),
    )


def _of_worker(
    facts: h.StartupFacts, name: str, incidents: list[h.Incident], limits: Missed
) -> h.Finding:
    first = incidents[0]
    at = first.time_us or 0
    last = incidents[-1].time_us or at
    host = first.host or host_of(facts, name)
    reasons = [*_reasons(facts, name, host, at, limits)]
    why, votes = _weighed(reasons)
    lost: h.Cited = [(i.ref, i.time_us) for i in incidents]
    beside: h.Cited = [(r.ref, r.time_us) for r in reasons]
    unreachable = "no longer reachable" in (first.cause or "")
    did = "became unreachable" if unreachable else "missed its heartbeats"
    return h.of_worker(
        facts,
        name,
        host,
        ongoing=not (facts.running or h.ran_after(facts, last)),
        severity=h.Severity.WARNING,
        title=f"{h.fmt.place(name, host)} {did}: {_WHY[why].words}",
        why=f"{name} {did}; {votes[0].text}" if votes else f"{name} {did}",
        cause=_WHY[why].cause,
        confidence=h.weigh(votes),
        rank=h.Rank.FIRST_MECHANISM,
        first_us=at,
        last_us=last,
        count=len(incidents),
        explain="Without an answer for heartbeat.timeout (50 s) a process counts as lost, whatever the reason.",
        measurements=(h.measurement("losses", len(incidents), "times"),),
        # Of both kinds: the first losses, then what says why.
        evidence=h.cite([*lost[:4], *beside]),
        evidence_total=len(h.cite([*lost, *beside])),
        ranked=True,
        actions=h.remedies(
            _WHY[why].cause, h.UNKNOWN_JOB, *_WHY[why].remedies, place=h.fmt.place(name, host)
        ),
        votes=votes,
    )


class _Reason(NamedTuple):
    """What speaks for one reason (a key of `_WHY`), and its record."""

    why: str
    vote: h.Vote
    ref: h.Ref | None = None
    time_us: int | None = None


def _weighed(reasons: list[_Reason]) -> tuple[str, tuple[h.Vote, ...]]:
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
    facts: h.StartupFacts, name: str, host: str | None, at: int, limits: Missed
) -> h.Iterator[_Reason]:
    near = limits.near * 1_000_000
    worker = next((w for w in facts.workers if w.name == name), None)
    if worker is not None and worker.ended_us is not None and abs(worker.ended_us - at) < near:
        says = h.fmt.shorten(worker.diagnostics or "its container ended", 80)
        vote = h.Vote(signal="container-ended", text=says, weight=3)
        yield _Reason("gone", vote, worker.ref, worker.ended_us)
    broken = broken_connection(facts, name, host, at - near, at + _AFTER_US)
    if broken is not None:
        says = h.fmt.shorten(broken.cause or "a connection broke", 80)
        vote = h.Vote(signal="connections-broke", text=says, weight=2)
        yield _Reason("gone", vote, broken.ref, broken.time_us)
    own = noticed_us(facts, name, at - near, at + limits.notice * 1_000_000)
    late = (own - at) / 1_000_000 if own is not None else None
    if late is not None and late >= limits.behind:
        says = f"its own log has the timeout {h.fmt.duration(late * 1000)} later"
        yield _Reason("stood-still", h.Vote(signal="noticed-late", text=says, weight=3))
    elif late is not None and abs(late) < limits.behind:
        says = "both sides noticed it at once"
        yield _Reason("network", h.Vote(signal="noticed-together", text=says, weight=2))
    for minute in facts.collecting:
        if minute.taskmanager == name and minute.first_us - near <= at <= minute.last_us + near:
            share = minute.gc_ms / minute.span_ms
            says = f"{h.fmt.percent(share)} of a minute went into garbage collection"
            vote = h.Vote(signal="collected-garbage", text=says, weight=3)
            yield _Reason("garbage", vote, minute.ref, minute.first_us)
            break


def _of_master(facts: h.StartupFacts, troubles: list[h.Trouble]) -> h.Finding:
    names = sorted({trouble.taskmanager or "?" for trouble in troubles})
    registered = len([w for w in facts.workers if w.registered_us]) or len(names)
    everybody = len(names) >= max(2, registered)
    times = [us for trouble in troubles for us in trouble.times]
    who = troubles[0].values.get("master", "JobManager")
    lost = h.fmt.plural(len(names), "TaskManager")
    one = h.Subject(kind="taskmanager", taskmanager=names[0], host=troubles[0].host)
    cause, remedy = ("jobmanager-lost", "pause") if everybody else ("network", "host")
    return h.of_troubles(
        facts,
        troubles,
        ongoing=not (facts.running or h.ran_after(facts, max(times, default=None))),
        severity=h.Severity.WARNING,
        subject=one if len(names) == 1 and not everybody else None,
        title=f"{lost} missed the {who}'s heartbeats"
        + (": it stood still or was cut off" if everybody else f", {names[0]} among them"),
        why=f"the {who} did not answer {lost}",
        cause=cause,
        rank=h.Rank.MECHANISM,
        first_us=min(times, default=None),
        last_us=max(times, default=None),
        explain=h.explanation("jobmanager-lost"),
        ranked=False,
        actions=h.remedies(cause, h.UNKNOWN_JOB, remedy),
    )


RULE: Final = h.Rule(
    "ST305",
    judge,
    Missed,
    signals=(
        h.Signal("container-ended", 3, "the resource manager saw its container end"),
        h.Signal("connections-broke", 2, "peers lost their connections to it before the heartbeat"),
        h.Signal("noticed-late", 3, "its own log has the timeout much later than the JobManager's"),
        h.Signal("noticed-together", 2, "both sides have it at the same time: both were alive"),
        h.Signal(
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
