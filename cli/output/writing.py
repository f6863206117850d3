"""From a report to the bytes that somebody reads. Imports nothing that diagnoses."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Sequence
from dataclasses import replace

from msgspec import structs

from flowdiag.analyses.model.finding import Severity
from flowdiag.analyses.model.fmt import plural
from flowdiag.analyses.report.wire import Fault, Note, Report, at_least
from flowdiag.cli.options.settings import Settings, When
from flowdiag.cli.output.console import (
    check_output,
    print_message,
    supports_glyphs,
    terminal_width,
    use_colour,
)
from flowdiag.cli.render import RENDERERS, check_format
from flowdiag.cli.render.page import Page
from flowdiag.cli.text.hyperlinks import use_hyperlinks
from flowdiag.cli.text.words import nothing_to_diagnose, verdict_sentence


def check_destination(settings: Settings) -> None:
    """Find out before the work whether its report can be written there, in that format.

    Raises:
        FlowdiagError: it cannot.
    """
    check_output(settings.output)
    check_format(settings.format)


def render_report(report: Report, settings: Settings) -> str:
    """The report in the wanted format, for the place where it goes."""
    return render_with_faults(report, settings)[0]


def render_with_faults(report: Report, settings: Settings) -> tuple[str, list[Fault]]:
    """The same, and what went wrong with sections of it."""
    page = page_for(settings)
    return RENDERERS[settings.format](report, page), page.faults.found


def page_for(settings: Settings) -> Page:
    """The place where the output of a command goes."""
    color = When.NEVER if settings.no_color else settings.color
    links = settings.hyperlinks
    page = replace(stdout_page(color, links), verbose=settings.verbose, zone=settings.show_tz)
    if settings.output not in (None, "-"):
        always = When.ALWAYS
        page = replace(page, colour=color is always, hyperlinks=links is always, unicode=True)
    return page


def filter_findings(report: Report, settings: Settings) -> Report:
    """The findings of a report that are to be shown; verdict and exit code are those of all."""
    return at_least(report, Severity(settings.min_severity.value))


def stdout_page(color: When = When.AUTO, links: When = When.AUTO) -> Page:
    """What standard output is."""
    return Page(
        width=terminal_width(sys.stdout),
        colour=use_colour(sys.stdout, color),
        unicode=supports_glyphs(sys.stdout),
        hyperlinks=use_hyperlinks(sys.stdout, links),
        folder=f"{os.getcwd()}/",
    )


def add_faults(report: Report, faults: Sequence[Fault]) -> Report:
    """A report that tells of what went wrong with showing it as well."""
    return structs.replace(report, errors=[*report.errors, *faults]) if faults else report


def print_warnings(report: Report, known: Collection[str] = ()) -> set[str]:
    """Warnings and errors of the run, on stderr, where every format leaves room for them.

    Args:
        report: of the run.
        known: what was told already.

    Returns:
        What it has to tell, for the next time.
    """
    told = [("warning", _with_source(note), note.hint) for note in report.warnings]
    told += _errors(report.errors)
    if not report.summary.assessed and not report.errors:
        read = sum(item.kind != "not-read" for item in report.inputs)
        lacking, remedy = nothing_to_diagnose(report)
        text = (
            f"{verdict_sentence(report)}: {plural(len(report.inputs), 'input')}, {read} read, and"
            f" {lacking}"
        )
        told.append(("warning", text, remedy))
    for kind, text, hint in told:
        if text not in known:
            print_message(kind, text, hint)
    return {text for _, text, _ in told}


def print_faults(faults: Sequence[Fault]) -> None:
    """Faults of the run, on stderr."""
    for kind, text, hint in _errors(faults):
        print_message(kind, text, hint)


def _errors(faults: Sequence[Fault]) -> list[tuple[str, str, str | None]]:
    """Faults as lines; what helps is said once."""
    hints = [fault.hint for fault in faults]
    return [
        ("error", _with_source(fault), None if fault.hint in hints[:number] else fault.hint)
        for number, fault in enumerate(faults)
    ]


def _with_source(note: Note | Fault) -> str:
    return f"{note.source}: {note.message}" if note.source is not None else note.message
