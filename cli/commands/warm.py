"""`flowdiag warm`."""

from __future__ import annotations

from typing import Annotated

import typer

from flowdiag.parsers.errors import FlowdiagError


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
    asked = {"--force": force, "--remove": remove, "--stay": stay is not None}
    asked |= {"--status": status, "--stop": stop}
    given = [name for name, wanted in asked.items() if wanted]
    if len(given) > 1:
        raise FlowdiagError(f"{given[0]} and {given[1]} do not go together")
    typer.echo(_done(force=force, remove=remove, stay=stay, status=status, stop=stop))
    return 0


def _done(*, force: bool, remove: bool, stay: str | None, status: bool, stop: bool) -> str:
    """Do it, and say so."""
    from flowdiag.analyses.model.fmt import size
    from flowdiag.cli.output.console import Progress
    from flowdiag.cli.spark import staying
    from flowdiag.cli.spark import warm as archive

    if status:
        return "\n".join(staying.status())
    if stop:
        return staying.stopped()
    if remove:
        return f"removed {size(archive.remove())}"
    with Progress() as progress:
        if stay is not None:
            progress("starting Java, and warming it up")
            return staying.stay(stay)
        progress("making the archive, about half a minute")
        made = archive.warm(force=force)
    state = f"made in {made.seconds:.0f} s" if made.built else "there already"
    return f"{made.path} ({size(made.size_bytes)}, {state})"
