"""Back pressure holds the source back.

What it reports
---------------
An application that processes all it lets in, but lets in less than the source has: batches filled
up to the rate that the estimator permits.

Why it matters
--------------
The job is stable and too slow: what is not taken waits in the source, or is lost there.

How it decides
--------------
Most of the late batches hold at least 85 % of what the estimator permitted during their interval.
The words say which term holds the rate: the processing rate itself, the delay (integral) term, the
floor or the ceiling.

What to do
----------
Make the job faster: more cores, RT301 to RT304 for what is slow. Where the delay term holds the
rate although processing is short, look for single long batches.

False alarms
------------
A source that happens to bring what is permitted.
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
from flowdiag.analyses.flink.judging import duration_text
from flowdiag.analyses.rate import judging as j
from flowdiag.analyses.rate import replay as pid
from flowdiag.analyses.rate import state as rate_state
from flowdiag.analyses.rate.advice import poor, predict, what_if
from flowdiag.analyses.rate.cores import free_cores
from flowdiag.analyses.rate.holding import term
from flowdiag.analyses.rate.stability import Stability
from flowdiag.analyses.rate.state import Assessed, StreamState
from flowdiag.analyses.rule import Limits, Rule, limit


class ThrottledLimits(Limits):
    """What RT203 compares with."""

    share: float = limit(rate_state.MOSTLY, "share", "of the late batches, filled up")


def judge(assessed: Assessed, limits: ThrottledLimits) -> Iterator[Finding | Inconclusive]:
    """One finding per application whose estimators hold the source back."""
    for state in assessed.dstreams:
        caps = [cap for cap in state.caps if cap.kind == "pid"]
        if caps and state.stability is Stability.THROTTLED:
            yield _finding(assessed, state)


def _finding(assessed: Assessed, state: StreamState) -> Finding:
    app = assessed.app
    reached = [one for one in assessed.estimators if one.updates]
    caps = [cap for cap in state.caps if cap.kind == "pid"]
    rate = sum(cap.per_s for cap in caps)
    # The largest stream is the one that matters.
    most = max(caps, key=lambda cap: cap.per_s)
    mine = next((one for one in reached if one.stream == most.stream), reached[0])
    held, words = term(mine, several=len(reached) > 1)
    return Finding(
        job=assessed.key,
        severity=Severity.WARNING,
        state=State.ONGOING,
        subject=j.application_subject(app),
        title=(
            f"Back pressure lets in {j.rate_text(rate)}, and {caps[0].share:.0%} of the late batches "
            "are filled up to that"
        ),
        explain=f"The delay stays low, at the price of the source's waiting. What holds the rate: {words}.",
        why=f"takes no more than {j.rate_text(state.records_per_s)} of what the source has",
        cause="throttled",
        rank=Rank.MECHANISM,
        last_us=app.last_us,
        count=round(caps[0].share * len(rate_state.late_window(app.completed))),
        measurements=(
            Measurement(name="permitted-rate", value=round(rate, 1), unit="records/s"),
            Measurement(
                name="batches-at-limit",
                value=round(caps[0].share, 3),
                unit="share",
                threshold=rate_state.MOSTLY,
                population="of the last third of the batches",
            ),
            Measurement(
                name="sustainable-rate",
                value=None if state.headroom_per_s is None else round(state.headroom_per_s, 1),
                unit="records/s",
                population="by the fitted cost of batches and records",
            ),
        ),
        evidence=j.of_batches(rate_state.late_window(app.completed)),
        actions=tuple(_actions(assessed, state, held)),
    )


def _actions(assessed: Assessed, state: StreamState, held: str) -> Iterator[Action]:
    app, line = assessed.app, state.line
    interval = state.interval_ms or 1000
    if held in ("delay", "floor") and line is not None:
        # A first batch without a limit is what leaves a delay behind.
        initial = max(1.0, 0.9 * (state.headroom_per_s or 0.0))
        if app.settings.get(pid.INITIAL_RATE) is None and state.headroom_per_s:
            yield Action(
                text="Begin with what can be processed. "
                + what_if(assessed, state, initial_rate=initial),
                option=pid.INITIAL_RATE,
                current=j.setting(app, pid.INITIAL_RATE),
                proposed=f"{initial:.0f}",
                restart_needed=True,
                verify="scheduling delay of the first batches",
            )
    if line is not None and line.base >= 0.15 * interval:
        longer = round(2 * interval)
        found = predict(assessed, state, interval_ms=longer)
        if (
            found is not None
            and found.after.steady_per_s >= 1.1 * found.before.steady_per_s
            and found.after.queued <= max(1, found.before.queued)
        ):
            yield Action(
                text=f"A batch costs {duration_text(line.base)} by itself: make the interval longer. "
                f"{found.text}",
                current=duration_text(interval),
                proposed=duration_text(longer),
                risk="results come later",
                restart_needed=True,
                verify="records per second of the batches",
            )
    cores = free_cores(app)
    has = f"; now {cores} cores are free for batches" if cores else ""
    reason = poor(line, state.interval_ms)
    more = (
        f". No setting is recommended by the model: {reason}"
        if reason
        else f". The estimator lets in what is processed; only a faster job makes it more than "
        f"{state.headroom_per_s or 0:.0f} records/s"
    )
    yield Action(
        text=f"More cores, and at least as many blocks or partitions per batch as cores{has}{more}",
        option="spark.streaming.blockInterval",
        current=j.setting(app, "spark.streaming.blockInterval"),
        restart_needed=True,
        verify="published rate",
    )


RULE: Final = Rule("RT203", judge, ThrottledLimits)
