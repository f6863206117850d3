"""Metrics reports of every shape, folded into rows."""

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from flowdiag.parsers.flink.metric_reports import MetricFolder
from flowdiag.parsers.flink.metric_table import known_metrics

HEADER = "=========================== Starting metrics report ==========================="
FOOTER = "=========================== Finished metrics report ==========================="


def parse_block(lines: Iterable[str], *, local_us: int | None = None) -> list[dict[str, Any]]:
    folder = MetricFolder(0)
    encoded = (line.encode() for line in lines)
    batches = folder.add_block(encoded, offset=0, local_us=local_us)
    return [row for batch in (*batches, *folder.flush()) for row in batch.to_pylist()]


def report(
    *,
    counters: Iterable[str] = (),
    gauges: Iterable[str] = (),
    meters: Iterable[str] = (),
    histograms: Iterable[str] = (),
    padded: bool = True,
) -> list[str]:
    """Return a report as Slf4jReporter prints it (padded and complete: up to Flink 1.16)."""
    lines = [HEADER, ""]
    sections = {
        "Counters": counters,
        "Gauges": gauges,
        "Meters": meters,
        "Histograms": histograms,
    }
    for name, body in sections.items():
        body = list(body)
        if not body and not padded:
            continue
        dashes = 76 - len(name) if padded else 69
        lines += [f"-- {name} " + "-" * dashes, *body, ""]
    return [*lines, FOOTER]


