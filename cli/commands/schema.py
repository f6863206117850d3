"""`flowdiag schema`."""

from __future__ import annotations

from flowdiag.cli import options as o


def schema(output: o.Output = None) -> int:
    """Print the JSON schema of reports.

    \b
    Examples:
      flowdiag schema > report.schema.json
      flowdiag schema --output report.schema.json

    It is made from the types that write the reports of this version; the installed package holds it
    as flowdiag/report.schema.json.
    """
    from flowdiag.analyses.report.wire import schema_text
    from flowdiag.cli.console import write_report

    write_report(schema_text(), output)
    return 0
