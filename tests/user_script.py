"""A script as users of the library write it; mypy checks its types (`mypy tests`), and a test
runs it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_type

import flowdiag
from flowdiag import Culprit, Finding, FlowdiagError, Report, Rule, Severity

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def worst(paths: list[str], spark: SparkSession | None = None) -> list[str]:
    """Return the titles of the critical findings, prefixed with the culprits."""
    report = flowdiag.diagnose(
        paths,
        topics=["checkpoints"],
        spark=spark,
        thresholds={"CP101": {"at-the-end": 3}},
        ignore="CP104,CP105",
    )
    assert_type(report, Report)
    assert_type(report.findings, list[Finding])
    assert_type(report.culprits, list[Culprit])
    assert_type(report.to_json(), str)
    critical = [each for each in report.findings if each.severity is Severity.CRITICAL]
    return [*(culprit.why for culprit in report.culprits), *(each.title for each in critical)]


def expired(paths: list[str], spark: SparkSession) -> int:
    """Count the expired checkpoints with a user-defined query."""
    with flowdiag.read(paths, spark) as events:
        frame = events.of("checkpoint_expired")
        if TYPE_CHECKING:
            assert_type(frame, DataFrame)
        return frame.count()


def core_rules() -> list[str]:
    """Return the codes of core rules."""
    rules = flowdiag.rules()
    assert_type(rules, tuple[Rule, ...])
    return [rule.code for rule in rules if rule.core]


def why_not(path: str) -> str:
    """Return the error of an input."""
    try:
        flowdiag.diagnose(path)
    except FlowdiagError as error:
        assert_type(error.hint, str | None)
        return error.message
    return "nothing"
