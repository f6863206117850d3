"""What the exit code says, in one place for the code, the help and the README."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Final

from flowdiag.analyses.report.muting import muted

if TYPE_CHECKING:
    from flowdiag.analyses.report.wire import Report
    from flowdiag.cli.options.settings import Settings


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

OF_A_COMPARISON: Final = {
    **MEANINGS,
    ExitCode.CLEAR: "compared, and nothing that `--fail-on` names",
    ExitCode.FOUND: "a regression, or what `--fail-on` names (default: regression)",
    ExitCode.NOT_ASSESSED: "a side, or what was found there, was not assessed on the other one",
}


def exit_code(report: Report, settings: Settings) -> ExitCode:
    """The exit code of a report.

    Findings come first: what was found stays found, however much else could not be assessed. Where a fault of ours
    kept anything from being assessed it is never 0. What a baseline mutes counts for the verdict only; then the
    rest must have been assessed.
    """
    threshold = settings.fail_on.severity
    quiet = muted(report)
    if threshold is not None and any(
        finding.severity.weight >= threshold.weight and finding.fingerprint not in quiet
        for finding in report.findings
    ):
        return ExitCode.FOUND
    summary = report.summary
    if not summary.assessed or any(error.bug for error in report.errors):
        return ExitCode.NOT_ASSESSED
    heard = any(
        finding.severity != "info" and finding.fingerprint not in quiet
        for finding in report.findings
    )
    untold = bool(quiet) and not heard and summary.not_assessed is not None
    if (summary.verdict == "inconclusive" or untold) and not settings.allow_inconclusive:
        return ExitCode.NOT_ASSESSED
    return ExitCode.CLEAR
