"""Tests, without a JVM, how flowdiag finds the line of code that slows down Spark batches."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from flowdiag.analyses.model.finding import Finding
from flowdiag.analyses.model.keys import Ref
from flowdiag.analyses.rate.facts import ApplicationFacts, Plan, SparkThread
from flowdiag.analyses.stacks import Stack

from . import rate_workbench as w

LINE = "com.shop.Prices$.ask(Prices.scala:31)"


def threads(
    role: str, kinds: Iterable[str], frame: str | None = LINE, **more: Any
) -> list[SparkThread]:
    """Return one thread per dump, with these kinds of activities."""
    known = {"external": "socket", "sleep": "sleep", "python": "python-worker", "job": "spark-job"}
    known |= {"python-driver": "python-gateway", "idle": "spark-trigger", "lock": "monitor"}
    name = {"query": "stream execution thread for orders", "batch": "streaming-job-executor-0"}
    return [
        SparkThread(
            role=role,
            run="r" if role == "query" else None,
            stack=Stack(
                dump=str(number),
                thread=name.get(role, "Executor task launch worker"),
                activity=known[kind],
                kind=kind,
                frame=None if kind in ("job", "idle", "python", "python-driver") else frame,
                time_us=w.T0 * 1000 + number,
                ref=Ref(0, number),
                **more,
            ),
        )
        for number, kind in enumerate(kinds)
    ]


def query_of(found: list[SparkThread], *, lasts: int = 5000, **plan: Any) -> ApplicationFacts:
    triggers = [w.trigger(n, lasts, time_us=(w.T0 + 5000 * n) * 1000) for n in range(30)]
    return w.application(queries=(w.query(triggers, plan=Plan(**plan)),), threads=tuple(found))


def code_of(app: ApplicationFacts) -> Finding | None:
    found = [f for outcome in w.outcomes(app) for f in outcome.findings if outcome.code == "RT315"]
    return found[0] if found else None


@pytest.mark.parametrize(
    ("own", "tasks", "cause", "frame"),
    [
        (["job"] * 3, ["external"] * 6, "slow-external-call", LINE),
        (["job"] * 3, ["python"] * 6, "slow-python-code", None),
        (["sleep"] * 3, ["idle"] * 6, "sleeping-in-operator", LINE),
        (["python-driver", "job", "python-driver"], ["external"], "driver-gaps", None),
        (["job", "idle", "job"], ["lock", "sleep", "sleep"], "sleeping-in-operator", LINE),
    ],
)
def test_the_threads_of_a_slow_query_name_the_cause(
    own: list[str], tasks: list[str], cause: str, frame: str | None
) -> None:
    found = code_of(query_of([*threads("query", own), *threads("task", tasks)]))
    assert found is not None and found.cause == cause
    assert found.subject.query == "orders" and found.actions
    assert frame is None or frame in found.title


def test_python_functions_of_the_plan_are_named() -> None:
    found = code_of(query_of(threads("task", ["python"] * 3), functions=("ask_service",)))
    assert found is not None and "ask_service" in found.title and found.confidence == "medium"


def test_a_single_dump_has_low_confidence() -> None:
    found = code_of(query_of(threads("task", ["external"])))
    assert found is not None and found.confidence == "low"


def test_spark_internal_threads_name_no_cause() -> None:
    app = query_of(threads("task", ["external"] * 3, frame=None))
    assert code_of(app) is None


def test_a_database_that_spark_waits_for_is_the_culprit() -> None:
    app = query_of(threads("task", ["external"] * 3, frame=None, component="postgresql"))
    found = code_of(app)
    assert found is not None and found.cause == "slow-database"
    assert (found.subject.kind, found.subject.service) == ("service", "PostgreSQL")
    assert found.subject.query == "orders" and "pg_stat_statements" in found.actions[0].text


def test_threads_of_a_healthy_query_give_no_finding() -> None:
    assert code_of(query_of(threads("task", ["external"] * 6), lasts=300)) is None


def test_batches_of_dstreams_are_judged_as_well() -> None:
    slow = [w.batch(n, processing_ms=1500, scheduling_ms=500 * n) for n in range(1, 25)]
    app = w.application(slow, threads=tuple(threads("batch", ["sleep"] * 3)))
    found = code_of(app)
    assert found is not None and found.cause == "sleeping-in-operator"
    assert found.title.startswith("The driver sleeps in com.shop.Prices")


def test_py_spy_names_the_line_of_python_code() -> None:
    python = threads("python-task", ["python"] * 3)
    worker = [replace(t, stack=replace(t.stack, frame="ask (prices.py:7)")) for t in python]
    found = code_of(query_of([*threads("task", ["python"] * 3), *worker]))
    assert found is not None and found.cause == "slow-python-code"
    assert "ask (prices.py:7)" in found.title


OFFSETS = (
    "org.apache.kafka.common.internals.KafkaFutureImpl.get(KafkaFutureImpl.java:165)",
    "org.apache.spark.sql.kafka010.KafkaOffsetReaderAdmin.fetchLatestOffsets(K.scala:297)",
)


@pytest.mark.parametrize(
    ("path", "samples", "silent_ms", "cause"),
    [
        (OFFSETS, 3, 80_000, "kafka-timeout"),
        (("com.acme.Files.latestOffset(Files.java:7)",), 3, 80_000, "hanging-batch"),
        (OFFSETS, 1, 80_000, None),
        (OFFSETS, 3, 10_000, None),
        (("java.lang.Thread.sleep(Native Method)",), 3, 80_000, None),  # no new rows
    ],
)
def test_a_query_that_waits_for_offsets(
    path: tuple[str, ...], samples: int, silent_ms: int, cause: str | None
) -> None:
    found = threads("query", ["sleep"] * samples, None, path=path)
    end_us = (w.T0 + 5000 * 29 + 700 + silent_ms) * 1000
    triggers = [w.trigger(n, 700, time_us=(w.T0 + 5000 * n) * 1000) for n in range(30)]
    query = w.query(triggers, trigger_interval_ms=5000, run_end_us=end_us)
    app = w.application(queries=(query,), threads=tuple(found))
    assert [f.cause for o in w.outcomes(app) for f in o.findings] == ([cause] if cause else [])
