"""The output options that a renderer may depend on."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final, TypeVar

from flowdiag.analyses.contract.report import Where
from flowdiag.analyses.faults import Faults

Part = TypeVar("Part")

PROSE: Final = 100
"""The width of running text in columns: longer lines are hard to read."""


TERSEST: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """The output options of a report.

    Args:
        width: columns; very large for a file, where nothing wraps.
        color: whether to write ANSI escapes.
        unicode: whether the encoding has the glyphs of the timeline.
        verbose: 0 for the important parts, 1 for everything.
        terse: how much to omit to save lines, from 0 to `TERSEST`.
        zone: the time zone of all times, as the user wrote it; None for the zone of the logs.
        hyperlinks: whether places in files become links (OSC 8).
        folder: the working directory with a trailing slash; files below it have relative names.
        faults: collects the errors of sections.
    """

    width: int = 100
    color: bool = False
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
        """Return the parts of a section, or an error message: a bug in one section must not hide the others.

        Args:
            name: the section, for the message.
            parts: creates the parts.
            instead: converts the message to a part.
        """
        made = self.faults.run_or_default(lambda: list(parts()), None, Where.RENDER, about=name)
        if made is None:
            return [
                instead(
                    f"{name}: cannot be shown because of a bug in flowdiag;"
                    " --format json contains all data"
                )
            ]
        return made
