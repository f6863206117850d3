"""Runs `flowdiag baseline`: creates or updates a file of known findings."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import date, timedelta

from flowdiag.cli.exit_codes import ExitCode
from flowdiag.cli.settings import MinSeverity
from flowdiag.parsers.errors import FlowdiagError


def write(
    reports: Sequence[str],
    output: str,
    reason: str | None,
    until: str | None,
    least: MinSeverity | None,
) -> ExitCode:
    """Write the baseline and print its changes.

    Args:
        reports: paths of reports.
        output: path of the baseline.
        reason, until: for new entries.
        least: lowest severity of new entries (default: warning).

    Raises:
        FlowdiagError: a file cannot be read or written, or new entries lack a reason or a date.
    """
    from flowdiag.analyses.comparison.baseline import add_findings, text_of
    from flowdiag.analyses.model.finding import Severity
    from flowdiag.analyses.model.fmt import plural
    from flowdiag.cli.output.console import check_output, print_message, write_report
    from flowdiag.cli.output.saved import read_report

    if output == "-":
        raise FlowdiagError("a baseline needs an output file", hint="-o known.toml")
    check_output(output)
    if reason is not None and not reason.strip():
        raise FlowdiagError(
            "--reason is empty", hint="give the reason for accepting these findings"
        )
    today = date.today()
    found = add_findings(
        text_of(output) if os.path.exists(output) else "",
        output,
        [read_report(path) for path in reports],
        least=Severity((least or MinSeverity.WARNING).value),
        reason=reason,
        until=day_of(until, today) if until is not None else None,
        today=today,
    )
    if found.added or found.accepted:
        write_report(found.text, output)
    print_message(
        "note",
        f"{output}: {plural(len(found.added), 'finding')} added, {len(found.accepted)} renewed",
    )
    for fingerprint in found.unseen:
        print_message("note", f"{output}: {fingerprint} no longer occurs; remove it")
    return ExitCode.CLEAR


def day_of(text: str, today: date) -> date:
    """Parse a date, or a number of days from today, such as `30d`.

    Raises:
        FlowdiagError: the text is not a date, or the date has passed.

    >>> day_of("30d", date(2027, 1, 1)), day_of("2027-01-31", date(2027, 1, 1))
    (datetime.date(2027, 1, 31), datetime.date(2027, 1, 31))
    """
    number = text.strip().removesuffix("d")
    try:
        if number.isdecimal() and number != text.strip():
            day = today + timedelta(days=int(number))
        else:
            day = date.fromisoformat(text.strip())
    except (ValueError, OverflowError):
        raise FlowdiagError(
            f"--until is '{text}', which is not a date", hint="write 2027-01-31, or 30d"
        ) from None
    if day < today:
        raise FlowdiagError(f"--until {day} is in the past")
    return day
