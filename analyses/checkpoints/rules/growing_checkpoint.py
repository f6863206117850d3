"""Checkpoints get longer or larger.

What it reports
---------------
A lasting rise in the duration or the size of periodic checkpoints, and its factor. If the duration rises, the
finding also estimates when it will reach the timeout.

Why it matters
--------------
State grows without bound if a time-to-live is missing, a join is unbounded, or keys never expire. The growth is
harmless until the state fills the disk or every checkpoint expires. By then, it takes a long time to fix.

How it decides
--------------
The rule only compares checkpoints within one stretch of the run. A stretch ends at a start, a restore, a rescaling
or a change of the Flink version. Versions differ in how they count the bytes of incremental checkpoints.
Savepoints and warm-up do not count. A stretch needs at least `checkpoints` checkpoints over at least `span`. All
of these conditions must hold:

- The median of the last fifth is at least `factor` times the median of the first fifth, and larger by at least
  `floor-duration` or `floor-size`.
- The rank correlation with time (Kendall's tau, on at most 200 checkpoints) is at least `tau`.
- The last fifth is at least `recent-growth` times the middle, and the second half rises by at least `linearity` times the
  rise of the first half. State that fills up after a start and then levels off therefore does not count.

A stretch of six hours to a day may only show the daily rise of the load. For such a stretch, `daily-factor`
replaces `factor`. Single outliers do not affect medians and ranks.

What to do
----------
Look for unbounded state: keyed state without a time-to-live, session windows that never close, or joins
without bounds. Then enable incremental checkpoints.

False alarms
------------
If the load varies strongly over the day and the input covers only its rise, the rule may report growth. Pass the
logs of a whole day.
"""

from typing import Final

from flowdiag.analyses.checkpoints.detect.growth import Growth, growths
from flowdiag.analyses.flink import helpers as h


class Limits(h.Limits):
    checkpoints: float = h.limit(30, "checkpoints", "number of checkpoints needed to show a trend")
    span: float = h.limit(1_800_000.0, "ms", "minimum time span; a shorter rise is not a trend")
    factor: float = h.limit(
        2.0, "ratio", "minimum ratio of the last to the first fifth; load rarely doubles the median"
    )
    tau: float = h.limit(
        0.6, "correlation", "minimum rank correlation with time: four of five pairs rise"
    )
    recent_growth: float = h.limit(
        1.15, "ratio", "minimum ratio of the last to the middle fifth; less if growth levels off"
    )
    linearity: float = h.limit(
        0.7,
        "ratio",
        "minimum ratio of the second half's rise to the first's; a line gives 1, a "
        "flattening curve at most 0.67",
    )
    daily_factor: float = h.limit(
        3.0,
        "ratio",
        "replaces `factor` in periods of up to a day; a load between 0.5 and 1.5 times "
        "its mean triples in half a day",
    )
    floor_duration: float = h.limit(
        2000.0, "ms", "minimum growth in duration; smaller growth is harmless"
    )
    floor_size: float = h.limit(
        67_108_864.0, "bytes", "minimum growth in size; smaller growth is harmless"
    )


def judge(job: h.Job, limits: Limits) -> h.Iterator[h.Finding]:
    """Yield at most one finding about the duration and one about the size per job."""
    for growth in growths(
        job,
        {"duration": limits.floor_duration, "size": limits.floor_size},
        checkpoints=limits.checkpoints,
        span_ms=limits.span,
        factor=limits.factor,
        daily_factor=limits.daily_factor,
        still=limits.recent_growth,
        straight=limits.linearity,
        tau=limits.tau,
    ):
        yield _finding(job, growth, limits)


def _finding(job: h.Job, growth: Growth, limits: Limits) -> h.Finding:
    what, unit, before, after = growth.what, growth.unit, growth.before, growth.after
    show = {"ms": h.fmt.duration, "bytes": h.fmt.size}[unit]
    per_hour, timeout = growth.per_hour, job.timeout_ms or 0.0
    explain = h.text("CP105.steady", rate=show(per_hour))
    if unit == "ms" and timeout > after > before:
        left = (timeout - after) / per_hour * 3_600_000
        explain += h.text(
            "CP105.reaches-timeout",
            timeout=h.fmt.duration(timeout),
            left=h.fmt.duration(left),
            moment=h.fmt.moment(growth.last_us + left * 1000),
        )
    return h.checkpoint_finding(
        job,
        growth.checkpoints,
        among=growth.checkpoints,
        ongoing=True,
        title=f"Checkpoint {what} grew {growth.factor:.1f}-fold in {h.fmt.duration(growth.span_ms)}, "
        f"from {show(before)} to {show(after)}",
        explain=explain,
        rank=h.Rank.SYMPTOM,
        option=f"checkpoint-{what}",
        measurements=(
            h.measurement(f"{what}-before", before, unit, over="first fifth"),
            h.measurement(f"{what}-now", after, unit, over="last fifth"),
            h.measurement("growth", growth.factor, "ratio", limits.factor),
            h.measurement("growth-per-hour", round(per_hour), f"{unit}/h"),
            h.measurement("kendall-tau", growth.tau, "correlation", limits.tau),
        ),
        actions=h.shared_remedies(job, "bound-state", "incremental"),
    )


RULE: Final = h.Rule("CP105", judge, Limits, needs="ended-checkpoints")
