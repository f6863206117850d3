"""Spark starts and ends with a command, and process-wide settings are restored afterwards."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path
from typing import Self

import pytest

from flowdiag.cli.settings import Settings
from flowdiag.cli.spark.java import Java
from flowdiag.cli.spark.jvm import Jvm
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


def test_spark_does_not_resolve_the_name_of_this_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A container without a network has a name that nothing resolves."""
    environ: dict[str, str] = {}

    def refuse(command: object, *, env: dict[str, str], **how: object) -> None:
        environ.update(env)
        raise OSError

    monkeypatch.setenv("SPARK_LOCAL_IP", "192.0.2.1")
    monkeypatch.setattr("flowdiag.cli.spark.jvm.subprocess.Popen", refuse)
    java = Java(
        home=tmp_path, executable=tmp_path / "java", major=25, origin="JAVA_HOME", release=""
    )
    with pytest.raises(OSError):
        Jvm(tmp_path).start(java, {}, [])
    assert environ["SPARK_LOCAL_IP"] == "127.0.0.1"
