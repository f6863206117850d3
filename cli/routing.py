"""`flowdiag PATH…` without a command: look what is there, and run what fits."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from typing import Final

_OPTIONS_ALONE: Final = frozenset({"-h", "--help", "-V", "--version"})


def routed(arguments: Sequence[str], commands: Collection[str]) -> list[str]:
    """The command line with the command that fits its inputs, where it names none.

    Args:
        arguments: without the program's name.
        commands: names of all commands.

    Raises:
        FlowdiagError: nothing in the inputs tells which command fits.
    """
    given = list(arguments)
    if not _without_command(given, commands):
        return given
    paths = [each for each in given if _is_input(each)]
    from flowdiag.analyses.report.fitting import fits
    from flowdiag.cli.console import say
    from flowdiag.parsers.errors import FlowdiagError
    from flowdiag.parsers.sources.discover import discover

    if "-" in paths:
        raise FlowdiagError(
            "standard input is read once, and no command is named",
            hint="flowdiag checkpoints -, or save it to a file and give that",
        )
    ranked = fits(discover(paths).sources)
    if not ranked:
        raise FlowdiagError(
            "nothing in the inputs tells which command fits",
            hint="flowdiag checkpoints, startup, queues, memory or rate",
        )
    chosen = ranked[0].topic
    others = [fit.topic for fit in ranked[1:] if fit.score * 10 >= ranked[0].score][:1]
    more = "".join(f"; flowdiag {topic} fits too" for topic in others)
    if not {"-q", "--quiet"} & set(given):
        say("note", f"no command given: running flowdiag {chosen}{more}")
    return [chosen, *given]


def _without_command(given: Sequence[str], commands: Collection[str]) -> bool:
    if not given or given[0] in commands or _OPTIONS_ALONE & set(given):
        return False
    if not given[0].startswith("-") or given[0] == "-":
        return _is_input(given[0])
    return not set(given) & set(commands) and any(map(_is_input, given))


def _is_input(text: str) -> bool:
    return text == "-" or "://" in text or os.path.exists(text)
