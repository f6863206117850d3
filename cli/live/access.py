"""How live servers are reached: options that `collect` and `diagnose` share, and what they mean."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from flowdiag.cli.options.signature import Options

if TYPE_CHECKING:
    from flowdiag.parsers.live.client import Access

_ACCESS: Final = "Access"

TokenFile = Annotated[
    str | None,
    typer.Option(
        "--token-file",
        metavar="FILE",
        help="A bearer token (or FLOWDIAG_COLLECT_TOKEN).",
        rich_help_panel=_ACCESS,
    ),
]
PasswordFile = Annotated[
    str | None,
    typer.Option(
        "--password-file",
        metavar="FILE",
        help="user:password for basic authentication (or FLOWDIAG_COLLECT_USER and"
        " FLOWDIAG_COLLECT_PASSWORD).",
        rich_help_panel=_ACCESS,
    ),
]
CaFile = Annotated[
    str | None,
    typer.Option(
        "--ca-file",
        metavar="FILE",
        help="Certificates to trust instead of the usual ones.",
        rich_help_panel=_ACCESS,
    ),
]
ClientCert = Annotated[
    str | None,
    typer.Option(
        "--client-cert", metavar="FILE", help="The client's certificate.", rich_help_panel=_ACCESS
    ),
]
ClientKey = Annotated[
    str | None,
    typer.Option(
        "--client-key",
        metavar="FILE",
        help="Its key, where it stands in another file.",
        rich_help_panel=_ACCESS,
    ),
]
Insecure = Annotated[
    bool,
    typer.Option("--insecure", help="Trust any certificate.", rich_help_panel=_ACCESS),
]
Timeout = Annotated[
    str,
    typer.Option(
        "--timeout",
        metavar="TIME",
        help="For connecting and for each answer (default: 10s).",
        rich_help_panel=_ACCESS,
    ),
]

REACHED: Final[Options] = {
    "token_file": (TokenFile, None),
    "password_file": (PasswordFile, None),
    "ca_file": (CaFile, None),
    "client_cert": (ClientCert, None),
    "client_key": (ClientKey, None),
    "insecure": (Insecure, False),
}


def access_of(given: Mapping[str, Any]) -> Access:
    """What opens the doors, of the options above and of the environment.

    Args:
        given: the values of the command line; `timeout` is one of them.

    Raises:
        FlowdiagError: a file cannot be read or holds nothing of the kind.
    """
    from flowdiag.parsers.live.client import Access

    return Access.of(
        **{name: given[name] for name in REACHED},
        timeout_s=max(0.1, seconds(given["timeout"], "--timeout")),
    )


def seconds(text: str, option: str, least_s: float = 0) -> float:
    """A length of time of the command line.

    Raises:
        FlowdiagError: it is none, or too short, or longer than a year.

    >>> seconds("1m30s", "--for"), seconds("500ms", "--timeout"), seconds("0", "--for")
    (90.0, 0.5, 0.0)
    """
    from flowdiag.analyses.flink.judging import milliseconds
    from flowdiag.analyses.model.span import parse_moment
    from flowdiag.parsers.errors import FlowdiagError

    text = text.strip()
    found = None
    if text == "0":
        found = 0.0
    elif text[-1:].isalpha():  # 60 may be meant as seconds, and would be milliseconds
        found = milliseconds(text)
        if found is None:
            with suppress(FlowdiagError):
                found = (parse_moment(text).before_end_us or 0) / 1000
    if found is None or not least_s * 1000 <= found <= 366 * 86_400_000:
        raise FlowdiagError(
            f"'{text}' is no time for {option}",
            hint="write 15s, 5m or 1h" + (f"; at least {least_s:g}s" if least_s else ""),
        )
    return found / 1000
