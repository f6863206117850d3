"""Transactions were fenced or timed out.

What it reports
---------------
Producers that were fenced, transactions in an invalid state, commits that were given up, with the
TaskManager that logged them, and the longest time without a completed checkpoint beside the transaction
timeout.

Why it matters
--------------
An exactly-once sink commits when its checkpoint completes. If checkpoints fail, or the job is down, for
longer than the transaction timeout, the broker throws the open transaction away. Flink cannot commit
it any more: the records are lost although the checkpoint says that they were written.

How it decides
--------------
By the messages of the sinks and producers in TaskManagers' logs. It is critical when Flink itself says
that data may be lost, or when the gap between completed checkpoints reached the transaction timeout;
otherwise a warning. The timeout is the one printed, the one configured, or `transaction-timeout`: 15
minutes, which is the broker's default maximum.

What to do
----------
Find out why checkpoints did not complete first. Make the transaction timeout longer than the longest
outage that you want to survive, at the producer and at the broker.

False alarms
------------
A producer of a second job with the same transactional id prefix fences the first: that is the cause
then, and as bad. "Presumably this transaction has been already committed before" after a restore is
usual and does not count.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Final

from flowdiag.analyses.flink import helpers as h
from flowdiag.analyses.flink.crises import said_of
from flowdiag.analyses.flink.judging import milliseconds, setting

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

from flowdiag.analyses.flink.silences import heard_until


class Lost(h.Limits):
    """What CP308 compares with."""

    transaction_timeout: float = h.limit(
        900_000.0,
        "ms",
        "transaction.max.timeout.ms of a broker, 15 minutes by default; used where the input "
        "prints no other",
    )


def judge(job: h.Job, limits: Lost) -> h.Iterator[h.Finding]:
    """At most one finding per job."""
    failures = h.incidents(job, "external-failure")
    hit = [i for i in failures if i.text.get("template") in _TRANSACTIONS]
    sure = [i for i in hit if i.text.get("template") in _SURE]
    if not hit or (not job.checkpoints and not sure and _is_told(job)):
        return
    timeout = _timeout_ms(job, failures) or limits.transaction_timeout
    gap = _longest_gap_ms(job)
    exceeded = gap >= timeout
    critical = bool(sure) or exceeded
    votes = _votes(len(sure), len(hit) - len(sure), gap if exceeded else None)
    text = h.fmt.shorten(h.exception_text(hit[-1].cause), 120) or "fenced producers"
    yield h.incident_finding(
        job,
        hit,
        ongoing=not job.completed_after(hit[-1].time_us),
        severity=h.Severity.CRITICAL if critical else h.Severity.WARNING,
        subject=h.subtask_subject(job, hit[-1])
        if len({i.task for i in hit if i.task}) == 1
        else None,
        title=f"Transactions {'were lost' if critical else 'failed'}: {text}",
        why=h.fmt.plural(len(hit), "transaction record") + _while(gap, timeout),
        cause="lost-transactions",
        confidence=h.weigh(votes),
        # What kept the checkpoints from completing is nearer to the root.
        rank=h.Rank.SYMPTOM if exceeded else h.Rank.MECHANISM,
        explain="The broker threw open transactions away, so records that a checkpoint counts as "
        "written are missing in the output."
        if critical
        else "A newer producer with the same transactional id took over, or a transaction was used "
        "in a state in which it must not be.",
        measurements=(
            h.measurement("failed-transactions", len(hit), "records"),
            *_measured_gap(job, gap, timeout),
        ),
        evidence=h.records_of((*sure, *hit)),
        ranked=True,
        actions=h.remedies(
            "lost-transactions",
            job,
            proposed={"longer-timeout": 2 * gap if gap > timeout else None},
            current={"longer-timeout": h.Present(h.fmt.duration(timeout), h.Origin.OBSERVED)},
        ),
        votes=votes,
    )


def _while(gap: float, timeout: float) -> str:
    """What is known of the checkpoints meanwhile; nothing where no two moments of them are."""
    if not gap:
        return ""
    return f"; no checkpoint for up to {h.fmt.duration(gap)}, transaction timeout {h.fmt.duration(timeout)}"


def _measured_gap(job: h.Job, gap: float, timeout: float) -> h.Iterator[h.Measurement]:
    if gap:
        over = h.fmt.plural(len(job.concluded), "checkpoint")
        yield h.measurement("longest-gap-between-checkpoints", gap, "ms", timeout, over=over)


_TOLD: Final = ("exception", "task-failure", "job-failing", "job-failure")


def _is_told(job: h.Job) -> bool:
    """Whether these records are lines of an exception that stands by itself or ended a task: CP301 tells of it."""
    said = (said_of(incident) for incident in h.incidents(job, *_TOLD))
    return any(one is not None and one.name == "fenced-transaction" for one in said)


def _votes(sure: int, others: int, gap_ms: float | None) -> tuple[h.Vote, ...]:
    return h.votes_for(
        {
            "commit-given-up": f"{h.fmt.plural(sure, 'commit')} given up" if sure else None,
            "fenced-producer": f"{h.fmt.plural(others, 'record')} of fenced producers or invalid "
            "transactions"
            if others
            else None,
            "gap-exceeds-timeout": f"no checkpoint completed for {h.fmt.duration(gap_ms)}"
            if gap_ms is not None
            else None,
        },
        RULE.signals,
    )


def _longest_gap_ms(job: h.Job) -> float:
    """Longest time between two completed checkpoints, or to the end of the input; holes in it do not count."""
    moments = [c.ended_us for c in job.completed if c.ended_us is not None]
    if moments and job.last_us is not None and job.last_us > moments[-1]:
        moments.append(job.last_us)
    return max(
        (
            (heard_until(job.cluster, before, after) - before) / 1000
            for before, after in pairwise(sorted(moments))
        ),
        default=0.0,
    )


def _timeout_ms(job: h.Job, failures: list[h.Incident]) -> float | None:
    """The transaction timeout as a record prints it, else as it is configured."""
    printed = (milliseconds(i.text.get("timeout_ms")) for i in failures)
    known = setting(job, "transaction.timeout.ms", "properties.transaction.timeout.ms")
    configured = milliseconds(known.value) if known is not None else None
    return next((value for value in printed if value), configured)


RULE: Final = h.Rule(
    "CP308",
    judge,
    Lost,
    signals=(
        h.Signal("commit-given-up", 3, "Flink says that it gives the commit up"),
        h.Signal("fenced-producer", 2, "the producer was fenced or its transaction is invalid"),
        h.Signal("gap-exceeds-timeout", 2, "no checkpoint completed for longer than the timeout"),
    ),
    causes=("lost-transactions",),
)
