"""`flowdiag diagnose`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from inspect import Parameter
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from flowdiag.cli.diagnosing import Own, diagnosing
from flowdiag.cli.live.access import ACCESS_OPTIONS, Dumps, Timeout

if TYPE_CHECKING:
    from flowdiag.cli.diagnosing import Run
    from flowdiag.cli.settings import Settings

_live_option: Final = partial(typer.Option, rich_help_panel="Live systems")

Paths = Annotated[
    list[str],
    typer.Argument(
        metavar="PATH|URL...",
        help="Files, folders, globs, archives, - for standard input, or URLs.",
    ),
]
For = Annotated[
    str | None,
    _live_option(
        "--for", metavar="TIME", help="How long to watch; 0 for a single sample (default: 60s)."
    ),
]
Keep = Annotated[
    str | None,
    _live_option("--keep", metavar="DIR", help="Keep the responses in DIR/SERVER/TIME/."),
]
Every = Annotated[
    str | None,
    _live_option(
        "--every",
        metavar="TIME",
        help="Repeat at this interval until Ctrl-C, and print only changes.",
    ),
]
Times = Annotated[
    int | None, _live_option("--times", metavar="N", min=1, help="Stop after N rounds.")
]
Exec = Annotated[
    str | None,
    _live_option(
        "--exec",
        metavar="COMMAND",
        help="Run this command after changes, with the report on stdin.",
    ),
]

_OWN: Final[Own] = {
    "duration": (For, None),
    "keep": (Keep, None),
    "every": (Every, None),
    "times": (Times, None),
    "command": (Exec, None),
    "stacks": (Dumps, "auto"),
    **ACCESS_OPTIONS,
    "timeout": (Timeout, "10s"),
}


def _plan_if_live(arguments: Mapping[str, Any], settings: Settings) -> Run | None:
    from flowdiag.cli.live.rounds import plan_from

    return plan_from(arguments["paths"] or [], arguments, settings)


@diagnosing(inputs=_OWN, paths=(Paths, Parameter.empty), otherwise=_plan_if_live)
def diagnose(arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    """Find out what is wrong with a Flink or Spark job, and what causes it.

    \b
    Examples:
      flowdiag diagnose logs/
      flowdiag diagnose logs/ metrics/ flink-conf.yaml --since 2h
      kubectl logs my-jobmanager | flowdiag diagnose -
      flowdiag diagnose http://jobmanager:8081 http://prometheus:9090 logs/ --keep answers/
      flowdiag diagnose k8s://prod/orders

    Pass whatever you have: files, or URLs of a JobManager, Spark driver, History Server or Prometheus,
    k8s://NAMESPACE/NAME or yarn://APPLICATION_ID (docs/live.md). flowdiag sends only GET requests.
    """
    return {}
