"""Generates the documents that follow from the code: `python -m flowdiag.cli.docs` in the repository.

A test compares them with the committed files, so they are always current.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from typer.core import TyperGroup
from typer.main import get_command

from flowdiag.analyses.comparison import wire
from flowdiag.analyses.knowledge.causes import CHECKS
from flowdiag.analyses.report.suggestions import command_of, phrase_of
from flowdiag.analyses.report.tables import tables_document
from flowdiag.analyses.report.transform import schema_text
from flowdiag.cli.app import app
from flowdiag.cli.docs.actions import actions_document
from flowdiag.cli.docs.man import WIDTH, man_page
from flowdiag.cli.docs.report import report_document
from flowdiag.cli.exit_codes import MEANINGS
from flowdiag.cli.options.help import help_text
from flowdiag.cli.reference.components import components_document
from flowdiag.cli.reference.manual import rules_document
from flowdiag.parsers import notes

_COMMANDS: Final = """\
# Command reference

Generated from the help texts; `flowdiag COMMAND --help` prints the same.
"""
_BLOCK: Final = re.compile(r"(<!-- (\w[\w-]*): generated -->\n).*?(<!-- /\2 -->)", re.DOTALL)


def documents(root: Path) -> Iterator[tuple[Path, str]]:
    """Yield the path and the text of every generated document."""
    yield root / "docs" / "rules.md", rules_document()
    yield root / "docs" / "actions.md", actions_document()
    yield root / "docs" / "components.md", components_document()
    yield root / "docs" / "report.md", report_document()
    yield root / "docs" / "report.schema.json", schema_text()
    yield root / "docs" / "comparison.schema.json", wire.schema_text()
    yield root / "docs" / "tables.md", tables_document()
    yield root / "docs" / "cli.md", commands_document()
    yield root / "docs" / "flowdiag.1", man_page(help_texts(WIDTH), *_release(root))
    for name in ("README.md", "docs/reliability.md", "docs/next.md"):
        page = root / name
        yield page, with_blocks(page.read_text(encoding="utf-8"))


def _release(root: Path) -> tuple[str, str]:
    """Return the version and date of the newest section of the changelog."""
    text = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    version, date = re.findall(r"^## \[(\d[\d.]*)\] - (\d[\d-]*)$", text, re.MULTILINE)[0]
    return version, date


def with_blocks(text: str) -> str:
    """Return a page with its generated blocks replaced: `<!-- name: generated -->` to `<!-- /name -->`."""
    rows = "".join(f"| {int(code)} | {meaning} |\n" for code, meaning in MEANINGS.items())
    blocks = {
        "exit-codes": f"| code | meaning |\n|--:|---|\n{rows}",
        "warnings": _warnings(),
        "checks": _checks(),
    }
    return _BLOCK.sub(lambda hit: f"{hit[1]}{blocks[hit[2]]}{hit[3]}", text)


def commands_document() -> str:
    """Return docs/cli.md: the help of every command."""
    parts = [f"## {path}\n\n```text\n{text}```\n" for path, text in help_texts(100)]
    return "\n".join([_COMMANDS, *parts])


def help_texts(width: int) -> Iterator[tuple[str, str]]:
    """Yield the path of every command, such as `flowdiag collect flink`, and its help."""
    group: Any = get_command(app)
    with group.make_context("flowdiag", [], resilient_parsing=True) as context:
        yield from _help(group, context, "flowdiag", width)


def _help(command: Any, context: Any, path: str, width: int) -> Iterator[tuple[str, str]]:
    yield path, help_text(command, context, width=width)
    for name in command.list_commands(context) if isinstance(command, TyperGroup) else ():
        child = command.get_command(context, name)
        with child.make_context(name, [], parent=context, resilient_parsing=True) as inner:
            yield from _help(child, inner, f"{path} {name}", width)


def _warnings() -> str:
    rows = "".join(f"| `{kind}` | {meaning} |\n" for kind, meaning in notes.MEANINGS.items())
    return f"| kind | meaning |\n|---|---|\n{rows}"


def _checks() -> str:
    rows = "".join(
        f"| `{name}` | {phrase_of(name)} | {check.shows} | {check.cost} | `{_cell_text(command_of(name))}` |\n"
        for name, check in CHECKS.items()
    )
    return f"| check | evidence | shows | cost | command |\n|---|---|---|--:|---|\n{rows}"


def _cell_text(command: str) -> str:
    return command.replace("|", "\\|")


def main(arguments: Sequence[str] = ()) -> int:
    """Write the documents that are out of date, and print their paths; or with `site FOLDER` the site's source."""
    if len(arguments) == 2 and arguments[0] == "site":
        from flowdiag.cli.docs.site import write_site

        write_site(Path(), Path(arguments[1]))
        return 0
    for path, text in documents(Path()):
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
            sys.stdout.write(f"{path}\n")
    return 0
