"""The seeds of the mutations: a few inputs of every supported format, by the name of the format."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from benchmarks.pastes import pastes, wrap, wrappings_of
from flowdiag.parsers.discover import discover
from flowdiag.parsers.source import open_source
from tests import relay
from tests.archives import FIXTURES, synthetic, unpacked
from tests.parsers.packed import PACK
from tests.parsers.test_wrappings import MESSAGES
from tests.parsers.wrappings import WRAPPINGS, Message

_CHUNK: Final = 12  # messages per seed: smaller inputs run more often
_BYTES: Final = 12_000  # bytes from the beginning of a recorded file
_RECORDINGS: Final = {
    "flink": ("flink/1.20.5/hot-key", "flink/1.9.3/hot-key", "collected/2.3.0-hot-key"),
    "spark": ("spark/3.4.4/converging", "spark/4.3.0/query-stable"),
}


@dataclass(frozen=True, slots=True)
class Seed:
    """A valid input.

    Attributes:
        format: its name in the statistics.
        name: the name of the file; names of answers may contain IDs.
        data: its bytes.
    """

    format: str
    name: str
    data: bytes


@cache
def seeds() -> tuple[Seed, ...]:
    """Return all seeds, in a fixed order."""
    return (
        *_wrapped_messages(),
        *_layouts(),
        *_pasted(),
        *_recorded(),
        *_written(),
        *_packed(),
        *_dumped(),
    )


def _wrapped_messages() -> Iterator[Seed]:
    """Return every wrapping around some of the messages; together they cover all messages."""
    for number, (name, wrapping) in enumerate(WRAPPINGS.items()):
        for engine, messages in MESSAGES.items():
            count = -(-len(messages) // _CHUNK)
            for turn in (number, number + count // 2):
                at = turn % count * _CHUNK
                yield Seed(
                    f"wrapping: {name}", f"{engine}.log", wrapping(messages[at : at + _CHUNK])
                )


def _layouts() -> Iterator[Seed]:
    """Return a real log in every layout."""
    logs = unpacked(FIXTURES / "recordings/flink/1.9.3/async-failure") / "logs"
    text = (logs / "flink-flink-standalonesession-0-jobmanager.log").read_text()
    records = relay.sample(relay.read(text), reports=1)
    for number, layout in enumerate(relay.LAYOUTS):
        at = number * 17 % max(1, len(records) - 30)
        yield Seed(f"layout: {layout.name}", "jobmanager.log", layout.render(records[at : at + 30]))


def _pasted() -> Iterator[Seed]:
    for number, paste in enumerate(pastes()):
        names = list(wrappings_of(paste.engine))
        for wrapping in ("bare", names[number % len(names)]):
            text = wrap(paste, wrapping)
            if text is not None:
                yield Seed("paste", "paste.txt", text.encode())


def _recorded() -> Iterator[Seed]:
    """Return files of recordings: each kind of source, and logs that start in the middle."""
    for recordings in _RECORDINGS.values():
        for recording in recordings:
            folder = unpacked(FIXTURES / "recordings" / recording)
            for source in discover([str(folder)]).sources:
                if source.kind == "not-read":
                    continue
                with open_source(source) as stream:
                    data = stream.read(50 * _BYTES)
                kind, name = f"recorded: {source.kind}", Path(source.name).name
                yield Seed(kind, name, _lines(data, 0))
                if len(data) > 3 * _BYTES:
                    yield Seed(kind, name, _lines(data, len(data) // 2))


def _lines(data: bytes, at: int) -> bytes:
    """Return some lines from a place on. A document, which has one long line, is returned whole."""
    begin = data.rfind(b"\n", 0, at) + 1
    return data[begin : begin + _BYTES] if data.count(b"\n") > 3 else data[: 4 * _BYTES]


def _written() -> Iterator[Seed]:
    for path in sorted(synthetic().rglob("*")):
        if path.is_file() and path.name != "truth.json":
            yield Seed("synthetic", path.name, _lines(path.read_bytes(), 0))
    yield Seed("configuration", "flink-conf.yaml", _CONFIGURATION.encode())
    yield Seed("configuration", "config.yaml", _NESTED.encode())
    yield Seed("kubectl", "pod.txt", _POD.encode())
    yield Seed("collector's log", "gc.log", _PAUSES.encode())
    yield Seed("Prometheus history", "range.json", json.dumps(_HISTORY).encode())
    yield Seed("printed answer", "curl.txt", _CURL.encode())


def _dumped() -> Iterator[Seed]:
    """Return thread dumps and profiles, as text and as JSON."""
    data = Path(__file__).parents[1] / "parsers/data"
    for path in sorted([*(data / "threads").iterdir(), *(data / "profiles").iterdir()]):
        yield Seed("thread dumps", path.name, path.read_bytes())


def _packed() -> Iterator[Seed]:
    """Return every codec around one log, and around one event log."""
    messages: list[Message] = MESSAGES["flink"][: 4 * _CHUNK]
    for codec, pack in PACK.items():
        yield Seed(f"codec: {codec}", f"jobmanager.log.{codec}", pack(WRAPPINGS["log4j"](messages)))


_CONFIGURATION: Final = """\
jobmanager.rpc.address: localhost
taskmanager.memory.process.size: 1728m
taskmanager.numberOfTaskSlots: 4
taskmanager.memory.network.fraction: 0.1
taskmanager.memory.network.max: 1 gb
state.backend: rocksdb
execution.checkpointing.interval: 10s
env.java.opts: -Xmx1g -XX:MaxDirectMemorySize=512m
"""
_NESTED: Final = """\
taskmanager:
  memory: {process: {size: 2g}, managed: {fraction: 0.4}}
  numberOfTaskSlots: 2
