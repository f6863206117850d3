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
from flowdiag.cli.text.grid import Aligned, Indented, and_more, heading, line
from flowdiag.cli.text.stories import (
    StoryView,
    finding_title,
    story_paragraph,
    story_views,
    unrelated_findings,
)
from flowdiag.cli.views.findings import in_lines, quoted, recorded, severity

# By `Page.terse`: stories, findings that are named as consequences of one, characters of each.
_STORIES: Final = (5, 5, 4, 3, 2)
_CONSEQUENCES: Final = (8, 6, 4, 3, 2)
_CHARACTERS: Final = (160, 140, 120, 100, 80)


def stories_block(report: Report, page: Page, clock: words.Clock) -> RenderableType:
    """All stories of a report, the one that matters most first; then what belongs to none."""
    several = words.has_several_jobs(report)
    paths = words.paths_of(report, page)
    dated = page.verbose > 0 or not words.is_one_day(report, clock)
    stories = story_views(report)
    most = len(stories) if page.verbose else _STORIES[page.terse]
    blocks: list[RenderableType] = [heading("Stories", str(len(stories)))]
    for number, view in enumerate(stories[:most], 1):
        # Whoever reads on wants less of each.
        shorter = page if number == 1 else replace(page, terse=max(page.terse, TERSEST - 1))
        when = words.period(view.head, clock, date=dated)
        said = _story(view, number, shorter, when, paths, several)
        blocks += [*([Text()] if number > 1 else []), Indented(said)]
    blocks += map(Indented, and_more(len(stories) - most, "stories"))
    rest = unrelated_findings(report)
    if rest and not page.verbose and page.terse < TERSEST:
        blocks += [
            Text(),
            Indented(Text("beside them", "dim")),
            Indented(in_lines(rest, page, several)),
        ]
    return Group(*blocks)


def _story(
    view: StoryView, number: int, page: Page, when: str, paths: words.Paths, several: bool
) -> RenderableType:
    left = Text.assemble((f"{number}. ", "bold"), severity(view.head.severity))
    right = line(view.cause)
    job = words.job_name(view.root.subject) if several else ""
    facts = [view.head.state, f"{view.head.confidence} confidence", when, view.root.code, job]
    right.append(f"  {' · '.join(printable(fact) for fact in facts if fact)}", "dim")
    head = Aligned([(left, right)])
    if number > 1 and page.terse == TERSEST:
        return Group(head, Indented(line(finding_title(view.root)), 3))
    most = None if page.verbose else _CONSEQUENCES[page.terse]
    said = line(story_paragraph(view, most=most, characters=_CHARACTERS[page.terse]))
    said.stylize("bold", 0, len(printable(finding_title(view.root))))
    return Group(head, Indented(said, 3, PROSE - 3), Indented(Aligned(_rows(view, page, paths)), 3))


def _rows(view: StoryView, page: Page, paths: words.Paths) -> Iterator[tuple[RenderableType, ...]]:
    """What proves it, and what to do."""
    if view.proof is not None:
        record, others = view.proof
        yield Text("proof", "dim"), recorded(record, paths, others)
        if record.excerpt:
            yield Text(), line(quoted(record.excerpt), "dim")
    if view.action is not None:
        text, details = words.action_lines(view.action)
        kept = details[:1] if view.action.option else []
        rest = [line(detail, "dim") for detail in kept]
        yield Text("to do", "dim"), Group(line(words.compact(text)), *rest)
