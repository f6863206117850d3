"""`flowdiag simulate`."""

from __future__ import annotations

from typing import Annotated, Any, Final

import typer

from flowdiag.cli.options import shared as o
from flowdiag.cli.options.help import HelpfulCommand, HelpfulGroup
from flowdiag.cli.options.signature import Options, with_options
from flowdiag.cli.settings import Listing

simulate = typer.Typer(
    name="simulate",
    cls=HelpfulGroup,
    rich_markup_mode=None,
    help="""Try settings on a model before you try them on a cluster.

    \b
    Examples:
      flowdiag simulate pid --cost-per-record 5ms --offered 400 --min-rate 10
      flowdiag simulate credits --parallelism 2,4,2 --rate 1000 --service 0,5ms
      flowdiag simulate autoscaler collected/ --target-utilization 0.6
    """,
)


def _option(
    kind: Any, panel: str, name: str, metavar: str | None = None, help: str | None = None
) -> tuple[Any, None]:
    """Declare an option that has no default."""
    option = typer.Option(name, metavar=metavar, help=help, rich_help_panel=panel)
    return Annotated[kind | None, option], None


_WORKLOAD, _SETTINGS, _JOB = "Workload", "Settings", "Recorded job"

_REPORT: Final[Options] = {
    "shape": (o.ListingFormat, Listing.TABLE),
    "output": (o.TextOutput, None),
}
_PID: Final[Options] = {
    "report": (
        Annotated[
            str | None,
            typer.Argument(
                metavar="[REPORT]",
                help="Report of `flowdiag rate --format json`, for costs and settings.",
            ),
        ],
        None,
    ),
    "interval": _option(str, _WORKLOAD, "--interval", "TIME", "Batch interval: 2s."),
    "cost_per_batch": _option(
        str, _WORKLOAD, "--cost-per-batch", "TIME", "Fixed cost of a batch: 200ms."
    ),
    "cost_per_record": _option(
        str, _WORKLOAD, "--cost-per-record", "TIME", "Cost of a record: 5ms, 0.2ms."
    ),
    "offered": _option(
        str,
        _WORKLOAD,
        "--offered",
        "RATE",
        "Records per second: 400, or 60x400,30x20 for 60 and 30 batches.",
    ),
    "batches": _option(int, _WORKLOAD, "--batches", "N", "Number of batches (default: 60)."),
    "proportional": _option(
        float, _SETTINGS, "--proportional", "K", "spark.streaming.backpressure.pid.proportional."
    ),
    "integral": _option(
        float, _SETTINGS, "--integral", "K", "spark.streaming.backpressure.pid.integral."
    ),
    "derived": _option(
        float, _SETTINGS, "--derived", "K", "spark.streaming.backpressure.pid.derived."
    ),
    "min_rate": _option(
        float, _SETTINGS, "--min-rate", "RATE", "spark.streaming.backpressure.pid.minRate."
    ),
    "max_rate": _option(
        float, _SETTINGS, "--max-rate", "RATE", "spark.streaming.receiver.maxRate."
    ),
    "initial_rate": _option(
        float, _SETTINGS, "--initial-rate", "RATE", "spark.streaming.backpressure.initialRate."
    ),
    "back_pressure": _option(
        bool,
        _SETTINGS,
        "--back-pressure/--no-back-pressure",
        help="Simulate with or without the estimator (default: as in the report, or with the "
        "estimator).",
    ),
    **_REPORT,
}


@simulate.command(cls=HelpfulCommand)
@with_options(_PID)
def pid(**arguments: Any) -> int:
    """Simulate Spark's rate estimator with other settings.

    \b
    Examples:
      flowdiag simulate pid --cost-per-record 5ms --offered 400 --min-rate 10
      flowdiag simulate pid --interval 1s --cost-per-batch 200ms --cost-per-record 1ms --proportional 2
      flowdiag rate logs/ --format json > report.json; flowdiag simulate pid report.json --min-rate 10

    The model covers one receiver, its rate limiter, the batch queue, the cost per batch and per record, and the exact
    estimator. Defaults come from the report, or from Spark.
    """
    from flowdiag.cli.simulations.pid import PidFlags, run_pid

    as_json = arguments.pop("shape") is Listing.JSON
    return run_pid(PidFlags(**arguments, as_json=as_json))


