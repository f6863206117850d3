"""Checks that real logs give the same facts in every known layout."""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from flowdiag.parsers.catalogue import FILES, load_catalogue
from flowdiag.parsers.discover import discover
from flowdiag.parsers.formats import read_format
from flowdiag.parsers.split import parse_split, plan_splits
from tests import relay
from tests.archives import unpacked
from tests.recordings import RECORDINGS

CASES = {
    "1.9.3": "1.9.3/async-failure",
    "2.3.0": "2.3.0/hot-key",
}

ABOUT_THE_LINE = ("source", "offset", "local_us", "utc_us", "clock", "thread", "process")


@cache
def records(case: str) -> list[relay.Record]:
    logs = unpacked(RECORDINGS / CASES[case]) / "logs"
    text = (logs / "flink-flink-standalonesession-0-jobmanager.log").read_text()
    return relay.sample(relay.read(text))


def rows_of(path: Path) -> list[dict[str, Any]]:
    found = []
    for task in plan_splits(discover([str(path)]).sources):
        for split in task:
            for batch in parse_split(split):
                found += batch.to_pylist()
    return [
        {
            name: dict(value) if name == "fields" else value
            for name, value in row.items()
            if value is not None
        }
        for row in found
    ]


def facts(rows: list[dict[str, Any]], logger: bool) -> list[dict[str, Any]]:
    """Return the rows without the columns that only describe the place and layout of a line."""
    left_out = (*ABOUT_THE_LINE, "level", *(() if logger else ("logger",)))
    return [
        {name: value for name, value in row.items() if name not in left_out}
        for row in rows
        if row["event"] not in ("split", "metric", "placed", "section")
    ]


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, Any]]]:
    folder = tmp_path_factory.mktemp("plain")
    found = {}
    for case in CASES:
        path = folder / f"{case}.log"
        path.write_bytes(relay.LAYOUTS[0].render(records(case)))
        found[case] = rows_of(path)
    return found


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(
    "layout",
    [
        pytest.param(layout, id=layout.name, marks=[pytest.mark.full] if number % 3 else [])
        for number, layout in enumerate(relay.LAYOUTS)
    ],
)
def test_same_facts_in_every_layout(
    layout: relay.Layout, case: str, plain: dict[str, list[dict[str, Any]]], tmp_path: Path
) -> None:
    path = tmp_path / "relaid.log"
    path.write_bytes(layout.render(records(case)))
    rows = rows_of(path)
    split = rows[-1]["fields"]
    assert "error" not in split
    assert split["not_understood"] == "0", split
    assert facts(rows, layout.logger) == facts(plain[case], layout.logger)

    events = [row for row in rows if row["event"] not in ("split", "section", "metric", "placed")]
    expected = [row for row in plain[case] if row["event"] not in ("split", "metric", "placed")]
    offset = int(relay.ZONE.utcoffset(None).total_seconds()) * 1_000_000
    first = next(number for number, row in enumerate(expected) if "local_us" in row)
    for row, real in zip(events, expected, strict=True):
        if "local_us" not in real:
            continue
        local, shown = real["local_us"], row.get("local_us")
        if layout.time in ("local", "both"):
            assert abs(shown - local) < 1000
        elif layout.time == "seconds":
            assert shown == local // 1_000_000 * 1_000_000
        elif layout.time == "time-of-day":
            assert (shown, row["clock"]) == (local % 86_400_000_000, "time-of-day")
        elif layout.time == "elapsed":
            assert row["clock"] == "elapsed"
            assert shown - events[first]["local_us"] == local - expected[first]["local_us"]
        if layout.time in ("instant", "both"):
            assert abs(row["utc_us"] + offset - local) < 2000
        if layout.thread:
            assert row["thread"] in relay.THREADS
        assert row.get("process") == layout.process or layout.process is None

    counted = [
        sum(row["metric"]["count"] for row in found if row["event"] == "metric")
        for found in (rows, plain[case])
    ]
    assert counted[0] == counted[1] or not layout.reports


@cache
def sample_records() -> tuple[list[relay.Record], list[tuple[str, dict[str, Any]]]]:
    """Return one record per sample of the catalogue, with its expected row."""
    catalogue = load_catalogue()
    templates = {template.id: template for template in catalogue.templates}
    time = datetime(2024, 3, 5, 17, 4, 9, 123000)
    found: list[relay.Record] = []
    expected: list[tuple[str, dict[str, Any]]] = []
    for name in FILES:
        for entry in read_format(name)["message"]:
            template = templates[entry["id"]]
            logger = template.loggers[0] if template.loggers else "Whatever"
            for sample in entry["sample"]:
                level = template.levels[0] if template.levels else "INFO"
                text = sample["text"]
                if "\n" in text or not text.strip():
                    continue
                time += timedelta(milliseconds=7)
                found.append(
                    relay.Record(
                        time,
                        level,
                        f"org.apache.flink.runtime.{logger}",
                        relay.THREADS[len(found) % len(relay.THREADS)],
                        (text,),
                    )
                )
                values = catalogue.recognize(text, begin=0)
                assert values is not None
                expected.append((values.template.id, message_fields(values.values)))
    return found, expected


@cache
def padded() -> set[str]:
    """Return the messages with an anchor that contains consecutive spaces."""
    templates = (entry for name in FILES for entry in read_format(name)["message"])
    return {entry["id"] for entry in templates if "  " in entry["anchor"]}


# Contributed by the lines around a message.
ADDED = ("exception", "user_frame", "dump")


def message_fields(row: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of the message itself, with single spaces."""
    left_out = (*ABOUT_THE_LINE, "level", "logger", "event", "template", "fields")
    values = {name: value for name, value in row.items() if name not in left_out}
    values |= {n: v for n, v in row.get("fields", {}).items() if n not in ADDED}
    return {n: " ".join(v.split()) if isinstance(v, str) else v for n, v in values.items()}


@pytest.mark.parametrize("layout", relay.LAYOUTS, ids=lambda layout: layout.name)
def test_every_message_in_every_layout(layout: relay.Layout, tmp_path: Path) -> None:
    records, expected = sample_records()
    path = tmp_path / "relaid.log"
    path.write_bytes(layout.render(records))
    # A message that no rule reads is also a plain failure. One that is not recognized is missing in its own place.
    left_out = ("split", "section", "failure")
    rows = [row for row in rows_of(path) if row["event"] not in left_out]
    found = [(row["template"], message_fields(row)) for row in rows]
    if layout.name == "collapsed padding":
        # The Kubernetes Operator prints columns: messages recognized by their padding cannot survive it.
        expected = [one for one in expected if one[0] not in padded()]
    assert found == expected
