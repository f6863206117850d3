"""The real command on a real recording, as a process of its own."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import jsonschema
import pytest

from flowdiag.analyses.report.wire import json_schema

pytestmark = pytest.mark.command
RECORDING = Path(__file__).parents[2] / "fixtures/recordings/flink/1.20.5/hot-key"
COMMAND = [sys.executable, "-m", "flowdiag.cli", "checkpoints"]


def test_a_sick_recording(tmp_path: Path) -> None:
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


def test_interrupted(tmp_path: Path) -> None:
    running = subprocess.Popen(
        [*COMMAND, str(RECORDING / "hot-key.tar.zst")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
    )
    children = Path(f"/proc/{running.pid}/task/{running.pid}/children")
    give_up = time.monotonic() + 30
    # Not before main() runs: the JVM's process shows that it does.
    while children.exists() and not children.read_text() and time.monotonic() < give_up:
        time.sleep(0.1)
    time.sleep(1)
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=60)
    assert (running.returncode, out, err) == (130, "", "")
