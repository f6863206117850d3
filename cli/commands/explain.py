"""`flowdiag explain`."""

from __future__ import annotations

from typing import Annotated

import typer

from flowdiag.cli.options import shared as o
from flowdiag.cli.options.completion import complete_rule


def explain(
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="RULE|CAUSE|CODE",
            help="Code or name of a rule, a cause, a code in an error message, or a component.",
            autocompletion=complete_rule,
        ),
    ],
    output: o.TextOutput = None,
) -> int:
    """Explain a rule, a cause or an error code: what it means, and what to do.

    \b
    Examples:
      flowdiag explain CP101
      flowdiag explain checkpoint-expired
      flowdiag explain data-skew
      flowdiag explain ORA-01555
      flowdiag explain exit 239

    The output begins with what to do. The details follow.
    """
    from flowdiag.cli.reference.manual import explanation, show, warn_of_plugins

    warn_of_plugins()  # first: a rejected plug-in may be the reason why the rule is unknown
    show(explanation(" ".join(words)), output)
    return 0
