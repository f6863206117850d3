"""Searches a folder of logs for the lines that may contain a known message, in one process."""

import sys
from pathlib import Path

from flowdiag.parsers.catalogue import load_catalogue
from flowdiag.parsers.lines.scan import LineScanner
from flowdiag.parsers.logs.reader import STRUCTURE
from flowdiag.parsers.logs.records import Recognizer

matcher = Recognizer(load_catalogue("flink"), STRUCTURE).matcher
for path in sorted(Path(sys.argv[1]).glob("*.log")):
    with path.open("rb", buffering=0) as file:
        print(path.name, sum(1 for _ in LineScanner(file, matcher)))
