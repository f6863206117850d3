"""What `flowdiag simulate pid` shows: the settings side by side, and the rate over time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from rich.console import RenderableType
from rich.text import Text

from flowdiag.analyses import say
from flowdiag.analyses.rate.model import Job, Outcome, Settings
from flowdiag.cli.chart import labelled
from flowdiag.cli.grid import Column, drawn, listing
from flowdiag.cli.output import page_here

POOR_FIT: Final = 0.25  # of the interval: with a larger error the model predicts little


def page_of(job: Job, outcomes: Mapping[str, Outcome], settings: Mapping[str, Settings]) -> str:
    """The outcomes for a terminal.

    Args:
        job: what a batch costs.
        outcomes: by name: as it is, tried.
        settings: of each name.
    """
    page = page_here()
    blocks: list[RenderableType] = [_job_line(job, settings["tried"]), _table(outcomes)]
    for name, outcome in outcomes.items():
        values = [b.records * 1000 / settings[name].interval_ms for b in outcome.batches]
        # A first batch without a limit would flatten all others.
        shown = [None if v > 50 * max(outcome.steady_per_s, 1.0) else v for v in values]
        blocks.append(Text(f"records/s, {name}", "dim"))
        blocks += labelled(shown, width=page.width, unicode=page.unicode)
    if job.error_ms > POOR_FIT * settings["tried"].interval_ms:
        missed = say.duration(job.error_ms)
        told = f"batches miss the fitted cost by {missed}: predictions are poor"
        blocks.append(Text(told, "yellow"))
    return drawn(blocks, page)


def _table(outcomes: Mapping[str, Outcome]) -> RenderableType:
    return listing(
        outcomes.items(),
        Column("", lambda item: item[0], "wrap"),
        Column("steady rate", lambda item: f"{_rate(item[1])}/s", "right-wrap"),
        Column("delay", lambda item: say.duration(item[1].delay_ms), "right-wrap"),
        Column("settles after", lambda item: _settled(item[1]), "right-wrap"),
        Column("overshoot", lambda item: say.share(max(0.0, item[1].overshoot)), "right-wrap"),
        Column("waiting batches", lambda item: str(item[1].queued), "right-wrap"),
    )


def _rate(outcome: Outcome) -> str:
    return say.number(round(outcome.steady_per_s, 1))


def _settled(outcome: Outcome) -> str:
    return "never" if outcome.settling_ms is None else say.duration(outcome.settling_ms)


def _job_line(job: Job, settings: Settings) -> Text:
    capacity = (settings.interval_ms - job.fixed_ms) / max(job.per_record_ms, 1e-9)
    sustains = max(0.0, capacity * 1000 / settings.interval_ms)
    gains = settings.gains
    estimator = (
        f"proportional {gains.proportional:g}, integral {gains.integral:g}, derived"
        f" {gains.derived:g}, minRate {gains.min_rate:g}"
        if settings.back_pressure
        else "no back pressure"
    )
    fit = f" (batches miss that by {say.duration(job.error_ms)})" if job.error_ms else ""
    return Text(
        f"{say.duration(job.fixed_ms)} per batch and {job.per_record_ms:g} ms per record{fit} every"
        f" {say.duration(settings.interval_ms)}: at most {say.number(round(sustains, 1))}"
        f" records/s · {estimator}"
    )
