"""Failures of tasks and of the job, grouped into crises, each with the failure that began it.

One killed TaskManager makes dozens of records: the first FAILED task is on a survivor, the lost one is
only named in its exception, then restarts fail for missing slots, and at last the job gives up. A
crisis holds everything from one failure to the next completed checkpoint (or, without checkpoints,
until the job has run for a while); its root is the failure that is nearest to a cause among the first
ones.
"""

from __future__ import annotations

import re
from bisect import bisect, bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Final

from flowdiag.analyses.flink.episodes import finished_us
from flowdiag.analyses.flink.job import ClusterFacts, Incident, JobFacts, Status
from flowdiag.analyses.flink.judging import interval_ms
from flowdiag.analyses.flink.silences import heard_until
from flowdiag.analyses.model.derived import once
from flowdiag.analyses.model.finding import State
from flowdiag.analyses.model.keys import Ref
from flowdiag.parsers.exceptions import (
    Classified,
    classify,
    is_root_cause,
    kind_of_class,
    option_keys_in,
)
from flowdiag.parsers.flink.failures import failure_kind, is_consequence

# Nearest to a cause first. What comes later in this list is often a consequence of what comes first.
RANKS: Final = (
    "out-of-memory",
    "network-buffers",
    "taskmanager-lost",
    "transaction",
    "storage",
    "snapshot",
    "user-code",
    "task-stuck",
    "no-resource",
    "jobmanager-lost",
    "checkpoint-failures",
    "declined",
    "expired",
    "unknown",
)
# A lost TaskManager is noticed by its peers at once and by its heartbeat after up to 50 s (default).
ROOT_WINDOW_US: Final = 60_000_000
# Without checkpoints: running for so long without a failure ends a crisis.
QUIET_US: Final = 600_000_000
# A job that has not come back for so many checkpoint intervals is down.
DOWN_INTERVALS: Final = 5
# Failures closer than this belong to one restart.
BURST_US: Final = 3_000_000
# So many restarts without a completed checkpoint between are a loop.
LOOP: Final = 3

_FAILURES: Final = frozenset({"task-failure", "job-failing", "job-failure", "exception"})
# A global failure restarts the job; its exception stands below that record.
_GLOBAL: Final = "global-failure"
# The job's exception begins with this when no restart follows.
_GIVEN_UP: Final = "Recovery is suppressed by"
# Nor does a job ever run that has no coordinator of checkpoints.
_NEVER_RUNS: Final = "Failed to create checkpoint storage at checkpoint coordinator side"
# The words of these stand in exceptions that only follow from others.
_SAID_BETTER: Final = ("taskmanager-lost", "user-code", "storage")
_RESOURCES: Final = frozenset(
    {
        "out-of-memory",
        "network-buffers",
        "no-resource",
        "taskmanager-lost",
        "task-stuck",
        "resource-failure",
    }
)


@dataclass(frozen=True, slots=True)
class Failure:
    """One failure and what kind it is; `near_us` is the time of what stands beside an undated one."""

    incident: Incident
    kind: str
    near_us: int | None = None

    @property
    def time_us(self) -> int:
        """When: as printed, else when what was written beside it happened; 0 if nothing is dated."""
        if self.incident.time_us is not None:
            return self.incident.time_us
        return self.near_us or 0

    @property
    def is_failure(self) -> bool:
        """Whether it is a task's or the job's own, not one of resources."""
        return _is_failure(self.incident)


@dataclass(frozen=True, slots=True, kw_only=True)
class Crisis:
    """From a failure to the recovery.

    `bursts` counts the separate failures (each costs a restart), `final` says that the job ended
    FAILED, `state` whether it had not recovered when the input ended.
    """

    failures: tuple[Failure, ...]
    root: Failure
    bursts: int
    state: State
    final: bool
    last_us: int | None
    down: bool = False  # no checkpoint for several intervals since it began

    @property
    def first_us(self) -> int | None:
        """When it began."""
        return self.failures[0].incident.time_us

    @property
    def kind(self) -> str:
        """The kind of its root."""
        return self.root.kind

    @property
    def loop(self) -> bool:
        """Whether it is a restart loop."""
        return self.bursts >= LOOP

    @property
    def fatal(self) -> bool:
        """Whether it is critical: the job failed for good, or is down or restarts until the end."""
        return self.final or (self.state is State.ONGOING and (self.loop or self.down))

    def of_kind(self, *kinds: str) -> list[Failure]:
        """Its failures of some kinds, in order."""
        return [failure for failure in self.failures if failure.kind in kinds]

    @property
    def refs(self) -> tuple[tuple[Ref | None, int | None], ...]:
        """The root's record, then all others in order."""
        ordered = (self.root, *(f for f in self.failures if f is not self.root))
        return tuple((f.incident.ref, f.incident.time_us) for f in ordered)


