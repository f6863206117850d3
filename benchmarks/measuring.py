"""Runs a contender and measures wall time, CPU time and memory of all its processes."""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import resource
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Final

SAMPLED_EVERY_S: Final = 0.25
WITH_FINDINGS: Final = (0, 1)
"""The exit codes of a successful flowdiag. A Python script that fails ends with 1."""
KINDS: Final = ("the command", "Java", "a parsing process")


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    name: str
    command: Sequence[str]
    environ: Mapping[str, str] = field(default_factory=dict)
    succeeds: tuple[int, ...] = (0,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Measurements of one run: seconds, and peak bytes (None if not sampled).

    Args:
        wall: seconds on the clock.
        processor: seconds of all processes.
        peak: largest total of all processes, in bytes.
        peaks: by kind of process (`KINDS`), the largest size that any of them had.
    """

    wall: float
    processor: float
    peak: int | None = None
    peaks: Mapping[str, int] = field(default_factory=dict)


def run(contender: Contender, *, memory: bool = False) -> Run:
    """Run a contender once.

    Args:
        contender: the command; its output is discarded.
        memory: whether to sample the memory of the process and of its descendants.

    Raises:
        SystemExit: the command failed.
    """
    _adopt_orphans()
    others = set(_below(os.getpid()))  # processes of a cluster, which keep running
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = time.perf_counter()
    with subprocess.Popen(
        contender.command,
        env={**os.environ, "FLOWDIAG_WARM": "never", **contender.environ},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    ) as process:
        sampler = _Sampler(process.pid, memory=memory)
        sampler.start()
        _, complaints = process.communicate()
        wall = time.perf_counter() - started
        sampler.stop()
    _await_orphans(others)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if process.returncode not in contender.succeeds:
        error = complaints.decode(errors="replace")[-2000:]
        raise SystemExit(f"{contender.name}: status {process.returncode}\n{error}")
    waited = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    # No process waits for Python workers that Spark kills, so only the samples count them.
    processor = max(waited, sampler.processor)
    return Run(
        wall=wall,
        processor=processor,
        peak=sampler.peak if memory else None,
        peaks=sampler.peaks,
    )


def in_turn(
    contenders: Sequence[Contender], rounds: int, *, memory: bool = False
) -> dict[str, list[Run]]:
    """Run all contenders in turn, round after round, so that other load on the host affects them
    equally."""
    runs: dict[str, list[Run]] = {contender.name: [] for contender in contenders}
    for number in range(rounds):
        for contender in contenders:
            done = run(contender, memory=memory)
            runs[contender.name].append(done)
            peak = "" if done.peak is None else f", {done.peak / 1e6:.0f} MB"
            times = f"{done.wall:.1f} s wall, {done.processor:.1f} s processor{peak}"
            load = os.getloadavg()[0]
            print(f"  {number + 1}. {contender.name}: {times}, load {load:.0f}", file=sys.stderr)
    return runs


def median(runs: Sequence[Run]) -> Run:
    """Return the median of each measurement."""
    peaks = [each.peak for each in runs if each.peak is not None]
    return Run(
        wall=statistics.median(each.wall for each in runs),
        processor=statistics.median(each.processor for each in runs),
        peak=max(peaks, default=None),
    )


def machine() -> str:
    """Describe the machine and the versions in one sentence."""
    model = platform.processor() or platform.machine()
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                model = line.partition(":")[2].strip()
                break
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    packages = ", ".join(
        f"{name} {version(name)}" for name in ("pyspark", "pyarrow", "ahocorasick_rs")
    )
    python = platform.python_version()
    load = os.getloadavg()[0]
    return (
        f"{cores} cores ({model}, {platform.system()}), Python {python}, {packages}; "
        f"load before the first run {load:.1f}"
    )


def _adopt_orphans() -> None:
    """Become the parent of JVMs that outlive their Python process; otherwise their processor
    time is lost.
    """
    if sys.platform == "linux":
        set_child_subreaper = 36  # prctl(2)
        ctypes.CDLL(None).prctl(set_child_subreaper, 1, 0, 0, 0)


def _await_orphans(others: set[int]) -> None:
    """Wait for the descendants of the command, and for no other process."""
    while set(_below(os.getpid())) - others:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(-1, os.WNOHANG)
        time.sleep(0.01)


class _Sampler(threading.Thread):
    """Samples the descendants of this process for their peak total memory and their CPU time."""

    def __init__(self, command: int, *, memory: bool) -> None:
        super().__init__(daemon=True)
        self.peak = 0
        self.peaks: dict[str, int] = {}
        self._command = command
        self._memory = memory
        self._seconds: dict[int, float] = {}
        self._stopped = threading.Event()

    @property
    def processor(self) -> float:
        """Seconds of CPU time as of the last sample of each process."""
        return sum(self._seconds.values())

    def run(self) -> None:
        while not self._stopped.wait(SAMPLED_EVERY_S):
            below = _below(os.getpid())
            if self._memory:
                # The kind comes first: it cannot be determined once the process has ended.
                kinds = {process: self._kind(process) for process in below}
                sizes = {process: _proportional_bytes(process) for process in below}
                self.peak = max(self.peak, sum(sizes.values()))
                for process, size in sizes.items():
                    kind = kinds[process]
                    self.peaks[kind] = max(self.peaks.get(kind, 0), size)
            for process in below:
                with contextlib.suppress(OSError, ValueError, IndexError):
                    text = (Path("/proc") / str(process) / "stat").read_text()
                    user, system = text.rpartition(")")[2].split()[11:13]
                    self._seconds[process] = (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")

    def _kind(self, process: int) -> str:
        if process == self._command:
            return KINDS[0]
        # The program, not the name: a process that is about to start Java carries the name of a thread.
        with contextlib.suppress(OSError):
            if Path(f"/proc/{process}/exe").readlink().name.startswith("java"):
                return KINDS[1]
        return KINDS[2]

    def stop(self) -> None:
        self._stopped.set()
        self.join()


def _below(process: int) -> list[int]:
    """Return all descendants of a process."""
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError):
            # The name of a program may hold any character, but is in parentheses.
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(folder.name))
    found: list[int] = []
    pending = [process]
    while pending:
        below = children.get(pending.pop(), [])
        found += below
        pending += below
    return found


def _proportional_bytes(process: int) -> int:
    """Return the proportional set size: shared pages are divided among the processes that share
    them.
    """
    with contextlib.suppress(OSError, ValueError):
        for line in Path(f"/proc/{process}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return 0
