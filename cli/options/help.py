"""Renders the help of commands: summary, examples, usage, then the options by subject.

Typer's own help changes with its releases, draws boxes, and prints the type of every switch. This one is
plain text, fits a narrow terminal, and is the same everywhere, so docs/cli.md can quote it.
"""

from __future__ import annotations

import inspect
import shutil
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from typer.core import TyperCommand, TyperGroup

from flowdiag.cli.exit_codes import SHORT_MEANINGS, SHORT_MEANINGS_OF_COMPARISON

WIDTH: Final = 100  # wider lines are hard to read
_LEFT: Final = 26  # columns for the names
DEBUG: Final = "Show the traceback of a bug."

# Panels of options. `PANELS` has those that every command shows at the end, in this order.
INPUT, OUTPUT, VERDICT, GENERAL = "Input", "Output", "Verdict", "General"
SPARK: Final = "Spark and startup"
PANELS: Final = (GENERAL, SPARK)


class HelpfulCommand(TyperCommand):
    """A command with flowdiag's help text and with `--debug`, which the error message of a bug mentions."""

    exit_codes = SHORT_MEANINGS

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the command line; `--show-config` needs no inputs, and `main` handles `--debug`."""
        if "--show-config" in args:
            for param in self.params:
                if param.param_type_name == "argument":
                    param.required = False
        own = any("--debug" in param.opts for param in self.params)
        return super().parse_args(ctx, args if own else [a for a in args if a != "--debug"])

    def format_help(self, ctx: Any, formatter: Any) -> None:
        formatter.write(help_text(self, ctx))


class ComparingCommand(HelpfulCommand):
    """A command with the exit codes of a comparison."""

    exit_codes = SHORT_MEANINGS_OF_COMPARISON


class OverviewCommand(HelpfulCommand):
    """The command with the most options. For shared options, its help refers to other commands."""

    elsewhere: Mapping[str, Sequence[str]] = {
        "collect flink": (
            "--token-file",
            "--password-file",
            "--ca-file",
            "--client-cert",
            "--client-key",
            "--insecure",
            "--timeout",
        ),
        "checkpoints": (
            "--max-rows",
            "--color",
            "--hyperlinks",
            "--show-tz",
            "--master",
            "--java-heap",
            "--stay",
            "--warm",
        ),
    }


class HelpfulGroup(TyperGroup):
    """A command with subcommands and flowdiag's help text."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        formatter.write(help_text(self, ctx))


def help_text(command: Any, ctx: Any, width: int | None = None) -> str:
    """Render the help of a command.

    Args:
        command: a Typer command whose docstring has a summary, examples and notes, in this order.
        ctx: its context.
        width: in columns (default: the terminal's, at most `WIDTH`).
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
        yield from _panel(entries, getattr(command, "elsewhere", {}), width)
    if any("--fail-on" in param.opts for param in command.params):
        yield from ("", f"{_bold('Exit codes')}  {getattr(command, 'exit_codes', SHORT_MEANINGS)}")


def _panel(
    entries: Sequence[tuple[str, str]], elsewhere: Mapping[str, Sequence[str]], width: int
) -> Iterator[str]:
    """Yield the entries of a panel, then a pointer to options that other commands document."""
    skipped: dict[str, list[str]] = {}
    for left, right in entries:
        option = left.split()[0]
        if other := next((name for name, some in elsewhere.items() if option in some), None):
            skipped.setdefault(other, []).append(option)
        else:
            yield from _entry(left, right, width)
    for other, options in skipped.items():
        text = f"{', '.join(options)}: see flowdiag {other} --help."
        yield from textwrap.wrap(text, width, initial_indent=" " * 6, subsequent_indent=" " * 6)


def _usage(command: Any, ctx: Any) -> Iterator[str]:
    yield ctx.command_path
    yield "[OPTIONS]"
    if isinstance(command, TyperGroup):
        yield "COMMAND …"
    for param in command.params:
        if param.param_type_name == "argument":
            yield param.metavar or param.name.upper()


def _panels(command: Any, ctx: Any) -> dict[str, list[tuple[str, str]]]:
    """Return the name and help text of each parameter by panel, in the order of the help."""
    panels: dict[str, list[tuple[str, str]]] = {}
    for param in command.get_params(ctx):
        if getattr(param, "hidden", False):
            continue
        if param.param_type_name == "argument":
            panel, left = INPUT, param.metavar or param.name.upper()
        else:
            panel, left = GENERAL, _option_names(param)
        panel = getattr(param, "rich_help_panel", None) or panel
        panels.setdefault(panel, []).append((left, getattr(param, "help", None) or ""))
    if isinstance(command, HelpfulCommand) and not any("--debug" in p.opts for p in command.params):
        panels.setdefault(GENERAL, []).append(("    --debug", DEBUG))
    last = {name: panels.pop(name) for name in PANELS if name in panels}
    return panels | last


def _option_names(param: Any) -> str:
    short = [name for name in param.opts if not name.startswith("--")]
    long = [name for name in param.opts if name.startswith("--")]
    negated = "".join(f"/{name}" for name in param.secondary_opts)
    names = ", ".join(short + long) if short else f"    {long[0]}{negated}"
    return f"{names} {param.metavar}" if param.metavar else names


def _entry(left: str, right: str, width: int) -> Iterator[str]:
    """Yield an option with its help text, which moves to the next line if the option is too long."""
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
    from flowdiag.cli.output.console import use_color

    return f"\x1b[1m{text}\x1b[0m" if use_color(sys.stdout) else text
