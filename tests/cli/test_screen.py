"""The default report fits a screen or two on any terminal, and starts and ends with the most important facts.

`reports.jsonl.zst` contains reports of recordings: `python -m benchmarks.reports sample FOLDER` writes it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest
import zstandard

from flowdiag.analyses.contract.report import Report
from flowdiag.analyses.report.transform import decode
from flowdiag.cli.render import markdown, table
from flowdiag.cli.text.page import Page

from . import reports
from .screens import flaws

KEPT = Path(__file__).with_name("reports.jsonl.zst")


def kept() -> list[Report]:
    """Return the stored reports of recordings."""
    text = zstandard.ZstdDecompressor().decompress(KEPT.read_bytes(), max_output_size=1 << 24)
    return [decode(line) for line in text.splitlines()]


@pytest.mark.parametrize("report", kept(), ids=lambda report: report.inputs[0].source[-40:])
def test_a_recording_on_terminals_of_every_width(report: Report) -> None:
    assert list(flaws(report)) == []


@pytest.mark.parametrize("kind", ["failing", "healthy", "inconclusive", "nothing", "hostile"])
def test_a_synthetic_report_on_terminals_of_every_width(kind: str) -> None:
    made: Report = getattr(reports, kind)()
    assert list(flaws(made)) == []


def test_ascii_reports_take_no_more_lines() -> None:
    for report in kept():
        for width in (60, 80):
            shown = table.render(report, Page(width=width, unicode=False))
            assert shown.isascii() and shown.count("\n") <= table.LINES


def test_five_hundred_jobs_are_grouped_by_cause() -> None:
    report = reports.many(500)
    for width in (60, 80, 120):
        shown = table.render(report, Page(width=width))
        assert shown.count("\n") <= table.LINES
        assert "Jobs  500: 250 failing, 100 degraded, 150 healthy" in shown
    assert "  250  failing   slow-taskmanager  orders-0, orders-1," in shown
    assert "CP201  249 × slow-taskmanager in 249 jobs: orders-1," in shown
    assert "placement · 250 jobs: orders-0," in " ".join(shown.split())
    assert "| 250 | failing | slow-taskmanager | orders-0, orders-1" in markdown.render(
        report, Page()
    )


def test_ten_jobs_take_a_line_each_worst_first() -> None:
    shown = table.render(reports.many(10), Page(width=100))
    block = shown.partition("Jobs  10: ")[2].partition("\n\n")[0].splitlines()[1:]
    assert len(block) == 10
    verdicts = [line.split()[0] for line in block]
    order = ["failing", "degraded", "inconclusive", "healthy"]
    assert all(order.index(a) <= order.index(b) for a, b in pairwise(verdicts))
    assert shown.index("Job  orders-0 ") < shown.index("Findings  ")


def calls(work: Callable[[], object]) -> int:
    """Return the number of Python function calls, which does not depend on the load of the host."""
    counted = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal counted
        counted += event == "call"

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(before)
    return counted


@pytest.mark.parametrize("verbose", [0, 1])
def test_twice_the_jobs_are_at_most_twice_the_work(verbose: int) -> None:
    few, many = reports.many(40), reports.many(80)
    page = Page(width=80, verbose=verbose)
    table.render(few, page)  # caches one-time work
    once = calls(lambda: table.render(few, page))
    assert calls(lambda: table.render(many, page)) <= 2.2 * once


def test_input_names_are_relative_to_the_working_directory() -> None:
    report = reports.failing()
    report.inputs[:] = [
        msgspec.structs.replace(item, source=f"/home/me/incident/{item.source}")
        for item in report.inputs
    ]
    first = report.findings[0]
    moved = msgspec.structs.replace(
        first.evidence[0], source="/home/me/incident/logs/jobmanager.log"
    )
    report.findings[0] = msgspec.structs.replace(first, evidence=[moved])
    shown = table.render(report, Page(width=100, folder="/home/me/incident/"))
    assert "evidence  logs/jobmanager.log:8991\n" in shown and "/home/me" not in shown
    elsewhere = table.render(report, Page(width=60, folder="/srv/"))
    assert "\n  /home/me/incident/logs/\n" in elsewhere
    assert "evidence  jobmanager.log:8991\n" in elsewhere
