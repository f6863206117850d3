"""The causes that flowdiag convicts of: a row each, used by rules, by `explain` and by the documents.

`CAUSES` has the words of `summary.cause`: stable, new ones may be added. A remedy is one thing to do
about a cause; rules fill in places, values and the option's key for the version that was seen.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Remedy:
    """One thing to do about a cause.

    Args:
        text: what to do; names in braces are filled in by the rule (`{place}`, `{task}`).
        option: name of an option in `flink.options` (its key depends on the version), or a key of
            Spark's; None where it is no matter of an option.
        shows_current: whether the value that the option has now stands beside the advice.
        proposed: the value to try, where it does not depend on the job.
        risk: what it may cost.
        restart_needed: whether it takes effect only after a restart; None: nothing to restart.
        verify: how to see that it helped.
    """

    text: str
    option: str | None = None
    shows_current: bool = True
    proposed: str | None = None
    risk: str | None = None
    restart_needed: bool | None = None
    verify: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """One cause.

    Args:
        meaning: one clause: what is the matter.
        explanation: what it does to the job, in a sentence or two; empty where only the rule can say.
        remedies: by a name that rules call them by, in the order in which to try them.
    """

    meaning: str
    explanation: str = ""
    remedies: dict[str, Remedy] | None = None

    def remedy(self, name: str) -> Remedy:
        """The remedy of that name.

        Raises:
            KeyError: there is none.
        """
        return (self.remedies or {})[name]


CAUSES: Final[dict[str, Cause]] = {
    "data-skew": Cause(meaning="one subtask gets more data than its siblings"),
    "slow-taskmanager": Cause(
        meaning="all subtasks of one machine are slow, those of the others are not",
        remedies={
            "look-at-machine": Remedy(
                text="Look at the machine ({place}): CPU, throttling, disk, garbage collection, "
                "network, neighbours; then take it out of service",
                risk="its subtasks are restarted elsewhere",
                restart_needed=True,
                verify="the same subtasks are in time on another machine",
            ),
            "look-at-disk": Remedy(
                text="Look at the disk and the network of {place}",
                verify="asynchronous durations of a second or less per 100 MB",
            ),
        },
    ),
    "slow-operator": Cause(meaning="all subtasks of one operator are slow"),
    "slow-subtask": Cause(meaning="one subtask needs longer per record than its siblings"),
    "task-hangs": Cause(
        meaning="a task makes no progress at all",
        explanation="The job cannot be restarted before this task is gone; if it does not go, its "
        "TaskManager is killed.",
        remedies={
            "interruptible": Remedy(
                text="Make {method} interruptible, or give it a time-out",
                verify="the task is CANCELED within seconds",
            ),
            "kill-sooner": Remedy(
                text="How long Flink waits before it kills the TaskManager",
                option="cancellation-timeout",
                restart_needed=True,
            ),
        },
    ),
    "slow-sync-snapshot": Cause(meaning="the synchronous part of a snapshot holds up processing"),
    "slow-async-snapshot": Cause(
        meaning="the asynchronous part of a snapshot (the upload) takes too long"
    ),
    "slow-checkpoint-storage": Cause(
        meaning="writing to the checkpoint storage is slow or throttled everywhere",
        remedies={
            "look-at-storage": Remedy(
                text="Look at the storage's own metrics: throttled requests, latency, bandwidth",
                verify="asynchronous durations of a second or less per 100 MB",
            ),
            "fewer-files": Remedy(
                text="Write fewer, larger files",
                option="inline-threshold",
                shows_current=False,
                proposed="100kb",
                risk="larger checkpoint metadata",
                restart_needed=True,
            ),
        },
    ),
    "snapshot-exception": Cause(
        meaning="user code or the state backend throws while it takes a snapshot",
        explanation="From 1.11 an exception in the synchronous part fails the task, so the job is "
        "restarted by the next checkpoint again.",
        remedies={
            "mend": Remedy(
                text="Mend what the exception names; its trace stands in the cited records or "
                "right below",
                verify="the job runs past the record or the checkpoint that failed it",
            ),
        },
    ),
    "checkpoint-lock-held": Cause(
        meaning="a source does not let go of the checkpoint lock",
        explanation="Barriers are born at the sources. A source that holds the checkpoint lock, "
        "or whose coordinator does not answer, never emits one.",
        remedies={
            "incremental-snapshot": Remedy(
                text="If a snapshot phase is running: use the incremental snapshot that holds no "
                "lock, or wait for its end",
                verify="the first checkpoint after the snapshot phase completes",
            ),
            "more-time": Remedy(
                text="Meanwhile, give checkpoints more time and tolerate failed ones",
                option="timeout",
                restart_needed=True,
            ),
            "thread-dump": Remedy(
                text="Otherwise take a thread dump of a source's TaskManager",
            ),
        },
    ),
    "task-failure": Cause(
        meaning="a task failed, and the job with it or its region",
        explanation="Everything that was cancelled or suspended right after it is a consequence.",
        remedies={
            "mend": Remedy(
                text="Mend what the exception names; its trace stands in the cited records or "
                "right below",
                verify="the job runs past the record or the checkpoint that failed it",
            ),
            "divert": Remedy(
                text="Divert records that cannot be processed (side output) instead of throwing",
                risk="bad data goes unnoticed if nobody looks at the side output",
            ),
        },
    ),
    "storage-failure": Cause(
        meaning="the storage refused what a task read or wrote",
        explanation="Everything that was cancelled or suspended right after it is a consequence.",
        remedies={
            "mend": Remedy(
                text="Mend what the exception names; its trace stands in the cited records or "
                "right below",
                verify="the job runs past the record or the checkpoint that failed it",
            ),
        },
    ),
    "taskmanager-lost": Cause(
        meaning="a TaskManager died, or could not be reached",
        remedies={
            "find-out": Remedy(
                text="Find out why {place} went: its log's end, the pod's or container's events, "
                "dmesg on the host",
                verify="no further loss",
            ),
            "spare-slots": Remedy(
                text="Keep spare slots, so that the job restarts at once",
                option="slots",
                restart_needed=True,
                verify="free slots in the overview",
            ),
        },
    ),
    "lost-transactions": Cause(
        meaning="transactions of a sink timed out or were fenced before they were committed",
        remedies={
            "find-gap": Remedy(
                text="Find out why no checkpoint completed in that time (the other findings)",
            ),
            "longer-timeout": Remedy(
                text="Make the transaction time-out longer than the longest outage to survive, at "
                "the producer and at the broker (transaction.max.timeout.ms)",
                option="transaction.timeout.ms",
                shows_current=False,
                risk="consumers that read committed data wait longer for aborted transactions",
                restart_needed=True,
                verify="no fenced producer after a restore",
            ),
            "compare": Remedy(
                text="Compare the output with the input for the time of the gap",
            ),
        },
    ),
    "jobmanager-stalled": Cause(
        meaning="the JobManager itself stood still",
        remedies={
            "look-at-pauses": Remedy(
                text="Look at the JobManager's pauses: garbage collection log, memory, host, "
                "storage of the high-availability service",
                option="jobmanager-memory",
                shows_current=False,
                verify="no pause near the heartbeat time-out",
            ),
            "longer-heartbeat": Remedy(
                text="Only if the pauses cannot be avoided: a longer heartbeat time-out",
                option="heartbeat-timeout",
                risk="a TaskManager that is really lost is noticed later",
                restart_needed=True,
            ),
        },
    ),
    "out-of-memory": Cause(
        meaning="a process ran out of memory, or was killed for using too much",
        remedies={
            "more-task-heap": Remedy(
                text="Give that kind of memory more room",
                option="task-heap",
                risk="the process gets larger, or another pool smaller",
                restart_needed=True,
                verify="Status.JVM.Memory metrics stay below their maximum",
            ),
            "more-metaspace": Remedy(
                text="Give that kind of memory more room",
                option="metaspace",
                risk="the process gets larger, or another pool smaller",
                restart_needed=True,
                verify="Status.JVM.Memory metrics stay below their maximum",
            ),
            "more-direct": Remedy(
                text="Give that kind of memory more room",
                option="direct",
                risk="the process gets larger, or another pool smaller",
                restart_needed=True,
                verify="Status.JVM.Memory metrics stay below their maximum",
            ),
            "more-overhead": Remedy(
                text="Give that kind of memory more room",
                option="overhead",
                risk="the process gets larger, or another pool smaller",
                restart_needed=True,
                verify="Status.JVM.Memory metrics stay below their maximum",
            ),
            "more": Remedy(
                text="Give that kind of memory more room",
                risk="the process gets larger, or another pool smaller",
                restart_needed=True,
                verify="Status.JVM.Memory metrics stay below their maximum",
            ),
            "find-growth": Remedy(
                text="Look for what grows: a heap dump for the heap, the number of loaded classes "
                "for metaspace, RocksDB's block cache and iterators for the container",
            ),
        },
    ),
    "insufficient-network-buffers": Cause(
        meaning="too few network buffers for the job's channels",
        explanation="The task that fails is arbitrary: whoever asks for buffers last gets none. "
        "Count gates and result partitions per TaskManager, not tasks.",
        remedies={
            "larger-fraction": Remedy(
                text="Give the network more memory",
                option="network-fraction",
                proposed="0.2",
                risk="less managed or heap memory at the same process size",
                restart_needed=True,
                verify="the number of memory segments in 'Allocated … MB for network buffer pool'",
            ),
            "larger-maximum": Remedy(
                text="Raise its upper bound too, if it is the one that holds",
                option="network-max",
                shows_current=False,
                restart_needed=True,
            ),
        },
    ),
    "network-memory": Cause(
        meaning="network memory leaves pools of buffers little above their minimum"
    ),
    "slow-network": Cause(meaning="what is between two tasks is slow, not the tasks"),
    "garbage-collection": Cause(meaning="a process spends much of its time collecting garbage"),
    "not-enough-slots": Cause(
        meaning="fewer slots than the job needs",
        explanation="The job needs more slots than are registered. Nothing before it in the input "
        "explains why.",
        remedies={
            "more-slots": Remedy(
                text="Start more TaskManagers, or more slots on each",
                option="slots",
                restart_needed=True,
                verify="free slots at least the largest parallelism of a slot sharing group",
            ),
        },
    ),
    "finished-tasks": Cause(
        meaning="tasks that are finished or not running keep checkpoints from starting",
        explanation="No checkpoint has been taken since. Sources that have finished keep all "
        "others from being checkpointed up to 1.13, and later if the option is off.",
        remedies={
            "let-them-finish": Remedy(
                text="Let checkpoints go on when tasks have finished",
                option="after-finish",
                proposed="true",
                restart_needed=True,
                verify="'Triggering checkpoint' follows",
            ),
            "keep-running": Remedy(
                text="Keep every source subtask running: no more subtasks than partitions, and no "
                "bounded source beside unbounded ones (checkpoints with finished tasks need 1.14)",
                restart_needed=True,
            ),
        },
    ),
    "checkpointing-disabled": Cause(meaning="the job runs without checkpoints"),
    "overloaded": Cause(meaning="more data comes in than the job can process"),
    "throttled": Cause(meaning="back pressure holds the source back to what the job can process"),
    "rate-floor": Cause(meaning="back pressure may not go as low as it would have to (`minRate`)"),
    "fixed-cost": Cause(
        meaning="a batch costs about an interval whatever it holds: lower rates cannot help"
    ),
    "max-rate": Cause(meaning="a fixed limit lets through less than comes in"),
    "unstable-gains": Cause(meaning="the gains of the rate estimator make the rate swing"),
    "unheeded-rate": Cause(meaning="back pressure is on, and receivers take what they like"),
    "unlimited-first-batch": Cause(meaning="nothing limits a batch before the first estimate"),
    "skewed-receiver": Cause(meaning="one receiver brings most of the records"),
    "receiver-restarts": Cause(meaning="a receiver stops and is started again and again"),
    "failing-batches": Cause(meaning="output operations or runs of a query fail"),
    "hanging-batch": Cause(meaning="a batch makes no progress at all"),
    "generation-lag": Cause(meaning="the driver is late to make the jobs of batches"),
    "slow-executor": Cause(meaning="tasks of the same stages take longer on one executor"),
    "stragglers": Cause(meaning="single tasks take much longer than others with as many records"),
    "executor-lost": Cause(meaning="an executor died or was taken away"),
    "slow-kafka": Cause(meaning="polls of Kafka time out"),
    "offsets-out-of-range": Cause(meaning="records were deleted in Kafka before they were read"),
    "slow-metadata-writes": Cause(
        meaning="writing checkpoints or the write-ahead log takes long",
        explanation="All subtasks had acknowledged by then. The time goes into writing the "
        "metadata, or into a JobManager that is busy.",
        remedies={
            "look-at-storage": Remedy(
                text="Measure the latency of the checkpoint storage from the JobManager's host; "
                "look at the size of the _metadata file",
                verify="finalizationTime of a second or less",
            ),
            "less-in-line": Remedy(
                text="Keep less state in the metadata itself",
                option="inline-threshold",
                shows_current=False,
                risk="more small files",
                restart_needed=True,
            ),
        },
    ),
    "blocks-lost": Cause(
        meaning="blocks of receivers were lost with their executor before they were processed"
    ),
    "concurrent-jobs": Cause(
        meaning="batches run side by side and overtake each other, and the estimator misses them"
    ),
    "driver-gaps": Cause(meaning="the driver works while no job runs"),
    "few-tasks": Cause(meaning="batches use fewer tasks than there are cores"),
    "slow-output": Cause(meaning="one output operation takes most of the batches"),
    "growing-state": Cause(meaning="the state of a query grows by every trigger and never shrinks"),
    "slow-state-commits": Cause(
        meaning="triggers spend their time on commits of state or of metadata"
    ),
    "lagging-watermark": Cause(
        meaning="the watermark of a query falls further and further behind its rows"
    ),
    "late-rows": Cause(meaning="rows come later than the watermark of a query allows"),
    "stuck-watermark": Cause(meaning="the watermark of a query does not advance"),
    "submission-failed": Cause(
        meaning="a job, or the cluster for it, was refused before any task was scheduled"
    ),
    "class-loading": Cause(meaning="a class is missing, or of another version than expected"),
    "deployment-failed": Cause(meaning="the Kubernetes Operator could not bring a deployment up"),
    "frame-too-large": Cause(meaning="an RPC message was larger than the processes may send"),
    "rpc-trouble": Cause(meaning="processes are quarantined, or calls between them get no answer"),
    "process-paused": Cause(
        meaning="a process stood still for longer than its heartbeat may be away"
    ),
    "network": Cause(meaning="the network between two processes failed while both were alive"),
    "jobmanager-lost": Cause(meaning="TaskManagers lost their JobManager"),
    "no-container": Cause(
        meaning="YARN or Kubernetes does not grant the workers that were asked for"
    ),
    "worker-failed": Cause(meaning="a worker ended before it was known to the cluster"),
    "late-taskmanager": Cause(meaning="one TaskManager registered long after the others"),
    "slow-open": Cause(meaning="a task takes long to open its operators"),
    "slow-restore": Cause(meaning="a task takes long to read its state back"),
    "slow-start": Cause(
        meaning="a step of the start takes long that is a matter of seconds elsewhere"
    ),
    "leadership-lost": Cause(meaning="a component of the JobManager lost its leadership"),
    "wrong-memory-options": Cause(
        meaning="memory options that contradict each other or are not in effect"
    ),
    "unused-memory": Cause(meaning="memory is set aside for what nobody uses"),
    "unmanaged-rocksdb": Cause(
        meaning="RocksDB uses native memory without a bound, or has none to use"
    ),
}
