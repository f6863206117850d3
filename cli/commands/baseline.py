"""`flowdiag baseline`."""

from __future__ import annotations

from typing import Annotated

import typer

from flowdiag.cli.options import shared as o


def baseline(
    reports: Annotated[
        list[str],
        typer.Argument(metavar="REPORT...", help="Reports in JSON, or - for standard input."),
    ],
    output: Annotated[
        str,
        typer.Option(
            "--output", "-o", metavar="FILE", help="The baseline: written, or brought up to date."
        ),
    ],
    reason: Annotated[
        str | None,
        typer.Option(
            "--reason",
            metavar="TEXT",
            help="Why what is new in it stays as it is: a ticket, and who looks after it.",
        ),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option(
            "--until",
            metavar="DAY",
            help="Last day on which it is muted: 2027-01-31, or 30d from today.",
        ),
    ] = None,
    min_severity: o.MinSeverityOption = None,
) -> int:
    """Write down known findings, so that --baseline mutes them until a day.

    \b
    Examples:
      flowdiag diagnose logs/ --format json --output report.json
      flowdiag baseline report.json -o known.toml --reason 'OPS-1234: new machines in January' --until 2027-01-31
      flowdiag diagnose logs/ --baseline known.toml

    Findings at warning or above are added; --min-severity says otherwise. What stands in the file stays as it is:
    reasons, days, comments. A finding that got worse, or whose day is past, is muted again as it is now. A baseline is
    TOML, and may be written by hand: a [[known]] with a fingerprint, a reason and a day (until).
    """
    from flowdiag.cli.baselines import write

    return write(reports, output, reason, until, min_severity)
