"""Find the culprit in logs of streaming jobs: `flowdiag.cli`, `flowdiag.analyses`, `flowdiag.parsers`.

The three lie at the top of the repository, each in its own folder; this one holds only what
`import flowdiag` and `python -m flowdiag` need.
"""

from __future__ import annotations

__version__: str  # of the installed package; looked up when somebody asks


def __getattr__(name: str) -> str:
    """The version, which takes an import that no other use of the package needs."""
    if name == "__version__":
        from importlib.metadata import version

        return version("flowdiag")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
