"""The report for people in a terminal: what was read, what happened, what is wrong, the verdict last.

Only what every command shows is laid out here; what a topic adds lies in `flowdiag.cli.views`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from flowdiag.analyses import say
from flowdiag.analyses.report.redact import printable
from flowdiag.analyses.report.wire import DOCUMENTS, Culprit, Finding, Input, Report, Rule
from flowdiag.cli import views, words
from flowdiag.cli.grid import VERDICT_STYLES, aligned, block, drawn, heading, line, more, under
from flowdiag.cli.render.page import PROSE, Page

INPUTS_SHOWN: Final = 12
EVIDENCE_SHOWN: Final = 3
CULPRITS_SHOWN: Final = 5
UNDERSTOOD_SHOWN: Final = 8
DRIFT_SHOWN_MS: Final = 1_000  # less is as likely the time that a message takes

KINDS: Final = {
    "rest": "REST",
    "spark-rest": "REST",
    "archive": "archive",
    "prometheus": "metrics",
    "spark-events": "events",
}
_SEVERITY: Final = {"critical": "bold red", "warning": "yellow", "info": "cyan"}
_HEAD = re.compile(r"^.{0,40}?\d\d:\d\d:\d\d.{0,250}? - +")


def render(report: Report, page: Page) -> str:
    """The report as text, with escapes for colour where the page has colour."""
    clock = words.clock_of(report)
    parts = [_inputs(report, page, clock)]
    parts += views.blocks(report, page, clock)
    parts += [_findings(report, page, clock)] if report.findings else []
    parts += views.outlook(report, page, clock)
    parts += [_rules(report.rules, page)] if _worth_listing(report.rules, page) else []
    parts.append(_verdict(report, page))
    return drawn(parts, page, apart=True)


def _prose(text: str, page: Page, indent: int, style: str = "") -> RenderableType:
    """Running text, wrapped at a width that can be read however wide the terminal is."""
    return under(
        Padding(
            line(text, style),
            (0, max(0, page.width - PROSE), 0, 0),
        ),
        indent,
    )


# --- inputs ---------------------------------------------------------------------------------------


def _inputs(report: Report, page: Page, clock: words.Clock) -> RenderableType:
    read = [item for item in report.inputs if item.kind != "not-read"]
    unread = [item for item in report.inputs if item.kind == "not-read"]
    folder = words.common_folder([item.source for item in read])
    total = say.size(sum(item.bytes for item in read))
    parts = [f"{say.plural(len(read), 'input')}, {total}"]
    parts += [f"{len(unread)} not read"] if unread else []
    parts += [words.span(report, clock)]
    parts += [f"in {printable(folder)}"] if folder else []
    blocks: list[RenderableType] = [heading("Inputs", " · ".join(parts))]
    engine = "Spark" if report.tool.command == "rate" else "Flink"
    rows = list(_input_rows(read, len(folder), grouped=not page.verbose, engine=engine))
    shown = rows if page.verbose else rows[:INPUTS_SHOWN]
    if shown:
        blocks.append(under(_input_table(shown, page)))
    blocks += map(under, more(len(rows) - len(shown)))
    blocks += [under(note) for note in _input_notes(report.inputs, unread, page)]
    return Group(*blocks)


InputRow = tuple[str, str, str]  # what it is, its name, facts about it


def _input_rows(
    inputs: Iterable[Input], prefix: int, *, grouped: bool, engine: str
) -> Iterator[InputRow]:
    """JobManagers first; saved answers of the REST interface, of which there may be hundreds, last.

    Args:
        inputs: what was read.
        prefix: characters of the names that all share.
        grouped: whether the saved answers of one folder share a row.
        engine: whose versions are shown.
    """
    answers: dict[str, list[Input]] = {}
    for item in sorted(inputs, key=lambda item: item.role != "jobmanager"):
        if item.kind in ("rest", "spark-rest") and grouped:
            answers.setdefault(words.common_folder([item.source, item.source]), []).append(item)
            continue
        what = KINDS.get(item.kind, item.role)
        yield printable(what), printable(item.source[prefix:]), _input_facts(item, engine)
    for folder, items in answers.items():
        facts = [say.size(sum(item.bytes for item in items))]
        facts += [say.plural(sum(item.recognised for item in items), "record")]
        if len(items) == 1:
            name = items[0].source[prefix:]
        else:
            name = f"{len(items)} answers" + (f" in {folder[prefix:]}" if folder[prefix:] else "")
        yield "REST", printable(name), " · ".join(facts)


def _input_table(rows: list[InputRow], page: Page) -> RenderableType:
    """Side by side, or where that is too wide, the facts below the name."""
    widths = [max(cell_len(row[column]) for row in rows) for column in range(3)]
    beside = 2 + sum(widths) + 4 <= page.width
    if beside:
        return aligned(
            (line(what, "dim"), line(name), line(facts, "dim")) for what, name, facts in rows
        )
    return aligned(
        (line(what, "dim"), Group(line(name), line(facts, "dim"))) for what, name, facts in rows
    )


def _input_facts(item: Input, engine: str) -> str:
    zone = item.zone or "" if item.kind not in DOCUMENTS else ""  # those are in UTC
    if zone and item.zone_from:
        given = item.zone_from.startswith("--")  # an option keeps its name
        zone += f" ({item.zone_from if given else item.zone_from.replace('-', ' ')})"
    if item.clock_offset_ms and abs(item.clock_offset_ms) >= DRIFT_SHOWN_MS:
        ahead = item.clock_offset_ms > 0
        zone += f", clock {say.duration(abs(item.clock_offset_ms))}"
        zone += " ahead" if ahead else " behind"
    version = f"{engine} {item.version}" if item.version else ""
    records = say.plural(item.recognised, "record")
    return printable(" · ".join(filter(None, [version, say.size(item.bytes), records, zone])))


def _input_notes(inputs: Iterable[Input], unread: list[Input], page: Page) -> Iterator[Text]:
    for item in unread if page.verbose else unread[:INPUTS_SHOWN]:
        yield line(f"not read: {item.source}: {item.reason or 'unknown kind'}", "yellow")
    if not page.verbose and len(unread) > INPUTS_SHOWN:
        yield line(f"… and {len(unread) - INPUTS_SHOWN} more not read (-v lists all)", "yellow")
    for item in inputs:
        if item.error and item.kind != "not-read":
            yield line(f"cut short: {item.source}: {item.error}", "yellow")
        if item.not_understood:
            sample = f', e.g. "{say.abbreviate(item.samples[0], 120)}"' if item.samples else ""
            lines = say.plural(item.not_understood, "line")
            yield line(f"not understood: {item.source}: {lines} of known classes{sample}", "yellow")


# --- findings -------------------------------------------------------------------------------------


def _findings(report: Report, page: Page, clock: words.Clock) -> RenderableType:
    several = _several_jobs(report)
    blocks: list[RenderableType] = [heading("Findings", str(len(report.findings)))]
    for index, finding in enumerate(report.findings):
        if index:
            blocks.append(Text())
        blocks.append(under(_finding(finding, page, clock, several)))
    return Group(*blocks)


def _several_jobs(report: Report) -> bool:
    return len(report.data.jobs or ()) + len(report.data.applications or ()) > 1


def _finding(
    finding: Finding, page: Page, clock: words.Clock, several_jobs: bool
) -> RenderableType:
    head = Text.assemble(
        (finding.severity.upper(), _SEVERITY.get(finding.severity, "bold")),
        f"  {finding.code} {finding.name}",
    )
    when = words.seen(finding, clock)
    facts = [finding.state, f"{finding.confidence} confidence", when]
    head.append(f"  {' · '.join(filter(None, facts))}", "dim")
    table = aligned(
        (Text(label if number == 0 else "", "dim"), said)
        for label, lines in _details(finding, page, several_jobs)
        for number, said in enumerate(lines)
    )
    return Group(
        head,
        line(finding.title, "bold"),
        *([_prose(finding.explain, page, 2, "dim")] if finding.explain else []),
        under(table),
    )


def _details(
    finding: Finding, page: Page, several_jobs: bool
) -> Iterator[tuple[str, list[RenderableType]]]:
    if finding.subject.kind != "job" or several_jobs:
        yield "about", [line(words.who(finding.subject, most=200))]
    if finding.why and finding.why != finding.title:
        yield "because", [line(finding.why)]
    yield "measured", [line(words.measurement(item)) for item in finding.measurements]
    yield "votes", [_vote(vote.weight, vote.signal, vote.says) for vote in finding.votes]
    yield "evidence", _evidence(finding, page)
    steps = aligned(
        (f"{number}.", Group(line(text), *(line(detail, "dim") for detail in details)))
        for number, (text, details) in enumerate(map(words.action, finding.actions), 1)
    )
    yield "to do", [steps] if finding.actions else []
    yield "see", [line(", ".join(finding.see))] if finding.see else []


def _vote(weight: int, signal: str, says: str) -> Text:
    style = "green" if weight > 0 else "yellow" if weight < 0 else "dim"
    return Text.assemble((f"{weight:+d} ", style), line(f"{signal}: {says}"))


def _evidence(finding: Finding, page: Page) -> list[RenderableType]:
    shown = finding.evidence if page.verbose else finding.evidence[:EVIDENCE_SHOWN]
    lines: list[RenderableType] = []
    for item in shown:
        lines.append(line(words.place(item)))
        if item.excerpt:
            said = item.excerpt if page.verbose else _HEAD.sub("", item.excerpt)
            lines.append(under(line(said, "dim")))
    if finding.evidence_total > len(shown):
        lines.append(line(f"… {finding.evidence_total - len(shown)} more", "dim"))
    return lines


# --- rules and verdict ----------------------------------------------------------------------------


def _worth_listing(rules: list[Rule], page: Page) -> bool:
    return bool(words.unsettled(rules)) or (page.verbose > 0 and bool(rules))


def _rules(rules: list[Rule], page: Page) -> RenderableType:
    listed = rules if page.verbose else words.unsettled(rules)
    clear = sum(rule.status == "clear" for rule in rules)
    title = "Rules" if page.verbose else "Not assessed"
    rows = []
    for rule in listed:
        state = Text(rule.status, "dim") if page.verbose else Text()
        reason = line(rule.reason or rule.title, "dim" if rule.status == "clear" else "")
        name = Text.assemble((f"{rule.code} {rule.name}", ""), ("  " if state else "", ""), state)
        rows.append((name, reason))
    said = [f"{clear} of {len(rules)} rules are clear"]
    void = sum(rule.status == "not-assessed" for rule in rules)
    said += [f"{void} had nothing to judge"] if void else []
    return block(heading(title, " · ".join(said)), aligned(rows))


def _verdict(report: Report, page: Page) -> RenderableType:
    summary = report.summary
    title = heading("Verdict")
    title.append("  ")
    style = VERDICT_STYLES.get(summary.verdict if summary.assessed else "inconclusive", "bold")
    title.append(words.verdict_sentence(report), style)
    if summary.cause:
        title.append(" · ", "dim")
        title.append(summary.cause, "bold")
    blocks: list[RenderableType] = [title]
    if not summary.assessed:
        blocks.append(under(line(f"{words.lacking(report)} Not assessed is not healthy.", "dim")))
    if not summary.assessed or summary.verdict == "inconclusive":
        blocks += map(under, _beside_a_verdict(report, page))
    several = _several_jobs(report)
    culprits = summary.culprits[:CULPRITS_SHOWN]
    if culprits:
        ranked = aligned(
            (Text(f"{number}.", "bold" if number == 1 else "dim"), _culprit(culprit, several))
            for number, culprit in enumerate(culprits, 1)
        )
        blocks.append(under(ranked))
    blocks += [
        under(line(step, "bold" if not n else ""))
        for n, step in enumerate(words.first_steps(report))
    ]
    return Group(*blocks)


def _beside_a_verdict(report: Report, page: Page) -> Iterator[RenderableType]:
    """What was understood, and what would tell more."""
    kinds = report.summary.understood
    if kinds:
        shown = kinds if page.verbose else kinds[:UNDERSTOOD_SHOWN]
        rows = [
            (
                Text(f"{kind.count}", "dim"),
                line(kind.kind),
                line(_HEAD.sub("", kind.example or ""), "dim"),
            )
            for kind in shown
        ]
        yield Group(line("understood", "dim"), under(aligned(rows)))
        yield from more(len(kinds) - len(shown))
    for suggestion in report.summary.suggestions:
        if suggestion.command:
            yield line(f"{suggestion.text}: run {suggestion.command}")
        elif suggestion.wants:
            yield line(f"to tell more: {suggestion.wants}")


def _culprit(culprit: Culprit, several_jobs: bool) -> Text:
    said = line(words.convicted(culprit))
    job = culprit.subject.job_name
    if several_jobs and job and culprit.subject.kind != "job":
        said.append(f", job {printable(job)}")
    said.append(f"  {culprit.code}, {culprit.confidence} confidence", "dim")
    return said