def kind_of(incident: Incident) -> str | None:
    """What kind of failure an incident is; None for what is no failure, or the tail of a cancel."""
    if incident.kind in _RESOURCES:
        return "unknown" if incident.kind == "resource-failure" else incident.kind
    if not _is_failure(incident):
        return None
    named = kind_of_class(incident.text.get("class", ""))
    if named is not None:
        return named
    if incident.text.get("lost_taskmanager") or incident.text.get("lost_host"):
        return "taskmanager-lost"
    # The outermost exception tells what was going on ("Could not perform checkpoint …"), the
    # deepest what went wrong.
    chain = [text for text in (incident.text.get("exception"), incident.cause) if text]
    cause = "\n".join(chain)
    kind = failure_kind(cause) if cause else None
    if kind in _SAID_BETTER and (said := classify(chain, "flink")) is not None:
        kind = said.kind if is_root_cause(said.name) else kind
    if kind == "cancelled":
        return None
    if kind is None and cause and is_consequence(cause):
        return None
    return kind or "unknown"


def _is_failure(incident: Incident) -> bool:
    return incident.kind in _FAILURES or (
        incident.kind == "restart"
        and incident.text.get("template") == _GLOBAL
        and bool(incident.cause)
    )


def said_of(incident: Incident) -> Classified | None:
    """What the exception of a failure says: its class, its values, the options that it names."""
    text = incident.text
    chain = [said for said in (text.get("exception"), incident.cause) if said]
    found = classify(chain, "flink")
    name = text.get("class")
    if name is None:
        return found
    values = found.values if found is not None and found.name == name else {}
    told = tuple(text.get("options", "").split()) or option_keys_in(incident.cause or "")
    kept = {key: value for key, value in text.items() if key in _VALUES}
    return Classified(name, kind_of_class(name) or "unknown", 0, values | kept, told)


_VALUES: Final = frozenset(
    {
        "needed",
        "available",
        "total",
        "size",
        "used",
        "waited_ms",
        "waited_s",
        "attempts",
        "backoff_ms",
        "exit_code",
        "topic",
        "partition",
        "from",
        "to",
        "path",
        "host",
        "user",
        "access",
        "operator",
        "class_name",
        "identifier",
        "scheme",
        "subject",
        "who",
        "reason",
        "name",
        "line",
        "column",
        "option",
        "container",
        "executor",
        "serializer",
        "state",
        "tried",
    }
)
# Kind of memory, and what says so.
_MEMORY: Final = (
    ("native", "Native memory allocation|insufficient memory for the Java"),
    ("metaspace", "Metaspace|PermGen"),
    ("direct", "Direct buffer memory|OutOfDirectMemoryError|direct out-of-memory"),
    ("threads", "native thread"),
    (
        "container",
        r"physical|OOMKilled|virtual|Exit (?:code|status):? ?-?1(?:03|04|37)|memory limit",
    ),
    ("heap", "heap space|GC overhead|array size exceeds"),
)


def memory_kind(incident: Incident) -> str:
    """Which memory ran out, by the words of the record.

    Returns:
        heap, metaspace, direct, container, native (the system gave the JVM none), threads (a process may start no
        more), or unknown.
    """
    text = " ".join((incident.cause or "", *incident.text.values()))
    for kind, pattern in _MEMORY:
        if re.search(pattern, text, re.IGNORECASE):
            return kind
    if incident.kind in _FAILURES:  # a container that is killed says so
        return "heap" if incident.kind == "task-failure" else "unknown"
    return "container"


def crises(job: JobFacts, facts: ClusterFacts | None = None) -> tuple[Crisis, ...]:
    """All crises of a job, in order.

    Args:
        job: its facts.
        facts: to see failures that no record ties to a job (lost TaskManagers, killed containers);
            they count if they happen during the job's own failures.
    """
    if facts is None:
        return _own_crises(job)
    known = _crises_of(facts)
    if id(job) not in known:
        known[id(job)] = job, _grouped(job, _with_strays(_own_failures(job), facts), facts)
    return known[id(job)][1]


@once
def _own_crises(job: JobFacts) -> tuple[Crisis, ...]:
    return _grouped(job, _own_failures(job))


@once
def _crises_of(facts: ClusterFacts) -> dict[int, tuple[JobFacts, tuple[Crisis, ...]]]:
    """Crises by the identity of a job, which stands beside them so that no other gets it."""
    return {}


def _grouped(
    job: JobFacts, failures: Sequence[Failure], facts: ClusterFacts | None = None
) -> tuple[Crisis, ...]:
    # Nothing failed as long as no task did: a TaskManager that leaves an idle cluster is no failure.
    if not any(f.is_failure for f in failures):
        return ()
    recoveries = _recoveries(job)
    groups: list[list[Failure]] = []
    for failure in failures:
        if groups and not _recovered(groups[-1][-1].time_us, failure.time_us, recoveries, job):
            groups[-1].append(failure)
        else:
            groups.append([failure])
    return tuple(
        _crisis(job, group, recoveries, facts)
        for group in groups
        if any(f.is_failure for f in group)
    )


