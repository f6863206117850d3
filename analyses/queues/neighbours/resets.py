"""Finds positions of a source whose records Kafka had deleted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from flowdiag.analyses.flink.job import Incident
from flowdiag.analyses.model.keys import Ref
from flowdiag.analyses.queues.facts import JobQueues

_AFTER_US: Final = 60_000_000
"""Maximum time between the two records: the new position follows within one or two requests."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LossyReset:
    """A position that was out of range.

    Args:
        skipped: number of records from the old to the new position, negative if the new one is lower; None if unknown.
    """

    partition: str
    skipped: int | None
    time_us: int | None
    ref: Ref | None


def lossy_resets(job: JobQueues) -> list[LossyReset]:
    """Return the positions that were out of range, in order."""
    records = [incident for incident in job.job.incidents if incident.kind == "offset-reset"]
    return [
        LossyReset(
            partition=old.text["partition"],
            skipped=_skipped(old, records),
            time_us=old.time_us,
            ref=old.ref,
        )
        for old in records
        if old.text.get("offset") and old.text.get("partition")
    ]


def _skipped(old: Incident, records: list[Incident]) -> int | None:
    for new in records:
        if new.text.get("partition") != old.text.get("partition") or not new.text.get("to"):
            continue
        after = (
            None if None in (old.time_us, new.time_us) else (new.time_us or 0) - (old.time_us or 0)
        )
        if after is not None and 0 <= after <= _AFTER_US:
            return int(new.text["to"]) - int(old.text["offset"])
    return None
