"""Checks that the installed package has every file, including data files."""

import json
import subprocess
import sys
from importlib.metadata import entry_points, version
from importlib.resources import files
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("cli", "analyses", "parsers")

pytestmark = pytest.mark.packaging


@pytest.mark.parametrize("package", PACKAGES)
def test_every_file_is_installed(package: str) -> None:
    folder = ROOT / package
    expected = [
        path.relative_to(folder)
        for path in folder.rglob("*")
        if path.is_file() and path.suffix not in (".pyc", ".pyo")
    ]
    installed = files(f"flowdiag.{package}")
    missing = [str(path) for path in expected if not installed.joinpath(*path.parts).is_file()]
    assert not missing


def test_the_command_is_installed() -> None:
    (command,) = entry_points(group="console_scripts", name="flowdiag")
    assert command.value == "flowdiag.cli.__main__:start"


def test_the_package_has_a_version_and_a_schema() -> None:
    import flowdiag

    assert flowdiag.__version__ == version("flowdiag")
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = flowdiag.nothing
    schema = json.loads(files("flowdiag").joinpath("report.schema.json").read_text("utf-8"))
    assert {"Report", "Finding"} <= set(schema["$defs"])


def test_it_runs_as_a_module(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "flowdiag", "--version"],
        check=False,
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"flowdiag {version('flowdiag')}\n"
