"""`flowdiag explain`."""

from __future__ import annotations

from typing import Annotated

from flowdiag.cli.options import shared as o


def explain(
    words: Annotated[
        list[str],
        o.rule_argument(
            "RULE|CAUSE|CODE",
            "Code or name of a rule, a cause, an error code, or a component.",
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

    warn_of_plugins()
    show(explanation(" ".join(words)), output)
    return 0
