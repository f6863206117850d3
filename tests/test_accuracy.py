"""Checks that any subset of the files leads to the right culprit or none, never to a confident
wrong one.

Several hundred diagnoses take a quarter of an hour, so only `.ci/full` runs them.
`docs/accuracy.md` contains the same numbers as a table.
"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from benchmarks import live
from benchmarks.accuracy import LIVE, PARTS_OF_THE_TIME, TOPICS, section
from benchmarks.accuracy import outcome as outcome_of_part

from .recordings import VARIANTS, Recording, outcome, recordings
from .windows import Run, Window, part_of_some_logs, part_of_the_time, runs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = Path(__file__).parents[1] / "docs" / "accuracy.md"


@pytest.mark.full
@pytest.mark.spark
@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.parametrize("recording", recordings(), ids=lambda r: r.name)
def test_no_wrong_culprit_at_high_confidence(
    recording: Recording, name: str, spark: SparkSession
) -> None:
    grade = outcome(recording, name, spark)
    if grade is None:
        pytest.skip("cannot be varied like this")
    assert grade not in ("wrong", "wrong (high)")
    if name == "everything":
        assert grade == "right"


@pytest.mark.full
@pytest.mark.spark
@pytest.mark.parametrize("name", PARTS_OF_THE_TIME)
@pytest.mark.parametrize(
    "run",
    [run for run in runs() if run.name.partition("/")[0] in TOPICS],
    ids=lambda run: run.name,
)
def test_shorter_and_fewer_logs_only_lower_the_confidence(
    run: Run, name: str, spark: SparkSession
) -> None:
    grade = outcome_of_part(run, name, spark)
    if grade is None:
        pytest.skip("no line with a time lies in it")
    assert grade not in ("wrong (medium)", "wrong (high)")


@pytest.mark.parametrize("name", ["flink/1.20.5/hot-key", "spark/4.3.0/overloaded"])
def test_halves_and_thirds_contain_every_line(name: str) -> None:
    run = next(run for run in runs() if run.name == name)
    whole = lines(part_of_the_time(run, 0, 1))
    for parts in (2, 3):
        cut = [part_of_the_time(run, n / parts, (n + 1) / parts) for n in range(parts)]
        assert set().union(*map(lines, cut)) == whole
        assert all(0 < len(lines(part)) < len(whole) for part in cut)
    some = part_of_some_logs(run, 0)
    assert some == part_of_some_logs(run, 0)
    assert lines(some) < whole


def lines(window: Window) -> set[tuple[str, int]]:
    """Return each line of a window as file and number."""
    return {(part.path.name, part.start + n) for part in window.parts for n in range(part.count)}


def test_the_page_lists_every_recording() -> None:
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    assert {run.name for run in runs()} <= {row.split("|")[1].strip() for row in rows}


_FAULT = {"verdict": "failing", "cause": "task-hangs", "culprit": {"task": "enrich"}}
_SUBJECT = SimpleNamespace(task="enrich", host=None)


@pytest.mark.parametrize(
    ("expected", "verdict", "first", "word"),
    [
        (_FAULT, "failing", ("task-hangs", _SUBJECT), "right"),
        (_FAULT, "failing", ("task-hangs", SimpleNamespace(task="sink")), "wrong"),
        (_FAULT, "failing", ("overloaded", _SUBJECT), "less precise"),
        (_FAULT, "failing", ("data-skew", _SUBJECT), "wrong"),
        (_FAULT, "healthy", None, "called healthy"),
        (_FAULT, "inconclusive", None, "inconclusive"),
        ({"cause": None}, "healthy", None, "right"),
        ({"cause": None}, "degraded", ("overloaded", _SUBJECT), "wrong"),
    ],
)
def test_answers_on_live_jobs_are_graded_by_cause_and_culprit(
    expected: dict[str, Any], verdict: str, first: tuple[str, Any] | None, word: str
) -> None:
    assert live.grade(expected, verdict, first, "overloaded") == word


def test_the_section_of_live_jobs_ends_before_the_next() -> None:
    page = f"# A\n\n## B\n\n{LIVE}\n\n| **live** | 1 |\n\n## C\n"
    assert section(page, LIVE) == f"{LIVE}\n\n| **live** | 1 |\n\n"
    assert section("# A\n", LIVE) == ""
