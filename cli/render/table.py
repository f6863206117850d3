"""The report for people in a terminal: what was read, what happened, what is wrong, the verdict last.

Everything is built from `Text`, never from markup: names and excerpts come from logs.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator
from typing import Final

from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from flowdiag.analyses.report.redact import printable
from flowdiag.analyses.report.wire import (
    DOCUMENTS,
    CheckpointJob,
    Culprit,
    Finding,
    Input,
    Report,
    Rule,
)
from flowdiag.cli import words
from flowdiag.cli.render.page import Page
from flowdiag.cli.views import rate
from flowdiag.cli.views.memory import memory
from flowdiag.cli.views.queues import queues, what_if
from flowdiag.cli.views.startup import startup
from flowdiag.cli.views.timeline import GLYPHS, Timeline, bucket_note, legend_word, timeline

PROSE: Final = 100  # columns beyond which running text is hard to read
INPUTS_SHOWN: Final = 12
EVIDENCE_SHOWN: Final = 3
TASKMANAGERS_SHOWN: Final = 12
CULPRITS_SHOWN: Final = 5
DRIFT_SHOWN_MS: Final = 1_000  # less is as likely the time that a message takes

KINDS: Final = {
    "rest": "REST",
    "spark-rest": "REST",
    "archive": "archive",
    "prometheus": "metrics",
    "spark-events": "events",
}
_SEVERITY: Final = {"critical": "bold red", "warning": "yellow", "info": "cyan"}
_VERDICT: Final = words.VERDICT_STYLES
_CELL: Final = {
    "completed": "green",
    "savepoint": "bold green",
    "expired": "bold red",
    "failed": "bold red",
    "declined": "bold yellow",
    "in_flight": "cyan",
}
_HEAD = re.compile(r"^.{0,40}?\d\d:\d\d:\d\d.{0,250}? - +")


def render(report: Report, page: Page) -> str:
    """The report as text, with escapes for colour where the page has colour."""
    out = io.StringIO()
    console = Console(
        file=out,
        width=page.width,
        force_terminal=page.colour,
        color_system="standard" if page.colour else None,
        legacy_windows=False,
        highlight=False,
        markup=False,
        emoji=False,
        soft_wrap=False,
        safe_box=not page.unicode,
    )
    clock = words.clock_of(report)
    blocks = [_inputs(report, page, clock)]
    if report.data.jobs:
        blocks += [_job(job, page, clock) for job in report.data.jobs]
    blocks += memory(report.data.processes or [], report.data.buffers or [], page)
    blocks += startup(
        report.data.attempts or [],
        report.data.cluster or [],
        report.data.workers or [],
        report.data.scheduling or [],
        page,
    )
    blocks += queues(report.data.vertices or [], report.data.taskmanagers or [], page)
    blocks += [rate.application(app, page, clock) for app in report.data.applications or ()]
    blocks += [_findings(report, page, clock)] if report.findings else []
    blocks += what_if(report.data.what_if or [], page)
    blocks += [_rules(report.rules, page)] if _worth_listing(report.rules, page) else []
    blocks.append(_verdict(report, page))
    for index, block in enumerate(blocks):
        if index:
            console.print()
        console.print(block)
    text = out.getvalue()
    # Tables fill their last column with blanks; nobody wants them in a file or a paste.
    text = re.sub(r"[ \t]+$", "", text, flags=re.MULTILINE)
    return text if page.unicode else text.translate(_ASCII)


_ASCII: Final = str.maketrans(
    {"·": "-", "…": "~", "×": "x", "→": ">", "–": "-", "▌": "|", "│": "|", "─": "-"}
)


def _heading(title: str, rest: str = "") -> Text:
    return Text.assemble((title, "bold"), ("  " + rest if rest else "", ""))


def _under(content: RenderableType, indent: int = 2) -> Padding:
    return Padding(content, (0, 0, 0, indent), expand=False)


def _text(text: str, style: str = "") -> Text:
    return Text(printable(text), style=style, overflow="fold")


def _prose(text: str, page: Page, indent: int, style: str = "") -> RenderableType:
    """Running text, wrapped at a width that can be read however wide the terminal is."""
    return _under(
        Padding(
            _text(text, style),
            (0, max(0, page.width - PROSE), 0, 0),
        ),
        indent,
    )


# --- inputs ---------------------------------------------------------------------------------------


def _inputs(report: Report, page: Page, clock: words.Clock) -> RenderableType:
    read = [item for item in report.inputs if item.kind != "not-read"]
    unread = [item for item in report.inputs if item.kind == "not-read"]
    folder = words.common_folder([item.source for item in read])
    total = words.size(sum(item.bytes for item in read))
    parts = [f"{words.plural(len(read), 'input')}, {total}"]
    parts += [f"{len(unread)} not read"] if unread else []
    parts += [words.span(report, clock)]
    parts += [f"in {printable(folder)}"] if folder else []
    blocks: list[RenderableType] = [_heading("Inputs", " · ".join(parts))]
    engine = "Spark" if report.tool.command == "rate" else "Flink"
    rows = list(_input_rows(read, len(folder), grouped=not page.verbose, engine=engine))
    shown = rows if page.verbose else rows[:INPUTS_SHOWN]
    if shown:
        blocks.append(_under(_input_table(shown, page)))
    if len(shown) < len(rows):
        blocks.append(_under(_text(f"… and {len(rows) - len(shown)} more (-v lists all)", "dim")))
    blocks += [_under(note) for note in _input_notes(report.inputs, unread, page)]
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
        facts = [words.size(sum(item.bytes for item in items))]
        facts += [words.plural(sum(item.recognised for item in items), "record")]
        if len(items) == 1:
            name = items[0].source[prefix:]
        else:
            name = f"{len(items)} answers" + (f" in {folder[prefix:]}" if folder[prefix:] else "")
        yield "REST", printable(name), " · ".join(facts)


def _input_table(rows: list[InputRow], page: Page) -> RenderableType:
    """Side by side, or where that is too wide, the facts below the name."""
    widths = [max(cell_len(row[column]) for row in rows) for column in range(3)]
    beside = 2 + sum(widths) + 4 <= page.width
    table = _grid(3 if beside else 2)
    for what, name, facts in rows:
        if beside:
            table.add_row(_text(what, "dim"), _text(name), _text(facts, "dim"))
        else:
            table.add_row(_text(what, "dim"), Group(_text(name), _text(facts, "dim")))
    return table


def _input_facts(item: Input, engine: str) -> str:
    zone = item.zone or "" if item.kind not in DOCUMENTS else ""  # those are in UTC
    if zone and item.zone_from:
        zone += f" ({item.zone_from.replace('-', ' ')})"
    if item.clock_offset_ms and abs(item.clock_offset_ms) >= DRIFT_SHOWN_MS:
        ahead = item.clock_offset_ms > 0
        zone += f", clock {words.duration(abs(item.clock_offset_ms))}"
        zone += " ahead" if ahead else " behind"
    version = f"{engine} {item.version}" if item.version else ""
    records = words.plural(item.recognised, "record")
    return printable(" · ".join(filter(None, [version, words.size(item.bytes), records, zone])))


def _input_notes(inputs: Iterable[Input], unread: list[Input], page: Page) -> Iterator[Text]:
    for item in unread if page.verbose else unread[:INPUTS_SHOWN]:
        yield _text(f"not read: {item.source}: {item.reason or 'unknown kind'}", "yellow")
    if not page.verbose and len(unread) > INPUTS_SHOWN:
        yield _text(f"… and {len(unread) - INPUTS_SHOWN} more not read (-v lists all)", "yellow")
    for item in inputs:
        if item.error and item.kind != "not-read":
            yield _text(f"cut short: {item.source}: {item.error}", "yellow")
        if item.not_understood:
            sample = f', e.g. "{words.abbreviate(item.samples[0], 120)}"' if item.samples else ""
            lines = words.plural(item.not_understood, "line")
            yield _text(
                f"not understood: {item.source}: {lines} of known classes{sample}", "yellow"
            )


# --- jobs -----------------------------------------------------------------------------------------


def _job(job: CheckpointJob, page: Page, clock: words.Clock) -> RenderableType:
    title = _heading("Job", printable(words.job_title(job)))
    title.append(" · ")
    title.append(job.verdict, _VERDICT.get(job.verdict, "bold"))
    blocks: list[RenderableType] = [title]
    blocks.append(_under(_heading("Checkpoints", words.counts(job))))
    if job.checkpoints:
        picture = timeline(job.checkpoints, clock, min(page.width, PROSE) - 4)
        blocks.append(_under(_timeline(picture, page, job), 2))
    if job.taskmanagers and (page.verbose or any(row.late for row in job.taskmanagers)):
        blocks += [Text(), _under(_taskmanagers(job, page))]
    return Group(*blocks)


def _timeline(picture: Timeline, page: Page, job: CheckpointJob) -> RenderableType:
    glyph = 0 if page.unicode else 1
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    for row in picture.rows:
        cells = Text()
        for cell in row.cells:
            cells.append(GLYPHS[cell.kind][glyph], _CELL.get(cell.kind, "dim"))
        table.add_row(_text(row.label, "dim"), cells)
        bars = picture.bars(row, unicode=page.unicode)
        if bars.strip():
            table.add_row("", Text(bars, "dim"))
    legend = Text()
    for kind in picture.kinds():
        legend.append(GLYPHS[kind][glyph], _CELL.get(kind, "dim"))
        legend.append(f" {legend_word(kind)}   ", "dim")
    for note in (bucket_note(picture.per_cell), picture.scale()):
        legend.append(f"{note}   " if note else "", "dim")
    if job.truncated:
        legend.append("lists are cut at --max-rows", "yellow")
    return Group(table, legend)


def _taskmanagers(job: CheckpointJob, page: Page) -> RenderableType:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    table.add_column("TaskManager", overflow="fold")
    for name in ("subtasks", "late", "expected", "ratio", "p"):
        table.add_column(name, justify="right", no_wrap=True)
    rows = job.taskmanagers if page.verbose else job.taskmanagers[:TASKMANAGERS_SHOWN]
    for row in rows:
        # Twice what placement explains is worth a look, whatever p says on a small cluster.
        style = "bold yellow" if row.late and (row.ratio or 0) >= 2 else ""
        named = row.host is None or row.host in row.taskmanager
        table.add_row(
            _text(row.taskmanager if named else f"{row.taskmanager} @ {row.host}", style),
            Text(str(row.subtasks), style),
            Text(str(row.late), style),
            Text("-" if row.expected is None else f"{row.expected:.1f}", style),
            Text("-" if row.ratio is None else words.quantity(row.ratio, "ratio"), style),
            Text("-" if row.p_value is None else f"{row.p_value:.2g}", style),
        )
    note = "late: distinct subtasks that acknowledged an expired checkpoint; expected: by placement"
    blocks: list[RenderableType] = [table]
    if len(rows) < len(job.taskmanagers):
        rest = len(job.taskmanagers) - len(rows)
        blocks.append(_text(f"… and {rest} more (-v lists all)", "dim"))
    return Group(*blocks, _text(note, "dim"))


# --- findings -------------------------------------------------------------------------------------


def _findings(report: Report, page: Page, clock: words.Clock) -> RenderableType:
    several = _several_jobs(report)
    blocks: list[RenderableType] = [_heading("Findings", str(len(report.findings)))]
    for index, finding in enumerate(report.findings):
        if index:
            blocks.append(Text())
        blocks.append(_under(_finding(finding, page, clock, several)))
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
    table = _grid(2)
    for label, lines in _details(finding, page, several_jobs):
        for number, line in enumerate(lines):
            table.add_row(Text(label if number == 0 else "", "dim"), line)
    return Group(
        head,
        _text(finding.title, "bold"),
        *([_prose(finding.explain, page, 2, "dim")] if finding.explain else []),
        _under(table),
    )


def _details(
    finding: Finding, page: Page, several_jobs: bool
) -> Iterator[tuple[str, list[RenderableType]]]:
    if finding.subject.kind != "job" or several_jobs:
        yield "about", [_text(words.who(finding.subject, most=200))]
    if finding.why and finding.why != finding.title:
        yield "because", [_text(finding.why)]
    yield "measured", [_text(words.measurement(item)) for item in finding.measurements]
    yield "votes", [_vote(vote.weight, vote.signal, vote.says) for vote in finding.votes]
    yield "evidence", _evidence(finding, page)
    steps = _grid(2)
    for number, item in enumerate(finding.actions, 1):
        text, details = words.action(item)
        steps.add_row(f"{number}.", Group(_text(text), *(_text(line, "dim") for line in details)))
    yield "to do", [steps] if finding.actions else []


def _vote(weight: int, signal: str, says: str) -> Text:
    style = "green" if weight > 0 else "yellow" if weight < 0 else "dim"
    return Text.assemble((f"{weight:+d} ", style), _text(f"{signal}: {says}"))


def _evidence(finding: Finding, page: Page) -> list[RenderableType]:
    shown = finding.evidence if page.verbose else finding.evidence[:EVIDENCE_SHOWN]
    lines: list[RenderableType] = []
    for item in shown:
        lines.append(_text(words.place(item)))
        if item.excerpt:
            said = item.excerpt if page.verbose else _HEAD.sub("", item.excerpt)
            lines.append(_under(_text(said, "dim")))
    if finding.evidence_total > len(shown):
        lines.append(_text(f"… {finding.evidence_total - len(shown)} more", "dim"))
    return lines


# --- rules and verdict ----------------------------------------------------------------------------


def _worth_listing(rules: list[Rule], page: Page) -> bool:
    return bool(words.unsettled(rules)) or (page.verbose > 0 and bool(rules))


def _rules(rules: list[Rule], page: Page) -> RenderableType:
    listed = rules if page.verbose else words.unsettled(rules)
    clear = sum(rule.status == "clear" for rule in rules)
    title = "Rules" if page.verbose else "Not assessed"
    table = _grid(2)
    for rule in listed:
        state = Text(rule.status, "dim") if page.verbose else Text()
        reason = _text(rule.reason or rule.title, "dim" if rule.status == "clear" else "")
        name = Text.assemble((f"{rule.code} {rule.name}", ""), ("  " if state else "", ""), state)
        table.add_row(name, reason)
    return Group(_heading(title, f"{clear} of {len(rules)} rules are clear"), _under(table))


def _verdict(report: Report, page: Page) -> RenderableType:
    summary = report.summary
    line = _heading("Verdict")
    line.append("  ")
    style = _VERDICT.get(summary.verdict if summary.assessed else "inconclusive", "bold")
    line.append(words.verdict_sentence(report), style)
    if summary.cause:
        line.append(" · ", "dim")
        line.append(summary.cause, "bold")
    blocks: list[RenderableType] = [line]
    if not summary.assessed:
        blocks.append(_under(_text(f"{words.lacking(report)} Not assessed is not healthy.", "dim")))
    several = _several_jobs(report)
    culprits = summary.culprits[:CULPRITS_SHOWN]
    table = _grid(2)
    for number, culprit in enumerate(culprits, 1):
        table.add_row(
            Text(f"{number}.", "bold" if number == 1 else "dim"), _culprit(culprit, several)
        )
    if culprits:
        blocks.append(_under(table))
    return Group(*blocks)


def _culprit(culprit: Culprit, several_jobs: bool) -> Text:
    line = _text(words.convicted(culprit))
    job = culprit.subject.job_name
    if several_jobs and job and culprit.subject.kind != "job":
        line.append(f", job {printable(job)}")
    line.append(f"  {culprit.code}, {culprit.confidence} confidence", "dim")
    return line


def _grid(columns: int) -> Table:
    """A table without lines whose cells are folded, never cut."""
    table = Table.grid(padding=(0, 2, 0, 0))
    for _ in range(columns):
        table.add_column(overflow="fold")
    return table
