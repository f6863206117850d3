"""`flowdiag warm`."""

from __future__ import annotations

from typing import Annotated

import typer


def warm(
    force: Annotated[
        bool, typer.Option("--force", help="Make it anew, even if it is there.")
    ] = False,
    remove: Annotated[bool, typer.Option("--remove", help="Remove every archive.")] = False,
    stay: Annotated[
        str | None,
        typer.Option(
            "--stay",
            metavar="TIME",
            help="Start Java now, and leave it running for so long after its last use: 15m, 1h. It takes"
            " memory, see --status.",
        ),
    ] = None,
    status: Annotated[
        bool, typer.Option("--status", help="Say what is there and what it costs.")
    ] = False,
    stop: Annotated[bool, typer.Option("--stop", help="End the Java that stays.")] = False,
) -> int:
    """Make later runs start faster.

    \b
    Examples:
      flowdiag warm
      flowdiag warm --stay 15m
      flowdiag warm --status
      flowdiag warm --stop
      flowdiag warm --remove

    Without options: starts Spark once and keeps what Java loaded for it, about 170 MB in the user's
    cache folder. With --stay: leaves Java itself behind, and the commands that follow join it.
    """
    from flowdiag.analyses.say import size
    from flowdiag.cli.console import Progress
    from flowdiag.cli.spark import staying
    from flowdiag.cli.spark import warm as archive
    from flowdiag.parsers.errors import FlowdiagError

    asked = {"--force": force, "--remove": remove, "--stay": stay is not None}
    asked |= {"--status": status, "--stop": stop}
    given = [name for name, wanted in asked.items() if wanted]
    if len(given) > 1:
        raise FlowdiagError(f"{given[0]} and {given[1]} do not go together")
    if stay is not None:
        with Progress() as progress:
            progress("starting Java, and warming it up")
            told = staying.stay(stay)
        typer.echo(told)
        return 0
    if status or stop:
        typer.echo(staying.stopped() if stop else "\n".join(staying.status()))
        return 0
    if remove:
        typer.echo(f"removed {size(archive.remove())}")
        return 0
    with Progress() as progress:
        progress("making the archive, about half a minute")
        made = archive.warm(force=force)
    state = f"made in {made.seconds:.0f} s" if made.built else "there already"
    typer.echo(f"{made.path} ({size(made.size_bytes)}, {state})")
    return 0
