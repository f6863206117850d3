"""Measures CPU seconds per gigabyte on one host and on a standalone cluster of two workers.

    python -m benchmarks.cluster --folder /big/disk

The cluster (a master, two workers of one core each, their executors) runs from the installed
pyspark on loopback and is recreated for each run. The cost of a gigabyte is the difference between
a large and a small input, so it excludes startup.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from benchmarks import logs
from benchmarks.__main__ import KINDS
from benchmarks.measuring import WITH_FINDINGS, Contender, Run, machine, run
from benchmarks.page import write
from tests.standalone import standalone

TERABYTE: Final = 1000  # gigabytes
PAGE: Final = Path(__file__).parents[1] / "docs" / "scaling.md"


def measured(path: Path, cache: Path, *, cluster: bool) -> Run:
    """Measure one run on the logs in a folder."""
    with ExitStack() as stack:
        command = [sys.executable, "-m", "flowdiag.cli", "checkpoints", "-q", "--format", "json"]
        environ = {"FLOWDIAG_CACHE_DIR": str(cache)}
        if cluster:
            made = stack.enter_context(
                standalone(Path(stack.enter_context(tempfile.TemporaryDirectory())))
            )
            command += ["--master", made.master, path.resolve().as_uri()]
            environ |= made.environ
        else:
            command += [str(path)]
        name = str(path)
        done = run(Contender(name=name, command=command, environ=environ, succeeds=WITH_FINDINGS))
    print(f"  {path.name}, {'cluster' if cluster else 'alone'}: {done}", file=sys.stderr)
    return done


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--folder", type=Path, required=True, help="for the logs")
    parser.add_argument("--megabytes", type=int, nargs=2, default=(1000, 10_000))
    parser.add_argument("--kinds", choices=KINDS, nargs="*", default=list(KINDS))
    parser.add_argument("--write", action="store_true", help="put the table into docs/scaling.md")
    options = parser.parse_args()
    for name in ("PYTHONDONTWRITEBYTECODE", "CI"):
        os.environ.pop(name, None)
    text = f"{machine()}; from {options.megabytes[0] / 1000:g} to {options.megabytes[1] / 1000:g} GB.\n\n"
    text += "| logs | where | wall | processor seconds per GB | core hours per TB |\n|---|---|---|---|---|\n"
    cache = options.folder / "cache"
    warm = [sys.executable, "-m", "flowdiag.cli", "warm"]
    environ = {**os.environ, "FLOWDIAG_CACHE_DIR": str(cache)}
    subprocess.run(warm, env=environ, check=True, stdout=subprocess.DEVNULL)
    small, large = options.megabytes
    for kind in options.kinds:
        paths = [
            logs.make(options.folder, size, reports=kind == "reports") for size in (small, large)
        ]
        for where in ("this machine", "two workers"):
            first, last = (measured(each, cache, cluster=where != "this machine") for each in paths)
            per_gb = (last.processor - first.processor) / ((large - small) / 1000)
            hours = per_gb * TERABYTE / 3600
            text += (
                f"| {KINDS[kind]} | {where} | {last.wall:.1f} s | {per_gb:.1f} | {hours:.2f} |\n"
            )
    print(text)
    if options.write:
        write({"cluster": text}, PAGE)


if __name__ == "__main__":
    main()
