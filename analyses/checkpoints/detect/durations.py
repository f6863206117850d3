"""Durations of completed checkpoints."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

from flowdiag.analyses.flink import helpers as h

_UNTIL_FASTER: Final = 2  # number of checkpoints; usually only the first one after a start is slow
_AT_ONCE: Final = 0.05
"""If the next trigger follows within this share of a checkpoint's duration, it had waited for that checkpoint."""


def with_duration(stretches: list[list[h.Checkpoint]]) -> list[h.Checkpoint]:
    return [c for stretch in stretches for c in stretch if h.elapsed_ms(c) is not None]


def rising_checkpoints(job: h.Job, climb: float, far: float) -> list[h.Checkpoint]:
    """Return the completed checkpoints of the last stretch if the last `climb` durations rise steadily, up to `far`."""
    every = with_duration(h.steady_checkpoints(job, 0)[-1:])
    last = [checkpoint_duration_ms(c) for c in every[-int(climb) :]]
    climbs = all(one < other for one, other in pairwise(last))
    return every if climbs and len(last) >= climb and last[-1] >= far else []


def slow_at_the_end(
    timed: list[h.Checkpoint], limit_ms: float, number: float, share: float, long: float
) -> bool:
    """Return whether the last checkpoints were slow.

    Either the last `number` took `limit_ms` or longer, or the last two took `long` times as long, or slow checkpoints
    took most of the time. Triggers wait in a queue while a checkpoint is in progress, so the checkpoints right after a
    slow checkpoint are fast.
    """
    for few, least_ms in ((max(1, int(number)), limit_ms), (2, long * limit_ms)):
        last = [checkpoint_duration_ms(c) for c in timed[-few:]]
        if len(last) == few and min(last) >= least_ms:
            return True
    # Twice the number spans more than one burst, so the fast checkpoints in between count, too.
    slow = [place for place, c in enumerate(timed) if checkpoint_duration_ms(c) >= limit_ms][
        -2 * int(number) :
    ]
    return len(slow) >= number and time_share(timed[slow[0] :], limit_ms) >= share


def slow_after_start(
    job: h.Job, limit_ms: float, *, floor: float, enough: float
) -> tuple[h.Checkpoint, ...]:
    """Return the slow checkpoints after the last start, if fewer than `enough` followed the warm-up.

    The result is empty if the last two are not slow, or if they get faster, which is normal after a start. A checkpoint
    of at least `floor` (ms) that delays the next trigger is also slow. With few triggers the observed interval, and
    so `limit_ms`, is too long.
    """
    last = with_duration(h.steady_checkpoints(job, 0)[-1:])
    steady = {(c.run, c.id) for c in with_duration(h.steady_checkpoints(job, h.WARM_UP))}
    if sum((c.run, c.id) in steady for c in last) >= enough:
        return ()
    triggers = [c.triggered_us for c in job.checkpoints if c.triggered_us is not None]
    slow = [
        c
        for c in last
        if checkpoint_duration_ms(c) >= floor
        and (checkpoint_duration_ms(c) >= limit_ms or _delays_next(c, triggers))
    ]
    longest = max(map(checkpoint_duration_ms, slow), default=0.0)
    rising = last[-_UNTIL_FASTER:] == slow[-_UNTIL_FASTER:] and len(slow) >= _UNTIL_FASTER
    return tuple(slow) if rising and checkpoint_duration_ms(last[-1]) >= longest / 2 else ()


def _delays_next(checkpoint: h.Checkpoint, triggers: list[int]) -> bool:
    """Return whether the next checkpoint was triggered as soon as this one ended."""
    end = checkpoint.ended_us
    wait_us = checkpoint_duration_ms(checkpoint) * 1000 * _AT_ONCE
    return end is not None and any(-wait_us <= us - end <= wait_us for us in triggers)


def time_share(timed: list[h.Checkpoint], limit_ms: float) -> float:
    """Return the share of time that slow checkpoints take, between the first trigger and the last end."""
    begins = [c.triggered_us for c in timed if c.triggered_us is not None]
    ends = [c.ended_us for c in timed if c.ended_us is not None]
    if not begins or not ends or max(ends) <= min(begins):
        return 0.0
    slow_ms = sum(checkpoint_duration_ms(c) for c in timed if checkpoint_duration_ms(c) >= limit_ms)
    return min(1.0, 1000 * slow_ms / (max(ends) - min(begins)))


def checkpoint_duration_ms(checkpoint: h.Checkpoint) -> float:
    return h.elapsed_ms(checkpoint) or 0.0


def upper_median(values: h.Iterable[float | None]) -> float | None:
    """Return the upper median of the known values, or None."""
    known = sorted(value for value in values if value is not None)
    return known[len(known) // 2] if known else None
