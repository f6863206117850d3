"""How much of a log's text leaves the machine with a report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Privacy:
    """How much of the log's text a report may carry."""

    excerpts: bool = True
    redact: bool = False


LOCAL_USE: Final = Privacy()  # secrets are masked all the same
