"""Identifies the TaskManager that a crisis lost, from heartbeats, ended containers and broken connections."""

from __future__ import annotations

from collections import ChainMap, Counter
from collections.abc import Sequence
from typing import Final

from flowdiag.analyses.flink.failures.crises import SHUTS_DOWN, Crisis
from flowdiag.analyses.flink.job import Incident, JobFacts
from flowdiag.analyses.model import fmt
from flowdiag.analyses.model.derived import once

_NO_NAMES: Final = frozenset({"", "null", "unknown"})

Lost = tuple[str | None, str | None]  # resource ID, host


def own_records(crisis: Crisis) -> list[Incident]:
    """Return the records about the lost TaskManager itself, without those about its peers."""
    records = [failure.incident for failure in crisis.of_kind("taskmanager-lost")]
    return [incident for incident in records if _is_own(incident)]


def _is_own(incident: Incident) -> bool:
    if incident.kind == "exception":
        return incident.taskmanager is not None  # a heartbeat exception names it
    return incident.kind == "taskmanager-lost" or SHUTS_DOWN in (incident.cause or "")


def lost_peers(crisis: Crisis) -> Counter[Lost]:
    """Count how often tasks lost their connection to each TaskManager."""
    named: Counter[Lost] = Counter()
    for failure in crisis.of_kind("taskmanager-lost"):
        text = failure.incident.text
        names = (text.get("lost_taskmanager", ""), text.get("lost_host", ""))
        manager, host = (None if name in _NO_NAMES else name for name in names)
        if not _is_own(failure.incident) and (manager or host):
            named[manager, host] += 1
    return named


def find_lost_taskmanager(job: JobFacts, crisis: Crisis) -> Lost:
    """Return the TaskManager that most records report as lost, or (None, None)."""
    named = lost_peers(crisis) + Counter((i.taskmanager, i.host) for i in own_records(crisis))
    votes: Counter[str] = Counter()
    on_host, known_hosts = _placement(job)
    hosts: ChainMap[str, str | None] = ChainMap({}, known_hosts)
    for (manager, host), count in named.items():
        known = manager
        if known is None and host is not None:
            there = {m for name, ms in on_host.items() if same_host(name, host) for m in ms}
            known = next(iter(there)) if len(there) == 1 else None
        if known is not None:
            votes[known] += count
            hosts[known] = hosts.get(known) or host
    if votes:
        best = min(votes, key=lambda name: (-votes[name], name))
        return best, hosts.get(best)
    places = Counter(host for _, host in named.elements() if host)
    return None, min(places, key=lambda host: (-places[host], host), default=None)


@once
def _placement(job: JobFacts) -> tuple[dict[str, set[str]], dict[str, str | None]]:
    """Return the TaskManagers of each host, and the first known host of each TaskManager."""
    on_host: dict[str, set[str]] = {}
    hosts: dict[str, str | None] = {}
    for attempt in job.attempts:
        if attempt.taskmanager and attempt.host:
            on_host.setdefault(attempt.host, set()).add(attempt.taskmanager)
            hosts.setdefault(attempt.taskmanager, attempt.host)
    return on_host, hosts


def same_host(one: str, other: str) -> bool:
    """Return whether two names denote the same host: a short name equals its full name.

    >>> same_host("worker-1.flink.example", "worker-1"), same_host("10.0.0.1", "10.0.0.2")
    (True, False)
    """
    if one == other:
        return True
    if one.replace(".", "").isdigit() or other.replace(".", "").isdigit():
        return False
    return one.split(".")[0] == other.split(".")[0] and ("." not in one or "." not in other)


def loss_signals(lost: Lost, crisis: Crisis) -> dict[str, str | None]:
    """Return the text of each CP302 signal about a lost TaskManager. None means that the signal does not apply."""
    manager, host = lost
    own = own_records(crisis)
    mine = [i for i in own if i.taskmanager == manager or (manager is None and i.host == host)]
    named = lost_peers(crisis)
    peers = sum(count for peer, count in named.items() if _is_peer(peer, lost))
    others = sum(named.values()) - peers + len(own) - len(mine)
    theirs = "its" if peers == 1 else "their"
    return {
        "heartbeat": _text_of(mine, "heartbeat", "its heartbeat timed out"),
        "worker-ended": _text_of(mine, "worker-ended", "its container or pod ended"),
        "shut-down": _text_of(mine, "shut-down", "it shut down"),
        "named-peer": f"{fmt.plural(peers, 'task')} lost {theirs} connection to it"
        if peers
        else None,
        "other-peers": f"{fmt.plural(others, 'record names', 'records name')} another TaskManager"
        if others
        else None,
    }


def _is_peer(peer: Lost, lost: Lost) -> bool:
    """Return whether a peer is the lost TaskManager, by name or, without a name, by host."""
    if peer[0] is not None:
        return peer[0] == lost[0]
    return peer[1] is not None and lost[1] is not None and same_host(peer[1], lost[1])


def _text_of(records: Sequence[Incident], signal: str, text: str) -> str | None:
    """Return the text of a signal from its first record, or None if there is no record."""
    first = next((i for i in records if _signal_of(i) == signal), None)
    if first is None:
        return None
    detail = " ".join((first.cause or "").split())
    if "no longer reachable" in detail:
        return "it was no longer reachable"
    if signal == "heartbeat" and "timed out" in detail:
        return text  # Flink's own text would only add the TaskManager's ID
    return f"{text}: {fmt.shorten(detail, 120)}" if detail else text


def _signal_of(incident: Incident) -> str:
    template = incident.text.get("template", "")
    if SHUTS_DOWN in (incident.cause or ""):
        return "shut-down"
    if any(word in template for word in ("worker", "container", "pod")):
        return "worker-ended"
    return "heartbeat"
