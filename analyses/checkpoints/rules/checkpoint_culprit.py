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
acknowledgements and metrics of their time. If parts of such a series convict different subtasks or
TaskManagers, with medium confidence at least, the culprit moved. Each culprit is named for its part, and
all but the last are over. The same holds if the time between two parts accuses both, and the whole
accuses none: each culprit then has the part that convicts it.

If checkpoints complete, the latest numbers convict. If the numbers of the whole time show that a sibling was
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

from collections.abc import Iterator, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import Final, Unpack

from msgspec import structs

from flowdiag.analyses.checkpoints.culprit import (
    LATE_ALONE,
    Answer,
    LateAlone,
    answers,
    followed,
    hot_spot,
    lasted,
    late_alone,
    sender_name,
    slowed_by,
)
from flowdiag.analyses.checkpoints.rules.slow_checkpoint import slow_finding
from flowdiag.analyses.flink import helpers as h
from flowdiag.analyses.flink import judging as j
from flowdiag.analyses.flink.episodes import Episode, concluded, incidents
from flowdiag.analyses.flink.job import JobFacts, Status
from flowdiag.analyses.flink.suspects import Conviction, conviction_measurements
from flowdiag.analyses.flink.suspects.causes import CULPRIT_CAUSES
from flowdiag.analyses.flink.suspects.remedies import explanation, remedies_for
from flowdiag.analyses.flink.suspects.signals import SIGNALS
from flowdiag.analyses.model import fmt
from flowdiag.analyses.model.finding import (
    MAX_CITED,
    Action,
    Confidence,
    Finding,
    FindingFields,
    Inconclusive,
    Measurement,
    Rank,
    Severity,
    State,
    cite,
    weigh,
)
from flowdiag.analyses.model.rule import Limits, Rule

_NOT_ALWAYS: Final = 900.0  # ms of busy time a second: a subtask that is always saturated has more
_HEARTBEAT_US: Final = 60_000_000  # heartbeat.timeout, 50 s, and its check
_FEW: Final = 3  # samples: fewer show a moment, not a period


def judge(job: h.Job, limits: Limits) -> Iterator[Finding | Inconclusive]:
    """One finding per job and culprit."""
    found = answers(job)
    alone = late_alone(job)
    if alone is not None and not any(answer.conviction for answer in found):
        yield _late_alone(job, alone)
    elif found:
        yield from _delayed(job, found)
    elif (answer := hot_spot(job)) is not None:
        yield from _saturated(job, answer)
    elif (late := slow_finding(job)) is not None and late.severity is not Severity.INFO:
        yield from _slowed(job, late)
    elif job.late and not _completed(job):
        yield Inconclusive(reason=_ONLY_LATE, remedy=_INFO_LINES, job=job.key)


def _completed(job: JobFacts) -> bool:
    return any(c.status is Status.COMPLETED for c in job.checkpoints)


def _slowed(job: JobFacts, late: Finding) -> Iterator[Finding]:
    answer = slowed_by(job, late.first_us, late.last_us)
    if answer is None or answer.conviction is None:
        return
    found, cited = answer.conviction, cite((ref, None) for ref in answer.conviction.refs)
    yield _conviction_finding(
        job,
        found,
        "slows checkpoints down, although they complete",
        explain=f"{explanation(found)} CP104 shows how slow they are.",
        severity=late.severity,
        state=late.state,
        first_us=late.first_us,
        last_us=late.last_us,
        evidence=cited[:MAX_CITED],
        evidence_total=len(cited),
    )


_ONLY_LATE: Final = "late messages name the late subtasks, but no line shows how the checkpoints ended or which tasks wait"
_INFO_LINES: Final = (
    "pass the JobManager's log with its INFO lines: deployments, triggers and ends of checkpoints"
)


def _late_alone(job: JobFacts, found: LateAlone) -> Finding:
    attempt, times = found.attempt, len(found.records)
    name = sender_name(attempt)
    says = f"alone late for {times} of {fmt.plural(found.among, 'checkpoint')} with late messages"
    received = [item.received_us for item in found.records if item.received_us is not None]
    votes = h.votes_for({LATE_ALONE.name: says}, (LATE_ALONE,))
    return Finding(
        job=job.key,
        subject=structs.replace(j.subtask_subject(job, attempt), kind="subtask"),
        title=f"{fmt.capital(name)} acknowledged {fmt.plural(times, 'checkpoint')} too late, and no other subtask did",
        why=f"{name}: {says}",
        explain="Probably its snapshots take too long: it passed the barrier on, because no downstream task was "
        "late. If it is a source, it may wait for the checkpoint lock instead, and be a victim. No line "
        "shows when these checkpoints were triggered, so the input does not show more.",
        severity=Severity.WARNING,
        state=State.ONGOING,
        confidence=weigh(votes),
        rank=Rank.MECHANISM,
        first_us=min(received, default=None),
        last_us=max(received, default=None),
        count=times,
        measurements=(
            Measurement(name="late-alone", value=times, unit="checkpoints"),
            Measurement(name="with-late-messages", value=found.among, unit="checkpoints"),
        ),
        evidence=cite((item.ref, item.received_us) for item in found.records),
        actions=(
            Action(text=f"{fmt.capital(_INFO_LINES)}. They contain its name, and more signals"),
        ),
        votes=votes,
    )


