"""Reads rows of PostgreSQL's `pg_replication_slots`, as printed by database clients."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from flowdiag.parsers.neighbours.tables import EXPANDED, Row, columns_of, read_rows
from flowdiag.parsers.units import size_bytes

_SLOT: Final = "slot_name"
_COLUMNS: Final = frozenset((_SLOT, "restart_lsn"))
_LSN: Final = re.compile(r"(?P<high>[\dA-Fa-f]{1,8})/(?P<low>[\dA-Fa-f]{1,8})")
_SIZE: Final = re.compile(r"retain|lag|behind|size")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicationSlot:
    """A replication slot at one point in time.

    Attributes:
        restart: position in the write-ahead log from which PostgreSQL retains it, in bytes; None if the slot is lost.
        newest: the largest position in the row, which the log has at least reached.
        retained: size of the retained log in bytes, if the query selects it.
        status: `reserved`, `extended`, `unreserved` or `lost`, from version 13 on.
    """

    name: str
    active: bool
    restart: int | None
    newest: int | None
    retained: float | None
    status: str | None
    time_us: int | None
    offset: int


def looks_like_slots(text: str) -> bool:
    """Return whether a text contains rows of `pg_replication_slots`.

    >>> looks_like_slots(" slot_name | active | restart_lsn \\n-----------+--------+----\\n orders | f | 0/19E9B40\\n")
    True
    >>> looks_like_slots("the slot_name and the restart_lsn of the source")
    False
    """
    head = text[:65536]
    if _SLOT not in head or "restart_lsn" not in head:
        return False
    return EXPANDED.search(head) is not None or any(map(_header, head.splitlines()))


def read_slots(text: str, name: str = "") -> list[ReplicationSlot]:
    """Return the slots in the output of a database client: aligned, expanded, or comma-separated."""
    return [_slot(row) for row in read_rows(text, name, _header) if row.values.get(_SLOT)]


def _header(line: str) -> tuple[list[str], str] | None:
    return next((found for found in columns_of(line) if set(found[0]) >= _COLUMNS), None)


def _slot(row: Row) -> ReplicationSlot:
    values = row.values
    positions = [at for value in values.values() if (at := _position(value)) is not None]
    sizes = (value for name, value in values.items() if _SIZE.search(name))
    return ReplicationSlot(
        name=values[_SLOT],
        active=values.get("active") in ("t", "true", "on"),
        restart=_position(values["restart_lsn"]) if "restart_lsn" in values else None,
        newest=max(positions, default=None),
        retained=next((size for value in sizes if (size := size_bytes(value)) is not None), None),
        status=values.get("wal_status") or None,
        time_us=row.time_us,
        offset=row.offset,
    )


def _position(text: str) -> int | None:
    """Return a position in the write-ahead log in bytes.

    >>> _position("0/19E9B40"), _position("1/0"), _position("10/11 f")
    (27171648, 4294967296, None)
    """
    found = _LSN.fullmatch(text)
    return None if found is None else (int(found["high"], 16) << 32) + int(found["low"], 16)
