"""Checks that a message recognized in one wrapping is recognized in all of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from flowdiag.parsers.catalogue import FILES, SPARK_FILES
from flowdiag.parsers.discover import discover
from flowdiag.parsers.envelopes.tables import is_table_of_records
from flowdiag.parsers.formats import read_format
from flowdiag.parsers.logs.records import is_foreign
from flowdiag.parsers.rows import Event
from flowdiag.parsers.split import parse_split, plan_splits
from tests.parsers.wrappings import WRAPPINGS, Message

PACKAGES = {"flink": "org.apache.flink.runtime", "spark": "org.apache.spark.scheduler"}
NOT_COMPARED = {
    "source", "offset", "local_us", "utc_us", "clock", "level", "logger", "thread", "process", "metric",
}  # fmt: skip


def messages_of(engine: str) -> list[Message]:
    """Return every sample of an engine's catalogue as a separate record."""
    files = SPARK_FILES if engine == "spark" else FILES
    found: list[Message] = []
    for name in files:
        for entry in read_format(name).get("message", ()):
            for sample in entry["sample"]:
                logger = entry["loggers"][0] if entry["loggers"] else "ClusterEntrypoint"
                level = (entry.get("levels") or ("INFO",))[0]
                found.append(Message(len(found), logger, PACKAGES[engine], level, sample["text"]))
    return found


MESSAGES = {engine: messages_of(engine) for engine in PACKAGES}
_KNOWN: dict[str, list[dict[str, Any]]] = {}


def rows_of(data: bytes, folder: Path) -> list[dict[str, Any]]:
    path = folder / "what-people-have"
    path.write_bytes(data)
    found = discover([str(path)])
    assert found.sources[0].kind != "not-read", found.sources[0].reason
    return [
        row
        for task in plan_splits(found.sources)
        for split in task
        for batch in parse_split(split)
        for row in batch.to_pylist()
        if row["event"] not in (Event.SPLIT, Event.MARKS)
    ]


def message_columns(row: dict[str, Any]) -> dict[str, Any]:
    fields = {name: value for name, value in row.items() if name not in NOT_COMPARED and value}
    if "fields" in fields:
        # Only a complete name of a logger shows the component.
        fields["fields"] = {k: v for k, v in dict(fields["fields"]).items() if k != "component"}
    return fields


# Times of day, and none at all.
UNDATED = {"logback", "no time", "no time, %c{1}", "AWS Managed Flink"}


@pytest.mark.parametrize("engine", PACKAGES)
@pytest.mark.parametrize("wrapping", WRAPPINGS)
def test_every_message_is_recognised_in_every_wrapping(
    wrapping: str, engine: str, tmp_path: Path
) -> None:
    messages = MESSAGES[engine]
    if engine not in _KNOWN:
        _KNOWN[engine] = rows_of(WRAPPINGS["log4j"](messages), tmp_path)
    known, rows = _KNOWN[engine], rows_of(WRAPPINGS[wrapping](messages), tmp_path)
    # The same records, once each, in the same order.
    assert [message_columns(row) for row in rows] == [message_columns(row) for row in known]
    for row, plain in zip(rows, known, strict=True):
        if plain["utc_us"] is not None:  # its message has a time
            continue
        if wrapping in UNDATED:
            assert row["utc_us"] is None
            assert row["local_us"] is None or row["clock"] == "time-of-day"
            continue
        shown = row["local_us"] if row["local_us"] is not None else row["utc_us"]
        # Some layouts print seconds only.
        assert plain["local_us"] - shown in range(1_000_000), message_columns(row)
        assert row["clock"] is None


def test_the_loggers_name_is_read_in_every_layout(tmp_path: Path) -> None:
    messages = MESSAGES["spark"]
    for wrapping in WRAPPINGS:
        if wrapping == "CSV of unknown columns":
            continue
        for row in rows_of(WRAPPINGS[wrapping](messages), tmp_path):
            assert row["logger"], wrapping


def test_a_log_with_commas_is_not_a_table() -> None:
    for wrapping in ("log4j", "docker compose", "tabs", "bars", "progress bar", "Markdown fence"):
        assert not is_table_of_records(WRAPPINGS[wrapping](MESSAGES["flink"]).decode()), wrapping


def test_a_table_without_log_records_is_not_a_log() -> None:
    for text in (
        'id,name,when\n1,"a, b",2026-01-01 00:00:00\n2,"c, d",2026-01-01 00:00:01\n',
        "a;b\n1;2\n3;4\n",
        'x,"',
        "",
    ):
        assert not is_table_of_records(text)


def test_loggers_shortened_by_the_layout_belong_to_spark() -> None:
    for logger in ("scheduler.JobScheduler", "streaming.scheduler.JobScheduler", "JobScheduler"):
        assert not is_foreign(logger, "spark")
    for logger in ("com.acme.JobScheduler", "acme.scheduler.JobScheduler", "o.a.hudi.JobScheduler"):
        assert is_foreign(logger, "spark")
