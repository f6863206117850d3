"""A fixed limit lets through less than comes in.

What it reports
---------------
Streams that are filled up to `spark.streaming.receiver.maxRate` or
`spark.streaming.kafka.maxRatePerPartition` in most batches, while the job has time left.

Why it matters
--------------
The limit, not the job, decides the throughput: the source piles up behind it although the cluster
could take more.

How it decides
--------------
At least four fifths of the late batches hold 85 % or more of limit times interval.

What to do
----------
Raise the limit to what the job sustains, or turn back pressure on and keep the limit as a ceiling.

False alarms
------------
A limit that protects what the job writes to.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from flowdiag.analyses.finding import (
    Action,
    Finding,
    Inconclusive,
    Measurement,
    Rank,
    Severity,
    State,
)
from flowdiag.analyses.rate import judging as j
from flowdiag.analyses.rate import replay as pid
from flowdiag.analyses.rate import state as rate_state
from flowdiag.analyses.rate.advice import what_if
from flowdiag.analyses.rate.state import Assessed, StreamState
from flowdiag.analyses.rule import Limits, Rule, limit

_OPTIONS: Final = {"max-rate": pid.MAX_RATE, "max-per-partition": pid.MAX_PER_PARTITION}


class CappedRateLimits(Limits):
    """What RT204 compares with."""

    share: float = limit(rate_state.NARROW, "share", "of the late batches, filled up")


def judge(assessed: Assessed, limits: CappedRateLimits) -> Iterator[Finding | Inconclusive]:
    """One finding per option that limits an application."""
    for state in assessed.dstreams:
        seen = set()
        for cap in state.caps:
            if cap.kind in _OPTIONS and cap.kind not in seen and not rate_state.overloaded(state):
                seen.add(cap.kind)
                yield _finding(assessed, state, cap)


def _finding(assessed: Assessed, state: StreamState, cap: rate_state.Cap) -> Finding:
    app = assessed.app
    option = _OPTIONS[cap.kind]
    use = f"{state.use:.0%}" if state.use is not None else "an unknown part"
    proposed = None
    streams = max(1, len({s.stream for b in app.batches for s in b.streams}))
    if state.headroom_per_s is not None and state.line is not None and state.line.spread > 0.2:
        # The headroom is that of all streams together, the limit one stream's.
        proposed = f"{0.8 * state.headroom_per_s / streams:.0f}"
    elif state.use is not None and 0 < state.use < 0.5:
        # A batch of so many times the records takes so many times as long at most.
        proposed = f"{cap.per_s * 0.6 / state.use:.0f}"
    return Finding(
        job=assessed.key,
        severity=Severity.WARNING,
        state=State.ONGOING,
        subject=j.option_subject(app, option),
        title=(
            f"{cap.share:.0%} of the late batches are filled up to {option} = {cap.per_s:g}, while "
            f"processing takes {use} of the interval"
        ),
        explain="The source has more than the limit lets through; the job could take more.",
        why=f"{option} = {cap.per_s:g} lets through less than comes in",
        cause="max-rate",
        rank=Rank.ROOT_CAUSE,
        option=option,
        last_us=app.last_us,
        count=round(cap.share * len(rate_state.late_window(app.completed))),
        measurements=(
            Measurement(
                name="batches-at-limit",
                value=round(cap.share, 3),
                unit="share",
                threshold=rate_state.NARROW,
            ),
            Measurement(
                name="use", value=None if state.use is None else round(state.use, 3), unit="share"
            ),
        ),
        evidence=j.of_batches(rate_state.late_window(app.completed)),
        actions=(
            Action(
                text="Raise the limit, or leave it to back pressure."
                + (
                    " " + what_if(assessed, state, max_rate=float(proposed) * streams)
                    if proposed and cap.kind == "max-rate" and state.line is not None
                    else ""
                ),
                option=option,
                current=j.setting(app, option),
                proposed=proposed,
                risk="more load on what the job writes to",
                restart_needed=True,
                verify="records per batch, and processing time over interval",
            ),
        ),
    )


RULE: Final = Rule("RT204", judge, CappedRateLimits)
