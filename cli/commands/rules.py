"""`flowdiag rules`."""

from __future__ import annotations


def rules() -> int:
    """List every rule.

    \b
    Examples:
      flowdiag rules
      flowdiag explain CP101
    """
    from flowdiag.cli.manual import list_of_rules, show

    show(list_of_rules())
    return 0
