"""Runs inputs from bytes to settled writers without Spark, and checks the invariants for any bytes.

- No exception escapes, and no reader stops early by a fault of its own.
- The time is bounded by the size: no pattern backtracks over a line.
- Every row fits the schema and is inside the input; each split ends with its only `split` row.
- The total size of the rows is bounded by the input.
- The rows do not depend on the places where the input is split.
"""

from __future__ import annotations

import signal
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from types import FrameType
from typing import Any, Final
from unittest import mock

import pyarrow as pa

from flowdiag.analyses.diagnosis import inspect_inputs
from flowdiag.analyses.engine.reading import ParsedSources as Rows
from flowdiag.analyses.flink.clocks.settle import settle
from flowdiag.analyses.flink.clocks.survey import survey
from flowdiag.analyses.flink.settled import rare_of
from flowdiag.analyses.rate.measure import assign_owners
from flowdiag.analyses.rate.survey import survey_table
from flowdiag.analyses.selection.options import Options
from flowdiag.analyses.topic_names import ENGINES
from flowdiag.analyses.topics import topic
from flowdiag.parsers import split as splitting
from flowdiag.parsers.discover import discover
from flowdiag.parsers.rows import EVENTS, Event
from flowdiag.parsers.source import Source
from flowdiag.parsers.sources.codecs import open_decoded
from flowdiag.parsers.split import Split, parse_split, parse_splits, plan_splits

FIXED_S: Final = 0.5
PER_KILOBYTE_S: Final = 0.02
"""Processor time, in addition to that of the first input of a process: ten times the time for
small logs.
"""
SLOW: Final = "slow"
HANGS_S: Final = 30
"""Time after which an input is stopped."""
FIXED_BYTES: Final = 200_000
PER_BYTE: Final = 60
"""Size of a row in memory: most columns of a short line are null."""
_COUNTED: Final = frozenset(
    {Event.SPLIT, Event.MARKS, Event.METRIC, Event.PLACED, Event.SPARK_TASKS}
)
"""Rows with totals of a split: their number depends on the end of the split."""
_FIRST_US, _LAST_US = -62_135_596_800_000_000, 253_402_300_799_999_999


class Broken(Exception):
    """A violated invariant.

    Attributes:
        what: a short text, equal for all inputs that show the same fault.
    """

    def __init__(self, what: str, more: str = "") -> None:
        super().__init__(f"{what}\n{more}" if more else what)
        self.what = what


@dataclass(frozen=True, slots=True)
class Read:
    """The result of an input: its kind or `not-read`, and the number of lines and rows."""

    kind: str
    lines: int
    rows: int
    bytes: int


@cache
def _warm(folder: Path) -> None:
    """Load messages, patterns and modules, which would slow down the first input."""
    path = folder / "warm"
    for text in (b"org.apache.flink", b"org.apache.spark", b"taskmanager.memory.process.size: 1g"):
        _read(text + b" Exception\n{" + text, path, Random(0))
    path.unlink()


def check(data: bytes, path: Path, chance: Random) -> Read:
    """Read one input, and check all invariants.

    Args:
        data: the content of the file.
        path: the file to write and read.
        chance: draws the splits.

    Raises:
        Broken: an invariant is violated; `slow` only after three attempts, because a busy machine is slow, too.
    """
    _warm(path.parent)
    drawn = chance.getstate()
    for _ in range(2):
        try:
            return _checked(data, path, chance)
        except Broken as broken:
            if broken.what != SLOW:
                raise
            chance.setstate(drawn)
    return _checked(data, path, chance)


def _checked(data: bytes, path: Path, chance: Random) -> Read:
    try:
        with _in_time(len(data)) as spent, _no_faults_hidden():
            read = _read(data, path, chance)
            spent.bytes += read.bytes
            return read
    except Broken:
        raise
    except _Hangs:
        raise Broken(f"no end: {where(traceback.extract_stack())}") from None
    except Exception as fault:
        what = f"{type(fault).__name__}: {where(traceback.extract_tb(fault.__traceback__))}"
        raise Broken(what, traceback.format_exc()) from fault


def _read(data: bytes, path: Path, chance: Random) -> Read:
    path.write_bytes(data)
    found = discover([str(path)])
    inspect_inputs(tuple(topic(name) for name in ENGINES), found, Options())
    sources = [source for source in found.sources if source.kind != "not-read"]
    batches = list(parse_splits(_all_splits(plan_splits(sources))))
    table = pa.Table.from_batches(batches, schema=EVENTS)
    _settle(table, found.sources)
    rows = _valid(batches, sources)
    decoded = sum(int(row["fields"]["bytes"]) for row in rows if _is_split(row))
    decoded += sum(_unpacked(source) for source in found.sources if source.kind == "not-read")
    _bounded(table, decoded + len(data))
    for source in sources:
        if source.splittable and source.size > 1:
            _same_in_parts(source, rows, chance)
    kinds = sorted({source.kind for source in sources}) or ["not-read"]
    return Read("+".join(kinds), data.count(b"\n"), len(rows), decoded)


def _unpacked(source: Source) -> int:
    """Return the number of unpacked bytes, including those that parsing skipped."""
    if source.codec == "none" or not Path(source.path).is_file():
        return 0
    with open_decoded(source.path, source.codec) as stream:
        return sum(iter(lambda: len(stream.read(1 << 16)), 0))


def _all_splits(tasks: list[list[Split]]) -> Iterator[Split]:
    for task in tasks:
        yield from task


def _is_split(row: dict[str, Any]) -> bool:
    return bool(row["event"] == Event.SPLIT)


