"""Everything that is collected and parsed is used, or listed here with the reason why it is kept."""

from __future__ import annotations

import inspect
import json
import re
from pathlib import Path
from typing import Final

from flowdiag.analyses.flink.topic import FlinkTopic
from flowdiag.analyses.queues import measure, stores
from flowdiag.analyses.topics import topic
from flowdiag.parsers.flink import rest_rows
from flowdiag.parsers.flink.metric_table import known_metrics
from flowdiag.parsers.live import metric_names
from flowdiag.parsers.spark.progress import progress_row

ROOT: Final = Path(__file__).parents[1]
TOPICS: Final = ("checkpoints", "queues", "memory", "startup")
FLINK: Final = [found for each in TOPICS if isinstance(found := topic(each), FlinkTopic)]
USED: Final = frozenset(name for each in FLINK for name in each.metrics())

REQUESTED: Final = {
    "Status.JVM.Threads.Count": "decides whether a TaskManager may be asked for thread dumps",
}
"""Metrics that `flowdiag collect` requests although no topic reads them."""

KAFKA: Final = re.compile(r"Kafka(Consumer|Producer|SourceReader)\.")
"""Metrics of the Kafka client, which other rules than those of tasks read."""

KNOWN: Final = {
    "rates": r".+PerSecond",
    "buffers, next to their queues": r"(Shuffle\.Netty|Network)\..+|buffers\..+|num(Buffers|Bytes).+",
    "accumulated times, next to those of a second": r"accumulate.+Ms|max\w+BackPressureTimeMs",
    "debloating, which checkpoints show better": r"(Shuffle\..+)?(debloatedBufferSize|estimatedTimeTo.+)",
    "the mailbox": r"mailbox.+",
    "processes": r"Status\..+",
    "checkpoints and restarts, which REST and logs show in full": (
        r"lastC.+|number.+|totalNumber.+|.*(Restarts|Rescales|time|Time)|initializationTime"
    ),
    "slots and processes, which REST shows": r"taskSlots.+|num(Registered|Pending|Running).+",
    "event time, of which the watermark is judged": (
        r"watermarkLag|current(Low|Input#)Watermark|split\..+"
    ),
    "background work of RocksDB, which its stalls show better": r"\*\.rocksdb\.num-running-.+",
    "sinks and sources": r"numRecords(Out|Send)Errors|pendingBytes|currentSendTime",
}
"""Metrics that flowdiag recognizes, so that a file with only these is read as metrics, and does not judge."""


def is_requested(name: str) -> bool:
    name = name.replace("#", "0").replace("*", "x")
    patterns = (
        (metric_names.PROCESS_METRICS, name),
        (metric_names.GATE_METRICS, name),
        (metric_names.OPERATOR_METRICS, f"operator.{name}"),
    )
    return name in metric_names.TASK_METRICS or any(p.fullmatch(text) for p, text in patterns)


def test_every_requested_metric_is_read_by_a_topic() -> None:
    unused = {name for name in known_metrics() if is_requested(name)} - USED - REQUESTED.keys()
    assert sorted(name for name in unused if not KAFKA.match(name)) == []


def test_every_metric_of_a_topic_is_known() -> None:
    assert USED <= known_metrics().keys()


def test_every_known_metric_without_a_reader_has_a_reason() -> None:
    unused = known_metrics().keys() - USED - REQUESTED.keys()
    reasons = re.compile("|".join(KNOWN.values()))
    assert [
        name for name in sorted(unused) if not reasons.fullmatch(name) and not KAFKA.match(name)
    ] == []
    for reason, pattern in KNOWN.items():
        assert any(re.fullmatch(pattern, name) for name in unused), f"not needed: {reason}"


def test_every_measured_gauge_and_counter_is_read() -> None:
    code = "\n".join(
        path.read_text(encoding="utf-8")
        for folder in ("analyses", "cli")
        for path in (ROOT / folder).rglob("*.py")
        if path.name != "measure.py"
    )
    tables = (measure.GAUGES, measure.OPERATOR_GAUGES, measure.COUNTERS, measure.MACHINE_GAUGES)
    of_kafka = {key for key, names in measure.OPERATOR_GAUGES.items() if KAFKA.match(names[0])}
    unread = [key for table in tables for key in table if f'"{key}"' not in code]
    assert sorted(set(unread) - of_kafka) == []


def test_every_event_time_metric_is_read() -> None:
    files = (ROOT / "analyses" / "queues" / f"{name}.py" for name in ("event_time", "alignment"))
    code = "\n".join(path.read_text(encoding="utf-8") for path in files)
    names = (*measure.MARKS, *measure.SPLIT_METRICS, *measure.FLOWS)
    assert [name for name in names if f'"{name}"' not in code] == []


def test_every_metric_of_stores_is_read() -> None:
    code = "\n".join(
        path.read_text(encoding="utf-8")
        for path in (ROOT / "analyses" / "queues").rglob("*.py")
        if path.name != "measure.py"
    )
    names = (name.rpartition(".")[2] for name in measure.STORE_METRICS)
    unread = {name for name in names if f'"{name}"' not in code}
    assert unread - set(stores.LEVELS) == set()


def test_every_field_of_a_rest_response_is_read() -> None:
    """The fields that rows keep are columns or entries that a query or an assembler reads."""
    source = inspect.getsource(rest_rows)
    kept = set(re.findall(r'^ {12}"(\w+)": (?:as_|body|item|place|find)', source, re.MULTILINE))
    code = "\n".join(
        path.read_text(encoding="utf-8")
        for folder in ("analyses", "cli", "parsers")
        for pattern in ("*.py", "*.sql", "*.toml")
        for path in (ROOT / folder).rglob(pattern)
        if path.name != "rest_rows.py"
    )
    assert kept
    assert (
        sorted(name for name in kept if not re.search(rf"""['"]{name}['"]|\b{name}\b""", code))
        == []
    )


def test_every_field_of_a_progress_report_is_read() -> None:
    """Sources and stateful operators keep only fields that the rules of Spark read."""
    row = progress_row(
        {
            "runId": "a",
            "timestamp": "2026-01-01T00:00:00Z",
            "sources": [{"numInputRows": 1}],
            "stateOperators": [{"numRowsTotal": 1}],
        }
    )
    assert row is not None
    fields = row["fields"]
    names = {
        name for part in ("sources", "state") for one in json.loads(fields[part]) for name in one
    }
    code = "\n".join(
        path.read_text(encoding="utf-8") for path in (ROOT / "analyses" / "rate").rglob("*.py")
    )
    assert len(names) > 10
    assert sorted(name for name in {*names, *fields} if f'"{name}"' not in code) == []
