"""What Spark's logs say about batches, triggers and tasks, measured with Spark itself.

`survey` (a module of its own) brings the few records that tell applications and clocks apart, `own`
judges them in Python, `facts_frame` merges everything else under those owners. A batch is the same in whichever source
it is told of: (application, batch time); so is a trigger: (run, batch, start). Rows come back as JSON
text, one column for any shape, so that one query of one plan brings all of them.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from flowdiag.analyses.engine.frames import kept
from flowdiag.analyses.engine.sql import Queries, words
from flowdiag.parsers.rows import Event
from flowdiag.parsers.spark.rest import application_in

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from flowdiag.parsers.sources.open import Source

QUARTER_MS: Final = 15 * 60 * 1000
END: Final = 2**62
UNKNOWN: Final = "?"  # begins the key of an application whose id nothing tells

# Records that are handed on as they are.
SINGLE: Final = (
    Event.SPARK_APPLICATION,
    Event.SPARK_SETTINGS,
    Event.SPARK_LOG_STARTED,
    Event.SPARK_RECEIVER,
    Event.SPARK_EXECUTOR,
    Event.SPARK_QUERY,
    Event.SPARK_PROGRESS,
    Event.SPARK_PID,
    Event.SPARK_RATE_LIMIT,
    Event.SPARK_DROPPED,
    Event.SPARK_INCIDENT,
)


SQL: Final = Queries("flowdiag.analyses.rate", {"single": words(*SINGLE)})


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """A part of a source, and the application it belongs to.

    Args:
        low, high: first offset, and the first behind.
        application: its key: the id, or a made-up one that begins with `?`.
        shift_ms: what is subtracted from its printed clock.
        shift_from: how that is known: `batch-times`, `--tz`, `assumed`, None where nothing is printed.
    """

    source: int
    low: int
    high: int
    application: str
    shift_ms: int = 0
    shift_from: str | None = None
    first_us: int | None = None  # instants of its records
    last_us: int | None = None


def assign_owners(
    rows: Iterable[Mapping[str, Any]], sources: Sequence[Source], tz: str | None = None
) -> tuple[Owner, ...]:
    """Decide which application each part of each source belongs to, and what its clock lacks.

    An id that the source prints counts most, then one in its name or folder; what has neither belongs to
    the application with which it shares batch times or runs, nearest folder first, or to the only one.

    Args:
        rows: what `survey` collected, as dictionaries.
        sources: for their names and groups.
        tz: name of a zone that overrides the inferred one.
    """
    rows = list(rows)
    streams = {row["source"]: row for row in rows if row["what"] == "stream"}
    marks: dict[int, list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        if row["what"] == "rare" and row["event"] != Event.SPLIT:
            marks[row["source"]].append(row)
    parts = {source: _parts(sorted(marks[source], key=lambda r: r["offset"])) for source in streams}
    told: dict[int, str] = {}
    for source, row in streams.items():
        ids = [name for _, name in parts[source] if name] or list(row["applications"] or ())
        hint = application_in(sources[source].name)
        if ids or hint:
            told[source] = ids[0] if ids else str(hint)
    settled = dict(told)
    for source in streams:
        if source not in settled:
            settled[source] = _related_application(source, streams, told, sources) or ""
    _name_unknown_applications(settled, streams, sources)
    owners = []
    for source, row in streams.items():
        shift, shift_from = _shift(row, tz)
        cuts = parts[source] or [(0, None)]
        for number, (low, name) in enumerate(cuts):
            high = cuts[number + 1][0] if number + 1 < len(cuts) else END
            owners.append(
                Owner(
                    source=source,
                    low=0 if number == 0 else low,
                    high=high,
                    application=name or settled[source],
                    shift_ms=shift,
                    shift_from=shift_from,
                    first_us=_instant(row["first_us"], shift, row["printed"]),
                    last_us=_instant(row["last_us"], shift, row["printed"]),
                )
            )
    return tuple(owners)


def _instant(time_us: int | None, shift_ms: int, printed: bool) -> int | None:
    if time_us is None:
        return None
    return time_us - shift_ms * 1000 if printed else time_us


def _parts(marks: Sequence[Mapping[str, Any]]) -> list[tuple[int, str | None]]:
    """Where applications begin in a source: (offset, id). A log's first line precedes its id."""
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
    told: Mapping[int, str],
    sources: Sequence[Source],
) -> str | None:
    """The application that a source without an id belongs to, or None."""
    mine = streams[source]
    candidates: dict[str, tuple[int, int]] = {}
    for other, name in told.items():
        shared = _shared(mine, streams[other])
        near = _nearness(sources[source].name, sources[other].name)
        if shared:
            candidates[name] = max(candidates.get(name, (0, -1)), (near, shared))
    if candidates:
        return max(sorted(candidates), key=lambda name: candidates[name])
    names = sorted(set(told.values()))
    nothing_to_compare = not mine["batches"] and not mine["runs"]
    if len(names) == 1 and (nothing_to_compare or not _comparable(mine, told, streams)):
        return names[0]
    if nothing_to_compare and names:
        near_to = {name: -1 for name in names}
        for other, name in told.items():
            near = _nearness(sources[source].name, sources[other].name)
            near_to[name] = max(near_to[name], near)
        best = max(near_to.values())
        nearest = [name for name in names if near_to[name] == best]
        return nearest[0] if len(nearest) == 1 else None
    return None


