"""The scripts that benchmarks run in processes of their own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import logs
from benchmarks.__main__ import PARTS
from benchmarks.measuring import Contender, run


@pytest.mark.parametrize(("script", "printed"), [("reading.py", " 0\n"), ("scanning.py", ".log ")])
def test_a_part_reads_logs(script: str, printed: str, tmp_path: Path) -> None:
    folder = logs.make(tmp_path, 1, reports=False)
    command = [sys.executable, str(PARTS / script), str(folder)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert printed in done.stdout


def test_a_failing_command_is_no_measurement() -> None:
    with pytest.raises(SystemExit, match="nothing: status 1"):
        run(Contender(name="nothing", command=[sys.executable, "-c", "import nothing"]))
