"""The statistics page of a streaming query in the Web UI, and its collection from a driver."""

from __future__ import annotations

import asyncio
import io
import json
import time
import zipfile
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from flowdiag.parsers.live.client import Client
from flowdiag.parsers.live.event_logs import collect_event_logs
from flowdiag.parsers.live.query_page import ended_on, progress_of, runs_on
from flowdiag.parsers.spark.rest import answer_rows
from tests.collecting import collect_from_spark, recorded_spark, rows_of
from tests.fake_server import NOT_FOUND, Reply, as_json, serving

RUN = "e0119127-6d52-4860-95e0-26fbbb886a38"
# Spark 3.5.7, without the layout: the times of an event dated 2081.
PAGE = """\
<div><strong>Name: </strong>revenue</div>
<div><strong>Id: </strong>3f08900d-6ef7-4630-8313-285225fcc4e7</div>
<div><strong>RunId: </strong>e0119127-6d52-4860-95e0-26fbbb886a38</div>
<script>
var v3 = [{"x": 1795646956459, "y": 0.0},{"x": 1795646994147, "y": 740.0},{"x": 1795647003306, "y": 200.0},{"x": 1795647009429, "y": 120.0}];
var v4 = [{"x": 1795646956459, "y": 37304.0},{"x": 1795646994147, "y": 9089.0},{"x": 1795647003306, "y": 6109.0},{"x": 1795647009429, "y": 3115.0}];
var v5 = [{x: "22:49:16.459", "addBatch": "31318.0","commitOffsets": "527.0","getBatch": "2.0","latestOffset": "0.0","queryPlanning": "4834.0","walCommit": "339.0"},{x: "22:49:54.147", "addBatch": "7360.0","commitOffsets": "291.0","getBatch": "0.0","latestOffset": "0.0","queryPlanning": "924.0","walCommit": "421.0"},{x: "22:50:03.306", "addBatch": "4567.0","commitOffsets": "730.0","getBatch": "0.0","latestOffset": "0.0","queryPlanning": "575.0","walCommit": "178.0"},{x: "22:50:09.429", "addBatch": "2393.0","commitOffsets": "544.0","getBatch": "0.0","latestOffset": "0.0","queryPlanning": "44.0","walCommit": "95.0"}];
var v7 = [{"x": 1795647003306, "y": -1.712365792694E9},{"x": 1795647009429, "y": -1.712365786571E9}];
var v8 = [{"x": 1795646956459, "y": 0.0},{"x": 1795646994147, "y": 11.0},{"x": 1795647003306, "y": 1.0},{"x": 1795647009429, "y": 1.0}];
var v11 = [{"x": 1795646956459, "y": 0.0},{"x": 1795646994147, "y": 0.0},{"x": 1795647003306, "y": 0.0},{"x": 1795647009429, "y": 3.0}];
drawTimeline('#input-rows-timeline', v3, 1795646956459, 1795647009429, 0.0, 740.0, 'records');
drawTimeline('#batch-duration-timeline', v4, 1795646956459, 1795647009429, 0.0, 37304.0, 'ms');
drawAreaStack('#duration-area-stack', v6, v5, 1795646956459, 1795647009429, 3076, 37020)
drawTimeline('#watermark-gap-timeline', v7, 1795646956459, 1795647009429, 0.0, -1.712365786571E9, 'seconds');
drawTimeline('#aggregated-num-total-state-rows-timeline', v8, 1795646956459, 1795647009429, 0.0, 11.0, 'records');
drawTimeline('#aggregated-num-rows-dropped-by-watermark-timeline', v11, 1795646956459, 1795647009429, 0.0, 3.0, 'records');
</script>
"""
LIST = f'<td><a href="/StreamingQuery/statistics/?id={RUN}">{RUN}</a></td>'


