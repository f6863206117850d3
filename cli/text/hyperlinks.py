"""Places in files that a terminal opens when they are clicked: OSC 8, where the terminal says that it can.

As other tools do it: only on a terminal, and only on one that is known for it, unless the user says otherwise
(`--hyperlinks`, `FORCE_HYPERLINK`). A URL holds nothing but a path of this machine, encoded.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from functools import cache
from typing import IO, Any, Final
from urllib.parse import quote

from flowdiag.cli.options.settings import When

_PROGRAMS: Final = frozenset(
    {"iTerm.app", "WezTerm", "vscode", "ghostty", "Hyper", "terminology", "zed", "rio", "Tabby"}
)  # what TERM_PROGRAM says
_TERMS: Final = ("xterm-kitty", "alacritty", "xterm-ghostty", "wezterm", "foot", "contour")
_VARIABLES: Final = ("WT_SESSION", "KONSOLE_VERSION", "DOMTERM")  # set by terminals that can
_VTE: Final = 5000  # 0.50, the first one that opens them


def use_hyperlinks(stream: IO[Any], when: When, environ: Mapping[str, str] = os.environ) -> bool:
    """Whether places are to be links.

    What was asked for comes before the environment, `FORCE_HYPERLINK` (0: none) before what is known of the
    terminal.

    Args:
        stream: where the report goes.
        when: what was asked for.
        environ: the environment.
    """
    if when is not When.AUTO:
        return when is When.ALWAYS
    forced = environ.get("FORCE_HYPERLINK", "")
    if forced:
        return forced != "0"
    return stream.isatty() and _can(environ)


def _can(environ: Mapping[str, str]) -> bool:
    """Whether a terminal is known to open links.

    >>> _can({"TERM": "xterm-256color"}), _can({"VTE_VERSION": "7200"}), _can({"TERM": "xterm-kitty"})
    (False, True, True)
    >>> _can({"TERM": "tmux-256color", "TERM_PROGRAM": "tmux", "VTE_VERSION": "7200"})
    False
    """
    term = environ.get("TERM", "")
    if term == "dumb" or term.startswith(("screen", "tmux")):
        return False
    version = environ.get("VTE_VERSION", "")
    return (
        (version.isdecimal() and int(version) >= _VTE)
        or environ.get("TERM_PROGRAM") in _PROGRAMS
        or term.startswith(_TERMS)
        or any(environ.get(name) for name in _VARIABLES)
    )


@cache
def _host() -> str:
    return quote(socket.gethostname(), safe=".-")


def file_url(source: str, folder: str = "") -> str | None:
    """The address of a file on this machine; None where it is none: in an archive, behind a URL, gone.

    Args:
        source: as the report names it.
        folder: in which the report is read, for relative names.
    """
    path = os.path.join(folder or os.curdir, source)
    if "\0" in path or "://" in source or not os.path.isfile(path):
        return None
    return f"file://{_host()}{quote(os.path.abspath(path), safe='/')}"
