"""Memory from logs: the model compared with real processes, and the buffers that a job needs."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from flowdiag.analyses.diagnosis import diagnose
from flowdiag.analyses.memory.topic import MEMORY
from flowdiag.parsers.discover import discover
from tests.archives import unpacked
from tests.measured import Recorded
from tests.parsers.test_sources import make_tar, make_zip

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from flowdiag.analyses.contract.report import Report

FIXTURES = Path(__file__).parents[2] / "fixtures"
HEALTHY = sorted(FIXTURES.glob("recordings/flink/*/healthy"))
CAPPED = sorted(FIXTURES.glob("recordings/startup/*/capped-buffers"))
SHORT = sorted(FIXTURES.glob("recordings/startup/*/too-few-buffers"))


def _diagnose(folders: list[Path], spark: SparkSession | None = None) -> Report:
    def session() -> SparkSession:
        assert spark is not None, "no Spark is needed for these"
        return spark

    return diagnose((MEMORY,), discover([str(folder) for folder in folders]), session)


@pytest.mark.spark
@pytest.mark.parametrize("folder", HEALTHY, ids=lambda path: path.parent.name)
def test_the_model_derives_the_recorded_sizes(
    recorded: Callable[..., Recorded], folder: Path
) -> None:
    report = recorded(unpacked(folder) / "logs", topics=("startup", "memory")).report("memory")
    assert report.findings == []
    workers = [p for p in report.data.processes or [] if p.role == "taskmanager"]
    assert len(workers) == 3
    for worker in workers:
        assert worker.derived
        assert worker.segments == 6144
        for name, size in worker.observed.items():
            assert worker.derived[name] == size


@pytest.mark.spark
@pytest.mark.parametrize("folder", SHORT, ids=lambda path: path.parent.name)
def test_the_proposed_setting_is_the_smallest_that_works(spark: SparkSession, folder: Path) -> None:
    """The same cluster and version ran successfully with the proposed setting."""
    confirmed = json.loads((folder.parent / "enough-buffers/truth.json").read_text("utf-8"))
    assert confirmed["state_at_the_end"] == "RUNNING"
    report = _diagnose([unpacked(folder)], spark)
    finding = report.findings[0]
    assert (finding.code, finding.cause) == ("MM201", "insufficient-network-buffers")
    # The maximum limits it: a tenth of the memory is far more.
    assert (finding.actions[0].option, finding.actions[0].proposed) == (
        "taskmanager.memory.network.max",
        confirmed["expected"]["network"],
    )
    assert {row.segments for row in report.data.buffers or []} == {40}
    assert max(row.required for row in report.data.buffers or []) > 40


@pytest.mark.spark
@pytest.mark.parametrize("folder", CAPPED, ids=lambda path: path.parent.name)
def test_gates_capped_at_two_required_buffers(spark: SparkSession, folder: Path) -> None:
    """The cluster ran with 42 segments because the cap of Flink 1.17 and later was configured."""
    report = _diagnose([unpacked(folder)], spark)
    assert not [finding for finding in report.findings if finding.code == "MM201"]
    rows = report.data.buffers or []
    assert {(row.segments, row.any_placement) for row in rows} == {(42, 42)}


def test_files_alone_need_no_spark(tmp_path: Path) -> None:
    (tmp_path / "flink-conf.yaml").write_text(
        "taskmanager.memory.process.size: 1728m\ntaskmanager.memory.process.size: 2g\nbroken\n"
        "state.backend: hashmap\n"
    )
    (tmp_path / "pod.txt").write_text(
        "Name:             orders-taskmanager-1-2\nNamespace:        flink\n"
        "    Last State:     Terminated\n      Reason:       OOMKilled\n      Exit Code:    137\n"
        "    Limits:\n      memory:  2Gi\n"
    )
    (tmp_path / "gc.log").write_text(
        "".join(
            f"[{n}.1s][info][gc] GC({n}) Pause Full (G1 Compaction Pause) {250 + n}M->{230 + n}M"
            f"(256M) 90{n}.4ms\n"
            for n in range(8)
        )
    )
    report = _diagnose([tmp_path])
    codes = {finding.code for finding in report.findings}
    assert codes == {"CP303", "MM102", "MM302", "MM304"}
    worker = next(p for p in report.data.processes or [] if p.role == "taskmanager")
    assert worker.derived["taskmanager.memory.process.size"] == 2 << 30
    kill = next(f for f in report.findings if f.code == "CP303")
    assert kill.actions[0].option == "taskmanager.memory.jvm-overhead.min"


@pytest.mark.parametrize("name", ["flink-conf.yaml", "config.yaml"])
def test_a_folder_with_only_a_configuration_is_read(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text("taskmanager.memory.process.size: 4g\n")
    report = _diagnose([tmp_path])
    assert [source.kind for source in report.inputs] == ["configuration"]
    assert report.warnings == []


def test_a_folder_without_readable_files_gets_a_warning(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("call Ann about the pods\n")
    (tmp_path / "x.class").write_bytes(b"\xca\xfe\xba\xbe\0\0\0\x34" * 10)
    (warning,) = _diagnose([tmp_path]).warnings
    assert (warning.kind, warning.text) == ("not-read", "none of its 2 files was read")


LISTED = "LAST SEEN   TYPE      REASON             OBJECT     MESSAGE\n"
NO_NODE = "2m  Warning  FailedScheduling  pod/orders-taskmanager-1-4  0/12 nodes are available: 12 Insufficient memory.\n"
NO_IMAGE = """\
2m  Warning  Failed  pod/orders-taskmanager-1-4  Failed to pull image "acme/orders:7": rpc error: code = NotFound
1m  Warning  Failed  pod/orders-taskmanager-1-4  Error: ImagePullBackOff
"""
NO_DISK = "2m  Warning  Evicted  pod/orders-taskmanager-1-4  The node was low on resource: ephemeral-storage.\n"
CRASHES = "1m  Warning  BackOff  pod/orders-taskmanager-1-4  Back-off restarting failed container flink-main-container\n"


@pytest.mark.parametrize(
    ("events", "cause", "phrase"),
    [
        (NO_NODE, "no-container", "12 Insufficient memory"),
        (NO_NODE + NO_NODE.replace("1-4", "1-5"), "no-container", "and 1 more pod"),
        (NO_IMAGE, "deployment-failed", "Failed to pull image"),
        (NO_DISK, "taskmanager-lost", "ephemeral-storage"),
        (CRASHES, "deployment-failed", "exits repeatedly"),
    ],
)
def test_missing_pods_are_reported(events: str, cause: str, phrase: str, tmp_path: Path) -> None:
    (tmp_path / "events").write_text(LISTED + events)
    report = _diagnose([tmp_path])
    (finding,) = report.findings
    assert (finding.code, finding.cause) == ("MM305", cause)
    assert "orders-taskmanager-1-4" in finding.title and phrase in finding.title


def test_an_evicted_jobmanager_is_not_a_lost_taskmanager(tmp_path: Path) -> None:
    (tmp_path / "events").write_text(LISTED + NO_DISK.replace("taskmanager-1-4", "jobmanager-0"))
    (finding,) = _diagnose([tmp_path]).findings
    assert (finding.code, finding.cause) == ("MM305", "jobmanager-lost")
    assert "orders-jobmanager-0" in finding.title


@pytest.mark.parametrize(
    "events",
    [
        NO_NODE
        + "1m  Normal  Scheduled  pod/orders-taskmanager-1-4  Successfully assigned to n7\n",
        NO_IMAGE + "1m  Normal  Pulled  pod/orders-taskmanager-1-4  Successfully pulled image\n",
    ],
)
def test_late_pods_show_neither_a_fault_nor_health(events: str, tmp_path: Path) -> None:
    (tmp_path / "events").write_text(LISTED + events)
    report = _diagnose([tmp_path])
    assert (report.summary.verdict, report.findings) == ("inconclusive", [])


def test_rejected_options_are_reported(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(
        "taskmanager:\n  memory:\n    process:\n      size: 400m\n"
    )
    (finding,) = _diagnose([tmp_path]).findings
    assert finding.code == "MM101"
    assert "exceed configured Total Process Memory" in finding.explain
    assert finding.actions[0].proposed == "1g"


@pytest.mark.parametrize(
    ("status", "trouble"),
    [
        (
            """  error: '{"type":"a.ReconciliationException","message":"b.ClusterDeploymentException: no cluster",
    "throwableList":[{"type":"io.fabric8.kubernetes.client.KubernetesClientException","message":"Forbidden!"}]}'
