"""One subtask, task or TaskManager delays the checkpoints.

What it reports
---------------
The subtask, task or TaskManager that made checkpoints expire, its cause (`data-skew`, `task-hangs`,
`slow-operator`, `slow-taskmanager`, `slow-sync-snapshot`, `slow-async-snapshot`, `slow-subtask`), the vote of
every signal, and the confidence. Even if all checkpoints complete, the rule reports:

- a subtask that delays a checkpoint in progress, if that checkpoint is overdue (CP106)
- a saturated subtask that its upstream tasks wait for, as happens with unaligned checkpoints. The confidence is
  lower if the logs and metrics show no checkpoint.
- the only subtask that slow checkpoints (CP104) waited for, with all subtasks downstream of it, if an input shows
  why
- a slow TaskManager, if checkpoints are slow (CP104)

Why it matters
--------------
A single subtask can fail the checkpoints of the whole job. The subtask that stands out in the log because it is
late or fails is often only a victim.

How it decides
--------------
Each signal votes for a suspect:

- Late acknowledgements (which the JobManager logs as "late message") and missing ones point to the most upstream
  vertex in which some subtasks lag behind their siblings.
- A snapshot that took half of the timeout, or whose asynchronous part was aborted, points to its subtask.
- Metrics point to the task where back pressure begins, to the busiest subtask, and to a subtask that needs
  more time per record than its siblings.
- The placement of late subtasks points to a TaskManager.
- The stack trace of a task that does not react to its cancellation points to that task.

The table of signals lists the weights. The rule names the suspect with the most points, or no suspect if no total
is above zero. Votes for other suspects reduce the confidence. As in all rules, high confidence requires at least
three points for the suspect, and votes against it that add up to at most a fifth of these points.

The cause requires separate evidence. As in `flowdiag queues`, the first condition that the suspect
meets determines the cause:

- One part of its snapshot took half of the timeout.
- An abort cut off its asynchronous part.
- It was the only late subtask, and its thread was busy or idle.
- It receives twice the records or bytes of its siblings. This does not count if its cost per record is also higher
  by that factor and at least three times as high.
- It spends 30% of its time in synchronous snapshots.
- It is busy without any input.
- It takes three times as long per record as its siblings.
- It does not react to its cancellation.

The whole task counts as slow if two thirds of its subtasks are busy.

Console output without INFO lines does not show when checkpoints were triggered. The rule then names a subtask with
low confidence, if it was the only late subtask in at least three checkpoints and in half of the checkpoints with
late messages. The cause is probably a slow snapshot, because such a subtask has already forwarded the barrier.

The rule evaluates failed checkpoints together if at most three completed checkpoints lie between them. It uses the
late messages, acknowledgements and metrics of that period. If parts of such a series point to different subtasks
or TaskManagers with at least medium confidence, the culprit has moved. The rule then names each culprit for its
part of the series, and only the last culprit is ongoing. The same applies if the period between
two parts points to both suspects, but the whole series points to neither.

If checkpoints complete, the latest metrics decide. If a sibling was about as busy earlier, the finding
mentions the sibling and shows no start time. If another TaskManager was lost within a minute of each
checkpoint, the confidence is low.

What to do
----------
- Skew: find the hot key, then salt it or aggregate in two stages.
- Slow TaskManager: check its host's disk, CPU and noisy neighbors, or move it to another host.
- Slow operator: increase the parallelism or reduce the work per record.
- Slow snapshot: reduce the state per subtask, enable incremental checkpoints, use faster storage, and do not
  flush in `snapshotState`.
- Hang: take a thread dump of the TaskManager.

False alarms
------------
Without a signal the rule names no suspect, and lists the files or settings that would provide a signal. The
confidence is lower if inputs are missing. The rule may blame a single subtask although its whole TaskManager is
slow. This happens if only one subtask of each vertex runs there and no metrics show the time per record.
"""

from typing import Final

from flowdiag.analyses.checkpoints import culprit, pending
from flowdiag.analyses.checkpoints.detect.culprit_findings import (
    awaited_subtask_finding,
    culprit_fields,
    late_alone_finding,
    overdue_finding,
    saturated_finding,
    slow_taskmanager_finding,
)
from flowdiag.analyses.checkpoints.rules.slow_checkpoint import (
    slow_finding,
    slow_from_ms,
    slow_since_start,
)
from flowdiag.analyses.flink import helpers as h
from flowdiag.analyses.flink.judging import severity_of
from flowdiag.analyses.flink.suspects.causes import CULPRIT_CAUSES
from flowdiag.analyses.flink.suspects.remedies import explanation
from flowdiag.analyses.flink.suspects.signals import SIGNALS
from flowdiag.analyses.model.finding import MAX_CITED

