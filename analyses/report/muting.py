"""What a baseline mutes in a report. Imports nothing: exit codes need it before anything is diagnosed."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flowdiag.analyses.report.wire import Report


def muted(report: Report) -> frozenset[str]:
    """The fingerprints of findings that count for the verdict only, not for the exit code."""
    baseline = report.summary.baseline
    if baseline is None:
        return frozenset()
    return frozenset(one.fingerprint for one in baseline.entries if one.status == "muted")
