"""Rules of `rate` about event time: watermarks ahead of the clock or stuck, and queries without output."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from flowdiag.analyses.model.finding import Finding
from flowdiag.analyses.rate.facts import ApplicationFacts, Plan, StageLoad

from . import rate_workbench as w

SECOND = 1_000_000
T0_US = w.T0 * 1000


def start_us(number: int) -> int:
    return T0_US + number * 2 * SECOND


def query(
    event: Callable[[int], int | None],
    *,
    count: int = 20,
    delay: int = 4 * SECOND,
    dropped: Callable[[int], int] = lambda n: 0,
    written: Callable[[int], int | None] = lambda n: 4,
    plan: Plan | None = None,
    **values: Any,
) -> ApplicationFacts:
    """Return an application whose query has these maximum event times, and the resulting
    watermarks."""
    triggers, newest = [], 0
    for n in range(count):
        latest = event(n)
        triggers.append(
            w.trigger(
                n,
                500,
                watermark_us=max(0, newest - delay),
                max_event_us=latest,
                min_event_us=None if latest is None else latest - SECOND,
                written=written(n),
                state=({"operator": "stateStoreSave", "rows": 5, "dropped": dropped(n)},),
                **values,
            )
        )
        newest = max(newest, latest or 0)
    return w.application(queries=(w.query(triggers, plan=plan or Plan()),))


def findings(app: ApplicationFacts) -> list[Finding]:
    return [x for o in w.outcomes(app) for x in o.findings]


def test_an_event_from_the_future_is_the_only_cause() -> None:
    far = 3_508_012_800 * SECOND
    app = query(
        lambda n: far if n == 7 else start_us(n),
        dropped=lambda n: 3 if n > 7 else 0,
        written=lambda n: 4 if n < 9 else 0,
        plan=Plan(mode="append", column="ts"),
    )
    (found,) = findings(app)
    assert found.cause == "future-watermark"
    assert "Batch 7" in found.title and "2081-03-01" in found.title
    assert "ts <= current_timestamp()" in found.actions[0].text
    assert "new checkpoint" in found.actions[1].text
    assert w.verdict(app) == "failing"


def test_a_watermark_that_the_clock_has_passed_is_over() -> None:
    soon = start_us(19) - 500_000
    (found,) = findings(query(lambda n: soon + 600 * SECOND if n == 1 else start_us(n), count=400))
    assert (found.cause, found.state) == ("future-watermark", "recovered")


@pytest.mark.parametrize("skew", [-2700, -60, 0, 60])
def test_clocks_may_differ_by_a_minute(skew: int) -> None:
    assert findings(query(lambda n: start_us(n) + skew * SECOND)) == []


@pytest.mark.parametrize(
    ("event", "clause"),
    [
        (lambda n: start_us(n) * 1000, "milliseconds are read as seconds"),
        (lambda n: start_us(n) // 1000, "seconds are read as milliseconds"),
        (lambda n: start_us(n) // 1_000_000, "seconds are read as microseconds"),
        (lambda n: 2**63 - 1, "a smaller unit is read as seconds"),
        (lambda n: start_us(n) + 7200 * SECOND, "2 h ahead of the clock: local times"),
        (lambda n: start_us(n) - 5 * 3600 * SECOND, "5 h behind the clock: probably, local times"),
        (lambda n: start_us(n) - (20_700 + n) * SECOND, "5 h 45 min behind the clock"),
    ],
)
def test_units_and_time_zones(event: Callable[[int], int], clause: str) -> None:
    app = query(event)
    (found,) = findings(app)
    assert found.cause == "wrong-event-time" and clause in found.title
    assert w.verdict(app) == "degraded"


@pytest.mark.parametrize(
    ("event", "count"),
    [
        (lambda n: start_us(n) - 45 * 60 * SECOND, 20),  # no time zone
        (lambda n: start_us(n) - (3600 + 120) * SECOND, 20),
        (lambda n: start_us(n) - (5 * 3600 - 20 * n) * SECOND, 20),  # a replay
        (lambda n: start_us(n) - 5 * 3600 * SECOND, 5),  # a few seconds
    ],
)
def test_late_events_do_not_indicate_a_time_zone(event: Callable[[int], int], count: int) -> None:
    assert findings(query(event, count=count)) == []


def test_planned_events_do_not_indicate_a_time_zone() -> None:
    (found,) = findings(query(lambda n: start_us(n) + (7200 + 500 * n) * SECOND))
    assert found.cause == "future-watermark"


def joined(clicks: int, *, written: int | None = 0) -> ApplicationFacts:
    sources = ({"name": "KafkaV2[shown]", "rows": 90}, {"name": "KafkaV2[clicked]", "rows": clicks})
    return query(
        start_us,
        delay=10**17,
        sources=sources,
        written=lambda n: written,
    )


def test_the_idle_input_is_named() -> None:
    (found,) = findings(joined(0))
    assert found.cause == "stuck-watermark"
    assert "no row came from KafkaV2[clicked]" in found.title
    assert "heartbeat" in found.actions[0].text
    assert any(m.name == "written-rows" and m.value == 0 for m in found.measurements)
    assert found.count == 20


def test_without_an_idle_input_none_is_named() -> None:
    (found,) = findings(joined(3))
    assert "KafkaV2" not in found.title and "old events" in found.actions[0].text


@pytest.mark.parametrize(
    ("plan", "severity"),
    [
        (Plan(mode="append", delay_ms=3_600_000, window_ms=10_000), "warning"),
        (Plan(mode="append", delay_ms=4_000, window_ms=4_000), "warning"),
        (Plan(mode="append", delay_ms=60_000, window_ms=3_600_000), "info"),
        (Plan(), "info"),
    ],
)
def test_a_query_without_output(plan: Plan, severity: str) -> None:
    app = query(start_us, plan=plan, written=lambda n: 0)
    (found,) = findings(app)
    assert (found.cause, found.severity) == ("no-output", severity)
    assert w.verdict(app) == ("degraded" if severity == "warning" else "inconclusive")


def test_a_filter_that_no_row_passes_is_not_healthy() -> None:
    triggers = [w.trigger(n, 500, written=0) for n in range(20)]
    app = w.application(queries=(w.query(triggers),))
    assert findings(app) == [] and w.verdict(app) == "inconclusive"


def test_a_sink_without_counts_is_judged_by_the_removed_windows() -> None:
    def app(removed: int) -> ApplicationFacts:
        state = ({"operator": "stateStoreSave", "rows": 5, "removed": removed},)
        plan = Plan(mode="append", delay_ms=4_000, window_ms=4_000)
        triggers = [
            w.trigger(
                n,
                500,
                watermark_us=start_us(n - 3),
                max_event_us=start_us(n),
                state=state,
            )
            for n in range(20)
        ]
        return w.application(queries=(w.query(triggers, plan=plan),))

    assert [f.cause for f in findings(app(0))] == ["no-output"]
    assert findings(app(2)) == [] and w.verdict(app(2)) == "healthy"


@pytest.mark.parametrize(
    ("sink", "written", "verdict"),
    [
        ("FileSink[s3a://bucket/orders]", 0, "inconclusive"),
        ("DeltaSink[s3a://bucket/orders]", 0, "inconclusive"),
        ("FileSink[s3a://bucket/orders]", 3, "healthy"),
        ("FileSink[s3a://bucket/orders]", None, "healthy"),
        ("ForeachBatchSink", 0, "healthy"),
    ],
)
def test_tasks_count_the_rows_in_files(sink: str, written: int | None, verdict: str) -> None:
    """Tasks count no rows of other sinks, such as those that `foreachBatch` sends to a service."""
    load = StageLoad(
        stage=4, name="start", tasks=2, total_ms=80, longest_ms=50, index=0, executor="1", host=None,
        slowest_records=30, records=60, written=written,
    )  # fmt: skip
    triggers = [w.trigger(n, 500, sink=sink, stage=load) for n in range(20)]
    assert w.verdict(w.application(queries=(w.query(triggers),))) == verdict


def test_idle_queries_and_written_rows_are_healthy() -> None:
    assert w.verdict(query(start_us, written=lambda n: int(n == 12))) == "healthy"
    assert w.verdict(query(start_us, written=lambda n: None)) == "healthy"
    assert w.verdict(query(lambda n: None, written=lambda n: 0, rows=0)) == "healthy"
