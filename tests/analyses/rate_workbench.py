"""Hand-written and simulated applications for tests of the rules of `rate`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from flowdiag.analyses.model.finding import RuleOutcome
from flowdiag.analyses.model.keys import JobKey, Ref
from flowdiag.analyses.model.rule import Thresholds, apply
from flowdiag.analyses.rate.assessment import Assessment, assess
from flowdiag.analyses.rate.facts import (
    ApplicationFacts,
    Batch,
    QueryFacts,
    RateFacts,
    Record,
    StreamInput,
    Trigger,
)
from flowdiag.analyses.rate.model import Job, Settings, simulate
from flowdiag.analyses.rate.rules import RULES as RATE_RULES
from flowdiag.analyses.report.verdicts import judge

from .judged import checked

T0 = 1_700_000_000_000
KEY = JobKey("", "app-1")
BACK_PRESSURE = {"spark.streaming.backpressure.enabled": "true"}


def batch(number: int, *, interval: int = 1000, **values: Any) -> Batch:
    """Return a completed batch, which by default took half an interval."""
    time = T0 + number * interval
    records = values.pop("records", 100)
    processing = values.pop("processing_ms", interval // 2)
    scheduling = values.pop("scheduling_ms", 2)
    submission = values.pop("submission_ms", time + 3)
    state = values.pop("state", "completed")
    done = state == "completed"
    start = submission + scheduling
    return Batch(
        time_ms=time,
        state=state,
        records=records,
        submission_ms=submission,
        start_ms=start if done else values.pop("start_ms", None),
        end_ms=start + processing if done else None,
        processing_ms=processing if done else None,
        scheduling_ms=scheduling if done else None,
        streams=values.pop("streams", (StreamInput(stream=0, records=records),)),
        ref=Ref(0, number),
        **values,
    )


def application(batches: Sequence[Batch] = (), **values: Any) -> ApplicationFacts:
    """Return an application with these batches, and with `fields` set."""
    interval = values.pop("interval_ms", 1000 if batches else None)
    return ApplicationFacts(
        key=KEY,
        application="app-1",
        name="orders",
        version="3.5.1",
        interval_ms=interval,
        interval_from="listener",
        settings=values.pop("settings", {}),
        settings_known=True,
        batches=tuple(batches),
        started_us=(T0 - 1000) * 1000,
        last_us=values.pop(
            "last_us", max([b.end_ms or b.time_ms for b in batches], default=T0) * 1000
        ),
        origins=values.pop("origins", frozenset({"listener"})),
        **values,
    )


def simulated(
    job: Job, tried: Settings, offered: Sequence[float], **values: Any
) -> ApplicationFacts:
    """Return an application that behaves as the model predicts."""
    outcome = simulate(job, tried, offered)
    interval = tried.interval_ms
    end = T0 + len(offered) * interval
    batches = []
    for number, one in enumerate(outcome.batches, 1):
        done = T0 + one.time_ms + one.total_ms <= end
        batches.append(
            batch(
                number,
                interval=interval,
                submission_ms=T0 + one.time_ms,
                records=one.records,
                processing_ms=one.processing_ms,
                scheduling_ms=one.scheduling_ms,
                state="completed" if done else "queued",
            )
        )
    gains = tried.gains
    settings = dict(values.pop("settings", {}))
    if tried.back_pressure:
        settings |= BACK_PRESSURE | {
            "spark.streaming.backpressure.pid.proportional": str(gains.proportional),
            "spark.streaming.backpressure.pid.integral": str(gains.integral),
            "spark.streaming.backpressure.pid.derived": str(gains.derived),
            "spark.streaming.backpressure.pid.minRate": str(gains.min_rate),
        }
    if tried.max_rate is not None:
        settings["spark.streaming.receiver.maxRate"] = str(int(tried.max_rate))
    return application(batches, interval_ms=interval, settings=settings, **values)


def trigger(number: int, duration_ms: int, *, interval: int = 2000, **values: Any) -> Trigger:
    """Return a trigger that starts at a multiple of the interval by default."""
    return Trigger(
        batch=number,
        run_id=values.pop("run_id", "r"),
        time_us=values.pop("time_us", (T0 + number * interval) * 1000),
        duration_ms=duration_ms,
        rows=values.pop("rows", 100),
        durations={"addBatch": duration_ms - 10, "triggerExecution": duration_ms},
        ref=Ref(0, number),
        **values,
    )


def query(triggers: Sequence[Trigger], **values: Any) -> QueryFacts:
    """Return a query with these triggers."""
    return QueryFacts(
        id="q",
        name="orders",
        runs=values.pop("runs", tuple(dict.fromkeys(t.run_id for t in triggers))),
        triggers=tuple(triggers),
        trigger_interval_ms=values.pop("trigger_interval_ms", 2000),
        interval_from="log",
        **values,
    )


def record(
    template: str | None = None, *, kind: str = "spark_incident", at: int = 0, **values: Any
) -> Record:
    """Return a log record as the rules see it."""
    return Record(
        kind=kind,
        template=template,
        time_us=(T0 + at) * 1000,
        cause=values.pop("cause", None),
        duration_ms=values.pop("duration_ms", None),
        host=values.pop("host", None),
        fields=values,
        ref=Ref(0, at),
    )


def assessed(*apps: ApplicationFacts) -> Assessment:
    return assess(RateFacts(applications=apps))


def outcomes(
    *apps: ApplicationFacts, limits: Mapping[str, Thresholds] | None = None
) -> tuple[RuleOutcome, ...]:
    """Return the outcomes of the rules. `limits` overrides the defaults by code and name."""
    facts = assessed(*apps)
    return checked(apply(RATE_RULES, facts, facts.applications, limits))


def codes(*apps: ApplicationFacts, limits: Mapping[str, Thresholds] | None = None) -> list[str]:
    """Return the codes of the rules that have findings. `limits` overrides the defaults by code and name."""
    return [outcome.code for outcome in outcomes(*apps, limits=limits) if outcome.findings]


def cause(*apps: ApplicationFacts) -> str | None:
    return judge(outcomes(*apps)).cause


def verdict(*apps: ApplicationFacts) -> str:
    return judge(outcomes(*apps)).verdict
