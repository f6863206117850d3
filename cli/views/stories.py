"""Stories: each culprit with what proves it, what followed from it, and what to do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from rich.console import Group, RenderableType
from rich.text import Text

from flowdiag.analyses.report.redact import printable
from flowdiag.analyses.report.wire import Finding, Report, Story
from flowdiag.cli import words
from flowdiag.cli.grid import aligned, heading, line, more, under
from flowdiag.cli.render.page import TERSEST, Page
from flowdiag.cli.views.findings import Said, essentials, in_lines, severity

# By `Page.terse`: stories, and consequences of each.
_STORIES: Final = (5, 5, 4, 3, 2)
_CONSEQUENCES: Final = (10, 8, 6, 4, 3)


def stories_block(report: Report, page: Page, clock: words.Clock) -> RenderableType:
    """All stories of a report, the one that matters most first; then what belongs to none."""
    several = words.several_jobs(report)
    paths = words.paths_of(report, page)
    dated = page.verbose > 0 or not words.one_day(report, clock)
    stories = report.summary.stories
    findings = {found.fingerprint: found for found in report.findings}
    most = len(stories) if page.verbose else _STORIES[page.terse]
    blocks: list[RenderableType] = [heading("Stories", str(len(stories)))]
    for number, story in enumerate(stories[:most], 1):
        # Whoever reads on wants less of each.
        shorter = page if number == 1 else replace(page, terse=max(page.terse, TERSEST - 1))
        told = _story(findings, story, number, shorter, clock, paths, several, dated=dated)
        blocks += [*([Text()] if number > 1 else []), under(told)]
    blocks += map(under, more(len(stories) - most, "stories"))
    told_of = {mark for story in stories for mark in story.findings}
    rest = [found for found in report.findings if found.fingerprint not in told_of]
    if rest and not page.verbose and page.terse < TERSEST:
        blocks += [Text(), under(Text("beside them", "dim")), under(in_lines(rest, page, several))]
    return Group(*blocks)


def _story(
    findings: Mapping[str, Finding],
    story: Story,
    number: int,
    page: Page,
    clock: words.Clock,
    paths: words.Paths,
    several: bool,
    *,
    dated: bool,
) -> RenderableType:
    root = findings[story.findings[0]]
    head = Text.assemble(
        (f"{number}. ", "bold"), severity(story.severity), f"  {story.cause or root.name}"
    )
    when = words.seen(story, clock, date=dated)
    facts = [story.state, f"{story.confidence} confidence", when, root.code]
    head.append(f"  {' · '.join(filter(None, facts))}", "dim")
    rows = [
        *essentials(root, page, paths, several),
        *_followed(findings, story, page),
        *_competing(findings, story),
    ]
    if number > 1 and page.terse == TERSEST:
        return Group(head, under(line(words.brief(root.title))))
    table = aligned(
        (Text(label if n == 0 else "", "dim"), said)
        for label, lines in rows
        for n, said in enumerate(lines)
    )
    return Group(head, under(line(words.brief(root.title), "bold")), under(table, 4))


def _followed(findings: Mapping[str, Finding], story: Story, page: Page) -> Said:
    """What the culprit led to, by the way in which it did."""
    most = len(story.because) if page.verbose else _CONSEQUENCES[page.terse]
    by_clause: dict[str, list[Finding]] = {}
    for one in story.because[:most]:
        by_clause.setdefault(one.says, []).append(findings[one.fingerprint])
    lines: list[RenderableType] = []
    for clause, explained in by_clause.items():
        if page.terse < 3:
            lines.append(line(f"{clause}:", "dim"))
        lines += [under(line(_said(found))) for found in explained]
    lines += more(len(story.because) - most, "findings")
    yield "led to", lines


def _said(finding: Finding) -> str:
    return f"{words.brief(finding.title)}  {finding.code}"


def _competing(
    findings: Mapping[str, Finding], story: Story
) -> Iterator[tuple[str, list[RenderableType]]]:
    """Who may be behind some of it as well."""
    others = [findings[other] for other in story.competing]
    if others:
        names = "; ".join(
            f"{printable(words.brief(found.title))} ({found.code})" for found in others
        )
        yield "or", [line(f"part of it may come from another story: {names}")]
