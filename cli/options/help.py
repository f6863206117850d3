"""Help as people read it: what it is, examples, then the options by what they are about.

Typer's own help changes its shape from release to release, draws boxes and prints the type of every
switch; this one is plain text that fits a narrow terminal and is the same everywhere, so that the
README can quote it.
"""

from __future__ import annotations

import inspect
import shutil
import sys
import textwrap
from collections.abc import Iterator, Mapping
from typing import Any, Final

from typer.core import TyperCommand, TyperGroup

from flowdiag.cli.exit_codes import MEANINGS, OF_A_COMPARISON, ExitCode

WIDTH: Final = 100  # beyond which help is hard to read
_LEFT: Final = 26  # columns of the names
_GENERAL: Final = "General"
DEBUG: Final = "Show the traceback of a bug."


class HelpfulCommand(TyperCommand):
    """A command whose help is `help_text`, and that has `--debug`, which the message of a bug names."""

    exit_codes: Mapping[ExitCode, str] = MEANINGS

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the command line; `main` itself looks for `--debug`, and settings need no inputs."""
        if "--show-config" in args:
            for param in self.params:
                if param.param_type_name == "argument":
                    param.required = False
        own = any("--debug" in param.opts for param in self.params)
        return super().parse_args(ctx, args if own else [a for a in args if a != "--debug"])

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help; Typer prints it."""
        formatter.write(help_text(self, ctx))


class ComparingCommand(HelpfulCommand):
    """A command whose exit codes are those of a comparison."""

    exit_codes = OF_A_COMPARISON


class HelpfulGroup(TyperGroup):
    """The same for the command that holds the others."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help; Typer prints it."""
        formatter.write(help_text(self, ctx))


def help_text(command: Any, ctx: Any, width: int | None = None) -> str:
    """The help of a command.

    Args:
        command: a Typer command; its docstring is summary, examples and the rest, in this order.
        ctx: the context it is called in.
        width: columns; by default those of the terminal, at most `WIDTH`.
    """
    columns = width or min(WIDTH, max(40, shutil.get_terminal_size((WIDTH, 24)).columns))
    return "\n".join(_lines(command, ctx, columns)).rstrip() + "\n"


def _lines(command: Any, ctx: Any, width: int) -> Iterator[str]:
    summary, *paragraphs = inspect.cleandoc(command.help or "").replace("\b\n", "").split("\n\n")
    yield from textwrap.wrap(" ".join(summary.split()), width)
    for paragraph in (p for p in paragraphs if p.startswith("Examples:")):
        yield from ("", _bold("Examples"), *paragraph.split("\n")[1:])
    yield from ("", f"{_bold('Usage')}  {' '.join(_usage(command, ctx))}")
    for paragraph in (p for p in paragraphs if not p.startswith("Examples:")):
        yield from ("", *textwrap.wrap(" ".join(paragraph.split()), width))
    if isinstance(command, TyperGroup):
        yield from ("", _bold("Commands"))
        for name in command.list_commands(ctx):
            child: Any = command.get_command(ctx, name)
            yield from _entry(name, inspect.cleandoc(child.help or "").split("\n\n")[0], width)
    for panel, entries in _panels(command, ctx).items():
        yield from ("", _bold(panel))
        for left, right in entries:
            yield from _entry(left, right, width)
    if any(name == "--fail-on" for param in command.params for name in param.opts):
        yield from ("", _bold("Exit codes"))
        for code, meaning in getattr(command, "exit_codes", MEANINGS).items():
            yield from _entry(str(int(code)), meaning.replace("`", ""), width)


def _usage(command: Any, ctx: Any) -> Iterator[str]:
    yield ctx.command_path
    yield "[OPTIONS]"
    if isinstance(command, TyperGroup):
        yield "COMMAND …"
    for param in command.params:
        if param.param_type_name == "argument":
            yield param.metavar or param.name.upper()


def _panels(command: Any, ctx: Any) -> dict[str, list[tuple[str, str]]]:
    """Names and help of the parameters by panel; what belongs to none comes last."""
    panels: dict[str, list[tuple[str, str]]] = {}
    for param in command.get_params(ctx):
        if getattr(param, "hidden", False):
            continue
        argument = param.param_type_name == "argument"
        panel = getattr(param, "rich_help_panel", None) or ("Input" if argument else _GENERAL)
        if argument:
            left = param.metavar or param.name.upper()
        else:
            short = [name for name in param.opts if not name.startswith("--")]
            long = [name for name in param.opts if name.startswith("--")]
            negated = "".join(f"/{name}" for name in param.secondary_opts)
            left = ", ".join(short + long) if short else f"    {long[0]}{negated}"
            left += f" {param.metavar}" if param.metavar else ""
        panels.setdefault(panel, []).append((left, getattr(param, "help", None) or ""))
    general = panels.pop(_GENERAL, None)
    if isinstance(command, HelpfulCommand) and not any("--debug" in p.opts for p in command.params):
        general = [("    --debug", DEBUG), *(general or [])]
    return {**panels, _GENERAL: general} if general else panels


def _entry(left: str, right: str, width: int) -> Iterator[str]:
    """One name and its help beside it, or below it where there is no room."""
    narrow = width < 2 * _LEFT + 20
    indent = 8 if narrow else _LEFT + 2
    lines = textwrap.wrap(" ".join(right.split()), width - indent) or [""]
    if narrow or len(left) > _LEFT - 2:
        yield f"  {left}"
    else:
        yield f"  {left:<{_LEFT}}{lines.pop(0)}".rstrip()
    for line in lines:
        yield " " * indent + line


def _bold(text: str) -> str:
    from flowdiag.cli.output.console import use_colour

    return f"\x1b[1m{text}\x1b[0m" if use_colour(sys.stdout) else text
