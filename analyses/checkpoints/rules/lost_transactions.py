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
The rule evaluates the messages of sinks and producers in TaskManager logs. The finding is critical if Flink itself
reports possible data loss, or if a gap between completed checkpoints reached the transaction timeout. Otherwise it
is a warning. The rule takes the timeout from the log, or else from the configuration. If neither shows it, the
rule assumes `transaction-timeout` (15 minutes, the broker's default maximum).

False alarms
------------
If a second job uses the same transactional ID prefix, its producers fence those of the first job. The shared
prefix is then the cause, but the problem is just as serious. "Presumably this transaction has been already
committed before" after a restore is normal and does not count.
"""

from typing import Final

from flowdiag.analyses.checkpoints.detect import transactions as t
from flowdiag.analyses.flink import helpers as h


class Limits(h.Limits):
    transaction_timeout: float = h.limit(
        900_000.0,
        "ms",
        "assumed timeout if the inputs contain none; the broker's default transaction.max.timeout.ms is 15 minutes",
    )


def judge(job: h.Job, limits: Limits) -> h.Iterator[h.Finding]:
    """Yield at most one finding per job."""
    hit = t.records_of(job, t.TRANSACTIONS)
    sure = t.records_of(job, t.DATA_LOSS)
    if not hit or (not job.checkpoints and not sure and t.reported_by_task_failure(job)):
        return
    timeout = t.timeout_ms(job) or limits.transaction_timeout
    gap = t.longest_gap_ms(job)
    exceeded = gap >= timeout
    others = len(hit) - len(sure)
    records = h.fmt.plural(others, "record")
    signals = (
        ("commit-given-up", sure, f"Flink abandoned {h.fmt.plural(len(sure), 'commit')}"),
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
        why += (
            f"; no checkpoint completed for up to {lasted}, and the transaction timeout is "
            f"{allowed}"
        )
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
        # The finding about why no checkpoint completed is closer to the root cause.
        rank=h.Rank.SYMPTOM if exceeded else h.Rank.MECHANISM,
        explain=explain,
        measurements=tuple(measurements),
        evidence=h.records_of((*sure, *hit)),
        ranked=True,
        actions=h.remedies(
            "lost-transactions",
            job,
            proposed={"longer-timeout": 2 * gap} if gap > timeout else None,
            current={"longer-timeout": h.CurrentValue(h.fmt.duration(timeout), h.Origin.OBSERVED)},
        ),
        votes=votes,
    )


def _common_subject(job: h.Job, hit: list[h.Incident]) -> h.Subject | None:
    """Return the last subtask if all records name the same task."""
    return h.subtask_subject(job, hit[-1]) if len({i.task for i in hit if i.task}) == 1 else None


RULE: Final = h.Rule(
    "CP308",
    judge,
    Limits,
    causes=("lost-transactions",),
    needs="dated-records",
    severity=h.Severity.CRITICAL,
)
