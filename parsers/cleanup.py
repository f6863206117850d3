"""What must be gone when the process is: other processes, private folders, files that are not complete.

Whoever makes such a thing says here how it goes. Ordinarily its maker removes it and says so. Where the
interpreter ends without that, or a signal ends the process (`flowdiag.cli.process`), it goes here: the
newest first, since processes write into folders that are older than they are.
"""

from __future__ import annotations

import atexit
import itertools
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import IO, Final

Forget = Callable[[], object]

LOCK: Final = "in-use"
"""Name of the file in a private folder whose lock says that a process still uses it."""


@dataclass(slots=True)
class _Kept:
    """What there is to be undone, and whether that may happen now."""

    undo: dict[int, tuple[int, Callable[[], object]]] = field(default_factory=dict)
    numbers: Iterator[int] = field(default_factory=itertools.count)
    lock: threading.Lock = field(default_factory=threading.Lock)
    signals_deferred: int = 0  # threads that are in the middle of making something
    waiting: int | None = None  # status to end with as soon as none is
    ending: bool = False


_kept: Final = _Kept()


def at_exit(undo: Callable[[], object]) -> Forget:
    """Undo something when the process ends, whatever ends it.

    Args:
        undo: must not wait for locks: it may be called in the middle of whatever the main thread does.

    Returns:
        A function to call when it was undone in the ordinary way.
    """
    number = next(_kept.numbers)
    _kept.undo[number] = os.getpid(), undo
    return partial(_kept.undo.pop, number, None)


@contextmanager
def signals_deferred() -> Iterator[None]:
    """Make something and say how it goes, without a signal in between: it is obeyed at the end of the block."""
    with _kept.lock:
        _kept.signals_deferred += 1
    try:
        while _kept.ending:  # in another thread: nothing new is begun
            time.sleep(1)
        yield
    finally:
        with _kept.lock:
            _kept.signals_deferred -= 1
            last = not _kept.signals_deferred
        if last and _kept.waiting is not None:
            end_now(_kept.waiting)


def end_now(status: int) -> None:
    """End the process without a word, from within a signal's handler or anywhere else.

    Nothing is unwound: what a library would say of a connection that breaks, and what an `except` would
    make of it, is of no interest any more.

    Args:
        status: of the process.
    """
    if _kept.signals_deferred:
        _kept.waiting = status
        return
    if not _kept.ending:  # another signal changes nothing about an end that is under way
        _kept.ending = True
        try:
            clean_up()
        finally:
            os._exit(status)


def clean_up() -> None:
    """Undo everything that is not undone yet; one failure keeps nothing else from being undone."""
    own = os.getpid()
    while _kept.undo:
        with suppress(Exception):
            number = next(reversed(_kept.undo))
            owner, undo = _kept.undo[number]
            try:
                if owner == own:  # a forked child must not take its parent's things away
                    undo()
            finally:  # only now: a signal may come in the middle of it, and begins again
                _kept.undo.pop(number, None)


atexit.register(clean_up)


def private_folder(prefix: str) -> tuple[Path, Forget]:
    """A temporary folder that only this user can enter (mkdtemp's mode is 0700), removed at the end.

    Raises:
        OSError: there is no room, or no folder for temporary files that can be written.
    """
    with signals_deferred():
        folder = Path(tempfile.mkdtemp(prefix=prefix))
        return folder, at_exit(partial(remove_folder, folder))


def lock_folder(folder: Path) -> IO[bytes]:
    """Say of a private folder that it is in use, until the file is closed or the process killed: then others may remove it.

    Raises:
        OSError: there is no room.
    """
    lock = (folder / LOCK).open("wb")
    if os.name == "posix":
        import fcntl

        fcntl.flock(lock, fcntl.LOCK_EX)
    return lock


@contextmanager
def temporary_folder(prefix: str) -> Iterator[Path]:
    """The same for the time of a block."""
    folder, forget = private_folder(prefix)
    try:
        yield folder
    finally:
        remove_folder(folder)
        forget()


def remove_folder(folder: Path) -> None:
    """Remove a folder into which processes that were just killed may have written a moment ago."""
    shutil.rmtree(folder, ignore_errors=True)
    if folder.exists():
        time.sleep(0.05)
        shutil.rmtree(folder, ignore_errors=True)


def kill_now(process: subprocess.Popen[bytes], *, asked_s: float = 0) -> None:
    """Kill a process and wait until it is gone, for `at_end`: `Popen` itself would wait for its lock.

    Args:
        process: of our own.
        asked_s: for so long it is only asked to end.
    """
    if process.returncode is not None:
        return
    if os.name != "posix":
        process.kill()
        return
    with suppress(OSError):
        if asked_s:
            # What talks to it in other threads would print tracebacks when it hangs up.
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            os.kill(process.pid, signal.SIGTERM)
            until = time.monotonic() + asked_s
            while time.monotonic() < until:
                gone, status = os.waitpid(process.pid, os.WNOHANG)
                if gone:
                    process.returncode = os.waitstatus_to_exitcode(status)
                    return
                time.sleep(0.02)
        # Java that writes an archive starts another one, in its group.
        leads = os.getpgid(process.pid) == process.pid
        (os.killpg if leads else os.kill)(process.pid, signal.SIGKILL)
        # Popen is told, since it would go on to say of it that it is running.
        process.returncode = os.waitstatus_to_exitcode(os.waitpid(process.pid, 0)[1])
