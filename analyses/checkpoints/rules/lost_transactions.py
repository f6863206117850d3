"""Transactions were fenced or timed out.

What it reports
---------------
Producers that were fenced, transactions in an invalid state, commits that were given up, with the
TaskManager that logged them, and the longest time without a completed checkpoint beside the transaction
time-out.

Why it matters
--------------
An exactly-once sink commits when its checkpoint completes. If checkpoints fail, or the job is down, for
longer than the transaction time-out, the broker throws the open transaction away. Flink cannot commit
it any more: the records are lost although the checkpoint says that they were written.

How it decides
--------------
By the messages of the sinks and producers in TaskManagers' logs. It is critical when Flink itself says
that data may be lost, or when the gap between completed checkpoints reached the transaction time-out;
otherwise a warning. The time-out is the one printed, the one configured, or 15 minutes, which is the
broker's default maximum.

What to do
----------
Find out why checkpoints did not complete first. Make the transaction time-out longer than the longest
outage that you want to survive, at the producer and at the broker.

False alarms
------------
A producer of a second job with the same transactional id prefix fences the first: that is the cause
then, and as bad. "Presumably this transaction has been already committed before" after a restore is
usual and does not count.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from flowdiag.analyses.checkpoints.rules.task_failure import short, subject_of
from flowdiag.analyses.finding import (
    Action,
    Finding,
    Inconclusive,
    Measurement,
    Rank,
    Severity,
    State,
    Vote,
    cite,
    weigh,
)
from flowdiag.analyses.flink import judging as j
from flowdiag.analyses.flink.episodes import concluded, in_order
from flowdiag.analyses.flink.job import Incident, JobFacts, Status
from flowdiag.analyses.flink.kit import Job
from flowdiag.analyses.rule import Limits, Rule, Signal, limit

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
_SURE: Final = frozenset({"transaction-fenced", "transaction-given-up"})
_WARNING: Final = "transaction-old"


class LostTransactionsLimits(Limits):
    """What CP308 compares with."""

    transaction_timeout: float = limit(
        900_000.0,
        "ms",
        "transaction.max.timeout.ms of a broker, 15 minutes by default; used where the input "
        "prints no other",
    )


def judge(job: Job, limits: LostTransactionsLimits) -> Iterator[Finding | Inconclusive]:
    """At most one finding per job."""
    hit = [
        i
        for i in job.incidents
        if i.kind == "external-failure" and i.text.get("template") in _TRANSACTIONS
    ]
    if hit:
        yield _finding(job, hit, limits)


def longest_gap_ms(job: JobFacts) -> tuple[float, int | None]:
    """Longest time between two completed checkpoints (or to the end), and when it ended."""
    moments = [
        c.ended_us
        for c in in_order(job.checkpoints)
        if c.status is Status.COMPLETED and c.ended_us is not None
    ]
    if moments and job.last_us is not None and job.last_us > moments[-1]:
        moments.append(job.last_us)
    gaps = [((b - a) / 1000, b) for a, b in pairwise(sorted(moments))]
    return max(gaps, default=(0.0, None))


def _timeout(job: JobFacts, hit: list[Incident], limits: LostTransactionsLimits) -> float:
    for incident in job.incidents:
        printed = j.milliseconds(incident.text.get("timeout_ms"))
        if incident.kind == "external-failure" and printed:
            return printed
    known = j.setting(job, "transaction.timeout.ms", "properties.transaction.timeout.ms")
    value = j.milliseconds(known.value) if known is not None else None
    return value or limits.transaction_timeout


def _finding(job: JobFacts, hit: list[Incident], limits: LostTransactionsLimits) -> Finding:
    timeout = _timeout(job, hit, limits)
    gap, _ = longest_gap_ms(job)
    sure = [i for i in hit if i.text.get("template") in _SURE]
    votes = []
    if sure:
        votes.append(
            Vote(
                signal="commit-given-up",
                says=f"{j.count_text(len(sure), 'commit')} given up",
                weight=3,
            )
        )
    if len(hit) > len(sure):
        votes.append(
            Vote(
                signal="fenced-producer",
                says=f"{j.count_text(len(hit) - len(sure), 'record')} of fenced producers or invalid "
                "transactions",
                weight=2,
            )
        )
    exceeded = gap >= timeout
    if exceeded:
        votes.append(
            Vote(
                signal="gap-exceeds-timeout",
                says=f"no checkpoint completed for {j.duration_text(gap)}",
                weight=2,
            )
        )
    last = hit[-1]
    text = short(last.cause)
    recovered = any(
        c.status is Status.COMPLETED and (c.ended_us or 0) > (last.time_us or 0)
        for c in job.checkpoints
    )
    critical = bool(sure) or exceeded
    cited = cite((i.ref, i.time_us) for i in (*sure, *hit))
    tasks = {i.task for i in hit if i.task}
    return Finding(
        job=job.key,
        severity=Severity.CRITICAL if critical else Severity.WARNING,
        state=State.RECOVERED if recovered else State.ONGOING,
        subject=subject_of(job, last) if len(tasks) == 1 else j.job_subject(job),
        title=(
            ("Transactions were lost: " if critical else "Transactions failed: ")
            + (j.shorten(text, 120) or "fenced producers")
        ),
        why=f"{j.count_text(len(hit), 'transaction record')}; "
        f"no checkpoint for up to {j.duration_text(gap)}, transaction time-out "
        f"{j.duration_text(timeout)}",
        cause="lost-transactions",
        confidence=weigh(votes),
        # What kept the checkpoints from completing is nearer to the root.
        rank=Rank.SYMPTOM if exceeded else Rank.MECHANISM,
        first_us=hit[0].time_us,
        last_us=last.time_us,
        count=len(hit),
        explain=(
            "The broker threw open transactions away, so records that a checkpoint counts as written are "
            "missing in the output."
            if critical
            else "A newer producer with the same transactional id took over, or a transaction was used in "
            "a state in which it must not be."
        ),
        measurements=(
            Measurement(name="failed-transactions", value=len(hit), unit="records"),
            Measurement(
                name="longest-gap-between-checkpoints",
                value=gap,
                unit="ms",
                threshold=timeout,
                population=f"{len(concluded(job))} checkpoints",
            ),
        ),
        evidence=cited,
        ranked=True,
        actions=(
            Action(text="Find out why no checkpoint completed in that time (the other findings)"),
            Action(
                text="Make the transaction time-out longer than the longest outage to survive, at the "
                "producer and at the broker (transaction.max.timeout.ms)",
                option="transaction.timeout.ms",
                current=f"{timeout:.0f}",
                risk="consumers that read committed data wait longer for aborted transactions",
                restart_needed=True,
                verify="no fenced producer after a restore",
            ),
            Action(text="Compare the output with the input for the time of the gap"),
        ),
        votes=tuple(votes),
    )


RULE: Final = Rule(
    "CP308",
    judge,
    LostTransactionsLimits,
    signals=(
        Signal("commit-given-up", 3, "Flink says that it gives the commit up"),
        Signal("fenced-producer", 2, "the producer was fenced or its transaction is invalid"),
        Signal("gap-exceeds-timeout", 2, "no checkpoint completed for longer than the time-out"),
    ),
)
