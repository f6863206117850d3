"""Checks that a recorded log gives the same events in any container or format."""

import csv
import gzip
import io
import json
import lzma
import re
import tarfile
import zipfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import zstandard

from flowdiag.parsers.discover import discover
from flowdiag.parsers.split import parse_split, plan_splits
from tests.archives import FIXTURES, unpacked

RECORDING = FIXTURES / "recordings/flink/1.10.3/taskmanager-killed-no-slots"
COLUMNS = ("event", "template", "local_us", "level", "logger", "checkpoint", "job_id", "task",
           "subtask_index", "attempt_id", "taskmanager", "duration_ms", "bytes", "cause")  # fmt: skip
# The start-up preamble is one record with lines that resemble records: not compared.
TEMPLATES = re.compile(r"checkpoint|late|deploy|switched|state|declin")


def rows_of(path: Path) -> tuple[list[tuple[Any, ...]], list[dict[str, Any]]]:
    found = discover([str(path)])
    assert found.warnings == found.errors == ()
    rows = [
        row
        for task in plan_splits(found.sources)
        for split in task
        for batch in parse_split(split)
        for row in batch.to_pylist()
    ]
    splits = [dict(row["fields"]) for row in rows if row["event"] == "split"]
    events = [
        tuple(row[name] for name in COLUMNS)
        for row in rows
        if row["template"] and TEMPLATES.search(row["template"])
    ]
    return events, splits


Record = tuple[int, list[str]]


def records_of(text: str) -> list[Record]:
    """Return epoch milliseconds and lines of each record."""
    records: list[Record] = []
    for line in text.splitlines():
        found = re.match(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d),(\d{3}) ", line)
        if found or not records:
            stamp = found[1] if found else "2026-01-01 00:00:00"
            at = datetime.fromisoformat(stamp).replace(tzinfo=UTC)
            records.append((int(at.timestamp()) * 1000 + int(found[2] if found else 0), []))
        records[-1][1].append(line)
    return records


