"""Parses a progress report of a streaming query, in either of its JSON shapes, into a row.

The event log contains the fields of the class: offsets are JSON in strings, rates may be the text `NaN`, and there
are no totals. `lastProgress` and the driver's log contain the readable form: offsets are JSON, unknown rates are
missing, and there are totals. Both give the same row.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from itertools import islice
from typing import Any, Final, TypeVar

import msgspec

from flowdiag.parsers.json_values import as_integer, as_number
from flowdiag.parsers.rows import Event, Row
from flowdiag.parsers.spark import LAST_SNAPSHOT

N = TypeVar("N", int, float)

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_FAR: Final = re.compile(r"\+?(?P<year>\d{5,6})(?P<rest>-\d\d-\d\dT.{1,30})")
_CYCLE: Final = 400  # years after which the calendar repeats
_CYCLE_US: Final = 146_097 * 86_400_000_000
_DEPTH: Final = 4  # maximum nesting of offsets: source, topic, partition
PARTITIONS: Final = 16  # maximum partitions kept, those with the largest backlogs first
METRICS: Final = 4000  # maximum metrics of a state store that are read
TEXT: Final = 400  # maximum characters kept of a description


def progress_row(progress: object) -> Row | None:
    """Return a row of event `spark_progress` without source and offset, or None for other objects.

    Columns: `utc_us` the start of the trigger, `duration_ms` its execution, `checkpoint` the batch ID, and
    `job_name` the name of the query. The keys of `fields` are id, run_id, rows, durations, sources, input_per_s,
    processed_per_s, watermark_us, max_event_us, min_event_us, state, sink and written; lists and objects are JSON.
    """
    if not isinstance(progress, dict):
        return None
    run, timestamp = progress.get("runId"), parse_instant(progress.get("timestamp"))
    if not isinstance(run, str) or timestamp is None:
        return None
    durations = {
        str(key): int(known)
        for key, value in _map(progress.get("durationMs")).items()
        if (known := as_number(value)) is not None
    }
    sources = [_source(item) for item in _list(progress.get("sources")) if isinstance(item, dict)]
    times = _map(progress.get("eventTime"))
    sink = _map(progress.get("sink"))
    fields = {
        "id": str(progress.get("id") or ""),
        "run_id": run,
        "rows": _first_known(
            as_integer(progress.get("numInputRows")),
            _sum_of_known(source["rows"] for source in sources),
        ),
        "durations": _json(durations),
        "sources": _json(sources),
        "input_per_s": _rate(progress, sources, "inputRowsPerSecond"),
        "processed_per_s": _rate(progress, sources, "processedRowsPerSecond"),
        "watermark_us": parse_instant(times.get("watermark")),
        "max_event_us": parse_instant(times.get("max")),
        "min_event_us": parse_instant(times.get("min")),
        "state": _json([_state(item) for item in _list(progress.get("stateOperators"))]),
        "sink": str(sink.get("description") or "")[:TEXT],
        "written": as_integer(sink.get("numOutputRows")),
    }
    name = progress.get("name")
    return {
        "event": Event.SPARK_PROGRESS.value,
        "utc_us": timestamp,
        "checkpoint": as_integer(progress.get("batchId")),
        "job_name": name if isinstance(name, str) else None,
        "duration_ms": _first_known(
            durations.get("triggerExecution"), as_integer(progress.get("batchDuration"))
        ),
        "fields": {key: str(value) for key, value in fields.items() if value is not None},
    }


def _source(item: dict[str, Any]) -> dict[str, Any]:
    start, end = _offsets(item.get("startOffset")), _offsets(item.get("endOffset"))
    latest = _offsets(item.get("latestOffset"))
    lag = as_number(_map(item.get("metrics")).get("avgOffsetsBehindLatest"))
    behind = _by_partition(end, latest)
    backlog = _behind(end, latest)
    if backlog is None and lag is not None and (parts := _partitions(end)):
        backlog = round(lag * parts)  # the average is over all partitions
    return {
        "name": str(item.get("description") or "")[:TEXT],
        "rows": as_integer(item.get("numInputRows")),
        "input_per_s": as_number(item.get("inputRowsPerSecond")),
        "backlog": backlog,
        "partitions": dict(sorted(behind.items(), key=lambda one: -one[1])[:PARTITIONS]),
        "partition_count": _partitions(end),
        "advance": _behind(start, end),
    }


def _state(item: object) -> dict[str, Any]:
    value = _map(item)
    custom = _map(value.get("customMetrics"))
    commit = as_number(value.get("commitTimeMs"))
    late = value.get("numRowsDroppedByWatermark", value.get("numLateInputs"))
    return {
        "operator": str(value.get("operatorName") or "")[:80],
        "rows": as_integer(value.get("numRowsTotal")),
        "bytes": as_integer(value.get("memoryUsedBytes")),
        "dropped": as_integer(late),
        "removed": as_integer(value.get("numRowsRemoved")),
        "commit_ms": commit,
        "partitions": as_integer(value.get("numShufflePartitions")),
        "rocksdb": any(str(key).startswith("rocksdb") for key in custom),
        "custom": _custom(custom),
    }


def _custom(metrics: dict[str, Any]) -> dict[str, int]:
    """Return the metrics of a state store. Keep only the oldest of the per-partition snapshots (Spark 4.1+)."""
    known = [(str(key)[:80], as_integer(value)) for key, value in islice(metrics.items(), METRICS)]
    found = {key: value for key, value in known if value is not None and "." not in key}
    uploaded = [v for key, v in known if v is not None and key.startswith(f"{LAST_SNAPSHOT}.")]
    return found | ({LAST_SNAPSHOT: min(uploaded)} if uploaded else {})


def _rate(progress: dict[str, Any], sources: list[dict[str, Any]], key: str) -> float | None:
    value = as_number(progress.get(key))
    if value is not None:
        return value
    if key == "inputRowsPerSecond":
        return _sum_of_known(source["input_per_s"] for source in sources)
    items = (item for item in _list(progress.get("sources")) if isinstance(item, dict))
    return _sum_of_known(as_number(item.get(key)) for item in items)


def _first_known(*values: int | None) -> int | None:
    return next((value for value in values if value is not None), None)


def _sum_of_known(values: Iterable[N | None]) -> N | None:
    """Sum the known values, or None if all are unknown."""
    known = [value for value in values if value is not None]
    return sum(known[1:], known[0]) if known else None


def _offsets(value: object) -> object:
    """Decode offsets, which may be JSON in a string."""
    if not isinstance(value, str):
        return value
    try:
        return msgspec.json.decode(value)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None


def _behind(earlier: object, later: object, depth: int = 0) -> int | None:
    """Return how far `earlier` is behind `later`, summed over partitions, or None if the two cannot be compared."""
    if isinstance(later, int) and not isinstance(later, bool):
        before = earlier if isinstance(earlier, int) and not isinstance(earlier, bool) else None
        return None if before is None else max(0, later - before)
    if isinstance(later, dict) and isinstance(earlier, dict) and depth < _DEPTH:
        return _sum_of_known(
            _behind(earlier.get(key), value, depth + 1) for key, value in later.items()
        )
    return None


def _by_partition(end: object, latest: object) -> dict[str, int]:
    """Return how far a trigger's end offset is behind the latest, by `topic-partition`. Empty for other offsets.

    >>> _by_partition({"t": {"0": 5, "1": 9}}, {"t": {"0": 15, "1": 9}})
    {'t-0': 10, 't-1': 0}
    """
    found: dict[str, int] = {}
    for topic, offsets in _map(latest).items():
        here = _map(_map(end).get(topic))
        for partition, offset in _map(offsets).items():
            behind = _behind(here.get(partition), offset)
            if behind is not None:
                found[f"{topic}-{partition}"[:TEXT]] = behind
    return found


def _partitions(offsets: object) -> int:
    """Count the partitions in Kafka's offsets, or 0 for other offsets."""
    return sum(len(_map(topic)) for topic in _map(offsets).values())


def _json(value: object) -> str | None:
    return msgspec.json.encode(value).decode() if value else None


def _map(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def parse_instant(value: object) -> int | None:
    """Parse an ISO instant into microseconds since the epoch.

    >>> parse_instant("1970-01-01T00:00:01.500Z"), parse_instant("soon")
    (1500000, None)
    >>> parse_instant("58870-06-01T00:00:00.000Z")  # milliseconds taken for seconds
    1795603680000000000
    """
    if not isinstance(value, str):
        return None
    if far := _FAR.fullmatch(value):
        return _far_instant(int(far["year"]), far["rest"])
    try:
        moment = datetime.fromisoformat(value)
        aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        passed = aware - _EPOCH
    except (ValueError, OverflowError):
        return None
    return (passed.days * 86_400 + passed.seconds) * 1_000_000 + passed.microseconds


def _far_instant(year: int, rest: str) -> int | None:
    """Parse an instant after the year 9999, which `datetime` does not support."""
    cycles = (year - 2000) // _CYCLE
    near = parse_instant(f"{year - cycles * _CYCLE}{rest}")
    return None if near is None else near + cycles * _CYCLE_US
