"""Measures the diagnosis of large event logs, against Spark, and against zstd and ripgrep.

Makes an event log of a given size in two forms. The first is one plain file. The second is written
as Spark 4 does: rolled, and compressed by zstd with a frame for each flush. One line in a hundred
is a `QueryProgressEvent`. The others are tasks and jobs of its triggers, as long as real ones.

Then four contenders run in turn, each in a process of its own. The first is `flowdiag rate`, in
total and minus its time on a small log. The second is `spark.read.json` with an explicit schema,
filter and count. The third only reads; the last is `zstd -dc | rg -c`.

    python -m benchmarks.event_log [--megabytes 1000] [--rounds 3]
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import zstandard

from benchmarks.measuring import WITH_FINDINGS, Contender, Run, in_turn, machine, median
from benchmarks.page import write

Json = dict[str, Any]

TASKS: Final = 97  # of 100 lines
START_MS: Final = 1_795_000_000_000
ROLLED_BYTES: Final = 128 * 1024 * 1024  # uncompressed, Spark's default
RUN: Final = "c58ef000-b8f0-429c-899a-8252a414e67f"
APPLICATION: Final = "app-20260131184301-0007"
PROGRESS: Final = "StreamingQueryListener$QueryProgressEvent"

BARE: Final = """
import sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[*]").config("spark.ui.enabled", "false").getOrCreate()
schema = "Event string, progress struct<runId: string, batchId: bigint, numInputRows: bigint>"
lines = spark.read.schema(schema).json(sys.argv[1])
print(lines.where("Event like '%QueryProgressEvent'").count())
"""
READ: Final = """
import sys
from concurrent.futures import ProcessPoolExecutor
from flowdiag.parsers.split import parse_split, plan_splits
from flowdiag.parsers.discover import discover

def rows(task):
    return sum(batch.num_rows for split in task for batch in parse_split(split))

if __name__ == "__main__":
    tasks = plan_splits(discover(sys.argv[1:]).sources)
    with ProcessPoolExecutor() as pool:
        print(sum(pool.map(rows, tasks)))
"""


def make(path: Path, megabytes: int) -> None:
    """Write the log as one plain file."""
    with path.open("wb") as file:
        for line in lines(megabytes):
            file.write(line)


def roll(folder: Path, megabytes: int) -> None:
    """Write the same log as Spark 4 does: rolled files of many zstd frames, and the application
    status file.
    """
    folder.mkdir()
    (folder / f"appstatus_{APPLICATION}").touch()
    compressor = zstandard.ZstdCompressor(level=1)
    waiting: list[bytes] = []
    number, size = 1, 0
    for line in lines(megabytes):
        waiting.append(line)
        size += len(line)
        # Spark flushes for jobs and for events of other listeners, not for tasks.
        if b"SparkListenerTask" not in line[:40]:
            with (folder / f"events_{number}_{APPLICATION}.zstd").open("ab") as file:
                file.write(compressor.compress(b"".join(waiting)))
            waiting = []
            if size > ROLLED_BYTES:
                number, size = number + 1, 0


def lines(megabytes: int) -> Iterator[bytes]:
    """Yield the lines of the log, which depend only on the arguments."""
    chance = random.Random(5)
    pool = [accumulables(chance) for _ in range(2000)]
    size, number = 0, 0
    for event in header():
        yield json.dumps(event).encode() + b"\n"
    while size < megabytes * 1_000_000:
        for line in trigger(number, chance, pool):
            size += len(line)
            yield line
        number += 1


def header() -> list[Json]:
    """Return the first events of any event log."""
    return [
        {"Event": "SparkListenerLogStart", "Spark Version": "4.0.0"},
        {"Event": "SparkListenerEnvironmentUpdate", "Spark Properties": {}},
        {
            "Event": "SparkListenerApplicationStart",
            "App Name": "orders",
            "App ID": APPLICATION,
            "Timestamp": START_MS - 9000,
        },
    ]


def trigger(number: int, chance: random.Random, pool: list[str]) -> Iterator[bytes]:
    """Yield the hundred events of one trigger."""
    time_ms = START_MS + 2000 * number
    properties = {"sql.streaming.queryId": "8c0119b7", "streaming.sql.batchId": str(number)}
    properties |= {"spark.jobGroup.id": RUN, "padding": "x" * 6000}
    yield line(
        {
            "Event": "SparkListenerJobStart",
            "Job ID": number,
            "Submission Time": time_ms,
            "Stage Infos": [],
            "Stage IDs": [number],
            "Properties": properties,
        }
    )
    for index in range(TASKS):
        yield task(number, index, time_ms, chance, pool)
    yield line({"Event": "SparkListenerJobEnd", "Job ID": number, "Completion Time": time_ms + 900})
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(time_ms / 1000))
    progress = {
        "id": "8c0119b7",
        "runId": RUN,
        "name": "orders",
        "timestamp": stamp,
        "batchId": number,
        "durationMs": {"triggerExecution": 900, "addBatch": 800},
        "stateOperators": [],
        "sources": [{"description": "KafkaV2[Subscribe[t]]", "numInputRows": 4000}],
        "sink": {"description": "x" * 300},
    }
    yield line({"Event": f"org.apache.spark.sql.streaming.{PROGRESS}", "progress": progress})


def line(event: Json) -> bytes:
    return json.dumps(event, separators=(",", ":")).encode() + b"\n"


def accumulables(chance: random.Random) -> str:
    """Return the accumulables, which make up half of a task's line and which flowdiag ignores."""
    return ",".join(
        f'{{"ID":{number},"Name":"internal.metrics.some.metric.{number}",'
        f'"Update":{chance.randrange(10**6)},"Value":{chance.randrange(10**9)},"Internal":true,'
        '"Count Failed Values":true}'
        for number in range(24)
    )


