"""The facts of one run of `flowdiag rate`, as immutable values.

Spark measures them (`flowdiag.analyses.rate.measure`), and the rules judge them without a JVM. Batch times and all
other times of DStreams are milliseconds since the epoch, as Spark writes them. `time_us` of single records is in
microseconds. `None` always means that the input does not contain the value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from flowdiag.analyses.model.keys import JobKey, Ref
from flowdiag.analyses.neighbours.facts import Neighbours
from flowdiag.analyses.stacks import Stack

MANUAL_CLOCK_MS: Final = 365 * 86_400_000
"""The end of 1970. Earlier batch times come from a manual clock and are not comparable with other times."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StageLoad:
    """The stage of a batch with the longest task, and that task.

    `run_ms` is the total run time of its tasks, `cpu_ms` the CPU time of the JVM in it, and `python_ms` the time in
    Python workers. `python` shows whether its tasks send data to Python workers. `state_rows` are the rows in the state
    of all its partitions, and `largest_state` those of the partition with most of them. `largest` is the stage of the batch
    with the most task time, if it is another stage. `written` are the records that all tasks of the batch wrote to files or
    tables, None if unknown.
    """

    stage: int
    name: str | None
    tasks: int
    total_ms: int
    longest_ms: int
    index: int  # partition number of the slowest task
    executor: str | None
    host: str | None
    slowest_records: int
    records: int
    gc_ms: int = 0
    spilled_bytes: int = 0
    fetch_ms: int = 0
    run_ms: int | None = None
    cpu_ms: int | None = None
    python_ms: int | None = None
    python: bool = False
    state_rows: int = 0
    largest_state: int = 0
    state_partition: int | None = None
    written: int | None = None
    largest: StageLoad | None = None

    @property
    def others_ms(self) -> float | None:
        """The mean duration of the other tasks."""
        return (self.total_ms - self.longest_ms) / (self.tasks - 1) if self.tasks > 1 else None

    @property
    def others_records(self) -> float | None:
        """The mean number of records of the other tasks."""
        if self.tasks < 2:
            return None
        return (self.records - self.slowest_records) / (self.tasks - 1)

    @property
    def others_state(self) -> float | None:
        """The mean number of state rows of the other partitions, or None if the slowest task does not have most rows."""
        if self.tasks < 2 or self.state_partition != self.index:
            return None
        return (self.state_rows - self.largest_state) / (self.tasks - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """The Spark jobs of a batch or trigger.

    `busy_ms` is the sum of their durations, even if they overlap. It is None if a job has no end. `cause` is the error
    of the last of the `failed` jobs.
    """

    jobs: int
    busy_ms: int | None
    start_ms: int | None = None  # start of the first job
    failed: int = 0
    cause: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTask:
    """A task of a batch or trigger that is still running when the input ends.

    `ended` is the number of ended tasks of its stage, and `longest_ms` the duration of the longest task.
    """

    stage: int
    index: int
    stage_name: str | None = None
    executor: str | None = None
    host: str | None = None
    since_us: int | None = None
    ended: int = 0
    longest_ms: int | None = None
    ref: Ref | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTrigger:
    """The last trigger of a query, if the input contains its start but not its end.

    Args:
        batch: its batch ID.
        since_us: when its offsets were written, or its first job began.
        until_us: the end of the input, or of the query.
        work: its jobs; None if the input has no jobs.
        tasks: the tasks that have not ended, from an event log.
    """

    batch: int
    since_us: int
    until_us: int
    work: Work | None = None
    tasks: tuple[OpenTask, ...] = ()
    ref: Ref | None = None

    @property
    def duration_ms(self) -> int:
        """How long the trigger has been running when the input ends."""
        return max(0, self.until_us - self.since_us) // 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """The total duration of an output operation over all batches with a duration."""

    output: int
    name: str | None
    batches: int
    total_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocks:
    """The blocks that a receiver stored, without replicas."""

    stream: int
    blocks: int
    bytes: int
    first_ms: int | None
    last_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """Records that tasks of a direct stream read from a partition, according to executor logs.

    `fewest` and `most` are the extremes of a task; None if unknown.
    """

    name: str  # orders-3
    records: int
    tasks: int
    fewest: int | None = None
    most: int | None = None
    ref: Ref | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """A host that stores receiver blocks, with its free memory at the end and the storage rate."""

    host: str
    free_bytes: int | None
    bytes: int
    first_ms: int | None
    last_ms: int | None

    @property
    def bytes_per_s(self) -> float | None:
        """The bytes stored per second, including replicas."""
        if self.first_ms is None or self.last_ms is None or self.last_ms <= self.first_ms:
            return None
        return self.bytes * 1000 / (self.last_ms - self.first_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedRdd:
    """The stored blocks of an RDD that the application caches."""

    rdd: int
    bytes: int
    time_ms: int  # time of the first block


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamInput:
    """The records of one input stream in a batch."""

    stream: int
    records: int
    description: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """A batch of a DStream application, merged from all its inputs.

    `scheduling_ms` starts at the submission, as for the listener and the estimator. `approximate` marks times that come
    from its Spark jobs (in an event log alone), which are slightly too short. `lineage` has the words of
    `parsers.spark.lineage`.
    """

    time_ms: int
    state: str  # completed | processing | queued
    records: int | None = None
    submission_ms: int | None = None
    start_ms: int | None = None
    end_ms: int | None = None
    processing_ms: int | None = None
    scheduling_ms: int | None = None
    failed_outputs: int = 0
    reason: str | None = None
    streams: tuple[StreamInput, ...] = ()
    stage: StageLoad | None = None
    work: Work | None = None
    open_tasks: tuple[OpenTask, ...] = ()
    approximate: bool = False
    lineage: frozenset[str] = frozenset()
    ref: Ref | None = None

    @property
    def window_batches(self) -> int:
        """The number of batches that a window reads again, or 0 without a window."""
        words = [word for word in self.lineage if word.startswith("window=")]
        return max((int(word.partition("=")[2]) for word in words), default=0)

    @property
    def total_ms(self) -> int | None:
        """The total delay as the listener defines it: scheduling delay plus processing delay."""
        if self.scheduling_ms is None or self.processing_ms is None:
            return None
        return self.scheduling_ms + self.processing_ms

    @property
    def generation_lag_ms(self) -> int | None:
        """The time from batch time to submission, which no delay of Spark contains."""
        if self.submission_ms is None or self.time_ms < MANUAL_CLOCK_MS:
            return None
        return max(0, self.submission_ms - self.time_ms)

    @property
    def waited_ms(self) -> int | None:
        """The time from batch time to the start of processing."""
        if self.time_ms < MANUAL_CLOCK_MS:
            return self.scheduling_ms
        if self.start_ms is not None:
            return max(0, self.start_ms - self.time_ms)
        if self.end_ms is not None and self.processing_ms is not None:
            return max(0, self.end_ms - self.processing_ms - self.time_ms)
        return self.scheduling_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """An output operation of a batch that failed."""

    batch_ms: int
    output: int
    name: str | None
    duration_ms: int | None
    failure: str | None
    time_us: int | None = None  # when it failed
    ref: Ref | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A single record of a receiver, executor, query or log line."""

    kind: str  # a value of `Event`
    template: str | None
    time_us: int | None
    host: str | None = None
    name: str | None = None
    cause: str | None = None
    batch_ms: int | None = None
    duration_ms: int | None = None
    fields: Mapping[str, str] = field(default_factory=dict)
    ref: Ref | None = None

    @property
    def what(self) -> str:
        """The event within the kind: `started`, `stopped` …"""
        return self.fields.get("what", "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Executor:
    """An executor, with its tasks compared to tasks of the same stages elsewhere."""

    executor: str
    host: str | None = None
    cores: int | None = None
    added_us: int | None = None
    removed_us: int | None = None
    reason: str | None = None
    tasks: int = 0
    total_ms: int = 0
    stages: int = 0
    ratio: float | None = (
        None  # median over stages: mean task duration here divided by that elsewhere
    )
    ref: Ref | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Trigger:
    """One execution of a streaming query, from its progress."""

    batch: int | None
    run_id: str
    time_us: int  # start of the trigger
    duration_ms: int | None
    rows: int | None
    durations: Mapping[str, int] = field(default_factory=dict)
    sources: tuple[Mapping[str, Any], ...] = ()
    input_per_s: float | None = None
    processed_per_s: float | None = None
    watermark_us: int | None = None
    max_event_us: int | None = None
    min_event_us: int | None = None
    written: int | None = None  # rows; None if the sink does not count them
    state: tuple[Mapping[str, Any], ...] = ()
    sink: str | None = None
    stage: StageLoad | None = None
    work: Work | None = None
    ref: Ref | None = None

    @property
    def backlog(self) -> int | None:
        """The number of available offsets that were not read, over all sources that report them."""
        known = [source["backlog"] for source in self.sources if source.get("backlog") is not None]
        return sum(known) if known else None

    @property
    def state_rows(self) -> int | None:
        """Rows in the state of all operators, or None without state or counts."""
        known = [one["rows"] for one in self.state if one.get("rows") is not None]
        return sum(known) if known else None

    @property
    def metadata_ms(self) -> float:
        """The time spent on writing offsets and commits."""
        return float(self.durations.get("walCommit", 0) + self.durations.get("commitOffsets", 0))

    def commit_ms(self, cores: int | None) -> float:
        """Return the minimum time spent on state commits, if one partition per core commits at a time."""
        total = 0.0
        for operator in self.state:
            sum_ms, partitions = operator.get("commit_ms") or 0.0, operator.get("partitions") or 1
            total += sum_ms / max(1, min(partitions, cores) if cores else partitions)
        return total

    @property
    def dropped(self) -> int:
        """Rows that arrived later than the watermark allows."""
        return sum(one.get("dropped") or 0 for one in self.state)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Properties of a query's physical plan, from an event log.

    Args:
        mode: append, update or complete; None without state.
        delay_ms: the longest delay of `withWatermark`.
        window_ms: the longest event-time window.
        column: the column of `withWatermark`.
        functions: the names of its Python functions.
        tables: the tables that each trigger reads again, in addition to its sources.
    """

    mode: str | None = None
    delay_ms: int | None = None
    window_ms: int | None = None
    column: str | None = None
    functions: tuple[str, ...] = ()
    tables: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryFacts:
    """A streaming query with its runs (restarts) in order."""

    id: str
    name: str | None
    runs: tuple[str, ...]
    triggers: tuple[Trigger, ...]
    events: tuple[Record, ...] = ()  # started, idle, terminated
    trigger_interval_ms: int | None = None
    interval_from: str | None = None  # option | log | observed
    real_time: bool | None = None  # None if unknown
    real_time_from: str | None = None  # option | configuration | log
    tries: Mapping[int, int] = field(
        default_factory=dict
    )  # number of runs by batch ID, for batches that several runs began
    file_limit: int | None = None  # maxFilesPerTrigger that the source logs
    files_taken: tuple[int, ...] = ()  # new files per trigger that the source logs
    unfinished: OpenTrigger | None = None
    run_end_us: int | None = None  # end of the last run or, if unknown, of the input
    plan: Plan = Plan()
    ended_overload: tuple[
        Trigger, ...
    ] = ()  # late triggers in a log at WARN, before a long silence

    def events_of(self, what: str) -> Iterator[Record]:
        """Yield the events of a kind: started, idle, terminated."""
        return (record for record in self.events if record.what == what)

    @property
    def label(self) -> str:
        """The name of the query for use in a sentence. A pasted text may not contain it."""
        known = self.name or self.id
        return f"query {known}" if known else "the query"


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkThread:
    """A thread of the application in one thread dump.

    Args:
        role: `query`, `batch` (both on the driver), or `task`.
        stack: the activity; its `taskmanager` is the executor.
        run: the run of the query.
        stage: the stage of the task.
    """

    role: str
    stack: Stack
    run: str | None = None
    stage: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplicationFacts:
    key: JobKey  # cluster is empty, job_id is the application's ID or a generated key
    application: str | None
    name: str | None
    version: str | None = None
    interval_ms: int | None = None
    interval_from: str | None = None  # listener | rest | observed
    settings: Mapping[str, str] = field(default_factory=dict)
    settings_known: bool = False
    batches: tuple[Batch, ...] = ()
    outputs: tuple[Output, ...] = ()
    executors: tuple[Executor, ...] = ()
    operations: tuple[Operation, ...] = ()
    blocks: tuple[Blocks, ...] = ()
    memory: tuple[Memory, ...] = ()
    cached: tuple[CachedRdd, ...] = ()
    partitions: tuple[Partition, ...] = ()
    queries: tuple[QueryFacts, ...] = ()
    receivers: tuple[Record, ...] = ()
    limits: tuple[Record, ...] = ()  # rate limits that receivers received
    traces: tuple[Record, ...] = ()  # lines that the estimator printed
    lost: tuple[Record, ...] = ()  # records of dropped listener events
    incidents: tuple[Record, ...] = ()
    failures: tuple[Record, ...] = ()  # exceptions and errors that no other record reports
    threads: tuple[SparkThread, ...] = ()
    started_us: int | None = None
    ended_us: int | None = None
    last_us: int | None = None
    late_count: int = 0  # late triggers in a log, even if they prove no overload
    late_us: int | None = (
        None  # end of the last late trigger in a log, even if it proves no overload
    )
    stopped_us: int | None = None  # when its stop began, from `assessment.endings`
    unseen_stop: str | None = (
        None  # the failure that shows its stop, if the input has no other sign of the stop
    )
    origins: frozenset[str] = frozenset()  # listener | rest | log | event-log
    damaged: bool = False  # whether one of its inputs is truncated

    @property
    def kind(self) -> str:
        """`dstream`, `structured` or `other`."""
        if self.batches:
            return "dstream"
        return "structured" if self.queries else "other"

    @property
    def completed(self) -> tuple[Batch, ...]:
        """The batches that ended, by batch time."""
        return tuple(b for b in self.batches if b.state == "completed")

    def incidents_of(self, template: str) -> list[Record]:
        return [record for record in self.incidents if record.template == template]


@dataclass(frozen=True, slots=True, kw_only=True)
class RateFacts:
    """The applications, and the systems around them."""

    applications: tuple[ApplicationFacts, ...]
    neighbours: Neighbours = field(default_factory=Neighbours)
