"""Summarizes the RDDs of a job: where its records come from, and which work of earlier batches it repeats.

Spark writes the RDDs of all stages into the start of a job. DStreams name the scope of an RDD after the operation and
the time of its batch.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

_SOURCES: Final = {
    "BlockRDD": "receiver",
    "WriteAheadLogBackedBlockRDD": "receiver",
    "KinesisBackedBlockRDD": "receiver",
    "KafkaRDD": "kafka",
}
_STATE: Final = ("ReliableCheckpointRDD", "LocalCheckpointRDD", "MapWithStateRDD")
_STATE_SCOPES: Final = ('"name":"updateStateByKey', '"name":"mapWithState')
_WINDOWS: Final = ('"name":"window', 'ByWindow @', 'ByKeyAndWindow @', 'ByValueAndWindow @')  # fmt: skip


class RddInfo(msgspec.Struct, gc=False):
    """An RDD of a stage, as in the events of Spark."""

    name: str = msgspec.field(name="Name", default="")
    scope: str | None = msgspec.field(name="Scope", default=None)
    parents: list[int] = msgspec.field(name="Parent IDs", default_factory=list)


def lineage_of(rdds: Iterable[RddInfo]) -> str | None:
    """Return the sources of a job and what it reads of earlier batches, as words, or None without RDDs.

    The words are `receiver`, `kafka` and `other` for sources, `state`, and `window=N` for a union of N batches.

    >>> union = RddInfo(name="UnionRDD", scope='{"id":"8_1","name":"window @ 02:41:58"}', parents=[4, 5, 6])
    >>> lineage_of([RddInfo(name="BlockRDD"), RddInfo(name="ReliableCheckpointRDD"), union])
    'receiver state window=3'
    >>> lineage_of([RddInfo(name="ParallelCollectionRDD")]), lineage_of([])
    ('other', None)
    """
    rdds = list(rdds)
    if not rdds:
        return None
    found = {_SOURCES[rdd.name] for rdd in rdds if rdd.name in _SOURCES} or {"other"}
    if any(rdd.name in _STATE or _is_in(rdd, _STATE_SCOPES) for rdd in rdds):
        found.add("state")
    unions = (r for r in rdds if r.name.endswith("UnionRDD") and _is_in(r, _WINDOWS))
    batches = max((len(union.parents) for union in unions), default=0)
    return " ".join([*sorted(found), *([f"window={batches}"] if batches > 1 else [])])


def _is_in(rdd: RddInfo, scopes: tuple[str, ...]) -> bool:
    return any(scope in (rdd.scope or "") for scope in scopes)
