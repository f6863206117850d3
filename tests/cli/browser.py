"""Check a page in Chromium, and describe each flaw for tests and benchmarks."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Final

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, sync_playwright

_NAMES: Final = ("chromium", "chromium-browser", "google-chrome", "chrome")
_NARROW: Final = {"width": 400, "height": 800}
_WIDE: Final = {"width": 1280, "height": 900}
_RULES: Final = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]}
_MARGIN: Final = 8  # pixels of the frame around the focused element
MOST_SHEETS: Final = 3  # sheets of paper for an ordinary report

# The elements that the Tab key reaches, in order.
_REACHABLE: Final = """() => [...document.querySelectorAll('a[href], summary, [tabindex="0"]')]
    .filter(node => node.checkVisibility()).map(node => Math.round(node.getBoundingClientRect().top))"""
_FOCUSED: Final = """() => document.activeElement === document.body ? null
    : Math.round(document.activeElement.getBoundingClientRect().top + scrollY)"""
_SHEETS: Final = re.compile(rb"/Type\s*/Page\b")


def chromium() -> str | None:
    """Return the path in the variable CHROMIUM, or the first Chromium on the PATH."""
    named = os.environ.get("CHROMIUM")
    return named or next(filter(None, map(shutil.which, _NAMES)), None)


@contextmanager
def browsing(path: str) -> Iterator[Browser]:
    """Start a headless browser, and stop it after the block."""
    with sync_playwright() as driver:
        # Chromium's sandbox does not work for root, and CI runs as root. The page has no scripts.
        browser = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()


def flaws(browser: Browser, file: Path, *, sheets: int | None = MOST_SHEETS) -> Iterator[str]:
    """Yield the flaws of a page.

    Args:
        sheets: the maximum number of printed pages; None for no limit.
    """
    for scheme in ("light", "dark"):
        with _open_page(browser, file, scheme) as (page, problems):
            yield from (f"{scheme}: {flaw}" for flaw in _axe_violations(page))
            yield from _width_flaws(page)
            yield from (f"{scheme}: {flaw}" for flaw in problems)
    with _open_page(browser, file, "light") as (page, _):
        yield from _keyboard_flaws(page)
        if sheets is not None:
            used = len(_SHEETS.findall(page.pdf(format="A4", print_background=True)))
            if used > sheets:
                yield f"{used} sheets of paper"


@contextmanager
def _open_page(browser: Browser, file: Path, scheme: str) -> Iterator[tuple[Page, list[str]]]:
    """Open a page, and collect its errors and its requests to other addresses."""
    page = browser.new_page(color_scheme=scheme, viewport=_WIDE)  # type: ignore[arg-type]
    problems: list[str] = []
    address = file.resolve().as_uri()
    page.on("console", lambda message: problems.append(f"console: {message.text}"))
    page.on("pageerror", lambda error: problems.append(f"error: {error}"))
    page.on(
        "request",
        lambda request: (
            None if request.url == address else problems.append(f"requests {request.url}")
        ),
    )
    page.goto(address)
    try:
        yield page, problems
    finally:
        page.close()


def _axe_violations(page: Page) -> Iterator[str]:
    """Yield the violations that axe-core finds, contrast included, with all details open."""
    page.evaluate("document.querySelectorAll('details').forEach(node => { node.open = true })")
    for found in Axe().run(page, options=_RULES).response["violations"]:
        where = found["nodes"][0]["html"][:160]
        yield f"{found['id']}: {found['help']}, {len(found['nodes'])} times, first {where}"


def _width_flaws(page: Page) -> Iterator[str]:
    page.set_viewport_size(_NARROW)  # type: ignore[arg-type]
    width = page.evaluate("document.documentElement.scrollWidth")
    if width > _NARROW["width"]:
        yield f"{width} pixels wide where there are {_NARROW['width']}"
    smallest = page.evaluate(
        """() => Math.min(99, ...[...document.querySelectorAll('.chart')]
            .filter(node => node.checkVisibility())
            .map(node => 12 * node.getBoundingClientRect().width / node.viewBox.baseVal.width))"""
    )
    if smallest < 9:
        yield f"text of charts is {smallest:.1f} pixels high on a narrow screen"


def _keyboard_flaws(page: Page) -> Iterator[str]:
    """Yield flaws of keyboard navigation: Tab must reach every interactive element from top to bottom."""
    expected = len(page.evaluate(_REACHABLE))
    places: list[int] = []
    for _ in range(expected + 1):
        page.keyboard.press("Tab")
        place = page.evaluate(_FOCUSED)
        if place is None:
            break
        places.append(place)
    if len(places) != expected:
        yield f"Tab reaches {len(places)} of {expected} links and folds"
    if any(after < before - _MARGIN for before, after in pairwise(places)):
        yield "Tab goes back up"
