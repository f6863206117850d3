"""Metrics of Flink's Prometheus reporter: names, labels, times, and values that are not samples."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any, cast

import pytest

from flowdiag.parsers.discover import discover
from flowdiag.parsers.flink.metric_table import known_metrics
from flowdiag.parsers.flink.prometheus import mangle, named_metric
from flowdiag.parsers.split import parse_on_driver, plan_splits
from tests.archives import unpacked

Row = dict[str, Any]
COLLECTED = Path(__file__).parents[2] / "fixtures" / "recordings" / "collected"
LABELS = (
    'job_id="0123456789abcdef0123456789abcdef",task_id="9c32e3838cee893dbb2fc90ccad79598",'
    'task_attempt_id="a_9c32_0_1",host="w_1",task_name="enrich",task_attempt_num="1",job_name="orders",'
    'tm_id="tm_1",subtask_index="0",'
)
BUSY = "flink_taskmanager_job_task_busyTimeMsPerSecond"


def read(folder: Path, text: str, name: str = "metrics.txt") -> list[Row]:
    (folder / name).write_text(text)
    found = discover([str(folder / name)])
    assert [source.kind for source in found.sources] == ["prometheus"]
    return cast(list[Row], parse_on_driver(plan_splits(found.sources)).to_pylist())


def samples(rows: list[Row]) -> list[Row]:
    return [row for row in rows if row["event"] == "metric"]


def split_of(rows: list[Row]) -> dict[str, str]:
    return dict(next(row["fields"] for row in rows if row["event"] == "split"))


@pytest.mark.parametrize("version", ["1.20.5", "2.3.0"])
def test_recorded_scrapes_show_the_busy_subtasks(version: str) -> None:
    recording = COLLECTED / f"{version}-hot-key"
    truth = json.loads((recording / "truth.json").read_text())["expected"]["culprit"]
    rows = parse_on_driver(
        plan_splits(discover([str(unpacked(recording) / "prometheus")]).sources)
    ).to_pylist()
    assert all("error" not in dict(r["fields"]) for r in rows if r["event"] == "split")
    busy = [row for row in samples(rows) if row["metric"]["name"] == "busyTimeMsPerSecond"]
    assert len({(row["vertex_id"], row["subtask_index"]) for row in busy}) == 14
    top = max(busy, key=lambda row: row["metric"]["sum"] or 0.0)
    assert (top["task"], top["subtask_index"]) == (truth["task"], truth["subtask_index"])
    assert top["taskmanager"] == mangle(truth["taskmanager"])
    assert all(row["utc_us"] for row in busy)  # from the file names
    placed = [row for row in rows if row["event"] == "placed"]
    assert len({(row["vertex_id"], row["subtask_index"]) for row in placed}) == 14
    # A missing watermark is not a sample.
    marks = [row for row in samples(rows) if row["metric"]["name"] == "currentInputWatermark"]
    assert marks and all(row["metric"]["count"] == 0 for row in marks)


def test_every_known_metric_is_found_by_its_mangled_name() -> None:
    scopes = {
        "task": "taskmanager_job_task",
        "task-or-operator": "taskmanager_job_task",
        "operator": "taskmanager_job_task_operator",
        "process": "taskmanager",
        "jm-job": "jobmanager_job",
        "jm": "jobmanager",
    }
    for metric in known_metrics().values():
        name = metric.name.replace("#", "7")
        if name.startswith("split.*"):  # the name of the split is a label
            found = named_metric(f"flink_{scopes[metric.scope]}_{mangle(name.replace('.*', ''))}")
            assert found is not None and found.metric == metric
            continue
        name = name.replace("*", "G1_Young_Generation")
        found = named_metric(f"flink_{scopes[metric.scope]}_{mangle(name)}")
        assert found is not None, metric.name
        assert (found.metric, found.name) == (metric, name)


def test_a_scrape_loop_with_times_gives_a_row_per_minute(tmp_path: Path) -> None:
    text = "".join(
        f"{when}\n# TYPE {BUSY} gauge\n{BUSY}{{{LABELS}}} {value}\n"
        for when, value in (
            ("2026-11-21T02:15:00Z", 100),
            ("1795227330", 300),
            ("Sat Nov 21 02:16:10 UTC 2026", 500),
        )
    )
    rows = samples(read(tmp_path, text))
    assert [row["utc_us"] for row in rows] == [1_795_227_300_000_000, 1_795_227_370_000_000]
    assert [row["metric"]["sum"] for row in rows] == [400, 500]
    assert rows[0]["duration_ms"] == 30_000
    assert rows[0]["attempt"] == 1 and rows[0]["attempt_id"] == "a_9c32_0_1"


def test_samples_with_time_stamps(tmp_path: Path) -> None:
    text = (
        f"# TYPE {BUSY} gauge\n{BUSY}{{{LABELS}}} 1 1795227300123\n"
        f'{BUSY}{{{LABELS.replace("enrich", "other")}}} 2 1795227300.5 # {{trace_id="x}}y"}} 1\n# EOF\n'
    )
    first, second = samples(read(tmp_path, text))
    assert (first["utc_us"], second["utc_us"]) == (1_795_227_300_123_000, 1_795_227_300_500_000)
    assert second["metric"]["sum"] == 2


def test_without_any_time_rows_have_none(tmp_path: Path) -> None:
    (row,) = samples(read(tmp_path, f"{BUSY}{{{LABELS}}} 1\n{BUSY}{{{LABELS}}} 2\n"))
    assert row["utc_us"] is None and row["local_us"] is None and row["metric"]["count"] == 2


def test_nan_and_all_zero_shares_are_ignored(tmp_path: Path) -> None:
    idle, pressed = (BUSY.replace("busy", name) for name in ("idle", "backPressured"))
    other = LABELS.replace('subtask_index="0"', 'subtask_index="1"')
    text = (
        f"{BUSY}{{{LABELS}}} 0.0\n{idle}{{{LABELS}}} 0.0\n{pressed}{{{LABELS}}} 0.0\n"
        f"{BUSY}{{{other}}} NaN\n{idle}{{{other}}} 0.0\n{pressed}{{{other}}} 900\n"
    )
    counts = {
        (row["subtask_index"], row["metric"]["name"]): row["metric"]["count"]
        for row in samples(read(tmp_path, text))
    }
    assert set(counts.values()) == {0, 1}
    assert [name for (index, name), count in counts.items() if index == 0 and count] == []
    assert counts[1, "busyTimeMsPerSecond"] == 0
    assert counts[1, "idleTimeMsPerSecond"] == counts[1, "backPressuredTimeMsPerSecond"] == 1


def test_a_restarted_counter_keeps_its_increase(tmp_path: Path) -> None:
    name = "flink_taskmanager_job_task_numRecordsIn"
    rows = samples(read(tmp_path, "".join(f"{name}{{{LABELS}}} {n}\n" for n in (10, 50, 5, 25))))
    assert [(row["metric"]["first"], row["metric"]["last"]) for row in rows] == [(10, 50), (5, 25)]


def test_escaped_labels_foreign_metrics_and_damage(tmp_path: Path) -> None:
    text = (
        '# TYPE up gauge\nup{instance="x"} 1\njvm_threads 5\n'
        + BUSY
        + '{task_name="a \\"b\\" {c} \\\\",subtask_index="3",exported_host="h",tm_id="t"} 7\n'
        + f"flink_taskmanager_job_task_operator_mine_numRecordsIn{{{LABELS}}} 9\n"
        + '{"flink.taskmanager.job.task.idleTimeMsPerSecond",task_name="z",subtask_index="1"} 4\n'
        + f'{BUSY}{{task_name="cut\n'
    )
    rows = read(tmp_path, text)
    busy, idle = samples(rows)
    assert (busy["task"], busy["subtask_index"], busy["host"]) == ('a "b" {c} \\', 3, "h")
    assert (idle["task"], idle["metric"]["name"]) == ("z", "idleTimeMsPerSecond")
    counts = split_of(rows)
    assert counts["not_understood"] == "1" and counts["sample_1"].endswith("cut")


@pytest.mark.parametrize(
    ("body", "kind", "reason"),
    [
        ({"status": "success", "data": {"resultType": "matrix", "result": [
            {"metric": {"__name__": BUSY, "task_name": "a", "subtask_index": "0"},
             "values": [[1795227300, "5"], [1795227315.5, "NaN"], [1795227390, "7"]]}]}}, "prometheus", None),
        ({"status": "success", "data": {"resultType": "vector", "result": [
            {"metric": {"__name__": BUSY, "task_name": "a", "subtask_index": "0"},
             "value": [1795227300, "5"]}]}}, "prometheus", None),
        ({"metric": {"__name__": BUSY, "task_name": "a", "subtask_index": "0"},
          "values": [5, 7], "timestamps": [1795227300000, 1795227390000]}, "prometheus", None),
        ({"status": "success", "data": {"resultType": "matrix", "result": []}}, "not-read", "without any series"),
        ({"status": "success", "data": {"resultType": "vector", "result": [
            {"metric": {"task_name": "a"}, "value": [1795227300, "5"]}]}}, "not-read", "without metric names"),
        ({"status": "success", "data": {"resultType": "vector", "result": [
            {"metric": {"__name__": "up"}, "value": [1795227300, "1"]}]}}, "not-read", "without Flink metrics"),
    ],
)  # fmt: skip
def test_saved_answers(tmp_path: Path, body: Any, kind: str, reason: str | None) -> None:
    (tmp_path / "a.json").write_text(json.dumps(body))
    found = discover([str(tmp_path / "a.json")])
    (source,) = found.sources
    assert source.kind == kind
    if reason is not None:
        assert source.reason is not None and reason in source.reason
        return
    rows = samples(parse_on_driver(plan_splits(found.sources)).to_pylist())
    assert rows[0]["utc_us"] == 1_795_227_300_000_000 and rows[0]["metric"]["sum"] == 5
    assert len(rows) == (1 if "vector" in json.dumps(body) else 2)


def test_exported_lines_and_a_truncated_response(tmp_path: Path) -> None:
    line = json.dumps(
        {
            "metric": {"__name__": BUSY, "task_name": "a", "subtask_index": "0"},
            "values": [5],
            "timestamps": [1795227300000],
        }
    )
    rows = read(tmp_path, f"{line}\n{line.replace('0', '1', 1)}\n", "export.jsonl")
    assert len(samples(rows)) == 2
    whole = json.dumps(
        {"status": "success", "data": {"resultType": "matrix", "result": [json.loads(line)] * 9}}
    )
    rows = read(tmp_path, whole[:-40], "cut.json")
    assert split_of(rows)["error"] == "the JSON is damaged or cut off"


def test_logs_that_mention_metrics_are_logs(tmp_path: Path) -> None:
    (tmp_path / "x.log").write_text(
        "2026-11-21 02:15:00,000 INFO  org.apache.flink.runtime.checkpoint.CheckpointCoordinator [] - "
        "Triggering checkpoint 1 @ 1795227300000 for job 0123456789abcdef0123456789abcdef.\n"
        f'2026-11-21 02:15:01,000 INFO  org.example.X [] - {BUSY}{{a="b"}} 1\n' * 3
    )
    assert [source.kind for source in discover([str(tmp_path)]).sources] == ["log"]


def test_gzip_and_several_processes_in_one_file(tmp_path: Path) -> None:
    scrapes = sorted((unpacked(COLLECTED / "1.20.5-hot-key") / "prometheus").glob("*"))[:2]
    whole = b"".join(path.read_bytes() for path in scrapes)
    (tmp_path / "all.gz").write_bytes(gzip.compress(whole))
    found = discover([str(tmp_path)])
    assert [source.kind for source in found.sources] == ["prometheus"]
    assert samples(parse_on_driver(plan_splits(found.sources)).to_pylist())
