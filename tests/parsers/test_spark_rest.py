"""Saved responses of Spark's REST API."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from flowdiag.parsers.discover import discover
from flowdiag.parsers.spark.rest import (
    answer_rows,
    application_in,
    application_of_container,
    recognize_response,
)
from flowdiag.parsers.split import parse_on_driver, plan_splits

BATCH = {
    "batchId": 1466086160000,
    "batchTime": "2016-06-16T14:09:20.000GMT",
    "status": "COMPLETED",
    "batchDuration": 1000,
    "inputSize": 7,
    "schedulingDelay": 3,
    "processingTime": 120,
    "totalDelay": 123,
    "numFailedOutputOps": 1,
    "numTotalOutputOps": 2,
    "firstFailureReason": "no",
}


def test_batches() -> None:
    (row,) = answer_rows(json.dumps([BATCH]).encode(), "x/app-20260101120000-0003_batches.json")
    assert row["application"] == "app-20260101120000-0003"
    assert (row["epoch_ms"], row["duration_ms"], row["cause"]) == (1466086160000, 120, "no")
    assert row["fields"]["records"] == "7" and row["fields"]["interval_ms"] == "1000"


def test_receiver_rates_are_unchanged() -> None:
    answer = [
        {
            "streamId": 1,
            "streamName": "SocketReceiver-1",
            "isActive": True,
            "eventRates": [[1000, 12.5]],
        }
    ]
    (row,) = answer_rows(json.dumps(answer).encode(), "receivers.json")
    assert json.loads(row["fields"]["rates"]) == [[1000, 12.5]]


def test_operations_belong_to_the_batch_in_the_name() -> None:
    answer = json.dumps([{"outputOpId": 2, "duration": 4, "failureReason": "bad"}]).encode()
    (row,) = answer_rows(answer, "batches_1466086160000_operations.json")
    assert (row["epoch_ms"], row["fields"]["output"], row["cause"]) == (1466086160000, "2", "bad")
    assert list(answer_rows(answer, "operations.json")) == []


@pytest.mark.parametrize(
    "data", [b"[]", b"{}", b'{"batchId": 1}', b"[1]", b'[{"outputOpId"', b"null"]
)
def test_other_documents_are_not_recognised(data: bytes) -> None:
    assert recognize_response(data) is None


def test_sniffed_and_read(tmp_path: Path) -> None:
    (tmp_path / "b.json").write_text(json.dumps([BATCH], indent=1))
    (source,) = discover([str(tmp_path)]).sources
    assert (source.kind, source.url) == ("spark-rest", "/streaming/batches")
    rows = parse_on_driver(plan_splits([source])).to_pylist()
    assert [row["event"] for row in rows] == ["spark_batch", "split"]


def test_ids_in_names() -> None:
    assert (
        application_in("logs/application_1466086160000_0007/driver.log")
        == "application_1466086160000_0007"
    )
    assert application_in("logs/driver.log") is None


def test_the_environment_has_the_configuration_without_secrets(tmp_path: Path) -> None:
    answer = {
        "runtime": {"javaVersion": "17"},
        "sparkProperties": [
            ["spark.streaming.backpressure.enabled", "true"],
            ["spark.hadoop.fs.s3a.secret.key", "x"],
        ],
    }
    path = tmp_path / "applications_app-20260101120000-0003_environment.json"
    path.write_text(json.dumps(answer))
    (source,) = discover([str(path)]).sources
    assert source.kind == "spark-rest"
    rows = parse_on_driver(plan_splits([source])).to_pylist()
    assert [row["event"] for row in rows] == ["spark_settings", "split"]
    assert dict(rows[0]["fields"]) == {"spark.streaming.backpressure.enabled": "true"}
    assert rows[0]["application"] == "app-20260101120000-0003"


@pytest.mark.parametrize(
    ("name", "application"),
    [
        ("container_1466086160000_0007_01_000002", "application_1466086160000_0007"),
        ("container_e17_1466086160000_0007_02_000003", "application_1466086160000_0007/2"),
        ("container_x", None),
    ],
)
def test_applications_of_containers(name: str, application: str | None) -> None:
    assert application_of_container(name) == application
