"""`flowdiag schema`."""

from __future__ import annotations

from typing import Annotated

import typer

from flowdiag.cli.options import shared as o


def schema(
    comparison: Annotated[
        bool, typer.Option("--comparison", help="The schema of comparisons (`flowdiag compare`).")
    ] = False,
    output: o.Output = None,
) -> int:
    """Print the JSON schema of reports.

    \b
    Examples:
      flowdiag schema > report.schema.json
      flowdiag schema --output report.schema.json
      flowdiag schema --comparison > comparison.schema.json

    It is made from the types that write the reports of this version; the installed package holds it
    as flowdiag/report.schema.json.
    """
    from flowdiag.cli.output.console import write_report

    if comparison:
        from flowdiag.analyses.comparison.wire import schema_text
    else:
        from flowdiag.analyses.report.wire import schema_text
    write_report(schema_text(), output)
    return 0
