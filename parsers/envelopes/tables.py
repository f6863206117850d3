"""Reads tables of log lines: rows with named columns, CSV, and text downloads from Grafana."""

from __future__ import annotations

import csv
import io
import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from flowdiag.parsers.envelopes.content import SAMPLE_ROWS, record_column, time_column
from flowdiag.parsers.envelopes.objects import (
    DEPTH,
    Unwrapped,
    decode_or_none,
    process_of_labels,
    unwrap,
)
from flowdiag.parsers.envelopes.times import read_time
from flowdiag.parsers.lines import prefix
from flowdiag.parsers.lines.traces import is_trace_line

Event = tuple[str | dict[str, Any], dict[str, Any]]
"""A log record before unwrapping, and its inherited labels."""

LABEL: Final = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


_FIRST_ROWS: Final = 20  # number of rows that determine whether a text is a table

# Lower-case column names, by the equivalent key for `unwrap`.
_COLUMNS: Final = {
    "message": ("_raw", "line", "message", "@message", "log", "msg", "textpayload", "logmessage",
                "logentry", "jsonpayload.message", "content", "body", "_source.message"),
    "timestamp": ("tsns", "_time", "@timestamp", "timestamp", "timegenerated", "date", "time",
                  "datetime"),
    "pod": ("pod", "pod_name", "podname", "kubernetes.pod_name", "kubernetes.pod.name",
            "resource.labels.pod_name"),
    "container_name": ("container_name", "containername", "kubernetes.container_name",
                       "resource.labels.container_name", "container.name"),
    "logStream": ("logstreamname", "@logstream", "logstream"),
    "host": ("host", "hostname", "host.name", "computer", "instance"),
    "source": ("source", "filename", "log.file.path"),
    "labels": ("labels",),
    "level": ("level", "log.level", "severity", "loglevel", "status"),
    "logger": ("logger", "loggername", "logger_name", "log.logger"),
}  # fmt: skip


def events_of_rows(
    names: Sequence[object], rows: Iterable[Sequence[Any]], labels: dict[str, Any]
) -> list[Event] | None:
    """Convert rows to objects; return None unless there is a column of log records and at least one other column.

    The column names decide, unless the cells show that another column contains the records.
    """
    known = [str(name).strip().removesuffix("[UTC]").strip().lower() for name in names]
    where = {
        key: next((known.index(column) for column in columns if column in known), None)
        for key, columns in _COLUMNS.items()
    }
    if len(known) < 2:
        return None
    rows = iter(rows)
    first = [*itertools.islice(rows, SAMPLE_ROWS)]
    where["message"] = record_column(first, where["message"])
    if where["message"] is None:
        return None
    if where["timestamp"] is None:
        where["timestamp"] = time_column(first, where["message"])
    found: list[Event] = []
    for row in itertools.chain(first, rows):
        event = {
            key: row[at]
            for key, at in where.items()
            if at is not None and at < len(row) and row[at] not in (None, "")
        }
        written = event.get("labels")
        if isinstance(written, str):
            below = decode_or_none(written)
            event["labels"] = below if isinstance(below, dict) else dict(LABEL.findall(written))
        found.append((event, labels))
    return found


def separator_of(text: str) -> str:
    """Determine the column separator of a table from its first line."""
    first = text[: text.find("\n") + 1]
    return "\t" if "\t" in first else ";" if ";" in first and "," not in first else ","


def is_table_of_records(text: str) -> bool:
    """Return whether the first rows of a text have the same columns, one of them with log records.

    A log can look like a table by chance, so a text that starts with a log header or known carriers is not a table.
    In CSV, a column of log lines is quoted, because the lines contain commas.
    """
    separator = separator_of(text)
    between = ',"' if separator == "," else separator
    if between not in text or separator not in text.partition("\n")[0]:
        return False
    if _begins_like_log(text, separator, between):
        return False
    try:
        rows = [*itertools.islice(csv.reader(io.StringIO(text), delimiter=separator), _FIRST_ROWS)]
    except csv.Error:
        return False
    if len(rows) < 2 or len(rows[0]) < 2 or len({len(row) for row in rows[:-1]}) > 1:
        return False
    return record_column(rows[:-1] if len(rows) > 2 else rows) is not None


def _begins_like_log(text: str, separator: str, between: str) -> bool:
    """Return whether one of the first lines has a log header before a separator, or is part of a stack trace."""
    # Log headers contain tabs as well. Only rows below a line of column names are certainly a table.
    for line in text.split("\n", 6)[: 1 if separator == "\t" else 6]:
        head = prefix.parse(line[:4096])
        if not head.complete or not all(carrier.name for carrier in head.carriers):
            continue
        if separator == "\t" or between not in head.text[: head.begin]:
            return True
    # A date or a count precedes the exception.
    return any(is_trace_line(line) for line in text.split("\n", 4)[1:3])


def events_of_csv(text: str) -> Iterator[Unwrapped]:
    """Read CSV with a column of log lines, with or without a header row, as log stores export it."""
    csv.field_size_limit(64 * 1024 * 1024)
    rows: Iterator[list[str]] = csv.reader(
        io.StringIO(text, newline=""), delimiter=separator_of(text)
    )
    try:
        names = next(rows, [])
        if any(read_time(name) != (None, None) for name in names):  # no header row
            rows = itertools.chain([names], rows)
            names = [""] * len(names)
        for event, labels in events_of_rows(names, rows, {}) or ():
            if isinstance(event, dict) and (unwrapped := unwrap(event | labels, DEPTH)):
                yield unwrapped
    except csv.Error:  # NUL bytes, or a quote that is never closed
        return


_GRAFANA: Final = re.compile(r"(\d{13})\t\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z\t", re.ASCII)


def events_of_grafana(text: str) -> list[Unwrapped]:
    """Read text downloads from Grafana Explore: epoch, time and entry, newest first."""
    events: list[Unwrapped] = []
    labels: object = None
    for line in text.split("\n"):
        line = line.rstrip("\r")
        if found := _GRAFANA.match(line):
            event = unwrap({"timestamp": found[1], "line": line[found.end() :] or " "}, DEPTH)
            if event is not None:
                events.append(event)
            else:
                events.append(Unwrapped("", timestamp_us=int(found[1]) * 1000))
        elif events:
            events[-1].text += "\n" + line
        elif line.startswith("Common labels: "):
            labels = decode_or_none(line.removeprefix("Common labels: "))
        elif len(line) > 4096:
            break
    process = process_of_labels(labels) if isinstance(labels, dict) else None
    for event in events:
        event.process = event.process or process
        event.text = event.text.rstrip("\n")
    return events
