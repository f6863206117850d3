"""Reads a folder of logs without Spark: the time of `flowdiag checkpoints` if its queries cost nothing."""

import sys
import tempfile
from pathlib import Path

from flowdiag.analyses.checkpoints.topic import Checkpoints
from flowdiag.parsers.discover import discover
from flowdiag.parsers.machine import usable_processors
from flowdiag.parsers.parallel import parse_in_processes
from flowdiag.parsers.split import plan_splits

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        parsed = parse_in_processes(
            plan_splits(discover(sys.argv[1:]).sources),
            Path(folder),
            processes=usable_processors(),
            metrics=Checkpoints().metrics(),
        )
        print(parsed.events.count, parsed.metrics.count)
