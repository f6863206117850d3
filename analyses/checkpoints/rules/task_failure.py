"""A task failed, or its snapshot threw an exception.

What it reports
---------------
The failure that started a series of restarts: the subtask, its exception, its TaskManager, the number of restarts,
and whether the job recovered. If a snapshot throws an exception, the cause is `snapshot-exception`. Flink declines
the checkpoint if the asynchronous part fails, and up to 1.10 also if the synchronous part fails. From Flink 1.11
on, a failed synchronous part fails the task. If network buffers run out, the cause is
`insufficient-network-buffers`.

Why it matters
--------------
After a failure, "Checkpoint Coordinator is suspending", canceled tasks and missing slots fill the log.
The exception that explains them is logged once, at the beginning.

How it decides
--------------
All failures up to the next completed checkpoint form one crisis. The root of a crisis is the most fundamental
failure of its first minute, in this order: memory, a lost TaskManager, user code, missing slots. Cancellations and
other consequences are never the root. This rule reports crises whose root is an exception of the job itself. CP302
covers lost TaskManagers, CP303 covers memory, and CP312 covers storage that rejects checkpoints of several
TaskManagers.

The rule counts declines per subtask. It blames a subtask that reported its own cause, or that declined
`repeated` checkpoints without a reason. It also blames each subtask with at least `similarity` of the highest number of
declines. If only TaskManager logs report failed snapshots, one subtask must have `repeated` of them.

The finding is critical if the job failed for good, or if it restarted three times without a completed
checkpoint at the end of the input. It is a warning if the failures are ongoing or affect more than 1% of
the checkpoints.

What to do
----------
Fix the deepest cause. A record that cannot be parsed fails the job again after each restart. Skip the record or
send it to a side output.

False alarms
------------
Canceling, stopping or rescaling a job is not a failure, and neither is a JobManager failover.
"""

from typing import Final

from flowdiag.analyses.checkpoints import decliners
from flowdiag.analyses.checkpoints.failure_texts import JOB_FAULTS, failures_of
from flowdiag.analyses.flink import helpers as h
from flowdiag.analyses.knowledge.exceptions import CAUSE_OF_CLASS
from flowdiag.analyses.knowledge.message_advice import origin_note, with_advice


class Limits(h.Limits):
    repeated: float = h.limit(
        3, "checkpoints", "minimum number of unexplained declines; a closing task may cause one"
    )
    similarity: float = h.limit(
        2 / 3, "share", "minimum share of the most declines; similar numbers suggest one storage"
    )


def judge(job: h.Job, limits: Limits) -> h.Iterator[h.Finding]:
    """Yield one finding per task and cause."""
    for failure in failures_of(job):
        votes = h.votes_for(failure.signals, RULE.signals)
        # An exception below a record of unknown format may have been caught.
        sure = failure.text and "headed" not in failure.root.text
        yield h.crisis_finding(
            job,
            failure.crises,
            subject=h.subtask_subject(job, failure.root) if failure.names_cause else None,
            title=failure.title,
            why=failure.reason if failure.text and failure.names_cause else None,
            cause=failure.cause,
            confidence=h.weigh(votes) if sure else h.Confidence.LOW,
            rank=h.Rank.ROOT_CAUSE if failure.text and failure.cause else h.Rank.SYMPTOM,
            count=failure.restarts,
            explain=" ".join(
                filter(
                    None, (failure.explanation, origin_note(failure.root.text, shown=failure.title))
                )
            ),
            measurements=failure.measurements,
            actions=failure.actions(job),
            votes=votes,
        )
    if job.declines or job.checkpoints:
        yield from _decline_findings(job, limits)
    else:
        yield from _failed_snapshots(job, limits)


def _decline_findings(job: h.Job, limits: Limits) -> h.Iterator[h.Finding]:
    """Yield findings about failed snapshots for which checkpoints were declined."""
    series, failed = decliners.failed_checkpoints(job)
    found = decliners.decliners_of(job, failed, repeated=limits.repeated, alike=limits.similarity)
    if found is None:
        return
    votes, number = h.votes_for(found.signals, RULE.signals), len(found.attempts)
    name = h.subtask_name(found.attempts[0]) if number == 1 else f"{number} subtasks"
    share = f"{found.times} of {h.fmt.plural(len(failed), 'failed checkpoint')}"
    yield h.episode_finding(
        job,
        series,
        len(failed),
        subject=decliners.common_subject(job, found.attempts),
        title=f"{name} cannot take a snapshot: "
        f"{h.fmt.shorten(found.text, 120) or 'no reason in the input'}",
        why=f"{name}: {found.text or votes[0].text} ({share})",
        cause="snapshot-exception",
        confidence=h.weigh(votes),
        rank=h.Rank.ROOT_CAUSE,
        count=sum(len(e.checkpoints) for e in series),
        explain=h.text("CP301.declined"),
        measurements=(
            h.measurement(
                "declined-by-this-subtask", found.times, "checkpoints", over=f"{len(failed)} failed"
            ),
        ),
        evidence=found.records,
        actions=with_advice(h.remedies("snapshot-exception", job), found.text or ""),
        votes=votes,
    )


def _failed_snapshots(job: h.Job, limits: Limits) -> h.Iterator[h.Finding]:
    """Yield findings about failed snapshots in TaskManager logs, for inputs without any checkpoint."""
    for members in decliners.failed_snapshots(job, limits.repeated):
        last = members[-1]
        text, name = h.exception_text(last.cause), h.subtask_name(last)
        votes = h.votes_for({"exception": f"{len(members)} snapshots failed: {text}"}, RULE.signals)
        yield h.incident_finding(
            job,
            members,
            ongoing=True,
            subject=h.subtask_subject(job, last),
            title=f"{name} cannot take a snapshot: {h.fmt.shorten(text, 120)}",
            why=f"{name}: {text} ({len(members)} times)",
            cause="snapshot-exception",
            confidence=h.weigh(votes),
            rank=h.Rank.ROOT_CAUSE,
            explain=h.text("CP301.only-taskmanager"),
            measurements=(h.measurement("failed-snapshots", len(members), "checkpoints"),),
            actions=with_advice(h.remedies("snapshot-exception", job), last.cause or "", text),
            votes=votes,
        )


RULE: Final = h.Rule(
    "CP301",
    judge,
    Limits,
    causes=(*dict.fromkeys((*JOB_FAULTS, *(word for word, _ in CAUSE_OF_CLASS.values()))),),
    needs="dated-records",
    severity=h.Severity.CRITICAL,
)
