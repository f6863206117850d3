"""Options for reaching live servers, shared by `collect` and `diagnose`."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer

from flowdiag.cli.options.signature import Options

if TYPE_CHECKING:
    from flowdiag.parsers.live.client import Access

_ACCESS: Final = "Live systems"

TokenFile = Annotated[
    str | None,
    typer.Option(
        "--token-file",
        metavar="FILE",
        help="File with a bearer token (or set FLOWDIAG_COLLECT_TOKEN).",
        rich_help_panel=_ACCESS,
    ),
]
PasswordFile = Annotated[
    str | None,
    typer.Option(
        "--password-file",
        metavar="FILE",
        help="File with user:password (or set FLOWDIAG_COLLECT_USER, …_PASSWORD).",
        rich_help_panel=_ACCESS,
    ),
]
CaFile = Annotated[
    str | None,
    typer.Option(
        "--ca-file",
        metavar="FILE",
        help="CA certificates to trust instead of the system's.",
        rich_help_panel=_ACCESS,
    ),
]
ClientCert = Annotated[
    str | None,
    typer.Option(
        "--client-cert", metavar="FILE", help="Client certificate.", rich_help_panel=_ACCESS
    ),
]
ClientKey = Annotated[
    str | None,
    typer.Option(
        "--client-key",
        metavar="FILE",
        help="Private key of the client certificate, if it is in a separate file.",
        rich_help_panel=_ACCESS,
    ),
]
Insecure = Annotated[
    bool,
    typer.Option("--insecure", help="Skip certificate verification.", rich_help_panel=_ACCESS),
]


def _timeout(default: str) -> Any:
    """Declare `--timeout` with a default that fits the server."""
    option = typer.Option(
        "--timeout",
        metavar="TIME",
        help=f"Timeout for connecting and for each response (default: {default}).",
        rich_help_panel=_ACCESS,
    )
    return Annotated[str, option]


Timeout: Final = _timeout("10s")
SlowTimeout: Final = _timeout("30s")

Dumps = Annotated[
    Literal["auto", "never", "always"],
    typer.Option(
        "--stacks",
        metavar="WHICH",
        help="Thread dumps: auto (of suspects), never, always (default: auto).",
        rich_help_panel=_ACCESS,
    ),
]

ACCESS_OPTIONS: Final[Options] = {
    "token_file": (TokenFile, None),
    "password_file": (PasswordFile, None),
    "ca_file": (CaFile, None),
    "client_cert": (ClientCert, None),
    "client_key": (ClientKey, None),
    "insecure": (Insecure, False),
}


def access_from(arguments: Mapping[str, Any]) -> Access:
    """Build credentials and TLS settings from the options above and the environment.

    Args:
        arguments: the values of the command line, including `timeout`.

    Raises:
        FlowdiagError: a file cannot be read, or does not contain credentials.
    """
    from flowdiag.parsers.live.client import Access

    return Access.of(
        **{name: arguments[name] for name in ACCESS_OPTIONS},
        timeout_s=max(0.1, seconds(arguments["timeout"], "--timeout")),
    )


def seconds(text: str, option: str, least_s: float = 0) -> float:
    """Parse a duration from the command line.

    Raises:
        FlowdiagError: the text is not a duration, or is too short, or longer than a year.

    >>> seconds("1m30s", "--for"), seconds("500ms", "--timeout"), seconds("0", "--for")
    (90.0, 0.5, 0.0)
    """
    from flowdiag.analyses.selection.span import parse_moment
    from flowdiag.parsers.errors import FlowdiagError
    from flowdiag.parsers.units import duration_ms

    text = text.strip()
    found = None
    if text == "0":
        found = 0.0
    elif text[-1:].isalpha():  # a bare 60 would be read as milliseconds
        found = duration_ms(text)
        if found is None:
            with suppress(FlowdiagError):
                found = (parse_moment(text).before_end_us or 0) / 1000
    if found is None or not least_s * 1000 <= found <= 366 * 86_400_000:
        raise FlowdiagError(
            f"'{text}' is not a valid duration for {option}",
            hint="write 15s, 5m or 1h" + (f" (minimum: {least_s:g}s)" if least_s else ""),
        )
    return found / 1000
