"""`flowdiag compare`."""

from __future__ import annotations

from typing import Annotated, Any, Final

import typer

from flowdiag.cli.comparing import FailOnChange
from flowdiag.cli.options import shared as o
from flowdiag.cli.options.help import VERDICT
from flowdiag.cli.options.signature import Options, with_options
from flowdiag.cli.settings import Format

_FORMAT: Final = o.format_option(
    Format.TABLE, Format.JSON, Format.MARKDOWN, Format.JUNIT, Format.GITHUB
)
_OPTIONS: Final[Options] = {
    "factor": (
        Annotated[
            float | None,
            typer.Option(
                "--factor",
                metavar="N",
                help="Smallest reported ratio; 1.25 for runs on dedicated hosts (default: 2).",
                rich_help_panel="Comparison",
            ),
        ],
        None,
    ),
    "same_job": (
        Annotated[
            bool,
            typer.Option(
                "--same-job",
                help="Pair the only job of each side, even if their names differ.",
                rich_help_panel="Comparison",
            ),
        ],
        False,
    ),
    "tz": (o.Tz, None),
    "strict_inputs": (o.StrictInputs, None),
    "since": (o.Since, None),
    "until": (o.Until, None),
    "job": (o.Job, None),
    "format": (_FORMAT, None),
    "output": (o.TextOutput, None),
    "redact": (o.Redact, None),
    "color": (o.ColorOption, None),
    "no_color": (o.NoColor, None),
    "fail_on_change": (
        Annotated[
            FailOnChange,
            typer.Option(
                "--fail-on",
                metavar="CHANGE",
                help="When to exit with 1: regression, change, never (default: regression).",
                rich_help_panel=VERDICT,
            ),
        ],
        FailOnChange.REGRESSION,
    ),
    "allow_inconclusive": (o.AllowInconclusive, None),
    "baseline": (o.BaselineOption, None),
    "config": (o.Config, None),
    "quiet": (o.Quiet, None),
    "verbose": (o.Verbose, None),
    "debug": (o.Debug, None),
    "show_config": (o.ShowConfig, False),
    "master": (o.Master, None),
    "java_heap": (o.JavaHeap, None),
}


@with_options(_OPTIONS)
def compare(
    before: Annotated[
        str, typer.Argument(metavar="BEFORE", help="A report in JSON, or inputs as for `diagnose`.")
    ],
    after: Annotated[
        str, typer.Argument(metavar="AFTER", help="A report or inputs of the later run.")
    ],
    **arguments: Any,
) -> int:
    """Show the changes between two runs of the same job, and fail on a regression.

    \b
    Examples:
      flowdiag compare before.json after.json
      flowdiag compare logs-1.4/ logs-1.5/
      flowdiag compare last-good.json logs/ --fail-on regression --format markdown
      flowdiag compare monday.json tuesday.json --format json | jq '.findings[] | select(.change == "new")'

    A regression is a new or worse finding at warning or above, or a measure that became worse. A statistical test for
    small, skewed samples compares the measures. Changes below --factor are not reported. See docs/compare.md.

    Inputs are diagnosed first, with the command of the report on the other side, or with `diagnose`.
    """
    from flowdiag.cli.comparing import run

    return run(before, after, arguments)
