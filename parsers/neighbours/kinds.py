"""Recognizes, by content, what the systems around a job print."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Final

from flowdiag.parsers.neighbours.consumer_groups import looks_like_lags
from flowdiag.parsers.neighbours.replication import looks_like_slots
from flowdiag.parsers.neighbours.sessions import holds_database_log, looks_like_sessions
from flowdiag.parsers.neighbours.store_log import looks_like_store_log


class NeighbourKind(StrEnum):
    """Kinds of inputs from other systems, with their names in the report."""

    LAGS = "consumer-groups"
    SESSIONS = "database-sessions"
    SLOTS = "replication-slots"
    DATABASE_LOG = "database-log"
    BROKER_LOG = "broker-log"
    STORE_LOG = "store-log"

    @property
    def reason(self) -> str:
        """Why an input of this kind is not scanned for log records."""
        return _REASONS[self]


_REASONS: Final = {
    NeighbourKind.LAGS: "consumer group lag: `flowdiag queues` reads it",
    NeighbourKind.SESSIONS: "database sessions: `flowdiag diagnose` reads them",
    NeighbourKind.SLOTS: "replication slots: `flowdiag queues` reads them",
    NeighbourKind.DATABASE_LOG: "a PostgreSQL log: `flowdiag diagnose` reads its lock waits",
    NeighbourKind.BROKER_LOG: "a Kafka broker log: `flowdiag queues` reads its starts and stops",
    NeighbourKind.STORE_LOG: "a RocksDB log: `flowdiag queues` reads its stalls",
}
_BROKER: Final = re.compile(
    r"^\[20\d\d-\d\d-\d\d [\d:,]{8,12}\] [A-Z]{4,5} [^\n]{0,2000}?\((?:kafka|org\.apache\.kafka|state\.change)\.[\w.$]{1,200}\)[ \t\r]*$",
    re.MULTILINE,
)
_ENOUGH: Final = 3


def neighbour_kind(text: str) -> NeighbourKind | None:
    """Return the kind of a text, from its beginning, or None.

    >>> neighbour_kind("GROUP TOPIC PARTITION CURRENT-OFFSET LOG-END-OFFSET LAG CONSUMER-ID HOST CLIENT-ID")
    <NeighbourKind.LAGS: 'consumer-groups'>
    >>> neighbour_kind("2026-11-25 21:30:00,000 INFO  a.B - text") is None
    True
    """
    if looks_like_sessions(text):
        return NeighbourKind.SESSIONS
    if looks_like_slots(text):
        return NeighbourKind.SLOTS
    if looks_like_lags(text):
        return NeighbourKind.LAGS
    if holds_database_log(text):
        return NeighbourKind.DATABASE_LOG
    if "(kafka." in text and len(_first_lines(text, _ENOUGH)) == _ENOUGH:
        return NeighbourKind.BROKER_LOG
    if looks_like_store_log(text):
        return NeighbourKind.STORE_LOG
    return None


def _first_lines(text: str, count: int) -> list[str]:
    found: list[str] = []
    for match in _BROKER.finditer(text[:65536]):
        found.append(match[0])
        if len(found) == count:
            break
    return found
