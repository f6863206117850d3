"""Exit codes and their meanings, for the code, the help and the README."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Final

from flowdiag.analyses.report.muting import muted_fingerprints

if TYPE_CHECKING:
    from flowdiag.analyses.contract.report import Report
    from flowdiag.cli.settings import Settings


class ExitCode(IntEnum):
    CLEAR = 0
    FOUND = 1
    USAGE = 2
    NOT_ASSESSED = 3
    BUG = 4
    INTERRUPTED = 130
    TERMINATED = 143


MEANINGS: Final = {
    ExitCode.CLEAR: "assessed, no findings at or above `--fail-on`",
    ExitCode.FOUND: "findings at or above `--fail-on` (default: warning)",
    ExitCode.USAGE: "usage or configuration error, no readable input, or out of disk space or memory",
    ExitCode.NOT_ASSESSED: "nothing to diagnose, or inconclusive",
    ExitCode.BUG: "a bug in flowdiag; please report it",
    ExitCode.INTERRUPTED: "interrupted (Ctrl-C)",
    ExitCode.TERMINATED: "ended by SIGTERM",
}

_SHORT: Final = "2 usage, input or resources; 3 inconclusive; 4 bug; 130, 143 interrupted"
SHORT_MEANINGS: Final = f"0 no findings; 1 findings; {_SHORT}"
SHORT_MEANINGS_OF_COMPARISON: Final = f"0 no regression; 1 regression; {_SHORT}"


def exit_code(report: Report, settings: Settings) -> ExitCode:
    """Return the exit code of a report.

    Findings count first, even if other parts were not assessed. A bug that prevented an assessment never leads to 0.
    Muted findings count for the verdict only; the exit code is then 0 only if everything else was assessed.
    """
    threshold = settings.fail_on.severity
    muted_findings = muted_fingerprints(report)
    heard = [f for f in report.findings if f.fingerprint not in muted_findings]
    if threshold is not None and any(f.severity.weight >= threshold.weight for f in heard):
        return ExitCode.FOUND
    summary = report.summary
    if not summary.assessed or any(error.bug for error in report.errors):
        return ExitCode.NOT_ASSESSED
    all_muted = bool(muted_findings) and all(f.severity == "info" for f in heard)
    unassessed = all_muted and summary.not_assessed is not None
    if (summary.verdict == "inconclusive" or unassessed) and not settings.allow_inconclusive:
        return ExitCode.NOT_ASSESSED
    return ExitCode.CLEAR
