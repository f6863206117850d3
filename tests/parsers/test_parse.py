"""Tests parsing from bytes to event rows: splits, multi-line records, plausibility, counters."""

from __future__ import annotations

import gzip
import json
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from flowdiag.parsers.discover import discover
from flowdiag.parsers.lines import scan
from flowdiag.parsers.rows import BATCH_ROWS, EVENTS, Event
from flowdiag.parsers.source import Source
from flowdiag.parsers.split import Split, parse_split, plan_splits

JOB = "7c7769847d333438dd9ce845d5a2d980"
ATTEMPT = "f2862289958b430bc3dc20f39794ca2c"
STAMP = "2018-11-29 18:43:04,624"
PACKAGE = "org.apache.flink.runtime"
COORDINATOR = f"{PACKAGE}.checkpoint.CheckpointCoordinator"
GRAPH = f"{PACKAGE}.executiongraph.ExecutionGraph"
TRIGGER = f"Triggering checkpoint 224 @ 1543488184622 for job {JOB}."
EXPIRED = f"Checkpoint 224 of job {JOB} expired before completing."
LATE = (
    "Received late message for now expired checkpoint attempt 224 from task "
    f"{ATTEMPT} of job {JOB} at container_1_000002 @ worker-3.example (dataPort=40090)."
)
RUNNING = f"Source: a, b -> Map (1/2) ({ATTEMPT}) switched from DEPLOYING to RUNNING."
FAILED = f"Map (2/2) ({ATTEMPT}) switched from RUNNING to FAILED."
DECLINE = f"Decline checkpoint 7 by task {ATTEMPT} of job {JOB} at tm-1 @ worker-3 (dataPort=1)."


def line(message: str, logger: str = COORDINATOR, level: str = "INFO") -> str:
    return f"{STAMP} {level:<5} {logger:<60} [] - {message}\n"


def source(path: Path, **changes: Any) -> Source:
    values: dict[str, Any] = {
        "index": 3,
        "name": str(path),
        "path": str(path),
        "member": None,
        "codec": "none",
        "encoding": "utf-8",
        "size": path.stat().st_size if path.exists() else 0,
        "kind": "log",
        "engine": "flink",
        "role": "unknown",
        "group": str(path),
        "url": None,
        "splittable": True,
        "reason": None,
    }
    return Source(**(values | changes))


def tidy(batches: Any) -> list[dict[str, Any]]:
    return [
        {
            name: dict(value) if name == "fields" else value
            for name, value in row.items()
            if value is not None
        }
        for batch in batches
        for row in batch.to_pylist()
    ]


