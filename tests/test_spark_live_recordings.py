"""Compares verdicts on recorded scripts with the scenario: from the log, from the event log, and from both."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from flowdiag.analyses.contract.report import Finding, Report
from flowdiag.analyses.diagnosis import diagnose
from flowdiag.analyses.rate.topic import RATE
from flowdiag.parsers.discover import discover, limit_to_engine
from tests.archives import unpacked

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

ROOT = Path(__file__).parents[1] / "fixtures" / "recordings" / "spark-live"
ALL = sorted(path.parent for path in ROOT.glob("*/*/truth.json"))
PARTS = {
    "log": ("driver/driver.log",),
    "event log": ("eventlog",),
    "both": ("driver/driver.log", "eventlog"),
    "everything": ("driver", "eventlog"),
}
# A log does not show where tasks wait, nor their records: there, the overload is the whole answer.
# Lost records are warnings in the log only.
LESS_PRECISE: dict[tuple[str, str], str | None] = {
    # The configuration is in the event log, and the numbers of records in the log.
    ("direct-capped", "log"): None,
    ("direct-capped", "event log"): None,
    ("direct-skewed", "log"): "overloaded",
    ("direct-skewed", "event log"): "overloaded",
    ("kafka-deleted", "event log"): "kafka-timeout",
    ("kafka-slow-executor", "log"): "overloaded",
    ("lookups", "log"): "overloaded",
    ("reports", "log"): "overloaded",
    ("code-udf", "log"): "overloaded",
    ("code-foreach-batch", "log"): "overloaded",
    ("kafka-skewed", "log"): "overloaded",
    ("kafka-few-partitions", "log"): "overloaded",
    ("skewed-state", "log"): None,
    # Thread dumps alone show it, and an event log does not contain the trigger interval.
    **{("code-http", part): "overloaded" for part in PARTS},
    ("code-http", "event log"): None,
    ("slow-checkpoints", "event log"): None,
    ("kafka-lost", "event log"): "max-rate",
    # Only the sessions of the database show the lock.
    **{("database-contended", part): "overloaded" for part in PARTS},
    **{("database-locked", part): "hanging-batch" for part in PARTS},
    ("late-snapshots", "log"): None,  # it does not contain the interval of the maintenance
    ("running-totals", "event log"): None,  # it does not contain the cached blocks
}


@pytest.fixture(scope="module")
def findings_of(spark: SparkSession, sampled: list[Path]) -> Callable[[str, str], list[Finding]]:
    """Diagnose the same part of all recordings in one run, and separate the findings."""
    known: dict[str, Report] = {}

    def findings(part: str, application: str) -> list[Finding]:
        if part not in known:
            paths = [str(unpacked(folder) / name) for folder in sampled for name in PARTS[part]]
            known[part] = diagnose(
                (RATE,), limit_to_engine(discover(paths), "spark"), lambda: spark
            )
        return [f for f in known[part].findings if f.subject.application == application]

    return findings


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("folder", ALL, ids=lambda folder: f"{folder.parent.name}-{folder.name}")
def test_the_first_finding_is_the_fault(
    folder: Path, part: str, findings_of: Callable[[str, str], list[Finding]]
) -> None:
    truth: dict[str, Any] = json.loads((folder / "truth.json").read_text())
    expected, name = truth["expected"], folder.name.removeprefix("live-")
    found = findings_of(part, truth["application"])
    if expected["verdict"] == "healthy":
        assert found == []
        return
    cause = LESS_PRECISE.get((name, part), expected["cause"])
    if name == "database-contended" and part == "event log":
        # Without the trigger interval, only several triggers in a row show that they are late.
        assert {finding.cause for finding in found} <= {cause, None}
        return
    if cause is None:
        assert [finding.cause for finding in found if finding.cause is not None] == []
        return
    # A slow executor explains the slow task of each batch, which is the first finding.
    assert cause in [
        finding.cause for finding in found[: 2 if name == "kafka-slow-executor" else 1]
    ]
    if name == "worker-memory":
        options = [action.option for action in found[0].actions]
        assert "spark.executor.pyspark.memory" in options
    failing = expected["verdict"] == "failing" and cause in (
        expected["cause"],
        "hanging-batch",
        "overloaded",
        "kafka-timeout",
    )
    assert (found[0].severity == "critical") == failing


@pytest.mark.parametrize(
    "folder",
    [
        pytest.param(
            folder,
            id=f"{folder.parent.name}-{folder.name}",
            marks=[pytest.mark.full] if number else [],
        )
        for number, folder in enumerate(
            folder for folder in ALL if folder.name.startswith("live-database-")
        )
    ],
)
def test_the_database_is_the_culprit(folder: Path, spark: SparkSession) -> None:
    files = unpacked(folder)
    expected = json.loads((folder / "truth.json").read_text())["expected"]

    def report_on(*names: str) -> Report:
        paths = [str(files / name) for name in names]
        return diagnose((RATE,), limit_to_engine(discover(paths), "spark"), lambda: spark)

    whole, dumps = (
        report_on("driver", "eventlog", "rest", "neighbours"),
        report_on("driver", "rest"),
    )
    if expected["cause"] is None:
        assert whole.findings == dumps.findings == []
        return
    assert (whole.summary.verdict, whole.summary.cause) == (expected["verdict"], "database-lock")
    [culprit] = whole.summary.culprits
    assert culprit.subject.kind == "service" and "PostgreSQL at" in (culprit.subject.service or "")
    assert "cores" not in whole.findings[0].actions[0].text
    assert dumps.summary.cause == "slow-database"


@pytest.mark.parametrize(
    "folder",
    [folder for folder in ALL if folder.name.startswith("live-code-")],
    ids=lambda folder: f"{folder.parent.name}-{folder.name}",
)
def test_thread_dumps_show_the_line(folder: Path, spark: SparkSession) -> None:
    truth: dict[str, Any] = json.loads((folder / "truth.json").read_text())
    expected = truth["expected"]
    report = diagnose((RATE,), discover([str(unpacked(folder))]), lambda: spark)
    found = [finding for finding in report.findings if finding.code == "RT315"]
    if "reading" not in expected:
        assert report.findings == []
        assert report.summary.verdict == expected["verdict"]
        return
    reading = expected["reading"]
    assert [finding.cause for finding in found] == [reading["cause"]]
    assert reading["line"] in report.summary.culprits[0].why
    assert not any("dump" in action.text for action in found[0].actions)
    assert (report.summary.verdict, report.summary.cause) == (
        expected["verdict"],
        reading["cause"],
    )
