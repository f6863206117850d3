"""The `flowdiag` command: its subcommands, and the one place that turns errors into exit codes."""

from __future__ import annotations

import errno
import sys
import traceback
from collections.abc import Sequence
from typing import Annotated, Final

import typer

from flowdiag.cli.commands.baseline import baseline
from flowdiag.cli.commands.checkpoints import checkpoints
from flowdiag.cli.commands.collect import collect
from flowdiag.cli.commands.compare import compare
from flowdiag.cli.commands.diagnose import diagnose
from flowdiag.cli.commands.docs import docs
from flowdiag.cli.commands.doctor import doctor
from flowdiag.cli.commands.explain import explain
from flowdiag.cli.commands.listener import listener
from flowdiag.cli.commands.mcp import mcp
from flowdiag.cli.commands.memory import memory
from flowdiag.cli.commands.next_evidence import next_evidence
from flowdiag.cli.commands.queues import queues
from flowdiag.cli.commands.rate import rate
from flowdiag.cli.commands.render import render
from flowdiag.cli.commands.rules import rules
from flowdiag.cli.commands.schema import schema
from flowdiag.cli.commands.simulate import simulate
from flowdiag.cli.commands.startup import startup
from flowdiag.cli.commands.warm import warm
from flowdiag.cli.exit_codes import ExitCode
from flowdiag.cli.options.help import (
    ComparingCommand,
    HelpfulCommand,
    HelpfulGroup,
    OverviewCommand,
)
from flowdiag.cli.options.routing import with_default_command
from flowdiag.cli.options.shared import ShowConfig
from flowdiag.cli.settings import resolve_settings
from flowdiag.parsers.errors import (
    FlowdiagError,
    error_text,
    is_disk_full,
    is_out_of_resources,
    out_of_resources,
)

app = typer.Typer(
    name="flowdiag",
    cls=HelpfulGroup,
    invoke_without_command=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,  # local variables may contain secrets; `main` reports errors
    context_settings={"help_option_names": ["-h", "--help"]},
)

app.command(cls=OverviewCommand)(diagnose)
_DIAGNOSING: Final = (diagnose, checkpoints, rate, queues, startup, memory)
for command in _DIAGNOSING[1:]:
    app.command(cls=HelpfulCommand)(command)
app.command("next", cls=HelpfulCommand)(next_evidence)
app.command(cls=ComparingCommand)(compare)
for command in (baseline, rules, explain, docs, render, schema, warm, doctor, mcp):
    app.command(cls=HelpfulCommand)(command)
app.add_typer(collect)
app.add_typer(listener)
app.add_typer(simulate)


_OUTPUT_GONE: Final = (errno.EBADF, errno.EIO)  # standard output or its terminal is closed

_COMMANDS: Final = frozenset(
    {
        *(each.name or each.callback.__name__ for each in app.registered_commands if each.callback),
        *(
            str(each.typer_instance.info.name)
            for each in app.registered_groups
            if each.typer_instance
        ),
    }
)


def _version(requested: bool) -> None:
    if requested:
        from flowdiag.analyses.report.version import tool_version

        typer.echo(f"flowdiag {tool_version()}")
        raise typer.Exit


@app.callback()
def flowdiag(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option("--version", "-V", help="Show the version.", callback=_version, is_eager=True),
    ] = False,
    show_config: ShowConfig = False,
) -> None:
    """Find the culprit when a Flink or Spark streaming job is unhealthy.

    Not sure which command you need? Just pass a path or a URL: flowdiag then runs `diagnose`.

    \b
    Examples:
      flowdiag logs/
      flowdiag http://jobmanager:8081 --for 60s
      flowdiag diagnose logs/ eventlog/ -o report.html
      flowdiag checkpoints jobmanager.log taskmanager-*.log.gz --since 2h
      flowdiag diagnose logs/ --format json | jq .summary
      flowdiag rate eventlog/ listener/
      flowdiag startup logs/
      flowdiag memory --process-size 4g --flink 1.20
      flowdiag next report.json
      flowdiag compare last-good.json logs/
      flowdiag explain CP101
    """
    if show_config:
        from flowdiag.cli.diagnosing import show_config as show

        raise typer.Exit(show(resolve_settings({})))
    if context.invoked_subcommand is None:
        typer.echo(context.get_help(), err=True)
        raise typer.Exit(ExitCode.USAGE)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its `ExitCode`.

    Args:
        arguments: command line without the program name (default: the arguments of the process).
    """
    given = sys.argv[1:] if arguments is None else list(arguments)
    from flowdiag.cli.output.console import discard_stdout, print_message, write_error

    try:
        given = with_default_command(given, _COMMANDS)
        result = app(args=given, prog_name="flowdiag", standalone_mode=False)
        sys.stdout.flush()
    except FlowdiagError as error:
        print_message("error", error.message, error.hint)
        return ExitCode.USAGE
    except (KeyboardInterrupt, typer.Abort):
        return ExitCode.INTERRUPTED
    except BrokenPipeError:  # the reader of a pipe, such as `head`, has closed it
        discard_stdout()
        return ExitCode.CLEAR
    except Exception as error:  # noqa: BLE001 - the last place that can report it as a bug
        if isinstance(error, OSError) and (is_disk_full(error) or error.errno in _OUTPUT_GONE):
            discard_stdout()
            failure = write_error(error.filename or "standard output", error)
            print_message("error", failure.message, failure.hint)
            return ExitCode.USAGE
        if is_out_of_resources(error):
            failure = out_of_resources(error)
            print_message("error", failure.message, failure.hint)
            return ExitCode.USAGE
        usage = getattr(error, "format_message", None)
        if usage is not None:
            from flowdiag.cli.output.console import print_message

            path = getattr(getattr(error, "ctx", None), "command_path", "flowdiag")
            text = str(usage()).strip().rstrip(".").replace("\n", " ")
            text = text.replace(": Value error, ", ": ")
            print_message("error", text[:1].lower() + text[1:], f"see {path} --help")
            return ExitCode.USAGE
        print_message(
            "error",
            f"this is a bug in flowdiag: {type(error).__name__}: {error_text(error)}",
            "please report it, and include the command line; --debug shows the traceback",
        )
        if "--debug" in given:
            from flowdiag.analyses.faults import masked_traceback

            print(*masked_traceback(traceback.format_exc()), sep="\n", file=sys.stderr)
        return ExitCode.BUG
    return int(result or 0)
