"""`flowdiag diagnose`."""

from __future__ import annotations

from collections.abc import Mapping
from inspect import Parameter
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from flowdiag.cli.diagnosing import Own, diagnosing
from flowdiag.cli.live.access import ACCESS_OPTIONS, Timeout

if TYPE_CHECKING:
    from flowdiag.cli.diagnosing import Run
    from flowdiag.cli.options.settings import Settings

_LIVE: Final = "Live systems"

Paths = Annotated[
    list[str],
    typer.Argument(
        metavar="PATH|URL...",
        help="Files, directories, globs, or - for standard input; gz, bz2, xz, zst, lz4, zip"
        " and tar are read as they are. Or the URL of a JobManager, a Spark driver, a History Server, a"
        " Prometheus.",
    ),
]
For = Annotated[
    str | None,
    typer.Option(
        "--for",
        metavar="TIME",
        help="How long a live system is watched before it is diagnosed (default: 60s, which is five"
        " samples of its queues; 0 for a single look).",
        rich_help_panel=_LIVE,
    ),
]
Keep = Annotated[
    str | None,
    typer.Option(
        "--keep",
        metavar="DIR",
        help="Keep what was answered, to be diagnosed again: DIR/SERVER/TIME/.",
        rich_help_panel=_LIVE,
    ),
]
Every = Annotated[
    str | None,
    typer.Option(
        "--every",
        metavar="TIME",
        help="Go on until Ctrl-C: diagnose so often, each time what the last three rounds collected (or"
        " --since), and print what changed. With --format json a line of JSON for each round.",
        rich_help_panel=_LIVE,
    ),
]
Times = Annotated[
    int | None,
    typer.Option("--times", metavar="N", min=1, help="End after N rounds.", rich_help_panel=_LIVE),
]
Exec = Annotated[
    str | None,
    typer.Option(
        "--exec",
        metavar="COMMAND",
        help="Run this when something changed: the report as JSON on its standard input,"
        " FLOWDIAG_VERDICT, FLOWDIAG_NEW, FLOWDIAG_GONE and the like in its environment.",
        rich_help_panel=_LIVE,
    ),
]

_OWN: Final[Own] = {
    "duration": (For, None),
    "keep": (Keep, None),
    "every": (Every, None),
    "times": (Times, None),
    "command": (Exec, None),
    **ACCESS_OPTIONS,
    "timeout": (Timeout, "10s"),
}


def _live(given: Mapping[str, Any], settings: Settings) -> Run | None:
    from flowdiag.cli.live.rounds import plan_from

    return plan_from(given["paths"] or [], given, settings)


@diagnosing(inputs=_OWN, paths=(Paths, Parameter.empty), otherwise=_live)
def diagnose(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """What is wrong here, and who is it? All questions at once, Flink and Spark.

    \b
    Examples:
      flowdiag diagnose logs/
      flowdiag diagnose logs/ metrics/ flink-conf.yaml --since 2h
      kubectl logs my-jobmanager | flowdiag diagnose -
      flowdiag diagnose logs/ --format brief
      flowdiag diagnose incident.tar.zst --format json | jq '.summary.stories[0]'
      flowdiag diagnose http://jobmanager:8081 --for 60s
      flowdiag diagnose http://jobmanager:8081 http://prometheus:9090 logs/ --keep answers/
      flowdiag diagnose http://jobmanager:8081 --every 5m --exec ./notify.sh

    Give it whatever there is. It reads everything once, lets every rule judge it, and tells what belongs together as
    one story: the culprit first, and what followed from it. The other commands ask one question each, and show the
    tables behind it.

    A live system is asked as `flowdiag collect` does, with GET only, and gently. docs/live.md says what that costs.
    """
    return {}
