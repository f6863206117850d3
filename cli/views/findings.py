"""Shows findings: the first with evidence and actions, the others with a line each; all in full with `-v`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec
from rich.console import Group, RenderableType
from rich.style import Style
from rich.text import Text

from flowdiag.analyses.contract.redact import printable
from flowdiag.analyses.contract.report import Action, Evidence, Finding, Report
from flowdiag.analyses.model import finding as f
from flowdiag.analyses.model import fmt
from flowdiag.cli.text import words
from flowdiag.cli.text.grid import Aligned, Indented, and_more, heading, line, unbroken_line
from flowdiag.cli.text.hyperlinks import file_url
from flowdiag.cli.text.page import PROSE, TERSEST, Page
from flowdiag.parsers.lines.traces import is_library

_SEVERITY: Final = {"critical": "bold red", "warning": "yellow", "info": "cyan"}
_HEAD: Final = re.compile(r"^.{0,40}?\d\d:\d\d:\d\d.{0,250}? - +")

# By `Page.terse`: the evidence of the first finding, its characters; actions; other findings.
_EVIDENCE: Final = (2, 2, 1, 1, 1)
_EXCERPT: Final = (200, 160, 160, 120, 60)
_ACTIONS: Final = (5, 4, 3, 2, 1)
_OTHERS: Final = (12, 10, 8, 6, 4)
_TITLE: Final = (400, 300, 240, 160, 120)  # characters of a finding in one line
_LINE: Final = 66  # characters of an excerpt that fits into one line of most terminals
_IN_CONFIDENCE: Final = ("points-for", "points-against")  # the confidence includes them


def findings_block(report: Report, page: Page, clock: words.Clock) -> RenderableType:
    """Return all findings, the most important first."""
    several = words.has_several_jobs(report)
    paths = words.paths_of(report, page)
    first, *others = report.findings
    step = report.summary.first_action
    if page.terse == TERSEST and step is not None and step.code == first.code:
        # The end of the report shows the action; there is no space to repeat it.
        first = msgspec.structs.replace(first, actions=[])
    first = _with_stacks(first, others)
    blocks: list[RenderableType] = [heading("Findings", str(len(report.findings)))]
    dated = page.verbose > 0 or not words.is_one_day(report, clock)
    blocks.append(Indented(_finding(first, page, clock, paths, several, dated=dated)))
    if page.verbose:
        for finding in others:
            blocks += [Text(), Indented(_finding(finding, page, clock, paths, several))]
        return Group(*blocks)
    if others:
        blocks += [Text(), Indented(finding_lines(others, page, several))]
        if page.terse < TERSEST:
            blocks.append(Indented(Text("-v shows all findings with evidence and remedies", "dim")))
    return Group(*blocks)


def _with_stacks(first: Finding, others: Sequence[Finding]) -> Finding:
    """Return the first finding, with stacks borrowed from another finding about the same subject."""
    alike = (other.stacks for other in others if other.subject == first.subject and other.stacks)
    return msgspec.structs.replace(first, stacks=first.stacks or next(alike, []))


def _finding(
    finding: Finding,
    page: Page,
    clock: words.Clock,
    paths: words.Paths,
    several: bool,
    *,
    dated: bool = True,
) -> RenderableType:
    head = Text.assemble(
        (finding.severity.upper(), _SEVERITY.get(finding.severity, "bold")),
        f"  {finding.code} {finding.name}",
    )
    when = words.period(finding, clock, date=dated)
    facts = [finding.state, f"{finding.confidence} confidence", when]
    head.append(f"  {' · '.join(filter(None, facts))}", "dim")
    details = _details if page.verbose else _essentials
    table = Aligned(
        (Text(label if number == 0 else "", "dim"), text)
        for label, lines in details(finding, page, paths, several)
        for number, text in enumerate(lines)
    )
    explained = bool(finding.explain) and page.terse < 3
    return Group(
        head,
        line(finding.title if page.verbose else words.compact(finding.title), "bold"),
        *([Indented(line(finding.explain, "dim"), most=PROSE - 2)] if explained else []),
        Indented(table),
    )


LabeledLines = Iterator[tuple[str, list[RenderableType]]]
"""Pairs of a label and its lines."""


def _details(finding: Finding, page: Page, paths: words.Paths, several: bool) -> LabeledLines:
    if finding.subject.kind != "job" or several:
        yield "about", [line(words.subject_name(finding.subject, most=200))]
    if finding.why and finding.why != finding.title:
        yield "because", [line(finding.why)]
    yield "measured", [line(words.measurement(item)) for item in finding.measurements]
    yield "votes", [_vote(vote.weight, vote.signal, vote.text) for vote in finding.votes]
    yield "stack", list(_stack(finding))
    yield "evidence", list(_evidence(finding, paths, len(finding.evidence)))
    yield from _origin(finding, len(finding.codes))
    steps = Aligned(
        (f"{number}.", Group(line(text), *(line(detail, "dim") for detail in details)))
        for number, (text, details) in enumerate(map(words.action_lines, finding.actions), 1)
    )
    yield "to do", [steps] if finding.actions else []
    yield "see", [line(", ".join(finding.see))] if finding.see else []


def _essentials(finding: Finding, page: Page, paths: words.Paths, several: bool) -> LabeledLines:
    """Yield the subject, reason, measurements, evidence and actions of a finding in short form."""
    subject, why = finding.subject, finding.why or ""
    name = words.subject_name(subject, most=200)
    place = subject.taskmanager or subject.host or subject.task
    named = place is not None and place in why
    if (subject.kind != "job" or several) and not named and name != subject.kind:
        yield "about", [line(words.compact(name))]
    if why and not _repeats_title(why, finding.title):
        yield "because", [line(words.compact(why))]
    measured = _measurements(finding) if page.terse < TERSEST else ""
    yield "measured", [line(measured)] if measured else []
    yield "stack", list(_stack(finding)) if page.terse == 0 else []
    shown = _EVIDENCE[page.terse]
    yield "evidence", list(_evidence(finding, paths, shown, _EXCERPT[page.terse]))
    yield from _origin(finding, _CODES)
    yield "to do", list(_action_lines(finding.actions, page))
    yield "see", [line(", ".join(finding.see))] if finding.see else []


_FRAMES: Final = 10  # maximum number of frames of the most frequent stack


def _stack(finding: Finding) -> Iterator[RenderableType]:
    """Yield the most frequent stack, topmost frame first, down to the user code and the frame that called it."""
    if not finding.stacks:
        return
    path = finding.stacks[0].frames[::-1]
    mine = next((n for n, frame in enumerate(path) if not is_library(frame)), len(path) - 1)
    shown = [*path[: mine + 2]]
    if len(shown) > _FRAMES:
        hidden = len(shown) - _FRAMES + 1
        shown[_FRAMES - 5 : _FRAMES - 5 + hidden] = [f"… {hidden} more"]
    for frame in shown:
        yield line(printable(frame), "" if frame == path[mine] else "dim")


_CODES: Final = 2  # maximum number of codes explained in short form


def _origin(finding: Finding, most: int) -> LabeledLines:
    """Yield the component that threw the exception, and the first codes in its text."""
    if finding.component is not None:
        yield "thrown by", [line(finding.component.what), line(finding.component.check, "dim")]
    yield "codes", [line(f"{one.code}: {one.meaning}") for one in finding.codes[:most]]


def _measurements(finding: Finding) -> str:
    """Return the measurements in one line; their population is omitted."""
    return " · ".join(
        words.measurement(msgspec.structs.replace(item, population=None))
        for item in finding.measurements
        if item.name not in _IN_CONFIDENCE
    )


def _repeats_title(why: str, title: str) -> bool:
    """Return whether the title already contains the reason. A name at the start of the reason is ignored."""
    return why in title or (": " in why and why.partition(": ")[2].rstrip(".… ") in title)


def _vote(weight: int, signal: str, text: str) -> Text:
    style = "green" if weight > 0 else "yellow" if weight < 0 else "dim"
    return Text.assemble((f"{weight:+d} ", style), line(f"{signal}: {text}"))


def _evidence(
    finding: Finding, paths: words.Paths, most: int, characters: int | None = None
) -> Iterator[RenderableType]:
    """Yield places in the inputs, each with its excerpt.

    Args:
        finding: the finding with the evidence.
        paths: the names of inputs.
        most: the number of places.
        characters: the length of an excerpt without the head of its log line; None for the whole line.
    """
    shown = finding.evidence[:most]
    hidden = finding.evidence_total - len(shown)
    for item in shown:
        last = characters is not None and item is shown[-1]
        yield evidence_line(item, paths, hidden if last else 0)
        if item.excerpt and characters is None:
            yield Indented(line(item.excerpt, "dim"))
        elif item.excerpt and characters is not None:
            yield Indented(line(fmt.shorten(_HEAD.sub("", item.excerpt), characters), "dim"))
    if hidden > 0 and (characters is None or not shown):
        yield line(f"… {hidden} more", "dim")


def evidence_line(item: Evidence, paths: words.Paths, others: int = 0) -> Text:
    """Return the place of a record, as a link if the terminal opens links, and the number of further records."""
    place = unbroken_line(words.location(item, paths))
    url = file_url(item.source, paths.here) if paths.linked else None
    if url is not None:
        place.stylize(Style(link=url))
    if others > 0:
        place.append(f" and {others} more", "dim")
    return place


def excerpt_line(excerpt: str) -> str:
    """Return the message of a log line, cut to the width of a terminal."""
    text = _HEAD.sub("", excerpt)
    name = text.partition(" ")[0]
    # A metric's value follows its long name: cut in the middle.
    return fmt.abbreviate(text, _LINE) if len(name) > _LINE // 2 else words.truncate(text, _LINE)


def _action_lines(actions: Sequence[Action], page: Page) -> Iterator[RenderableType]:
    most = _ACTIONS[page.terse]
    rows = []
    for number, action in enumerate(actions[:most], 1):
        text, details = words.action_lines(action)
        # Users type the option and its value: the last details to be omitted.
        kept = details if page.terse == 0 else details[:1] if action.option else []
        rows.append((f"{number}.", Group(line(text), *(line(detail, "dim") for detail in kept))))
    if rows:
        yield Aligned(rows)
    yield from and_more(len(actions) - most)


# --- in lines -------------------------------------------------------------------------------------


def finding_lines(findings: Sequence[Finding], page: Page, several: bool) -> RenderableType:
    """Return a line per finding or, if there are many, per rule."""
    most, characters = _OTHERS[page.terse], _TITLE[page.terse]
    if len(findings) <= most:
        return Aligned(_finding_line(finding, several, characters) for finding in findings)
    alike: dict[tuple[str, str], list[Finding]] = {}
    for finding in findings:
        alike.setdefault((finding.severity, finding.code), []).append(finding)
    groups = list(alike.values())
    rows = [
        _rule_line(some, several) if len(some) > 1 else _finding_line(some[0], several, characters)
        for some in groups
    ]
    return Group(Aligned(rows[:most]), *and_more(len(rows) - most, "rules"))


def _finding_line(finding: Finding, several: bool, characters: int) -> tuple[RenderableType, ...]:
    text = line(words.truncate(words.compact(finding.title), characters))
    job = words.job_name(finding.subject)
    if several and job and job not in finding.title:
        text.append(f" · {printable(job)}")
    if finding.state is f.State.RECOVERED:
        text.append(" · recovered", "dim")
    return severity_text(finding.severity), Text(finding.code, "dim"), text


def _rule_line(findings: Sequence[Finding], several: bool) -> tuple[RenderableType, ...]:
    text = line(f"{len(findings)} × {findings[0].name}")
    jobs = list(dict.fromkeys(filter(None, (words.job_name(each.subject) for each in findings))))
    if several and jobs:
        text.append(f" in {words.job_list(jobs)}", "dim")
    else:
        text.append(f", first: {printable(words.compact(findings[0].title))}", "dim")
    return severity_text(findings[0].severity), Text(findings[0].code, "dim"), text


def severity_text(word: str) -> Text:
    return Text(word.upper(), _SEVERITY.get(word, "bold"))
