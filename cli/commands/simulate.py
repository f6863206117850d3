"""`flowdiag simulate`."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from flowdiag.cli.help import HelpfulCommand, HelpfulGroup

simulate = typer.Typer(
    name="simulate",
    cls=HelpfulGroup,
    rich_markup_mode=None,
    help="""Try settings on a model before trying them on a cluster.

    \b
    Examples:
      flowdiag simulate pid --cost-per-record 5ms --offered 400 --min-rate 10
    """,
)


class Shape(StrEnum):
    """How the outcome is written."""

    TABLE = "table"
    JSON = "json"


_WORKLOAD = "Workload"
_SETTINGS = "Settings to try"


@simulate.command(cls=HelpfulCommand)
def pid(
    report: Annotated[
        str | None,
        typer.Argument(
            metavar="[REPORT]",
            help="A report of `flowdiag rate --format json`: its costs and settings are taken.",
        ),
    ] = None,
    interval: Annotated[
        str | None,
        typer.Option(
            "--interval", metavar="TIME", help="Batch interval.", rich_help_panel=_WORKLOAD
        ),
    ] = None,
    cost_per_batch: Annotated[
        str | None,
        typer.Option(
            "--cost-per-batch",
            metavar="TIME",
            help="What a batch takes by itself.",
            rich_help_panel=_WORKLOAD,
        ),
    ] = None,
    cost_per_record: Annotated[
        str | None,
        typer.Option(
            "--cost-per-record",
            metavar="TIME",
            help="What a record adds: 5ms, 0.2ms.",
            rich_help_panel=_WORKLOAD,
        ),
    ] = None,
    offered: Annotated[
        str | None,
        typer.Option(
            "--offered",
            metavar="RATE",
            help="Records per second that come in; 60x400,30x20 is 400 for 60 batches, then 20 for"
            " 30. Without it the source always has more.",
            rich_help_panel=_WORKLOAD,
        ),
    ] = None,
    batches: Annotated[
        int | None,
        typer.Option(
            "--batches", metavar="N", help="How many (default: 60).", rich_help_panel=_WORKLOAD
        ),
    ] = None,
    proportional: Annotated[
        float | None, typer.Option("--proportional", metavar="K", rich_help_panel=_SETTINGS)
    ] = None,
    integral: Annotated[
        float | None, typer.Option("--integral", metavar="K", rich_help_panel=_SETTINGS)
    ] = None,
    derived: Annotated[
        float | None, typer.Option("--derived", metavar="K", rich_help_panel=_SETTINGS)
    ] = None,
    min_rate: Annotated[
        float | None, typer.Option("--min-rate", metavar="RATE", rich_help_panel=_SETTINGS)
    ] = None,
    max_rate: Annotated[
        float | None,
        typer.Option(
            "--max-rate",
            metavar="RATE",
            help="spark.streaming.receiver.maxRate.",
            rich_help_panel=_SETTINGS,
        ),
    ] = None,
    initial_rate: Annotated[
        float | None, typer.Option("--initial-rate", metavar="RATE", rich_help_panel=_SETTINGS)
    ] = None,
    no_back_pressure: Annotated[
        bool,
        typer.Option("--no-back-pressure", help="No estimator.", rich_help_panel=_SETTINGS),
    ] = False,
    shape: Annotated[
        Shape, typer.Option("--format", "-f", metavar="FORMAT", help="table or json.")
    ] = Shape.TABLE,
) -> int:
    """What would Spark's rate estimator do with other settings?

    \b
    Examples:
      flowdiag simulate pid --cost-per-record 5ms --offered 400 --min-rate 10
      flowdiag simulate pid --interval 1s --cost-per-batch 200ms --cost-per-record 1ms --proportional 2
      flowdiag rate logs/ --format json > report.json; flowdiag simulate pid report.json --min-rate 10

    One receiver, its rate limiter, the queue of batches, a job that costs so much per batch and per
    record, and the estimator to the last bit. Defaults are Spark's, or what the report says.
    """
    from flowdiag.cli.simulation import Wanted, run_pid

    return run_pid(
        Wanted(
            report=report,
            interval=interval,
            cost_per_batch=cost_per_batch,
            cost_per_record=cost_per_record,
            offered=offered,
            batches=batches,
            proportional=proportional,
            integral=integral,
            derived=derived,
            min_rate=min_rate,
            max_rate=max_rate,
            initial_rate=initial_rate,
            back_pressure=not no_back_pressure,
            as_json=shape is Shape.JSON,
        )
    )
