"""A Java process that stays after a command, for the next one to join: where it is, whether it may be joined.

Whoever wants it to stay starts a keeper (`flowdiag.cli.spark.keeper`), a small process that starts Java,
says in a private file where it listens and with which secret, and ends it when nobody asked for a while.
A command joins it in pyspark's own way for gateways that are there already.

One for each user, Java, pyspark, set of flags, heap and number of cores: all of these are in the name of the
file. One command at a time: it holds a lock, which the system lets go of even if the command is killed.
Nothing here is an error: who cannot join starts a session of his own.
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

from flowdiag.cli.spark.archive import cache_folder
from flowdiag.cli.spark.java import Java
from flowdiag.cli.spark.jvm import START_TIMEOUT_S, class_path, flags_used, spark_home

_PREFIX: Final = "session-"
_LARGEST: Final = 4096  # bytes of the private file; ours has some two hundred
_CONNECT_S: Final = 1.0
_STOP_S: Final = 10.0
BUSY: Final = b"busy"
"""In the lock's file while a command is at it: found there with the lock free, that command was killed."""
IDLE: Final = b"idle"
WORN: Final = b"worn"
"""The heap is nearly full of what earlier commands left: it is to end."""


class Kept(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the private file says.

    `idle_s` is how long it stays when nobody asks; `started_s` seconds since the epoch.
    """

    pid: int
    java_pid: int
    port: int
    secret: str
    folder: str
    idle_s: float
    started_s: float


@dataclass(frozen=True, slots=True)
class Place:
    """Where one keeper and its commands meet: three files of one name."""

    folder: Path
    key: str

    @property
    def said(self) -> Path:
        """What the keeper says; gone as soon as it may not be joined any more."""
        return self.folder / f"{_PREFIX}{self.key}.json"

    @property
    def use(self) -> Path:
        """Locked by the command that uses it."""
        return self.folder / f"{_PREFIX}{self.key}.use"

    @property
    def alive(self) -> Path:
        """Locked by the keeper as long as it lives."""
        return self.folder / f"{_PREFIX}{self.key}.alive"

    def read(self) -> Kept | None:
        """What the keeper says; None where there is none, or the file is not what only we can have written."""
        try:
            with _opened(self.said) as file:
                return msgspec.json.decode(file.read(_LARGEST), type=Kept)
        except (OSError, msgspec.DecodeError):
            return None

    def write(self, kept: Kept) -> None:
        """Say it, at once or not at all.

        Raises:
            OSError: there is no room, or no right to.
        """
        part = self.said.with_suffix(f".{os.getpid()}.part")
        try:
            descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with open(descriptor, "wb") as file:
                file.write(msgspec.json.encode(kept))
            part.replace(self.said)
        finally:
            part.unlink(missing_ok=True)

    def is_alive(self) -> bool:
        """Whether its keeper lives."""
        try:
            _lock(self.alive, create=False).close()
        except BlockingIOError:
            return True
        except OSError:
            pass
        return False


@dataclass(slots=True)
class Joined:
    """The right to use what is kept, until it is given back."""

    place: Place
    kept: Kept
    _lock: IO[bytes] | None

    @classmethod
    def at(cls, place: Place) -> Self | None:
        """Join it; None where there is none, it does not answer, or another command is at it."""
        kept = place.read()
        if kept is None:
            return None
        if not place.is_alive():  # killed: its Java ends with it
            place.said.unlink(missing_ok=True)
            return None
        lock = _patiently(place.use)
        if lock is None:
            return None  # in use
        joined = cls(place, kept, lock)
        if place.read() != kept or not _answers(kept.port):  # meanwhile it may have ended
            joined._let_go()
            return None
        joined._note(BUSY)
        return joined

    def give_back(self, *, worn: bool = False) -> None:
        """Let others use it. May be called twice.

        Args:
            worn: nobody shall.
        """
        if self._lock is not None:
            self._note(WORN if worn else IDLE)
            self._let_go()

    def is_gone(self) -> bool:
        """Whether its Java, or whoever keeps it, ended meanwhile: that takes it a moment to show."""
        until = time.monotonic() + _CONNECT_S
        while self.place.read() == self.kept and _answers(self.kept.port):
            if time.monotonic() > until:
                return False
            time.sleep(0.1)
        return True

    def abandon(self) -> None:
        """Leave it as it is, in the middle of something: its keeper ends it."""
        self._let_go()

    def _note(self, state: bytes) -> None:
        assert self._lock is not None
        with contextlib.suppress(OSError):
            os.pwrite(self._lock.fileno(), state, 0)

    def _let_go(self) -> None:
        lock, self._lock = self._lock, None
        if lock is not None:
            lock.close()


def place_for(java: Java, properties: Mapping[str, str], heap_bytes: int) -> Place | None:
    """Where a session of just these properties is kept, if one is.

    Args:
        java: that runs it.
        properties: Spark's settings but for folders.
        heap_bytes: most that it may take.

    Returns:
        None where this system or the user's folder does not allow for it.
    """
    folder = runtime_folder()
    if folder is None:
        return None
    from flowdiag import __version__

    home = spark_home()
    identity = [__version__, sys.executable, sys.version, str(java.executable), java.release]
    identity += [*flags_used(), class_path(home), str((home / "jars").stat().st_mtime_ns)]
    identity += [str(heap_bytes), *(f"{key}={properties[key]}" for key in sorted(properties))]
    key = hashlib.sha256("\0".join(identity).encode()).hexdigest()[:16]
    return Place(folder, key)


def runtime_folder(environ: Mapping[str, str] = os.environ) -> Path | None:
    """The folder that only this user can enter; None where there is none and none can be made."""
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


def places() -> list[Place]:
    """Where keepers are, or were a moment ago."""
    folder = runtime_folder()
    if folder is None:
        return []
    found = sorted(folder.glob(f"{_PREFIX}*.json"))
    return [Place(folder, path.stem.removeprefix(_PREFIX)) for path in found]


def start_keeper(
    place: Place, java: Java, properties: Mapping[str, str], heap_bytes: int, idle_s: float
) -> subprocess.Popen[bytes]:
    """Start a keeper and return at once.

    Args:
        place: where others will find it.
        java: to start.
        properties: Spark's settings but for folders.
        heap_bytes: most that it may take.
        idle_s: how long it stays when nobody asks.

    Raises:
        OSError: no process can be started.
    """
    wanted = {"key": place.key, "java": str(java.home), "origin": java.origin}
    told = {**wanted, "properties": dict(properties), "heap_bytes": heap_bytes, "idle_s": idle_s}
    keeper = subprocess.Popen(
        [sys.executable, "-P", "-m", "flowdiag.cli.spark.keeper"],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # a closed terminal does not end it
        cwd="/",
    )
    assert keeper.stdin is not None
    with contextlib.suppress(OSError), keeper.stdin as stdin:
        stdin.write(msgspec.json.encode(told))
    return keeper


def joined_soon(place: Place, keeper: subprocess.Popen[bytes]) -> Joined | None:
    """Join what a keeper that was just started keeps; None where there will be nothing.

    Args:
        place: where it will say so.
        keeper: its process.
    """
    until = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < until:
        ended = keeper.poll() is not None  # perhaps since another one was faster
        if place.said.exists() and (joined := Joined.at(place)) is not None:
            return joined
        if ended:
            return None
        time.sleep(0.01)
    return None


def stop(place: Place) -> bool:
    """End a keeper and its Java, whatever they do; whether they are gone."""
    place.said.unlink(missing_ok=True)
    until = time.monotonic() + _STOP_S
    while place.is_alive():
        if time.monotonic() > until:
            return False
        time.sleep(0.05)
    return True


def _patiently(path: Path) -> IO[bytes] | None:
    """Lock a file, at which its keeper looks for a moment now and then; None where it is in use."""
    for _ in range(3):
        with contextlib.suppress(OSError):
            return _lock(path)
        time.sleep(0.005)
    return None


def hold(path: Path) -> IO[bytes]:
    """Lock a file until it is closed.

    Raises:
        OSError: somebody else holds it, or it is none of ours.
    """
    return _lock(path)


def _lock(path: Path, *, create: bool = True) -> IO[bytes]:
    import fcntl

    file = _opened(path, os.O_RDWR | (os.O_CREAT if create else 0))
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        raise
    return file


def _opened(path: Path, flags: int = os.O_RDONLY) -> IO[bytes]:
    """A file that is ours alone.

    Raises:
        OSError: it is not there, a link, somebody else's, or others may read it.
    """
    descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    state = os.fstat(descriptor)
    if (
        not stat.S_ISREG(state.st_mode)
        or state.st_uid != os.getuid()
        or state.st_mode & 0o077
        or state.st_size > _LARGEST
    ):
        os.close(descriptor)
        raise PermissionError(f"{path} is not ours alone")
    return open(descriptor, "rb" if flags == os.O_RDONLY else "r+b", buffering=0)


def _answers(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=_CONNECT_S):
            return True
    except OSError:
        return False
