"""`flowdiag warm`."""

from __future__ import annotations

from typing import Annotated

import typer


def warm(
    force: Annotated[
        bool, typer.Option("--force", help="Make it anew, even if it is there.")
    ] = False,
    remove: Annotated[bool, typer.Option("--remove", help="Remove every archive.")] = False,
) -> int:
    """Make later runs start faster.

    \b
    Examples:
      flowdiag warm
      flowdiag warm --remove

    Starts Spark once and keeps what Java loaded for it, about 170 MB in the user's cache folder.
    """
    from flowdiag.analyses.say import size
    from flowdiag.cli.console import Progress
    from flowdiag.cli.spark import warm as archive

    if remove:
        typer.echo(f"removed {size(archive.remove())}")
        return 0
    with Progress() as progress:
        progress("making the archive, about half a minute")
        made = archive.warm(force=force)
    state = f"made in {made.seconds:.0f} s" if made.built else "there already"
    typer.echo(f"{made.path} ({size(made.size_bytes)}, {state})")
    return 0
