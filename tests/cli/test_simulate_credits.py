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
        "as it is",
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
    assert first["name"] == "as it is" and first["throughput_per_s"] == pytest.approx(200, rel=0.05)
    assert first["settings"]["floating"] == 2 and first["settings"]["segment_bytes"] == 4096
    assert {s["task"] for s in first["subtasks"]} == {"source", "task 1", "sink"}
    free = next(item for item in others if item["name"] == "unaligned checkpoints")
    assert free["checkpoint_ms"] < first["checkpoint_ms"] and free["overtaken_bytes"] > 0
    assert document["growth"]["from_empty"][0][1] <= document["growth"]["from_empty"][-1][1]


def test_room_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "credits", "--rate", "50", "--service", "1ms"]) == 0
    out = capsys.readouterr().out
    assert "no task is near its limit" in out and "subtasks" not in out


def test_a_job_that_would_not_start(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*BASE, *SMALL, "--segments", "1"]) == 2
    assert "it would not start" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (["--rate", "0"], "--rate must be above 0"),
        (["--rate", "nan"], "--rate must be above 0"),
        (["--service", "soon"], "--service 'soon' is not a duration"),
        (["--service", "1ms,1ms,1ms"], "--service names 3 tasks"),
        (["--parallelism", "2"], "--parallelism needs two tasks"),
        (["--parallelism", "2,0"], "--parallelism needs two tasks"),
        (["--parallelism", "a,b"], "is no list of numbers"),
        (["--parallelism", "1000,1000", "--service", "1ms"], "cannot simulate this: more than"),
        (["--record-size", "big"], "is no size"),
        (["--skew", "2"], "--skew must be"),
        (["--task-managers", "0"], "--task-managers must be"),
        (["--flink", "new"], "is no version"),
        (["--flink", "1.4"], "credits are there from Flink 1.5"),
        (["--flink", "2.3", "--buffers-per-channel", "4"], "Flink 2 ignores"),
        (["--flink", "1.10", "--unaligned"], "from Flink 1.11"),
        (["--flink", "1.13", "--debloat", "1s"], "from Flink 1.14"),
        (["--debloat", "a bit"], "--debloat 'a bit' is not a duration"),
        (["--segment-size", "1kb"], "--segment-size must be"),
        (["--floating-buffers", "0"], "--floating-buffers must be at least 1"),
        (["--buffers-per-channel", "-1"], "--buffers-per-channel must be at least 0"),
        (["--from", "nowhere"], "--parallelism does not go with --from"),
    ],
)
def test_wrong_usage(more: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*BASE, *more]) == 2
    said = capsys.readouterr()
    assert told in said.err and said.out == ""


def test_costs_must_come_from_somewhere(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "credits"]) == 2
    assert "give --rate and --service" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--service", "--buffer-timeout", "--debloat"])
def test_a_length_of_time_has_a_unit(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*BASE, option, "5"]) == 2
    assert f"{option} '5' has no unit" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["event log", "pictures", "empty folder"])
def test_inputs_of_nothing_that_can_be_simulated(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "input"
    if kind == "event log":
        path.write_text('{"Event":"SparkListenerLogStart","Spark Version":"3.5.7"}\n')
    else:
        path.mkdir()
    if kind == "pictures":
        for name in "ab":
            (path / f"{name}.png").write_bytes(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR")
    assert main(["simulate", "credits", "--from", str(path)]) == 2
    said = capsys.readouterr()
    first, hint = said.err.splitlines()
    assert first.startswith("error: no input tells of a Flink job") and not said.out
    assert hint.startswith("  hint: give logs")


def test_the_outcome_goes_to_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "outcome.json"
    assert main([*BASE, *SMALL, "-f", "json", "-o", str(path)]) == 0
    assert json.loads(path.read_text())["bottleneck"] == "sink" and not capsys.readouterr().out