def _comparable(
    mine: Mapping[str, Any], told: Mapping[int, str], streams: Mapping[int, Mapping[str, Any]]
) -> bool:
    """Whether any other source has batch times or runs, so that sharing none means something."""
    key = "batches" if mine["batches"] else "runs"
    return any(streams[other][key] for other in told)


def _shared(one: Mapping[str, Any], other: Mapping[str, Any]) -> int:
    batches = len(set(one["batches"] or ()) & set(other["batches"] or ()))
    if not batches and one["batches"] and other["batches"]:
        # One may begin later: its first batch times lie on the grid and within the span of the other.
        # Answers of REST have batch times, and perhaps no other ones.
        first, last = min(other["batches"]), max(other["batches"])
        if other["first_us"] is not None:
            first, last = other["first_us"] // 1000, other["last_us"] // 1000
        batches = sum(first <= time <= last for time in one["batches"]) // 2
    return batches + len(set(one["runs"] or ()) & set(other["runs"] or ()))


def _nearness(one: str, other: str) -> int:
    """How many folders two names share."""
    try:
        return len(os.path.commonpath([os.path.dirname(one), os.path.dirname(other)]))
    except ValueError:
        return 0


def _name_unknown_applications(
    settled: dict[int, str], streams: Mapping[int, Mapping[str, Any]], sources: Sequence[Source]
) -> None:
    """Give sources of unknown applications made-up keys, the same where they share batches or runs."""
    # Those without any time last: they lie within the span of one that has.
    strangers = sorted(
        (source for source in settled if not settled[source]),
        key=lambda source: (streams[source]["first_us"] is None, source),
    )
    for source in strangers:
        for other in strangers:
            if settled[other] and _shared(streams[source], streams[other]):
                settled[source] = settled[other]
                break
        else:
            known = [settled[other] for other in strangers if settled[other]]
            alone = not streams[source]["batches"] and not streams[source]["runs"]
            settled[source] = known[0] if alone and known else UNKNOWN + sources[source].group


def _shift(row: Mapping[str, Any], tz: str | None) -> tuple[int, str | None]:
    """What a source's printed clock is ahead of UTC."""
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
    # What is logged about a batch is logged after its time: the smallest difference is the zone, and
    # some seconds; two-digit clocks cut a second off.
    return (row["shift_ms"] + 1000) // QUARTER_MS * QUARTER_MS, "batch-times"


def owned(events: DataFrame, owners: Sequence[Owner]) -> DataFrame:
    """EVENTS with the application as `app` and the instant as `time_us`."""
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


# The parts of the facts, and the kinds of events that each is made of: where there are none, Spark is not
# asked. Nothing stands for one that is always asked for.
_PARTS: Final[Mapping[str, AbstractSet[str]]] = {
    "batch": {Event.SPARK_BATCH, Event.SPARK_JOB},
    "output": {Event.SPARK_OUTPUT},
    "operation": {Event.SPARK_OUTPUT},
    "work": {Event.SPARK_JOB},
    "blocks": {Event.SPARK_BLOCK},
    "range": {Event.SPARK_RANGE},
    "memory": {Event.SPARK_BLOCK},
    "stage": {Event.SPARK_TASKS},
    "executor": {Event.SPARK_TASKS},
    "single": frozenset(),
}
# Kinds that a query does not look for where there are none.
_ASKED_FOR: Final = (
    Event.SPARK_BATCH,
    Event.SPARK_BLOCK,
    Event.SPARK_JOB,
    Event.SPARK_OUTPUT,
    Event.SPARK_RANGE,
    Event.SPARK_STAGE,
    Event.SPARK_TASKS,
)


def facts_frame(events: DataFrame, present: AbstractSet[str] | None = None) -> DataFrame:
    """Everything that `flowdiag.analyses.rate.assemble` needs: (what, row as JSON).

    `batch` per (application, batch time), `output` per failed output operation, `stage` the worst stage
    of each batch or trigger, `work` its jobs, `executor` per executor, `operation` per output operation,
    `blocks` per receiver, `memory` where they are kept, `range` per partition of a topic,
    `single` for records as they are.

    Args:
        events: what `owned` returned.
        present: kinds of events that there are, where that is known.
    """
    kinds = {
        kind.value: f"event = '{kind}'" if present is None or kind in present else "false"
        for kind in _ASKED_FOR
    }

    def view(name: str, kind: Event) -> DataFrame:
        """Read by several parts of the query: computed once, unless there is nothing of the kind."""
        frame = SQL.run(name, events=events, **{kind.value: kinds[kind.value]})
        return kept(frame) if present is None or kind in present else frame

    asked = [
        SQL.text(part, **kinds)
        for part, said_by in _PARTS.items()
        if present is None or not said_by or not present.isdisjoint(said_by)
    ]
    return SQL.run(
        "facts",
        events=events,
        jobs=view("jobs", Event.SPARK_JOB),
        tasks=view("tasks", Event.SPARK_TASKS),
        parts=" UNION ALL ".join(asked),
        **kinds,
    )
