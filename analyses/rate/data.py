"""Turns the assessment of `flowdiag rate` into `data.applications` of the report."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from flowdiag.analyses.contract import report as wire
from flowdiag.analyses.contract.redact import clean
from flowdiag.analyses.model.finding import RuleOutcome
from flowdiag.analyses.rate import facts as x
from flowdiag.analyses.rate import replay as pid
from flowdiag.analyses.rate.assessment import AssessedApplication, Assessment, StreamState
from flowdiag.analyses.rate.holding import reason_for_rate
from flowdiag.analyses.report.verdicts import judge

if TYPE_CHECKING:
    from flowdiag.analyses.model.columns import Row as TableRow
    from flowdiag.analyses.model.columns import Rows

MAX_SLOW: Final = 20
_ESTIMATOR: Final = "org.apache.spark.streaming.scheduler.rate.PIDRateEstimator"

Row = TypeVar("Row")


def rate_data(
    facts: Assessment,
    outcomes: Sequence[RuleOutcome],
    *,
    max_rows: int,
    excerpts: bool = True,
) -> list[wire.RateApplication]:
    """Return the tables of every streaming application, each with its own verdict.

    Args:
        facts: the assessment.
        outcomes: the outcomes of the rules.
        max_rows: maximum length of a list; failed and slow rows are kept first.
        excerpts: whether to include reasons, which are log text.
    """
    return [
        _application(assessed, outcomes, max_rows, excerpts)
        for assessed in facts.applications
        if assessed.app.kind != "other"
    ]


def _application(
    assessed: AssessedApplication, outcomes: Sequence[RuleOutcome], max_rows: int, excerpts: bool
) -> wire.RateApplication:
    app = assessed.app
    judgement = judge(outcomes, assessed.key)
    batches = _keep(
        app.batches,
        max_rows,
        lambda b: (b.failed_outputs > 0, b.processing_ms or 0),
    )
    steps = list(_steps(assessed))
    triggers = sum(len(query.triggers) for query, _ in assessed.queries)
    total = wire.RateTotals(batches=len(app.batches), pid=len(steps), triggers=triggers)
    return wire.RateApplication(
        application=app.application,
        name=clean(app.name) if app.name else None,
        spark_version=app.version,
        kind=app.kind,
        batch_interval_ms=app.interval_ms,
        batch_interval_from=app.interval_from,
        verdict=judgement.verdict,
        cause=judgement.cause,
        culprits=list(judgement.culprits),
        back_pressure=pid.is_enabled(app) if app.batches else None,
        seen_in=sorted(app.origins),
        missing=missing_information(app),
        keeping=_keeping_of(assessed.state) if assessed.state is not None else None,
        streams=_streams(assessed),
        queries=[_query(query, state, max_rows) for query, state in assessed.queries],
        batches=[_batch(batch, excerpts) for batch in batches],
        pid=steps[-max_rows:],
        slow_parts=_slow_parts(assessed),
        settings={k: clean(v) for k, v in app.settings.items() if "streaming" in k},
        total=total,
        truncated=max(total.batches, total.pid, total.triggers) > max_rows,
    )


def _steps(assessed: AssessedApplication) -> Iterator[wire.PidStep]:
    for estimator in assessed.estimators:
        for time, step in zip(estimator.batch_ms, estimator.steps, strict=True):
            seen = step.observation
            yield wire.PidStep(
                stream_id=estimator.stream,
                batch_time_ms=time,
                time_ms=seen.time_ms,
                elements=seen.elements,
                processing_delay_ms=seen.processing_delay_ms,
                scheduling_delay_ms=seen.scheduling_delay_ms,
                latest_rate=step.latest_rate,
                error=step.error,
                historical_error=step.historical_error,
                d_error=step.d_error,
                new_rate=step.new_rate,
                outcome=step.outcome,
                exact=estimator.exact,
            )


def missing_information(app: x.ApplicationFacts) -> list[str]:
    """Return which information is missing, each with the input that would contain it."""
    gaps = [gap for query in app.queries if (gap := _missing_of(query)) is not None]
    if app.lost:
        gaps.append("listener events, which were dropped")
    if not app.batches:
        return gaps
    if all(batch.records is None for batch in app.batches):
        gaps.append(
            "records per batch: `flowdiag listener export DIR` writes a listener that records them"
        )
        if pid.is_enabled(app) is not False:
            gaps.append(
                "the estimator's input, which the listener and TRACE logging of "
                f"{_ESTIMATOR} record"
            )
    if app.interval_from == "observed":
        gaps.append("the batch interval, which was inferred from the batch times")
    if not app.settings_known:
        gaps.append("the configuration (sources: an event log, the listener, /environment, --conf)")
    if all(batch.submission_ms is None for batch in app.batches):
        gaps.append("submission times, which the listener records")
    return gaps


def _missing_of(query: x.QueryFacts) -> str | None:
    if query.real_time or query.trigger_interval_ms or len(query.triggers) < 3:
        return None
    return f"the trigger interval of {query.label}, which no input records: set --trigger-interval"


def _keep(rows: Sequence[Row], limit: int, badness: Callable[[Row], tuple[bool, int]]) -> list[Row]:
    """Return the worst `limit` rows, in their original order."""
    if len(rows) <= limit:
        return list(rows)
    places = sorted(range(len(rows)), key=lambda i: (badness(rows[i]), i), reverse=True)[:limit]
    return [rows[i] for i in sorted(places)]


def _batch(batch: x.Batch, excerpts: bool) -> wire.RateBatch:
    return wire.RateBatch(
        batch_time_ms=batch.time_ms,
        records=batch.records,
        submission_ms=batch.submission_ms,
        processing_start_ms=batch.start_ms,
        processing_end_ms=batch.end_ms,
        processing_delay_ms=batch.processing_ms,
        scheduling_delay_ms=batch.scheduling_ms,
        total_delay_ms=batch.total_ms,
        status=batch.state,
        failed_outputs=batch.failed_outputs,
        approximate=batch.approximate,
        reason=clean(batch.reason) if batch.reason and excerpts else None,
    )


def _keeping_of(state: StreamState) -> wire.Keeping:
    line = state.line

    def rounded(value: float | None, digits: int = 3) -> float | None:
        return None if value is None else round(value, digits)

    return wire.Keeping(
        stability=state.stability,
        because=state.because,
        interval_ms=state.interval_ms,
        processing_ms=state.processing_ms,
        use=rounded(state.use, 4),
        delay_ms=state.delay_ms,
        growth_per_s=rounded(state.delay_trend.slope, 4) if state.delay_trend else None,
        queued=state.queued,
        since_ms=state.behind_since_ms,
        cost_per_batch_ms=rounded(line.base) if line else None,
        # Nine digits are enough for a simulation to reproduce the sustainable rate.
        cost_per_record_ms=float(f"{line.per_x:.9g}") if line else None,
        cost_error_ms=rounded(line.error) if line else None,
        sustainable_per_s=rounded(state.headroom_per_s),
        records_per_s=rounded(state.records_per_s),
        limit=state.limit.kind if state.limit else None,
        to_limit_ms=round(state.limit.left_ms)
        if state.limit and state.limit.left_ms is not None
        else None,
    )


def _streams(assessed: AssessedApplication) -> list[wire.RateStream]:
    app, state = assessed.app, assessed.state
    if state is None:
        return []
    totals: dict[int, int] = {}
    for batch in app.batches:
        for one in batch.streams:
            totals[one.stream] = totals.get(one.stream, 0) + one.records
    names = {
        int(record.fields["stream"]): record.fields.get("name")
        for record in app.receivers
        if record.fields.get("stream", "").isdecimal()
    }
    result = []
    for stream in sorted({*totals, *names}):
        cap = next((cap for cap in state.caps if cap.stream in (stream, None)), None)
        result.append(
            wire.RateStream(
                stream_id=stream,
                name=names.get(stream),
                records=totals.get(stream, 0),
                limit=cap.kind if cap else None,
                limit_per_s=round(cap.per_s, 3) if cap else None,
                keeping=_keeping_of(state),
                held_by=(held := reason_for_rate(assessed, stream))[0],
                held_because=held[1],
            )
        )
    return result


def _query(query: x.QueryFacts, state: StreamState, max_rows: int) -> wire.RateQuery:
    kept = _keep(query.triggers, max_rows, lambda t: (False, t.duration_ms or 0))
    return wire.RateQuery(
        id=query.id,
        name=clean(query.name) if query.name else None,
        runs=list(query.runs),
        sources=[clean(each["name"]) for each in query.triggers[-1].sources if each.get("name")]
        if query.triggers
        else [],
        trigger_interval_ms=query.trigger_interval_ms,
        trigger_interval_from=query.interval_from,
        exceptions=state.failed,
        keeping=_keeping_of(state),
        real_time=query.real_time,
        real_time_from=query.real_time_from,
        row_rates_void=state.rows_overcounted,
        triggers=[_trigger(trigger) for trigger in kept],
    )


def _trigger(trigger: x.Trigger) -> wire.RateTrigger:
    return wire.RateTrigger(
        run_id=trigger.run_id,
        batch_id=trigger.batch,
        started_at=wire.iso(trigger.time_us),
        duration_ms=trigger.duration_ms,
        rows=trigger.rows,
        backlog=trigger.backlog,
        durations_ms=dict(trigger.durations),
        watermark=wire.iso(trigger.watermark_us),
        state_rows=sum(one.get("rows") or 0 for one in trigger.state) if trigger.state else None,
        dropped_rows=trigger.dropped,
    )


def _slow_parts(assessed: AssessedApplication) -> list[wire.SlowPart]:
    """Return the worst stages of the longest batches and triggers."""
    found: list[tuple[int, int | None, int | None, x.StageLoad]] = [
        (b.processing_ms or 0, b.time_ms, None, b.stage)
        for b in assessed.app.batches
        if b.stage is not None
    ]
    found += [
        (t.duration_ms or 0, None, t.batch, t.stage)
        for query, _ in assessed.queries
        for t in query.triggers
        if t.stage is not None
    ]
    found.sort(key=lambda one: (-one[0], one[1] or 0, one[2] or 0))
    return [
        wire.SlowPart(
            batch_time_ms=time,
            batch_id=batch,
            stage=stage.stage,
            name=clean(stage.name) if stage.name else None,
            tasks=stage.tasks,
            longest_ms=stage.longest_ms,
            others_ms=None if stage.others_ms is None else round(stage.others_ms, 1),
            index=stage.index,
            executor=stage.executor,
            host=stage.host,
            records=stage.slowest_records,
            others_records=None if stage.others_records is None else round(stage.others_records, 1),
        )
        for _, time, batch, stage in found[:MAX_SLOW]
    ]


# -- complete tables -----------------------------------------------------------------------------------


def rate_tables(facts: Assessment, *, excerpts: bool) -> Rows:
    """Return the complete lists as rows of `report.tables`, generated lazily.

    Args:
        facts: the assessment.
        excerpts: whether to include reasons, which are log text.
    """

    def each(
        lists: Callable[[AssessedApplication], Iterable[msgspec.Struct]],
    ) -> Iterator[TableRow]:
        for assessed in facts.applications:
            if assessed.app.kind != "other":
                for row in lists(assessed):
                    yield msgspec.structs.asdict(row) | _names(assessed.app)

    def triggers() -> Iterator[TableRow]:
        for assessed in facts.applications:
            for query, _ in assessed.queries:
                named = {
                    "query": query.id,
                    "query_name": clean(query.name) if query.name else None,
                }
                for trigger in query.triggers:
                    row = msgspec.structs.asdict(_trigger(trigger))
                    yield row | _names(assessed.app) | named

    yield "batches", each(lambda one: (_batch(batch, excerpts) for batch in one.app.batches))
    yield "pid_steps", each(_steps)
    yield "triggers", triggers()


def _names(app: x.ApplicationFacts) -> dict[str, str | None]:
    return {
        "application": app.application,
        "application_name": clean(app.name) if app.name else None,
    }
