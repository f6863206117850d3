"""Collects the faults found: each once, as a file that reproduces it, with statistics."""

from __future__ import annotations

import hashlib
import re
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

REGRESSIONS: Final = Path(__file__).parent / "regressions"


@dataclass(slots=True)
class Found:
    """The results of a search so far.

    Attributes:
        folder: the folder for the files that reproduce faults.
        faults: number of occurrences of each fault.
        tried: number of inputs by format.
        kinds: number of inputs by detected kind.
        lines, size: totals over all inputs, the latter in bytes.
    """

    folder: Path
    faults: Counter[str] = field(default_factory=Counter)
    tried: Counter[str] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)
    lines: int = 0
    size: int = 0

    def counts(self, name: str, kind: str, data: bytes) -> None:
        """Count one input."""
        self.tried[name] += 1
        self.kinds[kind] += 1
        self.lines += data.count(b"\n")
        self.size += len(data)

    def is_new(self, what: str) -> bool:
        """Count a fault, and return whether it is new."""
        self.faults[what] += 1
        return self.faults[what] == 1

    def place(self, what: str) -> Path:
        """Return the path for a fault, named after it."""
        self.folder.mkdir(parents=True, exist_ok=True)
        words = re.sub(r"[^A-Za-z0-9]+", "-", what).strip("-").lower()[:60]
        return self.folder / f"{words}-{hashlib.sha256(what.encode()).hexdigest()[:6]}"

    def print_summary(self, seconds: float) -> int:
        """Print the statistics, and return the exit code."""
        total = sum(self.tried.values())
        print(
            f"{total} inputs, {self.lines} lines, {self.size / 1e6:.1f} MB in {seconds:.0f} s:"
            f" {len(self.faults)} faults"
        )
        for title, counted in (("tried", self.tried), ("taken for", self.kinds)):
            print(f"{title}: " + ", ".join(f"{name} {n}" for name, n in counted.most_common()))
        for what, times in self.faults.most_common():
            print(f"{times} times: {what}\n    {self.place(what)}", file=sys.stderr)
        return 1 if self.faults else 0
