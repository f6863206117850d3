"""Calls between processes fail.

What it reports
---------------
Remote processes that the RPC layer quarantined or found unreachable, and calls that ran into their
time-out, with the other side.

Why it matters
--------------
A quarantined process is not talked to again until one of the two is restarted. Calls without an answer make
deployments and registrations fail.

How it decides
--------------
By the RPC layer's own words, while a job started or ran. A gate of some milliseconds after a broken connection
is normal and does not count by itself. Time-outs that follow a message that was too large are that rule's.

What to do
----------
Look at the load and the garbage collection of the other side, at its name resolution and its ports.

False alarms
------------
One time-out of the web interface while the JobManager was busy: up to two are an information only.
"""

from __future__ import annotations

from collections import Counter
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
    cite,
)
from flowdiag.analyses.flink import judging as j
from flowdiag.analyses.flink.options import version_of
from flowdiag.analyses.rule import Limits, Rule, limit
from flowdiag.analyses.startup.facts import StartupFacts, Trouble
from flowdiag.analyses.startup.rules.frame_too_large import oversized

_QUARANTINES: Final = ("remote-quarantined", "rpc-quarantined-by-peer", "rpc-unreachable")
_TIME_OUTS: Final = ("rpc-ask-timed-out", "rpc-invocation-timed-out")


class RpcTroubleLimits(Limits):
    """What ST306 compares with."""

    timeouts: float = limit(3, "calls", "one slow answer of a busy process is common")


def judge(facts: StartupFacts, limits: RpcTroubleLimits) -> Iterator[Finding | Inconclusive]:
    """One finding for quarantines, one for time-outs."""
    quarantined = [t for t in facts.of_kind(*_QUARANTINES) if _in_time(facts, t)]
    if quarantined:
        yield _finding(facts, quarantined, Severity.WARNING, "quarantined")
    if oversized(facts):
        return  # the messages never went out
    timed_out = [t for t in facts.of_kind(*_TIME_OUTS) if _in_time(facts, t)]
    count = sum(trouble.count for trouble in timed_out)
    if timed_out:
        many = count >= limits.timeouts or not facts.running
        yield _finding(facts, timed_out, Severity.WARNING if many else Severity.INFO, "timed out")


def _in_time(facts: StartupFacts, trouble: Trouble) -> bool:
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


def _finding(
    facts: StartupFacts, troubles: list[Trouble], severity: Severity, what: str
) -> Finding:
    peers: Counter[str] = Counter()
    for trouble in troubles:
        peers[trouble.peer or "?"] += trouble.count
    peer, most = peers.most_common(1)[0]
    count = sum(trouble.count for trouble in troubles)
    known = next((w for w in facts.workers if peer != "?" and w.host == peer), None)
    title = (
        f"{peer if peer != '?' else 'A process'} is quarantined: it is not talked to any more"
        if what == "quarantined"
        else f"{j.count_text(count, 'call')} got no answer in time"
        + (f", {most} of them from {peer}" if peer != "?" else "")
    )
    versions = [v for p in facts.processes if (v := version_of(p.version)) is not None]
    option = "pekko.ask.timeout" if versions and min(versions) >= (1, 18) else "akka.ask.timeout"
    first = min((t.first_us for t in troubles if t.first_us is not None), default=None)
    timeout = next((t.values["timeout_ms"] for t in troubles if "timeout_ms" in t.values), None)
    actions = [
        Action(
            text="Look at the load, the garbage collection and the name resolution of the other side"
        )
    ]
    if what == "quarantined":
        actions.append(Action(text="Restart the process that is quarantined, if it did not end"))
    else:
        actions.append(
            Action(
                text="Wait longer, where the other side is only slow (large jobs, many deployments)",
                option=option,
                current=f"{timeout} ms" if timeout else None,
                proposed="60 s",
                restart_needed=True,
            )
        )
    return Finding(
        job=facts.jobs[0].job.key if len(facts.jobs) == 1 else None,
        severity=severity,
        state=State.RECOVERED if facts.running else State.ONGOING,
        subject=Subject(
            kind="taskmanager" if known else "process",
            taskmanager=known.name if known else None,
            host=peer if peer != "?" else None,
        ),
        title=title,
        why=title,
        cause="rpc-trouble",
        rank=Rank.PLACE,
        option=option if what != "quarantined" else None,
        first_us=first,
        last_us=max((t.last_us for t in troubles if t.last_us is not None), default=None),
        count=count,
        explain="The RPC layer gave up; who waited for the answer fails with a time-out.",
        measurements=(
            Measurement(name="calls" if what != "quarantined" else "records", value=count),
        ),
        evidence=cite((t.ref, t.first_us) for t in troubles),
        ranked=True,
        actions=tuple(actions),
    )


RULE: Final = Rule("ST306", judge, RpcTroubleLimits, whole=True)
