"""Compares the diagnoses of jobs and their neighbours with the faults that the recorder injected."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from flowdiag.analyses.contract.report import Report
from flowdiag.analyses.diagnosis import report_on
from flowdiag.analyses.model.finding import Verdict
from flowdiag.analyses.selection.options import Options
from flowdiag.analyses.topics import topic

from .archives import unpacked
from .measured import Recorded

pytestmark = pytest.mark.spark

ROOT = Path(__file__).parents[1] / "fixtures" / "recordings" / "neighbours"
TOPICS = ("checkpoints", "queues")
EVERYTHING = ("logs", "rest", "collected", "neighbours")
# Faults that end tasks are in any log and response; others need metrics, or the neighbour's own output.
FAILURES = frozenset(
    {
        "unknown-topic",
        "kafka-denied",
        "transaction-too-long",
        "fenced-transaction",
        "record-too-large",
        "constraint-violated",
        "no-connection-left",
    }
)


BEHIND = frozenset(
    {
        "database-lock",
        "slow-database",
        "kafka-timeout",
        "slow-kafka",
        "kafka-quota",
        "open-transaction",
        "storage-failure",
    }
)
"""Causes outside the job: no task of the job may be blamed for them."""
LOGGED = FAILURES | {
    "failed-commits",
    "kafka-timeout",
    "kafka-quota",
    "log-position-lost",
    "service-unreachable",
    "task-failure",
    "offsets-out-of-range",
    "slot-in-use",
    "storage-failure",
    "too-few-replicas",
}
"""Faults that the logs of the TaskManagers show, too."""
LESS_PRECISE = {
    # With its defaults, S3A repeats throttled requests without a record.
    "s3-throttled-defaults": "slow-checkpoint-storage",
    # The exception of the producer does not show why its buffer was full.
    "buffer-exhausted": "slow-kafka",
    # The job is rejected: its storage is a service that does not respond.
    "s3-wrong-endpoint": "service-unreachable",
    # S3A repeats the last request of an upload for minutes, also without a record.
    "s3-upload-aborted": "task-hangs",
}
"""By scenario, the cause that its inputs show."""
ALSO_RIGHT = {
    # Responses that arrive after the client's timeout look like no responses, if no record moves until the end.
    "late-responses": "kafka-timeout",
    # The recorded task sleeps instead of computing, and thread dumps show it.
    "slow-job": "sleeping-in-operator",
}
STOPS = frozenset({"buffer-exhausted", "s3-missing-object", "s3-upload-aborted"})
"""Scenarios in which a task of the job fails or hangs because of its neighbour, and is named with the exception."""
UNLOGGED = frozenset({("1.20.5", "s3-throttled-defaults")})
"""Runs in which only thread dumps show the cause: the JobManager repeats its requests without a record."""
REJECTS_THE_JOB = frozenset({"s3-wrong-endpoint"})
"""Scenarios in which no task starts, so the job is named with the exception."""
ENDS_THE_TASKMANAGER = frozenset({("2.3.0", "unique-violation"), ("2.3.0", "mariadb-duplicate")})
"""Runs in which the fault ends a TaskManager before its tasks report the exception to the JobManager."""


def recordings(every: int) -> list[Any]:
    """Return the recordings with their truth, as parameters; all but every n-th are for `.ci/full`."""
    return [
        pytest.param(
            path.parent,
            json.loads(path.read_text()),
            id=f"{path.parent.parent.name}-{path.parent.name}",
            marks=[] if number % every == 0 else [pytest.mark.full],
        )
        for number, path in enumerate(sorted(ROOT.glob("*/*/truth.json")))
    ]


every_second = pytest.mark.parametrize(("folder", "truth"), recordings(2))
every_fourth = pytest.mark.parametrize(("folder", "truth"), recordings(4))
# A source that waits does not refresh its own number: only the consumer group shows that a backlog shrinks.
SHOWN_BY_THE_GROUP = frozenset({"catch-up"})
Reports = Callable[[Path, Iterable[str]], list[Report]]


@pytest.fixture(scope="module")
def reports(recorded: Callable[..., Recorded]) -> Reports:
    """Return the reports of all topics about some parts of a recording."""

    def of(folder: Path, parts: Iterable[str]) -> list[Report]:
        files = unpacked(folder)
        paths = [path for part in parts for path in sorted(files.glob(part))]
        if not paths:
            pytest.skip("the recording has no such files")
        found = recorded(*paths, topics=TOPICS)
        return [found.report(name) for name in TOPICS]

    return of


@pytest.fixture(scope="module")
def first_cause(recorded: Callable[..., Recorded]) -> Callable[[Path, Iterable[str]], str | None]:
    """Return the cause of the first incident, as in the report of `flowdiag diagnose`."""

    def of(folder: Path, parts: Iterable[str]) -> str | None:
        files = unpacked(folder)
        paths = [path for part in parts for path in sorted(files.glob(part))]
        measured = recorded(*paths, topics=TOPICS)
        options = Options(everything=True)
        topics = tuple(map(topic, TOPICS))
        report = report_on(topics, measured.inspected, measured.measured, options)
        return report.summary.stories[0].cause if report.summary.stories else None

    return of


def causes_of(found: Iterable[Report]) -> list[str | None]:
    """Return the causes of the culprits, of all topics."""
    return [culprit.cause for report in found for culprit in report.summary.culprits]


def is_reported_to_the_jobmanager(truth: dict[str, Any]) -> bool:
    """Return whether the log and the responses of the JobManager must show the fault."""
    run = (truth["flink_version"], truth["scenario"])
    expected = truth["expected"]["cause"]
    return (expected in FAILURES and run not in ENDS_THE_TASKMANAGER) or expected is None


def serious(found: Iterable[Report]) -> list[str]:
    """Return the titles of all findings above information."""
    return [
        f"{finding.code} {finding.title}"
        for report in found
        for finding in report.findings
        if finding.severity != "info"
    ]


def check(truth: dict[str, Any], found: list[Report]) -> None:
    """Compare the reports with the truth: the cause, the culprit, and no innocent task."""
    expected = truth["expected"]
    if expected["cause"] is None:
        assert serious(found) == []
        return
    causes = causes_of(found)
    shown = LESS_PRECISE.get(truth["scenario"], expected["cause"])
    assert {shown, ALSO_RIGHT.get(truth["scenario"], shown)} & {*causes}, serious(found)
    if expected.get("task"):
        assert {c.subject.task for r in found for c in r.summary.culprits} == {expected["task"]}
    if expected["cause"] in BEHIND and truth["scenario"] not in STOPS | REJECTS_THE_JOB:
        blamed = [c.subject for r in found for c in r.summary.culprits]
        assert {subject.kind for subject in blamed} <= {"service", "storage"}, blamed


@every_second
def test_everything(
    folder: Path,
    truth: dict[str, Any],
    reports: Reports,
    first_cause: Callable[[Path, Iterable[str]], str | None],
) -> None:
    found = reports(folder, EVERYTHING)
    check(truth, found)
    expected = truth["expected"]
    shown = LESS_PRECISE.get(truth["scenario"], expected["cause"])
    known = {shown, ALSO_RIGHT.get(truth["scenario"], shown)}
    assert first_cause(folder, EVERYTHING) in known
    flows = [flow for report in found for flow in report.data.flow or ()]
    if expected.get("lag") or expected["cause"] in (None, "database-lock"):
        # A slow broker slows the sink as much as the source.
        sides = {"source", "sink"} if truth["scenario"] == "slow-broker" else {expected["side"]}
        assert len({flow.side for flow in flows}) == 1 and {flow.side for flow in flows} <= sides
    if expected["side"] == "sink" and expected["neighbour"] and expected.get("lag"):
        system = "Kafka" if expected["neighbour"].startswith("kafka") else "PostgreSQL"
        assert all(system in (flow.neighbour or "") for flow in flows)
    if truth["scenario"] == "slow-acks":
        # The source reads from another cluster.
        assert {flow.neighbour for flow in flows} == {f"Kafka at {expected['neighbour']}"}


@every_fourth
def test_the_logs_alone(folder: Path, truth: dict[str, Any], reports: Reports) -> None:
    found = reports(folder, ("logs",))
    run = (truth["flink_version"], truth["scenario"])
    if truth["scenario"] in SHOWN_BY_THE_GROUP or run in UNLOGGED:
        return
    if truth["expected"]["cause"] in LOGGED or truth["expected"]["cause"] is None:
        check(truth, found)


@every_fourth
def test_the_jobmanager_alone(folder: Path, truth: dict[str, Any], reports: Reports) -> None:
    found = reports(folder, ("logs/*jobmanager*",))
    if is_reported_to_the_jobmanager(truth):
        check(truth, found)


@every_fourth
def test_collected_responses_alone(folder: Path, truth: dict[str, Any], reports: Reports) -> None:
    found = reports(folder, ("collected",))
    if truth["scenario"] in SHOWN_BY_THE_GROUP:
        return
    if is_reported_to_the_jobmanager(truth):
        check(truth, found)


@pytest.mark.parametrize("parts", [EVERYTHING, EVERYTHING[::-1]], ids="-".join)
def test_the_order_of_inputs_does_not_matter(parts: tuple[str, ...], reports: Reports) -> None:
    # Reports in the logs and responses cover parts of the same minute.
    assert causes_of(reports(ROOT / "1.20.5" / "hot-partition", parts)) == ["hot-partition"]


@pytest.mark.parametrize("parts", [("logs", "collected"), ("collected",)], ids="-".join)
def test_one_output_of_kafkas_tool_shows_an_open_transaction(
    parts: tuple[str, ...], recorded: Callable[..., Recorded], tmp_path: Path
) -> None:
    files = unpacked(ROOT / "1.20.5" / "hanging-transaction")
    *_, last = (files / "neighbours" / "consumer-groups.txt").read_text().split("\n2026-")
    single = tmp_path / "lag.txt"
    single.write_text(f"2026-{last}")
    report = recorded(*(files / part for part in parts), single, topics=TOPICS).report("queues")
    assert causes_of([report]) == ["open-transaction"]
    assert [flow.side for flow in report.data.flow or ()] == ["source"]


@pytest.mark.parametrize("parts", [("logs", "neighbours"), EVERYTHING], ids="-".join)
@pytest.mark.parametrize("folder", sorted(ROOT.glob("*/slow-index")), ids=lambda f: f.parent.name)
def test_sessions_name_the_statement_that_lacks_an_index(
    folder: Path, parts: tuple[str, ...], reports: Reports
) -> None:
    found = [one for report in reports(folder, parts) for one in report.findings]
    (slow,) = (one for one in found if one.cause == "slow-database" and one.code == "IO203")
    assert slow.actions[0].text.startswith("Run EXPLAIN")
    assert "UPDATE customers SET total = total + $1 WHERE name = $2" in slow.actions[0].text


@pytest.mark.parametrize(
    ("scenario", "part", "verdict", "causes"),
    [
        # The job was cancelled, but no record had moved for a minute.
        ("hanging-transaction", "logs", Verdict.INCONCLUSIVE, []),
        # A source that reads nothing does not refresh its own lag.
        ("locked-table", "logs", Verdict.DEGRADED, ["slow-operator"]),
        ("locked-table", "collected", Verdict.DEGRADED, ["slow-database"]),
    ],
)
def test_a_job_in_which_no_record_moves_is_not_healthy(
    scenario: str,
    part: str,
    verdict: Verdict,
    causes: list[str],
    recorded: Callable[..., Recorded],
) -> None:
    files = unpacked(ROOT / "1.20.5" / scenario)
    report = recorded(files / part, topics=("queues",)).report("queues")
    assert (report.summary.verdict, causes_of([report])) == (verdict, causes)
