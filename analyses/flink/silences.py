"""How long was really waited: a hole in a log is no wait, and neither is the time after its last line.

Who is cut out of a log, or copied in two pieces, has hours between two lines of which nobody knows anything.
Waits are measured until the log of whoever would have told of their end falls silent; a process that stood
still for so long writes just as little, which is why reports mention the silence itself.
"""

from __future__ import annotations

from collections.abc import Iterator

from flowdiag.analyses.flink.episodes import beginnings
from flowdiag.analyses.flink.job import ClusterFacts, Incident, JobFacts
from flowdiag.analyses.flink.judging import interval_ms
from flowdiag.analyses.model import fmt
from flowdiag.analyses.model.derived import once
from flowdiag.analyses.report.wire import iso
from flowdiag.parsers.notes import InputNote, Kind

# Checkpoints that are due and not logged: pauses stretch the time between two of them to two intervals.
_MISSED = 3


Span = tuple[int, int]


@once
def _of_jobmanagers(facts: ClusterFacts) -> tuple[Incident, ...]:
    return tuple(
        i for i in facts.incidents if i.kind == "silent" and i.text.get("role") == "jobmanager"
    )


def heard_until(facts: ClusterFacts, since_us: int, until_us: int) -> int:
    """Until when the JobManager's log tells what becomes of something that began at `since_us`.

    Args:
        facts: of the cluster.
        since_us: when it began.
        until_us: the end of the input.

    Returns:
        `until_us`, or the last record before the log falls silent for a while.
    """
    for silence in _of_jobmanagers(facts):
        begun = silence.time_us or 0
        if begun < until_us and begun + (silence.duration_ms or 0) * 1000 > since_us:
            return max(since_us, begun)
    return until_us


def told_until(facts: ClusterFacts, taskmanager: str | None, since_us: int, until_us: int) -> int:
    """Until when any log tells what becomes of a task: its JobManager's, or that of its TaskManager.

    Args:
        facts: of the cluster.
        taskmanager: where the task runs; None: nowhere yet, so that only the JobManager would tell.
        since_us: when it was last heard of.
        until_us: the end of the input.

    Returns:
        `until_us`, or the end of the last log that was written at `since_us`: what other processes write
        later says nothing of it. Without logs (REST alone) `until_us`.
    """
    heard = _heard(facts)
    if not heard:
        return until_us
    voices = ["", *(name for name in (taskmanager, "?") if name and taskmanager is not None)]
    ends = [
        high
        for voice in voices
        for low, high in heard.get(voice, ())
        if low - _DRIFT_US <= since_us <= high
    ]
    return min(until_us, max(ends, default=since_us))


# What clocks of two machines may differ in.
_DRIFT_US = 1_000_000


@once
def _heard(facts: ClusterFacts) -> dict[str, list[Span]]:
    """When each TaskManager's log has records, by its name (`?`: it has none); of all JobManagers under ``""``."""
    # Not above: it imports Arrow, which who only lists rules does not need.
    from flowdiag.parsers.flink.marks import merge_spans

    spans: dict[str, list[Span]] = {}
    for process in facts.processes:
        if process.first_us is not None and process.last_us is not None:
            name = (process.taskmanager or "?") if process.role == "taskmanager" else ""
            spans.setdefault(name, []).append((process.first_us, process.last_us))
    return {
        name: [part for span in merge_spans(found) for part in _without(span, name, facts)]
        for name, found in spans.items()
    }


def _without(span: Span, name: str, facts: ClusterFacts) -> Iterator[Span]:
    """The parts of a span between the silences of a process."""
    low, high = span
    for silence in facts.incidents:
        if silence.kind != "silent" or silence.time_us is None:
            continue
        of_jobmanagers = silence.text.get("role") == "jobmanager"
        if not of_jobmanagers if name == "" else silence.taskmanager != name:
            continue
        if low <= silence.time_us < high:
            yield low, silence.time_us
            low = silence.time_us + (silence.duration_ms or 0) * 1000
    if low <= high:
        yield low, high


def silence_notes(facts: ClusterFacts) -> Iterator[InputNote]:
    """Warnings about times in which checkpoints were due and the JobManager's log has no record at all."""
    for silence in _of_jobmanagers(facts):
        lasted = silence.duration_ms or 0
        begun = silence.time_us or 0
        if any(_was_due(job, begun, begun + lasted * 1000) for job in facts.jobs):
            ended = begun + lasted * 1000
            yield InputNote(
                Kind.GAP,
                f"the JobManager's log is silent from {iso(begun)} to {iso(ended)}"
                f" ({fmt.duration(lasted)}), with checkpoints before and after: lines are missing, or"
                " the JobManager stood still; nothing counts as waiting for that time",
                first_us=begun,
                last_us=ended,
            )


_ENDS = frozenset({"cancelled", "finished", "job-failure", "coordinator-stopped", "suspended"})


def _was_due(job: JobFacts, begun_us: int, ended_us: int) -> bool:
    """Whether a job took checkpoints before and after a silence, and should have taken some within."""
    triggered = [c.triggered_us for c in job.checkpoints if c.triggered_us is not None]
    before = max((us for us in triggered if us <= begun_us), default=None)
    if before is None or not any(us >= ended_us for us in triggered):
        return False
    interval = interval_ms(job)
    if interval is None or ended_us - begun_us < _MISSED * interval * 1000:
        return False
    stopped = [i.time_us for i in job.incidents if i.kind in _ENDS and i.time_us is not None]
    return not any(before <= us <= begun_us for us in stopped) and not any(
        begun_us < us < ended_us for us in beginnings(job)
    )
