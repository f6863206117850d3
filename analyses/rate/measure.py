"""Measures batches, triggers and tasks in Spark's logs, with Spark itself.

`survey` collects the few records that distinguish applications and clocks, `assign_owners` evaluates them in Python,
and `facts_frame` merges all other records by application. In every source, the key of a batch is (application, batch
time), and the key of a trigger is (run, batch, start). Each row is returned as JSON in one text column, so a single
query can return rows with different columns.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from flowdiag.analyses.engine.frames import cached_frame
from flowdiag.analyses.engine.sql import Queries, sql_literals
from flowdiag.analyses.rate.attempts import last_attempt
from flowdiag.parsers.rows import Event
from flowdiag.parsers.spark.rest import application_in

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from flowdiag.parsers.source import Source

QUARTER_MS: Final = 15 * 60 * 1000
END: Final = 2**62
UNKNOWN: Final = "?"  # prefix of the generated key of an application without a known ID

# Events that rules read as single, unchanged records.
SINGLE: Final = (
    Event.SPARK_APPLICATION,
    Event.SPARK_SETTINGS,
    Event.SPARK_LOG_STARTED,
    Event.SPARK_RECEIVER,
    Event.SPARK_EXECUTOR,
    Event.SPARK_QUERY,
    Event.SPARK_PROGRESS,
    Event.SPARK_PLAN,
    Event.SPARK_TRIGGER,
    Event.SPARK_PID,
    Event.SPARK_RATE_LIMIT,
    Event.SPARK_DROPPED,
    Event.SPARK_INCIDENT,
    Event.FAILURE,
    Event.THREAD,
)


SQL: Final = Queries("flowdiag.analyses.rate", {"single": sql_literals(*SINGLE)})


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """A part of a source, with the application that it belongs to.

    Args:
        low, high: the first offset of the part, and the first offset after it.
        application: the application's ID, or a generated key that begins with `?`.
        shift_ms: offset of the printed times from UTC.
        shift_from: origin of the offset: `batch-times`, `--tz` or `assumed`; None without printed times.
    """

    source: int
    low: int
    high: int
    application: str
    shift_ms: int = 0
    shift_from: str | None = None
    first_us: int | None = None  # times of its records
    last_us: int | None = None


def assign_owners(
    rows: Iterable[Mapping[str, Any]], sources: Sequence[Source], tz: str | None = None
) -> tuple[Owner, ...]:
    """Return the application and the clock offset of each part of each source.

    An ID in the source counts first, then an ID in its name or folder. A source without an ID belongs to the
    application with the same batch times or runs (in the nearest folder if there are several), or to the only
    application.

    Args:
        rows: rows of `survey`, as dictionaries.
        sources: the sources, with their names and groups.
        tz: name of a time zone that overrides the inferred zone.
    """
    rows = list(rows)
    streams = {row["source"]: row for row in rows if row["what"] == "stream"}
    marks: dict[int, list[Mapping[str, Any]]] = defaultdict(list)
    rare = (row for row in rows if row["what"] == "rare" and row["event"] != Event.SPLIT)
    for row in sorted(rare, key=lambda row: row["offset"]):
        marks[row["source"]].append(row)
    parts = {source: _parts(marks[source]) for source in streams}
    named = {
        source: _recorded_application(row, parts[source], sources[source].name)
        for source, row in streams.items()
    }
    known = {source: name for source, name in named.items() if name is not None}
    settled = dict(known)
    for source in streams.keys() - known.keys():
        settled[source] = _related_application(source, streams, known, sources) or ""
    _name_unknown_applications(settled, streams, sources)
    return tuple(
        owner
        for source, row in streams.items()
        for owner in _owners_of(row, parts[source], settled[source], tz)
    )


def _recorded_application(
    row: Mapping[str, Any], parts: Sequence[tuple[int, str | None]], source: str
) -> str | None:
    """Return the first ID in a source or, failing that, the ID in its name."""
    ids = [name for _, name in parts if name] or list(row["applications"] or ())
    return ids[0] if ids else application_in(source)


def _owners_of(
    row: Mapping[str, Any], parts: Sequence[tuple[int, str | None]], fallback: str, tz: str | None
) -> Iterator[Owner]:
    """Yield the parts of a source. A part without an ID belongs to the application `fallback`."""
    shift, shift_from = _shift(row, tz)
    names = [name for _, name in parts] or [None]
    cuts = [0, *(low for low, _ in parts[1:]), END]
    for (low, high), name in zip(pairwise(cuts), names, strict=True):
        yield Owner(
            source=row["source"],
            low=low,
            high=high,
            application=name or fallback,
            shift_ms=shift,
            shift_from=shift_from,
            first_us=_instant(row["first_us"], shift, row["printed"]),
            last_us=_instant(row["last_us"], shift, row["printed"]),
        )


def _instant(time_us: int | None, shift_ms: int, printed: bool) -> int | None:
    if time_us is None:
        return None
    return time_us - shift_ms * 1000 if printed else time_us


def _parts(marks: Sequence[Mapping[str, Any]]) -> list[tuple[int, str | None]]:
    """Return where each application begins in a source, as (offset, ID). The first lines of a log precede the ID."""
    parts: list[tuple[int, str | None]] = []
    opened: int | None = None
    for mark in marks:
        if mark["event"] == Event.SPARK_LOG_STARTED:
            opened = mark["offset"]
            continue
        name = mark["application"]
        if name and (not parts or parts[-1][1] != name):
            parts.append((opened if opened is not None else mark["offset"], name))
        opened = None
    return parts


def _related_application(
    source: int,
    streams: Mapping[int, Mapping[str, Any]],
    known: Mapping[int, str],
    sources: Sequence[Source],
) -> str | None:
    """Return the application that a source without an ID belongs to, or None."""
    mine = streams[source]
    candidates: dict[str, tuple[int, int]] = {}
    for other, name in known.items():
        shared = _shared_count(mine, streams[other])
        near = _nearness(sources[source].name, sources[other].name)
        if shared:
            candidates[name] = max(candidates.get(name, (0, -1)), (near, shared))
    if candidates:
        return max(sorted(candidates), key=lambda name: candidates[name])
    names = sorted(set(known.values()))
    nothing_to_compare = not mine["batches"] and not mine["runs"]
    if len(names) == 1 and (nothing_to_compare or not _is_comparable(mine, known, streams)):
        return names[0]
    if nothing_to_compare and names:
        near_to = {name: -1 for name in names}
        for other, name in known.items():
            near = _nearness(sources[source].name, sources[other].name)
            near_to[name] = max(near_to[name], near)
        best = max(near_to.values())
        nearest = [name for name in names if near_to[name] == best]
        return last_attempt(nearest)
    return None


def _is_comparable(
    mine: Mapping[str, Any], known: Mapping[int, str], streams: Mapping[int, Mapping[str, Any]]
) -> bool:
    """Return whether another source has batch times or runs too, so that having none in common is conclusive."""
    key = "batches" if mine["batches"] else "runs"
    return any(streams[other][key] for other in known)


def _shared_count(one: Mapping[str, Any], other: Mapping[str, Any]) -> int:
    batches = len(set(one["batches"] or ()) & set(other["batches"] or ()))
    if not batches and one["batches"] and other["batches"]:
        # One source may begin later. Its first batch times are then within the span of the other source.
        # REST responses may contain no times other than batch times.
        first, last = min(other["batches"]), max(other["batches"])
        if other["first_us"] is not None:
            first, last = other["first_us"] // 1000, other["last_us"] // 1000
        batches = sum(first <= time <= last for time in one["batches"]) // 2
    return batches + len(set(one["runs"] or ()) & set(other["runs"] or ()))


def _nearness(one: str, other: str) -> int:
    """Return how many leading folders two names have in common."""
    try:
        return len(os.path.commonpath([os.path.dirname(one), os.path.dirname(other)]))
    except ValueError:
        return 0


def _name_unknown_applications(
    settled: dict[int, str], streams: Mapping[int, Mapping[str, Any]], sources: Sequence[Source]
) -> None:
    """Generate keys for unknown applications. Sources that share batches or runs get the same key."""
    # Sources without times come last, because they may be within the span of another source.
    strangers = sorted(
        (source for source in settled if not settled[source]),
        key=lambda source: (streams[source]["first_us"] is None, source),
    )
    for source in strangers:
        for other in strangers:
            if settled[other] and _shared_count(streams[source], streams[other]):
                settled[source] = settled[other]
                break
        else:
            known = [settled[other] for other in strangers if settled[other]]
            alone = not streams[source]["batches"] and not streams[source]["runs"]
            settled[source] = known[0] if alone and known else UNKNOWN + sources[source].group


def _shift(row: Mapping[str, Any], tz: str | None) -> tuple[int, str | None]:
    """Return the offset of a source's printed times from UTC, and where the offset comes from."""
    if not row["printed"]:
        return 0, None
    if tz is not None:
        from datetime import UTC, datetime, timedelta
        from zoneinfo import ZoneInfo

        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=row["first_us"])
        offset = moment.replace(tzinfo=ZoneInfo(tz)).utcoffset()
        return (0 if offset is None else int(offset.total_seconds() * 1000)), "--tz"
    if row["shift_ms"] is None:
        return 0, "assumed"
    # Records about a batch follow its batch time, so the smallest difference is the zone plus some seconds.
    # Times with two-digit seconds are truncated to seconds.
    return (row["shift_ms"] + 1000) // QUARTER_MS * QUARTER_MS, "batch-times"


