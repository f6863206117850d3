"""Facts about the systems around a job, from the output of their tools: consumer lags, database sessions, and logs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from flowdiag.analyses.model.keys import Ref
from flowdiag.parsers.neighbours.broker_log import BrokerEvent, read_broker_log
from flowdiag.parsers.neighbours.consumer_groups import PartitionLag, read_lags
from flowdiag.parsers.neighbours.kinds import NeighbourKind
from flowdiag.parsers.neighbours.replication import ReplicationSlot, read_slots
from flowdiag.parsers.neighbours.sessions import (
    POSTGRES,
    LockWait,
    Session,
    read_address,
    read_lock_waits,
    read_sessions,
)
from flowdiag.parsers.neighbours.store_log import StoreEvent, StoreOwner, owner_of, read_store_log

if TYPE_CHECKING:
    from flowdiag.parsers.source import Source

_KINDS: Final = {kind.reason: kind for kind in NeighbourKind}
DATABASES: Final = frozenset({NeighbourKind.SESSIONS, NeighbourKind.DATABASE_LOG})


class Lag(NamedTuple):
    """A position of a consumer group, and where the input shows it."""

    row: PartitionLag
    ref: Ref


class DatabaseSession(NamedTuple):
    """A database session, and where the input shows it."""

    row: Session
    ref: Ref


class DatabaseSlot(NamedTuple):
    """A replication slot at one point in time, and where the input shows it."""

    row: ReplicationSlot
    ref: Ref


class DatabaseWait(NamedTuple):
    """A long wait for a lock in a database log, and its log record."""

    row: LockWait
    ref: Ref


class BrokerRecord(NamedTuple):
    """A start or a stop in the log of a Kafka broker, and its log record."""

    row: BrokerEvent
    ref: Ref


class StoreRecord(NamedTuple):
    """A stall or an error in RocksDB's LOG, and the subtask if the name of the file contains it."""

    row: StoreEvent
    owner: StoreOwner | None
    ref: Ref


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbours:
    """Facts about the systems around the jobs.

    Args:
        lags: positions of consumer groups, in the order of the inputs.
        sessions: database sessions, in the order of the inputs; all sessions of one snapshot have the same time.
        slots: replication slots of PostgreSQL, in the order of the inputs.
        waits: waits from database logs.
        events: starts and stops from logs of Kafka brokers.
        stores: stalls and errors from logs of RocksDB.
        addresses: hosts and ports that the systems' own logs contain, by system.
        kinds: the kind of each source that contains such facts, by index.
    """

    lags: tuple[Lag, ...] = ()
    sessions: tuple[DatabaseSession, ...] = ()
    slots: tuple[DatabaseSlot, ...] = ()
    waits: tuple[DatabaseWait, ...] = ()
    events: tuple[BrokerRecord, ...] = ()
    stores: tuple[StoreRecord, ...] = ()
    addresses: Mapping[str, str] = field(default_factory=dict)
    kinds: Mapping[int, str] = field(default_factory=dict)

    @property
    def empty(self) -> bool:
        return not (self.lags or self.sessions or self.slots or self.waits or self.stores)

    def named(self, system: str) -> str:
        """Return the name of a system, including host and port if its own log shows them."""
        address = self.addresses.get(system)
        return system if address is None else f"{system} at {address}"


def _kind_of(source: Source) -> NeighbourKind | None:
    """Return the kind of a source, or None if it is not the output of another system."""
    from flowdiag.parsers.source import WHOLE_BYTES

    if source.kind != "not-read" or source.size > WHOLE_BYTES:
        return None
    return _KINDS.get(source.reason or "")


def read_neighbours(
    sources: Iterable[Source], kinds: Collection[NeighbourKind] = frozenset(NeighbourKind)
) -> Neighbours:
    """Read the sources that `sniff` recognized as output of other systems, but only these kinds."""
    from flowdiag.parsers.source import source_text

    rows: dict[NeighbourKind, list[Any]] = {kind: [] for kind in NeighbourKind}
    addresses: dict[str, str] = {}
    read: dict[int, str] = {}
    for source in sources:
        kind = _kind_of(source)
        if kind is None or kind not in kinds or not (text := source_text(source)):
            continue
        rows[kind] += _rows_in(kind, text, source)
        if kind is NeighbourKind.DATABASE_LOG and (address := read_address(text)):
            addresses[POSTGRES] = address
        read[source.index] = kind
    return Neighbours(
        lags=tuple(rows[NeighbourKind.LAGS]),
        sessions=tuple(rows[NeighbourKind.SESSIONS]),
        slots=tuple(rows[NeighbourKind.SLOTS]),
        waits=tuple(rows[NeighbourKind.DATABASE_LOG]),
        events=tuple(rows[NeighbourKind.BROKER_LOG]),
        stores=tuple(rows[NeighbourKind.STORE_LOG]),
        addresses=addresses,
        kinds=read,
    )


def _rows_in(kind: NeighbourKind, text: str, source: Source) -> Iterator[NamedTuple]:
    """Yield the facts in a source of a known kind."""
    ref = partial(Ref, source.index)
    match kind:
        case NeighbourKind.LAGS:
            yield from (Lag(row, ref(row.offset)) for row in read_lags(text, source.name))
        case NeighbourKind.SESSIONS:
            for session in read_sessions(text, source.name):
                yield DatabaseSession(session, ref(session.offset))
        case NeighbourKind.SLOTS:
            yield from (DatabaseSlot(row, ref(row.offset)) for row in read_slots(text, source.name))
        case NeighbourKind.DATABASE_LOG:
            yield from (DatabaseWait(row, ref(row.offset)) for row in read_lock_waits(text))
        case NeighbourKind.STORE_LOG:
            owner = owner_of(source.name)
            for event in read_store_log(text):
                yield StoreRecord(event, owner, ref(event.offset))
        case NeighbourKind.BROKER_LOG:
            yield from (BrokerRecord(row, ref(row.offset)) for row in read_broker_log(text))


def snapshots(sessions: Sequence[DatabaseSession]) -> list[list[DatabaseSession]]:
    """Return the sessions of each snapshot, in order. Without times, each input is one snapshot."""
    found: dict[tuple[int, int | None], list[DatabaseSession]] = {}
    for each in sessions:
        found.setdefault((each.ref.source, each.row.time_us), []).append(each)
    return list(found.values())
