"""Tests the end of an application: its effects are not reported as causes, and a batch without an end is reported."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from flowdiag.analyses.rate.facts import ApplicationFacts, OpenTask, OpenTrigger, Work

from . import rate_workbench as w

PEER_GONE = "py4j.Py4JException: Error while sending a command.\nCaused by: py4j.Py4JException: Received empty command"
NO_SCHEDULER = (
    'java.lang.NullPointerException: Cannot invoke "org.apache.spark.scheduler.DAGScheduler.cleanupQueryJobs(long)"'
    ' because the return value of "org.apache.spark.SparkContext.dagScheduler()" is null'
)
END = 60_000
HEALTHY = [w.trigger(n, 900, rows=50) for n in range(30)]


def ended(cause: str, at: int) -> Any:
    return w.record(kind="spark_query", at=at, cause=cause, what="terminated", id="q", run_id="r")


def stopping(*triggers: Any, **values: Any) -> ApplicationFacts:
    """Return an application with a query, which stops at `END`."""
    events = values.pop("events", ())
    unfinished = values.pop("unfinished", None)
    query = w.query(triggers or HEALTHY, events=events, unfinished=unfinished)
    app = w.application(
        queries=(query,),
        incidents=(w.record("stop-by-hook", at=END), *values.pop("incidents", ())),
        last_us=(w.T0 + END + 1_000) * 1000,
        **values,
    )
    return replace(app, ended_us=(w.T0 + END) * 1000)


@pytest.mark.parametrize(
    ("cause", "after"),
    [
        (PEER_GONE, -5_000),
        (PEER_GONE, -1),
        ("java.lang.InterruptedException", 0),
        (NO_SCHEDULER, 3),
    ],
)
def test_the_effects_of_a_stop_are_no_findings(cause: str, after: int) -> None:
    assert w.codes(stopping(events=(ended(cause, END + after),))) == []


def test_a_failure_right_before_a_stop_is_its_reason() -> None:
    app = stopping(events=(ended("ValueError: no number", END - 200),))
    assert (w.verdict(app), w.cause(app)) == ("failing", "failing-batches")


def test_a_lost_peer_long_before_a_stop_is_a_failure() -> None:
    early = [w.trigger(n, 900, rows=50) for n in range(10)]
    assert w.codes(stopping(*early, events=(ended(PEER_GONE, 22_000),))) == ["RT103"]


def test_without_a_stop_the_end_of_the_log_counts() -> None:
    query = w.query(HEALTHY, events=(ended(PEER_GONE, END),))
    app = w.application(queries=(query,), last_us=(w.T0 + END) * 1000)
    assert w.codes(app) == []
    assert w.codes(replace(app, last_us=(w.T0 + 10 * END) * 1000)) == ["RT103"]


@pytest.mark.parametrize("reason", [PEER_GONE, "Cannot call methods on a stopped SparkContext"])
def test_the_last_batch_of_a_stopped_application_does_not_count_as_failed(reason: str) -> None:
    done = [w.batch(n, interval=2000) for n in range(30)]
    cut = replace(done[-1], failed_outputs=1, reason=reason)
    app = w.application([*done[:-1], cut], interval_ms=2000)
    app = replace(app, ended_us=((cut.end_ms or 0) + 300) * 1000)
    assert w.codes(app) == []
    assert w.codes(replace(app, batches=(replace(cut, reason="ValueError"), *done))) == ["RT103"]


# -- batches without an end --------------------------------------------------------------------


def unfinished(ms: int, **values: Any) -> OpenTrigger:
    """Return a trigger that has been running for `ms` when the application stops."""
    since = (w.T0 + END - ms) * 1000
    return OpenTrigger(batch=30, since_us=since, until_us=(w.T0 + END + 1_000) * 1000, **values)


TASK = OpenTask(
    task_id="61", stage=9, index=1, stage_name="foreachPartition at job.py:20", executor="2",
    host="worker-2", ended=3, longest_ms=120,
)  # fmt: skip


def finding_of(app: ApplicationFacts) -> Any:
    outcomes = [outcome for outcome in w.outcomes(app) if outcome.findings]
    (finding,) = next(outcome for outcome in outcomes if outcome.code == "RT104").findings
    return finding


def test_a_task_without_an_end_is_named_with_its_siblings() -> None:
    app = stopping(*HEALTHY[:15], unfinished=unfinished(29_000, tasks=(TASK,)))
    finding = finding_of(app)
    assert (w.verdict(app), w.cause(app)) == ("failing", "hanging-batch")
    assert (finding.subject.executor, finding.subject.stage) == ("2", 9)
    assert (finding.subject.subtask_index, finding.subject.query) == (1, "orders")
    assert "running for 29 s" in finding.title and "3 of its stage ended" in finding.title


@pytest.mark.parametrize(
    ("work", "text"),
    [
        (Work(jobs=1, busy_ms=40), "the driver waits in the sink"),
        (Work(jobs=1, busy_ms=None), "no running task"),
        (None, "the longest earlier batch took 900 ms"),
    ],
)
def test_without_an_open_task_the_jobs_tell_where_it_waits(work: Work | None, text: str) -> None:
    app = stopping(*HEALTHY[:15], unfinished=unfinished(29_000, work=work))
    assert text in finding_of(app).title


@pytest.mark.parametrize(("ms", "code"), [(400, []), (15_000, []), (29_000, ["RT104"])])
def test_a_stop_in_the_middle_of_a_batch_is_ordinary(ms: int, code: list[str]) -> None:
    assert w.codes(stopping(*HEALTHY[:15], unfinished=unfinished(ms))) == code


def test_a_first_batch_may_take_minutes() -> None:
    slow = [w.trigger(n, 15_000, rows=50, interval=15_000) for n in range(3)]
    app = stopping(*slow, unfinished=unfinished(29_000))
    assert "RT104" not in w.codes(app)
