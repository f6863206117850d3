"""Finds replication slots whose position does not advance."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from flowdiag.analyses.neighbours.facts import DatabaseSlot, Neighbours

_AT_RISK: Final = frozenset({"unreserved", "lost"})


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldSlot:
    """A slot at its last position.

    Args:
        used: whether the last output shows a reader.
        outputs: number of outputs with this position.
        retained: bytes of the log from this position to its end; None if unknown.
        grows: whether the retained log has grown.
        status: `wal_status` of the last output.
        rows: the outputs with this position.
    """

    name: str
    used: bool
    retained: float | None
    grows: bool
    status: str | None
    rows: tuple[DatabaseSlot, ...]

    @property
    def outputs(self) -> int:
        return len(self.rows)

    @property
    def first_us(self) -> int | None:
        return self.rows[0].row.time_us

    @property
    def last_us(self) -> int | None:
        return self.rows[-1].row.time_us

    @property
    def duration_ms(self) -> float:
        """Time between the first and the last output; 0 without times."""
        if self.first_us is None or self.last_us is None:
            return 0.0
        return (self.last_us - self.first_us) / 1000

    @property
    def at_risk(self) -> bool:
        """Whether PostgreSQL has removed a part of the log that the slot needs, or is about to."""
        return self.status in _AT_RISK


def held_slots(neighbours: Neighbours) -> Iterator[HeldSlot]:
    """Yield the slots of the last output."""
    ends = _log_ends(neighbours.slots)
    by_name: dict[str, list[DatabaseSlot]] = {}
    for slot in neighbours.slots:
        by_name.setdefault(slot.row.name, []).append(slot)
    newest = max((slot.row.time_us or 0 for slot in neighbours.slots), default=0)
    for name, slots in sorted(by_name.items()):
        if (slots[-1].row.time_us or 0) < newest:
            continue  # the slot was dropped
        rows = _at_last_position(slots)
        sizes = [size for slot in rows if (size := _retained_bytes(slot, ends)) is not None]
        yield HeldSlot(
            name=name,
            used=rows[-1].row.active,
            retained=sizes[-1] if sizes else None,
            grows=any(after > before for before, after in pairwise(sizes)),
            status=rows[-1].row.status,
            rows=tuple(rows),
        )


def _at_last_position(slots: Sequence[DatabaseSlot]) -> list[DatabaseSlot]:
    """Return the last outputs with the same position and use as at the end."""
    last, found = slots[-1].row, []
    for slot in reversed(slots):
        if (slot.row.restart, slot.row.active) != (last.restart, last.active):
            break
        found.append(slot)
    return found[::-1]


def _log_ends(slots: Sequence[DatabaseSlot]) -> dict[int | None, int]:
    """Return the largest position of any slot, by the time of the output."""
    ends: dict[int | None, int] = {}
    for slot in slots:
        at = slot.row.newest
        if at is not None:
            ends[slot.row.time_us] = max(at, ends.get(slot.row.time_us, 0))
    return ends


def _retained_bytes(slot: DatabaseSlot, ends: dict[int | None, int]) -> float | None:
    row = slot.row
    if row.retained is not None or row.restart is None:
        return row.retained
    return float(ends[row.time_us] - row.restart)
