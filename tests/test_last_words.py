"""What stands at the end of a console, or in a file of its own, when a process of Flink did not die by an exception.

A JVM that crashes or gets no memory writes no record: what it prints, and its hs_err_pid*.log, is all that tells.
The texts are OpenJDK's (vmError.cpp, os.cpp), written after reports of Java 8, 11 and 17; the operator's status is
that of flink-kubernetes-operator 1.4 and later.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.pastes import PasteJudge
from flowdiag.analyses.model.finding import Verdict
from flowdiag.analyses.report.wire import Report
from flowdiag.parsers.sources.discover import discover

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


def told(text: str, folder: Path) -> Report:
    asked = PasteJudge(folder, None)
    report = asked.report(asked.inputs(text))
    assert report is not None
    return report


@pytest.mark.parametrize("above", ["", RECORD], ids=["alone", "below a record"])
@pytest.mark.parametrize(
    ("signal", "frame", "says"),
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
def test_a_jvm_that_crashed_is_named_with_its_frame(
    above: str, signal: str, frame: str, says: str, tmp_path: Path
) -> None:
    report = told(above + CRASH.format(signal=signal, frame=frame), tmp_path)
    (finding,) = report.findings
    assert (finding.code, finding.cause) == ("CP301", "jvm-crashed")
    assert finding.title.startswith(f"A JVM crashed: {says}"[:60])
    assert report.summary.verdict is Verdict.DEGRADED


@pytest.mark.parametrize("above", ["", RECORD], ids=["alone", "below a record"])
def test_a_jvm_that_got_no_memory_is_no_pool_of_flink(above: str, tmp_path: Path) -> None:
    report = told(above + REFUSED, tmp_path)
    (finding,) = report.findings
    assert (finding.code, finding.cause) == ("CP303", "out-of-memory")
    assert finding.title.startswith("The system had no memory left for the JVM")
    assert "94896128" in finding.title
    assert not any(action.option for action in finding.actions)  # no pool of Flink's is too small


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("org.apache.flink.runtime.taskexecutor.TaskManagerRunner", "log"),
        ("kafka.Kafka", "not-read"),
    ],
)
def test_a_report_of_a_crash_tells_whose_it_is(name: str, kind: str, tmp_path: Path) -> None:
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
def test_what_the_operator_says_of_a_deployment_is_an_exception(text: str, tmp_path: Path) -> None:
    report = told(text, tmp_path)
    assert report.summary.cause == "deployment-failed"
    assert report.summary.verdict is Verdict.FAILING
    assert any(
        'deployments.apps "orders" is forbidden: exceeded quota: flink' in finding.title
        for finding in report.findings
    )
