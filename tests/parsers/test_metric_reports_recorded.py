"""Metrics reports of recorded TaskManagers, compared with the archive of the same run."""

import json
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from flowdiag.parsers.flink.metric_reports import MetricFolder
from tests.archives import unpacked
from tests.parsers.test_rest import rows_of_bytes

RECORDINGS = Path(__file__).parents[2] / "fixtures" / "recordings" / "flink"

Row = dict[str, Any]


def recordings() -> list[Path]:
    """Return the recordings with metrics reports and an archive."""
    return sorted(
        path.parent
        for path in RECORDINGS.glob("*/*/truth.json")
        if not path.parent.name.startswith("no-metrics")
    )


recorded = pytest.mark.parametrize(
    "recording", recordings(), ids=lambda path: f"{path.parent.name}-{path.name}"
)


@cache
def fold(path: Path) -> list[Row]:
    """Return the rows of all reports in a log, minute by minute."""
    folder = MetricFolder(0)
    batches = []
    rest = path.read_bytes()
    while True:
        _, found, rest = rest.partition(b" Starting metrics report ")
        if not found:
            break
        end = rest.find(b" Finished metrics report ")
        block = rest[: end + 100] if end >= 0 else rest
        batches += folder.add_block(
            block.splitlines(), offset=0, local_us=folder.blocks * 10_000_000
        )
    batches += folder.flush()
    return [row for batch in batches for row in batch.to_pylist()]


@cache
def archived(recording: Path, name: str) -> list[Row]:
    job = json.loads((recording / "truth.json").read_text()).get("job", {}).get("job_id")
    return [
        row
        for path in sorted((unpacked(recording) / "archive").iterdir())
        if path.name.startswith(job or "")
        for row in rows_of_bytes(path.read_bytes(), path.name)
        if row["event"] == name
    ]


@recorded
def test_every_subtask_is_placed_where_it_ran(recording: Path) -> None:
    truth = json.loads((recording / "truth.json").read_text())
    placed = archived(recording, "placed")
    if "job" not in truth or any(row.get("attempt") for row in placed):
        pytest.skip("several jobs, or restarted: the archive has the last places only")
    if truth["scenario"] == "jobmanager-restarted":
        pytest.skip("the archive has the second of two jobs of one name only")
    expected: dict[tuple[str, int], set[str]] = defaultdict(set)
    for row in placed:
        name = row["taskmanager"] or row["host"]
        if name:
            expected[row["task"], row["subtask_index"]].add(name.partition(".")[0])
    found = set()
    for path in sorted((unpacked(recording) / "logs").glob("*taskexecutor*")):
        for row in fold(path):
            if row["event"] != "placed":
                continue
            key = row["task"], row["subtask_index"]
            names = {row["taskmanager"], row["host"].replace("_", ".").partition(".")[0]}
            assert names & expected[key], (key, names)
            assert row["job_name"] == truth["job"]["name"]
            found.add(key)
    assert found == set(expected)


@recorded
def test_reports_have_the_kinds_and_scopes_of_their_metrics(recording: Path) -> None:
    scopes: dict[str, set[str]] = defaultdict(set)
    for path in sorted((unpacked(recording) / "logs").iterdir()):
        for row in fold(path):
            if row["event"] == "metric":
                scopes[row["metric"]["name"]].add(row["metric"]["scope"])
                assert row["metric"]["scope"] != "unknown"
    assert scopes["numberOfCompletedCheckpoints"] == {"jm-job"}
    assert scopes["taskSlotsTotal"] == {"jm"}
    assert scopes["Status.JVM.CPU.Load"] == {"jm", "tm"}
    assert scopes["checkpointAlignmentTime"] == {"task"}
    assert scopes["Shuffle.Netty.Input.Buffers.inPoolUsage"] == {"task"}
    assert "task" in scopes["numRecordsIn"]


@recorded
def test_counters_stay_below_the_archive(recording: Path) -> None:
    placed = archived(recording, "placed")
    if not placed or any(row.get("attempt") for row in placed):
        pytest.skip("restarted: counters started again")
    truth = json.loads((recording / "truth.json").read_text())
    names = [job["job"]["name"] for job in truth.get("jobs", [])]
    repeats = len(set(names)) < len(
        names
    )  # reports only name the job, so its next run continues the series
    counted: dict[tuple[str, int], int] = {}
    for row in placed:
        if "read-records" in row["fields"]:
            key = row["task"], row["subtask_index"]
            counted[key] = max(counted.get(key, 0), int(row["fields"]["read-records"]))
    seen = 0
    for path in sorted((unpacked(recording) / "logs").glob("*taskexecutor*")):
        for row in fold(path):
            metric = row["metric"]
            if metric and metric["name"] == "numRecordsIn" and metric["scope"] == "task":
                assert metric["min"] <= metric["last"] <= metric["max"]
                assert metric["last"] == metric["max"] or repeats
                assert metric["max"] <= counted[row["task"], row["subtask_index"]]
                seen += 1
    assert seen
