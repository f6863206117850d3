"""`flowdiag warm`."""

from __future__ import annotations

from typing import Annotated

import typer

from flowdiag.parsers.errors import FlowdiagError


def warm(
    force: Annotated[bool, typer.Option("--force", help="Recreate an existing cache.")] = False,
    remove: Annotated[bool, typer.Option("--remove", help="Remove the cache.")] = False,
    stay: Annotated[
        str | None,
        typer.Option(
            "--stay",
            metavar="TIME",
            help="Start Java and keep it running this long after its last use: 15m, 1h.",
        ),
    ] = None,
    status: Annotated[bool, typer.Option("--status", help="Show the cache and its size.")] = False,
    stop: Annotated[bool, typer.Option("--stop", help="Stop the Java process of --stay.")] = False,
) -> int:
    """Make later runs start faster.

    \b
    Examples:
      flowdiag warm
      flowdiag warm --stay 15m
      flowdiag warm --status
      flowdiag warm --stop
      flowdiag warm --remove

    Without options: starts Spark once and caches the classes that Java loads, about 170 MB in the user's cache
    folder. With --stay: keeps Java running, and later commands join it.
    """
    options = {"--force": force, "--remove": remove, "--stay": stay is not None}
    options |= {"--status": status, "--stop": stop}
    given = [name for name, is_set in options.items() if is_set]
    if len(given) > 1:
        raise FlowdiagError(f"{given[0]} and {given[1]} cannot be combined")
    typer.echo(_run(force=force, remove=remove, stay=stay, status=status, stop=stop))
    return 0


def _run(*, force: bool, remove: bool, stay: str | None, status: bool, stop: bool) -> str:
    """Perform one action, and return the message about its result."""
    from flowdiag.analyses.model.fmt import size
    from flowdiag.cli.output.console import Progress
    from flowdiag.cli.spark import keep_running
    from flowdiag.cli.spark import warm as archive

    if status:
        return "\n".join(keep_running.status_lines())
    if stop:
        return keep_running.stop_all()
    if remove:
        return f"removed {size(archive.remove_archives())}"
    with Progress() as progress:
        if stay is not None:
            progress("starting Java")
            return keep_running.keep_running(stay)
        progress("creating the cache, about half a minute")
        made = archive.warm(force=force)
    state = f"created in {made.seconds:.0f} s" if made.created else "up to date"
    return f"{made.path} ({size(made.size_bytes)}, {state})"
