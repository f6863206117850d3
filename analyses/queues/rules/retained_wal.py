"""A replication slot retains more and more of PostgreSQL's write-ahead log.

What it reports
---------------
The slot, whether a reader uses it, how long its position has not advanced, and how much log it retains.

Why it matters
--------------
PostgreSQL keeps the log from the position of the oldest slot, until its disk is full and the server stops. With
`max_slot_wal_keep_size`, it deletes the log instead, and the job that needs it has to begin with a new snapshot.

How it decides
--------------
At least `outputs` outputs of `pg_replication_slots` show the same `restart_lsn` while the log grows. If no reader
uses the slot, this must last for `inactive`, otherwise for `active`. A source only confirms its position when a
checkpoint completes, and a long transaction also holds the position. If the outputs lack the retained size, the
largest position of all slots counts as the end of the log. A `wal_status` of `unreserved` or `lost` is enough.

False alarms
------------
A job that is down for an upgrade uses no slot either. The slot advances when the job is back. A source that still
reads its initial snapshot does not use its slot yet. If the job's log shows that it created the slot, the rule does not
report it.
"""

from flowdiag.analyses.queues import helpers as h
from flowdiag.analyses.queues.neighbours.slots import HeldSlot, held_slots


class Limits(h.Limits):
    outputs: float = h.limit(
        3, "outputs", "minimum number of outputs with one position; two may be seconds apart"
    )
    inactive: float = h.limit(
        60_000, "ms", "minimum time without a reader; a restarting source reconnects sooner"
    )
    active: float = h.limit(
        600_000, "ms", "minimum time with a reader; by then, a checkpoint has usually completed"
    )


def judge(job: h.JobQueues, limits: Limits) -> h.Iterator[h.Finding]:
    """Yield one finding per slot."""
    for held in held_slots(job.neighbours):
        if not held.at_risk and _is_new(job, held):
            continue
        least_ms = limits.active if held.used else limits.inactive
        lasting = held.outputs >= limits.outputs and held.duration_ms >= least_ms
        if held.at_risk or (lasting and held.grows):
            yield _finding(job, held, limits)


def _is_new(job: h.JobQueues, held: HeldSlot) -> bool:
    """Return whether a running job has created a slot and not used it yet, because it reads its initial snapshot."""
    last_us = held.last_us or 0
    created, ended = (
        [i for i in job.job.incidents if i.kind in kinds and (i.time_us or 0) < last_us]
        for kinds in (("slot-created",), ("cancelled", "finished", "job-failure"))
    )
    used = any(slot.row.name == held.name and slot.row.active for slot in job.neighbours.slots)
    return not (used or ended) and any(i.text.get("slot") == held.name for i in created)


def _finding(job: h.JobQueues, held: HeldSlot, limits: Limits) -> h.Finding:
    name = h.service_name(job, h.POSTGRES)
    reader = "its reader does not advance it" if held.used else "no reader uses it"
    size = "" if held.retained is None else f" {h.fmt.size(held.retained)} of"
    return h.job_finding(
        job,
        subject=h.service_subject(job, name),
        title=f"The replication slot {held.name} retains{size} the write-ahead log: {reader}",
        why=f"the slot {held.name} stays at the same position, and {reader}",
        severity=h.Severity.WARNING,
        cause="retained-wal",
        rank=h.Rank.ROOT_CAUSE,
        first_us=held.first_us,
        last_us=held.last_us,
        measurements=(
            h.measurement("retained-log", held.retained, "bytes"),
            h.measurement("position-age", round(held.duration_ms), "ms"),
            h.measurement("outputs", held.outputs, "outputs", limits.outputs),
            h.measurement("wal-status", held.status),
        ),
        evidence=h.cite((slot.ref, slot.row.time_us) for slot in held.rows),
        actions=h.remedies("retained-wal", job.job, *(("confirm",) if held.used else ("drop",))),
    )


RULE = h.Rule("IO206", judge, Limits, causes=("retained-wal",), needs="records")
