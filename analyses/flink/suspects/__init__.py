"""Who is to blame: every signal votes, with a published weight, and one order of questions says why.

`convict` is the one function to read first: a case → accusations → the accused → the cause → the
conviction. `flowdiag checkpoints` asks it for each spell of failed checkpoints, `flowdiag queues` for each
end of back pressure, so that one fault has one name and one cause in both.

No single signal suffices. In 27 recorded runs with expired checkpoints and a known culprit, the
TaskManager with most late messages was right 19 times, wrong 5 times and silent 3 times; the subtask
with most of them 16 / 8 / 3; the busiest subtask of the metric reports 21 / 2 / 4; per-subtask
details of REST and archives, read naively, 22 / 5. So each signal that has something to say accuses
subtasks, a whole vertex or a TaskManager; the accused with most weight is convicted, what speaks
against it lowers the confidence, and where nothing speaks nobody is named.

`signals` has the voting table and the functions that vote, `causes` the questions that decide the cause,
`case` what both look at, `acknowledgements` what the shape of late acknowledgements says, `remedies` what
each cause means and what to do about it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from flowdiag.analyses.flink.job import Attempt, JobFacts, SubtaskLoad, unmangled
from flowdiag.analyses.flink.placement import SubtaskKey
from flowdiag.analyses.flink.suspects.case import Case, Suspect
from flowdiag.analyses.flink.suspects.causes import Diagnosis, diagnose, measured
from flowdiag.analyses.flink.suspects.signals import (
    SPEAKERS,
    Accusation,
    caveats,
    evenly_loaded,
    seconded,
    sits_unseen,
)
from flowdiag.analyses.model import fmt
from flowdiag.analyses.model.derived import once
from flowdiag.analyses.model.finding import Cited, Confidence, Measurement, Subject, Vote, weigh

_MEASURED: Final = frozenset(
    {"snapshot-duration", "end-of-back-pressure", "time-per-record", "stuck-stack"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Conviction:
    """The answer for one case.

    Args:
        suspect: who is to blame.
        others: subtasks of the same task that are sick of the same at the same time, the worst first.
        cause, half: see `causes.Diagnosis`.
        votes: of every signal that spoke, and what they add up to.
        why: who, in one line, with the number that convicts.
        numbers: of the suspect, those that decided among them.
        refs: what the signals for it rest on.
    """

    suspect: Suspect
    others: tuple[Suspect, ...] = ()
    cause: str | None = None
    half: str | None = None
    votes: tuple[Vote, ...] = ()
    confidence: Confidence = Confidence.LOW
    subject: Subject
    why: str
    numbers: dict[str, float] = field(default_factory=dict)
    refs: tuple[Cited, ...] = ()


def goes_with(one: Conviction, other: Conviction) -> bool:
    """Whether two convictions are of the same, or one is of the other's task or TaskManager.

    A subtask whose sickness is its own, its data or its snapshots, is not its TaskManager.
    """
    mine, theirs = one.suspect, other.suspect
    if {mine, *one.others} & {theirs, *other.others}:
        return True  # also where one of two that are sick at once stands out for a while
    kinds = {mine.kind, theirs.kind}
    if kinds == {"subtask", "task"}:
        return mine.task == theirs.task
    if kinds == {"subtask", "taskmanager"}:
        subtask = one if mine.kind == "subtask" else other
        own = subtask.cause not in (None, "slow-subtask")
        return not own and one.subject.taskmanager == other.subject.taskmanager
    return False


def convict(case: Case) -> Conviction | None:
    """Let every signal vote on a case; None if nobody stands out, or the votes cancel out."""
    accusations = [item for signal in SPEAKERS for item in signal(case)]
    accused = _most_accused(case, accusations)
    if not accused:
        return None
    suspect, others, found = _with_its_cause(case, accused)
    if len(accused) > 1 and case.end is None and found.cause is None:
        return None  # alike, and nothing tells what ails them
    others = (*others, *_companions(case, accusations, (suspect, *others), found))
    accusations += seconded(case, suspect)
    votes = [_vote(case, suspect, item) for item in accusations]
    pairs = sorted(zip(accusations, votes, strict=True), key=lambda pair: -pair[1].weight)
    pro = [item for item, vote in pairs if vote.weight > 0]
    if sits_unseen(case, {item.signal for item in pro}):
        return None
    votes += caveats(case, suspect, {item.signal for item in pro})
    if sum(vote.weight for vote in votes) <= 0:
        return None  # what speaks against it outweighs a hint
    return Conviction(
        suspect=suspect,
        others=others,
        cause=found.cause,
        half=found.half,
        votes=tuple(sorted(votes, key=lambda vote: (-vote.weight, vote.signal, vote.text))),
        confidence=_confidence(case, votes),
        subject=subject_of(case, suspect),
        why=_why(case, suspect, () if case.end is not None else others, pro, found.reason),
        numbers={
            name: round(value, 3)
            for name, value in (measured(case, suspect) | found.numbers).items()
        },
        refs=tuple(dict.fromkeys(ref for item in pro for ref in item.refs)),
    )


def _with_its_cause(
    case: Case, accused: Sequence[Suspect]
) -> tuple[Suspect, tuple[Suspect, ...], Diagnosis]:
    """The one of the accused that is convicted, those that share its cause, and the cause.

    Several are accused alike only where the case is about an end of back pressure: then somebody of
    them did it, and the one with a cause (that is asked for first) did.
    """
    found = [(suspect, diagnose(case, suspect)) for suspect in accused]
    if len(found) == 1:
        return accused[0], (), found[0][1]
    first = min(found, key=lambda pair: pair[1].rank)  # the busiest first among equals
    alike = [pair for pair in found if pair[1].cause == first[1].cause]
    alike.sort(key=lambda pair: -pair[1].degree)
    return alike[0][0], tuple(suspect for suspect, _ in alike[1:]), alike[0][1]


def _companions(
    case: Case, accusations: Sequence[Accusation], named: Sequence[Suspect], found: Diagnosis
) -> tuple[Suspect, ...]:
    """Subtasks that the same signals accuse beside the convicted one, and that are sick of the same.

    Two hot keys at once: each keeps a subtask of its own at work all the time.
    """
    first = named[0]
    if first.kind != "subtask" or found.cause is None or not _works(case, first):
        return ()
    beside = {
        suspect
        for item in accusations
        if first in item.suspects
        for suspect in item.suspects
        if suspect.kind == "subtask" and suspect.task == first.task and suspect not in named
    }
    alike = [
        (diagnosis.degree, suspect)
        for suspect in sorted(beside)
        if _works(case, suspect) and (diagnosis := diagnose(case, suspect)).cause == found.cause
    ]
    return tuple(suspect for _, suspect in sorted(alike, key=lambda pair: -pair[0]))


def _works(case: Case, suspect: Suspect) -> bool:
    """Whether metrics show that a subtask works all the time and waits for nobody."""
    load = case.loads.get(SubtaskKey(suspect.task, suspect.subtask_index))
    return load is not None and load.works and load.measured and not load.waits


def _at_once(case: Case, accusations: Sequence[Accusation], tied: Sequence[Suspect]) -> bool:
    """Whether those with the same weight are sick at once: one signal accuses them all, and all of them work.

    They must be a minority of one task: more than that are no exception.
    """
    task = tied[0].task
    return (
        all(one.kind == "subtask" and one.task == task and _works(case, one) for one in tied)
        and len(tied) * 2 <= case.size(task)
        and any(item.suspects.issuperset(tied) for item in accusations)
    )


# --- the vote -------------------------------------------------------------------------------------


def _most_accused(case: Case, accusations: Sequence[Accusation]) -> tuple[Suspect, ...]:
    """The suspect with most weight; nobody if none stands out.

    An accusation of many splits: each of them gets half of its weight. One that fits (the vertex, or
    the TaskManager, of the suspect) adds a point at most. A machine that is slow at everything
    explains the subtasks on it, unless the accused one has more to do than its siblings.
    """
    scores: dict[Suspect, list[float]] = {}
    for item in accusations:
        for suspect in item.suspects:
            score = scores.setdefault(suspect, [0.0, 0.0])
            score[0] += item.weight / (1 if len(item.suspects) == 1 else 2)
            score[1] = max(score[1], item.weight / len(item.suspects))
    for suspect, score in scores.items():
        for item in accusations:
            if suspect not in item.suspects and _agrees(case, suspect, item):
                score[0] += min(1.0, item.weight / 2)
    ranked = [
        suspect
        for suspect in sorted(scores, key=lambda s: (-scores[s][0], -scores[s][1], s))
        if _in_question(case, suspect)
    ]
    if not ranked:
        return ()
    best = ranked[0]
    if best.kind == "subtask" and case.machine is not None:
        key = SubtaskKey(best.task, best.subtask_index)
        even = key in case.loads and evenly_loaded(case, case.loads[key])
        if even and case.manager_of(key) == case.machine.taskmanager:
            return (Suspect(taskmanager=case.machine.taskmanager),)
    named_by = {item.signal: item.weight for item in accusations if best in item.suspects}
    if named_by.keys() == {"placement"} and named_by["placement"] < 2:
        return ()  # with few TaskManagers and subtasks that happens by chance
    tied = [suspect for suspect in ranked if scores[suspect] == scores[best]]
    machines = [suspect for suspect in tied if suspect.kind == "taskmanager"]
    if len(machines) == 1 and all(
        _goes_with(case, suspect, machines[0]) for suspect in tied if suspect is not machines[0]
    ):
        return (machines[0],)  # its own subtasks are all that rivals it
    if len(tied) > 1 and case.end is None and not _at_once(case, accusations, tied):
        # Nobody stands out: nobody is named. What several have in common (a task, a machine) takes a
        # signal of its own.
        return ()
    return tuple(suspect for suspect in tied if suspect.kind == best.kind)


def _in_question(case: Case, suspect: Suspect) -> bool:
    """Whether a case can be about a suspect: of an end of back pressure, somebody of it."""
    if case.end is None:
        return True
    if suspect.kind == "taskmanager":
        return any(load.taskmanager == suspect.taskmanager for load in case.end.subtasks)
    return suspect.task == case.end.task and (
        suspect.kind == "task"
        or any(load.key.subtask_index == suspect.subtask_index for load in case.end.subtasks)
    )


def _manager(case: Case, suspect: Suspect) -> str | None:
    if suspect.kind == "taskmanager":
        return suspect.taskmanager
    if suspect.kind == "task":
        return None
    return case.manager_of(SubtaskKey(suspect.task, suspect.subtask_index))


def _agrees(case: Case, suspect: Suspect, item: Accusation) -> bool:
    """Whether an accusation of somebody else fits: the vertex, or the TaskManager, of the suspect."""
    return any(_goes_with(case, suspect, other) for other in item.suspects)


def _goes_with(case: Case, one: Suspect, other: Suspect) -> bool:
    kinds = {one.kind, other.kind}
    if kinds == {"subtask", "task"}:
        return one.task == other.task
    if kinds == {"subtask", "taskmanager"}:
        return _manager(case, one) == _manager(case, other)
    return False


def _vote(case: Case, suspect: Suspect, item: Accusation) -> Vote:
    if suspect in item.suspects:
        weight = item.weight if len(item.suspects) == 1 else max(1, item.weight - 1)
    elif _agrees(case, suspect, item):
        weight = 1
    else:
        weight = -item.weight
    return Vote(signal=item.signal, text=item.says, weight=weight)


def _confidence(case: Case, votes: Sequence[Vote]) -> Confidence:
    """What the votes add up to; never high on hints alone, or on one checkpoint unmeasured."""
    confidence = weigh(votes)
    for_it = [vote for vote in votes if vote.weight > 0]
    measured = any(vote.signal in _MEASURED for vote in for_it)
    few = 0 < len(case.episode.checkpoints) < 2
    # That somebody is the end of back pressure is no hint: then the votes only say who.
    hints = case.end is None and all(vote.weight == 1 for vote in for_it)
    if confidence is Confidence.HIGH and (hints or (few and not measured)):
        return Confidence.MEDIUM
    return confidence


# --- the answer -----------------------------------------------------------------------------------


def subject_of(case: Case, suspect: Suspect) -> Subject:
    """The suspect as a subject, with what is known of it."""
    job = case.job
    if suspect.kind == "taskmanager":
        hosts, named = _machines(job)
        # Up to 1.9 REST names machines by their hosts only: those are no resource ids.
        is_name = suspect.taskmanager in named or suspect.taskmanager not in hosts
        return Subject(
            kind="taskmanager",
            job_id=job.key.job_id or None,
            job_name=job.name,
            taskmanager=suspect.taskmanager if is_name else None,
            host=hosts.get(suspect.taskmanager),
        )
    vertex = next(
        (
            v.vertex_id
            for v in (job.graph.vertices if job.graph is not None else ())
            if v.task == suspect.task
        ),
        None,
    )
    size = case.size(suspect.task) or None
    if suspect.kind == "task":
        return Subject(
            kind="task",
            job_id=job.key.job_id or None,
            job_name=job.name,
            task=suspect.task,
            vertex_id=vertex,
            parallelism=size,
        )
    key = SubtaskKey(suspect.task, suspect.subtask_index)
    attempt = case.where.get(key) or Attempt(job=job.key, attempt_id="")
    load = _first_loads(job).get(key)
    return Subject(
        kind="subtask",
        job_id=job.key.job_id or None,
        job_name=job.name,
        task=suspect.task,
        vertex_id=attempt.vertex_id or vertex,
        subtask_index=suspect.subtask_index,
        parallelism=attempt.parallelism or size,
        attempt_id=attempt.attempt_id or None,
        taskmanager=attempt.taskmanager or (load.taskmanager if load else None),
        host=attempt.host or unmangled(load.host if load else None),
    )


@once
def _machines(job: JobFacts) -> tuple[dict[str, str | None], frozenset[str | None]]:
    """The host of each TaskManager, and all resource ids."""
    # Attempts last, they count: the scope of a metric has the first part of a host's name only.
    places: list[Attempt | SubtaskLoad] = [*job.loads, *job.attempts]
    hosts = {name: unmangled(p.host) for p in places if (name := p.taskmanager or p.host)}
    return hosts, frozenset(place.taskmanager for place in places)


@once
def _first_loads(job: JobFacts) -> dict[tuple[str, int], SubtaskLoad]:
    return {(row.task, row.subtask_index): row for row in reversed(job.loads)}


def _why(
    case: Case,
    suspect: Suspect,
    others: Sequence[Suspect],
    pro: Sequence[Accusation],
    reason: str | None,
) -> str:
    """Who, in one line, with the number that convicts."""
    told = [item.about for item in pro]
    if reason is not None:
        told.insert(0, reason)
    name = case.name(suspect)
    if suspect.kind == "subtask":
        subject = subject_of(case, suspect)
        if subject.taskmanager or subject.host:
            name += f" on {fmt.place(subject.taskmanager, subject.host)}"
    if others:
        name += f", and with it {fmt.listed((case.name(one) for one in others[:3]), ' and ')}"
    return f"{name}: {', '.join(_each_once(dict.fromkeys(told[:3])))}"


_AS_WELL: Final = ", upstream in time"
_BUSY: Final = re.compile(r"busy \d+% ")


def _each_once(told: Iterable[str]) -> Iterator[str]:
    """The parts of a sentence, without what the part before or behind says as well.

    >>> list(_each_once(["late in 3, upstream in time", "missing in 3, upstream in time"]))
    ['late in 3', 'missing in 3, upstream in time']
    >>> list(_each_once(["busy 98% while upstream waits", "busy 98% among idle siblings"]))
    ['busy 98% while upstream waits', 'among idle siblings']
    """
    parts = [*told]
    for number, part in enumerate(parts):
        before, behind = parts[:number], parts[number + 1 :]
        if part.endswith(_AS_WELL) and any(other.endswith(_AS_WELL) for other in behind):
            part = part.removesuffix(_AS_WELL)
        busy = _BUSY.match(part)
        if busy and before and before[-1].startswith(busy[0]):
            part = part.removeprefix(busy[0])
        yield part


_UNITS: Final = {
    "busy": ("share", "of the time, mean"),
    "back-pressured": ("share", "of the time, mean"),
    "input-buffers-in-use": ("share", "of the remote channels' buffers, mean"),
    "records-ratio": ("ratio", "records in, against the mean of its siblings"),
    "bytes-ratio": ("ratio", "bytes in, against the mean of its siblings"),
    "queue-ratio": ("ratio", "queued buffers, against the median sibling"),
    "time-per-record-ratio": ("ratio", "against siblings on other TaskManagers"),
    "gc-share": ("share", "of the TaskManager's time, in garbage collection"),
    "snapshot-share": ("share", "of the time, in synchronous snapshots"),
    "records": ("records", "taken in"),
}


def numbers_of(conviction: Conviction) -> tuple[Measurement, ...]:
    """The numbers of a conviction, for a finding."""
    return tuple(
        Measurement(name=name, value=value, unit=_UNITS[name][0], population=_UNITS[name][1])
        for name, value in conviction.numbers.items()
    )
