"""The actions of `flowdiag warm` on a running JVM (`flowdiag.cli.spark.running_java`)."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

from flowdiag.analyses.model.fmt import duration, plural, size
from flowdiag.cli.settings import load_settings, parse_heap, parse_stay
from flowdiag.cli.spark import running_java
from flowdiag.cli.spark.archive import archives
from flowdiag.cli.spark.starter import SparkStarter
from flowdiag.cli.spark.warm import run_training_workload
from flowdiag.parsers.cleanup import temporary_folder
from flowdiag.parsers.errors import FlowdiagError


def keep_running(stay: str) -> str:
    """Start and warm up a JVM that keeps running, and return its status.

    Args:
        stay: the idle time after which Java ends, such as `15m`.

    Raises:
        FlowdiagError: the time is not valid, Spark does not start, or Java cannot keep running here.
    """
    idle_s = parse_stay(stay)
    if not idle_s:
        raise FlowdiagError(
            "--stay 0 keeps nothing running", hint="stop Java with flowdiag warm --stop"
        )
    if os.environ.get("CI"):
        raise FlowdiagError(
            "Java does not keep running if CI is set, because CI jobs must leave nothing behind"
        )
    if running_java.runtime_folder() is None:
        raise FlowdiagError(
            "there is no private folder where later commands can find the running Java",
            hint="set XDG_RUNTIME_DIR or FLOWDIAG_CACHE_DIR to a folder with mode 0700",
        )
    heap = load_settings({}).java_heap
    for files in running_java.all_keeper_files():  # with another --stay, or about to end
        running_java.stop(files)
    with SparkStarter.begin(
        heap_bytes=parse_heap(heap) if heap else None, join=True, stay_s=idle_s
    ) as starter:
        with temporary_folder("flowdiag-") as folder:
            run_training_workload(starter, folder)
        if not starter.is_shared:
            raise FlowdiagError(
                "Java started but did not stay running", hint="run flowdiag warm --status"
            )
    return "\n".join(status_lines())


def stop_all() -> str:
    """Stop every running JVM, and return a message with their number.

    Raises:
        FlowdiagError: a JVM does not stop.
    """
    running = [(files, files.read()) for files in running_java.all_keeper_files()]
    for files, java in running:
        if not running_java.stop(files):
            process = f" {java.java_pid}" if java else ""
            raise FlowdiagError(f"Java{process} does not stop", hint="kill the process")
    count = sum(java is not None for _, java in running)
    return (
        f"stopped {plural(count, 'Java process', 'Java processes')}"
        if count
        else "no Java process is running"
    )


def status_lines() -> list[str]:
    """Describe every running JVM and the disk usage of the archives, one line each."""
    lines = [line for files in running_java.all_keeper_files() for line in _status_line(files)]
    archive_bytes = sum(path.stat().st_size for path in archives())
    return [
        *(lines or ["no Java process is running"]),
        f"class archives: {size(archive_bytes) if archive_bytes else 'none'}",
    ]


def _status_line(files: running_java.KeeperFiles) -> Iterator[str]:
    java = files.read()
    if java is None or not files.is_alive():
        return
    age = duration((time.time() - java.started_s) * 1000)
    idle = duration(java.idle_s * 1000)
    yield (
        f"Java {java.java_pid} has been running for {age} and uses {size(_memory_bytes(java.java_pid))} of"
        f" memory; it ends {idle} after its last use, or with flowdiag warm --stop"
    )


def _memory_bytes(process: int) -> int:
    """Return the resident memory of a process, or 0 if unknown."""
    try:
        pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    except (OSError, LookupError, ValueError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")
