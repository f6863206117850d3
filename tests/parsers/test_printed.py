"""Responses and reports printed by terminals, notebooks and pages are read like saved files."""

from __future__ import annotations

import json
import pprint
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flowdiag.parsers.discover import discover
from flowdiag.parsers.sources.printed import json_printed
from flowdiag.parsers.spark.reports import printed_reports
from flowdiag.parsers.split import parse_on_driver, plan_splits

JOB = "7c7769847d333438dd9ce845d5a2d980"
PATH = f"/jobs/{JOB}/checkpoints"
CHECKPOINTS: dict[str, Any] = {
    "counts": {"restored": 0, "total": 3, "in_progress": 0, "completed": 1, "failed": 2},
    "summary": {},
    "latest": {},
    "history": [
        {
            "id": 7,
            "status": "FAILED",
            "is_savepoint": False,
            "trigger_timestamp": 1_795_240_801_000,
            "num_subtasks": 2,
            "num_acknowledged_subtasks": 1,
            "failure_message": "Checkpoint expired before completing.",
        }
    ],
}
BATCHES = [
    {
        "batchId": 1_795_240_801_000 + 1000 * number,
        "batchTime": "2026-11-21T06:00:01.000GMT",
        "status": "COMPLETED",
        "batchDuration": 1000,
        "inputSize": 10,
        "schedulingDelay": 1,
        "processingTime": 100,
    }
    for number in range(3)
]
VERBOSE = """\
*   Trying 127.0.0.1:8081...
  % Total    % Received % Xferd  Average Speed   Time    Time     Time  Current
                                 Dload  Upload   Total   Spent    Left  Speed
  0     0    0     0    0     0      0      0 --:--:-- --:--:-- --:--:--     0
* Connected to localhost (127.0.0.1) port 8081 (#0)
> GET {path} HTTP/1.1
> Host: localhost:8081
> User-Agent: curl/7.88.1
>
< HTTP/1.1 200 OK
< Content-Type: application/json; charset=UTF-8
<
{{ [1234 bytes data]
100  1234  100  1234    0     0  20021      0 --:--:-- --:--:-- --:--:-- 20150
{body}* Connection #0 to host localhost left intact
"""
Dress = Callable[[str, Any], str]
WRAPPINGS: dict[str, Dress] = {
    "saved": lambda path, body: json.dumps(body),
    "pretty": lambda path, body: json.dumps(body, indent=2),
    "curl -v": lambda path, body: VERBOSE.format(path=path, body=json.dumps(body)),
    "curl -v | jq": lambda path, body: VERBOSE.format(path=path, body=json.dumps(body, indent=2)),
    "curl -i": lambda path, body: (
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nServer: a: b\r\n\r\n"
        + json.dumps(body)
    ),
    "prompt": lambda path, body: (
        f"$ curl -s http://jm:8081{path} | jq .\n{json.dumps(body, indent=2)}\n$\n"
    ),
    "fence": lambda path, body: f"`GET {path}` says\n```json\n{json.dumps(body, indent=2)}\n```\n",
    "colours of jq": lambda path, body: re.sub(
        r'^( *)("\w+")(:)',
        "\\1\x1b[34;1m\\2\x1b[0m\\3",
        json.dumps(body, indent=2),
        flags=re.MULTILINE,
    ),
    "print(response.json())": lambda path, body: f"{body!r}\n",
    "pprint": lambda path, body: pprint.pformat(body, sort_dicts=False) + "\n",
    "Python's prompt": lambda path, body: (
        f">>> requests.get(url).json()\n{body!r}\n>>> # what's wrong?\n"
    ),
    "quoted mail": lambda path, body: "".join(
        f"> {line}\n" for line in (f"GET {path}", *json.dumps(body, indent=2).split("\n"))
    ),
}


def report(number: int) -> dict[str, Any]:
    return {
        "id": "8c0119b7-1fe8-4de9-9ea0-63a767460287",
        "runId": "c58ef000-b8f0-429c-899a-8252a414e67f",
        "name": "orders",
        "timestamp": f"2026-11-21T06:0{number}:00.000Z",
        "batchId": number,
        "numInputRows": 100,
        "durationMs": {"addBatch": 7000, "triggerExecution": 8000},
        "sources": [{"description": "KafkaV2[Subscribe[orders]]", "numInputRows": 100}],
        "sink": {"description": "console"},
    }


