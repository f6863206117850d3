"""Finds the external system that a task waits for, from thread dumps and client metrics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from flowdiag.analyses.model import fmt
from flowdiag.analyses.model.finding import Evidence, Measurement
from flowdiag.analyses.neighbours.statements import LongStatement, find_long_statement
from flowdiag.analyses.queues.async_state import state_waits
from flowdiag.analyses.queues.facts import Gauge, JobQueues, Sample, merge_gauges
from flowdiag.analyses.queues.neighbours.outages import server_name
from flowdiag.analyses.queues.root import Spell

SLOW_MS: Final = 500.0
"""Minimum mean latency of a producer's requests. Brokers respond within some ms, or tens of ms with acks=all."""
FULL: Final = 0.1
"""Maximum free share of the producer's buffer at which records wait for memory."""
THROTTLED_MS: Final = 50.0
"""Minimum mean delay that counts as throttling. Without a quota, the delay is exactly 0."""
KAFKA: Final = "Kafka"
_LOOKUP: Final = ".join.lookup."
"""Part of the package of Flink's lookup joins, in a stack of SQL."""
_NAMED: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowService:
    """A system that a task waits for.

    Args:
        name: its name, with host and port if an input contains them.
        cause: `slow-database`, `slow-kafka` or `kafka-quota`.
        why: the evidence, as a clause.
        lookup: whether the task looks up rows in it, for a lookup join.
        statement: the statement that the database works on most of the time, if its sessions show one.
        measurements: the metrics of the clients.
        evidence: the sessions of the database.
    """

    name: str
    cause: str
    why: str
    lookup: bool = False
    statement: str | None = None
    measurements: tuple[Measurement, ...] = ()
    evidence: tuple[Evidence, ...] = ()


def service_name(job: JobQueues, system: str, client: str | None = None) -> str:
    """Return the name of a system, with host and port if the inputs contain them.

    No metric of Flink shows which broker of a cluster is slow, so several brokers stand for their cluster.

    Args:
        job: the job.
        system: the system.
        client: for Kafka, `Consumer` or `Producer` if only the cluster of these clients is meant.
    """
    if system != KAFKA:
        return job.neighbours.named(system)
    found = sorted(_servers(job, client) - _addresses(job, "unreachable"))
    if len(found) > 1:
        return f"the {system} cluster of {fmt.listed(found[:_NAMED])}"
    return f"{system} at {found[0]}" if found else system


def _servers(job: JobQueues, client: str | None) -> set[str]:
    """Return the brokers that the clients of the job use: of one kind of client if the two kinds use different clusters."""
    reads, writes = (_addresses(job, "server", each) for each in ("Consumer", "Producer"))
    if client is None or not reads or not writes or reads & writes:
        return _addresses(job, "server")
    return writes if client == "Producer" else reads


def _addresses(job: JobQueues, kind: str, client: str | None = None) -> set[str]:
    """Return the brokers in log records of clients. Unreachable brokers are left out, because they cannot be the slow
    broker.
    """
    found = (
        address
        for incident in job.job.incidents
        if incident.kind == kind and client in (None, incident.text.get("client"))
        for address in (incident.text.get("address") or "").split(",")
    )
    return {server_name(address.strip()) for address in found if address.strip()}


def source_system(job: JobQueues, source: str) -> str:
    """Return the name of the system that a source reads: Kafka if an input shows it, otherwise a general phrase."""
    samples = [s for key, each in job.samples.items() if key.task == source for s in each]
    kafka = (
        bool(job.neighbours.lags)
        or any(incident.kind == "server" for incident in job.job.incidents)
        or any("fetch_throttled_ms" in sample.gauges for sample in samples)
    )
    return (
        service_name(job, KAFKA, "Consumer")
        if kafka
        else f"the system behind {fmt.shorten(source)}"
    )


def is_sink(job: JobQueues, task: str) -> bool:
    """Return whether no task reads from this task. In a job with a single task, the name must also show a sink."""
    last = bool(job.topology.tasks) and not job.topology.downstream(task)
    return last and (len(job.topology.tasks) > 1 or "Writer" in task or "Sink: " in task)


