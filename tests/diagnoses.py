"""Compares the result of `flowdiag diagnose` on a recording with the recording's truth."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from flowdiag.analyses.contract.encoding import encode
from flowdiag.analyses.contract.report import Report
from flowdiag.analyses.diagnosis import diagnose
from flowdiag.analyses.inputs import inputs_of
from flowdiag.analyses.selection.options import Options
from flowdiag.analyses.topic_names import EVERYTHING, names_of
from flowdiag.analyses.topics import topic

from .recordings import culprits_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ORDER: Final = ("right", "inconclusive", "silent", "wrong (low)", "wrong (medium)", "wrong (high)")
"""From the best answer to the worst."""

# Equivalent causes under other names, seen from another side.
_ALIKE: Final = ({"taskmanager-lost", "process-paused"},)


def truth_of(folder: Path) -> dict[str, Any]:
    """Return the truth of a recording; empty if it expects nothing."""
    truth: dict[str, Any] = json.loads((folder / "truth.json").read_text())
    return truth if "expected" in truth or "jobs" in truth else {}


def grade_report(truth: Mapping[str, Any], report: Report) -> str:
    """Grade the first incident of a report with a word from `ORDER`.

    An incident is right if it has the true cause and its culprit does not contradict the truth.
    Without a cause it is inconclusive. A healthy job has no incident.

    Args:
        truth: the content of `truth.json`.
    """
    expected = [
        job["expected"] | {"culprits": culprits_of(job)} for job in truth.get("jobs", [truth])
    ]
    faulty = [each for each in expected if each["cause"]]
    first = report.summary.stories[0] if report.summary.stories else None
    if not faulty:
        settings = all(story.cause is None for story in report.summary.stories)
        if first is None or settings:
            return "right" if report.summary.verdict in ("healthy", "degraded") else "inconclusive"
        return f"wrong ({first.confidence})"
    if first is None:
        return "silent"
    if first.cause is None:
        return "inconclusive"
    if any(_agrees(each, first) for each in faulty):
        return "right"
    return f"wrong ({first.confidence})"


def _agrees(expected: Mapping[str, Any], story: Any) -> bool:
    cause = expected["cause"]
    alike = next((words for words in _ALIKE if cause in words), {cause})
    if story.cause not in alike:
        return False
    return any(
        all(
            value is None or getattr(story.subject, name) in (None, value)
            for name, value in culprit.items()
            if name != "kind"
        )
        for culprit in expected["culprits"] or [{}]
    )


def diagnosed(spark: SparkSession, *paths: Path) -> dict[str, Any]:
    """Return what `flowdiag diagnose PATH… --format json` prints, without a process and a JVM of its own."""
    inputs, engines = inputs_of(EVERYTHING, [str(path) for path in paths], strict=False)
    topics = tuple(map(topic, names_of(EVERYTHING, engines)))
    found = diagnose(topics, inputs, lambda: spark, Options(everything=True))
    report: dict[str, Any] = json.loads(encode(found))
    return report
