"""Replays the rate estimators of an application from its batches.

There is one estimator per input stream. When a batch completes or fails, it gets the records of its own stream and the
delays of the whole batch. The output of the listener contains all of this input. REST responses lack the times, which
only the derivative term needs.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from flowdiag.analyses.rate.facts import ApplicationFacts, Record
from flowdiag.analyses.rate.pid import Gains, Observation, Step, replay

PREFIX: Final = "spark.streaming.backpressure."
ENABLED: Final = PREFIX + "enabled"
MAX_RATE: Final = "spark.streaming.receiver.maxRate"
MAX_PER_PARTITION: Final = "spark.streaming.kafka.maxRatePerPartition"
NO_LIMIT: Final = 1e15  # records per second that count as unlimited, e.g. Long.MaxValue
INITIAL_RATE: Final = PREFIX + "initialRate"
MIN_RATE: Final = PREFIX + "pid.minRate"


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """One stream's estimator.

    Args:
        stream: the ID of the stream.
        gains: the configured gains, or the defaults.
        steps: the results, one per completed batch.
        exact: whether all numbers are identical to Spark's.
        batch_ms: the batch time of each step.
    """

    stream: int
    gains: Gains
    steps: tuple[Step, ...]
    batch_ms: tuple[int, ...]
    exact: bool

    @property
    def updates(self) -> tuple[Step, ...]:
        """The steps that published a rate."""
        return tuple(step for step in self.steps if step.new_rate is not None)


def ignores_rate(app: ApplicationFacts) -> bool:
    """Return whether no DStream follows a rate limit: only receivers and Kafka do. A stream of files takes all new files."""
    described = [s.description or "" for batch in app.batches for s in batch.streams]
    if app.receivers or app.blocks or app.partitions or any("topic" in d for d in described):
        return False
    lineage = {word for batch in app.batches for word in batch.lineage}
    others = "other" in lineage and lineage.isdisjoint({"receiver", "kafka"})
    return others or bool(app.incidents_of("new-files"))


def is_enabled(app: ApplicationFacts) -> bool | None:
    """Return whether back pressure is on, or None without a known configuration."""
    if any(record.template == "pid-created" for record in app.traces):
        return True
    if not app.settings_known:
        return True if app.traces else None
    return app.settings.get(ENABLED, "false").strip().lower() == "true"


def gains_of(settings: Mapping[str, str], traces: Iterable[Record] = ()) -> Gains:
    """Return the gains from the configuration or the estimator's log line. Spark's defaults apply if neither exists.

    Values that Spark rejects count as unset.
    """
    printed: Mapping[str, str] = {}
    for record in traces:
        if record.template == "pid-created":
            printed = record.fields
    names = {
        "proportional": "proportional",
        "integral": "integral",
        "derived": "derivative",
        "minRate": "min_rate",
    }
    values: dict[str, float] = {}
    for option, key in names.items():
        text = settings.get(f"{PREFIX}pid.{option}", printed.get(key))
        value = number(text)
        if value is not None:
            values["min_rate" if option == "minRate" else option] = value
    try:
        return Gains(**values)
    except ValueError:
        return Gains()


def number(text: str | None) -> float | None:
    """Return a setting as a number, or None.

    >>> number("0.2"), number(None), number("many"), number("nan")
    (0.2, None, None, None)
    """
    try:
        value = math.nan if text is None else float(text.strip().replace(",", "."))
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def replays(app: ApplicationFacts) -> tuple[Replay, ...]:
    """Return the estimators of all streams. Empty without back pressure or without delays."""
    if not is_enabled(app) or not app.interval_ms:
        return ()
    gains = gains_of(app.settings, app.traces)
    seen: dict[int, list[tuple[int, Observation]]] = defaultdict(list)
    exact = _has_first_batch(app)
    for batch in sorted(app.completed, key=lambda b: (b.end_ms or 0, b.time_ms)):
        if batch.end_ms is None or batch.processing_ms is None or batch.scheduling_ms is None:
            continue
        if batch.approximate or app.origins.isdisjoint(("listener", "rest")):
            return _from_traces(app, gains)
        # REST contains delays, so the end of a batch is exact except for the generation lag.
        exact = exact and (batch.submission_ms is not None or gains.derived == 0)
        for stream in batch.streams:
            observation = Observation(
                time_ms=batch.end_ms,
                elements=stream.records,
                processing_delay_ms=batch.processing_ms,
                scheduling_delay_ms=batch.scheduling_ms,
            )
            seen[stream.stream].append((batch.time_ms, observation))
    if not seen:
        return _from_traces(app, gains)
    return tuple(
        _replay(stream, seen[stream], app.interval_ms, gains, exact) for stream in sorted(seen)
    )


def _has_first_batch(app: ApplicationFacts) -> bool:
    """Return whether the input contains the application's first batch. An estimator depends on all earlier batches."""
    gains = gains_of(app.settings, app.traces)
    # With the default gains, the last rate cancels out, so one batch is enough.
    if gains.proportional == 1.0 and gains.derived == 0.0:
        return True
    if app.started_us is None or not app.batches or not app.interval_ms:
        return False
    return app.batches[0].time_ms - app.started_us // 1000 < 120_000


def _from_traces(app: ApplicationFacts, gains: Gains) -> tuple[Replay, ...]:
    """Replay the input that the estimator logged, if there is only one estimator."""
    inputs = [record for record in app.traces if record.template == "pid-input"]
    times = Counter(record.fields.get("time") for record in inputs)
    if not inputs or max(times.values()) > 1 or not app.interval_ms:
        return ()
    seen = []
    for record in inputs:
        values = [
            record.fields.get(key) for key in ("time", "elements", "processing", "scheduling")
        ]
        if any(value is None or not value.lstrip("-").isdecimal() for value in values):
            continue
        time, elements, processing, scheduling = (int(value or 0) for value in values)
        observation = Observation(
            time_ms=time,
            elements=elements,
            processing_delay_ms=processing,
            scheduling_delay_ms=scheduling,
        )
        seen.append((time - processing - scheduling, observation))
    return (_replay(0, seen, app.interval_ms, gains, exact=True),)


def _replay(
    stream: int,
    seen: list[tuple[int, Observation]],
    interval_ms: int,
    gains: Gains,
    exact: bool,
) -> Replay:
    steps = replay((one for _, one in seen), batch_interval_ms=interval_ms, gains=gains)
    return Replay(
        stream=stream,
        gains=gains,
        steps=tuple(steps),
        batch_ms=tuple(time for time, _ in seen),
        exact=exact,
    )
