"""Renders a report as Markdown for a ticket or `$GITHUB_STEP_SUMMARY`: short, and safe to paste.

Without `-v`, a report on several jobs or with several findings has at most `LINES` lines, unless even the shortest form has
more. Names and excerpts come from logs. They never become markup: no HTML, no link, no mention.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, Final

from flowdiag.analyses.contract.redact import printable
from flowdiag.analyses.contract.report import CheckpointJob, Finding, RateApplication, Report
from flowdiag.analyses.model import fmt
from flowdiag.cli.text import words
from flowdiag.cli.text.chart import chart
from flowdiag.cli.text.grid import Column
from flowdiag.cli.text.page import TERSEST, Page
from flowdiag.cli.text.timeline import plain, timeline
from flowdiag.cli.views import checkpoints, rate
from flowdiag.cli.views.overview import JobSummary, group_alike, group_columns

LINES: Final = 60
# By `Page.terse`:
INPUTS_SHOWN: Final = (12, 12, 8, 4, 2)
CULPRITS_SHOWN: Final = (10, 10, 6, 4, 2)
IN_FULL: Final = (5, 3, 2, 1, 1)  # jobs or applications in full
FINDINGS_SHOWN: Final = (2, 2, 2, 1, 1)  # in full; the others have a line for each rule
RULES_SHOWN: Final = (40, 20, 12, 6, 4)  # with other findings, and not assessed
MEASUREMENTS_SHOWN: Final = 4
NAMES_SHOWN: Final = 20
WIDTH: Final = 84  # columns of charts and timelines, which fit GitHub's pages
CHART_LABEL: Final = 9

# GitHub turns bare addresses into links.
_ADDRESS = re.compile(r":(?=//)|(?<=www)\.", re.IGNORECASE)
_SPECIAL = re.compile(r"([\\`*_{}\[\]()#+!|~<>&@$-])")


def render(report: Report, page: Page) -> str:
    """Return the report as GitHub-flavored Markdown."""
    subjects = [*(report.data.jobs or ()), *(report.data.applications or ())]
    is_short = len(subjects) <= 1 and len(report.findings) <= FINDINGS_SHOWN[0]
    if page.verbose or is_short:
        return _report(report, page)
    for terse in range(TERSEST):
        text = _report(report, replace(page, terse=terse))
        if text.count("\n") <= LINES:
            return text
    return _report(report, replace(page, terse=TERSEST))


def _report(report: Report, page: Page) -> str:
    clock = words.clock_of(report, page.zone)
    data = report.data
    lines = list(_summary(report, page))
    for name, section in {
        "inputs": lambda: _inputs(report, page, clock),
        "jobs": lambda: _jobs(data.jobs or (), page, clock),
        "applications": lambda: _applications(data.applications or (), page),
        "findings": lambda: _findings(report.findings, page, clock),
    }.items():
        lines += page.section(name, section, lambda text: f"{escape(text)}\n")
    if inconclusive := words.inconclusive_rules(report.rules):
        lines += ["## Not assessed", ""]
        texts = (
            f"{rule.code} {escape(rule.name)}: {escape(rule.reason or '')}" for rule in inconclusive
        )
        lines += [*_rules([*texts], page), ""]
    notes = [words.ignored_rules(report.rules), words.hidden_findings(report)]
    for note in filter(None, [*notes, *words.baseline_lines(report)]):
        lines += [escape(note), ""]
    return "\n".join(lines) + "\n"


def _rules(texts: Sequence[str], page: Page) -> Iterator[str]:
    """Yield a list item per text, then the number of omitted texts."""
    shown = len(texts) if page.verbose else RULES_SHOWN[page.terse]
    yield from (f"- {text}" for text in texts[:shown])
    if len(texts) > shown:
        yield f"- and {len(texts) - shown} more"


def _summary(report: Report, page: Page) -> Iterator[str]:
    """Yield the verdict, the culprits and the first steps."""
    cause = f" ({report.summary.cause})" if report.summary.cause else ""
    yield f"# flowdiag {report.tool.command}: {escape(words.verdict_sentence(report) + cause)}"
    yield ""
    several = words.has_several_jobs(report)
    ranked = words.ranked_culprits(report)
    for number, (culprit, jobs) in enumerate(ranked[: CULPRITS_SHOWN[page.terse]], 1):
        mark = "**" if number == 1 else ""
        where = f", {words.job_list(jobs, NAMES_SHOWN)}" if several and jobs else ""
        text = escape(f"{words.culprit_line(culprit)}{where}")
        yield f"{number}. {mark}{text}{mark} — {culprit.code}, {culprit.confidence} confidence"
    if ranked:
        yield ""
    for step in words.first_steps(report):
        yield from (escape(step), "")
    if not report.summary.assessed:
        yield from (
            f"{escape(words.missing_input(report))} Not assessed does not mean healthy.",
            "",
        )


def _inputs(report: Report, page: Page, clock: words.Clock) -> Iterator[str]:
    read = [item for item in report.inputs if item.kind != "not-read"]
    yield escape(f"{fmt.plural(len(read), 'input')}, {words.time_span(report, clock)}")
    yield ""
    missing = [item for item in report.inputs if item.kind == "not-read" or item.error]
    shown = missing if page.verbose else missing[: INPUTS_SHOWN[page.terse]]
    for item in shown:
        state = "not read" if item.kind == "not-read" else "incomplete"
        yield f"- {state}: {_code(item.source)}: {escape(item.error or item.reason or '')}"
    if len(missing) > len(shown):
        yield f"- and {len(missing) - len(shown)} more"
    if missing:
        yield ""


def _overview(summaries: Sequence[JobSummary]) -> Iterator[str]:
    return table(group_columns(NAMES_SHOWN), group_alike(summaries))


def _jobs(jobs: Sequence[CheckpointJob], page: Page, clock: words.Clock) -> Iterator[str]:
    ranked = sorted(jobs, key=lambda job: words.verdict_sort_key(job.verdict))
    if len(ranked) > IN_FULL[page.terse] and not page.verbose:
        yield from (f"## {len(ranked)} jobs", "")
        yield from _overview([checkpoints.job_summary(job) for job in ranked])
        ranked = ranked[: IN_FULL[page.terse]]
    for job in ranked:
        yield f"## Job {escape(words.job_title(job))}: {job.verdict}"
        yield from ("", f"Checkpoints: {escape(words.checkpoint_counts(job))}", "")
        if job.checkpoints:
            # Glyphs, times and numbers only: a timeline contains no text from logs.
            yield from ("```text", *plain(timeline(job.checkpoints, clock, WIDTH)), "```", "")
        if late := checkpoints.late_taskmanagers(job):
            yield from (f"### {checkpoints.LATE_TITLE}", "")
            yield from table(checkpoints.TASKMANAGER_COLUMNS, late)


def _applications(apps: Sequence[RateApplication], page: Page) -> Iterator[str]:
    ranked = sorted(apps, key=lambda app: words.verdict_sort_key(app.verdict))
    if len(ranked) > IN_FULL[page.terse] and not page.verbose:
        yield from (f"## {len(ranked)} applications", "")
        yield from _overview([rate.job_summary(app) for app in ranked])
        ranked = ranked[: IN_FULL[page.terse]]
    for app in ranked:
        yield from _application(app)


def _application(app: RateApplication) -> Iterator[str]:
    yield f"## Application {escape(words.application_title(app))}: {app.verdict}"
    yield ""
    if app.keeping is not None:
        counts, because = words.batch_counts(app), app.keeping.because
        yield f"Batches: {escape(f'{counts} · {escape(app.keeping.stability)}: {because}')}"
        yield ""
        took = [batch.processing_delay_ms for batch in app.batches]
        yield from _chart(
            "processing time of batches, and the interval", took, app.batch_interval_ms
        )
    for query in app.queries:
        yield f"### Query {escape(query.name or query.id)}: {escape(query.keeping.stability)}"
        yield from ("", escape(query.keeping.because), "")
        took = [trigger.duration_ms for trigger in query.triggers]
        interval = None if query.real_time else query.trigger_interval_ms
        yield from _chart("execution of triggers, and the interval", took, interval)


def _chart(title: str, values: Sequence[int | None], line: int | None) -> Iterator[str]:
    drawn = chart(values, width=WIDTH - CHART_LABEL, height=4, line=line)
    if len(values) < 2 or not drawn.rows:
        return
    note = "" if drawn.per_column == 1 else f" (a column shows the worst of {drawn.per_column})"
    yield from ("```text", f"{title}{note}")
    for label, cells in drawn.rows:
        yield f"{label:>{CHART_LABEL}} {cells}".rstrip()
    yield from ("```", "")


def _findings(findings: Sequence[Finding], page: Page, clock: words.Clock) -> Iterator[str]:
    if not findings:
        return
    yield from (f"## Findings: {len(findings)}", "")
    shown = findings if page.verbose else findings[: FINDINGS_SHOWN[page.terse]]
    for finding in shown:
        yield from _finding(finding, page, clock)
    others = findings[len(shown) :]
    if not others:
        return
    yield from (f"### {len(others)} more", "")
    by_rule: dict[tuple[str, str, str], list[Finding]] = {}
    for finding in others:
        key = finding.severity, finding.code, finding.name
        by_rule.setdefault(key, []).append(finding)
    texts = []
    for (severity, code, name), some in by_rule.items():
        title = some[0].title if len(some) == 1 else f"{len(some)} times, first: {some[0].title}"
        texts.append(f"{severity} {code} {escape(name)}: {escape(title)}")
    yield from (*_rules(texts, page), "")


def _finding(finding: Finding, page: Page, clock: words.Clock) -> Iterator[str]:
    yield f"### {finding.severity.upper()} {finding.code}: {escape(finding.title)}"
    yield ""
    facts = (
        finding.name,
        words.subject_name(finding.subject, most=200),
        finding.state,
        f"{finding.confidence} confidence",
        words.period(finding, clock),
    )
    yield " · ".join(escape(fact) for fact in facts if fact)
    yield ""
    if finding.explain:
        yield from (escape(finding.explain), "")
    if finding.why and finding.why != finding.title:
        yield from (f"**Because** {escape(finding.why)}", "")
    yield from _measurement_lines(finding, page)
    votes = finding.votes if page.verbose else ()
    lines = (f"- {escape(f'{vote.weight:+d} {vote.signal}: {vote.text}')}" for vote in votes)
    yield from _with_title("Votes", lines)
    see = f"To do: see {escape(', '.join(finding.see))}"
    actions = enumerate(map(words.action_lines, finding.actions), 1)
    steps = chain.from_iterable(
        (f"{number}. {escape(text)}", *(f"   - {escape(detail)}" for detail in details))
        for number, (text, details) in actions
    )
    if finding.actions:
        yield from _with_title("To do", chain(steps, [see] if finding.see else []))
    elif finding.see:
        yield from (see, "")
    yield from _with_title("Evidence", _evidence(finding, None if page.verbose else 2))


def _measurement_lines(finding: Finding, page: Page) -> Iterator[str]:
    shown = finding.measurements[: None if page.verbose else MEASUREMENTS_SHOWN]
    if shown:
        yield from (f"**Measured** {escape(' · '.join(map(words.measurement, shown)))}", "")


def _evidence(finding: Finding, most: int | None) -> Iterator[str]:
    shown = finding.evidence[:most]
    for record in shown:
        yield f"- {_code(words.location(record))}"
        if record.excerpt:
            yield f"  {_code(record.excerpt)}"
    if finding.evidence_total > len(shown):
        yield f"- {finding.evidence_total - len(shown)} more"


def _with_title(title: str, lines: Iterable[str]) -> Iterator[str]:
    """Yield a title and its lines, or nothing if there are no lines."""
    shown = list(lines)
    if shown:
        yield from (f"**{title}**", "", *shown, "")


def table(columns: Sequence[Column], rows: Iterable[Any]) -> Iterator[str]:
    """Yield the lines of a table, and an empty line."""
    yield f"| {' | '.join(escape(column.title) for column in columns)} |"
    yield f"|{'|'.join('--:' if column.is_numeric else '---' for column in columns)}|"
    for row in rows:
        yield f"| {' | '.join(escape(column.text(row)) for column in columns)} |"
    yield ""


def escape(text: str) -> str:
    r"""Escape all markup in a text, and join its lines.

    >>> escape("a|b <script> [x](y) @me")
    'a\\|b &lt;script&gt; \\[x\\]\\(y\\) \\@me'
    """
    text = " ".join(printable(text).split())
    return _ADDRESS.sub(r"\\\g<0>", _SPECIAL.sub(_escaped_character, text))


def _escaped_character(hit: re.Match[str]) -> str:
    character = hit.group()
    # A dash or a plus is markup only at the start of a line.
    entities = {"<": "&lt;", ">": "&gt;", "&": "&amp;"}
    return entities.get(character) or (character if character in "-+" else f"\\{character}")


def _code(text: str) -> str:
    """Return a code span that backticks in the text cannot end.

    >>> _code("a`b|c")
    '``a`b|c``'
    """
    text = " ".join(printable(text).split()) or " "
    fence = "`" * (max((len(run) for run in re.findall("`+", text)), default=0) + 1)
    pad = " " if text[0] == "`" or text[-1] == "`" else ""
    return f"{fence}{pad}{text}{pad}{fence}"
