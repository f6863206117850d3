"""Tests reports on applications that cannot be recorded here, all of them in one run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from flowdiag.analyses.contract.report import RateApplication, Report
from flowdiag.analyses.diagnosis import diagnose
from flowdiag.analyses.rate.topic import RATE
from flowdiag.parsers.discover import discover, limit_to_engine
from tests.archives import synthetic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

ROOT = synthetic() / "spark"
ALL = sorted(path.parent for path in ROOT.glob("*/truth.json"))


@pytest.fixture(scope="module")
def report(spark: SparkSession) -> Report:
    found = limit_to_engine(discover([str(ROOT)]), "spark")
    return diagnose((RATE,), found, lambda: spark)


def application(report: Report, name: str) -> RateApplication:
    (app,) = [app for app in report.data.applications or () if app.application == name]
    return app


def test_all_applications_are_distinguished(report: Report) -> None:
    truths = [json.loads((folder / "truth.json").read_text()) for folder in ALL]
    expected = {truth["application"] for truth in truths}
    expected |= {truth["expected"]["healthy"] for truth in truths if "healthy" in truth["expected"]}
    assert {app.application for app in report.data.applications or ()} == expected


@pytest.mark.parametrize("folder", ALL, ids=lambda folder: folder.name)
def test_verdict_cause_and_culprit(folder: Path, report: Report) -> None:
    truth: dict[str, Any] = json.loads((folder / "truth.json").read_text())
    expected = truth["expected"]
    assert truth["synthetic"] is True
    app = application(report, truth["application"])
    codes = sorted(
        {x.code for x in report.findings if x.subject.application == truth["application"]}
    )
    assert codes == expected["codes"]
    assert app.cause == expected["cause"]
    if "stability" in expected:
        keeping = app.keeping or app.queries[0].keeping
        assert keeping.stability == expected["stability"]
    for name in ("partition", "executor"):
        if name in expected:
            assert getattr(app.culprits[0].subject, name) == expected[name]
    if "healthy" in expected:
        other = application(report, expected["healthy"])
        assert other.verdict == "healthy" and other.keeping is not None
        assert other.keeping.stability == "stable"
    for finding in report.findings:
        assert finding.evidence and all(item.line for item in finding.evidence)
