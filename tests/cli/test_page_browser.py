"""The web page in a real Chromium: errors, requests, width, keys, contrast, paper."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from flowdiag.cli.render import html
from flowdiag.cli.text.page import Page

from . import reports
from .browser import browsing, chromium, flaws
from .test_page import page_of

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    program = chromium()
    if program is None:
        pytest.skip("there is no Chromium: install it, or say with CHROMIUM where it is")
    with browsing(program) as found:
        yield found


@pytest.mark.parametrize("number", [0, 2])
def test_a_page_of_a_recording(number: int, browser: Browser, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    file.write_text(page_of(number), encoding="utf-8")
    assert list(flaws(browser, file)) == []


def test_a_page_with_hostile_text(browser: Browser, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    file.write_text(html.render(reports.hostile(), Page()), encoding="utf-8")
    assert list(flaws(browser, file)) == []


def test_the_checker_finds_every_kind_of_flaw(browser: Browser, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    page = html.render(reports.failing(), Page())
    worse = page.replace(
        "<main>",
        '<main><p style="color: #999999">pale</p><img src="http://127.0.0.1:9/x.png" alt="x">'
        '<script>console.log("x")</script><div style="width: 600px">wide</div>'
        '<a href="#jobs" tabindex="9">first</a>' + "<p>long</p>" * 900,
    )
    assert worse != page
    # Without the content security policy, which prevents half of the flaws.
    file.write_text(worse.replace("Content-Security-Policy", "x-policy"), encoding="utf-8")
    found = "\n".join(flaws(browser, file, sheets=3))
    for flaw in (
        "color-contrast",
        "requests http://127.0.0.1:9/x.png",
        "console: x",
        "pixels wide where there are 400",
        "Tab goes back up",
        "sheets of paper",
    ):
        assert flaw in found
    file.write_text(worse, encoding="utf-8")
    guarded = "\n".join(flaws(browser, file, sheets=None))
    assert "console: x" not in guarded and "Content Security Policy" in guarded
