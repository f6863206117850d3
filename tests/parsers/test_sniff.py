"""Tests the detection of file types by content: logs are read, other files get a reason."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flowdiag.parsers.discover import discover
from flowdiag.parsers.envelopes.objects import unwrap_json
from flowdiag.parsers.lines.scan import PlaceFinder
from flowdiag.parsers.sniff import signs
from flowdiag.parsers.sniff import text as texts
from flowdiag.parsers.sniff.text import sniff
from flowdiag.parsers.sniff.verdict import HEAD_BYTES, Sample, Sniffed
from flowdiag.parsers.source import open_source
from tests.archives import FIXTURES, unpacked

RECORDED = sorted((FIXTURES / "recordings" / "flink").glob("*/*/truth.json"))
JOB = "0123456789abcdef0123456789abcdef"


def judge(data: bytes | str, name: str = "x") -> Sniffed:
    raw = data.encode() if isinstance(data, str) else data
    return sniff(
        Sample(
            name=name,
            head=raw[:HEAD_BYTES],
            complete=len(raw) <= HEAD_BYTES,
            elsewhere=raw[-20_000:] if len(raw) > HEAD_BYTES else b"",
            read=lambda size: raw[:size],
        )
    )


MESSAGE = f"Completed checkpoint 7 for job {JOB} (10 bytes in 5 ms)."
LOGS = {
    "log4j 1": f"2018-11-29 18:43:04,624 INFO  org.apache.flink.runtime.checkpoint.CheckpointCoordinator     - {MESSAGE}",
    "log4j 2": f"2018-11-29 18:43:04,624 INFO  org.apache.flink.runtime.checkpoint.CheckpointCoordinator    [] - {MESSAGE}",
    "logback": f"2018-11-29 18:43:04.624 [Checkpoint Timer] INFO  o.a.f.r.c.CheckpointCoordinator  - {MESSAGE}",
    "time only": f"18:43:04,624 INFO  CheckpointCoordinator - {MESSAGE}",
    "elapsed": f"4873 [Checkpoint Timer] INFO org.apache.flink.runtime.checkpoint.CheckpointCoordinator  - {MESSAGE}",
    "no time": f"INFO CheckpointCoordinator - {MESSAGE}",
    "no time, no level": f"CheckpointCoordinator - {MESSAGE}",
    "message only": MESSAGE,
    "message first": f"{MESSAGE} [CheckpointCoordinator Checkpoint Timer]",
    "two lines": f"Dec 19, 2021 4:31:15 AM org.apache.flink.runtime.checkpoint.CheckpointCoordinator complete\nINFO: {MESSAGE}",
    "CRI": f"2018-11-29T18:43:04.624123456Z stdout F 2018-11-29 18:43:04,624 INFO  CheckpointCoordinator [] - {MESSAGE}",
    "compose": f"jobmanager-1  | 2018-11-29 18:43:04,624 INFO  org.apache.flink.runtime.checkpoint.CheckpointCoordinator [] - {MESSAGE}",
    "quoted": f"> 2018-11-29 18:43:04,624 INFO  org.apache.flink.runtime.checkpoint.CheckpointCoordinator [] - {MESSAGE}",
    "indented": f"\t {MESSAGE}",
    "level in brackets": f"[INFO] 2018-11-29 18:43:04.624 - CheckpointCoordinator - {MESSAGE}",
    "time in brackets": f"[2018-11-29 18:43:04,624] INFO CheckpointCoordinator {MESSAGE}",
}


@pytest.mark.parametrize("layout", LOGS)
@pytest.mark.parametrize("times", [1, 40])
def test_any_layout_is_a_log(layout: str, times: int) -> None:
    found = judge((LOGS[layout] + "\n") * times)
    assert (found.kind, found.engine) == ("log", "flink")


@pytest.mark.parametrize("layout", ["log4j 1", "log4j 2", "logback", "time only", "no time", "CRI"])
def test_the_role_follows_from_the_loggers(layout: str) -> None:
    line = LOGS[layout]
    assert judge(line).role == "jobmanager"
    own = line.replace("CheckpointCoordinator", "TaskExecutor").replace("runtime.checkpoint", "t")
    other = "Received task Map (1/2)#0, deploy into slot"
    assert judge(own.replace(MESSAGE, other)).role == "taskmanager"


def line(logger: str, text: str = "x") -> str:
    return f"2026-01-01 00:00:01,000 INFO  {logger} [] - {text}\n"


FLINK = "org.apache.flink."


@pytest.mark.parametrize(
    ("text", "engine", "role"),
    [
        (line(FLINK + "runtime.taskmanager.Task") * 3, "flink", "taskmanager"),
        (line("o.a.f.r.t.Task") * 3, "flink", "taskmanager"),
        (line(FLINK + "client.cli.CliFrontend") * 3, "flink", "client"),
        (line(FLINK + "configuration.GlobalConfiguration") * 3, "flink", "unknown"),
        (
            (line(FLINK + "runtime.jobmaster.JobMaster") + line(FLINK + "x.TaskExecutor")) * 3,
            "flink",
            "mixed",
        ),
        (
            line(FLINK + "runtime.jobmaster.JobMaster")
            * 3
            + "java.lang.Exception: x\n\tat org.apache.flink.runtime.taskmanager.Task.run(Task.java:1)\n"
            "\tat org.apache.flink.streaming.runtime.tasks.StreamTask.invoke(StreamTask.java:2)\n"
            * 9,
            "flink",
            "jobmanager",
        ),
        (
            "Container: container_1_2_01_000001 on h_1\n=====\nLogType:jobmanager.log\n"
            + line(FLINK + "runtime.jobmaster.JobMaster") * 3,
            "flink",
            "mixed",
        ),
        ("17/09/20 14:10:04 INFO DAGScheduler: Job 1 finished\n" * 3, "spark", "driver"),
        (
            "17/09/20 14:10:04 INFO CoarseGrainedExecutorBackend: Got task 1\n"
            "17/09/20 14:10:04 INFO Executor: Running task 1\n" * 3,
            "spark",
            "executor",
        ),
        (line("org.apache.kafka.clients.Metadata") * 3, "unknown", "unknown"),
        (
            '127.0.0.1 - - [01/Jan/2026:00:00:01 +0000] "GET / HTTP/1.1" 200 5\n' * 9,
            "unknown",
            "unknown",
        ),
    ],
)
def test_engines_and_roles(text: str, engine: str, role: str) -> None:
    found = judge(text)
    assert (found.kind, found.engine, found.role) == ("log", engine, role)


@pytest.mark.parametrize("wrapping", ["", "> ", "worker-1  | "])
def test_metric_reports_alone_are_a_log(wrapping: str) -> None:
    """Check a log of a running TaskManager that contains only metric reports: thousands of lines
    without a time.
    """
    header = "2026-11-20 23:51:42,435 INFO  org.apache.flink.metrics.slf4j.Slf4jReporter  [] - "
    scope = "worker-3_flink_example.taskmanager.taskmanager-3.orders.aggregate"
    lines = [
        header,
        "=========================== Starting metrics report ===========================",
    ]
    lines += ["", "-- Counters -------------------------------------------------------------------"]
    lines += [f"{scope}.{index}.numRecordsIn: {index * 7}" for index in range(400)]
    lines += ["", "=========================== Finished metrics report ==========================="]
    found = judge("".join(f"{wrapping}{line}\n" for line in lines * 3))
    assert (found.kind, found.engine) == ("log", "flink")


def test_a_stack_trace_alone_is_a_log() -> None:
    text = "java.lang.IllegalStateException: x\n\tat a.B.c(B.java:1)\nCaused by: y.ZException\n"
    assert judge(text).kind == "log"


# The first bytes of profiles that Go 1.26 wrote.
GO_CPU_PROFILE = bytes.fromhex(
    "48a4ad9dceb4dbeef5180a04080110020a040803100450a0b2858f015a0408031004"
)
GO_HEAP_PROFILE = bytes.fromhex(
    "5a0408011002608080200a04080310040a04080510020a04080610040a0408071002"
)
PPROF = "profile in pprof's format: convert it with `go tool pprof -raw FILE | stackcollapse-go.pl`"

SEATUNNEL = (
    "[] 2023-03-18 02:20:33,877 INFO  [o.a.s.e.s.c.CheckpointCoordinator] [st-1] - "
    "pending checkpoint(7/1@6) notify finished!\n"
    "[] 2023-03-18 02:20:34,877 INFO  [o.a.s.e.s.c.CheckpointCoordinator] [st-1] - "
    "Checkpoint expired before completing checkpoint 8\n"
)


def test_engines_that_borrow_class_names_are_not_flink() -> None:
    found = judge(SEATUNNEL)
    assert (found.kind, found.engine) == ("not-read", "unknown")
    assert found.reason == "an Apache SeaTunnel log, which uses Flink's class names"
    full = SEATUNNEL.replace("o.a.s.e.s.c.", "org.apache.seatunnel.engine.server.checkpoint.")
    assert judge(full).kind == "not-read"
    as_json = json.dumps({"logger": "org.apache.seatunnel.engine.X", "message": "checkpoint 7"})
    assert judge(as_json + "\n" + as_json + "\n").kind == "not-read"
    on_flink = line(FLINK + "runtime.jobmaster.JobMaster") + line("org.apache.seatunnel.engine.X")
    assert judge(on_flink).kind == "log"


GC = (
    "[0.004s][info][gc] Using G1\n[0.010s][info][gc,init] Version: 17\n"
    "[2.1s][info][gc] GC(0) Pause Young (Normal) 24M->4M(256M) 3.1ms\n"
)
OLD_GC = (
    "OpenJDK 64-Bit Server VM (25.292-b10) for linux-amd64 JRE (1.8.0_292-b10)\n"
    "2026-01-01T00:00:01.123+0000: 0.512: [GC (Allocation Failure) 65536K->5000K(251392K), 0.01 secs]\n"
)
JAVA = (
    "package a.b;\n\nimport org.apache.flink.streaming.api.environment.X;\n\n"
    "/** Calls the CheckpointCoordinator. */\npublic class Job {\n  void run() {}\n}\n"
)
YAML = (
    "# flink-conf.yaml\njobmanager.rpc.address: localhost\nexecution.checkpointing.interval: 10s\n"
    "taskmanager.numberOfTaskSlots: 4\nenv.java.opts: -Dx=org.apache.flink.X\n"
)
PROPERTIES = (
    "rootLogger.level = INFO\nlogger.flink.name = org.apache.flink\nlogger.flink.level = DEBUG\n"
    "appender.main.layout.pattern = %d{yyyy-MM-dd HH:mm:ss,SSS} %-5p %-60c %x - %m%n\n"
)
TEXT = "text, but it does not look like a log:"
README = (
    "# Recordings\n\nThese folders hold logs of a Flink cluster; each checkpoint of the job is in\n"
    "them, and the `CheckpointCoordinator` says when it expired.\n\n- run `make`\n- see the docs\n"
)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "empty file"),
        (bytes(1000), "nothing but NUL bytes"),
        (b" \n\r\n\t\n", "nothing but whitespace"),
        (bytes(range(256)) * 40, "binary file"),
        (b"\xca\xfe\xba\xbe\0\0\0\x37" + b"CheckpointCoordinator checkpoint 7" * 9, "Java class file"),
        (b"JAVA PROFILE 1.0.2\0" + MESSAGE.encode() * 9, "Java heap dump"),
        (b"\x89PNG\r\n\x1a\n", "image"),
        (b"\x7fELF\2\1\1" + bytes(50), "program or core dump"),
        (b"\x49\x60\x67\x2d\0\0\0\3abc", "metadata of a Flink checkpoint or savepoint"),
        (b"7z\xbc\xaf\x27\x1c\0\4", "7z archive: unpack it first"),
        (GC, "looks like a GC log"),
        (OLD_GC, "looks like a GC log"),
        (JAVA, "looks like source code"),
        (YAML, "looks like a configuration file"),
        (PROPERTIES, "looks like a configuration file"),
        (README, f"{TEXT} 4 lines of text, 1 comment"),
        (
            README + "The CheckpointCoordinator lost checkpoint 7 for good.\n",
            f"{TEXT} 5 lines of text, 1 comment",
        ),
        ("just some words\n", f"{TEXT} 1 line of text"),
        ("#!/bin/sh\nset -e\necho 1\n", "looks like source code"),
        ("<!DOCTYPE html>\n<html></html>", "HTML page"),
        ("# HELP flink_x y\n# TYPE flink_x gauge\nflink_x 1\n", "Prometheus metrics, but none of Flink's"),
        (GO_CPU_PROFILE, PPROF),
        (GO_HEAP_PROFILE, PPROF),
        (b"FLR\0\0\x02", "Java Flight Recorder file: convert it with `jfr print --json --stack-depth 64`"),
        ('{"schema": "flowdiag.report/1", "findings": []}', "a flowdiag report"),
        ('{\n "schema": "flowdiag.report/1"\n}', "a flowdiag report"),
        ('{"a": 1', "damaged JSON: syntax error in line 1, column 8"),
        ('{"a": 1,\n "b: 2}', "damaged JSON: syntax error in line 2, column 2"),
        ('{"a":1}\n{"a":2}\n', "JSON lines, but no log records"),
        ("[]", "JSON, but neither log events nor a known REST response"),
        ('{"name":"x","message":"hello"}', "JSON, but neither log events nor a known REST response"),
        ('["a", "b"]', "JSON, but neither log events nor a known REST response"),
        (json.dumps({"events": [{"event": "submit", "time": 1795215950770}]}, indent=1),
         "JSON, but neither log events nor a known REST response"),
    ],
)  # fmt: skip
def test_skipped_files_have_a_reason(data: bytes | str, reason: str) -> None:
    found = judge(data)
    assert (found.kind, found.reason) == ("not-read", reason)


def test_the_manifest_of_a_collection_is_not_a_log() -> None:
    """Its list of failed requests has the words of failures."""
    run = {"what": "run", "schema": "flowdiag.collected/1", "kind": "spark"}
    failed = [{"path": "/api/v1/applications", "why": "connection refused"}]
    tick = {"what": "tick", "file": None, "time_ms": 1_795_748_044_010, "failed": failed}
    verdict = judge("".join(json.dumps(line) + "\n" for line in (run, tick, tick)))
    assert verdict.kind == "not-read" and "manifest" in (verdict.reason or "")


@pytest.mark.parametrize("start", [GC, OLD_GC, YAML, README, "just some words\n" * 9])
def test_flinks_messages_make_anything_a_log(start: str) -> None:
    assert judge(start + (LOGS["log4j 2"] + "\n") * 3).kind == "log"
    assert judge(start + (LOGS["message first"] + "\n") * 3).kind == "log"


def test_a_message_late_in_an_unknown_text_is_found() -> None:
    words = "lorem ipsum dolor sit amet\n" * 20_000
    assert judge(words).kind == "not-read"
    assert judge(words + MESSAGE + "\n" + words).kind == "log"
    assert judge(words * 20).kind == "log"  # too large to be dropped unread


def test_words_that_are_also_magic_numbers() -> None:
    assert judge(b"MZ" + LOGS["log4j 2"].encode()).kind == "log"
    assert judge(b"ORC " + LOGS["log4j 2"].encode()).kind == "log"
    assert judge(b"ORC\x01\x02\x03" * 9).reason == "ORC file"


RECORD = {
    "level": "INFO",
    "loggerName": "org.apache.flink.runtime.jobmaster.JobMaster",
    "message": "x",
}


def test_json_lines() -> None:
    text = json.dumps(RECORD) + "\n"
    for data in (text, text * 9, text * 9 + '{"level": "INFO", "mess', "\ufeff" + text * 2):
        found = judge(data)
        assert (found.engine, found.role) == ("flink", "jobmanager")
        assert found.kind in ("json-lines", "document")
    assert judge(text * 5000).kind == "json-lines"
    assert judge(text * 9).kind == "json-lines"


def test_json_lines_below_some_text_are_a_log() -> None:
    text = "Starting Job Manager\nsed: cannot rename\n" + (json.dumps(RECORD) + "\n") * 9
    assert judge(text).kind == "log"


def test_batches_per_line_are_a_document() -> None:
    batch = {
        "messageType": "DATA_MESSAGE",
        "logStream": "s",
        "logEvents": [{"id": "1", "timestamp": 1767225601000, "message": LOGS["log4j 2"]}],
    }
    assert judge((json.dumps(batch) + "\n") * 3).kind == "document"
    assert judge(json.dumps(batch)).kind == "document"


def test_damaged_json_of_a_log_is_read_as_text() -> None:
    whole = json.dumps({"hits": {"hits": [{"_source": {"message": LOGS["log4j 2"]}}] * 9}})
    assert judge(whole[:-40]).kind == "log"


def test_tables() -> None:
    head = '"_time","host","_raw"\n'
    assert judge(head + f'"2026-01-01T00:00:00Z","h","{LOGS["log4j 2"]}"\n').kind == "document"
    assert judge("id,message\n1,hello\n").kind == "not-read"
    text = f"1767225601000\t2026-01-01T00:00:01.000Z\t{LOGS['log4j 2']}\n"
    assert judge(text * 3).kind == "document"
    assert judge("Common labels: {}\n\n\n" + text * 3).kind == "document"


@pytest.mark.parametrize(
    ("value", "name", "url"),
    [
        ({"counts": {}, "history": [], "latest": {}}, f"jobs_{JOB}_checkpoints.json", f"/jobs/{JOB}/checkpoints"),
        ({"mode": "exactly_once", "interval": 1, "timeout": 2}, "x.json", "/jobs/:jobid/checkpoints/config"),
        ({"taskmanagers": [{"id": "tm", "path": "akka"}]}, "x", "/taskmanagers"),
    ],
)  # fmt: skip
def test_answers_of_the_rest_interface(value: object, name: str, url: str) -> None:
    for text in (json.dumps(value), json.dumps(value, indent=2), "\ufeff" + json.dumps(value)):
        found = judge(text, name)
        assert (found.kind, found.engine, found.url) == ("rest", "flink", url)


def test_concatenated_responses() -> None:
    text = json.dumps({"counts": {}, "history": [], "latest": {}})
    assert judge(f"{text}\n{text}\n").kind == "rest"


def test_archives_of_the_history_server() -> None:
    value = {"archive": [{"path": "/jobs/overview", "json": '{"jobs":[]}'}]}
    assert judge(json.dumps(value)).kind == "archive"
    assert judge(json.dumps(value, indent=1)).kind == "archive"


@settings(max_examples=150, deadline=None)
@given(
    data=st.binary(max_size=400)
    | st.text(max_size=300).map(lambda text: text.encode("utf-8", "replace"))
    | st.lists(
        st.sampled_from(
            [b"{", b"}", b"[", b"]", b'"', b"\n", b"message,time\n", b"12:00:00", b"INFO ", b"\0",
             b"org.apache.flink", b"checkpoint 7", b"\xff\xfe", b"PK\x03\x04", b":", b",", b"\t"]
        ),
        max_size=40,
    ).map(b"".join)
)  # fmt: skip
def test_nothing_raises(data: bytes) -> None:
    found = judge(data)
    assert (found.kind == "not-read") == (found.reason is not None)


@pytest.mark.parametrize(
    "hostile",
    [
        b"\n" * HEAD_BYTES * 2,
        b" " * HEAD_BYTES * 2,
        b"a" * HEAD_BYTES * 2,
        b"a." * HEAD_BYTES,
        b"12:" * HEAD_BYTES,
        b"Deploying " * 50_000,
        b"[" * HEAD_BYTES * 2,
        b'{"a":' * HEAD_BYTES,
        b"a=" * HEAD_BYTES,
        b"CheckpointCoordinator " + b" " * HEAD_BYTES,
        b"CheckpointCoordinator [" * 20_000,
        b",message" * 60_000,
        b"Exception" * 60_000,
        b"class a" * 60_000,
    ],
)
def test_hostile_texts_take_linear_time(hostile: bytes) -> None:
    import time

    start = time.process_time()
    judge(hostile)
    assert time.process_time() - start < 5


def test_files_of_recordings_are_classified() -> None:
    found = discover([str(unpacked(path.parent)) for path in RECORDED])
    assert found.sources
    for source in found.sources:
        folder, name = Path(source.name).parts[-2:]
        expected = {"logs": "log", "rest": "rest", "archive": "archive"}.get(folder, "not-read")
        if name.startswith("gc-"):  # a log of Flink's JVM, read by other modules
            continue
        assert source.kind == expected, source
        if folder == "logs":
            assert source.engine == "flink"
            assert source.role == ("taskmanager" if "taskexecutor" in name else "jobmanager")
    assert found.warnings == ()


def test_json_lines_with_the_newest_first_are_reversed(tmp_path: Path) -> None:
    """Check reversed multi-line records: each line is an event, and the last line comes first."""
    lines = [
        f"2026-11-20 23:10:00,000 WARN  org.apache.flink.runtime.checkpoint.CheckpointFailureManager [] - Failed to trigger or complete checkpoint 7 for job {JOB}.",
        "org.apache.flink.runtime.checkpoint.CheckpointException: Checkpoint expired.",
        "\tat org.apache.flink.runtime.checkpoint.CheckpointCoordinator.abort(C.java:1)",
        f"2026-11-20 23:10:01,000 INFO  org.apache.flink.runtime.checkpoint.CheckpointCoordinator [] - {MESSAGE}",
    ]
    rows = [
        json.dumps(
            {
                "labels": {"pod": "jobmanager-0"},
                "line": line,
                "timestamp": f"2026-11-20T23:10:00.00{number}Z",
            }
        )
        for number, line in enumerate(lines)
    ]
    for order, kind in ((rows, "json-lines"), (rows[::-1], "document")):
        path = tmp_path / f"{kind}.jsonl"
        path.write_text("\n".join(order) + "\n")
        (source,) = discover([str(path)]).sources
        assert source.kind == kind
        with open_source(source) as stream:
            events = [unwrap_json(line) for line in stream]
        assert [event and event.text for event in events] == lines


def test_no_marker_overlaps_itself() -> None:
    # Otherwise a single pass would count differently from separate searches.
    for word in signs._WORDS:
        assert not any(word.startswith(word[at:]) for at in range(1, len(word)))


SOME = st.sampled_from(
    [
        "2026-11-18 10:11:12,345 INFO  org.apache.flink.Task [] - Deploying a (1/2)",
        "org.apache.spark.SparkContext: x",
        'flink_taskmanager_job_x{a="b"} 1',
        "# TYPE a counter",
        "LogType:jobmanager.log",
        "Caused by: x.YException",
        "12:13:14",
        "key: value",
        *("", " ", "\0", "{", "\x01\x02"),
    ]
)
TEXTS = st.lists(st.tuples(SOME, st.integers(1, 130)), max_size=6).map(
    lambda runs: "\n".join("\n".join([text] * times) for text, times in runs)
)


@given(text=TEXTS)
@settings(max_examples=150, deadline=None)
def test_shortcuts_do_not_change_the_detected_type(text: str) -> None:
    quick = judge(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(texts, "is_dated", lambda data: False)
        without = PlaceFinder(signs._WORDS)
        without._automaton = None
        patch.setattr(signs, "_finder", lambda: without)
        assert judge(text) == quick


@given(text=TEXTS)
@settings(max_examples=150, deadline=None)
def test_an_exposition_is_recognised_by_most_of_its_lines(text: str) -> None:
    raw = text.encode()
    sample = Sample(name="x", head=raw, complete=True, elsewhere=b"", read=lambda size: raw[:size])
    begun = texts._Text(sample)
    lines = [line.strip() for line in begun.start.split(b"\n")[:400] if line.strip()]
    lines = lines[:-1] if len(lines) == 400 else lines
    exposed = sum(bool(texts._EXPOSED.match(line)) for line in lines)
    most = bool(lines) and exposed >= 0.7 * len(lines)
    verdict = texts._sniff_exposition(begun)
    assert (verdict is not None) == (most and "flink_" in text)
