"""Transactions were fenced or timed out.

What it reports
---------------
Fenced producers, transactions in an invalid state and abandoned commits, with the TaskManager that logged them.
The finding also compares the longest time without a completed checkpoint with the transaction timeout.

Why it matters
--------------
An exactly-once sink commits when its checkpoint completes. If checkpoints fail or the job is down for
longer than the transaction timeout, the broker aborts the open transaction. Flink can no longer commit
it: the records are lost although the checkpoint counts them as written.

How it decides
--------------
The rule evaluates the messages of sinks and producers in TaskManager logs. The finding is critical if Flink
itself reports possible data loss, or if a gap between completed checkpoints reached the transaction timeout.
Otherwise it is a warning. The timeout is the value in the log, or else the configured value. If neither is
known, it is `transaction-timeout` (15 minutes, the broker's default maximum).

What to do
----------
First find out why checkpoints did not complete. Set the transaction timeout of the producer, and the maximum
of the broker, to more than the longest outage that the job must survive.

False alarms
------------
If a second job uses the same transactional ID prefix, its producers fence those of the first job. The shared
prefix is then the cause, and the problem is as serious. "Presumably this transaction has been already committed
before" after a restore is normal and does not count.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Final

from flowdiag.analyses.flink import helpers as h
from flowdiag.analyses.flink.failures.crises import classify_incident
from flowdiag.analyses.flink.failures.silences import jobmanager_logged_until
from flowdiag.analyses.flink.judging import setting
from flowdiag.parsers.units import duration_ms

_TRANSACTIONS: Final = frozenset(
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
_DATA_LOSS: Final = frozenset({"transaction-fenced", "transaction-given-up"})


class Limits(h.Limits):
    transaction_timeout: float = h.limit(
        900_000.0,
        "ms",
        "the broker's default transaction.max.timeout.ms (15 minutes), used if the inputs contain no "
        "other value",
    )


def judge(job: h.Job, limits: Limits) -> h.Iterator[h.Finding]:
    """At most one finding per job."""
    hit = _of_templates(job, _TRANSACTIONS)
    sure = _of_templates(job, _DATA_LOSS)
    if not hit or (not job.checkpoints and not sure and _reported_by_task_failure(job)):
        return
    timeout = _timeout_ms(job) or limits.transaction_timeout
    gap = _longest_gap_ms(job)
    exceeded = gap >= timeout
    others = len(hit) - len(sure)
    records = h.fmt.plural(others, "record")
    signals = (
        ("commit-given-up", sure, f"{h.fmt.plural(len(sure), 'commit')} abandoned"),
        ("fenced-producer", others, f"{records} of fenced producers or invalid transactions"),
        ("gap-exceeds-timeout", exceeded, f"no checkpoint completed for {h.fmt.duration(gap)}"),
    )
    votes = h.votes_for({vote: text for vote, applies, text in signals if applies}, RULE.signals)
    severity, outcome = h.Severity.WARNING, "failed"
    explain = (
        "A newer producer with the same transactional ID took over, or a transaction was used "
        "in an invalid state."
    )
    if sure or exceeded:
        severity, outcome = h.Severity.CRITICAL, "were lost"
        explain = (
            "The broker aborted open transactions, so records that a checkpoint counts as "
            "written are missing from the output."
        )
    why = h.fmt.plural(len(hit), "transaction record")
    measurements = [h.measurement("failed-transactions", len(hit), "records")]
    if gap:
        lasted, allowed = h.fmt.duration(gap), h.fmt.duration(timeout)
        why += f"; no checkpoint for up to {lasted}, transaction timeout {allowed}"
        number = ("longest-gap-between-checkpoints", gap, "ms", timeout)
        over = h.fmt.plural(len(job.concluded), "checkpoint")
        measurements.append(h.measurement(*number, over=over))
    yield h.incident_finding(
        job,
        hit,
        ongoing=not job.completed_after(hit[-1].time_us),
        severity=severity,
        subject=_common_subject(job, hit),
        title=f"Transactions {outcome}: "
        f"{h.fmt.shorten(h.exception_text(hit[-1].cause), 120) or 'fenced producers'}",
        why=why,
        cause="lost-transactions",
        confidence=h.weigh(votes),
        # The reason why no checkpoint completed is nearer to the root.
        rank=h.Rank.SYMPTOM if exceeded else h.Rank.MECHANISM,
        explain=explain,
        measurements=tuple(measurements),
        evidence=h.records_of((*sure, *hit)),
        ranked=True,
        actions=h.remedies(
            "lost-transactions",
            job,
            proposed={"longer-timeout": 2 * gap} if gap > timeout else None,
            current={"longer-timeout": h.Present(h.fmt.duration(timeout), h.Origin.OBSERVED)},
        ),
        votes=votes,
    )


def _of_templates(job: h.Job, templates: frozenset[str]) -> list[h.Incident]:
    failures = h.incidents(job, "external-failure")
    return [
        incident
        for incident in failures
        if incident.text.get("template") in templates and not _never_began(incident)
    ]


def _never_began(incident: h.Incident) -> bool:
    """Whether Kafka refused the producer itself: no transaction of it can be lost."""
    found = classify_incident(incident)
    return found is not None and found.name in ("kafka-denied", "transaction-too-long")


def _common_subject(job: h.Job, hit: list[h.Incident]) -> h.Subject | None:
    """Return the last subtask if all records name the same task."""
    return h.subtask_subject(job, hit[-1]) if len({i.task for i in hit if i.task}) == 1 else None


_EXCEPTIONS: Final = ("exception", "task-failure", "job-failing", "job-failure")


def _reported_by_task_failure(job: h.Job) -> bool:
    """Whether the records belong to a pasted exception or one that ended a task: CP301 reports it."""
    classes = (classify_incident(incident) for incident in h.incidents(job, *_EXCEPTIONS))
    return any(found is not None and found.name == "fenced-transaction" for found in classes)


def _longest_gap_ms(job: h.Job) -> float:
    """Return the longest time between completed checkpoints, or to the end; holes in the log do not count."""
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


def _timeout_ms(job: h.Job) -> float | None:
    """Return the transaction timeout that a record prints, else the configured one."""
    printed = (duration_ms(i.text.get("timeout_ms")) for i in h.incidents(job, "external-failure"))
    known = setting(job, "transaction.timeout.ms", "properties.transaction.timeout.ms")
    configured = duration_ms(known.value) if known is not None else None
    return next((value for value in printed if value), configured)


RULE: Final = h.Rule("CP308", judge, Limits, causes=("lost-transactions",), needs="dated-records")
