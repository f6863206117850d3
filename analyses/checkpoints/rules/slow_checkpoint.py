"""Checkpoints take most of the interval.

What it reports
---------------
Periodic checkpoints that complete yet last for most of the interval, or for half of the time-out:
how many, how long, and how near to the limit they come.

Why it matters
--------------
A checkpoint that takes as long as the interval means that the job is always in one: exactly-once
sinks commit late, each failure replays more, and the next hiccup turns slow into expired.

How it decides
--------------
A checkpoint is slow when its duration reaches `interval-share` of the interval or `timeout-share`
of the time-out, and `floor` in any case. The interval is the configured one or the lower quartile
of the gaps between triggers, the time-out the configured one, the one observed, or Flink's default
of 10 minutes. Savepoints and the first checkpoints after a start or a restore are left out. It is
reported when `slow-share` of the checkpoints were slow, or the last three were.

What to do
----------
See CP203 for the half that is slow. Barriers that wait: mend the slow task, or let barriers
overtake. Slow snapshots: incremental checkpoints, faster storage. When all is as it should be, make
the interval longer, or set a pause so that the job gets its work done in between.

False alarms
------------
An interval of a few seconds on purpose (small exactly-once commits) with checkpoints of about the
same length is reported if they take longer than `floor`; raise it in the settings.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from flowdiag.analyses.finding import (
    MAX_CITED,
    Action,
    Finding,
    Inconclusive,
    Measurement,
    Rank,
    State,
    grade,
)
from flowdiag.analyses.flink import judging as j
from flowdiag.analyses.flink.episodes import settled
from flowdiag.analyses.flink.job import Checkpoint, JobFacts
from flowdiag.analyses.flink.kit import Job
from flowdiag.analyses.flink.options import option
from flowdiag.analyses.rule import Limits, Rule, limit

DEFAULT_TIMEOUT_MS: Final = 600_000  # execution.checkpointing.timeout, 1.4 to 2.3
_AT_THE_END: Final = 3  # slow ones in a row that make a present state


class SlowCheckpointLimits(Limits):
    """What CP104 compares with."""

    interval_share: float = limit(
        0.75,
        "share",
        "beyond three quarters of the interval ordinary variation (a factor of 1.3) makes a "
        "checkpoint run into the next one",
    )
    timeout_share: float = limit(
        0.5, "share", "twice as slow, which back pressure does easily, and it expires"
    )
    floor: float = limit(
        2000.0, "ms", "faster checkpoints are nobody's problem, however short the interval"
    )
    slow_share: float = limit(
        0.05, "share", "single slow checkpoints happen (a compaction, a pause)"
    )


def judge(job: Job, limits: SlowCheckpointLimits) -> Iterator[Finding | Inconclusive]:
    """At most one finding per job."""
    usual = [c for stretch in settled(job, j.WARM_UP) for c in stretch]
    timed = [(c, duration) for c in usual if (duration := lasted_ms(c)) is not None]
    interval = j.interval_ms(job)
    timeout = j.timeout_ms(job) or DEFAULT_TIMEOUT_MS
    limit = timeout * limits.timeout_share
    if interval is not None:
        limit = min(limit, interval * limits.interval_share)
    limit = max(limit, limits.floor)
    slow = [c for c, duration in timed if duration >= limit]
    tail = [c for c, _ in timed[-_AT_THE_END:]]
    at_the_end = len(tail) == _AT_THE_END and all(c in slow for c in tail)
    if at_the_end or (len(slow) >= _AT_THE_END and len(slow) >= len(timed) * limits.slow_share):
        yield _finding(job, slow, timed, interval, timeout, limit, at_the_end)


def lasted_ms(checkpoint: Checkpoint) -> float | None:
    """How long a completed checkpoint took."""
    if checkpoint.duration_ms is not None:
        return checkpoint.duration_ms
    if checkpoint.triggered_us is not None and checkpoint.ended_us is not None:
        return max(0, checkpoint.ended_us - checkpoint.triggered_us) / 1000
    return None


def _finding(
    job: JobFacts,
    slow: list[Checkpoint],
    timed: list[tuple[Checkpoint, float]],
    interval: float | None,
    timeout: float,
    limit: float,
    at_the_end: bool,
) -> Finding:
    durations = sorted(duration for _, duration in timed)
    median = durations[len(durations) // 2]
    longest = durations[-1]
    sizes = sorted(c.bytes for c in slow if c.bytes is not None)
    queued = sorted(c.queue_ms for c in slow if c.queue_ms is not None)
    state = State.ONGOING if at_the_end else State.RECOVERED
    against = (
        f"the interval is {j.duration_text(interval)}"
        if interval is not None and interval <= timeout
        else f"the time-out is {j.duration_text(timeout)}"
    )
    cited = j.ends(sorted(slow, key=lambda c: (-(lasted_ms(c) or 0.0), c.run, c.id))[:MAX_CITED])
    measurements = [
        Measurement(
            name="slow-checkpoints",
            value=len(slow),
            unit="checkpoints",
            population=f"{len(timed)} completed, without savepoints and warm-up",
        ),
        Measurement(name="median-duration", value=median, unit="ms", threshold=limit),
        Measurement(name="longest-duration", value=longest, unit="ms", threshold=timeout),
    ]
    if interval is not None:
        measurements.append(Measurement(name="interval", value=interval, unit="ms"))
    if sizes:
        measurements.append(
            Measurement(name="median-size", value=sizes[len(sizes) // 2], unit="bytes")
        )
    if queued:
        measurements.append(
            Measurement(name="median-request-in-queue", value=queued[len(queued) // 2], unit="ms")
        )
    return Finding(
        job=job.key,
        severity=grade(state=state, share=len(slow) / len(timed)),
        state=state,
        subject=j.job_subject(job),
        title=(
            f"{len(slow)} of {j.count_text(len(timed), 'completed checkpoint')} took "
            f"{j.duration_text(limit)} or longer, up to {j.duration_text(longest)}; {against}"
        ),
        explain=(
            f"Half of the checkpoints take longer than {j.duration_text(median)}"
            + (f" for {j.bytes_text(sizes[len(sizes) // 2])}" if sizes else "")
            + ". They still complete, but leave little room: a moment of back pressure makes them "
            "expire."
        ),
        rank=Rank.SYMPTOM,
        first_us=slow[0].triggered_us,
        last_us=slow[-1].ended_us,
        count=len(slow),
        measurements=tuple(measurements),
        evidence=cited,
        evidence_total=len(slow),
        actions=_actions(job, interval),
    )


def _actions(job: JobFacts, interval: float | None) -> tuple[Action, ...]:
    pause = option("min-pause", job.version)
    return (
        Action(
            text="See which half is slow (CP203): waiting for barriers, or taking the snapshot",
            verify="start delay, alignment, synchronous and asynchronous durations per subtask",
        ),
        Action(
            text="Guarantee time for work between checkpoints",
            option=pause,
            current=j.configured(job, "execution.checkpointing.min-pause", "min_pause"),
            proposed=j.duration_text(interval / 2) if interval else None,
            restart_needed=True,
            verify="gaps between the end of a checkpoint and the next trigger",
        ),
        Action(
            text="Write only what changed (RocksDB and other incremental backends)",
            option=option("incremental", job.version),
            current=j.configured(
                job, "state.backend.incremental", "execution.checkpointing.incremental"
            ),
            proposed="true",
            risk="restoring takes longer",
            restart_needed=True,
            verify="checkpointed bytes fall well below the full size",
        ),
    )


RULE: Final = Rule("CP104", judge, SlowCheckpointLimits)
