"""Benchmarks the speed, scaling and memory of whole runs, next to other tools that do less.

    python -m benchmarks --short     five minutes: 1 GB
    python -m benchmarks --full      1 and 10 GB next to the peers, memory with 1, 10 and 40 GB, many jobs
    python -m benchmarks --full --only memory

The benchmark generates the logs (`benchmarks.logs`), reads them once before the first run so that
they are in the page cache, and removes them afterwards unless `--keep` is given. DuckDB and Polars
are installed into a virtual environment of the run. Without network access or ripgrep, their rows
are missing. Contenders take turns in every round, and the tables show medians. `--write` puts the
tables into `benchmarks/README.md`.
"""

from __future__ import annotations

import argparse
import inspect
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Final

from benchmarks import jobs, logs
from benchmarks.measuring import KINDS as EACH
from benchmarks.measuring import WITH_FINDINGS, Contender, Run, in_turn, machine, median, run
from benchmarks.page import write

PEERS: Final = Path(__file__).parent / "peers"
PARTS: Final = Path(__file__).parent / "parts"
GIGABYTE: Final = 1000
WIDE_MB: Final = 630
KINDS: Final = {"plain": "no metric reports", "reports": "half of it metric reports"}
MEMORY_HEADER: Final = (
    f"\n| input | peak of all processes | {' | '.join(EACH)} | wall |\n|---|---|---|---|---|---|\n"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """Paths, sizes and rounds of one benchmark run."""

    folder: Path
    rounds: int
    sizes: tuple[int, ...]  # megabytes in the runs next to the peers
    memory: tuple[int, ...]
    cache: Path  # of flowdiag's archive

    def logs(self, megabytes: int, kind: str) -> Path:
        """Return generated logs, loaded into the page cache if they fit."""
        print(f"{megabytes} MB, {KINDS[kind]}", file=sys.stderr)
        folder = logs.make(self.folder, megabytes, reports=kind == "reports")
        if megabytes <= 10 * GIGABYTE:
            for path in folder.iterdir():
                with path.open("rb", buffering=0) as file:
                    while file.read(1 << 20):
                        pass
        return folder

    def flowdiag(
        self,
        path: Path,
        *more: str,
        name: str = "flowdiag checkpoints",
        command_name: str = "checkpoints",
    ) -> Contender:
        """Return a contender that runs a flowdiag command, by default `checkpoints`, on a path."""
        command = [sys.executable, "-m", "flowdiag.cli", command_name, str(path), "-q"]
        command += ["--format", "json", *more]
        return Contender(
            name=name,
            command=command,
            environ={"FLOWDIAG_CACHE_DIR": str(self.cache)},
            succeeds=WITH_FINDINGS,
        )

    def on_cores(self, cores: int, path: Path, *, name: str) -> Contender:
        """Return a contender that runs flowdiag with all of its processes on this number of cores."""
        whole = self.flowdiag(path, "--master", f"local[{cores}]", name=name)
        # One core for Spark's tasks is not comparable: the JVM and a Python worker keep two cores busy.
        pinned = ["taskset", "-c", f"0-{cores - 1}", *whole.command]
        return replace(whole, command=pinned)


def throughput(bench: Bench) -> Iterator[str]:
    """Compare whole processes with tools that only filter and extract the late acknowledgements."""
    python = peers_python(bench.folder)
    for megabytes, (kind, words) in product(bench.sizes, KINDS.items()):
        path = bench.logs(megabytes, kind)
        contenders = [
            bench.flowdiag(path),
            Contender(
                name="flowdiag, reading alone",
                command=[sys.executable, str(PARTS / "reading.py"), str(path)],
            ),
        ]
        if python is not None:
            for peer in ("duckdb", "polars"):
                command = [str(python), str(PEERS / f"{peer}_late.py"), str(path)]
                contenders.append(Contender(name=f"{peer}, late messages only", command=command))
        command = [sys.executable, str(PEERS / "spark_late.py"), str(path)]
        contenders.append(Contender(name="plain PySpark, late messages only", command=command))
        contenders += ripgreps(bench, path)
        runs = {name: median(each) for name, each in in_turn(contenders, bench.rounds).items()}
        yield f"\n{size_of(path)}, {words}; whole processes, medians of {bench.rounds} round(s):\n\n"
        yield table(runs, "flowdiag checkpoints", unit=megabytes / GIGABYTE)


def scan(bench: Bench) -> Iterator[str]:
    """Compare a single-process scan for candidate lines with ripgrep on the same literals."""
    for kind, words in KINDS.items():
        path = bench.logs(GIGABYTE, kind)
        contenders = [
            Contender(
                name="scan alone", command=[sys.executable, str(PARTS / "scanning.py"), str(path)]
            ),
            *ripgreps(bench, path, "-j1"),
        ]
        runs = {name: median(each) for name, each in in_turn(contenders, bench.rounds).items()}
        yield f"\n{size_of(path)}, {words}; one thread each:\n\n"
        yield table(runs, "scan alone", unit=1)


def scaling(bench: Bench) -> Iterator[str]:
    """Measure the time per gigabyte, excluding startup, on one core and on two."""
    for kind, words in KINDS.items():
        small, large = bench.logs(5, kind), bench.logs(GIGABYTE, kind)
        contenders = [
            bench.on_cores(cores, path, name=f"{name}, {cores} of 2 cores")
            for cores in (1, 2)
            for name, path in (("5 MB", small), ("1 GB", large))
        ]
        runs = {name: median(each) for name, each in in_turn(contenders, bench.rounds).items()}
        rest = [
            runs[f"1 GB, {cores} of 2 cores"].wall - runs[f"5 MB, {cores} of 2 cores"].wall
            for cores in (1, 2)
        ]
        yield f"\n1 GB, {words}:\n\n"
        yield table(runs, "5 MB, 2 of 2 cores", unit=None)
        yield (
            f"\nt(1 GB) − t(5 MB): {rest[0]:.2f} s on one core, {rest[1]:.2f} s on two:"
            f" {rest[0] / max(rest[1], 0.01):.2f}-fold.\n"
        )


def memory(bench: Bench) -> Iterator[str]:
    """Measure the peak memory of all processes together, and of the largest process of each kind."""
    yield MEMORY_HEADER
    for megabytes in bench.memory:
        for kind, words in KINDS.items():
            if megabytes > 10 * GIGABYTE and kind == "plain":
                continue
            path = bench.logs(megabytes, kind)
            yield memory_row(bench.flowdiag(path), f"{size_of(path)}, {words}")
            if megabytes > 10 * GIGABYTE:
                shutil.rmtree(path)


def memory_row(contender: Contender, label: str) -> str:
    """Run a command and return its row for the table of `MEMORY_HEADER`."""
    done = run(contender, memory=True)
    print(f"  {done}", file=sys.stderr)
    sizes = (done.peak or 0, *(done.peaks.get(kind, 0) for kind in EACH))
    peaks = " | ".join(f"{size / 1e6:.0f} MB" for size in sizes)
    return f"| {label} | {peaks} | {done.wall:.1f} s |\n"


def files(bench: Bench) -> Iterator[str]:
    """Compare ten thousand small files with the same bytes in one file."""
    many, one = logs.make_pieces(bench.folder, 10_000, 20_000)
    contenders = [
        bench.flowdiag(many, name="10 000 files of 20 KB"),
        bench.flowdiag(one, name="the same in one file"),
    ]
    runs = {name: median(each) for name, each in in_turn(contenders, bench.rounds).items()}
    yield "\n"
    yield table(runs, "the same in one file", unit=None)


def wide(bench: Bench) -> Iterator[str]:
    """Compare the logs of 500 TaskManagers and 8,000 subtasks with logs of the same size from two
    TaskManagers."""
    paths = {
        "2 TaskManagers": logs.make(bench.folder, WIDE_MB, reports=True),
        "500 TaskManagers": logs.make(bench.folder, WIDE_MB, reports=True, taskmanagers=500),
    }
    contenders, reports = [], {}
    for name, path in paths.items():
        reports[name] = bench.folder / f"{path.name}.json"
        output = ("--output", str(reports[name]))
        contenders.append(bench.flowdiag(path, *output, name=name, command_name="queues"))
    runs = {name: median(each) for name, each in in_turn(contenders, bench.rounds).items()}
    yield f"\n{WIDE_MB} MB, half of it metric reports; `flowdiag queues`:\n\n"
    yield table(runs, "2 TaskManagers", unit=WIDE_MB / GIGABYTE)
    sizes = (f"{path.stat().st_size / 1e6:.1f} MB ({name})" for name, path in reports.items())
    yield f"\nThe JSON report has {' and '.join(sizes)}.\n"


def many_jobs(bench: Bench) -> Iterator[str]:
    """Diagnose a History Server's folder and a folder of event logs. Every fiftieth job is
    unhealthy."""
    yield MEMORY_HEADER
    for engine, count, kind in (("flink", 10_000, "archives"), ("spark", 200, "event logs")):
        path = jobs.make(bench.folder, count, engine)
        yield memory_row(
            bench.flowdiag(path, command_name="diagnose"),
            f"{count:,} {kind}, {size_of(path)}",
        )


SECTIONS: Final[dict[str, tuple[str, Callable[[Bench], Iterator[str]]]]] = {
    "throughput": ("Throughput", throughput),
    "scan": ("The scan", scan),
    "scaling": ("The cost of a gigabyte", scaling),
    "memory": ("Memory", memory),
    "files": ("Many files", files),
    "wide": ("A wide cluster", wide),
    "jobs": ("Many jobs", many_jobs),
}


def ripgreps(bench: Bench, path: Path, *options: str) -> list[Contender]:
    """Return a contender that counts the lines with flowdiag's literals, or nothing if ripgrep is
    missing."""
    ripgrep = shutil.which("rg")
    if ripgrep is None:
        return []
    from flowdiag.parsers.catalogue import load_catalogue

    literals = bench.folder / "literals.txt"
    literals.write_text("\n".join(load_catalogue("flink").anchors) + "\n", encoding="utf-8")
    count = [ripgrep, *options, "-c", "-F"]
    return [
        Contender(
            name="ripgrep, the same literals", command=[*count, "-f", str(literals), str(path)]
        ),
        Contender(
            name="ripgrep, one literal", command=[*count, "Received late message", str(path)]
        ),
    ]


def peers_python(folder: Path) -> Path | None:
    """Return the Python of a virtual environment with DuckDB and Polars, or None if it cannot be
    made.
    """
    home = folder / "peers"
    python = home / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(home)], check=True)
    install = [str(python), "-m", "pip", "install", "-q", "duckdb", "polars"]
    done = subprocess.run(install, check=False, stdout=subprocess.DEVNULL)
    if done.returncode:
        print("DuckDB and Polars cannot be installed: left out", file=sys.stderr)
        return None
    return python


