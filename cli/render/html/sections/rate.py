"""The applications of Spark: rates and delays of batches and triggers."""

from __future__ import annotations

from typing import Final

from flowdiag.analyses.model import fmt
from flowdiag.analyses.report.wire import Keeping, RateApplication, RateQuery
from flowdiag.cli.render.html.charts import series
from flowdiag.cli.render.html.context import Context, Part, Section, split_by_severity
from flowdiag.cli.render.html.figures import Figure, Table, table
from flowdiag.cli.text import words
from flowdiag.cli.views.rate import job_summary

_QUERIES: Final = 4
_SLOW: Final = 8


def section(context: Context) -> Section | None:
    """The applications; None where there is none."""
    apps = context.report.data.applications or []
    if not apps:
        return None
    overview, shown = split_by_severity(apps, job_summary, context.page)
    return Section(
        title="Rates and delays",
        count=fmt.plural(len(apps), "application"),
        shown={"overview": overview, "parts": [_part(app, context) for app in shown]},
    )


def _part(app: RateApplication, context: Context) -> Part:
    lines = []
    figures: list[Figure] = []
    if app.keeping is not None:
        lines.append(f"Batches {words.batch_counts(app)}. {_said(app.keeping)}")
        figures += series.of_batches(app, context.clock, context.renderer)
    lines += [
        f"The rate of {one.name or f'stream {one.stream_id}'} is held by {one.held_because}"
        for one in app.streams
        if one.held_because
    ]
    for query in app.queries[:_QUERIES]:
        lines.append(f"{_name(query)}. {_said(query.keeping)}")
        figures += series.of_triggers(query, context.clock, context.renderer)
    hidden = len(app.queries) - _QUERIES
    lines += [f"and {hidden} queries more"] if hidden > 0 else []
    lines += [f"Not told: {gap}" for gap in app.missing]
    slow = _slow(app)
    return Part(
        title=words.application_title(app),
        verdict=app.verdict,
        lines=lines,
        figures=figures,
        tables=[("Slowest tasks of long batches and triggers", slow)] if slow else [],
    )


def _name(query: RateQuery) -> str:
    name = query.name or query.id or "without a name"
    runs = f" in {fmt.plural(len(query.runs), 'run')}" if len(query.runs) > 1 else ""
    return f"Query {name}: {fmt.plural(len(query.triggers), 'trigger')}{runs}"


def _said(keeping: Keeping) -> str:
    """How it keeps up, and the rate at which it would."""
    said = f"{fmt.capital(keeping.stability)}: {keeping.because}"
    if keeping.sustainable_per_s is not None and keeping.records_per_s is not None:
        said += f"; {fmt.number(round(keeping.sustainable_per_s, 1))} records/s would fit"
    return said


def _slow(app: RateApplication) -> Table | None:
    if not app.slow_parts:
        return None
    return table(
        ("stage", "task", ">took", ">others", ">records", ">others' records", "on"),
        (
            (
                str(part.stage),
                fmt.subtask(part.index, part.tasks),
                fmt.duration(part.longest_ms),
                "-" if part.others_ms is None else fmt.duration(part.others_ms),
                fmt.thousands(part.records),
                "-" if part.others_records is None else fmt.number(part.others_records),
                fmt.place(part.executor, part.host) if part.executor or part.host else "-",
            )
            for part in app.slow_parts
        ),
        _SLOW,
    )
