"""The report for people in a terminal: what was read, what happened, what is wrong, the verdict last.

Without `-v` it has at most `LINES` lines: where room is short, more and more of the details are left out
(`Page.terse`). Where it is longer than a screen, the verdict stands above it, too. What is laid out here
is what frames a report; what it consists of lies in `flowdiag.cli.views`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from rich.console import Group, RenderableType
from rich.text import Text

from flowdiag.analyses.model import fmt
from flowdiag.analyses.report.wire import Culprit, Report, Rule
from flowdiag.analyses.topics import EVERYTHING
from flowdiag.cli import views
from flowdiag.cli.render.page import TERSEST, Page
from flowdiag.cli.text import words
from flowdiag.cli.text.grid import (
    VERDICT_STYLES,
    Aligned,
    Indented,
    and_more,
    block,
    heading,
    line,
    render_blocks,
)
from flowdiag.cli.views.findings import findings_block
from flowdiag.cli.views.inputs import inputs_block
from flowdiag.cli.views.stories import stories_block

LINES: Final = 60
SCREEN: Final = 24  # lines that are seen at once on the smallest terminal

# By `Page.terse`: culprits, and kinds of records that were understood.
_CULPRITS: Final = (5, 5, 4, 3, 2)
_UNDERSTOOD: Final = (8, 8, 6, 4, 3)
_CONVICTED: Final = (400, 300, 240, 200, 160)  # characters of what convicts a culprit
_EXAMPLE: Final = (100, 80, 60, 40, 40)  # characters of one
_UNSETTLED: Final = (8, 6, 4, 3, 2)  # reasons for which rules could not tell
_REASON: Final = (400, 240, 160, 120, 80)  # characters of one
_ABOVE: Final = (160, 160, 160, 120, 80)  # characters of the culprit above a report
_HEAD = re.compile(r"^.{0,40}?\d\d:\d\d:\d\d.{0,250}? - +")


def render(report: Report, page: Page) -> str:
    """The report as text, with escapes for colour where the page has colour."""
    clock = words.clock_of(report, page.zone)
    if page.verbose:
        return _whole(report, page, clock)
    for terse in range(TERSEST):
        text = _whole(report, replace(page, terse=terse), clock)
        if text.count("\n") <= LINES:
            return text
    return _whole(report, replace(page, terse=TERSEST), clock)


def _whole(report: Report, page: Page, clock: words.Clock) -> str:
    def section(name: str, make: Callable[[], Iterable[RenderableType]]) -> list[RenderableType]:
        return page.section(name, make, lambda text: line(text, "red"))

    parts = section("inputs", lambda: [inputs_block(report, page, clock)])
    everything = report.tool.command == EVERYTHING
    told = everything and bool(report.summary.stories)
    # The tables of all topics at once may be more than there is room for; each command shows its own.
    if page.verbose or not (told or (everything and page.terse == TERSEST)):
        parts += views.blocks(report, page, clock)
    if told:
        parts += section("stories", lambda: [stories_block(report, page, clock)])
    if report.findings and (page.verbose or not told):
        parts += section("findings", lambda: [findings_block(report, page, clock)])
    if page.verbose or not told:
        parts += views.outlook(report, page, clock)
    parts += section("rules", lambda: _rules(report.rules, page))
    unheard = [words.ignored_rules(report.rules), words.hidden_findings(report)]
    unheard += words.baseline_lines(report)
    parts += [Group(*(line(text, "yellow") for text in unheard if text))] if any(unheard) else []
    parts += section("verdict", lambda: [_verdict(report, page)])
    text = render_blocks(parts, page, apart=True)
    if text.count("\n") < SCREEN:
        return text
    return f"{render_blocks(section('verdict', lambda: [_above(report, page)]), page)}\n{text}"


def _sentence(report: Report, title: Text) -> Text:
    """The verdict behind a title."""
    summary = report.summary
    style = VERDICT_STYLES.get(summary.verdict if summary.assessed else "inconclusive", "bold")
    title.append("  ")
    title.append(words.verdict_sentence(report), style)
    if summary.cause:
        title.append(" · ", "dim")
        title.append(summary.cause, "bold")
    return title


def _above(report: Report, page: Page) -> RenderableType:
    """The verdict in short, for who does not see the end."""
    blocks: list[RenderableType] = [_sentence(report, heading(f"flowdiag {report.tool.command}"))]
    for culprit in report.summary.culprits[:1]:
        said = words.compact(words.culprit_line(culprit))
        blocks.append(Indented(line(words.truncate(said, _ABOVE[page.terse]))))
    return Group(*blocks)


# --- rules and verdict ----------------------------------------------------------------------------


def _tally(rules: list[Rule]) -> str:
    clear = sum(rule.status == "clear" for rule in rules)
    void = sum(rule.status == "not-assessed" for rule in rules)
    said = [f"{clear} of {len(rules)} rules are clear"]
    return " · ".join([*said, *([f"{void} had nothing to judge"] if void else [])])


def _rules(rules: list[Rule], page: Page) -> list[RenderableType]:
    """What every rule came to where everything is asked for, else those that could not tell."""
    tally = _tally(rules)
    if page.verbose:
        rows = [
            (
                Text.assemble(f"{rule.code} {rule.name}  ", (rule.status, "dim")),
                line(rule.reason or rule.title, "dim" if rule.status == "clear" else ""),
            )
            for rule in rules
        ]
        return [block(heading("Rules", tally), Aligned(rows))] if rows else []
    alike: dict[str, list[Rule]] = {}
    for rule in words.inconclusive_rules(rules):
        alike.setdefault(rule.reason or rule.title, []).append(rule)
    if not alike:
        return []
    most = _UNSETTLED[page.terse]
    rows = [
        (_named(some), line(words.truncate(reason, _REASON[page.terse])))
        for reason, some in list(alike.items())[:most]
    ]
    return [block(heading("Not assessed", tally), Aligned(rows), *and_more(len(alike) - most))]


def _named(rules: list[Rule]) -> Text:
    """Rules that could not tell for the same reason."""
    if len(rules) == 1:
        return Text(f"{rules[0].code} {rules[0].name}")
    return Text(", ".join(rule.code for rule in rules[:3]) + (", …" if len(rules) > 3 else ""))


def _verdict(report: Report, page: Page) -> RenderableType:
    """The last block, and in it what matters most last."""
    summary = report.summary
    blocks: list[RenderableType] = [_sentence(report, heading("Verdict"))]
    if not summary.assessed:
        blocks.append(
            Indented(line(f"{words.missing_input(report)} Not assessed is not healthy.", "dim"))
        )
    if not summary.assessed or summary.verdict == "inconclusive":
        blocks += map(Indented, _beside_a_verdict(report, page))
    elif summary.verdict == "healthy" and not words.inconclusive_rules(report.rules):
        blocks.append(Indented(line(_tally(report.rules), "dim")))
    several = words.has_several_jobs(report)
    ranked = words.ranked_culprits(report)
    shown = list(enumerate(ranked[: _CULPRITS[page.terse]], 1))
    blocks += map(Indented, and_more(len(ranked) - len(shown), "in the JSON", hint=""))
    if shown:
        rows = [
            (
                Text(f"{number}.", "bold" if number == 1 else "dim"),
                _culprit(culprit, page, jobs if several else []),
            )
            for number, (culprit, jobs) in reversed(shown)
        ]
        blocks.append(Indented(Aligned(rows)))
    blocks += [
        Indented(line(step if page.verbose else words.compact(step), "bold" if not n else ""))
        for n, step in enumerate(words.first_steps(report))
    ]
    return Group(*blocks)


def _beside_a_verdict(report: Report, page: Page) -> Iterator[RenderableType]:
    """What was understood, and what would tell more."""
    kinds = report.summary.understood
    if kinds:
        shown = kinds if page.verbose else kinds[: _UNDERSTOOD[page.terse]]
        rows = [
            (
                Text(f"{kind.count}", "dim"),
                line(kind.kind),
                line(_example(kind.example or "", page), "dim"),
            )
            for kind in shown
        ]
        yield Group(line("understood", "dim"), Indented(Aligned(rows)))
        yield from and_more(len(kinds) - len(shown))
    for suggestion in report.summary.suggestions:
        if suggestion.command:
            yield line(f"{suggestion.text}: run {suggestion.command}")
        elif suggestion.wants:
            yield line(f"to tell more: {suggestion.wants}")


def _example(text: str, page: Page) -> str:
    if text.lstrip('"')[:1] in ("{", "["):
        return ""  # an answer for programs
    said = _HEAD.sub("", text)
    return said if page.verbose else fmt.shorten(said, _EXAMPLE[page.terse])


def _culprit(culprit: Culprit, page: Page, jobs: Sequence[str]) -> Text:
    convicted = words.culprit_line(culprit)
    if not page.verbose:
        convicted = words.truncate(words.compact(convicted), _CONVICTED[page.terse])
    said = line(convicted)
    if jobs:
        said.rstrip()
        said.append(f" · {words.job_list(jobs)}")
    said.append(f"  {culprit.code}, {culprit.confidence} confidence", "dim")
    return said
