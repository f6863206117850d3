"""The exit code for every verdict and every option that changes it."""

from __future__ import annotations

import pytest

from flowdiag.analyses.contract.report import Report
from flowdiag.analyses.model import finding as f
from flowdiag.cli.exit_codes import MEANINGS, ExitCode, exit_code
from flowdiag.cli.settings import FailOn, Settings

from . import reports


def only(severity: f.Severity, state: f.State = f.State.RECOVERED) -> Report:
    finding = reports.expired(severity=severity, state=state)
    return reports.build(
        reports.job_facts(is_failing=True), reports.outcome("CP101", "checkpoint-expired", finding)
    )


def with_finding_and_inconclusive_rule(severity: f.Severity) -> Report:
    doubt = f.Inconclusive(reason="no REST responses", job=reports.JOB)
    return reports.build(
        reports.job_facts(is_failing=True),
        reports.outcome("CP101", "checkpoint-expired", reports.expired(severity=severity)),
        reports.outcome("CP201", "slow-taskmanager", doubt),
    )


@pytest.mark.parametrize(
    ("report", "settings", "expected"),
    [
        (reports.healthy(), Settings(), ExitCode.CLEAR),
        (reports.failing(), Settings(), ExitCode.FOUND),
        (reports.failing(), Settings(fail_on=FailOn.NEVER), ExitCode.CLEAR),
        (reports.inconclusive(), Settings(), ExitCode.NOT_ASSESSED),
        (reports.inconclusive(), Settings(fail_on=FailOn.NEVER), ExitCode.NOT_ASSESSED),
        (reports.inconclusive(), Settings(allow_inconclusive=True), ExitCode.CLEAR),
        (reports.nothing(), Settings(), ExitCode.NOT_ASSESSED),
        # no option makes a report without data healthy
        (reports.nothing(), Settings(allow_inconclusive=True), ExitCode.NOT_ASSESSED),
        (only(f.Severity.INFO), Settings(), ExitCode.CLEAR),
        (only(f.Severity.INFO), Settings(fail_on=FailOn.INFO), ExitCode.FOUND),
        (only(f.Severity.WARNING), Settings(), ExitCode.FOUND),
        (only(f.Severity.WARNING), Settings(fail_on=FailOn.CRITICAL), ExitCode.CLEAR),
        (only(f.Severity.CRITICAL), Settings(fail_on=FailOn.CRITICAL), ExitCode.FOUND),
        # findings remain findings
        (with_finding_and_inconclusive_rule(f.Severity.WARNING), Settings(), ExitCode.FOUND),
        (with_finding_and_inconclusive_rule(f.Severity.INFO), Settings(), ExitCode.NOT_ASSESSED),
    ],
)
def test_every_combination_has_its_exit_code(
    report: Report, settings: Settings, expected: ExitCode
) -> None:
    assert exit_code(report, settings) is expected


@pytest.mark.parametrize(
    ("report", "verdict"),
    [
        (only(f.Severity.CRITICAL, f.State.ONGOING), "failing"),
        (only(f.Severity.CRITICAL, f.State.RECOVERED), "degraded"),
        (only(f.Severity.WARNING, f.State.ONGOING), "degraded"),
        (only(f.Severity.INFO, f.State.ONGOING), "healthy"),
        (with_finding_and_inconclusive_rule(f.Severity.INFO), "inconclusive"),
        (with_finding_and_inconclusive_rule(f.Severity.WARNING), "degraded"),
        (reports.healthy(), "healthy"),
        (reports.nothing(), "inconclusive"),
    ],
)
def test_verdict(report: Report, verdict: str) -> None:
    assert report.summary.verdict == verdict
    if report.data.jobs:
        assert report.data.jobs[0].verdict == verdict


def test_every_code_has_a_meaning() -> None:
    assert set(MEANINGS) == set(ExitCode)
