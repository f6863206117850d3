"""Running a contender as a process of its own: wall time, processor time, memory of all it started."""

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
KINDS: Final = ("the command", "Java", "a parsing process")


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    """A command to measure."""

    name: str
    command: Sequence[str]
    environ: Mapping[str, str] = field(default_factory=dict)
    succeeds: tuple[int, ...] = (0, 1)  # 1 means findings


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What one run took: seconds, and bytes at the peak (None where they were not sampled).

    Args:
        wall: seconds on the clock.
        processor: seconds of all processes.
        peak: bytes of all processes together, when they were most.
        peaks: by kind of process (`KINDS`): the largest that one of them was at any time.
    """

    wall: float
    processor: float
    peak: int | None = None
    peaks: Mapping[str, int] = field(default_factory=dict)


def run(contender: Contender, *, memory: bool = False) -> Run:
    """Run once.

    Args:
        contender: what to run; its output is thrown away.
        memory: sample the memory of the process and of everything below it.

    Raises:
        SystemExit: the command failed.
    """
    _adopt_orphans()
    others = set(_below(os.getpid()))  # a cluster's, which go on
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
        told = complaints.decode(errors="replace")[-2000:]
        raise SystemExit(f"{contender.name}: status {process.returncode}\n{told}")
    waited = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    # Python workers that Spark kills are waited for by nobody: of them only the samples tell.
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
    """Run all contenders once, then all of them again: a busy machine is unfair to all alike."""
    runs: dict[str, list[Run]] = {contender.name: [] for contender in contenders}
    for number in range(rounds):
        for contender in contenders:
            done = run(contender, memory=memory)
            runs[contender.name].append(done)
            peak = "" if done.peak is None else f", {done.peak / 1e6:.0f} MB"
            told = f"{done.wall:.1f} s wall, {done.processor:.1f} s processor{peak}"
            load = os.getloadavg()[0]
            print(f"  {number + 1}. {contender.name}: {told}, load {load:.0f}", file=sys.stderr)
    return runs


def median(runs: Sequence[Run]) -> Run:
    """Median of each figure."""
    peaks = [each.peak for each in runs if each.peak is not None]
    return Run(
        wall=statistics.median(each.wall for each in runs),
        processor=statistics.median(each.processor for each in runs),
        peak=max(peaks, default=None),
    )


def machine() -> str:
    """The machine and the versions, in one sentence."""
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
    """Become the parent of JVMs that outlive their Python, or their processor time is lost."""
    if sys.platform == "linux":
        set_child_subreaper = 36  # prctl(2)
        ctypes.CDLL(None).prctl(set_child_subreaper, 1, 0, 0, 0)


def _await_orphans(others: set[int]) -> None:
    """Wait for what the command left behind, but not for others."""
    while set(_below(os.getpid())) - others:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(-1, os.WNOHANG)
        time.sleep(0.01)


class _Sampler(threading.Thread):
    """Samples all processes below this one: the largest sum of their memory, and their processor time."""

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
        """Seconds, as far as each process was last seen."""
        return sum(self._seconds.values())

    def run(self) -> None:
        while not self._stopped.wait(SAMPLED_EVERY_S):
            below = _below(os.getpid())
            if self._memory:
                # First what it is: of one that ends meanwhile nothing can be told afterwards.
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
        # Its program, not its name: a process that Java is about to start bears the name of a thread.
        with contextlib.suppress(OSError):
            if Path(f"/proc/{process}/exe").readlink().name.startswith("java"):
                return KINDS[1]
        return KINDS[2]

    def stop(self) -> None:
        self._stopped.set()
        self.join()


def _below(process: int) -> list[int]:
    """Children, their children and so on."""
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError):
            # The name of a program may have anything in it, but stands in parentheses.
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
    """Memory of a process, pages that it shares divided by those who share them."""
    with contextlib.suppress(OSError, ValueError):
        for line in Path(f"/proc/{process}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return 0
