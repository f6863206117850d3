"""Checks that saved REST responses and the configuration are enough to calculate Spark's rates
exactly.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from flowdiag.analyses.contract.report import RateApplication
from flowdiag.analyses.diagnosis import diagnose
from flowdiag.analyses.rate.topic import RATE
from flowdiag.analyses.selection.options import Options, RateOptions
from flowdiag.parsers.discover import discover, limit_to_engine
from tests.archives import unpacked

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

ROOT = Path(__file__).parents[1] / "fixtures" / "recordings" / "spark"
PREFIX = "spark.streaming.backpressure."
# From the recorder's scenarios; no answer of /streaming contains it.
CONFIGURATION = {
    f"{PREFIX}enabled": "true",
    f"{PREFIX}pid.minRate": "10",
    "spark.streaming.receiver.maxRate": "2000",
}
FOLDERS = ("3.5.7/converging", "4.3.0/converging")


def application(spark: SparkSession, folder: Path, options: RateOptions) -> RateApplication:
    found = limit_to_engine(discover([str(unpacked(folder) / "rest")]), "spark")
    applications = diagnose((RATE,), found, lambda: spark, Options(rate=options)).data.applications
    assert applications is not None and len(applications) == 1
    return applications[0]


@pytest.mark.parametrize("name", FOLDERS)
def test_rest_answers_and_configuration_suffice(name: str, spark: SparkSession) -> None:
    truth: dict[str, Any] = json.loads((ROOT / name / "truth.json").read_text())
    printed = {
        (step["elements"], step["new_rate"], step["error"], step["historical_error"])
        for step in truth["pid"]
        if step["new_rate"] is not None
    }
    app = application(spark, ROOT / name, RateOptions(configuration=CONFIGURATION))
    steps = [step for step in app.pid if step.new_rate is not None]
    assert len(steps) >= 10 and all(step.exact for step in app.pid)
    replayed = {(step.elements, step.new_rate, step.error, step.historical_error) for step in steps}
    assert replayed <= printed
    assert app.streams[0].held_by in ("processing", "delay")


def test_without_the_configuration_nothing_is_claimed(spark: SparkSession) -> None:
    app = application(spark, ROOT / FOLDERS[1], RateOptions())
    assert app.pid == [] and app.back_pressure is None
    assert any("--conf" in gap for gap in app.missing)
