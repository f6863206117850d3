"""Parsing by several processes of this machine, into files, while Spark still starts.

Spark could do that as well (`parsers.spark.frame`), and does where its tasks run on other machines.
On this one it has to be up first, and its Python workers take another second and a half to start:
by then these processes have read a gigabyte. Files instead of messages, since a large log with metric
reports is millions of rows, which would not stay in memory, and Spark reads of a Parquet file only
the columns that a query names.
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
from flowdiag.parsers.plugins import messages, use_messages
from flowdiag.parsers.rows import EVENTS, Event, RowBuilder, fault_row
from flowdiag.parsers.split import Split, parse_splits

Answer = tuple[int, int] | OSError | MemoryError | InternalFault
"""What comes back from a process: numbers of rows, or what was in the way."""

_GONE: Final = (EOFError, OSError, pickle.PickleError)  # what a pipe to a process says that died
_GROUP_ROWS: Final = 32_768  # of a Parquet file: what is in memory at once


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """Parquet files (schema `EVENTS`) of one kind of row, in the order of the tasks, and how many rows."""

    files: tuple[str, ...] = ()
    count: int = 0

    def table(self) -> pa.Table:
        """All rows in memory, in one piece."""
        tables = list(self._groups())
        return pa.concat_tables(tables or [EVENTS.empty_table()]).combine_chunks()

    def of_kinds(self, kinds: Collection[str]) -> pa.Table:
        """The rows of some kinds of event in memory."""
        wanted = pa.array(sorted(kinds))
        tables = [
            group.filter(pc.is_in(group["event"], value_set=wanted)) for group in self._groups()
        ]
        return pa.concat_tables(tables or [EVENTS.empty_table()])

    def _groups(self) -> Iterator[pa.Table]:
        for file in self.files:  # not by `read_table`, which imports a third of a second's worth
            with pq.ParquetFile(file) as opened:
                for number in range(opened.num_row_groups):
                    yield opened.read_row_group(number, use_threads=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Parsed:
    """What was parsed into files.

    Args:
        events: all rows but those of metrics; each task's end with rows of `marks`.
        metrics: rows of metrics, and again the section headers, which tell whose metrics they are.
    """

    events: Rows
    metrics: Rows


def parse_in_processes(
    tasks: Sequence[Sequence[Split]],
    folder: Path,
    *,
    processes: int,
    metrics: Collection[str] | None = None,
    tell: Callable[[float], None] = lambda share: None,
) -> Parsed:
    """Parse tasks with so many processes, which end before this returns.

    A process that dies takes nothing with it: what it left undone is parsed again, split by split (`_one_by_one`).

    Args:
        tasks: from `parse.plan_splits`.
        folder: gets the files; its owner removes it.
        processes: at least one.
        metrics: as in `parse.parse_split`.
        tell: told which share of the tasks is done, from several threads.

    Raises:
        FlowdiagError: the files cannot be written.
        MemoryError: there is not enough for a process.
    """
    wanted = None if metrics is None else frozenset(metrics)
    with _writing_to(folder):
        written = _side_by_side(tasks, folder, processes, wanted, tell)
        for number, task in enumerate(tasks):
            if number not in written:
                written[number] = _one_by_one(task, folder, number, wanted)
    numbers = sorted(written)
    events = [file for number in numbers for file in _files(folder, "events", number)]
    series = [file for number in numbers for file in _files(folder, "metrics", number)]
    return Parsed(
        events=Rows(files=tuple(events), count=sum(written[n][0] for n in numbers)),
        metrics=Rows(files=tuple(series), count=sum(written[n][1] for n in numbers)),
    )


def rows_in_file(rows: pa.Table, folder: Path) -> Rows:
    """The same rows in a file, of which Spark reads what a query names.

    Args:
        rows: of the schema `EVENTS`.
        folder: gets the file; its owner removes it.

    Raises:
        FlowdiagError: it cannot be written.
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
            f"cannot write what was parsed to {folder}: {error.strerror or error}",
            hint="set TMPDIR to a folder with more room",
        ) from error


def parse_task(
    task: Sequence[Split], folder: Path, number: int, metrics: frozenset[str] | None, part: int = 0
) -> tuple[int, int]:
    """Parse one task, or a part of it, into at most two files; the numbers of rows in them.

    Raises:
        OSError: a file cannot be written. What is wrong with an input is said in its `split` row.
    """
    return _written(rows_of_task(task, metrics), folder, number, part)


def _written(
    batches: Iterable[pa.RecordBatch], folder: Path, number: int, part: int
) -> tuple[int, int]:
    events = _Writer(_file(folder, "events", number, part))
    series = _Writer(_file(folder, "metrics", number, part))
    for writer in (events, series):
        writer.path.unlink(missing_ok=True)  # what a process left that died
    with events, series:
        for batch in batches:
            measured = pc.equal(batch.column("event"), Event.METRIC.value)
            count = measured.true_count
            if count == batch.num_rows:  # as nearly all of them are that have any
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
    """The rows of a task's splits and, of Flink, rows of `marks` behind them.

    What records add up to must be told here: nobody sees all the rows of a source again before its clock
    is settled.
    """
    parsed = parse_splits(task, metrics=metrics)
    # Of all splits at once, which are of different sources.
    yield from with_marks(parsed) if any(s.source.engine == "flink" for s in task) else parsed


