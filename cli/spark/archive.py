"""Finds the archive from which a JVM maps Spark's classes, and checks whether it may be used.

Half of the JVM's work before the first row is loading and verifying about 20,000 classes. Java can map
them from a file instead: a dynamic class-data archive up to Java 24, an ahead-of-time cache from Java 25.
A file fits one Java build, one pyspark and one set of flags only, so its name is a hash of them.
`flowdiag.cli.spark.warm` creates the file.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from flowdiag.cli.spark.java import Java

_FIRST_WITH_AOT: Final = 25  # in one step (JEP 514); Java 24 needs two
MAX_ARCHIVES: Final = 2
"""Maximum number of archives: one for the current Java and one for the previous Java, of about 170 MB each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Archive:
    """The path of an archive, which may not exist yet."""

    path: Path
    ahead_of_time: bool

    def flags_to_use(self) -> tuple[str, ...]:
        """Return the options of a JVM that uses the archive."""
        if self.ahead_of_time:
            return (f"-XX:AOTCache={self.path}",)
        return (f"-XX:SharedArchiveFile={self.path}",)

    def flags_to_make(self, target: Path) -> tuple[str, ...]:
        """Return the options of a JVM that writes the archive to `target` when it exits."""
        if self.ahead_of_time:
            return (f"-XX:AOTCacheOutput={target}",)
        return (f"-XX:ArchiveClassesAtExit={target}",)

    def is_usable(self) -> bool:
        """Return whether the file exists and only this user or root can have written it, since Java runs its code."""
        return _is_private(self.path) and _is_private(self.path.parent)

    def touch(self) -> None:
        """Update the time of last use. The least recently used archives are removed first."""
        with contextlib.suppress(OSError):
            os.utime(self.path)

    def discard(self) -> None:
        """Remove an archive that a JVM rejected."""
        with contextlib.suppress(OSError):
            self.path.unlink()


def archive_for(java: Java, flags: Iterable[str], jars: Path) -> Archive | None:
    """Return the archive that fits exactly this Java, these flags and these jars.

    Args:
        flags: the other parts of the command line that the archive depends on.
        jars: the folder of Spark's jars. Reinstalling pyspark changes its modification time.

    Returns:
        The result is None if Java cannot create an archive: a runtime before 25 without a base archive.
    """
    ahead_of_time = java.major >= _FIRST_WITH_AOT
    if not ahead_of_time and not java.has_base_archive:
        return None
    state = jars.stat()
    identity = "\0".join(
        [str(java.executable), java.release, *flags, str(jars), str(state.st_mtime_ns)]
    )
    name = hashlib.sha256(identity.encode()).hexdigest()[:16]
    suffix = ".aot" if ahead_of_time else ".jsa"
    return Archive(path=cache_folder() / (name + suffix), ahead_of_time=ahead_of_time)


def cache_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Return flowdiag's cache folder on this system. `FLOWDIAG_CACHE_DIR` overrides it.

    >>> cache_folder({"FLOWDIAG_CACHE_DIR": "/var/cache/ops"}).as_posix()
    '/var/cache/ops'
    """
    if chosen := environ.get("FLOWDIAG_CACHE_DIR"):
        return Path(chosen)
    home = Path(environ.get("HOME") or Path("~").expanduser())
    if sys.platform == "darwin":
        return home / "Library" / "Caches" / "flowdiag"
    if sys.platform == "win32":
        return Path(environ.get("LOCALAPPDATA") or home) / "flowdiag" / "Cache"
    base = environ.get("XDG_CACHE_HOME", "")
    # The XDG specification ignores relative paths.
    return (Path(base) if os.path.isabs(base) else home / ".cache") / "flowdiag"


def archives() -> list[Path]:
    """Return all archives in the cache, most recently used first."""
    found = [path for path in cache_folder().glob("*") if path.suffix in (".aot", ".jsa")]
    return sorted(found, key=lambda path: path.stat().st_mtime_ns, reverse=True)


def _is_private(path: Path) -> bool:
    try:
        state = path.stat()
    except OSError:
        return False
    if os.name != "posix":
        return True
    return state.st_uid in (0, os.getuid()) and not state.st_mode & 0o022
