"""Incidents on Kubernetes, from `flowdiag collect k8s` to the diagnosis.

The logs are those of a recorded Flink cluster, whose TaskManagers are renamed to pods. The Kubernetes objects are not
recorded: they follow the API definitions.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from flowdiag.cli.app import main
from tests.archives import unpacked
from tests.diagnoses import diagnosed
from tests.fake_kubernetes import FakeCluster, Json, event, kubeconfig, pod, resource
from tests.fake_server import NOT_FOUND, serving

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RECORDING = (
    unpacked(Path(__file__).parents[1] / "fixtures/recordings/flink/1.20.5/taskmanager-killed")
    / "logs"
)
FLINK = {"app": "orders", "type": "flink-native-kubernetes"}
CONTAINER = "flink-main-container"
KILLED_AT = "2026-11-20T23:28:12Z"
KILLED = "orders-taskmanager-1-1"
LIMIT = {"limits": {"memory": "860Mi"}, "requests": {"memory": "860Mi"}}


def flowdiag(*arguments: str) -> int:
    """Run a command that may start Spark, which this process may run already."""
    return subprocess.run(
        [sys.executable, "-m", "flowdiag.cli", *arguments], check=False
    ).returncode


def log(name: str) -> bytes:
    data = (RECORDING / name).read_bytes()
    return re.sub(rb"(?<![\w-])taskmanager-(\d)(?![\w-])", rb"orders-taskmanager-1-\1", data)


def cluster(killed: dict[str, Any], *events: Json) -> FakeCluster:
    """Return the cluster of the recording; the first TaskManager is in the given state."""
    labels = FLINK | {"component": "taskmanager"}
    killed = {"resources": LIMIT} | killed
    spec = {
        "flinkVersion": "v1_20",
        "flinkConfiguration": {"taskmanager.memory.process.size": "860m"},
    }
    status = {
        "lifecycleState": "STABLE",
        "jobStatus": {"state": "RUNNING"},
        "jobManagerDeploymentStatus": "READY",
    }
    logs: dict[tuple[str, str, bool], Any] = {
        (f"orders-taskmanager-1-{n}", CONTAINER, False): log(
            f"flink-flink-taskexecutor-0-worker-{n}.log"
        )
        for n in (1, 2, 3)
    }
    logs["orders-7d", CONTAINER, False] = log("flink-flink-standalonesession-0-jobmanager.log")
    return FakeCluster(
        objects=[
            resource(
                "FlinkDeployment", "orders", "flink.apache.org/v1beta1", spec=spec, status=status
            ),
            pod("orders-7d", labels=FLINK | {"component": "jobmanager"}, container=CONTAINER),
            pod(KILLED, labels=labels, container=CONTAINER, **killed),
            *(
                pod(
                    f"orders-taskmanager-1-{n}", labels=labels, container=CONTAINER, resources=LIMIT
                )
                for n in (2, 3)
            ),
            *events,
        ],
        logs=logs,
    )


def collected(world: FakeCluster, folder: Path) -> Path:
    """Collect from the fake cluster into a folder."""
    snapshot = folder / "snapshot"
    with serving(world) as server:
        config = kubeconfig(folder, server.url)
        arguments = [
            "collect",
            "k8s",
            "orders",
            "--kubeconfig",
            str(config),
            "-o",
            str(snapshot),
            "--no-rest",
            "-q",
        ]
        assert main(arguments) == 0
    return snapshot


@pytest.mark.spark
def test_an_oom_killed_taskmanager_is_one_story_with_the_restarts(
    spark: SparkSession, tmp_path: Path
) -> None:
    ended = {"reason": "OOMKilled", "exitCode": 137, "finishedAt": KILLED_AT}
    world = cluster(
        {"state": {"state": {"terminated": ended}, "ready": False}, "status": {"phase": "Failed"}}
    )
    report = diagnosed(spark, collected(world, tmp_path))
    (story,) = report["summary"]["stories"]
    assert (story["cause"], story["state"]) == ("out-of-memory", "recovered")
    assert story["subject"]["taskmanager"] == KILLED
    text = story["narrative"]
    assert text.startswith(
        f"The container was killed for using too much memory on {KILLED}: OOMKilled, exit code 137, limit 860 MiB,"
        " Flink's process size 860 MiB"
    )
    assert f"TaskManager {KILLED} @ worker-1.flink.example was lost" in text
    assert "3 restarts" in text


@pytest.mark.spark
def test_an_eviction_explains_the_lost_taskmanager(spark: SparkSession, tmp_path: Path) -> None:
    message = (
        "The node was low on resource: ephemeral-storage. Threshold quantity: 10Gi, available: 9Gi."
    )
    status = {"phase": "Failed", "reason": "Evicted", "message": message, "containerStatuses": []}
    gone = resource("Pod", KILLED)
    world = cluster({"status": status}, event(gone, "Evicted", message, at=KILLED_AT))
    report = diagnosed(spark, collected(world, tmp_path))
    (story,) = report["summary"]["stories"]
    assert (story["cause"], story["state"]) == ("taskmanager-lost", "recovered")
    text = story["narrative"]
    assert text.startswith(
        f"{KILLED} has been evicted by the node: The node was low on resource: ephemeral-storage."
    )
    assert f"TaskManager {KILLED} @ worker-1.flink.example was lost" in text


@pytest.mark.spark
@pytest.mark.parametrize("nested", [True, False], ids=["operator 1.13", "operator 1.0"])
@pytest.mark.spark
def test_an_operator_that_rejects_an_upgrade(
    spark: SparkSession, tmp_path: Path, nested: bool
) -> None:
    message = "HA metadata not available to restore from last state. Manual restore required."
    kind = "org.apache.flink.kubernetes.operator.exception.UpgradeFailureException"
    error = json.dumps({"type": kind, "message": message}) if nested else f"{kind}: {message}"
    status = {
        "error": error,
        "lifecycleState": "UPGRADING",
        "jobManagerDeploymentStatus": "MISSING",
        "jobStatus": {"state": "RECONCILING"},
        "reconciliationStatus": {"state": "UPGRADING"},
    }
    orders = resource("FlinkDeployment", "orders", "flink.apache.org/v1beta1", spec={"flinkVersion": "v1_20"}, status=status)  # fmt: skip
    refused = event(orders, "RestoreFailed", message)
    report = diagnosed(spark, collected(FakeCluster(objects=[orders, refused]), tmp_path))
    (story,) = report["summary"]["stories"]
    assert (story["cause"], story["state"]) == ("deployment-failed", "ongoing")
    assert "HA metadata not available" in story["narrative"]
    assert "initialSavepointPath" in json.dumps(report["findings"])


DRIVER = Path(__file__).parents[1] / "fixtures/recordings/yarn/3.4.1/spark-client-memory-kill"
LOST = """
The executor with id {} exited with exit code 137(SIGKILL, possible container OOM).

