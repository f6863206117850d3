"""Compares reports on recorded Spark applications with Spark's own output and the scenario."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from flowdiag.analyses.contract.report import Finding, PidStep, RateApplication, Report
from flowdiag.analyses.diagnosis import diagnose
from flowdiag.analyses.rate.model import Job, Settings, simulate
from flowdiag.analyses.rate.topic import RATE
from flowdiag.cli.simulations.pid import settings_of
from flowdiag.parsers.discover import discover, limit_to_engine
from tests.archives import unpacked

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

ROOT = Path(__file__).parents[1] / "fixtures" / "recordings" / "spark"
ALL = sorted(path.parent for path in ROOT.glob("*/*/truth.json"))
# The same scenarios at versions in between: for .ci/full.
BETWEEN = ("3.3.4", "3.4.4", "3.5.7", "4.0.1", "4.1.0")
# Pairs of runs that differ in one setting.
PAIRS = [
    ("4.3.0", "floor-too-high", "converging"),
    ("4.3.0", "oscillating", "converging"),
    ("4.3.0", "fixed-cost", "longer-interval"),
    ("3.5.7", "floor-too-high", "converging"),
]
RECOVERED = ("drained", "query-mended")
# The recordings that tests without a folder as parameter use.
NAMED = {
    *(ROOT / "4.3.0" / name for name in (*RECOVERED, "slow-output")),
    *(ROOT / version / name for version, *names in PAIRS for name in names),
}
of_each = pytest.mark.parametrize(
    "folder",
    [
        pytest.param(
            each,
            id=str(each.relative_to(ROOT)),
            marks=[pytest.mark.full] if each.parent.name in BETWEEN else [],
        )
        for each in ALL
    ],
)

# Stability and verdict where a busy machine recorded a worse fault than the scenario, with the reason.
BUSY = {
    # Each trigger took ten intervals.
    "4.3.0/query-many-tasks": ("overloaded", "failing"),
    # The triggers of the second run overran by a sixth before it was stopped.
    "4.3.0/query-mended": ("inconclusive", "degraded"),
}

Ask = Callable[..., Report]
Alone = Callable[[Path, str], tuple[RateApplication, list[Finding]]]


@pytest.fixture(scope="module")
def report_of(spark: SparkSession) -> Ask:
    """Diagnose a recording, or some of its folders, once."""
    known: dict[tuple[Path, ...], Report] = {}

    def report(folder: Path, *parts: str) -> Report:
        folder = unpacked(folder)
        paths = tuple(folder / part for part in parts if (folder / part).exists()) or (folder,)
        if paths not in known:
            found = limit_to_engine(discover([str(path) for path in paths]), "spark")
            known[paths] = diagnose((RATE,), found, lambda: spark)
        return known[paths]

    return report


@pytest.fixture(scope="module")
def alone(spark: SparkSession, sampled: list[Path]) -> Alone:
    """Diagnose one folder of each of several recordings in one run, and separate the results."""
    known: dict[str, dict[str, tuple[RateApplication, list[Finding]]]] = {}

    def application(folder: Path, part: str) -> tuple[RateApplication, list[Finding]]:
        if part not in known:
            paths = [
                str(one / part)
                for one in map(unpacked, sorted({*sampled, *NAMED}))
                if (one / part).exists()
            ]
            report = diagnose((RATE,), limit_to_engine(discover(paths), "spark"), lambda: spark)
            assert all(finding.subject.application for finding in report.findings)
            known[part] = {
                app.application: (app, [f for f in report.findings if belongs(f, app)])
                for app in report.data.applications or ()
                if app.application is not None
            }
        return known[part][truth_of(folder)["application"]]

    return application


def belongs(finding: Finding, app: RateApplication) -> bool:
    return finding.subject.application == app.application


def truth_of(folder: Path) -> dict[str, Any]:
    truth: dict[str, Any] = json.loads((folder / "truth.json").read_text())
    return truth


def only(report: Report) -> RateApplication:
    assert report.data.applications is not None
    (app,) = report.data.applications
    return app


def check(folder: Path, app: RateApplication, findings: list[Finding]) -> None:
    """Compare an application's stability, verdict, cause and culprit with the truth."""
    truth = truth_of(folder)
    expected = truth["expected"]
    assert (app.application, app.spark_version) == (truth["application"], truth["spark_version"])
    stability, verdict = BUSY.get(
        str(folder.relative_to(ROOT)), (expected["stability"], expected["verdict"])
    )
    stabilities = (
        [app.keeping.stability] if app.keeping else [q.keeping.stability for q in app.queries]
    )
    assert stabilities == [stability]
    assert (app.verdict, app.cause) == (verdict, expected["cause"])
    for name, value in expected.get("culprit", {}).items():
        assert getattr(app.culprits[0].subject, name) == value
    if expected["verdict"] == "healthy":
        assert findings == []


