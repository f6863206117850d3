"""Every known Spark message, in the layouts of drivers and executors."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import pytest

from flowdiag.parsers.catalogue import SPARK_FILES, load_catalogue
from flowdiag.parsers.discover import discover
from flowdiag.parsers.formats import read_format
from flowdiag.parsers.lines.failure_lines import KNOWN_RECORD
from flowdiag.parsers.split import parse_on_driver, plan_splits
from tests.archives import FIXTURES, unpacked

CATALOGUE = load_catalogue("spark")
ENTRIES = [entry for name in SPARK_FILES for entry in read_format(name)["message"]]
SAMPLES = [
    pytest.param(entry, sample, id=f"{entry['id']}-{number}")
    for entry in ENTRIES
    for number, sample in enumerate(entry["sample"])
]
LAYOUTS = (
    "26/11/20 23:53:03 INFO {logger}: {message}",
    "2026-11-20 23:53:03,123 INFO  [main] org.apache.spark.streaming.{logger} - {message}",
    "2026-11-20 23:53:03.123 [JobScheduler] INFO  o.a.s.s.{logger} - {message}",
)


def test_ids_are_unique() -> None:
    ids = [template.id for template in CATALOGUE.templates]
    assert len(ids) == len(set(ids))
    assert all(template.engine == "spark" for template in CATALOGUE.templates)


@pytest.mark.parametrize(("entry", "sample"), SAMPLES)
def test_samples(entry: dict[str, object], sample: dict[str, object]) -> None:
    assert re.fullmatch(r"[A-Za-z0-9 .,:_/-]{8,}", str(entry["anchor"]))
    found = CATALOGUE.recognize(str(sample["text"]))
    assert found is not None and found.template.id == entry["id"]
    values = {name: value for name, value in found.values.items() if name != "fields"}
    fields = found.values.get("fields", {})
    assert isinstance(fields, dict)
    expected = {**dict(sample["gives"]), **dict(entry.get("fields", {}))}  # type: ignore[call-overload]
    assert values | fields == expected


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_message_in_every_layout(layout: str, tmp_path: Path) -> None:
    lines, expected = [], []
    for entry in ENTRIES:
        if entry["event"] == "known" or entry["id"] == "progress":
            continue
        logger = (entry["loggers"] or ["TaskSetManager"])[0]
        lines.append(layout.format(logger=logger, message=entry["sample"][0]["text"]))
        expected.append(entry["id"])
    path = tmp_path / "driver.log"
    path.write_text("\n".join(lines) + "\n")
    sources = discover([str(path)]).sources
    assert sources[0].engine == "spark"
    rows = parse_on_driver(plan_splits(sources)).to_pylist()
    found = [row["template"] for row in rows if row["event"] != "split"]
    # A failed output operation is a failed batch, too.
    assert [
        name
        for i, name in enumerate(found)
        if not (name == "job-error" and i and found[i - 1] == name)
    ] == expected


def log_rows(tmp_path: Path, text: str) -> list[dict[str, object]]:
    path = tmp_path / "driver.log"
    path.write_text("26/11/20 23:53:00 INFO SparkContext: Running Spark version 3.5.7\n" + text)
    rows = parse_on_driver(plan_splits(discover([str(path)]).sources)).to_pylist()
    for row in rows:
        row["fields"] = dict(row["fields"] or ())
    return [row for row in rows if row["event"] not in ("split", "spark_log_started")]


def test_delays_with_a_decimal_comma(tmp_path: Path) -> None:
    line = "26/11/20 23:53:05 INFO JobScheduler: Total delay: {} s for time 1795218784000 ms (execution: {} s)\n"
    (row,) = log_rows(tmp_path, line.format("1,497", "1,297"))
    assert (row["epoch_ms"], row["duration_ms"]) == (1795218784000, 1297)
    assert row["fields"] == {"origin": "log", "state": "completed", "log_total": "1497"}


def test_the_estimators_input_is_on_the_next_line(tmp_path: Path) -> None:
    (row,) = log_rows(
        tmp_path,
        "26/11/20 23:53:05 TRACE PIDRateEstimator: \n"
        "time = 1795218785497, # records = 7, processing time = 1297, scheduling delay = 67\n",
    )
    assert row["template"] == "pid-input" and row["utc_us"] == 1795218785497000
    assert row["fields"] == {
        "time": "1795218785497",
        "elements": "7",
        "processing": "1297",
        "scheduling": "67",
    }


_HEADER = re.compile(r"^(\d\d)/(\d\d)/(\d\d) (\S+) ([A-Z]+) (\S+?): ?", re.MULTILINE)


def structured(text: str) -> str:
    """Return a log in the layout of `spark.log.structuredLogging.enabled`: one JSON object per record."""
    heads = [*_HEADER.finditer(text)]
    ends = [head.start() for head in heads[1:]] + [len(text)]
    return "".join(
        json.dumps(
            {
                "ts": f"20{head[1]}-{head[2]}-{head[3]}T{head[4]}.000Z",
                "level": head[5],
                "msg": text[head.end() : end].removesuffix("\n"),
                "logger": head[6],
            }
        )
        + "\n"
        for head, end in zip(heads, ends, strict=True)
    )


def test_two_receivers_give_the_same_events_in_text_and_structured_json(tmp_path: Path) -> None:
    log = unpacked(FIXTURES / "recordings/spark/4.3.0/two-receivers") / "driver/driver.log"
    texts = {"text": log.read_text(), "json": structured(log.read_text())}
    rows: dict[str, list[tuple[object, ...]]] = {}
    for name, text in texts.items():
        path = tmp_path / name / "driver.log"
        path.parent.mkdir()
        path.write_text(text)
        found = parse_on_driver(plan_splits(discover([str(path)]).sources)).to_pylist()
        rows[name] = [
            (
                row["event"],
                row["template"],
                row["utc_us"] or row["local_us"],
                row["epoch_ms"],
                row["fields"],
            )
            for row in found
            if row["event"] in ("spark_pid", "spark_batch", "spark_receiver")
        ]
    assert rows["json"] == rows["text"]
    inputs = Counter(row[2] for row in rows["text"] if row[1] == "pid-input")
    assert len(inputs) > 30 and set(inputs.values()) == {2}  # one line of each receiver


PROGRESS = """26/11/21 00:08:52 INFO MicroBatchExecution: Streaming query made progress: {
  "id" : "8c0119b7-1fe8-4de9-9ea0-63a767460287",
  "runId" : "c58ef000-b8f0-429c-899a-8252a414e67f",
  "name" : "orders",
  "timestamp" : "2026-11-21T00:08:47.183Z",
  "batchId" : 3,
  "numInputRows" : 120,
  "durationMs" : {
    "addBatch" : 400,
    "triggerExecution" : 500
  },
  "sources" : [ ]
}
26/11/21 00:08:53 INFO SparkContext: Starting job: start at Orders.scala:1
"""


def test_multi_line_progress(tmp_path: Path) -> None:
    (row,) = log_rows(tmp_path, PROGRESS)
    assert (row["event"], row["checkpoint"], row["duration_ms"]) == ("spark_progress", 3, 500)
    assert row["job_name"] == "orders" and row["fields"]["rows"] == "120"  # type: ignore[index]


def test_truncated_progress_gives_no_row(tmp_path: Path) -> None:
    assert log_rows(tmp_path, PROGRESS[:300]) == []


def test_a_failed_output_operation_has_the_python_error(tmp_path: Path) -> None:
    output, batch, *again = log_rows(
        tmp_path,
        "26/11/20 23:59:00 ERROR JobScheduler: Error running job streaming job 1795219938000 ms.0\n"
        "org.apache.spark.SparkException: An exception was raised by Python:\n"
        "Traceback (most recent call last):\n"
        '  File "orders.py", line 3, in deliver\n'
        "ValueError: cannot read order '7'\n"
        "\n"
        "\tat org.apache.spark.streaming.api.python.TransformFunction.callPythonTransformFunction(P.scala:9)\n",
    )
    assert {row["template"] for row in again} <= {KNOWN_RECORD}
    assert output["cause"] == "ValueError: cannot read order '7'"
    assert (batch["event"], batch["fields"]) == (
        "spark_batch",
        {"origin": "log", "state": "completed", "failed": "1"},
    )
