"""Compares reports on recorded clusters with the notes of the job itself and with `grep`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from flowdiag.analyses.checkpoints.topic import CHECKPOINTS
from flowdiag.analyses.contract.report import Report
from flowdiag.analyses.diagnosis import diagnose, measure
from flowdiag.analyses.engine.reading import Resources
from flowdiag.analyses.flink.job import ClusterFacts, JobFacts, Status
from flowdiag.analyses.flink.settled import settled_events
from flowdiag.analyses.model.finding import Severity
from flowdiag.analyses.selection.options import Options
from flowdiag.analyses.topic_names import ENGINES
from flowdiag.analyses.topics import topic
from flowdiag.cli.render import table
from flowdiag.cli.text.page import Page
from flowdiag.parsers.discover import Discovery, discover

from .measured import FLINK, Recorded
from .recordings import Recording, culprits_of, is_rare, recordings

ROOT = Path(__file__).parents[1]

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark
ALL = recordings()


def _rare(recording: Recording) -> list[pytest.MarkDecorator]:
    return [pytest.mark.full] if is_rare(f"flink/{recording.name}") else []


of_each_recording = pytest.mark.parametrize(
    "recording", [pytest.param(each, id=each.name, marks=_rare(each)) for each in ALL]
)
# A queue blocks barriers until it is empty.
SLACK_MS = 30_000
# One scenario of each version represents the others where only the set of files differs.
ALWAYS_RUN = "/hot-key"
# Bursts that make checkpoints long: a minor finding, no fault.
ROUGH = "/bursts"


def _unusual(recording: Recording) -> list[pytest.MarkDecorator]:
    return [] if recording.name.endswith(ALWAYS_RUN) else [pytest.mark.full]


of_all_files_and_of_logs = pytest.mark.parametrize(
    ("recording", "parts"),
    [
        *(pytest.param(each, (), id=each.name, marks=_rare(each)) for each in ALL),
        *(pytest.param(r, ("logs",), id=f"{r.name}-logs", marks=_unusual(r)) for r in ALL),
    ],
)


@pytest.fixture(scope="module")
def facts_of(recorded: Callable[..., Recorded]) -> Callable[..., ClusterFacts]:
    """Return the facts of a recording: of all its files, or of some `parts`."""

    def facts(recording: Recording, *parts: str) -> ClusterFacts:
        paths = [recording.files / part for part in parts] or [recording.files]
        topics = ("checkpoints",) if parts else FLINK
        found: ClusterFacts = recorded(*paths, topics=topics).facts("checkpoints")
        return found

    return facts


@pytest.fixture(scope="module")
def report_of(recorded: Callable[..., Recorded]) -> Callable[[Recording], Report]:
    """Return the report on a whole recording (logs, REST responses, archive)."""
    return lambda recording: recorded(recording.files, topics=FLINK).report("checkpoints")


def facts_in(found: Discovery, spark: SparkSession) -> ClusterFacts:
    facts: ClusterFacts = measure((CHECKPOINTS,), found, lambda: spark).facts[CHECKPOINTS.name]
    return facts


def job_of(facts: ClusterFacts, job_id: str) -> JobFacts:
    return next(job for job in facts.jobs if job.key.job_id == job_id)


def ids(job: JobFacts, status: Status) -> list[int]:
    return [checkpoint.id for checkpoint in job.checkpoints if checkpoint.status is status]


@of_all_files_and_of_logs
def test_every_checkpoint_has_its_true_history(
    recording: Recording, parts: tuple[str, ...], facts_of: Callable[..., ClusterFacts]
) -> None:
    for truth in recording.jobs:
        job = job_of(facts_of(recording, *parts), truth["job"]["job_id"])
        found = {
            "triggered": [c.id for c in job.checkpoints if c.triggered_us is not None],
            "completed": ids(job, Status.COMPLETED),
            "expired": ids(job, Status.EXPIRED),
            "declined": ids(job, Status.DECLINED),
        }
        assert found == {key: truth["checkpoints"][key] for key in found}


@of_all_files_and_of_logs
def test_every_late_acknowledgement_is_placed(
    recording: Recording, parts: tuple[str, ...], facts_of: Callable[..., ClusterFacts]
) -> None:
    for truth in recording.jobs:
        job = job_of(facts_of(recording, *parts), truth["job"]["job_id"])
        found = [
            {
                "checkpoint": late.checkpoint,
                "attempt_id": late.attempt.attempt_id,
                "task": late.attempt.task,
                "subtask_index": late.attempt.subtask_index,
                "taskmanager": late.attempt.taskmanager,
                "host": late.attempt.host,
            }
            for late in job.late
            if late.expired
        ]
        expected = [{key: late[key] for key in late if key in _LATE} for late in truth["late"]]
        assert sorted(found, key=_by_attempt) == sorted(expected, key=_by_attempt)


_LATE = ("checkpoint", "attempt_id", "task", "subtask_index", "taskmanager", "host")


def _by_attempt(late: dict[str, Any]) -> tuple[int, str]:
    return (late["checkpoint"], late["attempt_id"])


@of_all_files_and_of_logs
def test_every_attempt_is_named_and_placed(
    recording: Recording, parts: tuple[str, ...], facts_of: Callable[..., ClusterFacts]
) -> None:
    known = {
        attempt.attempt_id: attempt
        for job in facts_of(recording, *parts).jobs
        for attempt in job.attempts
    }
    for attempt_id, truth in recording.truth["attempts"].items():
        attempt = known[attempt_id]
        found = (attempt.task, attempt.subtask_index, attempt.taskmanager, attempt.host)
        assert found == (
            truth["task"],
            truth["subtask_index"],
            truth["taskmanager"],
            truth["host"],
        )


@of_each_recording
def test_every_line_of_a_checkpoint_class_is_recognised(
    recording: Recording, report_of: Callable[[Recording], Report]
) -> None:
    assert [
        (item.source, item.samples) for item in report_of(recording).inputs if item.samples
    ] == []


@of_each_recording
def test_verdict_cause_and_culprit(
    recording: Recording, report_of: Callable[[Recording], Report]
) -> None:
    report = report_of(recording)
    by_id = {job.job_id: job for job in report.data.jobs or ()}
    for truth in recording.jobs:
        expected, job = truth["expected"], by_id[truth["job"]["job_id"]]
        assert (job.verdict, job.cause) == (expected["verdict"], expected["cause"])
        if expected["culprit"] is None:
            continue
        subject = job.culprits[0].subject
        named = {key: getattr(subject, key) for key in expected["culprit"]}
        assert named in culprits_of(truth)


def _are_simultaneous(truth: dict[str, Any]) -> bool:
    """Return whether several subtasks had the same fault at the same time."""
    spans = [(p["from"], p["until"]) for p in truth.get("periods", ()) if p["task"]]
    return len(spans) > len(set(spans))


@pytest.mark.parametrize(
    "recording",
    [
        pytest.param(each, id=each.name, marks=_rare(each))
        for each in ALL
        if any(period["task"] for job in each.jobs for period in job.get("periods", ()))
        and any(job["checkpoints"]["expired"] for job in each.jobs)
        and not any(_are_simultaneous(job) for job in each.jobs)
    ],
)
def test_each_culprit_is_named_for_its_own_period(
    recording: Recording, report_of: Callable[[Recording], Report]
) -> None:
    """Check the sequence of culprits: each blocks checkpoints during its fault or right after
    it.
    """
    by_id = {job.job_id: job for job in report_of(recording).data.jobs or ()}
    for truth in recording.jobs:
        named = [e for e in by_id[truth["job"]["job_id"]].episodes if e.subject is not None]
        assert [(e.subject.task, e.subject.subtask_index, e.cause) for e in named if e.subject] == [
            (period["task"], period["subtask_index"], period["cause"])
            for period in truth["periods"]
        ]
        for episode, period in zip(named, truth["periods"], strict=True):
            assert episode.first_seen is not None
            begun = datetime.fromisoformat(episode.first_seen).timestamp() * 1000
            assert period["from"] - SLACK_MS < begun < period["until"] + SLACK_MS
        assert [e.state for e in named] == ["recovered"] * (len(named) - 1) + ["ongoing"]


@pytest.mark.parametrize(
    "recording",
    [
        pytest.param(each, id=each.name, marks=_rare(each))
        for each in ALL
        if any(_are_simultaneous(job) for job in each.jobs)
    ],
)
def test_all_simultaneous_culprits_are_named(
    recording: Recording, report_of: Callable[[Recording], Report]
) -> None:
    accused = [found for found in report_of(recording).findings if found.cause]
    for truth in recording.jobs:
        for period in truth["periods"]:
            number = f"({period['subtask_index'] + 1}/"
            assert any(
                found.cause == period["cause"]
                and found.subject.task == period["task"]
                and number in found.title
                for found in accused
            ), period


@of_each_recording
def test_a_healthy_job_has_no_finding(
    recording: Recording, report_of: Callable[[Recording], Report]
) -> None:
    if any(truth["expected"]["verdict"] != "healthy" for truth in recording.jobs):
        pytest.skip("a faulty recording")
    found = report_of(recording).findings
    if recording.name.endswith(ROUGH):
        assert {finding.severity for finding in found} <= {Severity.INFO}
        return
    assert [(finding.code, finding.title) for finding in found] == []


@pytest.mark.parametrize(
    "recording",
    [
        pytest.param(each, id=each.name, marks=_unusual(each))
        for each in ALL
        if any(job["late"] for job in each.jobs)
    ],
)
def test_half_of_the_jobmanager_log_places_the_same_subtasks(
    recording: Recording, spark: SparkSession, tmp_path: Path
) -> None:
    """Check a log whose deploy lines rotated away: the late line and the TaskManagers' own logs
    must be enough.
    """
    for path in recording.log_files:
        text = path.read_bytes()
        if "jobmanager" in path.name:
            text = text[text.index(b"\n", len(text) // 2) + 1 :]
        (tmp_path / path.name).write_bytes(text)
    facts = facts_in(discover([str(tmp_path)]), spark)
    for truth in recording.jobs:
        known = {(late["checkpoint"], late["attempt_id"]): late for late in truth["late"]}
        found = [
            late
            for job in facts.jobs
            if job.key.job_id == truth["job"]["job_id"]
            for late in job.late
        ]
        assert found or not known
        for late in found:
            expected = known[late.checkpoint, late.attempt.attempt_id]
            assert (
                late.attempt.task,
                late.attempt.subtask_index,
                late.attempt.taskmanager,
                late.attempt.host,
            ) == tuple(expected[key] for key in _LATE[2:])


@pytest.mark.parametrize(
    "recording", [r for r in ALL if r.name == "1.20.5/hot-key"], ids=lambda r: r.name
)
def test_executors_and_local_processes_give_the_same_rows(
    recording: Recording, spark: SparkSession, tmp_path: Path
) -> None:
    sources = discover([str(recording.files / "logs")]).sources
    in_files = Resources(local_bytes=0, processes=2, folder=tmp_path / "few")
    ways = {
        "this process": Resources(),
        "this process, many rows": Resources(table_rows=0, folder=tmp_path / "one"),
        "executors": Resources(local_bytes=0, executors=True),
        "processes, few rows": in_files,
        "processes, rows in one file": replace(in_files, table_rows=0, folder=tmp_path / "some"),
        "processes, many rows": replace(
            in_files, few_rows=0, table_rows=0, folder=tmp_path / "many"
        ),
    }
    settled = {way: settled_events(sources, lambda: spark, resources=m) for way, m in ways.items()}
    expected = settled["this process"]
    assert expected.writers
    columns = [
        "source",
        "offset",
        "event",
        "time_us",
        "task",
        "attempt_id",
        "checkpoint",
        "metrics",
        "loads",
    ]

    def rows(frame: DataFrame, condition: str) -> list[str]:
        return sorted(map(str, frame.where(condition).select(*columns).collect()))

    for way, each in settled.items():
        assert each.writers == expected.writers, way
        for metric, frame, other in (
            ("event <> 'metric'", each.events, expected.events),
            ("event = 'metric'", each.metrics(), expected.metrics()),
        ):
            assert rows(frame, metric) == rows(other, metric), way


def test_the_example_in_the_readme_matches_the_output(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    readme = (ROOT / "README.md").read_text()
    example = readme.split("<!-- example -->\n```text\n")[1].split("\n```\n<!-- /example -->")[0]
    monkeypatch.chdir(ROOT)
    path = "fixtures/recordings/flink/1.20.5/hot-key/hot-key.tar.zst"
    options = Options(named=(path,), everything=True)
    report = diagnose(tuple(map(topic, ENGINES)), discover([path]), lambda: spark, options)
    printed = iter(table.render(report, Page(width=100)).splitlines())
    assert len(example.splitlines()) > 10
    for line in example.splitlines():
        if line.strip() not in ("…", ""):
            assert any(line == other.rstrip() for other in printed), f"not printed there: {line!r}"
