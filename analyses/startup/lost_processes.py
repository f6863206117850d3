"""Judges CP302 for `flowdiag startup`: which process missed its heartbeats, and why, according to all logs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Final, NamedTuple

from flowdiag.analyses.flink.rules.process_lost import RULE, Limits, judge
from flowdiag.analyses.startup import helpers as h
from flowdiag.analyses.startup import losses

__all__ = ["RULE"]

_AFTER_US: Final = 1_000_000  # peers may log a broken connection right after the loss


class _Reason(NamedTuple):
    """A reason why a process was lost, with its title text, cause and remedies."""

    words: str
    cause: str
    remedies: tuple[str, ...]


_REASONS: Final = {
    "gone": _Reason("its process had ended", "taskmanager-lost", ("find-out", "spare-slots")),
    "paused": _Reason("it was paused", "process-paused", ("pause",)),
    "garbage": _Reason("it was collecting garbage", "garbage-collection", ("heap",)),
    "network": _Reason("the network between it and the JobManager failed", "network", ("between",)),
    "": _Reason("its logs do not show why", "taskmanager-lost", ("find-out", "its-log")),
}


class _Sign(NamedTuple):
    """A record that supports a reason, which is a key of `_REASONS`."""

    reason: str
    signal: str
    text: str
    ref: h.Ref | None = None
    time_us: int | None = None


@judge.register
def judge_heartbeats(facts: h.StartupFacts, limits: Limits) -> h.Iterator[h.Finding]:
    """Report each lost TaskManager in its own finding, and all losses of the JobManager in one."""
    by_worker: dict[str, list[h.Incident]] = defaultdict(list)
    for incident in losses.losses(facts):
        by_worker[incident.taskmanager or "?"].append(incident)
    for name, incidents in sorted(by_worker.items()):
        yield _lost_worker(facts, name, incidents, limits)
    missed = [
        trouble
        for trouble in facts.of_kind("master-heartbeat-lost")
        if losses.while_job_ran(facts, trouble.first_us) and trouble.taskmanager not in by_worker
    ]
    restarts = facts.of_kind("jobmanager-restarted")
    if restarts:
        yield _restarted_master(facts, restarts, missed)
    elif missed:
        yield _missing_jobmanager_finding(facts, missed)


def _lost_worker(
    facts: h.StartupFacts, name: str, incidents: list[h.Incident], limits: Limits
) -> h.Finding:
    first = incidents[0]
    at = first.time_us or 0
    last = incidents[-1].time_us or at
    host = first.host or losses.host_of(facts, name)
    signs = [*_signs(facts, name, host, at, limits)]
    reason, votes = _weigh(signs)
    lost: h.Cited = [(i.ref, i.time_us) for i in incidents]
    supporting: h.Cited = [(sign.ref, sign.time_us) for sign in signs]
    unreachable = "no longer reachable" in (first.cause or "")
    event = "became unreachable" if unreachable else "missed its heartbeats"
    return h.worker_finding(
        facts,
        name,
        host,
        ongoing=not (facts.running or h.ran_after(facts, last)),
        severity=h.Severity.WARNING,
        title=f"{h.fmt.place(name, host)} {event}: {reason.words}",
        why=f"{name} {event}; {votes[0].text}" if votes else f"{name} {event}",
        cause=reason.cause,
        confidence=h.weigh(votes),
        rank=h.Rank.FIRST_MECHANISM,
        first_us=at,
        last_us=last,
        count=len(incidents),
        explain="A process that does not respond within heartbeat.timeout (50 s) counts as lost, whatever the reason.",
        measurements=(h.measurement("losses", len(incidents), "times"),),
        # Cite the first losses, then the records that show the reason.
        evidence=h.cite([*lost[:4], *supporting]),
        evidence_total=len(h.cite([*lost, *supporting])),
        ranked=True,
        actions=h.remedies(
            reason.cause, h.UNKNOWN_JOB, *reason.remedies, place=h.fmt.place(name, host)
        ),
        votes=votes,
    )


def _weigh(signs: Sequence[_Sign]) -> tuple[_Reason, tuple[h.Vote, ...]]:
    """Return the reason with the most points, and all votes, those for the reason first."""
    votes = [h.votes_for({sign.signal: sign.text}, RULE.signals)[0] for sign in signs]
    points: dict[str, int] = defaultdict(int)
    for sign, vote in zip(signs, votes, strict=True):
        points[sign.reason] += vote.weight
    # Garbage collection explains a pause, so both signs support garbage collection.
    if "garbage" in points and "paused" in points:
        points["garbage"] += points.pop("paused")
    best = max(points, key=lambda reason: points[reason], default="")
    ranked = sorted(zip(signs, votes, strict=True), key=lambda pair: pair[0].reason != best)
    return _REASONS[best], tuple(vote for _, vote in ranked)


def _signs(
    facts: h.StartupFacts, name: str, host: str | None, at: int, limits: Limits
) -> h.Iterator[_Sign]:
    near = limits.timeout_window * 1_000_000
    worker = next((w for w in facts.workers if w.name == name), None)
    if worker is not None and worker.ended_us is not None and abs(worker.ended_us - at) < near:
        text = h.fmt.shorten(worker.diagnostics or "its container ended", 80)
        yield _Sign("gone", "container-ended", text, worker.ref, worker.ended_us)
    broken = losses.broken_connection(facts, name, host, at - near, at + _AFTER_US)
    if broken is not None:
        text = h.fmt.shorten(broken.cause or "a connection broke", 80)
        yield _Sign("gone", "connections-broke", text, broken.ref, broken.time_us)
    noticed = losses.noticed_us(facts, name, at, at - near, at + limits.resume_window * 1_000_000)
    if noticed is not None:
        late = (noticed - at) / 1_000_000
        if late >= limits.timeout_delay:
            text = f"its own log shows the timeout {h.fmt.duration(late * 1000)} later"
            yield _Sign("paused", "noticed-late", text)
        elif late > -limits.timeout_delay:
            yield _Sign(
                "network", "noticed-together", "both sides noticed the timeout at the same time"
            )
    for minute in facts.collecting:
        if minute.taskmanager == name and minute.first_us - near <= at <= minute.last_us + near:
            share = h.fmt.percent(minute.gc_ms / minute.span_ms)
            text = f"garbage collection took {share} of a minute"
            yield _Sign("garbage", "collected-garbage", text, minute.ref, minute.first_us)
            break


def _restarted_master(
    facts: h.StartupFacts, restarts: Sequence[h.Trouble], missed: Sequence[h.Trouble]
) -> h.Finding:
    """Report a restarted JobManager process, after which jobs were recovered or had to be submitted again."""
    first, last = restarts[0].first_us or 0, restarts[-1].first_us or 0
    cut = _interrupted_jobs(facts, first, last)
    title = f"The JobManager restarted at {h.fmt.clock(first)} UTC"
    if len(restarts) > 1:
        times = h.fmt.plural(len(restarts), "time")
        title = f"The JobManager restarted {times}, first at {h.fmt.clock(first)} UTC"
    silent = losses.last_master_record(facts, first)
    if silent is not None:
        title += f", {h.fmt.duration((first - silent) / 1000)} after its last record"
    explain = h.explanation("jobmanager-lost")
    if cut and not _continues(facts, cut, last):
        explain += _RESUBMITTED
    return h.trouble_finding(
        facts,
        [*restarts, *missed],
        ongoing=not (facts.running or h.ran_after(facts, last)),
        severity=h.Severity.WARNING if cut or missed else h.Severity.INFO,
        title=title,
        why=f"its process restarted at {h.fmt.clock(first)} UTC",
        cause="jobmanager-lost",
        rank=h.Rank.MECHANISM,
        first_us=first if silent is None else silent,
        last_us=max([last, *(trouble.last_us or 0 for trouble in missed)]),
        count=len(restarts),
        explain=explain,
        measurements=(h.measurement("restarts", len(restarts), "times"),),
        ranked=False,
        actions=h.remedies("jobmanager-lost", h.UNKNOWN_JOB, "pause", "survive"),
    )


def _interrupted_jobs(facts: h.StartupFacts, first: int, last: int) -> list[h.JobStarts]:
    """Return the jobs that the restarts interrupted. Jobs that had already ended do not count."""
    return [job for job in facts.jobs if job.ended is None and (job.job.first_us or last) < first]


def _continues(facts: h.StartupFacts, jobs: Sequence[h.JobStarts], time_us: int) -> bool:
    """Return whether any of the jobs has records under the same ID after a given time."""
    later = {job.job.key.job_id for job in facts.jobs if (job.job.last_us or 0) > time_us}
    return not later.isdisjoint(job.job.key.job_id for job in jobs)


_RESUBMITTED: Final = (
    " Its jobs came back under new IDs: they were resubmitted, not recovered. Without high availability,"
    " a JobManager forgets its jobs."
)


def _missing_jobmanager_finding(facts: h.StartupFacts, troubles: list[h.Trouble]) -> h.Finding:
    names = sorted({trouble.taskmanager or "?" for trouble in troubles})
    registered = len([w for w in facts.workers if w.registered_us]) or len(names)
    everywhere = len(names) >= max(2, registered)
    times = [us for trouble in troubles for us in trouble.times]
    master = troubles[0].values.get("master", "JobManager")
    lost = h.fmt.plural(len(names), "TaskManager")
    worker = h.Subject(kind="taskmanager", taskmanager=names[0], host=troubles[0].host)
    cause, remedy = ("jobmanager-lost", "pause") if everywhere else ("network", "host")
    return h.trouble_finding(
        facts,
        troubles,
        ongoing=not (facts.running or h.ran_after(facts, max(times, default=None))),
        severity=h.Severity.WARNING,
        subject=worker if len(names) == 1 and not everywhere else None,
        title=f"{lost} missed the {master}'s heartbeats"
        + (": it was paused or cut off" if everywhere else f", including {names[0]}"),
        why=f"the {master} did not respond to {lost}",
        cause=cause,
        rank=h.Rank.MECHANISM,
        first_us=min(times, default=None),
        last_us=max(times, default=None),
        explain=h.explanation("jobmanager-lost"),
        ranked=False,
        actions=h.remedies(cause, h.UNKNOWN_JOB, remedy),
    )