@of_each
def test_verdict_cause_and_culprit(folder: Path, report_of: Ask) -> None:
    report = report_of(folder)
    app = only(report)
    check(folder, app, report.findings)
    assert (report.summary.verdict, report.summary.cause) == (app.verdict, app.cause)


@of_each
def test_many_applications_in_one_run_give_the_same_answers(folder: Path, alone: Alone) -> None:
    if folder.name == "driver-killed":
        pytest.skip("applications of the same name start later, so that it seems to be restarted")
    check(folder, *alone(folder, "."))


Bits = tuple[int, int, int, float | None, float | None, float | None, float | None]


def estimator_input(step: dict[str, Any]) -> Bits:
    names = ("stream_id", "time", "elements", "new_rate", "error", "historical_error", "d_error")
    return tuple(step[name] for name in names)


def replayed(step: PidStep) -> Bits:
    return (
        step.stream_id,
        step.time_ms,
        step.elements,
        step.new_rate,
        step.error,
        step.historical_error,
        step.d_error,
    )


@of_each
def test_the_estimator_is_replayed_to_the_last_bit(folder: Path, alone: Alone) -> None:
    """Use the listener's lines only: the driver's log, in which Spark prints the rate, is
    withheld.
    """
    truth = truth_of(folder)
    printed = [
        estimator_input(step) for step in truth.get("pid", ()) if step["new_rate"] is not None
    ]
    if not printed or not (unpacked(folder) / "listener").exists():
        pytest.skip("no back pressure")
    app, _ = alone(folder, "listener")
    steps = [replayed(step) for step in app.pid if step.new_rate is not None]
    assert set(printed) <= set(steps)
    # The last batches may complete after the log was closed.
    last = max(step[1] for step in printed)
    assert [step for step in steps if step not in set(printed) and step[1] <= last] == []
    assert all(step.exact for step in app.pid)


@of_each
def test_batches_are_those_of_the_log(folder: Path, alone: Alone) -> None:
    truth = truth_of(folder)
    if truth["engine"] != "dstream":
        pytest.skip("no batches")
    batches = {batch.batch_time_ms: batch for batch in alone(folder, ".")[0].batches}
    for batch in truth["batches"]:
        ours = batches[batch["batch_time"]]
        if batch["execution_s"] is not None:
            assert ours.processing_delay_ms == round(batch["execution_s"] * 1000)
            assert ours.processing_end_ms is not None
            since = ours.processing_end_ms - ours.batch_time_ms
            assert since == round(batch["total_delay_s"] * 1000)
    failed = sorted(time for time, batch in batches.items() if batch.failed_outputs)
    assert failed == truth["failed_batches"]


@of_each
def test_triggers_are_those_of_the_log(folder: Path, alone: Alone) -> None:
    truth = truth_of(folder)
    if truth["engine"] == "dstream":
        pytest.skip("no triggers")
    ours = {
        (query.id and trigger.run_id, trigger.batch_id): trigger
        for query in alone(folder, ".")[0].queries
        for trigger in query.triggers
    }
    for batch in truth["batches"]:
        trigger = ours[batch["run_id"], batch["batch_id"]]
        assert (trigger.rows, trigger.duration_ms) == (batch["rows"], batch["trigger_execution"])


