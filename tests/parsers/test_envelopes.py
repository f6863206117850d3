"""Checks that every known JSON form gives the record inside it."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flowdiag.parsers.envelopes.documents import read_document
from flowdiag.parsers.envelopes.objects import Unwrapped, encode_event, unwrap_json
from flowdiag.parsers.envelopes.times import read_time

LINE = "2026-08-29 18:49:15,123 INFO  org.apache.flink.X [] - Completed checkpoint 7"
INSTANT = int(datetime(2026, 8, 29, 16, 49, 15, 123_000, UTC).timestamp()) * 1_000_000 + 123_000
UTC_CLOCK = INSTANT
MS = INSTANT // 1000


def unwrap(value: object) -> Unwrapped:
    found = unwrap_json(json.dumps(value).encode())
    assert found is not None
    return found


def fields(found: Unwrapped) -> dict[str, Any]:
    names = ("text", "timestamp_us", "process", "level", "logger", "thread", "trace", "local_us")
    return {name: value for name in names if (value := getattr(found, name)) is not None}


TRACE = "java.lang.IllegalStateException: boom\n\tat a.B.c(B.java:1)"

LINES: dict[str, tuple[object, dict[str, Any]]] = {
    "log4j JsonLayout": (
        {
            "instant": {"epochSecond": INSTANT // 10**6, "nanoOfSecond": 123_000_000},
            "@timestamp": "2026-08-29_18:49:15.123",
            "thread": "Checkpoint Timer",
            "level": "INFO",
            "loggerName": "org.apache.flink.X",
            "message": "Completed checkpoint 7",
            "thrown": {
                "commonElementCount": 0,
                "localizedMessage": "boom",
                "message": "boom",
                "name": "java.lang.IllegalStateException",
                "extendedStackTrace": [
                    {"class": "a.B", "method": "c", "file": "B.java", "line": 1, "exact": True}
                ],
            },
            "endOfBatch": False,
            "threadId": 60,
            "threadPriority": 5,
        },
        {
            "text": "Completed checkpoint 7",
            "timestamp_us": INSTANT,
            "local_us": UTC_CLOCK + 7_200_000_000,
            "level": "INFO",
            "logger": "org.apache.flink.X",
            "thread": "Checkpoint Timer",
            "trace": TRACE,
        },
    ),
    "log4j JsonLayout before 2.11": (
        {"timeMillis": MS, "thread": "t", "level": "WARN", "loggerName": "L", "message": "m"},
        {"text": "m", "timestamp_us": INSTANT, "level": "WARN", "logger": "L", "thread": "t"},
    ),
    "ECS": (
        {
            "@timestamp": "2026-08-29T16:49:15.123Z",
            "ecs.version": "1.2.0",
            "log.level": "ERROR",
            "message": "m",
            "process.thread.name": "main",
            "log.logger": "org.apache.flink.X",
            "error.type": "java.lang.IllegalStateException",
            "error.message": "boom",
            "error.stack_trace": TRACE + "\n",
        },
        {
            "text": "m",
            "timestamp_us": INSTANT,
            "local_us": UTC_CLOCK,
            "level": "ERROR",
            "logger": "org.apache.flink.X",
            "thread": "main",
            "trace": TRACE,
        },
    ),
    "ECS, nested": (
        {
            "@timestamp": "2026-08-29T16:49:15.123Z",
            "log": {"level": "info", "logger": "L"},
            "message": "m",
            "process": {"thread": {"name": "t"}},
            "error": {"stack_trace": TRACE},
        },
        {
            "text": "m",
            "timestamp_us": INSTANT,
            "local_us": UTC_CLOCK,
            "level": "INFO",
            "logger": "L",
            "thread": "t",
            "trace": TRACE,
        },
    ),
    "GELF": (
        {
            "version": "1.1",
            "host": "tm-1",
            "short_message": "m",
            "full_message": TRACE,
            "timestamp": INSTANT / 1e6,
            "level": 4,
            "_logger": "L",
            "_thread": "t",
        },
        {
            "text": "m",
            "timestamp_us": INSTANT,
            "process": "tm-1",
            "level": "WARN",
            "logger": "L",
            "thread": "t",
            "trace": TRACE,
        },
    ),
    "GELF with the message in front of the trace": (
        {"short_message": "m", "full_message": "m\n" + TRACE, "timestamp": MS / 1000, "level": 6},
        {"text": "m", "timestamp_us": INSTANT, "level": "INFO", "trace": TRACE},
    ),
    "Logstash": (
        {
            "@timestamp": "2026-08-29T18:49:15.123+0200",
            "@version": "1",
            "message": "m",
            "logger_name": "L",
            "thread_name": "t",
            "level": "INFO",
            "level_value": 20000,
            "stack_trace": TRACE,
        },
        {
            "text": "m",
            "timestamp_us": INSTANT,
            "local_us": UTC_CLOCK + 7_200_000_000,
            "level": "INFO",
            "logger": "L",
            "thread": "t",
            "trace": TRACE,
        },
    ),
    "AWS Managed Flink": (
        {
            "applicationARN": "arn:aws:kinesisanalytics:eu-west-1:1:application/x",
            "applicationVersionId": "3",
            "locationInformation": "org.apache.flink.X.run(X.java:1)",
            "logger": "org.apache.flink.X",
            "message": "m",
            "messageSchemaVersion": "1",
            "messageType": "WARN",
            "threadName": "t",
            "throwableInformation": TRACE,
        },
        {
            "text": "m",
            "level": "WARN",
            "logger": "org.apache.flink.X",
            "thread": "t",
            "trace": TRACE,
        },
    ),
    "log event with a time": (
        {"logEvent": LINE, "@timestamp": "2026-08-29T16:49:15.123Z"},
        {"text": LINE, "timestamp_us": INSTANT, "local_us": UTC_CLOCK},
    ),
    "log event as an object": (
        {"logEvent": {"message": "m", "level": "INFO"}, "@timestamp": MS},
        {"text": "m", "timestamp_us": INSTANT, "level": "INFO"},
    ),
    "Go's": (
        {"json": {"job": "x"}, "level": "warning", "msg": "m", "ts": "2026-08-29T16:49:15.123Z"},
        {"text": "m", "timestamp_us": INSTANT, "local_us": UTC_CLOCK, "level": "WARN"},
    ),
    "Spark's": (
        {
            "ts": "2026-08-29T16:49:15.123Z",
            "level": "ERROR",
            "msg": "m",
            "context": {"job_id": "1"},
            "exception": {
                "class": "java.lang.IllegalStateException",
                "msg": "boom",
                "stacktrace": [{"class": "a.B", "method": "c", "file": "B.java", "line": "1"}],
            },
            "logger": "DAGScheduler",
        },
        {
            "text": "m",
            "timestamp_us": INSTANT,
            "local_us": UTC_CLOCK,
            "level": "ERROR",
            "logger": "DAGScheduler",
            "trace": TRACE,
        },
    ),
    "docker": (
        {"log": LINE + "\n", "stream": "stdout", "time": "2026-08-29T16:49:15.123456789Z"},
        {"text": LINE, "timestamp_us": INSTANT + 456, "local_us": UTC_CLOCK + 456},
    ),
    "docker with a tag": (
        {
            "log": LINE + "\r\n",
            "stream": "stderr",
            "attrs": {"tag": "flink-taskmanager-2"},
            "time": "2026-08-29T16:49:15.123Z",
        },
        {
            "text": LINE,
            "timestamp_us": INSTANT,
            "local_us": UTC_CLOCK,
            "process": "flink-taskmanager-2",
        },
    ),
    "Fluent Bit": (
        {
            "date": INSTANT / 1e6,
            "stream": "stdout",
            "log": LINE,
            "kubernetes": {
                "pod_name": "job-taskmanager-1-2",
                "namespace_name": "default",
                "container_name": "flink-main-container",
                "host": "node-7",
            },
        },
        {"text": LINE, "timestamp_us": INSTANT, "process": "job-taskmanager-1-2"},
    ),
    "Fluentd": (
        {
            "log": LINE + "\n",
            "container_id": "0123456789ab",
            "container_name": "/flink_taskmanager_1",
            "source": "stdout",
            "time": "2026-08-29 16:49:15.123000000 +0000",
        },
        {
            "text": LINE,
            "timestamp_us": INSTANT,
            "local_us": UTC_CLOCK,
            "process": "flink_taskmanager_1",
        },
    ),
    "Filebeat": (
        {
            "@timestamp": "2026-08-29T16:49:15.123Z",
            "message": LINE,
            "log": {"offset": 7, "file": {"path": "/var/log/flink/tm.log.3"}},
            "host": {"name": "worker-1"},
            "agent": {"type": "filebeat"},
        },
        {
            "text": LINE,
            "timestamp_us": INSTANT,
            "local_us": UTC_CLOCK,
            "process": "worker-1:/var/log/flink/tm.log",
        },
    ),
    "logcli": (
        {
            "labels": {"pod": "tm-1", "container": "flink-main-container"},
            "line": LINE,
            "timestamp": "2026-08-29T18:49:15.123+02:00",
        },
        {
            "text": LINE,
            "timestamp_us": INSTANT,
            "local_us": UTC_CLOCK + 7_200_000_000,
            "process": "tm-1",
        },
    ),
    "elasticdump": (
        {
            "_index": "flink",
            "_id": "1",
            "_score": 1,
            "_source": {
                "@timestamp": "2026-08-29T16:49:15.123Z",
                "message": LINE,
                "kubernetes": {"pod": {"name": "tm-1"}},
            },
        },
        {"text": LINE, "timestamp_us": INSTANT, "local_us": UTC_CLOCK, "process": "tm-1"},
    ),
    "Google": (
        {
            "insertId": "x",
            "jsonPayload": {"message": "m", "logger": "L", "thread": "t", "level": "INFO"},
            "resource": {
                "type": "k8s_container",
                "labels": {"pod_name": "tm-1", "container_name": "flink-main-container"},
            },
            "severity": "ERROR",
            "timestamp": "2026-08-29T16:49:15.123Z",
        },
        {
            "text": "m",
            "timestamp_us": INSTANT,
            "local_us": UTC_CLOCK,
            "process": "tm-1",
            "level": "INFO",
            "logger": "L",
            "thread": "t",
        },
    ),
    "Google, text": (
        {
            "textPayload": LINE + "\n",
            "severity": "INFO",
            "resource": {"labels": {"container_name": "jobmanager"}},
            "timestamp": "2026-08-29T16:49:15.123Z",
        },
        {
            "text": LINE,
            "timestamp_us": INSTANT,
            "local_us": UTC_CLOCK,
            "process": "jobmanager",
            "level": "INFO",
        },
    ),
    "Splunk": (
        {
            "preview": False,
            "offset": 3,
            "lastrow": True,
            "result": {
                "_raw": LINE,
                "_time": "2026-08-29 16:49:15.123 UTC",
                "host": "worker-1",
                "source": "/var/log/flink/tm.log",
                "sourcetype": "flink",
            },
        },
        {
            "text": LINE,
            "timestamp_us": INSTANT,
            "local_us": UTC_CLOCK,
            "process": "worker-1:/var/log/flink/tm.log",
        },
    ),
    "Azure": (
        {
            "TimeGenerated": "2026-08-29T16:49:15.1230000Z",
            "PodName": "tm-1",
            "ContainerName": "c",
            "LogMessage": LINE,
        },
        {"text": LINE, "timestamp_us": INSTANT, "local_us": UTC_CLOCK, "process": "tm-1"},
    ),
    "Azure, exported": (
        {"time": MS, "category": "x", "properties": {"log": LINE, "pod": "tm-1"}},
        {"text": LINE, "timestamp_us": INSTANT, "process": "tm-1"},
    ),
    "journald": (
        {
            "MESSAGE": LINE,
            "__REALTIME_TIMESTAMP": str(INSTANT),
            "_HOSTNAME": "worker-1",
            "PRIORITY": "6",
        },
        {"text": LINE, "timestamp_us": INSTANT, "process": "worker-1"},
    ),
    "Datadog": (
        {
            "id": "x",
            "type": "log",
            "attributes": {
                "message": "m",
                "timestamp": "2026-08-29T16:49:15.123Z",
                "status": "warn",
                "host": "worker-1",
            },
        },
        {
            "text": "m",
            "timestamp_us": INSTANT,
            "local_us": UTC_CLOCK,
            "level": "WARN",
            "process": "worker-1",
        },
    ),
    "docker around log4j": (
        {
            "log": json.dumps({"level": "INFO", "loggerName": "L", "message": "m", "thread": "t"}),
            "stream": "stdout",
            "time": "2026-08-29T16:49:15.123Z",
        },
        {
            "text": "m",
            "timestamp_us": INSTANT,
            "local_us": UTC_CLOCK,
            "level": "INFO",
            "logger": "L",
            "thread": "t",
        },
    ),
    "CloudWatch around AWS Managed Flink": (
        {
            "timestamp": MS,
            "message": json.dumps({"logger": "L", "message": "m", "messageType": "INFO"}),
            "logStreamName": "app/1",
        },
        {
            "text": "m",
            "timestamp_us": INSTANT,
            "process": "app/1",
            "level": "INFO",
            "logger": "L",
        },
    ),
}


@pytest.mark.parametrize("shape", LINES)
def test_one_line(shape: str) -> None:
    value, expected = LINES[shape]
    assert fields(unwrap(value)) == expected


def test_nested_causes_are_printed_as_java_does() -> None:
    thrown = {
        "name": "a.Outer",
        "message": "one",
        "extendedStackTrace": "a.Outer: one\n\tat x.Y.z(Y.java:1)\n",
        "cause": {"name": "a.Inner", "message": "two", "extendedStackTrace": []},
    }
    found = unwrap({"message": "m", "level": "INFO", "thrown": thrown})
    assert found.trace == "a.Outer: one\n\tat x.Y.z(Y.java:1)\nCaused by: a.Inner: two"


def test_a_line_split_by_docker_is_partial() -> None:
    line = {"log": "first half", "stream": "stdout", "time": "2026-08-29T16:49:15Z"}
    assert unwrap(line).partial
    assert not unwrap(line | {"log": "second half\n"}).partial
    assert not unwrap(line | {"kubernetes": {"pod_name": "x"}}).partial


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"{",
        b"}",
        b"{}",
        b"[]",
        b"null",
        b'"text"',
        b'{"a":1}',
        b'{"message":1}',
        b'{"message":""}',
        b'{"message":"cut off',
        b'{"message":"cut off"',
        b'{"message":{"message":{"message":{"message":{"message":{"message":{"message":"x"}}}}}}}',
        b"{" * 100_000,
        b'{"message":' * 50_000,
        LINE.encode(),
        b"\xff\xfe{",
    ],
)
def test_other_json_gives_no_record(line: bytes) -> None:
    assert unwrap_json(line) is None


@pytest.mark.parametrize(
    "line",
    [
        b'{"message":"m"},',
        b'  {"message":"m"}\r\n',
        b'[{"message":"m"},',
        b'{"message":"m"}]',
        b'\xef\xbb\xbf{"message":"m"}',
        b'{"message":"m","x":NaN}',
        b'{"message":"m","x":"raw\ttab"}',
    ],
)
def test_array_lines_and_small_errors_are_accepted(line: bytes) -> None:
    found = unwrap_json(line)
    assert found is not None and found.text == "m"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda children: (
        st.lists(children, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "message",
                    "log",
                    "line",
                    "_raw",
                    "time",
                    "timestamp",
                    "@timestamp",
                    "instant",
                    "level",
                    "logger",
                    "thrown",
                    "stream",
                    "labels",
                    "values",
                    "streams",
                    "data",
                    "result",
                    "hits",
                    "_source",
                    "events",
                    "results",
                    "columns",
                    "rows",
                    "fields",
                    "resourceLogs",
                    "kubernetes",
                    "jsonPayload",
                    "tables",
                    "schema",
                    "entries",
                    "logEvents",
                ]
            )
            | st.text(max_size=5),
            children,
            max_size=4,
        )
    ),
    max_leaves=25,
)


@settings(max_examples=200, deadline=None)
@given(value=JSON)
def test_no_json_raises(value: object) -> None:
    data = json.dumps(value).encode()
    unwrap_json(data)
    for event in read_document(data) or ():
        again = unwrap_json(encode_event(event))
        assert again is not None


@settings(max_examples=100, deadline=None)
@given(data=st.binary(max_size=60) | st.text(max_size=60).map(lambda text: text.encode()))
def test_no_bytes_raise(data: bytes) -> None:
    unwrap_json(data)
    read_document(data)
    read_document(b"message,timestamp\n" + data)


@settings(max_examples=60, deadline=None)
@given(
    text=st.text(min_size=1, max_size=40).filter(lambda text: "\n" not in text),
    at=st.none() | st.integers(0, 2**51),
)
def test_an_event_round_trips(text: str, at: int | None) -> None:
    event = Unwrapped(
        text, timestamp_us=at, process="p", level="INFO", trace="t\n\tat x", local_us=at
    )
    line = encode_event(event)
    assert line.count(b"\n") == 1
    assert unwrap_json(line) == event


# -- times ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "instant", "local"),
    [
        ("2026-08-29T16:49:15.123Z", INSTANT, UTC_CLOCK),
        ("2026-08-29T16:49:15.123456789Z", INSTANT + 456, UTC_CLOCK + 456),
        ("2026-08-29T18:49:15.123+02:00", INSTANT, UTC_CLOCK + 7_200_000_000),
        ("2026-08-29T11:19:15.123-0530", INSTANT, UTC_CLOCK - 19_800_000_000),
        ("2026-08-29 16:49:15,123 +00", INSTANT, UTC_CLOCK),
        ("2026-08-29 16:49:15.123 UTC", INSTANT, UTC_CLOCK),
        ("2026-08-29_16:49:15.123", None, UTC_CLOCK),
        ("2026-08-29 16:49:15.123", None, UTC_CLOCK),
        ("2026/08/29 16:49:15.123", None, UTC_CLOCK),
        ("2026-08-29 16:49:15.123 CEST", None, UTC_CLOCK),
        ("Aug 29, 2026 @ 16:49:15.123", None, UTC_CLOCK),
        ("8/29/2026, 4:49:15.123 PM", None, UTC_CLOCK),
        (str(INSTANT // 10**6), INSTANT - 123_000, None),
        (f"{INSTANT // 10**6}.123", INSTANT, None),
        (str(MS), INSTANT, None),
        (str(INSTANT), INSTANT, None),
        (str(INSTANT * 1000), INSTANT, None),
        (INSTANT * 1000, INSTANT, None),
        (MS, INSTANT, None),
        (INSTANT / 1e6, INSTANT, None),
        ({"seconds": INSTANT // 10**6, "nanos": 123_000_000}, INSTANT, None),
        (["2026-08-29T16:49:15.123Z"], INSTANT, UTC_CLOCK),
        (4873, None, None),
        (-1, None, None),
        (True, None, None),
        (float("inf"), None, None),
        (10**30, None, None),
        ("2026-13-45T16:49:15Z", None, None),
        ("2026-08-29", None, None),
        ("soon", None, None),
        ("9" * 500, None, None),
        (None, None, None),
    ],
)
def test_times(written: object, instant: int | None, local: int | None) -> None:
    assert read_time(written) == (instant, local)


# -- documents -------------------------------------------------------------------------------


def document(value: object) -> list[dict[str, Any]]:
    events = read_document(json.dumps(value, indent=1).encode())
    assert events is not None
    return [fields(event) for event in events]


A, B = "INFO first", "INFO second"
NS = INSTANT * 1000
DOCUMENTS: dict[str, object] = {
    "Loki query_range": {
        "status": "success",
        "data": {
            "resultType": "streams",
            "result": [{"stream": {"pod": "p"}, "values": [[str(NS + 1000), B], [str(NS), A]]}],
            "stats": {},
        },
    },
    "Loki push": {
        "streams": [
            {"stream": {"pod": "p"}, "values": [[str(NS), A, {"x": "y"}], [str(NS + 1000), B]]}
        ]
    },
    "Loki, old": {
        "streams": [
            {
                "labels": '{pod="p", job="x"}',
                "entries": [
                    {"ts": "2026-08-29T16:49:15.123001Z", "line": B},
                    {"ts": "2026-08-29T16:49:15.123Z", "line": A},
                ],
            }
        ]
    },
    "Grafana Explore": [
        {"line": B, "timestamp": str(NS + 1000), "date": "x", "fields": {"pod": "p"}},
        {"line": A, "timestamp": str(NS), "date": "x", "fields": {"pod": "p"}},
    ],
    "Grafana's data frames": {
        "results": {
            "A": {
                "frames": [
                    {
                        "schema": {
                            "fields": [{"name": "labels"}, {"name": "Line"}, {"name": "tsNs"}]
                        },
                        "data": {
                            "values": [[{"pod": "p"}] * 2, [B, A], [str(NS + 1000), str(NS)]],
                        },
                    }
                ]
            }
        }
    },
    "Elasticsearch": {
        "took": 1,
        "hits": {
            "total": {"value": 2},
            "hits": [
                {
                    "_index": "i",
                    "_source": {
                        "message": B,
                        "@timestamp": MS + 1,
                        "kubernetes": {"pod_name": "p"},
                    },
                },
                {
                    "_index": "i",
                    "fields": {
                        "message": [A],
                        "@timestamp": ["2026-08-29T16:49:15.123Z"],
                        "kubernetes.pod_name": ["p"],
                    },
                },
            ],
        },
    },
    "CloudWatch get-log-events": {
        "events": [
            {"timestamp": MS, "message": A, "ingestionTime": MS + 5, "logStreamName": "p"},
            {"timestamp": MS + 1, "message": B, "ingestionTime": MS + 5, "logStreamName": "p"},
        ],
        "nextForwardToken": "f/1",
    },
    "CloudWatch Insights": {
        "results": [
            [
                {"field": "@timestamp", "value": "2026-08-29 16:49:15.124"},
                {"field": "@message", "value": B},
                {"field": "@logStream", "value": "p"},
            ],
            [
                {"field": "@timestamp", "value": "2026-08-29 16:49:15.123"},
                {"field": "@message", "value": A},
                {"field": "@logStream", "value": "p"},
            ],
        ],
        "status": "Complete",
    },
    "CloudWatch subscription": {
        "messageType": "DATA_MESSAGE",
        "logGroup": "g",
        "logStream": "p",
        "logEvents": [
            {"id": "1", "timestamp": MS, "message": A},
            {"id": "2", "timestamp": MS + 1, "message": B},
        ],
    },
    "Google": [
        {
            "textPayload": B,
            "timestamp": "2026-08-29T16:49:15.124Z",
            "resource": {"labels": {"pod_name": "p"}},
        },
        {
            "jsonPayload": {"message": A},
            "timestamp": "2026-08-29T16:49:15.123Z",
            "resource": {"labels": {"pod_name": "p"}},
        },
    ],
    "Splunk": {
        "preview": False,
        "results": [
            {"_raw": B, "_time": "2026-08-29T16:49:15.124+00:00", "host": "p"},
            {"_raw": A, "_time": "2026-08-29T16:49:15.123+00:00", "host": "p"},
        ],
    },
    "Azure": {
        "tables": [
            {
                "name": "PrimaryResult",
                "columns": [{"name": "TimeGenerated"}, {"name": "LogMessage"}, {"name": "PodName"}],
                "rows": [
                    ["2026-08-29T16:49:15.124Z", B, "p"],
                    ["2026-08-29T16:49:15.123Z", A, "p"],
                ],
            }
        ]
    },
    "Datadog": {
        "data": [
            {"id": "1", "attributes": {"message": B, "timestamp": MS + 1, "host": "p"}},
            {"id": "2", "attributes": {"message": A, "timestamp": MS, "host": "p"}},
        ]
    },
    "Graylog": {
        "messages": [
            {
                "message": {"message": B, "timestamp": "2026-08-29T16:49:15.124Z", "source": "s"},
                "index": "i",
            },
            {
                "message": {"message": A, "timestamp": "2026-08-29T16:49:15.123Z", "source": "s"},
                "index": "i",
            },
        ]
    },
    "OpenTelemetry": {
        "resourceLogs": [
            {
                "resource": {
                    "attributes": [{"key": "k8s.pod.name", "value": {"stringValue": "p"}}]
                },
                "scopeLogs": [
                    {
                        "logRecords": [
                            {"timeUnixNano": str(NS), "body": {"stringValue": A}},
                            {"timeUnixNano": str(NS + 1000), "body": {"stringValue": B}},
                        ]
                    }
                ],
            }
        ]
    },
    "lines": [A, B],
}


@pytest.mark.parametrize("shape", DOCUMENTS)
def test_one_document(shape: str) -> None:
    events = document(DOCUMENTS[shape])
    assert [event["text"] for event in events] == [A, B]
    if shape != "lines":
        times = [event.get("timestamp_us", event.get("local_us")) for event in events]
        assert times[0] == INSTANT
        assert times[1] in (INSTANT + 1, INSTANT + 1000)
    if shape not in ("lines", "Graylog"):
        assert {event["process"] for event in events} == {"p"}


def test_processes_are_grouped() -> None:
    def stream(pod: str, *lines: tuple[int, str]) -> dict[str, Any]:
        return {"stream": {"pod": pod}, "values": [[str(NS + at), line] for at, line in lines]}

    events = document(
        {
            "streams": [
                stream("b", (9000, "b3"), (5000, "b2"), (1000, "b1")),
                stream("a", (8000, "a2"), (2000, "a1")),
            ]
        }
    )
    assert [event["text"] for event in events] == ["b1", "b2", "b3", "a1", "a2"]


def test_equal_times_keep_their_order_and_are_reversed_with_the_rest() -> None:
    oldest_first = [{"message": f"{i}", "timestamp": MS + i // 3, "host": "p"} for i in range(12)]
    expected = [str(i) for i in range(12)]
    assert [event["text"] for event in document(oldest_first)] == expected
    assert [event["text"] for event in document(oldest_first[::-1])] == expected


def test_lines_without_carrier_are_ordered_by_their_own_times() -> None:
    lines = ["2026-01-01 00:00:02 INFO b", "\tat x.Y.z", "2026-01-01 00:00:01 INFO a"]
    assert [event["text"] for event in document(lines)] == [
        lines[2],
        *lines[:0],
        lines[1],
        lines[0],
    ]


def test_pieces_of_a_line_split_by_docker_are_joined() -> None:
    def piece(text: str, second: int) -> dict[str, str]:
        return {"log": text, "stream": "stdout", "time": f"2026-08-29T16:49:{second:02}Z"}

    events = document([piece("one ", 1), piece("two ", 1), piece("three\n", 1), piece("next\n", 2)])
    assert [event["text"] for event in events] == ["one two three", "next"]


def test_a_log_in_one_string_is_split_into_records() -> None:
    log = "2026-01-01 00:00:01 INFO a\r\n\tat x.Y.z\r\n2026-01-01 00:00:02 INFO b\n"
    assert [event["text"] for event in document([log])] == [
        "2026-01-01 00:00:01 INFO a\n\tat x.Y.z",
        "2026-01-01 00:00:02 INFO b",
    ]


def test_several_documents_in_one_file() -> None:
    one = json.dumps(DOCUMENTS["CloudWatch subscription"])
    events = read_document((one + one + "\n" + one + '{"logEv').encode())
    assert events is not None and len(events) == 6


CSVS = {
    "Splunk": (
        '"_serial","_time","source","host","_raw"\n'
        f'"0","2026-08-29T16:49:16.000Z","/x/tm.log","h","{B}"\n'
        f'"1","2026-08-29T16:49:15.000Z","/x/tm.log","h","{A}\n\tat ""x"""\n'
    ),
    "Grafana": (
        "Date,Time,Line,tsNs,id\r\n"
        f"2026-08-29T16:49:16.000Z,x,{B},{NS + 10**9},1\r\n"
        f'2026-08-29T16:49:15.000Z,x,"{A}\n\tat ""x""",{NS},2\r\n'
    ),
    "Kibana": (
        '"@timestamp",message,"kubernetes.pod.name"\n'
        f'"Aug 29, 2026 @ 16:49:16.000",{B},p\n'
        f'"Aug 29, 2026 @ 16:49:15.000","{A}\n\tat ""x""",p\n'
    ),
    "Azure": (
        '"TimeGenerated [UTC]",PodName,LogMessage\n'
        f'"8/29/2026, 4:49:16.000 PM",p,{B}\n'
        f'"8/29/2026, 4:49:15.000 PM",p,"{A}\n\tat ""x"""\n'
    ),
}


