"""Reports of a cluster of 500 TaskManagers stay readable in every format."""

from __future__ import annotations

from functools import cache

import msgspec
import pytest
from msgspec import structs

from flowdiag.analyses.contract.encoding import encode
from flowdiag.analyses.contract.report import Report
from flowdiag.analyses.diagnosis import judge_topic
from flowdiag.analyses.queues.topic import QUEUES
from flowdiag.analyses.report.build import ReportBuilder
from flowdiag.analyses.selection.options import Options
from flowdiag.analyses.topic import Measured
from flowdiag.cli.render import RENDERERS
from flowdiag.cli.settings import Format
from flowdiag.cli.text.page import Page
from flowdiag.cli.views import overview
from tests.analyses.queues_workbench import Queues, facts_of

from . import reports
from .formats import invalid
from .screens import flaws

MANAGERS = 500


@cache
def wide() -> Report:
    """Return 429 TaskManagers that spend 25% or more of their time in garbage collection, and one that spends 93%."""
    cluster = Queues(
        tasks=tuple((name, MANAGERS) for name in ("Source: orders", "enrich", "Sink: deliver")),
        managers=MANAGERS,
        minutes=3,
        edges=(),
    )
    for number in range(1, MANAGERS + 1):
        share = 0.25 + number % 17 / 80 if number % 7 else 0.02
        share = 0.93 if number == MANAGERS else share
        cluster.machines[f"taskmanager-{number}"] = {"gc_ms": share * 60_000}
    job = cluster.job()
    result = judge_topic(QUEUES, Measured(facts={"queues": facts_of(job)}), Options())
    return ReportBuilder(
        command="queues",
        inputs=reports.inputs(),
        outcomes=result.outcomes,
        names={job.job.key: "orders"},
        data=result.data,
        located={},
        assessed=True,
    ).build()


def test_the_outlier_comes_first_and_the_others_are_one_finding() -> None:
    first, fleet, *_ = [each for each in wide().findings if each.code == "SK104"]
    assert first.subject.taskmanager == "taskmanager-500" and first.subjects_total == 1
    assert fleet.subjects_total == 428 and len(fleet.subjects) == 10
    assert fleet.title.startswith("428 of 500 TaskManagers have the same problem")


@pytest.mark.parametrize("form", [Format.TABLE, Format.MARKDOWN, Format.BRIEF, Format.GITHUB])
def test_the_report_fits_a_screen(form: Format) -> None:
    assert RENDERERS[form](wide(), Page(width=100)).count("\n") <= 60


def test_the_document_is_small() -> None:
    assert len(encode(wide())) < 1_500_000


def test_the_document_of_five_hundred_jobs_has_no_indentation_and_stays_below_5_mb() -> None:
    report = reports.many(MANAGERS)
    document = encode(report)
    assert len(document) < 5_000_000 and document.count(b"\n") == 1
    assert msgspec.json.decode(document, type=Report) == report


@pytest.mark.parametrize("form", [Format.TABLE, Format.MARKDOWN, Format.BRIEF, Format.GITHUB])
def test_five_hundred_jobs_fit_a_screen_with_the_unhealthy_ones_first(form: Format) -> None:
    text = RENDERERS[form](reports.many(MANAGERS), Page(width=100))
    assert text.count("\n") <= 60
    if form in (Format.TABLE, Format.MARKDOWN):
        assert text.index("failing") < text.index("degraded") < text.index("healthy")


def test_junit_has_a_case_for_each_rule_and_job() -> None:
    report = reports.many(MANAGERS)
    text = RENDERERS[Format.JUNIT](report, Page(width=100))
    assert text.count("<testcase ") == MANAGERS * len(report.rules)


def test_the_document_of_five_hundred_jobs_is_small_and_keeps_unsuccessful_checkpoints() -> None:
    report = reports.many(MANAGERS)
    assert len(encode(report)) < 5_000_000
    jobs = report.data.jobs or []
    assert len(jobs) == MANAGERS
    assert all(
        job.truncated and job.total.checkpoints == 32 for job in jobs if job.verdict != "healthy"
    )
    failed = [job for job in jobs if job.verdict == "failing"]
    assert all(sum(c.status == "expired" for c in job.checkpoints) == 4 for job in failed)


def test_every_format_is_valid() -> None:
    assert list(invalid(wide())) == []
    assert list(flaws(wide())) == []


def test_annotations_name_the_place_and_the_remedy() -> None:
    text = RENDERERS[Format.GITHUB](wide(), Page(width=100))
    line = next(line for line in text.splitlines() if "title=SK104" in line)
    assert line.startswith("::warning file=logs/jobmanager.log") or "file=" in line
    assert "%0ATo do: " in line


def test_github_shows_ten_annotations_of_a_level() -> None:
    lines = RENDERERS[Format.GITHUB](reports.many(100), Page(width=100)).splitlines()
    for level in ("error", "warning", "notice"):
        assert sum(line.startswith(f"::{level} ") for line in lines) <= 10
    assert any("more findings: see the JSON report" in line for line in lines)


def test_junit_shows_the_remedy_before_the_evidence() -> None:
    text = RENDERERS[Format.JUNIT](reports.failing(), Page(width=100))
    assert text.index("Raise the timeout") < text.index("jobmanager.log:8812")


def test_a_healthy_diagnosis_shows_one_topic() -> None:
    report = reports.healthy()
    report = structs.replace(
        report,
        tool=structs.replace(report.tool, command="diagnose"),
        data=structs.replace(report.data, vertices=(wide().data.vertices or [])[:1]),
    )
    shown = RENDERERS[Format.TABLE](report, Page(width=100))
    assert "Graph" not in shown
    assert shown.endswith("-v also shows queues\n")
    assert "Graph" in RENDERERS[Format.TABLE](report, Page(width=100, verbose=1))


def test_jobs_of_the_same_name_are_counted_instead_of_repeated() -> None:
    summaries = [overview.JobSummary("orders", "failing", "data-skew", "") for _ in range(24)]
    (row,) = overview.group_alike(summaries)
    names = overview.group_columns(6)[-1].value(row)
    assert str(names) == "orders (24 jobs)"
