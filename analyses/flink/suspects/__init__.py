"""Identifies the culprit by votes with published weights, and its cause by an ordered list of questions.

Start with `find_culprit`: case → votes → culprit → cause. `flowdiag checkpoints` calls it for each spell of
failed checkpoints, `flowdiag queues` for each origin of back pressure. Both therefore report the same culprit and
cause for the same fault.

No single signal is enough. In 27 recorded runs with expired checkpoints and a known culprit, the
TaskManager with the most late messages was right 19 times, wrong 5 times and silent 3 times. The
subtask with the most late messages scored 16 / 8 / 3, the busiest subtask in the metric reports
21 / 2 / 4, and per-subtask details of REST and archives, read naively, 22 / 5.

- `case`: the facts that signals and causes share
- `acknowledgements`: the pattern of late and missing acknowledgements
- `signals`: the voting table; `*_signals`: the voting functions
- `voting`: counts the votes
- `causes`: the questions that decide the cause
- `remedies`: the explanation and the fixes of each cause
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from msgspec.structs import replace

from flowdiag.analyses.flink.job import Attempt, JobFacts, SubtaskLoad, original_host
from flowdiag.analyses.flink.judging import job_subject
from flowdiag.analyses.flink.suspects import voting
from flowdiag.analyses.flink.suspects.acknowledgement_signals import UPSTREAM_ON_TIME
from flowdiag.analyses.flink.suspects.case import Case, Suspect
from flowdiag.analyses.flink.suspects.causes import Diagnosis, diagnose, suspect_numbers
from flowdiag.analyses.flink.suspects.signals import SuspectVote
from flowdiag.analyses.flink.tasks.placement import SubtaskKey
from flowdiag.analyses.flink.tasks.stacks import read_code
from flowdiag.analyses.model import fmt
from flowdiag.analyses.model.derived import once
from flowdiag.analyses.model.finding import Cited, Confidence, Measurement, Subject, Vote
from flowdiag.analyses.stacks import CodeReading


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedCulprit:
    """The culprit of one case.

    Args:
        suspect: the culprit.
        others: subtasks of the same task with the same fault at the same time, worst first.
        cause, half: see `causes.Diagnosis`.
        code: what its threads do according to thread dumps; None without dumps or without agreement.
        votes: all votes cast. `confidence` follows from them.
        why: the culprit in one line, with the decisive number.
        numbers: measurements of the suspect, including the decisive one.
        refs: the records behind the supporting signals.
    """

    suspect: Suspect
    others: tuple[Suspect, ...] = ()
    cause: str | None = None
    half: str | None = None
    code: CodeReading | None = None
    votes: tuple[Vote, ...] = ()
    confidence: Confidence = Confidence.LOW
    subject: Subject
    why: str
    numbers: dict[str, float] = field(default_factory=dict)
    refs: tuple[Cited, ...] = ()


def same_culprit(one: NamedCulprit, other: NamedCulprit) -> bool:
    """Return whether two results name the same culprit, or one names the task or TaskManager of the other.

    Skewed data or a slow snapshot of a subtask does not implicate its TaskManager.
    """
    mine, theirs = one.suspect, other.suspect
    if {mine, *one.others} & {theirs, *other.others}:
        return True  # one of two simultaneous culprits may stand out for a while
    kinds = {mine.kind, theirs.kind}
    if kinds == {"subtask", "task"}:
        return mine.task == theirs.task
    if kinds == {"subtask", "taskmanager"}:
        subtask = one if mine.kind == "subtask" else other
        own = subtask.cause not in (None, "slow-subtask")
        return not own and one.subject.taskmanager == other.subject.taskmanager
    return False


def find_culprit(case: Case) -> NamedCulprit | None:
    """Let every signal vote, and return None if no suspect stands out or the votes cancel out."""
    suspect_votes = voting.collect_votes(case)
    leading = voting.leading_suspects(case, suspect_votes)
    if not leading:
        return None
    suspect, others, found = _first_with_cause(case, leading)
    if len(leading) > 1 and case.end is None and found.cause is None:
        return None  # a tie, and the input shows no cause
    others += _similar_culprits(case, suspect_votes, (suspect, *others), found)
    suspect_votes += voting.supporting_votes(case, suspect)
    votes = [voting.vote_on(case, suspect, item) for item in suspect_votes]
    supporting = voting.supporting(suspect_votes, votes)
    signals = {item.signal for item in supporting}
    if voting.on_unmonitored_taskmanager(case, signals):
        return None
    votes += voting.caveats(case, suspect, signals)
    if sum(vote.weight for vote in votes) <= 0:
        return None
    numbers = suspect_numbers(case, suspect) | found.numbers
    code = _code_of(case, suspect, others, found.cause)
    if code is not None:
        numbers["stack-samples"] = code.count
    return NamedCulprit(
        suspect=suspect,
        others=others,
        cause=found.cause,
        half=found.half,
        code=code,
        votes=tuple(sorted(votes, key=lambda vote: (-vote.weight, vote.signal, vote.text))),
        confidence=voting.confidence_of(case, votes),
        subject=_subject(case, suspect),
        why=_summary_text(case, suspect, others, supporting, found.reason, code),
        numbers={name: round(value, 3) for name, value in numbers.items()},
        refs=tuple(
            dict.fromkeys(
                [
                    *(code.refs[:MAX_STACKS] if code else ()),
                    *(ref for item in supporting for ref in item.refs),
                ]
            )
        ),
    )


def _first_with_cause(
    case: Case, leading: Sequence[Suspect]
) -> tuple[Suspect, tuple[Suspect, ...], Diagnosis]:
    """Return the culprit, the other suspects with the same cause, and the cause.

    Ties are allowed only at an origin of back pressure, where at least one of the suspects is the culprit. The culprit is
    the suspect whose cause comes first in `causes.QUESTIONS`.
    """
    found = [(suspect, diagnose(case, suspect)) for suspect in leading]
    if len(found) == 1:
        return leading[0], (), found[0][1]
    first = min(found, key=lambda pair: pair[1].rank)  # among equals, the busiest comes first
    alike = [pair for pair in found if pair[1].cause == first[1].cause]
    alike.sort(key=lambda pair: -pair[1].degree)
    return alike[0][0], tuple(suspect for suspect, _ in alike[1:]), alike[0][1]


def _similar_culprits(
    case: Case, suspect_votes: Sequence[SuspectVote], named: Sequence[Suspect], found: Diagnosis
) -> tuple[Suspect, ...]:
    """Return other subtasks of the same task that share the culprit's signals and cause.

    For example, each of two hot keys keeps one subtask busy.
    """
    first = named[0]
    if first.kind != "subtask" or found.cause is None or not voting.is_busy(case, first):
        return ()
    candidates = {
        suspect
        for item in suspect_votes
        if first in item.suspects
        for suspect in item.suspects
        if suspect.kind == "subtask" and suspect.task == first.task and suspect not in named
    }
    alike = [
        (diagnosis.degree, suspect)
        for suspect in sorted(candidates)
        if voting.is_busy(case, suspect)
        and (diagnosis := diagnose(case, suspect)).cause == found.cause
    ]
    return tuple(suspect for _, suspect in sorted(alike, key=lambda pair: -pair[0]))


MAX_STACKS: Final = 3  # maximum number of a culprit's samples in the evidence

# With these faults, the problem is not the task's code but its data, its process or its storage.
NOT_IN_CODE: Final = (
    "data-skew",
    "garbage-collection",
    "slow-taskmanager",
    "slow-async-snapshot",
)


def _code_of(
    case: Case, suspect: Suspect, others: Sequence[Suspect], cause: str | None
) -> CodeReading | None:
    """Return what the threads of a suspect do, if that can explain the fault."""
    if cause in NOT_IN_CODE or suspect.kind == "taskmanager" or not case.job.stacks:
        return None
    if suspect.kind == "task":
        keys = {load.key for load in case.members(suspect.task)}
    else:
        keys = {SubtaskKey(one.task, one.subtask_index) for one in (suspect, *others)}
    return read_code(case.job, keys)


def _subject(case: Case, suspect: Suspect) -> Subject:
    """Return the suspect as a subject, with all known names and IDs."""
    job, size = case.job, case.size(suspect.task) or None
    named = replace(job_subject(job), kind=suspect.kind)
    if suspect.kind == "taskmanager":
        hosts, ids = _taskmanagers(job)
        # Up to 1.9, REST names TaskManagers only by host, which is not a resource ID.
        is_id = suspect.taskmanager in ids or suspect.taskmanager not in hosts
        return replace(
            named,
            taskmanager=suspect.taskmanager if is_id else None,
            host=hosts.get(suspect.taskmanager),
        )
    vertex = _vertex_ids(job).get(suspect.task)
    if suspect.kind == "task":
        return replace(named, task=suspect.task, vertex_id=vertex, parallelism=size)
    key = SubtaskKey(suspect.task, suspect.subtask_index)
    attempt = case.where.get(key) or Attempt(job=job.key, attempt_id="")
    load = _first_loads(job).get(key)
    return replace(
        named,
        task=suspect.task,
        vertex_id=attempt.vertex_id or vertex,
        subtask_index=suspect.subtask_index,
        parallelism=attempt.parallelism or size,
        attempt_id=attempt.attempt_id or None,
        taskmanager=attempt.taskmanager or (load.taskmanager if load else None),
        host=attempt.host or original_host(load.host if load else None),
    )


@once
def _vertex_ids(job: JobFacts) -> dict[str, str | None]:
    vertices = job.graph.vertices if job.graph is not None else ()
    return {vertex.task: vertex.vertex_id for vertex in reversed(vertices)}


@once
def _taskmanagers(job: JobFacts) -> tuple[dict[str, str | None], frozenset[str | None]]:
    """Return the host of each TaskManager, and all resource IDs."""
    # Attempts come last and take precedence, because metric scopes contain only the first part of a host name.
    places: list[Attempt | SubtaskLoad] = [*job.loads, *job.attempts]
    hosts = {name: original_host(p.host) for p in places if (name := p.taskmanager or p.host)}
    return hosts, frozenset(place.taskmanager for place in places)


@once
def _first_loads(job: JobFacts) -> dict[tuple[str, int], SubtaskLoad]:
    return {(row.task, row.subtask_index): row for row in reversed(job.loads)}


def _summary_text(
    case: Case,
    suspect: Suspect,
    others: Sequence[Suspect],
    supporting: Sequence[SuspectVote],
    reason: str | None,
    code: CodeReading | None,
) -> str:
    """Describe the culprit in one line, with the decisive number and, if known, the line of code."""
    details = [item.detail for item in supporting]
    if reason is not None:
        details.insert(0, reason)
    if code is not None:
        details.insert(0, f"{code.clause}, {code.evidence_text}")
    name = case.name(suspect)
    if suspect.kind == "subtask":
        subject = _subject(case, suspect)
        if subject.taskmanager or subject.host:
            name += f" on {fmt.place(subject.taskmanager, subject.host)}"
    if others and case.end is None:
        name += f", together with {fmt.listed((case.name(s) for s in others[:3]), ' and ')}"
    return f"{name}: {', '.join(_without_repetition(dict.fromkeys(details[:3])))}"


_BUSY: Final = re.compile(r"busy \d+% ")


def _without_repetition(details: Iterable[str]) -> Iterator[str]:
    """Yield the parts of a sentence without words that the previous or next part already contains.

    >>> list(_without_repetition(["late in 3, while upstream tasks were on time", "missing in 3, while upstream tasks were on time"]))
    ['late in 3', 'missing in 3, while upstream tasks were on time']
    >>> list(_without_repetition(["busy 98% while upstream tasks wait", "busy 98% among idle siblings"]))
    ['busy 98% while upstream tasks wait', 'among idle siblings']
    """
    parts = [*details]
    for number, part in enumerate(parts):
        before, after = parts[:number], parts[number + 1 :]
        if part.endswith(UPSTREAM_ON_TIME) and any(p.endswith(UPSTREAM_ON_TIME) for p in after):
            part = part.removesuffix(UPSTREAM_ON_TIME)
        busy = _BUSY.match(part)
        if busy and before and before[-1].startswith(busy[0]):
            part = part.removeprefix(busy[0])
        yield part


_UNITS: Final = {
    "busy": ("share", "of the time, mean"),
    "back-pressured": ("share", "of the time, mean"),
    "input-buffers-in-use": ("share", "of the buffers of remote channels, mean"),
    "records-ratio": ("ratio", "records in, relative to the siblings' mean"),
    "bytes-ratio": ("ratio", "bytes in, relative to the siblings' mean"),
    "queue-ratio": ("ratio", "queued buffers, relative to the median of the siblings"),
    "time-per-record-ratio": ("ratio", "relative to siblings on other TaskManagers"),
    "gc-share": ("share", "of the TaskManager's time, in garbage collection"),
    "snapshot-share": ("share", "of the time, in synchronous snapshots"),
    "records": ("records", "received"),
    "stack-samples": ("samples", "of its threads show this line of code"),
}


def culprit_measurements(culprit: NamedCulprit) -> tuple[Measurement, ...]:
    return tuple(
        Measurement(name=name, value=value, unit=_UNITS[name][0], population=_UNITS[name][1])
        for name, value in culprit.numbers.items()
    )
