"""Takes the screenshots of the README and the docs: `python -m benchmarks.pages --screenshots`.

Rich exports the terminal report as SVG. Chromium photographs the web page, in light and in dark
mode.
"""

from __future__ import annotations

import io
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.text import Text

from flowdiag.analyses.contract.report import Report
from flowdiag.cli.render import html, table
from flowdiag.cli.text.page import Page

IMAGES: Final = Path("docs/images")
MOST: Final = 300_000  # bytes per picture
_SHOWN: Final = "fixtures__recordings__flink__1.20.5__hot-key"
_COLUMNS: Final = 100
_SIZES: Final = {
    "page": (900, 1500, "light"),
    "page-dark": (900, 1500, "dark"),
    "page-narrow": (400, 900, "light"),
}


def take(reports: Mapping[str, Report]) -> int:
    """Take all screenshots; return 1 if any is too large.

    Args:
        reports: the reports of the recordings, by name.
    """
    IMAGES.mkdir(parents=True, exist_ok=True)
    report = reports[_SHOWN]
    (IMAGES / "terminal.svg").write_text(_terminal(report), encoding="utf-8")
    _photograph(report)
    sizes = {path: path.stat().st_size for path in sorted(IMAGES.iterdir())}
    for path, size in sizes.items():
        print(f"{path} {size:,} bytes")
    return max(sizes.values()) > MOST


def _terminal(report: Report) -> str:
    """Export the real report with its colors, as Rich draws a terminal."""
    text = table.render(report, Page(width=_COLUMNS, color=True))
    console = Console(
        record=True,
        width=_COLUMNS,
        file=io.StringIO(),
        force_terminal=True,
        color_system="truecolor",
    )
    console.print(Text.from_ansi(text), end="")
    # An explicit ID; by default Rich derives it from the content and the clock.
    return console.export_svg(title="flowdiag diagnose logs/", unique_id="flowdiag") + "\n"


def _photograph(report: Report) -> None:
    from tests.cli.browser import browsing, chromium

    program = chromium()
    if program is None:
        raise SystemExit("there is no Chromium: install it, or say with CHROMIUM where it is")
    with tempfile.TemporaryDirectory() as folder, browsing(program) as browser:
        file = Path(folder, "report.html")
        file.write_text(html.render(report, Page()), encoding="utf-8")
        for name, (width, height, scheme) in _SIZES.items():
            page = browser.new_page(
                viewport={"width": width, "height": height},
                color_scheme="dark" if scheme == "dark" else "light",
            )
            page.goto(file.as_uri())
            page.screenshot(path=IMAGES / f"{name}.png")
            page.close()
