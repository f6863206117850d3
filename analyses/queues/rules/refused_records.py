"""Kafka rejects the records of the job: too few replicas are in sync.

What it reports
---------------
The partition, the error, and for how long the producers have retried without success.

Why it matters
--------------
Records wait in the producer until `delivery.timeout.ms` has passed. Then the job fails.

How it decides
--------------
Kafka's producers log each batch that a broker rejects, with the error. The error NOT_ENOUGH_REPLICAS must repeat
for at least `duration`. Errors during a leader change end within seconds, so the rule does not report them. Errors
count as ongoing if they occur within `recent` of the end of the input.

False alarms
------------
A broker that restarts leaves the in-sync replicas for a short time.
"""

from flowdiag.analyses.queues import helpers as h


class Limits(h.Limits):
    duration: float = h.limit(
        5, "s", "minimum duration of the rejections; after a leader change, errors end sooner"
    )
    recent: float = h.limit(
        30, "s", "time before the end of the input in which rejections count as ongoing"
    )


_CAUSE = "too-few-replicas"
_ERRORS = ("NOT_ENOUGH_REPLICAS", "NOT_ENOUGH_REPLICAS_AFTER_APPEND")


def judge(job: h.JobQueues, limits: Limits) -> h.Iterator[h.Finding]:
    """Yield at most one finding per job."""
    found = [
        incident
        for incident in job.job.incidents
        if incident.kind == "produce-refused"
        and incident.text.get("error") in _ERRORS
        and incident.time_us is not None
    ]
    found.sort(key=lambda incident: incident.time_us or 0)
    if not found or h.outage_s(found) < limits.duration:
        return
    first_us, last_us = found[0].time_us, found[-1].time_us
    count = sum(int(incident.text.get("records", "1")) for incident in found)
    lasted = h.fmt.duration(h.outage_s(found) * 1000)
    topic = found[-1].text.get("partition", "").rpartition("-")[0]
    name = h.service_name(job, h.KAFKA, "Producer")
    yield h.job_finding(
        job,
        subject=h.service_subject(job, name),
        title=f"{h.fmt.capital(name)} rejects records for topic {topic}: too few replicas are in sync",
        why=f"it rejected {h.fmt.plural(count, 'batch', 'batches')} of the sink in {lasted}",
        severity=h.Severity.WARNING,
        state=h.state_at_end(job, last_us, limits.recent),
        cause=_CAUSE,
        rank=h.Rank.ROOT_CAUSE,
        first_us=first_us,
        last_us=last_us,
        count=len(found),
        measurements=(h.measurement("refused-batches", count, "batches"),),
        evidence=h.cite((incident.ref, incident.time_us) for incident in found),
        actions=h.remedies(_CAUSE, job.job),
    )


RULE = h.Rule("IO205", judge, Limits, causes=(_CAUSE,), needs="records")
