"""The process that keeps Java running for later commands (`flowdiag.cli.spark.running_java`).

It starts Java, publishes the port, and checks twice a second whether Java is still needed. Java ends with this
process in all cases, because its standard input closes. Imports are few, because a command waits for it.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from pathlib import Path
from typing import Final

import msgspec

from flowdiag.cli.spark import settings
from flowdiag.cli.spark.folder import PrivateFolder
from flowdiag.cli.spark.java import java_in
from flowdiag.cli.spark.jvm import Jvm, usable_archive
from flowdiag.cli.spark.optimizations import Optimization, is_enabled
from flowdiag.cli.spark.running_java import (
    BUSY,
    HEAP_FULL,
    KeeperConfig,
    KeeperFiles,
    RunningJava,
    lock_file,
    runtime_folder,
)
from flowdiag.parsers.machine import free_memory_share

_CHECK_INTERVAL_S: Final = 0.5
_LOW_MEMORY_SHARE: Final = 0.05
"""Minimum share of free memory. With less, other processes need the memory more."""


def keep(config: KeeperConfig) -> int:
    """Start Java, keep it while it is needed, and return the exit status of this process."""
    runtime = runtime_folder()
    java = java_in(Path(config.java), config.origin)
    if runtime is None or java is None:
        return 1
    files = KeeperFiles(runtime, config.key)
    try:
        lock = lock_file(files.keeper_lock)
    except OSError:
        return 0  # another keeper was faster
    folder = PrivateFolder.create()
    jvm = Jvm(folder.path, heap_bytes=config.heap_bytes)
    try:
        archive = usable_archive(java) if is_enabled(Optimization.ARCHIVE) else None
        properties = {**config.properties, **settings.folders(folder.path)}
        jvm.start(java, properties, archive.flags_to_use() if archive is not None else ())
        port, secret = jvm.await_gateway()
        assert jvm.process is not None
        files.command_lock.unlink(missing_ok=True)
        running = RunningJava(
            pid=os.getpid(),
            java_pid=jvm.process.pid,
            port=port,
            secret=secret,
            folder=str(folder.path),
            idle_s=config.idle_s,
            started_s=time.time(),
        )
        files.write(running)
        _wait_until_unneeded(files, running, jvm)
    finally:
        files.info.unlink(missing_ok=True)
        jvm.kill()
        folder.remove()
        files.command_lock.unlink(missing_ok=True)
        files.keeper_lock.unlink(missing_ok=True)
        lock.close()
    return 0


def _wait_until_unneeded(files: KeeperFiles, running: RunningJava, jvm: Jvm) -> None:
    """Return as soon as Java is no longer needed. A change of the system clock has no effect."""
    last_use = time.monotonic()
    while time.monotonic() - last_use < running.idle_s:
        time.sleep(_CHECK_INTERVAL_S)
        if jvm.process is None or jvm.process.poll() is not None:
            return
        if files.read() != running or not Path(running.folder).is_dir():
            return
        state = _state_after_last_use(files)
        if state is None:
            last_use = time.monotonic()
        elif state in (BUSY, HEAP_FULL) or free_memory_share() < _LOW_MEMORY_SHARE:
            return


def _state_after_last_use(files: KeeperFiles) -> bytes | None:
    """Return the state that the last command wrote, or None while a command uses Java."""
    try:
        lock = lock_file(files.command_lock)
    except BlockingIOError:
        return None
    except OSError:
        return HEAP_FULL  # the file is no longer private
    with lock:
        return lock.read(4)


def main() -> int:
    """Run the keeper. It has no output, so failures are silent."""
    os.umask(0o077)
    with contextlib.suppress(Exception):
        return keep(msgspec.json.decode(sys.stdin.buffer.read(), type=KeeperConfig))
    return 1


if __name__ == "__main__":
    raise SystemExit(main())
