"""`flowdiag compare`."""

from __future__ import annotations

from typing import Annotated, Any, Final

import typer

from flowdiag.cli.comparing import FailOnChange
from flowdiag.cli.options import shared as o
from flowdiag.cli.options.signature import Options, taking

_CHANGE = "What counts"

_OPTIONS: Final[Options] = {
    "factor": (
        Annotated[
            float | None,
            typer.Option(
                "--factor",
                metavar="N",
                help="Durations, delays and rates that differ by less are the same: 1.25 where runs are"
                " alike, on machines of their own (default: 2).",
                rich_help_panel=_CHANGE,
            ),
        ],
        None,
    ),
    "same_job": (
        Annotated[
            bool,
            typer.Option(
                "--same-job",
                help="The only job of each side is the same one, whatever it is called.",
                rich_help_panel=_CHANGE,
            ),
        ],
        False,
    ),
    **{
        name: (kind, None)
        for name, kind in {
            "tz": o.Tz,
            "strict_inputs": o.StrictInputs,
            "since": o.Since,
            "until": o.Until,
            "job": o.Job,
            "format": o.OutputFormat,
            "output": o.Output,
            "redact": o.Redact,
            "color": o.ColorOption,
            "no_color": o.NoColor,
        }.items()
    },
    "fail_on_change": (
        Annotated[
            FailOnChange,
            typer.Option(
                "--fail-on",
                metavar="WHAT",
                help="Exit with 1 for: regression, change, never (default: regression).",
                rich_help_panel="Verdict",
            ),
        ],
        FailOnChange.REGRESSION,
    ),
    **{
        name: (kind, None)
        for name, kind in {
            "allow_inconclusive": o.AllowInconclusive,
            "baseline": o.BaselineOption,
            "master": o.Master,
            "java_heap": o.JavaHeap,
            "config": o.Config,
            "quiet": o.Quiet,
            "verbose": o.Verbose,
            "debug": o.Debug,
        }.items()
    },
    "show_config": (o.ShowConfig, False),
}


@taking(_OPTIONS)
def compare(
    before: Annotated[
        str, typer.Argument(metavar="BEFORE", help="A report in JSON, or inputs as of `diagnose`.")
    ],
    after: Annotated[str, typer.Argument(metavar="AFTER", help="The same, of later.")],
    **given: Any,
) -> int:
    """What changed between two runs of the same job: is the new release worse?

    \b
    Examples:
      flowdiag compare before.json after.json
      flowdiag compare logs-1.4/ logs-1.5/
      flowdiag compare last-good.json logs/ --fail-on regression --format markdown
      flowdiag compare monday.json tuesday.json --format json | jq '.findings[] | select(.change == "new")'

    Findings are new, gone, worse, better, moved or unchanged, by fingerprint; what a side did not assess is never
    called new nor gone. Durations, sizes, delays, rates and shares of the time are compared by a test for few and
    skewed values: no difference is claimed that chance explains, and none below a factor of two. A regression is a
    new or worse finding at warning or above, or a measure that became worse. See docs/compare.md.

    Inputs are diagnosed first, by the command of the report that they are compared with, else by all.
    """
    from flowdiag.cli.comparing import run

    return run(before, after, given)
