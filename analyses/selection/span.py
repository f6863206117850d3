"""The selected part of the input: a time span and some of the jobs.

A selection restricts what is judged, never joins: an attempt deployed before `--since` still has its name. Relative
times count back from the end of the input, not from now, so an old log gives the same result every day.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from typing import Final
from zoneinfo import ZoneInfo

from flowdiag.analyses.model.keys import Process
from flowdiag.parsers.errors import FlowdiagError

_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_RELATIVE = re.compile(r"-?((?:\d+(?:\.\d+)?[smhdw])+)\Z")
_PART = re.compile(r"(\d+(?:\.\d+)?)([smhdw])")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """A point in time in a user option. Exactly one field is set.

    Args:
        utc_us: an instant.
        local_us: wall-clock time without a zone, in microseconds since 1970-01-01T00:00 of that clock.
        before_end_us: time before the last record of the input.
    """

    utc_us: int | None = None
    local_us: int | None = None
    before_end_us: int | None = None


def parse_moment(text: str) -> Moment:
    """Parse a value of `--since` or `--until`.

    Accepts ISO-8601 (`2026-01-31`, `2026-01-31 18:43`, `2026-01-31T18:43:04.5Z`, `…+08:00`) and
    durations (`90s`, `30m`, `2h`, `1d12h`) before the end of the input.

    Raises:
        FlowdiagError: if it is neither.

    >>> parse_moment("1h30m").before_end_us == 5400 * 1_000_000
    True
    >>> parse_moment("2018-11-29T18:43:44+08:00").utc_us
    1543488224000000
    """
    text = text.strip()
    relative = _RELATIVE.match(text)
    if relative:
        seconds = sum(
            float(number) * _UNITS[unit] for number, unit in _PART.findall(relative.group(1))
        )
        return Moment(before_end_us=round(seconds * 1_000_000))
    try:
        moment = datetime.fromisoformat(text.replace(",", "."))
    except ValueError:
        raise FlowdiagError(
            f"'{text}' is not a time",
            hint="write 2026-01-31T18:43:04, with or without Z or +08:00, or a duration before the"
            " end of the input: 30m, 2h, 1d",
        ) from None
    microseconds = (moment.replace(tzinfo=moment.tzinfo or UTC) - _EPOCH) // timedelta(
        microseconds=1
    )
    if moment.tzinfo is None:
        return Moment(local_us=microseconds)
    return Moment(utc_us=microseconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """`--since`, `--until` and `--job`."""

    since: Moment | None = None
    until: Moment | None = None
    job: str | None = None

    def selects(self, job_id: str | None, name: str | None) -> bool:
        """Return whether a job is selected by ID prefix, name or name glob, ignoring case.

        >>> Selection(job="OR*").selects("ab12", "Orders"), Selection(job="ab").selects("ab12", None)
        (True, True)
        """
        if self.job is None:
            return True
        selected = self.job.casefold()
        if job_id and selected and job_id.casefold().startswith(selected):
            return True
        called = None if name is None else name.casefold()
        return called is not None and (called == selected or fnmatch.fnmatchcase(called, selected))

    def require(self, jobs: Iterable[tuple[str | None, str | None]]) -> None:
        """Raise an error unless one of the jobs (ID, name) is selected.

        Raises:
            FlowdiagError: if `--job` matches none of them.
        """
        known = list(dict.fromkeys(jobs))
        if self.job is None or not known or any(self.selects(*job) for job in known):
            return
        listed = ", ".join(f"{name or 'unnamed'} ({job_id or 'no id'})" for job_id, name in known)
        raise FlowdiagError(
            f"no job matches '{self.job}'", hint=f"the input contains {listed[:300]}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """The selected time span, in microseconds since the epoch, including both ends.

    All topics use the same span. Wall-clock times without a zone are in the zone of `--tz` or, without it, in the zone
    that the report prints. Durations count back from the end of the input.
    """

    low_us: int
    high_us: int

    @classmethod
    def of(cls, selection: Selection, *, end_us: int, zone: timezone | ZoneInfo) -> Span | None:
        """Return the span of a selection, or None for the whole input.

        Args:
            selection: the user's selection.
            end_us: the end of the input.
            zone: the zone for wall-clock times that have none.
        """
        if selection.since is None and selection.until is None:
            return None
        return cls(
            low_us=_FIRST_US if selection.since is None else instant(selection.since, end_us, zone),
            high_us=_LAST_US if selection.until is None else instant(selection.until, end_us, zone),
        )

    def has(self, time_us: int | None) -> bool:
        """Return whether an instant is in the span. Unknown times always are."""
        return time_us is None or self.low_us <= time_us <= self.high_us

    def overlaps(self, first_us: int | None, last_us: int | None) -> bool:
        """Return whether a period overlaps the span. None means that an end is open."""
        return (first_us is None or first_us <= self.high_us) and (
            last_us is None or last_us >= self.low_us
        )

    def last(self, time_us: int | None) -> int | None:
        """Return the instant, but at most the end of the span."""
        return None if time_us is None else min(time_us, self.high_us)

    def first(self, time_us: int | None) -> int | None:
        """Return the instant, but at least the start of the span."""
        return None if time_us is None else max(time_us, self.low_us)


_FIRST_US: Final = -(1 << 62)
_LAST_US: Final = 1 << 62


def instant(moment: Moment, end_us: int, zone: timezone | ZoneInfo) -> int:
    """Return the instant of a moment, in microseconds since the epoch.

    Args:
        moment: the user's option.
        end_us: the end of the input.
        zone: the zone for wall-clock times that have none.

    >>> noon = parse_moment("2026-01-31T12:00")
    >>> (instant(noon, 0, UTC) - instant(noon, 0, timezone(timedelta(hours=8)))) // 3_600_000_000
    8
    """
    if moment.utc_us is not None:
        return moment.utc_us
    if moment.local_us is not None:
        local = _EPOCH + timedelta(microseconds=moment.local_us)
        return (local.replace(tzinfo=zone) - _EPOCH) // timedelta(microseconds=1)
    return end_us - (moment.before_end_us or 0)


def zone_of(processes: Iterable[Process], tz: str | None) -> timezone | ZoneInfo:
    """Return the zone of wall-clock times: `--tz` or, without it, the zone that the report prints.

    The report uses the zone of the JobManager's log or, without one, of the first input with a zone. The last resort
    is UTC.

    Args:
        processes: the processes that wrote the inputs, in order.
        tz: name of a zone.
    """
    if tz is not None:
        return ZoneInfo(tz)
    dated = [p for p in processes if p.zone_offset_ms is not None]
    managers = [p for p in dated if p.role in ("jobmanager", "mixed")]
    offset_ms = next((p.zone_offset_ms or 0 for p in managers + dated), 0)
    return timezone(timedelta(milliseconds=offset_ms))
