"""The causes that flowdiag convicts of: a row each, used by rules, by `explain` and by the documents.

`CAUSES` has the words of `summary.cause`: stable, new ones may be added. A remedy is one thing to do
about a cause; rules fill in places, values and the option's key for the version that was seen.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Literal

from flowdiag.analyses.knowledge.option_types import Value


@dataclass(frozen=True, slots=True, kw_only=True)
class Remedy:
    """One thing to do about a cause.

    Args:
        text: what to do; names in braces are filled in by the rule (`{place}`, `{task}`).
        option: name of an option in `flink.options` (its key depends on the version), or a key of
            Spark's; None where it is no matter of an option.
        shows_current: whether the value that the option has now stands beside the advice.
        only: `more` or `less`: the value that is proposed only helps who has less, or more, now.
        proposed: the value to try, where it does not depend on the job; milliseconds, bytes, …
        unset: whether the option is to be taken out of the configuration.
        measure: what to measure first, where no input tells what value would do.
        needs: names of `conditions.CONDITIONS`: where one does not hold, this is no remedy.
        command: of flowdiag, that sees more of this fault in the same inputs.
        only_for: `flink` or `spark`, where neither the option nor the command says so.
        risk: what it may cost.
        restart_needed: whether it takes effect only after a restart; None: nothing to restart.
        verify: how to see that it helped.
    """

    text: str
    option: str | None = None
    shows_current: bool = True
    only: Literal["more", "less"] | None = None
    proposed: Value | None = None
    unset: bool = False
    measure: str | None = None
    needs: tuple[str, ...] = ()
    command: str | None = None
    only_for: Literal["flink", "spark"] | None = None
    risk: str | None = None
    restart_needed: bool | None = None
    verify: str | None = None

    @property
    def engine(self) -> str | None:
        """Whose remedy it is: options of Flink have names here, no keys; None: of both."""
        if self.only_for is not None:
            return self.only_for
        if self.command is not None or (self.option is not None and "." not in self.option):
            return "flink"
        return "spark" if (self.option or "").startswith("spark.") else None


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

CAUSE_OF_CLASS: Final[dict[str, tuple[str, tuple[str, ...]]]] = {
    "metaspace-full": ("out-of-memory", ("more", "spark-overhead")),
    "direct-memory-full": ("out-of-memory", ("more", "spark-overhead")),
    "threads-used-up": ("out-of-memory", ("more", "spark-overhead")),
    "native-memory-full": ("out-of-memory", ("spare-room", "spark-overhead")),
    "jvm-crashed": ("jvm-crashed", ()),
    "heap-full": ("out-of-memory", ("more", "spark-heap")),
    "container-killed": ("out-of-memory", ("more", "spark-overhead")),
    "memory-full": ("out-of-memory", ("more", "spark-heap")),
    "network-buffers": ("insufficient-network-buffers", ("count",)),
    "not-enough-slots": ("not-enough-slots", ("more-slots", "slots")),
    "jobmanager-lost": ("jobmanager-lost", ("pause",)),
    "leadership-lost": ("leadership-lost", ()),
    "taskmanager-lost": ("taskmanager-lost", ()),
    "executor-lost": ("executor-lost", ("reason",)),
    "fenced-transaction": ("fenced-transaction", ()),
    "kafka-denied": ("kafka-denied", ()),
    "kafka-timeout": ("kafka-timeout", ()),
    "offsets-gone": ("offsets-out-of-range", ("retention",)),
    "offsets-went-back": ("offsets-went-back", ()),
    "storage-full": ("storage-failure", ("full",)),
    "storage-denied": ("storage-failure", ("denied",)),
    "storage-throttled": ("storage-failure", ("throttled",)),
    "file-missing": ("storage-failure", ("missing",)),
    "storage-failure": ("storage-failure", ("mend",)),
    "service-unreachable": ("service-unreachable", ()),
    "connections-used-up": ("no-connection-left", ()),
    "serializer-changed": ("state-incompatible", ()),
    "state-has-no-operator": ("state-without-operator", ()),
    "state-store-broken": ("state-store-broken", ()),
    "restore-failed": ("restore-failed", ()),
    "savepoint-failed": ("savepoint-failed", ()),
    "snapshot-failed": ("snapshot-exception", ()),
    "two-writers": ("two-writers", ()),
    "schema-changed": ("schema-changed", ()),
    "checkpoint-changed": ("query-changed", ()),
    "frame-too-large": ("frame-too-large", ()),
    "class-loading": ("class-loading", ("missing", "conflict")),  # `flink.linkage` tells which
    "invalid-sql": ("invalid-sql", ()),
    "invalid-options": ("invalid-options", ()),
    "unreadable-record": ("unreadable-record", ()),
    "log-position-lost": ("log-position-lost", ()),
    "slot-in-use": ("slot-in-use", ()),
    "transaction-too-long": ("transaction-too-long", ()),
    "not-serializable": ("not-serializable", ()),
    "submission-failed": ("submission-failed", ("reason",)),
    "deployment-failed": ("deployment-failed", ("events",)),
    "restore-by-hand": ("deployment-failed", ("by-hand",)),
    "task-stuck": ("task-hangs", ("timeout", "kill-sooner")),
    "rpc-timeout": ("rpc-trouble", ("other-side",)),
    "coordinator-failed": ("coordinator-failed", ()),
    "restarts-used-up": ("restarts-used-up", ()),
    "fetch-failed": ("shuffle-fetch", ()),
    "result-too-large": ("result-too-large", ()),
}
"""The word for a class of exceptions (`parsers.exceptions`), and those of its remedies that fit; all if none
is named. Classes that are missing have no word of their own."""


def cause_of_class(name: str | None, otherwise: str) -> tuple[str, tuple[str, ...]]:
    """The word for a class of exceptions, and the remedies that fit it.

    >>> cause_of_class("storage-full", "task-failure"), cause_of_class(None, "task-failure")
    (('storage-failure', ('full',)), ('task-failure', ()))
    """
    return CAUSE_OF_CLASS.get(name or "", (otherwise, ()))


SHARED: Final[dict[str, Remedy]] = {
    "overtake": Remedy(
        text="Meanwhile, let barriers overtake the data that waits before it",
        option="unaligned",
        proposed=True,
        risk="checkpoints carry in-flight data; no help against slow snapshots",
        restart_needed=True,
        verify="checkpoints complete while the subtask stays busy",
    ),
    "overtake-if-it-works": Remedy(
        text="If what the barriers wait for goes on taking records in, let them overtake the data before it",
        option="unaligned",
        proposed=True,
        risk="checkpoints carry in-flight data; no help against slow snapshots and hangs",
        restart_needed=True,
        verify="checkpoints complete under back pressure",
    ),
    "debloat": Remedy(
        text="Keep less data in flight: let Flink shrink the buffers to what is consumed in a second",
        option="debloat",
        proposed=True,
        risk="no more throughput; tune the floating buffers above a parallelism of 200",
        restart_needed=True,
        verify="alignment and start delay fall, busy times stay",
    ),
    "incremental": Remedy(
        text="Write only what changed since the checkpoint before",
        option="incremental",
        proposed=True,
        needs=("incremental-backend", "much-state"),
        risk="restoring takes longer",
        restart_needed=True,
        verify="checkpointed bytes fall well below the full size",
    ),
    "more-time": Remedy(
        text="Raise the timeout only if what is slow is slow for a good reason",
        only="more",
        option="timeout",
        risk="a failure throws the job back further",
        measure="how long the slowest subtask takes until it acknowledges",
        restart_needed=True,
        verify="checkpoints complete, however late",
    ),
    "pause": Remedy(
        text="Guarantee time for work between checkpoints",
        only="more",
        option="min-pause",
        measure="how long the job needs to catch up after a checkpoint",
        restart_needed=True,
        verify="gaps between the end of a checkpoint and the next trigger",
    ),
    "tolerate": Remedy(
        text="Let single checkpoints fail without failing the job",
        only="more",
        option="tolerable",
        proposed=3,
        risk="a job that completes no checkpoint goes unnoticed for longer",
        restart_needed=True,
        verify="the job survives a failed checkpoint",
    ),
    "switch-on": Remedy(
        text="Switch periodic checkpoints on, if the job has state",
        option="interval",
        proposed=60_000,
        restart_needed=True,
        verify="the JobManager logs 'Triggering checkpoint'",
    ),
    "back-off": Remedy(
        text="Wait longer between restarts while failures last",
        option="restart-strategy",
        proposed="exponential-delay",
        restart_needed=True,
        verify="fewer failures per hour",
    ),
    "count-buffers": Remedy(
        text="Give the network the buffers that the job needs: flowdiag memory counts them",
        command="memory",
        restart_needed=True,
        verify="no task fails for want of buffers",
    ),
    "size-memory": Remedy(
        text="Give that kind of memory more room: flowdiag memory says which option, how much, and what "
        "it takes from the other pools",
        command="memory",
        restart_needed=True,
        verify="Status.JVM.Memory metrics stay below their maximum",
    ),
}
"""Remedies that several causes, or symptoms of any cause, have in common: one wording in every command."""


def _more(option: str) -> Remedy:
    """More of the memory that an option sizes."""
    return replace(
        SHARED["size-memory"],
        option=option,
        measure="flowdiag memory with the same inputs: it derives the pools, and what is left of each",
    )


_THREAD_DUMP: Final = Remedy(
    only_for="flink",
    text="Take a thread dump of the TaskManager ({place}) and look for this task's thread",
    verify="the thread is no longer in the same method every time",
)


CAUSES: Final[dict[str, Cause]] = {
    "kafka-timeout": Cause(
        meaning="Kafka does not answer in time, or cannot be reached",
        explanation="The client waited for a broker, its metadata or an acknowledgement in vain.",
        remedies={
            "reach": Remedy(
                text="See whether every broker, by the name that it advertises, can be reached from the "
                "hosts of the job, whether the topic exists, and what the brokers are busy with",
                verify="a console consumer on such a host reads the topic",
            ),
        },
    ),
    "kafka-denied": Cause(
        meaning="Kafka denies access to a topic, a group or a transactional id",
        remedies={
            "allow": Remedy(
                text="Give the job's principal the right that is named (topic, group, transactional id), "
                "or mend its credentials",
                verify="a console client with the same credentials gets access",
            ),
        },
    ),
    "fenced-transaction": Cause(
        meaning="a transaction was fenced by another producer, or had ended already",
        explanation="Two producers with one transactional id, or a transaction that was open for longer "
        "than the broker allows.",
        remedies={
            "one-prefix": Remedy(
                text="Give every job a prefix of transactional ids of its own, and see that no older run "
                "of this one is alive",
                verify="no further fencing",
            ),
            "longer": Remedy(
                text="If no other producer runs: make transactions live longer than the longest outage, at "
                "the producer and at the broker (transaction.max.timeout.ms)",
                option="transaction.timeout.ms",
                shows_current=False,
                measure="the longest time without a completed checkpoint that has to be survived",
                restart_needed=True,
            ),
        },
    ),
    "offsets-went-back": Cause(
        meaning="a topic's offsets are smaller than those that were processed",
        explanation="The topic was deleted and created again, or another one is read under its name.",
        remedies={
            "again": Remedy(
                text="If the topic was made anew: begin with a new checkpoint location, and decide from "
                "which offsets to read",
                risk="records are read again, or left out",
                verify="the end offsets in the progress grow",
            ),
        },
    ),
    "service-unreachable": Cause(
        meaning="a host that a task talks to cannot be found or does not answer",
        remedies={
            "reach": Remedy(
                text="See whether its name resolves and its port answers from the hosts of the job",
                verify="a connection from such a host succeeds",
            ),
        },
    ),
    "no-connection-left": Cause(
        meaning="a database has no connection left for the job",
        explanation="Its limit of connections is used up: by this job's tasks and batches, or by other clients.",
        remedies={
            "fewer": Remedy(
                text="Open fewer connections where the job writes (foreachBatch, foreachPartition, a sink): a pool "
                "with a limit, or one for each partition that is closed in the end; fewer tasks that write at once",
                verify="the number of sessions of the database stays below its limit",
            ),
            "limit": Remedy(
                text="See who holds the connections (pg_stat_activity, SHOW PROCESSLIST), and raise the limit of "
                "the database or put a pooler before it",
            ),
        },
    ),
    "state-incompatible": Cause(
        meaning="state was written with another serializer or schema than the job has now",
        explanation="State is read with the type that the job has now; it was written with another.",
        remedies={
            "same-schema": Remedy(
                only_for="spark",
                text="Keep the schema of key and value of stateful operators (grouping keys, aggregates, "
                "the state's own type), or begin with a new checkpoint location",
                risk="with a new location the state is lost",
                verify="the query passes its first batch",
            ),
            "old-type": Remedy(
                only_for="flink",
                text="Restore with the old type and evolve it as its serializer allows (POJO and Avro do; "
                "Kryo and changed keys do not), or begin without this state",
                risk="beginning without it loses the state",
                verify="the job restores",
            ),
        },
    ),
    "state-without-operator": Cause(
        meaning="a snapshot has state of an operator that the job has no more",
        remedies={
            "uids": Remedy(
                text="Give operators the uid that they had, or allow state to be left behind",
                option="savepoint-ignore-unclaimed",
                proposed=True,
                risk="the state of operators that are gone is lost",
            ),
        },
    ),
    "state-store-broken": Cause(
        meaning="a file of a query's state store is missing or cannot be read",
        explanation="State is rebuilt from snapshots and deltas in the checkpoint location; one is gone.",
        remedies={
            "owner": Remedy(
                text="See who else writes to or cleans this checkpoint location; restore it, or begin with "
                "a new one",
                risk="with a new location the state is lost",
                verify="the query passes the batch",
            ),
        },
    ),
    "restore-failed": Cause(
        meaning="a task could not restore its state",
        remedies={
            "cause": Remedy(
                text="Mend what the deepest cause names (a file, a type, memory, a full disk), or restore "
                "from an older checkpoint",
                verify="the task goes from INITIALIZING to RUNNING",
            ),
        },
    ),
    "savepoint-failed": Cause(
        meaning="a savepoint could not be taken, or the job did not stop after it",
        remedies={
            "cause": Remedy(
                text="Mend what failed the job in that moment, then take the savepoint again; what was "
                "written may be complete: see its _metadata",
                verify="the savepoint completes",
            ),
        },
    ),
    "two-writers": Cause(
        meaning="two queries or jobs write to the same place",
        explanation="Each sees the other's changes as a conflict, and one of them fails.",
        remedies={
            "one": Remedy(
                text="Find the other writer (an older run that is still alive, a scheduled job, "
                "maintenance) and give each its own checkpoint location and partitions",
                verify="no further conflict",
            ),
        },
    ),
    "schema-changed": Cause(
        meaning="the schema of a source or table changed under a running query",
        remedies={
            "restart": Remedy(
                text="Start the query again so that it reads the new schema; what it cannot take over "
                "needs a change of the query, or a new checkpoint location",
                restart_needed=True,
                verify="the query passes the version that changed",
            ),
        },
    ),
    "query-changed": Cause(
        meaning="a query was changed in a way that its checkpoint does not allow",
        remedies={
            "location": Remedy(
                text="Undo the change, or begin with a new checkpoint location",
                risk="with a new location the query begins anew",
                verify="the query starts",
            ),
        },
    ),
    "invalid-sql": Cause(
        meaning="an SQL statement or a table program was refused",
        remedies={
            "statement": Remedy(
                text="Mend the statement, the table's options or the name that the error points to",
                verify="EXPLAIN accepts it",
            ),
        },
    ),
    "invalid-options": Cause(
        meaning="an option has a value that is refused",
        remedies={
            "value": Remedy(
                text="Mend the value of the option that is named; remove one of two that contradict",
                restart_needed=True,
            ),
        },
    ),
    "not-serializable": Cause(
        meaning="an object or a record cannot be serialized, or not be read again",
        remedies={
            "object": Remedy(
                text="Make what cannot be serialized transient and create it in open(), or register a "
                "serializer for its class; for records, see which one cannot be read",
                verify="the job runs past the record or the deployment that failed it",
            ),
        },
    ),
    "unreadable-record": Cause(
        meaning="a record is not in the format that the job reads",
        explanation="One record is enough: it is read again after each restart and fails the job again.",
        remedies={
            "skip": Remedy(
                text="Look at the record, mend who writes it, and let the format pass over such records "
                "(json.ignore-parse-errors and the like, mode PERMISSIVE, or a deserializer of your own "
                "that sets them aside)",
                risk="what is passed over is missing in the result",
                verify="the offset that failed is passed",
            ),
        },
    ),
    "log-position-lost": Cause(
        meaning="the database no longer has the changes from which a source wants to go on",
        explanation="The job was away, or behind, for longer than the database keeps its log.",
        remedies={
            "snapshot": Remedy(
                text="Begin with a new snapshot of the tables, and let the database keep its log for longer "
                "than the longest outage (binlog_expire_logs_seconds, max_slot_wal_keep_size, archived logs)",
                risk="rows are read again; deletes since the lost position are missing",
                verify="the source reads changes again",
            ),
        },
    ),
    "slot-in-use": Cause(
        meaning="another reader uses the replication slot, or server id, of this source",
        explanation="A slot has one reader: an older run of the job that still lives, or another job.",
        remedies={
            "one-reader": Remedy(
                text="End the other reader (pg_stat_replication tells who it is), or give each job, and each "
                "reader of it, a slot or server id of its own",
                verify="no further such failure",
            ),
        },
    ),
    "transaction-too-long": Cause(
        meaning="a producer asks for longer transactions than the broker allows",
        remedies={
            "shorter": Remedy(
                text="Make the producer's timeout no longer than the broker's transaction.max.timeout.ms "
                "(15 min unless set), or raise that; it must outlast the longest outage",
                option="transaction.timeout.ms",
                shows_current=False,
                measure="the broker's transaction.max.timeout.ms (kafka-configs.sh --describe)",
                restart_needed=True,
                verify="the producers begin",
            ),
        },
    ),
    "coordinator-failed": Cause(
        meaning="the coordinator of a source or sink failed, and the job with it",
        explanation="A coordinator runs in the JobManager: what it cannot reach fails all of the job.",
        remedies={
            "reach": Remedy(
                text="Mend what the deepest cause names; what it needs (broker, catalogue, storage) must "
                "be reachable from the JobManager",
                verify="no further global failure",
            ),
        },
    ),
    "restarts-used-up": Cause(
        meaning="the job failed more often than its restart strategy allows",
        explanation="The failures before it are the reason; this exception does not name them.",
        remedies={
            "first": Remedy(
                text="Read the failures before it (the Exceptions tab, the JobManager's log): they name "
                "the cause"
            ),
            "strategy": SHARED["back-off"],
        },
    ),
    "result-too-large": Cause(
        meaning="a result or a record is larger than Spark takes",
        remedies={
            "less": Remedy(
                text="Collect less on the driver (write, aggregate, limit); else raise the limit that is "
                "named",
                restart_needed=True,
            ),
        },
    ),
    "data-skew": Cause(
        meaning="one subtask gets more data than its siblings",
        explanation=(
            "A hot key or partition: it gets far more data than its siblings. Those before it wait for "
            "it, barriers wait behind the data in its input queue, and everything downstream waits for "
            "its barrier."
        ),
        remedies={
            "key": Remedy(
                text="Find the hot key: count records per key at this task; then salt it, or aggregate "
                "in two steps",
                only_for="flink",
                verify="records in of this subtask come near those of its siblings",
            ),
            "spread": Remedy(
                text="Spread the key that this task has: another key, or a salt",
                only_for="spark",
                restart_needed=True,
                verify="longest task against the others of its stage",
            ),
            "spread-partition": Remedy(
                text="Spread the keys that this partition has",
                only_for="spark",
                verify="offset ranges by partition",
            ),
            "split-partition": Remedy(
                text="Split what one partition brings over several tasks",
                only_for="spark",
                restart_needed=True,
                verify="tasks of the first stage",
            ),
            "overtake": SHARED["overtake"],
            "debloat": SHARED["debloat"],
        },
    ),
    "slow-taskmanager": Cause(
        meaning="all subtasks of one machine are slow, those of the others are not",
        explanation=(
            "The same records cost its subtasks far more time than their siblings elsewhere: it is the "
            "machine, not the data."
        ),
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
    "slow-operator": Cause(
        meaning="all subtasks of one operator are slow",
        explanation=(
            "All its subtasks are saturated while those before wait: the task itself limits the job, "
            "and back pressure holds the barriers up along the whole way."
        ),
        remedies={
            "flame-graph": Remedy(
                text="See what its threads do: the flame graph of this task in the web interface",
                option="flame-graph",
                proposed=True,
                restart_needed=True,
            ),
            "parallelism": Remedy(
                text="Give {task} more subtasks{than}, or make its work per record cheaper: batches, "
                "caches, asynchronous calls",
                restart_needed=True,
                verify="busy time of its subtasks falls below 80%, and nobody waits for it",
            ),
            "chain": Remedy(
                text="Several operators are chained in this task, and metrics do not tell them apart: "
                "break the chain (disableChaining) for a while to see which one is slow",
                restart_needed=True,
            ),
            "overtake": SHARED["overtake"],
            "debloat": SHARED["debloat"],
        },
    ),
    "slow-subtask": Cause(
        meaning="one subtask needs longer per record than its siblings",
        explanation=(
            "It gets no more records than its siblings but needs much longer for each: its keys, its "
            "disk, or what it calls."
        ),
        remedies={
            "thread-dump": _THREAD_DUMP,
            "siblings": Remedy(
                text="Compare it with its siblings: which keys it has, how large its state is, what it "
                "calls; give blocking calls a timeout",
                verify="a record takes it as long as its siblings",
            ),
            "overtake": SHARED["overtake"],
            "debloat": SHARED["debloat"],
        },
    ),
    "task-hangs": Cause(
        meaning="a task makes no progress at all",
        explanation=(
            "It is busy without taking in records: stuck in user code or in a call that never returns."
        ),
        remedies={
            "thread-dump": _THREAD_DUMP,
            "timeout": Remedy(
                only_for="flink",
                text="Give every blocking call of the user code a timeout, or make it asynchronous",
            ),
            "interruptible": Remedy(
                only_for="flink",
                text="Make {method} interruptible, or give it a timeout",
                verify="the task is CANCELED within seconds",
            ),
            "kill-sooner": Remedy(
                only_for="flink",
                text="Only if its longest call ends by itself: let Flink wait longer for it before it kills "
                "the TaskManager",
                option="cancellation-timeout",
                measure="how long that call takes",
                restart_needed=True,
            ),
        },
    ),
    "slow-sync-snapshot": Cause(
        meaning="the synchronous part of a snapshot holds up processing",
        explanation=(
            "The synchronous part of its snapshot runs in the task's thread: no record is processed "
            "meanwhile, and the queue before it grows."
        ),
        remedies={
            "thread": Remedy(
                text="Look at what runs in the task's thread at a snapshot: flushing in snapshotState or "
                "preCommit, timers on the heap, many small states, a pause of the JVM",
                verify="its synchronous duration falls to its siblings'",
            ),
        },
    ),
    "slow-async-snapshot": Cause(
        meaning="the asynchronous part of a snapshot (the upload) takes too long",
        explanation=(
            "Its barrier arrives in time and the task goes on working, but writing its state takes "
            "longer than the timeout."
        ),
        remedies={
            "storage": Remedy(
                text="Look at where this subtask writes its state: storage, network, disk of the "
                "machine, size of its state compared with its siblings'",
                verify="its asynchronous duration falls to its siblings'",
            ),
            "incremental": SHARED["incremental"],
        },
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
                only="more",
                option="inline-threshold",
                proposed=102_400,
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
                only_for="flink",
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
            "tolerate": SHARED["tolerate"],
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
            "full": Remedy(
                text="Make room on the disk or the quota that is full (local state, spill files and logs "
                "fill disks, too), or move the directory to a larger one",
                verify="df shows free space on every host while checkpoints complete",
            ),
            "denied": Remedy(
                text="Give the user or role that the processes run as the right to read, write, list and "
                "delete there, and look whether its credentials or token expired",
                verify="the same user can write and delete a file there",
            ),
            "throttled": Remedy(
                text="Send the storage fewer requests: fewer small files, longer checkpoint intervals, "
                "paths spread over prefixes; or raise its limit",
                verify="no further 503, 429 or SlowDown",
            ),
            "missing": Remedy(
                text="See who deleted the file (clean-up, lifecycle rules, another job), and whether the "
                "path is right and reachable from every host",
                verify="the path exists on every host that reads it",
            ),
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
                only_for="flink",
                text="Find out why {place} went: how its process or container ended (exit code, OOMKilled, "
                "preemption, a crash with hs_err), its log's end, the pod's events, dmesg on the host",
                verify="no further loss",
            ),
            "spare-slots": Remedy(
                only_for="flink",
                text="Run one TaskManager more than the job needs, so that it restarts at once",
                verify="free slots in the overview: as many as one TaskManager has",
            ),
            "its-log": Remedy(
                only_for="flink",
                text="Give that TaskManager's log and GC log too: they tell a pause from a broken network",
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
                text="Make the transaction timeout longer than the longest outage to survive, at "
                "the producer and at the broker (transaction.max.timeout.ms)",
                option="transaction.timeout.ms",
                shows_current=False,
                measure="the longest time without a completed checkpoint that has to be survived",
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
                verify="no pause near the heartbeat timeout",
            ),
            "longer-heartbeat": Remedy(
                text="Only if the pauses cannot be avoided: a longer heartbeat timeout",
                only="more",
                option="heartbeat-timeout",
                measure="the longest pause, in the garbage collection log of the JobManager",
                risk="a TaskManager that is really lost is noticed later",
                restart_needed=True,
            ),
        },
    ),
    "out-of-memory": Cause(
        meaning="a process ran out of memory, or was killed for using too much",
        remedies={
            "spark-heap": Remedy(
                text="Give executors more heap, or each task less: more partitions, fewer cores per "
                "executor",
                option="spark.executor.memory",
                measure="how much of the heap is in use after full collections",
                restart_needed=True,
                verify="no further OutOfMemoryError",
            ),
            "spark-driver-heap": Remedy(
                text="Give the driver more heap, and bring less to it: write results from the executors instead "
                "of collect, toPandas or large broadcasts",
                option="spark.driver.memory",
                measure="how much of the driver's heap is in use after full collections",
                restart_needed=True,
                verify="no further OutOfMemoryError of the driver",
            ),
            "spark-overhead": Remedy(
                text="Give executors more room outside of the heap (Python workers, native memory, "
                "buffers)",
                option="spark.executor.memoryOverhead",
                measure="the resident size of the executors' processes less their heap",
                restart_needed=True,
                verify="no executor killed for its memory",
            ),
            "more-task-heap": _more("task-heap"),
            "more-metaspace": _more("metaspace"),
            "more-direct": _more("direct"),
            "more-overhead": _more("overhead"),
            "more": SHARED["size-memory"],
            "spare-room": Remedy(
                text="The machine or the container had no memory left for the JVM: let fewer processes share it, "
                "give the container more, or let the JVM take less",
                verify="free memory of the machine while the job runs",
            ),
            "threads": Remedy(
                text="Raise the limit of threads (ulimit -u, the container's pids limit), and take a thread "
                "dump: clients that are opened and never closed leave threads behind",
                restart_needed=True,
                verify="the number of threads of the process does not grow",
            ),
            "find-growth": Remedy(
                text="Look for what grows: a heap dump for the heap, the number of loaded classes "
                "for metaspace, RocksDB's block cache and iterators for the container",
            ),
        },
    ),
    "jvm-crashed": Cause(
        meaning="a JVM crashed: native code in it failed, not the job's Java code",
        explanation="Nothing in the job's own logs tells of it: the JVM's report (hs_err_pid*.log) does.",
        remedies={
            "library": Remedy(
                text="Look at the problematic frame in hs_err_pid*.log: the library of a native one (RocksDB, "
                "compression, a JNI client) wants another version; RocksDB crashes, too, where its state is "
                "closed while it is read",
                verify="no further hs_err_pid*.log",
            ),
            "java": Remedy(
                text="Where the frame is the JVM's own (libjvm.so), take the newest update of this Java",
                verify="no further hs_err_pid*.log",
            ),
        },
    ),
    "insufficient-network-buffers": Cause(
        meaning="too few network buffers for the job's channels",
        explanation="The task that fails is arbitrary: whoever asks for buffers last gets none. "
        "Count gates and result partitions per TaskManager, not tasks.",
        remedies={
            "count": SHARED["count-buffers"],
            "enough": Remedy(
                only_for="flink",
                text="The smallest network memory that is enough for any placement of this job",
                restart_needed=True,
            ),
            "fewer": Remedy(
                only_for="flink",
                text="Fewer buffers per job: less parallelism, fewer all-to-all exchanges, or chained "
                "operators",
            ),
            "at-least": Remedy(
                only_for="flink",
                text="Raise the network memory; at least this much, since tasks that come later are not "
                "counted yet (give the plan, /jobs/:id/plan, for the exact number)",
                measure="the job's plan (/jobs/:id/plan): flowdiag memory counts the buffers in it",
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
                text="Give TaskManagers more network memory: flowdiag memory counts what the job needs",
                command="memory",
                restart_needed=True,
                verify="RequestedMemoryUsage below 100%",
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
                text="Give its tasks more heap, keep less state on it (RocksDB), or run fewer slots in it: "
                "flowdiag memory says what the heap has and what it can get",
                command="memory",
                restart_needed=True,
                verify="GarbageCollector Time grows by less than 100 ms per second",
            ),
        },
    ),
    "not-enough-slots": Cause(
        meaning="fewer slots than the job needs",
        explanation="The job needs more slots than are registered. Nothing before it in the input "
        "explains why.",
        remedies={
            "more-slots": Remedy(
                only_for="flink",
                text="Start more TaskManagers, or more slots on each: flowdiag startup counts what is missing",
                command="startup",
                verify="free slots at least the largest parallelism of a slot sharing group",
            ),
            "slots": Remedy(
                only_for="flink",
                text="More slots on each TaskManager (they share its memory)",
                only="more",
                option="slots",
                measure="slots of the TaskManagers that register, against the largest parallelism",
                restart_needed=True,
            ),
            "taskmanagers": Remedy(only_for="flink", text="More TaskManagers, or less parallelism"),
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
                proposed=True,
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
    "overloaded": Cause(
        meaning="more data comes in than the job can process",
        remedies={
            "back-pressure": Remedy(
                text="Let Spark hold the source back to what is processed. {model}",
                option="spark.streaming.backpressure.enabled",
                proposed=True,
                risk="the source keeps the rest: it needs room for it",
                restart_needed=True,
                verify="scheduling delay below an interval",
            ),
            "initial-rate": Remedy(
                text="Begin with what can be processed: the first batches have no estimate",
                option="spark.streaming.backpressure.initialRate",
                measure="records per second of a batch that keeps up",
                restart_needed=True,
                verify="records of the first batches",
            ),
            "min-rate": Remedy(
                text="Let the rate go low enough: Spark's floor is 100 records per second",
                only="less",
                option="spark.streaming.backpressure.pid.minRate",
                measure="records per second of a batch that keeps up",
                restart_needed=True,
                verify="scheduling delay below an interval",
            ),
            "cores": Remedy(
                text="More cores, and at least as many blocks or partitions per batch as cores{now}",
                verify="tasks of the slow stage against cores",
            ),
            "source": Remedy(
                text="See why the source is slow to say what is there: brokers, or many files to list",
                verify="{part} in durationMs of the triggers",
            ),
            "planning": Remedy(
                text="Plan less per trigger: fewer columns, files and unions in the query",
                verify="{part} in durationMs of the triggers",
            ),
            "batch": Remedy(
                text="See what the source does to prepare a batch",
                verify="{part} in durationMs of the triggers",
            ),
            "location": Remedy(
                text="Put the checkpoint location on a faster file system",
                verify="{part} in durationMs of the triggers",
            ),
            "partitions": Remedy(
                text="More cores, and as many partitions of source and shuffle as cores{now}",
                verify="triggerExecution against the trigger interval",
            ),
        },
    ),
    "throttled": Cause(
        meaning="back pressure holds the source back to what the job can process",
        explanation="The delay stays low, at the price of the source's waiting. "
        "What holds the rate: {held}.",
        remedies={
            "initial-rate": Remedy(
                text="Begin with what can be processed. {model}",
                option="spark.streaming.backpressure.initialRate",
                measure="records per second of a batch that keeps up",
                restart_needed=True,
                verify="scheduling delay of the first batches",
            ),
            "cores": Remedy(
                text="More cores, and at least as many blocks or partitions per batch as cores{now}",
                verify="published rate",
            ),
        },
    ),
    "rate-floor": Cause(
        meaning="back pressure may not go as low as it would have to (`minRate`)",
        explanation="The estimator would go lower and may not. A scheduling delay of five intervals "
        "alone pins it there with the default gains, but here the floor itself is too high: what it "
        "lets in is more than the job processes, so that the delay never falls.",
        remedies={
            "min-rate": Remedy(
                text="Let the rate go as low as the job needs. {model}",
                option="spark.streaming.backpressure.pid.minRate",
                measure="records per second of a batch that keeps up",
                restart_needed=True,
                verify="scheduling delay falls below an interval",
            ),
        },
    ),
    "fixed-cost": Cause(
        meaning="a batch costs about an interval whatever it holds: lower rates cannot help",
        explanation="Fewer records do not make the batches short enough.",
        remedies={
            "once": Remedy(
                text="Find what every batch does once, and do it less often",
                verify="the stages of a batch without records",
            ),
            "fewer-tasks": Remedy(
                text="As many shuffle partitions as cores, or twice as many: {cores} to start with; a query with "
                "state keeps the number that it began with: it needs a new checkpoint location",
                option="spark.sql.shuffle.partitions",
                measure="cores: as many partitions, or twice as many",
                restart_needed=True,
                verify="tasks of the longest stage",
            ),
        },
    ),
    "no-core-left": Cause(
        meaning="no core is left for batches, or no executor takes a job",
        explanation="Nothing runs, however little comes in: it is no matter of the rate.",
        remedies={
            "more": Remedy(
                text="Give the application {least} cores at least: one for each receiver, and others for the batches",
                restart_needed=True,
                verify="batches end",
            ),
            "less": Remedy(
                text="See in the cluster's page what workers have left, and ask for no more per executor: "
                "spark.executor.cores, spark.executor.memory; end what holds the cores",
                verify="no 'Initial job has not accepted any resources'",
            ),
            "quota": Remedy(
                only_for="spark",
                text="Raise the quota {quota} of the namespace, or ask for less: spark.executor.instances, "
                "spark.executor.memory, spark.executor.memoryOverhead, spark.kubernetes.executor.limit.cores; end "
                "what else uses it up (kubectl describe quota)",
                verify="kubectl get pods shows the executors, and no line says 'exceeded quota'",
            ),
        },
    ),
    "max-rate": Cause(
        meaning="a fixed limit lets through less than comes in",
        explanation="The source has more than the limit lets through; the job could take more.",
    ),
    "unstable-gains": Cause(
        meaning="the gains of the rate estimator make the rate swing",
        explanation="Each error is answered with more than the error, so that the next one points the "
        "other way.",
        remedies={
            "proportional": Remedy(
                text="Go back to the default. {model}",
                option="spark.streaming.backpressure.pid.proportional",
                proposed=1.0,
                restart_needed=True,
                verify="published rates; flowdiag simulate pid tries other gains",
            ),
            "derived": Remedy(
                text="Go back to the default. {model}",
                option="spark.streaming.backpressure.pid.derived",
                proposed=0.0,
                restart_needed=True,
                verify="published rates; flowdiag simulate pid tries other gains",
            ),
        },
    ),
    "unheeded-rate": Cause(
        meaning="back pressure is on, and receivers take what they like",
        explanation="Only records that a receiver stores one by one pass the limiter.",
        remedies={
            "one-by-one": Remedy(
                text="Store records one by one, or limit what the source brings per batch",
                verify="records per batch against the published rate",
            ),
        },
    ),
    "unlimited-first-batch": Cause(
        meaning="nothing limits a batch before the first estimate",
        explanation="Before the first estimate nothing limits a batch of the direct stream.",
        remedies={
            "initial-rate": Remedy(
                text="Limit what a batch may take before the first estimate",
                option="spark.streaming.backpressure.initialRate",
                measure="records per second of a batch that keeps up",
                restart_needed=True,
                verify="records of the first batch after a restart",
            ),
            "max-per-partition": Remedy(
                text="Limit what a batch may take before the first estimate",
                option="spark.streaming.kafka.maxRatePerPartition",
                measure="records per second of a batch that keeps up",
                restart_needed=True,
                verify="records of the first batch after a restart",
            ),
        },
    ),
    "skewed-receiver": Cause(
        meaning="one receiver brings most of the records",
        explanation="The delay it causes throttles the other streams too: each estimator sees the "
        "whole batch.",
        remedies={
            "split": Remedy(
                text="Split this source over several receivers, and repartition what they bring",
                restart_needed=True,
                verify="records per stream",
            ),
        },
    ),
    "driver-killed": Cause(
        meaning="the driver of a Spark application is gone, and never said that it ended",
        explanation=(
            "An application whose driver is gone processes nothing: whatever was slow before comes second."
        ),
        remedies={
            "look": Remedy(
                text=(
                    "See whether it still runs; if not, how it ended: its exit status (137: killed, mostly"
                    " for memory; 143: stopped), the last lines of its log, the diagnostics of YARN or"
                    " `kubectl describe pod`, the kernel's log of its host"
                ),
                verify="the event log ends with the end of the application",
            ),
        },
    ),
    "receiver-restarts": Cause(
        meaning="a receiver stops and is started again and again",
        explanation="Nothing is received between a stop and the next start.",
        remedies={
            "reconnect": Remedy(
                text="See why it stops, and reconnect inside the receiver",
                verify="one start per stream",
            ),
        },
    ),
    "failing-batches": Cause(
        meaning="output operations or runs of a query fail",
        remedies={
            "catch": Remedy(
                text="Catch what the function cannot handle, record by record, and set it aside",
                verify="no output operation with a failure reason",
            ),
            "mend": Remedy(
                text="Mend what the exception names",
                verify="the query passes the batch that failed",
            ),
            "tolerate": Remedy(
                text="Read what cannot be read tolerantly, and set it aside",
                verify="the query passes the batch that failed",
            ),
            "look": Remedy(
                text="Read the rows of that batch: its offsets stand in the checkpoint location",
                verify="the batch id advances",
            ),
        },
    ),
    "hanging-batch": Cause(
        meaning="a batch makes no progress at all",
        explanation="All later batches wait behind it.",
        remedies={
            "thread-dumps": Remedy(
                text="Take thread dumps of the executors, and give every call a timeout",
                verify="the batch ends",
            ),
        },
    ),
    "generation-lag": Cause(
        meaning="the driver is late to make the jobs of batches",
        explanation="No delay that Spark shows counts this time: it lies before the submission.",
        remedies={
            "driver": Remedy(
                text="See what the driver does between batches, and give it more memory and cores",
                verify="submission time against batch time",
            ),
        },
    ),
    "slow-executor": Cause(
        meaning="tasks of the same stages take longer on one executor",
        explanation="Each batch waits for its tasks there.",
        remedies={
            "speculation": Remedy(
                text="See what else runs on that machine; run slow tasks twice where they may run twice",
                option="spark.speculation",
                proposed=True,
                restart_needed=True,
                verify="mean task durations by executor",
            ),
        },
    ),
    "stragglers": Cause(
        meaning="single tasks take much longer than others with as many records",
        explanation="It has no more to do than they: it is the place, not the data.",
        remedies={
            "speculation": Remedy(
                text="See what else runs on that machine; run slow tasks twice where they may run twice",
                option="spark.speculation",
                proposed=True,
                restart_needed=True,
                verify="longest task against the others of its stage",
            ),
        },
    ),
    "executor-lost": Cause(
        meaning="an executor died or was taken away",
        explanation="Its tasks run again elsewhere; until then batches take longer.",
        remedies={
            "reason": Remedy(
                text="See why it was taken away: the end of its log, the cluster's events; exit code 137 is a "
                "SIGKILL, whoever sent it, 143 a request to end",
                verify="no executor removed",
            ),
        },
    ),
    "slow-kafka": Cause(
        meaning="polls of Kafka time out",
        explanation="The task waits for the timeout, fails, and is tried again.",
        remedies={
            "brokers": Remedy(
                text="See what the brokers are busy with; a longer timeout only waits longer",
                verify="no poll that times out",
            ),
        },
    ),
    "offsets-out-of-range": Cause(
        meaning="records were deleted in Kafka before they were read",
        explanation="What is deleted before it is read is lost, or the query stops because of it.",
        remedies={
            "retention": Remedy(
                text="Keep the topic's records for longer than the delay grows",
                only="more",
                option="retention.ms",
                measure="how late batches are, or how long the job may be down",
                risk="more disk on the brokers",
                verify="no offset out of range",
            ),
        },
    ),
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
                only="less",
                option="inline-threshold",
                proposed=20_480,
                needs=("much-in-metadata",),
                risk="more small files",
                restart_needed=True,
            ),
        },
    ),
    "blocks-lost": Cause(
        meaning="blocks of receivers were lost with their executor before they were processed",
        explanation="Batches that need these blocks fail: the records are gone.",
        remedies={
            "write-ahead-log": Remedy(
                text="Write what comes in to a log before it is processed",
                option="spark.streaming.receiver.writeAheadLog.enable",
                proposed=True,
                risk="each block is written once more",
                restart_needed=True,
                verify="no block that is not found",
            ),
        },
    ),
    "concurrent-jobs": Cause(
        meaning="batches run side by side and overtake each other, and the estimator misses them",
        explanation="A batch beside which others run takes longer, and one that ends late is ignored: "
        "the rate follows neither the load nor the capacity.",
        remedies={
            "one-by-one": Remedy(
                text="Process one batch after the other",
                option="spark.streaming.concurrentJobs",
                proposed=1,
                risk="what ran beside each other runs one after the other",
                restart_needed=True,
                verify="batches end in the order of their times",
            ),
        },
    ),
    "driver-gaps": Cause(
        meaning="the driver works while no job runs",
        explanation="The driver alone works then: more cores do not make it shorter.",
        remedies={
            "thread-dumps": Remedy(
                text="Take thread dumps of the driver, and move what it does there into tasks",
                verify="processing time against the jobs of a batch",
            ),
        },
    ),
    "few-tasks": Cause(
        meaning="batches use fewer tasks than there are cores",
        explanation="The other cores have nothing to do while the batch waits for these tasks.",
        remedies={
            "blocks": Remedy(
                text="Make blocks shorter, so that a batch has {cores} of them",
                option="spark.streaming.blockInterval",
                measure="blocks per batch: the interval through this option, for each receiver",
                restart_needed=True,
                verify="tasks of the longest stage",
            ),
            "repartition": Remedy(
                text="Repartition what comes in to {cores} partitions before the expensive part",
                restart_needed=True,
                verify="tasks of the longest stage",
            ),
            "shuffle": Remedy(
                text="As many shuffle partitions as cores; a query with state keeps the number that it began "
                "with: it needs a new checkpoint location",
                option="spark.sql.shuffle.partitions",
                measure="free cores: as many partitions, or twice as many",
                restart_needed=True,
                verify="tasks of the longest stage",
            ),
            "partitions": Remedy(
                text="At least {cores} partitions: minPartitions at the source, or repartition({cores})",
                restart_needed=True,
                verify="tasks of the longest stage",
            ),
        },
    ),
    "slow-output": Cause(
        meaning="one output operation takes most of the batches",
        explanation="They run one after the other: a batch is little else than this one.",
        remedies={
            "cache": Remedy(
                text="Look at its stages, and cache what several operations compute",
                verify="durations of the output operations",
            ),
        },
    ),
    "growing-state": Cause(
        meaning="the state of a query grows by every trigger and never shrinks",
        remedies={
            "watermark": Remedy(
                text="Let old state go: a watermark with dropDuplicatesWithinWatermark, or a timeout",
                risk="rows that come later than that are dropped",
                restart_needed=True,
                verify="stateOperators.numRowsTotal levels off",
            ),
            "event-time": Remedy(
                text="Put the event time into the key of the state, or give groups a timeout",
                risk="rows that come later than that are dropped",
                restart_needed=True,
                verify="stateOperators.numRowsTotal levels off",
            ),
        },
    ),
    "slow-state-commits": Cause(
        meaning="triggers spend their time on commits of state or of metadata",
        explanation="Each trigger pays this, however few rows it has.",
        remedies={
            "changelog": Remedy(
                text="Write changes instead of whole snapshots",
                option="spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled",
                proposed=True,
                restart_needed=True,
                verify="stateOperators.commitTimeMs",
            ),
            "rocksdb": Remedy(
                text="Keep the state in RocksDB, and write its changes only",
                option="spark.sql.streaming.stateStore.providerClass",
                proposed="org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
                risk="a query keeps the provider that it began with: it needs a new checkpoint location",
                restart_needed=True,
                verify="stateOperators.commitTimeMs",
            ),
        },
    ),
    "lagging-watermark": Cause(
        meaning="the watermark of a query falls further and further behind its rows",
        explanation="Of several inputs the slowest decides the watermark; with one, rows far ahead of "
        "the others come in. Results wait for it, and state is kept.",
        remedies={
            "input": Remedy(
                text="Find the input that is behind: its backlog, or its clock",
                verify="eventTime.max less eventTime.watermark",
            ),
        },
    ),
    "late-rows": Cause(
        meaning="rows come later than the watermark of a query allows",
        explanation="They are missing from the results; the query goes on without an error.",
        remedies={
            "lateness": Remedy(
                text="Allow for more lateness in withWatermark",
                risk="more state is kept, and results come later",
                restart_needed=True,
                verify="numRowsDroppedByWatermark stays at zero",
            ),
        },
    ),
    "stuck-watermark": Cause(
        meaning="the watermark of a query does not advance",
        explanation="What waits for it is not written, and its state is kept.",
        remedies={
            "policy": Remedy(
                text="Find the input that is idle, or let the fastest one decide",
                option="spark.sql.streaming.multipleWatermarkPolicy",
                proposed="max",
                risk="rows of slower inputs may be dropped as late",
                restart_needed=True,
                verify="eventTime.watermark advances",
            ),
        },
    ),
    "submission-failed": Cause(
        meaning="a job, or the cluster for it, was refused before any task was scheduled",
        explanation="No task was scheduled: the deepest cause of the stack trace is the reason.",
        remedies={
            "path": Remedy(
                only_for="flink",
                text="Name a savepoint or checkpoint that exists, with its _metadata, readable by the "
                "JobManager",
                option="savepoint-path",
                measure="which checkpoints and savepoints are there, and hold a _metadata",
            ),
            "uids": Remedy(
                only_for="flink",
                text="Give operators the uid that they had, or allow state to be left behind",
                option="savepoint-ignore-unclaimed",
                proposed=True,
                risk="the state of operators that are gone is lost",
            ),
            "reason": Remedy(
                only_for="flink", text="Mend what the deepest cause says, then submit again"
            ),
            "ask": Remedy(
                only_for="flink",
                text="Read what the client was answered, or give its log as well: up to 1.12 the "
                "JobManager does not log the reason",
            ),
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
        meaning="a deployment on Kubernetes could not be brought up",
        explanation="Its pods may never run, so that there may be no other log.",
        remedies={
            "memory": SHARED["size-memory"],
            "image": Remedy(text="Look at the image's name and at the secret that pulls it"),
            "quota": Remedy(text="Ask for less, or raise the quota of the namespace"),
            "high-availability": Remedy(
                text="Turn on high availability, so that a lost JobManager can be recovered"
            ),
            "by-hand": Remedy(
                text="Restore by hand: find the last checkpoint or savepoint that completed, give it as "
                "spec.job.initialSavepointPath with a new savepointRedeployNonce (the operator does not restore "
                "without metadata of high availability)",
                verify="status.lifecycleState becomes STABLE",
            ),
            "events": Remedy(
                text="kubectl describe of the resource and of its pods shows the events behind it"
            ),
        },
    ),
    "frame-too-large": Cause(
        meaning="an RPC message was larger than the processes may send",
        explanation="It is dropped without an answer; whoever waits for one runs into a timeout.",
        remedies={
            "larger": Remedy(
                text="Raise the frame size above what the message needs, the same on all processes and on "
                "clients",
                option="frame-size",
                measure="the size of the largest message",
                restart_needed=True,
            ),
            "smaller": Remedy(
                only_for="flink",
                text="Keep large objects out of user functions (load them in open()), and unite list "
                "state of many parts: both travel with every deployment",
            ),
        },
    ),
    "rpc-trouble": Cause(
        meaning="processes are quarantined, or calls between them get no answer",
        explanation="The RPC layer gave up; who waited for the answer fails with a timeout.",
        remedies={
            "other-side": Remedy(
                only_for="flink",
                text="Look at the load, the garbage collection and the name resolution of the other side",
            ),
            "restart": Remedy(
                only_for="flink", text="Restart the process that is quarantined, if it did not end"
            ),
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
                only_for="flink",
                text="Look at the JobManager's garbage collection and load at that time",
            ),
            "survive": Remedy(
                only_for="flink",
                text="Find out why its process ended (its .out file, the container's exit code, the node), and "
                "let it recover its jobs: high availability with ZooKeeper or Kubernetes",
                verify="after a restart the job has the same id, and continues from its last checkpoint",
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
                measure="the largest container that the cluster grants",
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
                text="Exit code 137 or 'physical memory': flowdiag memory says which pool is too small",
                command="memory",
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
                proposed=True,
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
                only_for="flink",
                text="Look at ZooKeeper or the Kubernetes API server, and at pauses of the JVM",
            ),
        },
    ),
    "wrong-memory-options": Cause(
        meaning="memory options that contradict each other or are not in effect",
        remedies={
            "one-line": Remedy(text="Keep one line", measure="which of the values was meant"),
            "blank": Remedy(text="Write key: value, with a blank behind the colon"),
            "replace": Remedy(
                text="Set {key} instead: it took the place of {old}",
                measure="what the pools come to: flowdiag memory --set derives them",
                restart_needed=True,
            ),
            "remove": Remedy(text="Take {key} out: {why}", unset=True, restart_needed=True),
            "mend": Remedy(text="Mend the file, then start again", restart_needed=True),
            "unit": Remedy(
                text="Write a whole number with a unit: b, k, m, g or t, without quotes in "
                "flink-conf.yaml",
                measure="which size was meant",
                restart_needed=True,
            ),
            "leave-out": Remedy(
                text="Leave {key} out: Flink derives it",
                unset=True,
                restart_needed=True,
            ),
            "one-total": Remedy(
                text="Keep one total only: leave {key} out",
                unset=True,
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
                measure="how much heap the tasks use",
                risk="batch jobs and Python functions in the same cluster need managed memory",
                restart_needed=True,
            ),
        },
    ),
    "unmanaged-rocksdb": Cause(
        meaning="RocksDB uses native memory without a bound, or has none to use",
        explanation="Its block cache and write buffers lie outside of the JVM and of every pool.",
        remedies={
            "bound": Remedy(text="Let managed memory bound it", proposed=True, restart_needed=True),
            "share": Remedy(
                text="Give managed memory its share",
                measure="the block cache and write buffers of RocksDB: they should fit into it",
                restart_needed=True,
            ),
        },
    ),
    "gc-pressure": Cause(
        meaning="tasks spend much of their time collecting garbage",
        explanation="No record is processed meanwhile.",
        remedies={
            "memory": Remedy(
                text="More memory per core: larger executors, or fewer cores in each",
                option="spark.executor.memory",
                measure="how much of the heap is in use after full collections",
                restart_needed=True,
                verify="JVM GC Time of the tasks over their run time",
            ),
        },
    ),
    "shuffle-fetch": Cause(
        meaning="tasks wait for blocks of a shuffle",
        explanation="No record is processed meanwhile.",
        remedies={
            "serving": Remedy(
                text="See which executors serve the blocks: their disks, network and garbage collection",
                verify="Fetch Wait Time of the tasks",
            ),
        },
    ),
    "spill": Cause(
        meaning="tasks write to disk what does not fit into memory",
        explanation="No record is processed meanwhile.",
        remedies={
            "partitions": Remedy(
                text="More partitions, so that each fits into memory",
                restart_needed=True,
                verify="Disk Bytes Spilled of the tasks",
            ),
        },
    ),
}


CHECKED_BY: Final[dict[str, str]] = {
    **dict.fromkeys(
        ("data-skew", "slow-taskmanager", "slow-operator", "slow-subtask", "task-hangs"), "queues"
    ),
    **dict.fromkeys(("slow-sync-snapshot", "slow-async-snapshot"), "checkpoints"),
    **dict.fromkeys(
        ("out-of-memory", "insufficient-network-buffers", "garbage-collection", "network-memory"),
        "memory",
    ),
    **dict.fromkeys(("not-enough-slots", "no-container", "worker-failed"), "startup"),
}
"""The command of a Flink job that shows best whether a remedy helped; for other causes the one that found it."""
