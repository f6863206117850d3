"""Startup optimizations: each can be disabled, is documented, and does not change reports."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from flowdiag.cli.spark import jvm, optimizations, settings
from flowdiag.cli.spark.optimizations import DESCRIPTIONS, VARIABLE, Optimization
from flowdiag.parsers.errors import FlowdiagError
from tests.archives import unpacked

ROOT = Path(__file__).parents[2]


def test_each_trick_is_described_with_its_module() -> None:
    assert list(DESCRIPTIONS) == list(Optimization)
    folder = ROOT / "cli" / "spark"
    texts = [file.read_text() for file in folder.glob("*.py") if file.name != "optimizations.py"]
    for optimization, description in DESCRIPTIONS.items():
        assert (folder / description.rpartition("`")[0].rpartition("`")[2]).is_file()
        assert any(f"Optimization.{optimization.name}" in text for text in texts), optimization


def test_the_benchmark_page_lists_the_effect_of_each_trick() -> None:
    page = (ROOT / "benchmarks" / "README.md").read_text()
    for optimization, description in DESCRIPTIONS.items():
        (row,) = (
            line for line in page.splitlines() if line.startswith(f"| `{optimization.value}` |")
        )
        _, _, documented, wall, processor, _ = (cell.strip() for cell in row.split("|"))
        assert documented == description
        assert max(float(wall), float(processor)) >= 1.03  # less effective ones should be removed


def test_an_unknown_name_is_rejected_with_a_suggestion() -> None:
    with pytest.raises(FlowdiagError, match="FLOWDIAG_WITHOUT: there is no 'archives'") as caught:
        optimizations.check_names({VARIABLE: "archives,fewer-jars"})
    assert caught.value.hint == "did you mean 'archive'?"


def test_disabled_tricks_have_no_effect(monkeypatch: pytest.MonkeyPatch) -> None:
    few = settings.by_size(10, cores=2)
    flags, path = jvm.active_flags(), jvm.class_path(jvm.spark_home())
    monkeypatch.setenv(VARIABLE, " ".join(Optimization))
    assert set(few) == set(plain := settings.by_size(10, cores=2))
    assert {key for key in few if plain[key] is None} == {
        key for key in settings.SMALL if key != "spark.sql.shuffle.partitions"
    }
    assert set(flags) - set(jvm.active_flags()) == {
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        "-XX:ReservedCodeCacheSize=200m",
    }
    assert len(jvm.class_path(jvm.spark_home())) > len(path)


@pytest.mark.full
def test_a_report_is_the_same_without_tricks() -> None:
    logs = unpacked(ROOT / "fixtures" / "recordings" / "flink" / "1.20.5" / "healthy") / "logs"
    reports = []
    for without in ("", ",".join(Optimization)):
        done = subprocess.run(
            [sys.executable, "-m", "flowdiag", "checkpoints", str(logs), "-f", "json"],
            env={**os.environ, VARIABLE: without},
            capture_output=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        reports.append(done.stdout)
    assert reports[0] == reports[1]
