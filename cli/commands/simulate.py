"""`flowdiag simulate`."""

from __future__ import annotations

from typing import Annotated, Any, Final

import typer

from flowdiag.cli.options import shared as o
from flowdiag.cli.options.help import HelpfulCommand, HelpfulGroup
from flowdiag.cli.options.settings import Listing
from flowdiag.cli.options.signature import Options, taking

simulate = typer.Typer(
    name="simulate",
    cls=HelpfulGroup,
    rich_markup_mode=None,
    help="""Try settings on a model before trying them on a cluster.

    \b
    Examples:
      flowdiag simulate pid --cost-per-record 5ms --offered 400 --min-rate 10
      flowdiag simulate credits --parallelism 2,4,2 --rate 1000 --service 0,5ms
    """,
)


_WRITTEN: Final[Options] = {
    "shape": (
        Annotated[
            Listing,
            typer.Option(
                "--format", "-f", metavar="FORMAT", help="table or json.", rich_help_panel="Output"
            ),
        ],
        Listing.TABLE,
    ),
    "output": (o.Output, None),
}

_WORKLOAD = "Workload"
_SETTINGS = "Settings to try"


_PID: Final[Options] = {
    "report": (
        Annotated[
            str | None,
            typer.Argument(
                metavar="[REPORT]",
                help="A report of `flowdiag rate --format json`: its costs and settings are taken.",
            ),
        ],
        None,
    ),
    "interval": (
        Annotated[
            str | None,
            typer.Option(
                "--interval", metavar="TIME", help="Batch interval: 2s.", rich_help_panel=_WORKLOAD
            ),
        ],
        None,
    ),
    "cost_per_batch": (
        Annotated[
            str | None,
            typer.Option(
                "--cost-per-batch",
                metavar="TIME",
                help="What a batch takes by itself.",
                rich_help_panel=_WORKLOAD,
            ),
        ],
        None,
    ),
    "cost_per_record": (
        Annotated[
            str | None,
            typer.Option(
                "--cost-per-record",
                metavar="TIME",
                help="What a record adds: 5ms, 0.2ms.",
                rich_help_panel=_WORKLOAD,
            ),
        ],
        None,
    ),
    "offered": (
        Annotated[
            str | None,
            typer.Option(
                "--offered",
                metavar="RATE",
                help="Records per second that come in; 60x400,30x20 is 400 for 60 batches, then 20 for"
                " 30. Without it as the report has it, or twice what fits.",
                rich_help_panel=_WORKLOAD,
            ),
        ],
        None,
    ),
    "batches": (
        Annotated[
            int | None,
            typer.Option(
                "--batches", metavar="N", help="How many (default: 60).", rich_help_panel=_WORKLOAD
            ),
        ],
        None,
    ),
    "proportional": (
        Annotated[
            float | None, typer.Option("--proportional", metavar="K", rich_help_panel=_SETTINGS)
        ],
        None,
    ),
    "integral": (
        Annotated[float | None, typer.Option("--integral", metavar="K", rich_help_panel=_SETTINGS)],
        None,
    ),
    "derived": (
        Annotated[float | None, typer.Option("--derived", metavar="K", rich_help_panel=_SETTINGS)],
        None,
    ),
    "min_rate": (
        Annotated[
            float | None, typer.Option("--min-rate", metavar="RATE", rich_help_panel=_SETTINGS)
        ],
        None,
    ),
    "max_rate": (
        Annotated[
            float | None,
            typer.Option(
                "--max-rate",
                metavar="RATE",
                help="spark.streaming.receiver.maxRate.",
                rich_help_panel=_SETTINGS,
            ),
        ],
        None,
    ),
    "initial_rate": (
        Annotated[
            float | None, typer.Option("--initial-rate", metavar="RATE", rich_help_panel=_SETTINGS)
        ],
        None,
    ),
    "back_pressure": (
        Annotated[
            bool | None,
            typer.Option(
                "--back-pressure/--no-back-pressure",
                help="With the estimator, or without (default: as the report has it, else with).",
                rich_help_panel=_SETTINGS,
            ),
        ],
        None,
    ),
    **_WRITTEN,
}


@simulate.command(cls=HelpfulCommand)
@taking(_PID)
def pid(**given: Any) -> int:
    """What would Spark's rate estimator do with other settings?

    \b
    Examples:
      flowdiag simulate pid --cost-per-record 5ms --offered 400 --min-rate 10
      flowdiag simulate pid --interval 1s --cost-per-batch 200ms --cost-per-record 1ms --proportional 2
      flowdiag rate logs/ --format json > report.json; flowdiag simulate pid report.json --min-rate 10

    One receiver, its rate limiter, the queue of batches, a job that costs so much per batch and per
    record, and the estimator to the last bit. Defaults are Spark's, or what the report says.
    """
    from flowdiag.cli.simulations.pid import Wanted, run_pid

    as_json = given.pop("shape") is Listing.JSON
    return run_pid(Wanted(**given, as_json=as_json))


_FROM = "A job that ran"
_BUFFERS = "Settings"


