"""The output of `flowdiag simulate pid`: a row for each setting, and the rate over time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from rich.console import RenderableType
from rich.text import Text

from flowdiag.analyses.model import fmt
from flowdiag.analyses.rate.model import LONGEST, Outcome, Settings, Settling, Workload
from flowdiag.cli.output.writing import stdout_page
from flowdiag.cli.simulations import CHANGED
from flowdiag.cli.text.chart import labeled_lines
from flowdiag.cli.text.grid import Column, Listing, render_blocks

POOR_FIT: Final = 0.25  # share of the interval; with a larger error predictions are poor


def page_of(
    load: Workload, outcomes: Mapping[str, Outcome], settings: Mapping[str, Settings]
) -> str:
    """Format the outcomes for a terminal.

    Args:
        load: the simulated workload.
        outcomes: the simulations by name: as recorded, and with the settings of the command line.
        settings: the settings by name.
    """
    page, job = stdout_page(), load.job
    blocks: list[RenderableType] = [
        _job_line(load, settings[CHANGED]),
        Text(f"offered {_offered_rates(load)} records/s, {load.offered_from}"),
        _table(outcomes, settings),
    ]
    for name, outcome in outcomes.items():
        values = [b.records * 1000 / settings[name].interval_ms for b in outcome.batches]
        # An unlimited first batch would flatten all others.
        shown = [None if v > 50 * max(outcome.steady_per_s, 1.0) else v for v in values]
        blocks.append(Text(f"records/s, {name}", "dim"))
        blocks += labeled_lines(shown, width=page.width, unicode=page.unicode)
    if job.error_ms > POOR_FIT * settings[CHANGED].interval_ms:
        missed = fmt.duration(job.error_ms)
        warning = f"batches differ from the fitted cost by {missed}: predictions are poor"
        blocks.append(Text(warning, "yellow"))
    return render_blocks(blocks, page)


def _table(outcomes: Mapping[str, Outcome], settings: Mapping[str, Settings]) -> RenderableType:
    return Listing(
        outcomes.items(),
        Column("", lambda item: item[0], "wrap"),
        Column(
            "steady rate",
            lambda item: f"{fmt.number(round(item[1].steady_per_s, 1))}/s",
            "right-wrap",
        ),
        Column("delay", lambda item: fmt.duration(item[1].delay_ms), "right-wrap"),
        Column(
            "settles after",
            lambda item: _settling_time(item[1], settings[item[0]].interval_ms),
            "right-wrap",
        ),
        Column("overshoot", lambda item: fmt.share(max(0.0, item[1].overshoot)), "right-wrap"),
        Column("waiting batches", lambda item: str(item[1].queued), "right-wrap"),
    )


def _settling_time(outcome: Outcome, interval_ms: int) -> str:
    match outcome.settling:
        case Settling.GROWS:
            return "never: the delay grows"
        case Settling.SWINGS:
            return "never: the rate oscillates"
        case Settling.LATER:
            return f"not within {fmt.duration(LONGEST * interval_ms)}"
    return fmt.duration(outcome.settling_ms or 0)


def _offered_rates(load: Workload) -> str:
    """Return the offered rates in the order of the batches."""
    changes: list[float] = []
    for rate in load.offered_per_s:
        if rate not in changes[-1:]:
            changes.append(rate)
    rates = [fmt.number(round(rate, 1)) for rate in changes]
    return ", then ".join(rates if len(rates) <= 4 else [*rates[:3], "…"])


def _job_line(load: Workload, settings: Settings) -> Text:
    job, gains = load.job, settings.gains
    sustains = job.sustains_per_s(settings.interval_ms)
    floor = f"minRate {gains.min_rate / load.streams:g}"
    floor += f" for each of {load.streams} streams" if load.streams > 1 else ""
    estimator = (
        f"proportional {gains.proportional:g}, integral {gains.integral:g}, derived"
        f" {gains.derived:g}, {floor}"
        if settings.back_pressure
        else "no back pressure"
    )
    fit = f" (batches differ by {fmt.duration(job.error_ms)})" if job.error_ms else ""
    at_once = f", {job.at_once} concurrent batches" if job.at_once > 1 else ""
    return Text(
        f"{fmt.duration(job.fixed_ms)} per batch and {job.per_record_ms:.4g} ms per record{fit} every"
        f" {fmt.duration(settings.interval_ms)}{at_once}: at most {fmt.number(round(sustains, 1))}"
        f" records/s · {estimator}"
    )
