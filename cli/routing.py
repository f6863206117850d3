"""`flowdiag PATH…` without a command: look what is there, and run what fits."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Sequence
from typing import Final

# Where the servers listen, unless somebody says otherwise.
_PORTS: Final = {"8081": "flink", "9090": "prometheus", "4040": "spark", "4041": "spark"}
_SERVER: Final = re.compile(r"https?://([^/?#]*?)(?::(\d+))?(/[^?#]*)?(?:[?#].*)?", re.IGNORECASE)
# What a browser shows of their pages, and what they answer to requests; a file's path is none of these.
_PAGES: Final = re.compile(r"/*(?:(?:proxy/[^/]+|history|jobs|api/v1|graph|overview)(?:/.*)?)?/*")

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
    refuse_servers(paths, "checkpoints")
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


def refuse_servers(paths: Sequence[str], command: str) -> None:
    """Tell from a file behind a URL a live server, which is not read but collected from.

    Args:
        paths: as given.
        command: that was called.

    Raises:
        InputError: one is a server's.
    """
    for path in paths:
        kind = server_kind(path, command)
        if kind is None:
            continue
        from flowdiag.parsers.errors import InputError
        from flowdiag.parsers.sources.remote import shown

        begin = " --from 2h" if kind == "prometheus" else ""
        raise InputError(
            f"{shown(path)}: a live server, not a log",
            hint=f"flowdiag collect {kind} {shown(path)}{begin} -o collected/, then"
            f" flowdiag {command} collected/",
        )


def server_kind(path: str, command: str) -> str | None:
    """What `flowdiag collect` would call the server that a URL names; None: it is none.

    >>> server_kind("http://jobmanager:8081", "checkpoints"), server_kind("https://x:4040/jobs/", "rate")
    ('flink', 'spark')
    >>> server_kind("http://prometheus:9090/graph?g0.expr=up", "queues")
    'prometheus'
    >>> server_kind("https://host/logs/jobmanager.log", "checkpoints"), server_kind("logs/", "rate")
    (None, None)
    """
    found = _SERVER.fullmatch(path)
    if found is None or _PAGES.fullmatch(found[3] or "") is None:
        return None
    return _PORTS.get(found[2] or "", "spark" if command == "rate" else "flink")
