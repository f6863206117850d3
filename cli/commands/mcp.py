"""`flowdiag mcp`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flowdiag.cli.options import shared as o
from flowdiag.cli.settings import Settings, resolve_settings

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer

    from flowdiag.cli.mcp.roots import Roots

_MOST_ROWS = 100  # no tool returns tables


def mcp(
    root: Annotated[
        list[str] | None,
        typer.Option(
            "--root",
            metavar="DIR",
            help="Folder that the server may read; repeatable, at least one.",
        ),
    ] = None,
    timeout: Annotated[
        str,
        typer.Option("--timeout", metavar="TIME", help="Time limit of a call (default: 10m)."),
    ] = "10m",
    redact: o.Redact = None,
    no_excerpts: o.NoExcerpts = None,
    java_heap: o.JavaHeap = None,
    config: o.Config = None,
    debug: o.Debug = None,
) -> int:
    """Serve diagnosis tools to agents over the Model Context Protocol on stdin and stdout.

    \b
    Examples:
      flowdiag mcp --root /var/log/flink
      flowdiag mcp --root logs/ --root incidents/ --timeout 5m --redact

    A client starts this command; docs/agents.md shows the setup of common clients. The tools diagnose, explain and
    evidence read files under the roots, change nothing and use no network. Links that leave a root are refused. The
    server answers one request at a time and keeps Spark between requests.
    """
    from flowdiag.cli.mcp.roots import Roots
    from flowdiag.cli.options.values import parse_duration_ms
    from flowdiag.cli.output.console import print_message
    from flowdiag.parsers.errors import FlowdiagError

    flags = {"redact": redact, "no_excerpts": no_excerpts, "java_heap": java_heap, "debug": debug}
    settings = resolve_settings(
        {**flags, "max_rows": _MOST_ROWS, "quiet": True}, config=config
    ).settings
    timeout_s = parse_duration_ms(timeout, "--timeout") / 1000
    if timeout_s < 1:
        raise FlowdiagError("--timeout must be at least 1 s")
    server = _server(Roots(root or []), settings, timeout_s)
    if sys.stdin.isatty():
        print_message(
            "note",
            "waiting for a client on standard input",
            "clients start this command themselves",
        )
    server.run("stdio")
    return 0


def _server(roots: Roots, settings: Settings, timeout_s: float) -> MCPServer[Any]:
    """Create the server.

    Raises:
        FlowdiagError: the package mcp is not installed.
    """
    try:
        from flowdiag.cli.mcp.server import server_of
        from flowdiag.cli.mcp.session import Session
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("mcp", "mcp_types", "anyio", "pydantic"):
            raise
        from flowdiag.parsers.errors import FlowdiagError
        from flowdiag.parsers.extras import pip_install

        raise FlowdiagError("flowdiag mcp needs the package mcp", hint=pip_install("mcp")) from None
    quotes = not (settings.redact or settings.no_excerpts)
    return server_of(roots, Session(settings, timeout_s), quotes=quotes)
