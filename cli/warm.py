"""Make the archive of Spark's classes that halves the time to the first answer.

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
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from flowdiag.cli.archive import KEPT, archives, cache_folder
from flowdiag.cli.java import find_java
from flowdiag.cli.session import SparkStarter, usable_archive, wanted_archive
from flowdiag.parsers.errors import FlowdiagError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

_DUMP_TIMEOUT_S: Final = 300.0
_ROOM_BYTES: Final = 1_000_000_000  # an ahead-of-time cache needs about twice its size for a while


@dataclass(frozen=True, slots=True, kw_only=True)
class Warmed:
    """What `warm` did."""

    path: Path
    built: bool  # False: a fitting archive was there
    size_bytes: int
    seconds: float


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
            hint="pip install 'flowdiag[java]'",
        )
    with _one_at_a_time(wait=wait):
        ready = None if force else usable_archive(java)
        if ready is None:
            _check_room(wanted.path.parent)
            target = wanted.path.with_name(wanted.path.name + ".part")
            _train(wanted.flags_to_make(target))
            if not target.exists():
                raise FlowdiagError(f"Java {java.major} in {java.home} wrote no archive")
            target.chmod(0o600)
            target.replace(wanted.path)
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
    for path in [*archives(), *cache_folder().glob("*.part*")]:
        with contextlib.suppress(OSError):
            freed += path.stat().st_size
            path.unlink()
    return freed


def warm_in_background(environ: Mapping[str, str] = os.environ) -> bool:
    """Start `warm` in a niced process of its own, if somebody is there to profit from it.

    Only on an interactive terminal, never in CI, never with `FLOWDIAG_WARM=never`, and never when
    a fitting archive is there already. Meant for the end of a command, when its JVM is gone.

    Returns:
        Whether a build was started.
    """
    if environ.get("CI") or environ.get("FLOWDIAG_WARM") == "never":
        return False
    if os.name != "posix" or not sys.stderr.isatty():
        return False
    try:
        wanted = wanted_archive(find_java())
        if wanted is None or wanted.is_usable():
            return False
        _check_room(wanted.path.parent)
    except (FlowdiagError, OSError):
        return False
    subprocess.Popen(
        [sys.executable, "-P", "-m", "flowdiag.cli.warm"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # a closed terminal does not end it
        cwd="/",
    )
    return True


def _train(flags: tuple[str, ...]) -> None:
    with SparkStarter.begin(use_archive=False, jvm_flags=flags) as starter:
        session = starter.session()
        for small in (True, False):
            starter.tune(small=small)
            _rehearse(session)
        status = starter.finish(_DUMP_TIMEOUT_S)
        if status is None:
            raise FlowdiagError(f"Java wrote no archive within {_DUMP_TIMEOUT_S:.0f} s")


def _rehearse(spark: SparkSession) -> None:
    """Do once what a diagnosis does: Arrow in both directions, Python tasks, the usual plans."""

    import pyarrow as pa
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    from flowdiag.parsers.schema import EVENTS, empty_row
    from flowdiag.parsers.spark import EVENTS as SCHEMA

    rows = [
        empty_row()
        | {
            "source": 0,
            "offset": number,
            "event": "checkpoint_triggered" if number % 2 else "task_state",
            "local_us": number,
            "checkpoint": number // 2,
            "task": "map",
            "subtask_index": number % 3,
            "fields": {"reason": "none"},
        }
        for number in range(64)
    ]
    table = pa.Table.from_pylist(rows, schema=EVENTS)

    def repeat(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            yield from table.to_batches()

    scanned = spark.range(2, numPartitions=2).mapInArrow(repeat, schema=SCHEMA)
    events = spark.createDataFrame(table, schema=SCHEMA).unionByName(scanned).cache()
    by_task = Window.partitionBy("task", "subtask_index").orderBy("source", "offset")
    numbered = events.select(
        "*",
        F.lag("local_us").over(by_task).alias("before"),
        F.row_number().over(by_task).alias("number"),
        F.col("fields")["reason"].alias("reason"),
        F.coalesce("utc_us", "local_us").alias("at"),
    )
    triggered = numbered.where(F.col("event") == "checkpoint_triggered").alias("triggered")
    summary = numbered.groupBy("task", "checkpoint").agg(
        F.count("*").alias("n"),
        F.min("at").alias("first"),
        F.max_by("reason", "at").alias("last_reason"),
        F.collect_list(F.struct("subtask_index", "at")).alias("subtasks"),
        F.percentile("at", 0.5).alias("median"),
        F.sum("bytes").alias("bytes"),
    )
    joined = triggered.join(summary.alias("summary"), on="checkpoint", how="left")
    broadcast = triggered.join(F.broadcast(summary), on="checkpoint", how="left_anti")
    joined.orderBy("checkpoint", "offset").collect()
    broadcast.select(F.explode_outer("fields")).distinct().toArrow()
    events.groupBy("event").pivot("subtask_index", [0, 1]).count().collect()
    events.unpersist()


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
            raise FlowdiagError("another process is making the archive") from None
        for left_over in folder.glob("*.part*"):
            left_over.unlink(missing_ok=True)
        yield


def _main() -> int:
    """Entry point of the background process: no output, lowest priority."""
    os.nice(19)
    try:
        warm(wait=False)
    except FlowdiagError:
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(_main())
