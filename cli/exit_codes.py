"""What the exit code says, in one place for the code, the help and the README."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from flowdiag.analyses.report.wire import Report
    from flowdiag.cli.settings import Settings


class ExitCode(IntEnum):
    """See `MEANINGS`."""

    CLEAR = 0
    FOUND = 1
    USAGE = 2
    NOT_ASSESSED = 3
    BUG = 4
    INTERRUPTED = 130
    TERMINATED = 143


MEANINGS: Final = {
    ExitCode.CLEAR: "assessed, and nothing found at or above `--fail-on`",
    ExitCode.FOUND: "findings at or above `--fail-on` (default: warning)",
    ExitCode.USAGE: "wrong usage or configuration, no input can be read, or no room or memory",
    ExitCode.NOT_ASSESSED: "nothing to diagnose, or inconclusive: not assessed is never healthy",
    ExitCode.BUG: "a bug in flowdiag; please report it",
    ExitCode.INTERRUPTED: "interrupted (Ctrl-C)",
    ExitCode.TERMINATED: "ended by SIGTERM",
}


def exit_code(report: Report, settings: Settings) -> ExitCode:
    """The exit code of a report.

    Findings come first: what was found stays found, however much else could not be assessed. Where a fault of ours
    kept anything from being assessed it is never 0.
    """
    threshold = settings.fail_on.severity
    if threshold is not None and any(
        finding.severity.weight >= threshold.weight for finding in report.findings
    ):
        return ExitCode.FOUND
    if not report.summary.assessed or any(error.bug for error in report.errors):
        return ExitCode.NOT_ASSESSED
    if report.summary.verdict == "inconclusive" and not settings.allow_inconclusive:
        return ExitCode.NOT_ASSESSED
    return ExitCode.CLEAR
