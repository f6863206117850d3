"""`flowdiag rules`."""

from __future__ import annotations

from typing import Annotated

import typer

from flowdiag.cli.options import shared as o
from flowdiag.cli.options.settings import Listing


def rules(
    format: Annotated[
        Listing,
        typer.Option(
            "--format",
            "-f",
            metavar="FORMAT",
            help="table, json (default: table).",
            rich_help_panel="Output",
        ),
    ] = Listing.TABLE,
    output: o.TextOutput = None,
) -> int:
    """List every rule.

    \b
    Examples:
      flowdiag rules
      flowdiag rules --format json | jq '.[] | select(.core) | .code'
      flowdiag explain CP101

    JSON also contains each rule's command, thresholds, votes, causes and page.
    """
    from flowdiag.cli.docs.manual import list_of_rules, rules_as_json, show, warn_of_plugins

    show(rules_as_json() if format is Listing.JSON else list_of_rules(), output)
    warn_of_plugins()
    return 0