def slow_service(job: JobQueues, spell: Spell) -> SlowService | None:
    """Return the system that the task at the root of back pressure waits for, or None.

    Only waits in connectors count. Calls in the job's own code can be changed there, so other rules report them.
    """
    code = spell.culprit.code
    component = None if code is None else code.client
    long = find_long_statement(job.neighbours, spell.first_us, spell.last_us)
    if code is not None and component is not None and component.database:
        lookup = any(_LOOKUP in frame for frame in code.stack.path)
        who = "its lookup join" if lookup else "its connection"
        found = SlowService(
            name=service_name(job, component.server or component.what),
            cause="slow-database",
            why=f"{who} waits for a response in {code.evidence_text}",
            lookup=lookup,
        )
        return found if long is None else _with_statement(found, f"{found.why}, and ", long)
    if (broker := _slow_broker(job, spell.task)) is not None:
        return broker
    if long is None or component is not None or not is_sink(job, spell.task):
        return None
    found = SlowService(name=service_name(job, long.system), cause="slow-database", why="")
    return _with_statement(found, "", long)


def _with_statement(found: SlowService, begin: str, long: LongStatement) -> SlowService:
    """Add the statement that the database works on."""
    return replace(
        found,
        why=begin + long.clause,
        statement=fmt.shorten(long.text, 80),
        measurements=(*found.measurements, *long.measurements),
        evidence=long.evidence,
    )


def waits_for_response(job: JobQueues, spell: Spell) -> bool:
    """Return whether the task at the root of back pressure waits for another system, or for asynchronous state."""
    return slow_service(job, spell) is not None or spell.task in state_waits(job)


def _slow_broker(job: JobQueues, task: str) -> SlowService | None:
    """Return a Kafka cluster that delays the producers of a task."""
    samples = [s for key, each in job.samples.items() if key.task == task for s in each]
    late = samples[-len(samples) // 2 :]
    throttled = _merged(late, "throttled_ms")
    latency = _merged(late, "request_ms")
    cause = "slow-kafka"
    if throttled is not None and throttled.high >= THROTTLED_MS:
        cause, why = "kafka-quota", throttle_clause(throttled)
    elif latency is not None and latency.high >= SLOW_MS:
        why = f"its requests take up to {fmt.duration(latency.high)}"
    elif _is_full(_merged(samples, "buffer_free"), _merged(samples, "buffer_total")):
        why = "the buffer of its producer is full"
    else:
        return None
    name = service_name(job, KAFKA, "Producer")
    return SlowService(name=name, cause=cause, why=why, measurements=_numbers(latency, throttled))


def _merged(samples: Sequence[Sample], name: str) -> Gauge | None:
    return merge_gauges(sample.gauges.get(name) for sample in samples)


def _is_full(free: Gauge | None, total: Gauge | None) -> bool:
    return free is not None and total is not None and free.low <= FULL * total.high


def throttle_clause(throttled: Gauge) -> str:
    """Return how long the brokers delay responses, as a clause."""
    return f"the brokers delay its requests by up to {fmt.duration(throttled.high)}, because of a quota"


def fetch_throttle_delay(job: JobQueues, task: str) -> Gauge | None:
    """Return how long a quota delays the fetches of a source, or None if it does not."""
    samples = [s for key, each in job.samples.items() if key.task == task for s in each]
    throttled = _merged(samples, "fetch_throttled_ms")
    return throttled if throttled is not None and throttled.high >= THROTTLED_MS else None


SMALL_FETCH: Final = 65_536
"""Maximum bytes of a small fetch: by default, Kafka returns up to 1 MiB of each partition."""
WAITING: Final = 20
"""Minimum number of fetches that wait: a source that keeps up reads all records with the next one."""


def small_fetches(job: JobQueues, task: str) -> tuple[float, float] | None:
    """Return bytes and records of a fetch if its size limits the source, or None.

    Each subtask with waiting records gets few of them with each fetch.
    """
    behind = []
    for key, samples in job.samples.items():
        last = samples[-1].gauges if key.task == task and samples else {}
        if not {"pending", "fetch_bytes", "fetch_records"} <= last.keys():
            continue
        size, records = last["fetch_bytes"].high, last["fetch_records"].high
        if last["pending"].high >= WAITING * max(1.0, records):
            behind.append((size, records))
    largest = max(behind, default=None)
    return largest if largest is not None and largest[0] <= SMALL_FETCH else None


def _numbers(latency: Gauge | None, throttled: Gauge | None) -> tuple[Measurement, ...]:
    return tuple(
        Measurement(name=name, value=round(gauge.high), unit="ms", threshold=limit, population=over)
        for name, gauge, limit, over in (
            ("request-latency", latency, SLOW_MS, "highest mean of a producer"),
            ("throttle-time", throttled, THROTTLED_MS, "highest mean of a producer"),
        )
        if gauge is not None
    )
