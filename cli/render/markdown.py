"""The report for a ticket or `$GITHUB_STEP_SUMMARY`: short, and safe to paste.

Names and excerpts come from logs, so nothing of them may become markup: not HTML, not a link, not
a mention of somebody.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from flowdiag.analyses.model import fmt
from flowdiag.analyses.report.redact import printable
from flowdiag.analyses.report.wire import CheckpointJob, Finding, RateApplication, Report
from flowdiag.cli.render.page import Page
from flowdiag.cli.text import words
from flowdiag.cli.text.chart import chart
from flowdiag.cli.text.timeline import plain, timeline
from flowdiag.cli.views import checkpoints, rate
from flowdiag.cli.views.overview import JobSummary, first_names, group_alike

INPUTS_SHOWN: Final = 12
CULPRITS_SHOWN: Final = 10
IN_FULL: Final = 5  # jobs or applications
FINDINGS_SHOWN: Final = 12
NAMES_SHOWN: Final = 20
WIDTH: Final = 84  # of what is set in columns: GitHub's pages have room for it
CHART_LABEL: Final = 9

# GitHub makes a link of an address that nobody marked as one.
_ADDRESS = re.compile(r":(?=//)|(?<=www)\.", re.IGNORECASE)
_SPECIAL = re.compile(r"([\\`*_{}\[\]()#+!|~<>&@$-])")


def render(report: Report, page: Page) -> str:
    """The report as GitHub-flavoured Markdown."""
    return "\n".join(_lines(report, page)) + "\n"


def _lines(report: Report, page: Page) -> Iterator[str]:
    clock = words.clock_of(report, page.zone)
    cause = f" ({report.summary.cause})" if report.summary.cause else ""
    yield f"# flowdiag {report.tool.command}: {_say(words.verdict_sentence(report) + cause)}"
    yield ""
    several = words.has_several_jobs(report)
    ranked = words.ranked_culprits(report)
    for number, (culprit, jobs) in enumerate(ranked[:CULPRITS_SHOWN], 1):
        mark = "**" if number == 1 else ""
        where = f", {words.job_list(jobs, NAMES_SHOWN)}" if several and jobs else ""
        said = _say(f"{words.culprit_line(culprit)}{where}")
        yield f"{number}. {mark}{said}{mark} — {culprit.code}, {culprit.confidence} confidence"
    if ranked:
        yield ""
    for step in words.first_steps(report):
        yield from (_say(step), "")
    if not report.summary.assessed:
        yield from (f"{_say(words.missing_input(report))} Not assessed is not healthy.", "")
    data = report.data
    for name, lines in {
        "inputs": lambda: _inputs(report, page, clock),
        "jobs": lambda: _jobs(data.jobs or (), page, clock),
        "applications": lambda: _applications(data.applications or (), page),
        "findings": lambda: _findings(report.findings, page, clock),
    }.items():
        yield from page.section(name, lines, lambda text: f"{_say(text)}\n")
    unsettled = words.inconclusive_rules(report.rules)
    if unsettled:
        yield from ("## Not assessed", "")
        for rule in unsettled:
            yield f"- {rule.code} {_say(rule.name)}: {_say(rule.reason or '')}"
        yield ""
    for unheard in (
        words.ignored_rules(report.rules),
        words.hidden_findings(report),
        *words.baseline_lines(report),
    ):
        if unheard:
            yield from (_say(unheard), "")


def _inputs(report: Report, page: Page, clock: words.Clock) -> Iterator[str]:
    read = [item for item in report.inputs if item.kind != "not-read"]
    yield _say(f"{fmt.plural(len(read), 'input')}, {words.time_span(report, clock)}")
    yield ""
    missing = [item for item in report.inputs if item.kind == "not-read" or item.error]
    shown = missing if page.verbose else missing[:INPUTS_SHOWN]
    for item in shown:
        state = "not read" if item.kind == "not-read" else "cut short"
        yield f"- {state}: {_code(item.source)}: {_say(item.error or item.reason or '')}"
    if len(missing) > len(shown):
        yield f"- and {len(missing) - len(shown)} more"
    if missing:
        yield ""


def _overview(summaries: Sequence[JobSummary]) -> Iterator[str]:
    """Many jobs as a table: those with the same cause share a row."""
    yield from ("| jobs | verdict | cause | |", "|--:|---|---|---|")
    for some in group_alike(summaries):
        cells = (
            f"{len(some)}",
            some[0].verdict,
            some[0].cause or "-",
            first_names(some, NAMES_SHOWN),
        )
        yield f"| {' | '.join(_say(cell) for cell in cells)} |"
    yield ""


def _jobs(jobs: Sequence[CheckpointJob], page: Page, clock: words.Clock) -> Iterator[str]:
    ranked = sorted(jobs, key=lambda job: words.verdict_sort_key(job.verdict))
    if len(ranked) > IN_FULL and not page.verbose:
        yield from (f"## {len(ranked)} jobs", "")
        yield from _overview([checkpoints.job_summary(job) for job in ranked])
        ranked = ranked[:IN_FULL]
    for job in ranked:
        yield from _job(job, clock)


def _job(job: CheckpointJob, clock: words.Clock) -> Iterator[str]:
    yield f"## Job {_say(words.job_title(job))}: {job.verdict}"
    yield ""
    yield f"Checkpoints: {_say(words.checkpoint_counts(job))}"
    yield ""
    if job.checkpoints:
        # Of our own glyphs, times and numbers only: nothing of it comes from a log.
        yield from ("```text", *plain(timeline(job.checkpoints, clock, WIDTH)), "```", "")
    late = [row for row in job.taskmanagers if row.late]
    if not late:
        return
    yield from ("### Late subtasks by TaskManager", "")
    yield "| TaskManager | host | subtasks | late | expected | ratio | by chance |"
    yield "|---|---|--:|--:|--:|--:|--:|"
    for row in late:
        cells = (
            _code(row.taskmanager),
            _say(row.host or "-"),
            str(row.subtasks),
            str(row.late),
            "-" if row.expected is None else f"{row.expected:.1f}",
            "-" if row.ratio is None else words.quantity(row.ratio, "ratio"),
            "-" if row.p_value is None else fmt.share(row.p_value),
        )
        yield f"| {' | '.join(cells)} |"
    yield ""


def _applications(apps: Sequence[RateApplication], page: Page) -> Iterator[str]:
    ranked = sorted(apps, key=lambda app: words.verdict_sort_key(app.verdict))
    if len(ranked) > IN_FULL and not page.verbose:
        yield from (f"## {len(ranked)} applications", "")
        yield from _overview([rate.job_summary(app) for app in ranked])
        ranked = ranked[:IN_FULL]
    for app in ranked:
        yield from _application(app)


def _application(app: RateApplication) -> Iterator[str]:
    yield f"## Application {_say(words.application_title(app))}: {app.verdict}"
    yield ""
    if app.keeping is not None:
        counts = words.batch_counts(app)
        yield f"Batches: {_say(f'{counts} · {_say(app.keeping.stability)}: {app.keeping.because}')}"
        yield ""
        took = [batch.processing_delay_ms for batch in app.batches]
        yield from _chart(
            "processing time of batches, and the interval", took, app.batch_interval_ms
        )
    for query in app.queries:
        yield f"### Query {_say(query.name or query.id)}: {_say(query.keeping.stability)}"
        yield from ("", _say(query.keeping.because), "")
        took = [trigger.duration_ms for trigger in query.triggers]
        interval = None if query.real_time else query.trigger_interval_ms
        yield from _chart("execution of triggers, and the interval", took, interval)


def _chart(title: str, values: Sequence[int | None], line: int | None) -> Iterator[str]:
    drawn = chart(values, width=WIDTH - CHART_LABEL, height=4, line=line)
    if len(values) < 2 or not drawn.rows:
        return
    note = "" if drawn.per_column == 1 else f" (a column is the worst of {drawn.per_column})"
    yield from ("```text", f"{title}{note}")
    for label, cells in drawn.rows:
        yield f"{label:>{CHART_LABEL}} {cells}".rstrip()
    yield from ("```", "")


def _findings(findings: Sequence[Finding], page: Page, clock: words.Clock) -> Iterator[str]:
    if not findings:
        return
    yield from (f"## Findings: {len(findings)}", "")
    shown = findings if page.verbose else findings[:FINDINGS_SHOWN]
    for finding in shown:
        yield from _finding(finding, page, clock)
    others = findings[len(shown) :]
    if not others:
        return
    yield from (f"### {len(others)} more", "")
    alike_ones: dict[tuple[str, str, str], list[Finding]] = {}
    for finding in others:
        key = finding.severity, finding.code, finding.name
        alike_ones.setdefault(key, []).append(finding)
    for (severity, code, name), some in alike_ones.items():
        told = some[0].title if len(some) == 1 else f"{len(some)} times, first: {some[0].title}"
        yield f"- {severity} {code} {_say(name)}: {_say(told)}"
    yield ""


def _finding(finding: Finding, page: Page, clock: words.Clock) -> Iterator[str]:
    yield f"### {finding.severity.upper()} {finding.code}: {_say(finding.title)}"
    yield ""
    facts = (
        _say(finding.name),
        _say(words.subject_name(finding.subject, most=200)),
        finding.state,
        f"{finding.confidence} confidence",
        _say(words.period(finding, clock)),
    )
    yield " · ".join(filter(None, facts))
    yield ""
    if finding.explain:
        yield from (_say(finding.explain), "")
    if finding.why and finding.why != finding.title:
        yield from (f"**Because** {_say(finding.why)}", "")
    yield from _list("Measured", (words.measurement(item) for item in finding.measurements))
    votes = (f"{vote.weight:+d} {vote.signal}: {vote.text}" for vote in finding.votes)
    yield from _list("Votes", votes)
    if finding.actions:
        yield from ("**To do**", "")
    for number, action in enumerate(finding.actions, 1):
        text, details = words.action_lines(action)
        yield f"{number}. {_say(text)}"
        yield from (f"   - {_say(detail)}" for detail in details)
    if finding.see:
        yield f"To do: see {_say(', '.join(finding.see))}"
    if finding.actions or finding.see:
        yield ""
    shown = finding.evidence if page.verbose else finding.evidence[:3]
    if shown:
        yield from ("**Evidence**", "")
    for record in shown:
        yield f"- {_code(words.location(record))}"
        if record.excerpt:
            yield f"  {_code(record.excerpt)}"
    if finding.evidence_total > len(shown):
        yield f"- {finding.evidence_total - len(shown)} more"
    if shown:
        yield ""


def _list(title: str, items: Iterable[str]) -> Iterator[str]:
    lines = [f"- {_say(item)}" for item in items]
    if lines:
        yield from (f"**{title}**", "", *lines, "")


def escaped(text: str) -> str:
    r"""Text without markup.

    >>> escaped("a|b <script> [x](y) @me")
    'a\\|b &lt;script&gt; \\[x\\]\\(y\\) \\@me'
    """
    text = " ".join(printable(text).split())
    return _ADDRESS.sub(r"\\\g<0>", _SPECIAL.sub(_escape, text))


_say: Final = escaped  # which stands in nearly every line here


def _escape(hit: re.Match[str]) -> str:
    character = hit.group()
    # A dash or a plus only matters at the beginning of a line, brackets only before a link.
    entities = {"<": "&lt;", ">": "&gt;", "&": "&amp;"}
    return entities.get(character) or (character if character in "-+" else f"\\{character}")


def _code(text: str) -> str:
    """Text in a code span that its own backticks cannot end.

    >>> _code("a`b|c")
    '``a`b|c``'
    """
    text = " ".join(printable(text).split()) or " "
    fence = "`" * (max((len(run) for run in re.findall("`+", text)), default=0) + 1)
    pad = " " if text[0] == "`" or text[-1] == "`" else ""
    return f"{fence}{pad}{text}{pad}{fence}"
