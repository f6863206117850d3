"""What makes a local session start fast beyond Spark's own way, by name; each can be left out.

`FLOWDIAG_WITHOUT=archive,fewer-rules flowdiag checkpoints logs/` does without two of them: to tell which one is to
blame where a start fails, and to measure what each brings (`python -m benchmarks.tricks`). Reports are the same with
and without. What brings less than 3% shall have no place here; not all of them have been measured yet.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from flowdiag.parsers.errors import FlowdiagError, nearest

VARIABLE: Final = "FLOWDIAG_WITHOUT"


class Trick(StrEnum):
    """One of them, as `FLOWDIAG_WITHOUT` names it."""

    LEAN_IMPORTS = "lean-imports"
    ARCHIVE = "archive"
    FEWER_JARS = "fewer-jars"
    FIRST_COMPILER = "first-compiler"
    SERIAL_COLLECTOR = "serial-collector"
    CODE_ROOM = "code-room"
    INTERPRETED = "interpreted"
    FEWER_RULES = "fewer-rules"
    FIXED_PLANS = "fixed-plans"


MEANING: Final[Mapping[Trick, str]] = {
    Trick.LEAN_IMPORTS: "NumPy, pandas and PyArrow's datasets stay out of the process (`lean.py`)",
    Trick.ARCHIVE: "Java maps Spark's classes from the archive of `flowdiag warm` (`archive.py`)",
    Trick.FEWER_JARS: "what a local session never needs, MLlib above all, is not on the class path (`jvm.py`)",
    Trick.FIRST_COMPILER: "Java's second compiler is off (`jvm.py`)",
    Trick.SERIAL_COLLECTOR: "Java collects garbage with one thread (`jvm.py`)",
    Trick.CODE_ROOM: "200 MB for compiled code, so that garbage is not collected for want of it (`jvm.py`)",
    Trick.INTERPRETED: "no code is generated for a few thousand rows (`settings.py`)",
    Trick.FEWER_RULES: "rules of the optimizer that find nothing in our queries are off (`settings.py`)",
    Trick.FIXED_PLANS: "a plan stays as it is, and no exchange is a job of its own (`settings.py`)",
}
"""What each of them is, and where it lies."""


def used(trick: Trick, environ: Mapping[str, str] = os.environ) -> bool:
    """Whether a trick is not left out.

    >>> used(Trick.ARCHIVE, {"FLOWDIAG_WITHOUT": "lean-imports, archive"})
    False
    """
    return trick not in left_out(environ)


def left_out(environ: Mapping[str, str] = os.environ) -> frozenset[str]:
    """The names in `FLOWDIAG_WITHOUT`, whatever they are."""
    return frozenset(filter(None, re.split(r"[,\s]+", environ.get(VARIABLE, ""))))


def check(environ: Mapping[str, str] = os.environ) -> None:
    """Find names that mean nothing.

    Raises:
        FlowdiagError: there is one.
    """
    for name in sorted(left_out(environ) - set(Trick)):
        raise FlowdiagError(
            f"{VARIABLE}: there is no '{name}'",
            hint=nearest(name, Trick),
        )
