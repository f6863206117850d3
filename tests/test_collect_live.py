"""Tests `flowdiag collect` on real clusters, which the recorder starts from its cache."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fixtures.flink_recorder.cluster import Cluster
from fixtures.flink_recorder.install import default_cache, install
from fixtures.flink_recorder.record import compile_job
from fixtures.flink_recorder.rest import wait
from fixtures.flink_recorder.scenarios import scenarios

pytestmark = [pytest.mark.full, pytest.mark.timeout(600)]
# The first three numbers of the addresses, so that parallel recordings do not collide.
NETWORKS = {"1.20.5": "127.0.74", "2.3.0": "127.0.75"}


@pytest.fixture(params=sorted(NETWORKS))
def faulty_cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Cluster]:
    """Yield a cluster whose job has a hot key: subtask 0 of `enrich`."""
    version = request.param
    cache = default_cache()
    if not (cache / f"flink-{version}").is_dir() or shutil.which("javac") is None:
        pytest.skip(
            f"no Flink {version} in {cache}: python -m fixtures.flink_recorder install --version {version}"
        )
    flink = install(version, cache)
    jar = compile_job(flink, cache)
    cluster = Cluster(flink, tmp_path / "cluster", NETWORKS[version], (2, 2, 2))
    try:
        cluster.start()
        scenario = scenarios()["hot-key"]
        options = scenario.arguments(scenario.draw(1), 1)
        options |= {"notes": str(tmp_path / "cluster" / "notes"), "fault-after": "0"}
        words = [word for key, value in options.items() for word in (f"--{key}", value)]
        rest = cluster.rest
        job = rest.run(rest.upload(jar), words)
        wait(
            "the tasks",
            lambda: all(v["status"] == "RUNNING" for v in rest.get(f"/jobs/{job}")["vertices"]),
            90,
        )
        yield cluster
    finally:
        cluster.stop()


def test_a_live_cluster_is_collected_and_diagnosed(faulty_cluster: Cluster, tmp_path: Path) -> None:
    folder = tmp_path / "collected"
    command = [sys.executable, "-m", "flowdiag.cli"]
    collected = subprocess.run(
        [
            *(*command, "collect", "flink", faulty_cluster.rest.base, "-o", str(folder)),
            *("--every", "10s", "--for", "70s"),
        ],
        check=True,
        capture_output=True,
        text=True,
    )
    assert collected.stderr == ""
    print(collected.stdout)
    lines = [json.loads(line) for line in (folder / "manifest.jsonl").read_text().splitlines()]
    ticks = [line for line in lines if line["what"] == "tick"]
    print([(tick["requests"], tick["received_bytes"], tick["stored_bytes"]) for tick in ticks])
    assert len(ticks) >= 5 and all(tick["complete"] and not tick["failed"] for tick in ticks)
    # Two checkpoints of four vertices and three thread dumps, in addition to each tick's requests.
    assert max(tick["requests"] for tick in ticks[1:]) <= 19 + 8 + 3
    managers = faulty_cluster.rest.get("/taskmanagers")["taskmanagers"]
    job = next(iter(faulty_cluster.rest.get("/jobs")["jobs"]))["id"]
    vertex = next(
        v["id"]
        for v in faulty_cluster.rest.get(f"/jobs/{job}")["vertices"]
        if v["name"] == "enrich"
    )
    place = faulty_cluster.rest.get(f"/jobs/{job}/vertices/{vertex}")["subtasks"][0][
        "taskmanager-id"
    ]
    assert place in {manager["id"] for manager in managers}
    for name in ("checkpoints", "queues"):
        judged = subprocess.run(
            [*command, name, str(folder), "--format", "json"],
            check=False,
            capture_output=True,
            text=True,
        )
        if "No such command" in judged.stderr:
            continue
        report = json.loads(judged.stdout)
        first = report["summary"]["culprits"][0]["subject"]
        print(name, report["summary"]["verdict"], report["summary"].get("cause"), first)
        assert (first["task"], first["subtask_index"], first["taskmanager"]) == ("enrich", 0, place)
    warnings = [
        line
        for path in (faulty_cluster.jobmanager.folder / "log").glob("*.log")
        for line in path.read_text(errors="replace").splitlines()
        if " WARN " in line and ("rest" in line.lower().split(" - ")[0] or "Metric" in line)
    ]
    assert warnings == []  # no request makes the JobManager log a warning