def _saturated(job: JobFacts, answer: Answer) -> Iterator[Finding | Inconclusive]:
    found = answer.conviction
    if found is None:
        yield Inconclusive(reason=answer.missing or "no signal", remedy=answer.remedy, job=job.key)
        return
    # A whole task is also saturated while it catches up.
    whole = found.suspect.kind == "task" or found.cause == "slow-operator"
    if whole or found.confidence is Confidence.LOW:
        return
    cited = cite((ref, None) for ref in found.refs)
    completed = _completed(job)
    if not completed and found.confidence is Confidence.HIGH:
        # The input shows which tasks wait, but no effect on checkpoints.
        found = replace(found, confidence=Confidence.MEDIUM)
    other = _moved_from(job, found)
    yield _conviction_finding(
        job,
        found,
        "is saturated while upstream waits, although checkpoints complete"
        if completed
        else "is saturated while upstream waits; the input shows no checkpoints",
        explain=explanation(found)
        + (
            " No checkpoint fails because of it yet, but it limits the throughput of the job."
            if completed
            else " It limits the throughput of the job. The JobManager's log would show whether"
            " checkpoints fail because of it."
        )
        + (f" {other}" if other else ""),
        severity=Severity.WARNING,
        state=State.ONGOING,
        first_us=None if other else job.first_us,
        last_us=job.last_us,
        evidence=cited[:MAX_CITED],
        evidence_total=len(cited),
    )


def _moved_from(job: JobFacts, found: Conviction) -> str | None:
    """Return which sibling was as busy before; None if the culprit was busy all the time.

    The latest numbers convict. The numbers of the longer window show since when that is possible.
    """
    about, mine = found.subject, None
    windows = {
        load.subtask_index: load.busy
        for load in job.loads
        if load.task == about.task and load.samples >= _FEW and load.busy is not None
    }
    if about.subtask_index is not None:
        mine = windows.pop(about.subtask_index, None)
    if mine is None or mine > _NOT_ALWAYS or not windows:
        return None
    before, busy = max(windows.items(), key=itemgetter(1))
    rest = [each for index, each in windows.items() if index != before]
    if busy < mine / 2 or busy < 2 * max(rest, default=0.0):
        return None
    name = fmt.subtask_of(about.task, before, about.parallelism)
    return (
        f"This is recent: over all samples it was busy {fmt.percent(mine / 1000)} of the time and {name} "
        f"{fmt.percent(busy / 1000)}, the others {fmt.percent(max(rest, default=0.0) / 1000)} at most."
    )


def _delayed(job: JobFacts, found: Sequence[Answer]) -> Iterator[Finding | Inconclusive]:
    named: dict[tuple[object, str | None], list[tuple[Episode, Conviction]]] = {}
    unnamed: list[Answer] = []
    for answer in found:
        convicted = answer.conviction
        if convicted is None:
            unnamed.append(answer)
        else:
            key = (convicted.suspect, convicted.cause)
            named.setdefault(key, []).append((answer.episode, convicted))
    for group in named.values():
        yield _of_a_culprit(job, group)
    # A short spell, or one among named ones, needs no answer of its own.
    serious = [a for a in unnamed if _severity(job, [a.episode]) is not Severity.INFO]
    if serious and not named:
        last = serious[-1]
        yield Inconclusive(reason=last.missing or "no signal", remedy=last.remedy, job=job.key)


def _severity(job: JobFacts, series: list[Episode]) -> Severity:
    expired = sum(e.count(Status.EXPIRED) for e in series)
    return j.severity_of(job, series, expired, len(concluded(job)))


