"""Groups task and job failures into crises, each with its root failure.

One killed TaskManager causes dozens of records. The first FAILED task runs on a surviving TaskManager, whose
exception names the lost one. Then restarts fail because slots are missing, and finally the job gives up. A crisis
lasts from a failure to the next completed checkpoint or, without checkpoints, until the job has run for a
while. Its root is the early failure that is closest to the cause.
"""

from __future__ import annotations

import re
from bisect import bisect, bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import attrgetter
from statistics import median
from typing import Final

from flowdiag.analyses.flink.failures.episodes import finished_us
from flowdiag.analyses.flink.failures.silences import jobmanager_logged_until
from flowdiag.analyses.flink.job import ClusterFacts, Incident, JobFacts, Status
from flowdiag.analyses.flink.settings import interval_ms
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

# Closest to the cause first. Later kinds are often consequences of earlier ones.
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
_RANK: Final = {kind: rank for rank, kind in enumerate(RANKS)}
# Peers notice a lost TaskManager at once; the heartbeat times out after 50 s by default.
ROOT_WINDOW_US: Final = 60_000_000
# Without checkpoints, a crisis ends when the job has run this long without a failure.
QUIET_US: Final = 600_000_000
# In the logs of TaskManagers, it ends when tasks run this long, and several times as long as between its failures.
RUNS_ON_US: Final = 60_000_000
_LONGER: Final = 3
# A job is down if it has not recovered for this many checkpoint intervals.
DOWN_INTERVALS: Final = 5
# Failures closer together than this belong to one restart.
BURST_US: Final = 3_000_000
# TaskManagers end at most this long before or after the JobManager if the cluster is shut down.
SHUTDOWN_US: Final = 15_000_000
# This many restarts without a completed checkpoint in between form a loop.
LOOP: Final = 3

_FAILURES: Final = frozenset({"task-failure", "job-failing", "job-failure", "exception"})
# A global failure restarts the job. Its exception follows its record.
_GLOBAL: Final = "global-failure"
# The job's exception begins with this text if no restart follows.
_GIVEN_UP: Final = "Recovery is suppressed by"
# Without a checkpoint coordinator, the job never runs either.
_NEVER_RUNS: Final = "Failed to create checkpoint storage at checkpoint coordinator side"
# The text of secondary exceptions may match these kinds.
_AMBIGUOUS_KINDS: Final = ("taskmanager-lost", "user-code", "storage")
# A TaskManager that is shut down (eviction, drained node) fails its tasks with this message.
SHUTS_DOWN: Final = "The TaskExecutor is shutting down"
FATAL: Final = ("fatal-cluster-error", "task-fatal-error", "uncaught-exception")
"""The templates of fatal errors that end a process."""
_SIGNAL: Final = "signal-received"  # a process is stopped on request
# Failures that the shutdown of a cluster causes.
_OF_SHUTDOWN: Final = ("taskmanager-lost", "no-resource", "jobmanager-lost")
_OF_MEMORY: Final = ("out-of-memory", "network-buffers")
# Failures that a lost TaskManager causes until it is replaced.
_OF_LOSSES: Final = (*_OF_SHUTDOWN, "task-stuck", "unknown")
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
    """A failure and its kind. For an undated record, `near_us` is the time of the nearest dated record."""

    incident: Incident
    kind: str
    near_us: int | None = None

    @property
    def time_us(self) -> int:
        """The printed time or, for an undated record, that of the nearest dated record, or 0."""
        if self.incident.time_us is not None:
            return self.incident.time_us
        return self.near_us or 0

    @property
    def is_failure(self) -> bool:
        """Whether a task or the job failed, rather than just a resource."""
        return _is_failure(self.incident)