def with_owner_columns(events: DataFrame, owners: Sequence[Owner]) -> DataFrame:
    """Add the application as `app` and the UTC time as `time_us` to EVENTS."""
    spark = events.sparkSession
    frame = spark.createDataFrame(
        pa.table(
            {
                "source": pa.array((o.source for o in owners), pa.int32()),
                "low": pa.array((o.low for o in owners), pa.int64()),
                "high": pa.array((o.high for o in owners), pa.int64()),
                "app": pa.array((o.application for o in owners), pa.string()),
                "shift_ms": pa.array((o.shift_ms for o in owners), pa.int64()),
            }
        )
    )
    return SQL.run("owned", events=events, owners=frame)


# The parts of the facts, and the kinds of events that each needs. Parts without events are skipped. An empty set means
# always.
_PARTS: Final[Mapping[str, AbstractSet[str]]] = {
    "batch": {Event.SPARK_BATCH, Event.SPARK_JOB},
    "output": {Event.SPARK_OUTPUT},
    "operation": {Event.SPARK_OUTPUT, Event.SPARK_JOB},
    "work": {Event.SPARK_JOB},
    "blocks": {Event.SPARK_BLOCK},
    "range": {Event.SPARK_RANGE},
    "memory": {Event.SPARK_BLOCK},
    "cached": {Event.SPARK_CACHED},
    "stage": {Event.SPARK_TASKS},
    "executor": {Event.SPARK_TASKS},
    "task": {Event.SPARK_TASK},
    "single": frozenset(),
}
# Kinds of events whose subqueries are skipped if there are none.
_OPTIONAL_KINDS: Final = (
    Event.SPARK_BATCH,
    Event.SPARK_BLOCK,
    Event.SPARK_CACHED,
    Event.SPARK_JOB,
    Event.SPARK_OUTPUT,
    Event.SPARK_RANGE,
    Event.SPARK_STAGE,
    Event.SPARK_TASK,
    Event.SPARK_TASKS,
)


