"""What other settings would do, by the model of the application: the numbers behind an action.

The cost per batch and per record is fitted from the batches; where the fit is poor, that is said
instead. Several input streams are taken as one whose limits are their sum.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from flowdiag.analyses.model import fmt
from flowdiag.analyses.rate import replay as pid
from flowdiag.analyses.rate.facts import ApplicationFacts
from flowdiag.analyses.rate.model import Job, Outcome, Settings, changed, simulate
from flowdiag.analyses.rate.pid import Gains
from flowdiag.analyses.rate.present import Assessed, StreamState
from flowdiag.analyses.rate.present.batches import concurrent_jobs
from flowdiag.analyses.rate.stability import Line

BATCHES: Final = 60
POOR: Final = 0.25  # of the interval: with a larger error the model predicts little
APART: Final = 0.1  # batches of about one size say nothing about what a record costs
MORE: Final = 2.0  # times what can be processed: a source that is held back has more


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """What the model says of a change, and of the settings as they are."""

    before: Outcome
    after: Outcome
    text: str


def poor_fit(line: Line | None, interval_ms: int | None) -> str | None:
    """Why the batches allow no prediction; None where they do."""
    if line is None or line.per_x <= 0 or line.spread < APART:
        return "the batches differ too little in size to tell what a record costs"
    if not interval_ms or line.error > POOR * interval_ms:
        return f"batches miss the fitted cost by {fmt.duration(line.error)} in the median"
    return None


def settings_of(app: ApplicationFacts) -> Settings:
    """The settings of an application in the terms of the model."""
    return settings_from(
        app.settings,
        interval_ms=app.interval_ms or 1000,
        streams=len({s.stream for b in app.batches for s in b.streams}),
        gains=pid.gains_of(app.settings, app.traces),
        back_pressure=pid.enabled(app) is True,
    )


def settings_from(
    told: Mapping[str, str],
    *,
    interval_ms: int,
    streams: int,
    gains: Gains,
    back_pressure: bool,
) -> Settings:
    """Options in the terms of the model: limits that every stream has for itself are added up.

    Args:
        told: options by key.
        interval_ms: of the batches.
        streams: number of input streams.
        gains: of each estimator.
        back_pressure: whether it is on.
    """
    streams = max(1, streams)

    def limit(option: str) -> float | None:
        value = pid.number(told.get(option))
        return value * streams if value is not None and 0 < value < pid.NO_LIMIT else None

    return Settings(
        interval_ms=interval_ms,
        gains=replace(gains, min_rate=gains.min_rate * streams),
        max_rate=limit(pid.MAX_RATE),
        initial_rate=limit(pid.INITIAL_RATE),
        back_pressure=back_pressure,
    )


def offered_per_s(taken_per_s: float | None, sustains_per_s: float | None, *, held: bool) -> float:
    """What the source offers: what is taken, and where something holds it back twice what fits.

    Args:
        taken_per_s: in the present, at the median.
        sustains_per_s: the most that fits into the interval.
        held: whether a limit or the estimator decides what is taken.

    >>> offered_per_s(90.0, 100.0, held=True), offered_per_s(90.0, 100.0, held=False)
    (200.0, 90.0)
    """
    return max(taken_per_s or 0.0, MORE * (sustains_per_s or 0.0) if held else 0.0)


def predict(assessed: Assessed, state: StreamState, **changes: object) -> Prediction | None:
    """Run the application's load through the model, as it is and with other settings.

    Args:
        assessed: the application.
        state: of its batches, with the fitted cost.
        changes: fields of `model.Settings` and gains, by their names.

    Returns:
        None where the fit is too poor.
    """
    line = state.line
    if line is None or poor_fit(line, state.interval_ms) is not None:
        return None
    job = Job(
        fixed_ms=line.base,
        per_record_ms=line.per_x,
        error_ms=line.error,
        at_once=concurrent_jobs(assessed.app.settings),
    )
    settings = settings_of(assessed.app)
    tried = changed(settings, **changes)
    held = settings.back_pressure or bool(state.caps)
    offered = offered_per_s(state.records_per_s, state.headroom_per_s, held=held)
    if offered <= 0:
        return None
    offers = [offered] * BATCHES
    before, after = simulate(job, settings, offers), simulate(job, tried, offers)
    error = f"off by {fmt.duration(line.error)} per batch in the median"
    return Prediction(
        before=before,
        after=after,
        text=f"By the model ({error}) it comes to {_words(after)}; as it is, to {_words(before)}",
    )


def _words(outcome: Outcome) -> str:
    # What is processed per second is what completes: a queue that grows takes in more.
    delay = fmt.duration(outcome.delay_ms)
    text = f"{outcome.steady_per_s:.0f} records/s with a total delay of {delay}"
    if outcome.queued > 2:
        return f"{text}, {outcome.queued} batches waiting after {BATCHES} batches"
    if outcome.settling_ms:
        return f"{text}, settled after {fmt.duration(outcome.settling_ms)}"
    return text


def what_if(assessed: Assessed, state: StreamState, **changes: object) -> str:
    """The prediction in a sentence, or why there is none."""
    found = predict(assessed, state, **changes)
    if found is not None:
        return f"{found.text}."
    reason = poor_fit(state.line, state.interval_ms) or "what comes in is not told"
    return f"What this changes is not predicted: {reason}."