The API gave the following container statuses:

\t container name: spark-kubernetes-executor
\t container state: terminated
\t exit code: 137
\t termination reason: OOMKilled"""


def driver_log() -> bytes:
    """Return a recorded driver's log in which Kubernetes instead of YARN reports how the executors ended.

    The text is that of ExecutorPodsLifecycleManager (Spark 3.5).
    """
    text = (unpacked(DRIVER) / "driver.log").read_text()
    kept = [line for line in text.splitlines() if "Lost executor" in line or "by YARN" not in line]
    lost = re.compile(r"(Lost executor (\d+) on \S+: )Container killed by YARN.*")
    return lost.sub(lambda hit: hit[1] + LOST.format(hit[2]), "\n".join(kept)).encode()


@pytest.mark.spark
def test_oom_killed_executors_are_one_story_with_the_driver(
    spark: SparkSession, tmp_path: Path
) -> None:
    labels = {"spark-app-selector": "spark-1", "spark-app-name": "orders"}
    ended = {"reason": "OOMKilled", "exitCode": 137, "finishedAt": "2026-11-27T02:58:31Z"}
    executors = [
        pod(
            f"orders-exec-{n}",
            labels=labels | {"spark-role": "executor"},
            resources={"limits": {"memory": "896Mi"}},
            status={"phase": "Failed"},
            state={"state": {"terminated": ended}},
        )
        for n in (1, 2)
    ]
    driver = pod("orders-driver", labels=labels | {"spark-role": "driver"})
    world = FakeCluster(
        objects=[driver, *executors], logs={("orders-driver", "main", False): driver_log()}
    )
    report = diagnosed(spark, collected(world, tmp_path))
    (story,) = (each for each in report["summary"]["stories"] if each["cause"] == "out-of-memory")
    assert story["severity"] == "warning"
    text = story["narrative"]
    assert "executor orders-exec-1 and 1 more" in text and "limit 896 MiB" in text
    assert "2 executors were lost" in text


@pytest.mark.spark
def test_a_healthy_namespace_adds_no_finding(spark: SparkSession, tmp_path: Path) -> None:
    started = event(resource("Pod", KILLED), "Started", "Started container", kind="Normal")
    report = diagnosed(spark, collected(cluster({}, started), tmp_path))
    codes = {finding["code"] for finding in report["findings"]}
    assert not codes & {"MM305", "CP303"}
    assert report["summary"]["cause"] == "taskmanager-lost"


@pytest.mark.application
def test_one_command_collects_and_diagnoses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ended = {"reason": "OOMKilled", "exitCode": 137, "finishedAt": KILLED_AT}
    world = cluster({"state": {"state": {"terminated": ended}}})
    world.rest = lambda path, query: NOT_FOUND
    report = tmp_path / "report.json"
    with serving(world) as server:
        monkeypatch.setenv("KUBECONFIG", str(kubeconfig(tmp_path, server.url)))
        kept = tmp_path / "kept"
        arguments = [
            "k8s://prod/orders",
            "--format",
            "json",
            "-o",
            str(report),
            "--keep",
            str(kept),
        ]
        assert flowdiag(*arguments) in (0, 1)
        assert main(["diagnose", "k8s://prod/nothing", "-q"]) == 2
        assert main(["diagnose", "k8s://prod/orders?x=1", "-q"]) == 2
    found = json.loads(report.read_bytes())
    assert found["summary"]["cause"] == "out-of-memory"
    assert list(kept.rglob("pods-001.json"))
    error = capsys.readouterr().err
    assert (
        "no resource is named 'nothing' in namespace 'prod'" in error
        and "unknown option 'x'" in error
    )
    assert main(["memory", "k8s://prod/orders"]) == 2
    assert "a workload on Kubernetes, not a log" in capsys.readouterr().err
