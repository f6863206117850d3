"""Responses of a running driver about a batch that does not end and a query that an exception terminated."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from flowdiag.analyses.contract.report import Report
from flowdiag.analyses.diagnosis import diagnose
from flowdiag.analyses.selection.options import Options
from flowdiag.analyses.topics import topic
from flowdiag.parsers.discover import discover

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
T0 = 1_795_689_100_000
RUN = "e0119127-6d52-4860-95e0-26fbbb886a38"
APPLICATION = "/api/v1/applications/local-1795689073426"
DESCRIPTION = f"deliver<br/>id = 3f08900d<br/>runId = {RUN}<br/>batch = 8"


def _iso(seconds: float) -> str:
    from datetime import UTC, datetime

    moment = datetime.fromtimestamp(T0 / 1000 + seconds, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "GMT")


def _progress(number: int, name: str = "deliver", run: str = RUN) -> dict[str, Any]:
    return {
        "id": f"id-{name}",
        "runId": run,
        "name": name,
        "batchId": number,
        "timestamp": _iso(4 * number).replace("GMT", "Z"),
        "batchDuration": 900,
        "durationMs": {"triggerExecution": 900, "addBatch": 700},
        "numInputRows": 80,
        "sources": [],
    }


def _write(folder: Path, second: int, *answers: tuple[str, Any]) -> None:
    at = T0 + 1000 * second
    document = {
        "schema": "flowdiag.collected/1",
        "kind": "spark",
        "time_ms": at,
        "answers": [
            {"path": APPLICATION + path, "time_ms": at, "body": body} for path, body in answers
        ],
    }
    (folder / f"tick-{second:06}.json").write_text(json.dumps(document))


def _report(folder: Path, spark: SparkSession) -> Report:
    sources = discover([str(folder)])
    return diagnose((topic("rate"),), sources, lambda: spark, Options(everything=True))


def _running(begun: int, task: bool = True) -> list[tuple[str, Any]]:
    """Return the answers about a job with one running task, which began at a second."""
    job = {"jobId": 9, "status": "RUNNING", "stageIds": [12], "jobGroup": RUN, "name": "start"}
    times = {"submissionTime": _iso(begun), "launchTime": _iso(begun)}
    running = {"taskId": 40, "index": 1, "status": "RUNNING", "executorId": "2", "host": "worker-1"}
    tasks = ("/stages/12/0/taskList", [running | times])
    return [("/jobs", [job | times | {"description": DESCRIPTION}]), *([tasks] if task else [])]


def test_a_task_that_runs_in_every_answer_is_a_hanging_batch(
    spark: SparkSession, tmp_path: Path
) -> None:
    _write(tmp_path, 30, ("/StreamingQuery/x", [_progress(n) for n in range(8)]), *_running(32))
    for second in (40, 50, 60, 70):
        _write(tmp_path, second, *_running(32))
    report = _report(tmp_path, spark)
    assert (report.summary.verdict, report.summary.cause) == ("failing", "hanging-batch")
    subject = report.summary.culprits[0].subject
    assert (subject.query, subject.executor, subject.subtask_index) == ("deliver", "2", 1)


def test_a_job_that_is_no_longer_listed_has_ended(spark: SparkSession, tmp_path: Path) -> None:
    _write(tmp_path, 30, ("/StreamingQuery/x", [_progress(n) for n in range(8)]), *_running(32))
    _write(tmp_path, 40, ("/jobs", []))
    later = [_progress(n) for n in range(8, 15)]
    _write(tmp_path, 70, ("/StreamingQuery/x", later), ("/jobs", []))
    assert _report(tmp_path, spark).summary.verdict == "healthy"


def test_a_query_that_ended_with_an_exception_is_named(spark: SparkSession, tmp_path: Path) -> None:
    other = RUN.replace("e0119127", "77777777")
    failed = {
        "name": "settle",
        "id": "id-settle",
        "runId": other,
        "status": "FAILED",
        "exception": "py4j.Py4JException: An exception was raised by the Python Proxy. Return Message: "
        'Traceback (most recent call last):\n  File "/opt/app/settle.py", line 9, in settle\n'
        "    total * rate['USD']\nKeyError: 'USD'\n",
    }
    for second in (30, 70):
        _write(
            tmp_path,
            second,
            ("/StreamingQuery/x", [_progress(n) for n in range(second // 4)]),
            ("/StreamingQuery/y", [_progress(n, "settle", other) for n in range(6)]),
            *([("/StreamingQuery/y/ended", [failed])] if second == 30 else []),
        )
    report = _report(tmp_path, spark)
    (finding,) = report.findings
    assert (report.summary.verdict, finding.subject.query) == ("failing", "settle")
    assert "the application continues without it: KeyError: 'USD'" in finding.title
    assert "settle(settle.py:9)" in finding.actions[0].text
