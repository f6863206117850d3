"""Recorded starts: findings name the step or subtask that delayed a slow start, and a normal start has none."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from flowdiag.analyses.diagnosis import diagnose
from flowdiag.analyses.selection.options import Options
from flowdiag.analyses.selection.span import Moment, Selection
from flowdiag.analyses.startup.topic import STARTUP
from flowdiag.parsers.discover import discover
from tests.archives import synthetic, unpacked
from tests.measured import Recorded

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from flowdiag.analyses.contract.report import Report

FIXTURES = Path(__file__).parents[2] / "fixtures"
RECORDED = sorted(path.parent for path in FIXTURES.glob("recordings/startup/*/*/truth.json"))
SYNTHETIC = sorted(path.parent for path in synthetic().glob("*/truth.json"))
HEALTHY = sorted(FIXTURES.glob("recordings/flink/*/healthy"))

pytestmark = pytest.mark.spark


def _diagnose(spark: SparkSession, folder: Path, selection: Selection | None = None) -> Report:
    options = Options(selection=selection or Selection())
    return diagnose((STARTUP,), discover([str(folder)]), lambda: spark, options)


def _truth(folder: Path) -> dict[str, Any]:
    truth: dict[str, Any] = json.loads((folder / "truth.json").read_text(encoding="utf-8"))
    expected: dict[str, Any] = truth["expected"] | {"events": truth.get("events", [])}
    return expected


# The same scenarios at versions between those of every run: for .ci/full.
BETWEEN = ("1.9.3", "1.12.5", "1.14.6", "1.17.2")
NEWEST = {path.name for path in RECORDED if path.parent.name == "2.3.0"}


def _is_for_full(path: Path) -> bool:
    """Return whether every run covers the scenario of a recording with another version."""
    version = path.parent.name
    return version in BETWEEN or (version == "1.20.5" and path.name in NEWEST)


@pytest.mark.parametrize(
    "folder",
    [
        pytest.param(
            path,
            id=f"{path.parent.name}-{path.name}",
            marks=[pytest.mark.full] if _is_for_full(path) else [],
        )
        for path in RECORDED
    ],
)
def test_recorded_starts(recorded: Callable[..., Recorded], folder: Path) -> None:
    expected = _truth(folder)
    report = recorded(unpacked(folder) / "logs", topics=("startup",)).report("startup")
    attempts = report.data.attempts or []
    if attempts:
        assert attempts[0].kind == "cold"
        assert all(attempt.kind == "restart" for attempt in attempts[1:])
    if expected["cause"] is None:
        assert (report.summary.verdict, report.findings) == ("healthy", [])
        assert attempts[0].running_after_ms is not None
        return
    assert expected["cause"] in {finding.cause for finding in report.findings}
    if expected.get("slow") is None:
        assert report.summary.cause == expected["cause"]
    # A slow restore is a consequence of the lost TaskManager.
    slower = (
        finding.subject for finding in report.findings if finding.cause == expected.get("slow")
    )
    culprit = next(slower, report.summary.culprits[0].subject)
    if expected.get("task"):
        assert (culprit.task, culprit.subtask_index) == (
            expected["task"],
            expected["subtask_index"],
        )
    if expected["held"] == "slots":
        assert attempts[0].required_slots == 6
        # Up to 1.12, no record shows the number of acquired slots.
        assert attempts[0].acquired_slots == (None if folder.parent.name == "1.10.3" else 4)
        assert attempts[0].held == "slots"
    if expected["held"] == "client":
        step = next(s for s in report.data.cluster or [] if s.step == "client")
        assert step.ended_at is None
    if expected["cause"] == "slow-open":
        assert attempts[0].slowest == "initialization"
        slow = next(s for s in attempts[0].steps if s.step == "initialization")
        assert slow.subject is not None
        assert (slow.subject.task, slow.subject.subtask_index) == ("aggregate", 2)
    if expected.get("slow") == "slow-restore":
        finding = next(f for f in report.findings if f.code == "ST301")
        assert finding.cause == "slow-restore"
        assert any(vote.signal == "restore-lines" for vote in finding.votes)
        last = attempts[-1]
        assert last.restored
        restore = next(s for s in last.steps if s.step == "restore")
        assert 19_000 <= (restore.max_ms or 0) <= 25_000
    sick = [e["worker"] for e in expected["events"] if e["event"] in ("kill", "freeze")]
    if sick:
        lost = next(f for f in report.findings if f.code == "CP302")
        assert lost.subject.taskmanager == sick[0].replace("worker", "taskmanager")
        gone = expected["cause"] == "taskmanager-lost"
        assert {vote.signal for vote in lost.votes} >= (
            {"connections-broke"} if gone else {"noticed-late"}
        )


@pytest.mark.parametrize("folder", HEALTHY, ids=lambda path: path.parent.name)
def test_normal_starts_give_no_finding(recorded: Callable[..., Recorded], folder: Path) -> None:
    report = recorded(unpacked(folder) / "logs", topics=("startup", "memory")).report("startup")
    assert (report.summary.verdict, report.findings) == ("healthy", [])
    (attempt,) = report.data.attempts or []
    assert (attempt.kind, attempt.held, attempt.tasks) == ("cold", None, 14)
    assert attempt.running_after_ms is not None
    steps = [step.step for step in attempt.steps]
    assert steps[:1] == ["submission"]
    assert steps[-1] == "first-checkpoint"
    assert {"slots", "deployment"} <= set(steps)
    (scheduling,) = report.data.scheduling or []
    assert (scheduling.tasks, scheduling.parallelism) == (14, 6)
    assert sum(share.tasks for share in scheduling.spread) == 14


@pytest.mark.parametrize("folder", SYNTHETIC, ids=lambda path: path.name)
def test_synthetic_starts(spark: SparkSession, folder: Path) -> None:
    expected = _truth(folder)
    report = _diagnose(spark, folder)
    assert report.summary.cause == expected.get("cause")
    if report.data.attempts:
        assert report.data.attempts[0].held == expected["held"]
    if expected["held"] is None:
        assert report.findings == []
    else:
        assert report.findings[0].code == expected.get("code", "ST202")


def test_a_selected_time_range_is_judged(spark: SparkSession) -> None:
    """The recorded job was healthy before the kill; the restart follows."""
    folder = FIXTURES / "recordings/startup/1.20.5/slow-restore"
    kill = next(e["time"] for e in _truth(folder)["events"] if e["event"] == "kill")
    selection = Selection(until=Moment(utc_us=kill * 1000))
    report = _diagnose(spark, unpacked(folder) / "logs", selection)
    assert report.findings == []
    assert [attempt.kind for attempt in report.data.attempts or []] == ["cold"]
