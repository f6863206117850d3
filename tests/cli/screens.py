"""Check a report on terminals of several widths, and describe each flaw for tests."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from rich.cells import cell_len

from flowdiag.analyses.contract.redact import printable
from flowdiag.analyses.contract.report import DOCUMENTS, Report
from flowdiag.cli.render import table
from flowdiag.cli.text import words
from flowdiag.cli.text.page import TERSEST, Page

WIDTHS = (60, 80, 120)
_DRAWN = re.compile(r"[✓EDFSa…│▁▂▃▄▅▆▇█▒■·◀├└─?.|#~_+*%=-]+")
_NUMBER = re.compile(r"\d[\d.,/×]*")
_CHARTED = re.compile(
    r"^\s*(?:\S+ \w+|\S+)?\s+[▁▂▃▄▅▆▇█─]+|#\d+  |per cell|one cell shows|a column shows|-v shows the reasons"
)


def flaws(report: Report) -> Iterator[str]:
    """Yield the flaws of a report in the terminal."""
    for width in WIDTHS:
        page = Page(width=width)
        output = table.render(report, page)
        yield from (f"at {width}: {flaw}" for flaw in _screen_flaws(report, output, width))
        yield from (f"at {width}: {flaw}" for flaw in _lost_words(report, page))
    yield from _verbose_flaws(report)


def _screen_flaws(report: Report, output: str, width: int) -> Iterator[str]:
    lines = output.splitlines()
    if len(lines) > table.LINES:
        yield f"{len(lines)} lines"
    for line in lines:
        # Only a path, which is never broken, and the text to its left may be wider.
        if cell_len(line) > width and not re.search(r"[/!.]\S*$", line):
            yield f"wider than the terminal: {line!r}"
        if line.rstrip() != line:
            yield f"trailing spaces: {line!r}"
    yield from _verdict_flaws(report, lines)


def _verdict_flaws(report: Report, lines: list[str]) -> Iterator[str]:
    """Check that the first screen and the last block contain the verdict and the first culprit."""
    start = max(number for number, line in enumerate(lines) if line.startswith("Verdict  "))
    if any(line and not line.startswith(" ") for line in lines[start + 4 :]):
        yield "text below the verdict"
    first, last = ("".join(part).replace(" ", "") for part in (lines[:24], lines[start:]))
    sentence = words.verdict_sentence(report).replace(" ", "")
    culprits = words.ranked_culprits(report)
    expected = [sentence]
    if culprits:
        culprit = printable(words.compact(words.culprit_line(culprits[0][0])))
        expected.append(culprit.replace(" ", "")[:40])
    for text in expected:
        if text not in first:
            yield f"not on the first screen: {text}"
        if text not in last:
            yield f"not at the end: {text}"
    numbers = [
        int(hit) for hit in re.findall(r"^  (\d+)\.  ", "\n".join(lines[start:]), re.MULTILINE)
    ]
    if numbers != sorted(numbers):
        yield f"the culprits are not in order: {numbers}"


def _lost_words(report: Report, page: Page) -> Iterator[str]:
    """Yield the numbers and words that are only visible on a wide terminal."""
    clock = words.clock_of(report)
    for terse in (0, TERSEST):
        wide = table._report(report, replace(page, width=1000, terse=terse), clock)
        here = table._report(report, replace(page, terse=terse), clock)
        joined = "".join(here.split())
        for line in wide.splitlines():
            if _CHARTED.search(line):
                continue
            for word in line.split():
                if _NUMBER.fullmatch(word) and word not in here:
                    yield f"cut: {word!r} of {line!r}"
                elif len(word) <= 10 and not _DRAWN.fullmatch(word) and word not in joined:
                    yield f"lost: {word!r} of {line!r}"


def _verbose_flaws(report: Report) -> Iterator[str]:
    """Check that -v shows everything."""
    page = Page(width=1000, verbose=1)
    output, paths = table.render(report, page), words.paths_of(report, page)
    for finding in report.findings:
        texts = [finding.title, *(words.location(item, paths) for item in finding.evidence)]
        texts += [words.measurement(item) for item in finding.measurements]
        texts += [action.text for action in finding.actions]
        yield from (f"missing with -v: {text}" for text in texts if text not in output)
    for item in report.inputs:
        # Documents that differ only in ids and times share a row.
        in_series = item.kind in {*DOCUMENTS, "prometheus"} and "more like it" in output
        if not in_series and paths.show(item.source) not in output:
            yield f"missing with -v: {item.source}"
