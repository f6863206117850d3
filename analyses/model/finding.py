"""What a rule says: findings, evidence, votes, and the words they are graded with.

These are the inner types. Rules make them, `flowdiag.analyses.report.wire` turns them into the wire
format that other programs read; neither prints. Times are microseconds since 1970-01-01 UTC.

The severity table is the same for all rules (`grade`), and so is the way from votes to a
confidence (`weigh`): a rule publishes its signals and their weights, never a threshold of its own
for "high".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum, StrEnum
from typing import Final, TypedDict

import msgspec

from flowdiag.analyses.knowledge.option_types import Proposed
from flowdiag.analyses.model.keys import JobKey, Ref
from flowdiag.parsers.focus import Focus


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
    CALCULATED = (
        "calculated"  # arithmetic about what is configured: nothing that runs was looked at
    )
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
    NOT_ASSESSED = "not-assessed"  # the input held nothing of what it judges
    IGNORED = "ignored"  # the user does not want to hear it


class Rank(IntEnum):
    """How near to the root a finding stands; smaller is nearer.

    Culprits and causes are taken from the nearest first, so that an out-of-memory error outranks
    the lost TaskManager it led to, and that outranks the failed checkpoint.
    """

    STANDSTILL = 8  # the JobManager stood still: whatever it does came late
    FATAL = 9  # a process ended, or could not begin, for it
    ROOT_CAUSE = 10
    REPORTED_CAUSE = 11  # a cause at second hand: what an operator says of a deployment
    SLOW_CAUSE = 12  # takes long, and stops nothing
    ARBITRARY_CAUSE = 12  # whoever it hit: that task is named by chance
    BOTTLENECK = 15  # where back pressure begins
    BOTTLENECK_SIGN = 16  # may be why the bottleneck is one
    FIRST_MECHANISM = 18  # sets off one of the mechanisms below
    SHARED_MECHANISM = 19  # the same for many: storage, a task that blocks its machine
    MECHANISM = 20
    PLACE = 21  # where the mechanism works, not whose it is
    EXPLANATION = 25  # says why a symptom is there; a setting behind it is nearer to the root
    SYMPTOM = 30
    REPETITION = 35  # the same again and again: what began it stands before
    CONSEQUENCE = 40


class Subject(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The job, task, subtask, process, … that a finding is about. Unknown fields are absent, never guessed.

    `kind` names the field that identifies it: job, task, subtask, taskmanager, host, process, …
    """

    kind: str
    job_id: str | None = None
    job_name: str | None = None
    task: str | None = None
    subtask_index: int | None = None  # 0-based; shown as `i/n`
    parallelism: int | None = None
    attempt_id: str | None = None
    taskmanager: str | None = None  # resource id
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
    option: str | None = None


class Measurement(msgspec.Struct, frozen=True, kw_only=True):
    """A number that supports a finding.

    `value` is a word if the measured thing is one. `unit` is `ms`, `bytes`, `checkpoints`, `subtasks`, `ratio`,
    `share` (0 to 1), …, null for words. `threshold` has the same unit. `population` is the base of the number.
    """

    name: str  # kebab-case: late-ratio
    value: int | float | str | None
    unit: str | None = None
    threshold: int | float | None = None
    population: str | None = None


@dataclass(frozen=True, slots=True)
class Evidence:
    """A record of the input. `flowdiag.analyses.report.evidence` finds its line and its text later.

    Args:
        source, offset: as in `keys.Ref`, so that `Evidence(*ref, time_us)` reads well.
        time_us: when, if the record is dated.
        focus: what of it proves something, where it holds much more: a report, an answer of REST.
    """

    source: int
    offset: int
    time_us: int | None = field(default=None, compare=False)
    focus: Focus | None = None


def focused(ref: Ref | None, focus: Focus) -> Evidence | None:
    """A part of a record, to be cited; None where the record is not known."""
    return None if ref is None else Evidence(*ref, focus=focus)


MAX_CITED: Final = 10  # records cited per finding; `evidence_total` counts all


Cited = Ref | Evidence
"""A record, or a part of one."""


