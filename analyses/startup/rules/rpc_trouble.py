"""Calls between processes fail.

What it reports
---------------
Remote processes that the RPC layer quarantined or could not reach, and calls that timed out, with the
remote process.

Why it matters
--------------
No process contacts a quarantined one again until either is restarted. Calls without a response make
deployments and registrations fail.

How it decides
--------------
By the RPC layer's own log lines, while a job started or ran. A gate of some milliseconds after a broken
connection is normal and does not count on its own. Fewer than `timeouts` calls without a response are
information if the job runs. Timeouts caused by an oversized message belong to ST307.

What to do
----------
Check the load and the garbage collection of the remote process, its name resolution and its ports.

False alarms
------------
A single timeout of the Web UI while the JobManager was busy.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from flowdiag.analyses.startup import helpers as h
from flowdiag.parsers.units import version_of

_QUARANTINES: Final = ("remote-quarantined", "rpc-quarantined-by-peer", "rpc-unreachable")
_TIMEOUTS: Final = ("rpc-ask-timed-out", "rpc-invocation-timed-out")


class Troubled(h.Limits):
    """Thresholds of ST306."""

    timeouts: float = h.limit(3, "calls", "one slow response of a busy process is common")


def judge(facts: h.StartupFacts, limits: Troubled) -> h.Iterator[h.Finding]:
    """One finding for quarantines, one for timeouts."""
    quarantined = [t for t in facts.of_kind(*_QUARANTINES) if _before_shutdown(facts, t)]
    if quarantined:
        yield _quarantined(facts, quarantined)
    if h.oversized(facts):
        return  # the messages never went out
    timed_out = [t for t in facts.of_kind(*_TIMEOUTS) if _before_shutdown(facts, t)]
    if timed_out:
        yield _timed_out(facts, timed_out, limits.timeouts)


def _before_shutdown(facts: h.StartupFacts, trouble: h.Trouble) -> bool:
    """Whether trouble occurred before the shutdown of the cluster."""
    if trouble.first_us is None or not facts.jobs:
        return True
    ends = [
        us
        for job in facts.jobs
        for us in (
            job.ended_us,
            *(i.time_us for i in job.job.incidents if i.kind in ("cancelled", "finished")),
        )
        if us is not None
    ]
    return len(ends) < len(facts.jobs) or trouble.first_us < max(ends)


def _quarantined(facts: h.StartupFacts, troubles: list[h.Trouble]) -> h.Finding:
    peer, _ = _peer(troubles)
    count = sum(trouble.count for trouble in troubles)
    title = f"{peer or 'A process'} is quarantined: no process contacts it any longer"
    return h.trouble_finding(
        facts,
        troubles,
        ongoing=not facts.running,
        severity=h.Severity.WARNING,
        subject=_subject(facts, peer),
        title=title,
        why=title,
        cause="rpc-trouble",
        rank=h.Rank.PLACE,
        measurements=(h.measurement("records", count),),
        actions=h.remedies("rpc-trouble", h.UNKNOWN_JOB),
    )


def _timed_out(facts: h.StartupFacts, troubles: list[h.Trouble], most: float) -> h.Finding:
    peer, from_peer = _peer(troubles)
    count = sum(trouble.count for trouble in troubles)
    title = f"{h.fmt.plural(count, 'call')} timed out without a response"
    if peer is not None:
        title += f", {from_peer} of them from {peer}"
    versions = [v for p in facts.processes if (v := version_of(p.version)) is not None]
    option = "pekko.ask.timeout" if versions and min(versions) >= (1, 18) else "akka.ask.timeout"
    timeout = next((t.values["timeout_ms"] for t in troubles if "timeout_ms" in t.values), None)
    many = count >= most or not facts.running
    return h.trouble_finding(
        facts,
        troubles,
        ongoing=not facts.running,
        severity=h.Severity.WARNING if many else h.Severity.INFO,
        subject=_subject(facts, peer),
        title=title,
        why=title,
        cause="rpc-trouble",
        rank=h.Rank.PLACE,
        option=option,
        measurements=(h.measurement("calls", count),),
        actions=(
            *h.remedies("rpc-trouble", h.UNKNOWN_JOB, "other-side"),
            h.Action(
                text="Increase the timeout if the remote process is merely slow (large jobs, many deployments)",
                option=option,
                current=h.Present(h.shown(option, str(timeout))) if timeout else None,
                proposed=h.write(option, _PROPOSED_TIMEOUT_MS),
                restart_needed=True,
            ),
        ),
    )


_PROPOSED_TIMEOUT_MS: Final = 60_000  # six times Flink's default


def _peer(troubles: list[h.Trouble]) -> tuple[str | None, int]:
    """Return the remote host named most often, and how often; None if most records name no host."""
    peers: Counter[str | None] = Counter()
    for trouble in troubles:
        peers[trouble.peer or None] += trouble.count
    return peers.most_common(1)[0]


def _subject(facts: h.StartupFacts, peer: str | None) -> h.Subject:
    known = next((w for w in facts.workers if peer is not None and w.host == peer), None)
    return h.Subject(
        kind="taskmanager" if known else "process",
        taskmanager=known.name if known else None,
        host=peer,
    )


RULE: Final = h.Rule("ST306", judge, Troubled, whole=True, causes=("rpc-trouble",))
