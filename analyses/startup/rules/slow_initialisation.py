"""Tasks take a long time to open or restore.

What it reports
---------------
The rule reports whether one subtask or all subtasks are slow to initialise, and whether they
restored state.

Why it matters
--------------
A job processes nothing until the last task is RUNNING. The first checkpoint waits for it too.

How it decides
--------------
Since Flink 1.13, a task is INITIALIZING while it opens its operators and reads its state. Before 1.13, a
task is RUNNING during that time, so the logs do not show the duration. The slowest task must take at least
`slow`. If it takes at least `ratio` times the median of all others, the finding names the subtask. If all
tasks are slow, suspect the vertex or the storage. The rule blames the restore if the task's TaskManager read
state for at least `reading` of the initialisation.

From Flink 1.19 on, the span of the initialization splits the restore: download from the checkpoint storage, rebuilding
of the store, and in-flight data. The finding and its first remedy name the longest part.

What to do
----------
Check the work in open(), such as connections, caches and models. For restores, check the size of the
subtask's state and whether local recovery is enabled.

False alarms
------------
Large state takes time to restore. Compare the duration with the size of the state.
"""

from __future__ import annotations

from statistics import median
from typing import Final

from flowdiag.analyses.startup import helpers as h
from flowdiag.analyses.startup.detect.initialisation import Slowest, read_ms, slow_starts

_WORK: Final = {
    "slow-open": ("in open()", "in open()"),
    "slow-restore": ("to restore its state and open", "to restore their state and open"),
}


_PART_WORDS: Final = {
    "download": "downloading state",
    "rebuild": "rebuilding the store from downloaded files",
    "in-flight-data": "reading the in-flight data of an unaligned checkpoint",
}
_REMEDIES: Final = {
    "download": ("local-recovery", "transfer-threads", "smaller"),
    "rebuild": ("ingest", "smaller"),
    "in-flight-data": ("debloat",),
    "slow-restore": ("local-recovery", "smaller"),
}
_OF_SLOWEST: Final = "of the subtask that takes longest"


class Limits(h.Limits):
    slow: float = h.limit(
        10, "s", "opening connections takes a few seconds; ten seconds are worth a check"
    )
    ratio: float = h.limit(
        5, "ratio", "minimum, compared with the median of all other tasks of the same start"
    )
    reading: float = h.limit(
        0.5, "share", "minimum share of the initialisation that is spent reading state"
    )


def judge(job: h.JobStarting, limits: Limits) -> h.Iterator[h.Finding]:
    """One finding per job, for the slowest start."""
    slow = slow_starts(job, limits.slow)
    if not slow:
        return
    worst = max(slow, key=lambda each: each.took)
    took, task, start, others, _ = worst
    name = h.fmt.subtask_of(task.task, task.subtask_index, task.parallelism)
    long = h.fmt.duration(took)
    # The TaskManager's own log lines, or else the span, separate the restore from the work after it.
    read = read_ms(start, task)
    restoring = start.restored if read is None else read >= took * limits.reading
    cause = "slow-restore" if restoring else "slow-open"
    alone = worst.is_far_above(others, limits.ratio)
    votes = _votes(worst, slow, name, read if restoring else None, limits.ratio)
    as_slow = sum(ms >= took / 2 for ms in (*others, took)) / (len(others) + 1)
    numbers = (
        ("initialisation", took, "ms", None, f"start {start.number + 1}"),
        ("median", round(worst.usual_ms), "ms", None, "other tasks"),
        ("share-as-slow", round(as_slow, 3), "share"),
    )
    parts = start.initialization if restoring else None
    split = "" if parts is None else _split_text(parts)
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
        title=f"{name} took {long} {_WORK[cause][0]}; the job waited for it"
        if alone
        else f"Tasks take up to {long} {_WORK[cause][1]}",
        why=f"{name}: {long} from INITIALIZING to RUNNING"
        + (f", the others {h.fmt.duration(worst.usual_ms)}" if others else "")
        + split,
        cause=cause,
        confidence=h.weigh(votes),
        rank=h.Rank.SLOW_CAUSE,
        first_us=task.initializing_us,
        last_us=task.running_us or start.ended_us,
        count=len(slow),
        measurements=(
            *(h.measurement(*number) for number in numbers),
            *_measured_parts(parts),
        ),
        evidence=h.cite([(task.ref, task.initializing_us), *_span_of(parts)]),
        actions=h.remedies(cause, job.job, *_remedies(cause, parts)),
        votes=votes,
    )


def _split_text(parts: h.Initialization) -> str:
    """Return a clause about the longest part of a restore; empty if the span has no parts."""
    if parts.longest is None:
        return ""
    name, took = parts.longest
    size = f" of {h.fmt.size(parts.bytes)}" if parts.bytes and name == "download" else ""
    return f"; {h.fmt.duration(took)} of it {_PART_WORDS[name]}{size}"


def _span_of(parts: h.Initialization | None) -> h.Cited:
    return [] if parts is None else [(parts.ref, None)]


def _remedies(cause: str, parts: h.Initialization | None) -> tuple[str, ...]:
    longest = parts.longest if parts is not None else None
    return _REMEDIES.get(longest[0] if longest is not None else cause, ())


def _measured_parts(parts: h.Initialization | None) -> h.Iterator[h.Measurement]:
    if parts is not None:
        yield h.measurement("download", parts.download_ms, "ms", over=_OF_SLOWEST)
        yield h.measurement("rebuild", parts.rebuild_ms, "ms", over=_OF_SLOWEST)
        yield h.measurement("initialize-state", parts.initialize_ms, "ms", over=_OF_SLOWEST)
        yield h.measurement("in-flight-data", parts.gate_ms, "ms", over=_OF_SLOWEST)
        yield h.measurement("mailbox-start", parts.mailbox_ms, "ms", over=_OF_SLOWEST)
        yield h.measurement("restored-state", parts.bytes, "bytes", over=_OF_SLOWEST)


def _votes(
    worst: Slowest, slow: list[Slowest], name: str, read: int | None, ratio: float
) -> tuple[h.Vote, ...]:
    took, task, _, others, siblings = worst
    above = f"{h.fmt.duration(took)}, the median is {h.fmt.duration(worst.usual_ms)}"
    same = (task.task, task.subtask_index)
    again = sum((each.task.task, each.task.subtask_index) == same for each in slow) > 1
    alone = siblings and worst.is_far_above(siblings, ratio)
    signals = {
        "far-above-the-others": above if worst.is_far_above(others, ratio) else None,
        "again": f"{name} in {len(slow)} starts" if again else None,
        "alone-in-its-vertex": f"its siblings take {h.fmt.duration(median(siblings))}"
        if alone
        else None,
        "restore-lines": f"state was read for {h.fmt.duration(read)} on {task.taskmanager}"
        if read is not None
        else None,
    }
    return h.votes_for(signals, RULE.signals)


RULE: Final = h.Rule("ST301", judge, Limits, causes=("slow-open", "slow-restore"), needs="starts")
