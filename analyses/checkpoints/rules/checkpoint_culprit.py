"""One subtask, task or TaskManager delays the checkpoints.

What it reports
---------------
The subtask, task or TaskManager that made checkpoints expire, its cause (`data-skew`, `task-hangs`,
`slow-operator`, `slow-taskmanager`, `slow-sync-snapshot`, `slow-async-snapshot`, `slow-subtask`), the vote
of every signal, and the confidence. It also reports, although all checkpoints complete:

- a saturated subtask whose upstream waits, as with unaligned checkpoints, with less confidence if no
  input shows a checkpoint
- a slow TaskManager, if checkpoints are slow (CP104)

Why it matters
--------------
One subtask is enough to fail the checkpoints of the whole job. The subtask that is visible in the log
(late, failing, complaining) is often a victim.

How it decides
--------------
Each signal votes for a suspect:

- late messages and missing acknowledgements, by their shape along the job graph: the most upstream vertex
  in which some subtasks lag behind their siblings
- snapshots that took half of the timeout, and asynchronous parts that an abort cut off
- the end of back pressure, the busiest subtask, the time per record
- placement, and stuck stacks

The table of signals lists the weights. The suspect with most weight is named. Votes for others reduce the
confidence, by the same scale as everywhere: high takes three points and at most a fifth of them against.
No suspect is named whose points add up to zero.

The cause needs evidence of its own. The first of these that applies decides, here as in `flowdiag queues`:

- a part of the snapshot that took half of the timeout
- an asynchronous part that was cut off
- late alone, with a busy or an idle thread
- twice its siblings' records or bytes, unless the cost per record grows as much (three times at least)
- synchronous snapshots in 30% of its time
- busy without any input
- three times its siblings' time per record
- no reaction to cancelling

A task is slow as a whole if two thirds of its subtasks are busy.

A console without INFO lines shows no triggers. A subtask is then named with low confidence if it alone was
late for at least three checkpoints, and for half of those with late messages. A subtask with slow snapshots
has already passed the barrier on.

Failed checkpoints with at most three completed ones in between are judged together, on the late messages,
acknowledgements and metrics of their time. If parts of such a series point to different subtasks or
TaskManagers, with at least medium confidence, the culprit moved. Each culprit is named for its part, and
all but the last are over. The same applies if the time between two parts implicates both, and the whole
implicates neither: each culprit is then named for the part that points to it.

If checkpoints complete, the latest numbers decide. If the numbers of the whole time show that a sibling was
about as busy before, the finding reports that, and no start time. If another TaskManager was lost within a
minute of each of the checkpoints, the confidence is low.

What to do
----------
By cause. Skew: find the hot key, then salt it or aggregate in two stages. Slow TaskManager: check disk, CPU
and neighbours of its host, or move it. Slow operator: increase the parallelism, or reduce the work per
record. Slow snapshot: smaller state per subtask, incremental checkpoints, faster storage, no flushing in
`snapshotState`. Hang: take a thread dump of that TaskManager.

False alarms
------------
Without a signal no suspect is named, and the rule lists the file or setting that would show one. If kinds of
input are missing, the confidence falls. A subtask can be named although its whole TaskManager is slow, if
only one subtask of each vertex runs there and no metrics show the time per record.
"""

from __future__ import annotations

from typing import Final, Unpack

from msgspec import structs

from flowdiag.analyses.checkpoints import culprit
from flowdiag.analyses.checkpoints.rules.slow_checkpoint import slow_finding
from flowdiag.analyses.flink import helpers as h
from flowdiag.analyses.flink.judging import severity_of
from flowdiag.analyses.flink.suspects import Conviction, conviction_measurements
from flowdiag.analyses.flink.suspects.causes import CULPRIT_CAUSES
from flowdiag.analyses.flink.suspects.remedies import explanation, remedies_for
from flowdiag.analyses.flink.suspects.signals import SIGNALS
from flowdiag.analyses.model.finding import MAX_CITED

_ONLY_LATE: Final = "late messages name the late subtasks, but no line shows how the checkpoints ended or which tasks wait"
_INFO_LINES: Final = (
    "pass the JobManager's log with its INFO lines: deployments, triggers and ends of checkpoints"
)


def judge(job: h.Job, limits: h.Limits) -> h.Iterator[h.Finding | h.Inconclusive]:
    """One finding per job and culprit."""
    found, alone = culprit.answers(job), culprit.late_alone(job)
    if alone is not None and not any(answer.conviction for answer in found):
        yield _late_alone(job, alone)
    elif found:
        yield from _delayed(job, found)
    elif (answer := culprit.hot_spot(job)) is not None:
        yield from _saturated(job, answer)
    elif (late := slow_finding(job)) is not None and late.severity is not h.Severity.INFO:
        slow = culprit.slowed_by(job, late.first_us, late.last_us)
        if slow is not None:
            fields = _fields(
                job,
                slow,
                "slows checkpoints down, although they complete",
                explain=f"{explanation(slow)} CP104 shows how slow they are.",
                severity=late.severity,
                state=late.state,
                first_us=late.first_us,
                last_us=late.last_us,
            )
            yield h.job_finding(job, subject=slow.subject, **fields)
    elif job.late and not job.completed:
        yield h.Inconclusive(reason=_ONLY_LATE, remedy=_INFO_LINES, job=job.key)


