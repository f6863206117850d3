"""Tests `flowdiag compare` on recordings: the example of docs/compare.md, and two healthy
versions.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from flowdiag.analyses.comparison.compare import compare_reports
from flowdiag.analyses.contract.report import Report
from flowdiag.analyses.diagnosis import diagnose
from flowdiag.analyses.selection.options import Options
from flowdiag.analyses.topic_names import ENGINES
from flowdiag.analyses.topics import topic
from flowdiag.cli.render.comparison import RENDERERS
from flowdiag.cli.settings import Format
from flowdiag.cli.text.page import Page
from flowdiag.parsers.discover import discover

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[1]
FLINK = tuple(topic(name) for name, engine in ENGINES.items() if engine == "flink")

pytestmark = [pytest.mark.full, pytest.mark.spark]


def report(path: str, spark: SparkSession) -> Report:
    options = Options(named=(path,), everything=True)
    return diagnose(FLINK, discover([path]), lambda: spark, options)


def test_the_example_in_the_docs_matches_the_output(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (ROOT / "docs" / "compare.md").read_text()
    command = page.split("```sh\nflowdiag compare ")[1].split("\n")[0]
    example = page.split("<!-- example -->\n```text\n")[1].split("```\n<!-- /example -->")[0]
    monkeypatch.chdir(ROOT)
    before, after = command.split()
    one = compare_reports(report(before, spark), report(after, spark), names=(before, after))
    assert RENDERERS[Format.TABLE](one, Page(width=90)) == example


def test_two_versions_of_a_healthy_job_show_no_change(spark: SparkSession) -> None:
    paths = [
        f"{ROOT}/fixtures/recordings/flink/{version}/healthy" for version in ("1.9.3", "2.3.0")
    ]
    one = compare_reports(report(paths[0], spark), report(paths[1], spark))
    assert one.conclusive and not one.regression and not one.findings
    assert not any(each.significant for each in one.measures if each.name != "memory")
