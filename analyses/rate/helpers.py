"""All names that a rule about a Spark application needs, under one import.

Each constructor fills in the fields of a finding that follow from the facts. By default, a finding is a warning, is
ongoing until the end of the input, and has the explanation of its cause.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any, Final, TypeVar, Unpack

from flowdiag.analyses.flink.judging import without_package
from flowdiag.analyses.knowledge.causes import CAUSES, Remedy
from flowdiag.analyses.knowledge.explanations import text
from flowdiag.analyses.model import fmt
from flowdiag.analyses.model.finding import (
    Action,
    Confidence,
    CurrentValue,
    Evidence,
    Finding,
    FindingFields,
    Inconclusive,
    Measurement,
    Origin,
    Rank,
    Severity,
    State,
    Subject,
    SubjectFields,
    Vote,
    cite,
    grade,
    measurement,
    weigh,
)
from flowdiag.analyses.model.option_types import (
    BATCH_INTERVAL,
    TRIGGER_INTERVAL,
    Value,
    is_improvement,
    shown,
    write,
)
from flowdiag.analyses.model.rule import Limits, Results, Rule, limit
from flowdiag.analyses.neighbours.locks import find_blocked, snapshots_limit
from flowdiag.analyses.rate import replay as pid
from flowdiag.analyses.rate.assessment import (
    AssessedApplication,
    StreamState,
    batches,
    caps,
    late_triggers,
    late_window,
    parts,
    triggers,
)
from flowdiag.analyses.rate.assessment import state as defaults
from flowdiag.analyses.rate.facts import (
    ApplicationFacts,
    Batch,
    Executor,
    OpenTask,
    OpenTrigger,
    Operation,
    Output,
    QueryFacts,
    Record,
    SparkThread,
    StageLoad,
    Trigger,
    Work,
)
from flowdiag.analyses.rate.replay import Replay
from flowdiag.analyses.rate.stability import Stability
from flowdiag.parsers.neighbours.sessions import POSTGRES
from flowdiag.parsers.units import duration_ms

# Defaults of the limits of RT202 (see `fixed_cost`).
COST: Final = 0.9  # share of the interval
SMALL: Final = 0.25  # share of the records of the largest batch
BATCHES: Final = 3
SPREAD: Final = (
    0.5  # share of the largest batch: if sizes vary by less, the fitted line is not reliable
)

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
Cited = TypeVar("Cited", bound=Batch | Trigger | Record)
_WEEKS_MS: Final = 14 * 86_400_000.0


def round_or_none(value: float | None, digits: int = 3) -> float | None:
    return None if value is None else round(value, digits)


# -- subjects and evidence -----------------------------------------------------------------------


def application_subject(app: ApplicationFacts) -> Subject:
    return Subject(kind="application", job_name=app.name, application=app.application)


def option_subject(app: ApplicationFacts, option: str) -> Subject:
    return Subject(kind="option", job_name=app.name, application=app.application, option=option)


def query_subject(app: ApplicationFacts, query: QueryFacts) -> Subject:
    """Return the subject of a streaming query: its name, or its ID if it has no name."""
    return Subject(
        kind="query",
        job_name=app.name,
        application=app.application,
        query=query.name or query.id,
    )


def service_subject(
    app: ApplicationFacts, service: str, query: QueryFacts | None = None
) -> Subject:
    """Return an external system as a subject, with the query that waits for it."""
    return Subject(
        kind="service",
        service=service,
        job_name=app.name,
        application=app.application,
        query=None if query is None else query.name or query.id,
    )


def executor_subject(app: ApplicationFacts, executor: Executor) -> Subject:
    return Subject(
        kind="executor",
        job_name=app.name,
        application=app.application,
        executor=executor.executor,
        host=executor.host,
    )


def receiver_subject(app: ApplicationFacts, stream: int | None) -> Subject:
    """Return the subject of an input stream, with its receiver if the input names one."""
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
    """Return the subject of a topic partition that an application or one of its queries reads."""
    return Subject(
        kind="partition",
        job_name=app.name,
        application=app.application,
        query=query,
        partition=partition,
    )


def receiver_name(app: ApplicationFacts, stream: int | None) -> str | None:
    return receiver_subject(app, stream).receiver


def evidence_of(items: Iterable[Cited]) -> tuple[Evidence, ...]:
    """Return batches, triggers or single records as evidence, each once."""
    return cite(
        (
            item.ref,
            (item.end_ms or item.time_ms) * 1000 if isinstance(item, Batch) else item.time_us,
        )
        for item in items
    )


# -- findings ------------------------------------------------------------------------------------


def application_finding(assessed: AssessedApplication, **fields: Unpack[SubjectFields]) -> Finding:
    """Return a finding about an application. Pass a `subject` to narrow it down."""
    app, cause = assessed.app, fields.get("cause")
    filled: SubjectFields = {
        "subject": application_subject(app),
        "severity": Severity.WARNING,
        "state": State.ONGOING,
        "last_us": app.last_us,
    }
    if cause is not None:
        filled["explain"] = explanation(cause)
    return Finding(job=assessed.key, **(filled | fields))


def option_finding(
    assessed: AssessedApplication, key: str, **fields: Unpack[SubjectFields]
) -> Finding:
    filled: SubjectFields = {"subject": option_subject(assessed.app, key), "option": key}
    return application_finding(assessed, **(filled | fields))


def stream_finding(
    assessed: AssessedApplication, stream: int | None, **fields: Unpack[SubjectFields]
) -> Finding:
    filled: SubjectFields = {"subject": receiver_subject(assessed.app, stream)}
    return application_finding(assessed, **(filled | fields))


def query_finding(
    assessed: AssessedApplication, query: QueryFacts, **fields: Unpack[SubjectFields]
) -> Finding:
    filled: SubjectFields = {"subject": query_subject(assessed.app, query)}
    return application_finding(assessed, **(filled | fields))


def batch_finding(
    assessed: AssessedApplication, affected: Sequence[Batch], **fields: Unpack[SubjectFields]
) -> Finding:
    """Return a finding about these batches, with their times, number and records."""
    filled: SubjectFields = {
        "first_us": affected[0].time_ms * 1000,
        "last_us": affected[-1].time_ms * 1000,
        "count": len(affected),
        "evidence": evidence_of(affected),
    }
    return application_finding(assessed, **(filled | fields))


def trigger_finding(
    assessed: AssessedApplication,
    query: QueryFacts,
    affected: Sequence[Trigger],
    **fields: Unpack[SubjectFields],
) -> Finding:
    """Return a finding about these triggers of a query, with their times, number and records."""
    filled: SubjectFields = {
        "first_us": affected[0].time_us if affected else None,
        "last_us": affected[-1].time_us if affected else None,
        "count": len(affected),
        "evidence": evidence_of(affected),
    }
    return query_finding(assessed, query, **(filled | fields))


# -- batches and triggers ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """A batch or a trigger, in the form that rules for both kinds use.

    Args:
        record: the batch or trigger.
        duration_ms: its duration.
        stage: the stage with the longest task; None if the input has no tasks.
        gap_ms: minimum time without a running Spark job; None if the input has no jobs.
        rows: whether it read any rows; always True for batches.
    """

    record: Batch | Trigger
    duration_ms: int
    stage: StageLoad | None
    gap_ms: int | None
    rows: bool

    @property
    def records(self) -> int | None:
        """Number of records in the batch, or of rows in the trigger, or None if unknown."""
        return self.record.records if isinstance(self.record, Batch) else self.record.rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """The recent batches of an application, or the recent triggers of one query.

    Args:
        assessed: the application.
        query: None for the batches of the application.
        state: how well it keeps up.
        units: its recent batches or triggers.
    """

    assessed: AssessedApplication
    query: QueryFacts | None
    state: StreamState
    units: tuple[Unit, ...]

    def plural(self, number: int) -> str:
        """Return the number with its noun: `1 batch`, `5 triggers`."""
        return fmt.plural(number, *(("trigger",) if self.query else ("batch", "batches")))

    @property
    def of_query(self) -> str:
        """A clause such as ` of query clicks`, or an empty string for batches."""
        return f" of {self.query.label}" if self.query else ""

    @property
    def subject(self) -> Subject:
        """The query, or the application."""
        app = self.assessed.app
        return query_subject(app, self.query) if self.query else application_subject(app)


def flows_of(assessed: AssessedApplication) -> Iterator[Flow]:
    """Yield the batches of an application, then the triggers of each query."""
    for state in assessed.dstreams:
        units = tuple(
            Unit(
                record=b,
                duration_ms=b.processing_ms or 0,
                stage=b.stage,
                gap_ms=None if b.approximate else _gap_ms(b, b.processing_ms),
                rows=True,
            )
            for b in late_window(assessed.app.completed)
        )
        yield Flow(assessed=assessed, query=None, state=state, units=units)
    for query, state in assessed.queries:
        units = tuple(
            Unit(
                record=t,
                duration_ms=t.duration_ms or 0,
                stage=t.stage,
                gap_ms=_gap_ms(t, t.durations.get("addBatch")),
                rows=bool(t.rows),
            )
            for t in late_triggers(query.triggers)
        )
        yield Flow(assessed=assessed, query=query, state=state, units=units)


def _gap_ms(record: Batch | Trigger, working_ms: int | None) -> int | None:
    """Return how much of the working time is outside all Spark jobs, or None if unknown."""
    busy = record.work.busy_ms if record.work is not None else None
    return None if busy is None or working_ms is None else max(0, working_ms - busy)


def flow_finding(flow: Flow, units: Iterable[Unit], **fields: Unpack[SubjectFields]) -> Finding:
    """Return a finding about an application or query, with the records of the given units."""
    filled: SubjectFields = {
        "subject": flow.subject,
        "evidence": evidence_of(unit.record for unit in units),
    }
    return application_finding(flow.assessed, **(filled | fields))


def overload_confidence(lasted: Sequence[int | None], few: float) -> Confidence:
    """Return the confidence in an overload. A few late units may be a start that catches up.

    Args:
        lasted: wait or duration of each batch or trigger, in order.
        few: number of units for high confidence; with fewer, the last value must be the highest.
    """
    known = [ms for ms in lasted if ms is not None]
    worst_at_last = len(known) > 2 and known[-1] >= max(known)
    return Confidence.HIGH if len(lasted) >= few or worst_at_last else Confidence.LOW


def slowest_first(items: Iterable[Batch]) -> list[Batch]:
    return sorted(items, key=lambda b: (-(b.processing_ms or 0), b.time_ms))


def is_limited(state: StreamState) -> bool:
    """Return whether the job is overloaded, or restricted by a limit or by back pressure."""
    return state.stability in (Stability.THROTTLED, Stability.OVERLOADED)


def use_limit() -> Any:
    """Declare the limit `use`: the share of the interval from which a job counts as at its limit."""
    why = "minimum share of the interval that batches take; below it, there is time to spare"
    return limit(defaults.NARROW, "share", why)


def min_count_limit(unit: str) -> Any:
    """Declare the minimum number of recent batches or triggers that a rule needs."""
    return limit(defaults.FEW, unit, f"minimum number of {unit}; fewer may be a coincidence")


def running_time_limit() -> Any:
    """Declare the minimum running time of a batch that hangs or waits."""
    why = "minimum running time of a batch; garbage collection takes less time"
    return limit(20_000, "ms", why)


def permitted_share_limit() -> Any:
    """Declare the minimum share of the permitted records in a batch that a rate limits."""
    why = "minimum share of the permitted records that a batch contains"
    return limit(defaults.AT_LIMIT, "share", why)


def delay_limit() -> Any:
    """Declare the minimum scheduling delay of batches that fall behind."""
    return limit(
        defaults.GROWN, "intervals", "minimum scheduling delay; a single long batch causes less"
    )


def step_share_limit(value: float) -> Any:
    """Declare the minimum share of a trigger's duration that a slow step takes."""
    return limit(value, "share", "minimum share of a trigger's duration that the step takes")


