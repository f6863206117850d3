"""Links to places in files (OSC 8) that terminals open with a click.

Like other tools, flowdiag writes links only to terminals that are known to support them, unless the user decides
otherwise (`--hyperlinks`, `FORCE_HYPERLINK`). A URL contains only an encoded path of this machine.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from functools import cache
from typing import IO, Any, Final
from urllib.parse import quote

from flowdiag.cli.settings import When

_PROGRAMS: Final = frozenset(
    {"iTerm.app", "WezTerm", "vscode", "ghostty", "Hyper", "terminology", "zed", "rio", "Tabby"}
)  # values of TERM_PROGRAM
_TERMS: Final = ("xterm-kitty", "alacritty", "xterm-ghostty", "wezterm", "foot", "contour")
_VARIABLES: Final = ("WT_SESSION", "KONSOLE_VERSION", "DOMTERM")  # set by terminals with support
_VTE: Final = 5000  # 0.50, the first version with support


def use_hyperlinks(stream: IO[Any], when: When, environ: Mapping[str, str] = os.environ) -> bool:
    """Whether to write links: the option decides, then `FORCE_HYPERLINK` (0 turns them off), then the terminal."""
    if when is not When.AUTO:
        return when is When.ALWAYS
    forced = environ.get("FORCE_HYPERLINK", "")
    if forced:
        return forced != "0"
    return stream.isatty() and _supports_links(environ)


def _supports_links(environ: Mapping[str, str]) -> bool:
    """Return whether the terminal is known to open links.

    >>> _supports_links({"TERM": "xterm-256color"}), _supports_links({"VTE_VERSION": "7200"}), _supports_links({"TERM": "xterm-kitty"})
    (False, True, True)
    >>> _supports_links({"TERM": "tmux-256color", "TERM_PROGRAM": "tmux", "VTE_VERSION": "7200"})
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
    """Return the URL of an input, or None if it is not a file of this machine: an archive member, a URL, a lost file.

    Args:
        source: the name of the input in the report.
        folder: the folder of relative names.
    """
    path = os.path.join(folder or os.curdir, source)
    if "\0" in path or "://" in source or not os.path.isfile(path):
        return None
    return f"file://{_host()}{quote(os.path.abspath(path), safe='/')}"