@dataclass(frozen=True, slots=True, kw_only=True)
class Crisis:
    """The period from a failure to the recovery.

    `bursts` counts the separate failures, each of which costs a restart. `final` means that the job ended
    FAILED. `state` shows whether the job had recovered when the input ended.
    """

    failures: tuple[Failure, ...]
    root: Failure
    bursts: int
    state: State
    final: bool
    last_us: int | None
    down: bool = False  # no checkpoint completed for several intervals

    @property
    def first_us(self) -> int | None:
        return self.failures[0].incident.time_us

    @property
    def kind(self) -> str:
        return self.root.kind

    @property
    def is_loop(self) -> bool:
        return self.bursts >= LOOP

    @property
    def fatal(self) -> bool:
        """Whether the crisis is critical: the job failed for good, or is down or restarting when the input ends."""
        return self.final or (self.state is State.ONGOING and (self.is_loop or self.down))

    def of_kind(self, *kinds: str) -> list[Failure]:
        return [failure for failure in self.failures if failure.kind in kinds]

    @property
    def refs(self) -> tuple[tuple[Ref | None, int | None], ...]:
        """The record of the root failure, followed by all others in order."""
        ordered = (self.root, *(f for f in self.failures if f is not self.root))
        return tuple((f.incident.ref, f.incident.time_us) for f in ordered)


def kind_of(incident: Incident) -> str | None:
    """Return the kind of failure of an incident. None if it is no failure, or part of a cancellation."""
    if incident.kind in _RESOURCES:
        return "unknown" if incident.kind == "resource-failure" else incident.kind
    if not _is_failure(incident):
        return None
    named = kind_of_class(incident.text.get("class", ""))
    if named is not None:
        return named
    if incident.text.get("lost_taskmanager") or incident.text.get("lost_host"):
        return "taskmanager-lost"
    return _kind_of_text(incident)


def _kind_of_text(incident: Incident) -> str | None:
    # The outermost exception names the operation ("Could not perform checkpoint …"), the deepest one the
    # error.
    chain = [text for text in (incident.text.get("exception"), incident.cause) if text]
    cause = "\n".join(chain)
    kind = failure_kind(cause) if cause else None
    if kind in _AMBIGUOUS_KINDS and (found := classify(chain, "flink")) is not None:
        kind = found.kind if is_root_cause(found.name) else kind
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


def classify_incident(incident: Incident) -> Classified | None:
    """Classify the exception of a failure: its class, values and options."""
    text = incident.text
    middle = text.get("middle", "").splitlines()
    found = classify([*filter(None, (text.get("exception"), *middle, incident.cause))], "flink")
    name = text.get("class")
    if name is None:
        return found
    values = found.values if found is not None and found.name == name else {}
    options = tuple(text.get("options", "").split()) or option_keys_in(incident.cause or "")
    kept = {key: value for key, value in text.items() if key in _VALUES}
    return Classified(name, kind_of_class(name) or "unknown", 0, values | kept, options)


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
        "missing",
        "excluded",
        "class_version",
        "package",
    }
)
# Kinds of memory and the texts that identify them.
_MEMORY: Final = (
    ("network", "segments for NetworkBufferPool"),
    ("native", "Native memory allocation|insufficient memory for the Java"),
    ("metaspace", "Metaspace|PermGen"),
    ("direct", "Direct buffer memory|OutOfDirectMemoryError|direct out-of-memory"),
    ("threads", "native thread"),
    (
        "virtual",
        r"(?:beyond|exceeding) (?:the '?)?virtual|virtual-memory-exceeded|exit ?(?:code|status)[:=]? ?-103",
    ),
    (
        "container",
        r"physical|OOMKilled|Exit (?:code|status):? ?-?1(?:04|37)|memory limit",
    ),
    ("heap", "heap space|GC overhead|array size exceeds"),
)


def keeps_failing(job: JobFacts, series: Sequence[Crisis]) -> bool:
    """Return whether crises follow each other so closely that another was due when the input ended."""
    times = [crisis.first_us for crisis in series if crisis.first_us is not None]
    if len(times) < LOOP or job.last_us is None or finished_us(job) is not None:
        return False
    return job.last_us - times[-1] <= 2 * median(
        after - before for before, after in pairwise(times)
    )


def memory_kind(incident: Incident) -> str:
    """Return the kind of memory that ran out, from the text of the record.

    Returns:
        heap, metaspace, direct, network (buffers), container, virtual (YARN's limit of address space),
        native (the system refused memory to the JVM), threads (the process reached its thread limit) or
        unknown.
    """
    kind = memory_kind_of_text(" ".join((incident.cause or "", *incident.text.values())))
    if kind is not None:
        return kind
    if "OutOfMemoryError" in (incident.cause or ""):  # the JVM has no memory for a message
        return "unknown"
    if incident.kind in _FAILURES:  # the record of a killed container contains the kind
        return "heap" if incident.kind == "task-failure" else "unknown"
    return "container"


