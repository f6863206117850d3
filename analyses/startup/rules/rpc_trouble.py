"""Calls between processes fail.

What it reports
---------------
The rule reports remote processes that the RPC layer quarantined or could not reach. It also reports calls
that timed out, and the process that did not respond.

Why it matters
--------------
A quarantined process stays cut off from its peer until one of the two restarts. Deployments and
registrations fail if their calls get no response.

How it decides
--------------
The rule reads the RPC layer's own log lines from the time when a job started or ran. After a broken connection,
the RPC layer blocks the address for some milliseconds ("gated"). This is normal and does not count on its own. If
the job runs, fewer than `timeouts` timed-out calls are only info. ST307 reports timeouts caused by an
oversized message.

What to do
----------
Check the load and the garbage collection of the remote process. Then check its name resolution and ports.

False alarms
------------
A single request of the Web UI may time out while the JobManager is busy.
"""

from typing import Final, Unpack

from flowdiag.analyses.startup import helpers as h
from flowdiag.analyses.startup import losses
from flowdiag.analyses.startup.detect.calls import before_shutdown, main_peer
from flowdiag.parsers.units import version_of

_QUARANTINES: Final = ("remote-quarantined", "rpc-quarantined-by-peer", "rpc-unreachable")
_TIMEOUTS: Final = ("rpc-ask-timed-out", "rpc-invocation-timed-out")
_PROPOSED_TIMEOUT_MS: Final = 60_000  # six times Flink's default


class Limits(h.Limits):
    timeouts: float = h.limit(
        3, "calls", "minimum number of calls that time out; a busy process causes some timeouts"
    )


def judge(facts: h.StartupFacts, limits: Limits) -> h.Iterator[h.Finding]:
    """Report quarantines in one finding, and timeouts in another."""
    if quarantined := before_shutdown(facts, _QUARANTINES):
        peer, _, count = main_peer(quarantined)
        yield _finding(
            facts,
            quarantined,
            title=f"{peer or 'A process'} is quarantined, so other processes no longer contact it",
            measurements=(h.measurement("records", count),),
            actions=h.remedies("rpc-trouble", h.UNKNOWN_JOB),
        )
    timed_out = before_shutdown(facts, _TIMEOUTS)
    if not timed_out or h.oversized_messages(facts):
        return  # oversized messages were never sent
    peer, from_peer, count = main_peer(timed_out)
    versions = [v for p in facts.processes if (v := version_of(p.version)) is not None]
    option = "pekko.ask.timeout" if versions and min(versions) >= (1, 18) else "akka.ask.timeout"
    timeout = next((t.values["timeout_ms"] for t in timed_out if "timeout_ms" in t.values), None)
    many = count >= limits.timeouts or not facts.running
    yield _finding(
        facts,
        timed_out,
        severity=h.Severity.WARNING if many else h.Severity.INFO,
        title=_title(count, timeout, from_peer, peer),
        option=option,
        measurements=(h.measurement("timed-out-calls", count),),
        actions=(
            *h.remedies("rpc-trouble", h.UNKNOWN_JOB, "other-side"),
            h.Action(
                text="Increase the timeout if the remote process is only slow (large jobs, many deployments)",
                option=option,
                current=h.CurrentValue(h.shown(option, str(timeout))) if timeout else None,
                proposed=h.write(option, _PROPOSED_TIMEOUT_MS),
                restart_needed=True,
            ),
        ),
    )


def _title(count: int, timeout_ms: str | None, from_peer: int, peer: str | None) -> str:
    within = f" within {h.fmt.duration(float(timeout_ms))}" if timeout_ms else ""
    origin = f", {from_peer} of them from {peer}" if peer is not None else ""
    return f"{h.fmt.plural(count, 'call')} timed out without a response{within}{origin}"


def _finding(
    facts: h.StartupFacts, troubles: list[h.Trouble], **overrides: Unpack[h.FindingFields]
) -> h.Finding:
    """Return a finding about the remote process that most of the RPC errors name."""
    peer, *_ = main_peer(troubles)
    addresses = {trouble.address or peer for trouble in troubles if trouble.peer == peer}
    known = losses.taskmanager_at(facts, addresses.pop()) if len(addresses) == 1 else None
    fields: h.FindingFields = {
        "severity": h.Severity.WARNING,
        "why": overrides["title"],
        "cause": "rpc-trouble",
        "rank": h.Rank.PLACE,
    }
    return h.trouble_finding(
        facts,
        troubles,
        ongoing=not facts.running,
        subject=h.Subject(
            kind="taskmanager" if known else "process",
            taskmanager=known,
            host=peer,
        ),
        **fields | overrides,
    )


RULE: Final = h.Rule(
    "ST306", judge, Limits, whole=True, causes=("rpc-trouble",), needs="dated-records"
)
