"""What is left to do with a message of a Spark log once it is recognised: units, failures, progress."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Final

import msgspec

from flowdiag.parsers.messages import MOMENT_MAX
from flowdiag.parsers.rows import Event, Row
from flowdiag.parsers.spark.causes import python_error
from flowdiag.parsers.spark.progress import progress_row
from flowdiag.parsers.units import duration_ms, size_bytes

PROGRESS_BYTES: Final = (
    1024 * 1024
)  # of one report; a query with hundreds of state stores fills pages
_REASON_LINES: Final = 60  # containers of a pod, a few lines each
_REASON: Final = 500
_KEPT: Final = ("source", "offset", "template", "local_us", "level", "logger", "process")


def milliseconds(text: str) -> int | None:
    """Seconds with three digits, printed with the decimal sign of some locale.

    >>> milliseconds("14.831"), milliseconds("14,831"), milliseconds("1.2.3")
    (14831, 14831, None)
    """
    found = duration_ms(text.replace(",", "."), bare="s")
    return None if found is None else round(found)


def size(text: str) -> int | None:
    """Bytes, as Spark prints them: powers of 1024, whether it says KB (up to 2.4) or KiB.

    >>> size("415.0 B"), size("12.5 KiB"), size("2,4 GB"), size("much")
    (415, 12800, 2576980378, None)
    """
    found = size_bytes(text)
    return None if found is None else round(found)


def finish(row: Row, following: Iterable[str]) -> list[Row]:
    """The rows that a recognised message comes to.

    Args:
        row: as the catalogue made it; its `fields` may be changed.
        following: the lines that belong to the record, for objects that go on there.
    """
    if row["event"] == Event.KNOWN:
        return []  # of no interest to any rule: it only keeps the drift alarm quiet
    fields = row.get("fields") or {}
    if "application" in fields:
        row["application"] = fields.pop("application")
    template = row["template"]
    if template == "executor-lost":
        row["cause"] = row.get("cause") or _reason_below(following)
    elif template == "total-delay":
        row["duration_ms"] = milliseconds(fields.pop("execution", ""))
        total = milliseconds(fields.pop("total", ""))
        if total is not None:
            fields["log_total"] = str(total)
    elif template == "job-error":
        # A failed batch has no "Total delay".
        failed = {"origin": "log", "state": "completed", "failed": "1"}
        batch = {**row, "event": Event.SPARK_BATCH.value, "fields": failed}
        row["cause"] = python_error(following) or row.get("cause") or "an error"
        return [row, batch]
    elif "Traceback (most recent call last)" in (row.get("cause") or ""):
        row["cause"] = python_error(following) or row["cause"]
    elif template == "progress":
        return _progress(row, fields.pop("progress", ""), following)
    elif template == "block-added":
        row["bytes"] = size(fields.pop("size", ""))
        free = size(fields.pop("free", ""))
        if free is not None:
            fields["free"] = str(free)
    elif template == "pid-input" and str(fields.get("time", "")).isdecimal():
        told_ms = int(fields["time"][:20])
        row["utc_us"] = told_ms * 1000 if told_ms <= MOMENT_MAX else None
    return [row]


def _reason_below(following: Iterable[str]) -> str | None:
    """Why Kubernetes ended an executor, as it stands below the line: what exited, and the container's own reason."""
    lines = [text for line in islice(following, _REASON_LINES) if (text := line.strip())]
    if not lines:
        return None
    first = lines[0] if lines[0].endswith(".") else f"{lines[0]}."
    told = next((line for line in lines[1:] if line.startswith("termination reason: ")), "")
    return f"{first} {told}".strip()[:_REASON]


def _progress(row: Row, begin: str, following: Iterable[str]) -> list[Row]:
    """The report that begins in a line and goes on below it; none where it is cut."""
    text = begin
    found = _decoded(text)
    if found is None:
        for line in following:
            text += "\n" + line
            if len(text) > PROGRESS_BYTES:
                return []
            # Only a closing brace at the margin can end it: decoding at each line is quadratic.
            if line[:1] == "}":
                found = _decoded(text)
                break
    progress = progress_row(found)
    if progress is None:
        return []
    kept = {name: row[name] for name in _KEPT if row.get(name) is not None}
    return [{**kept, **progress}]


def _decoded(text: str) -> object:
    try:
        return msgspec.json.decode(text.encode("utf-8", "replace"))
    except (msgspec.DecodeError, RecursionError):
        return None