_ONLY_LATE: Final = "late messages name the late subtasks, but no line shows how the checkpoints ended or which tasks wait"


def judge(job: h.Job, limits: h.Limits) -> h.Results:
    """Yield one finding per job and culprit."""
    found, alone = culprit.episode_culprits(job), culprit.late_alone(job)
    if alone is not None and not any(answer.culprit for answer in found):
        yield late_alone_finding(job, alone)
    elif found:
        yield from _awaited_subtask_findings(job, found)
    elif (waits := pending.pending(job)) is not None and (by := pending.culprit(job)) is not None:
        yield overdue_finding(job, by, waits)
    elif (answer := culprit.hot_spot(job)) is not None:
        if answer.culprit is None:
            yield awaited_subtask_finding(job, _slow_checkpoints(job)) or _unknown(job, answer)
        elif (hot := saturated_finding(job, answer.culprit)) is not None:
            yield hot
    elif (
        delay := awaited_subtask_finding(job, _slow_checkpoints(job))
        or _slow_taskmanager_finding(job)
    ) is not None:
        yield delay
    elif job.late and not job.completed:
        yield h.Inconclusive(
            reason=_ONLY_LATE, checks=("jobmanager-log", "checkpoint-statistics"), job=job.key
        )


def _unknown(job: h.Job, answer: culprit.EpisodeCulprit) -> h.Inconclusive:
    reason = answer.missing or "no signal"
    return h.Inconclusive(reason=reason, checks=answer.checks, job=job.key)


def _slow_taskmanager_finding(job: h.Job) -> h.Finding | None:
    late = slow_finding(job)
    return (
        slow_taskmanager_finding(job, late)
        if late is not None and late.severity is not h.Severity.INFO
        else None
    )


def _slow_checkpoints(job: h.Job) -> list[h.Checkpoint]:
    """Return the completed checkpoints that CP104 reports, or that have been slow from the start."""
    found = slow_finding(job)
    if (found is None or found.severity is h.Severity.INFO) and not slow_since_start(job):
        return []
    steady = (c for stretch in h.steady_checkpoints(job, 0) for c in stretch)
    return [c for c in steady if (h.elapsed_ms(c) or 0.0) >= slow_from_ms(job)]


def _awaited_subtask_findings(job: h.Job, found: tuple[culprit.EpisodeCulprit, ...]) -> h.Results:
    named = culprit.delays(found)
    for delay in named:
        best, series = delay.best_culprit, delay.episodes
        if culprit.lost_meanwhile(job, series, best):
            best = h.replace(best, confidence=h.Confidence.LOW)
        expired = sum(e.count(h.Status.EXPIRED) for e in series)
        what = f"delayed {h.fmt.plural(expired, 'checkpoint')}"
        after = culprit.successor_of(job, series[-1]) if series[-1].handed_on else None
        if after is not None:
            what += f", then {culprit.name_of(after)} did"
        cited = h.cite((ref, None) for one in delay.culprits for ref in one.refs)
        ended = h.end_records(c for e in series for c in e.checkpoints)
        fields = culprit_fields(
            job,
            best,
            what,
            explain=" ".join([explanation(best), *culprit.history(job, series)]),
            evidence=(*cited[:7], *ended[:3]) if cited else ended[:MAX_CITED],
            evidence_total=len(cited) + len(ended),
        )
        yield h.episode_finding(job, series, expired, subject=best.subject, **fields)
    # Short spells need no result, and neither do others if a culprit is named.
    for answer in () if named else reversed(found):
        expired = answer.episode.count(h.Status.EXPIRED)
        severity = severity_of(job, [answer.episode], expired, len(job.concluded))
        if severity is not h.Severity.INFO:
            yield _unknown(job, answer)
            return


RULE: Final = h.Rule(
    "CP201",
    judge,
    signals=(*SIGNALS, culprit.LATE_ALONE),
    core=True,
    causes=CULPRIT_CAUSES,
    needs="checkpoints",
    severity=h.Severity.CRITICAL,
)
