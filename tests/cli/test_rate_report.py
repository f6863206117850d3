"""The output of `flowdiag rate` for synthetic facts, and the schema of its JSON."""

from __future__ import annotations

import msgspec
import pytest

from flowdiag.analyses.contract.encoding import encode
from flowdiag.analyses.contract.report import Data, Input, Report
from flowdiag.analyses.model.finding import Evidence
from flowdiag.analyses.rate.data import rate_data
from flowdiag.analyses.rate.facts import ApplicationFacts
from flowdiag.analyses.rate.model import Job, Settings
from flowdiag.analyses.rate.pid import Gains
from flowdiag.analyses.report.build import ReportBuilder
from flowdiag.analyses.report.transform import decode
from flowdiag.analyses.selection.options import Privacy
from flowdiag.cli.render import RENDERERS
from flowdiag.cli.settings import Format
from flowdiag.cli.text.chart import chart
from flowdiag.cli.text.page import Page
from tests.analyses import rate_workbench as w


def source(name: str) -> Input:
    return Input(
        source=name,
        kind="spark-events",
        role="driver",
        version="3.5.1",
        bytes=1000,
        candidates=9,
        recognised=9,
        not_understood=0,
        first=None,
        last=None,
        zone=None,
        clock_offset_ms=None,
    )


def report_of(*apps: ApplicationFacts, redact: bool = False) -> Report:
    outcomes = w.outcomes(*apps)
    assert all(
        isinstance(item, Evidence) for o in outcomes for x in o.findings for item in x.evidence
    )
    return ReportBuilder(
        command="rate",
        inputs=[source("listener.jsonl")],
        outcomes=outcomes,
        names={app.key: app.name for app in apps},
        data=Data(applications=rate_data(w.assessed(*apps), outcomes, max_rows=1000)),
        located={},
        assessed=True,
        privacy=Privacy(redact=redact),
    ).build()


def text(report: Report, **page: object) -> str:
    values = {"width": 100, "color": False, "unicode": True, "verbose": 0, **page}
    return RENDERERS[Format.TABLE](report, Page(**values))  # type: ignore[arg-type]


def test_inputs_name_the_engine_that_wrote_them() -> None:
    report = report_of(w.application([w.batch(n) for n in range(30)]))
    joint = msgspec.structs.replace(
        report, tool=msgspec.structs.replace(report.tool, command="diagnose")
    )
    for shown in (report, joint):
        assert "Spark 3.5.1 · 1000 B" in text(shown, verbose=1)


FLOOR = Settings(interval_ms=1000, gains=Gains(min_rate=250), max_rate=500)


def test_an_application_at_its_minimum_rate() -> None:
    out = text(report_of(w.simulated(Job(fixed_ms=60, per_record_ms=5), FLOOR, [400.0] * 40)))
    assert "Application  orders · app-1 · Spark 3.5.1 · batches every 1 s · failing" in out
    assert "processing time, and the interval" in out
    assert "published rate, records/s" in out
    assert "worst batches" in out
    assert "option spark.streaming.backpressure.pid.minRate" in out
    assert "1.  option spark.streaming.backpressure.pid.minRate" in out.split("Verdict")[1]
    assert "rate-floor" in out.split("Verdict")[1]


def test_ascii_charts_without_unicode() -> None:
    report = report_of(w.simulated(Job(fixed_ms=60, per_record_ms=5), FLOOR, [400.0] * 40))
    assert text(report, unicode=False, width=60).isascii()


def test_a_query() -> None:
    app = w.application(queries=(w.query([w.trigger(n, 3000 + n) for n in range(30)]),))
    out = text(report_of(app))
    assert "Query orders  30 triggers every 2 s" in out and "longest triggers" in out
    assert "query orders" in out.split("Verdict")[1]


def test_healthy_applications_take_few_lines() -> None:
    out = text(report_of(w.application([w.batch(n) for n in range(30)])))
    assert "Findings" not in out and "worst batches" not in out
    assert "healthy" in out.split("Verdict")[1]


@pytest.mark.parametrize("kind", list(Format))
def test_every_format_renders_an_application(kind: Format) -> None:
    report = report_of(w.simulated(Job(fixed_ms=60, per_record_ms=5), FLOOR, [400.0] * 40))
    page = Page(width=80, color=False, unicode=True, verbose=1)
    assert "RT201" in RENDERERS[kind](report, page)


def test_markdown_charts_the_batches() -> None:
    report = report_of(w.simulated(Job(fixed_ms=60, per_record_ms=5), FLOOR, [400.0] * 40))
    shown = RENDERERS[Format.MARKDOWN](report, Page())
    chart = shown.partition("```text\n")[2].partition("\n```")[0].splitlines()
    assert chart[0] == "processing time of batches, and the interval" and len(chart) == 5
    assert any("█" in line for line in chart)


def test_the_document_decodes_unchanged() -> None:
    report = report_of(w.simulated(Job(fixed_ms=60, per_record_ms=5), FLOOR, [400.0] * 40))
    again = decode(encode(report))
    assert again == report
    assert again.data.applications is not None and again.data.applications[0].pid
    assert "jobs" not in msgspec.to_builtins(again)["data"]


def test_redacted_reports_hide_names() -> None:
    app = w.simulated(Job(fixed_ms=60, per_record_ms=5), FLOOR, [400.0] * 40)
    assert b"orders" not in encode(report_of(app, redact=True))


def test_charts() -> None:
    assert chart([], width=5).rows == () and chart([0.0, None], width=5).rows == ()
    drawn = chart([1.0, 9.0, None, 1.0] * 50, width=20, height=3, line=5.0, unit="")
    assert drawn.per_column == 10 and all(len(cells) <= 20 for _, cells in drawn.rows)
    assert [label for label, _ in drawn.rows] == ["9", "5", ""]
