"""The output of rules: findings, evidence and votes, with the words that grade them.

Rules create these types, and `flowdiag.analyses.report.build` turns them into the documents that other programs read.
`Subject`, `Measurement` and `Vote` are written as they are. Times are microseconds since 1970-01-01 UTC.

All rules share one severity table (`grade`) and one way to turn votes into a confidence (`weigh`). A rule publishes
its signals and their weights, but never its own threshold for "high".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum, StrEnum
from typing import Final, TypedDict

import msgspec

from flowdiag.analyses.model.keys import JobKey, Ref
from flowdiag.analyses.model.option_types import Proposed
from flowdiag.parsers.focus import Focus


class Severity(StrEnum):
    """The severity of a finding: `critical` is the highest, `info` the lowest."""

    INFO = "info"
    WARNING = "warning"
    CRITICAL = "critical"

    @property
    def weight(self) -> int:
        """From 0 (info) to 2 (critical).

        >>> max(Severity.WARNING, Severity.INFO, key=lambda s: s.weight)
        <Severity.WARNING: 'warning'>
        """
        return tuple(Severity).index(self)


class State(StrEnum):
    """Whether an episode was still in progress when the input ended."""

    ONGOING = "ongoing"
    RECOVERED = "recovered"


class Confidence(StrEnum):
    """How well the signals for and against a finding agree."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"

    @property
    def weight(self) -> int:
        """From 0 (low) to 2 (high)."""
        return tuple(Confidence).index(self)


class Verdict(StrEnum):
    """The result for a job, or for the whole input."""

    HEALTHY = "healthy"
    CALCULATED = "calculated"  # derived from a planned configuration: nothing running was assessed
    INCONCLUSIVE = "inconclusive"
    DEGRADED = "degraded"
    FAILING = "failing"

    @property
    def weight(self) -> int:
        """The rank among verdicts, for the worst of several jobs. Inconclusive is worse than healthy."""
        return tuple(Verdict).index(self)


class Status(StrEnum):
    """The outcome of one rule."""

    FOUND = "found"
    INCONCLUSIVE = "inconclusive"
    CLEAR = "clear"
    NOT_ASSESSED = "not-assessed"  # the input contained nothing that the rule judges
    IGNORED = "ignored"  # excluded by the user


class Rank(IntEnum):
    """How close a finding is to the root cause. A smaller rank is closer.

    The findings closest to the root cause determine culprits and causes. An out-of-memory error outranks the lost
    TaskManager that it caused, which in turn outranks the failed checkpoint.
    """

    STALL = 8  # the JobManager stalled, so all its work is late
    FATAL = 9  # a process ended because of it, or could not start
    ROOT_CAUSE = 10
    REPORTED_CAUSE = 11  # a second-hand cause: the operator's report on a deployment
    SLOW_CAUSE = 12  # takes a long time but stops nothing
    ARBITRARY_CAUSE = 12  # the named task is arbitrary
    BOTTLENECK = 15  # where back pressure starts
    BOTTLENECK_SIGN = 16  # may be the reason for the bottleneck
    FIRST_MECHANISM = 18  # triggers one of the mechanisms below
    SHARED_MECHANISM = 19  # shared by many: storage, a task that blocks its host
    MECHANISM = 20
    PLACE = 21  # where the mechanism acts, not who causes it
    EXPLANATION = 25  # explains a symptom; a setting behind it is closer to the root
    SYMPTOM = 30
    REPETITION = 35  # repeats; its first cause ranks before it
    CONSEQUENCE = 40


