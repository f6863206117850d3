"""Sums up what the records of a split reveal about the process that wrote them and its clock.

A single record does not reveal its clock, writer or version: many records have to agree. The sums need a few columns
of every record, so they are calculated where the records are parsed, on the driver or an executor. They are small.
`flowdiag.analyses.flink.clocks` combines and judges the sums of all splits.

Two facts depend on earlier splits of the same source: the owner of records above the first section header, and
the day of records that print only a time of day. Here, both are relative to the start of the split.
"""

from __future__ import annotations

import zlib
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, TypeVar

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from flowdiag.parsers.faults import InternalFault, describe_fault, run_skipping_failures
from flowdiag.parsers.rows import EVENTS, Event, fault_row

Result = TypeVar("Result")

JOBMANAGER_LOGGERS: Final = (
    "ExecutionGraph",
    "DefaultExecutionGraph",
    "Execution",
    "CheckpointCoordinator",
    "CheckpointFailureManager",
    "JobMaster",
    "Dispatcher",
    "StandaloneDispatcher",
    "JobManager",
)
TASKMANAGER_LOGGERS: Final = (
    "Task",
    "TaskExecutor",
    "TaskManager",
    "StreamTask",
    "SubtaskCheckpointCoordinatorImpl",
    "AsyncCheckpointRunnable",
    "Slf4jReporter",
)

QUARTER_MS: Final = 15 * 60 * 1000
DAY_US: Final = 24 * 3600 * 1_000_000
SILENCE_US: Final = 600 * 1_000_000
"""Minimum length of a silence. Shorter gaps are normal between checkpoints and other logged events."""
MOST_TRANSITIONS: Final = 20_000
"""Number of transitions kept per stream. The smallest checksums are kept, so every log keeps the same transitions."""

TIME_OF_DAY: Final = "time-of-day"

_BATCH_ROWS: Final = 2048  # rows processed together


class StreamMarks(msgspec.Struct, kw_only=True, array_like=True):
    """Totals over the records of one owner with the same kind of clock.

    `oldest` and `newest` bound the Flink versions that print these records (major * 100 + minor). `active_spans` are
    the time spans with records, without gaps of `SILENCE_US` or more. They are in wall-clock time if any record
    prints it, otherwise instants.
    """

    owner: str | None
    clock: str | None
    offset: int  # offset of the first record
    n: int
    as_jobmanager: int
    as_taskmanager: int
    logged: int
    oldest: int
    newest: int
    dated: int
    with_instant: int
    without_job: int
    shown_us: int | None
    last_shown_us: int | None
    utc_us: int | None
    last_utc_us: int | None
    active_spans: list[tuple[int, int]]


class ZoneMarks(msgspec.Struct, kw_only=True, array_like=True):
    """Totals over an owner's records with both a wall clock and an instant, by the time zone between them."""

    owner: str | None
    clock: str | None
    # Milliseconds, in whole quarters of an hour; None for times since the process start.
    zone: int | None
    n: int
    offset: int
    shown_us: int
    difference: int
    printed: bool  # whether the record itself prints the instant


