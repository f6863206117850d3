"""One subtask, task or TaskManager holds the checkpoints up.

What it reports
---------------
The subtask, the task or the TaskManager that made checkpoints expire, what ails it (`data-skew`,
`task-hangs`, `slow-operator`, `slow-taskmanager`, `slow-sync-snapshot`, `slow-async-snapshot`,
`slow-subtask`), every signal's vote, and how sure that is. A saturated subtask whose upstream waits is
reported too when all checkpoints complete, as unaligned ones do, and with less confidence where no input
tells of a checkpoint; so is a TaskManager that is slow itself where checkpoints are slow (CP104) and complete.

Why it matters
--------------
One subtask is enough to fail the checkpoints of the whole job, and the one that is seen (late,
failing, complaining) is often a victim.

How it decides
--------------
Each signal that has something to say accuses: late messages and missing acknowledgements by their
shape along the job graph (the most upstream vertex in which some subtasks lag behind their siblings),
snapshots that lasted for half of the timeout, asynchronous parts that an abort cut off, the end of
back pressure, the busiest subtask, time per record, placement, stuck stacks. The weights stand in the
table of signals. The accused with most weight is named; votes for others count against the
confidence, by the same scale as everywhere: high takes three points and at most a fifth of them
against. Nobody is named whose points add up to nothing.

The cause needs evidence of its own, and the first question with an answer decides, here as in
`flowdiag queues`: a part of its snapshot that lasted for half of the timeout; an asynchronous part that
was cut off; late alone, with a busy or an idle thread; twice its siblings' records or bytes, unless a
record costs it as much more (three times at least); synchronous snapshots in 30% of its time; busy
without taking in anything; three times its siblings' time per record; no reaction to cancelling. A task
of which two thirds of the subtasks are busy is slow as a whole.

Where no line tells when checkpoints were triggered (a console without INFO lines), the one is named, with
low confidence, that alone was late for three checkpoints or more, and for half of those that anybody was late
for: whoever takes a snapshot slowly has passed the barrier on before.

Failed checkpoints with at most three completed ones between are judged together, on the late messages,
acknowledgements and metrics of their time. Where parts of such a series convict different subtasks or
TaskManagers, with medium confidence at least, the culprit moved: each is named for its part, and all
but the last are over; also where what lies between two parts accuses both, and the whole nobody: each then
has the part that convicts him. Where checkpoints complete, the latest numbers convict; where the whole time's
say that a sibling was about as busy before, that is told, and not since when the present one is. Where
another TaskManager was lost within a minute of each of the checkpoints, the confidence is low.

What to do
----------
By cause. Skew: find the hot key, salt it or aggregate in two steps. Slow machine: look at its disk,
CPU, neighbours; move it away. Slow operator: more parallelism, or less work per record. Slow
snapshot: smaller state per subtask, incremental checkpoints, faster storage, no flushing in
`snapshotState`. Hang: take a thread dump of that TaskManager.

False alarms
------------
Nobody is named without a signal, and then the rule says which file or setting would tell. When kinds
of input are missing the confidence falls. A subtask can be named although the whole machine is slow,
if the machine runs but one subtask of each vertex and no metrics tell the time per record.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import Any, Final

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
    Inconclusive,
    Measurement,
    Rank,
    Severity,
    State,
    cite,
    weigh,
)
from flowdiag.analyses.model.rule import Limits, Rule

_NOT_ALWAYS: Final = 900.0  # ms of busy time a second: who is saturated all the time has more
_UNHEARD_US: Final = 60_000_000  # heartbeat.timeout, 50 s, and its check
_FEW: Final = 3  # samples: fewer tell of a moment, and not of a time


def judge(job: h.Job, limits: Limits) -> Iterator[Finding | Inconclusive]:
    """One finding per job and culprit."""
    told = answers(job)
    alone = late_alone(job)
    if alone is not None and not any(answer.conviction for answer in told):
        yield _late_alone(job, alone)
    elif told:
        yield from _held_up(job, told)
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
    yield _said(
        job,
        found,
        "slows checkpoints down; they complete all the same",
        explain=f"{explanation(found)} How slow they are is told by CP104.",
        severity=late.severity,
        state=late.state,
        first_us=late.first_us,
        last_us=late.last_us,
        evidence=cited[:MAX_CITED],
        evidence_total=len(cited),
    )


_ONLY_LATE: Final = (
    "late messages say who was late, and no line how the checkpoints ended or who waits for whom"
)
_INFO_LINES: Final = (
    "give the JobManager's log with its INFO lines: deployments, triggers and ends of checkpoints"
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
        title=f"{fmt.capital(name)} acknowledged {fmt.plural(times, 'checkpoint')} too late, and nobody else did",
        why=f"{name}: {says}",
        explain="Most likely its snapshots take too long: it has passed the barrier on, since nobody behind it was "
        "late. If it is a source, it may wait for the checkpoint lock instead, and is a victim. No line "
        "says when these checkpoints were triggered, so that more cannot be told.",
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
        actions=(Action(text=f"{fmt.capital(_INFO_LINES)}; they tell its name, and more signals"),),
        votes=votes,
    )


def _saturated(job: JobFacts, answer: Answer) -> Iterator[Finding | Inconclusive]:
    found = answer.conviction
    if found is None:
        yield Inconclusive(reason=answer.missing or "no signal", remedy=answer.remedy, job=job.key)
        return
    # A whole task that is saturated works as fast as it can: catching up does that.
    whole = found.suspect.kind == "task" or found.cause == "slow-operator"
    if whole or found.confidence is Confidence.LOW:
        return
    cited = cite((ref, None) for ref in found.refs)
    completed = _completed(job)
    if not completed and found.confidence is Confidence.HIGH:
        # Who waits is seen; whether any checkpoint suffers is not.
        found = replace(found, confidence=Confidence.MEDIUM)
    other = _moved_from(job, found)
    yield _said(
        job,
        found,
        "is saturated while upstream waits; checkpoints complete all the same"
        if completed
        else "is saturated while upstream waits; the input does not tell of checkpoints",
        explain=explanation(found)
        + (
            " No checkpoint fails for it (yet), but the job cannot go faster than this."
            if completed
            else " The job cannot go faster than this; the JobManager's log would tell whether"
            " checkpoints fail for it."
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
    """Who of the same task was as busy before, in a sentence; None where the convicted was busy all the time.

    The latest numbers convict; those of a whole window, which is longer, say how long that can have been so.
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
        f"It was not always so: over all samples it was busy {fmt.percent(mine / 1000)} of the time and {name} "
        f"{fmt.percent(busy / 1000)}, the others {fmt.percent(max(rest, default=0.0) / 1000)} at most."
    )