def task(stage: int, index: int, time_ms: int, chance: random.Random, pool: list[str]) -> bytes:
    """Return a finished task, about 4 KB of JSON."""
    ran = chance.randrange(60, 120)
    return (
        f'{{"Event":"SparkListenerTaskEnd","Stage ID":{stage},"Stage Attempt ID":0,'
        '"Task Type":"ResultTask","Task End Reason":{"Reason":"Success"},"Task Info":{'
        f'"Task ID":{stage * TASKS + index},"Index":{index},"Attempt":0,"Partition ID":{index},'
        f'"Launch Time":{time_ms + 5},"Executor ID":"{index % 8}",'
        f'"Host":"worker-{index % 8}.example","Locality":"PROCESS_LOCAL","Speculative":false,'
        f'"Getting Result Time":0,"Finish Time":{time_ms + 15 + ran + index},"Failed":false,'
        f'"Killed":false,"Accumulables":[{chance.choice(pool)}]}},"Task Metrics":{{'
        f'"Executor Run Time":{ran},"Executor CPU Time":{ran * 991_337},'
        f'"Result Size":{chance.randrange(900, 4000)},"JVM GC Time":1,"Disk Bytes Spilled":0,'
        '"Shuffle Read Metrics":{"Fetch Wait Time":0,"Remote Bytes Read":0,"Local Bytes Read":0,'
        f'"Total Records Read":0}},"Input Metrics":{{"Bytes Read":{chance.randrange(4000, 9000)},'
        f'"Records Read":{chance.randrange(30, 60)}}},"Updated Blocks":[]}}}}\n'
    ).encode()


def contenders(plain: Path, rolled: Path, small: Path) -> Iterator[tuple[str, list[Contender]]]:
    read = rolled.parent / "read.py"
    read.write_text(READ)
    environ = {"FLOWDIAG_CACHE_DIR": str(rolled.parent / "cache")}

    def rate(path: Path, more: str = "") -> Contender:
        command = [sys.executable, "-m", "flowdiag.cli", "rate", "-q", str(path)]
        name = f"`flowdiag rate`{more}"
        return Contender(name=name, command=command, environ=environ, succeeds=WITH_FINDINGS)

    yield (
        "one plain file",
        [
            rate(plain),
            Contender(
                name="`spark.read.json`, filter, count",
                command=[sys.executable, "-c", BARE, str(plain)],
            ),
            rate(small, ", 5 MB"),
            Contender(
                name="reading alone, all cores", command=[sys.executable, str(read), str(plain)]
            ),
        ],
    )
    compressed = [
        rate(rolled),
        Contender(
            name="reading alone, all cores", command=[sys.executable, str(read), str(rolled)]
        ),
    ]
    if shutil.which("zstd") and shutil.which("rg"):
        count = f"zstd -dc {rolled}/events_* | rg -c -F 'QueryProgressEvent'"
        compressed.append(Contender(name="`zstd -dc \\| rg -c`", command=["/bin/sh", "-c", count]))
    yield "rolled, zstd", compressed


def table(runs: dict[str, Run]) -> str:
    """Render the median of each contender, and its ratio to that of the first contender."""
    base = next(iter(runs.values())).wall
    rows = [
        f"| {name} | {one.wall:.2f} s | {one.wall / base:.2f} | {one.processor:.1f} s |"
        for name, one in runs.items()
    ]
    return "\n".join(["| | wall | of the first | processor |", "|---|---|---|---|", *rows])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--write", action="store_true", help="put the tables into the README")
    chosen = parser.parse_args()
    what = machine()
    with tempfile.TemporaryDirectory(prefix="flowdiag-bench-") as name:
        folder = Path(name)
        plain, small = folder / APPLICATION, folder / "small"
        rolled = folder / f"eventlog_v2_{APPLICATION}"
        make(plain, chosen.megabytes)
        make(small, 5)
        roll(rolled, chosen.megabytes)
        warm = [sys.executable, "-m", "flowdiag.cli", "warm"]
        environ = {**os.environ, "FLOWDIAG_CACHE_DIR": str(folder / "cache")}
        subprocess.run(warm, env=environ, check=True, stdout=subprocess.DEVNULL)
        packed = sum(path.stat().st_size for path in rolled.iterdir())
        text = (
            f"{plain.stat().st_size / 1e6:.0f} MB in one plain file ({packed / 1e6:.0f} MB rolled as zstd), 1% of the"
            " lines progress events, 97% tasks, against\n`spark.read.json` with an explicit schema that counts these"
            f" progress events; medians of {chosen.rounds} rounds.\n\n{what}.\n"
        )
        for title, several in contenders(plain, rolled, small):
            runs = in_turn(several, chosen.rounds)
            text += f"\n{title}:\n\n{table({n: median(each) for n, each in runs.items()})}\n"
    print(text)
    if chosen.write:
        write({"event-log": text})


if __name__ == "__main__":
    main()