class Subject(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The job, task, subtask, process, … that a finding is about. Unknown fields are absent and never guessed.

    `kind` names the field that identifies it: job, task, subtask, taskmanager, host, process, …
    """

    kind: str
    job_id: str | None = None
    job_name: str | None = None
    task: str | None = None
    subtask_index: int | None = None  # 0-based; shown as `i/n`
    parallelism: int | None = None
    attempt_id: str | None = None
    taskmanager: str | None = None  # resource ID
    host: str | None = None
    operator: str | None = None
    vertex_id: str | None = None
    application: str | None = None
    stream_id: int | None = None
    query: str | None = None
    stage: int | None = None
    executor: str | None = None
    receiver: str | None = None
    output_operation: int | None = None
    partition: str | None = None  # of a topic: orders-3
    service: str | None = None  # a system outside the job, with its address if known
    option: str | None = None


class Measurement(msgspec.Struct, frozen=True, kw_only=True):
    """A number that supports a finding.

    `value` is a word if the measured property is not a number. `unit` is `ms`, `bytes`, `checkpoints`, `subtasks`,
    `ratio`, `share` (0 to 1), …, or null for words. `threshold` has the same unit. `population` is the base of the
    number.
    """

    name: str  # kebab-case: late-ratio
    value: int | float | str | None
    unit: str | None = None
    threshold: int | float | None = None
    population: str | None = None


def measurement(
    name: str,
    value: float | str | None,
    unit: str | None = None,
    threshold: float | None = None,
    over: str | None = None,
) -> Measurement:
    """Build a number that supports a finding.

    Args:
        name: kebab-case, e.g. `late-ratio`.
        value, unit: the number; None as unit for text.
        threshold: the limit in the same unit.
        over: the population or reference of the number, as a short phrase.
    """
    return Measurement(name=name, value=value, unit=unit, threshold=threshold, population=over)


@dataclass(frozen=True, slots=True)
class Evidence:
    """A record of the input. `flowdiag.analyses.report.evidence` looks up its line and text later.

    Args:
        source, offset: as in `keys.Ref`, so that `Evidence(*ref, time_us)` works.
        time_us: the time of the record, if it has one.
        focus: the relevant part of a large record, such as a metric report or a REST response.
    """

    source: int
    offset: int
    time_us: int | None = field(default=None, compare=False)
    focus: Focus | None = None


def cite_part(ref: Ref | None, focus: Focus) -> Evidence | None:
    """Return a part of a record as evidence, or None if the record is unknown."""
    return None if ref is None else Evidence(*ref, focus=focus)


MAX_CITED: Final = 10  # records cited per finding; `evidence_total` counts all


Cited = Ref | Evidence
"""A record or a part of one."""


def cite(items: Iterable[tuple[Cited | None, int | None]]) -> tuple[Evidence, ...]:
    """Return records as evidence without repetitions, in the given order.

    Args:
        items: position and time of each record. Records without a position are left out.
    """
    found: dict[Evidence, None] = {}
    for cited, time_us in items:
        if isinstance(cited, Evidence):
            found.setdefault(cited if time_us is None else replace(cited, time_us=time_us))
        elif cited is not None:
            found.setdefault(Evidence(*cited, time_us))
    return tuple(found)


def sample_ends(items: Sequence[Evidence], most: int = MAX_CITED) -> tuple[Evidence, ...]:
    """Return at most `most` records: half from the start, half from the end.

    >>> [e.offset for e in sample_ends([Evidence(0, n) for n in range(9)], 4)]
    [0, 1, 7, 8]
    """
    if len(items) <= most:
        return tuple(items)
    head = most - most // 2
    return (*items[:head], *items[len(items) - most // 2 :])


class Origin(StrEnum):
    """Where an option's value comes from."""

    CONFIGURED = "configured"
    OBSERVED = "observed"  # inferred from events because no input prints it
    DEFAULT = "default"  # the configuration is known and does not contain it


@dataclass(frozen=True, slots=True)
class CurrentValue:
    """An option's current value for readers, with its unit and origin."""

    value: str
    origin: Origin = Origin.CONFIGURED


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """An option to set together with the option of an action."""

    option: str
    proposed: Proposed
    current: CurrentValue | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """One thing to do. Findings list actions in the order in which to try them.

    An action with an `option` proposes a value, removes the option, or names the measurement that a value needs.

    Args:
        text: what to do.
        option: an actual configuration key of the version in the input.
        current: its current value, if the input shows it.
        proposed: the value to try, formatted for the engine.
        unset: whether to remove the option from the configuration.
        measure: what to measure first, if no input shows which value helps.
        together: options to set with it, so that the engine accepts the value.
        risk: side effect or cost.
        restart_needed: whether it takes effect only after a restart. None if there is nothing to
            restart.
        verify: how to check that it worked.
        command: the flowdiag command that shows more about this fault in the same input.
    """

    text: str
    option: str | None = None
    current: CurrentValue | None = None
    proposed: Proposed | None = None
    unset: bool = False
    measure: str | None = None
    together: tuple[Change, ...] = ()
    risk: str | None = None
    restart_needed: bool | None = None
    verify: str | None = None
    command: str | None = None


class Vote(msgspec.Struct, frozen=True, kw_only=True):
    """One signal for or against a finding.

    `weight` is 1 for a hint, 2 for an indication and 3 for proof. Negative weights contradict the finding.
    """

    signal: str
    text: str
    weight: int


class StackPath(msgspec.Struct, frozen=True, kw_only=True):
    """A thread's stack from its first frame to the topmost, with the number of samples that show it."""

    samples: int
    frames: tuple[str, ...]


class FindingFields(TypedDict, total=False):
    """The fields of `Finding` that a topic's helpers pass on; helpers set `job` and `subject` themselves."""

    severity: Severity
    state: State
    title: str
    explain: str
    confidence: Confidence
    why: str | None
    cause: str | None
    rank: int
    option: str | None
    first_us: int | None
    last_us: int | None
    count: int
    measurements: tuple[Measurement, ...]
    evidence: tuple[Evidence, ...]
    ranked: bool
    evidence_total: int | None
    actions: tuple[Action, ...]
    votes: tuple[Vote, ...]
    stacks: tuple[StackPath, ...]


class SubjectFields(FindingFields, total=False):
    """The fields of `Finding` that a rule may set if its job is known."""

    subject: Subject


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One episode of one problem, per rule, job and subject.

    Args:
        job: the job whose verdict includes this finding. None if the job is unknown.
        title: one line for readers, with the decisive number and without a full stop.
        why: one line of proof against the subject, with the number. None if the finding names no
            culprit.
        cause: stable kebab-case word for the cause (`data-skew`, `task-hangs`, …).
        rank: how close it is to the root cause, see `Rank`.
        option: the configuration key that the finding is about, if any.
        evidence: all records that prove it, in order. A report shows a limited number.
        ranked: whether the evidence is sorted by strength rather than by time.
        evidence_total: the number of records, if `evidence` is a selection.
        explain: what it means for this job, in a few sentences.
        stacks: the thread stacks that show it, most frequent first.
        subjects: all subjects that share the finding, worst first (`fleets`). If empty, only `subject`.
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
    ranked: bool = False
    evidence_total: int | None = None
    actions: tuple[Action, ...] = ()
    votes: tuple[Vote, ...] = ()
    stacks: tuple[StackPath, ...] = ()
    subjects: tuple[Subject, ...] = ()

    @property
    def reported_evidence(self) -> tuple[Evidence, ...]:
        """The evidence to report: the strongest records, or the first and last records."""
        return self.evidence[:MAX_CITED] if self.ranked else sample_ends(self.evidence)

    @property
    def evidence_count(self) -> int:
        """The number of records, including those that are not shown."""
        return len(self.evidence) if self.evidence_total is None else self.evidence_total


@dataclass(frozen=True, slots=True, kw_only=True)
class Inconclusive:
    """Why a rule could not decide.

    Args:
        reason: what is missing, as one clause.
        checks: the evidence that would help, as names of `knowledge.causes.CHECKS`.
        remedy: the option of flowdiag that would help, or None.
        job: the undecided job. None means all jobs.
    """

    reason: str
    checks: tuple[str, ...] = ()
    remedy: str | None = None
    job: JobKey | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecognizedRecords:
    """How many records of one kind were recognized, and their time range."""

    kind: str
    count: int
    first_us: int | None = None
    last_us: int | None = None
    ref: Ref | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleOutcome:
    """The findings and doubts of one rule. Without either, it is clear, provided that it had something to judge.

    Args:
        not_assessed_reason: why the rule had nothing to judge. None if it had something.
        ignored: the option that excludes the rule, or None. An ignored rule has no findings.
            `inconclusive` lists the doubts that remain.
    """

    code: str
    name: str
    title: str
    core: bool
    findings: tuple[Finding, ...] = ()
    inconclusive: tuple[Inconclusive, ...] = ()
    not_assessed_reason: str | None = None
    ignored: str | None = None

    @property
    def status(self) -> Status:
        """`FOUND` takes precedence over `INCONCLUSIVE`, because doubts do not invalidate a finding.

        A rule that was not assessed is never clear.
        """
        if self.ignored is not None:
            return Status.IGNORED
        if self.findings:
            return Status.FOUND
        if self.inconclusive:
            return Status.INCONCLUSIVE
        return Status.CLEAR if self.not_assessed_reason is None else Status.NOT_ASSESSED


WARNING_SHARE: Final = 0.01  # of the checkpoints or batches; less is `info` after a recovery


def grade(*, state: State, share: float, fatal: bool = False) -> Severity:
    """Return the severity according to the table that all rules share.

    Args:
        state: whether the episode was in progress at the end of the input.
        share: affected share of the checkpoints or batches, 0 to 1.
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
    """Add up votes and return the resulting confidence.

    High needs three points for and at most a fifth as many against. Medium needs two points for and at most half as
    many against. One proof, three hints, or an indication and a hint make three points.

    >>> weigh([Vote(signal="busy", text="1/4", weight=2), Vote(signal="late", text="1/4", weight=1)])
    <Confidence.HIGH: 'high'>
    >>> weigh([Vote(signal="busy", text="1/4", weight=2), Vote(signal="late", text="3/4", weight=-1)])
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
