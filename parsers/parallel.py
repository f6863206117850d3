"""Parses inputs in several local processes while Spark is still starting.

Spark tasks parse only if they run on other hosts (`parsers.on_spark.frame`). On one host, Spark would have to start
first, and its Python workers take another 1.5 seconds. By then, these processes have read a gigabyte. They write
Parquet files, because a large log with metric reports yields millions of rows, too many for memory. From Parquet
files, Spark reads only the columns that a query needs.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, Self

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from flowdiag.parsers.cleanup import at_exit, kill_now, signals_deferred
from flowdiag.parsers.errors import FlowdiagError
from flowdiag.parsers.faults import InternalFault, describe_fault
from flowdiag.parsers.flink.marks import with_marks
from flowdiag.parsers.packing import PACKED, packed
from flowdiag.parsers.plugins import messages, use_messages
from flowdiag.parsers.rows import Event, RowBuilder, fault_row
from flowdiag.parsers.split import Split, parse_splits

Answer = tuple[int, int] | OSError | MemoryError | InternalFault
"""The result of a process: its numbers of rows, or an error."""

# Errors when using the pipe to a dead process.
_PROCESS_DIED: Final = (EOFError, OSError, pickle.PickleError)
_GROUP_ROWS: Final = 32_768  # rows of a Parquet file that are in memory at once


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """Parquet files (schema `PACKED`) with one kind of row, in task order, and their number of rows."""

    files: tuple[str, ...] = ()
    count: int = 0

    def table(self) -> pa.Table:
        """Load all rows into memory, in contiguous chunks."""
        tables = list(self._groups())
        return pa.concat_tables(tables or [PACKED.empty_table()]).combine_chunks()

    def of_kinds(self, kinds: Collection[str]) -> pa.Table:
        """Load the rows of these kinds of events into memory."""
        values = pa.array(sorted(kinds))
        tables = [
            group.filter(pc.is_in(group["event"], value_set=values)) for group in self._groups()
        ]
        return pa.concat_tables(tables or [PACKED.empty_table()])

    def _groups(self) -> Iterator[pa.Table]:
        for file in self.files:  # not `read_table`, whose imports take a third of a second
            with pq.ParquetFile(file) as opened:
                for number in range(opened.num_row_groups):
                    yield opened.read_row_group(number, use_threads=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedRows:
    """All parsed rows, in files.

    Args:
        events: all rows except metrics. Each task's rows end with its rows of `marks`.
        metrics: the metric rows, and copies of the section headers, which identify the process that reported them.
    """

    events: Rows
    metrics: Rows


def parse_in_processes(
    tasks: Sequence[Sequence[Split]],
    folder: Path,
    *,
    processes: int,
    metrics: Collection[str] | None = None,
    on_progress: Callable[[float], None] = lambda share: None,
) -> ParsedRows:
    """Parse tasks in several processes, and wait for all of them.

    If a process dies, its unfinished task is parsed again, split by split, so no data is lost.

    Args:
        tasks: the result of `split.plan_splits`.
        folder: where to write the files; the caller removes it.
        processes: number of processes, at least one.
        metrics: see `split.parse_split`.
        on_progress: is called with the finished share of the tasks, from several threads.

    Raises:
        FlowdiagError: the files cannot be written.
        MemoryError: a process ran out of memory.
    """
    names = None if metrics is None else frozenset(metrics)
    with _writing_to(folder):
        written = _parse_concurrently(tasks, folder, processes, names, on_progress)
        for number, task in enumerate(tasks):
            if number not in written:
                written[number] = _parse_split_by_split(task, folder, number, names)
    numbers = sorted(written)
    events = [file for number in numbers for file in _files(folder, "events", number)]
    series = [file for number in numbers for file in _files(folder, "metrics", number)]
    return ParsedRows(
        events=Rows(files=tuple(events), count=sum(written[n][0] for n in numbers)),
        metrics=Rows(files=tuple(series), count=sum(written[n][1] for n in numbers)),
    )


def rows_in_file(rows: pa.Table, folder: Path) -> Rows:
    """Write rows to a Parquet file, so that Spark reads only the columns that a query needs.

    Args:
        rows: rows of the schema `EVENTS` or `PACKED`.
        folder: where to write the file; the caller removes it.

    Raises:
        FlowdiagError: the file cannot be written.
    """
    path = _file(folder, "events", 0)
    with _writing_to(folder), _Writer(path) as writer:
        for batch in rows.to_batches(max_chunksize=_GROUP_ROWS):
            writer.add(batch)
    return Rows(files=(str(path),) if writer.rows else (), count=writer.rows)


@contextlib.contextmanager
def _writing_to(folder: Path) -> Iterator[None]:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        raise FlowdiagError(
            f"cannot write parsed rows to {folder}: {error.strerror or error}",
            hint="set TMPDIR to a folder with more free space",
        ) from error


def parse_task(
    task: Sequence[Split], folder: Path, number: int, metrics: frozenset[str] | None, part: int = 0
) -> tuple[int, int]:
    """Parse a task, or a part of it, into at most two files (events and metrics); return their numbers of rows.

    Raises:
        OSError: a file cannot be written. The `split` row reports problems with an input.
    """
    return _write(rows_of_task(task, metrics), folder, number, part)


def _write(
    batches: Iterable[pa.RecordBatch], folder: Path, number: int, part: int
) -> tuple[int, int]:
    events = _Writer(_file(folder, "events", number, part))
    series = _Writer(_file(folder, "metrics", number, part))
    for writer in (events, series):
        writer.path.unlink(missing_ok=True)  # left over from a process that died
    with events, series:
        for batch in batches:
            measured = pc.equal(batch.column("event"), Event.METRIC.value)
            count = measured.true_count
            if count == batch.num_rows:  # nearly all batches with metrics
                series.add(batch)
                continue
            if count:
                series.add(batch.filter(measured))
                batch = batch.filter(pc.invert(measured))
            headers = pc.equal(batch.column("event"), Event.SECTION.value)
            if pc.any(headers).as_py():
                series.add(batch.filter(headers))
            events.add(batch)
    return events.rows, series.rows


def rows_of_task(
    task: Sequence[Split], metrics: Collection[str] | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a task's splits, followed by rows of `marks` for Flink.

    The marks are summed up here, because no other step before the clocks are resolved sees all rows.
    """
    parsed = parse_splits(task, metrics=metrics)
    # Sum up all splits at once: they belong to different sources.
    yield from with_marks(parsed) if any(s.source.engine == "flink" for s in task) else parsed


