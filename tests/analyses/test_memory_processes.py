"""Memory that ran out belongs to the process that the text shows, and no option of another process is proposed."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.pastes import PasteJudge
from flowdiag.analyses.contract.report import Report
from flowdiag.analyses.flink.advice.memory_processes import process_of_incident, process_of_pod
from flowdiag.analyses.flink.failures.crises import memory_kind, memory_kind_of_text
from flowdiag.analyses.flink.job import Incident

HEAP = "java.lang.OutOfMemoryError: Java heap space"
HANDLER = "org.apache.flink.runtime.webmonitor.handlers.JarRunHandler"
MASTER = "container_e15_1606883283331_0012_01_000001"


def report_on(text: str, folder: Path) -> Report:
    judged = PasteJudge(folder, None)
    report = judged.report(judged.inputs(text))
    assert report is not None
    return report


@pytest.mark.parametrize(
    ("text", "title"),
    [
        (
            f"{HEAP}\n\tat com.acme.Job.main(Job.java:31)\n\tat {HANDLER}.handleRequest(JarRunHandler.java:100)\n",
            "in the JobManager",
        ),
        (
            f"{HEAP}\n\tat org.apache.flink.core.memory.DataOutputSerializer.resize(DataOutputSerializer.java:305)\n",
            "in a Flink process",
        ),
        (
            (
                "Application application_1606883283331_0012 failed 1 times due to AM Container for "
                "appattempt_1606883283331_0012_000001 exited with  exitCode: -104\n"
                f"Diagnostics: Container [pid=21103,containerID={MASTER}] is running 12288B beyond the 'PHYSICAL' memory "
                "limit. Current usage: 1.0 GB of 1 GB physical memory used; 3.0 GB of 2.1 GB virtual memory used.\n"
            ),
            "the application master",
        ),
    ],
)
def test_other_processes_get_no_option_of_a_taskmanager(
    text: str, title: str, tmp_path: Path
) -> None:
    report = report_on(text, tmp_path)
    (finding,) = [finding for finding in report.findings if finding.cause == "out-of-memory"]
    assert title in finding.title
    assert "TaskManager" not in finding.title
    assert not [
        action for action in finding.actions if (action.option or "").startswith("taskmanager.")
    ]


def test_a_limit_of_virtual_memory_is_not_a_lack_of_memory(tmp_path: Path) -> None:
    report = report_on(
        "Container [pid=14834,containerID=container_1504094410119_0007_01_000002] is running beyond virtual memory "
        "limits. Current usage: 305.4 MB of 1 GB physical memory used; 2.8 GB of 2.1 GB virtual memory used.\n",
        tmp_path,
    )
    (finding,) = [finding for finding in report.findings if finding.cause == "out-of-memory"]
    assert "virtual memory" in finding.title
    assert "yarn.nodemanager.vmem" in finding.actions[0].text


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (
            "running beyond virtual memory limits. 305 MB of 1 GB physical memory used",
            "virtual",
        ),
        (
            "beyond the 'PHYSICAL' memory limit. 3.0 GB of 2.1 GB virtual memory used",
            "container",
        ),
        ("Exit status: -103", "virtual"),
        ("Exit status: -104", "container"),
        (
            "Could not allocate enough memory segments for NetworkBufferPool. Cause: Direct buffer memory",
            "network",
        ),
        ("the job is running", None),
    ],
)
def test_kinds_of_memory(text: str, kind: str | None) -> None:
    assert memory_kind_of_text(text) == kind


def test_a_jvm_without_memory_for_a_message_is_not_a_killed_container() -> None:
    incident = Incident(kind="out-of-memory", time_us=None, cause="java.lang.OutOfMemoryError")
    assert memory_kind(incident) == "unknown"


@pytest.mark.parametrize(
    ("incident", "expected"),
    [
        (Incident(kind="task-failure", time_us=None, cause=HEAP), "a TaskManager"),
        (Incident(kind="exception", time_us=None, cause=HEAP, host="worker-2"), "a TaskManager"),
        (Incident(kind="exception", time_us=None, cause=HEAP), "a Flink process"),
        (
            Incident(kind="exception", time_us=None, cause=HEAP, text={"process": "flink-client"}),
            "the client",
        ),
        (
            Incident(
                kind="exception",
                time_us=None,
                cause=f"{HEAP}: increase jobmanager.memory.heap.size",
            ),
            "the JobManager",
        ),
        (
            Incident(kind="out-of-memory", time_us=None, taskmanager=MASTER),
            "the application master",
        ),
        (
            Incident(kind="out-of-memory", time_us=None, taskmanager=MASTER[:-1] + "2"),
            "a TaskManager",
        ),
    ],
)
def test_process_of_incident(incident: Incident, expected: str) -> None:
    assert process_of_incident(incident).what.startswith(expected)


def test_the_first_container_runs_the_master() -> None:
    assert process_of_pod(MASTER).what.startswith("the application master")
    assert process_of_pod("orders-taskmanager-1-1").what == "a TaskManager"


def test_pods_of_spark_have_the_remedies_of_spark() -> None:
    executor = process_of_pod("billing-7f-exec-12")
    assert executor.what == "executor billing-7f-exec-12"
    assert executor.remedies["container"] == ("spark-overhead",)
    assert process_of_pod("billing-7f-driver").what == "the driver"
    worker = "container_1700000000000_0001_01_000002"
    assert process_of_pod(worker, "spark").what == f"executor {worker}"
    assert process_of_pod(MASTER, "spark").what.startswith("the application master")