def memory_kind_of_text(text: str) -> str | None:
    """Return the kind of memory in a text, as in `memory_kind`, or None."""
    kinds = (kind for kind, pattern in _MEMORY if re.search(pattern, text, re.IGNORECASE))
    return next(kinds, None)


def crises(job: JobFacts, facts: ClusterFacts | None = None) -> tuple[Crisis, ...]:
    """Return all crises of a job, in order.

    Args:
        job: the job.
        facts: adds failures that no record assigns to a job (lost TaskManagers, killed containers), if
            they happen during the job's own failures.
    """
    if facts is None:
        return _own_crises(job)
    known = _crises_of(facts)
    if id(job) not in known:
        failures = _own_failures(job)
        if failures:
            unassigned, by_time = _unassigned(facts), attrgetter("time_us")
            first = bisect_left(unassigned, failures[0].time_us - ROOT_WINDOW_US, key=by_time)
            last = bisect(unassigned, failures[-1].time_us + ROOT_WINDOW_US, key=by_time)
            failures = tuple(sorted([*failures, *unassigned[first:last]], key=_place))
        known[id(job)] = job, _group_failures(job, failures, facts)
    return known[id(job)][1]


@once
def _own_crises(job: JobFacts) -> tuple[Crisis, ...]:
    return _group_failures(job, _own_failures(job))


@once
def _crises_of(facts: ClusterFacts) -> dict[int, tuple[JobFacts, tuple[Crisis, ...]]]:
    """Return the cached crises by the `id` of their job.

    The cache holds a reference to each job, so that Python cannot reuse the `id`.
    """
    return {}


def _group_failures(
    job: JobFacts, failures: Sequence[Failure], facts: ClusterFacts | None = None
) -> tuple[Crisis, ...]:
    stops = _shutdowns(job, facts)
    failures = [failure for failure in failures if not _is_of_shutdown(failure, stops)]
    # Without a failed task there is no crisis: a TaskManager may leave an idle cluster.
    if not any(f.is_failure for f in failures):
        return ()
    recoveries = _recoveries(job)
    groups: list[list[Failure]] = []
    for failure in failures:
        if groups and not _has_recovered(groups[-1][-1].time_us, failure.time_us, recoveries, job):
            groups[-1].append(failure)
        else:
            groups.append([failure])
    return tuple(
        _crisis(job, group, recoveries, facts)
        for group in groups
        if any(f.is_failure for f in group)
    )


def _shutdowns(job: JobFacts, facts: ClusterFacts | None) -> list[tuple[int, int]]:
    """Return the periods in which the cluster was stopped: from the first process that ends to the JobManager."""
    ends = [*_process_ends(job.incidents), *(() if facts is None else _ends_without_job(facts))]
    return [
        (min(time for time, *_ in ends if 0 <= stop - time <= SHUTDOWN_US), stop + SHUTDOWN_US)
        for stop, role, template in ends
        if role == "jobmanager" and template == _SIGNAL
    ] or _shutdown_without_jobmanager(facts, ends)


def _shutdown_without_jobmanager(
    facts: ClusterFacts | None, ends: Sequence[_ProcessEnd]
) -> list[tuple[int, int]]:
    """Return the period in which all TaskManagers were stopped, if their logs are the input, or nothing.

    If only one of them receives a signal, its platform may have evicted it.
    """
    stops = [time for time, _, template in ends if template == _SIGNAL]
    if not stops or facts is None or not _are_taskmanagers(facts):
        return []
    last = max(stops)
    stops = [time for time in stops if last - time <= SHUTDOWN_US]
    runs_on = any((each.last_us or 0) > last + SHUTDOWN_US for each in facts.processes)
    return [] if runs_on or len(stops) == 1 else [(min(stops), last + SHUTDOWN_US)]


def _are_taskmanagers(facts: ClusterFacts) -> bool:
    return {each.role for each in facts.processes} == {"taskmanager"}


_ProcessEnd = tuple[int, str | None, str | None]


