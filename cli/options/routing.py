"""Inserts the default command `diagnose`, and distinguishes live servers from files behind URLs."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Sequence
from typing import Final

from flowdiag.analyses.topic_names import EVERYTHING

# Default ports.
_PORTS: Final = {"8081": "flink", "9090": "prometheus", "4040": "spark", "4041": "spark"}
_SERVER: Final = re.compile(r"https?://([^/?#]*?)(?::(\d+))?(/[^?#]*)?(?:[?#].*)?", re.IGNORECASE)
# Paths of the servers' pages and REST APIs.
_PAGES: Final = re.compile(
    r"/*(?:(?:proxy/[^/]+|history|jobs|api/v1|graph|overview|streaming|StreamingQuery|stages|executors|query"
    r"|targets)(?:/.*)?)?/*"
)

_FILE: Final = re.compile(r"[*?\[]|\.[A-Za-z0-9]{1,6}$")

KUBERNETES: Final = "k8s://"
"""Prefix of a workload's address: `k8s://NAMESPACE/HANDLE`."""
YARN: Final = "yarn://"
"""Prefix of an application's address: `yarn://APPLICATION_ID`."""
_PLATFORMS: Final = {
    KUBERNETES: ("a workload on Kubernetes", "k8s"),
    YARN: ("an application on YARN", "yarn"),
}

_OPTIONS_ALONE: Final = frozenset({"-h", "--help", "-V", "--version"})


def with_default_command(arguments: Sequence[str], commands: Collection[str]) -> list[str]:
    """Return the command line, with `diagnose` inserted if it names inputs but no command.

    Args:
        arguments: command line without the program name.
        commands: names of all commands.

    >>> with_default_command(["-", "--since", "2h"], {"diagnose", "rate"}), with_default_command(["rate", "-"], {"diagnose", "rate"})
    (['diagnose', '-', '--since', '2h'], ['rate', '-'])
    """
    given = list(arguments)
    return [EVERYTHING, *given] if _without_command(given, commands) else given


def _without_command(given: Sequence[str], commands: Collection[str]) -> bool:
    if not given or given[0] in commands or _OPTIONS_ALONE & set(given):
        return False
    if not given[0].startswith("-") or given[0] == "-":
        return _is_input(given[0])
    return not set(given) & set(commands) and any(map(_is_input, given))


def _is_input(text: str) -> bool:
    return text == "-" or "://" in text or os.path.exists(text)


def refuse_servers(paths: Sequence[str], command: str) -> None:
    """Raise an error for URLs of live servers, which only `diagnose` and `collect` accept.

    Raises:
        InputError: a path is the URL of a server.
    """
    for path in paths:
        for begin, (what, subcommand) in _PLATFORMS.items():
            if path.startswith(begin):
                from flowdiag.parsers.errors import InputError

                raise InputError(
                    f"{path}: {what}, not a log",
                    hint=f"flowdiag diagnose {path}, or flowdiag collect {subcommand}",
                )
        kind = server_kind(path, command)
        if kind is None:
            continue
        from flowdiag.parsers.errors import InputError
        from flowdiag.parsers.sources.remote import without_credentials

        begin = " --from 2h" if kind == "prometheus" else ""
        raise InputError(
            f"{without_credentials(path)}: a live server, not a log",
            hint=f"flowdiag diagnose {without_credentials(path)}, or flowdiag collect {kind} {without_credentials(path)}{begin}"
            f" -o collected/, then flowdiag {command} collected/",
        )


def split_servers(paths: Sequence[str]) -> tuple[list[str], list[str], list[str]]:
    """Split inputs into servers, URLs that may be a server or a file, and all others.

    >>> split_servers(["http://jm:8081/#/overview", "https://host/flink", "https://host/jm.log", "logs/"])
    (['http://jm:8081/#/overview'], ['https://host/flink'], ['https://host/jm.log', 'logs/'])
    >>> split_servers(["k8s://prod/orders"])
    (['k8s://prod/orders'], [], [])
    """
    servers: list[str] = []
    doubtful: list[str] = []
    others: list[str] = []
    for path in paths:
        found = _SERVER.fullmatch(path)
        if path.startswith(tuple(_PLATFORMS)) or (
            found is not None and _PAGES.fullmatch(found[3] or "")
        ):
            servers.append(path)
        elif found is not None and not _FILE.search(found[3] or ""):
            doubtful.append(path)
        else:
            others.append(path)
    return servers, doubtful, others


def server_kind(path: str, command: str) -> str | None:
    """Return the subcommand of `flowdiag collect` for the server behind a URL, or None.

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