class Parser:
    """Writes text to a file and parses it."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "x.log"

    def rows(
        self, text: str | bytes, edges: tuple[int, ...] = (), **changes: Any
    ) -> list[dict[str, Any]]:
        self.path.write_bytes(text.encode() if isinstance(text, str) else text)
        made = source(self.path, **changes)
        ends = (*edges, -1)
        return [
            row
            for start, end in zip((0, *edges), ends, strict=True)
            for row in tidy(parse_split(Split(made, start, end)))
        ]

    def events(self, text: str | bytes, **changes: Any) -> list[dict[str, Any]]:
        left_out = (Event.SPLIT, Event.FAILURE)
        return [row for row in self.rows(text, **changes) if row["event"] not in left_out]

    def one(self, text: str | bytes) -> dict[str, Any]:
        (row,) = self.events(text)
        return row

    def split(self, text: str | bytes, **changes: Any) -> dict[str, str]:
        fields: dict[str, str] = self.rows(text, **changes)[-1]["fields"]
        return fields


@pytest.fixture
def parser(tmp_path: Path) -> Parser:
    return Parser(tmp_path)


def test_a_record_becomes_a_row(parser: Parser) -> None:
    text = "not a record\n" + line(LATE, level="WARN")
    assert parser.one(text) == {
        "source": 3,
        "offset": 13,
        "event": "late_acknowledgement",
        "template": "late-acknowledgement",
        "local_us": 1543516984624000,
        "level": "WARN",
        "logger": "CheckpointCoordinator",
        "job_id": JOB,
        "attempt_id": ATTEMPT,
        "taskmanager": "container_1_000002",
        "host": "worker-3.example",
        "checkpoint": 224,
        "fields": {"data_port": "40090"},
    }


def test_every_split_ends_with_its_row(parser: Parser) -> None:
    text = line(TRIGGER) + line("what is this") + line(EXPIRED)
    rows = parser.rows(text, edges=(10, len(line(TRIGGER))))
    splits = [row for row in rows if row["event"] == Event.SPLIT]
    assert [row["offset"] for row in splits] == [0, 10, len(line(TRIGGER))]
    assert rows[-1] is splits[-1]
    total = {
        name: sum(int(row["fields"][name]) for row in splits)
        for name in ("bytes", "candidates", "recognised", "not_understood", "logger_hits")
    }
    assert total == {
        "bytes": len(text),
        "candidates": 3,
        "recognised": 2,
        "not_understood": 1,
        "logger_hits": 3,
    }
    assert splits[-1]["fields"]["sample_1"] == line("what is this").rstrip()


def test_batches_have_the_schema(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    path.write_text(line(TRIGGER) * (BATCH_ROWS + 1))
    batches = list(parse_split(Split(source(path), 0, -1)))
    assert all(batch.schema == EVENTS for batch in batches)
    assert [batch.num_rows for batch in batches] == [BATCH_ROWS, 2]
    assert pa.Table.from_batches(batches)["event"][-1].as_py() == "split"


# --- splits -------------------------------------------------------------------------------------

blocks = st.sampled_from(
    [
        line(TRIGGER),
        line(EXPIRED),
        line(LATE, level="WARN"),
        line(RUNNING, GRAPH),
        line(RUNNING.replace("Source", "Quelle: ⟶ größer 源"), GRAPH),
        line(FAILED, GRAPH) + "java.lang.RuntimeException: x\n\tat com.acme.A.b(A.java:1)\n",
        line(FAILED, GRAPH) + "java.lang.OutOfMemoryError: Metaspace\n",
        line(DECLINE) + "x.y.ZException: z\nCaused by: java.io.IOException: deep\n\t... 3 more\n",
        line("unheard of"),
        line("nothing at all", "org.example.Other"),
        f"Nov 29, 2018 6:43:04 PM {COORDINATOR} trigger\nINFO: {TRIGGER}\n",
        f"{STAMP} INFO  {GRAPH}       \n\t[] - {RUNNING}\n",
        line(LATE[:70]) + LATE[70:] + "\n",
        "Container: container_1_000002 on worker-3_45454\nLogType:taskmanager.log\n",
        "no header, no anchor\n",
        "\tat org.apache.flink.runtime.checkpoint.CheckpointCoordinator.x(A.java:1)\n",
        f"{TRIGGER}\n",
        "\n",
        "\0\0\0\n",
        "y" * 700 + "\n",
        line("n" * 300 + TRIGGER, "org.example.Other"),
        json.dumps({"log": line(TRIGGER), "stream": "stdout", "time": "2018-11-29T10:43:04Z"})
        + "\n",
        "jm_1  | " + line(FAILED, GRAPH) + "jm_1  | java.io.IOException: x\ntm_1  | other\n",
        (
            f"2018-11-29T10:43:04.1Z stdout P {line(LATE)[:-40]}\n"
            f"2018-11-29T10:43:04.2Z stdout F {line(LATE)[-40:]}"
        ),
    ]
)
logs = st.tuples(
    st.lists(blocks, max_size=9).map("".join), st.sampled_from(["\n", "\r\n"]), st.booleans()
).map(lambda made: made[0].replace("\n", made[1])[: None if made[2] else -1].encode())


@given(log=logs, data=st.data())
@settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_any_splits_give_the_same_rows(parser: Parser, log: bytes, data: st.DataObject) -> None:
    cuts = st.lists(st.integers(1, max(1, len(log) - 1)), max_size=6, unique=True)
    edges = tuple(sorted(data.draw(cuts)))
    whole, cut = (
        # The first split also has the failures outside known records, of the whole text.
        sorted(
            (row for row in parser.rows(log, some) if row["event"] != Event.SPLIT),
            key=lambda row: (row["offset"], row["event"]),
        )
        for some in ((), edges)
    )
    assert cut == whole


def test_a_recording_gives_the_same_rows_in_any_splits(tmp_path: Path) -> None:
    from tests.archives import FIXTURES, unpacked

    name = "flink-flink-standalonesession-0-jobmanager.log"
    recording = unpacked(FIXTURES / "recordings/flink/1.14.6/async-failure")
    data = (recording / "logs" / name).read_bytes()
    path = tmp_path / "x.log"
    path.write_bytes(data)
    made = source(path)
    results = []
    for target in (1 << 30, 50_000, 7_919):
        tasks = plan_splits([made], target)
        rows = [row for task in tasks for one in task for row in tidy(parse_split(one))]
        counted = sum(row["metric"]["count"] for row in rows if row["event"] == "metric")
        per_line = [
            row for row in rows if row["event"] not in (Event.SPLIT, Event.METRIC, Event.PLACED)
        ]
        results.append((per_line, counted))
    assert len(results[0][0]) > 250
    assert results[0] == results[1] == results[2]


def test_plan_packs_small_files_and_cuts_large_ones(tmp_path: Path) -> None:
    def made(index: int, size: int, **changes: Any) -> Source:
        return source(tmp_path / str(index), index=index, size=size, **changes)

    tasks = plan_splits(
        [
            made(0, 30),
            made(1, 40),
            made(2, 250),
            made(3, 50),
            made(4, 9, codec="gzip", splittable=False),
            made(5, 10, kind="not-read"),
            made(6, 10),
        ],
        target_bytes=100,
    )
    assert [[(one.source.index, one.start, one.end) for one in task] for task in tasks] == [
        [(2, 0, 83)],
        [(2, 83, 166)],
        [(2, 166, -1)],
        [(0, 0, -1), (1, 0, -1)],
        [(3, 0, -1)],
        [(4, 0, -1), (6, 0, -1)],
    ]


# --- what is a record -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        f"\tat {PACKAGE}.checkpoint.CheckpointCoordinator.abort(CheckpointCoordinator.java:1)\n",
        line(f"Somebody said: {TRIGGER}", "org.example.Chat"),
        line(f"{TRIGGER}", "org.apache.seatunnel.engine.server.checkpoint.CheckpointCoordinator"),
        line(TRIGGER, "o.a.s.e.s.c.CheckpointCoordinator"),
        line(EXPIRED, "org.example.Other"),
        f"Caused by: x.y.CheckpointException: {EXPIRED}\n",
        line(f"x.y.CheckpointException: {EXPIRED}", GRAPH),
    ],
)
def test_quoted_lines_are_not_records(parser: Parser, text: str) -> None:
    assert parser.events(text) == []
    assert parser.split(text)["not_understood"] == "0"


@pytest.mark.parametrize(
    "text",
    [
        f"{TRIGGER}\n",
        f'"{TRIGGER}"\n',
        f"whatever | {TRIGGER}\n",
        f"{STAMP} <7> ~~ {COORDINATOR} ~~ INFO: {TRIGGER}\n",
        f"{STAMP};INFO;{COORDINATOR};main; - {TRIGGER}\n",
        f"{STAMP} CheckpointCoordinator {TRIGGER}\n",
        f"!! {STAMP} INFO  {COORDINATOR} [] - {TRIGGER}\n",
        f"[2018-11-29, 18:43:04 UTC] {{subprocess.py:93}} INFO - {line(TRIGGER)}",
        line(line(TRIGGER).rstrip(), "com.acme.Launcher"),
    ],
)
def test_nonstandard_layouts_are_recognized_by_the_message(parser: Parser, text: str) -> None:
    row = parser.one(text)
    assert (row["event"], row["checkpoint"]) == ("checkpoint_triggered", 224)
    if STAMP in text:
        assert row["local_us"] == 1543516984624000


# Nonstandard layouts; the text before the message must not matter.
NONSTANDARD = (
    "{t} {L} {l} > {m}",
    "{t} {L} {l} => {m}",
    "{t}|{L}|{l}|{m}",
    "{t};{L};{l};{m}",
    "{t},{L},{l},{m}",
    "{t} {L} {l}: {m}",
    "{t} {L} {m}",
    "{t} {m}",
    "{L} {m}",
    "{m}",
    "{t} - {L} - {m}",
    'time="{t}" level={L} logger={l} msg="{m}"',
    'ts={t} lvl={L} msg="{m}" logger={l}',
    "{t} [{l}] {L} {m}",
    "{t} [{l}] {L} - {m}",
    "{t} {L} [main] [{l}] - {m}",
    "{t} [main] [{l}] [{L}] {m}",
    "[{t}][{L}][main] {m}",
    "<134>1 {t} host flink 123 - - {t} {L} {l} - {m}",
    "{t} [main] {L} {l}.deploy(Execution.java:123) - {m}",
    "{t} {L} (main) {l} {m}",
    "{t} main [{L}] {l} {m}",
    "{t} [{L}] main {l}: {m}",
    "{t} {L} --- [main] {l} : {m}",
    "{t} pid:123 {L} {l} - {m}",
    "{L}: {t} {l} - {m}",
    "{L} {t} [main] {l} - {m}",
    "[{L}] [{t}] [main] {l} - {m}",
    "({t}) {L} {l} - {m}",
    "{t} # {L} # {l} # {m}",
    "{t} :: {L} :: {l} :: {m}",
    "{t} {L} {l} - - {m}",
    "{t} {L} {l}[main] - {m}",
    "{t} {L} [{l}] - {m}",
    "{t} {L} {l} [] [] - {m}",
    "{t} {L} {l} {{jobId=x, y=z}} - {m}",
    "{t} {L} {l} (main) - {m}",
    "worker-3 {t} {L} {l} - {m}",
    "[worker-3] {t} {L} {l} - {m}",
    "{{app}} {t} {L} {l} - {m}",
    "{t} {L} traceId=1 spanId=2 {l} - {m}",
    "{t} {L} [traceId=1,spanId=2] [main] {l} - {m}",
    "{t} {L} [main][] {l}[123] - {m}",
    "{t} +0800 {L} {l} - {m}",
    "jm> {t} {L} {l} - {m}",
)


@pytest.mark.parametrize("layout", NONSTANDARD)
def test_unknown_layouts(parser: Parser, layout: str) -> None:
    for logger, message, event in (
        (COORDINATOR, TRIGGER, "checkpoint_triggered"),
        (GRAPH, RUNNING, "task_state"),
    ):
        row = parser.one(layout.format(t=STAMP, L="WARN", l=logger, m=message) + "\n")
        assert row["event"] == event
        assert row.get("task", "Source: a, b -> Map") == "Source: a, b -> Map"
        if "{t}" in layout:
            assert row["local_us"] == 1543516984624000
        if "{l}" in layout and "{m}" in layout.partition("{l}")[2]:
            assert row["logger"] == logger.rpartition(".")[2]
        if "level" in row:
            assert row["level"] == "WARN"


def test_a_line_below_a_record_is_part_of_it(parser: Parser) -> None:
    assert parser.events(line("we got this:", "org.example.Chat") + f"{TRIGGER}\n") == []


def test_drift_is_counted_for_records_only(parser: Parser) -> None:
    text = (
        line("a message of the future")
        + "\tat " + COORDINATOR + ".x(CheckpointCoordinator.java:1)\n"
        + line("says CheckpointCoordinator", "org.example.Other")
        + line("another engine", "org.apache.seatunnel.engine.CheckpointCoordinator")
        + line("Caused by: java.io.IOException: x")
        + line("again " + "x" * 400)
    )  # fmt: skip
    fields = parser.split(text)
    assert fields["not_understood"] == "2"
    assert fields["sample_1"].endswith("a message of the future")
    assert len(fields["sample_2"]) == 300
    assert "sample_3" not in fields


# --- records of several lines ---------------------------------------------------------------------


def test_trace(parser: Parser) -> None:
    row = parser.one(
        line(FAILED, GRAPH)
        + "org.apache.flink.util.SerializedThrowable: java.lang.Exception: outer\n"
        "\tat org.apache.flink.runtime.X.y(X.java:1)\n"
        "\tat com.acme.Outer.map(Outer.java:3)\n"
        "\tSuppressed: java.io.IOException: while closing\n"
        "\t\tat com.acme.Close.close(Close.java:9)\n"
        "\tCaused by: java.lang.Error: of the suppressed\n"
        "Caused by: org.apache.flink.util.SerializedThrowable: java.sql.SQLException: deep\n"
        "\tat java.base/java.lang.Thread.run(Thread.java:1)\n"
        "\tat app//com.acme.Sink.invoke(Sink.java:12) ~[job.jar:?]\n"
        "\t... 12 more\n"
        "\t[CIRCULAR REFERENCE:java.lang.Exception: outer]\n"
        "Caused by: [CIRCULAR REFERENCE: java.lang.Exception: outer]\n"
        + line("Caused by: nothing", "org.example.Other")
    )
    assert row["cause"] == "java.sql.SQLException: deep"
    assert row["fields"] == {
        "exception": "java.lang.Exception: outer",
        "user_frame": "com.acme.Sink.invoke(Sink.java:12)",
        "own_frame": "com.acme.Sink.invoke(Sink.java:12)",
    }


def test_a_cause_that_a_suppressed_exception_shares(parser: Parser) -> None:
    row = parser.one(
        line(FAILED, GRAPH)
        + "java.io.IOException: cannot send\n\tat a.b.C.d(C.java:1)\n"
        + "\tSuppressed: java.io.IOException: cannot send\n\t\tat a.b.C.e(C.java:1)\n"
        + "\tCaused by: a.b.FencedException: old epoch\n"
        + "Caused by: [CIRCULAR REFERENCE: a.b.FencedException: old epoch]\n"
    )
    assert row["cause"] == "a.b.FencedException: old epoch"


def test_root_cause_first(parser: Parser) -> None:
    row = parser.one(
        line(FAILED, GRAPH)
        + "java.io.IOException: root\n\tat a.b.C.d(C.java:1)\n"
        + "Wrapped by: java.lang.RuntimeException: outer\n\tat a.b.C.e(C.java:2)\n"
    )
    assert row["cause"] == row["fields"]["exception"] == "java.io.IOException: root"


def test_trace_is_limited(parser: Parser) -> None:
    frames = "\tat a.b.C.d(C.java:1)\n" * 600
    text = line(FAILED, GRAPH) + "x.YException: " + "m" * 900 + "\n" + frames
    row = parser.one(text + "Caused by: java.lang.Error: too deep\n")
    assert len(row["cause"]) == 500
    assert row["cause"].startswith("x.YException: mmm")


def test_transition_without_trace(parser: Parser) -> None:
    rows = parser.events(line(RUNNING, GRAPH) + line("java.lang.Exception: x", "org.example.A"))
    assert [row.get("cause") for row in rows] == [None]


def test_records_of_json(parser: Parser) -> None:
    record = {
        "@timestamp": "2018-11-29T10:43:04.624Z",
        "log.level": "INFO",
        "message": FAILED,
        "process.thread.name": "main",
        "log.logger": GRAPH,
        "error.stack_trace": "x.YException: y\n\tat a.B.c(B.java:1)\nCaused by: a.ZError: z\n",
    }
    row = parser.one(json.dumps(record) + "\n")
    assert (row["utc_us"], row["thread"], row["cause"]) == (1543488184624000, "main", "a.ZError: z")


def test_dump_of_statistics(parser: Parser) -> None:
    dump = {
        "className": "completed",
        "id": 5,
        "status": "COMPLETED",
        "is_savepoint": False,
        "trigger_timestamp": 1543488184622,
        "latest_ack_timestamp": 1543488184722,
        "state_size": 10,
        "end_to_end_duration": 100,
        "num_subtasks": 2,
        "num_acknowledged_subtasks": 2,
        "checkpoint_type": "CHECKPOINT",
        "tasks": {},
    }
    text = line(
        f"CheckpointStatistics (for jobID={JOB}, checkpointId=5) dump = {json.dumps(dump)} ",
        f"{PACKAGE}.checkpoint.CheckpointStatsTracker",
        "DEBUG",
    )
    status = [row for row in parser.events(text) if row["event"] == "checkpoint_status"]
    assert status[0]["checkpoint"] == 5
    assert status[0]["offset"] == 0
    assert not any("dump" in row.get("fields", {}) for row in parser.events(text))


def test_metrics_report(parser: Parser) -> None:
    name = "worker-3.taskmanager.tm-1.words.Map.0.busyTimeMsPerSecond"
    reporter = "org.apache.flink.metrics.slf4j.Slf4jReporter"
    report = (
        line("", reporter) + "=========================== Starting metrics report ====\n\n"
        f"-- Gauges ----\n{name}: 700\n"
    )
    done = "\n=========================== Finished metrics report ====\n"
    for text in (report + done, report):  # the second record was cut by a crash
        rows = parser.events(text + line(TRIGGER))
        metrics = [row for row in rows if row["event"] == "metric"]
        assert [row["metric"]["last"] for row in metrics] == [700.0]
        assert metrics[0]["local_us"] == 1543516984624000
        assert rows[-1]["event"] == "checkpoint_triggered" or rows[0]["event"] != "metric"


def test_sections_of_aggregated_logs(parser: Parser) -> None:
    text = (
        "Container: container_e05_1_0001_01_000002 on worker-3.example_45454\n"
        "=======\nLogType:taskmanager.log\nLogLength:10\nLogContents:\n"
        f"{line(TRIGGER)}\nEnd of LogType:taskmanager.log\n"
        "Container: container_e05_1_0001_01_000003 on worker-4:8041\n"
        "LogType: taskmanager.err\nLog Contents:\n"
        "End of LogType: taskmanager.err. This log file belongs to a running container.\n"
        "==> logs/jobmanager.log <==\n"
    )
    rows = [row for row in parser.events(text) if row["event"] == Event.SECTION]
    assert [(r.get("process"), r.get("host"), r.get("fields")) for r in rows] == [
        ("container_e05_1_0001_01_000002", "worker-3.example", None),
        (None, None, {"file": "taskmanager.log"}),
        (None, None, {"ended": "taskmanager.log"}),
        ("container_e05_1_0001_01_000003", "worker-4", None),
        (None, None, {"file": "taskmanager.err"}),
        (None, None, {"ended": "taskmanager.err"}),
        ("logs/jobmanager.log", None, {"file": "logs/jobmanager.log"}),
    ]


# --- bad input ------------------------------------------------------------------------------------


def test_a_damaged_archive_gives_its_readable_part(tmp_path: Path) -> None:
    path = tmp_path / "x.log.gz"
    whole = gzip.compress((line(TRIGGER) * 5000).encode(), mtime=0)
    path.write_bytes(whole[: len(whole) // 2])
    (found,) = discover([str(path)]).sources
    rows = tidy(parse_split(Split(found, 0, -1)))
    assert len(rows) > 100
    assert rows[-1]["event"] == Event.SPLIT
    assert rows[-1]["fields"]["error"]


def test_a_missing_file_is_an_error_in_the_row(tmp_path: Path) -> None:
    rows = tidy(parse_split(Split(source(tmp_path / "gone.log"), 0, -1)))
    assert [row["event"] for row in rows] == [Event.SPLIT]
    assert "no such file" in rows[0]["fields"]["error"].lower()


def test_a_response_that_is_not_json_is_an_error_in_the_row(tmp_path: Path) -> None:
    path = tmp_path / "checkpoints.json"
    path.write_text('{"counts": ')
    rows = tidy(parse_split(Split(source(path, kind="rest"), 0, -1)))
    assert [row["event"] for row in rows] == [Event.SPLIT]
    assert rows[0]["fields"]["error"]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\n",
        b"\0" * 10_000,
        bytes(range(256)) * 50,
        b"\xff\xfe" + TRIGGER.encode(),
        line(TRIGGER).encode().replace(b"224", b"9" * 400),
        line("{" * 50_000 + TRIGGER).encode(),
        ('{"log":' * 5000 + TRIGGER + "\n").encode(),
        ('{"a":[' * 20_000 + f'"{TRIGGER}"\n').encode(),
    ],
)
def test_invalid_bytes_are_harmless(parser: Parser, data: bytes) -> None:
    fields = parser.split(data)
    assert "error" not in fields


HOSTILE = [
    STAMP + " " * 20_000 + TRIGGER,
    STAMP + " INFO " + "[" * 20_000 + TRIGGER,
    STAMP + " INFO " + "[a" * 10_000 + TRIGGER,
    STAMP + " INFO " + "a." * 10_000 + TRIGGER,
    STAMP + " INFO " + "a " * 10_000 + TRIGGER,
    STAMP + " INFO | " + " " * 20_000 + TRIGGER,
    STAMP + " x" * 10_000 + " INFO " + TRIGGER,
    STAMP + "\t" * 20_000 + TRIGGER,
    "> " * 20_000 + TRIGGER,
    "INFO " * 4_000 + TRIGGER,
    (STAMP + " ") * 1000 + TRIGGER,
    "[INFO] " * 4_000 + TRIGGER,
    "\x1b[" * 10_000 + TRIGGER,
    "\x1b]" * 10_000 + TRIGGER,
    "a | " * 5_000 + TRIGGER,
    STAMP + " - " + "->" * 10_000 + TRIGGER,
    STAMP + " {" + "pod=" * 5_000 + TRIGGER,
    TRIGGER * 300,
    STAMP + " INFO " + "CheckpointCoordinator " * 1000 + TRIGGER,
    line(RUNNING * 200, GRAPH),
    line("x (1/2) (" * 3000 + RUNNING, GRAPH),
    "a.b." * 5_000 + "Task " + RUNNING,
    "-[" * 5_000 + RUNNING,
    "CheckpointCoordinator.x(" * 1_000 + RUNNING,
    'msg="' * 3_000 + RUNNING,
    STAMP + " " + "2018-11-29 " * 1_000 + RUNNING,
    "1543488224622 " * 2_000 + RUNNING,
    "pod container " * 2_000 + RUNNING,
    STAMP + " INFO x [" + "y z " * 5_000 + RUNNING + "]",
]


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_lines_take_linear_time(parser: Parser, text: str) -> None:
    started = time.process_time()
    parser.rows(text + "\n")
    # Milliseconds if linear, minutes if a pattern backtracks.
    assert time.process_time() - started < 2


def test_a_line_of_a_hundred_megabytes(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    with path.open("wb") as file:
        file.write(line(TRIGGER).encode())
        for _ in range(100):
            file.write(b"x" * 1_000_000)
        file.write(b"\n" + line(EXPIRED).encode())
    rows = tidy(parse_split(Split(source(path), 0, -1)))
    assert [row["event"] for row in rows] == [
        "checkpoint_triggered",
        "checkpoint_expired",
        "split",
    ]
    assert int(rows[-1]["fields"]["bytes"]) == path.stat().st_size


def test_a_long_record_is_cut_and_counted(parser: Parser, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "LINE_BYTES", 1_000_000)
    fields = parser.split(line(TRIGGER + "x" * 2_000_000) + line(EXPIRED))
    assert fields["truncated_lines"] == "1"
    assert fields["recognised"] == "2"


def test_stack_of_a_stuck_task(parser: Parser) -> None:
    row = parser.one(
        line(
            "Task 'Map (1/2)#0' did not react to cancelling signal - interrupting; "
            "it is stuck for 30 seconds in method:",
            f"{PACKAGE}.taskmanager.Task",
            "WARN",
        )
        + " java.base@17.0.1/java.lang.Thread.sleep(Native Method)\n"
        + "org.apache.flink.streaming.api.operators.StreamMap.processElement(StreamMap.java:38)\n"
        + "app//com.acme.Slow.map(Slow.java:17)\n"
        + "com.acme.Outer.call(Outer.java:3)\n\n"
        + line(RUNNING, "org.example.Other")
    )
    assert (row["event"], row["task"]) == ("task_stuck", "Map")
    assert row["fields"]["user_frame"] == "com.acme.Slow.map(Slow.java:17)"


@pytest.mark.parametrize("message", ["Error from SDK harness: ", "Failed to create bundle!\n"])
def test_the_python_error_that_a_java_exception_quotes_is_the_cause(
    parser: Parser, message: str
) -> None:
    text = line(FAILED, logger=GRAPH) + (
        f"java.lang.RuntimeException: {message}Traceback (most recent call last):\n"
        '  File "/opt/app/job.py", line 22, in parse\n'
        "    return int(value['amount'])\n"
        "KeyError: 'amount'\n"
        "\n"
        "\tat org.apache.beam.runners.fnexecution.control.FnApiControlClient.onNext(FnApiControlClient.java:180)\n"
    )
    assert parser.one(text)["cause"] == "KeyError: 'amount'"


YARN = "org.apache.flink.yarn.YarnResourceManagerDriver"
ENDED = (
    "Worker container_1_000002(worker-3:8041) is terminated. Diagnostics: "
    "Container container_1_000002(worker-3:8041) marked as failed."
)


@pytest.mark.parametrize(
    ("below", "event"),
    [
        (" Exit code:-104.\n Diagnostics:[x]Container is running 4096B beyond the 'PHYSICAL' memory limit.\n", "resource_failure"),
        (" Exit code:1.\n Diagnostics:[x]Exception from container-launch.\n", "taskmanager_lost"),
        ("", "taskmanager_lost"),
    ],
)  # fmt: skip
def test_diagnostics_below_the_line_of_a_worker(parser: Parser, below: str, event: str) -> None:
    row = parser.one(line(ENDED, logger=YARN) + below)
    assert (row["event"], row["taskmanager"]) == (event, "container_1_000002")
