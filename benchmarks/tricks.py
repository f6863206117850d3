"""What each start-up trick brings: `flowdiag checkpoints` with all of them beside the same without one.

    python -m benchmarks.tricks            # prints the table
    python -m benchmarks.tricks --write    # and puts it into benchmarks/README.md

`FLOWDIAG_WITHOUT` leaves one out (`cli/spark/tricks.py`). Contenders run in turn, round after round, each with an
archive of classes made with the same flags; two recordings, about 5 MB in some hundred files, are what is diagnosed.
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

from benchmarks.measuring import Contender, Run, in_turn, machine, median
from benchmarks.page import write
from benchmarks.startup import unpacked
from flowdiag.cli.spark.tricks import DESCRIPTIONS, VARIABLE, Trick

WITH_ALL: Final = "all of them"
# What decides which archive fits: each has one of its own.
_OF_JAVA: Final = frozenset(
    {Trick.FEWER_JARS, Trick.FIRST_COMPILER, Trick.SERIAL_COLLECTOR, Trick.CODE_CACHE}
)


def contenders(logs: Path, folder: Path) -> Iterator[Contender]:
    """All tricks, then all but one.

    Args:
        logs: what is diagnosed.
        folder: for archives.
    """
    for trick in (None, *Trick):
        cache = folder / (trick.value if trick in _OF_JAVA else "cache")
        environ = {"FLOWDIAG_CACHE_DIR": str(cache), VARIABLE: trick.value if trick else ""}
        flowdiag = [sys.executable, "-m", "flowdiag.cli"]
        if not cache.exists():
            subprocess.run([*flowdiag, "warm"], env={**os.environ, **environ}, check=True)
        name = f"without {trick.value}" if trick else WITH_ALL
        command = [*flowdiag, "checkpoints", str(logs), "-q", "--format", "json"]
        yield Contender(name=name, command=command, environ=environ)


def table(runs: dict[str, Run]) -> Iterator[str]:
    """A row per trick: what a run takes without it, as a share of one with all."""
    base = runs[WITH_ALL]
    yield f"\n{WITH_ALL.capitalize()}: {base.wall:.2f} s wall, {base.processor:.1f} s processor.\n"
    yield "\n| trick | what it is | wall without it | processor |\n|---|---|---|---|\n"
    for trick in Trick:
        without = runs[f"without {trick.value}"]
        wall, processor = without.wall / base.wall, without.processor / base.processor
        yield f"| `{trick.value}` | {DESCRIPTIONS[trick]} | {wall:.2f} | {processor:.2f} |\n"


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--write", action="store_true", help="put the table into the README")
    options = parser.parse_args()
    # An installed package is compiled, a checkout should be too; no archive is made aside in CI.
    for name in ("PYTHONDONTWRITEBYTECODE", "CI", VARIABLE):
        os.environ.pop(name, None)
    what = machine()
    with tempfile.TemporaryDirectory(prefix="flowdiag-bench-") as name:
        folder = Path(name)
        found = in_turn(list(contenders(unpacked(folder / "logs"), folder)), options.rounds)
    rows = "".join(table({name: median(runs) for name, runs in found.items()}))
    text = (
        "## What each start-up trick brings\n\n"
        f"Time of `flowdiag checkpoints` without it, as a share of that with all; medians of"
        f" {options.rounds} rounds.\n\n{what}.\n{rows}"
    )
    print(text)
    if options.write:
        write({"tricks": text})


if __name__ == "__main__":
    main()
