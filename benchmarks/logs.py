"""Generates logs of a busy Flink cluster of any size: one JobManager, and TaskManagers to match.

    python -m benchmarks.logs /tmp/logs --megabytes 1000 --reports
    python -m benchmarks.logs /tmp/logs --megabytes 600 --reports --taskmanagers 500

A job of four vertices runs for hours. Every tenth checkpoint expires, and ten tasks acknowledge it
late. With `--reports`, half of the TaskManagers' bytes are metric reports of the Slf4jReporter, one
every ten seconds, with the identifiers that Flink 1.20 prints. About 0.5 to 1% of the other lines
are messages that flowdiag recognizes. The same arguments give the same bytes.

With `--taskmanagers`, the cluster is wide and its TaskManagers lack heap: most spend 25 to 45% of
their time in garbage collection, and the last one spends 93%.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import chain, repeat
from pathlib import Path
from typing import Final

START: Final = 1_795_000_000  # seconds
JOB: Final = "7c7769847d333438dd9ce845d5a2d980"
GRAPH: Final = "c7313183924d2add490a8b22246163a1"
VERTICES: Final = {
    "Source: orders": "bc764cd8ddf7a0cff126f51c16239658",
    "enrich": "9c32e3838cee893dbb2fc90ccad79598",
    "aggregate": "f7c20420360e0172e54933e6abdd481a",
    "Sink: deliver": "55d76a1d36fd2e772da1b24dbce4fe75",
}
SLOTS: Final = 4
INTERVAL_S: Final = 10  # of checkpoints and of metric reports, Flink's default for the latter
SLICE: Final = 4096  # sentences in the pool
TASKMANAGER_BYTES: Final = 500_000_000  # at most; a larger log gets another file

OTHERS: Final = (
    "org.apache.kafka.clients.consumer.internals.SubscriptionState",
    "com.acme.orders.EnrichFunction                              ",
    "org.apache.flink.runtime.blob.BlobServer                    ",
    "org.apache.hadoop.hdfs.DFSClient                            ",
    "org.apache.flink.streaming.connectors.kafka.FlinkKafkaFetcher",
)
TALK: Final = (
    "order customer manager slot request heartbeat resource executor dispatcher leader session "
    "stream operator partition buffer network memory reporter offset commit fetch record from to"
)

TASK_METRICS: Final = (
    ("Counters", ("numRecordsIn numRecordsOut numBytesIn numBytesOut numBuffersOut numFiredTimers"
     " numBytesInLocal numBytesInRemote numBuffersInLocal numBuffersInRemote initializationTime"
     " Shuffle.Netty.Input.numBytesInLocal Shuffle.Netty.Input.numBytesInRemote"
     " Shuffle.Netty.Input.numBuffersInLocal Shuffle.Netty.Input.numBuffersInRemote")),
    ("Gauges", ("busyTimeMsPerSecond idleTimeMsPerSecond backPressuredTimeMsPerSecond"
     " softBackPressuredTimeMsPerSecond hardBackPressuredTimeMsPerSecond isBackPressured"
     " maxSoftBackPressureTimeMs maxHardBackPressureTimeMs accumulateBusyTimeMs"
     " accumulateIdleTimeMs accumulateBackPressuredTimeMs changelogBusyTimeMsPerSecond"
     " mailboxQueueSize checkpointAlignmentTime checkpointStartDelayNanos"
     " estimatedTimeToConsumeBuffersMs debloatedBufferSize buffers.inputQueueLength"
     " buffers.outputQueueLength buffers.inPoolUsage buffers.outPoolUsage"
     " buffers.inputFloatingBuffersUsage buffers.inputExclusiveBuffersUsage"
     " Shuffle.Netty.Input.Buffers.inputQueueLength Shuffle.Netty.Input.Buffers.inPoolUsage"
     " Shuffle.Netty.Input.Buffers.inputFloatingBuffersUsage"
     " Shuffle.Netty.Input.Buffers.inputExclusiveBuffersUsage"
     " Shuffle.Netty.Output.Buffers.outputQueueLength Shuffle.Netty.Output.Buffers.outPoolUsage"
     " currentInputWatermark currentOutputWatermark")),
    ("Meters", ("numRecordsInPerSecond numRecordsOutPerSecond numBytesInPerSecond"
     " numBytesOutPerSecond mailboxMailsPerSecond numBuffersOutPerSecond")),
)  # fmt: skip
PROCESS_METRICS: Final = (
    "CPU.Load CPU.Time Threads.Count Memory.Heap.Used Memory.Heap.Committed Memory.Heap.Max"
    " Memory.NonHeap.Used Memory.Metaspace.Used Memory.Direct.Count Memory.Direct.MemoryUsed"
    " GarbageCollector.All.Count GarbageCollector.All.Time ClassLoader.ClassesLoaded"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """Properties that all processes of one run share."""

    taskmanagers: int
    reports: bool
    lacks_heap: bool = False

    @property
    def parallelism(self) -> int:
        """The parallelism of each vertex."""
        return self.taskmanagers * SLOTS


def make(folder: Path, megabytes: int, *, reports: bool, taskmanagers: int | None = None) -> Path:
    """Write the logs of one run, unless they exist already.

    Args:
        folder: gets one folder per kind and size.
        megabytes: approximate size of all files together.
        reports: whether half of the bytes are metric reports.
        taskmanagers: the number of TaskManagers of a wide cluster that lacks heap. None: as few as the size needs.

    Returns:
        The folder with the logs.
    """
    kind = "reports" if reports else "plain"
    target = folder / "-".join(filter(None, (kind, str(megabytes), str(taskmanagers or ""))))
    if target.exists():
        return target
    unfinished = target.with_name(target.name + ".part")
    unfinished.mkdir(parents=True, exist_ok=True)
    total = megabytes * 1_000_000
    jobmanager = total // 20
    count = taskmanagers or max(2, -(-(total - jobmanager) // TASKMANAGER_BYTES))
    cluster = Cluster(taskmanagers=count, reports=reports, lacks_heap=taskmanagers is not None)
    numbers = range(count + 1)
    sizes = [jobmanager, *[(total - jobmanager) // count] * count]
    with ProcessPoolExecutor() as pool:
        list(pool.map(_write, numbers, sizes, repeat(unfinished), repeat(cluster)))
    return unfinished.rename(target)


def make_pieces(folder: Path, count: int, size: int) -> tuple[Path, Path]:
    """Write a log in one file, and the same log cut into small files at line ends."""
    many, one = folder / "plain-pieces", folder / "plain-whole"
    if many.exists():
        return many, one
    for path in (many, one):
        path.mkdir(parents=True)
    cluster = Cluster(taskmanagers=2, reports=False)
    with (one / "jobmanager.log").open("w", encoding="utf-8", newline="\n") as whole:
        texts = chain([_jobmanager_begin(cluster)], _jobmanager(cluster))
        for number in range(count):
            piece, length = [], 0
            while length < size:
                text = next(texts)
                piece.append(text)
                length += len(text)
            whole.writelines(piece)
            path = many / f"jobmanager.log.{number + 1}"
            path.write_text("".join(piece), encoding="utf-8", newline="\n")
    return many, one


def _write(number: int, size: int, folder: Path, cluster: Cluster) -> None:
    """Write the log of one process; number 0 is the JobManager."""
    name = "jobmanager" if number == 0 else f"taskmanager-{number:02}"
    if number == 0:
        begin, periods = _jobmanager_begin(cluster), _jobmanager(cluster)
    else:
        begin, periods = "", _taskmanager(number, cluster)
    with (folder / f"{name}.log").open("w", encoding="utf-8", newline="\n") as file:
        written = file.write(begin)
        for text in periods:
            written += file.write(text)
            if written >= size:
                return


def stamp_of(second: int) -> str:
    """Return the timestamp printed at a second of the run."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(START + second))


