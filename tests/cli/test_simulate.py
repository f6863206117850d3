"""`flowdiag simulate pid`, without Spark."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from flowdiag.analyses.contract.encoding import encode
from flowdiag.analyses.contract.report import Data
from flowdiag.analyses.rate.data import rate_data
from flowdiag.analyses.rate.model import Job, Settings
from flowdiag.analyses.rate.pid import Gains
from flowdiag.analyses.report.build import ReportBuilder
from flowdiag.cli.app import main
from tests.analyses import rate_workbench as w

COSTS: Final = Job(fixed_ms=60, per_record_ms=5)
RISING: Final = tuple([40.0 + 4 * n for n in range(40)] + [400.0] * 40)
BASE = ["simulate", "pid", "--cost-per-batch", "60ms", "--cost-per-record", "5ms"]


def test_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*BASE, "--offered", "400", "--min-rate", "10"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("60 ms per batch and 5 ms per record every 1 s: at most 188 records/s")
    assert "steady rate" in out and "records/s, with your settings" in out


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*BASE, "--offered", "20x400,10x20", "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "flowdiag.simulation/1"
    (outcome,) = document["outcomes"]
    assert len(outcome["batches"]) == 30 and outcome["settings"]["gains"]["min_rate"] == 100


@pytest.mark.parametrize(
    ("more", "error"),
    [
        (["--min-rate", "0"], "Spark refuses to start: minRate should be > 0"),
        (["--proportional", "-1"], "Spark refuses to start: proportional should be >= 0"),
        (["--offered", "many"], "'many' is not a rate"),
        (["--offered", "-3"], "'-3' is not a rate"),
        (["--batches", "0"], "--batches must be 1 to 100000"),
        (["--interval", "often"], "--interval 'often' is not a duration"),
        (["--interval", "2"], "--interval '2' has no unit"),
        (["--interval", "0"], "--interval must be at least 1 ms"),
        (["--interval", "0.5ms"], "--interval must be at least 1 ms"),
        (["--cost-per-record", "0s"], "--cost-per-record must be above 0"),
        (["--proportional", "inf"], "--proportional must be a number"),
        (["--integral", "nan"], "--integral must be a number"),
        (["--max-rate", "nan"], "--max-rate must be above 0"),
        (["--initial-rate", "inf"], "--initial-rate must be above 0"),
        (["--no-back-pressure", "--min-rate", "5"], "--min-rate has no effect with"),
        (["--output", "nowhere/at/all.json"], "nowhere/at/all.json': No such file or directory"),
        (["--max-rate", "0"], "--max-rate must be above 0"),
        (["nowhere.json"], "nowhere.json"),
    ],
)
def test_wrong_usage(more: list[str], error: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*BASE, *more]) == 2
    printed = capsys.readouterr()
    assert error in printed.err and printed.out == ""


def test_costs_are_required(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "pid"]) == 2
    assert "the cost of a record is unknown" in capsys.readouterr().err


def report_of(
    configured: Settings,
    offered: Sequence[float],
    job: Job = COSTS,
    change: Callable[[dict[str, Any]], None] = lambda document: None,
    **values: Any,
) -> bytes:
    """Return the JSON report of `flowdiag rate` on a simulated application."""
    app = w.simulated(job, configured, list(offered), **values)
    outcomes = w.outcomes(app)
    report = ReportBuilder(
        command="rate",
        inputs=(),
        outcomes=[],
        names={},
        data=Data(applications=rate_data(w.assessed(app), outcomes, max_rows=1000)),
        located={},
        assessed=True,
    ).build()
    document = json.loads(encode(report))
    change(document)
    return json.dumps(document).encode()


def simulated(path: Path, *more: str, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    assert main(["simulate", "pid", str(path), *more, "-f", "json"]) == 0
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def test_costs_and_settings_of_a_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    configured = Settings(interval_ms=1000, gains=Gains(min_rate=250), max_rate=500)
    path = tmp_path / "report.json"
    path.write_bytes(report_of(configured, RISING))
    document = simulated(path, "--offered", "400", "--min-rate", "10", capsys=capsys)
    assert document["job"]["per_record_ms"] == pytest.approx(5, rel=0.1)
    before, after = document["outcomes"]
    assert before["settings"]["gains"]["min_rate"] == 250
    assert after["steady_per_s"] < before["steady_per_s"] and after["delay_ms"] < before["delay_ms"]


def test_the_input_rate_comes_from_the_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Run both commands of the README. Without --offered, the rate is that of the batches in the
    report."""
    monkeypatch.setenv("COLUMNS", "160")  # so that no cell of the table wraps
    path = tmp_path / "report.json"
    path.write_bytes(report_of(Settings(interval_ms=1000, back_pressure=False), RISING))
    report = json.loads(path.read_bytes())["data"]["applications"][0]["keeping"]
    document = simulated(path, "--min-rate", "10", capsys=capsys)
    assert document["offered_per_s"] == report["records_per_s"] == 400
    assert document["offered_from"] == "the rate of the report's last batches"
    before, after = document["outcomes"]
    assert (before["settling"], before["settling_ms"]) == ("delay-grows", None)
    # With an estimator, the rate settles at the sustainable rate of the report.
    assert after["settling"] == "settled"
    assert after["steady_per_s"] == pytest.approx(report["sustainable_per_s"], rel=0.02)
    assert main(["simulate", "pid", str(path), "--min-rate", "10"]) == 0
    out = capsys.readouterr().out
    assert "offered 400 records/s, the rate of the report's last batches" in out
    assert "never: the delay grows" in out


