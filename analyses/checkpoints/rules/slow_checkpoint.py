"""Checkpoints take most of the interval.

What it reports
---------------
Periodic checkpoints that complete yet last for most of the interval, or for half of the timeout:
how many, how long, and how near to the limit they come.

Why it matters
--------------
A checkpoint that takes as long as the interval means that the job is always in one: exactly-once
sinks commit late, each failure replays more, and the next hiccup turns slow into expired.

How it decides
--------------
A checkpoint is slow when its duration reaches `interval-share` of the interval or `timeout-share`
of the timeout, and `floor` in any case. The interval is the configured one or the lower quartile
of the gaps between triggers, the timeout the configured one, the one observed, or Flink's default
of 10 minutes. Savepoints and the first checkpoints after a start or a restore are left out. It is
reported when `slow-share` of the checkpoints and at least `checkpoints` of them were slow, or the last
`checkpoints` were. Durations that only climb count from the first checkpoint on, the warm-up too: where each of
the last `climb` took longer than the one before and the last reached `timeout-share` of the timeout. It is told as information only where they come in bursts that pass: fewer than
`burst-share` of the checkpoints, none of them half of the timeout, and the last ones as fast as ever.

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

from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise
from typing import Final

from flowdiag.analyses.flink import helpers as h
from flowdiag.analyses.model.derived import once


class Slow(h.Limits):
    """What CP104 compares with."""

    interval_share: float = h.limit(
        0.75,
        "share",
        "beyond three quarters of the interval ordinary variation (a factor of 1.3) makes a "
        "checkpoint run into the next one",
    )
    timeout_share: float = h.limit(
        0.5, "share", "twice as slow, which back pressure does easily, and it expires"
    )
    floor: float = h.limit(
        2000.0, "ms", "faster checkpoints are nobody's problem, however short the interval"
    )
    slow_share: float = h.limit(
        0.05, "share", "single slow checkpoints happen (a compaction, a pause)"
    )
    checkpoints: float = h.limit(
        3, "checkpoints", "slow ones that make a present state: two in a row are an accident"
    )
    climb: float = h.limit(
        4,
        "checkpoints",
        "a start is slow at first and gets faster; three steps up in a row, to half of the timeout, are no start",
    )
    burst_share: float = h.limit(
        0.5,
        "share",
        "where most are fast, the job gets over each burst by itself; healthy runs with bursts every half "
        "minute (flink/1.14.6/bursts, flink/1.20.5/bursts) have a quarter of slow ones, no other healthy run any; "
        "of sick runs half (flink/1.14.6/garbage) to nearly all (flink/1.14.6/moving-hot-key-completing), and "
        "those with fewer reach half of the timeout (flink/2.3.0/unaligned-hot-key)",
    )


def judge(job: h.Job, limits: Slow) -> h.Iterator[h.Finding]:
    """At most one finding per job."""
    timed = [
        c
        for stretch in h.steady_checkpoints(job, h.WARM_UP)
        for c in stretch
        if h.elapsed_ms(c) is not None
    ]
    limit_ms = _limit_ms(job, limits)
    slow = [c for c in timed if _ms(c) >= limit_ms]
    last = timed[-int(limits.checkpoints) :]
    at_the_end = len(last) >= limits.checkpoints and all(_ms(c) >= limit_ms for c in last)
    if not at_the_end and (climbing := _climbing(job, limits)):
        timed = climbing
        slow = [c for c in climbing if _ms(c) >= limit_ms]
        at_the_end = True
    many = len(slow) >= limits.checkpoints and len(slow) >= len(timed) * limits.slow_share
    if slow and (at_the_end or many):
        passing = not at_the_end and len(slow) < len(timed) * limits.burst_share
        passing = passing and max(map(_ms, slow)) < _timeout_ms(job) * limits.timeout_share
        finding = _finding(job, slow, timed, limit_ms, at_the_end)
        yield replace(finding, severity=h.Severity.INFO) if passing else finding


def _climbing(job: h.Job, limits: Slow) -> list[h.Checkpoint]:
    """The last completed checkpoints where each took longer than the one before, up to half of the timeout."""
    every = [
        c
        for stretch in h.steady_checkpoints(job, 0)[-1:]
        for c in stretch
        if h.elapsed_ms(c) is not None
    ]
    last = every[-int(limits.climb) :]
    far = bool(last) and _ms(last[-1]) >= _timeout_ms(job) * limits.timeout_share
    climbs = all(_ms(one) < _ms(other) for one, other in pairwise(last))
    return every if far and climbs and len(last) >= limits.climb else []


def _limit_ms(job: h.Job, limits: Slow) -> float:
    """From when on a checkpoint is slow."""
    most = _timeout_ms(job) * limits.timeout_share
    if job.interval_ms is not None:
        most = min(most, job.interval_ms * limits.interval_share)
    return max(most, limits.floor)


def _timeout_ms(job: h.Job) -> float:
    return job.timeout_ms or h.DEFAULT_TIMEOUT_MS


def _ms(checkpoint: h.Checkpoint) -> float:
    return h.elapsed_ms(checkpoint) or 0.0


def _finding(
    job: h.Job,
    slow: list[h.Checkpoint],
    timed: list[h.Checkpoint],
    limit_ms: float,
    at_the_end: bool,
) -> h.Finding:
    interval, timeout = job.interval_ms, _timeout_ms(job)
    median, longest = _middle(_ms(c) for c in timed), max(_ms(c) for c in timed)
    size = _middle(c.bytes for c in slow)
    measurements = [
        h.measurement(
            "slow-checkpoints",
            len(slow),
            "checkpoints",
            over=f"{len(timed)} completed, without savepoints and warm-up",
        ),
        h.measurement("median-duration", median, "ms", limit_ms),
        h.measurement("longest-duration", longest, "ms", timeout),
        *_known("interval", interval, "ms"),
        *_known("median-size", size, "bytes"),
        *_known("median-request-in-queue", _middle(c.queue_ms for c in slow), "ms"),
    ]
    against = (
        f"the interval is {h.fmt.duration(interval)} ({job.interval_from})"
        if interval is not None and interval <= timeout
        else f"the timeout is {h.fmt.duration(timeout)}"
    )
    return h.checkpoint_finding(
        job,
        slow,
        among=timed,
        ongoing=at_the_end,
        title=f"{len(slow)} of {h.fmt.plural(len(timed), 'completed checkpoint')} took "
        f"{h.fmt.duration(limit_ms)} or longer, up to {h.fmt.duration(longest)}; {against}",
        explain=f"In the median a completed one takes {h.fmt.duration(median)}."
        + (f" The slow ones write {h.fmt.size(size)} each." if size is not None else "")
        + " They still complete, but leave little room: a moment of back pressure makes them expire.",
        rank=h.Rank.SYMPTOM,
        measurements=tuple(measurements),
        evidence=h.end_records(sorted(slow, key=lambda c: (-_ms(c), c.run, c.id))),
        ranked=True,
        actions=_actions(job, interval),
    )


def _middle(values: Iterable[float | None]) -> float | None:
    """The upper median of the known values; None if none is."""
    known = sorted(value for value in values if value is not None)
    return known[len(known) // 2] if known else None


def _known(name: str, value: float | None, unit: str) -> h.Iterator[h.Measurement]:
    if value is not None:
        yield h.measurement(name, value, unit)


def _actions(job: h.Job, interval: float | None) -> tuple[h.Action, ...]:
    return (
        h.Action(
            text="See which half is slow (CP203): waiting for barriers, or taking the snapshot",
            verify="start delay, alignment, synchronous and asynchronous durations per subtask",
        ),
        *h.shared_remedies(job, "pause", proposed=interval / 2 if interval else None),
        *h.shared_remedies(job, "incremental"),
    )


RULE: Final = h.Rule("CP104", judge, Slow)


@once
def slow(job: h.Job) -> h.Finding | None:
    """What this rule says of a job, for those that explain it."""
    said = RULE.judge(job, RULE.limits())
    return next((finding for finding in said if isinstance(finding, h.Finding)), None)
