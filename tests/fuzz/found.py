"""Faults that were found: each once, as a file that repeats it, and what was tried until then."""

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
    """What a search has found so far.

    Attributes:
        folder: gets a file for each fault.
        faults: how often each was shown.
        tried: inputs by format.
        kinds: inputs by what they were taken for.
        lines, size: of all inputs, the latter in bytes.
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
        """Count a fault; whether it was not shown before."""
        self.faults[what] += 1
        return self.faults[what] == 1

    def place(self, what: str) -> Path:
        """Where the file of a fault lies: its name says what it is."""
        self.folder.mkdir(parents=True, exist_ok=True)
        words = re.sub(r"[^A-Za-z0-9]+", "-", what).strip("-").lower()[:60]
        return self.folder / f"{words}-{hashlib.sha256(what.encode()).hexdigest()[:6]}"

    def tell(self, seconds: float) -> int:
        """Print what was tried and found; the exit status."""
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