def _held_up(job: JobFacts, told: Sequence[Answer]) -> Iterator[Finding | Inconclusive]:
    named: dict[tuple[object, str | None], list[tuple[Episode, Conviction]]] = {}
    unnamed: list[Answer] = []
    for answer in told:
        found = answer.conviction
        if found is None:
            unnamed.append(answer)
        else:
            named.setdefault((found.suspect, found.cause), []).append((answer.episode, found))
    for group in named.values():
        yield _of_a_culprit(job, group)
    # What was over before long, or stands among named ones, needs no answer of its own.
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
    return _said(
        job,
        best,
        f"held up {fmt.plural(expired, 'checkpoint')}"
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
    """Whether a TaskManager that is not accused was lost soon after all of these checkpoints had begun.

    Until its heartbeats are missed it acknowledges nothing, and those that wait for it look late.
    """
    lost = [
        i.time_us
        for i in incidents(job, "taskmanager-lost")
        if i.time_us is not None and i.taskmanager != found.subject.taskmanager
    ]
    begun = [c.triggered_us for e in series for c in e.checkpoints if c.triggered_us is not None]
    return bool(begun) and all(any(0 <= at - us <= _UNHEARD_US for at in lost) for us in begun)


def _after(job: JobFacts, episode: Episode) -> Conviction | None:
    """Who held up the checkpoints that failed next, if it was somebody else."""
    return next((o.conviction for one, o in followed(job) if one.episode is episode), None)


def _before(job: JobFacts, episode: Episode) -> Conviction | None:
    """Who held up the checkpoints that failed before, if it was somebody else."""
    return next((one.conviction for one, o in followed(job) if o.episode is episode), None)


def _when(job: JobFacts, series: list[Episode], after: Conviction | None) -> Iterator[str]:
    """Since when, until when, who before and who after."""
    last = series[-1]
    yield f"It held up {' and '.join(lasted(episode) for episode in series[-3:])}."
    if len(series) > 3:
        yield f"Before that it held up others, {len(series) - 3} times."
    before = _before(job, series[0])
    if before is not None:
        yield f"Before it, {_name(before)} held checkpoints up."
    if after is not None:
        yield f"After it, {_name(after)} held checkpoints up."
    if last.recovered is not None and after is None:
        yield f"It is over: checkpoint {last.recovered.id} completed."


def _name(found: Conviction) -> str:
    """The convicted, for people."""
    subject = found.subject
    if subject.kind == "taskmanager":
        return f"TaskManager {fmt.place(subject.taskmanager, subject.host)}"
    return fmt.subtask_of(subject.task, subject.subtask_index, subject.parallelism)


def _names(found: Conviction) -> str:
    """The convicted and those that are sick of the same at the same time."""
    size = found.subject.parallelism
    more = [fmt.subtask_of("", one.subtask_index, size).strip() for one in found.others[:3]]
    return fmt.listed([_name(found), *more], " and ") if more else _name(found)


def _said(job: JobFacts, found: Conviction, what: str, **said: Any) -> Finding:
    """A finding about a conviction; `what` stands behind the name in its title."""
    subject, name = found.subject, _names(found)
    pro = sum(vote.weight for vote in found.votes if vote.weight > 0)
    contra = -sum(vote.weight for vote in found.votes if vote.weight < 0)
    return Finding(
        job=job.key,
        subject=subject,
        title=f"{name} {what}" + (f" ({found.cause})" if found.cause else ""),
        why=found.why,
        cause=found.cause,
        confidence=found.confidence,
        rank=Rank.MECHANISM,
        measurements=(
            *conviction_measurements(found),
            Measurement(name="points-for", value=pro, unit="points"),
            Measurement(name="points-against", value=contra, unit="points"),
        ),
        actions=remedies_for(job, found),
        votes=found.votes,
        **said,
    )


RULE: Final = Rule("CP201", judge, signals=(*SIGNALS, LATE_ALONE), core=True, causes=CULPRIT_CAUSES)
