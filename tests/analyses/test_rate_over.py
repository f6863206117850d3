"""Recoveries, gaps, stops and missing cores, judged without a JVM."""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate
from typing import Any

import pytest

from flowdiag.analyses.model.finding import Finding, Severity, State
from flowdiag.analyses.rate.assessment import StreamState, late_triggers, late_window
from flowdiag.analyses.rate.facts import (
    ApplicationFacts,
    Batch,
    Executor,
    RateFacts,
    StageLoad,
    Trigger,
)
from flowdiag.analyses.rate.stability import Stability
from flowdiag.analyses.rate.topic import RATE, gap_notes
from flowdiag.analyses.selection.options import Options
from flowdiag.parsers.notes import Kind

from . import rate_workbench as w

DAY = 86_400  # intervals of a second


def found(app: ApplicationFacts, code: str) -> list[Finding]:
    return [x for o in w.outcomes(app) if o.code == code for x in o.findings]


def state_of(app: ApplicationFacts) -> StreamState:
    (one,) = w.assessed(app).applications
    return one.state if one.state is not None else one.queries[0][1]


def drained_overload(
    before: int, *, late: int = 30, after: int = 30, took: int = 2000
) -> list[Batch]:
    """Return batches on time, then batches of two intervals, then short ones that catch up."""
    batches, free = [], 0
    for n in range(before + late + after + late):
        lasts = took if before <= n < before + late else 100
        ready = 1000 * n + 3
        start = max(ready, free)
        free = start + lasts
        batches.append(w.batch(n, scheduling_ms=start - ready, processing_ms=lasts))
    return batches


# -- what is over --------------------------------------------------------------------------------


def test_a_drained_overload_is_recovered_and_names_its_worst_delay() -> None:
    app = w.application(drained_overload(20))
    assert w.cause(app) == "overloaded" and state_of(app).stability is Stability.STABLE
    (finding,) = found(app, "RT101")
    assert (finding.state, finding.severity) == (State.RECOVERED, Severity.WARNING)
    (worst,) = [m.value for m in finding.measurements if m.name == "worst-delay"]
    waits = [(b.waited_ms or 0) / 1000 for b in app.batches]
    assert worst == pytest.approx(max(waits), abs=0.1) and max(waits) > 25


def test_the_start_of_back_pressure_is_not_a_problem() -> None:
    started = w.application(drained_overload(4), settings=w.BACK_PRESSURE)
    (finding,) = found(started, "RT101")
    assert (finding.severity, finding.cause) == (Severity.INFO, None)
    assert w.verdict(started) == "healthy"
    # Without back pressure, or long after the start, it was an overload.
    assert w.cause(w.application(drained_overload(4))) == "overloaded"
    assert w.cause(w.application(drained_overload(20), settings=w.BACK_PRESSURE)) == "overloaded"


@pytest.mark.parametrize(
    ("before", "late", "after", "recovered"),
    [
        (8, 3, 8, True),
        (8, 2, 8, False),  # 9.6 intervals
        (2, 3, 8, False),  # a slow start
        (8, 3, 2, False),  # perhaps not over
        (8, 8, 2, False),
    ],
)
def test_triggers_that_overran_for_a_while_are_recovered(
    before: int, late: int, after: int, recovered: bool
) -> None:
    lasted = [600] * before + [9600] * late + [600] * after
    starts = [*accumulate((max(ms, 2000) for ms in lasted), initial=w.T0)]
    triggers = [
        w.trigger(n, ms, time_us=start * 1000)
        for n, (ms, start) in enumerate(zip(lasted, starts, strict=False))
    ]
    app = w.application(queries=(w.query(triggers),))
    past = [f for f in found(app, "RT101") if f.state is State.RECOVERED]
    assert bool(past) == recovered
    for finding in past:
        assert (finding.cause, finding.count, finding.severity) == (
            "overloaded",
            late,
            Severity.WARNING,
        )
        assert finding.why == "a trigger took up to 9.6 s for 100 rows, and 600 ms before"
        assert w.verdict(app) == "degraded"


@pytest.mark.parametrize(("late", "recovered"), [(3, True), (2, False)])
def test_an_overload_that_ended_is_recovered_in_a_log_at_warn(late: int, recovered: bool) -> None:
    series = tuple(replace(w.trigger(n, 9600), rows=None) for n in range(late))
    app = w.application(queries=(w.query([], runs=("",), ended_overload=series),))
    past = found(app, "RT101")
    assert bool(past) == recovered
    for finding in past:
        assert (finding.state, finding.cause, finding.count) == (State.RECOVERED, "overloaded", 3)
        assert finding.why == "a trigger took up to 9.6 s, and no later trigger is late"
        assert w.verdict(app) == "degraded"


