"""What there is to say about inputs beside what they hold: what is missing of them, or wrong with them.

Whoever reads or judges makes remarks; the report shows them as warnings. A kind is for programs, and stays what it
is; the text is for people.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Kind(StrEnum):
    """What a remark is about; `MEANINGS` says it in a sentence."""

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
    OUTSIDE = "outside"
    ZONE = "zone"
    UNKNOWN_VERSION = "unknown-version"
    UNKNOWN_OPTION = "unknown-option"
    PLUG_IN = "plug-in"
    OTHER = "other"


MEANINGS: Final = {
    Kind.MISSING_FILE: "a file that was named, or that rolled files leave out, is not there",
    Kind.UNREADABLE: "it is there, and cannot be opened: no permission, a device, a server that refuses",
    Kind.DAMAGED: "it is cut off or damaged; what comes before is read",
    Kind.NOT_READ: "nothing of it is read, or not all: no known format, too many members",
    Kind.CHANGED: "it changed or went away while it was read, so that lines cannot be quoted",
    Kind.GAP: "a log is silent although something was due: lines are missing, or the process stood still",
    Kind.NO_METRICS: "metrics that would tell are missing, of all or of some subtasks",
    Kind.NO_TASKMANAGER_LOG: "logs of TaskManagers that ran tasks are missing, while those of others are there",
    Kind.NO_TIME: "its records have no date, and nothing tells the day",
    Kind.COUNTERS_RESET: "counters of metrics fell back to zero, as a restart makes them",
    Kind.OUTSIDE: "nothing, or nothing that is judged, lies in the time that was asked for",
    Kind.ZONE: "`--tz` and what the input itself tells of its zone are not the same",
    Kind.UNKNOWN_VERSION: "a version that flowdiag does not know; the nearest one is taken",
    Kind.UNKNOWN_OPTION: "an option that the engine does not know",
    Kind.PLUG_IN: "a rule or a message of another package cannot be used",
    Kind.OTHER: "anything else, and every warning of a report from before kinds were written",
}


@dataclass(frozen=True, slots=True)
class InputNote:
    """One line about an input, or about all of them.

    Args:
        kind: what it is about.
        text: one clause for people, without the name of the source.
        source: the input as it is shown to people; None: all of them.
        first_us, last_us: the time that it is about, in microseconds since 1970-01-01 UTC.
    """

    kind: Kind
    text: str
    source: str | None = None
    first_us: int | None = None
    last_us: int | None = None

    def __str__(self) -> str:
        """The line, its source first."""
        return f"{self.source}: {self.text}" if self.source is not None else self.text
