"""Compares the diagnoses of jobs with much state with the faults that the recorder injected."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flowdiag.analyses.contract.report import Report

from .archives import unpacked
from .measured import Recorded

pytestmark = pytest.mark.spark

ROOT = Path(__file__).parents[1] / "fixtures" / "recordings" / "state"
TOPICS = ("checkpoints", "queues", "memory")
# Logs have the sizes of whole checkpoints. Only REST and the archive have those of each task.
WITHOUT_TASK_IN_LOGS = ("state-fills-heap",)
# Flink's logs end with the process. Only the kernel reports why.
LESS_PRECISE_IN_LOGS = {"out-of-memory": "taskmanager-lost"}
# The logs of these are for `.ci/full`, too.
SLOW = ("small-files", "never-compacted")
# Logs have one value per minute, and four values show no trend.
SHORT = ("ignored-ttl",)
ALL = sorted(path.parent for path in ROOT.glob("*/*/truth.json"))


def _cases(*parts: str) -> list[Any]:
    """Return the recordings as parameters; every run tests the logs of most, `.ci/full` the rest."""
    return [
        pytest.param(
            folder,
            parts,
            id=f"{folder.parent.name}-{folder.name}-{'-'.join(parts) or 'all'}",
            marks=[] if parts == ("logs",) and folder.name not in SLOW else [pytest.mark.full],
        )
        for folder in ALL
        if not (parts and folder.name in SHORT)
    ]


@pytest.fixture(scope="module")
def reports(recorded: Callable[..., Recorded]) -> Callable[..., list[Report]]:
    """Return the reports of all topics about a recording, or about parts of it."""

    def of(folder: Path, *parts: str) -> list[Report]:
        files = unpacked(folder)
        found = recorded(*([files / part for part in parts] or [files]), topics=TOPICS)
        return [found.report(name) for name in TOPICS]

    return of


def check(expected: dict[str, Any], found: list[Report], *, only_logs: bool) -> None:
    """Compare the first culprit of the first story with the truth; a healthy job has no serious finding."""
    serious = [
        f"{finding.code} {finding.title}"
        for report in found
        for finding in report.findings
        if finding.severity != "info"
    ]
    if expected["cause"] is None:
        assert serious == []
        return
    culprits = [culprit for report in found for culprit in report.summary.culprits]
    cause = LESS_PRECISE_IN_LOGS.get(expected["cause"]) if only_logs else None
    assert (cause or expected["cause"]) in {culprit.cause for culprit in culprits}, serious
    if expected["culprit"] and expected["culprit"]["task"]:
        tasks = {c.subject.task for c in culprits if c.cause == expected["cause"]}
        unknown = only_logs and expected["cause"] in WITHOUT_TASK_IN_LOGS
        assert tasks == {None if unknown else expected["culprit"]["task"]}


@pytest.mark.parametrize(("folder", "parts"), [*_cases(), *_cases("logs")])
def test_cause_and_culprit(
    folder: Path, parts: tuple[str, ...], reports: Callable[..., list[Report]]
) -> None:
    expected = json.loads((folder / "truth.json").read_text())["expected"]
    check(expected, reports(folder, *parts), only_logs=parts == ("logs",))