class _Writer:
    """Writes a Parquet file, which is created only if there are rows."""

    def __init__(self, path: Path) -> None:
        self.rows = 0
        self.path = path
        self._file: pq.ParquetWriter | None = None
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_rows = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if error[0] is None:
            self._write()
        if self._file is not None:
            self._file.close()

    def add(self, batch: pa.RecordBatch) -> None:
        if batch.num_rows == 0:
            return
        self._waiting.append(batch)
        self._waiting_rows += batch.num_rows
        if self._waiting_rows >= _GROUP_ROWS:
            self._write()

    def _write(self) -> None:
        if not self._waiting:
            return
        if self._file is None:
            # No compression: the file is read once, from the page cache, and dictionary encoding keeps it small.
            self._file = pq.ParquetWriter(self.path, PACKED, compression="none")
        rows = packed(pa.Table.from_batches(self._waiting))
        self._file.write_table(rows)
        self.rows += rows.num_rows
        self._waiting, self._waiting_rows = [], 0


def _file(folder: Path, kind: str, number: int, part: int = 0) -> Path:
    return folder / f"{kind}-{number:06d}-{part:06d}.parquet"


def _files(folder: Path, kind: str, number: int) -> list[str]:
    return sorted(map(str, folder.glob(f"{kind}-{number:06d}-*.parquet")))


def _parse_concurrently(
    tasks: Sequence[Sequence[Split]],
    folder: Path,
    processes: int,
    metrics: frozenset[str] | None,
    on_progress: Callable[[float], None],
) -> dict[int, tuple[int, int]]:
    """Return the numbers of rows by task number, without tasks whose process died or had a fault.

    Raises:
        OSError: a process could not write.
        MemoryError: a process ran out of memory.
    """
    waiting = deque(enumerate(tasks))
    done: dict[int, tuple[int, int]] = {}
    failed: list[OSError | MemoryError] = []

    def feed(process: _Process) -> None:
        while waiting and not failed:
            number, task = waiting.popleft()
            try:
                counts = process.parse(task, folder, number, metrics)
            except _PROCESS_DIED:
                return
            if isinstance(counts, OSError | MemoryError):
                failed.append(counts)
                return
            if not isinstance(counts, InternalFault):
                done[number] = counts
                on_progress(len(done) / len(tasks))

    running: list[_Process] = []
    threads: list[threading.Thread] = []
    try:
        for _ in range(min(processes, len(tasks))):
            with signals_deferred():
                running.append(_Process())
            threads.append(threading.Thread(target=feed, args=(running[-1],), daemon=True))
            threads[-1].start()
        for thread in threads:
            thread.join()
    finally:  # also after Ctrl-C: the threads end with their processes, and the pipes must not close before that
        for process in running:
            process.kill()
        for thread in threads:
            thread.join()
        for process in running:
            process.close()
    if failed:
        raise failed[0]
    return done


