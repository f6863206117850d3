"""What a rule says: findings, evidence, votes, and the words they are graded with.

These are the inner types. Rules make them, `flowdiag.analyses.report.wire` turns them into the wire
format that other programs read; neither prints. Times are microseconds since 1970-01-01 UTC.

The severity table is the same for all rules (`grade`), and so is the way from votes to a
confidence (`weigh`): a rule publishes its signals and their weights, never a threshold of its own
for "high".
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Final

from flowdiag.analyses.keys import JobKey


class Severity(StrEnum):
    """How bad one finding is; ordered by `weight`."""

    INFO = "info"
    WARNING = "warning"
    CRITICAL = "critical"

    @property
    def weight(self) -> int:
        """0 for info up to 2 for critical.

        >>> max(Severity.WARNING, Severity.INFO, key=lambda s: s.weight)
        <Severity.WARNING: 'warning'>
        """
        return tuple(Severity).index(self)


class State(StrEnum):
    """Whether an episode still lasted when the input ended."""

    ONGOING = "ongoing"
    RECOVERED = "recovered"


class Confidence(StrEnum):
    """How far the signals agree (see `weigh`)."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"

    @property
    def weight(self) -> int:
        """0 for low up to 2 for high."""
        return tuple(Confidence).index(self)


class Verdict(StrEnum):
    """What a job, or the whole input, comes to."""

    HEALTHY = "healthy"
    INCONCLUSIVE = "inconclusive"
    DEGRADED = "degraded"
    FAILING = "failing"

    @property
    def weight(self) -> int:
        """Order for "the worst of several jobs": what was not assessed outweighs what is healthy."""
        return tuple(Verdict).index(self)


class Status(StrEnum):
    """What came of one rule."""

    FOUND = "found"
    INCONCLUSIVE = "inconclusive"
    CLEAR = "clear"


class Rank(IntEnum):
    """How near to the root a finding stands; smaller is nearer. Any int between is allowed.

    Culprits and causes are taken from the nearest first, so that an out-of-memory error outranks
    the lost TaskManager it led to, and that outranks the failed checkpoint.
    """

    ROOT_CAUSE = 10
    MECHANISM = 20
    SYMPTOM = 30
    CONSEQUENCE = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """Who a finding is about. What is not known stays None and is left out, never guessed.

    `kind` says which of the fields names it: job, task, subtask, taskmanager, host, process, …
    """

    kind: str
    job_id: str | None = None
    job_name: str | None = None
    task: str | None = None
    vertex_id: str | None = None
    operator: str | None = None
    subtask_index: int | None = None  # 0-based; people are shown `i/n`
    parallelism: int | None = None
    attempt_id: str | None = None
    taskmanager: str | None = None  # resource id
    host: str | None = None
    application: str | None = None
    stream_id: int | None = None
    query: str | None = None
    stage: int | None = None
    executor: str | None = None
    receiver: str | None = None
    output_operation: int | None = None
    partition: str | None = None  # of a topic: orders-3
    option: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """A number that a finding rests on.

    Args:
        name: kebab-case, e.g. `late-ratio`.
        value: the number, or a word where the thing measured is one.
        unit: `ms`, `bytes`, `checkpoints`, `subtasks`, `ratio`, `share` (0 to 1), …; None for words.
        threshold: what it was compared with, in the same unit.
        population: what it was measured over, or against, in a few words.
    """

    name: str
    value: float | int | str | None
    unit: str | None = None
    threshold: float | int | None = None
    population: str | None = None


