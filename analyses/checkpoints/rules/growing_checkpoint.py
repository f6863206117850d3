"""Checkpoints get longer or larger.

What it reports
---------------
A lasting rise of the duration or of the size of the periodic checkpoints, with its factor and, for
the duration, when it will reach the time-out at this pace.

Why it matters
--------------
State that only grows (a missing time-to-live, an unbounded join, keys that never end) is harmless
until the day it fills the disk or makes every checkpoint expire; on that day it takes long to mend.

How it decides
--------------
Only within a stretch: never across a start, a restore, a rescaling or another version ("bytes"
changed its meaning for incremental checkpoints). Savepoints and warm-up are left out. A stretch
needs `checkpoints` of them over `span`. The median of its last fifth must be `factor` times that of
its first fifth and by a floor larger, the rank correlation with time (Kendall's tau, on at most 200
checkpoints) at least `tau`, and the second half must still rise, by `still` and by most of what the
first half did (`straight`): state that fills up after a start and levels off is no growth. A stretch
that may be the rising flank of a day (between a quarter of a day and a whole one) needs
`daily-factor`. Medians and ranks ignore single outliers.

What to do
----------
Look for state without an end: a time-to-live for keyed state, session windows that never close,
joins without bounds. Then incremental checkpoints.

False alarms
------------
The rising flank of a steep daily rhythm, when the input holds only that flank: give it a whole day.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from flowdiag.analyses.checkpoints.rules.slow_checkpoint import lasted_ms
from flowdiag.analyses.finding import (
    Action,
    Finding,
    Inconclusive,
    Measurement,
    Rank,
    State,
    grade,
    spread,
)
from flowdiag.analyses.flink import judging as j
from flowdiag.analyses.flink.episodes import settled
from flowdiag.analyses.flink.job import Checkpoint, JobFacts
from flowdiag.analyses.flink.kit import Job
from flowdiag.analyses.flink.options import option
from flowdiag.analyses.rule import Limits, Rule, limit

_SAMPLE: Final = 200
_DAY_MS: Final = 86_400_000.0


class GrowingCheckpointLimits(Limits):
    """What CP105 compares with."""

    checkpoints: float = limit(30, "checkpoints", "fewer points show no trend against noise")
    span: float = limit(
        1_800_000.0, "ms", "what happens within half an hour is an event, not a trend"
    )
    factor: float = limit(
        2.0, "ratio", "a daily rhythm or a larger input seldom doubles a checkpoint"
    )
    tau: float = limit(0.6, "ratio", "four of five pairs of checkpoints are in rising order")
    still: float = limit(
        1.15,
        "ratio",
        "a straight line that doubles rises by a third in its second half, one that levels off "
        "does not",
    )
    straight: float = limit(
        0.7,
        "ratio",
        "rise of the second half by that of the first: a straight line gives 1, filling up "
        "towards a level at most 0.67 once its time constant has passed",
    )
    daily_factor: float = limit(
        3.0,
        "ratio",
        "a load that is half as large again by day and half by night triples in half a day",
    )
    floor_duration: float = limit(2000.0, "ms", "growth that nobody would notice")
    floor_size: float = limit(67_108_864.0, "bytes", "64 MiB: less is nobody's problem")


def judge(job: Job, limits: GrowingCheckpointLimits) -> Iterator[Finding | Inconclusive]:
    """At most one finding for the duration and one for the size, per job."""
    stretches = settled(job, j.WARM_UP)
    if not stretches:
        return
    last = stretches[-1]
    durations = [(c, lasted) for c in last if (lasted := lasted_ms(c)) is not None]
    sizes = [(c, float(c.bytes)) for c in last if c.bytes is not None]
    grown = Growth.of(durations, limits, limits.floor_duration)
    if grown is not None:
        yield _finding(job, grown, "duration", "ms", limits)
    grown = Growth.of(sizes, limits, limits.floor_size)
    if grown is not None:
        yield _finding(job, grown, "size", "bytes", limits)


class Growth:
    """A rise that lasts: level before, level now, rank correlation."""

    __slots__ = ("after", "before", "points", "tau")

    def __init__(
        self, points: Sequence[tuple[Checkpoint, float]], before: float, after: float, tau: float
    ) -> None:
        """Keep the numbers."""
        self.points, self.before, self.after, self.tau = points, before, after, tau

    @property
    def factor(self) -> float:
        """How many times larger."""
        return self.after / max(self.before, 1.0)

    @classmethod
    def of(
        cls,
        points: Sequence[tuple[Checkpoint, float]],
        limits: GrowingCheckpointLimits,
        floor: float,
    ) -> Growth | None:
        """The growth in a stretch, None when there is none worth the name."""
        values = [value for _, value in points]
        first, last = (points[0][0], points[-1][0]) if points else (None, None)
        if first is None or last is None or len(values) < limits.checkpoints:
            return None
        if first.triggered_us is None or last.triggered_us is None:
            return None
        span_ms = (last.triggered_us - first.triggered_us) / 1000
        if span_ms < limits.span:
            return None
        flank = _DAY_MS / 4 <= span_ms <= _DAY_MS
        fifth, half = max(1, len(values) // 5), len(values) // 2
        before, after = median(values[:fifth]), median(values[-fifth:])
        middle = median(values[half - fifth // 2 : half + fifth // 2 + 1])
        grown = cls(points, before, after, kendall(thin(values, _SAMPLE)))
        if (
            grown.factor >= (limits.daily_factor if flank else limits.factor)
            and after - before >= floor
            and after >= middle * limits.still
            and after - middle >= (middle - before) * limits.straight
            and grown.tau >= limits.tau
        ):
            return grown
        return None


def median(values: Sequence[float]) -> float:
    """The upper median of at least one value."""
    return sorted(values)[len(values) // 2]


def thin(values: Sequence[float], most: int) -> list[float]:
    """At most so many values, evenly chosen.

    >>> thin([0, 1, 2, 3, 4, 5], 3)
    [0, 2, 4]
    """
    if len(values) <= most:
        return list(values)
    return [values[i * len(values) // most] for i in range(most)]


def kendall(values: Sequence[float]) -> float:
    """Kendall's rank correlation of values with their order, -1 to 1; ties count as neither.

    >>> kendall([1, 2, 3]), kendall([3, 2, 1]), kendall([5, 5])
    (1.0, -1.0, 0.0)
    """
    score = pairs = 0
    for i, left in enumerate(values):
        for right in values[i + 1 :]:
            score += (right > left) - (right < left)
            pairs += 1
    return score / pairs if pairs else 0.0


def _finding(
    job: JobFacts, grown: Growth, what: str, unit: str, limits: GrowingCheckpointLimits
) -> Finding:
    first, last = grown.points[0][0], grown.points[-1][0]
    say = j.duration_text if unit == "ms" else j.bytes_text
    span = ((last.triggered_us or 0) - (first.triggered_us or 0)) / 1000
    timeout = j.timeout_ms(job)
    pace = (grown.after - grown.before) / max(1.0, span * 0.8)
    more = ""
    if unit == "ms" and timeout and timeout > grown.after and pace > 0:
        more = (
            " At this pace they reach the time-out of "
            f"{j.duration_text(timeout)} in {j.duration_text((timeout - grown.after) / pace)}."
        )
    option_name = "incremental"
    return Finding(
        job=job.key,
        severity=grade(state=State.ONGOING, share=1.0),
        state=State.ONGOING,
        subject=j.job_subject(job),
        title=(
            f"Checkpoint {what} grew {grown.factor:.1f}-fold in {j.duration_text(span)}, "
            f"from {say(grown.before)} to {say(grown.after)}"
        ),
        explain=(
            "The rise is steady and goes on in the second half of the stretch, so it is not the "
            f"filling up after a start.{more}"
        ),
        rank=Rank.SYMPTOM,
        option=f"checkpoint-{what}",
        first_us=first.triggered_us,
        last_us=last.ended_us,
        count=len(grown.points),
        measurements=(
            Measurement(
                name=f"{what}-before", value=grown.before, unit=unit, population="first fifth"
            ),
            Measurement(name=f"{what}-now", value=grown.after, unit=unit, population="last fifth"),
            Measurement(name="growth", value=grown.factor, unit="ratio", threshold=limits.factor),
            Measurement(name="kendall-tau", value=grown.tau, unit="ratio", threshold=limits.tau),
        ),
        evidence=spread(j.ends([c for c, _ in grown.points])),
        evidence_total=len(grown.points),
        actions=(
            Action(
                text="Find the state that never ends: set a time-to-live, close windows, bound "
                "joins",
                option="table.exec.state.ttl (SQL) or StateTtlConfig (DataStream)",
                risk="results that need older state change",
                restart_needed=True,
                verify="the full size levels off",
            ),
            Action(
                text="Write only what changed",
                option=option(option_name, job.version),
                current=j.configured(
                    job, "state.backend.incremental", "execution.checkpointing.incremental"
                ),
                proposed="true",
                risk="restoring takes longer",
                restart_needed=True,
                verify="checkpointed bytes fall well below the full size",
            ),
        ),
    )


RULE: Final = Rule("CP105", judge, GrowingCheckpointLimits)
