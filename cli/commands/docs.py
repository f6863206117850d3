"""`flowdiag docs`."""

from __future__ import annotations

import sys
from typing import Annotated, Final

from flowdiag.cli.options import shared as o

_WIDTH: Final = 100  # columns; longer lines are hard to read


def docs(
    word: Annotated[str, o.rule_argument("RULE|CAUSE", "Code or name of a rule, or a cause.")],
    output: o.TextOutput = None,
) -> int:
    """Show the documentation page of a rule or cause, offline.

    \b
    Examples:
      flowdiag docs CP101
      flowdiag docs data-skew
      flowdiag docs data-skew -o data-skew.md

    A terminal shows formatted text. Pipes and files get Markdown. `flowdiag explain` begins with what to do,
    and also explains error codes and components.
    """
    from flowdiag.cli.output.console import is_terminal, write_report
    from flowdiag.cli.reference.manual import markdown_page, warn_of_plugins

    warn_of_plugins()
    page = markdown_page(word)
    if output in (None, "-") and is_terminal(sys.stdout):
        page = _format(page)
    write_report(page, output)
    return 0


def _format(page: str) -> str:
    """Render Markdown as formatted text."""
    from rich.console import Console
    from rich.markdown import Markdown

    from flowdiag.cli.output.console import terminal_width, use_color

    width = min(terminal_width(sys.stdout), _WIDTH)
    console = Console(force_terminal=True, no_color=not use_color(sys.stdout), width=width)
    with console.capture() as captured:
        console.print(Markdown(page))
    return captured.get()
