"""Checkpoints take most of the interval.

What it reports
---------------
Periodic checkpoints that complete but take most of the interval or half of the timeout. The finding shows how
many there are, how long they took, and how close they came to the limit.

Why it matters
--------------
If a checkpoint takes as long as the interval, a checkpoint is always in progress. Exactly-once sinks commit late,
each failure replays more, and the next hiccup makes checkpoints expire.

How it decides
--------------
A checkpoint is slow if it takes at least `floor`, and at least `interval-share` of the interval or `timeout-share`
of the timeout. The rule uses the configured interval, or else the lower quartile of the gaps between triggers. It
uses the configured timeout, or else the observed timeout, or else Flink's default of 10 minutes. Savepoints and
the first checkpoints after a start or a restore do not count.

The rule reports slow checkpoints if there are at least `checkpoints` of them and they make up at least
`slow-share` of all checkpoints, or if the last `checkpoints` were slow. The last two are enough if each took at
least `extreme-ratio` times the limit. Triggers queue up behind a slow checkpoint, so the next few checkpoints are fast. The
last slow checkpoints (up to twice `checkpoints`) therefore also count if they took at least `burst-share` of the
time since the first of them began. A checkpoint that was in progress when the job was canceled
counts with its age. So does one in progress at the end of the input, until CP106 reports it as overdue.

The rule also reports durations that keep rising: each of the last `rising` checkpoints took longer than the previous
checkpoint, and the last one reached `timeout-share` of the timeout. For rising durations, checkpoints right after a
start count too.

The input may end soon after the last start, while checkpoints are slow and do not get faster. Then the job is
not reported as healthy. It may be processing a backlog, or one of its tasks may be slow.

Short bursts are reported as info. With such bursts, fewer than `burst-share` of the checkpoints are slow,
and they take less than that share of the time. None takes `timeout-share` of the timeout, and the last ones are
fast.

What to do
----------
CP203 shows whether the barriers or the snapshots are slow. If barriers wait, fix the slow task or enable unaligned
checkpoints. If snapshots are slow, enable incremental checkpoints or use faster storage. If the durations are
expected, increase the interval, or set a minimum pause so that the job makes progress between checkpoints.

False alarms
------------
Some jobs use an interval of a few seconds on purpose, for small exactly-once commits. If their checkpoints take
about as long as the interval and exceed `floor`, the rule reports them. Raise `floor` in the settings.
"""

from typing import Final

from flowdiag.analyses.checkpoints.detect.durations import (
    checkpoint_duration_ms,
    rising_checkpoints,
    slow_after_start,
    slow_at_the_end,
    time_share,
    upper_median,
    with_duration,
)
from flowdiag.analyses.checkpoints.halves import measured_half, remedies_for_half
from flowdiag.analyses.checkpoints.pending import pending
from flowdiag.analyses.flink import helpers as h
from flowdiag.analyses.model.derived import once

_CANCELLATION_US: Final = 5_000_000
"""A cancellation aborts the checkpoint in progress at once."""


class Limits(h.Limits):
    interval_share: float = h.limit(
        0.75, "share", "minimum duration in intervals; above it, normal variation causes overruns"
    )
    timeout_share: float = h.limit(
        0.5, "share", "minimum duration as a share of the timeout; back pressure can double it"
    )
    floor: float = h.limit(2000.0, "ms", "minimum duration; faster checkpoints are harmless")
    slow_share: float = h.limit(
        0.05, "share", "minimum share of slow checkpoints; compaction may delay a single checkpoint"
    )
    checkpoints: float = h.limit(
        3, "checkpoints", "minimum number of slow checkpoints; two may be a coincidence"
    )
    extreme_ratio: float = h.limit(
        4, "ratio", "minimum ratio of a duration to the limit; two such checkpoints are enough"
    )
    rising: float = h.limit(
        4, "checkpoints", "number of latest checkpoints that get slower; warm-up explains fewer"
    )
    burst_share: float = h.limit(
        0.5,
        "share",
        "maximum share of slow checkpoints, by number and by time, if the job recovers after "
        "each burst. Up to a quarter of the checkpoints are slow in healthy runs with bursts "
        "(flink/1.14.6/bursts, flink/1.20.5/bursts). In unhealthy runs, half or more are slow "
        "(flink/1.14.6/garbage, flink/1.14.6/moving-hot-key-completing), or some take half of "
        "the timeout (flink/2.3.0/unaligned-hot-key)",
    )


def judge(job: h.Job, limits: Limits) -> h.Iterator[h.Finding]:
    """Yield at most one finding per job."""
    far = (job.timeout_ms or h.DEFAULT_TIMEOUT_MS) * limits.timeout_share
    limit_ms = _limit_ms(job, limits)
    timed, at_the_end = with_duration(h.steady_checkpoints(job, h.WARM_UP)), True
    timed += _slow_so_far(job, timed, limit_ms)
    end = (limits.checkpoints, limits.burst_share, limits.extreme_ratio)
    if not slow_at_the_end(timed, limit_ms, *end):
        climbing = rising_checkpoints(job, limits.rising, far)
        timed, at_the_end = climbing or timed, bool(climbing)
    slow = [c for c in timed if checkpoint_duration_ms(c) >= limit_ms]
    many = len(slow) >= max(limits.checkpoints, len(timed) * limits.slow_share)
    if slow and (at_the_end or many):
        finding = _finding(job, slow, timed, limit_ms, at_the_end)
        share = max(len(slow) / len(timed), time_share(timed, limit_ms))
        passing = not at_the_end and share < limits.burst_share
        passing = passing and max(map(checkpoint_duration_ms, slow)) < far
        yield h.replace(finding, severity=h.Severity.INFO) if passing else finding


