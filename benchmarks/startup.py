"""Measures the time to the first answer: `flowdiag checkpoints` next to a bare PySpark script.

    python -m benchmarks.startup            # or python benchmarks/startup.py
    python -m benchmarks.startup --write    # writes the table to benchmarks/README.md

Every round runs each contender once, in turn, so that other load on the machine affects all alike.
Medians and their ratios to the bare script are printed as a Markdown table. Processor time (of the
process and all of its descendants) is included because other load hardly affects it.

The first contender is a bare script (session, `read.text`, filter, count). The others run
`flowdiag checkpoints` without an archive, with the archive of `flowdiag warm`, and with the Java
that `flowdiag warm --stay` left running, whose CPU time is not counted. The floors run
one query of two columns over a thousand rows in the same sessions: no diagnosis can be faster.

`--java` repeats the second and the third for other runtimes. Archives go to a temporary folder of
the run. If no logs are given, two recordings are unpacked: about 5 MB in some hundred files.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import zstandard

WITH_FINDINGS = (0, 1)  # exit codes of a successful flowdiag
RECORDINGS = Path(__file__).parents[1] / "fixtures" / "recordings" / "flink" / "1.20.5"
BARE = """
import sys
from pyspark.sql import SparkSession, functions as F
spark = SparkSession.builder.getOrCreate()
lines = spark.read.option("recursiveFileLookup", True).text(sys.argv[1])
relevant = lines.where(F.col("value").contains("checkpoint"))
print(relevant.groupBy(F.substring("value", 1, 10)).count().collect())
"""

# The lower bound of any diagnosis: the same session, and a query of two columns.
FLOOR = """
import sys
from flowdiag.cli.spark.starter import SparkStarter
with SparkStarter.begin(join="join" in sys.argv) as starter:
    spark = starter.session()
    rows = spark.range(1000).selectExpr("id % 7 AS a", "id AS b")
    print(rows.groupBy("a").sum("b").collect())
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    name: str
    command: Sequence[str]
    environ: Mapping[str, str] = field(default_factory=dict)
    succeeds: tuple[int, ...] = (0,)  # exit codes


def measure(contender: Contender) -> tuple[float, float]:
    """Return wall and CPU time of one run, in seconds.

    Raises:
        SystemExit: the command failed.
    """
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = time.perf_counter()
    done = subprocess.run(
        contender.command,
        env={**_environ(), "FLOWDIAG_WARM": "never", **contender.environ},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        check=False,
    )
    wall = time.perf_counter() - started
    _await_orphans()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode not in contender.succeeds:
        raise SystemExit(f"{contender.name}: {done.stderr.decode(errors='replace')[-2000:]}")
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _environ() -> dict[str, str]:
    """Return our environment with bytecode enabled: installed packages are compiled, so a
    checkout must be.
    """
    without = ("PYTHONDONTWRITEBYTECODE", "CI", "XDG_RUNTIME_DIR")
    return {name: value for name, value in os.environ.items() if name not in without}


@contextlib.contextmanager
def _staying(flowdiag: str, folder: Path) -> Iterator[Contender]:
    """Keep Java running inside the block, and yield the command that connects to it, without the
    arguments that all contenders share."""
    runtime = folder / "runtime"
    runtime.mkdir(mode=0o700)
    environ = {"XDG_RUNTIME_DIR": str(runtime), "FLOWDIAG_CACHE_DIR": str(folder / "empty")}
    subprocess.run([flowdiag, "warm", "--stay", "12h"], env={**_environ(), **environ}, check=True)
    try:
        yield Contender(
            name="flowdiag, joining", command=(), environ=environ, succeeds=WITH_FINDINGS
        )
    finally:
        subprocess.run([flowdiag, "warm", "--stop"], env={**_environ(), **environ}, check=True)


