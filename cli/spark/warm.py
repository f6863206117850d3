"""Creates the archive of Spark's classes that makes later starts faster.

A training run starts Spark once and executes the same kinds of query as a diagnosis. The JVM then writes the
loaded classes to an archive in the user's cache folder. A run takes 20 to 30 s of CPU time and writes about
170 MB.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

from flowdiag.cli.spark.archive import MAX_ARCHIVES, Archive, archives, cache_folder
from flowdiag.cli.spark.java import find_java
from flowdiag.cli.spark.jvm import expected_archive, usable_archive
from flowdiag.cli.spark.starter import SparkStarter
from flowdiag.parsers.cleanup import at_exit, temporary_folder
from flowdiag.parsers.errors import FlowdiagError
from flowdiag.parsers.extras import pip_install

_DUMP_TIMEOUT_S: Final = 1800.0  # an image for another architecture is built in an emulator
_REQUIRED_SPACE_BYTES: Final = (
    1_000_000_000  # while an ahead-of-time cache is created, it needs twice its size
)


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmResult:
    """The archive, and whether `warm` created it."""

    path: Path
    created: bool
    size_bytes: int
    seconds: float


class AlreadyRunning(FlowdiagError):
    """Another process is creating the archive."""


def warm(*, force: bool = False, wait: bool = True) -> WarmResult:
    """Create the archive for the current Java, pyspark and flags, unless it exists.

    Args:
        force: recreate an existing archive.
        wait: wait for another process that is creating an archive; otherwise give up.

    Raises:
        FlowdiagError: there is no usable Java, Java cannot create archives, the cache folder is full or not
            writable, or Spark does not start.
    """
    started = time.monotonic()
    java = find_java()
    archive = expected_archive(java)
    if archive is None:
        raise FlowdiagError(
            f"Java {java.major} in {java.home} has no shared class data, which an archive requires",
            hint=pip_install("java"),
        )
    with _cache_lock(wait=wait):
        existing = None if force else usable_archive(java)
        if existing is None:
            _check_free_space(archive.path.parent)
            target = archive.path.with_name(archive.path.name + ".part")
            unregister = at_exit(partial(_remove_parts, target.parent))
            _write_archive(archive.flags_to_make(target))
            if not target.exists():
                raise FlowdiagError(f"Java {java.major} in {java.home} wrote no archive")
            target.chmod(0o600)
            target.replace(archive.path)
            _failure_marker(archive.path).unlink(missing_ok=True)
            unregister()
            for old in archives()[MAX_ARCHIVES:]:
                old.unlink(missing_ok=True)
    return WarmResult(
        path=archive.path,
        created=existing is None,
        size_bytes=archive.path.stat().st_size,
        seconds=time.monotonic() - started,
    )


def remove_archives() -> int:
    """Remove all archives and return the number of freed bytes."""
    freed = 0
    leftovers = [path for kind in ("*.part*", "*.failed") for path in cache_folder().glob(kind)]
    for path in [*archives(), *leftovers]:
        with contextlib.suppress(OSError):
            freed += path.stat().st_size
            path.unlink()
    return freed


def warm_in_background(environ: Mapping[str, str] = os.environ) -> bool:
    """Start `warm` in a separate process with low priority, and return whether it was started.

    Does nothing without an interactive terminal, in CI, if a fitting archive exists, or if an earlier attempt
    failed. Call this at the end of a command, after its JVM has ended.
    """
    if environ.get("CI"):
        return False
    if os.name != "posix" or not sys.stderr.isatty():
        return False
    try:
        archive = expected_archive(find_java())
        if archive is None or archive.is_usable() or _failure_marker(archive.path).exists():
            return False
        _check_free_space(archive.path.parent)
    except (FlowdiagError, OSError):
        return False
    subprocess.Popen(
        [sys.executable, "-P", "-m", "flowdiag.cli.spark.warm"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # survives when the terminal closes
        cwd="/",
    )
    return True


def _write_archive(flags: tuple[str, ...]) -> None:
    with (
        SparkStarter.begin(use_archive=False, jvm_flags=flags) as starter,
        temporary_folder("flowdiag-") as folder,
    ):
        run_training_workload(starter, folder)
        status = starter.finish(_DUMP_TIMEOUT_S)
        if status is None:
            raise FlowdiagError(f"Java wrote no archive within {_DUMP_TIMEOUT_S:.0f} s")


def run_training_workload(starter: SparkStarter, folder: Path) -> None:
    """Diagnose a small generated log, so that Java loads the classes that every diagnosis needs.

    A second diagnosis treats the same log as large: with intermediate files and generated code.
    """
    from flowdiag.analyses.checkpoints.topic import CHECKPOINTS
    from flowdiag.analyses.diagnosis import diagnose
    from flowdiag.analyses.engine.reading import Resources
    from flowdiag.parsers.discover import discover

    (folder / "jobmanager.log").write_text(_training_jobmanager_log())
    (folder / "taskmanager.log").write_text(_training_taskmanager_log())
    discovery = discover([str(folder)])
    small = Resources(tune=starter.tune)
    large = replace(
        small, local_bytes=0, few_rows=0, table_rows=0, processes=1, folder=folder / "rows"
    )
    for resources in (small, large):
        diagnose((CHECKPOINTS,), discovery, starter.session, resources=resources)


def _training_jobmanager_log() -> str:
    """Return a JobManager log in which the first checkpoint completes and all later checkpoints expire."""
    attempt = f"{'a' * 32}_{'b' * 32}_0_0"
    job = "c" * 32
    coordinator = "INFO  org.apache.flink.runtime.checkpoint.CheckpointCoordinator [] - "
    graph = "INFO  org.apache.flink.runtime.executiongraph.ExecutionGraph [] - "
    lines = [
        f"{graph}Job rehearsal ({job}) switched from state CREATED to RUNNING.",
        f"{graph}Deploying map (1/1) (attempt #0) with attempt id {attempt} and vertex id {'b' * 32}"
        " to tm-1 @ localhost (dataPort=1) with allocation id " + "d" * 32,
        f"{graph}map (1/1) ({attempt}) switched from DEPLOYING to RUNNING.",
    ]
    for number in range(1, 6):
        lines.append(
            f"{coordinator}Triggering checkpoint {number} (type=CheckpointType{{name='Checkpoint',"
            " sharingFilesStrategy=FORWARD_BACKWARD}) @ "
            f"{1_767_607_200_000 + 10_000 * len(lines)} for job {job}."
        )
        if number == 1:
            lines.append(
                f"{coordinator}Completed checkpoint {number} for job {job} (1024 bytes,"
                " checkpointDuration=10 ms, finalizationTime=1 ms)."
            )
            continue
        lines += [
            f"{coordinator}Checkpoint {number} of job {job} expired before completing.",
            f"{coordinator}Received late message for now expired checkpoint attempt {number}"
            + f" from task {attempt} of job {job} at tm-1 @ localhost (dataPort=1).",
        ]
    return "".join(
        f"2026-01-05 10:{number * 10 // 60:02d}:{number * 10 % 60:02d},000 {line}\n"
        for number, line in enumerate(lines)
    )


def _training_taskmanager_log() -> str:
    """Return the log of the job's TaskManager, with metrics reports."""
    attempt = f"{'a' * 32}_{'b' * 32}_0_0"
    task = "INFO  org.apache.flink.runtime.taskmanager.Task [] - "
    lines = [f"{task}map (1/1)#0 ({attempt}) switched from INITIALIZING to RUNNING."]
    for number in range(5):
        lines.append(
            "INFO  org.apache.flink.metrics.slf4j.Slf4jReporter [] - \n"
            "=========================== Starting metrics report ===========================\n\n"
            "-- Gauges ---------------------------------------------------------------------\n"
            f"localhost.taskmanager.tm-1.rehearsal.map.0.busyTimeMsPerSecond: {900 + number}\n\n"
            "-- Counters -------------------------------------------------------------------\n"
            f"localhost.taskmanager.tm-1.rehearsal.map.0.numRecordsIn: {100 * number}\n\n"
            "=========================== Finished metrics report ==========================="
        )
    return "".join(
        f"2026-01-05 10:{number * 10 // 60:02d}:{number * 10 % 60:02d},500 {line}\n"
        for number, line in enumerate(lines)
    )


