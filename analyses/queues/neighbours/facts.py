"""The systems around a job, from what their own tools print: lags of consumer groups, sessions of databases."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from flowdiag.analyses.model.keys import Ref
from flowdiag.parsers.neighbours.broker_log import BrokerEvent, read_broker_log
from flowdiag.parsers.neighbours.consumer_groups import PartitionLag, read_lags
from flowdiag.parsers.neighbours.kinds import NeighbourKind
from flowdiag.parsers.neighbours.sessions import (
    LockWait,
    Session,
    read_lock_waits,
    read_sessions,
)

if TYPE_CHECKING:
    from flowdiag.parsers.sources.open import Source

_KINDS: Final = {kind.reason: kind for kind in NeighbourKind}


class Lag(NamedTuple):
    """A position of a consumer group, and its record."""

    row: PartitionLag
    ref: Ref


class DatabaseSession(NamedTuple):
    """A session of a database, and its record."""

    row: Session
    ref: Ref


class DatabaseWait(NamedTuple):
    """A long wait for a lock in the log of a database, and its record."""

    row: LockWait
    ref: Ref


class BrokerRecord(NamedTuple):
    """A start or a stop in the log of a Kafka broker, and its record."""

    row: BrokerEvent
    ref: Ref


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbours:
    """Facts about the systems around the jobs.

    Args:
        lags: in the order of the inputs.
        sessions: in the order of the inputs; sessions of one moment have the same time.
        waits: from logs of databases.
        events: starts and stops, from logs of Kafka brokers.
        kinds: the kind of each source that holds them, by index.
    """

    lags: tuple[Lag, ...] = ()
    sessions: tuple[DatabaseSession, ...] = ()
    waits: tuple[DatabaseWait, ...] = ()
    events: tuple[BrokerRecord, ...] = ()
    kinds: Mapping[int, str] = field(default_factory=dict)

    @property
    def empty(self) -> bool:
        return not (self.lags or self.sessions or self.waits)


def read_neighbours(sources: Iterable[Source]) -> Neighbours:
    """Read the sources that `sniff` recognises as output of other systems."""
    from flowdiag.parsers.sources.open import WHOLE_BYTES, source_text

    lags: list[Lag] = []
    sessions: list[DatabaseSession] = []
    waits: list[DatabaseWait] = []
    events: list[BrokerRecord] = []
    kinds: dict[int, str] = {}
    for source in sources:
        kind = _KINDS.get(source.reason or "") if source.kind == "not-read" else None
        if kind is None or source.size > WHOLE_BYTES or not (text := source_text(source)):
            continue
        index = source.index
        if kind is NeighbourKind.LAGS:
            rows = read_lags(text, source.name)
            lags += (Lag(row, Ref(index, row.offset)) for row in rows)
        elif kind is NeighbourKind.SESSIONS:
            found = read_sessions(text, source.name)
            sessions += (DatabaseSession(row, Ref(index, row.offset)) for row in found)
        elif kind is NeighbourKind.DATABASE_LOG:
            waits += (DatabaseWait(row, Ref(index, row.offset)) for row in read_lock_waits(text))
        else:
            events += (BrokerRecord(row, Ref(index, row.offset)) for row in read_broker_log(text))
        kinds[index] = kind
    return Neighbours(
        lags=tuple(lags),
        sessions=tuple(sessions),
        waits=tuple(waits),
        events=tuple(events),
        kinds=kinds,
    )


def snapshots(sessions: Sequence[DatabaseSession]) -> list[list[DatabaseSession]]:
    """Return the sessions of each moment, in order; without times, of each input.

    Only sessions of Java clients count as the job's, and those that block one of them as blockers.
    """
    found: dict[tuple[int, int | None], list[DatabaseSession]] = {}
    for each in sessions:
        found.setdefault((each.ref.source, each.row.time_us), []).append(each)
    return list(found.values())
