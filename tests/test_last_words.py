"""Tests the last console output or crash file of a Flink process that died without an exception.

A JVM that crashes or gets no memory writes no log record. Its console output and its
hs_err_pid*.log are the only evidence. The texts follow OpenJDK (vmError.cpp, os.cpp) and reports of
Java 8, 11 and 17. The operator's status is from flink-kubernetes-operator 1.4 and later.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.pastes import PasteJudge
from flowdiag.analyses.contract.report import Report
from flowdiag.analyses.model.finding import Verdict
from flowdiag.parsers.discover import discover

CRASH = """#
# A fatal error has been detected by the Java Runtime Environment:
#
#  {signal} at pc=0x00007f2c0c2d34c4, pid=1, tid=94
#
# JRE version: OpenJDK Runtime Environment (11.0.16+8) (build 11.0.16+8)
# Java VM: OpenJDK 64-Bit Server VM (11.0.16+8, mixed mode, tiered, g1 gc, linux-amd64)
# Problematic frame:
# {frame}
#
# Core dump will be written. Default location: /opt/flink/core.1
"""
ROCKSDB = (
    "C  [librocksdbjni-linux64.so+0x2d34c4]  rocksdb::ColumnFamilyData::Get(rocksdb::DBImpl*)+0x44"
)
REFUSED = """OpenJDK 64-Bit Server VM warning: INFO: os::commit_memory(0x00000000f1480000, 94896128, 0) failed; error='Not enough space' (errno=12)
#
# There is insufficient memory for the Java Runtime Environment to continue.
# Native memory allocation (mmap) failed to map 94896128 bytes for committing reserved memory.
# An error report file with more information is saved as:
# /opt/flink/hs_err_pid1.log
"""
RECORD = "2026-11-20 14:01:59,001 INFO  org.apache.flink.runtime.taskmanager.Task [] - Obtained a key from the vault.\n"
COMMAND = "\nCommand Line: -Xmx1g {name} --configDir /opt/conf\n"


def findings_of(text: str, folder: Path) -> Report:
    judge = PasteJudge(folder, None)
    report = judge.report(judge.inputs(text))
    assert report is not None
    return report


@pytest.mark.parametrize("above", ["", RECORD], ids=["alone", "below a record"])
@pytest.mark.parametrize(
    ("signal", "frame", "phrase"),
    [
        ("SIGSEGV (0xb)", ROCKSDB, "SIGSEGV (0xb) in C [librocksdbjni-linux64.so+0x2d34c4]"),
        ("SIGBUS (0x7)", "v  ~StubRoutines::jbyte_disjoint_arraycopy", "SIGBUS (0x7) in v ~Stub"),
        (
            "Internal Error (os_linux_x86.cpp:259), pid=1, tid=7\n#  fatal error: An irrecoverable stack overflow",
            "V  [libjvm.so+0xb0a1f4]",
            "Internal Error (os_linux_x86.cpp:259) in V [libjvm.so+0xb0a1f4]",
        ),
    ],
)
def test_a_crashed_jvm_is_reported_with_its_frame(
    above: str, signal: str, frame: str, phrase: str, tmp_path: Path
) -> None:
    report = findings_of(above + CRASH.format(signal=signal, frame=frame), tmp_path)
    (finding,) = report.findings
    assert (finding.code, finding.cause) == ("CP301", "jvm-crashed")
    assert finding.title.startswith(f"A JVM crashed: {phrase}"[:60])
    assert report.summary.verdict is Verdict.DEGRADED


@pytest.mark.parametrize("above", ["", RECORD], ids=["alone", "below a record"])
def test_a_jvm_without_native_memory_blames_no_flink_pool(above: str, tmp_path: Path) -> None:
    report = findings_of(above + REFUSED, tmp_path)
    (finding,) = report.findings
    assert (finding.code, finding.cause) == ("CP303", "out-of-memory")
    assert finding.title.startswith("The system had no memory left for the JVM")
    assert "94896128" in finding.title
    assert not any(
        action.option for action in finding.actions
    )  # no memory pool of Flink is too small


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("org.apache.flink.runtime.taskexecutor.TaskManagerRunner", "log"),
        ("kafka.Kafka", "not-read"),
    ],
)
def test_a_crash_file_identifies_its_process(name: str, kind: str, tmp_path: Path) -> None:
    text = CRASH.format(signal="SIGSEGV (0xb)", frame=ROCKSDB) + COMMAND.format(name=name)
    (tmp_path / "hs_err_pid1.log").write_text(text.replace("/opt/flink", "/opt"))
    (source,) = discover([str(tmp_path)]).sources
    assert source.kind == kind


STATUS = (
    '{"type":"org.apache.flink.kubernetes.operator.exception.ReconciliationException","message":'
    '"org.apache.flink.client.deployment.ClusterDeploymentException: Could not create Kubernetes cluster '
    '\\"orders\\".","additionalMetadata":{},"throwableList":[{"type":'
    '"org.apache.flink.client.deployment.ClusterDeploymentException","message":"Could not create Kubernetes '
    'cluster \\"orders\\".","additionalMetadata":{}},{"type":'
    '"io.fabric8.kubernetes.client.KubernetesClientException","message":"Failure executing: POST at: '
    "https://10.43.0.1/apis/apps/v1/namespaces/flink/deployments. Message: deployments.apps "
    '\\"orders\\" is forbidden: exceeded quota: flink, requested: limits.memory=2Gi.","additionalMetadata":{}}]}'
)


@pytest.mark.parametrize(
    "text",
    [
        f"status:\n  clusterInfo: {{}}\n  error: '{STATUS}'\n  lifecycleState: FAILED\n",
        f"Status:\n  Cluster Info:\n  Error:  {STATUS}\n  Job Manager Deployment Status:  ERROR\n",
        '{{"status": {{\n  "error": "{}",\n  "lifecycleState": "FAILED"\n}}}}\n'.format(
            STATUS.replace("\\", "\\\\").replace('"', '\\"')
        ),
        STATUS + "\n",
        (
            "apiVersion: flink.apache.org/v1beta1\nkind: FlinkDeployment\nmetadata:\n  name: orders\nspec:\n"
            f"  flinkVersion: v1_20\nstatus:\n  error: '{STATUS}'\n  lifecycleState: FAILED\n"
        ),
    ],
    ids=["yaml", "describe", "json", "alone", "whole resource"],
)
def test_the_error_in_an_operator_status_is_an_exception(text: str, tmp_path: Path) -> None:
    report = findings_of(text, tmp_path)
    assert report.summary.cause == "deployment-failed"
    assert report.summary.verdict is Verdict.FAILING
    assert any(
        'deployments.apps "orders" is forbidden: exceeded quota: flink' in finding.title
        for finding in report.findings
    )
