"""Rows become facts of `rate` without a JVM: user settings, jobs, tries, memory."""

from __future__ import annotations

import json
from typing import Any

import pytest

from flowdiag.analyses.rate.assemble import UserSettings, assemble
from flowdiag.analyses.rate.assemble.batches import batch_rows
from flowdiag.analyses.rate.facts import ApplicationFacts, QueryFacts, Work

from . import rate_workbench as w

Rows = list[tuple[str, str]]
T0 = 1_767_225_600_000


def row(what: str, **values: Any) -> tuple[str, str]:
    return what, json.dumps({"app": "a", **values})


def single(event: str, template: str | None = None, **values: Any) -> tuple[str, str]:
    known = {"source": 0, "offset": 0, "time_us": T0 * 1000, **values}
    return row("single", event=event, template=template, **known)


def progress(batch: int, run: str = "r", **values: Any) -> tuple[str, str]:
    fields = {"id": "q", "run_id": run, "rows": "5"}
    return single(
        "spark_progress",
        checkpoint=batch,
        duration_ms=900,
        fields=fields,
        **{"time_us": (T0 + 1000 * batch) * 1000, **values},
    )


def application(rows: Rows, **settings: Any) -> ApplicationFacts:
    (app,) = assemble(rows, user=UserSettings(**settings)).applications
    return app


def query(rows: Rows, **settings: Any) -> QueryFacts:
    (found,) = application(rows, **settings).queries
    return found


def test_user_settings_override_the_input() -> None:
    rows = [
        single("spark_settings", fields={"spark.streaming.concurrentJobs": "1"}),
        progress(0),
    ]
    app = application(rows, configuration={"spark.streaming.concurrentJobs": "3"})
    assert app.settings["spark.streaming.concurrentJobs"] == "3"
    assert not application([progress(0)]).settings_known
    assert application([progress(0)], configuration={"spark.x": "y"}).settings_known


def test_source_of_the_real_time_mode() -> None:
    by_user = query([progress(0)], real_time=True)
    assert (by_user.real_time, by_user.real_time_from) == (True, "option")
    unset = query([progress(0)])
    assert (unset.real_time, unset.real_time_from) == (None, None)
    log = [progress(0), single("spark_incident", "real-time-mode")]
    assert (query(log).real_time, query(log).real_time_from) == (True, "log")
    assert query(log, real_time=False).real_time is False
    option = {"spark.databricks.streaming.realTimeMode.enabled": "true"}
    settings = [progress(0), single("spark_settings", fields=option)]
    assert query(settings).real_time_from == "configuration"


def test_a_log_does_not_name_one_of_two_queries() -> None:
    other = progress(0)[1].replace('"q"', '"p"')
    rows = [progress(0), ("single", other), single("spark_incident", "real-time-mode")]
    assert {one.real_time for one in application(rows).queries} == {None}


def test_runs_that_begin_the_same_batch() -> None:
    work = [
        row("work", batch=None, run_id=run, batch_id="7", jobs=2, busy=None) for run in ("r", "s")
    ]
    rows = [progress(6), progress(7), progress(8, "s"), *work]
    found = query(rows)
    assert found.tries == {7: 2}
    assert [t.work for t in found.triggers] == [None, Work(jobs=2, busy_ms=None), None]


def test_evidence_of_progress_is_the_complete_report() -> None:
    begun = single(
        "spark_progress",
        "progress",
        checkpoint=0,
        duration_ms=900,
        fields={"id": "q", "run_id": "r"},
        offset=5,
    )
    (trigger,) = query([begun, progress(0, source=3, offset=9)]).triggers
    assert trigger.ref is not None and (trigger.ref.source, trigger.ref.offset) == (3, 9)


def test_blocks_memory_and_operations() -> None:
    rows = [
        progress(0),
        row("blocks", stream="1", blocks=9, bytes=900, first=T0, last=T0 + 3000),
        row("blocks", stream=None, blocks=9),
        row("memory", host="h", free=5000, bytes=800, first=T0, last=T0 + 2000),
        row("operation", output="0", name="save", batches=3, total=60),
        row("operation", output="x", batches=3),
    ]
    app = application(rows)
    (blocks,), (memory,), (operation,) = app.blocks, app.memory, app.operations
    assert (blocks.stream, blocks.bytes) == (1, 900)
    assert (memory.free_bytes, memory.bytes_per_s) == (5000, 400.0)
    assert (operation.output, operation.total_ms) == (0, 60)


def falling_behind(ends_ms: list[int], spent_ms: int = 9475) -> ApplicationFacts:
    rows = [
        {
            "app": "?log",
            "event": "spark_incident",
            "template": "falling-behind",
            "time_us": (1_795_240_800_000 + end) * 1000,
            "source": 0,
            "offset": 100 * number,
            "fields": {"interval_ms": "2000", "spent_ms": str(spent_ms)},
        }
        for number, end in enumerate(ends_ms)
    ]
    (app,) = assemble(("single", json.dumps(row)) for row in rows).applications
    return app


@pytest.mark.parametrize(
    ("more", "state"),
    [
        ({"origins": ["log"], "begun": True}, "processing"),
        ({"origins": ["log"], "begun": True, "failed_jobs": 1}, "completed"),
        ({"origins": []}, "completed"),
    ],
    ids=["open in the log", "failed", "event log alone"],
)
def test_jobs_that_ended_do_not_end_a_batch_that_the_log_shows_as_running(
    more: dict[str, Any], state: str
) -> None:
    times = [T0, T0 + 1000]
    rows = [
        row("batch", batch=time, job_start=time + 10, job_end=time + 400, **more) for time in times
    ]
    first, last = application(rows).batches
    assert (first.state, last.state) == ("completed", state)
    assert last.processing_ms == (390 if state == "completed" else None)


def test_warnings_about_late_triggers_contain_durations() -> None:
    """A log at WARN has no progress reports."""
    app = falling_behind([9475 * number for number in range(1, 13)])
    (query,) = app.queries
    assert (query.trigger_interval_ms, query.interval_from) == (2000, "log")
    assert [trigger.duration_ms for trigger in query.triggers] == [9475] * 12
    assert query.triggers[0].time_us == 1_795_240_800_000_000
    assert (w.verdict(app), w.cause(app)) == ("degraded", "overloaded")


@pytest.mark.parametrize("ends", [[9475], [9475, 3_600_000], [3_600_000 * n for n in range(1, 20)]])
def test_a_few_late_triggers_do_not_represent_the_others(ends: list[int]) -> None:
    app = falling_behind(ends)
    assert w.codes(app) == []
    assert w.verdict(app) != "healthy" or not app.queries


def test_the_input_of_the_estimators_shows_the_batches() -> None:
    traces = [
        {
            "template": template,
            "source": 0,
            "offset": offset,
            "fields": {"time": "21011", "elements": "8", "processing": "9811", "scheduling": delay},
        }
        for offset, (template, delay) in enumerate(
            [("pid-input", "200"), ("pid-input", "200"), ("pid-created", "1"), ("pid-input", "-1")]
        )
    ]
    (batch,) = batch_rows((), traces)
    names = ("batch", "submission", "start", "end", "processing", "scheduling", "completed")
    assert [batch[name] for name in names] == [11000, 11000, 11200, 21011, 9811, 200, True]
