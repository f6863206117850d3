"""The version that documents name."""

from __future__ import annotations

from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version


@lru_cache(maxsize=1)
def tool_version() -> str:
    """The installed version; `0` where the tree is run without being installed."""
    try:
        return version("flowdiag")
    except PackageNotFoundError:
        return "0"
