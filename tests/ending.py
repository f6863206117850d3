"""Ends a command with a signal, and checks its remains. Linux only: reads /proc."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

FLOWDIAG: Final = (sys.executable, "-m", "flowdiag.cli")
_GONE_WITHIN_S: Final = 5.0  # Spark's Python workers end when their JVM is gone
_TAG: Final = "ENDED_BY_A_TEST"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """The state after the end of a command.

    Attributes:
        status: the return code, negative for a signal, as in `Popen.returncode`.
        finished: whether the command ended before the signal.
        took_s: seconds from the signal to the end.
        processes: names of running processes.
        files: names of the files in its temporary folder.
    """

    status: int
    finished: bool
    out: bytes
    err: bytes
    took_s: float
    processes: tuple[str, ...]
    files: tuple[str, ...]


def end(arguments: Sequence[str], number: signal.Signals, after_s: float, folder: Path) -> Ended:
    """Send a signal to a command.

    Args:
        arguments: the arguments of `flowdiag`.
        number: the signal.
        after_s: delay in seconds, counted from when the command has installed its signal handlers.
        folder: a new folder for temporary files.
    """
    folder.mkdir()
    tag = f"{os.getpid()}-{time.monotonic_ns()}"
    with subprocess.Popen(
        [*FLOWDIAG, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "TMPDIR": str(folder), _TAG: tag},
    ) as process:
        try:
            while not _handles_signals(process.pid) and process.poll() is None:
                time.sleep(0.001)
            time.sleep(after_s)
            finished = process.poll() is not None
            sent = time.monotonic()
            process.send_signal(number)
            out, err = process.communicate(timeout=60)
            took_s = time.monotonic() - sent
        finally:
            process.kill()
    until = time.monotonic() + _GONE_WITHIN_S
    while (left := tuple(_running(tag))) and time.monotonic() < until:
        time.sleep(0.02)
    return Ended(
        status=process.returncode,
        finished=finished,
        out=out,
        err=err,
        took_s=took_s,
        processes=left,
        files=tuple(sorted(os.listdir(folder))),
    )


def _handles_signals(pid: int) -> bool:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False
    caught = re.search(r"SigCgt:\s*(\w+)", status)
    return caught is not None and bool(int(caught[1], 16) >> (signal.SIGTERM - 1) & 1)


def _running(tag: str) -> Iterator[str]:
    """Return the names of the processes with the test's tag in their environment, which children inherit."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if f"{_TAG}={tag}".encode() in (folder / "environ").read_bytes():
                state = (folder / "stat").read_text().rpartition(")")[2].split()[0]
                if state != "Z":  # a container may have no process that reaps orphans
                    yield (folder / "comm").read_text().strip()
        except OSError:
            continue