_CREDITS: Final[Options] = {
    "paths": (
        Annotated[
            list[str] | None,
            typer.Option(
                "--from",
                metavar="PATH",
                help="Logs with metric reports, REST answers, what `flowdiag collect` wrote: a running"
                " job's figures are taken. May be given several times.",
                rich_help_panel=_FROM,
            ),
        ],
        None,
    ),
    "job": (
        Annotated[
            str | None,
            typer.Option(
                "--job",
                metavar="JOB",
                help="Which job: the beginning of its id, or a glob of its name, in any case.",
                rich_help_panel=_FROM,
            ),
        ],
        None,
    ),
    "parallelism": (
        Annotated[
            str | None,
            typer.Option(
                "--parallelism",
                metavar="N,N,...",
                help="Subtasks of the source, of each task, of the sink; all-to-all edges between them"
                " (default: 2,4,2).",
                rich_help_panel=_WORKLOAD,
            ),
        ],
        None,
    ),
    "rate": (
        Annotated[
            float | None,
            typer.Option(
                "--rate",
                metavar="RATE",
                help="Records per second that come in, all together.",
                rich_help_panel=_WORKLOAD,
            ),
        ],
        None,
    ),
    "service": (
        Annotated[
            str | None,
            typer.Option(
                "--service",
                metavar="TIME[,TIME...]",
                help="What one record takes each task after the source; a single one is the sink's.",
                rich_help_panel=_WORKLOAD,
            ),
        ],
        None,
    ),
    "record_size": (
        Annotated[
            str | None,
            typer.Option(
                "--record-size",
                metavar="SIZE",
                help="Of a record on the wire (default: 100b).",
                rich_help_panel=_WORKLOAD,
            ),
        ],
        None,
    ),
    "skew": (
        Annotated[
            float | None,
            typer.Option(
                "--skew",
                metavar="SHARE",
                help="Share of the records that one subtask of the slowest task gets: 0.85.",
                rich_help_panel=_WORKLOAD,
            ),
        ],
        None,
    ),
    "task_managers": (
        Annotated[
            int | None,
            typer.Option(
                "--task-managers",
                metavar="N",
                help="Spread the subtasks over so many, in turn: channels inside one are local"
                " (default: all are remote).",
                rich_help_panel=_WORKLOAD,
            ),
        ],
        None,
    ),
    "flink": (
        Annotated[
            str | None,
            typer.Option(
                "--flink",
                metavar="VERSION",
                help="Whose defaults and limits hold (default: 1.20).",
                rich_help_panel=_BUFFERS,
            ),
        ],
        None,
    ),
    "buffers_per_channel": (
        Annotated[
            int | None,
            typer.Option("--buffers-per-channel", metavar="N", rich_help_panel=_BUFFERS),
        ],
        None,
    ),
    "floating_buffers": (
        Annotated[
            int | None,
            typer.Option(
                "--floating-buffers", metavar="N", help="Per gate.", rich_help_panel=_BUFFERS
            ),
        ],
        None,
    ),
    "segment_size": (
        Annotated[
            str | None,
            typer.Option(
                "--segment-size",
                metavar="SIZE",
                help="Of a buffer: 32kb.",
                rich_help_panel=_BUFFERS,
            ),
        ],
        None,
    ),
    "segments": (
        Annotated[
            int | None,
            typer.Option(
                "--segments",
                metavar="N",
                help="Network buffers of a TaskManager (default: enough).",
                rich_help_panel=_BUFFERS,
            ),
        ],
        None,
    ),
    "buffer_timeout": (
        Annotated[
            str | None,
            typer.Option("--buffer-timeout", metavar="TIME", rich_help_panel=_BUFFERS),
        ],
        None,
    ),
    "debloat": (
        Annotated[
            str | None,
            typer.Option(
                "--debloat",
                metavar="TARGET",
                help="Buffer debloating with this target: 1s; or off.",
                rich_help_panel=_BUFFERS,
            ),
        ],
        None,
    ),
    "unaligned": (
        Annotated[
            bool | None,
            typer.Option(
                "--unaligned/--aligned", help="How checkpoints go.", rich_help_panel=_BUFFERS
            ),
        ],
        None,
    ),
    "checkpoint_interval": (
        Annotated[
            str | None,
            typer.Option("--checkpoint-interval", metavar="TIME", rich_help_panel=_BUFFERS),
        ],
        None,
    ),
    **_WRITTEN,
}


@simulate.command(cls=HelpfulCommand)
@taking(_CREDITS)
def credits(**given: Any) -> int:
    """What would other buffers, checkpoints or subtasks change for a Flink job under back pressure?

    \b
    Examples:
      flowdiag simulate credits --parallelism 2,4,6,2 --rate 1000 --service 0,0,5ms --record-size 400b
      flowdiag simulate credits --rate 5000 --service 0.5ms --skew 0.8 --debloat 1s
      flowdiag simulate credits --from logs/ --from rest/
      flowdiag simulate credits --from collected/ --buffers-per-channel 4 --format json

    Pools, credits, backlogs and barriers of every subtask and channel are played through: throughput,
    queues, and how long a checkpoint waits. With --from, first as the job ran, which shows how well the
    model fits; then under the usual remedies, and under the settings given here.
    """
    from flowdiag.cli.simulations.credits import Wanted, run_credits

    as_json = given.pop("shape") is Listing.JSON
    paths = tuple(given.pop("paths") or ())
    return run_credits(Wanted(**given, paths=paths, as_json=as_json))