class _Writer:
    """A Parquet file that exists once it has rows."""

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
            # Not compressed: it is read once, from memory; dictionaries make it small enough.
            self._file = pq.ParquetWriter(self.path, EVENTS, compression="none")
        self._file.write_table(pa.Table.from_batches(self._waiting))
        self.rows += self._waiting_rows
        self._waiting, self._waiting_rows = [], 0


def _file(folder: Path, kind: str, number: int, part: int = 0) -> Path:
    return folder / f"{kind}-{number:06d}-{part:06d}.parquet"


def _files(folder: Path, kind: str, number: int) -> list[str]:
    return sorted(map(str, folder.glob(f"{kind}-{number:06d}-*.parquet")))


def _side_by_side(
    tasks: Sequence[Sequence[Split]],
    folder: Path,
    processes: int,
    metrics: frozenset[str] | None,
    tell: Callable[[float], None],
) -> dict[int, tuple[int, int]]:
    """What processes finished, by the number of the task; fewer than all if one died or met a fault.

    Raises:
        OSError: one could not write.
        MemoryError: one had not enough.
    """
    waiting = deque(enumerate(tasks))
    done: dict[int, tuple[int, int]] = {}
    failed: list[OSError | MemoryError] = []

    def feed(process: _Process) -> None:
        while waiting and not failed:
            number, task = waiting.popleft()
            try:
                counts = process.parse(task, folder, number, metrics)
            except _GONE:
                return
            if isinstance(counts, OSError | MemoryError):
                failed.append(counts)
                return
            if not isinstance(counts, InternalFault):
                done[number] = counts
                tell(len(done) / len(tasks))

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
    finally:  # also at Ctrl-C; a thread whose process is gone ends, and only then its pipes are closed
        for process in running:
            process.kill()
        for thread in threads:
            thread.join()
        for process in running:
            process.close()
    if failed:
        raise failed[0]
    return done


def _one_by_one(
    task: Sequence[Split], folder: Path, number: int, metrics: frozenset[str] | None
) -> tuple[int, int]:
    """Parse what a process left that died, each split by itself: one that kills another process is left out.

    Where no process starts at all, this one does the work.

    Raises:
        OSError, MemoryError: as `_side_by_side`.
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
            except _GONE:
                process.kill()
                answer = _died(process.status)
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
                answer = _written([rows.take()], folder, number, part)
            counts = [have + more for have, more in zip(counts, answer, strict=True)]
    finally:
        if process is not None:
            process.kill()
            process.close()
    return counts[0], counts[1]


def _died(status: int) -> InternalFault:
    """What there is to say of a split that two processes died of."""
    if status == -signal.SIGKILL:
        what = "the process that read it was killed, perhaps by the system for want of memory"
        return InternalFault(what=what, fingerprint="", modules=("parsers",), bug=False)
    how = f"exit status {status}"
    with contextlib.suppress(ValueError):
        how = signal.Signals(-status).name
    died = describe_fault(ChildProcessError(f"the process that read it died ({how})"))
    return msgspec.structs.replace(died, modules=("parsers",))


# PyArrow imports NumPy and pandas, where they are installed, to ask whether a value is one of theirs:
# half of the time that such a process takes to start.
_SERVE: Final = (
    "import sys; sys.modules.update(numpy=None, pandas=None);"
    f" from {__name__} import serve; serve()"
)


class _Process:
    """Another Python that runs `serve`: it gets tasks through a pipe, and ends when that does.

    Not of `multiprocessing`, whose processes first run the main module again: the script of whoever
    uses flowdiag as a library.
    """

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", _SERVE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            process_group=0 if os.name == "posix" else None,  # Ctrl-C is for us to handle
        )
        self._forget = at_exit(partial(kill_now, self._process))
        self.started = False

    @property
    def status(self) -> int:
        """How it ended, as `Popen.returncode`."""
        return self._process.returncode

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        self._forget()

    def close(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(OSError):  # what a dead process did not take
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
        """What `parse_task` returns, or raised.

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
    """Parse the tasks that come through standard input until it ends; answers go to standard output."""
    asked, answers = sys.stdin.buffer, os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    # Whatever prints must not talk into the answers.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    pickle.dump(True, answers)  # it has started
    answers.flush()
    while True:
        try:
            task, folder, number, metrics, part, added = pickle.load(asked)
        except EOFError:
            return
        use_messages(added)
        answer: Answer
        try:
            answer = parse_task(task, folder, number, metrics, part)
        except (OSError, MemoryError) as error:
            answer = error
        except Exception as error:  # noqa: BLE001 - travels to whoever asked
            answer = describe_fault(error)
        pickle.dump(answer, answers)
        answers.flush()
