"""A TaskManager was lost.

What it reports
---------------
The TaskManager that disappeared, how that was noticed, how many failures followed, and whether the job
recovered.

Why it matters
--------------
The task that fails first runs on a *survivor*: it lost its connection. The TaskManager that is gone is
only named in the text of that exception and in "no longer reachable"; after that, restarts that fail
for missing slots drown it.

How it decides
--------------
A crisis (see CP301) whose root is a lost connection, a heartbeat that timed out, or a container that
was killed. The lost TaskManager is the peer named in the exceptions, by resource id where there is one
(1.15+), else by host, and the one whose heartbeat failed. If several are named, the one named most; a
TaskManager on which a task failed is never the culprit for that alone. Memory as the reason outranks it
(CP303). Critical if the job failed for good or cannot restart, a warning if that is over 1% of the
checkpoints, information otherwise.

What to do
----------
Ask the cluster why it went: `kubectl describe pod`, the NodeManager's log, `dmesg` on the host. Keep a
spare slot or two, so that the job can restart at once.

False alarms
------------
TaskManagers that the JobManager released, idle ones that leave, and the end of the cluster are not
losses. A long garbage collection looks like a loss until the TaskManager registers again: then the
heartbeat was lost, not the process.
"""

from __future__ import annotations

from collections import ChainMap, Counter
from typing import Final

from flowdiag.analyses.flink import helpers as h
from flowdiag.analyses.model.derived import once
from flowdiag.analyses.model.keys import Ref

# Tasks fail with this on the TaskManager that goes, when it is told to (an eviction, a drained node).
_LEAVES: Final = "The TaskExecutor is shutting down"
_NOBODY: Final = frozenset({"", "null", "unknown"})

Lost = tuple[str | None, str | None]  # resource id, host


def judge(job: h.Job, limits: h.Limits) -> h.Iterator[h.Finding]:
    """One finding per job and lost TaskManager."""
    groups: dict[Lost, list[h.Crisis]] = {}
    for crisis in job.crises:
        if crisis.kind == "taskmanager-lost":
            groups.setdefault(lost_of(job, crisis), []).append(crisis)
    for lost, group in groups.items():
        yield _finding(job, lost, group)


def _tells_itself(incident: h.Incident) -> bool:
    """Whether a record is about the TaskManager that is gone, not about who lost it."""
    if incident.kind == "exception":
        return incident.taskmanager is not None  # its heartbeat
    return incident.kind == "taskmanager-lost" or _LEAVES in (incident.cause or "")


def _signal(incident: h.Incident) -> str:
    template = incident.text.get("template", "")
    if _LEAVES in (incident.cause or ""):
        return "shut-down"
    if "worker" in template or "container" in template or "pod" in template:
        return "worker-ended"
    return "heartbeat"


def _peers(crisis: h.Crisis) -> tuple[Counter[Lost], Counter[Lost]]:
    """Who is named as gone: (by heartbeats and workers, by lost connections)."""
    direct: Counter[Lost] = Counter()
    named: Counter[Lost] = Counter()
    for failure in crisis.of_kind("taskmanager-lost"):
        incident = failure.incident
        if _tells_itself(incident):
            direct[incident.taskmanager, incident.host] += 1
            continue
        manager = incident.text.get("lost_taskmanager", "")
        host = incident.text.get("lost_host", "")
        if manager not in _NOBODY or host not in _NOBODY:
            named[
                manager if manager not in _NOBODY else None, host if host not in _NOBODY else None
            ] += 1
    return direct, named


def lost_of(job: h.JobFacts, crisis: h.Crisis) -> Lost:
    """The TaskManager that most records name as gone; (None, None) if none does."""
    direct, named = _peers(crisis)
    votes: Counter[str] = Counter()
    on_host, known_hosts = _machines(job)
    hosts: ChainMap[str, str | None] = ChainMap({}, known_hosts)
    for (manager, host), count in (direct + named).items():
        known = manager
        if known is None and host is not None:
            there = {m for name, ms in on_host.items() if same_host(name, host) for m in ms}
            known = next(iter(there)) if len(there) == 1 else None
        if known is not None:
            votes[known] += count
            hosts.setdefault(known, host)
            if hosts[known] is None:
                hosts[known] = host
    if votes:
        best = min(votes, key=lambda name: (-votes[name], name))
        return best, hosts.get(best)
    places = Counter(host for _, host in (direct + named).elements() if host)
    return (None, min(places, key=lambda h: (-places[h], h))) if places else (None, None)


@once
def _machines(job: h.JobFacts) -> tuple[dict[str, set[str]], dict[str, str | None]]:
    """TaskManagers by host, and the first known host of each."""
    on_host: dict[str, set[str]] = {}
    hosts: dict[str, str | None] = {}
    for attempt in job.attempts:
        if attempt.taskmanager and attempt.host:
            on_host.setdefault(attempt.host, set()).add(attempt.taskmanager)
            hosts.setdefault(attempt.taskmanager, attempt.host)
    return on_host, hosts


