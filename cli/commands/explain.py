"""`flowdiag explain`."""

from __future__ import annotations

from typing import Annotated

import typer

from flowdiag.cli.options import shared as o
from flowdiag.cli.options.completion import complete_rule


def explain(
    rule: Annotated[
        str,
        typer.Argument(
            metavar="RULE|CAUSE",
            help="Code or name of a rule, or a cause.",
            autocompletion=complete_rule,
        ),
    ],
    output: o.TextOutput = None,
) -> int:
    """Explain a rule or a cause: what it means, what to do, how it decides.

    \b
    Examples:
      flowdiag explain CP101
      flowdiag explain checkpoint-expired
      flowdiag explain data-skew

    The first lines are those to act on. The details follow.
    """
    from flowdiag.cli.docs.manual import explanation, show, warn_of_plugins

    warn_of_plugins()  # first: a rejected plug-in may be the reason why the rule is unknown
    show(explanation(rule), output)
    return 0