def _adopt_orphans() -> None:
    """Become the parent of JVMs that outlive their Python process; otherwise their processor
    time is lost.
    """
    if sys.platform == "linux":
        set_child_subreaper = 36  # prctl(2)
        ctypes.CDLL(None).prctl(set_child_subreaper, 1, 0, 0, 0)


def _await_orphans() -> None:
    with contextlib.suppress(ChildProcessError):
        while True:
            os.wait()


def unpacked(target: Path) -> Path:
    """Unpack two recordings into folders, like logs on a real host."""
    for name in ("hot-key", "healthy"):
        with (
            zstandard.open(RECORDINGS / name / f"{name}.tar.zst", "rb") as stream,
            tarfile.open(fileobj=stream, mode="r|") as archive,
        ):
            archive.extractall(target / name, filter="data")
    return target


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("logs", type=Path, nargs="?", help="default: recordings, unpacked")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--java", type=Path, nargs="*", default=[], help="homes of other runtimes")
    parser.add_argument("--write", action="store_true", help="put the table into the README")
    options = parser.parse_args()
    flowdiag = shutil.which("flowdiag", path=str(Path(sys.executable).parent)) or "flowdiag"

    with (
        tempfile.TemporaryDirectory() as folder,
        _staying(flowdiag, Path(folder)) as joining,  # before its keeper becomes an orphan of ours
    ):
        _adopt_orphans()
        logs = str(options.logs or unpacked(Path(folder) / "logs"))
        ours = [flowdiag, "checkpoints", logs, "--format", "json"]
        contenders = [Contender(name="bare script", command=[sys.executable, "-c", BARE, logs])]
        for home in [None, *options.java]:
            java = {} if home is None else {"JAVA_HOME": str(home)}
            label = "" if home is None else f", {home.name}"
            empty = {**java, "FLOWDIAG_CACHE_DIR": str(Path(folder) / "empty")}
            warm = {**java, "FLOWDIAG_CACHE_DIR": str(Path(folder) / "warm")}
            started = time.perf_counter()
            subprocess.run([flowdiag, "warm"], env={**_environ(), **warm}, check=True)
            print(f"warm{label}: {time.perf_counter() - started:.0f} s", file=sys.stderr)
            first = Contender(
                name=f"flowdiag, no archive{label}",
                command=ours,
                environ=empty,
                succeeds=WITH_FINDINGS,
            )
            contenders += [
                first,
                replace(first, name=f"flowdiag, archive{label}", environ=warm),
            ]
            floor = [sys.executable, "-c", FLOOR]
            contenders.append(Contender(name=f"floor, archive{label}", command=floor, environ=warm))
        contenders.append(replace(joining, command=ours))
        floor = [sys.executable, "-c", FLOOR, "join"]
        contenders.append(replace(joining, name="floor, joining", command=floor, succeeds=(0,)))
        times: dict[str, list[tuple[float, float]]] = {each.name: [] for each in contenders}
        for number in range(options.rounds):
            for each in contenders:
                times[each.name].append(measure(each))
                print(f"{number + 1}. {each.name}: {times[each.name][-1]}", file=sys.stderr)

    rows = {
        name: [statistics.median(column) for column in zip(*found, strict=True)]
        for name, found in times.items()
    }
    text = table(rows)
    print(text)
    if options.write:
        from benchmarks.measuring import machine
        from benchmarks.page import write

        write(
            {"startup": f"Medians of {options.rounds} rounds, run in turn. {machine()}.\n\n{text}"}
        )


def table(rows: Mapping[str, Sequence[float]]) -> str:
    """Render wall and CPU time of each contender, and their shares of the bare script's."""
    wall, processor = rows["bare script"]
    lines = ["| | wall | of bare | processor | of bare |", "|---|---|---|---|---|"]
    lines += [
        f"| {name} | {own_wall:.2f} s | {own_wall / wall:.2f} "
        f"| {own_processor:.1f} s | {own_processor / processor:.2f} |"
        for name, (own_wall, own_processor) in rows.items()
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
