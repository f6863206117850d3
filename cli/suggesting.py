"""Runs `flowdiag next`, from its command line to its exit code."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final

import msgspec

from flowdiag.analyses.model import fmt
from flowdiag.analyses.topic_names import EVERYTHING
from flowdiag.cli.comparing import is_report
from flowdiag.cli.exit_codes import ExitCode
from flowdiag.cli.options import shared as o
from flowdiag.cli.options.routing import refuse_servers
from flowdiag.cli.settings import Listing, Settings, resolve_settings

if TYPE_CHECKING:
    from flowdiag.analyses.contract.report import Report

_COSTS: Final = {
    1: "one request or a stored file",
    2: "some minutes",
    3: "access to a host or another system",
    4: "a restart or a large file",
}


def run(paths: Sequence[str], arguments: Mapping[str, Any]) -> ExitCode:
    """Read the report, or diagnose the inputs, and print the evidence to collect next.

    Raises:
        FlowdiagError: a usage error, no readable input, or a report that this version cannot read.
    """
    listing: Listing = arguments["format"]
    found = resolve_settings(o.flags({**arguments, "format": None}), config=arguments["config"])
    settings = found.settings
    from flowdiag.analyses.contract.redact import printable
    from flowdiag.analyses.report.transform import redacted
    from flowdiag.cli.output.console import check_output, write_report
    from flowdiag.cli.output.saved import read_report

    check_output(settings.output)
    if len(paths) == 1 and is_report(paths[0]):
        report = read_report(paths[0])
        report = redacted(report) if settings.redact else report
    else:
        refuse_servers(paths, "next")
        report = _diagnose(paths, settings, arguments)
    text = (
        _json(report)
        if listing is Listing.JSON
        else "".join(f"{printable(line)}\n" for line in lines(report))
    )
    write_report(text, settings.output)
    return ExitCode.CLEAR


def _diagnose(paths: Sequence[str], settings: Settings, arguments: Mapping[str, Any]) -> Report:
    from flowdiag.cli.diagnosing import library_logging, option_fields, report_on_paths
    from flowdiag.cli.output.console import Progress
    from flowdiag.cli.output.writing import print_warnings
    from flowdiag.cli.spark.launch import start_spark

    fields = option_fields(settings, arguments, "job")
    with (
        library_logging(debug=settings.debug),
        ExitStack() as stack,
        Progress(quiet=settings.quiet) as progress,
    ):
        spark = stack.enter_context(start_spark(settings, paths))
        stack.enter_context(spark)
        report = report_on_paths(EVERYTHING, paths, settings, fields, lambda: spark, progress, [])
    if not settings.quiet:
        print_warnings(report)
    return report


def _json(report: Report) -> str:
    document = msgspec.json.encode(report.summary.suggestions)
    return msgspec.json.format(document, indent=2).decode() + "\n"


def lines(report: Report) -> Iterator[str]:
    """Yield the verdict, then each suggestion with its cost, what it decides, and its command."""
    from flowdiag.cli.text import words

    cause = report.summary.cause
    yield f"{words.verdict_sentence(report)}{f' · {cause}' if cause else ''}"
    suggestions = report.summary.suggestions
    if not suggestions:
        yield _no_evidence_text(report)
    for number, each in enumerate(suggestions, 1):
        yield ""
        cost = f" ({_COSTS[each.cost]})" if each.cost in _COSTS else ""
        if each.check is None:
            yield f"{number}. {each.text}: {each.wants or ''}".rstrip(": ")
        else:
            yield f"{number}. {fmt.capital(each.text)}{cost}"
        if each.decides:
            yield f"   decides: {each.decides}"
        if each.command:
            yield f"   run: {each.command}"


def _no_evidence_text(report: Report) -> str:
    if report.summary.verdict in ("healthy", "calculated"):
        return "No finding needs more evidence."
    if report.findings:
        return "The causes are certain: they need no further evidence."
    return "flowdiag knows of no other evidence that would help."
