"""`flowdiag explain`."""

from __future__ import annotations

from typing import Annotated

import typer


def explain(
    rule: Annotated[str, typer.Argument(metavar="RULE", help="Its code or its name.")],
) -> int:
    """Explain a rule: what it means, how it decides, what to do.

    \b
    Examples:
      flowdiag explain CP101
      flowdiag explain checkpoint-expired
    """
    from flowdiag.cli.manual import find_rule, rule_page, show

    show(rule_page(find_rule(rule)))
    return 0
