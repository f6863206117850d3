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


CAUSE_OF_FAILURE: Final = {
    "user-code": "task-failure",
    "unknown": "task-failure",
    "snapshot": "snapshot-exception",
    "no-resource": "not-enough-slots",
    "network-buffers": "insufficient-network-buffers",
    "taskmanager-lost": "taskmanager-lost",
    "out-of-memory": "out-of-memory",
    "task-stuck": "task-hangs",
}
"""The word for a kind of failure (`flink.crises.kind_of`)."""

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
    "taskmanager-lost": Cause(
        meaning="a TaskManager died, or could not be reached",
        remedies={
            "how-it-ended": Remedy(
                text="See how its process or container ended: exit code, OOMKilled, preemption, a crash "
                "(hs_err)"
            ),
            "its-log": Remedy(
                text="Give that TaskManager's log and GC log too: they tell a pause from a broken network"
            ),
        },
    ),
    "lost-transactions": Cause(
        meaning="transactions of a sink timed out or were fenced before they were committed"
    ),
    "jobmanager-stalled": Cause(meaning="the JobManager itself stood still"),
    "out-of-memory": Cause(meaning="a process ran out of memory, or was killed for using too much"),
    "insufficient-network-buffers": Cause(
        meaning="too few network buffers for the job's channels",
        explanation="Every gate and every result partition takes its required buffers when its task is "
        "deployed; the task that comes last fails, so that the failed task says nothing about the "
        "cause.",
        remedies={
            "enough": Remedy(
                text="The smallest network memory that is enough for any placement of this job{also}",
                restart_needed=True,
            ),
            "fewer": Remedy(
                text="Fewer buffers per job: less parallelism, fewer all-to-all exchanges, or chained "
                "operators"
            ),
            "at-least": Remedy(
                text="Raise the network memory; at least this much, since tasks that come later are not "
                "counted yet (give the plan, /jobs/:id/plan, for the exact number)",
                restart_needed=True,
            ),
        },
    ),
    "network-memory": Cause(
        meaning="network memory leaves pools of buffers little above their minimum",
        explanation="Pools that want more share what is left above their minimum. A pool that is empty "
        "makes its task wait for as long as one buffer takes.",
        remedies={
            "more": Remedy(
                text="Give TaskManagers more network memory; `flowdiag memory` counts what the job needs",
                option="network-max",
                restart_needed=True,
                verify="RequestedMemoryUsage below 100 %",
            ),
        },
    ),
    "slow-network": Cause(
        meaning="what is between two tasks is slow, not the tasks",
        explanation="Neither end is slow: what is between them is, or records come in bursts that a "
        "buffer does not hold.",
        remedies={
            "measure": Remedy(
                text="Measure the network between these TaskManagers: bandwidth, retransmissions, limits "
                "of the container or of the link"
            ),
            "records": Remedy(
                text="Look at the size of records: one larger than a buffer fills several"
            ),
        },
    ),
    "garbage-collection": Cause(
        meaning="a process spends much of its time collecting garbage",
        explanation="Its tasks stand still meanwhile; what looks like slow subtasks or late barriers may "
        "be this.",
        remedies={
            "heap": Remedy(
                text="Give its tasks more heap, keep less state on it (RocksDB), or run fewer slots in it",
                option="task-heap",
                restart_needed=True,
                verify="GarbageCollector Time grows by less than 100 ms per second",
            ),
            "memory": Remedy(
                text="flowdiag memory with the same inputs: give the heap more room, or hold less in it"
            ),
        },
    ),
    "not-enough-slots": Cause(
        meaning="fewer slots than the job needs",
        explanation="With slot sharing a job needs as many slots as its widest vertex has subtasks.",
        remedies={
            "slots": Remedy(
                text="More slots on each TaskManager (they share its memory)",
                option="slots",
                restart_needed=True,
            ),
            "taskmanagers": Remedy(text="Or more TaskManagers, or less parallelism"),
        },
    ),
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
        meaning="a job, or the cluster for it, was refused before any task was scheduled",
        explanation="No task was scheduled: the deepest cause of the stack trace is the reason.",
        remedies={
            "path": Remedy(
                text="Name a savepoint or checkpoint that exists, with its _metadata, readable by the "
                "JobManager",
                option="savepoint-path",
            ),
            "uids": Remedy(
                text="Give operators the uid that they had, or allow state to be left behind",
                option="savepoint-ignore-unclaimed",
                proposed="true",
                risk="the state of operators that are gone is lost",
            ),
            "reason": Remedy(text="Mend what the deepest cause says, then submit again"),
        },
    ),
    "class-loading": Cause(
        meaning="a class is missing, or of another version than expected",
        explanation="Every task that needs it fails, on whichever TaskManager it runs.",
        remedies={
            "missing": Remedy(
                text="Pack the class into the job's jar, or put its jar into lib/ of every process; a "
                "class that Flink provides must not be packed twice",
                restart_needed=True,
            ),
            "conflict": Remedy(
                text="Find the two versions of the library (mvn dependency:tree, and lib/), keep one or "
                "relocate it",
                restart_needed=True,
            ),
            "java": Remedy(
                text="Compile for the Java that runs the cluster, or run the cluster on a newer Java",
                restart_needed=True,
            ),
        },
    ),
    "deployment-failed": Cause(
        meaning="the Kubernetes Operator could not bring a deployment up",
        explanation="These are the operator's own audit lines.",
        remedies={
            "memory": Remedy(
                text="flowdiag memory with the same inputs says which pool, and how much more"
            ),
            "image": Remedy(text="Look at the image's name and at the secret that pulls it"),
            "quota": Remedy(text="Ask for less, or raise the quota of the namespace"),
            "high-availability": Remedy(
                text="Turn on high availability, so that a lost JobManager can be recovered"
            ),
            "events": Remedy(
                text="kubectl describe of the resource and of its pods shows the events behind it"
            ),
        },
    ),
    "frame-too-large": Cause(
        meaning="an RPC message was larger than the processes may send",
        explanation="It is dropped without an answer; whoever waits for one runs into a time-out.",
        remedies={
            "smaller": Remedy(
                text="Keep large objects out of user functions (load them in open()), and unite list "
                "state of many parts: both travel with every deployment"
            ),
        },
    ),
    "rpc-trouble": Cause(
        meaning="processes are quarantined, or calls between them get no answer",
        explanation="The RPC layer gave up; who waited for the answer fails with a time-out.",
        remedies={
            "other-side": Remedy(
                text="Look at the load, the garbage collection and the name resolution of the other side"
            ),
            "restart": Remedy(text="Restart the process that is quarantined, if it did not end"),
        },
    ),
    "process-paused": Cause(
        meaning="a process stood still for longer than its heartbeat may be away",
        remedies={
            "pause": Remedy(
                text="Look for what stops a process: the garbage collector's log (-Xlog:gc*,safepoint), "
                "swap, a throttled or paused container, a suspended machine"
            ),
        },
    ),
    "network": Cause(
        meaning="the network between two processes failed while both were alive",
        remedies={
            "between": Remedy(
                text="Look at the network between the two hosts at that time; both processes were alive"
            ),
            "host": Remedy(text="Look at that host and its network"),
        },
    ),
    "jobmanager-lost": Cause(
        meaning="TaskManagers lost their JobManager",
        explanation="Who loses its JobManager fails its tasks and registers anew.",
        remedies={
            "pause": Remedy(
                text="Look at the JobManager's garbage collection and load at that time"
            ),
        },
    ),
    "no-container": Cause(
        meaning="YARN or Kubernetes does not grant the workers that were asked for",
        explanation="{where} has not answered these requests, or the workers cannot reach the "
        "JobManager.",
        remedies={
            "ask": Remedy(
                text="Ask the cluster why: yarn application -status and the queue's free resources, or "
                "kubectl describe pod (Events); compare the size asked for with the largest allowed"
            ),
            "smaller": Remedy(
                text="Ask for smaller workers, or for fewer",
                option="process-size",
                restart_needed=True,
            ),
        },
    ),
    "worker-failed": Cause(
        meaning="a worker ended before it was known to the cluster",
        explanation="The container was granted and ended before its TaskManager was known.",
        remedies={
            "log": Remedy(text="Read the worker's own log (yarn logs, kubectl logs --previous)"),
            "memory": Remedy(
                text="Exit code 137 or 'physical memory': flowdiag memory with the same inputs"
            ),
        },
    ),
    "late-taskmanager": Cause(
        meaning="one TaskManager registered long after the others",
        explanation="The tasks are deployed when the last slot is offered.",
        remedies={
            "node": Remedy(text="Look at that node: image pull, disk, name resolution, load"),
        },
    ),
    "slow-open": Cause(
        meaning="a task takes long to open its operators",
        explanation="A task is INITIALIZING while it opens its operators and reads its state back.",
        remedies={
            "thread-dump": Remedy(
                text="Take a thread dump while it is INITIALIZING (/taskmanagers/:id/thread-dump): it "
                "shows what open() waits for"
            ),
        },
    ),
    "slow-restore": Cause(
        meaning="a task takes long to read its state back",
        explanation="A task is INITIALIZING while it opens its operators and reads its state back.",
        remedies={
            "local-recovery": Remedy(
                text="Look at the state of that subtask and at the storage it comes from; turn on local "
                "recovery",
                option="local-recovery",
                proposed="true",
                restart_needed=True,
            ),
        },
    ),
    "slow-start": Cause(
        meaning="a step of the start takes long that is a matter of seconds elsewhere",
        explanation="It is a matter of seconds where nothing is wrong.",
        remedies={  # by the name of the step
            "operator": Remedy(
                text="See the events of its pods (kubectl describe pod): image pull, quota, scheduling"
            ),
            "client": Remedy(
                text="Look at main() of the job and at what it connects to, and at the size of the jars"
            ),
            "registration": Remedy(
                text="Look at name resolution and the network between TaskManagers and JobManager"
            ),
            "cluster-allocation": Remedy(
                text="Ask YARN or Kubernetes why: queue, quota, image pull"
            ),
            "rpc": Remedy(
                text="Look at name resolution and at the load of the JobManager's machine"
            ),
            "rest": Remedy(
                text="Look at name resolution and at the ports of the JobManager's machine"
            ),
            "leadership": Remedy(
                text="Look at ZooKeeper or the Kubernetes API server: leaders are elected there"
            ),
            "submission": Remedy(
                text="Look at main() of the job, at its jars, and at the checkpoint store that is "
                "recovered"
            ),
            "resource-manager": Remedy(
                text="Look at leader changes and at the network between the components"
            ),
            "deployment": Remedy(
                text="Look at the transfer of jars (BLOB server) and at class loading on the "
                "TaskManagers"
            ),
        },
    ),
    "leadership-lost": Cause(
        meaning="a component of the JobManager lost its leadership",
        explanation="All jobs of a leader that is gone are started again by the next one.",
        remedies={
            "election": Remedy(
                text="Look at ZooKeeper or the Kubernetes API server, and at pauses of the JVM"
            ),
        },
    ),
    "wrong-memory-options": Cause(
        meaning="memory options that contradict each other or are not in effect",
        remedies={
            "one-line": Remedy(text="Keep one line"),
            "blank": Remedy(text="Write key: value, with a blank behind the colon"),
            "replace": Remedy(text="Replace it", restart_needed=True),
            "mend": Remedy(text="Mend the file, then start again", restart_needed=True),
            "unit": Remedy(
                text="Write a whole number with a unit: b, k, m, g or t, without quotes in "
                "flink-conf.yaml",
                restart_needed=True,
            ),
            "leave-out": Remedy(
                text="Leave {key} out: Flink derives it",
                proposed="(not set)",
                restart_needed=True,
            ),
            "one-total": Remedy(
                text="Keep one total only: leave {key} out",
                proposed="(not set)",
                restart_needed=True,
            ),
            "total": Remedy(
                text="{change} the total{note}",
                restart_needed=True,
                verify="flowdiag memory with the new value derives all pools",
            ),
            "source": Remedy(
                text="Find the source of the value in effect: the log's 'Loading (dynamic) "
                "configuration property' lines, FLINK_PROPERTIES, -D arguments; then restart"
            ),
            "container": Remedy(
                text="Make the container as large as the process, or the process as small",
                restart_needed=True,
            ),
        },
    ),
    "unused-memory": Cause(
        meaning="memory is set aside for what nobody uses",
        explanation="The heap state backend does not use managed memory.",
        remedies={
            "heap": Remedy(
                text="Give it to the heap{gain}",
                risk="batch jobs and Python functions in the same cluster need managed memory",
                restart_needed=True,
            ),
        },
    ),
    "unmanaged-rocksdb": Cause(
        meaning="RocksDB uses native memory without a bound, or has none to use",
        explanation="Its block cache and write buffers lie outside of the JVM and of every pool.",
        remedies={
            "bound": Remedy(
                text="Let managed memory bound it", proposed="true", restart_needed=True
            ),
            "share": Remedy(
                text="Give managed memory its share", proposed="0.4", restart_needed=True
            ),
        },
    ),
}


def explained(cause: str, **fill: str) -> str:
    """What a cause does to the job, in its own words; `fill` stands for the names in braces."""
    text = CAUSES[cause].explanation
    return text.format(**fill) if fill else text
