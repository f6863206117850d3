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
_MARGIN: Final = 8  # pixels of a frame around what is focused
MOST_SHEETS: Final = 3  # of paper for an ordinary report

# The elements that the Tab key reaches, in order.
_REACHABLE: Final = """() => [...document.querySelectorAll('a[href], summary, [tabindex="0"]')]
    .filter(node => node.checkVisibility()).map(node => Math.round(node.getBoundingClientRect().top))"""
_FOCUSED: Final = """() => document.activeElement === document.body ? null
    : Math.round(document.activeElement.getBoundingClientRect().top + scrollY)"""
_SHEETS: Final = re.compile(rb"/Type\s*/Page\b")


def chromium() -> str | None:
    """Where a Chromium is: the one that the variable CHROMIUM names, or the first on the path."""
    named = os.environ.get("CHROMIUM")
    return named or next(filter(None, map(shutil.which, _NAMES)), None)


@contextmanager
def browsing(path: str) -> Iterator[Browser]:
    """A browser without a window.

    Args:
        path: of the program.
    """
    with sync_playwright() as driver:
        # CI runs as root, which Chromium's sandbox does not like; the page is ours and has no script.
        browser = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()


def flaws(browser: Browser, file: Path, *, sheets: int | None = MOST_SHEETS) -> Iterator[str]:
    """Yield the flaws of a page.

    Args:
        browser: the browser.
        file: of the page.
        sheets: of paper that it may take at most; None: as many as it likes.
    """
    for scheme in ("light", "dark"):
        with _shown(browser, file, scheme) as (page, heard):
            yield from (f"{scheme}: {flaw}" for flaw in _of_axe(page))
            yield from _of_width(page)
            yield from (f"{scheme}: {flaw}" for flaw in heard)
    with _shown(browser, file, "light") as (page, _):
        yield from _of_keys(page)
        if sheets is not None:
            used = len(_SHEETS.findall(page.pdf(format="A4", print_background=True)))
            if used > sheets:
                yield f"{used} sheets of paper"


@contextmanager
def _shown(browser: Browser, file: Path, scheme: str) -> Iterator[tuple[Page, list[str]]]:
    """A page, and what is heard of it while it is shown: errors, and requests for anything else."""
    page = browser.new_page(color_scheme=scheme, viewport=_WIDE)  # type: ignore[arg-type]
    heard: list[str] = []
    address = file.resolve().as_uri()
    page.on("console", lambda message: heard.append(f"console: {message.text}"))
    page.on("pageerror", lambda error: heard.append(f"error: {error}"))
    page.on(
        "request",
        lambda request: None if request.url == address else heard.append(f"asks for {request.url}"),
    )
    page.goto(address)
    try:
        yield page, heard
    finally:
        page.close()


def _of_axe(page: Page) -> Iterator[str]:
    """Yield the violations that axe-core finds, contrast included, with all details open."""
    page.evaluate("document.querySelectorAll('details').forEach(node => { node.open = true })")
    for found in Axe().run(page, options=_RULES).response["violations"]:
        where = found["nodes"][0]["html"][:160]
        yield f"{found['id']}: {found['help']}, {len(found['nodes'])} times, first {where}"


def _of_width(page: Page) -> Iterator[str]:
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


def _of_keys(page: Page) -> Iterator[str]:
    """Whether Tab reaches whatever does something, from the top to the bottom."""
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
