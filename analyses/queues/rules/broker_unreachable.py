"""Clients of the job cannot connect to a Kafka broker.

What it reports
---------------
The address of the broker, how long the job's clients have failed to connect, and which clients they are.

Why it matters
--------------
The job stays RUNNING. Its source reads nothing from the partitions of this broker, and its sink buffers records
until `delivery.timeout.ms` has passed. Then the job fails.

How it decides
--------------
Kafka's clients log each failed connection attempt, about once per second. The rule requires such log records over
at least `outage`, at most `pause` apart. It reports a shorter outage of at least `short-outage` as info. An outage
has ended if the log of the job continues for longer than `pause` after the last record. If the inputs include the
broker's log, it shows whether the broker was stopped at that time.

Clients learn the addresses of brokers from the bootstrap servers. The broker's `advertised.listeners` is wrong if
such an address does not resolve. It is also wrong if the address is the client's own host although the bootstrap
servers are elsewhere.

A broker that hangs or responds late accepts connections. Its clients close the connection after `request.timeout.ms`
(30 s by default). A client whose source waits for other tasks may log this as well. The rule therefore requires such a
record while no record moves in any task for at least `still`, until the end of the metrics.

What to do
----------
Check whether the broker is running. Then check whether the job's hosts can reach its advertised address.

False alarms
------------
If one of many brokers restarts, the clients use the others. Such an outage is short.
"""

from collections import defaultdict

from flowdiag.analyses.flink.job import Incident
from flowdiag.analyses.queues import helpers as h


class Limits(h.Limits):
    outage: float = h.limit(
        10, "s", "minimum duration of an outage; a leader handover takes a broker only seconds"
    )
    short_outage: float = h.limit(
        3, "s", "minimum duration of any reported outage; single attempts may fail"
    )
    pause: float = h.limit(
        30, "s", "maximum gap within an outage; clients retry within reconnect.backoff.max.ms"
    )
    still: float = h.limit(
        30, "s", "minimum time without a record; the default of request.timeout.ms"
    )


_BEFORE_US = 60_000_000  # the last window of metrics with records may be this long


def judge(job: h.JobQueues, limits: Limits) -> h.Iterator[h.Finding]:
    """Yield one finding per broker and outage."""
    records: dict[str, list[Incident]] = defaultdict(list)
    for incident in job.job.incidents:
        if incident.kind != "unreachable" or h.is_unanswered(incident):
            continue
        if incident.time_us is not None:
            records[incident.text.get("address", "")].append(incident)
    for address, each in sorted(records.items()):
        for outage in h.spells_of_records(each, limits.pause):
            if h.outage_s(outage) >= limits.short_outage:
                yield _finding(job, address, outage, limits)
    yield from _silent_brokers(job, limits)


def _silent_brokers(job: h.JobQueues, limits: Limits) -> h.Iterator[h.Finding]:
    """Report brokers that accept connections but do not respond in time, so that no record moves in the job."""
    stall = h.job_stall(job)
    if stall is None or stall.duration_ms < limits.still * 1000:
        return
    found = h.unanswered_since(job, stall.since_us)
    if not found:
        return
    before = h.unanswered_since(job, stall.since_us - _BEFORE_US)
    names = sorted({h.node_name(i.text["node"]) for i in before if i.text.get("node")})
    known = [name for name in names if name != h.BOOTSTRAP] or names
    nodes = h.fmt.listed(known, " and ")
    clients = sorted({each for i in found for each in i.text.get("client", "").lower().split()})
    count = sum(int(incident.text.get("records", "1")) for incident in found)
    lasted = h.fmt.duration(stall.duration_ms)
    yield h.job_finding(
        job,
        subject=h.service_subject(job, f"Kafka {nodes}"),
        title=f"Kafka {nodes} does not respond in time: requests time out, and no record has moved for {lasted}",
        why=f"{h.fmt.plural(count, 'connection')} of {h.fmt.listed(clients, ' and ') or 'clients'} "
        f"closed after a request without a response, and no record has moved for {lasted}",
        severity=h.Severity.CRITICAL,
        cause="kafka-timeout",
        confidence=h.Confidence.HIGH if count > 1 else h.Confidence.MEDIUM,
        rank=h.Rank.ROOT_CAUSE,
        first_us=stall.since_us,
        last_us=stall.until_us,
        count=len(found),
        measurements=(h.measurement("without-records", round(stall.duration_ms), "ms"),),
        evidence=h.cite((incident.ref, incident.time_us) for incident in found),
        actions=h.remedies("kafka-timeout", job.job),
    )


def _finding(job: h.JobQueues, address: str, outage: list[Incident], limits: Limits) -> h.Finding:
    name = h.server_name(address)
    lasted = h.outage_s(outage)
    first_us, last_us = outage[0].time_us, outage[-1].time_us
    count = sum(int(incident.text.get("records", "1")) for incident in outage)
    clients = sorted({each for i in outage for each in i.text.get("client", "").lower().split()})
    stopped = h.broker_stopped(job, first_us, last_us)
    cause = "kafka-timeout"
    if stopped is None and h.is_wrongly_advertised(job, outage):
        cause = "wrong-advertised-listeners"
    return h.job_finding(
        job,
        subject=h.service_subject(job, f"Kafka at {name}"),
        title=f"Kafka at {name} was unreachable for {h.fmt.duration(lasted * 1000)}"
        + (": its log shows that the broker was stopped" if stopped is not None else "")
        + (": the broker advertises this address" if cause != "kafka-timeout" else ""),
        why=f"{h.fmt.plural(count, 'failed connection attempt')}"
        f" in {h.fmt.duration(lasted * 1000)}, by {h.fmt.listed(clients, ' and ') or 'clients'}",
        severity=h.Severity.WARNING if lasted >= limits.outage else h.Severity.INFO,
        state=h.state_at_end(job, last_us, limits.pause),
        cause=cause,
        rank=h.Rank.ROOT_CAUSE,
        first_us=first_us,
        last_us=last_us,
        count=len(outage),
        measurements=(
            h.measurement("outage", round(lasted * 1000), "ms", limits.outage * 1000),
            h.measurement("attempts", count, "records"),
        ),
        evidence=(
            *([stopped] if stopped is not None else []),
            *h.cite((incident.ref, incident.time_us) for incident in outage),
        ),
        actions=h.remedies(cause, job.job),
    )


RULE = h.Rule(
    "IO202",
    judge,
    Limits,
    causes=("kafka-timeout", "wrong-advertised-listeners"),
    needs="records",
    severity=h.Severity.CRITICAL,
)
