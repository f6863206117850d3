"""Finds database sessions that wait for locks of other sessions, in the output of the database's tools."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from flowdiag.analyses.model import fmt
from flowdiag.analyses.model.finding import Evidence, Measurement, cite, measurement
from flowdiag.analyses.model.rule import limit
from flowdiag.analyses.neighbours.facts import (
    DatabaseSession,
    DatabaseWait,
    Neighbours,
    snapshots,
)
from flowdiag.parsers.neighbours.sessions import POSTGRES, Session

SNAPSHOTS: Final = 2
"""Minimum number of snapshots with a wait; see `snapshots_limit`."""
LONG_MS: Final = 10_000
"""Minimum duration of a wait in the server's log: a busy database has many short waits."""


def snapshots_limit() -> Any:
    """Declare the minimum number of session snapshots that show a wait for a lock."""
    return limit(
        SNAPSHOTS,
        "snapshots",
        "minimum number of session snapshots that show the wait; a single snapshot may catch a brief lock",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LockedSessions:
    """Sessions that wait for a lock.

    Args:
        waiting: the largest number of the job's sessions that wait at the same time.
        sessions: number of the job's sessions in that snapshot.
        holder: the process that holds the lock; None if unknown.
        holder_state: `idle in transaction`, `active`, …, and whether the holder is a session of the waiting program.
        event: the kind of lock: `relation`, `transactionid`, …
        snapshots: number of snapshots with the wait, and of all snapshots.
        duration_ms: time from the first to the last record; None without times.
        ongoing: whether the last snapshot, or the end of the log, still shows the wait.
        system: the database.
        owner: the job, or the program whose sessions these are.
        refused: number of writes that the database aborted after a lock timeout; if set, other counts are unknown.
    """

    waiting: int
    sessions: int
    holder: int | None
    holder_state: str | None
    event: str | None
    snapshots: tuple[int, int]
    first_us: int | None
    last_us: int | None
    ongoing: bool
    system: str
    owner: str = "the job"
    refused: int = 0
    evidence: tuple[Evidence, ...]

    @property
    def duration_ms(self) -> float | None:
        if self.first_us is None or self.last_us is None:
            return None
        return (self.last_us - self.first_us) / 1000

    def measurements(self, least: float) -> tuple[Measurement, ...]:
        """Return the numbers of a finding, with the minimum number of snapshots."""
        return (
            measurement(
                "waiting-sessions",
                self.waiting or None,
                "sessions",
                over=f"of {self.sessions} of {self.owner}",
            ),
            measurement(
                "snapshots",
                self.snapshots[0] or None,
                "snapshots",
                least,
                over=f"of {self.snapshots[1]} with a waiting session",
            ),
            measurement("refused-writes", self.refused or None, "writes"),
            measurement("lock", self.event),
            measurement("wait-time", self.duration_ms, "ms"),
        )

    @property
    def clauses(self) -> tuple[str, str]:
        """How many sessions or writes wait, and for which holder: one clause without the duration, one with it."""
        lasted = "" if self.duration_ms is None else f" for {fmt.duration(self.duration_ms)}"
        if self.refused:
            count = f"{fmt.plural(self.refused, 'write')} of the job failed to get the lock"
            return count, f"{count}{lasted}"
        holder = "another session" if self.holder is None else f"process {self.holder}"
        state = f" ({self.holder_state})" if self.holder_state else ""
        count = f"{self.waiting} of {fmt.plural(self.sessions, 'session')} of {self.owner}"
        verb = "waits" if self.waiting == 1 else "wait"
        return (
            f"{count} {verb} for a lock of {holder}{state}",
            f"{count} {verb}{lasted} for a lock that {holder} holds{state}",
        )


def find_blocked(neighbours: Neighbours, end_us: int | None) -> LockedSessions | None:
    """Return the waits of the job's sessions for locks of other sessions, or None if they are short or unknown.

    Args:
        neighbours: outputs of `pg_stat_activity` or `innodb_trx`, and the database log.
        end_us: the end of the job's input.
    """
    return _blocked_in_snapshots(neighbours) or _waits_in_log(neighbours, end_us)


def _blocked_in_snapshots(neighbours: Neighbours) -> LockedSessions | None:
    rounds = [(_waiting_sessions(each), each) for each in snapshots(neighbours.sessions)]
    hit = [(waiting, each) for waiting, each in rounds if waiting]
    if len(hit) < SNAPSHOTS:
        return None
    waiting, everything = max(hit, key=lambda pair: len(pair[0]))
    holder = _holder(waiting, everything) or _holder_in_log(neighbours, waiting)
    known = [s for s in everything if s.row.pid == holder]
    times = [s.row.time_us for found, _ in hit for s in found if s.row.time_us is not None]
    return LockedSessions(
        waiting=len(waiting),
        sessions=len(_writing_sessions(everything)),
        holder=holder,
        holder_state=_state_of(known[0].row, waiting[0].row) if known else None,
        event=waiting[0].row.event,
        snapshots=(len(hit), len(rounds)),
        first_us=min(times, default=None),
        last_us=max(times, default=None),
        ongoing=hit[-1][1] is rounds[-1][1],
        system=waiting[0].row.system,
        owner=_owner_of(waiting[0].row),
        evidence=(
            *cite((s.ref, s.row.time_us) for s in (*waiting, *known)),
            *cite((wait.ref, wait.row.time_us) for wait in neighbours.waits),
        ),
    )


def _waiting_sessions(sessions: list[DatabaseSession]) -> list[DatabaseSession]:
    return [s for s in _writing_sessions(sessions) if s.row.waits_for_lock]


def _writing_sessions(sessions: list[DatabaseSession]) -> list[DatabaseSession]:
    """Return the job's sessions or, without the Java driver, those of all programs.

    Python drivers and the option `ApplicationName` give sessions other names.
    """
    return job_sessions(sessions) or [
        s
        for s in sessions
        if s.row.client and not (s.row.application or "").lower().startswith(_TOOLS)
    ]


_TOOLS: Final = (
    "psql",
    "pg_",
    "pgadmin",
    "dbeaver",
    "datagrip",
    "walreceiver",
    "postgres_exporter",
)


def _owner_of(session: Session) -> str:
    return "the job" if session.uses_jdbc or session.application is None else session.application


def _state_of(holder: Session, waiting: Session) -> str | None:
    """Return the state of the session that holds a lock, and whether it belongs to the program that waits for it."""
    program = (holder.application, holder.client)
    same = all(program) and program == (waiting.application, waiting.client)
    return ", ".join(filter(None, (holder.state, "of the same program" if same else None))) or None


def job_sessions(sessions: list[DatabaseSession]) -> list[DatabaseSession]:
    """Return the sessions of the Java driver. If no session has a name, return all client sessions."""
    named = [s for s in sessions if s.row.application]
    if named:
        return [s for s in named if s.row.uses_jdbc]
    return [s for s in sessions if s.row.client]


def _holder(waiting: list[DatabaseSession], everything: list[DatabaseSession]) -> int | None:
    """Return the process at the head of most chains of blocking sessions, or None."""
    blocked_by = {s.row.pid: s.row.blocked_by for s in everything}
    counts: dict[int, int] = {}
    for session in waiting:
        pid = session.row.pid
        for _ in range(len(everything) + 1):
            blockers = blocked_by.get(pid, ())
            if not blockers:
                break
            pid = blockers[0]
        if pid != session.row.pid:
            counts[pid] = counts.get(pid, 0) + 1
    return max(counts, key=lambda pid: (counts[pid], -pid), default=None)


def _holder_in_log(neighbours: Neighbours, waiting: list[DatabaseSession]) -> int | None:
    pids = {s.row.pid for s in waiting}
    holders = (w.row.holders for w in neighbours.waits if w.row.pid in pids)
    return next((found[0] for found in holders if found and found[0] not in pids), None)


def _waits_in_log(neighbours: Neighbours, end_us: int | None) -> LockedSessions | None:
    """Return the waits in the database log that have not ended or that took long."""
    waits = neighbours.waits
    last_of = {wait.row.pid: wait for wait in waits}
    long = [wait for wait in last_of.values() if _is_long(wait, end_us)]
    if not long:
        return None
    first_us, last_us = _span_us(long)
    holders = [holder for wait in waits for holder in wait.row.holders if holder not in last_of]
    ongoing = any(not wait.row.ended for wait in long)
    return LockedSessions(
        waiting=len(long),
        sessions=len(last_of),
        holder=holders[0] if holders else None,
        holder_state=None,
        event=long[0].row.what.split(" ")[0],
        snapshots=(0, 0),
        first_us=first_us,
        last_us=end_us if ongoing else last_us,
        ongoing=ongoing,
        system=POSTGRES,
        evidence=cite((wait.ref, wait.row.time_us) for wait in long),
    )


def _span_us(waits: list[DatabaseWait]) -> tuple[int | None, int | None]:
    """Return when the first wait began, and when the last record about a wait was written."""
    begins = (wait.row.begin_us for wait in waits)
    times = (wait.row.time_us for wait in waits)
    return (
        min((time for time in begins if time is not None), default=None),
        max((time for time in times if time is not None), default=None),
    )


def _is_long(wait: DatabaseWait, end_us: int | None) -> bool:
    """Return whether a wait took long, or was already long when the input ended."""
    if wait.row.ended or end_us is None or wait.row.time_us is None:
        return wait.row.waited_ms >= LONG_MS
    return (end_us - wait.row.time_us) / 1000 + wait.row.waited_ms >= LONG_MS
