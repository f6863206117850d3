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
from statistics import median
from typing import Final

from flowdiag.analyses.findings import (
    Action,
    Finding,
    Inconclusive,
    Measurement,
    Rank,
    Severity,
    State,
)
from flowdiag.analyses.rate import judging as j
from flowdiag.analyses.rate import state as rate_state
from flowdiag.analyses.rate.replay import Replay
from flowdiag.analyses.rate.stability import Stability
from flowdiag.analyses.rate.state import Assessed, Assessment, StreamState
from flowdiag.analyses.rules.base import Signal, Threshold, Thresholds


class Throttled:
    """RT203."""

    code: Final = "RT203"
    name: Final = "throttled"
    title: Final = "Back pressure holds the source back"
    core: Final = False
    thresholds: Final = (
        Threshold("share", rate_state.MOSTLY, "share", "of the late batches, filled up"),
    )
    signals: Final[tuple[Signal, ...]] = ()

    def judge(self, facts: Assessment, thresholds: Thresholds) -> Iterator[Finding | Inconclusive]:
        """One finding per application whose estimators hold the source back."""
        for assessed, state in j.dstreams(facts):
            caps = [cap for cap in state.caps if cap.kind == "pid"]
            if caps and state.stability is Stability.THROTTLED:
                yield _finding(assessed, state)


def holds(estimator: Replay) -> str:
    """What decides the rate, in words."""
    late = [step for step in estimator.updates[-12:] if step.processing_rate]
    if not late:
        return "nothing yet"
    gains = estimator.gains
    floored = sum(step.at_floor for step in late)
    if floored > len(late) / 2:
        return f"the floor (minRate {gains.min_rate:g})"
    taken = median(
        gains.integral * (step.historical_error or 0.0) / (step.processing_rate or 1.0)
        for step in late
    )
    if taken > 0.3:
        return f"the delay: its term takes {taken:.0%} off what is processed"
    return "what the job processes"


def _finding(assessed: Assessed, state: StreamState) -> Finding:
    app = assessed.app
    reached = [one for one in assessed.estimators if one.updates]
    caps = [cap for cap in state.caps if cap.kind == "pid"]
    rate = sum(cap.per_s for cap in caps)
    words = holds(next((one for one in reached if one.stream == caps[0].stream), reached[0]))
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
        actions=(
            Action(
                text="More cores, and at least as many blocks per batch as cores",
                option="spark.streaming.blockInterval",
                current=j.setting(app, "spark.streaming.blockInterval"),
                restart_needed=True,
                verify="published rate",
            ),
        ),
    )


RULE: Final = Throttled()