def _check_free_space(folder: Path) -> None:
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    if free < _REQUIRED_SPACE_BYTES:
        raise FlowdiagError(
            f"only {free // 1_000_000} MB are free in {folder}, but creating an archive needs 1 GB",
            hint="set FLOWDIAG_CACHE_DIR to a folder with more free space",
        )


@contextlib.contextmanager
def _cache_lock(*, wait: bool) -> Iterator[None]:
    """Hold the lock of the cache. The system releases it even if this process is killed."""
    if os.name != "posix":
        raise FlowdiagError("flowdiag creates archives only on Linux and macOS")
    import fcntl

    folder = cache_folder()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = (folder / "lock").open("w")
    except OSError as error:
        raise FlowdiagError(
            f"cannot write to the cache folder {folder}: {error.strerror}",
            hint="set FLOWDIAG_CACHE_DIR to a writable folder",
        ) from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            raise AlreadyRunning("another process is creating the archive") from None
        _remove_parts(folder)
        yield


def _remove_parts(folder: Path) -> None:
    """Remove unfinished archives. The caller holds the lock, so no other process is writing them."""
    for leftover in folder.glob("*.part*"):
        leftover.unlink(missing_ok=True)


def _failure_marker(path: Path) -> Path:
    """Return the file that marks a failed attempt. It prevents another half-minute attempt at each command."""
    return path.with_name(path.name + ".failed")


def _main() -> int:
    """Run as the background process: no output, lowest priority."""
    os.nice(19)
    archive: Archive | None = None
    try:
        archive = expected_archive(find_java())
        warm(wait=False)
    except AlreadyRunning:
        return 1
    except Exception:  # noqa: BLE001 - the process has no output
        if archive is not None:
            with contextlib.suppress(OSError):
                _failure_marker(archive.path).touch(mode=0o600)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(_main())
