"""Measures real waiting times: neither a gap in a log nor the time after its last line is a wait.

An excerpt of a log, or a log copied in two pieces, may lack hours between two lines. A wait is measured
only until the log that would show its end falls silent. A stalled process writes nothing either, so
reports mention the silence itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from flowdiag.analyses.contract.report import iso
from flowdiag.analyses.flink.failures.episodes import beginnings
from flowdiag.analyses.flink.job import ClusterFacts, Incident, JobFacts
from flowdiag.analyses.flink.settings import interval_ms
from flowdiag.analyses.model import fmt
from flowdiag.analyses.model.derived import once
from flowdiag.parsers.notes import InputNote, Kind

# Number of due checkpoints without a record. Pauses alone can stretch a gap to two intervals.
_MISSED = 3


Span = tuple[int, int]


@once
def _jobmanager_silences(facts: ClusterFacts) -> tuple[Incident, ...]:
    return tuple(
        i for i in facts.incidents if i.kind == "silent" and i.text.get("role") == "jobmanager"
    )


def jobmanager_logged_until(facts: ClusterFacts, since_us: int, until_us: int) -> int:
    """Return the time up to which the JobManager's log covers an event that began at `since_us`.

    Args:
        facts: the facts of the cluster.
        since_us: start of the event.
        until_us: the end of the input.

    Returns:
        `until_us`, or the last record before the log falls silent for a while.
    """
    for silence in _jobmanager_silences(facts):
        begun = silence.time_us or 0
        if begun < until_us and begun + (silence.duration_ms or 0) * 1000 > since_us:
            return max(since_us, begun)
    return until_us


def logged_until(facts: ClusterFacts, taskmanager: str | None, since_us: int, until_us: int) -> int:
    """Return the time up to which the log of the JobManager, or of the task's TaskManager, covers a task.

    Args:
        facts: the facts of the cluster.
        taskmanager: the TaskManager of the task; None before it is deployed, when only the JobManager's log covers it.
        since_us: time of the task's last record.
        until_us: the end of the input.

    Returns:
        `until_us`, or the end of the last log that covers `since_us`. Later logs of other processes do
        not cover the task. Without logs (only REST responses), the result is `until_us`.
    """
    heard = _record_spans(facts)
    if not heard:
        return until_us
    names = ["", *(other for other in (taskmanager, "?") if other and taskmanager is not None)]
    ends = [
        high
        for name in names
        for low, high in heard.get(name, ())
        if low - _DRIFT_US <= since_us <= high
    ]
    return min(until_us, max(ends, default=since_us))


# Clocks of two hosts may differ by this much.
_DRIFT_US = 1_000_000


@once
def _record_spans(facts: ClusterFacts) -> dict[str, list[Span]]:
    """Return the periods with records by TaskManager: `?` if it has no name, `""` for all JobManagers."""
    # Imported here: it loads Arrow, which a listing of rules does not need.
    from flowdiag.parsers.flink.marks import merge_spans

    spans: dict[str, list[Span]] = {}
    for process in facts.processes:
        if process.first_us is not None and process.last_us is not None:
            name = (process.taskmanager or "?") if process.role == "taskmanager" else ""
            spans.setdefault(name, []).append((process.first_us, process.last_us))
    return {
        name: [part for span in merge_spans(found) for part in _without_silences(span, name, facts)]
        for name, found in spans.items()
    }


def _without_silences(span: Span, name: str, facts: ClusterFacts) -> Iterator[Span]:
    """Yield the parts of a span outside the silences of a process."""
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
    """Yield a warning for each span in which checkpoints were due but the JobManager's log is silent."""
    for silence in _jobmanager_silences(facts):
        lasted = silence.duration_ms or 0
        begun = silence.time_us or 0
        if any(_was_due(job, begun, begun + lasted * 1000) for job in facts.jobs):
            ended = begun + lasted * 1000
            yield InputNote(
                Kind.GAP,
                f"the JobManager's log is silent from {iso(begun)} to {iso(ended)}"
                f" ({fmt.duration(lasted)}), with checkpoints before and after. Lines are missing, or"
                " the JobManager stalled. flowdiag does not count this time as waiting",
                first_us=begun,
                last_us=ended,
            )


def gap_notes(facts: ClusterFacts) -> Iterator[InputNote]:
    """Yield a warning for each gap in checkpoint numbers, where lines of the JobManager's log are missing.

    A stalled JobManager triggers no checkpoint, so the next checkpoint has the next number.
    """
    if not facts.has_jobmanager_log:
        return
    silent = [i.time_us for i in _jobmanager_silences(facts) if i.time_us is not None]
    for job in facts.jobs:
        interval = interval_ms(job)
        dated = sorted(
            (c.run, c.id, c.triggered_us) for c in job.checkpoints if c.triggered_us is not None
        )
        for (run, before, begun), (other, after, ended) in pairwise(dated):
            missing = after - before - 1
            if run != other or missing < _MISSED or interval is None:
                continue
            # In a shorter gap, several triggers failed. `silence_notes` reports longer gaps.
            if ended - begun < missing * interval * 500 or any(
                begun <= us < ended for us in silent
            ):
                continue
            yield InputNote(
                Kind.GAP,
                f"checkpoints {before + 1} to {after - 1} of {job.name or 'the job'} are missing from the input:"
                f" the JobManager's log lacks lines between {iso(begun)} and {iso(ended)}. Add the rolled file",
                first_us=begun,
                last_us=ended,
            )


_ENDS = frozenset({"cancelled", "finished", "job-failure", "coordinator-stopped", "suspended"})


def _was_due(job: JobFacts, begun_us: int, ended_us: int) -> bool:
    """Return whether a job completed checkpoints before and after a silence, and more were due in between."""
    triggered = [c.triggered_us for c in job.checkpoints if c.triggered_us is not None]
    before = max((us for us in triggered if us <= begun_us), default=None)
    if before is None or max(triggered) < ended_us:
        return False
    interval = interval_ms(job)
    if interval is None or ended_us - begun_us < _MISSED * interval * 1000:
        return False
    stopped = [i.time_us for i in job.incidents if i.kind in _ENDS and i.time_us is not None]
    return not any(before <= us <= begun_us for us in stopped) and not any(
        begun_us < us < ended_us for us in beginnings(job)
    )
