"""Checkpoints get longer or larger.

What it reports
---------------
A lasting rise in the duration or the size of periodic checkpoints, and its factor. If the duration rises, the
finding also estimates when it will reach the timeout.

Why it matters
--------------
State grows without bound if a time-to-live is missing, a join is unbounded, or keys never expire. This is
harmless until the state fills the disk or makes every checkpoint expire. By then a fix takes a long time.

How it decides
--------------
The rule compares checkpoints within one stretch. A stretch ends at a start, a restore, a rescaling or a version
change, because the meaning of "bytes" for incremental checkpoints differs between versions. Savepoints and
warm-up do not count. A stretch needs at least `checkpoints` checkpoints over at least `span`. All of these
conditions must hold:

- The median of the last fifth is at least `factor` times the median of the first fifth, and larger by at least
  `floor-duration` or `floor-size`.
- The rank correlation with time (Kendall's tau, on at most 200 checkpoints) is at least `tau`.
- The last fifth is at least `still` times the middle, and the second half rises by at least `straight` times
  the rise of the first half. State that fills up after a start and then levels off is not growth.

A stretch between a quarter of a day and a whole day may only show the daily rise of the load. It therefore
needs `daily-factor` instead of `factor`. Medians and ranks ignore single outliers.

What to do
----------
Look for unbounded state: keyed state without a time-to-live, session windows that never close, or joins
without bounds. Then enable incremental checkpoints.

False alarms
------------
If the load follows a steep daily rhythm and the input covers only its rise, the rule may report growth. Pass
the logs of a whole day.
"""

from __future__ import annotations

from typing import Final

from flowdiag.analyses.flink import helpers as h
from flowdiag.analyses.flink.trends import flanks, is_straight, kendall

_DAY_MS: Final = 86_400_000.0


class Limits(h.Limits):
    checkpoints: float = h.limit(
        30, "checkpoints", "with fewer points a trend cannot be distinguished from noise"
    )
    span: float = h.limit(
        1_800_000.0, "ms", "a rise within half an hour is a single event, not a trend"
    )
    factor: float = h.limit(
        2.0, "ratio", "a daily rhythm or a larger input rarely doubles a checkpoint"
    )
    tau: float = h.limit(
        0.6, "ratio", "at 0.6, four of five pairs of checkpoints are in rising order"
    )
    still: float = h.limit(
        1.15,
        "ratio",
        "a straight line that doubles rises by a third in its second half; a curve that levels "
        "off does not",
    )
    straight: float = h.limit(
        0.7,
        "ratio",
        "rise of the second half divided by that of the first: 1 for a straight line, at most 0.67 "
        "for state that approaches a level, once its time constant has passed",
    )
    daily_factor: float = h.limit(
        3.0,
        "ratio",
        "a load of 1.5 times the mean by day and half of it by night triples in half a day",
    )
    floor_duration: float = h.limit(2000.0, "ms", "smaller growth has no noticeable effect")
    floor_size: float = h.limit(67_108_864.0, "bytes", "growth by less than 64 MiB is harmless")


def judge(job: h.Job, limits: Limits) -> h.Iterator[h.Finding]:
    """At most one finding for the duration and one for the size, per job."""
    stretches = h.steady_checkpoints(job, h.WARM_UP)
    last = stretches[-1] if stretches else []
    durations = [(c, lasted) for c in last if (lasted := h.elapsed_ms(c)) is not None]
    sizes = [(c, float(c.bytes)) for c in last if c.bytes is not None]
    if len(durations) >= max(1, limits.checkpoints):
        yield from _growth(job, "duration", "ms", limits.floor_duration, durations, limits)
    if len(sizes) >= max(1, limits.checkpoints):
        yield from _growth(job, "size", "bytes", limits.floor_size, sizes, limits)


def _growth(
    job: h.Job,
    what: str,
    unit: str,
    floor: float,
    points: list[tuple[h.Checkpoint, float]],
    limits: Limits,
) -> h.Iterator[h.Finding]:
    """Yield the growth in a stretch if it meets all criteria of the page."""
    checkpoints, values = [c for c, _ in points], [value for _, value in points]
    first, last = checkpoints[0].triggered_us, checkpoints[-1].triggered_us
    if first is None or last is None or (span_ms := (last - first) / 1000) < limits.span:
        return
    flank = _DAY_MS / 4 <= span_ms <= _DAY_MS
    before, middle, after = flanks(values)
    factor = after / max(before, 1.0)
    if (
        factor < (limits.daily_factor if flank else limits.factor)
        or after - before < floor
        or after < middle * limits.still
        or not is_straight(values, limits.straight)
        or (tau := kendall(values)) < limits.tau
    ):
        return
    show = {"ms": h.fmt.duration, "bytes": h.fmt.size}[unit]
    explain = (
        "The rise is steady and continues in the second half of the stretch, so it is not state "
        "filling up after a start."
    )
    # The medians of the fifths are four fifths of the stretch apart.
    per_hour = (after - before) / max(1.0, span_ms * 0.8) * 3_600_000
    explain += f" It grows by {show(per_hour)} per hour."
    timeout = job.timeout_ms or 0.0
    if unit == "ms" and timeout > after > before:
        left = (timeout - after) / per_hour * 3_600_000
        explain += (
            f" At this pace checkpoints reach the timeout of {h.fmt.duration(timeout)} in "
            f"{h.fmt.duration(left)}, on {h.fmt.moment(last + left * 1000)}."
        )
    yield h.checkpoint_finding(
        job,
        checkpoints,
        among=checkpoints,
        ongoing=True,
        title=f"Checkpoint {what} grew {factor:.1f}-fold in {h.fmt.duration(span_ms)}, "
        f"from {show(before)} to {show(after)}",
        explain=explain,
        rank=h.Rank.SYMPTOM,
        option=f"checkpoint-{what}",
        measurements=(
            h.measurement(f"{what}-before", before, unit, over="first fifth"),
            h.measurement(f"{what}-now", after, unit, over="last fifth"),
            h.measurement("growth", factor, "ratio", limits.factor),
            h.measurement("growth-per-hour", round(per_hour), f"{unit}/h"),
            h.measurement("kendall-tau", tau, "ratio", limits.tau),
        ),
        actions=(
            h.Action(
                text="Find the unbounded state: set a time-to-live, close windows, bound joins",
                option="table.exec.state.ttl",
                measure="how long results need old state; in the DataStream API use StateTtlConfig",
                risk="results that need older state change",
                restart_needed=True,
                verify="the full size levels off",
            ),
            *h.shared_remedies(job, "incremental"),
        ),
    )


RULE: Final = h.Rule("CP105", judge, Limits, needs="ended-checkpoints")
