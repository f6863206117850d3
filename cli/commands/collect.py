"""`flowdiag collect`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from flowdiag.cli.live.access import (
    ACCESS_OPTIONS,
    Dumps,
    SlowTimeout,
    Timeout,
    access_from,
    seconds,
)
from flowdiag.cli.live.kubernetes import KUBERNETES_OPTIONS, LogSize, NoRest, kubernetes_options
from flowdiag.cli.live.yarn import YARN_OPTIONS, yarn_options
from flowdiag.cli.options.help import DEBUG, HelpfulCommand, HelpfulGroup
from flowdiag.cli.options.signature import Options, with_options
from flowdiag.cli.signals import override_signals

if TYPE_CHECKING:
    from flowdiag.cli.output.console import Progress
    from flowdiag.parsers.live.client import Client
    from flowdiag.parsers.live.folder import Folder
    from flowdiag.parsers.live.watching import Outcome, ShowProgress

collect = typer.Typer(
    name="collect",
    cls=HelpfulGroup,
    rich_markup_mode=None,
    help="""Save data from a live cluster or a Prometheus server for a later diagnosis.

    \b
    Examples:
      flowdiag collect flink http://jobmanager:8081 -o collected/
      flowdiag collect prometheus http://prometheus:9090 --from 2h -o collected/
      flowdiag collect k8s -n prod orders -o snapshot/
      flowdiag collect yarn application_1700000000000_0007 -o snapshot/

    A collection is a folder of JSON files with a manifest. Files appear when they are complete and never change
    afterwards. Ctrl-C ends a collection early; run the same command again to continue it. Passwords, keys and tokens are
    masked before they reach the disk.
    """,
)

_timing: Final = partial(typer.Option, rich_help_panel="Timing")

Url = Annotated[str, typer.Argument(metavar="URL", help="Address of the server.")]
Out = Annotated[
    str,
    typer.Option(
        "--output", "-o", metavar="DIR", help="Target folder: new, empty, or from the same URL."
    ),
]
Every = Annotated[
    str, _timing("--every", metavar="TIME", help="Time between snapshots (default: 15s).")
]
For = Annotated[
    str, _timing("--for", metavar="TIME", help="Total time (default: 5m; 0 for a single snapshot).")
]
Step = Annotated[
    str,
    _timing("--step", metavar="TIME", help="Time between samples (default: 15s)."),
]
Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", help="Print no progress, and nothing on stdout.")
]
Debug = Annotated[bool, typer.Option("--debug", help=DEBUG)]

_TIMING: Final[Options] = {"every": (Every, "15s"), "duration": (For, "5m")}
_MESSAGES: Final[Options] = {"quiet": (Quiet, False), "debug": (Debug, False)}
_LIVE: Final[Options] = {**_TIMING, **ACCESS_OPTIONS, "timeout": (Timeout, "10s"), **_MESSAGES}
_KUBERNETES: Final[Options] = {
    **KUBERNETES_OPTIONS,
    "timeout": (SlowTimeout, "30s"),
    **_MESSAGES,
}
_YARN: Final[Options] = {
    **YARN_OPTIONS,
    "log_size": (LogSize, "32m"),
    "no_rest": (NoRest, False),
    **ACCESS_OPTIONS,
    "timeout": (SlowTimeout, "30s"),
    **_MESSAGES,
}
_HISTORY: Final[Options] = {**ACCESS_OPTIONS, "timeout": (SlowTimeout, "30s"), **_MESSAGES}


@collect.command(cls=HelpfulCommand)
@with_options(_LIVE)
def flink(
    url: Url,
    output: Out,
    job: Annotated[
        str | None,
        typer.Option(
            "--job",
            metavar="ID",
            help="Job ID or name, with wildcards (default: all running jobs).",
        ),
    ] = None,
    sample_back_pressure: Annotated[
        bool,
        typer.Option(
            "--sample-back-pressure",
            help="Sample back pressure on Flink up to 1.12 (later versions measure it).",
        ),
    ] = False,
    stacks: Dumps = "auto",
    **arguments: Any,
) -> int:
    """Collect the checkpoints and metrics of a Flink cluster, 1.9 to 2.3.

    \b
    Examples:
      flowdiag collect flink http://jobmanager:8081 -o collected/
      flowdiag collect flink http://jobmanager:8081 -o collected/ --every 15s --for 5m --job 'orders-*'
      flowdiag collect flink https://flink.example/proxy/app-1 -o collected/ --token-file ~/.token
      flowdiag checkpoints collected/

    Collects the job graph, placement, checkpoints with per-subtask details, exceptions, configuration, and the metrics
    of every subtask, with at most 4 requests at a time. A snapshot takes 17 to 25 requests for 14 subtasks on three
    TaskManagers. docs/collect.md lists all requests.
    """
    every_s, for_s = (
        seconds(arguments["every"], "--every", least_s=1),
        seconds(arguments["duration"], "--for"),
    )

    async def work(client: Client, folder: Folder, progress: ShowProgress, tool: str) -> Outcome:
        from flowdiag.parsers.live.flink import FlinkOptions, collect_flink
        from flowdiag.parsers.live.thread_dumps import Stacks

        options = FlinkOptions(
            job=job,
            every_s=every_s,
            for_s=for_s,
            sample_back_pressure=sample_back_pressure,
            stacks=Stacks(stacks),
        )
        return await collect_flink(client, folder, options, tool=tool, progress=progress)

    return _run("flink", url, output, work, arguments)


@collect.command(cls=HelpfulCommand)
@with_options(_LIVE)
def spark(
    url: Url,
    output: Out,
    application: Annotated[
        str | None,
        typer.Option(
            "--application", metavar="ID", help="ID or name (default: all on the driver)."
        ),
    ] = None,
    stacks: Dumps = "auto",
    **arguments: Any,
) -> int:
    """Collect the DStream batches of a running Spark driver, 2.2 to 4.3.

    \b
    Examples:
      flowdiag collect spark http://driver:4040 -o collected/ --for 10m
      flowdiag rate collected/

    Collects batches, receivers, statistics, executors, and the output operations of failed batches. A snapshot takes 5
    requests, plus one per failed batch (at most 5). The triggers of Structured Streaming queries come from the
    Web UI; the event log contains more about them. Thread dumps of the driver and of executors with running tasks
    show the code that makes batches slow. While the driver is starting, flowdiag waits up to 30 seconds for its REST
    API.
    """
    every_s, for_s = (
        seconds(arguments["every"], "--every", least_s=1),
        seconds(arguments["duration"], "--for"),
    )

    async def work(client: Client, folder: Folder, progress: ShowProgress, tool: str) -> Outcome:
        from flowdiag.parsers.live.spark import SparkOptions, collect_spark
        from flowdiag.parsers.live.thread_dumps import Stacks
        from flowdiag.parsers.live.watching import START_S

        options = SparkOptions(
            application=application,
            every_s=every_s,
            for_s=for_s,
            stacks=Stacks(stacks),
            start_s=START_S,
        )
        return await collect_spark(client, folder, options, tool=tool, progress=progress)

    return _run("spark", url, output, work, arguments)


@collect.command(cls=HelpfulCommand)
@with_options(_HISTORY)
def prometheus(
    url: Url,
    output: Out,
    begin: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="WHEN",
            help="Start: 2026-01-31T18:43Z, or 2h for two hours ago.",
            rich_help_panel="Timing",
        ),
    ],
    end: Annotated[
        str,
        typer.Option(
            "--to",
            metavar="WHEN",
            help="End, in the same formats as --from (default: now).",
            rich_help_panel="Timing",
        ),
    ] = "now",
    step: Step = "15s",
    job: Annotated[
        str | None,
        typer.Option(
            "--job", metavar="NAME", help="Name of the job, with wildcards (default: all)."
        ),
    ] = None,
    selector: Annotated[
        str | None,
        typer.Option(
            "--selector", metavar="LABELS", help="Additional label matchers: 'namespace=\"prod\"'."
        ),
    ] = None,
    **arguments: Any,
) -> int:
    """Collect the history of Flink's metrics from Prometheus.

    \b
    Examples:
      flowdiag collect prometheus http://prometheus:9090 --from 2h -o collected/
      flowdiag collect prometheus https://thanos.example --from 2026-01-31T18:00Z --to 2026-01-31T20:00Z
        --job 'orders*' -o collected/
      flowdiag checkpoints collected/ jobmanager.log

    Sends one request for the names of the metrics, and one per metric and hour (about 70 per hour), at most 4 at a
    time. Data that the folder already contains is not requested again. Thanos, Mimir and VictoriaMetrics also work.
    """
    from_s, to_s = _instant(begin, "--from"), _instant(end, "--to")
    step_s = max(1, round(seconds(step, "--step")))

    async def work(client: Client, folder: Folder, progress: ShowProgress, tool: str) -> Outcome:
        from flowdiag.parsers.live.prometheus import HistoryOptions, collect_prometheus

        options = HistoryOptions(
            from_s=from_s, to_s=to_s, step_s=step_s, job=job, selector=selector
        )
        return await collect_prometheus(client, folder, options, tool=tool, progress=progress)

    return _run("prometheus", url, output, work, arguments)


@collect.command(cls=HelpfulCommand)
@with_options(_KUBERNETES)
def k8s(
    handle: Annotated[
        str | None,
        typer.Argument(
            metavar="[HANDLE]",
            help="Name or KIND/NAME (default: all Flink and Spark pods).",
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", metavar="DIR", help="Target folder: new or empty."),
    ] = None,
    print_rbac: Annotated[
        bool,
        typer.Option("--print-rbac", help="Print the minimal role as YAML; send no request."),
    ] = False,
    **arguments: Any,
) -> int:
    """Collect the logs, states and events of a workload on Kubernetes.

    \b
    Examples:
      flowdiag collect k8s -n prod orders -o snapshot/
      flowdiag collect k8s -n prod sparkapplication/billing -o snapshot/ --since 6h
      flowdiag collect k8s -n prod -l app=orders -o snapshot/
      flowdiag collect k8s -n prod --print-rbac | kubectl apply -f -
      flowdiag diagnose snapshot/

    HANDLE names a FlinkDeployment, FlinkSessionJob, SparkApplication, Deployment, StatefulSet, Job or pod. Collects
    pods, events, custom resources, configuration, logs of all containers, also from before their last restart, and
    REST responses through the API server. Only reads, and never requests Secrets. docs/kubernetes.md lists all
    requests.
    """
    from flowdiag.parsers.errors import FlowdiagError

    if print_rbac:
        from flowdiag.parsers.live.k8s.permissions import role_yaml

        typer.echo(role_yaml(arguments["namespace"] or "default"), nl=False)
        return 0
    if output is None:
        raise FlowdiagError("the target folder is missing", hint="add -o snapshot/")
    if handle is not None and arguments["selector"] is not None:
        raise FlowdiagError("HANDLE and -l cannot be combined", hint="pass one of them")
    return _collect_kubernetes(handle, output, arguments)


def _collect_kubernetes(handle: str | None, output: str, arguments: Mapping[str, Any]) -> int:
    from pathlib import Path
    from threading import Event

    from flowdiag.analyses.report.version import tool_version
    from flowdiag.cli.exit_codes import ExitCode
    from flowdiag.cli.output.console import Progress
    from flowdiag.parsers.live.k8s.collector import collect_kubernetes

    options = kubernetes_options(handle, arguments)
    signals: list[int] = []
    stop = Event()

    def end(number: int) -> None:
        signals.append(number)
        stop.set()

    with Progress(quiet=arguments["quiet"]) as progress, override_signals(end):
        outcome = collect_kubernetes(
            Path(output), options, tool=tool_version(), progress=progress, stop=stop
        )
    _show_files(outcome, "Kubernetes", output, quiet=arguments["quiet"])
    return 128 + signals[0] if signals else ExitCode.CLEAR


def _show_files(outcome: Outcome, source: str, output: str, *, quiet: bool) -> None:
    from flowdiag.analyses.model.fmt import size

    _warn(outcome, source, output)
    if not quiet:
        files = f"{outcome.ticks} file{'s' * (outcome.ticks != 1)}"
        typer.echo(
            f"{files} in {output} ({outcome.requests} requests, {size(outcome.bytes)} received);"
            f" {outcome.why}"
        )


@collect.command(cls=HelpfulCommand)
@with_options(_YARN)
def yarn(
    application: Annotated[
        str,
        typer.Argument(metavar="APPLICATION_ID", help="ID of a running or finished application."),
    ],
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="DIR", help="Target folder: new or empty.")
    ],
    **arguments: Any,
) -> int:
    """Collect the logs, states and exit statuses of an application on YARN.

    \b
    Examples:
      flowdiag collect yarn application_1700000000000_0007 -o snapshot/
      flowdiag collect yarn application_1700000000000_0007 --resourcemanager http://rm:8088 -o snapshot/
      flowdiag diagnose snapshot/

    Collects the state, diagnostics and attempts of the application, its containers with their exit statuses and logs,
    its queue and nodes, and the REST API of the JobManager or driver. Only reads. Logs of ended containers come from
    the timeline server or the JobHistory server. Without them, pass the folder of the aggregated logs to `flowdiag
    diagnose`. docs/yarn.md lists all requests.
    """
    import asyncio
    from pathlib import Path

    from flowdiag.analyses.report.version import tool_version
    from flowdiag.cli.exit_codes import ExitCode
    from flowdiag.cli.output.console import Progress, print_message
    from flowdiag.parsers.live.yarn.collector import collect_yarn

    options = yarn_options(application, arguments, access_from(arguments))
    signals: list[int] = []

    async def work() -> Outcome:
        task, loop = asyncio.current_task(), asyncio.get_running_loop()
        assert task is not None

        def end(number: int) -> None:
            signals.append(number)
            loop.call_soon_threadsafe(task.cancel)

        with override_signals(end):
            return await collect_yarn(Path(output), options, tool=tool_version(), progress=progress)

    try:
        with Progress(quiet=arguments["quiet"]) as progress:
            outcome = asyncio.run(work())
    except (KeyboardInterrupt, asyncio.CancelledError):
        print_message("warning", f"interrupted; the files in '{output}' are complete")
        return 128 + signals[0] if signals else ExitCode.INTERRUPTED
    _show_files(outcome, options.manager, output, quiet=arguments["quiet"])
    return ExitCode.CLEAR


def _instant(text: str, option: str) -> int:
    """Parse an ISO time (UTC without a zone), a duration before now, or `now`, as seconds since the epoch."""
    import time
    from datetime import UTC, datetime

    from flowdiag.parsers.errors import FlowdiagError
    from flowdiag.parsers.units import duration_ms

    text = text.strip()
    if text == "now":
        return int(time.time())
    try:
        moment = datetime.fromisoformat(text)
        return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp())
    except (ValueError, OverflowError):
        pass
    span = duration_ms(text)
    if span is None or not 0 < span < 1e12:
        raise FlowdiagError(
            f"'{text}' is not a valid time for {option}",
            hint="write 2026-01-31T18:43Z, or 2h before now",
        )
    return int(time.time() - span / 1000)


def _run(
    kind: str,
    url: str,
    output: str,
    work: Callable[[Client, Folder, ShowProgress, str], Awaitable[Outcome]],
    arguments: Mapping[str, Any],
) -> int:
    """Run a collection; the folder stays valid however the collection ends."""
    import asyncio

    from flowdiag.cli.exit_codes import ExitCode
    from flowdiag.cli.output.console import Progress, print_message
    from flowdiag.parsers.live.client import base_of
    from flowdiag.parsers.live.folder import Folder

    access = access_from(arguments)
    base = base_of(url)[0]
    folder = Folder(output, kind, base)
    before = folder.tick
    signals: list[int] = []
    try:
        with Progress(quiet=arguments["quiet"]) as progress:
            outcome = asyncio.run(_collection(url, access, work, folder, progress, signals))
    except (KeyboardInterrupt, asyncio.CancelledError):
        kept = folder.tick - before
        print_message(
            "warning",
            f"interrupted; '{output}' contains {_snapshots(kept)} of this run",
        )
        return 128 + signals[0] if signals else ExitCode.INTERRUPTED
    finally:
        folder.close()
    _warn(outcome, base, output)
    if not arguments["quiet"]:
        from flowdiag.analyses.model.fmt import size

        typer.echo(
            f"{_snapshots(outcome.ticks)} in {output} ({outcome.requests} requests,"
            f" {size(outcome.bytes)} received); {outcome.why}"
        )
    return ExitCode.CLEAR


async def _collection(
    url: str,
    access: Any,
    work: Callable[[Client, Folder, ShowProgress, str], Awaitable[Outcome]],
    folder: Folder,
    progress: Progress,
    signals: list[int],
) -> Outcome:
    """Collect until done or until a signal arrives. The number of that signal is appended to `signals`."""
    import asyncio

    from flowdiag.analyses.report.version import tool_version
    from flowdiag.parsers.live.client import Client

    task, loop = asyncio.current_task(), asyncio.get_running_loop()
    assert task is not None

    def end(number: int) -> None:
        signals.append(number)
        loop.call_soon_threadsafe(task.cancel)

    with override_signals(end):
        async with Client(url, access) as client:
            return await work(client, folder, progress, tool_version())


def _warn(outcome: Outcome, base: str, output: str) -> None:
    from flowdiag.cli.output.console import print_message

    for warning in outcome.warnings[:5]:
        print_message("warning", warning)
    if len(outcome.warnings) > 5:
        print_message("warning", f"{len(outcome.warnings) - 5} more in '{output}/manifest.jsonl'")
    if outcome.broken:
        print_message(
            "warning",
            f"{base}: {outcome.why}; the data collected so far is valid",
            "run the same command again to continue" if outcome.resumable else None,
        )


def _snapshots(count: int) -> str:
    return f"{count} snapshot{'s' * (count != 1)}"