@of_each
@pytest.mark.parametrize("part", ["listener", "driver", "eventlog"])
def test_healthy_runs_stay_healthy_with_files_missing(
    folder: Path, part: str, alone: Alone
) -> None:
    if (
        truth_of(folder)["expected"]["verdict"] != "healthy"
        or not (unpacked(folder) / part).exists()
    ):
        pytest.skip("not healthy")
    assert alone(folder, part)[1] == []


@pytest.mark.parametrize("name", RECOVERED)
def test_an_event_log_alone_names_no_culprit_of_a_past_problem(name: str, alone: Alone) -> None:
    findings = alone(ROOT / "4.3.0" / name, "eventlog")[1]
    assert findings and {finding.state for finding in findings} == {"recovered"}


def test_an_event_log_alone_does_not_clear_its_receivers(report_of: Ask) -> None:
    report = report_of(ROOT / "4.3.0" / "receiver-restarts", "eventlog")
    (rule,) = (rule for rule in report.rules if rule.code == "RT302")
    assert rule.status == "not-assessed"


@pytest.mark.parametrize("part", ["driver", "eventlog", "listener"])
def test_a_slow_output_operation_needs_no_listener(part: str, alone: Alone) -> None:
    findings = alone(ROOT / "4.3.0" / "slow-output", part)[1]
    assert [f.subject.output_operation for f in findings if f.code == "RT309"] == [1]


def late_median(values: list[int]) -> float:
    """Return the median of the last third."""
    last = sorted(values[-len(values) // 3 :])
    return last[len(last) // 2]


def final_state(app: RateApplication) -> tuple[float, float]:
    """Return records per second and total delay in milliseconds at the end of a run."""
    assert app.batch_interval_ms is not None
    taken = [b.records for b in app.batches if b.records is not None]
    delays = [b.total_delay_ms for b in app.batches if b.total_delay_ms is not None]
    return late_median(taken) * 1000 / app.batch_interval_ms, late_median(delays)


@pytest.mark.parametrize(("version", "before", "after"), PAIRS)
def test_a_fitted_model_predicts_another_run(
    version: str, before: str, after: str, alone: Alone
) -> None:
    """Check that the model fitted on one run predicts a run with other settings within a factor
    of two.
    """
    (first, _), (second, _) = (alone(ROOT / version / n, "listener") for n in (before, after))
    assert first.keeping is not None
    cost = first.keeping
    assert cost.cost_per_record_ms is not None
    job = Job(fixed_ms=cost.cost_per_batch_ms or 0.0, per_record_ms=cost.cost_per_record_ms)
    settings: Settings = settings_of(second)
    predicted = simulate(job, settings, [400.0] * 60)
    for value, real, same in zip(
        (predicted.steady_per_s, predicted.delay_ms),
        final_state(second),
        final_state(first),
        strict=True,
    ):
        assert real / 2 <= value <= 2 * real
        # Better than the assumption that settings have no effect.
        assert abs(value - real) < abs(same - real)


@pytest.mark.parametrize("version", ["3.3.4", pytest.param("3.5.7", marks=pytest.mark.full)])
def test_executors_alone_show_no_failure_that_the_stop_caused(version: str, report_of: Ask) -> None:
    """A Python worker exits when the driver stops the receivers, and no log of an executor shows batches."""
    report = report_of(ROOT / version / "two-receivers", "executor")
    assert (report.findings, report.summary.verdict) == ([], "inconclusive")


@pytest.mark.parametrize("version", ["3.3.4", pytest.param("4.3.0", marks=pytest.mark.full)])
def test_an_unknown_share_of_a_stream_is_not_called_zero(version: str, report_of: Ask) -> None:
    app = only(report_of(ROOT / version / "two-receivers", "driver", "eventlog"))
    assert [stream.held_by for stream in app.streams] == ["unknown", "unknown"]