def test_a_query_that_works_after_a_failure_is_recovered() -> None:
    before = [w.trigger(n, 2500, run_id="a") for n in range(5)]
    # Restarted on a busy host: slightly too long, but not longer each time.
    after = [w.trigger(n, ms, run_id="b") for n, ms in enumerate((3900, 2500, 2300, 2400, 2200), 6)]
    ended = w.record(
        kind="spark_query", at=11_000, what="terminated", run_id="a", cause="ValueError: order 7"
    )
    app = w.application(queries=(w.query([*before, *after], events=(ended,)),))
    (failed,) = found(app, "RT103")
    assert failed.state is State.RECOVERED and w.cause(app) == failed.cause == "failing-batches"
    assert found(app, "RT101") == [] and state_of(app).stability is Stability.INCONCLUSIVE


def test_lengthening_triggers_are_not_a_start() -> None:
    after = [w.trigger(n, 2100 + 100 * n, run_id="b") for n in range(8)]
    app = w.application(queries=(w.query(after),))
    assert state_of(app).stability is Stability.OVERLOADED and w.codes(app) == ["RT101"]


# -- holes ---------------------------------------------------------------------------------------


def test_a_gap_between_batches_is_not_a_growing_delay() -> None:
    """Six batches before the gap are on time, and eight after it are three intervals late."""
    before = [w.batch(n) for n in range(6)]
    after = [w.batch(DAY + n, scheduling_ms=3000) for n in range(8)]
    app = w.application([*before, *after])
    assert late_window(app.completed) == tuple(app.batches[6:])
    assert state_of(app).stability is not Stability.OVERLOADED
    # Without the gap, the delay grows.
    whole = w.application([*before, *(w.batch(6 + n, scheduling_ms=3000) for n in range(8))])
    assert late_window(whole.completed)[0].time_ms == whole.batches[2].time_ms


def test_batches_before_a_gap_do_not_wait_through_it() -> None:
    before = [w.batch(n) for n in range(10)] + [w.batch(n, state="queued") for n in (10, 11, 12)]
    after = [w.batch(DAY + n) for n in range(1)]
    app = w.application([*before, *after])
    state = state_of(app)
    assert state.stability is Stability.INCONCLUSIVE and "since the last gap" in state.because
    assert state.queued == 0 and w.verdict(app) != "failing"


def test_a_batch_that_ends_after_the_gap_bridges_it() -> None:
    """In a log that begins late, processed batches are an hour older than added batches."""
    old = [w.batch(n, scheduling_ms=3_600_000) for n in range(10)]
    new = [w.batch(3600 + n, state="queued") for n in range(10)]
    app = w.application([*old, *new])
    assert state_of(app).queued == 10
    assert state_of(app).stability is Stability.OVERLOADED


def test_a_gap_between_triggers_is_not_a_growing_backlog() -> None:
    def behind(first: int, backlog: int) -> list[Trigger]:
        sources = ({"backlog": backlog},)
        return [w.trigger(first + n, 500, sources=sources) for n in range(8)]

    app = w.application(queries=(w.query([*behind(0, 10), *behind(DAY, 900)]),))
    (query,) = app.queries
    assert late_triggers(query.triggers)[0].time_us > query.triggers[8].time_us - 1
    assert found(app, "RT101") == []


# -- the end is not the fault --------------------------------------------------------------------

LOST = Executor(executor="0", host="h", reason="Command exited with code 50", removed_us=0)


def test_an_executor_removed_during_a_stop_is_not_lost() -> None:
    batches = [w.batch(n) for n in range(20)]
    lost = replace(LOST, removed_us=(w.T0 + 22_000) * 1000)
    cut = w.application(batches, executors=(lost,))
    assert found(cut, "RT304") != []
    stops = (
        "stop-receivers",
        "stop-generator",
        "stop-log-writer",
        "stop-context",
        "stop-executors",
    )
    for template in stops:
        stopping = w.application(
            batches, executors=(lost,), incidents=(w.record(template, at=21_000),)
        )
        assert found(stopping, "RT304") == []


def test_a_context_stopped_before_another_began_is_not_the_end() -> None:
    batches = [w.batch(n) for n in range(60)]
    app = w.application(batches, incidents=(w.record("stop-receivers", at=10_000),))
    assert w.assessed(app).applications[0].app.stopped_us is None
    lost = replace(LOST, removed_us=(w.T0 + 40_000) * 1000)
    assert found(replace(app, executors=(lost,)), "RT304") != []


# -- cores ---------------------------------------------------------------------------------------


def without_free_cores(*, streams: int, cores: int, ended: int = 2) -> ApplicationFacts:
    batches: list[Any] = [w.batch(n) for n in range(ended)]
    batches += [w.batch(n, state="queued") for n in range(ended, ended + 20)]
    receivers = [
        w.record(kind="spark_receiver", at=n, what="started", stream=str(n)) for n in range(streams)
    ]
    executor = Executor(executor="0", host="h", cores=cores)
    return w.application(batches, receivers=tuple(receivers), executors=(executor,))