def _settle(table: pa.Table, sources: tuple[Source, ...]) -> None:
    """Assign the rows to writers and times, for either engine, as a command does."""
    groups = {source.index: source.group for source in sources}
    surveyed = survey(*rare_of(Rows(table=table, rows=table.num_rows)))
    settle(surveyed.rows, groups, None, {source.index: source.name for source in sources})
    assign_owners(survey_table(table), sources)


def _valid(batches: list[pa.RecordBatch], sources: list[Source]) -> list[dict[str, Any]]:
    """Return the rows, checked against the schema; `fields` as mappings."""
    rows = []
    for batch in batches:
        if batch.schema != EVENTS:
            raise Broken("a batch of another schema", str(batch.schema))
        batch.validate(full=True)
        rows += batch.to_pylist()
    known = {source.index for source in sources}
    for row in rows:
        row["fields"] = dict(row["fields"] or ())
        if row["source"] not in known or row["offset"] < 0:
            raise Broken("a row of no source", str(row))
        Event(row["event"])
        for name in ("local_us", "utc_us"):
            if row[name] is not None and not _FIRST_US <= row[name] <= _LAST_US:
                raise Broken(f"{name} of no year, {row['event']}", str(row))
        metric = row["metric"]
        if metric is not None and metric["count"] > 0 and metric["sum"] is None:
            raise Broken("a metric without a sum", str(row))
    ends = [row["source"] for row in rows if _is_split(row)]
    if sorted(ends) != sorted(known):
        raise Broken("not one split row for each split", str(ends))
    sizes = {row["source"]: int(row["fields"]["bytes"]) for row in rows if _is_split(row)}
    for row in rows:
        if row["offset"] > sizes[row["source"]]:
            raise Broken(f"a row behind the end, {row['event']}", f"{row} of {sizes}")
    return rows


def _bounded(table: pa.Table, size: int) -> None:
    if table.nbytes > FIXED_BYTES + PER_BYTE * size:
        raise Broken("more rows than the input accounts for", f"{table.nbytes} of {size} bytes")


def _same_in_parts(source: Source, rows: list[dict[str, Any]], chance: Random) -> None:
    """Split a source at a few places: all rows, and the sums of metrics, must be equal."""
    edges = sorted({0, *(chance.randrange(source.size) for _ in range(chance.choice((1, 2, 5))))})
    ends = [*edges[1:], -1]
    found = [
        row
        for start, end in zip(edges, ends, strict=True)
        for batch in parse_split(Split(source, start, end))
        for row in batch.to_pylist()
    ]
    for row in found:
        row["fields"] = dict(row["fields"] or ())
    whole = [row for row in rows if row["source"] == source.index]
    for name, of in (("rows", _single), ("metrics", _samples), ("tasks", _tasks)):
        one, other = of(whole), of(found)
        if one != other:
            first = next((pair for pair in zip(one, other, strict=False) if pair[0] != pair[1]), ())
            details = f"at {edges}: {len(one)} and {len(other)}; {first}"
            raise Broken(f"other {name} when split, {source.kind}", details)


def _single(rows: list[dict[str, Any]]) -> list[str]:
    """Return rows of one record each, as texts, because NaN differs from itself."""
    return sorted(repr(row) for row in rows if row["event"] not in _COUNTED)


def _samples(rows: list[dict[str, Any]]) -> list[tuple[str, int]]:
    sums: dict[str, int] = {}
    for row in rows:
        if row["event"] == Event.METRIC and row["metric"]["count"] is not None:
            name = row["metric"]["name"]
            sums[name] = sums.get(name, 0) + row["metric"]["count"]
    return sorted(sums.items())


def _tasks(rows: list[dict[str, Any]]) -> list[tuple[str, int]]:
    sums: dict[str, int] = {}
    for row in rows:
        if row["event"] == Event.SPARK_TASKS:
            key = f"{row['checkpoint']} {row['fields'].get('executor')}"
            sums[key] = sums.get(key, 0) + int(row["fields"]["tasks"])
    return sorted(sums.items())


# -- time and faults ---------------------------------------------------------------------------


class _Hangs(BaseException):
    """Raised on timeout; not an exception that a reader may mistake for its own."""


@dataclass(slots=True)
class _Spent:
    bytes: int


@contextmanager
def _in_time(size: int) -> Iterator[_Spent]:
    """Limit the CPU time by the number of bytes read."""

    def over(number: int, frame: FrameType | None) -> None:
        raise _Hangs

    spent, began = _Spent(size), time.thread_time()
    before = signal.signal(signal.SIGPROF, over)
    signal.setitimer(signal.ITIMER_PROF, HANGS_S)
    try:
        yield spent
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
    took = time.thread_time() - began
    if took > FIXED_S + PER_KILOBYTE_S * spent.bytes / 1000:
        raise Broken(SLOW, f"{took:.1f} s for {spent.bytes} bytes")


@contextmanager
def _no_faults_hidden() -> Iterator[None]:
    """Let internal faults raise, because a parser would otherwise turn them into rows."""
    with mock.patch.object(splitting, "is_internal_fault", lambda error: False):
        yield


def where(frames: traceback.StackSummary) -> str:
    """Return flowdiag's innermost stack frames."""
    ours = [
        frame
        for frame in frames
        if "/tests/" not in frame.filename
        and any(part in frame.filename for part in ("/parsers/", "/analyses/", "/cli/"))
        and "/site-packages/" not in frame.filename
    ]
    return (
        " < ".join(f"{Path(f.filename).name} {f.name}" for f in reversed(ours[-3:])) or "elsewhere"
    )
