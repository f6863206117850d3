"""The view of `flowdiag rate`: charts of batches and triggers, the worst batches, and the slowest tasks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from flowdiag.analyses.contract.redact import printable
from flowdiag.analyses.contract.report import (
    Keeping,
    PidStep,
    RateApplication,
    RateBatch,
    RateQuery,
    RateTrigger,
    Report,
    SlowPart,
    iso,
)
from flowdiag.analyses.model import fmt
from flowdiag.cli.text import words
from flowdiag.cli.text.chart import chart
from flowdiag.cli.text.grid import (
    Column,
    Indented,
    Listing,
    and_more,
    heading,
    line,
    verdict_heading,
)
from flowdiag.cli.text.page import Page
from flowdiag.cli.views.overview import JobSummary, split_by_severity

SHOWN: Final = 5
# By `Page.terse`: lines of a chart, charts, rate updates, rows of a table, queries.
_HEIGHT: Final = (6, 4, 3, 3, 0)
_CHARTS: Final = (9, 3, 3, 1, 0)
_UPDATES: Final = (5, 3, 0, 0, 0)
_ROWS: Final = (5, 5, 3, 2, 0)
_QUERIES: Final = (4, 3, 3, 2, 2)
LABEL: Final = 9  # width of the labels, in columns
WIDEST: Final = 90
_UNLIMITED: Final = ("source", "not-enabled", "unknown")
_STABILITY: Final = {
    "stable": "green",
    "idle": "green",
    "borderline": "yellow",
    "throttled": "yellow",
    "overloaded": "bold red",
    "failing": "bold red",
    "inconclusive": "magenta",
}


def _stage(part: SlowPart) -> str:
    batch = f"batch {part.batch_id}, " if part.batch_id is not None else ""
    return f"{batch}stage {part.stage}"


def _place(part: SlowPart) -> str:
    place = part.executor or "-"
    apart = part.host and part.host != part.executor
    return f"{place} @ {part.host}" if apart else place


def _length(ms: float | None) -> str | None:
    return None if ms is None else fmt.duration(ms)


SLOW_TASK_COLUMNS: Final = (
    Column("slowest tasks", _stage, "wrap"),
    Column("task", lambda part: fmt.subtask(part.index, part.tasks)),
    Column("took", lambda part: fmt.duration(part.longest_ms)),
    Column("others", lambda part: _length(part.others_ms)),
    Column("records", lambda part: fmt.thousands(part.records)),
    Column("others", lambda p: None if p.others_records is None else fmt.number(p.others_records)),
    Column("on", _place, "wrap"),
)


def blocks(report: Report, page: Page, clock: words.Clock) -> list[RenderableType]:
    """Return a block for each application, or an overview with the worst applications."""
    overview, shown = split_by_severity(
        "Applications", report.data.applications or (), job_summary, page
    )
    return overview + [_application(app, page, clock) for app in shown]


def job_summary(app: RateApplication) -> JobSummary:
    facts = fmt.plural(len(app.queries), "query", "queries")
    if app.batches:
        facts = fmt.plural(app.total.batches, "batch", "batches")
        failed = sum(batch.failed_outputs > 0 for batch in app.batches)
        facts += f", {fmt.thousands(failed)} failed" if failed else ""
    return JobSummary(
        app.name or app.application or "without a name", app.verdict, app.cause, facts
    )


def _application(app: RateApplication, page: Page, clock: words.Clock) -> RenderableType:
    title = verdict_heading("Application", printable(words.application_title(app)), app.verdict)
    shown: list[RenderableType] = [title]
    if app.keeping is not None:
        shown.append(Indented(_summary("Batches", app.keeping, words.batch_counts(app), app)))
        shown += [*_batch_charts(app, page), *_rate_charts(app, page)][: _charts_shown(page)]
        shown += _rate_limits(app, page)
        if _rows(page) and (worst := _worst_batches(app, page, clock)):
            shown += [Text(), Indented(worst)]
    queries = app.queries if page.verbose else _worst_queries(app.queries)[: _QUERIES[page.terse]]
    for query in queries:
        shown += _query(query, page, clock)
    shown += map(Indented, and_more(len(app.queries) - len(queries), "queries"))
    parts = [part for part in app.slow_parts if page.verbose or _is_uneven(part)]
    if parts and _rows(page):
        shown += [Text(), Indented(Listing(parts[: _rows(page)], *SLOW_TASK_COLUMNS))]
    if app.missing:
        gaps = app.missing if page.terse < 3 else app.missing[:1]
        shown += [Text(), *(Indented(line(f"unknown: {gap}", "yellow")) for gap in gaps)]
    return Group(*shown)


def _charts_shown(page: Page) -> int | None:
    return None if page.verbose else _CHARTS[page.terse]


def _rows(page: Page) -> int:
    return SHOWN * 4 if page.verbose else _ROWS[page.terse]


def _worst_queries(queries: Sequence[RateQuery]) -> list[RateQuery]:
    order = ("failing", "overloaded", "borderline", "throttled")
    rank = {word: number for number, word in enumerate(order)}
    return sorted(queries, key=lambda query: rank.get(query.keeping.stability, len(order)))


def _summary(word: str, keeping: Keeping, counts: str, app: RateApplication | None) -> Text:
    text = heading(word, printable(counts))
    text.append(" · ")
    text.append(keeping.stability, _STABILITY.get(keeping.stability, ""))
    if keeping.because:
        text.append(f": {printable(keeping.because)}")
    if keeping.sustainable_per_s is not None and keeping.records_per_s is not None:
        fits = fmt.number(round(keeping.sustainable_per_s, 1))
        text.append(f" · {fits} records/s are sustainable", "dim")
    if app is not None and app.back_pressure is False:
        text.append(" · back pressure is off", "dim")
    return text


def _batch_charts(app: RateApplication, page: Page) -> list[RenderableType]:
    batches = app.batches
    if len(batches) < 2:
        return []
    blocks: list[RenderableType] = []
    processing = [b.processing_delay_ms for b in batches]
    blocks += _chart(
        "processing time, and the interval", processing, page, line=app.batch_interval_ms
    )
    waits = [_wait(batch) for batch in batches]
    if any(wait is not None and wait >= (app.batch_interval_ms or 1) / 4 for wait in waits):
        blocks += _chart("time from batch to processing", waits, page)
    return blocks


def _wait(batch: RateBatch) -> float | None:
    if batch.processing_start_ms is not None:
        return float(max(0, batch.processing_start_ms - batch.batch_time_ms))
    return batch.scheduling_delay_ms


def _chart(
    title: str,
    values: Sequence[float | None],
    page: Page,
    *,
    line: float | None = None,
    unit: str = "ms",
) -> list[RenderableType]:
    """Return a chart with a title, or no block for a terse page or without values."""
    width, height = min(page.width, WIDEST) - LABEL - 4, _HEIGHT[page.terse]
    drawn = chart(values, width=width, height=height, line=line, unicode=page.unicode, unit=unit)
    if not drawn.rows:
        return []
    table = Table.grid(padding=(0, 1, 0, 0))
    table.add_column(justify="right", no_wrap=True, min_width=LABEL)
    table.add_column(no_wrap=True)
    for label, cells in drawn.rows:
        table.add_row(Text(label, "dim"), Text(cells, "cyan"))
    note = "" if drawn.per_column == 1 else f" (a column shows the worst of {drawn.per_column})"
    return [Indented(Group(Text(title + note, "dim"), table))]


def _rate_charts(app: RateApplication, page: Page) -> list[RenderableType]:
    blocks: list[RenderableType] = []
    steps = sorted(app.pid, key=lambda step: step.stream_id)
    for stream, mine in groupby(steps, key=lambda step: step.stream_id):
        of = list(mine)
        rates = [step.new_rate for step in of]
        if sum(rate is not None for rate in rates) < 2:
            continue
        name = f" of stream {stream}" if len(app.streams) > 1 else ""
        charted: list[RenderableType] = [
            *_chart(f"published rate{name}, records/s", rates, page, unit="")
        ]
        if _UPDATES[page.terse]:
            charted.append(Indented(_rate_updates(of, _UPDATES[page.terse])))
        blocks += [Group(*charted)] if charted else []
    return blocks


def _rate_limits(app: RateApplication, page: Page) -> Iterator[RenderableType]:
    for stream in app.streams:
        # Most sources are limited by their own data: no line mentions that.
        if stream.held_because and (page.verbose or stream.held_by not in _UNLIMITED):
            of_stream = (
                f" of {stream.name or f'stream {stream.stream_id}'}" if len(app.streams) > 1 else ""
            )
            yield Indented(line(f"rate{of_stream}: {stream.held_because}", "dim"))


def _rate_updates(steps: Sequence[PidStep], shown: int) -> RenderableType:
    """Return a table of the last updates of the rate estimator with their terms."""
    last = [step for step in steps if step.new_rate is not None][-shown:]
    return Listing(
        last,
        Column("records", lambda step: fmt.thousands(step.elements)),
        Column("processing", lambda step: fmt.duration(step.processing_delay_ms)),
        Column("waited", lambda step: fmt.duration(step.scheduling_delay_ms)),
        Column("error", lambda step: _with_sign(step.error)),
        Column("history", lambda step: _with_sign(step.historical_error)),
        Column("derivative", lambda step: _with_sign(step.d_error)),
        Column("new rate", lambda step: fmt.number(round(step.new_rate or 0.0, 1))),
        heads="dim",
    )


def _with_sign(value: float | None) -> str | None:
    return None if value is None else f"{value:+.1f}"


def _count(value: float | None) -> str | None:
    return None if value is None else fmt.thousands(value)


def _worst_batches(app: RateApplication, page: Page, clock: words.Clock) -> RenderableType | None:
    """Return a table of the failed and the longest batches."""
    ranked = sorted(
        (b for b in app.batches if b.processing_delay_ms is not None), key=_verdict_rank
    )
    if not ranked or app.verdict == "healthy":
        return None
    return Listing(
        ranked[: _rows(page)],
        Column("worst batches", lambda b: clock.show(iso(b.batch_time_ms * 1000)), "left"),
        Column("records", lambda b: _count(b.records)),
        Column("processing", lambda b: _length(b.processing_delay_ms)),
        Column("waited", lambda b: _length(b.scheduling_delay_ms)),
        Column("total", lambda b: _length(b.total_delay_ms)),
        Column("", lambda b: Text("failed", "red") if b.failed_outputs else "", "wrap"),
    )


def _verdict_rank(batch: RateBatch) -> tuple[int, float, float, int]:
    return (
        -batch.failed_outputs,
        -(batch.processing_delay_ms or 0),
        -(batch.total_delay_ms or 0),
        batch.batch_time_ms,
    )


def _trigger_counts(query: RateQuery) -> str:
    counts = (
        fmt.plural(len(query.triggers), "trigger") if query.triggers else "no triggers in the input"
    )
    if len(query.runs) > 1:
        counts += f" in {fmt.plural(len(query.runs), 'run')}"
    if query.trigger_interval_ms:
        observed = ", as observed" if query.trigger_interval_from == "observed" else ""
        counts += f" every {fmt.duration(query.trigger_interval_ms)}{observed}"
    return counts


def _query(query: RateQuery, page: Page, clock: words.Clock) -> list[RenderableType]:
    title = f"Query {printable(query.name or query.id or 'without a name')}"
    blocks: list[RenderableType] = [
        Indented(_summary(title, query.keeping, _trigger_counts(query), None))
    ]
    if query.real_time:
        blocks.append(
            Indented(line("real-time mode: the configuration sets the length of a trigger", "dim"))
        )
    if query.row_rates_void:
        note = "foreachBatch may count rows more than once: row rates are omitted"
        blocks.append(Indented(line(note, "dim")))
    if len(query.triggers) < 2:
        return blocks
    durations = [trigger.duration_ms for trigger in query.triggers]
    interval = None if query.real_time else query.trigger_interval_ms
    title = "trigger execution" + (", and the interval" if interval else "")
    blocks += _chart(title, durations, page, line=interval)
    backlog = [trigger.backlog for trigger in query.triggers]
    if any(backlog):
        blocks += _chart("backlog, rows", backlog, page, unit="") if page.terse < 3 else []
    if _rows(page) and query.keeping.stability in ("overloaded", "borderline", "failing"):
        blocks += [Text(), Indented(_longest_triggers(query.triggers, page, clock))]
    return blocks


def _longest_triggers(
    triggers: Sequence[RateTrigger], page: Page, clock: words.Clock
) -> RenderableType:
    ranked = sorted(triggers, key=lambda t: (-(t.duration_ms or 0), t.started_at or ""))
    return Listing(
        ranked[: min(SHOWN, _rows(page))],
        Column("longest triggers", lambda t: clock.show(t.started_at), "left"),
        Column("batch", lambda t: None if t.batch_id is None else str(t.batch_id)),
        Column("rows", lambda t: _count(t.rows)),
        Column("duration", lambda t: _length(t.duration_ms)),
        Column("most of it in", _longest_part, "wrap"),
    )


def _longest_part(trigger: RateTrigger) -> str | None:
    parts = {k: v for k, v in trigger.durations_ms.items() if k != "triggerExecution"}
    return max(sorted(parts), key=lambda k: parts[k], default=None)


def _is_uneven(part: SlowPart) -> bool:
    """Return whether the slowest task took at least three times as long as the other tasks of its stage."""
    return part.others_ms is not None and part.longest_ms >= 3 * part.others_ms + 500
