"""The brief: its content, its omissions, and its safety in a chat."""

from __future__ import annotations

from io import StringIO

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from flowdiag.analyses.contract.report import Component, FailureCode, Report
from flowdiag.cli.render import brief
from flowdiag.cli.text.page import Page
from flowdiag.cli.text.words import clock_of
from flowdiag.cli.views.stories import stories_block

from . import reports
from .formats import invalid
from .test_screen import kept

PAGE = Page()


def test_a_failing_job() -> None:
    assert (
        brief.render(reports.failing(), PAGE)
        == """\
flowdiag checkpoints: failing: 1 critical, 1 warning (slow-taskmanager)
culprit: TaskManager tm-3 @ worker-3.example: 4 of its 4 subtasks acknowledged too late, 1.7 expected \
by placement (CP201, high confidence)
inputs: 2 inputs read, 2018-11-29 18:30:00 to 19:02:11 UTC+08:00, 1 not read

1. slow-taskmanager: critical, ongoing, high confidence, since 2018-11-29 18:54:00 (CP201)
   TaskManager tm-3 is slow. Barriers and acknowledgements are late: 4 of 31 checkpoints expired, \
up to 4 in a row.
   proof, quoted from the input: logs/jobmanager.log:8991: "Late message for now expired checkpoint \
224 from Map-2"
   to do: Raise the timeout if the slow part is slow for a good reason; \
execution.checkpointing.timeout: now 10 min (configured), try 20 min (needs a restart)

1 of 3 rules are clear
"""
    )


def test_an_incident_names_the_component_that_threw_its_exception() -> None:
    report = reports.failing()
    driver = Component(
        name="postgresql-jdbc",
        what="the JDBC driver of PostgreSQL",
        check="Count the connections.",
        log="the server's log",
    )
    code = FailureCode(
        code="53300", family="sqlstate", meaning="too many connections", check="Raise it."
    )
    first = msgspec.structs.replace(report.findings[0], component=driver, codes=[code])
    report = msgspec.structs.replace(report, findings=[first, *report.findings[1:]])
    assert "\n   thrown by: the JDBC driver of PostgreSQL\n" in brief.render(report, PAGE)
    console = Console(width=100, file=StringIO())
    console.print(stories_block(report, PAGE, clock_of(report)))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "thrown by  the JDBC driver of PostgreSQL" in text
    assert "code       53300: too many connections" in text


def test_the_brief_lists_rules_that_were_not_assessed() -> None:
    text = brief.render(reports.inconclusive(), PAGE)
    assert text.startswith("flowdiag checkpoints: inconclusive")
    assert "not assessed: CP" in text
    assert "Not assessed does not mean healthy." in brief.render(reports.nothing(), PAGE)


def test_many_stories_list_omissions() -> None:
    report = reports.many(60)
    text = brief.render(report, PAGE)
    assert len(text) <= brief.MOST
    assert "not shown: " in text and "--format table shows more" in text


@pytest.mark.parametrize(
    "text",
    [
        "@here @channel @everyone look",
        "<!channel> <@U123> <#C1> <http://evil.example|click>",
        "```\nrm -rf /\n```",
        "\x1b[31mred\x1b]8;;http://evil\x07x\x1b]8;;\x07",
        "\u202etxet desrever\u2066 \u200b\ufeff",
        "a\nflowdiag: healthy\r\nVerdict  healthy",
        "x" * 5_000,
    ],
)
def test_log_text_is_harmless(text: str) -> None:
    rendered = brief.render(with_text(text), PAGE)
    assert list(invalid(with_text(text))) == []
    assert rendered.count("flowdiag checkpoints: ") == 1
    assert not any(
        line.startswith(("flowdiag: healthy", "Verdict")) for line in rendered.splitlines()
    )


@settings(max_examples=30, deadline=None, derandomize=True)
@given(st.text(max_size=400))
def test_any_text_is_harmless(text: str) -> None:
    rendered = brief.render(with_text(text), PAGE)
    assert len(rendered) <= brief.MOST and "`" not in rendered and "\x1b" not in rendered


def with_text(text: str) -> Report:
    """Return a report with this log text in every quotation and name."""
    report = reports.failing()
    first = report.findings[0]
    report.findings[0] = msgspec.structs.replace(
        first,
        title=text,
        why=text,
        evidence=[msgspec.structs.replace(first.evidence[0], excerpt=text, source=f"logs/{text}")],
    )
    culprit = msgspec.structs.replace(report.summary.culprits[0], why=text)
    return msgspec.structs.replace(
        report, summary=msgspec.structs.replace(report.summary, culprits=[culprit])
    )


@pytest.mark.parametrize("report", kept(), ids=lambda report: report.inputs[0].source[-40:])
def test_the_brief_of_a_recording_has_proof_and_remedy(report: Report) -> None:
    text = brief.render(report, PAGE)
    if report.summary.stories:
        assert "   proof, quoted from the input: " in text and "   to do: " in text
