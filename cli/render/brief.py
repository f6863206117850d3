"""Renders a report as at most `MOST` characters of plain text, for a ticket, a chat message or a language model.

The brief has the verdict, the culprit, each story with its proof and one action, and the rules that were not assessed.
It contains no markup and no escapes: text from logs cannot mention people in a chat, open a code block or reverse
text. Excerpts are marked as quotations. When space is short, the last stories lose their details first, and the brief
states what it omits. The same report always gives the same text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from flowdiag.analyses.contract.redact import printable
from flowdiag.analyses.contract.report import Report
from flowdiag.analyses.model import fmt
from flowdiag.cli.text import stories as s
from flowdiag.cli.text import words
from flowdiag.cli.text.page import Page

MOST: Final = 2_000
"""The maximum length of a brief in characters, including line feeds."""


@dataclass(frozen=True, slots=True)
class _Limits:
    """The limits of a brief.

    Args:
        full: the number of stories with proof and action.
        stories: the number of stories in total.
        consequences: the number of consequences of a story.
        characters: the maximum length of a consequence.
        excerpt: the maximum length of a log line.
        others: the maximum length of any other text, such as a reason.
    """

    full: int
    stories: int
    consequences: int
    characters: int
    excerpt: int
    others: int


_LIMITS: Final = (
    _Limits(5, 8, 8, 160, 200, 300),
    _Limits(3, 8, 6, 140, 160, 240),
    _Limits(2, 6, 4, 120, 120, 200),
    _Limits(1, 5, 4, 120, 120, 160),
    _Limits(1, 4, 2, 100, 80, 120),
    _Limits(1, 3, 1, 80, 60, 100),
    _Limits(1, 2, 0, 60, 40, 80),
)
# The start of a mention or a link in chats: a space follows, so that nobody is notified.  # english: quoted
_MENTION: Final = re.compile(r"(?<=<)(?=[@!#&:/]|\w+:)|(?<!\w)@(?=\w)")
_CULPRIT: Final = 200  # characters
_BASELINE: Final = 3  # lines


def render(report: Report, page: Page) -> str:
    """Return the most detailed brief that fits the limit."""
    for limits in _LIMITS:
        text = "".join(f"{_without_markup(line)}\n" for line in _lines(report, page, limits))
        if len(text) <= MOST:
            return text
    return f"{text[: MOST - 3].rstrip()} …\n"


def _without_markup(line: str) -> str:
    r"""Remove chat markup from a line.

    >>> _without_markup("`@here` <!channel> tm-1 @ worker-1 \u202e")
    "'@ here' < !channel> tm-1 @ worker-1 \\u202e"
    """
    indent = line[: len(line) - len(line.lstrip(" "))]
    text = " ".join(printable(line).split()).replace("`", "'")
    return indent + _MENTION.sub(lambda hit: f"{hit.group()} ", text)


def _lines(report: Report, page: Page, limits: _Limits) -> Iterator[str]:
    clock = words.clock_of(report, page.zone)
    cause = f" ({report.summary.cause})" if report.summary.cause else ""
    yield f"flowdiag {report.tool.command}: {words.verdict_sentence(report)}{cause}"
    yield from _culprits(report, limits)
    read = [item for item in report.inputs if item.kind != "not-read"]
    unread = len(report.inputs) - len(read)
    parts = [f"{fmt.plural(len(read), 'input')} read", words.time_span(report, clock)]
    parts += [f"{unread} not read"] if unread else []
    broken = sum(bool(item.error) for item in read)
    parts += [f"{broken} incomplete"] if broken else []
    yield f"inputs: {', '.join(parts)}"
    stories = s.story_views(report)
    for number, view in enumerate(stories[: limits.stories], 1):
        yield from _story(view, number, clock, page, limits)
    yield from _omission_lines(report, stories, limits)
    yield from _not_assessed(report, limits)
    yield from _notes(report, limits)


def _culprits(report: Report, limits: _Limits) -> Iterator[str]:
    ranked = words.ranked_culprits(report)
    for culprit, jobs in ranked[:1]:
        where = f", {words.job_list(jobs)}" if words.has_several_jobs(report) and jobs else ""
        text = words.truncate(words.compact(words.culprit_line(culprit)), _CULPRIT)
        yield f"culprit: {text}{where} ({culprit.code}, {culprit.confidence} confidence)"
    others = [words.compact(words.subject_name(each.subject)) for each, _ in ranked[1:]]
    if others:
        yield words.truncate(f"other suspects: {'; '.join(dict.fromkeys(others))}", limits.others)


def _story(
    view: s.StoryView, number: int, clock: words.Clock, page: Page, limits: _Limits
) -> Iterator[str]:
    when = words.period(view.head, clock)
    facts = [view.head.severity, view.head.state, f"{view.head.confidence} confidence", when]
    text = s.story_paragraph(view, most=limits.consequences, characters=limits.characters)
    if number > limits.full:
        yield f"{number}. {view.head.severity}, {view.cause}: {text}"
        return
    yield ""
    yield f"{number}. {view.cause}: {', '.join(filter(None, facts))} ({view.root.code})"
    yield f"   {text}"
    if view.proof is not None:
        record, others = view.proof
        place = words.location(record, words.Paths(page.folder, ""))
        excerpt = words.truncate(record.excerpt or "", limits.excerpt)
        quoted = f': "{excerpt}"' if record.excerpt else ""
        more = f" ({others} more)" if others else ""
        yield f"   proof, quoted from the input: {place}{quoted}{more}"
    if view.root.component is not None:
        yield f"   thrown by: {view.root.component.what}"
    if view.action is not None:
        text, details = words.action_lines(view.action)
        kept = details[:1] if view.action.option else []
        yield f"   to do: {words.truncate('; '.join([words.compact(text), *kept]), limits.others)}"


def _omission_lines(report: Report, stories: list[s.StoryView], limits: _Limits) -> Iterator[str]:
    """Yield lines about the findings that the brief omits or that options hide."""
    kind = ("story", "stories") if report.summary.stories else ("finding", "findings")
    left = len(stories[limits.stories :])
    unrelated = len(s.unrelated_findings(report))
    short = min(len(stories), limits.stories) - limits.full
    parts = [fmt.plural(left, *kind)] if left else []
    parts += [fmt.plural(unrelated, "other finding")] if unrelated else []
    parts += [f"proof and remedy of {short}"] if short > 0 else []
    if parts or stories:
        yield ""
    if parts:
        yield f"not shown: {', '.join(parts)}; --format table shows more"
    yield from filter(None, [words.ignored_rules(report.rules), words.hidden_findings(report)])
    for line in words.baseline_lines(report)[:_BASELINE]:
        yield words.truncate(line, limits.others)


def _not_assessed(report: Report, limits: _Limits) -> Iterator[str]:
    if not report.summary.assessed:
        missing = words.truncate(words.missing_input(report), limits.others)
        yield f"{missing} Not assessed does not mean healthy."
    rules = words.inconclusive_rules(report.rules)
    if rules:
        codes = ", ".join(rule.code for rule in rules[:6]) + (", …" if len(rules) > 6 else "")
        reason = words.truncate(rules[0].reason or rules[0].title, limits.others)
        yield f"not assessed: {codes}: {reason}"
    elif report.summary.not_assessed:
        yield f"not assessed: {words.truncate(report.summary.not_assessed, limits.others)}"
    yield words.rule_tally(report.rules)


def _notes(report: Report, limits: _Limits) -> Iterator[str]:
    """Yield the first error, the first warning, and the evidence to collect next."""
    for kind, notes in (("error", report.errors), ("warning", report.warnings)):
        for note in notes[:1]:
            more = f" (and {len(notes) - 1} more)" if len(notes) > 1 else ""
            where = f"{note.source}: " if note.source else ""
            yield f"{kind}: {words.truncate(where + note.message, limits.others)}{more}"
    for line in words.next_steps(report):
        yield words.truncate(line, limits.others)
