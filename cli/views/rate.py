"""What `flowdiag rate` shows of an application: charts over its batches, the worst of them, who is slow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from flowdiag.analyses.report.redact import printable
from flowdiag.analyses.report.wire import (
    Keeping,
    PidStep,
    RateApplication,
    RateBatch,
    RateQuery,
    RateTrigger,
    SlowPart,
    iso,
)
from flowdiag.cli import words
from flowdiag.cli.render.page import Page

HEIGHT: Final = 6
SHOWN: Final = 5
LABEL: Final = 9  # columns left of a chart
WIDEST: Final = 90
_EIGHTHS: Final = " ▁▂▃▄▅▆▇█"
_USUAL: Final = ("source", "not-enabled", "unknown")
_STABILITY: Final = {
    "stable": "green",
    "idle": "green",
    "borderline": "yellow",
    "throttled": "yellow",
    "overloaded": "bold red",
    "failing": "bold red",
    "inconclusive": "magenta",
}


@dataclass(frozen=True, slots=True)
class Chart:
    """Rows of a column chart, the highest first, each with the label of its upper edge or nothing."""

    rows: tuple[tuple[str, str], ...]
    per_column: int


def chart(
    values: Sequence[float | None],
    *,
    width: int,
    height: int = HEIGHT,
    line: float | None = None,
    unicode: bool = True,
    unit: str = "ms",
) -> Chart:
    """Columns over values in their order; several share one where there are more than fit.

    A column is the largest of its values, since the worst must not disappear. `line` is drawn across
    where nothing stands.

    >>> chart([1.0, 2.0, 4.0], width=10, height=2, unit="").rows
    (('4', '  █'), ('', '▄██'))
    """
    per = max(1, -(-len(values) // max(1, width)))
    columns = [
        max((v for v in values[i : i + per] if v is not None), default=None)
        for i in range(0, len(values), per)
    ]
    top = max([v for v in columns if v is not None] + ([line] if line else []), default=0.0)
    if top <= 0:
        return Chart((), per)
    at = None if line is None else min(height - 1, int(line / top * height))
    rows = []
    for row in range(height - 1, -1, -1):
        cells = ""
        for value in columns:
            filled = 0.0 if value is None else value / top * height - row
            eighth = max(0, min(8, round(filled * 8)))
            if value and row == 0:
                eighth = max(1, eighth)
            if eighth == 0 and at == row:
                cells += "─" if unicode else "-"
            elif unicode:
                cells += _EIGHTHS[eighth]
            else:
                cells += "#" if eighth > 4 else "." if eighth else " "
        label = ""
        if row == height - 1:
            label = words.quantity(top, unit)
        elif at == row and line is not None:
            label = words.quantity(line, unit)
        rows.append((label, cells.rstrip()))
    return Chart(tuple(rows), per)


def application(app: RateApplication, page: Page, clock: words.Clock) -> RenderableType:
    """One application: how it keeps up, over time, and what is slow in it."""
    title = Text.assemble(("Application", "bold"), "  ", printable(words.application_title(app)))
    title.append(" · ")
    title.append(app.verdict, words.VERDICT_STYLES.get(app.verdict, "bold"))
    blocks: list[RenderableType] = [title]
    if app.keeping is not None:
        blocks.append(_in(_summary("Batches", app.keeping, words.batch_counts(app), app)))
        blocks += _batch_charts(app, page)
        blocks += _rate_charts(app, page)
        if worst := _worst(app, page, clock):
            blocks += [Text(), _in(worst)]
    for query in app.queries:
        blocks += _query(query, page, clock)
    if app.slow_parts and page.verbose:
        blocks += [Text(), _in(_slow(app.slow_parts, page))]
    elif parts := [part for part in app.slow_parts if _is_uneven(part)]:
        blocks += [Text(), _in(_slow(parts, page))]
    if app.missing:
        blocks += [Text(), *(_in(_text(f"not told: {gap}", "yellow")) for gap in app.missing)]
    return Group(*blocks)


def _in(content: RenderableType, indent: int = 2) -> Padding:
    return Padding(content, (0, 0, 0, indent), expand=False)


def _text(text: str, style: str = "") -> Text:
    return Text(printable(text), style=style, overflow="fold")


def _summary(word: str, keeping: Keeping, counts: str, app: RateApplication | None) -> Text:
    line = Text.assemble((word, "bold"), "  ", printable(counts), " · ")
    line.append(keeping.stability, _STABILITY.get(keeping.stability, ""))
    if keeping.because:
        line.append(f": {printable(keeping.because)}")
    if keeping.sustainable_per_s is not None and keeping.records_per_s is not None:
        fits = words.number(round(keeping.sustainable_per_s, 1))
        line.append(f" · {fits} records/s would fit", "dim")
    if app is not None and app.back_pressure is False:
        line.append(" · back pressure is off", "dim")
    return line


def _batch_charts(app: RateApplication, page: Page) -> list[RenderableType]:
    batches = app.batches
    if len(batches) < 2:
        return []
    blocks: list[RenderableType] = []
    processing = [_float(b.processing_delay_ms) for b in batches]
    blocks.append(
        _chart("processing time, and the interval", processing, page, line=app.batch_interval_ms)
    )
    waits = [_wait(batch) for batch in batches]
    if any(wait is not None and wait >= (app.batch_interval_ms or 1) / 4 for wait in waits):
        blocks.append(_chart("time from batch to processing", waits, page))
    return blocks


def _float(value: float | None) -> float | None:
    return None if value is None else float(value)


def _wait(batch: RateBatch) -> float | None:
    if batch.processing_start_ms is not None:
        return float(max(0, batch.processing_start_ms - batch.batch_time_ms))
    return _float(batch.scheduling_delay_ms)


def _chart(
    title: str,
    values: Sequence[float | None],
    page: Page,
    *,
    line: float | None = None,
    unit: str = "ms",
) -> RenderableType:
    width = min(page.width, WIDEST) - LABEL - 4
    drawn = chart(values, width=width, line=line, unicode=page.unicode, unit=unit)
    if not drawn.rows:
        return Text()
    table = Table.grid(padding=(0, 1, 0, 0))
    table.add_column(justify="right", no_wrap=True, min_width=LABEL)
    table.add_column(no_wrap=True)
    for label, cells in drawn.rows:
        table.add_row(Text(label, "dim"), Text(cells, "cyan"))
    note = "" if drawn.per_column == 1 else f" (a column is the worst of {drawn.per_column})"
    return _in(Group(Text(title + note, "dim"), table))


def _rate_charts(app: RateApplication, page: Page) -> list[RenderableType]:
    blocks: list[RenderableType] = []
    steps = sorted(app.pid, key=lambda step: step.stream_id)
    for stream, mine in groupby(steps, key=lambda step: step.stream_id):
        of = list(mine)
        rates = [step.new_rate for step in of]
        if sum(rate is not None for rate in rates) < 2:
            continue
        name = f" of stream {stream}" if len(app.streams) > 1 else ""
        blocks.append(_chart(f"published rate{name}, records/s", rates, page, unit=""))
        blocks.append(_in(_terms(of)))
    for one in app.streams:
        # What does not matter is not said: a source that has no more is the usual case.
        if one.held_because and (page.verbose or one.held_by not in _USUAL):
            of_stream = (
                f" of {one.name or f'stream {one.stream_id}'}" if len(app.streams) > 1 else ""
            )
            blocks.append(_in(_text(f"the rate{of_stream} is held by {one.held_because}", "dim")))
    return blocks


def _terms(steps: Sequence[PidStep]) -> RenderableType:
    """The last updates with what each term did."""
    last = [step for step in steps if step.new_rate is not None][-SHOWN:]
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    for name in ("records", "processing", "waited", "error", "history", "derivative", "new rate"):
        table.add_column(name, justify="right", no_wrap=True)
    for step in last:
        table.add_row(
            words.thousands(step.elements),
            words.duration(step.processing_delay_ms),
            words.duration(step.scheduling_delay_ms),
            *(_signed(value) for value in (step.error, step.historical_error, step.d_error)),
            words.number(round(step.new_rate or 0.0, 1)),
        )
    return table


def _signed(value: float | None) -> str:
    return "-" if value is None else f"{value:+.1f}"


def _worst(app: RateApplication, page: Page, clock: words.Clock) -> RenderableType | None:
    """The failed and the longest batches."""
    ranked = sorted(
        (b for b in app.batches if b.processing_delay_ms is not None),
        key=lambda b: (
            -b.failed_outputs,
            -(b.processing_delay_ms or 0),
            -(b.total_delay_ms or 0),
            b.batch_time_ms,
        ),
    )
    shown = ranked[: SHOWN * 4 if page.verbose else SHOWN]
    if not shown or app.verdict == "healthy":
        return None
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    table.add_column("worst batches", no_wrap=True)
    for name in ("records", "processing", "waited", "total"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("", overflow="fold")
    for batch in shown:
        table.add_row(
            clock.show(iso(batch.batch_time_ms * 1000)),
            "-" if batch.records is None else words.thousands(batch.records),
            words.duration(batch.processing_delay_ms or 0),
            "-" if batch.scheduling_delay_ms is None else words.duration(batch.scheduling_delay_ms),
            "-" if batch.total_delay_ms is None else words.duration(batch.total_delay_ms),
            Text("failed", "red") if batch.failed_outputs else Text(),
        )
    return table


def _query(query: RateQuery, page: Page, clock: words.Clock) -> list[RenderableType]:
    counts = words.plural(len(query.triggers), "trigger")
    if len(query.runs) > 1:
        counts += f" in {words.plural(len(query.runs), 'run')}"
    if query.trigger_interval_ms:
        origin = {"option": "", "log": "", "observed": ", as observed"}
        counts += f" every {words.duration(query.trigger_interval_ms)}"
        counts += origin.get(query.trigger_interval_from or "", "")
    name = query.name or query.id
    blocks: list[RenderableType] = [
        _in(_summary(f"Query {printable(name)}", query.keeping, counts, None))
    ]
    if query.real_time:
        blocks.append(_in(_text("real-time mode: a trigger lasts as long as it is told to", "dim")))
    if query.row_rates_void:
        told = "foreachBatch may count rows more than once: rates of rows are left out"
        blocks.append(_in(_text(told, "dim")))
    if len(query.triggers) < 2:
        return blocks
    durations = [_float(trigger.duration_ms) for trigger in query.triggers]
    line = None if query.real_time else query.trigger_interval_ms
    title = "trigger execution" + (", and the interval" if line else "")
    blocks.append(_chart(title, durations, page, line=line))
    backlog = [_float(trigger.backlog) for trigger in query.triggers]
    if any(backlog):
        blocks.append(_chart("backlog, rows", backlog, page, unit=""))
    if query.keeping.stability in ("overloaded", "borderline", "failing"):
        blocks += [Text(), _in(_longest(query.triggers, clock))]
    return blocks


def _longest(triggers: Sequence[RateTrigger], clock: words.Clock) -> RenderableType:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    table.add_column("longest triggers", no_wrap=True)
    for name in ("batch", "rows", "duration"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("most of it in", overflow="fold")
    ranked = sorted(triggers, key=lambda t: (-(t.duration_ms or 0), t.started_at or ""))
    for trigger in ranked[:SHOWN]:
        parts = {k: v for k, v in trigger.durations_ms.items() if k != "triggerExecution"}
        part = max(sorted(parts), key=lambda k: parts[k], default="-")
        table.add_row(
            clock.show(trigger.started_at),
            "-" if trigger.batch_id is None else str(trigger.batch_id),
            "-" if trigger.rows is None else words.thousands(trigger.rows),
            "-" if trigger.duration_ms is None else words.duration(trigger.duration_ms),
            _text(part),
        )
    return table


def _is_uneven(part: SlowPart) -> bool:
    """Whether the slowest task is worth a row: others of its stage took a third at most."""
    return part.others_ms is not None and part.longest_ms >= 3 * part.others_ms + 500


def _slow(parts: Sequence[SlowPart], page: Page) -> RenderableType:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    table.add_column("slowest tasks", overflow="fold")
    for name in ("task", "took", "others", "records", "others"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("on", overflow="fold")
    for part in parts[: SHOWN * 4 if page.verbose else SHOWN]:
        unit = f"batch {part.batch_id}, " if part.batch_id is not None else ""
        place = part.executor or "-"
        if part.host and part.host != part.executor:
            place += f" @ {part.host}"
        table.add_row(
            _text(f"{unit}stage {part.stage}"),
            f"{part.index + 1}/{part.tasks}",
            words.duration(part.longest_ms),
            "-" if part.others_ms is None else words.duration(part.others_ms),
            words.thousands(part.records),
            "-" if part.others_records is None else words.number(part.others_records),
            _text(place),
        )
    return table