def table(runs: dict[str, Run], base: str, *, unit: float | None) -> str:
    """Render a row per contender, with its ratio to the base.

    Args:
        runs: the median run of each contender, by name.
        base: the contender with ratio 1.
        unit: size of the input in GB, for the column with the time per GB. None omits the column.
    """
    per = "" if unit is None else " per GB |"
    lines = [f"| | wall | ratio | processor |{per}\n|---|---|---|---|{'---|' * bool(per)}\n"]
    for name, each in runs.items():
        ratio = each.wall / runs[base].wall
        cost = "" if unit is None else f" {each.processor / unit:.2f} s |"
        lines.append(
            f"| {name} | {each.wall:.2f} s | {ratio:.2f} | {each.processor:.1f} s |{cost}\n"
        )
    return "".join(lines)


def size_of(path: Path) -> str:
    """Return the total size of all files below a path, as text."""
    total = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    return f"{total / 1e9:.1f} GB" if total >= 1e9 else f"{total / 1e6:.0f} MB"


@contextmanager
def working_folder(parent: Path | None, *, keep: bool) -> Iterator[Path]:
    """Yield the folder for logs and peers; delete its content afterwards unless `keep` is set."""
    if parent is None:
        with tempfile.TemporaryDirectory(prefix="flowdiag-bench-") as folder:
            yield Path(folder)
        return
    parent.mkdir(parents=True, exist_ok=True)
    yield parent
    if not keep:
        for kind in (*KINDS, "jobs"):
            for path in parent.glob(f"{kind}-*"):
                if path.is_dir():
                    shutil.rmtree(path)
                else:  # the report of a wide cluster
                    path.unlink()


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    extent = parser.add_mutually_exclusive_group()
    extent.add_argument("--short", action="store_true", help="five minutes (the default)")
    extent.add_argument("--full", action="store_true")
    parser.add_argument("--only", choices=SECTIONS, nargs="*", help="sections")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--megabytes", type=int, help="in the runs next to the peers")
    parser.add_argument("--folder", type=Path, help="for the logs; 75 GB for --full")
    parser.add_argument("--keep", action="store_true", help="leave the logs in --folder")
    parser.add_argument("--write", action="store_true", help="put the tables into the README")
    options = parser.parse_args()
    sizes = (GIGABYTE, 10 * GIGABYTE) if options.full else (GIGABYTE,)
    with working_folder(options.folder, keep=options.keep) as folder:
        bench = Bench(
            folder=folder,
            rounds=options.rounds or (3 if options.full else 2),
            sizes=(options.megabytes,) if options.megabytes else sizes,
            memory=(1000, 10_000, 40_000) if options.full else (1000,),
            cache=folder / "cache",
        )
        environ = {**os.environ, "FLOWDIAG_CACHE_DIR": str(bench.cache)}
        warm = [sys.executable, "-m", "flowdiag.cli", "warm"]
        subprocess.run(warm, env=environ, check=True, stdout=subprocess.DEVNULL)
        what = machine()
        print(what, file=sys.stderr)
        for name in options.only or [name for name in SECTIONS if options.full or name != "jobs"]:
            title, section = SECTIONS[name]
            started = time.perf_counter()
            about = inspect.cleandoc(section.__doc__ or "")
            text = f"## {title}\n\n{about}\n\n{what}.\n" + "".join(section(bench))
            print(text, flush=True)
            print(f"{name}: {time.perf_counter() - started:.0f} s", file=sys.stderr)
            if options.write:
                write({name: text})


if __name__ == "__main__":
    main()
