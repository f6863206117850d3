"""What a renderer may know about where its output goes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

PROSE: Final = 100
"""Columns beyond which running text is hard to read."""


TERSEST: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """The place a report is rendered for.

    Args:
        width: columns; huge where nobody counts them, since nothing is cut off a terminal.
        colour: whether escapes for colour are welcome.
        unicode: whether the glyphs of the timeline can be shown.
        verbose: 0 shows what matters, 1 everything.
        terse: how much of what matters is left out for want of room, from 0 to `TERSEST`.
        zone: in which times are shown, as a user writes it; None: that of the logs.
        hyperlinks: whether places in files may be links (OSC 8).
        folder: in which it is read, with the last slash; names of files below are shown without it.
    """

    width: int = 100
    colour: bool = False
    unicode: bool = True
    verbose: int = 0
    terse: int = 0
    zone: str | None = None
    hyperlinks: bool = False
    folder: str = ""
