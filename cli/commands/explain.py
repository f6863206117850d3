"""`flowdiag explain`."""

from __future__ import annotations

from typing import Annotated

import typer

from flowdiag.cli.options import shared as o
from flowdiag.cli.options.completion import complete_rule


def explain(
    rule: Annotated[
        str,
        typer.Argument(metavar="RULE", help="Code or name.", autocompletion=complete_rule),
    ],
    output: o.TextOutput = None,
) -> int:
    """Explain a rule: what it means, how it decides, what to do.

    \b
    Examples:
      flowdiag explain CP101
      flowdiag explain checkpoint-expired
    """
    from flowdiag.cli.docs.manual import find_rule, rule_page, show, warn_of_plugins

    warn_of_plugins()  # first: a rejected plug-in may be the reason why the rule is unknown
    show(rule_page(find_rule(rule)), output)
    return 0
