"""The built documentation site in Chromium, as files: `.ci/full` builds it and sets SITE to its folder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.browser import browsing, chromium

SITE = Path(os.environ.get("SITE", "/nowhere"))
BROWSER = chromium()
SIZES = {"phone": (390, 844), "desktop": (1280, 900)}
PAGES = ("index", "cli", "situations/index", "rules/SK101", "causes/data-skew", "inputs", "dataset")

pytestmark = [
    pytest.mark.full,
    pytest.mark.browser,
    pytest.mark.skipif(BROWSER is None, reason="needs Chromium"),
    pytest.mark.skipif(not SITE.is_dir(), reason="needs the variable SITE"),
]


@pytest.fixture(scope="module")
def browser() -> Iterator[object]:
    assert BROWSER is not None
    with browsing(BROWSER) as opened:
        yield opened


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_fit_and_load_nothing_from_elsewhere(browser, size: str, scheme: str) -> None:  # type: ignore[no-untyped-def]
    width, height = SIZES[size]
    with browser.new_context(
        viewport={"width": width, "height": height}, color_scheme=scheme
    ) as context:
        page = context.new_page()
        requested: list[str] = []
        broken: list[str] = []
        page.on("request", lambda request: requested.append(request.url))
        page.on("pageerror", lambda error: broken.append(str(error)))
        background = set()
        for name in PAGES:
            page.goto((SITE / f"{name}.html").as_uri())
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), name
            background.add(page.evaluate("getComputedStyle(document.body).backgroundColor"))
        assert [url for url in requested if not url.startswith("file:")] == [] == broken
        channels = [int(part) for part in background.pop().strip("rgba()").split(",")[:3]]
        assert not background
        assert (max(channels) < 100) == (scheme == "dark")


def test_search_works_without_a_server(browser) -> None:  # type: ignore[no-untyped-def]
    with browser.new_context() as context:
        page = context.new_page()
        page.goto((SITE / "index.html").as_uri())
        page.keyboard.press("Control+k")
        page.keyboard.type("hot key", delay=30)
        page.get_by_text("data-skew").filter(visible=True).first.wait_for(timeout=60_000)
