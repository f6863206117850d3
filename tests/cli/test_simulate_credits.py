"""`flowdiag simulate credits` from flags alone, without Spark."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from flowdiag.cli.app import main

BASE = ["simulate", "credits", "--parallelism", "1,2,1", "--rate", "600", "--service", "0,5ms"]
SMALL = ["--record-size", "400b", "--segment-size", "4kb", "--floating-buffers", "2"]


def test_the_table(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    assert main([*BASE, *SMALL]) == 0
    out = capsys.readouterr().out
    assert out.startswith("source (1, 600 records/s) -> task 1 (2, 0 ms) -> sink (1, 5 ms)")
    assert "the slowest task is sink" in out and "exceed its capacity" in out
    for name in (
        "with your settings",
        "fewer buffers",
        "buffer debloating (1 s)",
        "unaligned",
        "sink with 2",
    ):
        assert name in out
    assert "buffers before sink" in out


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*BASE, *SMALL, "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "flowdiag.simulation/1" and document["bottleneck"] == "sink"
    first, *others = document["outcomes"]
    assert first["name"] == "with your settings" and first["throughput_per_s"] == pytest.approx(
        200, rel=0.05
    )
    assert first["settings"]["floating"] == 2 and first["settings"]["segment_bytes"] == 4096
    assert {s["task"] for s in first["subtasks"]} == {"source", "task 1", "sink"}
    unaligned = next(item for item in others if item["name"] == "unaligned checkpoints")
    assert unaligned["checkpoint_ms"] < first["checkpoint_ms"] and unaligned["overtaken_bytes"] > 0
    assert document["growth"]["from_empty"][0][1] <= document["growth"]["from_empty"][-1][1]


def test_a_job_with_headroom(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "credits", "--rate", "50", "--service", "1ms"]) == 0
    out = capsys.readouterr().out
    assert "no task is near its limit" in out and "subtasks" not in out


def test_a_job_that_cannot_start(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*BASE, *SMALL, "--segments", "1"]) == 2
    assert "it cannot start" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("more", "error"),
    [
        (["--rate", "0"], "--rate must be above 0"),
        (["--rate", "nan"], "--rate must be above 0"),
        (["--service", "soon"], "--service 'soon' is not a duration"),
        (["--service", "1ms,1ms,1ms"], "--service lists 3 tasks"),
        (["--parallelism", "2"], "--parallelism needs at least two tasks"),
        (["--parallelism", "2,0"], "--parallelism needs at least two tasks"),
        (["--parallelism", "a,b"], "is not a list of numbers"),
        (
            ["--parallelism", "1000,1000", "--service", "1ms"],
            "cannot simulate these settings: more than",
        ),
        (["--record-size", "big"], "is not a size"),
        (["--skew", "2"], "--skew must be"),
        (["--task-managers", "0"], "--task-managers must be"),
        (["--flink", "new"], "is not a version"),
        (["--flink", "1.4"], "requires Flink 1.5 or later"),
        (["--flink", "2.3", "--buffers-per-channel", "4"], "Flink 2 ignores"),
        (["--flink", "1.10", "--unaligned"], "require Flink 1.11 or later"),
        (["--flink", "1.13", "--debloat", "1s"], "requires Flink 1.14 or later"),
        (["--debloat", "a bit"], "--debloat 'a bit' is not a duration"),
        (["--segment-size", "1kb"], "--segment-size must be"),
        (["--floating-buffers", "0"], "--floating-buffers must be at least 1"),
        (["--buffers-per-channel", "-1"], "--buffers-per-channel must be at least 0"),
        (["--from", "nowhere"], "--parallelism cannot be combined with --from"),
    ],
)
def test_wrong_usage(more: list[str], error: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*BASE, *more]) == 2
    printed = capsys.readouterr()
    assert error in printed.err and printed.out == ""


def test_costs_are_required(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "credits"]) == 2
    assert "pass --rate and --service" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--service", "--buffer-timeout", "--debloat"])
def test_a_duration_needs_a_unit(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*BASE, option, "5"]) == 2
    assert f"{option} '5' has no unit" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["event log", "images", "empty folder"])
def test_inputs_without_a_flink_job(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "input"
    if kind == "event log":
        path.write_text('{"Event":"SparkListenerLogStart","Spark Version":"3.5.7"}\n')
    else:
        path.mkdir()
    if kind == "images":
        for name in "ab":
            (path / f"{name}.png").write_bytes(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR")
    assert main(["simulate", "credits", "--from", str(path)]) == 2
    printed = capsys.readouterr()
    first, hint = printed.err.splitlines()
    assert first.startswith("error: no input describes a Flink job") and not printed.out
    assert hint.startswith("  hint: pass logs")


def test_the_outcome_is_written_to_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "outcome.json"
    assert main([*BASE, *SMALL, "-f", "json", "-o", str(path)]) == 0
    assert json.loads(path.read_text())["bottleneck"] == "sink" and not capsys.readouterr().out
