"""The section about Spark applications: rates and delays of batches and triggers."""

from __future__ import annotations

from typing import Final

from flowdiag.analyses.contract.report import Keeping, RateApplication, RateQuery
from flowdiag.analyses.model import fmt
from flowdiag.analyses.rate.attempts import attempt_of
from flowdiag.cli.render.html.charts import series
from flowdiag.cli.render.html.context import Context, Part, Section, split_by_severity
from flowdiag.cli.render.html.figures import Figure, table
from flowdiag.cli.text import words
from flowdiag.cli.views.rate import SLOW_TASK_COLUMNS, job_summary

_QUERIES: Final = 4
_SLOW: Final = 8


def section(context: Context) -> Section | None:
    """Return the applications, or None for a report without Spark data."""
    apps = context.report.data.applications or []
    if not apps:
        return None
    overview, shown = split_by_severity(apps, job_summary, context.page)
    distinct = {attempt_of(app.application)[0] if app.application else str(id(app)) for app in apps}
    return Section(
        title="Rates and delays",
        count=fmt.plural(len(distinct), "application"),
        shown={"overview": overview, "parts": [_part(app, context) for app in shown]},
    )


def _part(app: RateApplication, context: Context) -> Part:
    lines = []
    figures: list[Figure] = []
    if app.keeping is not None:
        lines.append(f"Batches {words.batch_counts(app)}. {_keeping_text(app.keeping)}")
        figures += series.of_batches(app, context.clock, context.renderer)
    lines += [
        f"Rate of {each.name or f'stream {each.stream_id}'}: {each.held_because}"
        for each in app.streams
        if each.held_because
    ]
    for query in app.queries[:_QUERIES]:
        lines.append(f"{_query_title(query)}. {_keeping_text(query.keeping)}")
        figures += series.of_triggers(query, context.clock, context.renderer)
    hidden = len(app.queries) - _QUERIES
    lines += [f"and {hidden} more queries"] if hidden > 0 else []
    lines += [f"Unknown: {gap}" for gap in app.missing]
    slow = table(SLOW_TASK_COLUMNS, app.slow_parts, _SLOW)
    return Part(
        title=words.application_title(app),
        verdict=app.verdict,
        lines=lines,
        figures=figures,
        tables=[("Slowest tasks of long batches and triggers", slow)] if slow.rows else [],
    )


def _query_title(query: RateQuery) -> str:
    name = query.name or query.id or "without a name"
    runs = f" in {fmt.plural(len(query.runs), 'run')}" if len(query.runs) > 1 else ""
    return f"Query {name}: {fmt.plural(len(query.triggers), 'trigger')}{runs}"


def _keeping_text(keeping: Keeping) -> str:
    """Return whether the application keeps up, the reason, and its sustainable rate."""
    text = f"{fmt.capital(keeping.stability)}: {keeping.because}"
    if keeping.sustainable_per_s is not None and keeping.records_per_s is not None:
        text += f"; {fmt.number(round(keeping.sustainable_per_s, 1))} records/s are sustainable"
    return text
