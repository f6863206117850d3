"""Stories: each in a paragraph, with the line that proves it and what to do; everything else needs `-v`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from rich.console import Group, RenderableType
from rich.text import Text

from flowdiag.analyses.report.redact import printable
from flowdiag.analyses.report.wire import Report
from flowdiag.cli.render.page import PROSE, TERSEST, Page
from flowdiag.cli.text import words
from flowdiag.cli.text.grid import aligned, heading, line, more, under
from flowdiag.cli.text.telling import Told, beside, paragraph, title, told_of
from flowdiag.cli.views.findings import in_lines, quoted, recorded, severity

# By `Page.terse`: stories, findings that are named as consequences of one, characters of each.
_STORIES: Final = (5, 5, 4, 3, 2)
_CONSEQUENCES: Final = (8, 6, 4, 3, 2)
_CHARACTERS: Final = (160, 140, 120, 100, 80)


def stories_block(report: Report, page: Page, clock: words.Clock) -> RenderableType:
    """All stories of a report, the one that matters most first; then what belongs to none."""
    several = words.several_jobs(report)
    paths = words.paths_of(report, page)
    dated = page.verbose > 0 or not words.one_day(report, clock)
    stories = told_of(report)
    most = len(stories) if page.verbose else _STORIES[page.terse]
    blocks: list[RenderableType] = [heading("Stories", str(len(stories)))]
    for number, told in enumerate(stories[:most], 1):
        # Whoever reads on wants less of each.
        shorter = page if number == 1 else replace(page, terse=max(page.terse, TERSEST - 1))
        when = words.seen(told.head, clock, date=dated)
        said = _story(told, number, shorter, when, paths, several)
        blocks += [*([Text()] if number > 1 else []), under(said)]
    blocks += map(under, more(len(stories) - most, "stories"))
    rest = beside(report)
    if rest and not page.verbose and page.terse < TERSEST:
        blocks += [Text(), under(Text("beside them", "dim")), under(in_lines(rest, page, several))]
    return Group(*blocks)


def _story(
    told: Told, number: int, page: Page, when: str, paths: words.Paths, several: bool
) -> RenderableType:
    left = Text.assemble((f"{number}. ", "bold"), severity(told.head.severity))
    right = line(told.word)
    job = words.job_of(told.root.subject) if several else ""
    facts = [told.head.state, f"{told.head.confidence} confidence", when, told.root.code, job]
    right.append(f"  {' · '.join(printable(fact) for fact in facts if fact)}", "dim")
    head = aligned([(left, right)])
    if number > 1 and page.terse == TERSEST:
        return Group(head, under(line(title(told.root)), 3))
    most = None if page.verbose else _CONSEQUENCES[page.terse]
    said = line(paragraph(told, most=most, characters=_CHARACTERS[page.terse]))
    said.stylize("bold", 0, len(printable(title(told.root))))
    return Group(head, under(said, 3, PROSE - 3), under(aligned(_rows(told, page, paths)), 3))


def _rows(told: Told, page: Page, paths: words.Paths) -> Iterator[tuple[RenderableType, ...]]:
    """What proves it, and what to do."""
    if told.proof is not None:
        record, others = told.proof
        yield Text("proof", "dim"), recorded(record, paths, others)
        if record.excerpt:
            yield Text(), line(quoted(record.excerpt), "dim")
    if told.step is not None:
        text, details = words.action(told.step)
        kept = details[:1] if told.step.option else []
        rest = [line(detail, "dim") for detail in kept]
        yield Text("to do", "dim"), Group(line(words.brief(text)), *rest)
