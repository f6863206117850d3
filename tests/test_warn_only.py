"""Checks consoles that show WARN and above: the remaining JobManager log leads to the right
culprit or none.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from flowdiag.analyses.contract.report import Report
from flowdiag.analyses.diagnosis import inspect_inputs, measure, report_on
from flowdiag.analyses.inputs import find
from flowdiag.analyses.selection.options import Options
from flowdiag.analyses.topics import topic

from .archives import FIXTURES, unpacked

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_HEAD: Final = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} (\w+)")


def _console(scenario: str, *, traces: bool) -> str:
    """Return the JobManager's lines from WARN on, with or without their stack traces (as `grep`
    leaves them).
    """
    log = next(
        (unpacked(FIXTURES / "recordings/flink" / scenario)).rglob("*standalonesession*.log")
    )
    kept, shown = [], False
    for line in log.read_text(errors="replace").splitlines():
        head = _HEAD.match(line)
        shown = head[1] in ("WARN", "ERROR") if head else shown and traces
        if shown:
            kept.append(line)
    return "\n".join(kept) + "\n"


def _report(text: str, folder: Path, spark: SparkSession) -> Report:
    (folder / "console.txt").write_text(text)
    inspected = inspect_inputs(
        (topic("checkpoints"),), find([str(folder)], strict=False, engine="flink"), Options()
    )
    return report_on(
        (topic("checkpoints"),),
        inspected,
        measure((topic("checkpoints"),), inspected, lambda: spark),
    )


@pytest.mark.spark
@pytest.mark.parametrize("traces", [True, False], ids=["console", "grep"])
@pytest.mark.parametrize(
    ("scenario", "taskmanager", "cause"),
    [
        ("1.10.3/slow-async-snapshot", "0c8a50be1ab356d4accb06da04d8db7e", None),
        ("1.20.5/slow-sync-snapshot", "taskmanager-2", None),
        ("1.10.3/sync-failure", None, None),  # declined: every subtask is late except the culprit
        ("1.10.3/hang", None, None),  # sources wait for the checkpoint lock
        ("1.20.5/hot-key", None, None),
        ("1.20.5/async-failure", None, "snapshot-exception"),
    ],
)  # fmt: skip
def test_late_subtasks_are_reported_without_a_wrong_culprit(
    scenario: str,
    taskmanager: str | None,
    cause: str | None,
    traces: bool,
    tmp_path: Path,
    spark: SparkSession,
) -> None:
    report = _report(_console(scenario, traces=traces), tmp_path, spark)
    assert report.summary.verdict != "healthy"
    assert report.findings
    late = [
        culprit.subject.taskmanager
        for culprit in report.summary.culprits
        if culprit.code == "CP201"
    ]
    assert late == ([taskmanager] if taskmanager else [])
    assert report.summary.cause == (cause if traces else None)


@pytest.mark.spark
@pytest.mark.parametrize("scenario", ["1.14.6/tight-interval", "1.20.5/healthy"])
def test_a_healthy_job_has_no_finding(scenario: str, tmp_path: Path, spark: SparkSession) -> None:
    report = _report(_console(scenario, traces=True), tmp_path, spark)
    assert not [finding for finding in report.findings if finding.severity != "info"]
