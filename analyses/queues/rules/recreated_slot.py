"""The replication slot of a source was dropped, and the source created it again.

What it reports
---------------
The slot, and when the source created it again.

Why it matters
--------------
PostgreSQL keeps changes only for existing slots. The changes between the last position of the job and the creation
of the new slot are lost, without an error.

How it decides
--------------
The source logs when it creates its slot, which normally happens once, at its first start. If it creates the slot
again after the job restored a checkpoint, the slot had disappeared. Slots for parts of a snapshot, whose names end in a
number, do not count.

False alarms
------------
None known.
"""

import re
from collections import defaultdict

from flowdiag.analyses.flink.job import Incident
from flowdiag.analyses.queues import helpers as h

_CAUSE = "log-position-lost"
_PART = re.compile(r"_\d{1,6}$")


def judge(job: h.JobQueues, limits: h.Limits) -> h.Iterator[h.Finding]:
    """Yield one finding per slot."""
    created = _creations(job)
    for slot, found in sorted(created.items()):
        if _PART.sub("", slot) != slot and _PART.sub("", slot) in created:
            continue
        if again := _records_after_restore(job, found):
            yield _finding(job, slot, again)


def _records_after_restore(job: h.JobQueues, found: list[Incident]) -> list[Incident]:
    """Return the records after the job's first restore, which must come after the first record of the slot."""
    first_us = min(incident.time_us or 0 for incident in found)
    restored = (i.time_us or 0 for i in job.job.incidents if i.kind == "restored")
    after_us = min((us for us in restored if us > first_us), default=None)
    return [each for each in found if after_us is not None and (each.time_us or 0) >= after_us]


def _creations(job: h.JobQueues) -> dict[str, list[Incident]]:
    """Return the records about the creation of each slot."""
    found: dict[str, list[Incident]] = defaultdict(list)
    for incident in job.job.incidents:
        if incident.kind == "slot-created" and incident.time_us is not None:
            found[incident.text.get("slot", "")].append(incident)
    return found


def _finding(job: h.JobQueues, slot: str, again: list[Incident]) -> h.Finding:
    name = h.service_name(job, h.POSTGRES)
    return h.job_finding(
        job,
        subject=h.service_subject(job, name),
        title=f"The replication slot {slot} had disappeared, and the source recreated it: "
        "changes are lost",
        why=f"the slot {slot} no longer existed when the job restored its checkpoint",
        severity=h.Severity.CRITICAL,
        state=h.State.RECOVERED,
        cause=_CAUSE,
        rank=h.Rank.ROOT_CAUSE,
        first_us=again[0].time_us,
        last_us=again[-1].time_us,
        count=len(again),
        evidence=h.cite((incident.ref, incident.time_us) for incident in again),
        actions=h.remedies(_CAUSE, job.job, "snapshot", "keep-slot"),
    )


RULE = h.Rule(
    "IO105", judge, h.Limits, causes=(_CAUSE,), needs="records", severity=h.Severity.CRITICAL
)