def _parse_split_by_split(
    task: Sequence[Split], folder: Path, number: int, metrics: frozenset[str] | None
) -> tuple[int, int]:
    """Parse the task of a dead process again, but skip a split that kills a second process.

    If no process can be started, this process parses the splits.

    Raises:
        OSError, MemoryError: as in `_parse_concurrently`.
    """
    for file in (*_files(folder, "events", number), *_files(folder, "metrics", number)):
        Path(file).unlink()
    process: _Process | None = None
    counts = [0, 0]
    try:
        for part, split in enumerate(task):
            answer: Answer
            if process is None:
                with signals_deferred():
                    process = _Process()
            try:
                answer = process.parse([split], folder, number, metrics, part)
            except _PROCESS_DIED:
                process.kill()
                answer = _process_death(process.status)
                if not process.started:
                    answer = parse_task([split], folder, number, metrics, part)
                process.close()
                process = None
            if isinstance(answer, OSError | MemoryError):
                raise answer
            if isinstance(answer, InternalFault):
                fault = msgspec.structs.replace(
                    answer, source=split.source.index, split=split.start
                )
                rows = RowBuilder()
                rows.add(fault_row(fault))
                answer = _write([rows.take()], folder, number, part)
            counts = [have + more for have, more in zip(counts, answer, strict=True)]
    finally:
        if process is not None:
            process.kill()
            process.close()
    return counts[0], counts[1]


def _process_death(status: int) -> InternalFault:
    """Return the fault for a split that killed two processes."""
    if status == -signal.SIGKILL:
        what = "the process that read it was killed, possibly by the out-of-memory killer"
        return InternalFault(what=what, fingerprint="", modules=("parsers",), bug=False)
    how = f"exit status {status}"
    with contextlib.suppress(ValueError):
        how = signal.Signals(-status).name
    died = describe_fault(ChildProcessError(f"the process that read it died ({how})"))
    return msgspec.structs.replace(died, modules=("parsers",))


# PyArrow imports NumPy and pandas, if installed, to recognize their values. That would double the start time of the
# process.
_SERVE: Final = (
    "import sys; sys.modules.update(numpy=None, pandas=None);"
    f" from {__name__} import serve; serve()"
)


class _Process:
    """A Python process that runs `serve`: it receives tasks through a pipe and ends when the pipe closes.

    `multiprocessing` would first run the main module again, which may be the script of a user of the library.
    """

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", _SERVE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            process_group=0 if os.name == "posix" else None,  # only the parent handles Ctrl-C
        )
        self._forget = at_exit(partial(kill_now, self._process))
        self.started = False

    @property
    def status(self) -> int:
        """Exit status, as in `Popen.returncode`."""
        return self._process.returncode

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        self._forget()

    def close(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(OSError):  # the process died before it read all data
                if pipe is not None:
                    pipe.close()

    def parse(
        self,
        task: Sequence[Split],
        folder: Path,
        number: int,
        metrics: frozenset[str] | None,
        part: int = 0,
    ) -> Answer:
        """Run `parse_task` in the process, and return its result or exception.

        Raises:
            EOFError, OSError, pickle.PickleError: the process died.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        if not self.started:
            self.started = bool(pickle.load(self._process.stdout))
        pickle.dump((task, folder, number, metrics, part, messages()), self._process.stdin)
        self._process.stdin.flush()
        answer: Answer = pickle.load(self._process.stdout)
        return answer


def serve() -> None:
    """Parse the tasks that arrive on standard input until it ends, and write the results to standard output."""
    requests, answers = sys.stdin.buffer, os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    # Printed output must not mix with the results.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    pickle.dump(True, answers)  # signal that the process has started
    answers.flush()
    while True:
        try:
            task, folder, number, metrics, part, added = pickle.load(requests)
        except EOFError:
            return
        use_messages(added)
        answer: Answer
        try:
            answer = parse_task(task, folder, number, metrics, part)
        except (OSError, MemoryError) as error:
            answer = error
        except Exception as error:  # noqa: BLE001 - returned to the parent process
            answer = describe_fault(error)
        pickle.dump(answer, answers)
        answers.flush()