def _of_a_culprit(job: JobFacts, group: list[tuple[Episode, Conviction]]) -> Finding:
    _, best = max(group, key=lambda pair: (pair[1].confidence.weight, len(pair[0].checkpoints)))
    series = [episode for episode, _ in group]
    if _lost_meanwhile(job, series, best):
        best = replace(best, confidence=Confidence.LOW)
    expired = sum(e.count(Status.EXPIRED) for e in series)
    after = _after(job, series[-1])
    cited = cite((ref, None) for _, conviction in group for ref in conviction.refs)
    ended = j.end_records(c for e in series for c in e.checkpoints)
    return _conviction_finding(
        job,
        best,
        f"delayed {fmt.plural(expired, 'checkpoint')}"
        + (f", then {_name(after)} did" if after is not None and series[-1].handed_on else ""),
        explain=" ".join([explanation(best), *_when(job, series, after)]),
        severity=_severity(job, series),
        state=j.state_of(series),
        first_us=series[0].first_us,
        last_us=series[-1].last_us,
        count=expired,
        evidence=(*cited[:7], *ended[:3]) if cited else ended[:MAX_CITED],
        evidence_total=len(cited) + len(ended),
    )


def _lost_meanwhile(job: JobFacts, series: Sequence[Episode], found: Conviction) -> bool:
    """Whether another TaskManager was lost soon after each of these checkpoints had begun.

    Until its heartbeats are missed it acknowledges nothing, and tasks that wait for it look late.
    """
    lost = [
        i.time_us
        for i in incidents(job, "taskmanager-lost")
        if i.time_us is not None and i.taskmanager != found.subject.taskmanager
    ]
    begun = [c.triggered_us for e in series for c in e.checkpoints if c.triggered_us is not None]
    return bool(begun) and all(any(0 <= at - us <= _HEARTBEAT_US for at in lost) for us in begun)


def _after(job: JobFacts, episode: Episode) -> Conviction | None:
    """Return the culprit of the next failed checkpoints, if it is another one."""
    return next((o.conviction for one, o in followed(job) if one.episode is episode), None)


def _before(job: JobFacts, episode: Episode) -> Conviction | None:
    """Return the culprit of the previous failed checkpoints, if it is another one."""
    return next((one.conviction for one, o in followed(job) if o.episode is episode), None)


def _when(job: JobFacts, series: list[Episode], after: Conviction | None) -> Iterator[str]:
    """Yield when it delayed checkpoints, and the culprits before and after it."""
    last = series[-1]
    yield f"It delayed {' and '.join(lasted(episode) for episode in series[-3:])}."
    if len(series) > 3:
        yield f"Before that it delayed others, {len(series) - 3} times."
    before = _before(job, series[0])
    if before is not None:
        yield f"Before it, {_name(before)} delayed checkpoints."
    if after is not None:
        yield f"After it, {_name(after)} delayed checkpoints."
    if last.recovered is not None and after is None:
        yield f"It is over: checkpoint {last.recovered.id} completed."


def _name(found: Conviction) -> str:
    """Return the culprit for readers."""
    subject = found.subject
    if subject.kind == "taskmanager":
        return f"TaskManager {fmt.place(subject.taskmanager, subject.host)}"
    return fmt.subtask_of(subject.task, subject.subtask_index, subject.parallelism)


def _names(found: Conviction) -> str:
    """Return the culprit, and the subtasks with the same problem at the same time."""
    size = found.subject.parallelism
    more = [fmt.subtask_of("", one.subtask_index, size).strip() for one in found.others[:3]]
    return fmt.listed([_name(found), *more], " and ") if more else _name(found)


def _conviction_finding(
    job: JobFacts, found: Conviction, what: str, **overrides: Unpack[FindingFields]
) -> Finding:
    """Return a finding about a conviction; `what` follows the name in its title."""
    subject, name = found.subject, _names(found)
    pro = sum(vote.weight for vote in found.votes if vote.weight > 0)
    contra = -sum(vote.weight for vote in found.votes if vote.weight < 0)
    fields: FindingFields = {
        "title": f"{name} {what}" + (f" ({found.cause})" if found.cause else ""),
        "why": found.why,
        "cause": found.cause,
        "confidence": found.confidence,
        "rank": Rank.MECHANISM,
        "measurements": (
            *conviction_measurements(found),
            h.measurement("points-for", pro, "points"),
            h.measurement("points-against", contra, "points"),
        ),
        "actions": remedies_for(job, found),
        "votes": found.votes,
    }
    fields.update(overrides)
    return h.job_finding(job, subject=subject, **fields)


RULE: Final = Rule("CP201", judge, signals=(*SIGNALS, LATE_ALONE), core=True, causes=CULPRIT_CAUSES)
