"""Measures the speed of reading a log: the matcher, the scanner, and all steps up to Arrow batches.

    python benchmarks/parsing.py --megabytes 300

The log is generated: 2% of its lines are checkpoint and deployment messages, the rest comes from
other classes. CPU seconds count, because wall time means little on a busy machine.

Measured on two cores shared with other jobs (load 15, Python 3.11, 309 anchors, 32 344 candidates
in 300 MB). The median candidate took 18 µs; other load distorts the mean:

    | | CPU | |
    |---|---|---|
    | reading the file | 0.04 s | |
    | `ahocorasick_rs` alone, one reused buffer | 0.48 s | 626 MB/s |
    | scanner: candidate lines made | 0.53 s | 562 MB/s |
    | events as Arrow batches | 1.39 s | 216 MB/s |
    | per candidate line, mean | 26 µs | |
    | ripgrep, three literals | 0.07 s | |

The matcher needs 0.1 s per GB with ten literals, 0.2 s with forty, and always 1.5 s beyond a
hundred. Its vectorised prefilter is off from there on, and every byte passes through the automaton.
Fewer, shorter literals that cover all anchors are no faster: 75 are needed.
"""

from __future__ import annotations

import argparse
import random
import resource
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from flowdiag.parsers.catalogue import load_catalogue
from flowdiag.parsers.discover import discover
from flowdiag.parsers.lines.scan import BUFFER_BYTES, LineScanner, make_matcher
from flowdiag.parsers.split import parse_split, plan_splits

JOB = "7c7769847d333438dd9ce845d5a2d980"
COORDINATOR = "org.apache.flink.runtime.checkpoint.CheckpointCoordinator    "
GRAPH = "org.apache.flink.runtime.executiongraph.ExecutionGraph       "
OTHERS = (
    "org.apache.kafka.clients.consumer.internals.Fetcher",
    "com.acme.pipeline.EnrichFunction",
    "org.apache.flink.runtime.blob.BlobServer",
    "org.apache.hadoop.hdfs.DFSClient",
)
TALK = (
    "task job state manager slot request heartbeat resource executor dispatcher leader session "
    "stream operator partition buffer network memory reporter offset commit fetch record from to"
)


def relevant(number: int) -> str:
    """Return one of six messages."""
    checkpoint, place = number // 6, "container_1_000012 @ worker-3.example (dataPort=40090)"
    attempt = f"{number * 7919:032x}"
    task = f"Source: Custom Source -> Map -> (Filter, Flat Map) ({number % 64 + 1}/64)"
    expired = (
        f"expired checkpoint attempt {checkpoint} from task {attempt} of job {JOB} at {place}."
    )
    sizes = "(123456 bytes in 1234 ms)"
    start = f"(type=CHECKPOINT) @ {1_600_000_000_000 + number * 1000}"
    slot = f"with attempt id {attempt} to {place} with allocation id {attempt}"
    return (
        f"INFO  {COORDINATOR} [] - Triggering checkpoint {checkpoint} {start} for job {JOB}.",
        f"INFO  {COORDINATOR} [] - Completed checkpoint {checkpoint} for job {JOB} {sizes}.",
        f"WARN  {COORDINATOR} [] - Received late message for now {expired}",
        f"INFO  {GRAPH} [] - {task} ({attempt}) switched from DEPLOYING to RUNNING.",
        f"INFO  {GRAPH} [] - Deploying {task} (attempt #{number % 3}) {slot}",
        f"INFO  {COORDINATOR} [] - Checkpoint {checkpoint} of job {JOB} expired before completing.",
    )[number % 6]


def generate(path: Path, megabytes: int, share: float = 0.02) -> None:
    chance = random.Random(3)
    words = TALK.split()
    texts = [" ".join(chance.choices(words, k=chance.randint(8, 16))) for _ in range(5000)]
    size = number = line = 0
    with path.open("w") as file:
        while size < megabytes * 1_000_000:
            line += 1
            seconds, hundredths = divmod(line, 100)
            stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(1_628_000_000 + seconds))
            if chance.random() < share:
                rest = relevant(number)
                number += 1
            else:
                rest = f"INFO  {chance.choice(OTHERS):60} [] - {chance.choice(texts)}"
            size += file.write(f"{stamp},{hundredths * 10:03} {rest}\n")


def read(path: Path) -> int:
    buffer = bytearray(BUFFER_BYTES)
    with path.open("rb", buffering=0) as file:
        while file.readinto(buffer):
            pass
    return 0


def match(path: Path) -> int:
    """Run the matcher, without building lines."""
    matcher = make_matcher(load_catalogue().anchors)
    buffer = bytearray(BUFFER_BYTES)
    hits = 0
    with path.open("rb", buffering=0) as file, memoryview(buffer) as view:
        while count := file.readinto(buffer):
            hits += len(matcher.find(view[:count]))
    return hits


def scan(path: Path) -> int:
    """Build the candidate lines."""
    with path.open("rb", buffering=0) as file:
        return sum(1 for _ in LineScanner(file, make_matcher(load_catalogue().anchors)))


def parse(path: Path) -> int:
    """Build Arrow batches of events."""
    return sum(
        batch.num_rows
        for task in plan_splits(discover([str(path)]).sources)
        for split in task
        for batch in parse_split(split)
    )


def measure(step: Callable[[Path], int], path: Path, rounds: int) -> tuple[int, float]:
    """Return the result of a step, and the lowest CPU time of several rounds in seconds."""
    best, found = float("inf"), 0
    for _ in range(rounds):
        started = time.process_time()
        found = step(path)
        best = min(best, time.process_time() - started)
    return found, best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--megabytes", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--log", type=Path, help="measure this log instead of a generated one")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = options.log or Path(folder) / "generated.log"
        if options.log is None:
            generate(path, options.megabytes)
        size = path.stat().st_size
        seconds = {}
        for step in (read, match, scan, parse):
            found, seconds[step] = measure(step, path, options.rounds)
            rate = size / seconds[step] / 1e6
            print(f"{step.__name__:6} {seconds[step]:7.3f} s CPU {rate:8.0f} MB/s  {found} found")
            if step is scan:
                candidates = found
        each = (seconds[parse] - seconds[scan]) / max(1, candidates) * 1e6
        print(f"per candidate {each:.1f} µs")
        print(f"memory at most {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB")
        if (ripgrep := shutil.which("rg")) is not None:
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            literals = "Triggering checkpoint|expired before completing|switched from"
            subprocess.run([ripgrep, "-c", literals, path], stdout=subprocess.DEVNULL, check=False)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            print(f"ripgrep {used:.3f} s CPU")


if __name__ == "__main__":
    main()