def _process_ends(incidents: Iterable[Incident]) -> Iterator[_ProcessEnd]:
    """Yield the time, the role and the template of each record about a process that is stopped."""
    for incident in incidents:
        template = incident.text.get("template")
        if incident.time_us is not None and (
            template == _SIGNAL or SHUTS_DOWN in (incident.cause or "")
        ):
            yield incident.time_us, incident.text.get("role"), template


@once
def _ends_without_job(facts: ClusterFacts) -> tuple[_ProcessEnd, ...]:
    return tuple(_process_ends(facts.incidents))


def _is_of_shutdown(failure: Failure, stops: Sequence[tuple[int, int]]) -> bool:
    """Return whether a failure only shows that the TaskManagers end with the cluster."""
    return failure.kind in _OF_SHUTDOWN and any(
        first <= failure.time_us <= last for first, last in stops
    )


@once
def _own_failures(job: JobFacts) -> tuple[Failure, ...]:
    """Return the failures that records assign to the job, in order."""
    own = [
        Failure(incident, kind, None if incident.time_us is not None else _near_us(job, incident))
        for incident in job.incidents
        if (kind := kind_of(incident)) is not None
    ]
    return tuple(sorted((f for f in own if f.is_failure or f.kind != "unknown"), key=_place))


def _near_us(job: JobFacts, incident: Incident) -> int | None:
    """Return the time of the dated record nearest to an undated one in the same file, preferring records above it."""
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
    above = [pair for pair in dated if pair[0] <= at]
    return max(above)[1] if above else min(dated)[1]


def _place(failure: Failure) -> tuple[int, Ref]:
    return failure.time_us, failure.incident.ref or Ref(0, 0)


@once
def _unassigned(facts: ClusterFacts) -> tuple[Failure, ...]:
    """Return the failures that no record assigns to a job, in order."""
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


def _has_recovered(after: int, before: int, recoveries: Sequence[int], job: JobFacts) -> bool:
    if bisect(recoveries, before) > bisect(recoveries, after):
        return True
    return not job.checkpoints and before - after > QUIET_US


def _crisis(
    job: JobFacts, group: list[Failure], recoveries: Sequence[int], facts: ClusterFacts | None
) -> Crisis:
    root = _root_of(job, group)
    last = group[-1].time_us
    done = finished_us(job)
    recovered = (
        (bool(recoveries) and recoveries[-1] > last)
        or (not job.checkpoints and _is_quiet(job, group, facts))
        or (done is not None and done >= last)
    )
    interval = max(interval_ms(job) or 60_000.0, 1000.0)
    final = not recovered and any(_ends_the_job(f.incident) for f in group)
    return Crisis(
        failures=tuple(group),
        root=root,
        bursts=_bursts([f for f in group if f.is_failure], _restarts(job)),
        state=State.RECOVERED if recovered else State.ONGOING,
        final=final,
        last_us=group[-1].incident.time_us,
        down=not recovered
        and _logged_us(job, group[0].time_us, facts) >= DOWN_INTERVALS * interval * 1000,
    )


def _is_quiet(job: JobFacts, group: Sequence[Failure], facts: ClusterFacts | None) -> bool:
    """Return whether a job without checkpoints in the input had no failure for long enough to have recovered."""
    quiet = _logged_us(job, group[-1].time_us, facts) > QUIET_US
    return quiet or _runs_on(job, group, facts)


def _runs_on(job: JobFacts, group: Sequence[Failure], facts: ClusterFacts | None) -> bool:
    """Return whether tasks run long enough after a crisis in the logs of TaskManagers, which contain no checkpoints."""
    if facts is None or not _are_taskmanagers(facts):
        return False
    last = group[-1].time_us
    times = sorted(failure.time_us for failure in group)
    apart = max((after - before for before, after in pairwise(times)), default=0)
    quiet = (job.last_us or last) - last
    return _last_deployed_us(job) > last and quiet >= max(RUNS_ON_US, _LONGER * apart)


@once
def _last_deployed_us(job: JobFacts) -> int:
    return max((attempt.deployed_us or 0 for attempt in job.attempts), default=0)


