"""`flowdiag render`."""

from __future__ import annotations

from typing import Annotated

import typer

from flowdiag.cli import options as o
from flowdiag.cli.settings import load_settings


def render(
    report: Annotated[
        str, typer.Argument(metavar="REPORT", help="A report in JSON, or - for standard input.")
    ],
    format: o.OutputFormat = None,
    output: o.Output = None,
    redact: o.Redact = None,
    color: o.ColorOption = None,
    no_color: o.NoColor = None,
    show_tz: o.ShowTz = None,
    config: o.Config = None,
    verbose: o.Verbose = None,
    debug: o.Debug = None,
) -> int:
    """Show a saved report in another format, without reading the logs again.

    \b
    Examples:
      flowdiag checkpoints logs/ --format json --output report.json
      flowdiag render report.json
      flowdiag render report.json --format markdown >> "$GITHUB_STEP_SUMMARY"

    The exit code is 0, whatever the report says.
    """
    flags = {
        "format": format,
        "output": output,
        "redact": redact,
        "color": color,
        "no_color": no_color,
        "show_tz": show_tz,
        "verbose": verbose or None,
        "debug": debug,
    }
    settings = load_settings(flags, config=config)

    from flowdiag.analyses.report.wire import redacted
    from flowdiag.cli.console import check_output, write_report
    from flowdiag.cli.output import render_report
    from flowdiag.cli.reading import read_report

    check_output(settings.output)
    saved = read_report(report)
    shown = redacted(saved) if settings.redact else saved
    write_report(render_report(shown, settings), settings.output)
    return 0