def _slow_so_far(job: h.Job, timed: list[h.Checkpoint], limit_ms: float) -> list[h.Checkpoint]:
    """Return the checkpoint in progress, with its age as its duration, if it is slow but not overdue."""
    completed = [c for c in job.in_order if c.status is h.Status.COMPLETED and not c.is_savepoint]
    # The first checkpoints after a start do not count.
    if timed[-1:] != completed[-1:]:
        return []
    found = pending(job)
    if found is None:
        return [c for c in _cut_off(job) if checkpoint_duration_ms(c) >= limit_ms]
    if not limit_ms <= found.age_ms < found.limit_ms():
        return []
    age_ms = round(found.age_ms)
    return [h.replace(found.checkpoint, duration_ms=age_ms, ended_us=found.until_us)]


def _cut_off(job: h.Job) -> h.Iterator[h.Checkpoint]:
    """Yield the checkpoint that was in progress when the job was canceled, with its age as its duration."""
    last = job.in_order[-1] if job.in_order else None
    if last is None or last.triggered_us is None or last.is_savepoint:
        return
    ends = [i.time_us for i in h.incidents(job, "cancelled") if i.time_us is not None]
    ended = min((us for us in ends if us >= last.triggered_us), default=None)
    if ended is None or last.status not in (h.Status.ABORTED, h.Status.IN_FLIGHT):
        return
    if last.ended_us is None or abs(last.ended_us - ended) <= _CANCELLATION_US:
        age_ms = round((ended - last.triggered_us) / 1000)
        yield h.replace(last, duration_ms=age_ms, ended_us=ended)


def _limit_ms(job: h.Job, limits: Limits) -> float:
    far = (job.timeout_ms or h.DEFAULT_TIMEOUT_MS) * limits.timeout_share
    near = far if job.interval_ms is None else min(far, job.interval_ms * limits.interval_share)
    return max(near, limits.floor)


def _finding(
    job: h.Job,
    slow: list[h.Checkpoint],
    timed: list[h.Checkpoint],
    limit_ms: float,
    at_the_end: bool,
) -> h.Finding:
    interval, timeout = job.interval_ms, job.timeout_ms or h.DEFAULT_TIMEOUT_MS
    median, longest = (
        upper_median(checkpoint_duration_ms(c) for c in timed),
        max(checkpoint_duration_ms(c) for c in timed),
    )
    size = upper_median(c.bytes for c in slow)
    ended = timed[-1].status is h.Status.COMPLETED
    one, many = ("completed checkpoint", "completed") if ended else ("checkpoint", "checkpoints")
    over = f"{len(timed)} {many}, without savepoints and warm-up"
    numbers = (
        ("slow-checkpoints", len(slow), "checkpoints", None, over),
        ("median-duration", median, "ms", limit_ms),
        ("longest-duration", longest, "ms", timeout),
        ("interval", interval, "ms"),
        ("median-size", size, "bytes"),
        ("median-request-in-queue", upper_median(c.queue_ms for c in slow), "ms"),
    )
    against = f"the timeout is {h.fmt.duration(timeout)}"
    if interval is not None and interval <= timeout:
        against = f"the interval is {h.fmt.duration(interval)} ({job.interval_from})"
    return h.checkpoint_finding(
        job,
        slow,
        among=timed,
        ongoing=at_the_end,
        title=f"{len(slow)} of {h.fmt.plural(len(timed), one)} took "
        f"{h.fmt.duration(limit_ms)} or longer, up to {h.fmt.duration(longest)}; {against}",
        explain=h.text("CP104.median", median=h.fmt.duration(median))
        + (h.text("CP104.size", size=h.fmt.size(size)) if size is not None else "")
        + h.text("CP104.headroom"),
        rank=h.Rank.SYMPTOM,
        measurements=tuple(h.measurement(*row) for row in numbers if row[1] is not None),
        evidence=h.end_records(
            sorted(slow, key=lambda c: (-checkpoint_duration_ms(c), c.run, c.id))
        ),
        ranked=True,
        actions=tuple(
            dict.fromkeys(
                (
                    *_first_steps(job),
                    *h.shared_remedies(job, "pause", proposed=interval / 2 if interval else None),
                    *h.shared_remedies(job, "incremental"),
                )
            )
        ),
    )


def _first_steps(job: h.Job) -> tuple[h.Action, ...]:
    """Return the remedies for the slow part of the checkpoints, or how to find that part."""
    half = measured_half(job)
    if half is None:
        return h.shared_remedies(job, "slow-half")
    if half == "async":
        return h.remedies("slow-checkpoint-storage", job, "look-at-storage")
    return remedies_for_half(job, half)


RULE: Final = h.Rule("CP104", judge, Limits, needs="ended-checkpoints")


@once
def slow_since_start(job: h.Job) -> tuple[h.Checkpoint, ...]:
    """Return the slow checkpoints after the last start, if there are too few of them for a finding."""
    limits = Limits.with_settings({})
    return slow_after_start(job, slow_from_ms(job), floor=limits.floor, enough=limits.checkpoints)


@once
def slow_finding(job: h.Job) -> h.Finding | None:
    """Return this rule's finding, for the rules that explain it."""
    return next((f for f in RULE.judge(job, RULE.limits()) if isinstance(f, h.Finding)), None)


def slow_from_ms(job: h.Job) -> float:
    """Return the duration from which a checkpoint of the job counts as slow, in ms."""
    return _limit_ms(job, Limits.with_settings({}))
