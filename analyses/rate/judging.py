"""What the rules of `rate` share: subjects, evidence, and the way settings are shown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from flowdiag.analyses import say
from flowdiag.analyses.finding import MAX_CITED, Action, Evidence, Subject, cite
from flowdiag.analyses.flink.judging import duration_text
from flowdiag.analyses.rate.facts import ApplicationFacts, Batch, QueryFacts, Record, Trigger
from flowdiag.analyses.rate.stability import Stability
from flowdiag.analyses.rate.state import StreamState

DEFAULTS: Final = {
    "spark.streaming.backpressure.enabled": "false",
    "spark.streaming.backpressure.pid.proportional": "1.0",
    "spark.streaming.backpressure.pid.integral": "0.2",
    "spark.streaming.backpressure.pid.derived": "0.0",
    "spark.streaming.backpressure.pid.minRate": "100",
    "spark.streaming.blockInterval": "200ms",
    "spark.streaming.concurrentJobs": "1",
    "spark.streaming.kafka.maxRatePerPartition": "0",
}


def application_subject(app: ApplicationFacts) -> Subject:
    """The application itself."""
    return Subject(kind="application", job_name=app.name, application=app.application)


def option_subject(app: ApplicationFacts, option: str) -> Subject:
    """A setting of an application."""
    return Subject(kind="option", job_name=app.name, application=app.application, option=option)


def query_subject(app: ApplicationFacts, query: QueryFacts) -> Subject:
    """A streaming query: by its name, or its id where it has none."""
    return Subject(
        kind="query",
        job_name=app.name,
        application=app.application,
        query=query.name or query.id,
    )


def receiver_subject(
    app: ApplicationFacts, stream: int | None, events: Sequence[Record] = ()
) -> Subject:
    """An input stream, with the receiver that feeds it as far as it is known."""
    mine = [r for r in (*app.receivers, *events) if r.fields.get("stream") == str(stream)]
    last = mine[-1] if mine else None
    return Subject(
        kind="receiver" if mine else "stream",
        job_name=app.name,
        application=app.application,
        stream_id=stream,
        receiver=next((r.fields["name"] for r in mine if r.fields.get("name")), None),
        executor=(last.fields.get("executor") or None) if last else None,
        host=last.host if last else None,
    )


def setting(app: ApplicationFacts, option: str) -> str | None:
    """The value of an option as an action shows it: with a word where it is Spark's default."""
    value = app.settings.get(option)
    if value is not None:
        return value
    default = DEFAULTS.get(option)
    return f"{default} (default)" if default is not None and app.settings_known else None


def of_batches(batches: Iterable[Batch]) -> tuple[Evidence, ...]:
    """The records that tell of batches, each once."""
    return cite((b.ref, (b.end_ms or b.time_ms) * 1000) for b in batches)


def of_triggers(triggers: Iterable[Trigger]) -> tuple[Evidence, ...]:
    """The records that tell of triggers, each once."""
    return cite((t.ref, t.time_us) for t in triggers)


def of_records(records: Iterable[Record]) -> tuple[Evidence, ...]:
    """The records themselves, each once."""
    return cite((r.ref, r.time_us) for r in records)


def slowest(batches: Iterable[Batch], most: int = MAX_CITED) -> list[Batch]:
    """The batches that took longest."""
    timed = [b for b in batches if b.processing_ms is not None]
    return sorted(timed, key=lambda b: (-(b.processing_ms or 0), b.time_ms))[:most]


def limited(state: StreamState) -> bool:
    """Whether the job does not get all it could have: throttled, or overloaded all the same."""
    return state.stability in (Stability.THROTTLED, Stability.OVERLOADED)


def short_of_time(state: StreamState) -> bool:
    """Whether batches queue, take almost all of their interval, or are kept small so that they do not."""
    if state.stability is Stability.THROTTLED:
        return any(cap.kind == "pid" for cap in state.caps)
    return state.stability in (Stability.OVERLOADED, Stability.BORDERLINE)


def with_current(action: Action, app: ApplicationFacts) -> Action:
    """The action with the value that its option has now."""
    return replace(action, current=setting(app, action.option)) if action.option else action


rate_text = say.rate  # what rules call it


def time_to(state: StreamState, limit_intervals: float) -> str | None:
    """How long until the delay reaches so many intervals at the present slope; None if it does not grow."""
    slope, interval, delay = state.waiting, state.interval_ms, state.delay_ms
    if slope is None or slope.slope <= 0 or not interval or delay is None:
        return None
    left = limit_intervals * interval - delay
    # The slope is per second of batch times; a batch is processed by its wait later.
    return duration_text(left / slope.slope * (1 + slope.slope)) if left > 0 else None
