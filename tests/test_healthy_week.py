"""Checks that a week of a healthy cluster, and every normal event alone, yield no finding."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from fixtures.healthy_week import EVENTS, Cluster, event, week
from flowdiag.analyses.checkpoints.rules import RULES as CHECKPOINT_RULES
from flowdiag.analyses.checkpoints.topic import CHECKPOINTS
from flowdiag.analyses.contract.report import Report
from flowdiag.analyses.diagnosis import diagnose
from flowdiag.analyses.model.finding import Severity, Status, Verdict
from flowdiag.parsers.discover import discover

from .archives import unpacked
from .recordings import RECORDINGS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CORE = {rule.code for rule in CHECKPOINT_RULES if rule.core}
RECORDED = ("healthy", "savepoint-rescale", "stop-with-savepoint", "bounded-sources")
_VARIABLE = re.compile(
    r"(?<![0-9a-f])(?:[0-9a-f]{32}|[0-9a-f]{12}|[0-9a-f]{6})(?![0-9a-f])|\d+(?:\.\d+)*"
)

# Not in the recorded clusters: high availability, submission from a
# retained checkpoint, a signal, a second job name.
NOT_RECORDED = re.compile(
    r"Recovering checkpoints from |Found \d+ checkpoints in |Trying to (?:fetch|retrieve) "
    r"|RECEIVED SIGNAL|RUNNING to SUSPENDED|terminal state SUSPENDED|FlinkException: Scheduler is "
    r"|SchedulerBase\.closeAsync|Restoring job \w+ from Checkpoint|/chk-\d+|backfill"
    r"|request time in queue|suspending|CheckpointCoordinator.*\.java|ExecutionGraph.*\.java"
    r"|Failed to trigger or complete"
)


def shape(line: str) -> str:
    return re.sub(r"#(?: #)*", "#", _VARIABLE.sub("#", line)).rstrip()


@pytest.fixture(scope="module")
def recorded_shapes() -> set[str]:
    return {
        shape(line)
        for scenario in RECORDED
        for path in (unpacked(RECORDINGS / "1.20.5" / scenario) / "logs").glob("*jobmanager*")
        for line in path.read_text().splitlines()
    }


def lines_of(cluster: Cluster, folder: Path) -> list[str]:
    return [line for path in cluster.write(folder) for line in path.read_text().splitlines()]


@pytest.mark.parametrize("name", EVENTS)
def test_lines_match_recorded_lines(name: str, tmp_path: Path, recorded_shapes: set[str]) -> None:
    unheard_of = {
        shape(line)
        for line in lines_of(event(name), tmp_path)
        if shape(line) not in recorded_shapes and not NOT_RECORDED.search(line)
    }
    assert unheard_of == set()


def test_the_same_seed_gives_the_same_bytes(tmp_path: Path) -> None:
    one, same, other = (
        lines_of(week(seed, days=0.1), tmp_path / str(number))
        for number, seed in enumerate((1, 1, 2))
    )
    assert one == same != other


def test_records_are_in_order(tmp_path: Path) -> None:
    for path in week(days=0.2).write(tmp_path):
        stamps = re.findall(r"(?m)^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}", path.read_text())
        assert stamps == sorted(stamps)


def healthy(report: Report) -> None:
    assert [
        (finding.code, finding.title)
        for finding in report.findings
        if finding.severity is not Severity.INFO
    ] == []
    assert [
        (rule.code, rule.reason)
        for rule in report.rules
        if rule.code in CORE and rule.status is Status.INCONCLUSIVE
    ] == []
    assert (report.summary.verdict, report.summary.assessed) == (Verdict.HEALTHY, True)
    assert [item.samples for item in report.inputs if item.samples] == []


@pytest.mark.spark
def test_a_week(spark: SparkSession, tmp_path: Path) -> None:
    made = week()
    assert 18_000 < sum(len(job.completed) for job in made.jobs) < 22_000
    made.write(tmp_path)
    report = diagnose((CHECKPOINTS,), discover([str(tmp_path / "logs")]), lambda: spark)
    healthy(report)
    by_id = {job.job_id: job for job in report.data.jobs or ()}
    assert set(by_id) == {job.job_id for job in made.jobs}
    for job in made.jobs:
        found = by_id[job.job_id]
        assert (found.verdict, found.culprits, found.flink_version) == ("healthy", [], "1.20.5")
        assert found.counts["completed"] == len(job.completed)
        assert sum(found.counts.values()) == len(job.triggered)


@pytest.fixture(scope="module")
def small_logs(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Report:
    """Write each event to a separate log with its own cluster and jobs, and diagnose all at
    once.
    """
    top = tmp_path_factory.mktemp("events")
    for seed, name in enumerate(EVENTS):
        event(name, seed + 100).write(top / name)
    return diagnose((CHECKPOINTS,), discover([str(top)]), lambda: spark)


@pytest.mark.spark
@pytest.mark.parametrize("name", EVENTS)
def test_a_normal_event(name: str, small_logs: Report) -> None:
    mine = {job.job_id for job in event(name, [*EVENTS].index(name) + 100).jobs}
    assert {
        job.job_id: job.verdict for job in small_logs.data.jobs or () if job.job_id in mine
    } == dict.fromkeys(mine, "healthy")


@pytest.mark.spark
def test_normal_events_together(small_logs: Report) -> None:
    healthy(small_logs)
