"""Make the archive of Spark's classes that makes later starts cheaper.

A build runs Spark once, over the same kinds of query as a diagnosis, and lets the JVM write down
what it loaded: 20 to 30 s of processor time and about 170 MB, in the user's cache folder.
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

from flowdiag.cli.spark.archive import KEPT, Archive, archives, cache_folder
from flowdiag.cli.spark.java import find_java
from flowdiag.cli.spark.jvm import usable_archive, wanted_archive
from flowdiag.cli.spark.starter import SparkStarter
from flowdiag.parsers.cleanup import at_exit, temporary_folder
from flowdiag.parsers.errors import FlowdiagError
from flowdiag.parsers.extras import pip_install

_DUMP_TIMEOUT_S: Final = 300.0
_ROOM_BYTES: Final = 1_000_000_000  # an ahead-of-time cache needs about twice its size for a while


@dataclass(frozen=True, slots=True, kw_only=True)
class Warmed:
    """What `warm` did."""

    path: Path
    built: bool  # False: a fitting archive was there
    size_bytes: int
    seconds: float


class Busy(FlowdiagError):
    """Another process is at it."""


def warm(*, force: bool = False, wait: bool = True) -> Warmed:
    """Make the archive for the Java, the pyspark and the flags in use, unless it is there.

    Args:
        force: make it anew.
        wait: wait for another process that is making one; otherwise give up.

    Raises:
        FlowdiagError: there is no usable Java, it cannot make archives, the cache folder cannot be
            written or is short of room, or Spark does not start.
    """
    started = time.monotonic()
    java = find_java()
    wanted = wanted_archive(java)
    if wanted is None:
        raise FlowdiagError(
            f"Java {java.major} in {java.home} has no shared class data to build on",
            hint=pip_install("java"),
        )
    with _one_at_a_time(wait=wait):
        ready = None if force else usable_archive(java)
        if ready is None:
            _check_room(wanted.path.parent)
            target = wanted.path.with_name(wanted.path.name + ".part")
            forget = at_exit(partial(_remove_parts, target.parent))
            _train(wanted.flags_to_make(target))
            if not target.exists():
                raise FlowdiagError(f"Java {java.major} in {java.home} wrote no archive")
            target.chmod(0o600)
            target.replace(wanted.path)
            _failed(wanted.path).unlink(missing_ok=True)
            forget()
            for old in archives()[KEPT:]:
                old.unlink(missing_ok=True)
    return Warmed(
        path=wanted.path,
        built=ready is None,
        size_bytes=wanted.path.stat().st_size,
        seconds=time.monotonic() - started,
    )


def remove() -> int:
    """Remove every archive; returns the bytes that this gave back."""
    freed = 0
    left_overs = [path for kind in ("*.part*", "*.failed") for path in cache_folder().glob(kind)]
    for path in [*archives(), *left_overs]:
        with contextlib.suppress(OSError):
            freed += path.stat().st_size
            path.unlink()
    return freed


def warm_in_background(environ: Mapping[str, str] = os.environ, *, told: bool = True) -> bool:
    """Start `warm` in a niced process of its own, if somebody is there to profit from it.

    Only on an interactive terminal and where that is announced, never in CI, and never when a fitting
    archive is there already or could not be made before. Meant for the end of a command, when its JVM
    is gone.

    Args:
        environ: the environment.
        told: whether the user is told of it.

    Returns:
        Whether a build was started.
    """
    if environ.get("CI") or not told:
        return False
    if os.name != "posix" or not sys.stderr.isatty():
        return False
    try:
        wanted = wanted_archive(find_java())
        if wanted is None or wanted.is_usable() or _failed(wanted.path).exists():
            return False
        _check_room(wanted.path.parent)
    except (FlowdiagError, OSError):
        return False
    subprocess.Popen(
        [sys.executable, "-P", "-m", "flowdiag.cli.spark.warm"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # a closed terminal does not end it
        cwd="/",
    )
    return True


def _train(flags: tuple[str, ...]) -> None:
    with (
        SparkStarter.begin(use_archive=False, jvm_flags=flags) as starter,
        temporary_folder("flowdiag-") as folder,
    ):
        rehearse(starter, folder)
        status = starter.finish(_DUMP_TIMEOUT_S)
        if status is None:
            raise FlowdiagError(f"Java wrote no archive within {_DUMP_TIMEOUT_S:.0f} s")


def rehearse(starter: SparkStarter, folder: Path) -> None:
    """Diagnose a small log of our own: what Java loads for that is what every diagnosis needs.

    Then the same log as if it were large: from files, with generated code.
    """
    from flowdiag.analyses.checkpoints.topic import CHECKPOINTS
    from flowdiag.analyses.diagnosis import diagnose
    from flowdiag.analyses.engine.reading import Resources
    from flowdiag.parsers.sources.discover import discover

    (folder / "jobmanager.log").write_text(_rehearsal_log())
    (folder / "taskmanager.log").write_text(_rehearsal_of_taskmanager())
    discovery = discover([str(folder)])
    small = Resources(tune=starter.tune)
    large = replace(
        small, here_bytes=0, few_rows=0, table_rows=0, processes=1, folder=folder / "rows"
    )
    for resources in (small, large):
        diagnose((CHECKPOINTS,), discovery, starter.session, resources=resources)


def _rehearsal_log() -> str:
    """A JobManager's log in which one checkpoint completes and the next ones expire."""
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


def _rehearsal_of_taskmanager() -> str:
    """The log of the TaskManager that runs it, with reports of metrics."""
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


def _check_room(folder: Path) -> None:
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    if free < _ROOM_BYTES:
        raise FlowdiagError(
            f"only {free // 1_000_000} MB are free in {folder}, and an archive needs 1 GB for a while",
            hint="set FLOWDIAG_CACHE_DIR to a folder with more room",
        )


@contextlib.contextmanager
def _one_at_a_time(*, wait: bool) -> Iterator[None]:
    """Hold the cache's lock; the system releases it even if this process is killed."""
    if os.name != "posix":
        raise FlowdiagError("archives are made on Linux and macOS only")
    import fcntl

    folder = cache_folder()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = (folder / "lock").open("w")
    except OSError as error:
        raise FlowdiagError(
            f"the cache folder {folder} cannot be written: {error.strerror}",
            hint="set FLOWDIAG_CACHE_DIR to a folder of your own",
        ) from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            raise Busy("another process is making the archive") from None
        _remove_parts(folder)
        yield


def _remove_parts(folder: Path) -> None:
    """Remove what was not finished; whoever holds the lock is alone with it."""
    for left_over in folder.glob("*.part*"):
        left_over.unlink(missing_ok=True)


def _failed(path: Path) -> Path:
    """The mark of an archive that could not be made: half a minute of work is not tried for ever."""
    return path.with_name(path.name + ".failed")


def _main() -> int:
    """Entry point of the background process: no output, lowest priority."""
    os.nice(19)
    wanted: Archive | None = None
    try:
        wanted = wanted_archive(find_java())
        warm(wait=False)
    except Busy:
        return 1
    except Exception:  # noqa: BLE001 - nobody is there to be told
        if wanted is not None:
            with contextlib.suppress(OSError):
                _failed(wanted.path).touch(mode=0o600)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(_main())
