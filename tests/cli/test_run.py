"""Common behavior of all commands that diagnose, without Spark."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import msgspec
import pytest

from flowdiag.cli.app import main
from flowdiag.cli.exit_codes import ExitCode
from flowdiag.cli.spark.starter import SparkStarter


class NoSpark(nullcontext[Any]):
    """Replaces Spark, and has no session."""

    on_cluster = False

    def __enter__(self) -> Any:
        return self


@pytest.mark.parametrize("command", ["checkpoints", "rate", "queues", "startup"])
def test_a_folder_without_files_is_named(
    command: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A report without readable inputs still names the paths from the command line."""
    monkeypatch.setattr(SparkStarter, "begin", lambda **how: NoSpark())
    assert main([command, str(tmp_path), "--format", "json"]) == ExitCode.NOT_ASSESSED
    report: dict[str, Any] = msgspec.json.decode(capsys.readouterr().out)
    (warning,) = report["warnings"]
    assert (warning["source"], warning["text"]) == (str(tmp_path), "contains no files")
    assert not report["summary"]["assessed"]
