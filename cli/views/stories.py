"""Shows each story as a paragraph with the record that proves it and one action; `-v` shows the findings in full."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from rich.console import Group, RenderableType
from rich.text import Text

from flowdiag.analyses.contract.redact import printable
from flowdiag.analyses.contract.report import Report
from flowdiag.cli.text import stories as s
from flowdiag.cli.text import words
from flowdiag.cli.text.grid import Aligned, Indented, and_more, heading, line
from flowdiag.cli.text.page import PROSE, TERSEST, Page
from flowdiag.cli.views.findings import evidence_line, excerpt_line, finding_lines, severity_text

# By `Page.terse`: the stories, the consequences of each, and the characters of a consequence.
_STORIES: Final = (5, 5, 4, 3, 2)
_CONSEQUENCES: Final = (8, 6, 4, 3, 2)
_CHARACTERS: Final = (160, 140, 120, 100, 80)
_CODES: Final = 2  # maximum number of codes explained per incident


def stories_block(report: Report, page: Page, clock: words.Clock) -> RenderableType:
    """Return all stories, the most important first, then the findings that belong to none."""
    several = words.has_several_jobs(report)
    paths = words.paths_of(report, page)
    dated = page.verbose > 0 or not words.is_one_day(report, clock)
    stories, label = s.story_views(report), words.job_labels(report)
    most = len(stories) if page.verbose else _STORIES[page.terse]
    blocks: list[RenderableType] = [heading("Incidents", str(len(stories)))]
    for number, view in enumerate(stories[:most], 1):
        # The first story gets the most lines.
        shorter = page if number == 1 else replace(page, terse=max(page.terse, TERSEST - 1))
        when = words.period(view.head, clock, date=dated)
        job = label(view.root.subject) if several else ""
        text = _story(view, number, shorter, when, paths, job)
        blocks += [*([Text()] if number > 1 else []), Indented(text)]
    blocks += map(Indented, and_more(len(stories) - most, "incidents"))
    rest = s.unrelated_findings(report)
    if rest and not page.verbose and page.terse < TERSEST:
        blocks += [
            Text(),
            Indented(Text("other findings", "dim")),
            Indented(finding_lines(rest, page, several)),
        ]
    return Group(*blocks)


def _story(
    view: s.StoryView, number: int, page: Page, when: str, paths: words.Paths, job: str
) -> RenderableType:
    left = Text.assemble((f"{number}. ", "bold"), severity_text(view.head.severity))
    right = line(view.cause)
    facts = [view.head.state, f"{view.head.confidence} confidence", when, view.root.code, job]
    right.append(f"  {' · '.join(printable(fact) for fact in facts if fact)}", "dim")
    head = Aligned([(left, right)])
    title = s.finding_title(view.root)
    if number > 1 and page.terse == TERSEST:
        return Group(head, Indented(line(title), 3))
    most = None if page.verbose else _CONSEQUENCES[page.terse]
    text = line(s.story_paragraph(view, most=most, characters=_CHARACTERS[page.terse]))
    text.stylize("bold", 0, len(printable(title)))
    rows = Aligned(_details(view, paths))
    return Group(head, Indented(text, 3, PROSE - 3), Indented(rows, 3))


def _details(view: s.StoryView, paths: words.Paths) -> Iterator[tuple[RenderableType, ...]]:
    if view.proof is not None:
        record, others = view.proof
        yield Text("proof", "dim"), evidence_line(record, paths, others)
        if record.excerpt:
            yield Text(), line(excerpt_line(record.excerpt), "dim")
    if view.root.component is not None:
        yield Text("thrown by", "dim"), line(view.root.component.what)
    for code in view.root.codes[:_CODES]:
        yield Text("code", "dim"), line(f"{code.code}: {code.meaning}")
    if view.action is not None:
        text, details = words.action_lines(view.action)
        kept = details[:1] if view.action.option else []
        rest = [line(detail, "dim") for detail in kept]
        yield Text("to do", "dim"), Group(line(words.compact(text)), *rest)