def _talk(chance: random.Random) -> list[str]:
    """Return irrelevant log lines without timestamps."""
    words = TALK.split()
    return [
        f"INFO  {chance.choice(OTHERS)} [] - {' '.join(chance.choices(words, k=k))}\n"
        for k in chance.choices(range(6, 16), k=SLICE)
    ]


def _noise(chance: random.Random, talk: list[str], second: int, lines: int) -> Iterator[str]:
    """Yield the lines of `INTERVAL_S` seconds, with ascending timestamps."""
    each = lines // INTERVAL_S
    for step in range(INTERVAL_S):
        stamp = stamp_of(second + step)
        at = chance.randrange(SLICE - each)
        for number, text in enumerate(talk[at : at + each]):
            yield f"{stamp},{number * 999 // each:03} {text}"


def _attempt(vertex: str, index: int) -> str:
    return f"{GRAPH}_{VERTICES[vertex]}_{index}_0"


def _place(number: int) -> str:
    return f"taskmanager-{number} @ worker-{number}.flink.example (dataPort=36667)"


def _jobmanager_begin(cluster: Cluster) -> str:
    """Return the lines about the start, the submission and the deployment."""
    entry = "INFO  org.apache.flink.runtime.entrypoint.ClusterEntrypoint        [] -"
    graph = "INFO  org.apache.flink.runtime.executiongraph.ExecutionGraph       [] -"
    dispatcher = "INFO  org.apache.flink.runtime.dispatcher.StandaloneDispatcher     [] -"
    version = "(Version: 1.20.5, Scala: 2.12, Rev:0980485, Date:2026-06-08T09:21:06+02:00)"
    lines = [
        f"{entry}  Starting StandaloneSessionClusterEntrypoint {version}",
        f"{dispatcher} Received JobGraph submission 'orders' ({JOB}).",
        f"{graph} Job orders ({JOB}) switched from state CREATED to RUNNING.",
    ]
    count = cluster.parallelism
    for index in range(count):
        for vertex, vertex_id in VERTICES.items():
            attempt = _attempt(vertex, index)
            task = f"{vertex} ({index + 1}/{count}) ({attempt})"
            named = f"with attempt id {attempt} and vertex id {vertex_id}_{index}"
            place = f"to {_place(1 + index // SLOTS)} with allocation id {index:032x}"
            lines += [
                f"{graph} {task} switched from SCHEDULED to DEPLOYING.",
                f"{graph} Deploying {vertex} ({index + 1}/{count}) (attempt #0) {named} {place}",
                f"{graph} {task} switched from DEPLOYING to INITIALIZING.",
                f"{graph} {task} switched from INITIALIZING to RUNNING.",
            ]
    return "".join(f"{stamp_of(0)},000 {line}\n" for line in lines)


