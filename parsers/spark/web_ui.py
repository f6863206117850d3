"""Reads tables copied from Spark's Web UI: batches, queries that fall behind, receivers, lost executors, garbage collection, options.

Cells are separated by tabs, bars, spaces or line ends. Each row becomes the equivalent REST response. The UI
shows times of the server without a zone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import pairwise
from typing import Final

from flowdiag.parsers.rows import Event, Row
from flowdiag.parsers.spark.events import settings_of
from flowdiag.parsers.spark.rest import batch_rows

TEXT_BYTES: Final = 256 * 1024
"""Maximum size of a text to search; a copied page is much smaller."""
_S: Final = r"[\s|]{1,20}"
_DURATION: Final = r"(?:\d{1,9}(?:\.\d{1,6})? ?(?:ms|s|min|h|seconds?|minutes?|hours?)|-)"
_BATCH: Final = re.compile(
    rf"^[ \t|>]{{0,20}}(?P<time>\d{{4}}/\d\d/\d\d \d\d:\d\d:\d\d(?:\.\d{{1,3}})?){_S}(?P<records>\d{{1,15}}) (?:records|events)"
    rf"{_S}(?P<scheduling>{_DURATION}){_S}(?P<processing>{_DURATION})(?:{_S}(?P<total>{_DURATION})(?=[\s|]))?"
    rf"(?:{_S}(?P<done>\d{{1,6}})/(?P<all>\d{{1,6}})(?![/\d])(?: \((?P<failed>\d{{1,6}}) failed\))?)?(?:{_S}(?P<state>queued|processing)\b)?",
    re.MULTILINE,
)
_DEAD: Final = re.compile(
    rf"^[ \t|>]{{0,20}}(?P<id>\d{{1,6}}){_S}(?P<host>[\w.-]{{1,255}}):\d{{1,5}}{_S}(?P<state>Dead|Excluded|Blacklisted)\b(?P<rest>.{{0,600}})",
    re.MULTILINE,
)
_EXECUTOR: Final = re.compile(
    rf"^[ \t|>]{{0,20}}(?P<id>driver|\d{{1,6}}){_S}[\w.-]{{1,255}}:\d{{1,5}}{_S}Active\b[^\n]{{0,400}}?(?<![\d.])(?P<task>{_DURATION}) \((?P<gc>{_DURATION})\)",
    re.MULTILINE,
)
_GC_SHARE: Final = 0.1
"""Share of the task time above which Spark's Web UI shows the garbage collection time in red."""
_UUID: Final = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_QUERY: Final = re.compile(
    rf"^[ \t|>]{{0,20}}(?P<name>[^\s|][^\t|\n]{{0,200}}?){_S}RUNNING{_S}(?P<id>{_UUID}){_S}(?P<run>{_UUID}){_S}\d{{4}}/\d\d/\d\d \d\d:\d\d:\d\d"
    rf"{_S}[^\t|\n]{{1,60}}?{_S}(?P<arriving>\d{{1,12}}\.\d{{1,6}}){_S}(?P<processed>\d{{1,12}}\.\d{{1,6}}){_S}(?P<batch>\d{{1,12}})\b",
    re.MULTILINE,
)
_RECEIVER: Final = re.compile(
    rf"^[ \t|>]{{0,20}}\w{{1,100}}-(?P<stream>\d{{1,6}}){_S}(?P<state>ACTIVE|INACTIVE){_S}(?P<executor>\w{{1,40}}) / (?P<host>\S{{1,255}})",
    re.MULTILINE,
)
_OPTION: Final = re.compile(
    r"^[ \t|>]{0,20}(?P<key>spark\.[\w.]{2,120})[ \t|]{1,20}(?P<value>\S[^\n|]{0,400})",
    re.MULTILINE,
)
_OPTIONS: Final = 4
"""Options that identify a copy of the Environment tab. A question may list a few options that are not in effect."""
_BEHIND: Final = 1.1
"""Minimum ratio of arriving rows to processed rows at which a query falls behind."""
_UNITS: Final = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000}
_INTERVALS: Final = 3
"""Minimum number of batches whose times show the interval."""


def contains_batches(data: bytes) -> bool:
    """Return whether a text contains a copied table of batches, queries or executors."""
    text = data.decode("utf-8", "replace")
    return any(table.search(text) is not None for table in (_BATCH, _QUERY, _DEAD, _EXECUTOR))


