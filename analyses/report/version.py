"""The flowdiag version in documents."""

from __future__ import annotations

from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version


@lru_cache(maxsize=1)
def tool_version() -> str:
    """Return the installed version, or `0` if flowdiag runs from a source tree without being installed."""
    try:
        return version("flowdiag")
    except PackageNotFoundError:
        return "0"
