"""What stands in front of a message: carriers, timestamps, level, thread, logger."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date
from typing import Final

_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()

_PLAIN = re.compile(
    r"(?P<year>\d{4})-(?P<month>\d\d)-(?P<day>\d\d)[ T](?P<hour>\d\d):(?P<minute>\d\d):"
    r"(?P<second>\d\d)(?:[.,](?P<fraction>\d{1,9}))?\s+"
    r"(?:\[(?P<thread>[^\]\n]{0,512})\]\s+)?"
    r"(?P<level>TRACE|DEBUG|INFO|WARN|ERROR|FATAL)\s+(?P<logger>[\w.$]+)\s*(?:\[[^\]\n]{0,200}\])?"
    r"\s+-\s",
    re.ASCII,
)


@dataclass(slots=True)
class Prefix:
    """What a line says about its record, and where its message is.

    Attributes:
        text: the line without carriers and colour codes.
        begin: where the message begins in `text`.
        end: where the message ends in `text`.
        complete: the shape of the header is known, so that `begin` is exact.
        local_us: printed wall clock, see `EVENTS`.
        utc_us: the instant, if the line says it.
        clock: null, `time-of-day` or `elapsed`.
        level: as printed, upper case.
        logger: as printed, with its package if that is printed.
        thread: as printed.
        process: label of the carrier.
        carriers: names of the carriers that were taken off, outermost first.
    """

    text: str
    begin: int
    end: int
    complete: bool = False
    local_us: int | None = None
    utc_us: int | None = None
    clock: str | None = None
    level: str | None = None
    logger: str | None = None
    thread: str | None = None
    process: str | None = None
    carriers: tuple[str, ...] = ()


def simple_name(logger: str) -> str:
    """The class name without its package and without nested classes.

    >>> simple_name("o.a.f.r.c.CheckpointCoordinator$CheckpointCanceller")
    'CheckpointCoordinator'
    """
    name = logger.rpartition(".")[2]
    return name.partition("$")[0] or name


def parse(line: str) -> Prefix:
    """Take a line apart in front of its message."""
    found = _PLAIN.match(line)
    if found is None:
        return Prefix(line, 0, len(line))
    try:
        day = date(int(found["year"]), int(found["month"]), int(found["day"])).toordinal()
    except ValueError:
        return Prefix(line, 0, len(line))
    seconds = (
        (day - _EPOCH_DAY) * 86_400
        + int(found["hour"]) * 3600
        + int(found["minute"]) * 60
        + int(found["second"])
    )
    fraction = (found["fraction"] or "").ljust(6, "0")[:6]
    return Prefix(
        line,
        found.end(),
        len(line),
        complete=True,
        local_us=seconds * 1_000_000 + int(fraction),
        level=found["level"],
        logger=found["logger"],
        thread=found["thread"],
    )
