"""Named optimizations that start a local session faster than plain Spark does. Each can be disabled.

`FLOWDIAG_WITHOUT=archive,fewer-jars flowdiag checkpoints logs/` disables two of them. That helps to find the
optimization that makes a start fail, and to measure each (`python -m benchmarks.optimizations`). Reports are the same
with and without. An optimization that saves less than 3% should be removed; some are not measured yet.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from flowdiag.parsers.errors import FlowdiagError, nearest

VARIABLE: Final = "FLOWDIAG_WITHOUT"


class Optimization(StrEnum):
    """Names of the optimizations in `FLOWDIAG_WITHOUT`."""

    LEAN_IMPORTS = "lean-imports"
    ARCHIVE = "archive"
    FEWER_JARS = "fewer-jars"
    FIRST_COMPILER = "first-compiler"
    SERIAL_COLLECTOR = "serial-collector"
    CODE_CACHE = "code-cache"
    INTERPRETED = "interpreted"
    FEWER_RULES = "fewer-rules"
    FIXED_PLANS = "fixed-plans"


DESCRIPTIONS: Final[Mapping[Optimization, str]] = {
    Optimization.LEAN_IMPORTS: "do not import NumPy, pandas and PyArrow's datasets (`lean_imports.py`)",
    Optimization.ARCHIVE: "map Spark's classes from the archive of `flowdiag warm` (`archive.py`)",
    Optimization.FEWER_JARS: "drop jars that a local session never needs, mainly MLlib's, from the class path (`jvm.py`)",
    Optimization.FIRST_COMPILER: "disable Java's second compiler (`jvm.py`)",
    Optimization.SERIAL_COLLECTOR: "collect Java's garbage with one thread (`jvm.py`)",
    Optimization.CODE_CACHE: "reserve 200 MB for compiled code, so that it does not trigger garbage collections (`jvm.py`)",
    Optimization.INTERPRETED: "generate no code for a few thousand rows (`settings.py`)",
    Optimization.FEWER_RULES: "disable optimizer rules that find nothing in flowdiag's queries (`settings.py`)",
    Optimization.FIXED_PLANS: "disable adaptive plans, so that no exchange is a separate job (`settings.py`)",
}
"""Each optimization with the module that contains it."""


def is_enabled(optimization: Optimization, environ: Mapping[str, str] = os.environ) -> bool:
    """Return whether `FLOWDIAG_WITHOUT` does not list the optimization.

    >>> is_enabled(Optimization.ARCHIVE, {"FLOWDIAG_WITHOUT": "lean-imports, archive"})
    False
    """
    return optimization not in _disabled_names(environ)


def check_names(environ: Mapping[str, str] = os.environ) -> None:
    """Check the names in `FLOWDIAG_WITHOUT`.

    Raises:
        FlowdiagError: a name is unknown.
    """
    for name in sorted(_disabled_names(environ) - set(Optimization)):
        raise FlowdiagError(f"{VARIABLE}: there is no '{name}'", hint=nearest(name, Optimization))


def _disabled_names(environ: Mapping[str, str]) -> frozenset[str]:
    return frozenset(filter(None, re.split(r"[,\s]+", environ.get(VARIABLE, ""))))