def test_receivers_hold_every_core() -> None:
    (finding,) = found(without_free_cores(streams=2, cores=2), "RT313")
    assert finding.severity is Severity.CRITICAL and "2 receivers occupy" in finding.title
    assert w.cause(without_free_cores(streams=2, cores=2)) == "no-core-left"
    assert found(without_free_cores(streams=1, cores=2), "RT313") == []
    # Batches run, so the input does not contain all executors.
    assert found(without_free_cores(streams=2, cores=2, ended=9), "RT313") == []


def test_jobs_that_no_executor_accepts() -> None:
    refused = tuple(w.record("no-resources", at=15_000 * n) for n in range(1, 5))
    settings = {"spark.executor.cores": "8", "spark.executor.memory": "64g"}
    (finding,) = found(w.application(incidents=refused, settings=settings), "RT313")
    assert "8 cores and 64g of memory" in finding.title and finding.cause == "no-core-left"
    # Executors were added: a slow start.
    slow = w.application([w.batch(n) for n in range(80)], incidents=refused)
    (remark,) = found(slow, "RT313")
    assert (remark.severity, remark.state) == (Severity.INFO, State.RECOVERED)
    assert w.verdict(slow) == "healthy"


# -- what tasks cost -----------------------------------------------------------------------------


def with_tasks(tasks: int, rows: int, *, longest_ms: int = 300) -> ApplicationFacts:
    stage = StageLoad(
        stage=1,
        name=None,
        tasks=tasks,
        total_ms=40_000,
        longest_ms=longest_ms,
        index=0,
        executor="1",
        host="h",
        slowest_records=0,
        records=rows,
    )
    triggers = [
        w.trigger(n, 10_000, rows=rows, stage=stage, time_us=(w.T0 + n * 10_010) * 1000)
        for n in range(14)
    ]
    return w.application(
        queries=(w.query(triggers),), executors=(Executor(executor="1", host="h", cores=4),)
    )


def test_many_tasks_for_few_rows() -> None:
    app = with_tasks(200, 20)
    (finding,) = found(app, "RT312")
    assert "200 tasks for 20 records" in finding.title and w.cause(app) == "fixed-cost"
    assert found(with_tasks(200, 5000), "RT312") == []
    assert found(with_tasks(12, 2), "RT312") == []
    assert found(with_tasks(200, 20, longest_ms=8000), "RT312") == []


def test_few_tasks_are_the_cause_only_with_enough_records() -> None:
    (finding,) = found(with_tasks(1, 1, longest_ms=9000), "RT306")
    assert finding.cause is None
    (finding,) = found(with_tasks(1, 4000, longest_ms=9000), "RT306")
    assert finding.cause == "few-tasks"


@pytest.mark.parametrize(
    ("total_ms", "partitions", "cause"),
    [
        (9_600, 2, None),  # two tasks are enough
        (14_000, 2, "few-tasks"),
        (14_000, 0, None),  # the source does not report partitions
        (19_000, 2, None),  # four cores are too few, too
    ],
)
def test_few_tasks_are_the_cause_if_all_cores_would_keep_up(
    total_ms: int, partitions: int, cause: str | None
) -> None:
    stage = StageLoad(
        stage=1,
        name=None,
        tasks=2,
        total_ms=total_ms,
        longest_ms=total_ms // 2,
        index=0,
        executor="driver",
        host=None,
        slowest_records=100,
        records=200,
    )
    triggers = [
        w.trigger(
            n,
            9000,
            time_us=(w.T0 + 9000 * n) * 1000,
            rows=200,
            input_per_s=40,
            stage=stage,
            sources=({"name": "KafkaV2[Subscribe[orders]]", "partition_count": partitions},),
        )
        for n in range(20)
    ]
    app = w.application(
        queries=(w.query(triggers, trigger_interval_ms=5000),),
        settings={"spark.master": "local[4]"},
    )
    (finding,) = found(app, "RT306")
    assert finding.cause == cause


def test_a_gap_is_reported_if_the_input_contains_every_batch() -> None:
    batches = [*(w.batch(n) for n in range(20)), *(w.batch(n) for n in range(3620, 3640))]
    app = replace(w.application(batches), origins=frozenset({"listener"}), name="orders")
    (note,) = gap_notes(app)
    assert note.kind is Kind.GAP and "no batch of orders from" in note.text
    assert "(1 h)" in note.text
    facts = RateFacts(applications=(app, replace(app, origins=frozenset({"event-log"}))))
    assert list(RATE.notes(facts, facts, Options())) == [note]
    assert list(gap_notes(replace(app, batches=tuple(batches[:20])))) == []
