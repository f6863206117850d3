"""Spark begins with a command and ends with it; what is set for the process while a command runs is undone after it."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import Self

import pytest

from flowdiag.cli.options.settings import Settings
from flowdiag.cli.spark.early import spark_for


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


def test_what_began_ends_with_the_command(log: list[str]) -> None:
    finders = list(sys.meta_path)
    with spark_for(Settings(), ["logs/"]) as spark:
        assert isinstance(spark, Begun)
        assert log == ["begin None"]
    assert log == ["begin None", "end None"]
    assert sys.meta_path == finders


def test_a_command_that_fails_ends_it_too(log: list[str]) -> None:
    with suppress(RuntimeError), spark_for(Settings(master="local[1]"), ["logs/"]):
        raise RuntimeError
    assert log == ["begin local[1]", "end local[1]"]
