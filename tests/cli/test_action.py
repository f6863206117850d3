"""The GitHub action and the CI examples of docs/ci.md."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

ROOT = Path(__file__).parents[2]
RECORDING = ROOT / "fixtures" / "recordings" / "flink" / "1.20.5"


def action() -> dict[str, Any]:
    document: dict[str, Any] = YAML(typ="safe").load(ROOT / "action.yml")
    return document


def run(folder: Path, paths: str, fail_on: str) -> subprocess.CompletedProcess[str]:
    """Run the step `Diagnose` as a runner does, with bash -e and values in variables."""
    (step,) = [each for each in action()["runs"]["steps"] if each["name"] == "Diagnose"]
    environ = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "INPUT_PATHS": paths,
        "FAIL_ON": fail_on,
        "REPORT": "report.json",
        "GITHUB_OUTPUT": str(folder / "output"),
        "GITHUB_STEP_SUMMARY": str(folder / "summary"),
    }
    assert set(step["env"]) <= set(environ)
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
    return subprocess.run(
        command, env=environ, cwd=folder, capture_output=True, text=True, check=False
    )


@pytest.mark.command
@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_the_step_writes_summary_annotations_and_exit_code(tmp_path: Path) -> None:
    shutil.copytree(RECORDING / "hot-key", tmp_path / "two words")
    done = run(tmp_path, "  \ntwo words\n", "warning")
    assert done.returncode == 1, done.stderr
    assert (tmp_path / "output").read_text() == "exit-code=1\n"
    summary = (tmp_path / "summary").read_text()
    assert summary.startswith("# flowdiag diagnose: failing"), (done.stdout, done.stderr)
    assert "::error file=" in done.stdout and "To do: " in done.stdout


@pytest.mark.command
@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_a_missing_path_fails_with_its_own_code(tmp_path: Path) -> None:
    done = run(tmp_path, "missing.log", "never")
    assert done.returncode == 2 and "missing.log" in done.stderr
    assert (tmp_path / "output").read_text() == "exit-code=2\n"


def test_inputs_reach_the_shell_as_variables_only() -> None:
    """An expression inside a script would run whatever an input contains."""
    for step in action()["runs"]["steps"]:
        assert "${{" not in step["run"]
        assert step["shell"] == "bash"


def test_the_page_describes_every_input() -> None:
    page = (ROOT / "docs" / "ci.md").read_text()
    assert all(f"| `{name}` |" in page for name in action()["inputs"])


def test_commands_of_the_examples_exist() -> None:
    page = (ROOT / "docs" / "ci.md").read_text()
    reference = (ROOT / "docs" / "cli.md").read_text()
    lines = re.findall(r"\bflowdiag (diagnose|render|compare|memory) ([^'\n]*)", page)
    assert {command for command, _ in lines} == {"diagnose", "render", "compare", "memory"}
    for command, rest in lines:
        section = reference.split(f"## flowdiag {command}\n")[1].split("\n## ")[0]
        options = set(re.findall(r"(?<!\S)--[a-z-]+", rest))
        assert [option for option in options if option not in section] == [], command


def test_examples_are_yaml() -> None:
    page = (ROOT / "docs" / "ci.md").read_text()
    blocks = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    assert len(blocks) == 3 and all(YAML(typ="safe").load(block) for block in blocks)