def _jobmanager(cluster: Cluster) -> Iterator[str]:
    """Yield the JobManager log, one checkpoint at a time."""
    chance = random.Random(7)
    talk = _talk(chance)
    logger = "org.apache.flink.runtime.checkpoint.CheckpointCoordinator    [] -"
    number = 0
    while True:
        number += 1
        second = number * INTERVAL_S
        stamp, later = stamp_of(second), stamp_of(second + INTERVAL_S - 1)
        kind = "(type=CheckpointType{name='Checkpoint', sharingFilesStrategy=FORWARD_BACKWARD})"
        trigger = f"{kind} @ {(START + second) * 1000} for job {JOB}."
        lines = [f"{stamp},001 INFO  {logger} Triggering checkpoint {number} {trigger}\n"]
        end = f"{number} for job {JOB} (62240 bytes, checkpointDuration=228 ms, finalizationTime=9 ms)."
        if number % 10 == 0:
            text = f"Checkpoint {number} of job {JOB} expired before completing."
            lines.append(f"{later},000 INFO  {logger} {text}\n")
            for late in range(10):
                vertex = ("enrich", "aggregate", "Sink: deliver")[late % 3]
                text = (
                    f"expired checkpoint attempt {number} from task {_attempt(vertex, late // 3)}"
                )
                place = f"of job {JOB} at {_place(1 + late // 3 // SLOTS)}."
                lines.append(
                    f"{later},5{late:02} WARN  {logger} Received late message for now {text} {place}\n"
                )
        else:
            lines.append(f"{later},000 INFO  {logger} Completed checkpoint {end}\n")
        noise = _noise(chance, talk, second, 200)
        yield "".join(chain(lines[:1], noise, lines[1:]))


