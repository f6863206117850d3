"""What a renderer may know about where its output goes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final, TypeVar

from flowdiag.analyses.report.faults import Faults
from flowdiag.analyses.report.wire import Where

Part = TypeVar("Part")

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
        faults: takes what goes wrong with a section.
    """

    width: int = 100
    colour: bool = False
    unicode: bool = True
    verbose: int = 0
    terse: int = 0
    zone: str | None = None
    hyperlinks: bool = False
    folder: str = ""
    faults: Faults = field(default_factory=Faults, compare=False, repr=False)

    def section(
        self, name: str, parts: Callable[[], Iterable[Part]], instead: Callable[[str], Part]
    ) -> list[Part]:
        """What a section of a report consists of; a fault in it costs no other section.

        Args:
            name: for people.
            parts: makes it.
            instead: makes of a line of text what stands in the place of a section that cannot be shown.
        """
        made = self.faults.run_or_default(lambda: list(parts()), None, Where.RENDER, about=name)
        if made is None:
            told = (
                f"{name}: cannot be shown, which is a bug in flowdiag; --format json has all of it"
            )
            return [instead(told)]
        return made
