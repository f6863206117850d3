"""Measures the diagnosis of 20 MB of stacks, next to the same recording without them.

Makes thread dumps as `kill -3` prints them, and a profile of collapsed stacks as async-profiler writes it. The stacks
of the profile are random walks through 4,000 methods, so its lines differ. Threads and tasks are those of a
recording of Flink, whose diagnosis alone is the first contender.

    python -m benchmarks.stacks [--megabytes 20] [--rounds 3] [--write]
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from benchmarks.event_log import table
from benchmarks.measuring import WITH_FINDINGS, Contender, in_turn, machine, median
from benchmarks.page import write
from tests.archives import FIXTURES, unpacked

RECORDING: Final = FIXTURES / "recordings" / "live" / "2.3.0" / "code-http"
TASKS: Final = {"Source: numbers -> generate": 2, "enrich": 4, "aggregate": 6, "Sink: deliver": 2}
PACKAGES: Final = (
    "org/apache/flink/streaming/runtime/tasks",
    "org/apache/flink/runtime/io/network",
    "java/util/concurrent",
    "com/acme/shop/orders",
    "com/fasterxml/jackson/databind",
    "com/esotericsoftware/kryo",
    "sun/nio/ch",
)
LOOP: Final = (
    "java/lang/Thread.run",
    "org/apache/flink/runtime/taskmanager/Task.run",
    "org/apache/flink/streaming/runtime/tasks/StreamTask.invoke",
    "org/apache/flink/streaming/runtime/tasks/mailbox/MailboxProcessor.runMailboxLoop",
    "org/apache/flink/streaming/runtime/tasks/StreamTask.processInput",
)
HELPERS: Final = 400  # threads of a dump that run no task


def threads() -> list[str]:
    """Return the names of the threads that run the tasks."""
    return [f"{task} ({n + 1}/{of})#0" for task, of in TASKS.items() for n in range(of)]


class Walks:
    """Random stacks: each method calls one of three others."""

    def __init__(self) -> None:
        self.chance = random.Random(5)
        names = (
            f"{self.chance.choice(PACKAGES)}/Class{self.chance.randrange(400)}.method{n % 20}"
            for n in range(4000)
        )
        self.methods = [*names]
        self.calls = {name: self.chance.choices(self.methods, k=3) for name in self.methods}

    def stack(self) -> list[str]:
        """Return a stack, starting with the root frame."""
        found = [*LOOP, "com/acme/shop/orders/Enrich.map"]
        method = self.chance.choice(self.methods)
        for _ in range(self.chance.randrange(15, 50)):
            found.append(method)
            method = self.chance.choice(self.calls[method])
        return found


def collapsed(megabytes: float) -> Iterator[str]:
    """Yield the lines of a profile of all threads."""
    walks, size = Walks(), 0
    names = [f"[{name} tid={n + 100}]" for n, name in enumerate(threads())]
    while size < megabytes * 1e6:
        frames = [walks.chance.choice(names), *walks.stack()]
        line = f"{';'.join(frames)} {walks.chance.randrange(1, 40)}\n"
        size += len(line)
        yield line


def dumps(megabytes: float) -> Iterator[str]:
    """Yield thread dumps, two seconds apart."""
    walks, size = Walks(), 0
    moment = datetime(2026, 11, 21, 6, 30)
    names = [*threads(), *(f"pool-{n}-thread-1" for n in range(HELPERS))]
    while size < megabytes * 1e6:
        parts = [f"{moment:%Y-%m-%d %H:%M:%S}\nFull thread dump OpenJDK 64-Bit Server VM (17):\n"]
        for number, name in enumerate(names):
            frames = (frame.replace("/", ".") for frame in reversed(walks.stack()))
            lines = "".join(f"\tat {frame}(Source.java:7)\n" for frame in frames)
            head = (
                f'"{name}" #{number + 30} prio=5 os_prio=0 cpu={size % 9000}.12ms tid=0x7f runnable'
            )
            parts.append(f"{head}\n   java.lang.Thread.State: RUNNABLE\n{lines}\n")
        text = "\n".join(parts)
        moment += timedelta(seconds=2)
        size += len(text)
        yield text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=float, default=20)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--write", action="store_true", help="put the table into the README")
    chosen = parser.parse_args()
    what = machine()
    recording = unpacked(RECORDING)
    with tempfile.TemporaryDirectory(prefix="flowdiag-bench-") as name:
        folder = Path(name)
        for file, lines in (("profile.collapsed", collapsed), ("dumps.txt", dumps)):
            (folder / file).write_text("".join(lines(chosen.megabytes)), encoding="utf-8")
        environ = {"FLOWDIAG_CACHE_DIR": str(folder / "cache")}
        command = [sys.executable, "-m", "flowdiag.cli"]
        warm = {**os.environ, **environ}
        subprocess.run([*command, "warm"], env=warm, check=True, stdout=subprocess.DEVNULL)
        diagnose = [*command, "diagnose", "-q", str(recording)]
        alone = Contender(
            name="the recording alone", command=diagnose, environ=environ, succeeds=WITH_FINDINGS
        )
        contenders = [alone]
        contenders += [
            replace(alone, name=f"with {title}", command=[*diagnose, str(folder / file)])
            for title, file in (("thread dumps", "dumps.txt"), ("a profile", "profile.collapsed"))
        ]
        runs = in_turn(contenders, chosen.rounds)
    rows = table({name: median(each) for name, each in runs.items()})
    text = (
        f"{chosen.megabytes:.0f} MB of thread dumps, and {chosen.megabytes:.0f} MB of collapsed stacks, next to a"
        f" small recording; medians of {chosen.rounds} rounds.\n\n{what}.\n\n{rows}\n"
    )
    print(text)
    if chosen.write:
        write({"stacks": text})


if __name__ == "__main__":
    main()