def is_at_limit(state: StreamState, *, use: float = defaults.NARROW) -> bool:
    """Return whether batches queue, take almost the whole interval, or are limited by back pressure.

    Args:
        state: the state of the batches or triggers.
        use: minimum share of the interval that batches take.
    """
    if state.stability is Stability.THROTTLED:
        return any(cap.kind == "pid" for cap in state.caps)
    return state.stability is Stability.OVERLOADED or batches.has_low_headroom(state, use=use)


def has_no_pause(flow: Flow, *, use: float = defaults.NARROW) -> bool:
    """Return whether a flow is at its limit, or is a query whose triggers follow each other without a pause.

    If the interval is unknown, only missing pauses show that a query is at its limit.
    """
    if flow.query is None or flow.state.interval_ms is not None:
        return is_at_limit(flow.state, use=use)
    return triggers.runs_back_to_back(late_triggers(flow.query.triggers))


def floor_share(estimator: Replay) -> float:
    """Return the share of recent updates in which the floor determined the rate.

    Updates that are less than 1% below the floor do not count.
    """
    late = estimator.updates[-max(6, len(estimator.updates) // 3) :]
    floor = 0.99 * estimator.gains.min_rate
    held = sum(step.is_at_floor and (step.unclamped_rate or 0.0) < floor for step in late)
    return held / len(late) if late else 0.0


def fixed_cost(
    assessed: AssessedApplication,
    state: StreamState,
    *,
    cost: float = COST,
    small: float = SMALL,
    fewest: float = BATCHES,
    spread: float = SPREAD,
) -> float | None:
    """Return the duration of an almost empty batch if it takes about the whole interval, or None.

    Args:
        assessed: the application.
        state: the state of its batches, with the fitted cost.
        cost: minimum share of the interval that an almost empty batch takes.
        small: maximum size of an almost empty batch, as a share of the largest batch for an almost empty batch.
        fewest: minimum number of almost empty batches.
        spread: minimum spread of batch sizes for the fitted line.
    """
    line, least = state.line, cost * (state.interval_ms or 0)
    warm = assessed.app.completed[defaults.COLD :]
    done = [b for b in warm if b.processing_ms and not b.failed_outputs]
    sized = [(b.records, float(b.processing_ms or 0)) for b in done if b.records is not None]
    if not sized or len(done) < defaults.FEW:
        return None
    took = _median_of_small(sized, small, fewest)
    if took is not None and took >= least:
        return took
    return line.base if line is not None and line.spread >= spread and line.base >= least else None


def _median_of_small(
    sized: Sequence[tuple[int, float]], small: float, fewest: float
) -> float | None:
    """Return the median duration of almost empty batches, or None if there are too few, or if all are empty."""
    top = max(records for records, _ in sized)
    took = [ms for records, ms in sized if records <= small * top]
    return median(took) if top and len(took) >= fewest else None


def time_to(state: StreamState, limit_intervals: float) -> str | None:
    """Return the time until the delay reaches `limit_intervals` as text, or None if it takes more than two weeks."""
    slope, interval, delay = state.delay_trend, state.interval_ms, state.delay_ms
    if slope is None or slope.slope <= 0 or not interval or delay is None:
        return None
    left = limit_intervals * interval - delay
    # The slope refers to batch times, but a batch is processed after its wait.
    takes_ms = left / slope.slope * (1 + slope.slope)
    return fmt.duration(takes_ms) if 0 < takes_ms < _WEEKS_MS else None


# -- actions -------------------------------------------------------------------------------------


def explanation(cause: str, **fill: str) -> str:
    """Return the explanation of a cause. `fill` replaces the names in braces."""
    text = CAUSES[cause].explanation
    return text.format(**fill) if fill else text


def current_value(app: ApplicationFacts, option: str) -> CurrentValue | None:
    """Return an option's value with its unit, marked if it is Spark's default."""
    value = app.settings.get(option)
    if value is not None:
        return CurrentValue(shown(option, value))
    default = DEFAULTS.get(option)
    if default is None or not app.settings_known:
        return None
    return CurrentValue(shown(option, default), Origin.DEFAULT)


def remedies(
    cause: str,
    app: ApplicationFacts,
    *names: str,
    proposed: Mapping[str, Value | None] | None = None,
    **fill: str,
) -> tuple[Action, ...]:
    """Return the actions against a cause that the configuration does not apply yet.

    Args:
        cause: a key of `causes.CAUSES`.
        app: the application with its settings.
        names: the remedies to return, in this order; by default all.
        proposed: proposed values that depend on the application, by remedy.
        fill: values for the names in braces.
    """
    table = CAUSES[cause].remedies or {}
    advice = [
        _action(table[name], app, (proposed or {}).get(name), fill) for name in names or table
    ]
    return tuple(action for action in advice if action is not None)


_IN_LOCAL_MODE: Final = {"spark.executor.memory": "spark.driver.memory"}
"""Options of executors without effect in local mode, and the options that replace them."""


def _in_local_mode(remedy: Remedy, app: ApplicationFacts) -> Remedy:
    """Return the remedy with the driver's option instead, if tasks run in the driver."""
    option = _IN_LOCAL_MODE.get(remedy.option or "")
    if option is None or not re.match(r"local(?!-)", app.settings.get("spark.master", "")):
        return remedy
    text = f"{remedy.text}. In local mode, the driver runs the tasks, so set the driver's heap"
    return replace(remedy, option=option, text=text)


def _action(
    remedy: Remedy, app: ApplicationFacts, proposed: Value | None, fill: Mapping[str, str]
) -> Action | None:
    if remedy.engine == "flink":
        return None
    remedy = _in_local_mode(remedy, app)
    key, value = remedy.option, remedy.proposed if proposed is None else proposed
    text = write(key, value) if key is not None and value is not None else None
    now = current_value(app, key) if key is not None else None
    known = (app.settings.get(key) or (now.value if now else None)) if key is not None else None
    if text and known and key and not is_improvement(remedy.only, key, known, text, None):
        return None
    return Action(
        text=remedy.text.format(**fill) if fill else remedy.text,
        option=key,
        current=now,
        proposed=text,
        measure=None if text else remedy.measure,
        risk=remedy.risk,
        restart_needed=remedy.restart_needed,
        verify=remedy.verify,
        command=remedy.command,
    )


def longer_interval(
    option: str, now_ms: float, proposed_ms: float, text: str, *, verify: str
) -> Action:
    """Return the advice to run batches or triggers less often.

    Args:
        option: `BATCH_INTERVAL` or `TRIGGER_INTERVAL`.
        now_ms, proposed_ms: the intervals. A proposal of a second or more is rounded to whole seconds.
        text: the advice with its reason.
        verify: how to check that it worked.
    """
    whole = -(-proposed_ms // 1000) * 1000 if proposed_ms >= 1000 else proposed_ms
    return Action(
        text=text,
        option=option,
        current=CurrentValue(fmt.duration(now_ms), Origin.OBSERVED),
        proposed=write(option, whole),
        risk="results arrive later",
        restart_needed=True,
        verify=verify,
    )


__all__ = [
    "BATCH_INTERVAL",
    "TRIGGER_INTERVAL",
    "Inconclusive",
    "Limits",
    "OpenTask",
    "OpenTrigger",
    "Operation",
    "Output",
    "Results",
    "Rule",
    "SparkThread",
    "caps",
    "duration_ms",
    "grade",
    "limit",
    "parts",
    "pid",
    "triggers",
    "weigh",
    "without_package",
]
