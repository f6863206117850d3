"""`flowdiag collect`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from flowdiag.cli.live.access import ACCESS_OPTIONS, Timeout, access_from, seconds
from flowdiag.cli.options.help import DEBUG, HelpfulCommand, HelpfulGroup
from flowdiag.cli.options.signature import Options, taking
from flowdiag.cli.process import instead

if TYPE_CHECKING:
    from flowdiag.cli.output.console import Progress
    from flowdiag.parsers.live.client import Client
    from flowdiag.parsers.live.folder import Folder
    from flowdiag.parsers.live.watching import Outcome, ShowProgress

collect = typer.Typer(
    name="collect",
    cls=HelpfulGroup,
    rich_markup_mode=None,
    help="""Ask a live cluster, or a Prometheus server, and keep the answers for a diagnosis later and elsewhere.

    \b
    Examples:
      flowdiag collect flink http://jobmanager:8081 -o collected/ --every 15s --for 5m
      flowdiag collect spark http://driver:4040 -o collected/
      flowdiag collect prometheus http://prometheus:9090 --from 2h -o collected/
      flowdiag checkpoints collected/ logs/

    A collection is a folder of JSON files with a manifest. Files appear when they are complete and are
    never changed; Ctrl-C ends a collection early, the same command goes on with it. Passwords, keys and
    tokens in configurations and messages are masked before they reach the disk.
    """,
)

_TIMES = "How often and how long"

Url = Annotated[str, typer.Argument(metavar="URL", help="Where it listens.")]
Out = Annotated[
    str,
    typer.Option(
        "--output", "-o", metavar="DIR", help="Folder to write to: new, empty, or of the same URL."
    ),
]
Every = Annotated[
    str,
    typer.Option(
        "--every", metavar="TIME", help="From tick to tick (default: 15s).", rich_help_panel=_TIMES
    ),
]
For = Annotated[
    str,
    typer.Option(
        "--for",
        metavar="TIME",
        help="From the first tick to the last (default: 5m; 0 for a single one).",
        rich_help_panel=_TIMES,
    ),
]
Step = Annotated[
    str,
    typer.Option(
        "--step",
        metavar="TIME",
        help="From sample to sample: the scrape interval or more (default: 15s).",
        rich_help_panel=_TIMES,
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress, and nothing on stdout.")]
Debug = Annotated[bool, typer.Option("--debug", help=DEBUG)]


_HOW_LONG: Final[Options] = {"every": (Every, "15s"), "duration": (For, "5m")}
_TOLD: Final[Options] = {"quiet": (Quiet, False), "debug": (Debug, False)}
_LIVE: Final[Options] = {**_HOW_LONG, **ACCESS_OPTIONS, "timeout": (Timeout, "10s"), **_TOLD}
_HISTORY: Final[Options] = {**ACCESS_OPTIONS, "timeout": (Timeout, "30s"), **_TOLD}


@collect.command(cls=HelpfulCommand)
@taking(_LIVE)
def flink(
    url: Url,
    output: Out,
    job: Annotated[
        str | None,
        typer.Option(
            "--job",
            metavar="ID",
            help="Id or name of a job, wildcards allowed (default: all that run).",
        ),
    ] = None,
    sample_back_pressure: Annotated[
        bool,
        typer.Option(
            "--sample-back-pressure",
            help="Up to Flink 1.12: make the TaskManagers sample their tasks. From 1.13 on the back"
            " pressure is measured anyway.",
        ),
    ] = False,
    no_thread_dumps: Annotated[
        bool,
        typer.Option(
            "--no-thread-dumps",
            help="Take no thread dump of a suspect TaskManager (1.11 and later).",
        ),
    ] = False,
    **given: Any,
) -> int:
    """Collect from a Flink cluster, 1.9 to 2.3, what checkpoints and queues are judged by.

    \b
    Examples:
      flowdiag collect flink http://jobmanager:8081 -o collected/
      flowdiag collect flink http://jobmanager:8081 -o collected/ --every 15s --for 5m --job 'orders-*'
      flowdiag collect flink https://flink.example/proxy/app-1 -o collected/ --token-file ~/.token
      flowdiag checkpoints collected/

    Graph, placement, checkpoints with per-subtask details, exceptions, configuration, and the metrics of
    every subtask. At most 4 requests are under way at once. A tick takes 7 requests, one per TaskManager
    (20 at most), one per 1.8 KB of metric ids, and one per vertex for each checkpoint that ended since (2
    at most): 17 to 25 for 14 subtasks on three TaskManagers. docs/collect.md says it all.
    """
    every_s, for_s = (
        seconds(given["every"], "--every", least_s=1),
        seconds(given["duration"], "--for"),
    )

    async def work(client: Client, folder: Folder, say: ShowProgress, tool: str) -> Outcome:
        from flowdiag.parsers.live.flink import FlinkOptions, collect_flink

        wishes = FlinkOptions(
            job=job,
            every_s=every_s,
            for_s=for_s,
            sample_back_pressure=sample_back_pressure,
            thread_dumps=not no_thread_dumps,
        )
        return await collect_flink(client, folder, wishes, tool=tool, progress=say)

    return _run("flink", url, output, work, given)


@collect.command(cls=HelpfulCommand)
@taking(_LIVE)
def spark(
    url: Url,
    output: Out,
    application: Annotated[
        str | None,
        typer.Option(
            "--application", metavar="ID", help="Id or name (default: all of the driver)."
        ),
    ] = None,
    **given: Any,
) -> int:
    """Collect from a running Spark driver what the rate of DStreams is judged by, Spark 2.2 to 4.3.

    \b
    Examples:
      flowdiag collect spark http://driver:4040 -o collected/ --for 10m
      flowdiag rate collected/

    Batches, receivers, statistics, executors, and the output operations of failed batches. A tick takes 5
    requests, and one per failed batch (5 at most). A batch is stored once it is known, and again when it
    changes. Structured Streaming has no such answers: give `flowdiag rate` the event log.
    """
    every_s, for_s = (
        seconds(given["every"], "--every", least_s=1),
        seconds(given["duration"], "--for"),
    )

    async def work(client: Client, folder: Folder, say: ShowProgress, tool: str) -> Outcome:
        from flowdiag.parsers.live.spark import SparkOptions, collect_spark

        wishes = SparkOptions(application=application, every_s=every_s, for_s=for_s)
        return await collect_spark(client, folder, wishes, tool=tool, progress=say)

    return _run("spark", url, output, work, given)


@collect.command(cls=HelpfulCommand)
@taking(_HISTORY)
def prometheus(
    url: Url,
    output: Out,
    begin: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="WHEN",
            help="2026-01-31T18:43Z, or 2h before now.",
            rich_help_panel=_TIMES,
        ),
    ],
    end: Annotated[
        str,
        typer.Option(
            "--to", metavar="WHEN", help="The same (default: now).", rich_help_panel=_TIMES
        ),
    ] = "now",
    step: Step = "15s",
    job: Annotated[
        str | None,
        typer.Option("--job", metavar="NAME", help="Of the job, wildcards allowed (default: all)."),
    ] = None,
    selector: Annotated[
        str | None,
        typer.Option(
            "--selector", metavar="LABELS", help="More labels to ask for: 'namespace=\"prod\"'."
        ),
    ] = None,
    **given: Any,
) -> int:
    """Collect what Prometheus kept of Flink's metrics.

    \b
    Examples:
      flowdiag collect prometheus http://prometheus:9090 --from 2h -o collected/
      flowdiag collect prometheus https://thanos.example --from 2026-01-31T18:00Z --to 2026-01-31T20:00Z
        --job 'orders*' -o collected/
      flowdiag checkpoints collected/ jobmanager.log

    One request for the names of the metrics, then one per metric and hour (about 70 an hour), at most 4 at
    once. What is there is not asked for again. Thanos, Mimir and VictoriaMetrics answer the same.
    """
    from_s, to_s = _instant(begin, "--from"), _instant(end, "--to")
    step_s = max(1, round(seconds(step, "--step")))

    async def work(client: Client, folder: Folder, say: ShowProgress, tool: str) -> Outcome:
        from flowdiag.parsers.live.prometheus import HistoryOptions, collect_prometheus

        wishes = HistoryOptions(from_s=from_s, to_s=to_s, step_s=step_s, job=job, selector=selector)
        return await collect_prometheus(client, folder, wishes, tool=tool, progress=say)

    return _run("prometheus", url, output, work, given)


def _instant(text: str, option: str) -> int:
    """Seconds since 1970 of a time, which is UTC where no zone is given, or of so long before now."""
    import time
    from datetime import UTC, datetime

    from flowdiag.analyses.flink.judging import milliseconds
    from flowdiag.parsers.errors import FlowdiagError

    text = text.strip()
    if text == "now":
        return int(time.time())
    try:
        moment = datetime.fromisoformat(text)
        return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp())
    except (ValueError, OverflowError):
        pass
    span = milliseconds(text)
    if span is None or not 0 < span < 1e12:
        raise FlowdiagError(
            f"'{text}' is no time for {option}", hint="write 2026-01-31T18:43Z, or 2h before now"
        )
    return int(time.time() - span / 1000)


def _run(
    kind: str,
    url: str,
    output: str,
    work: Callable[[Client, Folder, ShowProgress, str], Awaitable[Outcome]],
    given: Mapping[str, Any],
) -> int:
    """Run a collection; whatever ends it, the folder is good."""
    import asyncio

    from flowdiag.cli.exit_codes import ExitCode
    from flowdiag.cli.output.console import Progress, print_message
    from flowdiag.parsers.live.client import base_of
    from flowdiag.parsers.live.folder import Folder

    access = access_from(given)
    base = base_of(url)[0]
    folder = Folder(output, kind, base)
    before = folder.tick
    arrived: list[int] = []
    try:
        with Progress(quiet=given["quiet"]) as progress:
            outcome = asyncio.run(_collection(url, access, work, folder, progress, arrived))
    except (KeyboardInterrupt, asyncio.CancelledError):
        kept = folder.tick - before
        print_message(
            "warning",
            f"interrupted: {_snapshots(kept)} in '{output}' stay{'s' * (kept == 1)} valid",
        )
        return 128 + arrived[0] if arrived else ExitCode.INTERRUPTED
    finally:
        folder.close()
    _tell(outcome, base, output)
    if not given["quiet"]:
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
    arrived: list[int],
) -> Outcome:
    """The work, which a signal ends early; `arrived` gets its number."""
    import asyncio

    from flowdiag.analyses.report.version import tool_version
    from flowdiag.parsers.live.client import Client

    task, loop = asyncio.current_task(), asyncio.get_running_loop()
    assert task is not None

    def end(number: int) -> None:
        arrived.append(number)
        loop.call_soon_threadsafe(task.cancel)

    with instead(end):
        async with Client(url, access) as client:
            return await work(client, folder, progress, tool_version())


def _tell(outcome: Outcome, base: str, output: str) -> None:
    from flowdiag.cli.output.console import print_message

    for warning in outcome.warnings[:5]:
        print_message("warning", warning)
    if len(outcome.warnings) > 5:
        print_message(
            "warning", f"{len(outcome.warnings) - 5} more; '{output}/manifest.jsonl' has them all"
        )
    if outcome.broken:
        print_message(
            "warning",
            f"{base}: {outcome.why}; what was collected until then stays valid",
            "the same command goes on where it ended",
        )


def _snapshots(count: int) -> str:
    return f"{count} snapshot{'s' * (count != 1)}"
