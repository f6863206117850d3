"""Notes on missing or damaged inputs, which the report shows as warnings.

The kind of a note is stable, for programs. Its text is for people and may change.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Kind(StrEnum):
    """The kind of problem that a warning is about."""

    MISSING_FILE = "missing-file"
    UNREADABLE = "unreadable"
    DAMAGED = "damaged"
    NOT_READ = "not-read"
    CHANGED = "changed"
    GAP = "gap"
    NO_METRICS = "no-metrics"
    NO_TASKMANAGER_LOG = "no-taskmanager-log"
    NO_TIME = "no-time"
    COUNTERS_RESET = "counters-reset"
    IMPOSSIBLE = "impossible-values"
    OUTSIDE = "outside"
    ZONE = "zone"
    UNKNOWN_VERSION = "unknown-version"
    UNKNOWN_OPTION = "unknown-option"
    PLUG_IN = "plug-in"
    OTHER = "other"


MEANINGS: Final = {
    Kind.MISSING_FILE: "a file that the user passed, or one of a series of rolled files, does not exist",
    Kind.UNREADABLE: "the input exists but cannot be opened: no permission, a device, or a server that denies access",
    Kind.DAMAGED: "the input is truncated or damaged; flowdiag reads everything before the damage",
    Kind.NOT_READ: "flowdiag skips all or part of the input: unknown format, or too many members",
    Kind.CHANGED: "the input changed or disappeared while flowdiag read it; its lines cannot be quoted",
    Kind.GAP: "a log has a gap where lines were expected: lines are missing, or the process was paused",
    Kind.NO_METRICS: "relevant metrics are missing for some or all subtasks",
    Kind.NO_TASKMANAGER_LOG: "logs of some TaskManagers that ran tasks are missing",
    Kind.NO_TIME: "the records of an input have no date, and no other input shows the day",
    Kind.COUNTERS_RESET: "metric counters dropped to zero, as after a restart",
    Kind.IMPOSSIBLE: "metrics have values that no process can have; flowdiag ignores these values",
    Kind.OUTSIDE: "the requested time range contains no records, or none that flowdiag assesses",
    Kind.ZONE: "`--tz` differs from the time zone in the input",
    Kind.UNKNOWN_VERSION: "flowdiag does not know this version and uses the nearest one",
    Kind.UNKNOWN_OPTION: "the engine has no such option",
    Kind.PLUG_IN: "a rule or message of another package cannot be used",
    Kind.OTHER: "any other warning, and all warnings in reports from versions without kinds",
}


@dataclass(frozen=True, slots=True)
class InputNote:
    """A note on one input, or on all inputs.

    Args:
        kind: kind of the note.
        text: one clause for people, without the name of the input.
        source: displayed name of the input; None for all inputs.
        first_us, last_us: affected time range, in microseconds since 1970-01-01 UTC.
    """

    kind: Kind
    text: str
    source: str | None = None
    first_us: int | None = None
    last_us: int | None = None

    def __str__(self) -> str:

        return f"{self.source}: {self.text}" if self.source is not None else self.text
