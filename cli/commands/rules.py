"""`flowdiag rules`."""

from __future__ import annotations

from typing import Annotated

import typer

from flowdiag.cli.options import shared as o
from flowdiag.cli.settings import Listing


def rules(
    about: Annotated[
        list[str] | None,
        typer.Argument(metavar="[WORD]...", help="Codes, prefixes, names, causes or commands."),
    ] = None,
    format: o.ListingFormat = Listing.TABLE,
    output: o.TextOutput = None,
) -> int:
    """List all rules by command and highest severity, or the rules about a cause.

    \b
    Examples:
      flowdiag rules
      flowdiag rules data-skew
      flowdiag rules startup
      flowdiag rules --format json | jq '.[] | select(.core) | .code'
      flowdiag explain CP101

    The JSON output also contains each rule's command, highest severity, thresholds, votes, causes and page.
    """
    from flowdiag.cli.reference.manual import (
        list_of_rules,
        rules_about,
        rules_as_json,
        show,
        warn_of_plugins,
    )

    listed = rules_about(about or ())
    show(rules_as_json(listed) if format is Listing.JSON else list_of_rules(listed), output)
    warn_of_plugins()
    return 0
