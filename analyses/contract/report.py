"""The types of the report that other programs read (`flowdiag.report/1`).

Adding keys or words does not change the version number. Any other change increments it. Times are ISO-8601 UTC with
milliseconds, `_ms` are milliseconds, `_bytes` are bytes, and subtask indexes are 0-based. No value depends on the wall
clock, and the order of every list is stable.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, Final, Literal

import msgspec

from flowdiag.analyses.contract import notebook
from flowdiag.analyses.contract.encoding import encode
from flowdiag.analyses.contract.memory import MemoryBuffers, MemoryProcess
from flowdiag.analyses.contract.queues import QueueFlow, QueueTaskManager, QueueVertex, QueueWhatIf
from flowdiag.analyses.contract.startup import JobScheduling, StartAttempt, StartStep, StartWorker
from flowdiag.analyses.model import finding as f
from flowdiag.parsers.notes import Kind

SCHEMA: Final = "flowdiag.report/1"
DOCUMENTS: Final = (
    "rest",
    "archive",
    "spark-rest",
)  # kinds of input that are JSON documents without meaningful lines

# Rules create these types directly. The report only masks secrets in their texts.
Subject = f.Subject
Measurement = f.Measurement
Vote = f.Vote

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Tool(msgspec.Struct, frozen=True, kw_only=True):
    """The tool and the command that wrote the report."""

    name: Literal["flowdiag"] = "flowdiag"
    version: str
    command: str


class Process(msgspec.Struct, frozen=True, kw_only=True):
    """A Flink or Spark process that wrote an input, or part of one."""

    label: str | None
    role: str
    version: str | None
    taskmanager: str | None
    host: str | None
    zone: str | None
    zone_from: str | None
    clock_offset_ms: int | None
    first: str | None
    last: str | None
    events: int


class Input(msgspec.Struct, frozen=True, kw_only=True):
    """One input, and how much of it was recognized.

    `path` is the URL path of a saved REST response. If `kind` is `not-read`, `reason` explains why. `not_understood`
    counts lines with a known logger class but an unknown message, and `samples` contains some of them.
    """

    source: str
    kind: str
    role: str
    version: str | None
    bytes: int
    candidates: int
    recognised: int
    not_understood: int
    first: str | None
    last: str | None
    zone: str | None
    zone_from: str | None = None
    clock_offset_ms: int | None
    path: str | None = None
    reason: str | None = None
    error: str | None = None
    samples: list[str] = []
    processes: list[Process] = []


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """A record of the input, with its 1-based line and its byte offset in the decoded stream.

    `line` is null in documents without lines, and if the input could not be read again.
    """

    source: str
    line: int | None
    offset: int
    timestamp: str | None
    excerpt: str | None


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """An option to set together with the option of an action."""

    option: str
    current: str | None
    current_from: str | None
    proposed: str


class Action(msgspec.Struct, frozen=True, kw_only=True):
    """One thing to do. `option` is a configuration key of the version in the input.

    `current` is formatted for readers, and `current_from` is its source: configured, observed or default. `proposed`
    can be copied unchanged. `unset` means to remove the option. `measure` names what to measure before choosing a
    value. `together` lists options to set in the same step. `command` is a flowdiag command that shows more about the
    fault.
    """

    text: str
    option: str | None
    current: str | None
    current_from: str | None = None
    proposed: str | None
    unset: bool = False
    measure: str | None = None
    together: list[Change] = []
    risk: str | None
    restart_needed: bool | None
    verify: str | None
    command: str | None = None


class FirstAction(msgspec.Struct, frozen=True, kw_only=True):
    """The first thing to do, the code of its finding, and the command that shows whether it worked."""

    code: str
    action: Action
    run: str


class Component(msgspec.Struct, frozen=True, kw_only=True):
    """The software that threw the exception of a finding: what it is, what to check first, its own log."""

    name: str
    what: str
    check: str
    log: str


class FailureCode(msgspec.Struct, frozen=True, kw_only=True):
    """A code in the text of a failure, with its meaning: `ORA-01555`, `HTTP 403`, `exit code 137`."""

    code: str
    family: str
    meaning: str
    check: str
    retriable: bool | None = None


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One finding per code, job, subject and episode. The findings in `see` contain further remedies.

    If a finding is about many subjects, `subject` is the worst, `subjects` lists the ten worst, and `subjects_total`
    counts all.
    """

    code: str
    name: str
    fingerprint: str
    severity: f.Severity
    state: f.State
    confidence: f.Confidence
    votes: list[Vote]
    subject: Subject
    cause: str | None
    title: str
    why: str | None
    explain: str
    first_seen: str | None
    last_seen: str | None
    count: int
    measurements: list[Measurement]
    evidence: list[Evidence]
    evidence_total: int
    actions: list[Action]
    see: list[str] = []
    component: Component | None = None
    codes: list[FailureCode] = []
    stacks: list[f.StackPath] = []
    subjects_total: int = 1
    subjects: list[Subject] = []


