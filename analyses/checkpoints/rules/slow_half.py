"""Which half of the checkpoint is slow.

What it reports
---------------
For checkpoints that expire or are slow: where the time went, waiting for the barrier (start delay and
alignment), in the synchronous part or in the asynchronous part, with the share of each and the
subtask in which it was longest. If the inputs cannot tell, which file or setting would.

Why it matters
--------------
The two halves have opposite cures. Back pressure and skew are not helped by faster storage, slow
storage is not helped by unaligned checkpoints.

How it decides
--------------
From per-subtask details (REST, archive, DEBUG dump, DEBUG lines of TaskManagers) of the failed and
slow checkpoints: for the subtask that acknowledged last, the synchronous and asynchronous durations
that it measured itself, and the rest of its end-to-end duration, which is the wait for the barrier.
The start delay that Flink reports is not used: it is a difference of two machines' clocks. A half must
hold `share` of the time. Without durations the shape of missing acknowledgements decides: everything
downstream missing is a barrier that is stuck, nothing else missing a snapshot that is slow. Last, the
warning "Time from receiving all checkpoint barriers/RPC to executing it exceeded threshold" (1.12+):
the barriers had come, the task had no time for them.

What to do
----------
Barriers: remove the back pressure (CP201), unaligned checkpoints, buffer debloating. Synchronous part:
what runs in the task's thread at a snapshot. Asynchronous part: storage, network, state size.

False alarms
------------
None of its own: it explains what CP101 and CP104 found, and speaks only then.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final

from flowdiag.analyses.checkpoints.culprit import conviction_of
from flowdiag.analyses.checkpoints.rules.slow_checkpoint import RULE as SLOW
from flowdiag.analyses.finding import (
    Action,
    Confidence,
    Finding,
    Inconclusive,
    Measurement,
    Rank,
    State,
    cite,
    grade,
)
from flowdiag.analyses.flink import judging as j
from flowdiag.analyses.flink.episodes import all_spells, concluded, episodes, settled
from flowdiag.analyses.flink.job import (
    Checkpoint,
    Incident,
    JobFacts,
    Status,
    SubtaskCheckpoint,
)
from flowdiag.analyses.flink.kit import Job
from flowdiag.analyses.flink.options import option
from flowdiag.analyses.flink.topology import topology_of
from flowdiag.analyses.rule import Limits, Rule, limit

_NAMES: Final = {
    "barrier": "waiting for barriers",
    "sync": "the synchronous part",
    "async": "the asynchronous part",
}


class SlowHalfLimits(Limits):
    """What CP203 compares with."""

    share: float = limit(0.5, "share", "a half that holds most of the time is the one to mend")


def judge(job: Job, limits: SlowHalfLimits) -> Iterator[Finding | Inconclusive]:
    """One finding, or one reason why not, per sick job."""
    series = [e for e in episodes(job) if e.count(Status.EXPIRED)]
    expired = [c for e in series for c in e.checkpoints if c.status is Status.EXPIRED]
    slow = [] if expired else _slow(job)
    sick = expired or slow
    if not sick:
        return
    measured = _measured(job, sick)
    if measured is not None and measured.share >= limits.share:
        yield _finding(job, sick, measured.half, measured, bool(expired))
        return
    half = _half_by_shape(job) if expired else None
    warned = _warnings(job, sick)
    if half is not None:
        yield _finding(job, sick, half, None, bool(expired))
    elif warned:
        yield _finding(job, sick, "barrier", None, bool(expired), warned)
    else:
        yield Inconclusive(
            reason="no input says how long barriers, synchronous and asynchronous parts took",
            remedy="save /jobs/:id/checkpoints/details/:checkpoint/subtasks/:vertex, or log "
            "org.apache.flink.streaming.runtime.tasks at DEBUG"
            " (from 1.18 also org.apache.flink.runtime.checkpoint.CheckpointStatsTracker)",
            job=job.key,
        )


def _slow(job: Job) -> list[Checkpoint]:
    if not any(isinstance(finding, Finding) for finding in SLOW.judge(job, SLOW.limits())):
        return []
    usual = [c for stretch in settled(job, j.WARM_UP) for c in stretch]
    return sorted(usual, key=lambda c: -(c.duration_ms or 0))[:10]


class Measured:
    """Milliseconds per half, summed over the last subtask of each checkpoint, and the worst row."""

    def __init__(self, sums: dict[str, float], worst: SubtaskCheckpoint, checkpoints: int) -> None:
        """Keep the sums."""
        self.sums, self.worst, self.checkpoints = sums, worst, checkpoints

    @property
    def half(self) -> str:
        """The half that holds most of the time."""
        return max(sorted(self.sums), key=lambda name: self.sums[name])

    @property
    def share(self) -> float:
        """Its part of the time."""
        return self.sums[self.half] / max(1.0, sum(self.sums.values()))


def _measured(job: JobFacts, sick: list[Checkpoint]) -> Measured | None:
    wanted = {c.id for c in sick}
    rows: dict[int, list[SubtaskCheckpoint]] = defaultdict(list)
    for row in job.subtask_checkpoints:
        if row.checkpoint in wanted and row.sync_ms is not None and row.end_to_end_ms is not None:
            rows[row.checkpoint].append(row)
    sums: dict[str, float] = {"barrier": 0.0, "sync": 0.0, "async": 0.0}
    worst: SubtaskCheckpoint | None = None
    limits: dict[int, int | None] = {}
    for checkpoint in sick:
        limits.setdefault(checkpoint.id, checkpoint.duration_ms)
    expired = {c.id for c in sick if c.status is Status.EXPIRED}
    for members in rows.values():
        last = max(members, key=lambda row: (row.end_to_end_ms or 0, row.subtask_index))
        # Of a failed checkpoint only those that acknowledged have durations: the last of them counts
        # if it was late itself.
        whole, sync, asynchronous = (
            float(last.end_to_end_ms or 0),
            float(last.sync_ms or 0),
            float(last.async_ms or 0),
        )
        if last.checkpoint in expired and whole < (limits.get(last.checkpoint) or 0):
            continue
        sums["sync"] += sync
        sums["async"] += asynchronous
        sums["barrier"] += max(0.0, whole - sync - asynchronous)
        if worst is None or whole > (worst.end_to_end_ms or 0):
            worst = last
    if worst is None or not any(sums.values()):
        return None
    return Measured(sums, worst, len(rows))


def _half_by_shape(job: JobFacts) -> str | None:
    series = all_spells(job)
    last = range(max(0, len(series) - 10), len(series))
    found = [conviction_of(job, n) for n in last if series[n].count(Status.EXPIRED)]
    known = [c.half for c in found if c.half in _NAMES and c.confidence is not Confidence.LOW]
    return known[-1] if known else None


def _warnings(job: JobFacts, sick: list[Checkpoint]) -> list[Incident]:
    """Tasks that began a checkpoint half a minute after they had all its barriers (1.12+)."""
    numbers = {c.id for c in sick}
    low = min((c.triggered_us for c in sick if c.triggered_us is not None), default=None)
    return [
        i
        for i in job.incidents
        if i.kind == "barrier-delayed"
        and (
            i.checkpoint in numbers
            or (i.checkpoint is None and low is not None and (i.time_us or 0) >= low)
        )
    ]


def _finding(
    job: JobFacts,
    sick: list[Checkpoint],
    half: str,
    measured: Measured | None,
    failing: bool,
    warned: Sequence[Incident] = (),
) -> Finding:
    series = [e for e in episodes(job) if e.count(Status.EXPIRED)]
    state = j.state_of(series) if failing else State.ONGOING
    name = _NAMES[half]
    measurements = []
    if measured is not None:
        total = max(1.0, sum(measured.sums.values()))
        measurements = [
            Measurement(
                name=f"share-of-{key}",
                value=round(measured.sums[key] / total, 3),
                unit="share",
                population=f"the last subtask of {j.count_text(measured.checkpoints, 'checkpoint')}",
            )
            for key in ("barrier", "sync", "async")
        ]
        title = f"{measured.share * 100:.0f} % of the time goes into {name}"
        task = measured.worst.task
        size = topology_of(job).parallelism.get(task or "")
        worst = j.subtask_text(task, measured.worst.subtask_index, size)
        text = (
            f"Longest in {worst}: {j.duration_text(measured.worst.end_to_end_ms)} from trigger to "
            f"acknowledgement, of which {j.duration_text(measured.worst.sync_ms)} in the synchronous "
            f"and {j.duration_text(measured.worst.async_ms)} in the asynchronous part."
        )
    elif warned:
        longest = max(i.duration_ms or 0 for i in warned)
        title = f"Tasks began a checkpoint up to {j.duration_text(longest)} after its barriers came"
        text = (
            "Their thread was busy with something else all that time: records, timers, or a call that "
            "blocks. The default log does not name the task."
        )
    else:
        title = f"The checkpoints fail in {name}, by the shape of their acknowledgements"
        text = (
            "No durations were found; which subtasks acknowledged and which did not says it: "
            "a stuck barrier is missing everywhere downstream, a slow snapshot in one place only."
        )
    cited = (*cite((i.ref, i.time_us) for i in warned), *j.ends(sick))
    if measured is not None and measured.worst.ref is not None:
        cited = (*cite([(measured.worst.ref, None)]), *cited)
    return Finding(
        job=job.key,
        severity=(
            j.severity_of(job, series, len(sick), len(concluded(job)), fatal=False)
            if failing
            else grade(state=state, share=len(sick) / max(1, len(concluded(job))))
        ),
        state=state,
        subject=j.job_subject(job),
        title=title,
        explain=text,
        rank=Rank.SYMPTOM,
        option=half,
        first_us=sick[0].triggered_us,
        last_us=sick[-1].ended_us,
        count=len(sick),
        measurements=tuple(measurements),
        evidence=cited,
        actions=_actions(job, half),
    )


def _actions(job: JobFacts, half: str) -> tuple[Action, ...]:
    if half == "barrier":
        name = option("unaligned", job.version)
        found = [Action(text="Remove the back pressure: see CP201 for where it ends")]
        if name is not None:
            found.append(
                Action(
                    text="Let barriers overtake the data that waits",
                    option=name,
                    current=j.configured(job, "execution.checkpointing.unaligned", name),
                    proposed="true",
                    risk="checkpoints carry in-flight data",
                    restart_needed=True,
                    verify="checkpoints complete under back pressure",
                )
            )
        return tuple(found)
    if half == "sync":
        return (
            Action(
                text="Look at what runs in the task's thread at a snapshot: flushing in "
                "snapshotState or preCommit, timers on the heap, many small states",
                verify="the synchronous duration falls below a second",
            ),
        )
    return (
        Action(
            text="Look at the storage of checkpoints and at the state's size; write only what changed",
            option=option("incremental", job.version),
            current=j.configured(
                job, "state.backend.incremental", "execution.checkpointing.incremental"
            ),
            proposed="true",
            restart_needed=True,
            verify="the asynchronous duration falls",
        ),
    )


RULE: Final = Rule("CP203", judge, SlowHalfLimits)
