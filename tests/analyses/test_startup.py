"""Starts: every recorded one names the step or the subtask that held it; normal ones say nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from flowdiag.analyses.startup import diagnosis as startup
from flowdiag.analyses.wishes import Wishes
from flowdiag.parsers.sources import discover

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from flowdiag.analyses.report import Report

FIXTURES = Path(__file__).parents[2] / "fixtures"
RECORDED = sorted(path.parent for path in FIXTURES.glob("recordings/startup/*/*/truth.json"))
SYNTHETIC = sorted(path.parent for path in FIXTURES.glob("synthetic/*/truth.json"))
HEALTHY = sorted(FIXTURES.glob("recordings/flink/*/healthy/logs"))

pytestmark = pytest.mark.spark


def _diagnose(spark: SparkSession, folder: Path) -> Report:
    return startup.diagnose(discover([str(folder)]), lambda: spark, Wishes())


def _truth(folder: Path) -> dict[str, Any]:
    truth: dict[str, Any] = json.loads((folder / "truth.json").read_text(encoding="utf-8"))
    expected: dict[str, Any] = truth["expected"]
    return expected


@pytest.mark.parametrize("folder", RECORDED, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_recorded_starts(spark: SparkSession, folder: Path) -> None:
    expected = _truth(folder)
    report = _diagnose(spark, folder / "logs")
    assert report.summary.cause == expected["cause"]
    culprit = report.summary.culprits[0].subject
    if expected.get("task"):
        assert (culprit.task, culprit.subtask_index) == (
            expected["task"],
            expected["subtask_index"],
        )
    attempts = report.data.attempts or []
    assert attempts[0].kind == "cold"
    assert all(attempt.kind == "restart" for attempt in attempts[1:])
    if expected["held"] == "slots":
        assert (attempts[0].required_slots, attempts[0].acquired_slots) == (6, 4)
        assert attempts[0].held == "slots"
    if expected["cause"] == "slow-open":
        assert attempts[0].slowest == "initialisation"
        slow = next(s for s in attempts[0].steps if s.step == "initialisation")
        assert slow.subject is not None
        assert (slow.subject.task, slow.subject.subtask_index) == ("aggregate", 2)


@pytest.mark.parametrize("folder", HEALTHY, ids=lambda path: path.parts[-3])
def test_normal_starts_give_no_finding(spark: SparkSession, folder: Path) -> None:
    report = _diagnose(spark, folder)
    assert (report.summary.verdict, report.findings) == ("healthy", [])
    (attempt,) = report.data.attempts or []
    assert (attempt.kind, attempt.held, attempt.tasks) == ("cold", None, 14)
    assert attempt.running_after_ms is not None
    steps = [step.step for step in attempt.steps]
    assert steps[:1] == ["submission"]
    assert steps[-1] == "first-checkpoint"
    assert {"slots", "deployment"} <= set(steps)


@pytest.mark.parametrize("folder", SYNTHETIC, ids=lambda path: path.name)
def test_written_starts(spark: SparkSession, folder: Path) -> None:
    expected = _truth(folder)
    report = _diagnose(spark, folder)
    assert report.summary.cause == expected.get("cause")
    assert (report.data.attempts or [])[0].held == expected["held"]
    if expected["held"] is None:
        assert report.findings == []
    else:
        assert report.findings[0].code == "ST202"