def iso(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds")[:23] + "Z"


Event = tuple[int, str]


def lines(values: Any) -> bytes:
    return b"".join(json.dumps(value).encode() + b"\n" for value in values)


def whole(value: Any) -> bytes:
    return json.dumps(value, indent=1).encode()


def table(rows: list[tuple[object, ...]]) -> bytes:
    sink = io.StringIO()
    csv.writer(sink).writerows(rows)
    return sink.getvalue().encode()


CARRIERS: dict[str, Callable[[list[Event]], bytes]] = {
    "docker": lambda events: lines(
        {"log": text + "\n", "stream": "stdout", "time": iso(ms)} for ms, text in events
    ),
    "Fluent Bit": lambda events: lines(
        {"date": ms / 1000, "log": text, "kubernetes": {"pod_name": "jm"}} for ms, text in events
    ),
    "logcli": lambda events: lines(
        {"labels": {"pod": "jm"}, "line": text, "timestamp": iso(ms)} for ms, text in events
    ),
    "Loki": lambda events: whole(
        {
            "data": {
                "resultType": "streams",
                "result": [
                    {
                        "stream": {"pod": "jm"},
                        "values": [[str(ms * 10**6), text] for ms, text in events[::-1]],
                    }
                ],
            }
        }
    ),
    "Grafana": lambda events: whole(
        [
            {"line": text, "timestamp": str(ms * 10**6), "fields": {"pod": "jm"}}
            for ms, text in events[::-1]
        ]
    ),
    "Grafana text": lambda events: (
        'Common labels: {"pod":"jm"}\n\n\n'
        + "".join(f"{ms}\t{iso(ms)}\t{text}\n" for ms, text in events[::-1])
    ).encode(),
    "Elasticsearch": lambda events: whole(
        {
            "hits": {
                "hits": [
                    {"_source": {"@timestamp": iso(ms), "message": text, "host": {"name": "h"}}}
                    for ms, text in events[::-1]
                ]
            }
        }
    ),
    "elasticdump": lambda events: lines(
        {"_index": "i", "_source": {"@timestamp": iso(ms), "message": text}} for ms, text in events
    ),
    "CloudWatch": lambda events: whole(
        {"events": [{"timestamp": ms, "message": t, "logStreamName": "jm"} for ms, t in events]}
    ),
    "Insights": lambda events: whole(
        {
            "results": [
                [
                    {"field": "@timestamp", "value": iso(ms)[:-1].replace("T", " ")},
                    {"field": "@message", "value": text},
                ]
                for ms, text in events[::-1]
            ]
        }
    ),
    "Google": lambda events: whole(
        [
            {"textPayload": text, "timestamp": iso(ms), "resource": {"labels": {"pod_name": "jm"}}}
            for ms, text in events[::-1]
        ]
    ),
    "Splunk lines": lambda events: lines(
        {"preview": False, "result": {"_raw": text, "_time": iso(ms), "host": "h"}}
        for ms, text in events
    ),
    "Splunk table": lambda events: table(
        [("_time", "host", "_raw"), *((iso(ms), "h", text) for ms, text in events[::-1])]
    ),
    "Azure": lambda events: whole(
        {
            "tables": [
                {
                    "columns": [{"name": "TimeGenerated"}, {"name": "LogMessage"}],
                    "rows": [[iso(ms), text] for ms, text in events[::-1]],
                }
            ]
        }
    ),
    "array": lambda events: whole([text for _, text in events]),
    "array, newest first": lambda events: whole([text for _, text in events[::-1]]),
}


def recorded() -> list[Path]:
    return [unpacked(RECORDING) / "logs" / "flink-flink-standalonesession-0-jobmanager.log"]


def zipped(data: bytes) -> bytes:
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as container:
        container.writestr("logs/x.log", data)
    return sink.getvalue()


def tarred(data: bytes) -> bytes:
    sink = io.BytesIO()
    with tarfile.open(fileobj=sink, mode="w:gz") as container:
        info = tarfile.TarInfo("logs/x.log")
        info.size = len(data)
        container.addfile(info, io.BytesIO(data))
    return sink.getvalue()


WRAPPINGS: dict[str, Callable[[str], bytes]] = {
    "xz": lambda text: lzma.compress(text.encode()),
    "zstd": lambda text: b"".join(
        zstandard.compress(line.encode()) for line in text.splitlines(keepends=True)
    ),
    "zip": lambda text: zipped(gzip.compress(text.encode())),
    "tar": lambda text: tarred(text.encode()),
    "UTF-16": lambda text: text.encode("utf-16"),
    "UTF-16 without mark": lambda text: text.encode("utf-16-be"),
    "UTF-8 with mark": lambda text: text.encode("utf-8-sig"),
    "CR LF": lambda text: text.replace("\n", "\r\n").encode(),
    "a hole in front": lambda text: bytes(70_000) + text.encode(),
}


@pytest.mark.parametrize("wrapping", WRAPPINGS)
@pytest.mark.parametrize("path", recorded(), ids=lambda path: "-".join(path.parts[-4:-2]))
def test_any_wrapping_gives_the_same_events(path: Path, wrapping: str, tmp_path: Path) -> None:
    text = path.read_text()
    plain, wrapped = tmp_path / "plain", tmp_path / "wrapped"
    plain.write_text(text)
    wrapped.write_bytes(WRAPPINGS[wrapping](text))
    found, splits = rows_of(wrapped)
    assert "error" not in splits[0]
    assert found == rows_of(plain)[0]


def test_a_cut_file_gives_the_events_before_the_cut_and_an_error(tmp_path: Path) -> None:
    path = recorded()[0]
    whole, part = tmp_path / "whole.gz", tmp_path / "part.gz"
    data = gzip.compress(path.read_bytes())
    whole.write_bytes(data)
    part.write_bytes(data[: len(data) * 3 // 4])
    expected, (found, splits) = rows_of(whole)[0], rows_of(part)
    assert len(expected) // 3 < len(found) < len(expected)
    assert found[:-1] == expected[: len(found) - 1]
    assert splits[0]["error"].startswith("truncated gzip after ")


@pytest.mark.parametrize("carrier", CARRIERS)
@pytest.mark.parametrize(
    "path",
    [
        pytest.param(
            path,
            id="-".join(path.parts[-4:-2]),
            marks=[pytest.mark.full] if number else [],
        )
        for number, path in enumerate(recorded())
    ],
)
def test_any_carrier_gives_the_same_events(path: Path, carrier: str, tmp_path: Path) -> None:
    text = path.read_text()
    plain = tmp_path / "plain.log"
    plain.write_text(text)
    expected, _ = rows_of(plain)
    assert len(expected) > 20
    by_record = [(ms, "\n".join(record)) for ms, record in records_of(text)]
    by_line = [(ms, line) for ms, record in records_of(text) for line in record]
    for name, events in (("record", by_record), ("line", by_line)):
        if name == "line" and carrier == "array, newest first":
            continue  # nothing shows to which record a line belongs
        file = tmp_path / name
        file.write_bytes(CARRIERS[carrier](events))
        found, splits = rows_of(file)
        assert "error" not in splits[0]
        assert found == expected, (carrier, name)
