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
(CP303). Critical if the job failed for good or cannot restart, a warning if that is over 1 % of the
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
from collections.abc import Iterator
from typing import Final

from flowdiag.analyses.derived import once
from flowdiag.analyses.finding import (
    Action,
    Confidence,
    Finding,
    Inconclusive,
    Measurement,
    Rank,
    State,
    Subject,
    Vote,
    cite,
    grade,
    weigh,
)
from flowdiag.analyses.flink import judging as j
from flowdiag.analyses.flink.crises import Crisis, crises
from flowdiag.analyses.flink.episodes import concluded
from flowdiag.analyses.flink.job import Incident, JobFacts
from flowdiag.analyses.flink.kit import Job
from flowdiag.analyses.flink.options import option
from flowdiag.analyses.keys import Ref
from flowdiag.analyses.rule import Limits, Rule, Signal

# Tasks fail with this on the TaskManager that goes, when it is told to (an eviction, a drained node).
_LEAVES: Final = "The TaskExecutor is shutting down"
_NOBODY: Final = frozenset({"", "null", "unknown"})


def judge(job: Job, limits: Limits) -> Iterator[Finding | Inconclusive]:
    """One finding per job and lost TaskManager."""
    groups: dict[Lost, list[Crisis]] = {}
    for crisis in crises(job, job.cluster):
        if crisis.kind == "taskmanager-lost":
            groups.setdefault(lost_of(job, crisis), []).append(crisis)
    for lost, group in groups.items():
        yield _finding(job, lost, group)


Lost = tuple[str | None, str | None]  # resource id, host


def _signal(incident: Incident) -> str:
    template = incident.text.get("template", "")
    if _LEAVES in (incident.cause or ""):
        return "shut-down"
    if "worker" in template or "container" in template or "pod" in template:
        return "worker-ended"
    return "heartbeat"


def _peers(crisis: Crisis) -> tuple[Counter[Lost], Counter[Lost]]:
    """Who is named as gone: (by heartbeats and workers, by lost connections)."""
    direct: Counter[Lost] = Counter()
    named: Counter[Lost] = Counter()
    for failure in crisis.of_kind("taskmanager-lost"):
        incident = failure.incident
        if incident.kind == "taskmanager-lost":
            direct[incident.taskmanager, incident.host] += 1
            continue
        if _LEAVES in (incident.cause or ""):
            direct[incident.taskmanager, incident.host] += 1
            continue
        manager = incident.text.get("lost_taskmanager", "")
        host = incident.text.get("lost_host", "")
        if manager not in _NOBODY or host not in _NOBODY:
            named[
                manager if manager not in _NOBODY else None, host if host not in _NOBODY else None
            ] += 1
    return direct, named


def lost_of(job: JobFacts, crisis: Crisis) -> Lost:
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
def _machines(job: JobFacts) -> tuple[dict[str, set[str]], dict[str, str | None]]:
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


