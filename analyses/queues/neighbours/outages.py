"""Finds the periods in which clients of a job cannot reach a broker."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from flowdiag.analyses.flink.job import Incident
from flowdiag.analyses.model.finding import Evidence
from flowdiag.analyses.queues.facts import JobQueues

_COORDINATOR: Final = 2_147_483_647
BOOTSTRAP: Final = "bootstrap server"
SLACK_US = 30_000_000
"""Maximum time between a broker's stop and the loss of its clients' connections."""


def spells_of_records(records: Iterable[Incident], pause_s: float) -> list[list[Incident]]:
    """Return the dated records in order, split at pauses longer than `pause_s`."""
    found: list[list[Incident]] = []
    for record in sorted(records, key=lambda record: record.time_us or 0):
        if found and (record.time_us or 0) - (found[-1][-1].time_us or 0) <= pause_s * 1e6:
            found[-1].append(record)
        else:
            found.append([record])
    return found


def outage_s(records: list[Incident]) -> float:
    """Return the seconds from the first to the last record."""
    return ((records[-1].time_us or 0) - (records[0].time_us or 0)) / 1e6


def server_name(address: str) -> str:
    """Return the host and port of an address that a Kafka client prints.

    >>> server_name("kafka-1.example/10.0.0.11:9092"), server_name("/10.0.0.11:9092")
    ('kafka-1.example:9092', '10.0.0.11:9092')
    """
    host, _, rest = address.partition("/")
    return f"{host}:{rest.rpartition(':')[2]}" if host and rest else address.lstrip("/")


def is_unanswered(record: Incident) -> bool:
    """Return whether a record shows a request without a response, instead of a failed connection."""
    return record.text.get("template") == "kafka-request-unanswered"


def unanswered_since(job: JobQueues, since_us: int) -> list[Incident]:
    """Return the records of requests that got no response, from a time on."""
    return [
        i
        for i in job.job.incidents
        if i.kind == "unreachable" and is_unanswered(i) and (i.time_us or 0) >= since_us
    ]


def node_name(node: str) -> str:
    """Return the ID of a broker. The client uses the ID of its group's coordinator with an offset.

    >>> node_name("2147483646"), node_name("2"), node_name("-1")
    ('node 1', 'node 2', 'bootstrap server')
    """
    number = int(node)
    if number < 0:
        return BOOTSTRAP
    return f"node {_COORDINATOR - number if number > _COORDINATOR // 2 else number}"


def unreachable_at_end(job: JobQueues, pause_s: float) -> str | None:
    """Return the server that clients cannot reach at the end of the input, or None."""
    end_us = job.job.last_us
    for incident in reversed(job.job.incidents):
        if is_unanswered(incident):
            continue
        if incident.kind == "unreachable" and incident.time_us is not None and end_us is not None:
            near = end_us - incident.time_us <= pause_s * 1e6
            return server_name(incident.text.get("address", "")) if near else None
    return None


def broker_stopped(job: JobQueues, first_us: int | None, last_us: int | None) -> Evidence | None:
    """Return the log record of a broker's stop that explains an outage, or None."""
    if first_us is None or last_us is None:
        return None
    for record in job.neighbours.events:
        time_us = record.row.time_us
        if record.row.kind != "stopping" or time_us is None:
            continue
        if first_us - SLACK_US <= time_us <= last_us:
            return Evidence(*record.ref, time_us)
    return None


_OWN_HOST: Final = re.compile(r"(?:localhost|127\.[\d.]+|\[?::1\]?)(?=[/:])")
_UNRESOLVED: Final = "kafka-node-unresolved"


def is_wrongly_advertised(job: JobQueues, outage: Iterable[Incident]) -> bool:
    """Return whether a broker advertised an address that cannot be right.

    Bootstrap servers have negative node IDs, so they do not count. The address of the client's own host is wrong
    unless a bootstrap server has it.
    """
    known = [record for record in outage if record.text.get("node", "-").isdecimal()]
    if not known:
        return False
    if any(record.text.get("template") == _UNRESOLVED for record in known):
        return True
    local = {record.text.get("address", "") for record in known}
    bootstrap = {
        i.text.get("address", "")
        for i in job.job.incidents
        if i.kind == "unreachable" and i.text.get("node", "").startswith("-")
    }
    return not local & bootstrap and all(_OWN_HOST.match(address) for address in local)