def by_name(rows: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    metrics = [row for row in rows if row["event"] == "metric"]
    return {row["metric"]["name"]: row for row in metrics}


TM = "tm1.taskmanager.0a1b2c"
TASK = f"{TM}.Word Count.Source: lines -> Split.1"


def test_a_task_metric_has_a_place() -> None:
    row = by_name(parse_block(report(gauges=[f"{TASK}.busyTimeMsPerSecond: 250"])))[
        "busyTimeMsPerSecond"
    ]
    assert (row["host"], row["taskmanager"]) == ("tm1", "0a1b2c")
    assert (row["job_name"], row["task"]) == ("Word Count", "Source: lines -> Split")
    assert row["subtask_index"] == 1
    metric = row["metric"]
    assert metric == {
        "name": "busyTimeMsPerSecond",
        "kind": "gauge",
        "scope": "task",
        "operator": None,
        "count": 1,
        "first": 250.0,
        "last": 250.0,
        "min": 250.0,
        "max": 250.0,
        "sum": 250.0,
    }


def test_a_subtask_is_placed_once() -> None:
    folder = MetricFolder(3)
    lines = [
        line.encode()
        for line in report(
            gauges=[f"{TASK}.busyTimeMsPerSecond: 1", f"{TASK}.idleTimeMsPerSecond: 2"]
        )
    ]
    for minute in range(3):
        folder.add_block(lines, offset=minute, local_us=minute * 60_000_000)
    rows = [row for batch in folder.flush() for row in batch.to_pylist()]
    assert [row["event"] for row in rows] == ["metric", "metric"]
    first = MetricFolder(3)
    first.add_block(lines, offset=7, local_us=5)
    placed = [
        row for batch in first.flush() for row in batch.to_pylist() if row["event"] == "placed"
    ]
    assert [(row["task"], row["subtask_index"], row["offset"]) for row in placed] == [
        ("Source: lines -> Split", 1, 7)
    ]


def test_samples_are_folded_per_minute() -> None:
    folder = MetricFolder(0)
    batches = []
    for second, value in ((5, 3), (25, 9), (45, 6), (65, 1)):
        lines = report(counters=[f"{TASK}.numRecordsIn: {value}"])
        batches += folder.add_block(
            [line.encode() for line in lines], offset=second, local_us=second * 1_000_000
        )
    rows = [row for batch in (*batches, *folder.flush()) for row in batch.to_pylist()]
    folded = [row["metric"] for row in rows if row["event"] == "metric"]
    assert [(m["count"], m["first"], m["last"], m["min"], m["max"], m["sum"]) for m in folded] == [
        (3, 3.0, 6.0, 3.0, 9.0, 18.0),
        (1, 1.0, 1.0, 1.0, 1.0, 1.0),
    ]
    metrics = [row for row in rows if row["event"] == "metric"]
    assert [(row["local_us"], row["duration_ms"], row["offset"]) for row in metrics] == [
        (5_000_000, 40_000, 5),
        (65_000_000, 0, 65),
    ]


@pytest.mark.parametrize("lines_alone", [False, True])
def test_the_samples_of_a_job_that_ends_within_a_minute_have_their_own_time(
    lines_alone: bool,
) -> None:
    folder = MetricFolder(0)
    for second in (1, 11, 21, 31, 41):
        of_task = [f"{TASK}.numRecordsIn: {second}"] if 11 <= second < 31 else []
        of_task += [f"{TASK}.numBytesOut: 3"] if second in (21, 41) else []
        block = report(counters=[f"{TM}.Status.JVM.CPU.Load: 1", *of_task])
        lines = [line.encode() for line in block]
        folder.add_block(
            iter(lines) if lines_alone else lines, offset=second, local_us=second * 1_000_000
        )
    rows = by_name([row for batch in folder.flush() for row in batch.to_pylist()])
    times = {name: (row["local_us"] // 1_000_000, row["duration_ms"]) for name, row in rows.items()}
    assert times == {
        "Status.JVM.CPU.Load": (1, 40_000),
        "numRecordsIn": (11, 10_000),
        "numBytesOut": (21, 20_000),
    }


def test_task_metrics_distinguish_tasks_from_operators() -> None:
    rows = parse_block(
        report(
            counters=[
                f"{TM}.Job.Source: a -> (Map, Sink: b).0.numRecordsOut: 4",
                f"{TM}.Job.Source: a.0.numRecordsOut: 2",
                f"{TM}.Job.Map.0.numRecordsOut: 1",
                f"{TM}.Job.Sink: b.0.numRecordsOut: 0",
            ],
            gauges=[f"{TM}.Job.Source: a -> (Map, Sink: b).0.buffers.inPoolUsage: 0.5"],
        )
    )
    scopes = {
        (row["metric"]["scope"], row["metric"]["operator"], row["task"])
        for row in rows
        if row["event"] == "metric"
    }
    task = "Source: a -> (Map, Sink: b)"
    assert scopes == {
        ("task", None, task),
        ("operator", "Source: a", task),
        ("operator", "Map", task),
        ("operator", "Sink: b", task),
    }


def test_a_task_with_one_operator_repeats_identifiers() -> None:
    folder = MetricFolder(0)
    for second, (one, two) in enumerate([(0, 70), (90, 0), (0, 110)]):
        lines = report(
            counters=[
                f"{TM}.Job.Map.1.numBytesIn: {one}",
                f"{TM}.Job.Map.1.numBytesIn: {two}",
                f"{TM}.Job.Map.1.numBuffersOut: 1",
            ]
        )
        folder.add_block([line.encode() for line in lines], offset=0, local_us=second)
    row = by_name([row for batch in folder.flush() for row in batch.to_pylist()])["numBytesIn"]
    metric = row["metric"]
    assert (metric["count"], metric["first"], metric["min"], metric["last"]) == (3, 70, 70, 110)
    assert metric["scope"] == "task"


def test_process_metrics_resolve_dots_in_host_and_id() -> None:
    scope = "node-3.example.org.taskmanager.10.1.2.3:41117-9f8e7d"
    rows = by_name(
        parse_block(
            report(
                counters=[f"{scope}.Job.Map.2.numRecordsIn: 7"],
                gauges=[
                    f"{scope}.Status.JVM.CPU.Load: 0.25",
                    f"{scope}.Job.Map.2.checkpointAlignmentTime: 12",
                ],
            )
        )
    )
    for name in ("numRecordsIn", "Status.JVM.CPU.Load", "checkpointAlignmentTime"):
        assert rows[name]["host"] == "node-3.example.org"
        assert rows[name]["taskmanager"] == "10.1.2.3:41117-9f8e7d"
    assert rows["numRecordsIn"]["job_name"] == "Job"
    assert rows["numRecordsIn"]["task"] == "Map"


def test_common_prefixes_resolve_dots_in_the_job_name() -> None:
    job = "insert-into_default_catalog.default_database.sink"
    rows = parse_block(
        report(
            gauges=[
                f"{TM}.{job}.Source: a.b.0.checkpointAlignmentTime: 1",
                f"{TM}.{job}.Calc(x=[1.5]).3.checkpointAlignmentTime: 1",
            ]
        )
    )
    assert {
        (row["job_name"], row["task"], row["subtask_index"])
        for row in rows
        if row["event"] == "metric"
    } == {(job, "Source: a.b", 0), (job, "Calc(x=[1.5])", 3)}


def test_two_jobs_in_one_taskmanager() -> None:
    rows = parse_block(
        report(
            gauges=[
                f"{TM}.one.Map.0.checkpointAlignmentTime: 1",
                f"{TM}.two.Map v1.2.0.checkpointAlignmentTime: 1",
                f"{TM}.two.Sink.0.checkpointAlignmentTime: 1",
            ]
        )
    )
    assert {(row["job_name"], row["task"]) for row in rows if row["event"] == "metric"} == {
        ("one", "Map"),
        ("two", "Map v1.2"),
        ("two", "Sink"),
    }


def test_series_without_samples_have_count_zero() -> None:
    rows = by_name(
        parse_block(
            report(
                gauges=[
                    f"{TASK}.busyTimeMsPerSecond: NaN",
                    f"{TASK}.currentInputWatermark: -9223372036854775808",
                    f"{TASK}.isBackPressured: true",
                    "jm.jobmanager.Job.lastCheckpointDuration: -1",
                    "jm.jobmanager.Job.lastCheckpointExternalPath: n/a",
                    "jm.jobmanager.Job.numRestarts: 0",
                ]
            )
        )
    )
    assert rows["busyTimeMsPerSecond"]["metric"]["count"] == 0
    assert rows["currentInputWatermark"]["metric"]["max"] is None
    assert rows["isBackPressured"]["metric"]["last"] == 1.0
    assert rows["lastCheckpointDuration"]["metric"]["count"] == 0
    assert rows["numRestarts"]["metric"]["count"] == 1
    assert "lastCheckpointExternalPath" not in rows


def test_scopes_of_a_jobmanager() -> None:
    rows = by_name(
        parse_block(
            report(
                gauges=[
                    "jm.example.org.jobmanager.Status.JVM.CPU.Load: 0.5",
                    "jm.example.org.jobmanager.taskSlotsTotal: 6",
                    "jm.example.org.jobmanager.My job v1.2.numberOfFailedCheckpoints: 3",
                ]
            )
        )
    )
    assert rows["Status.JVM.CPU.Load"]["metric"]["scope"] == "jm"
    assert rows["taskSlotsTotal"]["host"] == "jm.example.org"
    failed = rows["numberOfFailedCheckpoints"]
    assert failed["metric"]["scope"] == "jm-job"
    assert failed["job_name"] == "My job v1.2"


def test_names_with_a_number_or_a_collector_in_them() -> None:
    rows = by_name(
        parse_block(
            report(
                gauges=[
                    f"{TM}.Status.JVM.GarbageCollector.G1 Young Generation.Time: 12",
                    f"{TASK}.Shuffle.Netty.Input.0.debloatedBufferSize: 32768",
                    f"{TM}.Word Count.Co-Map.1.currentInput2Watermark: 5",
                ]
            )
        )
    )
    assert rows["Status.JVM.GarbageCollector.G1 Young Generation.Time"]["taskmanager"] == "0a1b2c"
    assert rows["Shuffle.Netty.Input.0.debloatedBufferSize"]["subtask_index"] == 1
    assert rows["currentInput2Watermark"]["metric"]["scope"] == "operator"


def test_unknown_metrics_and_users_groups_are_skipped() -> None:
    assert (
        parse_block(
            report(
                counters=[
                    f"{TASK}.records-lag-max: 3",
                    f"{TASK}.KafkaConsumer.numRecordsIn: 3",
                    f"{TASK}.uptime: 3",
                    "anything: else: 4",
                    "no separator",
                ]
            )
        )
        == []
    )


def test_histograms_become_one_row_per_quantity() -> None:
    text = "count=3, min=1, max=9, mean=4.5, stddev=2.0, p50=4.0, p75=5.0, p95=8.0, p98=8.5, "
    rows = by_name(
        parse_block(report(histograms=[f"{TASK}.mailboxLatencyMs: {text}p99=8.9, p999=9.0"]))
    )
    assert {name: row["metric"]["last"] for name, row in rows.items()} == {
        "mailboxLatencyMs.max": 9.0,
        "mailboxLatencyMs.mean": 4.5,
        "mailboxLatencyMs.p50": 4.0,
        "mailboxLatencyMs.p99": 8.9,
    }
    assert {row["metric"]["kind"] for row in rows.values()} == {"histogram"}


def test_the_sections_of_later_versions() -> None:
    lines = report(
        counters=[f"{TASK}.numRecordsIn: 4"], meters=[f"{TASK}.numRecordsInPerSecond: 0.4"]
    )
    short = report(
        counters=[f"{TASK}.numRecordsIn: 4"],
        meters=[f"{TASK}.numRecordsInPerSecond: 0.4"],
        padded=False,
    )
    assert lines != short
    assert parse_block(lines) == parse_block(short)
    assert {row["metric"]["kind"] for row in parse_block(short) if row["event"] == "metric"} == {
        "counter",
        "meter",
    }


def test_reading_stops_after_the_report() -> None:
    lines = iter([*report(counters=[f"{TASK}.numRecordsIn: 4"]), "the next record"])
    assert len(by_name(parse_block(lines))) == 1
    assert next(lines) == "the next record"


def test_a_truncated_report_keeps_its_samples() -> None:
    lines = report(counters=[f"{TASK}.numRecordsIn: 4"])[:-2]
    assert by_name(parse_block(lines))["numRecordsIn"]["metric"]["last"] == 4.0


def test_windows_line_ends() -> None:
    lines = [line + "\r\n" for line in report(gauges=[f"{TASK}.isBackPressured: false"])]
    assert by_name(parse_block(lines))["isBackPressured"]["metric"]["last"] == 0.0


def test_another_delimiter() -> None:
    lines = report(
        counters=["h|taskmanager|t.1|Job|Map|0|numRecordsIn: 1"],
        gauges=[
            "h|taskmanager|t.1|Status|JVM|CPU|Load: 0.5",
            "h|taskmanager|t.1|Job|Map|0|buffers|inPoolUsage: 0.1",
        ],
    )
    rows = by_name(parse_block([*lines[:-1], *lines]))
    assert rows["buffers.inPoolUsage"]["task"] == "Map"
    assert rows["numRecordsIn"]["taskmanager"] == "t_1"


def test_a_configured_scope_format_keeps_the_printed_scope() -> None:
    rows = by_name(parse_block(report(gauges=["flink.Job.Map.3.busyTimeMsPerSecond: 7"])))
    row = rows["busyTimeMsPerSecond"]
    assert row["metric"]["scope"] == "unknown"
    assert row["subtask_index"] == 3
    assert row["fields"] == [("scope", "flink.Job.Map")]


def test_processes_in_one_stream_are_separate() -> None:
    folder = MetricFolder(0)
    for process, value in (("a", 1), ("b", 2), ("a", 3)):
        lines = report(counters=[f"{TASK}.numRecordsIn: {value}"])
        folder.add_block([line.encode() for line in lines], offset=0, local_us=1, process=process)
    rows = [row for batch in folder.flush() for row in batch.to_pylist()]
    assert {(row["process"], row["metric"]["sum"]) for row in rows if row["event"] == "metric"} == {
        ("a", 4.0),
        ("b", 2.0),
    }


def test_the_identifier_cache_is_bounded() -> None:
    folder = MetricFolder(0)
    for block in range(5):
        lines = [b"%d.%d.user: 1" % (block, index) for index in range(60_000)]
        folder.add_block(lines, offset=0, local_us=1)
    (state,) = folder._processes.values()
    assert len(state.appends) < 200_000


def test_the_table_of_metrics() -> None:
    for metric in known_metrics().values():
        assert metric.kind in {"counter", "gauge", "meter", "histogram"}
        assert metric.scope in {"task", "task-or-operator", "operator", "process", "jm-job", "jm"}
        assert metric.unit and metric.versions


names = st.text(
    st.characters(blacklist_categories=("Cs", "Cc"), blacklist_characters="."), min_size=1
)


@settings(max_examples=50, deadline=None)
@given(job=names, task=names, index=st.integers(0, 9999), value=st.floats(allow_nan=False))
def test_names_without_dots_are_restored(job: str, task: str, index: int, value: float) -> None:
    rows = parse_block(report(gauges=[f"{TM}.{job}.{task}.{index}.busyTimeMsPerSecond: {value!r}"]))
    (row,) = (row for row in rows if row["event"] == "metric")
    assert (row["job_name"], row["task"], row["subtask_index"]) == (job, task, index)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.binary(max_size=200)))
def test_any_bytes_are_accepted(lines: list[bytes]) -> None:
    folder = MetricFolder(0)
    folder.add_block(lines, offset=0)
    folder.flush()


VALUES = st.sampled_from(
    ["0", "12", "0.5", "NaN", "true", "n/a", "count=2, mean=1.5, max=3", "a: 7"]
)
NAMES = ("busyTimeMsPerSecond", "numRecordsIn", "isBackPressured", "mailboxLatencyMs", "unheardOf")
LINE = st.tuples(st.sampled_from(("0", "1")), st.sampled_from(NAMES), VALUES)


@given(st.lists(st.lists(LINE, max_size=5), max_size=6), st.booleans())
@example(
    [
        [("0", "busyTimeMsPerSecond", "count=2, mean=1.5")],
        [("0", "busyTimeMsPerSecond", "0")],
        [("0", "busyTimeMsPerSecond", "1")],
    ],
    True,
)
def test_repeated_reports_match_line_by_line_parsing(
    reports: list[list[tuple[str, str, str]]], repeated: bool
) -> None:
    metrics = ("busyTimeMsPerSecond", "numRecordsIn", "mailboxLatencyMs")
    alike, one_by_one = MetricFolder(0, metrics), MetricFolder(0, metrics)
    rows: list[list[dict[str, Any]]] = [[], []]
    for number, lines in enumerate(each for each in reports for _ in range(1 + repeated)):
        body = [f"{TM}.orders.enrich.{index}.{name}: {value}" for index, name, value in lines]
        body.append(f"{TM}.Status.JVM.CPU.Load: 0.{number}")
        block = [line.encode() for line in report(gauges=body)]
        for found, batches in zip(
            rows,
            (
                alike.add_block(block, offset=number, local_us=number * 25_000_000),
                one_by_one.add_block(iter(block), offset=number, local_us=number * 25_000_000),
            ),
            strict=True,
        ):
            found += [row for batch in batches for row in batch.to_pylist()]
    for found, folder in zip(rows, (alike, one_by_one), strict=True):
        found += [row for batch in folder.flush() for row in batch.to_pylist()]
    assert repr(rows[0]) == repr(rows[1])
    assert {row["metric"]["name"].split(".")[0] for row in rows[0] if row["event"] == "metric"} <= {
        *metrics
    }


def test_skipped_metrics_still_reveal_names_and_places() -> None:
    lines = [
        f"{TM}.Status.JVM.CPU.Load: 0.5",
        f"{TM}.Word Count.Source: lines.1.busyTimeMsPerSecond: 3",
        f"{TM}.Word Count.Source: lines.1.numRecordsIn: 8",
    ]
    folder = MetricFolder(0, ["numRecordsIn"])
    folder.add_block([line.encode() for line in report(gauges=lines)], offset=0)
    rows = [row for batch in folder.flush() for row in batch.to_pylist()]
    assert [row["event"] for row in rows] == ["metric", "placed"]
    assert {(row["taskmanager"], row["task"]) for row in rows} == {("0a1b2c", "Source: lines")}
