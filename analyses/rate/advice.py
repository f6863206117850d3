"""Predicts the effect of other settings with a model of the application, for the texts of actions.

The cost per batch and per record is fitted from the batches. If the fit is poor, the text contains the reason instead.
Several input streams count as one stream with the sum of their limits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from flowdiag.analyses.model import fmt
from flowdiag.analyses.rate import helpers as h
from flowdiag.analyses.rate import replay as pid
from flowdiag.analyses.rate.assessment import AssessedApplication, StreamState
from flowdiag.analyses.rate.assessment.batches import concurrent_jobs
from flowdiag.analyses.rate.facts import ApplicationFacts
from flowdiag.analyses.rate.model import Job, Outcome, Settings, simulate, with_changes
from flowdiag.analyses.rate.pid import Gains
from flowdiag.analyses.rate.stability import Line

BATCHES: Final = 60
POOR: Final = 0.25  # share of the interval: with a larger error, the model cannot predict
APART: Final = 0.1  # batches of equal size do not show the cost of a record
MORE: Final = 2.0  # assumed rate of a limited source, as a multiple of the sustainable rate


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """The simulated outcomes with the current and with the changed settings."""

    before: Outcome
    after: Outcome
    text: str


def reason_for_poor_fit(line: Line | None, interval_ms: int | None) -> str | None:
    """Return why the batches do not allow a prediction, or None if they do allow it."""
    if line is None or line.per_x <= 0 or line.spread < APART:
        return "the batches differ too little in size to show the cost of a record"
    if not interval_ms or line.error > POOR * interval_ms:
        return f"the median error of the fitted cost is {fmt.duration(line.error)}"
    return None


def settings_of(app: ApplicationFacts) -> Settings:
    """Return the settings of an application as the model needs them."""
    return settings_from(
        app.settings,
        interval_ms=app.interval_ms or 1000,
        streams=len({s.stream for b in app.batches for s in b.streams}),
        gains=pid.gains_of(app.settings, app.traces),
        back_pressure=pid.is_enabled(app) is True,
    )


def settings_from(
    options: Mapping[str, str],
    *,
    interval_ms: int,
    streams: int,
    gains: Gains,
    back_pressure: bool,
) -> Settings:
    """Return options as the model needs them, with the sum of the limits of all streams.

    Args:
        options: the configuration, by key.
        interval_ms: the batch interval.
        streams: number of input streams.
        gains: the gains of each estimator.
        back_pressure: whether back pressure is on.
    """
    streams = max(1, streams)

    def limit(option: str) -> float | None:
        value = pid.number(options.get(option))
        return value * streams if value is not None and 0 < value < pid.NO_LIMIT else None

    return Settings(
        interval_ms=interval_ms,
        gains=replace(gains, min_rate=gains.min_rate * streams),
        max_rate=limit(pid.MAX_RATE),
        initial_rate=limit(pid.INITIAL_RATE),
        back_pressure=back_pressure,
    )


def offered_per_s(taken_per_s: float | None, sustains_per_s: float | None, *, held: bool) -> float:
    """Return the rate that the source offers. If a limit holds the source back, this is twice the sustainable rate.

    Args:
        taken_per_s: the current median rate.
        sustains_per_s: the highest rate that the job can process within the interval.
        held: whether a limit or the estimator determines the current rate.

    >>> offered_per_s(90.0, 100.0, held=True), offered_per_s(90.0, 100.0, held=False)
    (200.0, 90.0)
    """
    return max(taken_per_s or 0.0, MORE * (sustains_per_s or 0.0) if held else 0.0)


def predict(
    assessed: AssessedApplication, state: StreamState, **changes: object
) -> Prediction | None:
    """Simulate the application's load with the current and with other settings.

    Args:
        assessed: the application.
        state: the state of its batches, with the fitted cost.
        changes: fields of `model.Settings` and gains, by name.

    Returns:
        The result is None if the fit is poor.
    """
    line = state.line
    if line is None or reason_for_poor_fit(line, state.interval_ms) is not None:
        return None
    job = Job(
        fixed_ms=line.base,
        per_record_ms=line.per_x,
        error_ms=line.error,
        at_once=concurrent_jobs(assessed.app.settings),
    )
    settings = settings_of(assessed.app)
    tried = with_changes(settings, **changes)
    held = settings.back_pressure or bool(state.caps)
    offered = offered_per_s(state.records_per_s, state.headroom_per_s, held=held)
    if offered <= 0:
        return None
    offers = [offered] * BATCHES
    before, after = simulate(job, settings, offers), simulate(job, tried, offers)
    error = f"median error {fmt.duration(line.error)} per batch"
    return Prediction(
        before=before,
        after=after,
        text=f"The model ({error}) predicts {_words(after)}; with the current settings, {_words(before)}",
    )


def _words(outcome: Outcome) -> str:
    # This rate only covers completed batches. If the queue grows, more records come in.
    delay = fmt.duration(outcome.delay_ms)
    text = f"{outcome.steady_per_s:.0f} records/s with a total delay of {delay}"
    if outcome.queued > 2:
        return f"{text}, {outcome.queued} batches waiting after {BATCHES} batches"
    if outcome.settling_ms:
        return f"{text}, settled after {fmt.duration(outcome.settling_ms)}"
    return text


def what_if(assessed: AssessedApplication, state: StreamState, **changes: object) -> str:
    """Return the prediction as a sentence, or the reason why there is none."""
    found = predict(assessed, state, **changes)
    if found is not None:
        return f"{found.text}."
    reason = reason_for_poor_fit(state.line, state.interval_ms) or "the input has no arrival rate"
    return f"The model cannot predict the effect: {reason}."


LIMITS_OF_KIND: Final = {"max-rate": h.pid.MAX_RATE, "max-per-partition": h.pid.MAX_PER_PARTITION}
_CATCH_UP: Final = 1.3  # multiple of the arrival rate; enough to reduce the backlog


def raise_rate(
    assessed: h.AssessedApplication, state: h.StreamState, cap: h.defaults.Cap
) -> h.Action:
    app, option, line = assessed.app, LIMITS_OF_KIND[cap.kind], state.line
    streams = max(1, len({s.stream for b in app.batches for s in b.streams}))
    rate, model = 0.0, ""
    if state.headroom_per_s is not None and line is not None and line.spread > 0.2:
        # The headroom covers all streams together, the limit a single stream.
        rate = 0.8 * state.headroom_per_s / streams
    elif 0 < (state.use or 0.0) < 0.5:
        # The processing time grows at most in proportion to the records.
        rate = cap.per_s * 0.6 / (state.use or 1.0)
    gains = rate >= cap.per_s + 1
    if gains and cap.kind == "max-rate" and line is not None:
        model = f". {what_if(assessed, state, max_rate=round(rate) * streams)}"
    return h.Action(
        text=f"Raise the limit, or use back pressure instead{model}",
        option=option,
        current=h.current_value(app, option),
        proposed=h.write(option, rate) if gains else None,
        measure=None if gains else "the processing time of batches of different sizes",
        risk="more load on the sink",
        restart_needed=True,
        verify="batches contain more records and still end well within the interval",
    )


def unread_per_s(late: h.Sequence[h.Trigger]) -> float | None:
    """Return how fast the sources' backlog grows, in rows per second, or None if it does not grow."""
    known = [t for t in late if t.backlog is not None]
    seconds = (known[-1].time_us - known[0].time_us) / 1e6 if len(known) > 1 else 0.0
    growth = ((known[-1].backlog or 0) - (known[0].backlog or 0)) / seconds if seconds else 0.0
    return growth if growth > 0 else None


