"""`flowdiag schema`."""

from __future__ import annotations

from typing import Annotated

import typer

from flowdiag.cli.options import shared as o


def schema(
    comparison: Annotated[
        bool, typer.Option("--comparison", help="Schema of comparisons instead of reports.")
    ] = False,
    output: o.TextOutput = None,
) -> int:
    """Print the JSON schema of reports.

    \b
    Examples:
      flowdiag schema > report.schema.json
      flowdiag schema --comparison > comparison.schema.json

    The schema is generated from the types of this version. The package also contains it as
    flowdiag/report.schema.json.
    """
    from flowdiag.cli.output.console import write_report

    if comparison:
        from flowdiag.analyses.comparison.wire import schema_text
    else:
        from flowdiag.analyses.report.transform import schema_text
    write_report(schema_text(), output)
    return 0
