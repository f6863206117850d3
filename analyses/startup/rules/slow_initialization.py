"""Tasks take a long time to open or restore.

What it reports
---------------
The rule reports whether one subtask or all subtasks are slow to initialize, and whether they
restored state.

Why it matters
--------------
A job processes nothing until the last task is RUNNING. The first checkpoint waits for it too.

How it decides
--------------
Since Flink 1.13, a task is INITIALIZING while it opens its operators and reads its state. Before Flink 1.13, a task is
RUNNING during that time, so the logs do not show the duration. The slowest task must take at least `duration`. If it
takes at least `ratio` times the median of all others, the finding names the subtask. If all tasks are slow, the
reason is probably in the vertex or the storage. The rule blames the restore if the task's TaskManager read state
for at least `read-share` of the initialization.

Flink 1.19 and later report a trace span for the initialization. It splits the restore into the download from
the checkpoint storage, the rebuilding of the state store, and in-flight data. The finding and its first remedy
name the longest part.

False alarms
------------
Large state takes time to restore. Compare the duration with the size of the state.
"""

from typing import Final

from flowdiag.analyses.startup import helpers as h
from flowdiag.analyses.startup.detect.initialization import read_ms, signals_of, slow_starts
from flowdiag.analyses.startup.detect.restores import (
    measured_parts,
    remedies_of,
    span_of,
    split_text,
)

_WORK: Final = {
    "slow-open": ("in open()", "in open()"),
    "slow-restore": ("to restore its state and open", "to restore their state and open"),
}


class Limits(h.Limits):
    duration: float = h.limit(
        10, "s", "minimum duration of an initialization; opening connections takes seconds"
    )
    ratio: float = h.limit(
        5, "ratio", "minimum duration as a multiple of the other subtasks' median"
    )
    read_share: float = h.limit(
        0.5, "share", "minimum share of the initialization spent reading state"
    )


def judge(job: h.JobStarting, limits: Limits) -> h.Iterator[h.Finding]:
    """Report the slowest start of each job."""
    slow = slow_starts(job, limits.duration)
    if not slow:
        return
    worst = max(slow, key=lambda each: each.took)
    took, task, start, others, _ = worst
    name = h.fmt.subtask_of(task.task, task.subtask_index, task.parallelism)
    long = h.fmt.duration(took)
    # The TaskManager's own log lines or, without them, the span separate the restore from the work after it.
    read = read_ms(start, task)
    restoring = start.restored if read is None else read >= took * limits.read_share
    cause = "slow-restore" if restoring else "slow-open"
    alone = worst.is_far_above(others, limits.ratio)
    signals = signals_of(worst, slow, name, read if restoring else None, limits.ratio)
    votes = h.votes_for(signals, RULE.signals)
    as_slow = sum(ms >= took / 2 for ms in (*others, took)) / (len(others) + 1)
    numbers = (
        ("initialization", took, "ms", None, f"start {start.number + 1}"),
        ("median", round(worst.median_ms), "ms", None, "other tasks"),
        ("share-as-slow", round(as_slow, 3), "share"),
    )
    parts = start.initialization if restoring else None
    split = "" if parts is None else split_text(parts)
    yield h.start_finding(
        job,
        ongoing=start.running_us is None,
        severity=h.Severity.WARNING,
        subject=h.job_subject(
            job,
            "subtask",
            task=task.task,
            subtask_index=task.subtask_index,
            parallelism=task.parallelism,
            attempt_id=task.attempt_id,
            taskmanager=task.taskmanager,
            host=task.host,
        )
        if alone
        else None,
        title=f"{name} took {long} {_WORK[cause][0]}, and the job waited for it"
        if alone
        else f"Tasks take up to {long} {_WORK[cause][1]}",
        why=f"{name}: {long} from INITIALIZING to RUNNING"
        + (f", the others {h.fmt.duration(worst.median_ms)}" if others else "")
        + split,
        cause=cause,
        confidence=h.weigh(votes),
        rank=h.Rank.SLOW_CAUSE,
        first_us=task.initializing_us,
        last_us=task.running_us or start.ended_us,
        count=len(slow),
        measurements=(
            *(h.measurement(*number) for number in numbers),
            *measured_parts(parts),
        ),
        evidence=h.cite([(task.ref, task.initializing_us), *span_of(parts)]),
        actions=h.remedies(cause, job.job, *remedies_of(cause, parts)),
        votes=votes,
    )


RULE: Final = h.Rule("ST301", judge, Limits, causes=("slow-open", "slow-restore"), needs="starts")