def facts_frame(events: DataFrame, present: AbstractSet[str] | None = None) -> DataFrame:
    """Return all rows for `flowdiag.analyses.rate.assemble`, as pairs of kind and row as JSON.

    The kinds are `batch` per application and batch time, `output` per failed output operation, and `stage` for the
    worst stage of each batch or trigger. `work` contains its jobs, and `task` its open tasks. Totals are `executor`,
    `operation` per output operation, `blocks` per receiver, `memory` per host, `cached` per RDD, and `range` per
    topic partition. `single` contains unchanged records.

    Args:
        events: the events from `with_owner_columns`.
        present: the kinds of events in the input, if known.
    """
    kinds = {
        kind.value: f"event = '{kind}'" if present is None or kind in present else "false"
        for kind in _OPTIONAL_KINDS
    }

    def view(name: str, kind: Event) -> DataFrame:
        """Return a view that several parts read. It is computed once, and empty if there are no such events."""
        frame = SQL.run(name, events=events, **{kind.value: kinds[kind.value]})
        return cached_frame(frame) if present is None or kind in present else frame

    queries = [
        SQL.text(part, **kinds)
        for part, kinds_of in _PARTS.items()
        if present is None or not kinds_of or not present.isdisjoint(kinds_of)
    ]
    return SQL.run(
        "facts",
        events=events,
        jobs=view("jobs", Event.SPARK_JOB),
        tasks=view("tasks", Event.SPARK_TASKS),
        parts=" UNION ALL ".join(queries),
        **kinds,
    )
