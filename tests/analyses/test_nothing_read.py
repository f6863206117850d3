"""Where no input can be read the report still says what was given."""

from __future__ import annotations

from pathlib import Path

import pytest

from flowdiag.analyses.checkpoints import data as checkpoints_data
from flowdiag.analyses.rate import diagnosis as rate
from flowdiag.analyses.report import LOCAL_USE
from flowdiag.parsers.sources import discover


@pytest.mark.parametrize("command", [checkpoints_data, rate])
def test_a_folder_without_files_is_named(command: object, tmp_path: Path) -> None:
    report = command.nothing_read(discover([str(tmp_path)]), LOCAL_USE)  # type: ignore[attr-defined]
    assert [note.message for note in report.warnings] == [f"{tmp_path}: no files in it"]
    assert not report.summary.assessed
