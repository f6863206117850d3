"""Lets commands share a Java process that keeps running after a command ends.

A command starts a keeper (`flowdiag.cli.spark.keeper`), a small process that starts Java and writes its port
and secret to a private file. The keeper stops Java when it is idle for too long. Later commands connect to Java through
pyspark's support for existing gateways.

There is one keeper per user, Java, pyspark, set of flags, heap size and number of cores; all of these are part
of the file name. A lock gives Java to one command at a time, and the system releases the lock even if the
command is killed. Nothing here is an error: a command that cannot connect starts its own session.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final, Self

import msgspec

from flowdiag.analyses.report.version import tool_version
from flowdiag.cli.spark.archive import cache_folder
from flowdiag.cli.spark.java import Java
from flowdiag.cli.spark.jvm import START_TIMEOUT_S, active_flags, class_path, spark_home

_PREFIX: Final = "session-"
_MAX_FILE_BYTES: Final = 4096  # a private file has about 200
_CONNECT_TIMEOUT_S: Final = 1.0
_STOP_TIMEOUT_S: Final = 10.0

# Contents of the lock file.
BUSY: Final = b"busy"
"""The state while a command uses Java. If the lock is free, that command was killed."""
IDLE: Final = b"idle"
HEAP_FULL: Final = b"full"
"""The state after earlier commands have nearly filled the heap. The keeper then stops Java."""


class RunningJava(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The content of a keeper's private file.

    Attributes:
        pid: the keeper's process.
        java_pid: Java's process.
        idle_s: the idle time after which the keeper stops Java.
        started_s: seconds since the epoch.
    """

    pid: int
    java_pid: int
    port: int
    secret: str
    folder: str
    idle_s: float
    started_s: float


class KeeperConfig(msgspec.Struct, frozen=True):
    """The input of a new keeper.

    Attributes:
        key: identifies its files.
        java: Java's home.
        origin: the origin of the runtime, as in `Java`.
        properties: Spark's settings, without folders.
        heap_bytes: the maximum heap size.
        idle_s: the idle time after which it stops Java.
    """

    key: str
    java: str
    origin: str
    properties: dict[str, str]
    heap_bytes: int
    idle_s: float


@dataclass(frozen=True, slots=True)
class KeeperFiles:
    """The three files that a keeper shares with commands."""

    folder: Path
    key: str

    @property
    def info(self) -> Path:
        """The file that describes the running JVM. It disappears as soon as commands may no longer connect."""
        return self.folder / f"{_PREFIX}{self.key}.json"

    @property
    def command_lock(self) -> Path:
        """The file that a command locks while it uses Java."""
        return self.folder / f"{_PREFIX}{self.key}.use"

    @property
    def keeper_lock(self) -> Path:
        """The file that the keeper locks while it runs."""
        return self.folder / f"{_PREFIX}{self.key}.alive"

    def read(self) -> RunningJava | None:
        """Return the running JVM, or None if there is none, or if other users could have written the file."""
        try:
            with _open_private(self.info) as file:
                return msgspec.json.decode(file.read(_MAX_FILE_BYTES), type=RunningJava)
        except (OSError, msgspec.DecodeError):
            return None

    def write(self, java: RunningJava) -> None:
        """Write the file atomically.

        Raises:
            OSError: the disk is full, or permission is denied.
        """
        part = self.info.with_suffix(f".{os.getpid()}.part")
        try:
            descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with open(descriptor, "wb") as file:
                file.write(msgspec.json.encode(java))
            part.replace(self.info)
        finally:
            part.unlink(missing_ok=True)

    def is_alive(self) -> bool:
        """Return whether the keeper is running, which then holds its lock."""
        try:
            lock_file(self.keeper_lock, create=False).close()
        except BlockingIOError:
            return True
        except OSError:
            pass
        return False


@dataclass(slots=True)
class JavaLease:
    """The exclusive right to use the running JVM, until it is released."""

    files: KeeperFiles
    java: RunningJava
    _lock: IO[bytes] | None

    @classmethod
    def acquire(cls, files: KeeperFiles) -> Self | None:
        """Take the lease. Return None if Java does not run, does not respond, or is in use."""
        java = files.read()
        if java is None:
            return None
        if not files.is_alive():  # the keeper was killed, and its Java ends with it
            files.info.unlink(missing_ok=True)
            return None
        lock = _lock_with_retries(files.command_lock)
        if lock is None:
            return None
        lease = cls(files, java, lock)
        if files.read() != java or not _accepts_connections(
            java.port
        ):  # the keeper ended after the check
            lease._unlock()
            return None
        lease._write_state(BUSY)
        return lease

    def release(self, *, heap_full: bool = False) -> None:
        """Release the lease. May be called twice.

        Args:
            heap_full: Java must not be used again.
        """
        if self._lock is not None:
            self._write_state(HEAP_FULL if heap_full else IDLE)
            self._unlock()

    def is_gone(self) -> bool:
        """Return whether Java or its keeper has ended. Wait up to a second: ended processes stay visible for a moment."""
        deadline = time.monotonic() + _CONNECT_TIMEOUT_S
        while self.files.read() == self.java and _accepts_connections(self.java.port):
            if time.monotonic() > deadline:
                return False
            time.sleep(0.1)
        return True

    def abandon(self) -> None:
        """Release Java in an unknown state. The keeper then ends it."""
        self._unlock()

    def _write_state(self, state: bytes) -> None:
        assert self._lock is not None
        with contextlib.suppress(OSError):
            os.pwrite(self._lock.fileno(), state, 0)

    def _unlock(self) -> None:
        lock, self._lock = self._lock, None
        if lock is not None:
            lock.close()