class Culprit(msgspec.Struct, frozen=True, kw_only=True):
    """The culprit, with the evidence and its numbers in one line.

    If the culprit moved, there is one entry per subject, with its period, latest first.
    """

    subject: Subject
    job_id: str | None = None
    job_name: str | None = None
    code: str
    cause: str | None = None
    why: str
    confidence: f.Confidence
    state: f.State
    first_seen: str | None
    last_seen: str | None


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of one rule."""

    code: str
    name: str
    title: str
    status: f.Status
    reason: str | None


class Understood(msgspec.Struct, frozen=True, kw_only=True):
    """The recognized records of one kind, even if nothing could be diagnosed."""

    kind: str
    count: int
    first: str | None
    last: str | None
    example: str | None


class Suggestion(msgspec.Struct, frozen=True, kw_only=True):
    """Evidence that would help to find the cause, most useful first.

    `wants` is the evidence, `command` gets it, and `decides` explains how it separates the remaining explanations.
    `check` is its stable name, and `cost` is between 1 (a stored file or a request) and 4 (a restart or a large file).
    `finding` is the fingerprint of the affected finding. Without `wants`, `command` is a flowdiag command that fits the
    inputs.
    """

    text: str
    command: str | None
    wants: str | None
    decides: str | None = None
    check: str | None = None
    cost: int | None = None
    finding: str | None = None


class Because(msgspec.Struct, frozen=True, kw_only=True):
    """Why a finding belongs to a story: another finding of the story explains it.

    `fingerprint` identifies the finding, and `of` the finding that directly explains it. `relation` is a stable word
    for the connection, and `text` describes the connection in a clause.
    """

    fingerprint: str
    relation: str
    of: str
    text: str


class Story(msgspec.Struct, frozen=True, kw_only=True):
    """One problem with all its consequences. Every finding that counts is in exactly one story.

    `findings` contains fingerprints. The first finding is the root, and `because` has an entry for each of the others.
    `culprit` is null if no finding names a culprit. `subject` is the subject of the culprit, or of the root if
    there is no culprit. `severity` is the worst of all findings, and `state` is ongoing if any finding is.
    `competing` lists the roots of other stories that could explain some of the same consequences.
    """

    title: str
    cause: str | None
    culprit: Culprit | None
    subject: Subject
    severity: f.Severity
    state: f.State
    confidence: f.Confidence
    first_seen: str | None
    last_seen: str | None
    narrative: str
    findings: list[str]
    because: list[Because]
    competing: list[str]


class Muting(StrEnum):
    """The status of a finding in a baseline. Only `muted` excludes a finding from the exit code."""

    MUTED = "muted"
    WORSE = "worse"  # worse than when it was muted
    EXPIRED = "expired"  # its end date has passed
    GONE = "gone"  # assessed, but not found
    NOT_ASSESSED = "not-assessed"  # not assessed


class BaselineEntry(msgspec.Struct, frozen=True, kw_only=True):
    """An entry of a baseline. `findings` counts the findings of this report with its fingerprint."""

    fingerprint: str
    code: str | None
    title: str | None
    reason: str
    until: str
    status: Muting
    text: str
    findings: int


class Baseline(msgspec.Struct, frozen=True, kw_only=True):
    """The known findings as of a date. The date matters because entries expire."""

    source: str
    date: str
    entries: list[BaselineEntry]


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of the report. `assessed` is false if there was nothing to diagnose.

    `first_action` belongs to the finding closest to the root cause. `reason` explains an inconclusive verdict.
    `below_min_severity` counts the findings below `--min-severity`, by severity. Only `findings` omits them.
    `baseline` lists the muted findings, which count for the verdict but not for the exit code. `not_assessed` is the
    first thing that could not be assessed, in a report that has findings or is healthy.
    """

    verdict: f.Verdict
    first_action: FirstAction | None = None
    cause: str | None
    culprits: list[Culprit]
    assessed: bool
    reason: str | None = None
    stories: list[Story] = []
    understood: list[Understood] = []
    suggestions: list[Suggestion] = []
    below_min_severity: dict[f.Severity, int] = {}
    not_assessed: str | None = None
    baseline: Baseline | None = None


