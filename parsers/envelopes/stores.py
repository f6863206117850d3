"""Finds the events in responses and exports of log stores, with the labels that the events inherit.

Each reader in `STORES` takes one JSON object. It returns the events, a nested value that contains them, or None for
an object in another format.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from flowdiag.parsers.envelopes.content import holds_records
from flowdiag.parsers.envelopes.keys import Fields, is_of_event
from flowdiag.parsers.envelopes.tables import LABEL, Event, events_of_rows


@dataclass(frozen=True, slots=True)
class Nested:
    """A nested value that contains events, and the labels that they inherit."""

    value: object
    labels: dict[str, Any]


Found = Nested | Iterable[Event] | None


def pairs_in(row: object, key: str, value: str) -> dict[str, Any]:
    """Convert a list of key-value objects to one object."""
    if not isinstance(row, list):
        return {}
    return {
        item[key]: item.get(value)
        for item in row
        if isinstance(item, dict) and isinstance(item.get(key), str)
    }


def loki(value: dict[str, Any], labels: dict[str, Any]) -> Found:
    """Read Loki's responses (old and new format) and push requests: streams with labels and lines."""
    if isinstance(streams := value.get("streams"), list):
        return Nested(streams, labels)
    data = value.get("data")
    if isinstance(data, dict) and data.get("resultType") == "streams":
        return Nested(data.get("result"), labels)
    lines, stream = value.get("values"), value.get("stream")
    if isinstance(lines, list) and isinstance(stream, dict):
        # A third element contains labels for this line only.
        return (
            (
                {"timestamp": line[0], "line": line[1]},
                labels | stream | (line[2] if len(line) > 2 and isinstance(line[2], dict) else {}),
            )
            for line in lines
            if isinstance(line, list) and len(line) > 1
        )
    lines, written = value.get("entries"), value.get("labels")
    if isinstance(lines, list) and isinstance(written, str):
        return Nested(lines, labels | dict(LABEL.findall(written)))
    return None


def elasticsearch(value: dict[str, Any], labels: dict[str, Any]) -> Found:
    """Read responses of Elasticsearch and OpenSearch, and exports of Kibana."""
    hits = value.get("hits")
    if isinstance(hits, dict) and isinstance(hits.get("hits"), list):
        return Nested(hits["hits"], labels)
    if isinstance(responses := value.get("responses"), list):
        return Nested(responses, labels)
    return None


def cloudwatch(value: dict[str, Any], labels: dict[str, Any]) -> Found:
    """Read a batch of a log stream, as CloudWatch sends it to subscribers."""
    events = value.get("logEvents")
    if not isinstance(events, list):
        return None
    return Nested(events, labels | {"logStream": value.get("logStream")})


def opentelemetry(value: dict[str, Any], labels: dict[str, Any]) -> Found:
    """Read exports of OpenTelemetry, where the attributes of a resource are labels of its records."""
    resources = value.get("resourceLogs")
    if not isinstance(resources, list):
        return None
    found: list[Event] = []
    for resource in resources:
        if not isinstance(resource, dict):
            continue
        named = labels | _attributes(_nested_value(resource, "resource", "attributes"))
        for scope in resource.get("scopeLogs") or resource.get("instrumentationLibraryLogs") or ():
            records = scope.get("logRecords") if isinstance(scope, dict) else None
            for record in records if isinstance(records, list) else ():
                if isinstance(record, dict):
                    found.append((record, named | _attributes(record.get("attributes"))))
    return found


def _nested_value(value: Fields, outer: str, inner: str) -> object:
    below = value.get(outer)
    return below.get(inner) if isinstance(below, dict) else None


def _attributes(attributes: object) -> dict[str, Any]:
    pairs = pairs_in(attributes, "key", "value")
    return {
        key: value["stringValue"]
        for key, value in pairs.items()
        if isinstance(value, dict) and "stringValue" in value
    }


def column_table(value: dict[str, Any], labels: dict[str, Any]) -> Found:
    """Read tables: rows from Azure and Elasticsearch, and columns from Grafana's data frames."""
    tables = value.get("tables")
    if isinstance(tables, list):
        return Nested(tables, labels)
    columns, rows = value.get("columns"), value.get("rows") or value.get("values")
    if isinstance(columns, list) and isinstance(rows, list):
        names = [column.get("name") if isinstance(column, dict) else column for column in columns]
        return events_of_rows(names, (row for row in rows if isinstance(row, list)), labels)
    fields, columns = (
        _nested_value(value, "schema", "fields"),
        _nested_value(value, "data", "values"),
    )
    if isinstance(fields, list) and isinstance(columns, list):
        names = [field.get("name") if isinstance(field, dict) else field for field in fields]
        if all(isinstance(column, list) for column in columns):
            return events_of_rows(names, zip(*columns, strict=False), labels)
    return None


def command_output(value: dict[str, Any], labels: dict[str, Any]) -> Found:
    """Read command output in the results of remote execution tools (Ansible, Salt, the API of a CI runner)."""
    return [*_command_output(value, labels, _COMMAND_DEPTH)] or None


def _command_output(value: object, labels: dict[str, Any], depth: int) -> Iterator[Event]:
    """Yield command output, whole or by line. Ansible's results contain both forms, under a key per host."""
    if not depth:
        return
    if isinstance(value, list):
        for inner in value:
            yield from _command_output(inner, labels, depth - 1)
    if not isinstance(value, dict) or is_of_event(value):
        return  # a record keeps the other values of its object, even if its text has several lines
    texts = [inner.split("\n") for inner in value.values() if isinstance(inner, str)]
    lists = [inner for inner in value.values() if isinstance(inner, list)]
    lines = next(filter(holds_records, (*lists, *texts)), None)
    if lines is not None:
        yield "\n".join(lines), labels
        return
    for key, inner in value.items():
        if key == "hosts" and isinstance(inner, dict):
            for host, below in inner.items():
                yield from _command_output(below, labels | {"host": host}, depth - 1)
        else:
            yield from _command_output(inner, labels, depth - 1)


_COMMAND_DEPTH: Final = 8  # plays, tasks, hosts, results, each a list or an object


STORES: Final[tuple[Callable[[dict[str, Any], dict[str, Any]], Found], ...]] = (
    loki,
    elasticsearch,
    opentelemetry,
    column_table,
    cloudwatch,
    command_output,
)
"""Readers for all known formats with many events, in the order in which they are tried."""