def _root_of(job: JobFacts, group: Sequence[Failure]) -> Failure:
    """Return the early failure closest to the cause, or the one that keeps the job down after a TaskManager was lost."""
    early = [f for f in group if f.time_us - group[0].time_us <= ROOT_WINDOW_US]
    root = min(early, key=lambda f: _RANK.get(f.kind, len(RANKS)))
    failed = [f for f in group if f.is_failure]
    if root.kind == "taskmanager-lost":
        ending = next((f for f in early if ends_taskmanager(job, f)), None)
        return ending or _lasting(job, failed) or root
    is_loop = _bursts(failed, _restarts(job)) >= LOOP and root.kind not in _OF_MEMORY
    return _most_frequent(root, failed) if is_loop else root


def _lasting(job: JobFacts, failed: Sequence[Failure]) -> Failure | None:
    """Return the failure of its own because of which restarts still fail after a TaskManager was lost, or None."""
    own = [f for f in failed if f.kind not in _OF_LOSSES]
    is_loop = bool(own) and own[-1] is failed[-1] and _bursts(own, _restarts(job)) >= LOOP
    return own[0] if is_loop else None


def _most_frequent(root: Failure, failed: Sequence[Failure]) -> Failure:
    """Return the root of a restart loop: another exception that occurs at least twice as often, or the given one."""
    names = [_exception_name(f) for f in failed if f.kind not in _OF_SHUTDOWN]
    counts = Counter(name for name in names if name)
    if not counts or root.kind in _OF_SHUTDOWN:
        return root
    [(name, count)] = counts.most_common(1)
    if count < 2 * max(1, counts[_exception_name(root)]):
        return root
    return next(f for f in failed if _exception_name(f) == name)


def _exception_name(failure: Failure) -> str:
    return (failure.incident.cause or "").partition(":")[0]


def ends_taskmanager(job: JobFacts, failure: Failure) -> bool:
    """Return whether a failed task ended its TaskManager: a fatal error followed at once, when Flink closed the task."""
    incident = failure.incident
    return failure.kind != "taskmanager-lost" and any(
        stop.taskmanager == incident.taskmanager
        and 0 <= (stop.time_us or 0) - failure.time_us <= BURST_US
        for stop in job.incidents
        if stop.text.get("template") in FATAL and incident.kind == "task-failure"
    )


def _ends_the_job(incident: Incident) -> bool:
    """Return whether an incident is the job's final failure, or an exception that keeps the job from ever running."""
    if incident.kind == "job-failure":
        return incident.text.get("to_state", "FAILED") == "FAILED"
    text = incident.text.get("exception", "")
    return incident.kind == "exception" and (_GIVEN_UP in text or _NEVER_RUNS in text)


def _logged_us(job: JobFacts, since_us: int, facts: ClusterFacts | None) -> int:
    """Return how long the log continues after a time, excluding gaps."""
    last = job.last_us if job.last_us is not None else since_us
    return (last if facts is None else jobmanager_logged_until(facts, since_us, last)) - since_us


@once
def _restarts(job: JobFacts) -> tuple[int, ...]:
    """Return the times at which the job, or a region of it, resumed."""
    return tuple(
        sorted(
            incident.time_us
            for incident in job.incidents
            if incident.kind in ("job-running", "restored") and incident.time_us is not None
        )
    )


def _failed_attempts(failures: Iterable[Failure]) -> int:
    """Return how many attempts of one subtask failed. Each of them costs a restart, however soon it fails."""
    attempts: defaultdict[tuple[str | None, int | None], set[str]] = defaultdict(set)
    for failure in failures:
        incident = failure.incident
        if incident.attempt_id is not None and incident.task is not None:
            attempts[incident.task, incident.subtask_index].add(incident.attempt_id)
    return max(map(len, attempts.values()), default=0)


def _bursts(failures: Sequence[Failure], restarts: Sequence[int]) -> int:
    """Count the separate failures. Two failures are separate if a restart or at least some seconds lie between them."""
    count, last = 0, None
    for failure in failures:
        if (
            last is None
            or failure.time_us - last > BURST_US
            or bisect(restarts, failure.time_us) > bisect(restarts, last)
        ):
            count += 1
        last = failure.time_us
    return max(count, _failed_attempts(failures))