class TopicStatus(StrEnum):
    """Whether a topic was assessed."""

    ASSESSED = "assessed"
    INCONCLUSIVE = "inconclusive"
    NOTHING = "nothing"


class Topic(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one topic. `diagnose` covers all topics, and other commands cover one.

    `nothing` means that the inputs contain no data for the topic. Its verdict is then `inconclusive` and does not count
    for the report.
    """

    topic: str
    status: TopicStatus
    verdict: f.Verdict
    reason: str | None


class Note(msgspec.Struct, frozen=True, kw_only=True, rename={"since": "from", "until": "to"}):
    """A warning about missing or damaged inputs.

    `from` and `to` are the affected period, if any. `message` equals `text`.
    """

    kind: Kind = Kind.OTHER
    text: str = ""
    message: str = ""
    hint: str | None = None
    source: str | None = None
    since: str | None = None
    until: str | None = None

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "text", self.text or self.message)
        msgspec.structs.force_setattr(self, "message", self.message or self.text)


class Where(StrEnum):
    """The step that failed."""

    PARSER = "parser"
    RESOLVE = "resolve"
    MEASURE = "measure"
    RULE = "rule"
    RENDER = "render"


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """A fault in one input, job or rule, or in the whole run. The rest is still diagnosed.

    `what` is the fault itself, `message` the line for readers, and `hint` a way to fix it. For a bug in flowdiag
    (`bug`), `fingerprint` identifies the bug across inputs and reveals nothing about them.
    """

    source: str | None = None
    split: int | None = None
    line: int | None = None
    offset: int | None = None
    what: str = ""
    where: Where | None = None
    bug: bool = False
    fingerprint: str | None = None
    message: str = ""
    hint: str | None = None

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "what", self.what or self.message)
        msgspec.structs.force_setattr(self, "message", self.message or self.what)


class Checkpoint(msgspec.Struct, frozen=True, kw_only=True):
    """One checkpoint from trigger to end. `type` distinguishes savepoints."""

    run: int
    id: int
    status: str
    type: str
    triggered_at: str | None
    ended_at: str | None
    duration_ms: int | None
    bytes: int | None
    reason: str | None


class LateAcknowledgement(msgspec.Struct, frozen=True, kw_only=True):
    """An acknowledgement after the expiry. It is `unmatched` if the input does not contain the expiry."""

    run: int
    checkpoint: int
    attempt_id: str
    task: str | None
    subtask: str | None
    subtask_index: int | None
    attempt: int | None
    taskmanager: str | None
    host: str | None
    received_at: str | None
    after_trigger_ms: int | None
    after_expiry_ms: int | None
    unmatched: bool


class Decline(msgspec.Struct, frozen=True, kw_only=True):
    """A subtask that declined a checkpoint, with the deepest cause."""

    run: int
    checkpoint: int
    attempt_id: str
    task: str | None
    subtask_index: int | None
    taskmanager: str | None
    host: str | None
    reason: str | None


class TaskManager(msgspec.Struct, frozen=True, kw_only=True):
    """The number of late subtasks of a TaskManager, and the number expected from its share of subtasks."""

    taskmanager: str
    host: str | None
    subtasks: int
    late: int
    expected: float | None
    ratio: float | None
    p_value: float | None


class Totals(msgspec.Struct, frozen=True, kw_only=True):
    """The lengths of the complete lists, if `--max-rows` shortened the lists."""

    checkpoints: int
    late_acknowledgements: int
    declines: int
    taskmanagers: int


class CheckpointEpisode(msgspec.Struct, frozen=True, kw_only=True):
    """Checkpoints that expired in quick succession, and the subject that blocked them.

    `state` is `recovered` if a later checkpoint completed, or if another subject blocked the following checkpoints.
    `subject`, `cause` and `confidence` are null if no culprit is known: `reason` explains why.
    """

    run: int
    first_checkpoint: int
    last_checkpoint: int
    expired: int
    state: f.State
    first_seen: str | None
    last_seen: str | None
    subject: Subject | None
    cause: str | None
    confidence: f.Confidence | None
    reason: str | None


class CheckpointJob(msgspec.Struct, frozen=True, kw_only=True):
    """One job of `flowdiag checkpoints`."""

    cluster: str
    job_id: str
    name: str | None
    flink_version: str | None
    verdict: f.Verdict
    cause: str | None
    culprits: list[Culprit]
    runs: int
    counts: dict[str, int]
    episodes: list[CheckpointEpisode]
    checkpoints: list[Checkpoint]
    late_acknowledgements: list[LateAcknowledgement]
    declines: list[Decline]
    taskmanagers: list[TaskManager]
    total: Totals
    truncated: bool


class RateBatch(msgspec.Struct, frozen=True, kw_only=True):
    """A batch of a DStream application. Times are milliseconds since the epoch, as in Spark.

    `status` is completed, processing or queued. Delays come from the listener, so the scheduling delay starts at
    the submission. Times are `approximate` if only the times of Spark jobs are known.
    """

    batch_time_ms: int
    records: int | None
    submission_ms: int | None
    processing_start_ms: int | None
    processing_end_ms: int | None
    processing_delay_ms: int | None
    scheduling_delay_ms: int | None
    total_delay_ms: int | None
    status: str
    failed_outputs: int
    approximate: bool
    reason: str | None


class PidStep(msgspec.Struct, frozen=True, kw_only=True):
    """One step of a stream's rate estimator. Rates are records per second.

    `new_rate` is null if Spark publishes none. `outcome` is then `first-run` or `skipped`. `exact` is true if every
    number is identical to Spark's.
    """

    stream_id: int
    batch_time_ms: int
    time_ms: int
    elements: int
    processing_delay_ms: int
    scheduling_delay_ms: int
    latest_rate: float | None
    error: float | None
    historical_error: float | None
    d_error: float | None
    new_rate: float | None
    outcome: str
    exact: bool


class Keeping(msgspec.Struct, frozen=True, kw_only=True):
    """How well a stream or a query keeps up.

    `use` is processing time as a share of the interval, from the medians of the recent batches or triggers.
    """

    stability: str
    because: str
    interval_ms: int | None
    processing_ms: float | None
    use: float | None
    delay_ms: float | None
    growth_per_s: float | None
    queued: int
    since_ms: int | None
    cost_per_batch_ms: float | None
    cost_per_record_ms: float | None
    cost_error_ms: float | None
    sustainable_per_s: float | None
    records_per_s: float | None
    limit: str | None = None  # limit of a growing delay: memory, retention or source
    to_limit_ms: int | None = None  # time left at the current slope


class RateStream(msgspec.Struct, frozen=True, kw_only=True):
    """An input stream of a DStream application."""

    stream_id: int
    name: str | None
    records: int
    limit: str | None
    limit_per_s: float | None
    keeping: Keeping
    held_by: str | None = None
    held_because: str | None = None


class RateTrigger(msgspec.Struct, frozen=True, kw_only=True):
    """One execution of a streaming query."""

    run_id: str
    batch_id: int | None
    started_at: str | None
    duration_ms: int | None
    rows: int | None
    backlog: int | None
    durations_ms: dict[str, int]
    watermark: str | None
    state_rows: int | None
    dropped_rows: int


class RateQuery(msgspec.Struct, frozen=True, kw_only=True):
    """A streaming query with its runs. `sources` describe what the last trigger read, in Spark's words."""

    id: str
    name: str | None
    runs: list[str]
    trigger_interval_ms: int | None
    trigger_interval_from: str | None
    exceptions: int
    keeping: Keeping
    triggers: list[RateTrigger]
    real_time: bool | None = None
    real_time_from: str | None = None
    row_rates_void: bool = False
    sources: list[str] = []


class SlowPart(msgspec.Struct, frozen=True, kw_only=True):
    """The slowest task of a long batch or trigger, compared with the other tasks of its stage."""

    batch_time_ms: int | None
    batch_id: int | None
    stage: int
    name: str | None
    tasks: int
    longest_ms: int
    others_ms: float | None
    index: int
    executor: str | None
    host: str | None
    records: int
    others_records: float | None


class RateTotals(msgspec.Struct, frozen=True, kw_only=True):
    """The lengths of the complete lists, if `--max-rows` shortened the lists."""

    batches: int
    pid: int
    triggers: int


class RateApplication(msgspec.Struct, frozen=True, kw_only=True):
    """One application of `flowdiag rate`."""

    application: str | None
    name: str | None
    spark_version: str | None
    kind: str
    batch_interval_ms: int | None
    batch_interval_from: str | None
    verdict: f.Verdict
    cause: str | None
    culprits: list[Culprit]
    back_pressure: bool | None
    seen_in: list[str]
    missing: list[str]
    keeping: Keeping | None
    streams: list[RateStream]
    queries: list[RateQuery]
    batches: list[RateBatch]
    pid: list[PidStep]
    slow_parts: list[SlowPart]
    settings: dict[str, str]
    total: RateTotals
    truncated: bool


class Data(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The command's tables. Keys of other commands are absent."""

    jobs: list[CheckpointJob] | None = None  # checkpoints
    applications: list[RateApplication] | None = None  # rate
    processes: list[MemoryProcess] | None = None  # memory
    buffers: list[MemoryBuffers] | None = None  # memory
    attempts: list[StartAttempt] | None = None  # startup
    cluster: list[StartStep] | None = None  # startup
    workers: list[StartWorker] | None = None  # startup
    scheduling: list[JobScheduling] | None = None  # startup
    vertices: list[QueueVertex] | None = None  # queues
    taskmanagers: list[QueueTaskManager] | None = None  # queues
    flow: list[QueueFlow] | None = None  # queues
    what_if: list[QueueWhatIf] | None = None  # queues, if requested


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """The root of a report."""

    schema: Literal["flowdiag.report/1"]
    tool: Tool
    inputs: list[Input]
    summary: Summary
    topics: list[Topic] = []
    rules: list[Rule]
    findings: list[Finding]
    data: Data
    warnings: list[Note]
    errors: list[Fault]

    @property
    def verdict(self) -> f.Verdict:
        """The verdict of the summary."""
        return self.summary.verdict

    @property
    def culprits(self) -> list[Culprit]:
        """The culprits of the summary. The first is the answer."""
        return self.summary.culprits

    @property
    def stories(self) -> list[Story]:
        """The stories of the summary, which link findings."""
        return self.summary.stories

    def to_json(self) -> str:
        """Return the document that `--format json` writes and `flowdiag.load` reads."""
        return encode(self).decode()

    def _repr_html_(self) -> str:
        """Return a summary for notebooks."""
        return notebook.html_of(self._overview)

    def _repr_mimebundle_(self, **options: Any) -> dict[str, str]:
        """Return the summary as HTML and as plain text."""
        return {"text/html": self._repr_html_(), "text/plain": notebook.text_of(self._overview)}

    @property
    def _overview(self) -> notebook.Overview:
        summary, first = self.summary, self.summary.first_action
        return notebook.Overview(
            verdict=summary.verdict,
            cause=summary.cause,
            reason=summary.reason,
            culprits=[(c.why, c.code, c.confidence, c.state) for c in summary.culprits],
            first_action=None if first is None else first.action.text,
            findings=[notebook.Line(x.severity, x.code, x.title, x.state) for x in self.findings],
            problems=[*(e.what for e in self.errors), *(note.message for note in self.warnings)],
            inputs=sum(item.kind != "not-read" for item in self.inputs),
        )


def iso(us: int | None) -> str | None:
    """Format microseconds since the epoch as ISO-8601 UTC, or return None outside the calendar.

    >>> iso(1_543_488_224_622_000)
    '2018-11-29T10:43:44.622Z'
    """
    if us is None:
        return None
    try:
        moment = _EPOCH + timedelta(microseconds=us)
    except OverflowError:
        return None
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
