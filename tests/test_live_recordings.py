"""Judges recordings of `flowdiag collect` next to running jobs: the same minute gives the same verdict.

Each recording is judged whole, and as a collection with fewer ticks that ends at the same time.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from flowdiag.analyses.contract.report import Report
from flowdiag.analyses.diagnosis import diagnose
from flowdiag.analyses.selection.options import Options
from flowdiag.analyses.topics import topic
from flowdiag.parsers.discover import discover

from .archives import unpacked

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
ROOT = Path(__file__).parents[1] / "fixtures" / "recordings" / "live"
ALL = sorted(path.parent for path in ROOT.glob("*/*/truth.json"))
TOPICS = ("checkpoints", "queues", "memory")
TICKS = (3, 4, 5, 7)
# In 20 s without progress, the verdict is less certain, and the report contains the reason.
LESS_CERTAIN = {
    # The watermark has a value, and a source that reads in bursts has no later one for as long.
    ("2.3.0/event-time-stops", 3): ("inconclusive", None, "at most 3 samples"),
    # Only two of the three responses contain metrics, and both may be from one refresh of the JobManager.
    ("2.3.0/code-hanging-socket", 3): ("degraded", "task-hangs", None),
    # A source is paused for good only if it reads nothing for longer than its alignment takes.
    ("1.20.5/paused-source", 3): ("inconclusive", None, "at most 3 samples"),
    ("2.3.0/paused-source", 3): ("inconclusive", None, "at most 3 samples"),
    # No record moves while a Python process works on a bundle, here for up to 40 s. Only some ticks have a thread dump.
    ("2.1.1/code-python-computes", 4): ("failing", "slow-operator", None),
    ("2.1.1/code-python-computes", 5): ("failing", "python-worker-bound", None),
    ("2.1.1/code-python-sleeps", 3): ("failing", "slow-operator", None),
}
FEW = 4
"""The number of ticks that every run tests on half of its recordings, in addition to all ticks."""
# Requested in every tick. All other responses are only stored if they change.
_EACH_TIME = ("/metrics", "/thread-dump", "/backpressure")


def _cases() -> Iterator[Any]:
    for number, folder in enumerate(ALL):
        for ticks in (None, *TICKS):
            name = f"{folder.parent.name}/{folder.name}-{ticks or 'all'}"
            always_run = ticks is None or (ticks == FEW and number % 2 == 1)
            marks = [] if always_run else [pytest.mark.full]
            yield pytest.param(folder, ticks, id=name, marks=marks)


def last_ticks(collected: Path, number: int, target: Path) -> Path:
    """Write the last ticks of a collection as a collection that begins with them."""
    ticks = sorted(collected.glob("tick-*"))
    before, kept = ticks[:-number], ticks[-number:]
    known: dict[str, dict[str, Any]] = {}
    plans: dict[str, Any] = {}  # only the first tick of a collection contains them
    for path in before:
        for answer in json.loads(path.read_bytes())["answers"]:
            if not any(part in answer["path"] for part in _EACH_TIME):
                known[answer["path"]] = answer
            if "plan" in answer["body"]:
                plans[answer["path"]] = answer["body"]["plan"]
    for path in kept:
        tick = json.loads(path.read_bytes())
        for answer in tick["answers"]:
            if answer["path"] in plans:
                answer["body"]["plan"] = plans.pop(answer["path"])
        paths = {answer["path"] for answer in tick["answers"]}
        unchanged = [a | {"time_ms": tick["time_ms"]} for p, a in known.items() if p not in paths]
        (target / path.name).write_text(json.dumps(tick | {"answers": unchanged + tick["answers"]}))
        known.clear()
    return target


@pytest.mark.parametrize(("recording", "ticks"), [*_cases()])
def test_verdict_cause_and_culprit(
    recording: Path, ticks: int | None, spark: SparkSession, tmp_path: Path
) -> None:
    files = unpacked(recording)
    folder = (
        files / "collected" if ticks is None else last_ticks(files / "collected", ticks, tmp_path)
    )
    paths = [str(folder), *([str(files / "logs")] if ticks is None else [])]
    report = diagnose(
        tuple(map(topic, TOPICS)),
        discover(paths),
        lambda: spark,
        Options(named=tuple(paths), everything=True),
    )
    expected = json.loads((recording / "truth.json").read_text())["expected"]
    if ticks is not None and expected["verdict"] == "healthy":
        # A few samples prove no health, and nothing is wrong.
        assert report.summary.verdict in ("healthy", "inconclusive") and not report.findings
        return
    if less := LESS_CERTAIN.get((f"{recording.parent.name}/{recording.name}", ticks or 0)):
        verdict, cause, reason = less
        assert (report.summary.verdict, report.summary.cause) == (verdict, cause)
        unknown = [rule.reason or "" for rule in report.rules if rule.status == "inconclusive"]
        assert reason is None or any(reason in text for text in unknown)
        return
    check(report, expected)
    if ticks is None and "reading" in expected:
        check_reading(report, expected["reading"])


def in_the_layout_of(version: str, body: Any) -> Any:
    """Convert a response of Flink 2.3 to the layout of an older version: other hosts, no newer fields."""
    newer = {"assigned-resource-profile", "statistics"}
    if version < "1.16":
        newer |= {f"accumulated-{what}-time" for what in ("busy", "idle", "backpressured")}
        newer |= {"status-duration", "other-concurrent-attempts"}
    if isinstance(body, dict):
        return {
            "host" if key == "endpoint" else key: in_the_layout_of(version, value)
            for key, value in body.items()
            if key not in newer
        }
    return [in_the_layout_of(version, item) for item in body] if isinstance(body, list) else body


@pytest.mark.parametrize("version", ["1.13.6", pytest.param("1.17.2", marks=pytest.mark.full)])
def test_a_hang_in_responses_of_older_versions(
    version: str, spark: SparkSession, tmp_path: Path
) -> None:
    recording = ROOT / "2.3.0" / "hang"
    for path in (unpacked(recording) / "collected").glob("tick-*"):
        tick = json.loads(path.read_text().replace("2.3.0", version))
        answers = in_the_layout_of(version, tick["answers"])
        (tmp_path / path.name).write_text(json.dumps(tick | {"answers": answers}))
    report = diagnose(
        tuple(map(topic, TOPICS)),
        discover([str(tmp_path)]),
        lambda: spark,
        Options(named=(str(tmp_path),), everything=True),
    )
    expected = json.loads((recording / "truth.json").read_text())["expected"]
    expected["culprit"].pop("host")  # the layout names it in another way
    check(report, expected)


def test_metrics_that_end_before_the_job_are_reported(spark: SparkSession, tmp_path: Path) -> None:
    """A JobManager that has lost a TaskManager may not refresh its metrics for minutes (1.17 and later)."""
    ticks = sorted((unpacked(ROOT / "2.3.0" / "drops-all") / "collected").glob("tick-*"))
    for number, path in enumerate(ticks):
        tick = json.loads(path.read_bytes())
        known = [a for a in tick["answers"] if number < 3 or "/metrics" not in a["path"]]
        (tmp_path / path.name).write_text(json.dumps(tick | {"answers": known}))
    report = diagnose(
        tuple(map(topic, TOPICS)),
        discover([str(tmp_path)]),
        lambda: spark,
        Options(named=(str(tmp_path),), everything=True),
    )
    assert [note.message for note in report.warnings if "no metrics after" in note.message]


def check_reading(report: Report, reading: dict[str, str]) -> None:
    """Compare the line of code in the report with the fault that the job injects."""
    found = [finding for finding in report.findings if finding.code == "BP107"]
    assert [finding.cause for finding in found] == [reading["cause"]]
    assert reading["method"] in (found[0].why or "")
    assert reading["method"] in report.summary.culprits[0].why


def check(report: Report, expected: dict[str, Any]) -> None:
    summary, cause = report.summary, expected["cause"]
    hangs = cause == "task-hangs"  # which metrics show, too
    if "reading" in expected and not hangs and all(f.code != "BP107" for f in report.findings):
        cause = "slow-operator"  # the last ticks may contain no thread dump
    elif cause == "slow-operator":
        found = [finding.cause for finding in report.findings if finding.code == "BP107"]
        # The recorded job sleeps instead of working, and thread dumps show that.
        assert set(found) <= {"sleeping-in-operator"}
        cause = next(iter(found), cause)
    assert (summary.verdict, summary.cause) == (expected["verdict"], cause)
    if expected["culprit"] is not None:
        first = summary.culprits[0].subject
        named = {key: getattr(first, key) for key in expected["culprit"]}
        assert named == expected["culprit"]
    if expected["verdict"] == "healthy":
        assert [(found.code, found.title) for found in report.findings] == []
