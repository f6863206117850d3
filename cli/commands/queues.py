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
        help="Play fewer buffers, debloating, unaligned checkpoints and more subtasks in a model that is"
        " fitted to the job; takes some seconds more.",
        rich_help_panel="Model",
    ),
]


@diagnosing(model={"what_if": (WhatIf, False)})
def queues(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Where does the Flink job's back pressure start, and whose queues are full?

    \b
    Examples:
      flowdiag queues logs/
      flowdiag queues collected/ --since 30m
      flowdiag queues prometheus.json rest/ --job 'orders-*'
      flowdiag queues logs/ --what-if
      flowdiag queues logs/ --format json | jq '.summary.culprits[0]'

    Give it metrics and the job graph: logs with metric reports (Slf4jReporter), files of Prometheus,
    what `flowdiag collect` saved, saved REST answers, archives; logs and configurations add to it.
    """
    from flowdiag.analyses.model.options import QueueOptions

    return {"queues": QueueOptions(what_if=given["what_if"])}
