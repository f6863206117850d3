"""Removes child processes, private folders and incomplete files when this process exits.

Code that creates such a resource registers its removal here (`at_exit`). Normally the same code later removes the
resource and cancels the registration. `clean_up` removes what is left at exit, or when a signal ends the process
(`flowdiag.cli.process`). It starts with the newest resource, because processes write to folders that were created
before them.
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
"""Name of the lock file in a private folder; it is locked while a process uses the folder."""


@dataclass(slots=True)
class _State:
    """The registered clean-up functions, and whether a signal may run them now."""

    undo: dict[int, tuple[int, Callable[[], object]]] = field(default_factory=dict)
    numbers: Iterator[int] = field(default_factory=itertools.count)
    lock: threading.Lock = field(default_factory=threading.Lock)
    deferring: int = 0  # threads inside `signals_deferred`
    exit_status: int | None = None  # exit with this status as soon as no thread defers signals
    ending: bool = False


_state: Final = _State()


def at_exit(undo: Callable[[], object]) -> Forget:
    """Call `undo` when the process ends, for whatever reason.

    Args:
        undo: clean-up function. It may interrupt the main thread anywhere, so it must not wait for locks.

    Returns:
        A function that cancels the registration after a normal clean-up.
    """
    number = next(_state.numbers)
    _state.undo[number] = os.getpid(), undo
    return partial(_state.undo.pop, number, None)


@contextmanager
def signals_deferred() -> Iterator[None]:
    """Defer signals until the end of the block, so that no signal separates a resource from its registration."""
    with _state.lock:
        _state.deferring += 1
    try:
        while _state.ending:  # the process is already ending: a thread must not create anything new
            time.sleep(1)
        yield
    finally:
        with _state.lock:
            _state.deferring -= 1
            last = not _state.deferring
        if last and _state.exit_status is not None:
            end_now(_state.exit_status)


def end_now(status: int) -> None:
    """Exit immediately and silently with this status; safe in a signal handler.

    The stack is not unwound. Otherwise libraries would report broken connections, and `except` clauses would swallow
    the exit.
    """
    if _state.deferring:
        _state.exit_status = status
        return
    if not _state.ending:  # a second signal does not restart the exit
        _state.ending = True
        try:
            clean_up()
        finally:
            os._exit(status)


def clean_up() -> None:
    """Call all registered functions, newest first. If one fails, the others still run."""
    own = os.getpid()
    while _state.undo:
        with suppress(Exception):
            number = next(reversed(_state.undo))
            owner, undo = _state.undo[number]
            try:
                if owner == own:  # a forked child must not remove its parent's resources
                    undo()
            finally:  # only now, because a signal that interrupts clean-up starts it again
                _state.undo.pop(number, None)


atexit.register(clean_up)


def private_folder(prefix: str) -> tuple[Path, Forget]:
    """Create a temporary folder that only this user can access (mode 0700); it is removed at exit.

    Raises:
        OSError: the disk is full, or no folder for temporary files is writable.
    """
    with signals_deferred():
        folder = Path(tempfile.mkdtemp(prefix=prefix))
        return folder, at_exit(partial(remove_folder, folder))


def lock_folder(folder: Path) -> IO[bytes]:
    """Mark a private folder as in use until the returned file is closed or the process is killed.

    Other processes may remove a folder without this lock.

    Raises:
        OSError: the disk is full.
    """
    lock = (folder / LOCK).open("wb")
    if os.name == "posix":
        import fcntl

        fcntl.flock(lock, fcntl.LOCK_EX)
    return lock


@contextmanager
def temporary_folder(prefix: str) -> Iterator[Path]:
    """Provide a private folder that is removed at the end of the block."""
    folder, forget = private_folder(prefix)
    try:
        yield folder
    finally:
        remove_folder(folder)
        forget()


def remove_folder(folder: Path) -> None:
    """Remove a folder. Try twice, because a process that was just killed may have written to it in the meantime."""
    shutil.rmtree(folder, ignore_errors=True)
    if folder.exists():
        time.sleep(0.05)
        shutil.rmtree(folder, ignore_errors=True)


def kill_now(process: subprocess.Popen[bytes], *, grace_s: float = 0) -> None:
    """Kill a child process and wait until it is gone, without taking `Popen`'s lock (see `at_exit`).

    Args:
        process: a child of this process.
        grace_s: seconds between SIGTERM and SIGKILL; with 0, SIGKILL is sent immediately.
    """
    if process.returncode is not None:
        return
    if os.name != "posix":
        process.kill()
        return
    with suppress(OSError):
        if grace_s:
            # Other threads that are connected to the process would print tracebacks.
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            os.kill(process.pid, signal.SIGTERM)
            until = time.monotonic() + grace_s
            while time.monotonic() < until:
                gone, status = os.waitpid(process.pid, os.WNOHANG)
                if gone:
                    process.returncode = os.waitstatus_to_exitcode(status)
                    return
                time.sleep(0.02)
        # A JVM that writes a CDS archive starts another JVM in its process group.
        leads = os.getpgid(process.pid) == process.pid
        (os.killpg if leads else os.kill)(process.pid, signal.SIGKILL)
        # Without the exit code, Popen would still report the process as running.
        process.returncode = os.waitstatus_to_exitcode(os.waitpid(process.pid, 0)[1])
