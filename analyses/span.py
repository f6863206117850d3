"""What of the input is judged: a span of time and some of the jobs.

A selection restricts judgement, never joins: an attempt that was deployed before `--since` still
has its name. Relative moments count back from the end of the input, not from the present, so that
an old log gives the same answer on every day.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from flowdiag.parsers.errors import FlowdiagError

_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_RELATIVE = re.compile(r"-?((?:\d+(?:\.\d+)?[smhdw])+)\Z")
_PART = re.compile(r"(\d+(?:\.\d+)?)([smhdw])")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """A point in time as the user gave it; exactly one field is set.

    Args:
        utc_us: an instant.
        local_us: a wall clock without zone, in microseconds since 1970-01-01T00:00 of that clock.
        before_end_us: so long before the last record of the input.
    """

    utc_us: int | None = None
    local_us: int | None = None
    before_end_us: int | None = None

    def at(self, *, end_us: int, zone_offset_ms: int) -> int:
        """The instant.

        Args:
            end_us: when the input ends.
            zone_offset_ms: of the clock that the user reads: `--tz`, or the JobManager's log.
        """
        if self.utc_us is not None:
            return self.utc_us
        if self.local_us is not None:
            return self.local_us - zone_offset_ms * 1000
        return end_us - (self.before_end_us or 0)


def parse_moment(text: str) -> Moment:
    """Read `--since` and `--until`.

    Accepted are ISO-8601 (`2026-01-31`, `2026-01-31 18:43`, `2026-01-31T18:43:04.5Z`, `…+08:00`) and
    lengths (`90s`, `30m`, `2h`, `1d12h`) back from the end of the input.

    Raises:
        FlowdiagError: it is neither.

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
            f"'{text}' is no time",
            hint="write 2026-01-31T18:43:04, with or without Z or +08:00, or a length before the"
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
    """`--since`, `--until` and `--job` as given."""

    since: Moment | None = None
    until: Moment | None = None
    job: str | None = None

    def wants(self, job_id: str | None, name: str | None) -> bool:
        """Whether a job is selected: by a prefix of its id, or by its name or a glob of it.

        >>> Selection(job="or*").wants("ab12", "orders"), Selection(job="ab").wants("ab12", None)
        (True, True)
        """
        if self.job is None:
            return True
        if job_id and self.job and job_id.lower().startswith(self.job.lower()):
            return True
        return name is not None and (name == self.job or fnmatch.fnmatchcase(name, self.job))

    def require(self, jobs: Iterable[tuple[str | None, str | None]]) -> None:
        """Complain when none of the jobs (id, name) is selected.

        Raises:
            FlowdiagError: `--job` names none of them.
        """
        known = list(jobs)
        if self.job is None or not known or any(self.wants(*job) for job in known):
            return
        listed = ", ".join(f"{name or 'unnamed'} ({job_id or 'no id'})" for job_id, name in known)
        raise FlowdiagError(f"no job matches '{self.job}'", hint=f"the input holds: {listed[:300]}")