class Transition(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """The change of a task attempt to a state, as one process first logged it."""

    owner: str | None
    clock: str | None
    attempt_id: str
    to_state: str
    by_jobmanager: bool
    shown_us: int

    @property
    def rank(self) -> tuple[int, str, str]:
        """Sort key for choosing the kept transitions; it is the same in every log that shows the transition."""
        return (
            zlib.crc32(f"{self.attempt_id} {self.to_state}".encode("utf-8", "replace")),
            self.attempt_id,
            self.to_state,
        )


class Marks(msgspec.Struct, kw_only=True, array_like=True):
    """The totals over the records of one source, or of one of its splits.

    Args:
        source: index of the source.
        start: offset of the first record, which determines the order of a source's splits.
        headers: offset and owner of each section header.
        first_time, last_time: time of day of the first and of the last record that prints one.
        midnights: how often the time of day starts again.
        jobs: pairs of owner and job ID.
        scopes: triples of owner, TaskManager and host, from metrics of tasks and TaskManagers.
    """

    source: int
    start: int
    headers: list[tuple[int, str]]
    first_time: int | None
    last_time: int | None
    midnights: int
    streams: list[StreamMarks]
    zones: list[ZoneMarks]
    transitions: list[Transition]
    jobs: list[tuple[str | None, str]]
    scopes: list[tuple[str | None, str | None, str | None]]


def with_marks(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the batches, then a batch with one row of marks per source.

    A source that causes an internal fault gets a fault row (`rows.fault_row`) instead of marks.

    Args:
        batches: batches of one split, or of several splits of different sources. The cost of a batch does not depend
            on its number of rows.
    """
    seen: list[pa.Table] = []
    faults: dict[int, InternalFault] = {}
    collected: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        collected.append(batch)
        rows += batch.num_rows
        if rows >= _BATCH_ROWS:
            seen.append(_skipping_faults(_needed_columns, pa.Table.from_batches(collected), faults))
            collected, rows = [], 0
        yield batch
    if collected:
        seen.append(_skipping_faults(_needed_columns, pa.Table.from_batches(collected), faults))
    if not seen:
        return
    summed = _skipping_faults(_sum_up, pa.concat_tables(seen), faults)
    found: list[dict[str, Any]] = [
        {
            "source": marks.source,
            "offset": marks.start,
            "event": Event.MARKS.value,
            "fields": [("marks", encode(marks))],
        }
        for marks in summed
        if marks.source not in faults
    ]
    for fault in faults.values():
        row = fault_row(fault)
        found.append({**row, "fields": list(row["fields"].items())})
    if found:
        yield pa.RecordBatch.from_pylist(found, schema=EVENTS)


def _skipping_faults(
    step: Callable[[pa.Table], Result], table: pa.Table, faults: dict[int, InternalFault]
) -> Result:
    """Run a step, leaving out every source that causes a fault. The faults are added to `faults`."""
    sources = pc.unique(table["source"]).to_pylist()

    def of_some(some: Sequence[int]) -> Result:
        whole = len(some) == len(sources)
        return step(
            table
            if whole
            else table.filter(pc.is_in(table["source"], value_set=pa.array(some, pa.int32())))
        )

    return run_skipping_failures(
        sources,
        of_some,
        lambda source, error: faults.setdefault(source, describe_fault(error, source=source)),
    )


def encode(marks: Marks) -> str:
    """Serialize marks to text."""
    return msgspec.json.encode(marks).decode()


def decode(text: str) -> Marks:
    """Parse the text of `encode`."""
    return msgspec.json.decode(text, type=Marks)


def marks_of(events: pa.Table) -> list[Marks]:
    """Sum up the records of each source, in the order of the sources.

    Args:
        events: rows of one split, or of whole sources, with the columns of EVENTS.
    """
    return _sum_up(_needed_columns(events))


def marks_and_faults(events: pa.Table) -> tuple[list[Marks], list[InternalFault]]:
    """Return the marks of all sources that cause no fault, and the faults of the other sources."""
    faults: dict[int, InternalFault] = {}
    found = _skipping_faults(marks_of, events, faults)
    return found, list(faults.values())


def _sum_up(columns: pa.Table) -> list[Marks]:
    columns, parts = _with_owners(columns)
    keys = ["source", "owner", "clock"]
    numbers = (
        "as_jobmanager",
        "as_taskmanager",
        "logged",
        "without_job",
    )
    grouped = columns.group_by(keys, use_threads=False).aggregate(
        [
            ([], "count_all"),
            ("offset", "min"),
            *((name, "sum") for name in numbers),
            ("oldest", "max"),
            ("newest", "min"),
            ("shown_us", "count"),
            ("utc_us", "count"),
            ("shown_us", "min"),
            ("shown_us", "max"),
            ("utc_us", "min"),
            ("utc_us", "max"),
        ]
    )
    shown, instants = (_active_spans(columns, keys, name) for name in ("shown_us", "utc_us"))
    for row in grouped.to_pylist():
        key = tuple(row[name] for name in keys)
        parts[row["source"]].streams.append(
            StreamMarks(
                owner=row["owner"],
                clock=row["clock"],
                offset=row["offset_min"],
                n=row["count_all"],
                **{name: row[f"{name}_sum"] for name in numbers},
                oldest=row["oldest_max"],
                newest=row["newest_min"],
                dated=row["shown_us_count"],
                with_instant=row["utc_us_count"],
                shown_us=row["shown_us_min"],
                last_shown_us=row["shown_us_max"],
                utc_us=row["utc_us_min"],
                last_utc_us=row["utc_us_max"],
                active_spans=shown.get(key) or instants.get(key) or [],
            )
        )
    for source, owner, job_id in _distinct_rows(columns, ["source", "owner", "job_id"]):
        if job_id is not None:
            parts[source].jobs.append((owner, job_id))
    for source, owner, taskmanager, host in _distinct_rows(
        columns.filter(columns["in_scope"]), ["source", "owner", "taskmanager", "host"]
    ):
        parts[source].scopes.append((owner, taskmanager, host))
    _add_zones(columns, parts)
    _add_transitions(columns, parts)
    return [parts[source] for source in sorted(parts)]


def _active_spans(
    columns: pa.Table, keys: list[str], time: str
) -> dict[tuple[Any, ...], list[tuple[int, int]]]:
    """Return the time spans with records per stream, split at silences of `SILENCE_US` or more."""
    dated = columns.select([*keys, time]).filter(pc.is_valid(columns[time]))
    # The first and last record of each time slice reveal every silence longer than a slice.
    dated = dated.append_column("slice", pc.divide(dated[time], SILENCE_US))
    slices = dated.group_by([*keys, "slice"], use_threads=False).aggregate(
        [(time, "min"), (time, "max")]
    )
    found: dict[tuple[Any, ...], list[tuple[int, int]]] = {}
    for *key, low, high in _rows(slices, [*keys, f"{time}_min", f"{time}_max"]):
        found.setdefault(tuple(key), []).append((low, high))
    return {key: merge_spans(spans) for key, spans in found.items()}


def merge_spans(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Merge time spans that are less than `SILENCE_US` apart.

    >>> merge_spans([(5, 6), (0, 1), (2 * SILENCE_US, 3 * SILENCE_US)])
    [(0, 6), (1200000000, 1800000000)]
    """
    found: list[tuple[int, int]] = []
    for low, high in sorted(spans):
        if found and low - found[-1][1] < SILENCE_US:
            found[-1] = found[-1][0], max(high, found[-1][1])
        else:
            found.append((low, high))
    return found


def limit_transitions(transitions: Sequence[Transition]) -> list[Transition]:
    """Keep at most `MOST_TRANSITIONS` transitions of a stream."""
    if len(transitions) <= MOST_TRANSITIONS:
        return list(transitions)
    return sorted(transitions, key=lambda each: each.rank)[:MOST_TRANSITIONS]


def _distinct_rows(table: pa.Table, names: list[str]) -> Iterator[tuple[Any, ...]]:
    found = table.group_by(names, use_threads=False).aggregate([])
    yield from zip(*(found[name].to_pylist() for name in names), strict=True)


def _with_owners(table: pa.Table) -> tuple[pa.Table, dict[int, Marks]]:
    """Add the columns `owner` and `shown_us`, relative to the start of the split.

    `owner` is the carrier's label, or else the last section header above the record. `shown_us` is the printed wall
    clock. For a time of day, one day is added per midnight since the start.
    """
    starts = table.group_by("source", use_threads=False).aggregate([("offset", "min")])
    parts = {
        row["source"]: Marks(
            source=row["source"],
            start=row["offset_min"],
            headers=[],
            first_time=None,
            last_time=None,
            midnights=0,
            streams=[],
            zones=[],
            transitions=[],
            jobs=[],
            scopes=[],
        )
        for row in starts.to_pylist()
    }
    owner, shown_us = table["process"], table["local_us"]
    named = pc.and_(pc.equal(table["event"], Event.SECTION.value), pc.is_valid(table["process"]))
    headers = table.filter(named).select(["source", "offset", "process"])
    if headers.num_rows:
        for row in headers.sort_by([("source", "ascending"), ("offset", "ascending")]).to_pylist():
            parts[row["source"]].headers.append((row["offset"], row["process"]))
        owner = _owners(table, parts)
    timed = pc.and_(
        pc.fill_null(pc.equal(table["clock"], TIME_OF_DAY), False),
        pc.is_valid(table["local_us"]),
    )
    times = table.filter(timed).select(["source", "offset", "local_us"])
    if times.num_rows:
        edges = _midnights(times, parts)
        shown_us = pa.array(
            [
                us
                if clock != TIME_OF_DAY or us is None
                else us + DAY_US * bisect_right(edges.get(source, ()), offset)
                for source, offset, clock, us in _rows(
                    table, ["source", "offset", "clock", "local_us"]
                )
            ],
            pa.int64(),
        )
    return table.append_column("owner", owner).append_column("shown_us", shown_us), parts


def _owners(table: pa.Table, parts: dict[int, Marks]) -> pa.Array:
    offsets = {source: [at for at, _ in part.headers] for source, part in parts.items()}

    def owner(source: int, offset: int, process: str | None) -> str | None:
        if process is not None:
            return process
        above = bisect_right(offsets[source], offset)
        return parts[source].headers[above - 1][1] if above else None

    return pa.array(
        [owner(*row) for row in _rows(table, ["source", "offset", "process"])],
        pa.string(),
    )


def _midnights(times: pa.Table, parts: dict[int, Marks]) -> dict[int, list[int]]:
    """Return the offsets, per source, at which the time of day wraps around at midnight."""
    edges: dict[int, list[int]] = {}
    ordered = times.sort_by([("source", "ascending"), ("offset", "ascending")])
    for source, offset, local_us in _rows(ordered, ["source", "offset", "local_us"]):
        part = parts[source]
        if part.last_time is None:
            part.first_time = local_us
        elif is_past_midnight(part.last_time, local_us):
            edges.setdefault(source, []).append(offset)
            part.midnights += 1
        part.last_time = local_us
    return edges


def is_past_midnight(before_us: int, local_us: int) -> bool:
    """Return whether a time of day is so much earlier than the previous time that it must belong to the next day."""
    return local_us < before_us - DAY_US // 2


def _rows(table: pa.Table, names: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    return zip(*(table[name].to_pylist() for name in names), strict=True)


def _needed_columns(events: pa.Table) -> pa.Table:
    """Keep only the columns that the marks need."""
    # Combine chunks first, because each of thousands of chunks would add a fixed cost to every step.
    events = events.select(_READ).combine_chunks()
    table = events.filter(pc.not_equal(events["event"], Event.SPLIT.value))
    event, fields, logger = table["event"], table["fields"], table["logger"]
    logged = pc.is_null(_field(fields, "origin"))
    by_jobmanager = pc.and_(logged, pc.is_in(logger, value_set=pa.array(JOBMANAGER_LOGGERS)))
    # Without a logger, the `#n` in the task name shows that a TaskManager wrote the record.
    by_taskmanager = pc.and_(
        logged,
        pc.or_(
            pc.is_in(logger, value_set=pa.array(TASKMANAGER_LOGGERS)),
            pc.and_(pc.is_null(logger), pc.is_valid(table["attempt"])),
        ),
    )
    without_job = pc.and_(
        pc.and_(pc.is_valid(table["checkpoint"]), pc.is_null(table["job_id"])),
        pc.invert(by_taskmanager),
    )
    scope = pc.struct_field(table["metric"], "scope")
    in_scope = pc.and_(
        pc.equal(event, Event.METRIC.value),
        pc.fill_null(pc.invert(pc.is_in(scope, value_set=pa.array(["jm", "jm-job"]))), False),
    )
    in_scope = pc.and_(in_scope, pc.is_valid(scope))
    oldest, newest = _version_bounds(table, logged)
    added = {
        "logged": logged,
        "as_jobmanager": by_jobmanager,
        "as_taskmanager": by_taskmanager,
        "without_job": without_job,
        "in_scope": in_scope,
        "oldest": oldest,
        "newest": newest,
    }
    result = table.select(_KEPT)
    for name, column in added.items():
        result = result.append_column(name, column)
    return result


_KEPT: Final = (
    "source",
    "offset",
    "event",
    "local_us",
    "utc_us",
    "clock",
    "process",
    "job_id",
    "attempt_id",
    "taskmanager",
    "host",
    "epoch_ms",
    "to_state",
)


_READ: Final = (*_KEPT, "fields", "logger", "attempt", "checkpoint", "metric")


def _version_bounds(table: pa.Table, logged: Any) -> tuple[Any, Any]:
    """Return the oldest and the newest Flink version that print each record (major * 100 + minor; 0 and 999 if open)."""
    event, fields = table["event"], table["fields"]

    def of(kind: Event) -> Any:
        return pc.and_(logged, pc.equal(event, kind.value))

    def has(column: Any) -> Any:
        return pc.is_valid(column)

    triggered, completed = (
        of(Event.CHECKPOINT_TRIGGERED),
        of(Event.CHECKPOINT_COMPLETED),
    )
    type_ = _field(fields, "type")
    braced = pc.fill_null(pc.match_substring(type_, "{"), False)
    finalization = _field(fields, "finalization_ms")
    deployed, moved = of(Event.DEPLOYED), of(Event.TASK_STATE)
    nameless = pc.and_(pc.or_(triggered, of(Event.CHECKPOINT_EXPIRED)), pc.is_null(table["job_id"]))
    bounds = (
        (pc.and_(triggered, braced), 115, 999),
        (pc.and_(triggered, has(type_)), 111, 999),
        (pc.and_(pc.and_(triggered, has(type_)), pc.invert(braced)), 111, 114),
        (pc.and_(triggered, pc.is_null(type_)), 0, 110),
        (nameless, 0, 105),
        (pc.and_(completed, has(finalization)), 114, 999),
        (pc.and_(completed, pc.is_null(finalization)), 0, 113),
        (
            pc.and_(
                of(Event.LATE_ACKNOWLEDGEMENT),
                pc.or_(has(table["taskmanager"]), has(table["host"])),
            ),
            109,
            999,
        ),
        (pc.and_(deployed, has(table["attempt_id"])), 112, 999),
        (pc.and_(deployed, pc.is_null(table["attempt_id"])), 0, 111),
        (
            pc.and_(moved, pc.fill_null(pc.equal(table["to_state"], "INITIALIZING"), False)),
            113,
            999,
        ),
        (
            pc.and_(moved, pc.fill_null(pc.match_substring(table["attempt_id"], "_"), False)),
            116,
            999,
        ),
        (of(Event.ABORT_NOTIFIED), 111, 999),
    )
    oldest = pc.max_element_wise(0, *(pc.if_else(where, first, 0) for where, first, _ in bounds))
    newest = pc.min_element_wise(999, *(pc.if_else(where, last, 999) for where, _, last in bounds))
    return oldest, newest


def _field(fields: Any, key: str) -> Any:
    return pc.map_lookup(fields, key, "first")


def _add_zones(columns: pa.Table, parts: dict[int, Marks]) -> None:
    epoch_ms = pc.if_else(
        pc.equal(columns["event"], Event.CHECKPOINT_TRIGGERED.value),
        columns["epoch_ms"],
        None,
    )
    instant_ms = pc.coalesce(epoch_ms, pc.divide(columns["utc_us"], 1000))
    difference = pc.subtract(pc.divide(columns["shown_us"], 1000), instant_ms)
    marks = columns.select(["source", "owner", "clock", "offset", "shown_us"])
    marks = marks.append_column("difference", difference)
    marks = marks.append_column("printed", pc.cast(pc.is_valid(columns["epoch_ms"]), pa.int8()))
    marks = marks.filter(pc.is_valid(difference))
    if not marks.num_rows:
        return
    quarters = pc.round(
        pc.divide(pc.cast(marks["difference"], pa.float64(), safe=False), float(QUARTER_MS)),
        round_mode="half_towards_infinity",
    )
    zone = pc.multiply(pc.cast(quarters, pa.int64()), QUARTER_MS)
    elapsed = pc.fill_null(pc.equal(marks["clock"], "elapsed"), False)
    marks = marks.append_column("zone", pc.if_else(elapsed, None, zone))
    grouped = marks.group_by(["source", "owner", "clock", "zone"], use_threads=False).aggregate(
        [
            ([], "count_all"),
            ("offset", "min"),
            ("shown_us", "min"),
            ("difference", "min"),
            ("printed", "max"),
        ]
    )
    for row in grouped.to_pylist():
        parts[row["source"]].zones.append(
            ZoneMarks(
                owner=row["owner"],
                clock=row["clock"],
                zone=row["zone"],
                n=row["count_all"],
                offset=row["offset_min"],
                shown_us=row["shown_us_min"],
                difference=row["difference_min"],
                printed=bool(row["printed_max"]),
            )
        )


def _add_transitions(columns: pa.Table, parts: dict[int, Marks]) -> None:
    is_transition = pc.and_(
        pc.equal(columns["event"], Event.TASK_STATE.value),
        pc.or_(columns["as_jobmanager"], columns["as_taskmanager"]),
    )
    for name in ("attempt_id", "to_state", "shown_us"):
        is_transition = pc.and_(is_transition, pc.is_valid(columns[name]))
    keys = ["source", "owner", "clock", "attempt_id", "to_state", "as_jobmanager"]
    grouped = (
        columns.filter(is_transition)
        .group_by(keys, use_threads=False)
        .aggregate([("shown_us", "min")])
    )
    found: dict[tuple[int, str | None, str | None], list[Transition]] = {}
    for source, owner, clock, attempt_id, to_state, by_jobmanager, shown_us in _rows(
        grouped, [*keys, "shown_us_min"]
    ):
        found.setdefault((source, owner, clock), []).append(
            Transition(
                owner=owner,
                clock=clock,
                attempt_id=attempt_id,
                to_state=to_state,
                by_jobmanager=by_jobmanager,
                shown_us=shown_us,
            )
        )
    for (source, _, _), transitions in found.items():
        parts[source].transitions += limit_transitions(transitions)


def midnights_before(parts: Sequence[Marks]) -> list[int]:
    """Return how many midnights precede each split of one source, in order."""
    passed = 0
    result = []
    last: int | None = None
    for part in parts:
        if part.first_time is not None:
            passed += last is not None and is_past_midnight(last, part.first_time)
        result.append(passed)
        passed += part.midnights
        last = part.last_time if part.last_time is not None else last
    return result


def owners_before(parts: Sequence[Marks]) -> list[str | None]:
    """Return the owner in the last section header above each split of one source, in order."""
    owner: str | None = None
    result: list[str | None] = []
    for part in parts:
        result.append(owner)
        owner = part.headers[-1][1] if part.headers else owner
    return result
