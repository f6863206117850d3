"""Folders with many archives of a History Server are measured in batches, with the same report."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from flowdiag.analyses.flink.batches import batches_of
from flowdiag.parsers.discover import discover
from tests.archives import FIXTURES, unpacked
from tests.diagnoses import diagnosed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RECORDINGS = [
    FIXTURES / "recordings/flink" / name
    for name in ("1.20.5/hot-key", "1.20.5/healthy", "2.3.0/healthy")
]


@pytest.fixture
def archives(tmp_path: Path) -> Path:
    for recording in RECORDINGS:
        for archive in (unpacked(recording) / "archive").iterdir():
            (tmp_path / archive.name).write_bytes(archive.read_bytes())
    return tmp_path


def test_archives_are_split_by_size_and_other_inputs_are_not(archives: Path) -> None:
    sources = discover([str(archives)]).sources
    assert [len(batch) for batch in batches_of(sources)] == [3]
    assert [len(batch) for batch in batches_of(sources, 450_000)] == [2, 1]
    assert [len(batch) for batch in batches_of(sources, 1)] == [1, 1, 1]
    log = replace(sources[0], kind="log")
    assert [len(batch) for batch in batches_of([*sources, log], 1)] == [4]
    # A configuration, which a topic reads on its own, may belong to any of the jobs.
    side_input = replace(sources[0], kind="not-read", reason=None)
    assert [len(batch) for batch in batches_of([*sources, side_input], 1)] == [4]
    rejected = replace(sources[0], kind="not-read", reason="an image")
    assert [len(batch) for batch in batches_of([*sources, rejected], 1)] == [1, 1, 1, 1]


@pytest.mark.spark
def test_batches_give_the_same_report(
    archives: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = diagnosed(spark, archives)
    assert whole["summary"]["cause"] == "data-skew"
    monkeypatch.setattr(batches_of, "__defaults__", (1,))
    assert diagnosed(spark, archives) == whole


@pytest.mark.spark
def test_copies_of_a_job_in_two_batches_are_measured_together(
    archives: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    (hot,) = (unpacked(RECORDINGS[0]) / "archive").iterdir()
    for archive in archives.iterdir():
        if archive.name != hot.name:
            archive.unlink()
    (archives / "copy").write_bytes(hot.read_bytes())
    whole = diagnosed(spark, archives)
    monkeypatch.setattr(batches_of, "__defaults__", (1,))
    assert diagnosed(spark, archives) == whole
