"""`flowdiag queues`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from flowdiag.cli.diagnosing import diagnosing

WhatIf = Annotated[
    bool,
    typer.Option(
        "--what-if",
        help="Simulate the usual remedies on a fitted model (takes a few seconds).",
        rich_help_panel="Model",
    ),
]


@diagnosing(model={"what_if": (WhatIf, False)})
def queues(arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    """Find out where back pressure starts in a Flink job, and which input queues are full.

    \b
    Examples:
      flowdiag queues logs/
      flowdiag queues collected/ --since 30m
      flowdiag queues prometheus.json rest/ --job 'orders-*'
      flowdiag queues logs/ --what-if
      flowdiag queues logs/ --format json | jq '.summary.culprits[0]'

    Pass metrics and the job graph: logs with metric reports (Slf4jReporter), Prometheus files, folders of
    `flowdiag collect`, saved REST responses, archives. Other logs and configurations add details.
    """
    from flowdiag.analyses.selection.options import QueueOptions

    return {"queues": QueueOptions(what_if=arguments["what_if"])}
