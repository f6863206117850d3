"""`flowdiag simulate autoscaler` on a recorded autoscaler, without Spark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from flowdiag.cli.app import main

ROOT = Path(__file__).parents[2] / "fixtures" / "recordings" / "rescaling"
RECORDED = str(ROOT / "2.3.0" / "autoscaled" / "autoscaled.tar.zst")


@pytest.fixture
def configuration(tmp_path: Path) -> str:
    """Return a configuration with the recorded options of the autoscaler."""
    provenance = json.loads((ROOT / "2.3.0" / "provenance.json").read_text())
    options = provenance["autoscaled"]["autoscaler"]["options"]
    path = tmp_path / "flink-conf.yaml"
    path.write_text("".join(f"{key}: {value}\n" for key, value in options.items()))
    return str(path)


def test_every_recorded_scaling_is_replayed(
    configuration: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    assert main(["simulate", "autoscaler", RECORDED, configuration]) == 0
    out = capsys.readouterr().out
    assert "the replay matches 4 of 4 recorded scalings" in out
    assert "price" in out and "with your settings" not in out


def test_other_settings(configuration: str, capsys: pytest.CaptureFixture[str]) -> None:
    flags = ["--target-utilization", "0.4", "--max-parallelism", "6", "--format", "json"]
    assert main(["simulate", "autoscaler", RECORDED, configuration, *flags]) == 0
    document: Any = json.loads(capsys.readouterr().out)
    assert document["schema"] == "flowdiag.autoscaler/1"
    recorded, changed = document["outcomes"]
    assert recorded["settings"]["target_utilization"] == 0.7
    assert [s["recorded"] for s in recorded["scalings"]] == [
        s["proposed"] for s in recorded["scalings"]
    ]
    assert {s["proposed"] for s in changed["scalings"]} == {6}
    assert all(vertex["why"] for vertex in changed["vertices"])


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ([str(ROOT / "2.3.0" / "provenance.json")], "no state of an autoscaler"),
        ([RECORDED, "--target-utilization", "7"], "between 0 and 1"),
        ([RECORDED, "--max-parallelism", "0"], "at least 1"),
        ([RECORDED, "--catch-up", "often"], "--catch-up"),
    ],
)
def test_unusable_inputs_and_values(
    arguments: list[str], error: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", "autoscaler", *arguments]) == 2
    assert error in capsys.readouterr().err
