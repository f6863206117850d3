"""Completes the rows of recognized messages in a Spark log: units, failures, progress."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any, Final

import msgspec

from flowdiag.parsers.messages import MOMENT_MAX
from flowdiag.parsers.rows import Event, Row
from flowdiag.parsers.spark import NO_REASON
from flowdiag.parsers.spark.causes import python_error
from flowdiag.parsers.spark.progress import progress_row
from flowdiag.parsers.units import duration_ms, size_bytes

# Maximum size of a report; a query with hundreds of state stores fills pages.
PROGRESS_BYTES: Final = 1024 * 1024
_REASON_LINES: Final = 60  # maximum lines about a pod's containers, which take a few lines each
_REASON: Final = 500
_KEPT: Final = ("source", "offset", "template", "local_us", "level", "logger", "process")


def parse_seconds_ms(text: str) -> int | None:
    """Parse seconds with three decimals, printed in any locale, into milliseconds.

    >>> parse_seconds_ms("14.831"), parse_seconds_ms("14,831"), parse_seconds_ms("1.2.3")
    (14831, 14831, None)
    """
    found = duration_ms(text.replace(",", "."), bare="s")
    return None if found is None else round(found)


def parse_size(text: str) -> int | None:
    """Parse a size printed by Spark into bytes: powers of 1024, as KB (up to 2.4) or KiB.

    >>> parse_size("415.0 B"), parse_size("12.5 KiB"), parse_size("2,4 GB"), parse_size("much")
    (415, 12800, 2576980378, None)
    """
    found = size_bytes(text)
    return None if found is None else round(found)


def finish(row: Row, following: Iterable[str]) -> list[Row]:
    """Return the rows for a recognized message.

    Args:
        row: row from the catalogue, whose `fields` may be modified.
        following: the other lines of the record, for objects that continue there.
    """
    if row["event"] == Event.KNOWN:
        return []  # no rule uses it; it only avoids the warning about unrecognized records
    fields = row.get("fields") or {}
    if "application" in fields:
        row["application"] = fields.pop("application")
    has_traceback = "Traceback (most recent call last)" in (row.get("cause") or "")
    if has_traceback and row["template"] not in _WITH_OWN_CAUSE:
        row["cause"] = python_error(following) or row["cause"]
        return [row]
    finish_template = _TEMPLATES.get(row["template"])
    return [row] if finish_template is None else finish_template(row, fields, following)


def _executor_lost(row: Row, fields: Fields, following: Iterable[str]) -> list[Row]:
    """Add why Kubernetes ended an executor, from the lines below: which container exited, and why."""
    lines = [text for line in islice(following, _REASON_LINES) if (text := line.strip())]
    if lines and not row.get("cause"):
        first = lines[0] if lines[0].endswith(".") else f"{lines[0]}."
        reasons = filter(None, map(_TERMINATION.search, lines[1:]))
        reason = next((f"termination reason: {found[1] or found[2]}" for found in reasons), "")
        row["cause"] = f"{first} {reason}".strip()[:_REASON]
    return [row]


def _total_delay(row: Row, fields: Fields, following: Iterable[str]) -> list[Row]:
    row["duration_ms"] = parse_seconds_ms(fields.pop("execution", ""))
    total = parse_seconds_ms(fields.pop("total", ""))
    if total is not None:
        fields["log_total"] = str(total)
    return [row]


def _job_error(row: Row, fields: Fields, following: Iterable[str]) -> list[Row]:
    # For a failed batch, there is no "Total delay" message.
    failed = {"origin": "log", "state": "completed", "failed": "1"}
    batch = {**row, "event": Event.SPARK_BATCH.value, "fields": failed}
    row["cause"] = python_error(following) or row.get("cause") or NO_REASON
    return [row, batch]


def _block_added(row: Row, fields: Fields, following: Iterable[str]) -> list[Row]:
    row["bytes"] = parse_size(fields.pop("size", ""))
    free = parse_size(fields.pop("free", ""))
    if free is not None:
        fields["free"] = str(free)
    return [row]


def _pid_input(row: Row, fields: Fields, following: Iterable[str]) -> list[Row]:
    if str(fields.get("time", "")).isdecimal():
        time_ms = int(fields["time"][:20])
        row["utc_us"] = time_ms * 1000 if time_ms <= MOMENT_MAX else None
    return [row]


def _progress(row: Row, fields: Fields, following: Iterable[str]) -> list[Row]:
    """Parse the progress report that starts in the message and continues below it. A truncated report yields no row."""
    text = fields.pop("progress", "")
    found = _decode(text)
    if found is None:
        for line in following:
            text += "\n" + line
            if len(text) > PROGRESS_BYTES:
                return []
            # Only an unindented closing brace can end it. Decoding after each line would take quadratic time.
            if line[:1] == "}":
                found = _decode(text)
                break
    progress = progress_row(found)
    if progress is None:
        return []
    kept = {name: row[name] for name in _KEPT if row.get(name) is not None}
    return [{**kept, **progress}]


Fields = dict[str, Any]

_TEMPLATES: Final[dict[str, Callable[[Row, Fields, Iterable[str]], list[Row]]]] = {
    "executor-lost": _executor_lost,
    "total-delay": _total_delay,
    "job-error": _job_error,
    "progress": _progress,
    "block-added": _block_added,
    "rdd-block-stored": _block_added,
    "pid-input": _pid_input,
}
# The line about a container that ended, or the printed object.
_TERMINATION: Final = re.compile(
    r"\Atermination reason: (\w{3,60})|ContainerStateTerminated\([^()]{0,2000}?(?:\([^()]{0,400}\)[^()]{0,2000}?)?\breason=(?!null)(\w{3,60})"
)
_WITH_OWN_CAUSE: Final = ("executor-lost", "total-delay", "job-error")


def _decode(text: str) -> object:
    try:
        return msgspec.json.decode(text.encode("utf-8", "replace"))
    except (msgspec.DecodeError, RecursionError):
        return None