PRETTY = [json.dumps(report(number), indent=2) for number in range(3)]
FLAT = [json.dumps(report(number)) for number in range(3)]
REPORTS = {
    "one after the other": "\n".join(PRETTY),
    "lines": "\n".join(FLAT),
    "recentProgress": json.dumps([report(number) for number in range(3)], indent=1),
    "fences": "So it goes:\n\n" + "".join(f"```json\n{one}\n```\n" for one in PRETTY),
    "flat fence": "```\n" + "\n".join(FLAT) + "\n```\n",
    "quoted": "".join(f"> {line}\n" for line in "\n".join(PRETTY).split("\n")),
    "printed by a listener": "".join(f"Query made progress: {one}\n" for one in PRETTY),
    "log of a listener": "".join(
        f"26/11/21 06:0{number}:09 INFO Metrics: progress {one}\n"
        for number, one in enumerate(FLAT)
    ),
    "log": "".join(
        f"26/11/21 06:0{number}:09 INFO MicroBatchExecution: Streaming query made progress: {one}\n"
        for number, one in enumerate(PRETTY)
    ),
    "as Python shows it": "\n".join(repr(report(number)) for number in range(3)),
    "recentProgress in Python": repr([report(number) for number in range(3)]),
    "Python's prompt": "".join(
        f">>> query.lastProgress\n{report(number)!r}\n" for number in range(3)
    ),
    "printed by Python between records": "".join(
        f"26/11/21 06:0{number}:09 INFO JobScheduler: Added jobs for time 1795240801000 ms\n"
        f"{report(number)!r}\n26/11/21 06:0{number}:10 INFO BlockManager: Removed broadcast\n"
        for number in range(3)
    ),
    "pretty, between records": "".join(
        f"26/11/21 06:0{number}:09 INFO CodeGenerator: Code generated in 8.1 ms\n{one}\n"
        f"26/11/21 06:0{number}:10 INFO BlockManagerInfo: Removed broadcast_7_piece0 on worker-1:4040\n"
        for number, one in enumerate(PRETTY)
    ),
    "pretty, behind words between records": "".join(
        f"26/11/21 06:0{number}:09 INFO CodeGenerator: Code generated in 8.1 ms\nprogress: {one}\n"
        for number, one in enumerate(PRETTY)
    ),
    "log in a fence": "It says\n```\n"
    + "".join(
        f"2026-11-21 06:0{number}:09,123 INFO  [stream execution thread] streaming.MicroBatchExecution"
        f" (Logging.scala:logInfo(57)) - Streaming query made progress: {one}\n"
        for number, one in enumerate(PRETTY)
    )
    + "```\n",
}


def rows_of(text: str, folder: Path) -> list[dict[str, Any]]:
    (folder / "what-people-have").write_text(text)
    found = discover([str(folder)])
    assert found.sources[0].kind != "not-read", found.sources[0].reason
    rows = parse_on_driver(plan_splits(found.sources)).to_pylist()
    return [row for row in rows if row["event"] != "split"]


def content_of(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in ("offset", "source")}


@pytest.mark.parametrize("wrapping", WRAPPINGS)
@pytest.mark.parametrize(("path", "body"), [(PATH, CHECKPOINTS), ("/streaming/batches", BATCHES)])
def test_a_response_is_read_in_every_wrapping(
    path: str, body: Any, wrapping: str, tmp_path: Path
) -> None:
    folders = tmp_path / "saved", tmp_path / "printed"
    for folder in folders:
        folder.mkdir()
    known = [content_of(row) for row in rows_of(WRAPPINGS["saved"](path, body), folders[0])]
    rows = [content_of(row) for row in rows_of(WRAPPINGS[wrapping](path, body), folders[1])]
    assert len(known) > 1
    has_path = path in WRAPPINGS[wrapping](path, body)
    for row in known:  # the requested path contains the job
        row["job_id"] = JOB if has_path and path == PATH else None
    assert rows == known


def test_python_literals_keep_their_length() -> None:
    text = b"""{'a': [True, None, 'x "y" z', "it's"], 'b': 'c\\'d', 'c': '\\x1b'}"""
    printed = json_printed(text)
    assert printed is not None
    assert json.loads(printed.data) == {
        "a": [True, None, "x 'y' z", "it's"],
        "b": "c 'd",
        "c": "????",
    }
    assert len(printed.data) == len(text)


@pytest.mark.parametrize("indent", [None, 2])
def test_the_beginning_of_a_truncated_response_counts(indent: int | None, tmp_path: Path) -> None:
    answer = json.dumps(
        {**CHECKPOINTS, "history": [*CHECKPOINTS["history"], {"id": 8}]}, indent=indent
    )
    (tmp_path / "cut").write_text(answer[: answer.index('"id": 8') + 3])
    found = discover([str(tmp_path)])
    table = parse_on_driver(plan_splits(found.sources)).to_pylist()
    events = [(row["event"], row["checkpoint"]) for row in table if row["event"] != "split"]
    assert events == [("checkpoint_counts", None), ("checkpoint_status", 7)]
    (split,) = (row for row in table if row["event"] == "split")
    assert "the JSON is cut off" in str(split)


