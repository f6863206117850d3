"""Finds the muted findings of a report. Imports nothing, because exit codes need it before any diagnosis."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flowdiag.analyses.contract.report import Report


def muted_fingerprints(report: Report) -> frozenset[str]:
    """Return the fingerprints of findings that count for the verdict but not for the exit code."""
    baseline = report.summary.baseline
    if baseline is None:
        return frozenset()
    return frozenset(each.fingerprint for each in baseline.entries if each.status == "muted")