@pytest.mark.parametrize("shape", CSVS)
def test_tables(shape: str) -> None:
    events = read_document(CSVS[shape].encode())
    assert events is not None
    assert [event.text for event in events] == [A + '\n\tat "x"', B]
    assert all(event.local_us is not None or event.timestamp_us is not None for event in events)


def test_grafana_text() -> None:
    text = (
        'Common labels: {"pod":"p"}\nTotal bytes processed: "1 kB"\n\n\n'
        f"{MS + 1}\t2026-08-29T16:49:15.124Z\t{B}\n"
        f"{MS}\t2026-08-29T16:49:15.123Z\t{A}\n\tat x.Y.z\n"
    )
    events = read_document(text.encode())
    assert events is not None
    assert [event.text for event in events] == [A + "\n\tat x.Y.z", B]
    assert [event.timestamp_us for event in events] == [INSTANT, INSTANT + 1000]
    assert {event.process for event in events} == {"p"}


@pytest.mark.parametrize(
    "value",
    [
        {},
        [],
        [1, 2],
        {"errors": ["Not found: /jobs/x"]},
        {"schema": "flowdiag.report/1", "summary": {"verdict": "healthy"}, "warnings": []},
        {"events": [{"event": "submit", "time": 1795215950770, "job": "e9"}], "seed": 1},
        {"name": "x", "version": "1.0.0", "dependencies": {"a": "1"}},
    ],
)
def test_other_json_is_not_a_document(value: object) -> None:
    assert read_document(json.dumps(value).encode()) is None


def test_a_damaged_document_is_not_recognised() -> None:
    whole = json.dumps(DOCUMENTS["Elasticsearch"]).encode()
    assert read_document(whole[: len(whole) // 2]) is None