@dataclass(frozen=True, slots=True, order=True)
class Evidence:
    """A record of the input. `flowdiag.analyses.report.evidence` finds its line and its text later.

    Args:
        source, offset: as in `facts.Ref`, so that `Evidence(*ref, time_us)` reads well.
        time_us: when, if the record is dated.
    """

    source: int
    offset: int
    time_us: int | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """One thing to do. Several stand in the order in which to try them.

    `option` is a real configuration key of the version seen; `current` its value where the input
    tells; `verify` how to see that it helped.
    """

    text: str
    option: str | None = None
    current: str | None = None
    proposed: str | None = None
    risk: str | None = None
    restart_needed: bool | None = None
    verify: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Vote:
    """What one signal says about a finding.

    `weight` is positive where it supports the finding and negative where it points elsewhere:
    1 a hint, 2 an indication, 3 a proof by itself.
    """

    signal: str
    says: str
    weight: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One episode of one sickness, per (rule, job, subject).

    Args:
        job: whose it is; its verdict counts this finding. None: of no known job.
        title: one line for people, with the number that matters; no full stop.
        why: one line that convicts the subject, with the number; None accuses nobody.
        cause: stable kebab-case word (`data-skew`, `task-hangs`, …) for what lies behind it.
        rank: nearness to the root, see `Rank`.
        option: the configuration key that the finding is about, where it is about one.
        evidence: cited records, the most telling first; `evidence_total` counts what there is.
        explain: what it means here, in a few sentences.
    """

    job: JobKey | None
    severity: Severity
    state: State
    subject: Subject
    title: str
    explain: str
    confidence: Confidence = Confidence.HIGH
    why: str | None = None
    cause: str | None = None
    rank: int = Rank.SYMPTOM
    option: str | None = None
    first_us: int | None = None
    last_us: int | None = None
    count: int = 1
    measurements: tuple[Measurement, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    evidence_total: int | None = None  # None: all there is stands in `evidence`
    actions: tuple[Action, ...] = ()
    votes: tuple[Vote, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Inconclusive:
    """A rule that cannot tell, and why.

    Args:
        reason: one clause: what is missing.
        remedy: the file or the setting that would tell, or None.
        job: the job it cannot tell for; None means all of them.
    """

    reason: str
    remedy: str | None = None
    job: JobKey | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleOutcome:
    """Everything that one rule said. Nothing at all means clear."""

    code: str
    name: str
    title: str
    core: bool
    findings: tuple[Finding, ...] = ()
    inconclusive: tuple[Inconclusive, ...] = ()

    @property
    def status(self) -> Status:
        """Found outweighs inconclusive: what was seen stays true."""
        if self.findings:
            return Status.FOUND
        return Status.INCONCLUSIVE if self.inconclusive else Status.CLEAR


CAUSES: Final = {
    "data-skew": "one subtask gets more data than its siblings",
    "slow-taskmanager": "all subtasks of one machine are slow, those of the others are not",
    "slow-operator": "all subtasks of one operator are slow",
    "slow-subtask": "one subtask needs longer per record than its siblings",
    "task-hangs": "a task makes no progress at all",
    "slow-sync-snapshot": "the synchronous part of a snapshot holds up processing",
    "slow-async-snapshot": "the asynchronous part of a snapshot (the upload) takes too long",
    "slow-checkpoint-storage": "writing to the checkpoint storage is slow or throttled everywhere",
    "snapshot-exception": "user code or the state backend throws while it takes a snapshot",
    "checkpoint-lock-held": "a source does not let go of the checkpoint lock",
    "task-failure": "a task failed, and the job with it or its region",
    "storage-failure": "the storage refused what a task read or wrote",
    "taskmanager-lost": "a TaskManager died, or could not be reached",
    "lost-transactions": "transactions of a sink timed out or were fenced before they were committed",
    "jobmanager-stalled": "the JobManager itself stood still",
    "out-of-memory": "a process ran out of memory, or was killed for using too much",
    "insufficient-network-buffers": "too few network buffers for the job's channels",
    "network-memory": "network memory leaves pools of buffers little above their minimum",
    "slow-network": "what is between two tasks is slow, not the tasks",
    "garbage-collection": "a process spends much of its time collecting garbage",
    "not-enough-slots": "fewer slots than the job needs",
    "finished-tasks": "tasks that are finished or not running keep checkpoints from starting",
    "checkpointing-disabled": "the job runs without checkpoints",
    "overloaded": "more data comes in than the job can process",
    "throttled": "back pressure holds the source back to what the job can process",
    "rate-floor": "back pressure may not go as low as it would have to (`minRate`)",
    "fixed-cost": "a batch costs about an interval whatever it holds: lower rates cannot help",
    "max-rate": "a fixed limit lets through less than comes in",
    "unstable-gains": "the gains of the rate estimator make the rate swing",
    "unheeded-rate": "back pressure is on, and receivers take what they like",
    "unlimited-first-batch": "nothing limits a batch before the first estimate",
    "skewed-receiver": "one receiver brings most of the records",
    "receiver-restarts": "a receiver stops and is started again and again",
    "failing-batches": "output operations or runs of a query fail",
    "hanging-batch": "a batch makes no progress at all",
    "generation-lag": "the driver is late to make the jobs of batches",
    "slow-executor": "tasks of the same stages take longer on one executor",
    "stragglers": "single tasks take much longer than others with as many records",
    "executor-lost": "an executor died or was taken away",
    "slow-kafka": "polls of Kafka time out",
    "offsets-out-of-range": "records were deleted in Kafka before they were read",
    "slow-metadata-writes": "writing checkpoints or the write-ahead log takes long",
    "blocks-lost": "blocks of receivers were lost with their executor before they were processed",
    "concurrent-jobs": "batches run side by side and overtake each other, and the estimator misses them",
    "driver-gaps": "the driver works while no job runs",
    "few-tasks": "batches use fewer tasks than there are cores",
    "slow-output": "one output operation takes most of the batches",
    "growing-state": "the state of a query grows by every trigger and never shrinks",
    "slow-state-commits": "triggers spend their time on commits of state or of metadata",
    "lagging-watermark": "the watermark of a query falls further and further behind its rows",
    "late-rows": "rows come later than the watermark of a query allows",
    "stuck-watermark": "the watermark of a query does not advance",
    "submission-failed": "a job, or the cluster for it, was refused before any task was scheduled",
    "class-loading": "a class is missing, or of another version than expected",
    "deployment-failed": "the Kubernetes Operator could not bring a deployment up",
    "frame-too-large": "an RPC message was larger than the processes may send",
    "rpc-trouble": "processes are quarantined, or calls between them get no answer",
    "process-paused": "a process stood still for longer than its heartbeat may be away",
    "network": "the network between two processes failed while both were alive",
    "jobmanager-lost": "TaskManagers lost their JobManager",
    "no-container": "YARN or Kubernetes does not grant the workers that were asked for",
    "worker-failed": "a worker ended before it was known to the cluster",
    "late-taskmanager": "one TaskManager registered long after the others",
    "slow-open": "a task takes long to open its operators",
    "slow-restore": "a task takes long to read its state back",
    "slow-start": "a step of the start takes long that is a matter of seconds elsewhere",
    "leadership-lost": "a component of the JobManager lost its leadership",
    "wrong-memory-options": "memory options that contradict each other or are not in effect",
    "unused-memory": "memory is set aside for what nobody uses",
    "unmanaged-rocksdb": "RocksDB uses native memory without a bound, or has none to use",
}
"""The words of `summary.cause`, stable, each with its meaning. A rule adds its own here."""

WARNING_SHARE: Final = 0.01  # of the checkpoints or batches: what is rarer and over is `info`


def grade(*, state: State, share: float, fatal: bool = False) -> Severity:
    """The severity table, the same for every rule.

    Args:
        state: whether the episode still lasted at the end of the input.
        share: affected part of the checkpoints or batches, 0 to 1.
        fatal: the job failed, is in a restart loop, loses data, or completes no checkpoint or
            batch at the end of the input.

    >>> grade(state=State.RECOVERED, share=0.004)
    <Severity.INFO: 'info'>
    >>> grade(state=State.ONGOING, share=0.004)
    <Severity.WARNING: 'warning'>
    """
    if fatal:
        return Severity.CRITICAL
    if state is State.ONGOING or share > WARNING_SHARE:
        return Severity.WARNING
    return Severity.INFO


def weigh(votes: Iterable[Vote]) -> Confidence:
    """The confidence that votes add up to.

    High needs three points for and at most a fifth as much against; medium two points and at most
    half as much against. One proof, or three hints, or an indication and a hint make three points.

    >>> weigh([Vote(signal="busy", says="1/4", weight=2), Vote(signal="late", says="1/4", weight=1)])
    <Confidence.HIGH: 'high'>
    >>> weigh([Vote(signal="busy", says="1/4", weight=2), Vote(signal="late", says="3/4", weight=-1)])
    <Confidence.MEDIUM: 'medium'>
    """
    weights = [vote.weight for vote in votes]
    pro = sum(weight for weight in weights if weight > 0)
    contra = -sum(weight for weight in weights if weight < 0)
    if pro >= 3 and contra * 5 <= pro:
        return Confidence.HIGH
    if pro >= 2 and contra * 2 <= pro:
        return Confidence.MEDIUM
    return Confidence.LOW
