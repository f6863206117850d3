"""Reads from the `LOG` of RocksDB or ForSt why it slowed down or stopped writes, its errors, and its slow flushes."""

from __future__ import annotations

import re
from calendar import timegm
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

MAX_TEXT: Final = 64 * 1024 * 1024
MAX_EVENTS: Final = 10_000
SLOW_FLUSH_MS: Final = 2000
"""Minimum duration of a flush that counts as an event. An SSD takes far less for a write buffer of the default size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreEvent:
    """A write stall, a slow flush or an error of a store.

    Attributes:
        kind: `slowed`, `stopped`, `flush` or `error`.
        reason: for a stall `memtables`, `level-0` or `compaction`; for an error `no-space` or None.
        family: the column family, which has the name of the Flink state.
        amount: number of memtables, files or bytes that caused a stall, or the bytes that a flush wrote.
        text: text of an error.
        time_us: the printed time. The log prints no time zone, so it is taken as UTC.
        offset: offset of the line in the text.
        ms: duration of a flush; for a flush that has not finished, the time until the last line.
    """

    kind: str
    reason: str | None
    family: str | None
    amount: int | None
    text: str | None
    time_us: int | None
    offset: int
    ms: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreOwner:
    """The subtask that owns a store, from the name of the log, which contains the path of the store.

    Attributes:
        job_id, operator_id: IDs in hexadecimal. A vertex has the ID of its first operator.
        subtask_index: index of the subtask, starting at 0.
    """

    job_id: str
    operator_id: str
    subtask_index: int


_LINE: Final = r"^(?P<time>20\d\d/\d\d/\d\d-\d\d:\d\d:\d\d)\.\d{6} [0-9a-fx]{1,18} (?:\[(?P<level>[A-Z]{4,6})\] ?)?"
_STALL: Final = (
    r"\[(?P<family>[^\]\n]{0,200})\] St(?P<stop>opp|all)ing writes because "
    r"(?:we have (?P<memtables>\d{1,9}) immutable memtables|we have (?P<files>\d{1,9}) level-0 files"
    r"|of estimated pending compaction bytes (?P<bytes>\d{1,19}))"
)
_EVENT: Final = re.compile(
    rf"{_LINE}[^\n]{{0,200}}?(?:{_STALL}"
    r"|(?P<error>(?:Waiting after background (?:flush|compaction) error|Background IO error|Compaction error"
    r"|Failed to [a-z ]{1,40}|Error (?:when|while) [a-z ]{1,40})[^\n]{0,300}))",
    re.MULTILINE,
)
_FLUSH: Final = re.compile(
    r"\bEVENT_LOG_v1 \{\"time_micros\": (?P<micros>\d{1,17}), \"job\": (?P<job>\d{1,9}), \"event\": \"flush_(?P<event>started|finished)\""
    r"|\[(?P<family>[^\]\n]{0,200})\] \[JOB (?P<writer>\d{1,9})\] Level-0 flush table #\d{1,12}: (?P<bytes>\d{1,15}) bytes OK"
)
_TIME: Final = re.compile(r"^20\d\d/\d\d/\d\d-\d\d:\d\d:\d\d(?=\.\d{6} )", re.MULTILINE)
_BEGINNING: Final = re.compile(
    rf"{_LINE}(?:\[[\w/.:]{{1,80}}\] )?[^\n]{{0,40}}version: \d", re.MULTILINE
)
_OWNER: Final = re.compile(
    r"job_(?P<job>[0-9a-f]{32})_op_\w{1,100}?_(?P<operator>[0-9a-f]{32})_+(?P<index>\d{1,5})_\d{1,5}_"
)


def looks_like_store_log(text: str) -> bool:
    """Return whether a text starts like a RocksDB log.

    >>> looks_like_store_log("2026/11/26-06:36:05.123456 139900 RocksDB version: 6.20.3")
    True
    """
    return text[:2] == "20" and _BEGINNING.match(text[:400]) is not None


def owner_of(name: str) -> StoreOwner | None:
    """Return the subtask that the name of a RocksDB log contains, or None.

    >>> owner_of(f"tmp_job_{'a' * 32}_op_KeyedProcessOperator_{'b' * 32}__2_4__uuid_1_db_LOG").subtask_index
    1
    """
    found = _OWNER.search(name)
    if found is None or found["index"] == "0":
        return None
    return StoreOwner(
        job_id=found["job"], operator_id=found["operator"], subtask_index=int(found["index"]) - 1
    )


def read_store_log(text: str) -> list[StoreEvent]:
    """Return the stalls, errors and slow flushes in the log of a store, in order of appearance.

    >>> line = "2026/11/26-06:36:05.123456 1399 [WARN] [/column_family.cc:984] [sums] Stopping writes because we have"
    >>> event = read_store_log(f"{line} 36 level-0 files")[-1]
    >>> event.kind, event.reason, event.family, event.amount
    ('stopped', 'level-0', 'sums', 36)
    """
    text = text[:MAX_TEXT]
    found: list[StoreEvent] = []
    position, offset = 0, 0
    for event in _EVENT.finditer(text):
        offset += len(text[position : event.start()].encode())
        position = event.start()
        amount = event["memtables"] or event["files"] or event["bytes"]
        reason: str | None = (
            "memtables" if event["memtables"] else "level-0" if event["files"] else "compaction"
        )
        if error := event["error"]:
            reason = "no-space" if "no space left" in error.lower() else None
        found.append(
            StoreEvent(
                kind="error" if error else "stopped" if event["stop"] == "opp" else "slowed",
                reason=reason,
                family=event["family"],
                amount=int(amount) if amount else None,
                text=error,
                time_us=_time_of(event["time"]),
                offset=offset,
            )
        )
    found += _slow_flushes(text)
    return sorted(found, key=lambda event: event.offset)[:MAX_EVENTS]


def _slow_flushes(text: str) -> Iterator[StoreEvent]:
    """Yield the flushes that took long, in the order in which they finished. Each has the number of a job."""
    started: dict[str, re.Match[str]] = {}
    written: dict[str, re.Match[str]] = {}
    for line in _FLUSH.finditer(text):
        if line["writer"]:
            written[line["writer"]] = line
        elif line["event"] == "started":
            started[line["job"]] = line
        elif (begun := started.pop(line["job"], None)) is not None:
            yield from _flush(text, begun, line, int(line["micros"]), written.get(line["job"]))
    if started and (last := _last_time(text)) is not None:
        for job, begun in started.items():
            yield from _flush(text, begun, begun, last, written.get(job))


def _flush(
    text: str,
    begun: re.Match[str],
    line: re.Match[str],
    until_us: int,
    written: re.Match[str] | None,
) -> Iterator[StoreEvent]:
    ms = (until_us - int(begun["micros"])) / 1000
    if ms < SLOW_FLUSH_MS:
        return
    start = text.rfind("\n", 0, line.start()) + 1
    yield StoreEvent(
        kind="flush",
        reason=None,
        family=written["family"] if written else None,
        amount=int(written["bytes"]) if written else None,
        text=None,
        time_us=until_us,
        offset=len(text[:start].encode()),
        ms=ms,
    )


def _last_time(text: str) -> int | None:
    """Return the time of the last line. The times of the events are in UTC, so the log's time zone does not matter."""
    times = _TIME.findall(text[-65536:])
    return _time_of(times[-1]) if times else None


def _time_of(text: str) -> int | None:
    digits = re.findall(r"\d+", text[:19])
    if len(digits) != 6:
        return None
    year, month, day, hour, minute, second = map(int, digits)
    if not (1 <= month <= 12 and 1 <= day <= 31 and hour < 24 and minute < 60):
        return None
    return timegm((year, month, day, hour, minute, second)) * 1_000_000