execution:
  checkpointing:
    interval: 10 s
    timeout: 1min
"""
_POD: Final = """\
Name:             orders-taskmanager-1-2
Namespace:        flink
Containers:
  flink-main-container:
    State:          Running
    Last State:     Terminated
      Reason:       OOMKilled
      Exit Code:    137
      Finished:     Sat, 21 Nov 2026 02:38:04 +0000
    Limits:
      memory:  1728Mi
"""
_PAUSES: Final = """\
[1.2s][info][gc] GC(3) Pause Young (Normal) (G1 Evacuation Pause) 24M->4M(256M) 3.456ms
[9.9s][info][gc] GC(4) Pause Full (G1 Compaction Pause) 254M->240M(256M) 903,4ms
2026-11-21T02:38:04.123+0000: 12.3: [Full GC (Ergonomics) 254M->240M(256M), 0.9034 secs]
"""
_HISTORY: Final = {
    "status": "success",
    "data": {
        "resultType": "matrix",
        "result": [
            {
                "metric": {
                    "__name__": f"flink_taskmanager_job_task_{name}",
                    "host": "worker_1",
                    "job_id": "7c7769847d333438dd9ce845d5a2d980",
                    "job_name": "orders",
                    "subtask_index": str(index),
                    "task_id": "9c32e3838cee893dbb2fc90ccad79598",
                    "task_name": "enrich",
                    "tm_id": "taskmanager_1",
                },
                "values": [[1_795_240_801 + 15 * at, str(at * 90 % 1000)] for at in range(8)],
            }
            for name in ("busyTimeMsPerSecond", "buffers_inPoolUsage", "numRecordsIn")
            for index in range(3)
        ],
    },
}
_CURL: Final = (
    "$ curl -s localhost:8081/jobs/7c7769847d333438dd9ce845d5a2d980/checkpoints\n"
    '{"counts": {"restored": 0, "total": 9, "in_progress": 1, "completed": 3, "failed": 5},'
    ' "summary": {"end_to_end_duration": {"min": 12, "max": 9123, "avg": 431}},'
    ' "latest": {"completed": null}, "history": [{"id": 9, "status": "FAILED", "is_savepoint":'
    ' false, "trigger_timestamp": 1795240801000, "latest_ack_timestamp": 1795240802000,'
    ' "state_size": 1, "end_to_end_duration": 1000, "alignment_buffered": 0,'
    ' "num_subtasks": 8, "num_acknowledged_subtasks": 7, "failure_timestamp": 1795240811000,'
    ' "failure_message": "Checkpoint expired before completing."}]}\n'
)
