"""`flowdiag simulate pid`, without Spark."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from flowdiag.analyses.rate.data import rate_data
from flowdiag.analyses.report.build import build_report
from flowdiag.analyses.report.wire import Data, encode
from flowdiag.cli.app import main
from tests.analyses import rate_workbench as w

BASE = ["simulate", "pid", "--cost-per-batch", "60ms", "--cost-per-record", "5ms"]


def test_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*BASE, "--offered", "400", "--min-rate", "10"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("60 ms per batch and 5 ms per record every 1 s: at most 188 records/s")
    assert "steady rate" in out and "records/s, tried" in out


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*BASE, "--offered", "20x400,10x20", "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "flowdiag.simulation/1"
    (outcome,) = document["outcomes"]
    assert len(outcome["batches"]) == 30 and outcome["settings"]["gains"]["min_rate"] == 100


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (["--min-rate", "0"], "Spark refuses to start: minRate should be > 0"),
        (["--proportional", "-1"], "Spark refuses to start: proportional should be >= 0"),
        (["--offered", "many"], "'many' is no rate"),
        (["--offered", "-3"], "'-3' is no rate"),
        (["--batches", "0"], "--batches must be 1 to 100000"),
        (["--interval", "often"], "--interval 'often' is no length of time"),
        (["--max-rate", "0"], "--max-rate must be above 0"),
        (["nowhere.json"], "nowhere.json"),
    ],
)
def test_wrong_usage(more: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*BASE, *more]) == 2
    said = capsys.readouterr()
    assert told in said.err and said.out == ""


def test_costs_must_come_from_somewhere(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "pid"]) == 2
    assert "what a record costs is not known" in capsys.readouterr().err


def test_costs_and_settings_of_a_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from flowdiag.analyses.rate.model import Job, Settings
    from flowdiag.analyses.rate.pid import Gains

    tried = Settings(interval_ms=1000, gains=Gains(min_rate=250), max_rate=500)
    offered = [40.0 + 4 * n for n in range(40)] + [400.0] * 40
    app = w.simulated(Job(fixed_ms=60, per_record_ms=5), tried, offered)
    outcomes = w.outcomes(app)
    report = build_report(
        command="rate",
        inputs=(),
        outcomes=[],
        names={},
        data=Data(applications=rate_data(w.assessed(app), outcomes, max_rows=1000)),
        located={},
        assessed=True,
    )
    path = tmp_path / "report.json"
    path.write_bytes(encode(report))
    arguments = ["simulate", "pid", str(path), "--offered", "400", "--min-rate", "10", "-f", "json"]
    assert main(arguments) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["job"]["per_record_ms"] == pytest.approx(5, rel=0.1)
    before, after = document["outcomes"]
    assert before["settings"]["gains"]["min_rate"] == 250
    assert after["steady_per_s"] < before["steady_per_s"] and after["delay_ms"] < before["delay_ms"]