def catch_up_limit(
    late: h.Sequence[h.Trigger], state: h.StreamState, cap: h.defaults.Cap
) -> int | None:
    """Return a limit per trigger that is enough to catch up, if triggers have time for it."""
    growth, seconds = unread_per_s(late), (state.interval_ms or 0) / 1000
    if growth is None or not state.use or not seconds:
        return None
    rate = _CATCH_UP * (cap.per_s + growth)
    return round(rate * seconds) if state.use * rate / cap.per_s <= h.defaults.NARROW else None


def raise_trigger_limit(
    query: h.QueryFacts, state: h.StreamState, cap: h.defaults.Cap
) -> tuple[str, h.Action]:
    """Return a clause that names the limit of a query's triggers, and the advice to raise it."""
    late, files = h.late_triggers(query.triggers), query.file_limit or 0
    option = current = more = None
    names = " ".join(source.get("name", "") for t in query.triggers[-1:] for source in t.sources)
    if cap.kind == "files":
        option, current = "maxFilesPerTrigger", str(files)
        more = max(files + 1, int(files * 0.6 / state.use)) if state.use else None
    elif "Kafka" in names:
        option = "maxOffsetsPerTrigger"
        more = catch_up_limit(late, state, cap)
    advice = h.Action(
        text="Raise the limit until triggers take about half of their interval",
        option=option,
        current=h.CurrentValue(current) if current else None,
        proposed=h.write(option, more) if option and more else None,
        measure=None
        if more
        else "the highest rate at which triggers can process rows; use half of it",
        restart_needed=True,
        verify="triggers read more rows and still end within the interval",
    )
    return (option or "a limit per trigger") + (f" = {current}" if current else ""), advice


def longer_batches(assessed: h.AssessedApplication, state: h.StreamState) -> h.Iterator[h.Action]:
    """Yield the advice to use a longer interval if the model predicts a higher rate."""
    line, interval = state.line, state.interval_ms or 1000
    if line is None or line.base < 0.15 * interval:
        return
    found = predict(assessed, state, interval_ms=2 * interval)
    if found is None or found.after.queued > max(1, found.before.queued):
        return
    if found.after.steady_per_s >= 1.1 * found.before.steady_per_s:
        cost = h.fmt.duration(line.base)
        yield h.longer_interval(
            h.BATCH_INTERVAL,
            interval,
            2 * interval,
            f"Use a longer interval: each batch has a fixed cost of {cost}. {found.text}",
            verify="batches process more records per second",
        )
