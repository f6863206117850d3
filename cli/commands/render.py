"""`flowdiag render`."""

from __future__ import annotations

from typing import Annotated

import typer

from flowdiag.cli.exit_codes import ExitCode
from flowdiag.cli.options import shared as o
from flowdiag.cli.settings import Settings, resolve_settings


def render(
    report: Annotated[
        str,
        typer.Argument(metavar="REPORT", help="A report in JSON or HTML, or - for standard input."),
    ],
    format: o.OutputFormat = None,
    output: o.Output = None,
    min_severity: o.MinSeverityOption = None,
    redact: o.Redact = None,
    color: o.ColorOption = None,
    no_color: o.NoColor = None,
    hyperlinks: o.Hyperlinks = None,
    show_tz: o.ShowTz = None,
    config: o.Config = None,
    show_config: o.ShowConfig = False,
    verbose: o.Verbose = None,
    debug: o.Debug = None,
) -> int:
    """Show a saved report in another format, without reading the logs again.

    \b
    Examples:
      flowdiag checkpoints logs/ --output report.json
      flowdiag render report.json
      flowdiag render report.json --output report.html
      flowdiag render report.html --format json
      flowdiag render report.json --min-severity warning
      flowdiag render report.json --format markdown >> "$GITHUB_STEP_SUMMARY"

    The exit code is 0 for any verdict, and 4 if a bug in flowdiag prevents a section from being shown.
    """
    found = resolve_settings(o.flags(locals()), config=config)
    if show_config:
        from flowdiag.cli.diagnosing import show_config as show

        return show(found)
    return _show(report, found.settings)


def _show(report: str, settings: Settings) -> ExitCode:
    from flowdiag.analyses.report.transform import redacted
    from flowdiag.cli.diagnosing import library_logging
    from flowdiag.cli.output.console import write_report
    from flowdiag.cli.output.saved import read_report
    from flowdiag.cli.output.writing import (
        check_destination,
        filter_findings,
        print_faults,
        render_with_faults,
    )

    check_destination(settings)
    saved = read_report(report)
    shown = redacted(saved) if settings.redact else saved
    with library_logging(debug=settings.debug):
        text, faults = render_with_faults(filter_findings(shown, settings), settings)
    print_faults(faults)
    write_report(text, settings.output)
    return ExitCode.BUG if faults else ExitCode.CLEAR