@pytest.mark.parametrize("wrapping", REPORTS)
def test_query_reports_are_read_in_every_wrapping(wrapping: str, tmp_path: Path) -> None:
    rows = [row for row in rows_of(REPORTS[wrapping], tmp_path) if row["event"] == "spark_progress"]
    assert [(row["event"], row["checkpoint"], row["duration_ms"]) for row in rows] == [
        ("spark_progress", number, 8000) for number in range(3)
    ]
    assert {row["job_name"] for row in rows} == {"orders"}
    assert all(dict(row["fields"])["rows"] == "100" for row in rows)


def test_a_log_that_quotes_a_response_is_a_log(tmp_path: Path) -> None:
    line = (
        "2026-11-21 06:00:00,000 INFO  org.apache.flink.runtime.checkpoint.CheckpointCoordinator [] -"
        f" Triggering checkpoint 1 (type=CHECKPOINT) @ 1795240801000 for job {JOB}.\n"
    )
    text = line + VERBOSE.format(path=PATH, body=json.dumps(CHECKPOINTS))
    assert [row["event"] for row in rows_of(text, tmp_path)] == ["checkpoint_triggered"]


EXPIRED = f"Checkpoint 4 of job {JOB} expired before completing."
FLINK_LINE = (
    "2026-11-21 06:00:00,000 INFO  org.apache.flink.runtime.checkpoint.CheckpointCoordinator [] -"
    f" Triggering checkpoint 1 (type=CHECKPOINT) @ 1795240801000 for job {JOB}.\n"
)
SPARK_LINE = "26/11/21 06:00:09 INFO JobScheduler: Added jobs for time 1795240801000 ms\n"
BODIES = (
    (FLINK_LINE, f'2026-11-21 06:00:01,000 INFO  com.acme.Audit [] - sent {{"text":"{EXPIRED}"}}'),
    (FLINK_LINE, f'2026-11-21 06:00:01,000 INFO  com.acme.Audit [] - [{{"text":"{EXPIRED}"}}]'),
    (
        FLINK_LINE,
        f'2026-11-21 06:00:01,000 INFO  com.acme.Audit [] - sent\n{{\n  "text": "{EXPIRED}"\n}}',
    ),
    (
        FLINK_LINE,
        (
            "2026-11-21 06:00:01,000 INFO  com.acme.Audit [] - sent:\n{\n"
            f'  "to": [\n    "ops"\n  ],\n  "text": "{EXPIRED}"\n}}'
        ),
    ),
    (
        SPARK_LINE,
        (
            '26/11/21 06:00:10 INFO Audit: sent {"at": 1, "text":"Error running job streaming job'
            ' 1795240801000 ms.0"}'
        ),
    ),
    (
        SPARK_LINE,
        (
            '26/11/21 06:00:10 INFO Audit: sent {"error":"org.apache.spark.sql.streaming.Streaming'
            'QueryException: x\\n\\tat org.apache.spark.A.b(A.scala:1)"}'
        ),
    ),
)


@pytest.mark.parametrize(
    "piece",
    ['{"id": "', "{'id': '", "{'id': '8c0119b7-1fe8-4de9-9ea0-63a767460287', 'runId': ", "{", "'"],
)
def test_hostile_reports_take_linear_time(piece: str) -> None:
    identity = "8c0119b7-1fe8-4de9-9ea0-63a767460287"
    begun = time.process_time()
    text = f"{{'id': '{identity}', 'runId': " + piece * (2_000_000 // len(piece))
    assert list(printed_reports((text * 2).encode())) == []
    assert time.process_time() - begun < 5


@pytest.mark.parametrize(("record", "quoting"), BODIES)
def test_quoted_bodies_are_not_records(record: str, quoting: str, tmp_path: Path) -> None:
    found = rows_of(f"{record}{quoting}\n{record}", tmp_path)
    assert len([row for row in found if row["event"] != "failure"]) == 2


@pytest.mark.parametrize("text", ["", "{ [123 bytes data]", "[INFO] hello", "{not: json}", "]{"])
def test_text_that_only_starts_like_json(text: str) -> None:
    assert json_printed(text.encode()) is None


@pytest.mark.parametrize("piece", ["{\n", '{"a":\n', "[[\n", '{"id": "', '[{"a": [1]}\n,', "\n>"])
def test_hostile_text_takes_linear_time(piece: str) -> None:
    begun = time.process_time()
    json_printed((piece * (2_000_000 // len(piece))).encode())
    assert time.process_time() - begun < 5


def test_offsets_are_those_of_the_file() -> None:
    text = 'é\n{"a": "é"}\nand\n[{"b": 1}]\n'.encode()
    printed = json_printed(text)
    assert printed is not None and len(printed.data) == len(printed.around) == len(text)
    assert [text[at : at + 1] for at in printed.values] == [b"{", b"["]
    assert printed.data.strip().startswith('{"a": "é"}'.encode())
