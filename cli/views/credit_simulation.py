"""What `flowdiag simulate credits` shows: the job, what each change does to it, how well the model fits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rich.console import RenderableType
from rich.text import Text

from flowdiag.analyses.model import fmt
from flowdiag.analyses.queues.credit_fit import POOR, Fit, Prediction, watched
from flowdiag.analyses.queues.credits.job import Flow, Job, Outcome
from flowdiag.analyses.queues.credits.static import flow_rates
from flowdiag.cli.output.writing import stdout_page
from flowdiag.cli.text.chart import labelled
from flowdiag.cli.text.grid import Column, Listing, render_blocks

_WIDEST: Final = 114


def page_of(fitted: Fit, played: Sequence[Prediction], growth: Outcome) -> str:
    """The outcomes for a terminal.

    Args:
        fitted: the model.
        played: with it: as it is, then changed.
        growth: how its queues fill, from empty ones on.
    """
    page = stdout_page()
    task = watched(fitted.bottleneck, fitted.job)
    blocks: list[RenderableType] = [_chain(fitted.job), _said(fitted), _told_settings(fitted.flow)]
    blocks += [_table(played), *[Text(text, "dim") for text in _remarks(played)]]
    values: list[float | None] = [value for _, value in growth.queue_over_time.get(task, ())]
    rows = labelled(values, width=min(page.width, _WIDEST), unicode=page.unicode)
    if rows:
        lasted = fmt.duration(growth.seconds * 1000)
        blocks.append(Text(f"buffers before {task}, from empty ones on, {lasted}", "dim"))
    blocks += rows
    blocks += [Text(note, "yellow") for note in dict.fromkeys(fitted.notes)]
    if fitted.compared:
        blocks += _fit(fitted)
    return render_blocks(blocks, page)


def _fit(fitted: Fit) -> list[Text]:
    told = "; ".join(
        f"{c.name} {_figure(c.name, c.observed)}, modelled {_figure(c.name, c.modelled)}"
        for c in fitted.compared
    )
    missed = f"the model misses by {fitted.error:.1f} times (above {POOR:g})"
    poor = Text(f"{missed}: do not rely on what it predicts", "yellow")
    return [Text(f"fit  {told}", "dim"), *([poor] if fitted.is_poor else [])]


def _figure(name: str, value: float) -> str:
    if name == "barrier":
        return fmt.duration(value)
    return f"{fmt.number(round(value, 1))}{'/s' if name == 'throughput' else ' buffers'}"


def _chain(job: Job) -> Text:
    rates = flow_rates(job)
    parts = []
    for task in job.tasks:
        if all(edge.downstream != task.name for edge in job.edges):
            cost = f"{fmt.number(round(rates[task.name], 1))} records/s"
        else:
            low, high = min(task.service_ms), max(task.service_ms)
            cost = f"{low:.3g} ms" if high - low < 0.005 else f"{low:.3g} to {high:.3g} ms"
        parts.append(f"{task.name} ({task.parallelism}, {cost})")
    return Text(" -> ".join(parts))


def _said(fitted: Fit) -> Text:
    if fitted.bottleneck is None:
        return Text("no task is near its limit")
    held = max(item.busy for item in fitted.outcome.of(fitted.bottleneck))
    offered, taken = _offered(fitted.job), _sent(fitted.job, fitted.outcome)
    told = f"the slowest is {fitted.bottleneck}, busy {fmt.percent(held)} of the time"
    if offered - taken > 0.02 * offered:
        told += f": {fmt.number(round(offered - taken, 1))} records/s more come than get through"
    return Text(told)


def _sources(job: Job) -> list[str]:
    return [t.name for t in job.tasks if all(edge.downstream != t.name for edge in job.edges)]


def _offered(job: Job) -> float:
    rates = flow_rates(job)
    return sum(rates[name] for name in _sources(job))


def _sent(job: Job, outcome: Outcome) -> float:
    return sum(outcome.throughput(name) for name in _sources(job))


def _told_settings(flow: Flow) -> Text:
    told = [
        f"{flow.per_channel} buffers per channel",
        f"{flow.floating} floating",
        f"of {fmt.size(flow.segment_bytes)}",
        "no debloating"
        if flow.debloating is None
        else f"debloating to {fmt.duration(flow.debloating.target_ms)}",
        "unaligned checkpoints" if flow.unaligned else "aligned checkpoints",
        f"every {fmt.duration(flow.interval_ms)}",
    ]
    return Text(", ".join(told), "dim")


def _table(played: Sequence[Prediction]) -> RenderableType:
    return Listing(
        played,
        Column("", lambda item: item.name, "wrap"),
        Column("throughput", _throughput, "right-wrap"),
        Column("queue", lambda item: _rounded(item, item.queue, 1), "right-wrap"),
        Column("records waiting", lambda item: _rounded(item, item.queued_records), "right-wrap"),
        Column("checkpoint", _checkpoint, "right-wrap"),
    )


def _throughput(item: Prediction) -> str | None:
    return None if item.outcome is None else f"{fmt.number(round(item.throughput, 1))}/s"


def _rounded(item: Prediction, value: float, digits: int | None = None) -> str | None:
    return None if item.outcome is None else fmt.number(round(value, digits))


def _checkpoint(item: Prediction) -> str | None:
    if item.outcome is None:
        return None
    if item.barrier_ms is not None:
        return fmt.duration(item.barrier_ms)
    return None if item.at_least_ms is None else f"> {fmt.duration(item.at_least_ms)}"


def _remarks(played: Sequence[Prediction]) -> list[str]:
    found = [f"{item.name}: {item.problem}" for item in played if item.problem]
    for item in played:
        if item.outcome is not None and item.flow.unaligned:
            carried = max((b.overtaken_bytes for b in item.outcome.barriers), default=0.0)
            found.append(
                f"{item.name}: each carries up to {fmt.size(carried)} of waiting data, which takes"
                " its time to store"
            )
    return found
