"""Batches wait longer and longer.

What it reports
---------------
An application whose batches wait longer and longer for their processing: by how many intervals they
are late, how fast the delay grows, since when, and how many wait in the queue.

Why it matters
--------------
Each waiting batch of a receiver stays in memory until the executors have no more of it; for a
direct stream the delay eats the retention of the topic. Results are as late as the queue is long.

How it decides
--------------
The present are the last third of the completed batches (at least twelve), without the cold ones at
the start. The delay is the wait of the last batches, or the age of the oldest one that waits.
Overloaded: the delay rises by a robust slope (Theil-Sen with its confidence interval, Mann-Kendall)
and has reached `delay` intervals; or it is above `lost` intervals, does not fall, and processing
takes longer than the interval. Above `failing` intervals it is critical.

What to do
----------
Look at RT301 to RT304 for one part that is slow. Otherwise fewer records per batch (back pressure),
more cores and as many blocks as cores, or a longer interval where a batch has a high cost of its
own.

False alarms
------------
A long pause of the driver, or a restart that works off a backlog: the delay falls again, and the
rule is silent.
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
from flowdiag.analyses.flink.judging import count_text, duration_text
from flowdiag.analyses.rate import judging as j
from flowdiag.analyses.rate import replay as pid
from flowdiag.analyses.rate import state as rate_state
from flowdiag.analyses.rate.advice import what_if
from flowdiag.analyses.rate.cores import free_cores
from flowdiag.analyses.rate.stability import Stability
from flowdiag.analyses.rate.state import Assessed, StreamState
from flowdiag.analyses.rule import Limits, Rule, limit


class OverloadedBatchesLimits(Limits):
    """What RT101 compares with."""

    failing: float = limit(
        rate_state.FAILING_DELAY,
        "intervals",
        "ten intervals of delay are ten batches in memory, and no burst any more",
    )


def judge(assessed: Assessed, limits: OverloadedBatchesLimits) -> Iterator[Finding | Inconclusive]:
    """One finding per application whose delay grows."""
    for state in assessed.dstreams:
        if state.stability is Stability.INCONCLUSIVE:
            yield Inconclusive(
                reason=state.because,
                remedy="flowdiag listener export DIR writes what records batches",
                job=assessed.key,
            )
        elif rate_state.overloaded(state):
            yield _finding(assessed, state, limits.failing)


def _finding(assessed: Assessed, state: StreamState, failing: float) -> Finding:
    app = assessed.app
    late = state.delay_intervals or 0.0
    slope = state.waiting
    doubled = j.time_to(state, 2 * late)
    queued = f", {count_text(state.queued, 'batch', 'batches')} waiting" if state.queued else ""
    measurements = [
        Measurement(
            name="delay", value=round(late, 1), unit="intervals", threshold=rate_state.GROWN
        ),
        Measurement(
            name="processing-time",
            value=state.processing_ms,
            unit="ms",
            threshold=state.interval_ms,
            population="median of the last third of the batches",
        ),
        Measurement(name="queued-batches", value=state.queued, unit="batches"),
    ]
    if slope is not None:
        measurements.append(
            Measurement(
                name="growth",
                value=round(slope.slope, 3),
                unit="s of delay per s",
                population=f"95 % between {slope.low:.3f} and {slope.high:.3f}",
            )
        )
    if state.headroom_per_s is not None:
        measurements.append(
            Measurement(
                name="sustainable-rate",
                value=round(state.headroom_per_s, 1),
                unit="records/s",
                population=f"the present rate is {j.rate_text(state.records_per_s)}",
            )
        )
    tail = [b for b in app.batches if state.turned_ms is None or b.time_ms >= state.turned_ms]
    grows = slope is not None and slope.rises
    return Finding(
        job=assessed.key,
        severity=Severity.CRITICAL if late >= failing else Severity.WARNING,
        state=State.ONGOING,
        subject=j.application_subject(app),
        title=(
            f"Batches are {late:.1f} intervals late and "
            + ("fall back further" if grows else "do not catch up")
            + f"{queued}; processing takes {duration_text(state.processing_ms)} of every "
            f"{duration_text(state.interval_ms)}"
        ),
        explain=_explain(assessed, state, doubled),
        why=(
            f"needs {duration_text(state.processing_ms)} for what comes in within "
            f"{duration_text(state.interval_ms)}"
        ),
        cause="overloaded",
        rank=Rank.SYMPTOM,
        first_us=None if state.turned_ms is None else state.turned_ms * 1000,
        last_us=app.last_us,
        count=len(tail),
        measurements=tuple(measurements),
        evidence=j.of_batches([*tail[:1], *j.slowest(tail, 8), *tail[-1:]]),
        actions=_actions(assessed, state),
    )


def _explain(assessed: Assessed, state: StreamState, doubled: str | None) -> str:
    parts = ["More comes in per interval than is processed in one."]
    if doubled is not None:
        parts.append(f"At this slope the delay has doubled in {doubled}.")
    if state.limit is not None:
        parts.append(state.limit.text)
    if pid.enabled(assessed.app) is False:
        parts.append("Back pressure is off.")
    return " ".join(parts)


def _actions(assessed: Assessed, state: StreamState) -> tuple[Action, ...]:
    app = assessed.app
    actions = []
    able = state.headroom_per_s or 0.0
    # Spark's own floor of 100 may be more than the job can do, and its first batch has no limit.
    floor, first = max(1.0, min(100.0, able / 10)), max(1.0, 0.9 * able)
    if pid.enabled(app) is not True:
        actions.append(
            Action(
                text="Let Spark hold the source back to what is processed. "
                + what_if(assessed, state, back_pressure=True, min_rate=floor, initial_rate=first),
                option=pid.ENABLED,
                current=j.setting(app, pid.ENABLED),
                proposed="true",
                risk="the source keeps the rest: it needs room for it",
                restart_needed=True,
                verify="scheduling delay below an interval",
            )
        )
        if able:
            actions.append(
                Action(
                    text="Begin with what can be processed: the first batches have no estimate",
                    option=pid.INITIAL_RATE,
                    current=j.setting(app, pid.INITIAL_RATE),
                    proposed=f"{first:.0f}",
                    restart_needed=True,
                    verify="records of the first batches",
                )
            )
        if able and able < 200:
            actions.append(
                Action(
                    text="Let the rate go low enough: Spark's floor is 100 records per second",
                    option=pid.MIN_RATE,
                    current=j.setting(app, pid.MIN_RATE),
                    proposed=f"{floor:.0f}",
                    restart_needed=True,
                    verify="scheduling delay below an interval",
                )
            )
    line = state.line
    if line is not None and state.interval_ms and line.base >= 0.5 * state.interval_ms:
        actions.append(
            Action(
                text=(
                    f"A batch costs {duration_text(line.base)} by itself: make the interval longer"
                ),
                current=duration_text(state.interval_ms),
                proposed=duration_text(2 * state.interval_ms),
                restart_needed=True,
                verify="processing time over interval",
            )
        )
    cores = free_cores(app)
    tasks = [b.stage.tasks for b in rate_state.late_window(app.completed) if b.stage is not None]
    has = f"; now {max(tasks)} tasks for {cores} free cores" if cores and tasks else ""
    actions.append(
        Action(
            text=f"More cores, and at least as many blocks or partitions per batch as cores{has}",
            option="spark.streaming.blockInterval",
            current=j.setting(app, "spark.streaming.blockInterval"),
            restart_needed=True,
            verify="tasks of the slow stage against cores",
        )
    )
    return tuple(actions)


RULE: Final = Rule("RT101", judge, OverloadedBatchesLimits, core=True)