def test_a_rate_limited_source_offers_more_than_its_batches_hold(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    configured = Settings(interval_ms=1000, gains=Gains(min_rate=10), max_rate=500)
    path = tmp_path / "report.json"
    path.write_bytes(report_of(configured, RISING))
    document = simulated(path, capsys=capsys)
    assert document["offered_per_s"] == pytest.approx(2 * document["sustainable_per_s"], rel=0.001)
    assert "were rate-limited" in document["offered_from"]
    (outcome,) = document["outcomes"]
    assert outcome["name"] == "with your settings" and outcome["settling"] == "settled"


@pytest.mark.parametrize("slots", [1, 2])
@pytest.mark.parametrize("each", [5.0, 0.00123456789])
def test_the_sustainable_rate_matches_the_report(
    slots: int, each: float, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = Job(fixed_ms=60, per_record_ms=each)
    configured = Settings(interval_ms=1000, back_pressure=False)
    offered = [n / each for n in (200, 250, 300, 350, 400, 450, 500, 550, 600) * 6]

    def with_slots(document: dict[str, Any]) -> None:
        (app,) = document["data"]["applications"]
        app["settings"]["spark.streaming.concurrentJobs"] = str(slots)
        keeping = app["keeping"]
        room = slots * 1000 - keeping["cost_per_batch_ms"]
        keeping["sustainable_per_s"] = room / keeping["cost_per_record_ms"]

    path = tmp_path / "report.json"
    path.write_bytes(report_of(configured, offered, job, with_slots))
    keeping = json.loads(path.read_bytes())["data"]["applications"][0]["keeping"]
    document = simulated(path, capsys=capsys)
    assert document["sustainable_per_s"] == pytest.approx(keeping["sustainable_per_s"], rel=1e-6)
    # The simulation runs as many batches at once: with two slots, 1.9 s of work fits into 1 s.
    rate = 0.95 * keeping["sustainable_per_s"]
    (outcome,) = simulated(path, "--offered", f"{rate:.3f}", capsys=capsys)["outcomes"]
    assert outcome["settling"] == "settled"
    assert outcome["steady_per_s"] == pytest.approx(rate, rel=0.01)


def test_minimum_rates_apply_to_each_stream(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def twice(document: dict[str, Any]) -> None:
        (app,) = document["data"]["applications"]
        app["streams"] = [{**app["streams"][0], "stream_id": n} for n in (0, 1)]

    path = tmp_path / "report.json"
    configured = Settings(interval_ms=1000, gains=Gains(min_rate=30), max_rate=500)
    path.write_bytes(report_of(configured, RISING, COSTS, twice))
    before, after = simulated(path, "--min-rate", "10", capsys=capsys)["outcomes"]
    assert before["settings"]["gains"]["min_rate"] == 60
    assert (after["settings"]["gains"]["min_rate"], after["settings"]["max_rate"]) == (20, 1000)


@pytest.mark.parametrize(
    ("arguments", "settling"),
    [
        # A burst before the first estimate takes minutes to process. Then the rate settles.
        (["--offered", "2000", "--min-rate", "10"], "settled"),
        (["--offered", "400", "--min-rate", "300"], "delay-grows"),
        (["--offered", "400", "--no-back-pressure"], "delay-grows"),
        (["--offered", "100", "--no-back-pressure"], "settled"),
        (["--offered", "5x2000,1x20", "--no-back-pressure"], "settled"),
        (["--offered", "190", "--no-back-pressure"], "delay-grows"),  # barely above the capacity
        (["--offered", "185", "--no-back-pressure"], "settled"),
        (["--offered", "400", "--proportional", "2.5", "--min-rate", "10"], "rate-swings"),
    ],
)
def test_an_outcome_never_settles_if_the_delay_grows_or_the_rate_swings(
    arguments: list[str], settling: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*BASE, *arguments, "-f", "json"]) == 0
    (outcome,) = json.loads(capsys.readouterr().out)["outcomes"]
    assert outcome["settling"] == settling
    assert (outcome["settling_ms"] is not None) == (settling == "settled")
    assert main([*BASE, *arguments]) == 0
    assert ("never" in capsys.readouterr().out) == (settling != "settled")


def test_back_pressure_can_be_turned_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "report.json"
    path.write_bytes(report_of(Settings(interval_ms=1000, back_pressure=False), RISING))
    before, after = simulated(path, "--back-pressure", capsys=capsys)["outcomes"]
    assert not before["settings"]["back_pressure"] and after["settings"]["back_pressure"]
    assert main(["simulate", "pid", "--help"]) == 0
    assert "--back-pressure/--no-back-pressure" in capsys.readouterr().out


def test_the_outcome_is_written_to_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, more in (("a.txt", []), ("a.json", ["-f", "json"])):
        assert main([*BASE, *more, "-o", str(tmp_path / name)]) == 0
    assert capsys.readouterr().out == ""
    assert "steady rate" in (tmp_path / "a.txt").read_text()
    assert json.loads((tmp_path / "a.json").read_text())["outcomes"]


BROKEN = {
    "an event log": b'{"Event":"SparkListenerLogStart","Spark Version":"3.5.7"}\n{"Event":"x"}\n',
    "a picture": b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR",
    "nothing": b"",
    "endless lists": b"[" * 100_000,
    "endless objects": b'{"a":' * 100_000,
    "UTF-16": '{"schema"'.encode("utf-16"),
    "only a header": b'{"schema": "flowdiag.report/1"}',
    "another schema": b'{"schema": "flowdiag.report/9"}',
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_file_that_is_not_a_report(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "report.json"
    path.write_bytes(BROKEN[kind])
    for command in (["simulate", "pid"], ["render"]):
        assert main([*command, str(path)]) == 2
        printed = capsys.readouterr()
        first, *hint = printed.err.splitlines()
        assert first.startswith(f"error: '{path}' ") and len(hint) == 1 and not printed.out


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda d: d["tool"].update(command="checkpoints"), "is a report of flowdiag checkpoints"),
        (lambda d: d["data"].pop("applications"), "contains 0 applications"),
        (lambda d: d["data"]["applications"][0].update(batch_interval_ms=0), "interval of 0 ms"),
        (lambda d: d["data"]["applications"][0].update(keeping=None), "the cost of a record"),
        (
            lambda d: d["data"]["applications"][0]["keeping"].update(cost_per_record_ms=-1),
            "the cost of a record",
        ),
        (lambda d: d["data"]["applications"].append(d["data"]["applications"][0]), "contains 2"),
    ],
)
def test_a_report_that_cannot_be_simulated(
    change: Any, error: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "report.json"
    path.write_bytes(report_of(Settings(interval_ms=1000), RISING, COSTS, change))
    assert main(["simulate", "pid", str(path)]) == 2
    assert error in capsys.readouterr().err


def test_invalid_settings_of_a_report_count_as_defaults(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def with_invalid_settings(document: dict[str, Any]) -> None:
        settings = document["data"]["applications"][0]["settings"]
        settings["spark.streaming.receiver.maxRate"] = "0"  # no limit
        settings["spark.streaming.backpressure.pid.integral"] = "nan"
        settings["spark.streaming.concurrentJobs"] = "many"

    path = tmp_path / "report.json"
    path.write_bytes(report_of(Settings(interval_ms=1000), RISING, COSTS, with_invalid_settings))
    (outcome,) = simulated(path, capsys=capsys)["outcomes"]
    assert outcome["settings"]["max_rate"] is None
    assert outcome["settings"]["gains"]["integral"] == 0.2


def test_an_internal_error_names_the_debug_option(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("flowdiag.cli.simulations.pid.workload", lambda flags: 1 / 0)
    assert main(BASE) == 4
    assert "--debug shows the traceback" in capsys.readouterr().err
    assert main([*BASE, "--debug"]) == 4
    assert "Traceback" in capsys.readouterr().err
    for command in (["rules"], ["explain"], ["simulate", "credits"], ["warm"], ["render"]):
        assert main([*command, "--help"]) == 0
        assert capsys.readouterr().out.count("--debug") == 1
