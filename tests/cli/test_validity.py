"""Every format of every report is valid: a sample of the recordings, which `tests/test_screens.py` checks completely."""

from __future__ import annotations

import pytest

from flowdiag.analyses.contract.report import Report

from . import reports
from .formats import invalid
from .test_screen import kept

MADE = ["failing", "healthy", "inconclusive", "nothing", "hostile"]


@pytest.mark.parametrize("report", kept(), ids=lambda report: report.inputs[0].source[-40:])
def test_every_format_of_a_recording_is_valid(report: Report) -> None:
    assert list(invalid(report)) == []


@pytest.mark.parametrize("kind", MADE)
def test_every_format_of_a_synthetic_report_is_valid(kind: str) -> None:
    made: Report = getattr(reports, kind)()
    assert list(invalid(made)) == []


def test_every_format_of_many_jobs_is_valid() -> None:
    assert list(invalid(reports.many(30))) == []
