"""The fast scan of an event log finds the same lines as parsing every line, wherever it is split."""

from __future__ import annotations

import gzip
import io
import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowdiag.parsers.discover import discover, limit_to_engine
from flowdiag.parsers.lines.scan import LINE_BYTES, Line, make_matcher
from flowdiag.parsers.source import Source, open_source
from flowdiag.parsers.spark.lines import EventScanner
from flowdiag.parsers.split import Split, parse_split
from tests.archives import unpacked

Json = dict[str, Any]

ROOT = Path(__file__).parents[2] / "fixtures" / "recordings" / "spark"
LOGS = sorted(path.parent for path in ROOT.glob("*/*/truth.json"))
PROGRESS = "org.apache.spark.sql.streaming.StreamingQueryListener$QueryProgressEvent"

LINES = (
    b'{"Event":"SparkListenerTaskEnd","Stage ID":1}',
    b'{"Event": "SparkListenerTaskEnd", "Stage ID": 2}',
    b'{"Event":"SparkListenerTaskEnd","Stage ID":3}\r',
    b'  {"Event":"SparkListenerTaskEnd"}',
    b'{"Event":"SparkListenerJobEnd","Job ID":1}',
    b'{"Event":"SparkListenerTaskStart","Stage ID":"SparkListenerTaskEnd"}',
    b'{"Event":"' + PROGRESS.encode() + b'","progress":{}}\r',
    b'{"late":1,"Event":"SparkListenerJobEnd"}',
    b'{"flowdiag_listener":1,"event":"header"}',
    b"not JSON, but SparkListenerJobEnd",
    b"nothing at all",
    b"",
    b"\r",
    "größer".encode(),
)
EXPECTED = {4, 6, 7, 8, 9}
TASKS = {0, 1, 2, 3, 5}


def scan(data: bytes, start: int, end: int, buffer_bytes: int) -> tuple[list[Line], list[Line]]:
    """Return the relevant lines of a range, and its task ends."""
    tasks: list[Line] = []
    scanner = EventScanner(
        io.BytesIO(data),
        make_matcher(("SparkListenerTaskEnd", "SparkListenerJobEnd", "flowdiag_listener")),
        start,
        end,
        event_names=("SparkListenerJobEnd",),
        take_task=lambda view, offset: tasks.append(Line(offset, bytes(view), False)),
        buffer_bytes=buffer_bytes,
    )
    return list(scanner), tasks


@given(
    chosen=st.lists(st.integers(0, len(LINES) - 1), max_size=30),
    ended=st.booleans(),
    cuts=st.lists(st.integers(0, 2000), max_size=4),
    buffer_bytes=st.integers(8, 4000),
)
def test_any_split_and_any_buffer_give_the_same_lines(
    chosen: list[int], ended: bool, cuts: list[int], buffer_bytes: int
) -> None:
    data = b"\n".join(LINES[n] for n in chosen) + (b"\n" if ended else b"")
    offsets = [sum(len(LINES[n]) + 1 for n in chosen[:i]) for i in range(len(chosen))]
    edges = sorted({0, *(cut for cut in cuts if cut < len(data))})
    found = [scan(data, a, b, buffer_bytes) for a, b in zip(edges, [*edges[1:], -1], strict=True)]
    event_names = [line for lines, _ in found for line in lines]
    tasks = [line for _, lines in found for line in lines]
    assert [(line.offset, line.data) for line in event_names] == [
        (at, LINES[n].rstrip(b"\r")) for at, n in zip(offsets, chosen, strict=True) if n in EXPECTED
    ]
    assert [(line.offset, line.data) for line in tasks] == [
        (at, LINES[n]) for at, n in zip(offsets, chosen, strict=True) if n in TASKS
    ]


def test_an_endless_line_is_cut_off() -> None:
    data = b'{"Event":"SparkListenerTaskEnd","Task Info":"' + b"x" * (LINE_BYTES + 10) + b'"}\n'
    lines, tasks = scan(data * 2, 0, -1, 256 * 1024)
    assert tasks == []
    assert [(line.offset, len(line.data), line.truncated) for line in lines] == [
        (0, LINE_BYTES, True),
        (len(data), LINE_BYTES, True),
    ]


def number(value: object, key: str) -> int:
    found = value.get(key, 0) if isinstance(value, dict) else 0
    return int(found)


def by_json(lines: Iterable[bytes]) -> Counter[tuple[int, int, str, str]]:
    """Count tasks by stage, attempt and executor with the standard library's parser."""
    sums: Counter[tuple[int, int, str, str]] = Counter()
    for line in lines:
        try:
            event: Json = json.loads(line)
        except ValueError:
            continue
        if event.get("Event") != "SparkListenerTaskEnd":
            continue
        info, metrics = event["Task Info"], event.get("Task Metrics") or {}
        read, shuffle = metrics.get("Input Metrics"), metrics.get("Shuffle Read Metrics")
        found = {"failed": int(info["Failed"])}
        if not (info["Failed"] or info["Killed"]):
            found = {
                "tasks": 1,
                "total_ms": info["Finish Time"] - info["Launch Time"],
                "records": number(read, "Records Read") + number(shuffle, "Total Records Read"),
                "gc_ms": number(metrics, "JVM GC Time"),
                "spilled": number(metrics, "Disk Bytes Spilled"),
                "fetch_ms": number(shuffle, "Fetch Wait Time"),
                "written": number(metrics.get("Output Metrics"), "Records Written"),
            }
        for name, value in found.items():
            key = (event["Stage ID"], event["Stage Attempt ID"], info["Executor ID"], name)
            sums[key] += value
    return sums


def by_us(splits: Iterable[Split]) -> Counter[tuple[int, int, str, str]]:
    sums: Counter[tuple[int, int, str, str]] = Counter()
    names = ("tasks", "failed", "total_ms", "records", "gc_ms", "spilled", "fetch_ms", "written")
    for split in splits:
        for batch in parse_split(split):
            for row in batch.select(["event", "checkpoint", "attempt", "fields"]).to_pylist():
                if row["event"] == "spark_tasks":
                    fields = dict(row["fields"])
                    for name in names:
                        key = (row["checkpoint"], row["attempt"], fields["executor"], name)
                        sums[key] += int(fields[name])
    return sums


def decoded(source: Source) -> bytes:
    with open_source(source) as stream:
        return stream.read()


@pytest.mark.parametrize("folder", LOGS, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_sums_of_recorded_tasks(folder: Path, tmp_path: Path) -> None:
    """Sums match the recorded tasks, read whole and in small pieces."""
    sources = limit_to_engine(discover([str(unpacked(folder) / "eventlog")]), "spark").sources
    logs = [source for source in sources if source.kind == "spark-events"]
    assert logs
    for source in logs:
        data = decoded(source)
        expected = +by_json(data.splitlines())
        assert +by_us([Split(source, 0, -1)]) == expected
        plain = tmp_path / "log"
        plain.write_bytes(data)
        (copy,) = discover([str(plain)]).sources
        edges = range(0, len(data), 20_011)
        cuts = zip(edges, [*edges[1:], -1], strict=True)
        assert +by_us(Split(copy, a, b) for a, b in cuts) == expected


def test_compressed_logs_give_the_same_lines(tmp_path: Path) -> None:
    folder = unpacked(next(path for path in LOGS if path.name == "stable")) / "eventlog"
    data = b"".join(decoded(source) for source in discover([str(folder)]).sources)
    path = tmp_path / "log.gz"
    path.write_bytes(gzip.compress(data))
    (source,) = discover([str(path)]).sources
    assert by_us([Split(source, 0, -1)]) == by_json(data.splitlines())
