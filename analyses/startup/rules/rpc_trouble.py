"""Calls between processes fail.

What it reports
---------------
Remote processes that the RPC layer quarantined or found unreachable, and calls that ran into their
timeout, with the other side.

Why it matters
--------------
A quarantined process is not talked to again until one of the two is restarted. Calls without an answer make
deployments and registrations fail.

How it decides
--------------
By the RPC layer's own words, while a job started or ran. A gate of some milliseconds after a broken connection
is normal and does not count by itself. Fewer than `timeouts` calls without an answer are an information only, if
the job runs. Timeouts that follow a message that was too large are that rule's.

What to do
----------
Look at the load and the garbage collection of the other side, at its name resolution and its ports.

False alarms
------------
One timeout of the web interface while the JobManager was busy.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from flowdiag.analyses.flink.options import version_of
from flowdiag.analyses.startup import helpers as h

_QUARANTINES: Final = ("remote-quarantined", "rpc-quarantined-by-peer", "rpc-unreachable")
_TIME_OUTS: Final = ("rpc-ask-timed-out", "rpc-invocation-timed-out")


class Troubled(h.Limits):
    """What ST306 compares with."""

    timeouts: float = h.limit(3, "calls", "one slow answer of a busy process is common")


def judge(facts: h.StartupFacts, limits: Troubled) -> h.Iterator[h.Finding]:
    """One finding for quarantines, one for timeouts."""
    quarantined = [t for t in facts.of_kind(*_QUARANTINES) if _in_time(facts, t)]
    if quarantined:
        yield _quarantined(facts, quarantined)
    if h.oversized(facts):
        return  # the messages never went out
    timed_out = [t for t in facts.of_kind(*_TIME_OUTS) if _in_time(facts, t)]
    if timed_out:
        yield _timed_out(facts, timed_out, limits.timeouts)


def _in_time(facts: h.StartupFacts, trouble: h.Trouble) -> bool:
    """Not in the tail of a cluster that is shut down."""
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
    title = f"{peer or 'A process'} is quarantined: it is not talked to any more"
    return h.of_troubles(
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
    title = f"{h.fmt.plural(count, 'call')} got no answer in time"
    if peer is not None:
        title += f", {from_peer} of them from {peer}"
    versions = [v for p in facts.processes if (v := version_of(p.version)) is not None]
    option = "pekko.ask.timeout" if versions and min(versions) >= (1, 18) else "akka.ask.timeout"
    timeout = next((t.values["timeout_ms"] for t in troubles if "timeout_ms" in t.values), None)
    many = count >= most or not facts.running
    return h.of_troubles(
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
                text="Wait longer, where the other side is only slow (large jobs, many deployments)",
                option=option,
                current=h.Present(h.shown(option, str(timeout))) if timeout else None,
                proposed=h.write(option, _LONGER_MS),
                restart_needed=True,
            ),
        ),
    )


_LONGER_MS: Final = 60_000  # six times Flink's default


def _peer(troubles: list[h.Trouble]) -> tuple[str | None, int]:
    """The other side that is named most, and how often; None where most name nobody."""
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
