"""`flowdiag next`."""

from __future__ import annotations

from typing import Annotated, Any, Final

import typer

from flowdiag.cli.options import shared as o
from flowdiag.cli.options.signature import Options, with_options
from flowdiag.cli.settings import Listing

_OPTIONS: Final[Options] = {
    "tz": (o.Tz, None),
    "strict_inputs": (o.StrictInputs, None),
    "since": (o.Since, None),
    "until": (o.Until, None),
    "job": (o.Job, None),
    "format": (o.ListingFormat, Listing.TABLE),
    "output": (o.TextOutput, None),
    "redact": (o.Redact, None),
    "config": (o.Config, None),
    "quiet": (o.Quiet, None),
    "debug": (o.Debug, None),
    "master": (o.Master, None),
    "java_heap": (o.JavaHeap, None),
}


@with_options(_OPTIONS)
def next_evidence(
    paths: Annotated[
        list[str],
        typer.Argument(metavar="REPORT|PATH...", help="A report in JSON or HTML, or inputs."),
    ],
    **arguments: Any,
) -> int:
    """List the evidence to collect next, how to get it, and which result points to which cause.

    \b
    Examples:
      flowdiag next report.json
      flowdiag next logs/
      flowdiag next report.json --format json | jq -r '.[0].command'

    Lists the files, REST responses, commands and thread dumps that would confirm or rule out the remaining causes, the
    cheapest first. Omits evidence that the inputs already contain. If the cause is certain, the list is
    empty. See docs/next.md.

    Inputs are diagnosed first, as by `diagnose`. The exit code is 0 for any verdict.
    """
    from flowdiag.cli.suggesting import run

    return run(paths, arguments)
