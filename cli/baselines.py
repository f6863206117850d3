"""What `flowdiag baseline` does: a file of known findings, written or brought up to date."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import date, timedelta

from flowdiag.cli.exit_codes import ExitCode
from flowdiag.cli.options.settings import MinSeverity
from flowdiag.parsers.errors import FlowdiagError


def write(
    reports: Sequence[str],
    output: str,
    reason: str | None,
    until: str | None,
    least: MinSeverity | None,
) -> ExitCode:
    """Write the baseline, and say what is in it that was not.

    Args:
        reports: paths of reports.
        output: the baseline.
        reason, until: of what is added.
        least: severity from which on findings are added; None: warning.

    Raises:
        FlowdiagError: a report or the baseline cannot be read, or written, or something is missing.
    """
    from flowdiag.analyses.comparison.baseline import text_of, updated
    from flowdiag.analyses.model.finding import Severity
    from flowdiag.analyses.model.fmt import plural
    from flowdiag.cli.output.console import check_output, print_message, write_report
    from flowdiag.cli.output.saved import read_report

    if output == "-":
        raise FlowdiagError("a baseline is a file", hint="-o known.toml")
    check_output(output)
    if reason is not None and not reason.strip():
        raise FlowdiagError("--reason is empty", hint="say why it stays as it is")
    today = date.today()
    found = updated(
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
        f"{output}: {plural(len(found.added), 'finding')} added, {len(found.accepted)} muted anew",
    )
    for fingerprint in found.unseen:
        print_message("note", f"{output}: {fingerprint} is no longer seen: remove it")
    return ExitCode.CLEAR


def day_of(text: str, today: date) -> date:
    """The last day on which something is muted.

    Args:
        text: a day, or so long from today.
        today: from which it is counted.

    Raises:
        FlowdiagError: it is none, or past.

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
            f"--until is '{text}', which is no day", hint="write 2027-01-31, or 30d"
        ) from None
    if day < today:
        raise FlowdiagError(f"--until is {day}, which is past")
    return day
