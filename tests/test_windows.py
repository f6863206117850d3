"""Checks that any cut of any log yields a subset of the facts: no other culprit, no unproven
health, no false alarm.

Every run tests a few windows, `.ci/full` several hundred. `docs/accuracy.md` counts the outcomes of
the others.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from flowdiag.analyses.contract.report import Report
from flowdiag.analyses.diagnosis import inspect_inputs, measure, report_on
from flowdiag.analyses.inputs import find
from flowdiag.analyses.selection.options import Options
from flowdiag.analyses.topics import topic
from flowdiag.parsers.discover import discover
from flowdiag.parsers.rows import Event
from flowdiag.parsers.split import parse_split, plan_splits

from .windows import PASTES, Run, Window, complaints, draw, lines_of, runs, with_gap

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TOPICS: Final = {"flink": ("checkpoints", "queues", "startup", "memory"), "spark": ("rate",)}
BY_NAME: Final = {run.name: run for run in runs()}


def reports(window: Window, folder: Path, spark: SparkSession) -> list[Report]:
    """Return the reports of every applicable command on a window."""
    topics = tuple(topic(name) for name in TOPICS[window.run.engine])
    found = find(window.write(folder), strict=False, engine=window.run.engine)
    inspected = inspect_inputs(topics, found, Options())
    measured = measure(topics, inspected, lambda: spark)
    return [report_on((each,), inspected, measured) for each in topics]


# Windows that were once judged wrongly, each for another reason.
LESSONS: Final = (
    ("flink/2.3.0/savepoint-rescale", 0),  # two deployments, and no JobManager line in between
    ("flink/1.14.6/healthy", 1),  # one log ends while tasks start, another one continues
    ("flink/1.9.3/healthy", 1),  # the list of options begins in its middle
    ("flink/1.14.6/stop-with-savepoint", 4),  # the last line ends within the job's id
)


def _windows() -> list[Any]:
    shown = [pytest.param(draw(BY_NAME[name], n), id=f"{name} {n}") for name, n in LESSONS]
    for run in runs():
        for number in range(3):
            for how in (draw, with_gap):
                name = f"{how.__name__} {run.name} {number}"
                shown.append(pytest.param((how, run, number), id=name, marks=[pytest.mark.full]))
    return shown


@pytest.mark.spark
@pytest.mark.parametrize("window", _windows())
def test_a_window_never_contradicts_the_truth(
    window: Window | tuple[Callable[[Run, int], Window], Run, int],
    tmp_path: Path,
    spark: SparkSession,
) -> None:
    if not isinstance(
        window, Window
    ):  # drawn here, because drawing all windows unpacks all recordings
        how, run, number = window
        window = how(run, number)
    found = reports(window, tmp_path, spark)
    assert [each for report in found for each in complaints(window, report)] == [], str(window)


# --- what is read --------------------------------------------------------------------------------

# The identity of a record. Its text and its trace may be cut, its writer unknown.
IDENTITY: Final = (
    "event",
    "checkpoint",
    "job_id",
    "attempt_id",
    "task",
    "subtask_index",
    "taskmanager",
    "epoch_ms",
    "local_us",
    "to_state",
)
# Sums over several records: a window has fewer.
SUMS: Final = (Event.SPLIT, Event.METRIC, Event.KNOWN, Event.SPARK_TASKS)
# The identity of a trace without the line above it.
CUT_TRACES: Final = (Event.EXCEPTION, Event.FAILURE, Event.SPARK_QUERY)


def identities(path: Path) -> set[tuple[Any, ...]]:
    """Return the identity of each record of a file."""
    return {
        tuple(row[name] for name in IDENTITY)
        for task in plan_splits(discover([str(path)]).sources)
        for split in task
        for batch in parse_split(split)
        for row in batch.select(IDENTITY).to_pylist()
        if row["event"] not in SUMS
    }


@cache
def _whole(path: Path) -> set[tuple[Any, ...]]:
    return identities(path)


def _cuts() -> list[Any]:
    often = [run for run in runs() if "/2.3.0/" in run.name or "/4.3.0/" in run.name][::6]
    return [
        pytest.param(run, id=run.name, marks=() if run in often else [pytest.mark.full])
        for run in runs()
    ]


@pytest.mark.parametrize("run", _cuts())
def test_a_cut_log_contains_a_subset_of_the_records(run: Run, tmp_path: Path) -> None:
    """Check that each record of a cut log, also cut within a line, is a record of the full log."""
    path = next(path for path in run.logs if path.suffix == ".log")
    lines = lines_of(path)
    cut = tmp_path / path.name
    for number in range(6):
        dice = random.Random(f"{run.name} {number}")
        count = min(len(lines), dice.randint(1, 400))
        start = dice.randint(0, len(lines) - count)
        wrapping = dice.choice(["as it is", "cut in the first and the last line"])
        cut.write_text(PASTES[wrapping](lines[start : start + count]))
        for one in identities(cut) - _whole(path):
            if one[0] in CUT_TRACES:
                continue
            assert any(_are_compatible(one, other) for other in _whole(path)), (
                start,
                count,
                wrapping,
                one,
            )


def _are_compatible(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    """Return whether a record contradicts no field of the other; fields that were cut off count
    as unknown.
    """
    return all(mine is None or mine == theirs for mine, theirs in zip(one, other, strict=True))


CUT_LINES: Final = {
    # The build date is not the time of a line whose own time is cut off.
    "runtime.entrypoint.ClusterEntrypoint [] -  Starting StandaloneSessionClusterEntrypoint "
    "(Version: 1.14.6, Scala: 2.11, Rev:a921a4d, Date:2022-09-09T10:18:38+02:00)": {
        "event": "process_started",
        "local_us": None,
        "utc_us": None,
    },
    # Half a job ID names no job.
    "2026-11-21 00:20:15,456 INFO  org.apache.flink.runtime.checkpoint.CheckpointCoordinator [] - "
    "Triggering checkpoint 16 (type=CHECKPOINT) @ 1795220415454 for job ade5ec76d1": {
        "event": "checkpoint_triggered",
        "checkpoint": 16,
        "job_id": None,
    },
    # A truncated time is not a time.
    "2026-11-21 00:20:15,456 INFO  org.apache.flink.runtime.checkpoint.CheckpointCoordinator [] - "
    "Triggering checkpoint 16 @ 17952204": None,
}


@pytest.mark.parametrize(("line", "expected"), CUT_LINES.items(), ids=range(len(CUT_LINES)))
def test_cut_text_is_not_guessed(
    line: str, expected: dict[str, Any] | None, tmp_path: Path
) -> None:
    (tmp_path / "log").write_text(f"{line}\n")
    rows = [
        row
        for task in plan_splits(discover([str(tmp_path / "log")]).sources)
        for split in task
        for batch in parse_split(split)
        for row in batch.to_pylist()
        if row["event"] not in (Event.SPLIT, Event.MARKS)
    ]
    assert [{name: row[name] for name in expected or ()} for row in rows] == (
        [expected] if expected else []
    )
