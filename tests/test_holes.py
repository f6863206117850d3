"""Excerpts with a gap: the middle of a start is missing, and the rest is from another day."""

from __future__ import annotations

import re
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from flowdiag.analyses.diagnosis import inspect_inputs, measure, report_on
from flowdiag.analyses.inputs import find
from flowdiag.analyses.selection.options import Options
from flowdiag.analyses.topics import topic

from .archives import FIXTURES, unpacked

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_DAY: Final = re.compile(r"\A\d{4}-\d\d-\d\d")
TOPICS: Final = tuple(topic(name) for name in ("checkpoints", "queues", "startup", "memory"))


def _later(line: str, days: int) -> str:
    return _DAY.sub(lambda day: str(date.fromisoformat(day[0]) + timedelta(days=days)), line)


@pytest.mark.spark
@pytest.mark.parametrize(
    ("until", "since"),
    [
        ("Starting execution of job", "registered at ResourceManager"),
        ("Deploying Source", "to RUNNING"),
    ],
)
def test_a_gap_is_not_a_step_of_a_start(
    until: str, since: str, tmp_path: Path, spark: SparkSession
) -> None:
    log = next(
        unpacked(FIXTURES / "recordings/flink/1.20.5/healthy").rglob("*standalonesession*.log")
    )
    lines = log.read_text().splitlines()
    first = next(number for number, line in enumerate(lines) if until in line) + 1
    then = next(n for n, line in enumerate(lines) if n >= first and since in line)
    kept = [*lines[:first], *(_later(line, 2) for line in lines[then:])]
    (tmp_path / "jm.log").write_text("\n".join(kept) + "\n")
    inspected = inspect_inputs(
        TOPICS, find([str(tmp_path)], strict=False, engine="flink"), Options()
    )
    report = report_on(TOPICS, inspected, measure(TOPICS, inspected, lambda: spark))
    assert [finding.title for finding in report.findings if finding.severity != "info"] == []
