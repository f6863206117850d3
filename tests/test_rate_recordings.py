"""What flowdiag says of recorded Spark applications equals what Spark itself and the scenario say."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from flowdiag.analyses.rate.diagnosis import Wishes, diagnose
from flowdiag.analyses.rate.model import Job, Settings, simulate
from flowdiag.analyses.report import PidStep, RateApplication, Report
from flowdiag.cli.simulation import settings_of
from flowdiag.parsers.sources import discover, of_engine

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

ROOT = Path(__file__).parents[1] / "fixtures" / "recordings" / "spark"
ALL = sorted(path.parent for path in ROOT.glob("*/*/truth.json"))
of_each = pytest.mark.parametrize("folder", ALL, ids=lambda f: str(f.relative_to(ROOT)))

Ask = Callable[..., Report]


@pytest.fixture(scope="module")
def report_of(spark: SparkSession) -> Ask:
    """Diagnose a recording, or some of its folders, once."""
    known: dict[tuple[Path, ...], Report] = {}

    def report(folder: Path, *parts: str) -> Report:
        paths = tuple(folder / part for part in parts if (folder / part).exists()) or (folder,)
        if paths not in known:
            found = of_engine(discover([str(path) for path in paths]), "spark")
            known[paths] = diagnose(found, lambda: spark, Wishes())
        return known[paths]

    return report


def truth_of(folder: Path) -> dict[str, Any]:
    truth: dict[str, Any] = json.loads((folder / "truth.json").read_text())
    return truth


def only(report: Report) -> RateApplication:
    assert report.data.applications is not None
    (app,) = report.data.applications
    return app


@of_each
def test_verdict_cause_and_culprit(folder: Path, report_of: Ask) -> None:
    truth = truth_of(folder)
    report, expected = report_of(folder), truth["expected"]
    app = only(report)
    assert (app.application, app.spark_version) == (truth["application"], truth["spark_version"])
    stabilities = (
        [app.keeping.stability] if app.keeping else [q.keeping.stability for q in app.queries]
    )
    assert stabilities == [expected["stability"]]
    assert (report.summary.verdict, report.summary.cause) == (
        expected["verdict"],
        expected["cause"],
    )
    for name, value in expected.get("culprit", {}).items():
        assert getattr(report.summary.culprits[0].subject, name) == value
    if expected["verdict"] == "healthy":
        assert report.findings == []


Bits = tuple[int, int, int, float | None, float | None, float | None, float | None]


def told(step: dict[str, Any]) -> Bits:
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
def test_the_estimator_is_replayed_to_the_last_bit(folder: Path, report_of: Ask) -> None:
    """From the listener's lines alone: the driver's log, where Spark printed it, is withheld."""
    truth = truth_of(folder)
    printed = [told(step) for step in truth.get("pid", ()) if step["new_rate"] is not None]
    if not printed or not (folder / "listener").exists():
        pytest.skip("no back pressure")
    app = only(report_of(folder, "listener"))
    steps = [replayed(step) for step in app.pid if step.new_rate is not None]
    assert set(printed) <= set(steps)
    # The last batches may complete after the log was closed.
    last = max(step[1] for step in printed)
    assert [step for step in steps if step not in set(printed) and step[1] <= last] == []
    assert all(step.exact for step in app.pid)


@of_each
def test_batches_are_those_of_the_log(folder: Path, report_of: Ask) -> None:
    truth = truth_of(folder)
    if truth["engine"] != "dstream":
        pytest.skip("no batches")
    batches = {batch.batch_time_ms: batch for batch in only(report_of(folder)).batches}
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
def test_triggers_are_those_of_the_log(folder: Path, report_of: Ask) -> None:
    truth = truth_of(folder)
    if truth["engine"] == "dstream":
        pytest.skip("no triggers")
    ours = {
        (query.id and trigger.run_id, trigger.batch_id): trigger
        for query in only(report_of(folder)).queries
        for trigger in query.triggers
    }
    for batch in truth["batches"]:
        trigger = ours[batch["run_id"], batch["batch_id"]]
        assert (trigger.rows, trigger.duration_ms) == (batch["rows"], batch["trigger_execution"])


@of_each
@pytest.mark.parametrize("part", ["listener", "driver", "eventlog"])
def test_healthy_ones_stay_so_whatever_is_missing(folder: Path, part: str, report_of: Ask) -> None:
    if truth_of(folder)["expected"]["verdict"] != "healthy" or not (folder / part).exists():
        pytest.skip("not healthy")
    assert report_of(folder, part).findings == []


PAIRS = [
    ("floor-too-high", "converging"),
    ("oscillating", "converging"),
    ("fixed-cost", "longer-interval"),
]


@pytest.mark.parametrize(("before", "after"), PAIRS)
def test_what_if_comes_true(before: str, after: str, report_of: Ask) -> None:
    """Fitted on one run, the model says what another with other settings did, within a factor of two."""
    folders = [ROOT / "4.3.0" / name for name in (before, after)]
    if not all((folder / "truth.json").exists() for folder in folders):
        pytest.skip("not recorded")
    first, second = (only(report_of(folder, "listener")) for folder in folders)
    assert first.keeping is not None and second.keeping is not None
    cost = first.keeping
    assert cost.cost_per_record_ms is not None
    job = Job(fixed_ms=cost.cost_per_batch_ms or 0.0, per_record_ms=cost.cost_per_record_ms)
    settings: Settings = settings_of(second)
    predicted = simulate(job, settings, [400.0] * 60)
    delays = [b.total_delay_ms for b in second.batches if b.total_delay_ms is not None]
    taken = [b.records for b in second.batches if b.records is not None]
    late = sorted(delays[-len(delays) // 3 :])
    real_delay = late[len(late) // 2]
    many = sorted(taken[-len(taken) // 3 :])
    real_rate = many[len(many) // 2] * 1000 / settings.interval_ms
    assert real_rate / 2 <= predicted.steady_per_s <= 2 * real_rate
    assert real_delay / 2 <= predicted.delay_ms <= 2 * real_delay
    # Better than to expect that nothing changes.
    unchanged = [b.total_delay_ms for b in first.batches if b.total_delay_ms is not None]
    before_late = sorted(unchanged[-len(unchanged) // 3 :])
    same = before_late[len(before_late) // 2]
    assert abs(predicted.delay_ms - real_delay) <= abs(same - real_delay)