@once
def _own_failures(job: JobFacts) -> tuple[Failure, ...]:
    """The failures that records tie to a job, in order."""
    own = [
        Failure(incident, kind, None if incident.time_us is not None else _near_us(job, incident))
        for incident in job.incidents
        if (kind := kind_of(incident)) is not None
    ]
    return tuple(sorted((f for f in own if f.is_failure or f.kind != "unknown"), key=_place))


def _near_us(job: JobFacts, incident: Incident) -> int | None:
    """The time of the dated record nearest above an undated one in the same input, else below it."""
    at = incident.ref
    dated = [
        (other.ref, other.time_us)
        for other in job.incidents
        if other.ref is not None
        and other.time_us is not None
        and at is not None
        and other.ref.source == at.source
    ]
    if at is None or not dated:
        return job.last_us
    above = [one for one in dated if one[0] <= at]
    return max(above)[1] if above else min(dated)[1]


def _place(failure: Failure) -> tuple[int, Ref]:
    return failure.time_us, failure.incident.ref or Ref(0, 0)


def _with_strays(failures: tuple[Failure, ...], facts: ClusterFacts) -> tuple[Failure, ...]:
    if not failures:
        return failures
    low, high = failures[0].time_us - ROOT_WINDOW_US, failures[-1].time_us + ROOT_WINDOW_US
    strays = _strays(facts)
    first = bisect_left(strays, low, key=attrgetter("time_us"))
    last = bisect(strays, high, key=attrgetter("time_us"))
    return tuple(sorted([*failures, *strays[first:last]], key=_place)) if first < last else failures


@once
def _strays(facts: ClusterFacts) -> tuple[Failure, ...]:
    """The failures that no record ties to a job, in order."""
    found = [
        Failure(incident, kind)
        for incident in facts.incidents
        if not _is_failure(incident)
        and incident.time_us is not None
        and (kind := kind_of(incident)) is not None
        and kind != "unknown"
    ]
    return tuple(sorted(found, key=_place))


@once
def _recoveries(job: JobFacts) -> tuple[int, ...]:
    return tuple(
        sorted(
            checkpoint.ended_us
            for checkpoint in job.checkpoints
            if checkpoint.status is Status.COMPLETED and checkpoint.ended_us is not None
        )
    )


def _recovered(after: int, before: int, recoveries: Sequence[int], job: JobFacts) -> bool:
    if bisect(recoveries, before) > bisect(recoveries, after):
        return True
    return not job.checkpoints and before - after > QUIET_US


def _crisis(
    job: JobFacts, group: list[Failure], recoveries: Sequence[int], facts: ClusterFacts | None
) -> Crisis:
    early = [f for f in group if f.time_us - group[0].time_us <= ROOT_WINDOW_US]
    root = min(early, key=lambda f: RANKS.index(f.kind) if f.kind in RANKS else len(RANKS))
    last = group[-1].time_us
    recovered = bool(recoveries) and recoveries[-1] > last
    if not job.checkpoints and _heard_us(job, last, facts) > QUIET_US:
        recovered = True
    done = finished_us(job)
    if done is not None and done >= last:
        recovered = True
    final = not recovered and any(
        (f.incident.kind == "job-failure" and f.incident.text.get("to_state", "FAILED") == "FAILED")
        or (f.incident.kind == "exception" and _ended(f.incident))
        for f in group
    )
    return Crisis(
        failures=tuple(group),
        root=root,
        bursts=_bursts((f for f in group if f.is_failure), _restarts(job)),
        state=State.RECOVERED if recovered else State.ONGOING,
        final=final,
        last_us=group[-1].incident.time_us,
        down=not recovered
        and _heard_us(job, group[0].time_us, facts) >= DOWN_INTERVALS * _interval(job) * 1000,
    )


def _ended(incident: Incident) -> bool:
    """Whether an exception by itself says that its job does not run any more."""
    said = incident.text.get("exception", "")
    return _GIVEN_UP in said or _NEVER_RUNS in said


def _heard_us(job: JobFacts, since_us: int, facts: ClusterFacts | None) -> int:
    """How long the log goes on after a moment; what is missing in it does not count."""
    last = job.last_us if job.last_us is not None else since_us
    return (last if facts is None else heard_until(facts, since_us, last)) - since_us


@once
def _interval(job: JobFacts) -> float:
    return max(interval_ms(job) or 60_000.0, 1000.0)


@once
def _restarts(job: JobFacts) -> tuple[int, ...]:
    """When the job, or a region of it, ran again."""
    return tuple(
        sorted(
            incident.time_us
            for incident in job.incidents
            if incident.kind in ("job-running", "restored") and incident.time_us is not None
        )
    )


def _bursts(failures: Iterable[Failure], restarts: Sequence[int]) -> int:
    """Separate failures: some seconds apart, or with the job running again between."""
    count, last = 0, None
    for failure in failures:
        if (
            last is None
            or failure.time_us - last > BURST_US
            or bisect(restarts, failure.time_us) > bisect(restarts, last)
        ):
            count += 1
        last = failure.time_us
    return count
