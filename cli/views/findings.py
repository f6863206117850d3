"""Findings: the first with what proves it and what to do, the others in a line each; all in full with -v."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec
from rich.console import Group, RenderableType
from rich.style import Style
from rich.text import Text

from flowdiag.analyses.model import finding as f
from flowdiag.analyses.model import fmt
from flowdiag.analyses.report.redact import printable
from flowdiag.analyses.report.wire import Action, Evidence, Finding, Report
from flowdiag.cli.render.page import PROSE, TERSEST, Page
from flowdiag.cli.text import words
from flowdiag.cli.text.grid import Aligned, Indented, and_more, heading, line, unbroken
from flowdiag.cli.text.hyperlinks import file_url

_SEVERITY: Final = {"critical": "bold red", "warning": "yellow", "info": "cyan"}
_HEAD: Final = re.compile(r"^.{0,40}?\d\d:\d\d:\d\d.{0,250}? - +")

# By `Page.terse`: records that prove the first finding, characters of each; actions; other findings.
_EVIDENCE: Final = (2, 2, 1, 1, 1)
_EXCERPT: Final = (200, 160, 160, 120, 60)
_ACTIONS: Final = (5, 4, 3, 2, 1)
_OTHERS: Final = (12, 10, 8, 6, 4)
_TITLE: Final = (400, 300, 240, 160, 120)  # characters of what is said in a line
_LINE: Final = 66  # characters of a quotation that fills no more than a line of most terminals
_SUMMED_UP: Final = ("points-for", "points-against")  # the confidence says the same


def findings_block(report: Report, page: Page, clock: words.Clock) -> RenderableType:
    """All findings of a report, the one that matters most first."""
    several = words.has_several_jobs(report)
    paths = words.paths_of(report, page)
    first, *others = report.findings
    step = report.summary.first_action
    if page.terse == TERSEST and step is not None and step.code == first.code:
        # What to do stands at the end of the report; there is no room to say it twice.
        first = msgspec.structs.replace(first, actions=[])
    blocks: list[RenderableType] = [heading("Findings", str(len(report.findings)))]
    dated = page.verbose > 0 or not words.is_one_day(report, clock)
    blocks.append(Indented(_finding(first, page, clock, paths, several, dated=dated)))
    if page.verbose:
        for finding in others:
            blocks += [Text(), Indented(_finding(finding, page, clock, paths, several))]
        return Group(*blocks)
    if others:
        blocks += [Text(), Indented(in_lines(others, page, several))]
        if page.terse < TERSEST:
            blocks.append(Indented(Text("-v shows the numbers, lines and remedies of all", "dim")))
    return Group(*blocks)


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
    details = _details if page.verbose else essentials
    table = Aligned(
        (Text(label if number == 0 else "", "dim"), said)
        for label, lines in details(finding, page, paths, several)
        for number, said in enumerate(lines)
    )
    explained = bool(finding.explain) and page.terse < 3
    return Group(
        head,
        line(finding.title if page.verbose else words.compact(finding.title), "bold"),
        *([Indented(line(finding.explain, "dim"), most=PROSE - 2)] if explained else []),
        Indented(table),
    )


Said = Iterator[tuple[str, list[RenderableType]]]
"""Labels, each with its lines."""


def _details(finding: Finding, page: Page, paths: words.Paths, several: bool) -> Said:
    """Everything about a finding."""
    if finding.subject.kind != "job" or several:
        yield "about", [line(words.subject_name(finding.subject, most=200))]
    if finding.why and finding.why != finding.title:
        yield "because", [line(finding.why)]
    yield "measured", [line(words.measurement(item)) for item in finding.measurements]
    yield "votes", [_vote(vote.weight, vote.signal, vote.text) for vote in finding.votes]
    yield "evidence", list(_evidence(finding, paths, len(finding.evidence)))
    steps = Aligned(
        (f"{number}.", Group(line(text), *(line(detail, "dim") for detail in details)))
        for number, (text, details) in enumerate(map(words.action_lines, finding.actions), 1)
    )
    yield "to do", [steps] if finding.actions else []
    yield "see", [line(", ".join(finding.see))] if finding.see else []


def essentials(finding: Finding, page: Page, paths: words.Paths, several: bool) -> Said:
    """Who, why, the numbers, what proves it, and what to do."""
    subject = finding.subject
    known = finding.why and (subject.taskmanager or subject.host or subject.task or "\0")
    who = words.subject_name(subject, most=200)
    if (subject.kind != "job" or several) and (not known or known not in (finding.why or "")):
        # The kind alone says nothing of who it is.
        yield "about", [line(words.compact(who))] if who != subject.kind else []
    if finding.why and not _said(finding.why, finding.title):
        yield "because", [line(words.compact(finding.why))]
    told = [
        words.measurement(msgspec.structs.replace(item, population=None))
        for item in finding.measurements
        if item.name not in _SUMMED_UP
    ]
    yield "measured", [line(" · ".join(told))] if told and page.terse < 4 else []
    shown = _EVIDENCE[page.terse]
    yield "evidence", list(_evidence(finding, paths, shown, _EXCERPT[page.terse]))
    yield "to do", list(_to_do(finding.actions, page))
    yield "see", [line(", ".join(finding.see))] if finding.see else []


def _said(why: str, title: str) -> bool:
    """Whether a title holds a reason already, but for whose it is."""
    return why in title or (": " in why and why.partition(": ")[2].rstrip(".… ") in title)


def _vote(weight: int, signal: str, says: str) -> Text:
    style = "green" if weight > 0 else "yellow" if weight < 0 else "dim"
    return Text.assemble((f"{weight:+d} ", style), line(f"{signal}: {says}"))


def _evidence(
    finding: Finding, paths: words.Paths, most: int, characters: int | None = None
) -> Iterator[RenderableType]:
    """Places in the inputs, and below each what stands there.

    Args:
        finding: whose evidence it is.
        paths: how inputs are called.
        most: places that are shown.
        characters: of a quotation, without the head of its line; None: all there are.
    """
    shown = finding.evidence[:most]
    hidden = finding.evidence_total - len(shown)
    for item in shown:
        last = characters is not None and item is shown[-1]
        yield recorded(item, paths, hidden if last else 0)
        if item.excerpt and characters is None:
            yield Indented(line(item.excerpt, "dim"))
        elif item.excerpt and characters is not None:
            yield Indented(line(fmt.shorten(_HEAD.sub("", item.excerpt), characters), "dim"))
    if hidden > 0 and (characters is None or not shown):
        yield line(f"… {hidden} more", "dim")


def recorded(item: Evidence, paths: words.Paths, others: int = 0) -> Text:
    """Where a record stands, and how many more there are."""
    place = unbroken(words.location(item, paths))
    url = file_url(item.source, paths.here) if paths.linked else None
    if url is not None:
        place.stylize(Style(link=url))
    if others > 0:
        place.append(f" and {others} more", "dim")
    return place


def quoted(excerpt: str) -> str:
    """What a record says in the line of a terminal, without what its head says of every line."""
    said = _HEAD.sub("", excerpt)
    name = said.partition(" ")[0]
    # Of a metric the value counts, which stands behind a long name.
    return fmt.abbreviate(said, _LINE) if len(name) > _LINE // 2 else words.truncate(said, _LINE)


def _to_do(actions: Sequence[Action], page: Page) -> Iterator[RenderableType]:
    most = _ACTIONS[page.terse]
    rows = []
    for number, action in enumerate(actions[:most], 1):
        text, details = words.action_lines(action)
        # The option and its value are what somebody types in; they stay to the end.
        kept = details if page.terse == 0 else details[:1] if action.option else []
        rows.append((f"{number}.", Group(line(text), *(line(detail, "dim") for detail in kept))))
    if rows:
        yield Aligned(rows)
    yield from and_more(len(actions) - most)


# --- in lines -------------------------------------------------------------------------------------


def in_lines(findings: Sequence[Finding], page: Page, several: bool) -> RenderableType:
    """Findings in a line each, or where they are many, all of a rule in one."""
    most, characters = _OTHERS[page.terse], _TITLE[page.terse]
    if len(findings) <= most:
        return Aligned(_in_line(finding, several, characters) for finding in findings)
    alike: dict[tuple[str, str], list[Finding]] = {}
    for finding in findings:
        alike.setdefault((finding.severity, finding.code), []).append(finding)
    groups = list(alike.values())
    rows = [
        _of_a_rule(some, several) if len(some) > 1 else _in_line(some[0], several, characters)
        for some in groups
    ]
    return Group(Aligned(rows[:most]), *and_more(len(rows) - most, "rules"))


def _in_line(finding: Finding, several: bool, characters: int) -> tuple[RenderableType, ...]:
    said = line(words.truncate(words.compact(finding.title), characters))
    job = words.job_name(finding.subject)
    if several and job and job not in finding.title:
        said.append(f" · {printable(job)}")
    if finding.state is f.State.RECOVERED:
        said.append(" · recovered", "dim")
    return severity(finding.severity), Text(finding.code, "dim"), said


def _of_a_rule(findings: Sequence[Finding], several: bool) -> tuple[RenderableType, ...]:
    said = line(f"{len(findings)} × {findings[0].name}")
    jobs = list(dict.fromkeys(filter(None, (words.job_name(each.subject) for each in findings))))
    if several and jobs:
        said.append(f" in {words.job_list(jobs)}", "dim")
    else:
        said.append(f", first: {printable(words.compact(findings[0].title))}", "dim")
    return severity(findings[0].severity), Text(findings[0].code, "dim"), said


def severity(word: str) -> Text:
    """A severity in its colour."""
    return Text(word.upper(), _SEVERITY.get(word, "bold"))
