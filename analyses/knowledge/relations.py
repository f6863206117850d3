"""Defines which findings explain which others, so that they form one incident.

A row relates findings with certain causes or rules to the findings of the rules in `explain`. Both
findings must share a job, process or subject, and their times must overlap or almost touch. Each row follows from the
design of Flink or Spark and names the mechanism. Findings that no row relates stay separate.

To add a relation, add a row. `tests/analyses/test_stories.py` checks that its words and codes exist and that no rule
explains itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class SharedProperty(StrEnum):
    """The property that two findings must have in common for one to explain the other."""

    JOB = "job"  # the same job or application
    MACHINE = "machine"  # the same TaskManager or executor, and the same job if both name one
    SUBJECT = "subject"  # the same subtask, task, machine, query, …


@dataclass(frozen=True, slots=True, kw_only=True)
class Relation:
    """A row of the table of relations.

    Args:
        name: in kebab-case, for programs. Rows for the same relation share a name.
        causes: words of `causes.CAUSES` whose findings explain others.
        rules: codes of rules whose findings explain others, with any cause. With `causes`, both must match.
        without: causes whose findings do not explain others.
        explain: codes of the rules whose findings are explained.
        same_cause: whether both must have the same cause, or the explained finding none.
        only: causes that the explained finding may have, apart from none. Without any, all causes.
        symptoms: whether the explained finding must rank as a symptom, because a finding with its own error has another cause.
        shared: what both findings must have in common.
        replaces: causes of the explaining finding that are less specific than the cause of the explained one.
        within_s: the maximum number of seconds from the end of the explaining finding to the start of the explained one.
        clause: how the explained findings follow from the culprit. The report appends their titles after a colon.
        source: the mechanism behind the relation, usually with its class in Flink, Spark or the connector.
    """

    name: str
    causes: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    explain: tuple[str, ...]
    same_cause: bool = False
    only: tuple[str, ...] = ()
    symptoms: bool = False
    shared: SharedProperty = SharedProperty.JOB
    replaces: tuple[str, ...] = ()
    within_s: int = 120
    clause: str
    source: str


SAME: Final = "same-problem"
"""The relation between findings of two rules that detect the same problem."""

_SLOW: Final = (
    "data-skew",
    "slow-subtask",
    "slow-operator",
    "slow-taskmanager",
    "slow-sync-snapshot",
    "task-hangs",
    "network-memory",
    "slow-network",
    "garbage-collection",
    "process-paused",
    "database-lock",
    "write-stall",
    "slow-local-disk",
    "block-cache-too-small",
    "slow-async-state",
)
_LATE: Final = (
    *_SLOW,
    "slow-async-snapshot",
    "slow-checkpoint-storage",
    "slow-metadata-writes",
    "checkpoint-lock-held",
    "jobmanager-stalled",
)
_LATE_BARRIERS: Final = ("CP101", "CP102", "CP104", "CP105", "CP106", "CP203")
_RESTARTS: Final = ("CP311", "ST101", "ST102")
# Causes of failed tasks that may follow from a lost TaskManager.
_OF_LOSS: Final = (
    "task-failure",
    "taskmanager-lost",
    "service-unreachable",
    "network",
    "task-hangs",
)
_SLOW_BATCHES: Final = (
    "data-skew",
    "skewed-state",
    "few-tasks",
    "stragglers",
    "slow-executor",
    "executor-lost",
    "blocks-lost",
    "slow-kafka",
    "offsets-out-of-range",
    "slow-metadata-writes",
    "gc-pressure",
    "shuffle-fetch",
    "spill",
    "driver-gaps",
    "slow-python-code",
    "slow-source",
    "slow-output",
    "slow-state-commits",
    "slow-state-access",
    "state-reloaded",
    "growing-state",
    "fixed-cost",
    "hanging-batch",
    "rate-floor",
    "unlimited-first-batch",
    "unheeded-rate",
    "concurrent-jobs",
    "starved-query",
    "generation-lag",
)

# The first matching row counts, so specific rows come before general ones.
RELATIONS: Final = (
    Relation(
        name=SAME,
        rules=("SK101", "SK102", "BP102", "BP104", "CP201", "CP202", "CP306"),
        explain=("CP201", "CP202", "CP306", "SK103", "SK105", "BP102", "BP104"),
        same_cause=True,
        shared=SharedProperty.SUBJECT,
        clause="other findings with the same cause",
        source="one problem in metrics and in acknowledgements",
    ),
    Relation(
        name=SAME,
        rules=("CP301", "ST105"),
        causes=("deployment-failed",),
        explain=("MM305",),
        same_cause=True,
        clause="events report the same problem",
        source="the operator writes an error to the status, its log and an event (EventRecorder 1.13)",
    ),
    Relation(
        name=SAME,
        rules=("CP303",),
        explain=("CP314",),
        same_cause=True,
        clause="other findings with the same cause",
        source="all threads of a process share its memory: each logs its own error",
    ),
    Relation(
        name=SAME,
        rules=("ST103",),
        explain=("CP314",),
        same_cause=True,
        clause="other findings with the same cause",
        source="the REST handler logs the exception that ended the job once more (JarRunHandler)",
    ),
    Relation(
        name="slow-process",
        causes=("garbage-collection", "slow-taskmanager", "out-of-memory", "process-paused"),
        explain=("SK102", "SK105", "BP102", "BP104", "CP201", "CP202", "CP306"),
        shared=SharedProperty.MACHINE,
        clause="its tasks are slow",
        source="a pause of the JVM stops all its tasks",
    ),
    Relation(
        name="back-pressure",
        causes=(*_SLOW, "checkpoint-lock-held"),
        explain=("BP101", "BP103", "BP203", "BP204", "SK103", "SK106"),
        clause="its input queues fill up, and upstream tasks wait",
        source="credit-based flow control: no credit without a free buffer",
    ),
    Relation(
        name="line-of-code",
        rules=("BP102", "BP104", "CP201"),
        explain=("BP107",),
        shared=SharedProperty.SUBJECT,
        replaces=("slow-operator", "slow-subtask"),
        clause="thread dumps show the responsible line of code",
        source="thread dumps of TaskManagers: ThreadInfo of each task thread",
    ),
    Relation(
        name="back-pressure",
        rules=("BP107",),
        explain=("BP101", "BP103", *_LATE_BARRIERS),
        clause="upstream tasks and barriers wait",
        source="a thread that waits for a lock processes neither records nor barriers",
    ),
    Relation(
        name="sink-waits",
        causes=("database-lock",),
        explain=("BP102", "BP104", "BP105", "CP201", "CP202", "CP306"),
        clause="the sink waits for it",
        source="JdbcWriter flushes in the task's thread, or holds its lock",
    ),
    Relation(
        name="sink-waits",
        causes=("slow-kafka", "kafka-timeout", "too-few-replicas"),
        rules=("CP301",),
        explain=("BP101", "BP102", "BP103", "BP107", "IO101"),
        clause="the sink waits for Kafka before it fails",
        source="KafkaProducer.send waits for memory, at most max.block.ms",
    ),
    Relation(
        name="sink-waits",
        rules=("IO203",),
        explain=("BP102", "BP104", "BP105", "BP107", "CP201", "CP202", "CP306", "IO101"),
        clause="the sink waits for it",
        source="JdbcWriter and KafkaWriter write in the task's thread",
    ),
    Relation(
        name="back-pressure",
        rules=("IO203",),
        explain=(*("BP101", "BP103", "BP203", "BP204", "SK103", "SK106"), *_LATE_BARRIERS),
        clause="upstream tasks and barriers wait",
        source="credit-based flow control: no credit without a free buffer",
    ),
    Relation(
        name="rescales",
        rules=("ST401",),
        explain=("CP302",),
        only=("taskmanager-lost",),
        clause="it rescales whenever a TaskManager leaves or comes back",
        source="AdaptiveScheduler: Executing reacts to lost and to new slots",
    ),
    Relation(
        name="watermark",
        causes=("stuck-watermark",),
        explain=("BP106",),
        clause="its event times fall behind",
        source="currentEmitEventTimeLag of a source counts the split that has no new records",
    ),
    Relation(
        name="broker-unreachable",
        rules=("IO202",),
        causes=("wrong-advertised-listeners",),
        explain=("CP301", "CP310", "IO101", *_RESTARTS),
        clause="clients wait for the broker until they time out",
        source="NetworkClient connects to the nodes in the metadata of the cluster",
    ),
    Relation(
        name="broker-unreachable",
        rules=("IO202",),
        causes=("kafka-timeout",),
        explain=("IO101", "IO106"),
        clause="clients wait for the broker until they time out",
        source="NetworkClient closes a connection after request.timeout.ms without a response",
    ),
    Relation(
        name="storage-slow",
        rules=("CP306",),
        causes=("slow-checkpoint-storage",),
        explain=("CP201", "CP202", "CP106"),
        clause="the asynchronous parts of snapshots wait for it",
        source="AsyncCheckpointRunnable closes the stream of the file system",
    ),
    Relation(
        name="sink-waits",
        causes=("database-deadlock",),
        rules=("IO204", "CP301"),
        explain=(
            "BP101",
            "BP102",
            "BP103",
            "BP104",
            "BP107",
            "CP201",
            "CP202",
            "IO101",
            "IO201",
            "IO203",
            "SK101",
        ),
        clause="the sink waits for locks until the database ends its transaction",
        source="a subtask whose transactions are repeated writes fewer records than its siblings",
    ),
    Relation(
        name="records-refused",
        rules=("IO204",),
        explain=("CP301",),
        same_cause=True,
        clause="the sink fails",
        source="JdbcOutputFormat throws the driver's exception after its retries",
    ),
    Relation(
        name="records-refused",
        rules=("IO205",),
        explain=("CP301", "IO101", *_RESTARTS),
        clause="records expire in the producer, and the sink fails",
        source="Sender repeats the batch until delivery.timeout.ms",
    ),
    Relation(
        name="state-slow",
        causes=("write-stall", "block-cache-too-small", "slow-async-state"),
        explain=("BP102", "BP104", "BP107", "CP201", "CP202", "CP306", "MM303", "IO302"),
        clause="the task waits for its state",
        source="RocksDBKeyedStateBackend accesses RocksDB in the thread of the task",
    ),
    Relation(
        name="state-slow",
        causes=("slow-local-disk",),
        explain=("IO301", "BP102", "BP104", "BP107", "CP201", "CP202", "CP306", "MM303"),
        clause="the task waits for flushes to the disk",
        source="RocksDB's Checkpoint flushes the write buffers in the synchronous part of a snapshot (RocksDBSnapshotStrategyBase)",
    ),
    Relation(
        name="disk-fails",
        causes=("local-disk-fails",),
        explain=("CP301", "CP103", "IO301", "BP102", "BP104", *_RESTARTS),
        clause="the task cannot write its state",
        source="RocksDB's ErrorHandler stops writes after a background error",
    ),
    Relation(
        name="state-grows",
        causes=("unbounded-state", "unbounded-timers", "stale-state-files", "multiplied-state"),
        explain=("CP105", "IO301", "IO302"),
        clause="the state grows",
        source="RocksDBProperty.EstimateNumKeys; RocksDBKeyedStateBackend has one column family per state",
    ),
    Relation(
        name="heap-fills",
        causes=("state-fills-heap",),
        explain=("SK104", "MM304", "CP105", "CP302", "CP303", "BP102", "BP104", "CP201"),
        clause="the heap fills up",
        source="HeapKeyedStateBackend keeps each entry as objects",
    ),
    Relation(
        name="lag-grows",
        causes=(*_SLOW, "checkpoint-lock-held", "hot-partition", "too-few-partitions"),
        explain=("IO101", "IO102"),
        clause="the source is read more slowly than records arrive",
        source="SourceReaderBase polls no records while its element queue is full",
    ),
    Relation(
        name="state-memory",
        causes=("slow-operator", "slow-subtask", "slow-taskmanager"),
        explain=("MM303",),
        clause="its state is in RocksDB",
        source="each state access of RocksDBKeyedStateBackend reads the block cache, or a file on a cache miss",
    ),
    Relation(
        name="late-barriers",
        causes=_LATE,
        explain=_LATE_BARRIERS,
        clause="barriers and acknowledgements are late",
        source="CheckpointCoordinator completes a checkpoint with the last acknowledgement",
    ),
    Relation(
        name="late-barriers",
        # The subtask that delays the checkpoints, even if no input shows why.
        rules=("CP201",),
        without=("snapshot-exception",),
        explain=_LATE_BARRIERS,
        clause="barriers and acknowledgements are late",
        source="CheckpointCoordinator completes a checkpoint with the last acknowledgement",
    ),
    Relation(
        name="checkpoint-lost",
        # Tasks decline failed snapshots at once, so no checkpoint expires.
        rules=("CP301",),
        causes=("snapshot-exception",),
        explain=("CP103", "CP106", "CP107"),
        clause="checkpoints in progress fail with the task",
        source="CheckpointFailureManager and the failed task's decline",
    ),
    Relation(
        name="checkpoint-lost",
        rules=("CP301", "CP302", "CP303", "CP308", "CP310"),
        without=("snapshot-exception",),
        explain=("CP101", "CP103", "CP106", "CP107"),
        clause="checkpoints in progress fail with the task",
        source="CheckpointFailureManager and the failed task's decline",
    ),
    Relation(
        name="storage-fails",
        causes=("storage-failure",),
        rules=("CP312",),
        explain=("CP201", "CP202"),
        only=("slow-async-snapshot",),
        clause="the asynchronous parts of snapshots repeat their requests to it",
        source="S3A and Presto repeat throttled requests before they throw an exception",
    ),
    Relation(
        name="storage-fails",
        causes=("storage-failure", "checkpoint-directory-shared"),
        rules=("CP312",),
        explain=("CP101", "CP103", "CP106", "CP107", "CP301", "CP304", *_RESTARTS),
        clause="checkpoints fail for this reason",
        source="an exception of the storage declines the checkpoint",
    ),
    Relation(
        name="where-time-goes",
        rules=("CP101", "CP104", "CP106"),
        explain=("CP102", "CP203"),
        clause="this part takes most of the checkpoint time",
        source="start delay, alignment, snapshot and acknowledgement of CheckpointStats",
    ),
    Relation(
        name="tolerance-exceeded",
        rules=("CP101", "CP103"),
        explain=("CP304",),
        clause="too many failed checkpoints fail the job",
        source="execution.checkpointing.tolerable-failed-checkpoints, CheckpointFailureManager",
    ),
    Relation(
        name="job-failed",
        rules=("CP304",),
        explain=("CP301", *_RESTARTS),
        clause="the job fails for this reason and restarts",
        source="CheckpointFailureManager.FailJobCallback",
    ),
    Relation(
        name="process-lost",
        causes=("out-of-memory", "garbage-collection", "process-paused", "network"),
        rules=("MM304", "CP302", "CP303", "SK104"),
        explain=("CP302", "CP303", "MM304", "SK104"),
        shared=SharedProperty.MACHINE,
        clause="other processes lose the connection to it",
        source="HeartbeatManagerImpl, heartbeat.timeout",
    ),
    Relation(
        name="process-lost",
        causes=("taskmanager-lost",),
        rules=("MM305",),
        explain=("CP302",),
        shared=SharedProperty.MACHINE,
        clause="other processes lose the connection to it",
        source="the kubelet ends the pod's containers; heartbeat.timeout",
    ),
    Relation(
        name="process-silent",
        causes=(
            *("taskmanager-lost", "worker-failed", "out-of-memory", "garbage-collection"),
            *("process-paused", "network"),
        ),
        explain=("ST306",),
        shared=SharedProperty.MACHINE,
        clause="calls to it get no response",
        source="a process that ended or is paused answers no RPC call: AskTimeoutException after pekko.ask.timeout",
    ),
    Relation(
        name="process-lost",
        causes=("worker-failed",),
        rules=("ST202",),
        explain=("CP302",),
        clause="other processes lose the connection to it",
        source="ActiveResourceManager.onWorkerTerminated; the connection of its peers closes",
    ),
    Relation(
        name="process-lost",
        causes=("out-of-memory", "executor-lost", "driver-killed"),
        rules=("CP303", "MM305"),
        explain=("RT304", "RT311"),
        same_cause=True,
        clause="the application loses the process",
        source="ExecutorPodsLifecycleManager, TaskSchedulerImpl",
    ),
    Relation(
        name="process-ended",
        rules=("IO204", "IO205", "CP301"),
        explain=("CP302",),
        symptoms=True,
        clause="the error ends a TaskManager as well",
        source="Task.run: exception in exception handler; TaskManagerRunner.onFatalError",
    ),
    Relation(
        name="slots-missing",
        causes=("no-container", "worker-failed", "late-taskmanager", "taskmanager-lost"),
        rules=("CP302", "MM305", "SK104", "ST202", "ST203"),
        explain=("ST201", "CP301"),
        only=("not-enough-slots", *_OF_LOSS),
        clause="slots are missing as a result",
        source="NoResourceAvailableException after slot.request.timeout",
    ),
    Relation(
        name="tasks-lost",
        causes=("taskmanager-lost",),
        rules=("CP302",),
        explain=("CP301",),
        only=_OF_LOSS,
        clause="its tasks fail when the process ends, and restart elsewhere from the last checkpoint",
        source="other exceptions of restarted tasks have their own cause",
    ),
    Relation(
        name="tasks-lost",
        causes=("taskmanager-lost",),
        rules=("CP302",),
        explain=("ST301", *_RESTARTS),
        clause="its tasks fail when the process ends, and restart elsewhere from the last checkpoint",
        source="the failed region restarts from the last checkpoint",
    ),
    Relation(
        name="tasks-lost",
        causes=("out-of-memory",),
        rules=("CP303",),
        explain=("CP301", "CP302", "ST301", *_RESTARTS),
        clause="its tasks fail when the process ends, and the job restarts",
        source="Task.run, FatalExitExceptionHandler: the process ends, its region restarts",
    ),
    Relation(
        name="tasks-cannot-start",
        causes=(
            "insufficient-network-buffers",
            "not-enough-slots",
            "frame-too-large",
            "class-loading",
            "rpc-trouble",
            "wrong-memory-options",
            "deployment-failed",
            "no-container",
            "worker-failed",
        ),
        rules=("MM101", "MM201", "ST104", "ST105", "ST201", "ST202", "ST306", "ST307"),
        explain=("CP301", *_RESTARTS),
        clause="tasks fail for this reason",
        source="Task.doRun, ResultPartition.setup and the deployment's RPC",
    ),
    Relation(
        name="restarts",
        rules=("CP301", "CP303", "CP308", "CP310"),
        explain=_RESTARTS,
        clause="the job restarts after each failure",
        source="the restart strategy",
    ),
    Relation(
        name="restarts-again",
        rules=("CP301",),
        explain=("BP101", "BP102", "BP103", "BP104", "IO101", "SK103"),
        clause="between failures, tasks wait for each other and read little",
        source="a restart restores the last checkpoint, and the same record fails again",
    ),
    Relation(
        name="submission-fails",
        rules=("CP301", "CP303", "MM201", "ST201", "ST104", "ST307"),
        explain=("ST103",),
        same_cause=True,
        clause="the job does not run for this reason",
        source="the response to the submission is the job's first failure",
    ),
    Relation(
        name="restarts",
        rules=("ST102",),
        explain=("CP311", "ST101"),
        clause="the job restarts after each failure",
        source="the restart strategy",
    ),
    Relation(
        name="jobmanager-unheard",
        causes=("jobmanager-stalled", "leadership-lost", "jobmanager-lost"),
        rules=("CP302", "CP305", "ST304", "CP313"),
        explain=("CP301", "CP313", "CP302", "ST304", "ST306", *_RESTARTS),
        clause="processes that wait for the JobManager give up",
        source="heartbeat.timeout, akka.ask.timeout",
    ),
    Relation(
        name="buffers-short",
        causes=("network-memory",),
        rules=("BP202",),
        explain=("MM202",),
        clause="the buffer pools request more memory than is available",
        source="NetworkBufferPool",
    ),
    Relation(
        name="hot-partition",
        rules=("RT310",),
        explain=("RT303",),
        clause="the task that reads it takes longest",
        source="KafkaRDD has one task per topic partition",
    ),
    Relation(
        name="tasks-suffer",
        causes=("out-of-memory", "executor-lost", "slow-executor", "blocks-lost"),
        rules=("RT304",),
        explain=("RT104", "RT107", "RT303"),
        clause="its tasks fail or take longer",
        source="SparkListenerExecutorRemoved, SparkListenerTaskEnd",
    ),
    Relation(
        name="tasks-suffer",
        causes=("out-of-memory", "executor-lost", "slow-executor", "blocks-lost"),
        rules=("RT304",),
        explain=("RT103", "RT409"),
        symptoms=True,
        clause="its tasks fail or take longer",
        source="SparkListenerExecutorRemoved, SparkListenerTaskEnd",
    ),
    Relation(
        name="batches-fail",
        rules=("RT305",),
        explain=("RT103", "RT304", "RT409"),
        same_cause=True,
        clause="batches fail for this reason",
        source="KafkaDataConsumer throws in the task of the batch",
    ),
    Relation(
        name="query-waits",
        rules=("RT305",),
        explain=("RT104",),
        same_cause=True,
        clause="the query waits for it",
        source="KafkaOffsetReaderAdmin.withRetries, which MicroBatchExecution calls before each batch",
    ),
    Relation(
        name="batch-repeated",
        rules=("RT103", "RT305"),
        explain=("RT107", "RT409"),
        clause="the batch does not finish and starts again",
        source="the offset log is written before the batch, the commit log after it",
    ),
    Relation(
        name="more-state",
        causes=("growing-state",),
        explain=("RT407", "RT414"),
        clause="each trigger has more state to commit",
        source="stateOperators of StreamingQueryProgress",
    ),
    Relation(
        name="slow-output-of-batch",
        causes=("fixed-cost", "slow-output"),
        explain=("RT309", "RT306"),
        clause="the output takes a long time regardless of the batch size",
        source="SparkListenerJobEnd per output operation",
    ),
    Relation(
        name="sink-waits",
        rules=("RT316",),
        explain=("RT104", "RT303", "RT308", "RT315"),
        clause="batches wait for it",
        source="JdbcUtils.savePartition inserts in the task's thread",
    ),
    Relation(
        name="sink-waits",
        causes=("kafka-timeout",),
        rules=("RT305",),
        explain=("RT101", "RT104", "RT303", "RT306"),
        clause="batches wait for it",
        source="KafkaDataConsumer polls in the task's thread",
    ),
    Relation(
        name="line-of-code",
        rules=("RT104", "RT308", "RT314", "RT409"),
        explain=("RT315",),
        replaces=("hanging-batch", "driver-gaps", "slow-python-code"),
        clause="thread dumps show the responsible line of code",
        source="thread dumps of driver and executors: ThreadStackTrace of Spark's REST API",
    ),
    Relation(
        name="batches-wait",
        rules=("RT315", "RT316"),
        explain=("RT101", "RT106", "RT203", "RT306", "RT309", "RT407"),
        clause="batches take longer than the interval, and later batches wait",
        source="JobScheduler runs one batch after the other; MicroBatchExecution",
    ),
    Relation(
        name="batches-wait",
        causes=_SLOW_BATCHES,
        explain=("RT101", "RT106", "RT203", "RT407"),
        clause="batches take longer than the interval, and later batches wait",
        source="JobScheduler runs one batch after the other; MicroBatchExecution",
    ),
    Relation(
        name="nothing-runs",
        causes=("no-core-left",),
        explain=("RT101", "RT104", "RT106", "RT305", "RT306"),
        clause="all batches wait, because none can run",
        source="a receiver is a task that never ends; TaskSchedulerImpl",
    ),
    Relation(
        name="rate-held-back",
        causes=("unstable-gains", "skewed-receiver"),
        explain=("RT101", "RT106", "RT203"),
        clause="the rate falls as a result",
        source="PIDRateEstimator, RateController",
    ),
    Relation(
        name="seen-with",
        causes=("overloaded", "throttled", "max-rate"),
        explain=("RT106", "RT306"),
        only=("overloaded",),
        clause="seen at the same time",
        source="few tasks or low headroom do not explain an overload",
    ),
)
