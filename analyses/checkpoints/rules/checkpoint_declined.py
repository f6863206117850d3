"""Checkpoints are declined or fail.

What it reports
---------------
Checkpoints that a subtask declined, or that failed while they were triggered, written or finalized. The finding shows
how many there are, which subtasks declined, and the deepest cause (the last `Caused by`) that each subtask reported.

Why it matters
--------------
A decline fails the checkpoint for the whole job at once. From Flink 1.14 on, a decline counts against
`execution.checkpointing.tolerable-failed-checkpoints` just like an expiry. Up to Flink 1.10, failures of the
asynchronous part did not count, so a job could run for days without completing a checkpoint.

How it decides
--------------
The rule groups declines and failed checkpoints by cause. It skips causes for which no task is to blame:

- the coordinator suspends or shuts down
- a newer barrier arrived
- tasks are not running yet, no longer running, or closing
- the limit on concurrent checkpoints or the pause between checkpoints applied
- a task failed (CP301 reports it)

The finding is critical if at least `at-the-end` checkpoints in a row failed at the end of the input, or if the job
failed as a result. It is a warning if more than 1% of the checkpoints failed. CP301 names the subtask that threw
the exception.

What to do
----------
Read the deepest cause: it names the library or storage that failed. If the cause is transient, such as
storage throttling, tolerate a few failed checkpoints instead of failing the job.

False alarms
------------
Late messages and "Ignore decline" lines after a cancellation do not count, nor do declines by sources that are
finishing.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Final

from flowdiag.analyses.flink import helpers as h
from flowdiag.analyses.knowledge.message_advice import with_advice

_FAILED: Final = (h.Status.DECLINED, h.Status.FAILED)


class Limits(h.Limits):
    at_the_end: float = h.at_the_end_limit()


def judge(job: h.Job, limits: Limits) -> h.Iterator[h.Finding]:
    """Yield one finding per job."""
    series = [e for e in h.episodes(job) if e.count(*_FAILED)]
    if not series:
        return
    by_id = {(c.run, c.id): c for e in series for c in e.checkpoints if c.status in _FAILED}
    failed = tuple(by_id.values())
    declines = [d for d in job.declines if (d.run, d.checkpoint) in by_id]
    declines = [d for d in declines if not h.is_blameless(d.reason)]
    decliners = Counter(h.subtask_name(d.attempt) for d in declines)
    causes = _count_causes(failed, declines)
    none_since = h.unsuccessful_at_end(series)
    records = [*((d.ref, d.time_us) for d in declines), *((c.end_ref, c.ended_us) for c in failed)]
    population = f"{len(job.concluded)} that completed or failed"
    failures = ("declined-or-failed-checkpoints", len(failed), "checkpoints", None, population)
    since = "since the last completed checkpoint"
    at_the_end = ("unsuccessful-at-the-end", none_since, "checkpoints", limits.at_the_end, since)
    yield h.episode_finding(
        job,
        series,
        len(failed),
        fatal=h.fatal_at_end(job, series, limits.at_the_end),
        title=_title(job, failed, causes, none_since),
        explain=_explanation(decliners, causes),
        rank=h.Rank.SYMPTOM,
        measurements=(
            h.measurement(*failures),
            h.measurement(*at_the_end),
            h.measurement("declining-subtasks", len(decliners), "subtasks"),
        ),
        evidence=h.cite(records),
        actions=_actions(job, causes),
    )


def _actions(job: h.Job, causes: Counter[str]) -> tuple[h.Action, ...]:
    """Return the remedies, with the cause of most failures instead of a reference to its record."""
    known = h.shared_remedies(job, "cited-cause" if causes else "failure-messages", "tolerate")
    first = next((cause for cause, _ in causes.most_common(1)), "")
    return with_advice(known, first)


def _count_causes(failed: Sequence[h.Checkpoint], declines: Sequence[h.Decline]) -> Counter[str]:
    """Count checkpoints by cause. A subtask's reason takes precedence over the coordinator's."""
    reasons = {(d.run, d.checkpoint): d.reason for d in declines if d.reason}
    for checkpoint in failed:
        if checkpoint.reason:
            reasons.setdefault((checkpoint.run, checkpoint.id), checkpoint.reason)
    return Counter(" ".join(reason.split()) for reason in reasons.values())


def _title(
    job: h.Job, failed: Sequence[h.Checkpoint], causes: Counter[str], none_since: int
) -> str:
    outcome = "declined" if any(c.status is h.Status.DECLINED for c in failed) else "failed"
    title = f"{len(failed)} of {h.fmt.plural(len(job.concluded), 'checkpoint')} {outcome}"
    if causes:
        return f"{title}: {h.fmt.shorten(causes.most_common(1)[0][0], 120)}"
    return f"{title}; none has completed since" if none_since else title


def _explanation(decliners: Counter[str], causes: Counter[str]) -> str:
    by = ", ".join(f"{name} {count}×" for name, count in decliners.most_common(5))
    listed = "; ".join(f"{text} ({count}×)" for text, count in causes.most_common(3))
    return (
        (f"Declined by: {by}. " if by else "")
        + (f"Causes: {listed}. " if listed else "No input shows the cause. ")
        + (_BY_SUBTASK if by else "")
    ).strip()


_BY_SUBTASK: Final = (
    "A single subtask that cannot snapshot its state fails the checkpoint for the whole job."
)


RULE: Final = h.Rule(
    "CP103", judge, Limits, core=True, needs="ended-checkpoints", severity=h.Severity.CRITICAL
)
