"""Checks that faults found earlier stay fixed, and that the searches find planted faults."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest

from flowdiag.parsers import split as splitting
from tests.fuzz import plain
from tests.fuzz.found import REGRESSIONS, Found
from tests.fuzz.minimising import minimised
from tests.fuzz.mutations import MUTATIONS, mutated
from tests.fuzz.parsing import FIXED_S, Broken, check
from tests.fuzz.seeds import seeds

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILES = sorted(path for path in REGRESSIONS.iterdir() if path.is_file())
FOLDERS = sorted(path for path in REGRESSIONS.iterdir() if path.is_dir())


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_earlier_faults_stay_fixed(path: Path, tmp_path: Path) -> None:
    for number in range(3):
        check(path.read_bytes(), tmp_path / "input.log", Random(number))


@pytest.mark.spark
@pytest.mark.parametrize("path", FOLDERS, ids=lambda path: path.name)
def test_earlier_faults_of_commands_stay_fixed(
    path: Path, tmp_path: Path, spark: SparkSession
) -> None:
    from tests.fuzz import commands

    files = commands.files_of(path)
    arguments = json.loads(files.pop("command.json"))
    what, more, _ = commands.fault(
        files, arguments, tmp_path, commands.Session(spark, tmp_path / "session")
    )
    assert what is None, more


def test_a_short_search_finds_no_fault(tmp_path: Path) -> None:
    others = [each.data for each in seeds()]
    for number in range(15):
        chance = Random(f"default {number}")
        seed = plain.by_format(chance)
        check(mutated(seed.data, chance, others), tmp_path / seed.name, chance)


@pytest.mark.parametrize("format", ["paste", "recorded: rest", "codec: zstd"])
def test_seeds_are_recognised(format: str, tmp_path: Path) -> None:
    found = [each for each in seeds() if each.format == format][:3]
    assert found
    for seed in found:
        assert check(seed.data, tmp_path / seed.name, Random(1)).rows > 1


@pytest.mark.parametrize("mutation", dict.fromkeys(MUTATIONS))
def test_a_mutation_changes_and_repeats(mutation: object) -> None:
    assert callable(mutation)
    others = [each.data for each in seeds()][:50]
    changed = [mutation(others[7], Random(number), others) for number in range(20)]
    assert changed == [mutation(others[7], Random(number), others) for number in range(20)]
    assert any(each != others[7] for each in changed)


# -- the harness detects planted faults -------------------------------------------------


def planted(fault: Any, path: Path, data: bytes) -> str:
    with mock.patch.dict(splitting._READERS, {"log": fault}), pytest.raises(Broken) as broken:
        check(data, path, Random(1))
    return broken.value.what


LOG = b"2026-11-21 06:00:00,000 INFO  org.apache.flink.runtime.jobmaster.JobMaster [] - hello\n" * 3


def test_a_fault_of_a_reader_is_detected(tmp_path: Path) -> None:
    def raising(stream: object, task: object) -> object:
        raise KeyError("planted")

    assert planted(raising, tmp_path / "x.log", LOG).startswith("KeyError: ")


def test_a_fault_that_resembles_damage_is_detected(tmp_path: Path) -> None:
    def raising(stream: object, task: object) -> object:
        raise ValueError("planted")

    assert planted(raising, tmp_path / "x.log", LOG).startswith("ValueError: ")


def test_a_slow_reader_is_detected(tmp_path: Path) -> None:
    def slow(stream: object, task: object) -> list[object]:
        until = time.thread_time() + 1.2 * FIXED_S
        while time.thread_time() < until:
            pass
        return []

    assert planted(slow, tmp_path / "x.log", LOG) == "slow"


def test_rows_that_depend_on_the_split_are_detected(tmp_path: Path) -> None:
    def split_dependent(stream: object, task: splitting._Task) -> list[object]:
        row = {"source": task.split.source.index, "offset": task.split.start, "event": "known"}
        task.rows.add(row)
        task.tally.bytes = task.split.source.size
        return []

    assert planted(split_dependent, tmp_path / "x.log", LOG) == "other rows when split, log"


def test_a_fault_is_kept_once_and_minimised(tmp_path: Path) -> None:
    def raising(stream: object, task: splitting._Task) -> list[object]:
        data = Path(task.split.source.path).read_bytes()
        if b"hello" in data:
            raise RuntimeError("planted")
        return []

    found = Found(tmp_path / "found")
    with mock.patch.dict(splitting._READERS, {"log": raising}):
        for number in range(2):
            plain.try_input(LOG, tmp_path, "x.log", number, found)
    (kept, more) = sorted((tmp_path / "found").iterdir())
    assert b"hello" in kept.read_bytes() and len(kept.read_bytes()) < len(LOG) // 3
    assert "planted" in more.read_text()
    assert found.print_summary(1) == 1


def test_minimising_keeps_the_fault() -> None:
    data = b"".join(b"line %d\n" % number for number in range(200))
    assert minimised(data, lambda some: b"17" in some and b"99" in some, 20) in (
        b"1799",
        b"17\n99",
        b"1799\n",
    )


# A configuration alone is judged without Spark.
CONFIGURED = {"flink-conf.yaml": b"taskmanager.memory.process.size: 1728m\nflink.version: 1.20\n"}


def test_a_command_is_run_and_every_format_rendered(tmp_path: Path) -> None:
    from tests.fuzz import commands

    what, more, kind = commands.fault(CONFIGURED, ["memory"], tmp_path, None)
    assert what is None, more
    assert kind in ("exit code 0", "exit code 1", "exit code 3")
    assert commands.fault({}, ["memory", "--tz", "nowhere"], tmp_path, None)[2] == "exit code 2"


def test_a_fault_of_a_command_is_detected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from flowdiag.cli.render import RENDERERS
    from flowdiag.cli.settings import Format
    from tests.fuzz import commands

    def raising(report: object, page: object) -> str:
        raise KeyError("planted")

    monkeypatch.setitem(RENDERERS, Format.MARKDOWN, raising)
    what, _, _ = commands.fault(CONFIGURED, ["memory"], tmp_path, None)
    assert what is not None and what.startswith("not rendered as markdown")


SLOW = """
import sys, time
from pathlib import Path
from tests.fuzz import guided, plain
plain.try_input = lambda *_: time.sleep(1.1) or "slow"
guided.SLOW_S = 1
guided.search(Path(sys.argv[1]), 8, 1)
"""


@pytest.mark.full
def test_slow_inputs_of_the_guided_search_are_kept(tmp_path: Path) -> None:
    pytest.importorskip("atheris")
    found, here = tmp_path / "found", tmp_path / "here"
    here.mkdir()
    root = Path(__file__).parents[2]
    run = subprocess.run(
        [sys.executable, "-c", SLOW, str(found)],
        cwd=here,
        env={**os.environ, "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert run.returncode == 1, run.stderr
    kept = list(found.iterdir())
    assert kept and all(path.name.startswith("slow-unit-") for path in kept)
    assert str(kept[0]) in run.stderr
    assert not list(here.iterdir())