def cite(items: Iterable[tuple[Cited | None, int | None]]) -> tuple[Evidence, ...]:
    """The records behind a finding, each once, in the given order.

    Args:
        items: where a record lies and when it was written; no place, no evidence.
    """
    found: dict[Evidence, None] = {}
    for cited, time_us in items:
        if isinstance(cited, Evidence):
            found.setdefault(cited if time_us is None else replace(cited, time_us=time_us))
        elif cited is not None:
            found.setdefault(Evidence(*cited, time_us))
    return tuple(found)


def spread(items: Sequence[Evidence], most: int = MAX_CITED) -> tuple[Evidence, ...]:
    """At most so many of the records: the first half and the last half.

    >>> [e.offset for e in spread([Evidence(0, n) for n in range(9)], 4)]
    [0, 1, 7, 8]
    """
    if len(items) <= most:
        return tuple(items)
    head = most - most // 2
    return (*items[:head], *items[len(items) - most // 2 :])


class Origin(StrEnum):
    """Where the value of an option is known from."""

    CONFIGURED = "configured"
    OBSERVED = "observed"  # inferred from what happens: no input prints it
    DEFAULT = "default"  # the configuration is known, and does not name it


@dataclass(frozen=True, slots=True)
class Present:
    """The value that an option has now, for people: with its unit, and where it is known from."""

    value: str
    origin: Origin = Origin.CONFIGURED


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """An option that has to be set together with the one that an action is about."""

    option: str
    proposed: Proposed
    current: Present | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """One thing to do. Several stand in the order in which to try them.

    An action with an `option` says what to make of it: it has a value to try, or takes the option
    away, or says what has to be measured before anyone can name a value.

    Args:
        text: what to do.
        option: a real configuration key of the version seen.
        current: its value where the input tells.
        proposed: the value to try, as the engine reads it.
        unset: whether the option is to be taken out of the configuration.
        measure: what to measure first, where the input does not tell what value would do.
        together: what has to be set with it, for the engine to accept it.
        risk: what it may cost.
        restart_needed: whether it takes effect only after a restart; None: nothing to restart.
        verify: how to see that it helped.
        command: of flowdiag, that sees more of this fault in the same inputs.
    """

    text: str
    option: str | None = None
    current: Present | None = None
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

    `weight` is 1 for a hint, 2 for an indication and 3 for a proof. Negative weights point elsewhere.
    """

    signal: str
    text: str
    weight: int


class FindingFields(TypedDict, total=False):
    """The fields of `Finding` that a topic's helpers pass through; helpers set `job` and `subject`."""

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
        evidence: every record that proves it, in order; a report shows what there is room for.
        ranked: the evidence stands with the strongest first, not in order of time.
        evidence_total: where `evidence` is a choice of several kinds: of how many records.
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
    ranked: bool = False
    evidence_total: int | None = None
    actions: tuple[Action, ...] = ()
    votes: tuple[Vote, ...] = ()

    @property
    def reported_evidence(self) -> tuple[Evidence, ...]:
        """The evidence that a report has room for: the strongest, or the first and the last."""
        return self.evidence[:MAX_CITED] if self.ranked else spread(self.evidence)

    @property
    def evidence_count(self) -> int:
        """How many records there are for it, shown or not."""
        return len(self.evidence) if self.evidence_total is None else self.evidence_total


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
class Understood:
    """Records of one kind, in the field's words: what was understood, even where nothing follows from it."""

    kind: str
    count: int
    first_us: int | None = None
    last_us: int | None = None
    ref: Ref | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleOutcome:
    """Everything that one rule said. Nothing at all means clear, where there was something to judge.

    Args:
        not_assessed_reason: why the rule had nothing to judge. None: it had something.
        ignored: why the user does not hear it; None: he does. Then there is no finding, and
            `inconclusive` holds what the verdict is in doubt for.
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
        """Found outweighs inconclusive: what was seen stays true. What was not assessed is never clear."""
        if self.ignored is not None:
            return Status.IGNORED
        if self.findings:
            return Status.FOUND
        if self.inconclusive:
            return Status.INCONCLUSIVE
        return Status.CLEAR if self.not_assessed_reason is None else Status.NOT_ASSESSED


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
