"""Diagnose a large event log, against Spark counting the progress events in it.

Makes a plain event log of a given size: one line in a hundred is a `QueryProgressEvent`, the others are
tasks, stages and jobs of its triggers, as long as real ones. Then, in turn and each in a process of its
own: `flowdiag rate`, and `spark.read.json` with an explicit schema, filter and count.

    python benchmarks/event_log.py [--megabytes 1000] [--rounds 2]
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

Json = dict[str, Any]

TASKS: Final = 97  # of 100 lines
START_MS: Final = 1_795_000_000_000
BARE: Final = """
import sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[*]").config("spark.ui.enabled", "false").getOrCreate()
schema = "Event string, progress struct<runId: string, batchId: bigint, numInputRows: bigint>"
lines = spark.read.schema(schema).json(sys.argv[1])
print(lines.where("Event like '%QueryProgressEvent'").count())
"""


def make(path: Path, megabytes: int) -> int:
    """Write the log; the number of progress events."""
    size, number = 0, 0
    with path.open("w", encoding="utf-8") as file:
        for event in header():
            size += file.write(json.dumps(event) + "\n")
        while size < megabytes * 1_000_000:
            for event in trigger(number):
                size += file.write(json.dumps(event, separators=(",", ":")) + "\n")
            number += 1
    return number


def header() -> list[Json]:
    """What every event log begins with."""
    return [
        {"Event": "SparkListenerLogStart", "Spark Version": "4.0.0"},
        {"Event": "SparkListenerEnvironmentUpdate", "Spark Properties": {}},
        {
            "Event": "SparkListenerApplicationStart",
            "App Name": "orders",
            "App ID": "app-20260131184301-0007",
            "Timestamp": START_MS - 9000,
        },
    ]


def trigger(number: int) -> list[Json]:
    """The hundred events of one trigger."""
    time_ms = START_MS + 2000 * number
    run = "c58ef000-b8f0-429c-899a-8252a414e67f"
    properties = {"sql.streaming.queryId": "8c0119b7", "streaming.sql.batchId": str(number)}
    properties |= {"spark.jobGroup.id": run, "padding": "x" * 6000}
    events: list[Json] = [
        {
            "Event": "SparkListenerJobStart",
            "Job ID": number,
            "Submission Time": time_ms,
            "Stage Infos": [],
            "Stage IDs": [number],
            "Properties": properties,
        }
    ]
    events += [task(number, index, time_ms) for index in range(TASKS)]
    events.append(
        {"Event": "SparkListenerJobEnd", "Job ID": number, "Completion Time": time_ms + 900}
    )
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(time_ms / 1000))
    progress = {
        "id": "8c0119b7",
        "runId": run,
        "name": "orders",
        "timestamp": stamp,
        "batchId": number,
        "durationMs": {"triggerExecution": 900, "addBatch": 800},
        "stateOperators": [],
        "sources": [{"description": "KafkaV2[Subscribe[t]]", "numInputRows": 4000}],
        "sink": {"description": "x" * 300},
    }
    name = "org.apache.spark.sql.streaming.StreamingQueryListener$QueryProgressEvent"
    return [*events, {"Event": name, "progress": progress}]


def task(stage: int, index: int, time_ms: int) -> Json:
    """One finished task, about 4 KB, most of it accumulators that nobody needs."""
    accumulables = [
        {"ID": n, "Name": f"internal.metrics.some.metric.{n}", "Update": n * 7, "Internal": True}
        for n in range(30)
    ]
    return {
        "Event": "SparkListenerTaskEnd",
        "Stage ID": stage,
        "Stage Attempt ID": 0,
        "Task Type": "ResultTask",
        "Task End Reason": {"Reason": "Success"},
        "Task Info": {
            "Task ID": stage * TASKS + index,
            "Index": index,
            "Attempt": 0,
            "Launch Time": time_ms + 5,
            "Finish Time": time_ms + 105 + index,
            "Executor ID": str(index % 8),
            "Host": f"worker-{index % 8}.example",
            "Locality": "PROCESS_LOCAL",
            "Failed": False,
            "Killed": False,
            "Accumulables": accumulables,
        },
        "Task Metrics": {
            "Executor Run Time": 90,
            "JVM GC Time": 1,
            "Disk Bytes Spilled": 0,
            "Shuffle Read Metrics": {"Fetch Wait Time": 0, "Total Records Read": 0},
            "Input Metrics": {"Bytes Read": 4000, "Records Read": 41},
            "Updated Blocks": [],
        },
    }


def adopt() -> None:
    """Become the parent of what orphans leave, so that its processor time is counted, too (Linux)."""
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER


def timed(command: list[str]) -> tuple[float, float]:
    """Wall and processor seconds of a process with all of its descendants; its output is thrown away."""
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run(command, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    wall = time.monotonic() - begun
    if done.returncode not in (0, 1):
        sys.exit(done.stderr.decode(errors="replace")[-2000:])
    with contextlib.suppress(ChildProcessError):
        while True:  # Spark's Python workers end a moment after their JVM
            os.wait()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return wall, used


def main() -> None:
    """Measure in turn and print every round."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--megabytes", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "app-20260131184301-0007"
        count = make(path, chosen.megabytes)
        print(f"{path.stat().st_size / 1e6:.0f} MB, {count} progress events", flush=True)
        contenders = {
            "flowdiag rate": [sys.executable, "-m", "flowdiag.cli", "rate", "-q", str(path)],
            "spark.read.json, count": [sys.executable, "-c", BARE, str(path)],
        }
        for number in range(chosen.rounds):
            for name, command in contenders.items():
                wall, used = timed(command)
                load = os.getloadavg()[0]
                told = f"round {number + 1}  {name:<24} {wall:6.1f} s wall, {used:6.1f} s processor"
                print(f"{told}, load {load:.0f}", flush=True)


if __name__ == "__main__":
    main()
