"""Spark's classes, loaded once and kept: where a JVM finds them again, and whether it may.

Half of the JVM's work before the first row is reading and verifying some twenty thousand classes.
Java can map them from a file instead: a dynamic class-data archive up to Java 24, an ahead-of-time
cache from Java 25 on. A file serves one Java build, one pyspark and one set of flags only, so its
name is a hash of those. `flowdiag.cli.spark.warm` makes it.
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

_FIRST_WITH_AOT: Final = 25  # one step (JEP 514); 24 needs two
KEPT: Final = 2
"""Archives that stay, each about 170 MB: one for the Java in use, one for the one before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Archive:
    """A file that may or may not exist yet."""

    path: Path
    ahead_of_time: bool

    def flags_to_use(self) -> tuple[str, ...]:
        """Options of a JVM that profits from it."""
        if self.ahead_of_time:
            return (f"-XX:AOTCache={self.path}",)
        return (f"-XX:SharedArchiveFile={self.path}",)

    def flags_to_make(self, target: Path) -> tuple[str, ...]:
        """Options of a JVM that writes it to `target` when it ends."""
        if self.ahead_of_time:
            return (f"-XX:AOTCacheOutput={target}",)
        return (f"-XX:ArchiveClassesAtExit={target}",)

    def is_usable(self) -> bool:
        """Whether it exists and nobody else could have written it: it holds code."""
        return _is_ours(self.path) and _is_ours(self.path.parent)

    def touch(self) -> None:
        """Note that it is in use: the least recently used ones are removed first."""
        with contextlib.suppress(OSError):
            os.utime(self.path)

    def discard(self) -> None:
        """Remove it, since a JVM refused it."""
        with contextlib.suppress(OSError):
            self.path.unlink()


def archive_for(java: Java, flags: Iterable[str], jars: Path) -> Archive | None:
    """The archive that fits exactly this Java, these flags and these jars.

    Args:
        java: the runtime.
        flags: everything else on the JVM's command line that the archive depends on.
        jars: the folder of Spark's jars: installing pyspark anew changes its time.

    Returns:
        None where Java cannot make one: a runtime before 25 without a base archive of its own.
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
    """Where this system keeps what may be deleted; `FLOWDIAG_CACHE_DIR` overrides it.

    >>> cache_folder({"FLOWDIAG_CACHE_DIR": "/var/cache/us"}).as_posix()
    '/var/cache/us'
    """
    if chosen := environ.get("FLOWDIAG_CACHE_DIR"):
        return Path(chosen)
    home = Path(environ.get("HOME") or Path("~").expanduser())
    if sys.platform == "darwin":
        return home / "Library" / "Caches" / "flowdiag"
    if sys.platform == "win32":
        return Path(environ.get("LOCALAPPDATA") or home) / "flowdiag" / "Cache"
    base = environ.get("XDG_CACHE_HOME", "")
    # The specification says that a relative path is to be ignored.
    return (Path(base) if os.path.isabs(base) else home / ".cache") / "flowdiag"


def archives() -> list[Path]:
    """All archives in the cache, the most recently used one first."""
    found = [path for path in cache_folder().glob("*") if path.suffix in (".aot", ".jsa")]
    return sorted(found, key=lambda path: path.stat().st_mtime_ns, reverse=True)


def _is_ours(path: Path) -> bool:
    try:
        state = path.stat()
    except OSError:
        return False
    if os.name != "posix":
        return True
    return state.st_uid == os.getuid() and not state.st_mode & 0o022
