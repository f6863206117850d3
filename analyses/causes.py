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
        proposed: the value to try, where it does not depend on the job.
        risk: what it may cost.
        restart_needed: whether it takes effect only after a restart; None: nothing to restart.
        verify: how to see that it helped.
    """

    text: str
    option: str | None = None
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
        meaning="all subtasks of one machine are slow, those of the others are not"
    ),
    "slow-operator": Cause(meaning="all subtasks of one operator are slow"),
    "slow-subtask": Cause(meaning="one subtask needs longer per record than its siblings"),
    "task-hangs": Cause(meaning="a task makes no progress at all"),
    "slow-sync-snapshot": Cause(meaning="the synchronous part of a snapshot holds up processing"),
    "slow-async-snapshot": Cause(
        meaning="the asynchronous part of a snapshot (the upload) takes too long"
    ),
    "slow-checkpoint-storage": Cause(
        meaning="writing to the checkpoint storage is slow or throttled everywhere"
    ),
    "snapshot-exception": Cause(
        meaning="user code or the state backend throws while it takes a snapshot"
    ),
    "checkpoint-lock-held": Cause(meaning="a source does not let go of the checkpoint lock"),
    "task-failure": Cause(meaning="a task failed, and the job with it or its region"),
    "storage-failure": Cause(meaning="the storage refused what a task read or wrote"),
    "taskmanager-lost": Cause(meaning="a TaskManager died, or could not be reached"),
    "lost-transactions": Cause(
        meaning="transactions of a sink timed out or were fenced before they were committed"
    ),
    "jobmanager-stalled": Cause(meaning="the JobManager itself stood still"),
    "out-of-memory": Cause(meaning="a process ran out of memory, or was killed for using too much"),
    "insufficient-network-buffers": Cause(meaning="too few network buffers for the job's channels"),
    "network-memory": Cause(
        meaning="network memory leaves pools of buffers little above their minimum"
    ),
    "slow-network": Cause(meaning="what is between two tasks is slow, not the tasks"),
    "garbage-collection": Cause(meaning="a process spends much of its time collecting garbage"),
    "not-enough-slots": Cause(meaning="fewer slots than the job needs"),
    "finished-tasks": Cause(
        meaning="tasks that are finished or not running keep checkpoints from starting"
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
    "slow-metadata-writes": Cause(meaning="writing checkpoints or the write-ahead log takes long"),
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
