"""Compares the source of back pressure that `flowdiag queues` finds with the jobs' own notes."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from flowdiag.analyses.checkpoints.rules import RULES as CHECKPOINT_RULES
from flowdiag.analyses.checkpoints.topic import CHECKPOINTS
from flowdiag.analyses.diagnosis import diagnose
from flowdiag.analyses.model.finding import RuleOutcome, Severity
from flowdiag.analyses.model.keys import JobKey
from flowdiag.analyses.queues.facts import QueueFacts
from flowdiag.analyses.queues.rules import RULES as QUEUE_RULES
from flowdiag.analyses.queues.topic import QUEUES
from flowdiag.analyses.report.verdicts import judge
from flowdiag.cli.render import table
from flowdiag.cli.text.page import Page
from flowdiag.parsers.discover import discover
from tests.archives import unpacked

from .analyses.judged import outcomes_of
from .measured import FLINK, Recorded
from .recordings import culprits_of, is_rare

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

ROOT = Path(__file__).parents[1] / "fixtures" / "recordings"
# Faults that slow records down show in queues; failures do not.
SEEN = frozenset(
    {
        "data-skew",
        "slow-operator",
        "slow-taskmanager",
        "task-hangs",
        "slow-sync-snapshot",
        "garbage-collection",
    }
)
# Two share the load: the report names them, but not data skew as the cause.
CAUSE_UNTOLD = frozenset({"flink/1.14.6/two-hot-keys"})
# No samples over time, or no busy times and no waiting subtask: the report must be silent, not wrong.
MAY_BE_SILENT = frozenset(
    {
        "flink/1.20.5/no-metrics-hot-key",
        "flink/1.9.3/slow-sync-snapshot",
        "flink/1.10.3/slow-sync-snapshot-debug",
        "queues/1.10.3/throttled-taskmanager",
    }
)


def recordings_of_queues() -> list[Any]:
    """Return recordings of Flink jobs with their truth, as parameters."""
    found = []
    for path in sorted(ROOT.glob("*/*/*/truth.json")):
        name = str(path.parent.relative_to(ROOT))
        truth = json.loads(path.read_text())
        if not name.startswith(("flink/", "queues/")):
            continue
        marks = [pytest.mark.full] if is_rare(name) else []
        found.append(pytest.param(path.parent, truth, id=name, marks=marks))
    return found


def every_second() -> list[Any]:
    """Return all recordings; half of them are for `.ci/full`, as `test_diagnose_recordings` measures most as well."""
    return [
        each
        if number % 2
        else pytest.param(*each.values, id=each.id, marks=[*each.marks, pytest.mark.full])
        for number, each in enumerate(recordings_of_queues())
    ]


Outcomes = tuple[QueueFacts, tuple[RuleOutcome, ...]]


@pytest.fixture(scope="module")
def facts_of(recorded: Callable[..., Recorded]) -> Callable[[Path], Mapping[str, Any]]:
    """Return the facts of a recording, by topic."""
    return lambda folder: recorded(folder, topics=FLINK).measured.facts


@pytest.fixture(scope="module")
def judged(facts_of: Callable[[Path], Mapping[str, Any]]) -> Callable[[Path], Outcomes]:
    """Return the `queues` outcomes of a recording."""

    def outcomes(folder: Path) -> Outcomes:
        facts = facts_of(folder)[QUEUES.name]
        return facts, outcomes_of(QUEUE_RULES, facts)

    return outcomes


@pytest.mark.parametrize(("folder", "truth"), every_second())
def test_the_first_culprit_is_the_true_one(
    folder: Path, truth: dict[str, Any], judged: Callable[[Path], Outcomes]
) -> None:
    facts, outcomes = judged(unpacked(folder))
    keys = {job.job.key.job_id: job.job.key for job in facts.jobs}
    name = str(folder.relative_to(ROOT))
    for each in truth.get("jobs", [truth]):
        _check(name, each, keys[each["job"]["job_id"]], outcomes)


def _check(
    name: str, truth: dict[str, Any], key: JobKey, outcomes: tuple[RuleOutcome, ...]
) -> None:
    judgement, expected = judge(outcomes, key), truth["expected"]
    if expected["verdict"] == "healthy":
        serious = [
            (outcome.code, finding.title)
            for outcome in outcomes
            for finding in outcome.findings
            if finding.job == key and finding.severity is not Severity.INFO
        ]
        assert serious == []
        return
    if expected["cause"] == "network-memory":
        assert (judgement.cause, judgement.culprits) == ("network-memory", ())
        return
    if expected["cause"] not in SEEN:
        assert judgement.culprits == ()
        return
    if not judgement.culprits and name in MAY_BE_SILENT:
        return
    subject = judgement.culprits[0].subject
    named = {field: getattr(subject, field) for field in expected["culprit"]}
    assert named in culprits_of(truth)
    assert judgement.cause == (None if name in CAUSE_UNTOLD else expected["cause"])


@pytest.mark.parametrize(("folder", "truth"), every_second())
def test_checkpoints_and_queues_name_the_same_first_culprit(
    folder: Path,
    truth: dict[str, Any],
    facts_of: Callable[[Path], Mapping[str, Any]],
    judged: Callable[[Path], Outcomes],
) -> None:
    files = unpacked(folder)
    facts, outcomes = judged(files)
    by_checkpoints = outcomes_of(CHECKPOINT_RULES, facts_of(files)[CHECKPOINTS.name])
    for job in facts.jobs:
        both = [judge(each, job.job.key) for each in (by_checkpoints, outcomes)]
        if not all(judgement.culprits for judgement in both):
            continue
        one, other = (
            (subject.kind, subject.task, subject.subtask_index, subject.taskmanager)
            for judgement in both
            for subject in [judgement.culprits[0].subject]
        )
        assert one == other
        assert both[0].cause == both[1].cause or str(folder.relative_to(ROOT)) in CAUSE_UNTOLD


COLLECTED = sorted(ROOT.glob("collected/*/truth.json"))


@pytest.mark.parametrize("path", COLLECTED, ids=lambda path: path.parent.name)
@pytest.mark.parametrize("kind", ["collected", "prometheus"])
def test_collected_metrics_name_the_same_subtask(
    path: Path, kind: str, judged: Callable[[Path], Outcomes]
) -> None:
    folder, expected = unpacked(path.parent) / kind, json.loads(path.read_text())["expected"]
    if not any(folder.glob("*-*")):
        pytest.skip(f"{path.parent.name} has no {kind}")
    facts, outcomes = judged(folder)
    culprits = judge(outcomes).culprits
    if kind == "prometheus":
        # Some minutes of scrapes without a job graph: right or nothing; the reporter mangles names.
        assert all(
            (c.subject.task, c.subject.subtask_index)
            == (expected["culprit"]["task"], expected["culprit"]["subtask_index"])
            for c in culprits
        )
        return
    named = {field: getattr(culprits[0].subject, field) for field in expected["culprit"]}
    assert named == expected["culprit"]
    assert [job.version for job in facts.jobs] == [
        tuple(int(part) for part in path.parent.name.split("-")[0].split(".")[:2])
    ]


def test_the_report_draws_the_graph_and_ends_with_the_verdict(spark: SparkSession) -> None:
    folder = ROOT / "flink" / "1.20.5" / "hot-key"
    report = diagnose((QUEUES,), discover([str(unpacked(folder))]), lambda: spark)
    assert [(v.name, v.role) for v in report.data.vertices or ()] == [
        ("Source: orders", "back-pressured"),
        ("enrich", "root"),
        ("aggregate", "fed-by-root"),
        ("Sink: deliver", "fed-by-root"),
    ]
    printed = table.render(report, Page(width=100)).splitlines()
    order = [
        next(n for n, line in enumerate(printed) if line.startswith(word))
        for word in ("Inputs", "Graph", "Findings", "Verdict")
    ]
    assert order == sorted(order)
    assert any("subtask 1 of 4" in line for line in printed)
