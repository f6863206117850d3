"""Generates docs/flowdiag.1, the man page: the help texts of all commands, and the exit codes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from flowdiag.cli.exit_codes import MEANINGS

WIDTH: Final = 72  # columns of a help text: man indents it, and terminals have 80
_SUMMARY: Final = "find the culprit when a Flink or Spark streaming job is unhealthy"


def man_page(helps: Iterable[tuple[str, str]], version: str, date: str) -> str:
    """Return the man page.

    Args:
        helps: the path of each command, and its help text.
        version: flowdiag's version.
        date: its release date.
    """
    return "\n".join(_lines(helps, version, date)) + "\n"


def _lines(helps: Iterable[tuple[str, str]], version: str, date: str) -> Iterator[str]:
    yield f'.TH FLOWDIAG 1 "{date}" "flowdiag {version}" "User Commands"'
    yield from (".SH NAME", f"flowdiag \\- {_SUMMARY}")
    yield from (".SH SYNOPSIS", ".B flowdiag", "[OPTIONS] COMMAND|PATH|URL \\&...")
    for number, (path, text) in enumerate(helps):
        yield from (".SH DESCRIPTION",) if number == 0 else ()
        yield from (".SH COMMANDS",) if number == 1 else ()
        yield from (f'.SS "{path}"',) if number else ()
        yield from (".nf", *map(_escape, text.rstrip().split("\n")), ".fi")
    yield ".SH EXIT STATUS"
    for code, meaning in MEANINGS.items():
        yield from (".TP", f".B {int(code)}", _escape(meaning))
    yield from (
        ".SH ENVIRONMENT",
        ".TP",
        ".B FLOWDIAG_*",
        "Sets an option: FLOWDIAG_MASTER sets --master.",
    )
    yield from (".TP", ".B JAVA_HOME", "The Java installation that runs Spark: Java 17 to 25.")
    yield from (
        ".SH FILES",
        ".TP",
        ".I flowdiag.toml",
        "Settings for commands that run in the current folder.",
    )


def _escape(line: str) -> str:
    r"""Escape a line, so that roff prints it literally.

    >>> _escape("'a' -b c\\d")
    "\\&'a' \\-b c\\ed"
    """
    line = (
        line.replace("\\", "\\e").replace("-", "\\-").replace("`", "\\(ga").replace("…", "\\&...")
    )
    return f"\\&{line}" if line.startswith((".", "'")) else line