def same_host(one: str, other: str) -> bool:
    """Whether two names are one host: the short name and the full one are.

    >>> same_host("worker-1.flink.example", "worker-1"), same_host("10.0.0.1", "10.0.0.2")
    (True, False)
    """
    if one == other:
        return True
    if one.replace(".", "").isdigit() or other.replace(".", "").isdigit():
        return False
    return one.split(".")[0] == other.split(".")[0] and ("." not in one or "." not in other)


def _finding(job: h.Job, lost: Lost, group: list[h.Crisis]) -> h.Finding:
    last = group[-1]
    known = lost != (None, None)
    where = h.fmt.place(*lost)
    votes = _votes(lost, last)
    restarts = sum(crisis.bursts for crisis in group)
    slots = sum(len(crisis.of_kind("no-resource")) for crisis in group)
    down = last.final or last.state is h.State.ONGOING
    who = f"TaskManager {where} was lost" if known else "A TaskManager was lost; no record names it"
    followed = f", {restarts} failures followed" if restarts > 1 else ""
    measurements = [
        h.measurement("losses", len(group), "times"),
        h.measurement("failures", restarts, "restarts"),
    ]
    if slots:
        measurements.append(h.measurement("failures-for-slots", slots, "failures"))
    finding = h.crisis_finding(
        job,
        group,
        subject=h.taskmanager_subject(job, *lost),
        title=f"{who}{followed}{h.outcome_text(last)}",
        why=f"{where}: {votes[0].text if votes else 'a connection broke'}" if known else None,
        cause="taskmanager-lost",
        confidence=h.weigh(votes) if known else h.Confidence.LOW,
        rank=h.Rank.ROOT_CAUSE,
        explain="The tasks that failed first ran elsewhere and lost their connection to it."
        + (f" {slots} failures for missing slots followed: a consequence." if slots else ""),
        measurements=tuple(measurements),
        evidence=h.cite(ref for crisis in reversed(group) for ref in _refs(crisis)),
        actions=h.remedies("taskmanager-lost", job, "find-out", "spare-slots", place=where),
        votes=votes,
    )
    return h.replace(finding, severity=h.Severity.CRITICAL) if slots and down else finding


def _refs(crisis: h.Crisis) -> list[tuple[Ref | None, int | None]]:
    """Records about the lost one itself before the failures that followed."""
    gone = [f.incident for f in crisis.of_kind("taskmanager-lost") if _tells_itself(f.incident)]
    return [*((incident.ref, incident.time_us) for incident in gone), *crisis.refs]


def _votes(lost: Lost, crisis: h.Crisis) -> tuple[h.Vote, ...]:
    manager, host = lost
    gone = [f.incident for f in crisis.of_kind("taskmanager-lost") if _tells_itself(f.incident)]
    mine = [i for i in gone if i.taskmanager == manager or (manager is None and i.host == host)]
    _, named = _peers(crisis)
    peers = sum(
        count
        for (name, place), count in named.items()
        if (name is not None and name == manager)
        or (name is None and place is not None and host is not None and same_host(place, host))
    )
    others = sum(named.values()) - peers + len(gone) - len(mine)
    votes = h.votes_for(
        {
            "heartbeat": _told(mine, "heartbeat", "its heartbeat timed out"),
            "worker-ended": _told(mine, "worker-ended", "its container or pod ended"),
            "shut-down": _told(mine, "shut-down", "it was told to shut down"),
            "named-peer": f"{h.fmt.plural(peers, 'task')} lost"
            f" {'its' if peers == 1 else 'their'} connection to it"
            if peers
            else None,
            "other-peers": f"{h.fmt.plural(others, 'record names', 'records name')} another one"
            if others
            else None,
        },
        RULE.signals,
    )
    # That others are named says nothing where nobody is accused.
    return votes if any(vote.weight > 0 for vote in votes) else ()


def _told(mine: list[h.Incident], signal: str, says: str) -> str | None:
    """What the first record of a kind says; None if there is none."""
    first = next((i for i in mine if _signal(i) == signal), None)
    if first is None:
        return None
    detail = " ".join((first.cause or "").split())
    if "no longer reachable" in detail:
        return "it was no longer reachable"
    if signal == "heartbeat" and "timed out" in detail:
        return says  # in Flink's words the same, and its id once more
    return f"{says}: {h.fmt.shorten(detail, 120)}" if detail else says


RULE: Final = h.Rule(
    "CP302",
    judge,
    signals=(
        h.Signal("heartbeat", 3, "its heartbeat timed out, or it is no longer reachable"),
        h.Signal("named-peer", 3, "tasks on other TaskManagers lost their connection to it"),
        h.Signal("worker-ended", 3, "the cluster reports that its container or pod ended"),
        h.Signal("shut-down", 3, "its own tasks say that it is shutting down"),
        h.Signal("other-peers", -1, "other TaskManagers are named as well"),
    ),
    causes=("taskmanager-lost",),
)
