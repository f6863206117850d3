"""Renders a report for the terminal: the inputs, the data, the findings, and last the verdict.

Without `-v` it has at most `LINES` lines: `Page.terse` rises until the report fits. A report longer than a screen
repeats the verdict at the top. This module lays out the frame; `flowdiag.cli.views` has the contents.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from rich.console import Group, RenderableType
from rich.text import Text

from flowdiag.analyses.contract.report import Culprit, Report, Rule
from flowdiag.analyses.model import fmt
from flowdiag.analyses.topic_names import EVERYTHING
from flowdiag.cli import views
from flowdiag.cli.text import grid as g
from flowdiag.cli.text import words
from flowdiag.cli.text.page import TERSEST, Page
from flowdiag.cli.views.findings import findings_block
from flowdiag.cli.views.inputs import inputs_block
from flowdiag.cli.views.stories import stories_block

LINES: Final = 60
SCREEN: Final = 24  # lines of the smallest terminal

# By `Page.terse`:
_CULPRITS: Final = (5, 5, 4, 3, 2)
_CULPRIT: Final = (400, 300, 240, 200, 160)  # characters of a culprit
_RECOGNIZED: Final = (8, 8, 6, 4, 3)  # kinds of recognized records
_EXAMPLE: Final = (100, 80, 60, 40, 40)  # characters of a record
_REASONS: Final = (8, 6, 4, 3, 2)  # reasons of inconclusive rules
_REASON: Final = (400, 240, 160, 120, 80)  # characters of a reason
_TOP: Final = (160, 160, 160, 120, 80)  # characters of the culprit at the top
_HEAD = re.compile(r"^.{0,40}?\d\d:\d\d:\d\d.{0,250}? - +")


def render(report: Report, page: Page) -> str:
    """Return the report as text, with ANSI escapes on a page with color."""
    clock = words.clock_of(report, page.zone)
    if page.verbose:
        return _report(report, page, clock)
    for terse in range(TERSEST):
        text = _report(report, replace(page, terse=terse), clock)
        if text.count("\n") <= LINES:
            return text
    return _report(report, replace(page, terse=TERSEST), clock)


def _report(report: Report, page: Page, clock: words.Clock) -> str:
    def section(name: str, make: Callable[[], Iterable[RenderableType]]) -> list[RenderableType]:
        return page.section(name, make, lambda text: g.line(text, "red"))

    parts = section("inputs", lambda: [inputs_block(report, page, clock)])
    everything = report.tool.command == EVERYTHING
    stories = everything and bool(report.summary.stories)
    in_full = page.verbose or not stories
    # The tables of all topics may take too many lines; the command of each topic shows its own.
    if page.verbose or not (stories or (everything and page.terse == TERSEST)):
        parts += views.blocks(report, page, clock, topics=_topics(report, page))
    if stories:
        parts += section("stories", lambda: [stories_block(report, page, clock)])
    if report.findings and in_full:
        parts += section("findings", lambda: [findings_block(report, page, clock)])
    if in_full:
        parts += views.forecast_blocks(report, page, clock)
    parts += section("rules", lambda: _rules(report.rules, page))
    notes = [words.ignored_rules(report.rules), words.hidden_findings(report)]
    lines = [g.line(text, "yellow") for text in [*notes, *words.baseline_lines(report)] if text]
    parts += [Group(*lines)] if lines else []
    parts += section("verdict", lambda: [_verdict(report, page)])
    text = g.render_blocks(parts, page, apart=True)
    if text.count("\n") < SCREEN:
        return text
    top = g.render_blocks(section("verdict", lambda: [_top(report, page)]), page)
    return f"{top}\n{text}"


def _topics(report: Report, page: Page) -> list[str]:
    """Return the topics whose data the report shows. Without `-v`, a healthy diagnosis shows only the first topic."""
    topics = views.topics_with_data(report)
    brief = report.tool.command == EVERYTHING and report.summary.verdict == "healthy"
    return topics[:1] if brief and not page.verbose else topics


def _verdict_line(report: Report, title: Text) -> Text:
    """Append the verdict and the cause to a title."""
    summary = report.summary
    style = g.VERDICT_STYLES.get(summary.verdict if summary.assessed else "inconclusive", "bold")
    title.append("  ")
    title.append(words.verdict_sentence(report), style)
    if summary.cause:
        title.append(" · ", "dim")
        title.append(summary.cause, "bold")
    return title


def _top(report: Report, page: Page) -> RenderableType:
    """Return the verdict and the first culprit, for readers who do not scroll down to the end."""
    blocks: list[RenderableType] = [
        _verdict_line(report, g.heading(f"flowdiag {report.tool.command}"))
    ]
    for culprit in report.summary.culprits[:1]:
        text = words.compact(words.culprit_line(culprit))
        blocks.append(g.Indented(g.line(words.truncate(text, _TOP[page.terse]))))
    return Group(*blocks)


# --- rules and verdict ----------------------------------------------------------------------------


def _rules(rules: list[Rule], page: Page) -> list[RenderableType]:
    """Return all rules on a verbose page, otherwise only the inconclusive rules, grouped by reason."""
    tally = words.rule_tally(rules)
    if page.verbose:
        rows = [
            (
                Text.assemble(f"{rule.code} {rule.name}  ", (rule.status, "dim")),
                g.line(rule.reason or rule.title, "dim" if rule.status == "clear" else ""),
            )
            for rule in rules
        ]
        return [g.block(g.heading("Rules", tally), g.Aligned(rows))] if rows else []
    by_reason: dict[str, list[Rule]] = {}
    for rule in words.inconclusive_rules(rules):
        by_reason.setdefault(rule.reason or rule.title, []).append(rule)
    if not by_reason:
        return []
    most = _REASONS[page.terse]
    rows = [
        (_rule_names(some), g.line(words.truncate(reason, _REASON[page.terse])))
        for reason, some in list(by_reason.items())[:most]
    ]
    title = g.heading("Not assessed", tally)
    return [g.block(title, g.Aligned(rows), *g.and_more(len(by_reason) - most))]


def _rule_names(rules: list[Rule]) -> Text:
    if len(rules) == 1:
        return Text(f"{rules[0].code} {rules[0].name}")
    return Text(", ".join(rule.code for rule in rules[:3]) + (", …" if len(rules) > 3 else ""))


def _verdict(report: Report, page: Page) -> RenderableType:
    """Return the last block: the verdict, the culprits, and the first steps."""
    blocks: list[RenderableType] = [_verdict_line(report, g.heading("Verdict"))]
    blocks += map(g.Indented, _grounds(report, page))
    several = words.has_several_jobs(report)
    ranked = words.ranked_culprits(report)
    shown = list(enumerate(ranked[: _CULPRITS[page.terse]], 1))
    blocks += map(g.Indented, g.and_more(len(ranked) - len(shown), "in the JSON", hint=""))
    if shown:
        rows = [
            (
                Text(f"{number}.", "bold" if number == 1 else "dim"),
                _culprit(culprit, page, jobs if several else []),
            )
            for number, (culprit, jobs) in shown
        ]
        blocks.append(g.Indented(g.Aligned(rows)))
    blocks += [
        g.Indented(g.line(step if page.verbose else words.compact_step(step), "" if n else "bold"))
        for n, step in enumerate(words.first_steps(report))
    ]
    return Group(*blocks)


def _grounds(report: Report, page: Page) -> Iterator[RenderableType]:
    """Yield lines that justify the verdict: missing inputs, recognized records, or the rules that passed."""
    summary = report.summary
    if not summary.assessed:
        missing = f"{words.missing_input(report)} Not assessed does not mean healthy."
        yield g.line(missing, "dim")
    if not summary.assessed or summary.verdict == "inconclusive":
        yield from _recognized_records(report, page)
    elif summary.verdict == "healthy" and not words.inconclusive_rules(report.rules):
        yield g.line(words.rule_tally(report.rules), "dim")
        if summary.not_assessed:
            yield g.line(f"not assessed: {summary.not_assessed}", "dim")
        shown = _topics(report, page)
        if hidden := [each for each in views.topics_with_data(report) if each not in shown]:
            yield g.line(f"-v also shows {fmt.listed(hidden)}", "dim")


def _recognized_records(report: Report, page: Page) -> Iterator[RenderableType]:
    """Yield the kinds of records that flowdiag recognized, each with an example."""
    kinds = report.summary.understood
    if kinds:
        shown = kinds if page.verbose else kinds[: _RECOGNIZED[page.terse]]
        rows = [
            (
                Text(f"{kind.count}", "dim"),
                g.line(kind.kind),
                g.line(_example(kind.example or "", page), "dim"),
            )
            for kind in shown
        ]
        yield Group(g.line("recognized", "dim"), g.Indented(g.Aligned(rows)))
        yield from g.and_more(len(kinds) - len(shown))


def _example(text: str, page: Page) -> str:
    if text.lstrip('"')[:1] in ("{", "["):
        return ""  # JSON is not readable in one line
    message = _HEAD.sub("", text)
    return message if page.verbose else fmt.shorten(message, _EXAMPLE[page.terse])


def _culprit(culprit: Culprit, page: Page, jobs: Sequence[str]) -> Text:
    culprit_line = words.culprit_line(culprit)
    if not page.verbose:
        culprit_line = words.truncate(words.compact(culprit_line), _CULPRIT[page.terse])
    text = g.line(culprit_line)
    if jobs:
        text.rstrip()
        text.append(f" · {words.job_list(jobs)}")
    text.append(f"  {culprit.code}, {culprit.confidence} confidence", "dim")
    return text