def _late_alone(job: h.Job, found: culprit.LateAlone) -> h.Finding:
    times, name = len(found.records), culprit.sender_name(found.attempt)
    says = f"alone late for {times} of {h.fmt.plural(found.among, 'checkpoint')} with late messages"
    received = [item.received_us for item in found.records if item.received_us is not None]
    votes = h.votes_for({culprit.LATE_ALONE.name: says}, (culprit.LATE_ALONE,))
    return h.job_finding(
        job,
        subject=structs.replace(h.subtask_subject(job, found.attempt), kind="subtask"),
        title=f"{h.fmt.capital(name)} acknowledged {h.fmt.plural(times, 'checkpoint')} too late, and no other subtask did",
        why=f"{name}: {says}",
        explain="Probably its snapshots take too long: it passed the barrier on, because no downstream task was "
        "late. If it is a source, it may wait for the checkpoint lock instead, and be a victim. No line "
        "shows when these checkpoints were triggered, so the input does not show more.",
        severity=h.Severity.WARNING,
        state=h.State.ONGOING,
        confidence=h.weigh(votes),
        rank=h.Rank.MECHANISM,
        first_us=min(received, default=None),
        last_us=max(received, default=None),
        count=times,
        measurements=(
            h.measurement("late-alone", times, "checkpoints"),
            h.measurement("with-late-messages", found.among, "checkpoints"),
        ),
        evidence=h.cite((item.ref, item.received_us) for item in found.records),
        actions=(
            h.Action(text=f"{h.fmt.capital(_INFO_LINES)}. They contain its name, and more signals"),
        ),
        votes=votes,
    )


def _saturated(job: h.Job, answer: culprit.Answer) -> h.Iterator[h.Finding | h.Inconclusive]:
    found = answer.conviction
    if found is None:
        reason = answer.missing or "no signal"
        yield h.Inconclusive(reason=reason, remedy=answer.remedy, job=job.key)
        return
    # A whole task is also saturated while it catches up.
    whole = found.suspect.kind == "task" or found.cause == "slow-operator"
    if whole or found.confidence is h.Confidence.LOW:
        return
    what = "is saturated while upstream waits, although checkpoints complete"
    effect = "No checkpoint fails because of it yet, but it limits the throughput of the job."
    if not job.completed:
        # The input shows which tasks wait, but no effect on checkpoints.
        found = h.replace(found, confidence=h.Confidence.MEDIUM)
        what = "is saturated while upstream waits; the input shows no checkpoints"
        effect = (
            "It limits the throughput of the job. The JobManager's log would show whether"
            " checkpoints fail because of it."
        )
    recent = culprit.moved_from(job, found)
    fields = _fields(
        job,
        found,
        what,
        explain=" ".join(filter(None, (explanation(found), effect, recent))),
        severity=h.Severity.WARNING,
        state=h.State.ONGOING,
        first_us=None if recent else job.first_us,
        last_us=job.last_us,
    )
    yield h.job_finding(job, subject=found.subject, **fields)


def _delayed(
    job: h.Job, found: tuple[culprit.Answer, ...]
) -> h.Iterator[h.Finding | h.Inconclusive]:
    named = culprit.delays(found)
    for delay in named:
        best, series = delay.best, delay.episodes
        if culprit.lost_meanwhile(job, series, best):
            best = h.replace(best, confidence=h.Confidence.LOW)
        expired = sum(e.count(h.Status.EXPIRED) for e in series)
        what = f"delayed {h.fmt.plural(expired, 'checkpoint')}"
        after = culprit.successor_of(job, series[-1]) if series[-1].handed_on else None
        if after is not None:
            what += f", then {culprit.name_of(after)} did"
        cited = h.cite((ref, None) for one in delay.convictions for ref in one.refs)
        ended = h.end_records(c for e in series for c in e.checkpoints)
        fields = _fields(
            job,
            best,
            what,
            explain=" ".join([explanation(best), *culprit.history(job, series)]),
            evidence=(*cited[:7], *ended[:3]) if cited else ended[:MAX_CITED],
            evidence_total=len(cited) + len(ended),
        )
        yield h.episode_finding(job, series, expired, subject=best.subject, **fields)
    # A short spell, or one among named ones, needs no answer of its own.
    for answer in () if named else reversed(found):
        expired = answer.episode.count(h.Status.EXPIRED)
        severity = severity_of(job, [answer.episode], expired, len(job.concluded))
        if severity is not h.Severity.INFO:
            reason = answer.missing or "no signal"
            yield h.Inconclusive(reason=reason, remedy=answer.remedy, job=job.key)
            return


def _fields(
    job: h.Job, found: Conviction, what: str, **overrides: Unpack[h.FindingFields]
) -> h.FindingFields:
    """Return the fields of a finding about a conviction; `what` follows the name in its title."""
    size = found.subject.parallelism
    # Subtasks with the same problem at the same time.
    more = [h.fmt.subtask_of("", one.subtask_index, size).strip() for one in found.others[:3]]
    name = h.fmt.listed([culprit.name_of(found), *more], " and ")
    weights = [vote.weight for vote in found.votes]
    cited = h.cite((ref, None) for ref in found.refs)
    fields: h.FindingFields = {
        "title": f"{name} {what}" + (f" ({found.cause})" if found.cause else ""),
        "why": found.why,
        "cause": found.cause,
        "confidence": found.confidence,
        "rank": h.Rank.MECHANISM,
        "measurements": (
            *conviction_measurements(found),
            h.measurement("points-for", sum(w for w in weights if w > 0), "points"),
            h.measurement("points-against", -sum(w for w in weights if w < 0), "points"),
        ),
        "evidence": cited[:MAX_CITED],
        "evidence_total": len(cited),
        "actions": remedies_for(job, found),
        "votes": found.votes,
    }
    fields.update(overrides)
    return fields


RULE: Final = h.Rule(
    "CP201", judge, signals=(*SIGNALS, culprit.LATE_ALONE), core=True, causes=CULPRIT_CAUSES
)
