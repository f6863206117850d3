"""Measures the effect of each startup optimization on `flowdiag checkpoints`.

    python -m benchmarks.optimizations            # prints the table
    python -m benchmarks.optimizations --write    # and writes it to benchmarks/README.md

`FLOWDIAG_WITHOUT` disables an optimization (`cli/spark/optimizations.py`). Contenders run in turn, round
after round, each with a class archive made with the same flags. The input is two recordings: about
5 MB in some hundred files.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from benchmarks.measuring import WITH_FINDINGS, Contender, Run, in_turn, machine, median
from benchmarks.page import write
from benchmarks.startup import unpacked
from flowdiag.cli.spark.optimizations import DESCRIPTIONS, VARIABLE, Optimization

WITH_ALL: Final = "all of them"
# Optimizations that decide which archive fits: each has its own.
_OF_JAVA: Final = frozenset(
    {
        Optimization.FEWER_JARS,
        Optimization.FIRST_COMPILER,
        Optimization.SERIAL_COLLECTOR,
        Optimization.CODE_CACHE,
    }
)


def contenders(logs: Path, folder: Path) -> Iterator[Contender]:
    """Yield flowdiag with all optimizations, then without each.

    Args:
        logs: the logs to diagnose.
        folder: a folder for the class archives.
    """
    for optimization in (None, *Optimization):
        cache = folder / (optimization.value if optimization in _OF_JAVA else "cache")
        environ = {
            "FLOWDIAG_CACHE_DIR": str(cache),
            VARIABLE: optimization.value if optimization else "",
        }
        flowdiag = [sys.executable, "-m", "flowdiag.cli"]
        if not cache.exists():
            subprocess.run([*flowdiag, "warm"], env={**os.environ, **environ}, check=True)
        name = f"without {optimization.value}" if optimization else WITH_ALL
        command = [*flowdiag, "checkpoints", str(logs), "-q", "--format", "json"]
        yield Contender(name=name, command=command, environ=environ, succeeds=WITH_FINDINGS)


def table(runs: dict[str, Run]) -> Iterator[str]:
    """Yield a row per optimization: the time without it, relative to the time with all
    optimizations."""
    base = runs[WITH_ALL]
    yield f"\n{WITH_ALL.capitalize()}: {base.wall:.2f} s wall, {base.processor:.1f} s processor.\n"
    yield "\n| optimization | what it is | wall without it | processor |\n|---|---|---|---|\n"
    for optimization in Optimization:
        without = runs[f"without {optimization.value}"]
        wall, processor = without.wall / base.wall, without.processor / base.processor
        yield f"| `{optimization.value}` | {DESCRIPTIONS[optimization]} | {wall:.2f} | {processor:.2f} |\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--write", action="store_true", help="put the table into the README")
    options = parser.parse_args()
    # Installed packages are compiled, so a checkout must be; CI makes no archive in the background.
    for name in ("PYTHONDONTWRITEBYTECODE", "CI", VARIABLE):
        os.environ.pop(name, None)
    what = machine()
    with tempfile.TemporaryDirectory(prefix="flowdiag-bench-") as name:
        folder = Path(name)
        found = in_turn(list(contenders(unpacked(folder / "logs"), folder)), options.rounds)
    rows = "".join(table({name: median(runs) for name, runs in found.items()}))
    text = (
        "## What each startup optimization brings\n\n"
        f"Time of `flowdiag checkpoints` without it, as a share of that with all; medians of"
        f" {options.rounds} rounds.\n\n{what}.\n{rows}"
    )
    print(text)
    if options.write:
        write({"optimizations": text})


if __name__ == "__main__":
    main()