def copied_rows(data: bytes) -> Iterator[tuple[int, Row]]:
    """Yield the byte offset and the row of each batch, option, receiver, late query and lost executor."""
    text = data.decode("utf-8", "replace")
    yield from _tab_rows(text)
    found = [
        (one, time) for one in _BATCH.finditer(text) if (time := _millis(one["time"])) is not None
    ]
    times = sorted({time for _, time in found})
    steps = [later - earlier for earlier, later in pairwise(times)]
    interval = min(steps) if len(times) >= _INTERVALS else None
    for one, time in found:
        processing = _duration(one["processing"])
        unfinished = "PROCESSING" if one["state"] == "processing" else "QUEUED"
        item = {
            "batchId": time,
            "status": unfinished if processing is None else "COMPLETED",
            "processingTime": processing,
            "schedulingDelay": _duration(one["scheduling"]),
            "inputSize": int(one["records"]),
            "numTotalOutputOps": int(one["all"] or 0) or None,
            "numFailedOutputOps": int(one["failed"] or 0),
            "batchDuration": interval,
        }
        for row in batch_rows(item):
            yield len(text[: one.start()].encode()), row | {"utc_us": None, "local_us": time * 1000}
    yield from _collecting(text)
    for one in _DEAD.finditer(text):
        message = (
            f"Executor {one['id']} on {one['host']} is {one['state'].lower()} in the Executors tab"
        )
        row = _failure(message, "executor-lost")
        row["fields"]["executor"] = one["id"]
        yield len(text[: one.start()].encode()), row


def _collecting(text: str) -> Iterator[tuple[int, Row]]:
    """Yield a failure if the Executors tab shows that executors spend much of their task time on garbage collection."""
    times = (
        (one, _duration(one["task"]) or 0, _duration(one["gc"]) or 0)
        for one in _EXECUTOR.finditer(text)
    )
    found = [(gc / task, one) for one, task, gc in times if task and gc / task > _GC_SHARE]
    if found:
        share, worst = max(found, key=lambda each: each[0])
        names = "The driver spends" if worst["id"] == "driver" else f"Executor {worst['id']} spends"
        more = f", {len(found)} processes more than 10%" if len(found) > 1 else ""
        message = f"{names} {share:.0%} of the task time on garbage collection ({worst['gc']} of {worst['task']}){more}"
        yield len(text[: worst.start()].encode()), _failure(message, "gc-share-high")


def _tab_rows(text: str) -> Iterator[tuple[int, Row]]:
    """Yield the rows of the Environment tab, of active receivers, and of queries that fall behind."""
    options = [*_OPTION.finditer(text)]
    settings = settings_of({one["key"]: one["value"].strip() for one in options})
    if len(options) >= _OPTIONS and settings:
        yield (
            len(text[: options[0].start()].encode()),
            {"event": Event.SPARK_SETTINGS.value, "fields": settings},
        )
    for one in _RECEIVER.finditer(text):
        yield (
            len(text[: one.start()].encode()),
            {
                "event": Event.SPARK_RECEIVER.value,
                "host": one["host"],
                "fields": {"what": "started", "stream": one["stream"], "executor": one["executor"]},
            },
        )
    for one in _QUERY.finditer(text):
        arriving, processed = float(one["arriving"]), float(one["processed"])
        if arriving > _BEHIND * processed:
            message = (
                f"Query {one['name'].strip()} processes {processed:,.0f} rows per second, but {arriving:,.0f} arrive "
                f"(averages at batch {one['batch']})"
            )
            yield len(text[: one.start()].encode()), _failure(message, "trigger-late")


def _failure(message: str, name: str) -> Row:
    return {
        "event": Event.FAILURE.value,
        "template": "plain-failure",
        "cause": message,
        "fields": {"exception": message, "class": name},
    }


def _millis(text: str) -> int | None:
    """Convert a printed local time to milliseconds since 1970, ignoring its time zone. Return None if the time is invalid.

    >>> _millis("2026/11/20 10:00:01"), _millis("2026/13/20 10:00:01")
    (1795168801000, None)
    """
    try:
        moment = datetime.fromisoformat(text.replace("/", "-").replace(" ", "T"))
    except ValueError:
        return None
    return round(moment.replace(tzinfo=UTC).timestamp() * 1000)


def _duration(text: str) -> int | None:
    """Return the milliseconds of a duration, or None for a dash.

    >>> _duration("1.2 min"), _duration("48 s"), _duration("-")
    (72000, 48000, None)
    """
    number, _, unit = text.partition(" ")
    if not unit:
        return None
    return round(float(number) * _UNITS["ms" if unit == "ms" else unit[0]])
