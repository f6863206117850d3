"""Finds the culprit when a Flink or Spark streaming job is unhealthy: a command and a library (docs/library.md).

`flowdiag.cli`, `flowdiag.analyses` and `flowdiag.parsers` are top-level folders of the repository. This folder
contains the package itself, for `import flowdiag` and `python -m flowdiag`. Public names are imported on first
use, so the import is fast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flowdiag.analyses.contract.report import Culprit, Finding, Report
    from flowdiag.analyses.model.finding import Confidence, Severity, State, Verdict
    from flowdiag.analyses.model.rule import Rule
    from flowdiag.analyses.selection.options import MemoryOptions, QueueOptions, RateOptions
    from flowdiag.library import Events, diagnose, load, read, register, rules
    from flowdiag.parsers.errors import FlowdiagError, InputError

    __version__: str

__all__ = [
    "Confidence",
    "Culprit",
    "Events",
    "Finding",
    "FlowdiagError",
    "InputError",
    "MemoryOptions",
    "QueueOptions",
    "RateOptions",
    "Report",
    "Rule",
    "Severity",
    "State",
    "Verdict",
    "__version__",
    "diagnose",
    "load",
    "read",
    "register",
    "rules",
]

_MODULES = {
    "flowdiag.analyses.model.finding": ("Confidence", "Severity", "State", "Verdict"),
    "flowdiag.analyses.selection.options": ("MemoryOptions", "QueueOptions", "RateOptions"),
    "flowdiag.analyses.contract.report": ("Culprit", "Finding", "Report"),
    "flowdiag.analyses.model.rule": ("Rule",),
    "flowdiag.library": ("Events", "diagnose", "load", "read", "register", "rules"),
    "flowdiag.parsers.errors": ("FlowdiagError", "InputError"),
}


def __getattr__(name: str) -> Any:
    """Import a public name on first use."""
    if name == "__version__":
        from importlib.metadata import version

        return version("flowdiag")
    for module, names in _MODULES.items():
        if name in names:
            from importlib import import_module

            return getattr(import_module(module), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """Return the public names, for completion."""
    return __all__