_CREDITS: Final[Options] = {
    "paths": _option(
        list[str],
        _JOB,
        "--from",
        "PATH",
        "Logs with metric reports, REST responses, snapshots; repeatable.",
    ),
    "job": _option(
        str, _JOB, "--job", "JOB", "Only this job: prefix of its ID, or glob of its name."
    ),
    "parallelism": _option(
        str,
        _WORKLOAD,
        "--parallelism",
        "N,N,...",
        "Subtasks of source, tasks and sink (default: 2,4,2).",
    ),
    "rate": _option(
        float, _WORKLOAD, "--rate", "RATE", "Records per second of all sources together."
    ),
    "service": _option(
        str,
        _WORKLOAD,
        "--service",
        "TIME[,TIME...]",
        "Time per record of each task after the source.",
    ),
    "record_size": _option(
        str, _WORKLOAD, "--record-size", "SIZE", "Size of a record on the wire (default: 100b)."
    ),
    "skew": _option(
        float,
        _WORKLOAD,
        "--skew",
        "SHARE",
        "Share of the slowest task's records that one subtask gets, such as 0.85.",
    ),
    "task_managers": _option(
        int,
        _WORKLOAD,
        "--task-managers",
        "N",
        "Number of TaskManagers; channels within one are local.",
    ),
    "flink": _option(
        str,
        _SETTINGS,
        "--flink",
        "VERSION",
        "Flink version, for its defaults and limits (default: 1.20).",
    ),
    "buffers_per_channel": _option(
        int, _SETTINGS, "--buffers-per-channel", "N", "Exclusive buffers per channel."
    ),
    "floating_buffers": _option(
        int, _SETTINGS, "--floating-buffers", "N", "Floating buffers per gate."
    ),
    "segment_size": _option(str, _SETTINGS, "--segment-size", "SIZE", "Size of a buffer: 32kb."),
    "segments": _option(
        int,
        _SETTINGS,
        "--segments",
        "N",
        "Network buffers per TaskManager (default: as many as the job needs).",
    ),
    "buffer_timeout": _option(
        str, _SETTINGS, "--buffer-timeout", "TIME", "execution.buffer-timeout."
    ),
    "debloat": _option(
        str, _SETTINGS, "--debloat", "TARGET", "Buffer debloating with a target (1s), or off."
    ),
    "unaligned": _option(
        bool, _SETTINGS, "--unaligned/--aligned", help="Unaligned or aligned checkpoints."
    ),
    "checkpoint_interval": _option(
        str, _SETTINGS, "--checkpoint-interval", "TIME", "Checkpoint interval."
    ),
    **_REPORT,
}


@simulate.command(cls=HelpfulCommand)
@with_options(_CREDITS)
def credits(**arguments: Any) -> int:
    """Simulate a Flink job under back pressure with other buffers, checkpoints or parallelism.

    \b
    Examples:
      flowdiag simulate credits --parallelism 2,4,6,2 --rate 1000 --service 0,0,5ms --record-size 400b
      flowdiag simulate credits --rate 5000 --service 0.5ms --skew 0.8 --debloat 1s
      flowdiag simulate credits --from logs/ --from rest/
      flowdiag simulate credits --from collected/ --buffers-per-channel 4 --format json

    The model covers the pools, credits, backlogs and barriers of every subtask and channel. It shows throughput, queues
    and the duration of a checkpoint. With --from, it first simulates the job as recorded, which shows how well the
    model fits, then the usual remedies and your settings.
    """
    from flowdiag.cli.simulations.credits import CreditFlags, run_credits

    as_json = arguments.pop("shape") is Listing.JSON
    paths = tuple(arguments.pop("paths") or ())
    return run_credits(CreditFlags(**arguments, paths=paths, as_json=as_json))


_AUTOSCALER: Final[Options] = {
    "paths": (o.Paths, ...),
    "target_utilization": _option(
        float, _SETTINGS, "--target-utilization", "SHARE", "job.autoscaler.utilization.target."
    ),
    "utilization_boundary": _option(
        float,
        _SETTINGS,
        "--utilization-boundary",
        "SHARE",
        "job.autoscaler.target.utilization.boundary.",
    ),
    "utilization_min": _option(
        float, _SETTINGS, "--utilization-min", "SHARE", "job.autoscaler.utilization.min."
    ),
    "utilization_max": _option(
        float, _SETTINGS, "--utilization-max", "SHARE", "job.autoscaler.utilization.max."
    ),
    "catch_up": _option(
        str, _SETTINGS, "--catch-up", "TIME", "job.autoscaler.catch-up.duration: 10m."
    ),
    "restart_time": _option(
        str, _SETTINGS, "--restart-time", "TIME", "job.autoscaler.restart.time: 90s."
    ),
    "max_scale_up": _option(
        float, _SETTINGS, "--max-scale-up", "FACTOR", "job.autoscaler.scale-up.max-factor."
    ),
    "max_scale_down": _option(
        float, _SETTINGS, "--max-scale-down", "FACTOR", "job.autoscaler.scale-down.max-factor."
    ),
    "min_parallelism": _option(
        int, _SETTINGS, "--min-parallelism", "N", "job.autoscaler.vertex.min-parallelism."
    ),
    "max_parallelism": _option(
        int, _SETTINGS, "--max-parallelism", "N", "job.autoscaler.vertex.max-parallelism."
    ),
    **_REPORT,
}


@simulate.command(cls=HelpfulCommand)
@with_options(_AUTOSCALER)
def autoscaler(**arguments: Any) -> int:
    """Replay the decisions of Flink's autoscaler, as recorded and with other settings.

    \b
    Examples:
      flowdiag simulate autoscaler autoscaler-orders.json job.json
      flowdiag simulate autoscaler collected/ --target-utilization 0.6 --catch-up 10m

    The inputs are the autoscaler's ConfigMap (`kubectl get configmap -o json|yaml`), and the response of /jobs/JOB
    for the job graph. The configuration of the job provides its settings; the defaults are the operator's. The output
    shows each rate of the formula, the proposed parallelism, its limits, and why the job is scaled or not.
    """
    from flowdiag.cli.simulations.autoscaler import AutoscalerFlags, run_autoscaler

    as_json = arguments.pop("shape") is Listing.JSON
    paths = tuple(arguments.pop("paths"))
    return run_autoscaler(AutoscalerFlags(**arguments, paths=paths, as_json=as_json))
