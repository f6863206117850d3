"""Checks that the quoted excerpt of a report, a response or an event shows the judged value, in
any wrapping.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable

import pytest

from flowdiag.analyses.model.finding import Evidence
from flowdiag.analyses.report.evidence import LocatedRecord, locate
from flowdiag.parsers.focus import Focus
from flowdiag.parsers.quotes import entry_text, event_text, samples_in

BUSY = (("busyTimeMsPerSecond", 950.0), ("idleTimeMsPerSecond", 50.0))
ENRICH_2 = Focus(metrics=BUSY, task="enrich -> Map.a", subtask_index=2, taskmanager="tm-1")


def _report(minute: int, busy: float, *, reporter: str = "Slf4jReporter") -> str:
    scope = "w1.example.taskmanager.tm-1.orders"
    return (
        f"2026-11-20 23:{minute:02}:01,696 INFO  org.apache.flink.metrics.slf4j.{reporter} [] - \n"
        "=========================== Starting metrics report ===========================\n\n"
        "-- Gauges ------------------------------------------------------------------\n"
        f"{scope}.other.2.busyTimeMsPerSecond: 951.0\n"
        f"{scope}.enrich -> Map_a.12.busyTimeMsPerSecond: 952.0\n"
        f"{scope}.enrich -> Map_a.2.busyTimeMsPerSecond: {busy}\n"
        f"{scope}.enrich -> Map_a.2.buffers.inPoolUsage: 1.0\n"
        "=========================== Finished metrics report ===========================\n"
    )


def _located(text: str, focus: Focus, kind: str = "log", offset: int = 0) -> LocatedRecord:
    found, problems = locate(
        [Evidence(0, offset, focus=focus)],
        lambda _: io.BytesIO(text.encode()),
        {0: 0},
        {0: kind},
    )
    assert problems == []
    return found[0, offset, focus]


def _docker(text: str) -> str:
    return "".join(
        json.dumps({"log": line, "stream": "stdout", "time": "2026-11-20T23:26:00Z"}) + "\n"
        for line in text.splitlines(keepends=True)
    )


def _compose(text: str) -> str:
    return "".join(f"taskmanager-1  | {line}" for line in text.splitlines(keepends=True))


@pytest.mark.parametrize("wrap", [str, _docker, _compose])
def test_a_report_is_quoted_by_the_nearest_sample(
    wrap: Callable[[str], str],
) -> None:
    text = wrap(_report(26, 312.0) + _report(27, 949.0) + _report(28, 600.0))
    place = _located(text, ENRICH_2)
    assert place.line == 9 + 7
    assert place.excerpt.endswith(".enrich -> Map_a.2.busyTimeMsPerSecond: 949.0")


def test_a_later_sample_is_not_evidence() -> None:
    text = _report(26, 312.0) + _report(27, 949.0)
    first = _located(text, ENRICH_2)
    assert first.time_us is not None
    until = Focus(metrics=BUSY, task="enrich -> Map.a", subtask_index=2, until_us=first.time_us - 1)
    assert _located(text, until).excerpt.endswith(".2.busyTimeMsPerSecond: 312.0")


def test_a_missing_metric_is_replaced_by_the_next_judged_metric() -> None:
    text = _report(26, 1.0).replace("busyTime", "idleTime")
    assert _located(text, ENRICH_2).excerpt.endswith("Map_a.2.idleTimeMsPerSecond: 1.0")
    nan = _report(26, float("nan"))
    pool = Focus(
        metrics=(*BUSY, ("buffers.inPoolUsage", None)), task="enrich -> Map.a", subtask_index=2
    )
    # A subtask of another task with the same index is not the judged one.
    assert _located(nan.replace(".other.2.", ".other.3."), pool).excerpt.endswith(
        ".2.buffers.inPoolUsage: 1.0"
    )


def test_patterns_of_metrics_and_hosts() -> None:
    block = b"h\nw1.taskmanager.t1.Status.JVM.GarbageCollector.G1 Old.Time: 77\n"
    block = block.replace(b"G1 Old", b"G1_Old")
    focus = Focus(
        metrics=(("Status.JVM.GarbageCollector.*.Time", None),), taskmanager="t1", until_us=None
    )
    assert [(s.line, s.text[-8:]) for s in samples_in(block, focus)] == [(1, "Time: 77")]


def test_prometheus_is_quoted_by_the_judged_series() -> None:
    labels = 'host="w1",job_name="orders",task_name="enrich____Map_a",tm_id="tm_1"'
    name = "flink_taskmanager_job_task_busyTimeMsPerSecond"
    text = "# TYPE x gauge\n" + "".join(
        f'{name}{{{labels},subtask_index="{index}",}} {value}\n'
        for index, value in ((1, 10.0), (2, 981.0))
    )
    place = _located(text, ENRICH_2, "prometheus")
    kept = 'tm_id="tm_1",task_name="enrich____Map_a",subtask_index="2"'
    assert (place.line, place.excerpt) == (3, f"{name}{{{kept}}} 981")
    answer = {
        "status": "success",
        "data": {
            "resultType": "matrix",
            "result": [
                {
                    "metric": {
                        "__name__": name,
                        "task_name": "enrich____Map_a",
                        "subtask_index": str(index),
                    },
                    "values": [[1795217760, "5"], [1795217775, str(900 + index)]],
                }
                for index in (1, 2)
            ],
        },
    }
    assert (
        _located(json.dumps(answer), ENRICH_2, "prometheus").excerpt
        == f'{name}{{task_name="enrich____Map_a",subtask_index="2"}} 902'
    )


@pytest.mark.parametrize(
    ("answer", "quoted"),
    [
        (
            [{"id": "2.busyTimeMsPerSecond", "value": "981"}],
            "2.busyTimeMsPerSecond: 981",
        ),
        (
            {
                "status": "ok",
                "backpressureLevel": "high",
                "subtasks": [{"subtask": 2, "backpressure-level": "high", "ratio": 0.9}],
            },
            "subtask 3: ratio 0.9, backpressure-level high",
        ),
        (
            {
                "id": 7,
                "status": "FAILED",
                "num_subtasks": 4,
                "num_acknowledged_subtasks": 3,
                "subtasks": [
                    {"index": 1, "status": "completed"},
                    {
                        "index": 2,
                        "status": "completed",
                        "end_to_end_duration": 9041,
                        "checkpoint": {"sync": 0, "async": 27},
                        "alignment": {"duration": 4},
                    },
                ],
            },
            (
                "checkpoint 7, subtask 3: status completed, end_to_end_duration 9041 ms, "
                "checkpoint.sync 0 ms, checkpoint.async 27 ms, alignment.duration 4 ms"
            ),
        ),
        (
            {"root-exception": "a.B: no\n\tat c.D\nCaused by: e.FException: full\n\tat g.H"},
            "a.B: no … Caused by: e.FException: full",
        ),
    ],
)
def test_a_response_is_quoted_by_the_entry_of_the_subject(answer: object, quoted: str) -> None:
    plain = json.dumps(answer)
    archived = f'{json.dumps(plain)}}},{{"path":"/other","json":"{{}}"}}]}}'
    collected = (
        f'{{"path":"/jobs/1/vertices/2/metrics","time_ms":1,"body":{plain}}},\n{{"path":"/o"}}'
    )
    for text in (plain, archived, collected):
        assert entry_text(text.encode(), ENRICH_2) == quoted


def test_the_entry_of_another_vertex_is_not_evidence() -> None:
    text = (
        '{"path":"/jobs/1/vertices/a/metrics","body":[{"id":"2.numRecordsIn","value":"1"}]},\n'
        '{"path":"/jobs/1/vertices/b/metrics","body":[{"id":"2.busyTimeMsPerSecond","value":"9"}]}'
    )
    assert entry_text(text.encode(), ENRICH_2) is None


@pytest.mark.parametrize(
    ("event", "quoted"),
    [
        (
            {
                "Event": "org.apache.spark.sql.streaming.StreamingQueryListener$QueryProgressEvent",
                "progress": {
                    "name": "orders",
                    "batchId": 9,
                    "durationMs": {"walCommit": 4, "addBatch": 950, "triggerExecution": 1000},
                    "sources": [
                        {
                            "numInputRows": 50,
                            "startOffset": '{"t":{"0":0,"1":5}}',
                            "endOffset": '{"t":{"0":45,"1":10}}',
                        }
                    ],
                },
            },
            (
                "QueryProgressEvent: name orders, batchId 9, numInputRows 50, triggerExecution 1000 ms, "
                "addBatch 950 ms, walCommit 4 ms, partition t-0: 45 records"
            ),
        ),
        (
            {"event": "batch_completed", "streams": [{"stream_id": 0, "num_records": 3}] * 2},
            "batch_completed: stream 0: 3, stream 0: 3",
        ),
        (
            {"Event": "SparkListenerExecutorRemoved", "Executor ID": "3", "Removed Reason": "OOM"},
            "SparkListenerExecutorRemoved: Executor ID 3, Removed Reason OOM",
        ),
    ],
)
def test_an_event_is_quoted_by_its_relevant_fields(event: object, quoted: str) -> None:
    line = json.dumps(event).encode()
    assert event_text(line) == quoted
    assert _located(line.decode(), Focus(), "spark-events").excerpt == quoted


@pytest.mark.parametrize(
    "junk", [b"", b"{", b'"', b"[[[", b'{"path":1,"body":', b"null", b'"\\ud800"']
)
def test_junk_gives_no_quote(junk: bytes) -> None:
    assert entry_text(junk, ENRICH_2) is None
    assert event_text(junk) is None
    assert list(samples_in(junk, ENRICH_2)) == []
