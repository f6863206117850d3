"""The report for a ticket or `$GITHUB_STEP_SUMMARY`: short, and safe to paste.

Names and excerpts come from logs, so nothing of them may become markup: not HTML, not a link, not
a mention of somebody.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from flowdiag.analyses import say
from flowdiag.analyses.report.redact import printable
from flowdiag.analyses.report.wire import CheckpointJob, Finding, RateApplication, Report
from flowdiag.cli import words
from flowdiag.cli.render.page import Page

_SPECIAL = re.compile(r"([\\`*_{}\[\]()#+!|~<>&@$-])")


def render(report: Report, page: Page) -> str:
    """The report as GitHub-flavoured Markdown."""
    return "\n".join(_lines(report, page)) + "\n"


def _lines(report: Report, page: Page) -> Iterator[str]:
    clock = words.clock_of(report)
    cause = f" ({report.summary.cause})" if report.summary.cause else ""
    yield f"# flowdiag {report.tool.command}: {_say(words.verdict_sentence(report) + cause)}"
    yield ""
    for number, culprit in enumerate(report.summary.culprits, 1):
        mark = "**" if number == 1 else ""
        said = _say(words.convicted(culprit))
        yield f"{number}. {mark}{said}{mark} — {culprit.code}, {culprit.confidence} confidence"
    if report.summary.culprits:
        yield ""
    for step in words.first_steps(report):
        yield from (_say(step), "")
    read = [item for item in report.inputs if item.kind != "not-read"]
    yield _say(f"{say.plural(len(read), 'input')}, {words.span(report, clock)}")
    yield ""
    missing = [item for item in report.inputs if item.kind == "not-read" or item.error]
    for item in missing:
        state = "not read" if item.kind == "not-read" else "cut short"
        yield f"- {state}: {_code(item.source)}: {_say(item.error or item.reason or '')}"
    if missing:
        yield ""
    for job in report.data.jobs or ():
        yield from _job(job)
    for app in report.data.applications or ():
        yield from _application(app)
    for finding in report.findings:
        yield from _finding(finding, page, clock)
    unsettled = words.unsettled(report.rules)
    if unsettled:
        yield from ("## Not assessed", "")
        for rule in unsettled:
            yield f"- {rule.code} {_say(rule.name)}: {_say(rule.reason or '')}"
        yield ""


def _job(job: CheckpointJob) -> Iterator[str]:
    yield f"## Job {_say(words.job_title(job))}: {job.verdict}"
    yield ""
    yield f"Checkpoints: {_say(words.counts(job))}"
    yield ""
    late = [row for row in job.taskmanagers if row.late]
    if not late:
        return
    yield "| TaskManager | host | subtasks | late | expected | ratio | p |"
    yield "|---|---|--:|--:|--:|--:|--:|"
    for row in late:
        cells = (
            _code(row.taskmanager),
            _say(row.host or "-"),
            str(row.subtasks),
            str(row.late),
            "-" if row.expected is None else f"{row.expected:.1f}",
            "-" if row.ratio is None else words.quantity(row.ratio, "ratio"),
            "-" if row.p_value is None else f"{row.p_value:.2g}",
        )
        yield f"| {' | '.join(cells)} |"
    yield ""


def _application(app: RateApplication) -> Iterator[str]:
    yield f"## Application {_say(words.application_title(app))}: {app.verdict}"
    yield ""
    if app.keeping is not None:
        counts = words.batch_counts(app)
        yield f"Batches: {_say(f'{counts} · {app.keeping.stability}: {app.keeping.because}')}"
        yield ""
    for query in app.queries:
        said = f"{query.name or query.id}: {query.keeping.stability}: {query.keeping.because}"
        yield f"Query {_say(said)}"
        yield ""


def _finding(finding: Finding, page: Page, clock: words.Clock) -> Iterator[str]:
    yield f"## {finding.severity}: {_say(finding.title)}"
    yield ""
    facts = (
        f"{finding.code} {finding.name}",
        _say(words.who(finding.subject, most=200)),
        finding.state,
        f"{finding.confidence} confidence",
        _say(words.seen(finding, clock)),
    )
    yield " · ".join(filter(None, facts))
    yield ""
    if finding.explain:
        yield _say(finding.explain)
        yield ""
    for item in finding.measurements:
        yield f"- {_say(words.measurement(item))}"
    for vote in finding.votes:
        yield f"- vote {vote.weight:+d}: {_say(f'{vote.signal}: {vote.says}')}"
    if finding.measurements or finding.votes:
        yield ""
    for number, action in enumerate(finding.actions, 1):
        text, details = words.action(action)
        yield f"{number}. {_say(text)}"
        yield from (f"   - {_say(detail)}" for detail in details)
    if finding.see:
        yield f"To do: see {_say(', '.join(finding.see))}"
    if finding.actions or finding.see:
        yield ""
    shown = finding.evidence if page.verbose else finding.evidence[:3]
    for record in shown:
        yield f"- {_code(words.place(record))}"
        if record.excerpt:
            yield f"  {_code(record.excerpt)}"
    if finding.evidence_total > len(shown):
        yield f"- {finding.evidence_total - len(shown)} more"
    if shown:
        yield ""


def _say(text: str) -> str:
    r"""Text without markup.

    >>> _say("a|b <script> [x](y) @me")
    'a\\|b &lt;script&gt; \\[x\\]\\(y\\) \\@me'
    """
    text = " ".join(printable(text).split())
    return _SPECIAL.sub(_escape, text)


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
