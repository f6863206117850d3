"""The report in at most `MOST` characters of plain text: for a ticket, a chat message, a language model.

What the report comes to, who did it, each story with the line that proves it and one thing to do, what was
not assessed. No markup and no escapes: what logs say can neither mention somebody in a chat, nor open a
block of code, nor turn text around; quotations are marked as such. Where room is short, the last stories
lose their details first, and the text says what it leaves out. The same report gives the same text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from flowdiag.analyses.model import fmt
from flowdiag.analyses.report.redact import printable
from flowdiag.analyses.report.wire import Report
from flowdiag.cli.render.page import Page
from flowdiag.cli.text import words
from flowdiag.cli.text.stories import StoryView, story_paragraph, story_views, unrelated_findings

MOST: Final = 2_000
"""Characters of a brief, with its line ends."""


@dataclass(frozen=True, slots=True)
class _Room:
    """How much is told; every number is a limit.

    Args:
        full: stories with their proof and what to do.
        stories: stories at all.
        followed: findings that are named as consequences of one.
        characters: of each of these.
        quotation: characters of a log line.
        others: characters of what else is said: reasons, steps, remarks.
    """

    full: int
    stories: int
    followed: int
    characters: int
    quotation: int
    others: int


_ROOMS: Final = (
    _Room(5, 8, 8, 160, 200, 300),
    _Room(3, 8, 6, 140, 160, 240),
    _Room(2, 6, 4, 120, 120, 200),
    _Room(1, 5, 4, 120, 120, 160),
    _Room(1, 4, 2, 100, 80, 120),
    _Room(1, 3, 1, 80, 60, 100),
    _Room(1, 2, 0, 60, 40, 80),
)
# Who reads a chat in which this is posted is not to be called, nor the text to become code or a link.
_MENTION: Final = re.compile(r"(?<=<)(?=[@!#&:/]|\w+:)|(?<!\w)@(?=\w)")
_TITLE: Final = 200  # characters of who did it
_KNOWN: Final = 3  # lines about the baseline


def render(report: Report, page: Page) -> str:
    """The report as a brief."""
    for room in _ROOMS:
        text = "".join(f"{_harmless(line)}\n" for line in _lines(report, page, room))
        if len(text) <= MOST:
            return text
    return f"{text[: MOST - 3].rstrip()} …\n"


def _harmless(line: str) -> str:
    r"""A line in which nothing is markup of a chat.

    >>> _harmless("`@here` <!channel> tm-1 @ worker-1 \u202e")
    "'@ here' < !channel> tm-1 @ worker-1 \\u202e"
    """
    head = line[: len(line) - len(line.lstrip(" "))]
    said = " ".join(printable(line).split()).replace("`", "'")
    return head + _MENTION.sub(lambda hit: f"{hit.group()} ", said)


def _lines(report: Report, page: Page, room: _Room) -> Iterator[str]:
    clock = words.clock_of(report, page.zone)
    cause = f" ({report.summary.cause})" if report.summary.cause else ""
    yield f"flowdiag {report.tool.command}: {words.verdict_sentence(report)}{cause}"
    yield from _culprit(report, room)
    yield _inputs(report, clock)
    stories = story_views(report)
    for number, view in enumerate(stories[: room.stories], 1):
        yield from _story(view, number, clock, page, room)
    yield from _not_told(report, stories, room)
    yield from _not_assessed(report, room)
    first = report.summary.first_action
    if first is not None:
        yield f"then check: {first.run}"


def _culprit(report: Report, room: _Room) -> Iterator[str]:
    ranked = words.ranked_culprits(report)
    for culprit, jobs in ranked[:1]:
        where = f", {words.job_list(jobs)}" if words.has_several_jobs(report) and jobs else ""
        said = words.truncate(words.compact(words.culprit_line(culprit)), _TITLE)
        yield f"culprit: {said}{where} ({culprit.code}, {culprit.confidence} confidence)"
    others = [words.compact(words.subject_name(each.subject)) for each, _ in ranked[1:]]
    if others:
        yield words.truncate(f"also accused: {'; '.join(dict.fromkeys(others))}", room.others)


def _inputs(report: Report, clock: words.Clock) -> str:
    read = [item for item in report.inputs if item.kind != "not-read"]
    unread = len(report.inputs) - len(read)
    parts = [f"{fmt.plural(len(read), 'input')} read", words.time_span(report, clock)]
    parts += [f"{unread} not read"] if unread else []
    broken = sum(bool(item.error) for item in read)
    parts += [f"{broken} cut short"] if broken else []
    return f"inputs: {', '.join(parts)}"


def _story(
    view: StoryView, number: int, clock: words.Clock, page: Page, room: _Room
) -> Iterator[str]:
    when = words.period(view.head, clock)
    facts = [view.head.severity, view.head.state, f"{view.head.confidence} confidence", when]
    said = story_paragraph(view, most=room.followed, characters=room.characters)
    if number > room.full:
        yield f"{number}. {view.head.severity}, {view.cause}: {said}"
        return
    yield ""
    yield f"{number}. {view.cause}: {', '.join(filter(None, facts))} ({view.root.code})"
    yield f"   {said}"
    if view.proof is not None:
        record, others = view.proof
        place = words.location(record, words.Paths(page.folder, ""))
        quoted = f': "{words.truncate(record.excerpt, room.quotation)}"' if record.excerpt else ""
        more = f" ({others} more)" if others else ""
        yield f"   proof, quoted from the input: {place}{quoted}{more}"
    if view.action is not None:
        text, details = words.action_lines(view.action)
        kept = details[:1] if view.action.option else []
        yield f"   to do: {words.truncate('; '.join([words.compact(text), *kept]), room.others)}"


def _not_told(report: Report, stories: list[StoryView], room: _Room) -> Iterator[str]:
    """What is left out."""
    left = stories[room.stories :]
    counts = [
        fmt.plural(len(left), "story" if report.summary.stories else "finding", _several(report))
    ]
    remarks = unrelated_findings(report)
    parts = [*(counts if left else ()), *([fmt.plural(len(remarks), "remark")] if remarks else [])]
    detailed = min(len(stories), room.stories) - room.full
    parts += [f"proof and remedy of {detailed}"] if detailed > 0 else []
    hidden = [words.ignored_rules(report.rules), words.hidden_findings(report)]
    hidden += [words.truncate(said, room.others) for said in words.baseline_lines(report)[:_KNOWN]]
    if parts or stories:
        yield ""
    if parts:
        yield f"left out here: {', '.join(parts)}; --format table tells more"
    yield from filter(None, hidden)


def _several(report: Report) -> str:
    return "stories" if report.summary.stories else "findings"


def _not_assessed(report: Report, room: _Room) -> Iterator[str]:
    summary = report.summary
    if not summary.assessed:
        yield f"{words.truncate(words.missing_input(report), room.others)} Not assessed is not healthy."
    unsettled = words.inconclusive_rules(report.rules)
    if unsettled:
        codes = ", ".join(rule.code for rule in unsettled[:6])
        codes += ", …" if len(unsettled) > 6 else ""
        reason = words.truncate(unsettled[0].reason or unsettled[0].title, room.others)
        yield f"not assessed: {codes}: {reason}"
    clear = sum(rule.status == "clear" for rule in report.rules)
    void = sum(rule.status == "not-assessed" for rule in report.rules)
    more = f", {void} had nothing to judge" if void else ""
    yield f"rules: {clear} of {len(report.rules)} clear{more}"
    for suggestion in summary.suggestions[:1]:
        wanted = f"run {suggestion.command}" if suggestion.command else suggestion.wants
        yield f"to tell more: {words.truncate(wanted or suggestion.text, room.others)}"
    for kind, notes in (("error", report.errors), ("warning", report.warnings)):
        for note in notes[:1]:
            more = f" (and {len(notes) - 1} more)" if len(notes) > 1 else ""
            where = f"{note.source}: " if note.source else ""
            yield f"{kind}: {words.truncate(where + note.message, room.others)}{more}"
