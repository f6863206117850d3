"""Find the culprit in logs of streaming jobs: the command `flowdiag`, and a library (docs/library.md).

`flowdiag.cli`, `flowdiag.analyses` and `flowdiag.parsers` lie at the top of the repository, each in its
own folder; this one holds what `import flowdiag` and `python -m flowdiag` need. Names are looked up when
somebody asks for them, so that the import alone takes no time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flowdiag.analyses.model.finding import Confidence, Severity, State, Verdict
    from flowdiag.analyses.model.options import MemoryOptions, QueueOptions, RateOptions
    from flowdiag.analyses.model.rule import Rule
    from flowdiag.analyses.report.wire import Culprit, Finding, Report
    from flowdiag.library import Events, diagnose, load, read, register, rules
    from flowdiag.parsers.errors import FlowdiagError, InputError

    __version__: str  # of the installed package

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

_HOMES = {
    "flowdiag.analyses.model.finding": ("Confidence", "Severity", "State", "Verdict"),
    "flowdiag.analyses.model.options": ("MemoryOptions", "QueueOptions", "RateOptions"),
    "flowdiag.analyses.report.wire": ("Culprit", "Finding", "Report"),
    "flowdiag.analyses.model.rule": ("Rule",),
    "flowdiag.library": ("Events", "diagnose", "load", "read", "register", "rules"),
    "flowdiag.parsers.errors": ("FlowdiagError", "InputError"),
}


def __getattr__(name: str) -> Any:
    """A public name, imported when somebody asks for it."""
    if name == "__version__":
        from importlib.metadata import version

        return version("flowdiag")
    for home, names in _HOMES.items():
        if name in names:
            from importlib import import_module

            return getattr(import_module(home), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """The public names, for those who complete them."""
    return __all__
