"""A database repeatedly rejects requests of the job, and the job retries them.

What it reports
---------------
The database, the reason, and how many requests it rejected.

Why it matters
--------------
The job keeps running while it retries. Each retry delays the task, and if the last retry fails, the job restarts.

How it decides
--------------
The JDBC sink, the CDC source for PostgreSQL, and MariaDB's driver log each request that the database rejects,
with the exception. At least `repeated` of them must have the same known reason. `database-lock` covers waits for locks.
If the CDC source cannot start to read its replication slot, it logs no exception. Usually, another reader is using
the slot. Rejections count as ongoing if they occur within `recent` of the end of the input.

What to do
----------
Fix the problem that the exception names. The remedies of the finding list the steps.

False alarms
------------
A database rejects some requests while it restarts. Such a period is short.
"""

from collections import defaultdict

from flowdiag.analyses.flink.job import Incident
from flowdiag.analyses.knowledge.causes import CAUSES
from flowdiag.analyses.knowledge.exceptions import cause_of_class
from flowdiag.analyses.queues import helpers as h
from flowdiag.parsers.components import component_of


class Limits(h.Limits):
    repeated: float = h.limit(
        2, "requests", "minimum number of rejections; a retry may fix a single rejection"
    )
    recent: float = h.limit(
        60, "s", "time before the end of the input in which rejections count as ongoing"
    )


_CAUSES = (
    "database-deadlock",
    "no-connection-left",
    "constraint-violated",
    "slot-in-use",
    "log-position-lost",
)


def judge(job: h.JobQueues, limits: Limits) -> h.Iterator[h.Finding]:
    """Yield one finding per reason."""
    refused: dict[str, list[Incident]] = defaultdict(list)
    for incident in job.job.incidents:
        if incident.kind == "refused" and (name := _class_of(incident)) is not None:
            cause, _ = cause_of_class(name, name)
            refused[cause].append(incident)
    for cause, found in sorted(refused.items()):
        if cause in _CAUSES and len(found) >= limits.repeated:
            yield _finding(job, cause, found, limits)


def _class_of(incident: Incident) -> str | None:
    # Debezium logs no exception when it cannot start to read its slot. Usually, the slot is in use.
    replication = "slot-in-use" if _is_replication(incident) else None
    return h.class_of(incident) or replication


def _is_replication(incident: Incident) -> bool:
    return incident.text.get("template") == "replication-refused"


def _finding(job: h.JobQueues, cause: str, found: list[Incident], limits: Limits) -> h.Finding:
    times = [incident.time_us for incident in found if incident.time_us is not None]
    count = h.fmt.plural(len(found), "request")
    component = component_of([found[-1].cause or ""])
    server = component.server if component is not None else None
    if _is_replication(found[-1]):
        server = h.POSTGRES
    name = h.service_name(job, server) if server else "the database"
    return h.job_finding(
        job,
        subject=h.service_subject(job, name),
        title=f"{h.fmt.capital(name)} rejects {count} of the job: {CAUSES[cause].meaning}",
        why=f"it rejected {count} of the job",
        severity=h.Severity.WARNING,
        state=h.state_at_end(job, max(times, default=None), limits.recent),
        cause=cause,
        confidence=h.Confidence.HIGH
        if all(incident.cause for incident in found)
        else h.Confidence.MEDIUM,
        rank=h.Rank.ROOT_CAUSE,
        first_us=min(times, default=None),
        last_us=max(times, default=None),
        count=len(found),
        measurements=(h.measurement("refused-requests", len(found), "requests", limits.repeated),),
        evidence=h.cite((incident.ref, incident.time_us) for incident in found),
        actions=h.remedies(cause, job.job),
    )


RULE = h.Rule("IO204", judge, Limits, causes=_CAUSES, needs="records")