def keeper_files_for(
    java: Java, properties: Mapping[str, str], heap_bytes: int
) -> KeeperFiles | None:
    """Return the files of the keeper for exactly this setup.

    Args:
        java: the runtime.
        properties: Spark's settings, without folders.
        heap_bytes: the maximum heap size.

    Returns:
        The result is None if the system has no private folder for this user.
    """
    folder = runtime_folder()
    if folder is None:
        return None
    home = spark_home()
    identity = [tool_version(), sys.prefix, sys.version, str(java.executable), java.release]
    identity += [*active_flags(), class_path(home), str((home / "jars").stat().st_mtime_ns)]
    identity += [str(heap_bytes), *(f"{key}={properties[key]}" for key in sorted(properties))]
    key = hashlib.sha256("\0".join(identity).encode()).hexdigest()[:16]
    return KeeperFiles(folder, key)


def runtime_folder(environ: Mapping[str, str] = os.environ) -> Path | None:
    """Return the folder that only this user can enter, or None if it cannot be created."""
    if os.name != "posix":
        return None
    base = environ.get("XDG_RUNTIME_DIR", "")
    folder = Path(base) / "flowdiag" if os.path.isabs(base) else cache_folder(environ) / "kept"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        state = folder.lstat()
    except OSError:
        return None
    private = stat.S_ISDIR(state.st_mode) and not state.st_mode & 0o077
    return folder if private and state.st_uid == os.getuid() else None


def all_keeper_files() -> list[KeeperFiles]:
    """Return the files of every keeper, including keepers that have just ended."""
    folder = runtime_folder()
    if folder is None:
        return []
    paths = sorted(folder.glob(f"{_PREFIX}*.json"))
    return [KeeperFiles(folder, path.stem.removeprefix(_PREFIX)) for path in paths]


def start_keeper(
    files: KeeperFiles, java: Java, properties: Mapping[str, str], heap_bytes: int, idle_s: float
) -> subprocess.Popen[bytes]:
    """Start a keeper and return at once; see `KeeperConfig` for its parameters.

    Raises:
        OSError: no process can be started.
    """
    config = KeeperConfig(
        files.key, str(java.home), java.origin, dict(properties), heap_bytes, idle_s
    )
    keeper = subprocess.Popen(
        [sys.executable, "-P", "-m", "flowdiag.cli.spark.keeper"],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # survives when the terminal closes
        cwd="/",
    )
    assert keeper.stdin is not None
    with contextlib.suppress(OSError), keeper.stdin as stdin:
        stdin.write(msgspec.json.encode(config))
    return keeper


def wait_for_lease(files: KeeperFiles, keeper: subprocess.Popen[bytes]) -> JavaLease | None:
    """Wait for the Java of a new keeper and take the lease. Return None if the keeper ended without starting Java."""
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline:
        ended = keeper.poll() is not None  # perhaps because another keeper was faster
        if files.info.exists() and (lease := JavaLease.acquire(files)) is not None:
            return lease
        if ended:
            return None
        time.sleep(0.01)
    return None


def stop(files: KeeperFiles) -> bool:
    """End a keeper and its Java, even if in use; return whether they ended in time."""
    files.info.unlink(missing_ok=True)
    deadline = time.monotonic() + _STOP_TIMEOUT_S
    while files.is_alive():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def _lock_with_retries(path: Path) -> IO[bytes] | None:
    """Lock a file, retrying while its keeper briefly checks it. Return None if a command holds the lock."""
    for _ in range(3):
        with contextlib.suppress(OSError):
            return lock_file(path)
        time.sleep(0.005)
    return None


def lock_file(path: Path, *, create: bool = True) -> IO[bytes]:
    """Lock a file until it is closed.

    Raises:
        BlockingIOError: another process holds the lock.
        OSError: the file is not private.
    """
    import fcntl

    file = _open_private(path, os.O_RDWR | (os.O_CREAT if create else 0))
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        raise
    return file


def _open_private(path: Path, flags: int = os.O_RDONLY) -> IO[bytes]:
    """Open a file of this user that no other user can read.

    Raises:
        OSError: the file is missing, a link, another user's, or readable by others.
    """
    descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    state = os.fstat(descriptor)
    if (
        not stat.S_ISREG(state.st_mode)
        or state.st_uid != os.getuid()
        or state.st_mode & 0o077
        or state.st_size > _MAX_FILE_BYTES
    ):
        os.close(descriptor)
        raise PermissionError(f"{path} is not private")
    return open(descriptor, "rb" if flags == os.O_RDONLY else "r+b", buffering=0)


def _accepts_connections(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=_CONNECT_TIMEOUT_S):
            return True
    except OSError:
        return False