def _finding(job: JobFacts, lost: Lost, group: list[Crisis]) -> Finding:
    last = group[-1]
    manager, host = lost
    where = j.place_text(manager, host)
    votes = _votes(job, lost, last)
    known = manager is not None or host is not None
    restarts = sum(crisis.bursts for crisis in group)
    slots = sum(len(crisis.of_kind("no-resource")) for crisis in group)
    share = len(group) / max(1, len(concluded(job)))
    cited = cite(ref for crisis in reversed(group) for ref in _refs(crisis))
    tail = (
        "; the job failed for good"
        if last.final
        else "; the job has not recovered"
        if last.state is State.ONGOING
        else ""
    )
    said = votes[0].says if votes else "a connection broke"
    return Finding(
        job=job.key,
        severity=grade(state=last.state, share=share, fatal=last.fatal or bool(slots and tail)),
        state=last.state,
        subject=Subject(
            kind="taskmanager",
            job_id=job.key.job_id or None,
            job_name=job.name,
            taskmanager=manager,
            host=host,
        )
        if known
        else j.job_subject(job),
        title=(
            f"TaskManager {where} was lost"
            if known
            else "A TaskManager was lost; no record names it"
        )
        + (f", {restarts} failures followed" if restarts > 1 else "")
        + tail,
        why=f"{where}: {said}" if known else None,
        cause="taskmanager-lost",
        confidence=weigh(votes) if known else Confidence.LOW,
        rank=Rank.ROOT_CAUSE,
        first_us=group[0].first_us,
        last_us=last.last_us,
        count=len(group),
        explain=(
            "The tasks that failed first ran elsewhere and lost their connection to it."
            + (f" {slots} failures for missing slots followed: a consequence." if slots else "")
        ),
        measurements=(
            Measurement(name="losses", value=len(group), unit="times"),
            Measurement(name="failures", value=restarts, unit="restarts"),
            *(
                (Measurement(name="failures-for-slots", value=slots, unit="failures"),)
                if slots
                else ()
            ),
        ),
        evidence=cited,
        ranked=True,
        actions=(
            Action(
                text=f"Find out why {where} went: its log's end, the pod's or container's events, "
                "dmesg on the host",
                verify="no further loss",
            ),
            Action(
                text="Keep spare slots, so that the job restarts at once",
                option=option("slots", job.version),
                current=j.configured(job, "taskmanager.numberOfTaskSlots"),
                restart_needed=True,
                verify="free slots in the overview",
            ),
        ),
        votes=tuple(votes),
    )


def _refs(crisis: Crisis) -> list[tuple[Ref | None, int | None]]:
    """Records that name the lost one before the failures that followed."""
    direct = [
        (f.incident.ref, f.incident.time_us)
        for f in crisis.of_kind("taskmanager-lost")
        if f.incident.kind == "taskmanager-lost"
    ]
    return [crisis.refs[0], *direct, *crisis.refs[1:]]


def _votes(job: JobFacts, lost: Lost, crisis: Crisis) -> list[Vote]:
    manager, host = lost
    heartbeats = [
        f.incident
        for f in crisis.of_kind("taskmanager-lost")
        if f.incident.kind == "taskmanager-lost" or _LEAVES in (f.incident.cause or "")
    ]
    mine = [
        i for i in heartbeats if i.taskmanager == manager or (manager is None and i.host == host)
    ]
    votes = []
    for name, says in (
        ("heartbeat", "its heartbeat failed"),
        ("worker-ended", "its container or pod ended"),
        ("shut-down", "it was told to shut down"),
    ):
        told = [i for i in mine if _signal(i) == name]
        if told:
            detail = " ".join((told[0].cause or "").split())
            votes.append(
                Vote(
                    signal=name,
                    says=f"{says}: {j.shorten(detail, 120)}" if detail else says,
                    weight=3,
                )
            )
    _, named = _peers(crisis)
    peers = sum(
        count
        for (name, place), count in named.items()
        if (name is not None and name == manager)
        or (name is None and place is not None and host is not None and same_host(place, host))
    )
    if peers:
        votes.append(
            Vote(
                signal="named-peer",
                says=f"{j.count_text(peers, 'task')} lost their connection to it",
                weight=3,
            )
        )
    others = sum(named.values()) - peers + len(heartbeats) - len(mine)
    if others and votes:
        votes.append(
            Vote(signal="other-peers", says=f"{others} records name another one", weight=-1)
        )
    return votes


RULE: Final = Rule(
    "CP302",
    judge,
    signals=(
        Signal("heartbeat", 3, "its heartbeat timed out, or it is no longer reachable"),
        Signal("named-peer", 3, "tasks on other TaskManagers lost their connection to it"),
        Signal("worker-ended", 3, "the cluster reports that its container or pod ended"),
        Signal("shut-down", 3, "its own tasks say that it is shutting down"),
        Signal("other-peers", -1, "other TaskManagers are named as well"),
    ),
)
