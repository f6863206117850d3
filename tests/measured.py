"""Spark's measurements of a recording, for repeated judging without Spark."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flowdiag.analyses.contract.report import Report
from flowdiag.analyses.diagnosis import inspect_inputs, measure, report_on
from flowdiag.analyses.selection.options import Options
from flowdiag.analyses.topics import all_rules, topic
from flowdiag.parsers.discover import discover

from . import wording
from .proposals import wrong

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FLINK = ("checkpoints", "queues")


class Recorded:
    """Measurements of inputs for several topics, taken in one pass."""

    def __init__(self, paths: Sequence[Path], names: Sequence[str], spark: SparkSession) -> None:
        """Measure the inputs for these topics."""
        topics = tuple(topic(name) for name in names)
        self.inspected = inspect_inputs(topics, discover([str(path) for path in paths]), Options())
        self.measured = measure(topics, self.inspected, lambda: spark)

    def facts(self, name: str) -> Any:
        return self.measured.facts[name]

    @cache  # noqa: B019 - a test run keeps all of them
    def report(self, name: str) -> Report:
        """Return the report of a command, after a check of its words, advice and severities."""
        report = report_on((topic(name),), self.inspected, self.measured)
        assert report.errors == []
        assert not wrong(report, self.facts(name) if name == "memory" else None)
        most = {rule.code: rule.severity.weight for rule in all_rules()}
        assert [one for one in report.findings if one.severity.weight > most[one.code]] == []
        wording.check_report(report)
        return report
