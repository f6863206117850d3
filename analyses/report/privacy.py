"""How much log text a report may contain."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Privacy:
    """How much log text a report may contain, and whether names are replaced."""

    excerpts: bool = True
    redact: bool = False


LOCAL_USE: Final = Privacy()  # secrets are always masked
