"""What the rules of `rate` share: subjects, evidence, settings, and what several of them ask."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import median
from typing import Final, TypeVar

from flowdiag.analyses.knowledge.option_types import shown
from flowdiag.analyses.model import fmt
from flowdiag.analyses.model.finding import Evidence, Origin, Present, Subject, cite
from flowdiag.analyses.rate.facts import ApplicationFacts, Batch, QueryFacts, Record, Trigger
from flowdiag.analyses.rate.present import COLD, FEW, NARROW, Assessed, StreamState, tight
from flowdiag.analyses.rate.replay import Replay
from flowdiag.analyses.rate.stability import Stability

# When batches cost about an interval whatever they hold (see `fixed_cost`).
COST: Final = 0.9  # of the interval
SMALL: Final = 0.25  # of the records of the largest batch
BATCHES: Final = 3
SPREAD: Final = 0.5  # of the largest batch: with less, the line through all tells of no base

Told = TypeVar("Told", bound=Batch | Trigger | Record)

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


def receiver_subject(app: ApplicationFacts, stream: int | None) -> Subject:
    """An input stream, with the receiver that feeds it as far as it is known."""
    mine = [r for r in app.receivers if r.fields.get("stream") == str(stream)]
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


def partition_subject(app: ApplicationFacts, partition: str, query: str | None = None) -> Subject:
    """A partition of a topic, which an application or one of its queries reads."""
    return Subject(
        kind="partition",
        job_name=app.name,
        application=app.application,
        query=query,
        partition=partition,
    )


def receiver_name(app: ApplicationFacts, stream: int | None) -> str | None:
    """What the receiver of a stream is called, if it has one that tells."""
    return receiver_subject(app, stream).receiver


def setting(app: ApplicationFacts, option: str) -> Present | None:
    """The value of an option as an action shows it: with its unit, and whether it is Spark's default."""
    value = app.settings.get(option)
    if value is not None:
        return Present(shown(option, value))
    default = DEFAULTS.get(option)
    if default is None or not app.settings_known:
        return None
    return Present(shown(option, default), Origin.DEFAULT)


def records_of(told: Iterable[Told]) -> tuple[Evidence, ...]:
    """The records that tell of batches or triggers, or the records themselves: each once."""
    return cite((one.ref, _when_us(one)) for one in told)


def _when_us(one: Batch | Trigger | Record) -> int | None:
    return (one.end_ms or one.time_ms) * 1000 if isinstance(one, Batch) else one.time_us


def held_by_unit(one: Batch | Trigger) -> int | None:
    """How many records a batch, or rows a trigger, holds; None where nothing counts them."""
    return one.records if isinstance(one, Batch) else one.rows


def slowest(batches: Iterable[Batch]) -> list[Batch]:
    """The same batches, those that took longest first."""
    return sorted(batches, key=lambda b: (-(b.processing_ms or 0), b.time_ms))


def limited(state: StreamState) -> bool:
    """Whether the job does not get all it could have: throttled, or overloaded all the same."""
    return state.stability in (Stability.THROTTLED, Stability.OVERLOADED)


def short_of_time(state: StreamState, *, use: float = NARROW) -> bool:
    """Whether batches queue, take almost all of their interval, or are kept small so that they do not.

    Args:
        state: of batches or triggers.
        use: share of the interval that is almost all of it.
    """
    if state.stability is Stability.THROTTLED:
        return any(cap.kind == "pid" for cap in state.caps)
    return state.stability is Stability.OVERLOADED or tight(state, use=use)


def floor_share(estimator: Replay) -> float:
    """How many of the late updates the floor decided.

    An estimator that would go below the floor by a hair only is not held by it.
    """
    late = estimator.updates[-max(6, len(estimator.updates) // 3) :]
    if not late:
        return 0.0
    held = sum(
        step.at_floor and (step.unclamped_rate or 0.0) < 0.99 * estimator.gains.min_rate
        for step in late
    )
    return held / len(late)


def fixed_cost(
    assessed: Assessed,
    state: StreamState,
    *,
    cost: float = COST,
    small: float = SMALL,
    batches: float = BATCHES,
    spread: float = SPREAD,
) -> float | None:
    """What a batch costs that holds next to nothing, if that is about the interval; else None.

    Args:
        assessed: the application.
        state: of its batches, with the fitted cost.
        cost: share of the interval that is about all of it.
        small: share of the largest batch that is next to nothing.
        batches: so many such batches have to tell it.
        spread: how far apart batches have to be in size for the line through them to tell it.
    """
    interval = state.interval_ms or 0
    done = [b for b in assessed.app.completed[COLD:] if b.processing_ms and not b.failed_outputs]
    counted = [b.records for b in done if b.records is not None]
    if not counted or len(done) < FEW:
        return None
    top = max(counted)
    took = [
        float(b.processing_ms or 0)
        for b in done
        if b.records is not None and b.records <= small * top
    ]
    if top and len(took) >= batches and median(took) >= cost * interval:
        return median(took)
    line = state.line
    if line is not None and line.spread >= spread and line.base >= cost * interval:
        return line.base
    return None


rate_text = fmt.rate  # what rules call it


_WEEKS_MS: Final = 14 * 86_400_000.0


def time_to(state: StreamState, limit_intervals: float) -> str | None:
    """How long until the delay reaches so many intervals at the present slope; None where it takes weeks or never does."""
    slope, interval, delay = state.waiting, state.interval_ms, state.delay_ms
    if slope is None or slope.slope <= 0 or not interval or delay is None:
        return None
    left = limit_intervals * interval - delay
    # The slope is per second of batch times; a batch is processed by its wait later.
    takes_ms = left / slope.slope * (1 + slope.slope)
    return fmt.duration(takes_ms) if 0 < takes_ms < _WEEKS_MS else None
