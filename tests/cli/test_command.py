"""The real command on a real recording, in a separate process."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest

from flowdiag.analyses.report.transform import json_schema

pytestmark = pytest.mark.command
RECORDING = Path(__file__).parents[2] / "fixtures/recordings/flink/1.20.5/hot-key"
COMMAND = [sys.executable, "-m", "flowdiag.cli", "checkpoints"]


def test_a_recording_with_findings(tmp_path: Path) -> None:
    done = subprocess.run(
        [*COMMAND, str(RECORDING / "hot-key.tar.zst"), "no-such-file", "--format", "json"],
        check=False,
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert done.stderr == "warning: no-such-file: no such file or directory\n"
    report = json.loads(done.stdout)
    jsonschema.validate(report, json_schema())
    assert done.returncode == 1
    job = report["data"]["jobs"][0]
    assert job["name"] == "orders" and job["counts"]["expired"] == 9
    cited = next(item for finding in report["findings"] for item in finding["evidence"])
    assert cited["line"] > 1 and cited["excerpt"]
    assert list(tmp_path.iterdir()) == []
