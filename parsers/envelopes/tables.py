"""Tables of log lines: rows with named columns, CSV, and the text that Grafana downloads."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from flowdiag.parsers.envelopes.objects import (
    DEPTH,
    Unwrapped,
    decoded,
    process_of_labels,
    unwrap,
)

Event = tuple[str | dict[str, Any], dict[str, Any]]
"""A log record that is not unwrapped yet, and the labels that it inherits."""

LABEL: Final = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


# Names of columns, in small letters, and the key that means the same to `unwrap`.
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
    """Turn rows into objects; None unless there are a column of text and another one."""
    known = [str(name).strip().removesuffix("[UTC]").strip().lower() for name in names]
    where = {
        key: next((known.index(column) for column in columns if column in known), None)
        for key, columns in _COLUMNS.items()
    }
    if where["message"] is None or len(known) < 2:
        return None
    found: list[Event] = []
    for row in rows:
        event = {
            key: row[at]
            for key, at in where.items()
            if at is not None and at < len(row) and row[at] not in (None, "")
        }
        written = event.get("labels")
        if isinstance(written, str):
            below = decoded(written)
            event["labels"] = below if isinstance(below, dict) else dict(LABEL.findall(written))
        found.append((event, labels))
    return found


def events_of_csv(text: str) -> Iterator[Unwrapped]:
    """Read CSV whose header names a column of log lines, as Splunk, Kibana and Grafana export."""
    first = text[: text.find("\n") + 1]
    separator = "\t" if "\t" in first else ";" if ";" in first and "," not in first else ","
    csv.field_size_limit(64 * 1024 * 1024)
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
    try:
        names = next(rows, [])
        for event, labels in events_of_rows(names, rows, {}) or ():
            if isinstance(event, dict) and (unwrapped := unwrap(event | labels, DEPTH)):
                yield unwrapped
    except csv.Error:  # NUL bytes, or a quote that is never closed
        return


_GRAFANA: Final = re.compile(r"(\d{13})\t\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z\t", re.ASCII)


def events_of_grafana(text: str) -> list[Unwrapped]:
    """Read what Grafana Explore downloads as text: epoch, time and entry, newest first."""
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
            labels = decoded(line.removeprefix("Common labels: "))
        elif len(line) > 4096:
            break
    process = process_of_labels(labels) if isinstance(labels, dict) else None
    for event in events:
        event.process = event.process or process
        event.text = event.text.rstrip("\n")
    return events
