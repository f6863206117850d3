"""Finds statements of the job that a database works on most of the time, in the output of the database's tools."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Final

from flowdiag.analyses.model import fmt
from flowdiag.analyses.model.finding import Evidence, Measurement, cite, measurement
from flowdiag.analyses.neighbours.facts import DatabaseSession, Neighbours, snapshots
from flowdiag.analyses.neighbours.locks import job_sessions

SNAPSHOTS: Final = 3
"""Minimum number of snapshots in which the database works for the job: fewer may show it by chance."""
SHARE: Final = 0.75
"""Minimum share of the snapshots. The sessions of a job that keeps up are mostly idle."""
_OTHERS: Final = ("commit", "rollback", "begin", "start transaction", "start_replication", "fetch ")
"""Beginnings of statements that do not read or write the tables of a sink."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LongStatement:
    """A statement that the sessions of a job execute in most snapshots, without waiting for a lock or for the job.

    Args:
        text: the statement, as far as the output has it.
        snapshots: number of snapshots with the statement, and of all snapshots in the period.
        system: the database.
    """

    text: str
    snapshots: tuple[int, int]
    system: str
    evidence: tuple[Evidence, ...]

    @property
    def clause(self) -> str:
        shown, total = self.snapshots
        return f"the database works on {fmt.shorten(self.text, 80)} in {shown} of {fmt.plural(total, 'snapshot')}"

    @property
    def measurements(self) -> tuple[Measurement, ...]:
        shown, total = self.snapshots
        return (
            measurement(
                "snapshots",
                shown,
                "snapshots",
                SNAPSHOTS,
                over=f"of {total} with a working session",
            ),
        )


def find_long_statement(
    neighbours: Neighbours, first_us: int | None, last_us: int | None
) -> LongStatement | None:
    """Return the statement that a database mostly works on in a period, or None.

    Args:
        neighbours: outputs of `pg_stat_activity` or `SHOW PROCESSLIST`.
        first_us: beginning of the period; None without a limit.
        last_us: end of the period; None without a limit.
    """
    rounds = [
        each for each in snapshots(neighbours.sessions) if _is_within(each, first_us, last_us)
    ]
    hit: list[list[DatabaseSession]] = []
    for each in rounds:
        if working := [session for session in job_sessions(each) if _works(session)]:
            hit.append(working)
    if len(hit) < SNAPSHOTS or len(hit) < SHARE * len(rounds):
        return None
    everything = [session for working in hit for session in working]
    counts = Counter(_statement(session) for session in everything)
    text = counts.most_common(1)[0][0]
    mine = [session for session in everything if _statement(session) == text]
    return LongStatement(
        text=text,
        snapshots=(len(hit), len(rounds)),
        system=mine[0].row.system,
        evidence=cite((session.ref, session.row.time_us) for session in mine),
    )


def _is_within(sessions: list[DatabaseSession], first_us: int | None, last_us: int | None) -> bool:
    at = sessions[0].row.time_us
    if at is None:
        return True
    return (first_us is None or first_us <= at) and (last_us is None or at <= last_us)


def _works(session: DatabaseSession) -> bool:
    """Return whether the database executes a statement of the session: it waits for no lock and for no client."""
    row = session.row
    busy = row.state == "active" and not row.waits_for_lock and row.wait != "Client"
    return busy and not (_statement(session) or "commit").lower().startswith(_OTHERS)


def _statement(session: DatabaseSession) -> str:
    return " ".join((session.row.query or "").split())
