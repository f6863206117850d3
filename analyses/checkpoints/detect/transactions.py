"""Finds records about failed transactions of a Kafka sink, and how long transactions may stay open."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

from flowdiag.analyses.flink import helpers as h
from flowdiag.analyses.flink.failures.crises import classify_incident
from flowdiag.analyses.flink.failures.silences import jobmanager_logged_until
from flowdiag.analyses.flink.settings import setting
from flowdiag.parsers.units import duration_ms

TRANSACTIONS: Final = frozenset(
    {
        "transaction-fenced",
        "transaction-given-up",
        "producer-fatal",
        "producer-fenced",
        "invalid-transaction-state",
        "invalid-producer-epoch",
        "invalid-producer-mapping",
    }
)


DATA_LOSS: Final = frozenset({"transaction-fenced", "transaction-given-up"})


def records_of(job: h.Job, templates: frozenset[str]) -> list[h.Incident]:
    failures = h.incidents(job, "external-failure")
    return [
        incident
        for incident in failures
        if incident.text.get("template") in templates and not _is_lossless(incident)
    ]


_CLOSED: Final = "The producer closed forcefully"
"""Error of the producers of tasks that end or are canceled: Flink closes them without waiting (`KafkaProducer.close`)."""


def _is_lossless(incident: h.Incident) -> bool:
    """Return whether no records were lost: Kafka refused the producer without a transaction, or it was closed."""
    if _CLOSED in (incident.cause or ""):
        return True
    found = classify_incident(incident)
    return found is not None and found.name in ("kafka-denied", "transaction-too-long")


_EXCEPTIONS: Final = ("exception", "task-failure", "job-failing", "job-failure")


def reported_by_task_failure(job: h.Job) -> bool:
    """Return whether CP301 already reports these records, because their exception ended a task or was pasted."""
    classes = (classify_incident(incident) for incident in h.incidents(job, *_EXCEPTIONS))
    return any(found is not None and found.name == "fenced-transaction" for found in classes)


def longest_gap_ms(job: h.Job) -> float:
    """Return the longest time without a completed checkpoint, excluding gaps in the log."""
    moments = [c.ended_us for c in job.completed if c.ended_us is not None]
    if moments and job.last_us is not None and job.last_us > moments[-1]:
        moments.append(job.last_us)
    return max(
        (
            (jobmanager_logged_until(job.cluster, before, after) - before) / 1000
            for before, after in pairwise(sorted(moments))
        ),
        default=0.0,
    )


def timeout_ms(job: h.Job) -> float | None:
    """Return the transaction timeout that a record prints or that is configured, or None if neither is known."""
    printed = (duration_ms(i.text.get("timeout_ms")) for i in h.incidents(job, "external-failure"))
    known = setting(job, "transaction.timeout.ms", "properties.transaction.timeout.ms")
    configured = duration_ms(known.value) if known is not None else None
    return next((value for value in printed if value), configured)
