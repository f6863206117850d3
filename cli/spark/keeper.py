"""The process that keeps a Java process for later commands (`flowdiag.cli.spark.kept`).

It starts Java, says where it listens, and looks twice a second whether it is still wanted. Java ends with it,
however it ends: its standard input closes. What it imports is little: a command waits for it.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from pathlib import Path
from typing import IO, Any, Final

import msgspec

from flowdiag.cli.spark import settings
from flowdiag.cli.spark.folder import PrivateFolder
from flowdiag.cli.spark.java import java_in
from flowdiag.cli.spark.jvm import Jvm, usable_archive
from flowdiag.cli.spark.kept import BUSY, WORN, Kept, Place, hold, runtime_folder
from flowdiag.cli.spark.tricks import Trick, used
from flowdiag.parsers.machine import free_memory_share

_LOOK_S: Final = 0.5
_SHORT: Final = 0.05
"""Less memory than this share is free: somebody needs it more."""


def keep(wanted: dict[str, Any]) -> int:
    """Start Java and keep it as long as it is wanted.

    Args:
        wanted: as `flowdiag.cli.spark.kept.start_keeper` says it.

    Returns:
        The exit status of the process.
    """
    runtime = runtime_folder()
    java = java_in(Path(wanted["java"]), wanted["origin"])
    if runtime is None or java is None:
        return 1
    place = Place(runtime, wanted["key"])
    try:
        alive = hold(place.alive)
    except OSError:
        return 0  # another one was faster
    folder = PrivateFolder.made()
    jvm = Jvm(folder.path, heap_bytes=wanted["heap_bytes"])
    try:
        archive = usable_archive(java) if used(Trick.ARCHIVE) else None
        properties = {**wanted["properties"], **settings.folders(folder.path)}
        jvm.start(java, properties, archive.flags_to_use() if archive is not None else ())
        port, secret = jvm.answer()
        assert jvm.process is not None
        place.use.unlink(missing_ok=True)
        kept = Kept(
            pid=os.getpid(),
            java_pid=jvm.process.pid,
            port=port,
            secret=secret,
            folder=str(folder.path),
            idle_s=wanted["idle_s"],
            started_s=time.time(),
        )
        place.write(kept)
        _watch(place, kept, jvm)
    finally:
        place.said.unlink(missing_ok=True)
        jvm.kill()
        folder.remove()
        place.use.unlink(missing_ok=True)
        place.alive.unlink(missing_ok=True)
        alive.close()
    return 0


def _watch(place: Place, kept: Kept, jvm: Jvm) -> None:
    """Return as soon as it is not wanted any more: by its clock, not by that of the machine."""
    last = time.monotonic()
    while time.monotonic() - last < kept.idle_s:
        time.sleep(_LOOK_S)
        if jvm.process is None or jvm.process.poll() is not None:
            return
        if place.read() != kept or not Path(kept.folder).is_dir():
            return
        used = _use(place)
        if used is None:
            last = time.monotonic()
        elif used in (BUSY, WORN) or free_memory_share() < _SHORT:
            return


def _use(place: Place) -> bytes | None:
    """What the last command left; None while one is at it."""
    try:
        lock: IO[bytes] = hold(place.use)
    except BlockingIOError:
        return None
    except OSError:
        return WORN  # it is not ours any more
    with lock:
        return lock.read(4)


def main() -> int:
    """Entry point; nobody is there to be told of a failure."""
    os.umask(0o077)
    with contextlib.suppress(Exception):
        return keep(msgspec.json.decode(sys.stdin.buffer.read()))
    return 1


if __name__ == "__main__":
    raise SystemExit(main())
