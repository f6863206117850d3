"""Renders a report and prints its warnings. Imports no module that diagnoses."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Sequence
from dataclasses import replace

from msgspec import structs

from flowdiag.analyses.contract.report import Fault, Note, Report
from flowdiag.analyses.model.finding import Severity
from flowdiag.analyses.model.fmt import plural
from flowdiag.analyses.report.transform import without_less_severe
from flowdiag.cli.output.console import (
    check_output,
    print_message,
    supports_glyphs,
    terminal_width,
    use_color,
)
from flowdiag.cli.render import RENDERERS, check_format
from flowdiag.cli.settings import Settings, When
from flowdiag.cli.text.hyperlinks import use_hyperlinks
from flowdiag.cli.text.page import Page
from flowdiag.cli.text.words import nothing_to_diagnose, verdict_sentence


def check_destination(settings: Settings) -> None:
    """Check before the diagnosis that the report can be written in its format.

    Raises:
        FlowdiagError: the output is not writable, or a library is missing.
    """
    check_output(settings.output)
    check_format(settings.format)


def render_report(report: Report, settings: Settings) -> str:
    return render_with_faults(report, settings)[0]


def render_with_faults(report: Report, settings: Settings) -> tuple[str, list[Fault]]:
    """Return the rendered report, and the errors of its sections."""
    page = page_for(settings)
    return RENDERERS[settings.format](report, page), page.faults.found


def page_for(settings: Settings) -> Page:
    """Return the output options that the settings imply."""
    color = When.NEVER if settings.no_color else settings.color
    links = settings.hyperlinks
    page = replace(stdout_page(color, links), verbose=settings.verbose, zone=settings.show_tz)
    if settings.output not in (None, "-"):
        always = When.ALWAYS
        page = replace(page, color=color is always, hyperlinks=links is always, unicode=True)
    return page


def filter_findings(report: Report, settings: Settings) -> Report:
    """Hide findings below `--min-severity`; verdict and exit code still count them."""
    return without_less_severe(report, Severity(settings.min_severity.value))


def stdout_page(color: When = When.AUTO, links: When = When.AUTO) -> Page:
    """Return the output options for standard output."""
    return Page(
        width=terminal_width(sys.stdout),
        color=use_color(sys.stdout, color),
        unicode=supports_glyphs(sys.stdout),
        hyperlinks=use_hyperlinks(sys.stdout, links),
        folder=f"{os.getcwd()}/",
    )


def add_faults(report: Report, faults: Sequence[Fault]) -> Report:
    """Add the errors of rendering to the errors of a report."""
    return structs.replace(report, errors=[*report.errors, *faults]) if faults else report


def print_warnings(report: Report, known: Collection[str] = ()) -> set[str]:
    """Print the warnings and errors of a run to stderr, without the messages in `known`.

    Returns:
        All messages of the report, as `known` for the next round.
    """
    messages = [("warning", _with_source(note), note.hint) for note in report.warnings]
    messages += _errors(report.errors)
    if not report.summary.assessed and not report.errors:
        read = sum(item.kind != "not-read" for item in report.inputs)
        missing, remedy = nothing_to_diagnose(report)
        text = (
            f"{verdict_sentence(report)} in {plural(len(report.inputs), 'input')}, {read} read:"
            f" {missing}"
        )
        messages.append(("warning", text, remedy))
    for kind, text, hint in messages:
        if text not in known:
            print_message(kind, text, hint)
    return {text for _, text, _ in messages}


def print_faults(faults: Sequence[Fault]) -> None:
    for kind, text, hint in _errors(faults):
        print_message(kind, text, hint)


def _errors(faults: Sequence[Fault]) -> list[tuple[str, str, str | None]]:
    """Convert errors to (kind, message, hint). A hint that several errors share appears only once."""
    hints = [fault.hint for fault in faults]
    return [
        ("error", _with_source(fault), None if fault.hint in hints[:number] else fault.hint)
        for number, fault in enumerate(faults)
    ]


def _with_source(note: Note | Fault) -> str:
    return f"{note.source}: {note.message}" if note.source is not None else note.message
