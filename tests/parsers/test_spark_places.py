"""Application and place of Spark records: YARN's sections, failed tasks, blocks, partitions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from flowdiag.parsers.discover import discover
from flowdiag.parsers.spark.progress import progress_row
from flowdiag.parsers.split import parse_on_driver, plan_splits

YARN = """Container: container_1466086000000_0007_01_000001 on worker-1.example_45454
==========================================================================
LogType:stderr
Log Upload Time:Thu Jun 16 22:10:00 +0800 2016
LogLength:1000
Log Contents:
16/06/16 22:09:20 INFO JobScheduler: Added jobs for time 1466086160000 ms
16/06/16 22:09:21 WARN TaskSetManager: Lost task 1.0 in stage 3.0 (TID 12, worker-3.example, executor 2): {cause}
16/06/16 22:09:21 INFO BlockManagerInfo: Added input-1-1466086160800 in memory on worker-3.example:36129 (size: 65,9 KB, free: 2.4 GB)

End of LogType:stderr

Container: container_e3_1466086000000_0008_02_000004 on worker-2.example_45454
====
LogType:stderr
Log Contents:
16/06/16 22:09:22 ERROR Executor: Exception in task 0.0 in stage 3.0 (TID 11)
{cause}
\tat org.apache.spark.rdd.BlockRDD.compute(BlockRDD.scala:51)

End of LogType:stderr
"""
CAUSE = (
    "java.lang.Exception: Could not compute split, block input-1-1466086160800 of RDD 9 not found"
)


def rows_of(text: str, tmp_path: Path) -> list[dict[str, Any]]:
    (tmp_path / "logs.txt").write_text(text)
    (source,) = discover([str(tmp_path)]).sources
    rows: list[dict[str, Any]] = parse_on_driver(plan_splits([source])).to_pylist()
    return [{**row, "fields": dict(row["fields"] or ())} for row in rows]


def test_containers_name_their_application(tmp_path: Path) -> None:
    rows = rows_of(YARN.format(cause=CAUSE), tmp_path)
    named = [row["application"] for row in rows if row["event"] == "section" and row["process"]]
    assert named == ["application_1466086000000_0007", "application_1466086000000_0008/2"]


def test_failed_tasks_have_place_and_cause(tmp_path: Path) -> None:
    rows = rows_of(YARN.format(cause=CAUSE), tmp_path)
    lost, thrown = [row for row in rows if row["event"] == "spark_incident"]
    assert (lost["template"], thrown["template"]) == ("task-lost", "task-exception")
    assert (lost["host"], lost["fields"]["executor"]) == ("worker-3.example", "2")
    assert "input-1-1466086160800" in lost["cause"] and "input-1-1466086160800" in thrown["cause"]


def test_the_python_error_is_the_cause_of_a_failed_task(tmp_path: Path) -> None:
    text = (
        "26/11/20 14:02:11 WARN TaskSetManager: Lost task 3.0 in stage 7.0 (TID 99) (10.2.3.7 executor 4): "
        "org.apache.spark.api.python.PythonException: Traceback (most recent call last):\n"
        '  File "/opt/app/job.py", line 12, in parse\n'
        '    return json.loads(s)["amount"]\n'
        "KeyError: 'amount'\n\n"
        "\tat org.apache.spark.api.python.BasePythonRunner.handlePythonException(PythonRunner.scala:572)\n"
        "26/11/20 14:02:12 ERROR TaskSetManager: Task 3 in stage 7.0 failed 4 times; aborting job\n"
    )
    lost, given_up = [r for r in rows_of(text, tmp_path) if r["event"] == "spark_incident"]
    assert (lost["template"], lost["cause"]) == ("task-lost", "KeyError: 'amount'")
    assert (given_up["template"], given_up["fields"]["times"]) == ("job-given-up", "4")


def test_blocks_have_sizes_in_bytes(tmp_path: Path) -> None:
    (block,) = [
        r for r in rows_of(YARN.format(cause=CAUSE), tmp_path) if r["event"] == "spark_block"
    ]
    assert block["bytes"] == round(65.9 * 1024)
    assert block["fields"]["free"] == str(round(2.4 * 1024**3))
    assert (block["fields"]["stream"], block["host"]) == ("1", "worker-3.example")


def report(**source: Any) -> dict[str, Any]:
    return {
        "id": "q",
        "runId": "r",
        "timestamp": "2026-01-01T00:00:00.000Z",
        "durationMs": {"triggerExecution": 5},
        "sources": [{"description": "KafkaV2[Subscribe[t]]", "numInputRows": 3, **source}],
    }


def only(**source: Any) -> dict[str, Any]:
    row = progress_row(report(**source))
    assert row is not None
    (parsed,) = json.loads(row["fields"]["sources"])
    assert isinstance(parsed, dict)
    return parsed


@pytest.mark.parametrize("as_text", [True, False])
def test_backlog_by_partition_in_both_shapes(as_text: bool) -> None:
    end = {"t": {"0": 5, "1": 9}, "u": {"0": 1}}
    latest = {"t": {"0": 15, "1": 9}, "u": {"0": 4}}
    source = only(
        endOffset=json.dumps(end) if as_text else end,
        latestOffset=json.dumps(latest) if as_text else latest,
    )
    assert source["backlog"] == 13 and source["partition_count"] == 3
    assert source["partitions"] == {"t-0": 10, "u-0": 3, "t-1": 0}


def test_kafka_metrics_without_latest_offsets() -> None:
    metrics = {"avgOffsetsBehindLatest": "2.5", "maxOffsetsBehindLatest": "4"}
    source = only(endOffset='{"t":{"0":5,"1":9}}', metrics=metrics)
    assert (source["backlog"], source["partitions"]) == (5, {})


def test_the_worst_partitions_of_large_topics_are_kept() -> None:
    end = {"t": {str(n): 0 for n in range(300)}}
    latest = {"t": {str(n): n for n in range(300)}}
    source = only(endOffset=end, latestOffset=latest)
    assert len(source["partitions"]) == 16 and source["partitions"]["t-299"] == 299
    assert (source["partition_count"], source["backlog"]) == (300, sum(range(300)))
