"""Start-up tricks: each can be left out, is explained, and changes no report."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from flowdiag.cli.spark import jvm, settings, tricks
from flowdiag.cli.spark.tricks import MEANING, VARIABLE, Trick
from flowdiag.parsers.errors import FlowdiagError
from tests.archives import unpacked

ROOT = Path(__file__).parents[2]


def test_each_is_explained_and_its_place_is_true() -> None:
    assert list(MEANING) == list(Trick)
    house = ROOT / "cli" / "spark"
    texts = [file.read_text() for file in house.glob("*.py") if file.name != "tricks.py"]
    for trick, meaning in MEANING.items():
        assert (house / meaning.rpartition("`")[0].rpartition("`")[2]).is_file()
        assert any(f"Trick.{trick.name}" in text for text in texts), trick


def test_the_page_says_what_each_brings() -> None:
    page = (ROOT / "benchmarks" / "README.md").read_text()
    for trick, meaning in MEANING.items():
        (row,) = (line for line in page.splitlines() if line.startswith(f"| `{trick.value}` |"))
        _, _, said, wall, processor, _ = (cell.strip() for cell in row.split("|"))
        assert said == meaning
        assert max(float(wall), float(processor)) >= 1.03  # what brings less goes


def test_a_name_that_means_nothing_is_told_with_a_near_one() -> None:
    with pytest.raises(FlowdiagError, match="FLOWDIAG_WITHOUT: there is no 'archives'") as caught:
        tricks.check({VARIABLE: "archives,fewer-jars"})
    assert caught.value.hint == "did you mean 'archive'?"


def test_what_is_left_out_is_not_done(monkeypatch: pytest.MonkeyPatch) -> None:
    few = settings.by_size(10, cores=2)
    flags, path = jvm.flags_used(), jvm.class_path(jvm.spark_home())
    monkeypatch.setenv(VARIABLE, " ".join(Trick))
    assert set(few) == set(plain := settings.by_size(10, cores=2))
    assert {key for key in few if plain[key] is None} == {
        key for key in settings.SMALL if key != "spark.sql.shuffle.partitions"
    }
    assert set(flags) - set(jvm.flags_used()) == {
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        "-XX:ReservedCodeCacheSize=200m",
    }
    assert len(jvm.class_path(jvm.spark_home())) > len(path)


@pytest.mark.full
def test_a_report_is_the_same_without_any() -> None:
    logs = unpacked(ROOT / "fixtures" / "recordings" / "flink" / "1.20.5" / "healthy") / "logs"
    told = []
    for without in ("", ",".join(Trick)):
        done = subprocess.run(
            [sys.executable, "-m", "flowdiag", "checkpoints", str(logs), "-f", "json"],
            env={**os.environ, VARIABLE: without},
            capture_output=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        told.append(done.stdout)
    assert told[0] == told[1]