def test_the_page_has_the_triggers() -> None:
    first, *_, last = progress_of(PAGE)
    assert (first["name"], first["runId"], first["numInputRows"]) == ("revenue", RUN, 0)
    assert first["eventTime"] == {}
    assert last["timestamp"] == "2026-11-25T22:50:09.429+00:00"
    assert last["durationMs"]["triggerExecution"] == 3115
    assert last["durationMs"]["addBatch"] == 2393
    assert last["eventTime"] == {"watermark": "2081-02-28T23:59:56.000+00:00"}
    (state,) = last["stateOperators"]
    assert state["numRowsDroppedByWatermark"] == 3


# The list of Spark 3.5: an active query, a stopped one, and one that an exception ended.
ENDED = f"""\
<table><tbody>
<tr><td>orders</td><td>RUNNING</td><td>6a</td><td><a href="/StreamingQuery/statistics?id={RUN[:-1]}0">x</a></td></tr>
<tr>
  <td>audit</td><td>FINISHED</td><td>4f</td><td><a href="/StreamingQuery/statistics?id={RUN[:-1]}1">x</a></td>
  <td>2026/11/26 10:31:20</td><td>20 seconds</td><td>NaN</td><td>NaN</td><td>3</td><td>-</td>
</tr>
<tr>
  <td>&lt;no name&gt;</td><td>FAILED</td><td>58abf17e</td><td><a href="/StreamingQuery/statistics?id={RUN}">{RUN}</a></td>
  <td>2026/11/26 10:31:20</td><td>20 seconds</td><td>19.95</td><td>21.10</td><td>5</td>
  <td>py4j.Py4JException: An exception was raised by the Python Proxy.<span class="expand-details">+details</span>
  <div class="stacktrace-details collapsed"><pre>py4j.Py4JException: An exception was raised by the Python Proxy. Return Message: Traceback (most recent call last):
  File &quot;/opt/app/settle.py&quot;, line 9, in settle
    total * rate[&quot;USD&quot;]
KeyError: 'USD'

	at py4j.Protocol.getReturnValue(Protocol.java:476)</pre></div></td>
</tr>
</tbody></table>
"""


def test_the_list_has_the_exceptions_of_ended_queries() -> None:
    stopped, failed = ended_on(ENDED)
    assert (stopped["name"], stopped["exception"]) == ("audit", None)
    assert (failed["name"], failed["runId"]) == (None, RUN)
    (row,) = _rows(_answer("/StreamingQuery/x/ended", [failed]))
    assert row["fields"]["what"] == "terminated" and row["fields"]["run_id"] == RUN
    assert row["fields"]["python_frame"] == "settle(settle.py:9)"
    assert "KeyError: 'USD'" in row["cause"]


def test_running_jobs_and_tasks_name_their_batch() -> None:
    described = f"orders<br/>id = 3f08900d<br/>runId = {RUN}<br/>batch = 17"
    job = {
        "jobId": 9,
        "status": "RUNNING",
        "stageIds": [12],
        "jobGroup": RUN,
        "description": described,
    }
    task = {"taskId": 40, "index": 1, "status": "RUNNING", "executorId": "2", "host": "worker-1"}
    times = {
        "submissionTime": "2026-11-26T10:31:20.000GMT",
        "launchTime": "2026-11-26T10:31:21.000GMT",
    }
    answers = [
        _answer("/api/v1/applications/local-1795689073410/jobs?status=running", [job | times]),
        _answer("/api/v1/applications/local-1795689073410/stages/12/0/taskList", [task | times]),
        _answer("/api/v1/applications/local-1795689073410/jobs?status=running", []),
    ]
    first, started, running, last = _rows(*answers)
    assert first["fields"]["what"] == last["fields"]["what"] == "look"
    assert (started["fields"]["run_id"], started["fields"]["batch_id"]) == (RUN, "17")
    assert (started["checkpoint"], started["fields"]["stages"]) == (9, "[12]")
    assert (running["checkpoint"], running["subtask_index"], running["host"]) == (12, 1, "worker-1")
    assert running["utc_us"] == 1_795_689_081_000_000


def _answer(path: str, body: object) -> dict[str, object]:
    return {"path": path, "time_ms": 1_795_689_100_000, "body": body}