""",
            "error: KubernetesClientException: Forbidden!",
        ),
        ("  error: Pod has no room\n", "error: Pod has no room"),
        ("  lifecycleState: FAILED\n", "lifecycleState: FAILED"),
        ("  jobStatus:\n    state: FAILED\n", "jobStatus.state: FAILED"),
        ("  jobManagerDeploymentStatus: MISSING\n", "jobManagerDeploymentStatus: MISSING"),
    ],
)
@pytest.mark.spark
def test_a_resource_with_a_failed_status_is_not_calculated(
    status: str, trouble: str, tmp_path: Path, spark: SparkSession
) -> None:
    head = (
        "apiVersion: flink.apache.org/v1beta1\nkind: FlinkDeployment\nmetadata:\n  name: orders\n"
    )
    resource = f"{head}spec:\n  flinkVersion: v1_20\nstatus:\n"
    (tmp_path / "orders.yaml").write_text(resource + status)
    report = _diagnose([tmp_path], spark)
    assert report.summary.verdict == "inconclusive"
    assert any(f"its status reports {trouble};" in warning.text for warning in report.warnings)
    (tmp_path / "orders.yaml").write_text(resource + "  error: ''\n  lifecycleState: STABLE\n")
    well = _diagnose([tmp_path])
    assert (well.summary.verdict, well.warnings) == ("calculated", [])


@pytest.mark.parametrize("names", [("orders",), ("orders", "payments")])
def test_deployments_listed_by_kubectl(names: tuple[str, ...], tmp_path: Path) -> None:
    spec = {"flinkVersion": "v1_20", "taskManager": {"resource": {"memory": "2Gi"}}}
    items = [
        {"kind": "FlinkDeployment", "metadata": {"name": name}, "spec": spec} for name in names
    ]
    (tmp_path / "all.json").write_text(json.dumps({"kind": "List", "items": items}, indent=4))
    report = _diagnose([tmp_path])
    if len(names) == 1:
        assert report.summary.verdict == "calculated"
    else:
        (read,) = report.inputs
        assert (
            read.reason == "it contains 2 resources with options (orders, payments): pass only one"
        )
        assert report.summary.verdict == "inconclusive" and report.findings == []


@pytest.mark.parametrize("deployments", [0, 1, 2])
def test_a_killed_container_is_reported_among_other_resources(
    deployments: int, tmp_path: Path
) -> None:
    owner = [
        {"apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkDeployment", "name": "orders"}
    ]
    last = {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}
    pod = {
        "kind": "Pod",
        "metadata": {"name": "orders-taskmanager-1-1", "ownerReferences": owner},
        "status": {"containerStatuses": [{"lastState": last, "name": "flink-main-container"}]},
    }
    spec = {"flinkVersion": "v1_20", "taskManager": {"resource": {"memory": "2Gi"}}}
    more = [
        {"kind": "FlinkDeployment", "metadata": {"name": f"orders-{n}"}, "spec": spec}
        for n in range(deployments)
    ]
    (tmp_path / "all.json").write_text(
        json.dumps({"kind": "List", "items": [pod, *more]}, indent=4)
    )
    report = _diagnose([tmp_path])
    assert [finding.code for finding in report.findings if finding.severity != "info"] == ["CP303"]


@pytest.mark.parametrize("form", ["tar", "tar.gz", "zip", "tar in tar", "zip in tar", "gz in tar"])
def test_a_configuration_in_an_archive_is_read(tmp_path: Path, form: str) -> None:
    conf = b"taskmanager.memory.process.size: 1728m\ntaskmanager.numberOfTaskSlots: 2\n"
    members = {"conf/flink-conf.yaml": conf}
    path = tmp_path / "x"
    inner = tmp_path / "inner"
    match form:
        case "tar" | "tar.gz":
            make_tar(path, members, "w:gz" if form == "tar.gz" else "w")
        case "zip":
            make_zip(path, members)
        case "tar in tar":
            make_tar(path, {"i.tar": make_tar(inner, members).read_bytes()})
        case "zip in tar":
            make_tar(path, {"i.zip": make_zip(inner, members).read_bytes()})
        case _:
            make_tar(path, {"conf/flink-conf.yaml.gz": gzip.compress(conf)})
    plain = tmp_path / "flink-conf.yaml"
    plain.write_bytes(conf)
    (of_archive,), (of_file,) = (_diagnose([each]).data.processes or [] for each in (path, plain))
    assert of_archive.derived and of_archive.derived == of_file.derived


@pytest.mark.parametrize(
    ("managed", "option", "slots"),
    [
        ("taskmanager.memory.managed.size: 8m", "taskmanager.memory.managed.size", 4),
        ("taskmanager.memory.managed.fraction: 0.005", "taskmanager.memory.managed.fraction", 4),
        ("taskmanager.memory.managed.size: 8m", "taskmanager.memory.managed.size", 1),
    ],
)
def test_advice_for_rocksdb_changes_the_option_that_counts(
    managed: str, option: str, slots: int, tmp_path: Path
) -> None:
    """A configured size overrides the fraction, so a fraction would change nothing."""
    (tmp_path / "flink-conf.yaml").write_text(
        f"taskmanager.memory.process.size: 1728m\ntaskmanager.numberOfTaskSlots: {slots}\n"
        f"state.backend.type: rocksdb\n{managed}\n"
    )
    (finding,) = (f for f in _diagnose([tmp_path]).findings if f.code == "MM303")
    (action,) = finding.actions
    assert action.option == option and action.proposed
    assert f"for {slots} slot{'s' if slots > 1 else ''}" in finding.title
    configuration = tmp_path / "flink-conf.yaml"
    followed = configuration.read_text().replace(managed, f"{option}: {action.proposed}")
    configuration.write_text(followed)
    assert [f for f in _diagnose([tmp_path]).findings if f.code == "MM303"] == []
