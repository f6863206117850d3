"""Spark begins once, and early; what is set for the process while a command runs is undone after it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Self

import pytest

from flowdiag.cli.settings import Settings
from flowdiag.cli.spark.early import spark_ahead, spark_for


class Begun:
    """Stands in for Spark: remembers what began and what ended."""

    log: list[str]

    def __init__(self, name: str) -> None:
        self.name = name

    @classmethod
    def begin(cls, *, master: str | None, **how: object) -> Begun:
        cls.log.append(f"begin {master}")
        return cls(str(master))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.log.append(f"end {self.name}")


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setattr("flowdiag.cli.spark.starter.SparkStarter", Begun)
    monkeypatch.delenv("FLOWDIAG_MASTER", raising=False)
    Begun.log = []
    return Begun.log


def test_what_began_ahead_is_used(log: list[str]) -> None:
    finders = list(sys.meta_path)
    with spark_ahead(["checkpoints", "logs/"]):
        assert log == ["begin None"]
        with spark_for(Settings(), ["logs/"]) as spark:
            assert isinstance(spark, Begun)
    assert log == ["begin None", "end None"]
    assert sys.meta_path == finders


def test_what_began_ahead_in_vain_ends(log: list[str]) -> None:
    """A file of settings may name a master; a command line may be wrong."""
    with spark_ahead(["rate", "logs/"]), spark_for(Settings(master="local[1]"), ["logs/"]):
        assert log == ["begin None", "end None", "begin local[1]"]
    log.clear()
    with suppress(RuntimeError), spark_ahead(["rate", "--wrong"]):
        raise RuntimeError
    assert log == ["begin None", "end None"]
    with spark_for(Settings(), ["logs/"]):
        assert log == ["begin None", "end None", "begin None"]


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["rules", "x"],
        ["checkpoints"],
        ["checkpoints", "logs/", "--help"],
        ["checkpoints", "logs/", "--master=yarn"],
    ],
)
def test_nothing_begins_that_will_not_be_needed(log: list[str], arguments: Sequence[str]) -> None:
    with spark_ahead(arguments):
        pass
    assert log == []


@pytest.mark.parametrize("name", ["FLOWDIAG_MASTER", "PYSPARK_GATEWAY_PORT"])
def test_a_cluster_is_waited_for(
    log: list[str], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, "1")
    with spark_ahead(["checkpoints", "logs/"]):
        pass
    assert log == []
