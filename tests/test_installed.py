"""What is installed is what lies in the folders: data files are forgotten easily."""

from importlib.metadata import entry_points
from importlib.resources import files
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("cli", "analyses", "parsers")

pytestmark = pytest.mark.packaging


@pytest.mark.parametrize("package", PACKAGES)
def test_every_file_is_installed(package: str) -> None:
    folder = ROOT / package
    wanted = [
        path.relative_to(folder)
        for path in folder.rglob("*")
        if path.is_file() and path.suffix not in (".pyc", ".pyo")
    ]
    installed = files(f"flowdiag.{package}")
    missing = [str(path) for path in wanted if not installed.joinpath(*path.parts).is_file()]
    assert not missing


def test_the_command_is_installed() -> None:
    (command,) = entry_points(group="console_scripts", name="flowdiag")
    assert command.value == "flowdiag.cli.process:start"
