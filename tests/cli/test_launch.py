"""Spark starts and ends with a command, and process-wide settings are restored afterwards."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import Self

import pytest

from flowdiag.cli.options.settings import Settings
from flowdiag.cli.spark.launch import start_spark


class FakeStarter:
    """Replaces Spark and logs starts and ends."""

    log: list[str]

    def __init__(self, name: str) -> None:
        self.name = name

    @classmethod
    def begin(cls, *, master: str | None, **how: object) -> FakeStarter:
        cls.log.append(f"begin {master}")
        return cls(str(master))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.log.append(f"end {self.name}")


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setattr("flowdiag.cli.spark.starter.SparkStarter", FakeStarter)
    monkeypatch.delenv("FLOWDIAG_MASTER", raising=False)
    FakeStarter.log = []
    return FakeStarter.log


def test_spark_ends_with_the_command(log: list[str]) -> None:
    finders = list(sys.meta_path)
    with start_spark(Settings(), ["logs/"]) as spark:
        assert isinstance(spark, FakeStarter)
        assert log == ["begin None"]
    assert log == ["begin None", "end None"]
    assert sys.meta_path == finders


def test_spark_ends_with_a_failed_command(log: list[str]) -> None:
    with suppress(RuntimeError), start_spark(Settings(master="local[1]"), ["logs/"]):
        raise RuntimeError
    assert log == ["begin local[1]", "end local[1]"]
