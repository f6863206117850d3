"""What failed tasks and jobs say of why."""

from __future__ import annotations

from typing import Final

from flowdiag.analyses.flink.job import Incident

_FAILURES: Final = ("task-failure", "job-failing", "job-failure")


def failure_text(incident: Incident) -> str | None:
    """The causes of a failed task or job, deepest first; None for what is no failure."""
    if incident.kind not in _FAILURES:
        return None
    return joined(incident.cause, incident.text.get("exception"))


def joined(*texts: str | None) -> str:
    """Texts below each other, without those that are not there."""
    return "\n".join(filter(None, texts))
