"""Incidents on YARN, from `flowdiag collect yarn` to the diagnosis.

The logs are those of a recorded Flink cluster, whose TaskManagers are renamed to containers. YARN's answers follow its
API.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from flowdiag.cli.app import main
from tests.diagnoses import diagnosed
from tests.fake_server import serving
from tests.test_collect_yarn import APP, MASTER, Yarn
from tests.test_kubernetes_stories import RECORDING, flowdiag

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WORKERS = [f"container_1700000000000_0007_01_00000{n}" for n in (2, 3, 4)]
KILLED_MS = 1795217292000  # 2026-11-20T23:28:12Z


def log(name: str) -> str:
    text = (RECORDING / name).read_text()
    return re.sub(
        r"(?<![\w-])taskmanager-(\d)(?![\w-])", lambda hit: WORKERS[int(hit[1]) - 1], text
    )


def collected(folder: Path, status: int, diagnostics: str) -> Path:
    """Collect an application whose first TaskManager ended."""
    logs = {
        container: {"taskmanager.log": log(f"flink-flink-taskexecutor-0-worker-{n}.log")}
        for n, container in enumerate(WORKERS, 1)
    }
    logs[MASTER] = {"jobmanager.log": log("flink-flink-standalonesession-0-jobmanager.log")}
    world = Yarn(
        logs=logs,
        ended=[
            {
                "containerId": WORKERS[0],
                "containerExitStatus": status,
                "containerState": "COMPLETE",
                "allocatedMB": 860,
                "finishedTime": KILLED_MS,
                "diagnosticsInfo": diagnostics,
            }
        ],
    )
    with serving(world) as server:
        world.url = server.url
        arguments = ["--resourcemanager", server.url, "--timeline", server.url, "--no-rest", "-q"]
        assert main(["collect", "yarn", APP, "-o", str(folder / "snapshot"), *arguments]) == 0
    return folder / "snapshot"


@pytest.mark.spark
def test_a_container_killed_for_its_memory_is_one_story_with_the_lost_taskmanager(
    spark: SparkSession, tmp_path: Path
) -> None:
    text = f"Container [pid=47,containerID={WORKERS[0]}] is running 9830400B beyond the 'PHYSICAL' memory limit."
    report = diagnosed(spark, collected(tmp_path, -104, text))
    (story,) = report["summary"]["stories"]
    assert (story["cause"], story["state"]) == ("out-of-memory", "recovered")
    assert story["subject"]["taskmanager"] == WORKERS[0]
    assert story["narrative"].startswith(
        f"The container was killed for using too much memory on {WORKERS[0]}: running 9.4 MiB beyond the 'PHYSICAL' memory limit,"
        " limit 860 MiB, Flink's process size 860 MiB"
    )
    assert f"TaskManager {WORKERS[0]} @ worker-1.flink.example was lost" in story["narrative"]


@pytest.mark.spark
def test_a_preempted_container_explains_the_lost_taskmanager(
    spark: SparkSession, tmp_path: Path
) -> None:
    report = diagnosed(spark, collected(tmp_path, -102, "Container preempted by scheduler"))
    (story,) = report["summary"]["stories"]
    assert (story["cause"], story["state"]) == ("taskmanager-lost", "recovered")
    assert story["narrative"].startswith(f"{WORKERS[0]} has been preempted: Container preempted")
    assert f"TaskManager {WORKERS[0]} @ worker-1.flink.example was lost" in story["narrative"]


@pytest.mark.application
def test_one_command_collects_and_diagnoses(tmp_path: Path) -> None:
    world, report = Yarn(logs={MASTER: {"jobmanager.log": "began\n"}}), tmp_path / "report.json"
    with serving(world) as server:
        world.url = server.url
        servers = f"resourcemanager={server.url}&timeline={server.url}"
        arguments = ["--format", "json", "-o", str(report), "--keep", str(tmp_path / "kept"), "-q"]
        assert flowdiag(f"yarn://{APP}?{servers}", *arguments) == 1
    found = json.loads(report.read_bytes())
    assert found["summary"]["cause"] == "out-of-memory"
    kept = {path.parent.name for path in (tmp_path / "kept").rglob("jobmanager.log")}
    assert kept == {MASTER}
