"""What the user asked of a command that diagnoses, in the terms of the analyses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from flowdiag.analyses.report.privacy import Privacy
from flowdiag.analyses.span import Selection

if TYPE_CHECKING:
    from flowdiag.analyses.rule import Thresholds


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """What every command takes; commands with options of their own extend it.

    Args:
        selection: which jobs (or applications) and which time are judged; joins always see everything.
        tz: name of a zone that overrides every inferred one.
        thresholds: values by rule code and threshold name.
        privacy: how much log text the report may carry.
        max_rows: longest list in the report's data.
    """

    selection: Selection = field(default_factory=Selection)
    tz: str | None = None
    thresholds: Mapping[str, Thresholds] = field(default_factory=dict)
    privacy: Privacy = field(default_factory=Privacy)
    max_rows: int = 10_000