def _taskmanager(number: int, cluster: Cluster) -> Iterator[str]:
    """Yield a TaskManager log, one report and the same number of bytes of other lines at a time."""
    chance = random.Random(1000 + number)
    talk = _talk(chance)
    block = _report_lines(number, cluster) if cluster.reports else []
    draws = [chance.random() for _ in range(SLICE)]
    reporter = "INFO  org.apache.flink.metrics.slf4j.Slf4jReporter                 [] -"
    lines = max(100, sum(len(text) + 6 for text, _ in block) // 125)
    task = "org.apache.flink.streaming.runtime.tasks.AsyncCheckpointRunnable [] -"
    checkpoint = 0
    while True:
        checkpoint += 1
        second = checkpoint * INTERVAL_S
        yield "".join(_noise(chance, talk, second, lines))
        late = stamp_of(second + INTERVAL_S - 1)
        if checkpoint % 10 == 0:
            yield f"{late},990 INFO  {task} enrich (1/4)#0 - asynchronous part of checkpoint {checkpoint} could not be completed.\n"
        if block:
            start = chance.randrange(SLICE)
            yield f"{late},999 {reporter} \n=========================== Starting metrics report ===========================\n"
            yield "".join(
                text if values is None else f"{text}{values.at(second, draws[n % SLICE])}\n"
                for n, (text, values) in enumerate(block, start)
            )
            yield "=========================== Finished metrics report ===========================\n\n"


@dataclass(frozen=True, slots=True)
class Values:
    """The values of one metric: random between two numbers, or rising by that much each second."""

    low: float
    high: float
    rises: bool = False

    def at(self, second: int, draw: float) -> str:
        """Return the printed value at a second of the run; `draw` is a random number from 0 to 1."""
        value = self.low + draw * (self.high - self.low)
        if self.rises:
            return str(int((self.low + self.high) / 2 * second + value))
        return f"{value:.6f}" if self.high <= 1 else str(int(value))


HEAP: Final = 1_000_000_000
GAUGES: Final = {
    "busyTimeMsPerSecond": Values(280, 320),
    "idleTimeMsPerSecond": Values(650, 690),
    "backPressuredTimeMsPerSecond": Values(0, 20),
    "CPU.Load": Values(0.2, 0.6),
    "Memory.Heap.Used": Values(0.4 * HEAP, 0.6 * HEAP),
    "Memory.Heap.Committed": Values(HEAP, HEAP),
    "Memory.Heap.Max": Values(HEAP, HEAP),
    "isBackPressured": Values(0, 0),
}
"""Gauges that flowdiag reads; all others lie between 0 and 0.3."""


def _values_of(name: str, section: str, number: int, cluster: Cluster) -> Values:
    if name == "GarbageCollector.All.Time":
        share = 0.25 + 0.2 * (number % 17) / 16 if cluster.lacks_heap and number % 7 else 0.02
        share = 0.93 if cluster.lacks_heap and number == cluster.taskmanagers else share
        return Values(1000 * share, 1000 * share, rises=True)
    if section == "Counters" or name.endswith(("Count", "CPU.Time")):
        return Values(900, 1000, rises=True)
    if section == "Meters":
        return Values(900, 1000)
    return GAUGES.get(name, Values(0, 0.3))


def _report_lines(number: int, cluster: Cluster) -> list[tuple[str, Values | None]]:
    """Return the lines of a report, each as a text and its values; headings have None."""
    scope = f"worker-{number}_flink_example.taskmanager.taskmanager-{number}"
    first = (number - 1) * SLOTS
    lines: list[tuple[str, Values | None]] = []
    for section, names in TASK_METRICS:
        lines.append((f"\n-- {section} {'-' * 69}\n", None))
        if section == "Gauges":
            lines += [
                (f"{scope}.Status.JVM.{name}: ", _values_of(name, section, number, cluster))
                for name in PROCESS_METRICS.split()
            ]
        lines += [
            (
                f"{scope}.orders.{vertex.replace('.', '_')}.{index}.{name}: ",
                _values_of(name, section, number, cluster),
            )
            for index in range(first, first + SLOTS)
            for vertex in VERTICES
            for name in names.split()
        ]
    lines.append(("\n", None))
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--megabytes", type=int, default=1000)
    parser.add_argument("--reports", action="store_true", help="half of it is metric reports")
    parser.add_argument("--taskmanagers", type=int, help="a wide cluster, which lacks heap")
    options = parser.parse_args()
    print(
        make(
            options.folder,
            options.megabytes,
            reports=options.reports,
            taskmanagers=options.taskmanagers,
        )
    )


if __name__ == "__main__":
    main()
