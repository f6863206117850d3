"""The output of `flowdiag simulate credits`: the job, the effect of each change, and the fit of the model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rich.console import RenderableType
from rich.text import Text

from flowdiag.analyses.model import fmt
from flowdiag.analyses.queues.credit_fit import POOR, Fit, Prediction, reference_task
from flowdiag.analyses.queues.credits.job import Flow, Job, Outcome
from flowdiag.analyses.queues.credits.static import flow_rates
from flowdiag.cli.output.writing import stdout_page
from flowdiag.cli.text.chart import labeled_lines
from flowdiag.cli.text.grid import Column, Listing, render_blocks

_WIDEST: Final = 114


def page_of(fitted: Fit, predictions: Sequence[Prediction], growth: Outcome) -> str:
    """Format the outcomes for a terminal.

    Args:
        fitted: the model.
        predictions: without changes first, then one for each change.
        growth: the simulation of the queues, starting empty.
    """
    page = stdout_page()
    task = reference_task(fitted.bottleneck, fitted.job)
    blocks: list[RenderableType] = [_chain(fitted.job), _bottleneck(fitted), _settings(fitted.flow)]
    blocks += [
        Listing(
            predictions,
            Column("", lambda item: item.name, "wrap"),
            Column("throughput", _throughput, "right-wrap"),
            Column("queue", lambda item: _value_text(item, item.queue, 1), "right-wrap"),
            Column(
                "records waiting", lambda item: _value_text(item, item.queued_records), "right-wrap"
            ),
            Column("checkpoint", _checkpoint, "right-wrap"),
        ),
        *[Text(text, "dim") for text in _notes(predictions)],
    ]
    values: list[float | None] = [value for _, value in growth.queue_over_time.get(task, ())]
    rows = labeled_lines(values, width=min(page.width, _WIDEST), unicode=page.unicode)
    if rows:
        lasted = fmt.duration(growth.seconds * 1000)
        blocks.append(Text(f"buffers before {task}, starting empty, over {lasted}", "dim"))
    blocks += rows
    blocks += [Text(note, "yellow") for note in dict.fromkeys(fitted.notes)]
    if fitted.compared:
        compared = "; ".join(
            f"{c.name} {_figure(c.name, c.observed)}, modeled {_figure(c.name, c.modelled)}"
            for c in fitted.compared
        )
        missed = f"the model differs by a factor of {fitted.error:.1f} (limit {POOR:g})"
        poor = Text(f"{missed}: do not rely on its predictions", "yellow")
        blocks += [Text(f"fit  {compared}", "dim"), *([poor] if fitted.is_poor else [])]
    return render_blocks(blocks, page)


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


def _bottleneck(fitted: Fit) -> Text:
    if fitted.bottleneck is None:
        return Text("no task is near its limit")
    busy = max(item.busy for item in fitted.outcome.of(fitted.bottleneck))
    rates, sources = flow_rates(fitted.job), _sources(fitted.job)
    offered = sum(rates[name] for name in sources)
    taken = sum(fitted.outcome.throughput(name) for name in sources)
    text = f"the slowest task is {fitted.bottleneck}, busy {fmt.percent(busy)} of the time"
    if offered - taken > 0.02 * offered:
        text += f": {fmt.number(round(offered - taken, 1))} records/s exceed its capacity"
    return Text(text)


def _sources(job: Job) -> list[str]:
    return [t.name for t in job.tasks if all(edge.downstream != t.name for edge in job.edges)]


def _settings(flow: Flow) -> Text:
    parts = [
        f"{flow.per_channel} buffers per channel",
        f"{flow.floating} floating",
        f"of {fmt.size(flow.segment_bytes)}",
        "no debloating"
        if flow.debloating is None
        else f"debloating to {fmt.duration(flow.debloating.target_ms)}",
        "unaligned checkpoints" if flow.unaligned else "aligned checkpoints",
        f"every {fmt.duration(flow.interval_ms)}",
    ]
    return Text(", ".join(parts), "dim")


def _throughput(item: Prediction) -> str | None:
    return None if item.outcome is None else f"{fmt.number(round(item.throughput, 1))}/s"


def _value_text(item: Prediction, value: float, digits: int | None = None) -> str | None:
    return None if item.outcome is None else fmt.number(round(value, digits))


def _checkpoint(item: Prediction) -> str | None:
    if item.outcome is None:
        return None
    if item.barrier_ms is not None:
        return fmt.duration(item.barrier_ms)
    return None if item.at_least_ms is None else f"> {fmt.duration(item.at_least_ms)}"


def _notes(predictions: Sequence[Prediction]) -> list[str]:
    found = [f"{item.name}: {item.problem}" for item in predictions if item.problem]
    for item in predictions:
        if item.outcome is not None and item.flow.unaligned:
            carried = max((b.overtaken_bytes for b in item.outcome.barriers), default=0.0)
            found.append(
                f"{item.name}: each checkpoint stores up to {fmt.size(carried)} of queued data, which"
                " takes time"
            )
    return found