def _rows(*answers: dict[str, object]) -> list[dict[str, Any]]:
    head = {"schema": "flowdiag.collected/1", "kind": "spark", "time_ms": 1_795_689_100_000}
    return [*answer_rows(json.dumps(head | {"answers": answers}).encode(), "tick.json")]


@given(st.text(max_size=200))
def test_other_pages_have_no_triggers(text: str) -> None:
    assert progress_of(text) == [] and runs_on(text) == [] and ended_on(text) == []
    ended_on(ENDED.replace("FAILED", text))
    progress_of(PAGE.replace("1795", text))


def page(text: str) -> Reply:
    return Reply(text.encode(), kind="text/html;charset=utf-8")


def test_a_driver_shows_its_queries(tmp_path: Path) -> None:
    answers = {k: v for k, v in recorded_spark().items() if "streaming" not in k}

    def respond(path: str, query: dict[str, list[str]]) -> Reply:
        if path == "/StreamingQuery/":
            return page(LIST)
        if path == "/StreamingQuery/statistics/" and query.get("id") == [RUN]:
            return page(PAGE)
        return as_json(answers[path]) if path in answers else NOT_FOUND

    with serving(respond) as server:
        collect_from_spark(server.url, tmp_path / "c", for_s=1.0)
    rows = [row for row in rows_of(tmp_path / "c") if row["event"] == "spark_progress"]
    assert len(rows) == 4  # each trigger once
    assert {row["job_name"] for row in rows} == {"revenue"}
    assert {row["application"] for row in rows} != {None}


def test_a_query_without_an_ended_trigger_is_collected_with_its_exception(tmp_path: Path) -> None:
    answers = {k: v for k, v in recorded_spark().items() if "streaming" not in k}

    def respond(path: str, query: dict[str, list[str]]) -> Reply:
        if path == "/StreamingQuery/":
            return page(ENDED)
        return as_json(answers[path]) if path in answers else NOT_FOUND

    with serving(respond) as server:
        outcome = collect_from_spark(server.url, tmp_path / "c", for_s=1.0)
    assert "no application has" not in outcome.why
    causes = [row["cause"] for row in rows_of(tmp_path / "c") if row["event"] == "spark_query"]
    assert [cause for cause in causes if cause and "KeyError: 'USD'" in cause]


def test_a_driver_that_has_just_started_may_still_start_its_query(tmp_path: Path) -> None:
    answers = {k: v for k, v in recorded_spark().items() if "streaming" not in k}
    begun = time.time_ns() // 1_000_000 - 5_000
    for item in answers["/api/v1/applications"]:
        item["attempts"][0] |= {"startTimeEpoch": begun, "completed": False}
    requests = 0

    def respond(path: str, query: dict[str, list[str]]) -> Reply:
        nonlocal requests
        if path == "/StreamingQuery/":
            requests += 1
            return page(LIST if requests > 2 else "")
        if path == "/StreamingQuery/statistics/" and query.get("id") == [RUN]:
            return page(PAGE)
        return as_json(answers[path]) if path in answers else NOT_FOUND

    with serving(respond) as server:
        collect_from_spark(server.url, tmp_path / "c", ticks=9, for_s=1.0)
    rows = [row for row in rows_of(tmp_path / "c") if row["event"] == "spark_progress"]
    assert len(rows) == 4


async def _logs(url: str, folder: Path) -> object:
    async with Client(url, backoff_s=0.01) as client:
        return await collect_event_logs(client, folder, lambda *_: True, progress=lambda _: None)


def test_a_driver_answers_with_an_empty_archive(tmp_path: Path) -> None:
    empty = io.BytesIO()
    zipfile.ZipFile(empty, "w").close()

    def respond(path: str, query: dict[str, list[str]]) -> Reply:
        if path == "/api/v1/applications":
            return as_json([{"id": "local-1", "name": "x", "attempts": [{"startTimeEpoch": 1}]}])
        return Reply(empty.getvalue(), kind="application/octet-stream")

    with serving(respond) as server:
        assert asyncio.run(_logs(server.url, tmp_path)) is None
    assert list(tmp_path.iterdir()) == []
