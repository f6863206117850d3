"""`flowdiag baseline`."""

from __future__ import annotations

from typing import Annotated

import typer

from flowdiag.cli.settings import MinSeverity


def baseline(
    reports: Annotated[
        list[str],
        typer.Argument(metavar="REPORT...", help="Reports in JSON, or - for standard input."),
    ],
    output: Annotated[
        str,
        typer.Option("--output", "-o", metavar="FILE", help="Baseline to create or to update."),
    ],
    reason: Annotated[
        str | None,
        typer.Option(
            "--reason", metavar="TEXT", help="Reason for accepting new entries, such as a ticket."
        ),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option(
            "--until",
            metavar="DAY",
            help="Last day on which new entries apply: 2027-01-31, or 30d.",
        ),
    ] = None,
    min_severity: Annotated[
        MinSeverity | None,
        typer.Option(
            "--min-severity",
            metavar="SEVERITY",
            help="Add findings at or above this severity: info, warning, critical (default: "
            "warning).",
        ),
    ] = None,
) -> int:
    """Save known findings to a file, so that `--baseline` mutes them until a date.

    \b
    Examples:
      flowdiag diagnose logs/ --output report.json
      flowdiag baseline report.json -o known.toml --reason 'OPS-1234: new machines in January' --until 2027-01-31
      flowdiag diagnose logs/ --baseline known.toml

    Existing entries keep their reasons, dates and comments. An entry is renewed if its finding became worse or its
    date has passed. A baseline is a TOML file that you can also write by hand (docs/compare.md).
    """
    from flowdiag.cli.baselines import write

    return write(reports, output, reason, until, min_severity)
