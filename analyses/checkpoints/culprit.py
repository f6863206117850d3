"""Who makes the checkpoints fail: the cases of a job, for the one engine of `flink.suspects`.

A case is a spell of failed checkpoints, or a stage of one: culprits move, and the votes for two of them
over the same time cancel out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

from flowdiag.analyses.flink.episodes import Episode, all_spells
from flowdiag.analyses.flink.job import Attempt, JobFacts, LateAcknowledgement, Status
from flowdiag.analyses.flink.options import at_least
from flowdiag.analyses.flink.pressure import overall_view, unmonitored_end, view_during
from flowdiag.analyses.flink.suspects import Conviction, convict, same_culprit
from flowdiag.analyses.flink.suspects.case import Case
from flowdiag.analyses.model import fmt
from flowdiag.analyses.model.derived import once
from flowdiag.analyses.model.finding import Confidence
from flowdiag.analyses.model.rule import Signal

MOST_SPELLS: Final = 40
"""Spells are judged one by one up to here; of more, the last ones tell what is the matter now."""
_PIECES: Final = 8  # of a spell, that are asked whom they accuse
_LEAST: Final = 2  # expired checkpoints in a piece: one alone is an accident


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Who held up one spell of failed checkpoints.

    Without a `conviction` it is inconclusive: `missing` says why, `remedy` what would tell.
    """

    episode: Episode
    conviction: Conviction | None = None
    missing: str | None = None
    remedy: str | None = None


def held_up(job: JobFacts, episode: Episode) -> Answer:
    """Who held up one spell of failed checkpoints, by the signals of its time."""
    case = Case(job, episode, view_during(job, episode.first_us, episode.last_us))
    found = convict(case)
    if found is not None:
        return Answer(episode=episode, conviction=found)
    missing, remedy = _what_would_tell(case)
    return Answer(episode=episode, missing=missing, remedy=remedy)


@once
def answers(job: JobFacts) -> tuple[Answer, ...]:
    """Who held up each spell of expired checkpoints, in order; of the last `MOST_SPELLS`.

    A spell in which the culprit moved has an answer for each of its stages.
    """
    sick = [episode for episode in all_spells(job) if episode.count(Status.EXPIRED)]
    return tuple(answer for spell in sick[-MOST_SPELLS:] for answer in _stages(job, spell))


def _stages(job: JobFacts, spell: Episode) -> tuple[Answer, ...]:
    """The answer for a spell, or those for its stages where one culprit followed another.

    Pieces of the spell are asked whom they accuse. Those in a row that do not contradict each other are
    a stage; a stage counts if it convicts by itself, with medium confidence at least.
    """
    whole = held_up(job, spell)
    pieces = _pieces(spell)
    if len(pieces) < 2:
        return (whole,)
    asked = [(piece, held_up(job, _part(spell, piece))) for piece in pieces]
    runs = _runs(asked)
    bounds = [_bound(job, spell, before, after) for before, after in pairwise(runs)]
    found = _cut(job, spell, bounds)
    if found is None and any(not _agree(one, other) for (_, one), (_, other) in pairwise(asked)):
        # Pieces may be too short to say much: what comes before and after one of their bounds says more.
        cuts = [_cut(job, spell, [first]) for first, _ in pieces[1:]]
        found = max(
            (cut for cut in cuts if cut), key=lambda cut: sum(map(_points, cut)), default=None
        )
    if found is None and _sure(whole) is None:
        found = _apart(job, spell, runs)
    return found or (whole,)


def _apart(job: JobFacts, spell: Episode, runs: Sequence[_Run]) -> tuple[Answer, ...] | None:
    """The answers for the two stages of a spell between which both culprits were at work.

    One goes on holding barriers up until its queue is empty, when the next one has begun: what lies between
    accuses both, and no single bound parts them. Each stage takes as much of it as convicts the same.
    """
    if len(runs) != 2:
        return None
    before, after = runs
    last = len(spell.checkpoints)
    answer, other = (
        held_up(job, _part(spell, (0, before.last[1]))),
        held_up(job, _part(spell, (after.first[0], last))),
    )
    end, begin = before.last[1], after.first[0]
    while end < begin and _same(more := held_up(job, _part(spell, (0, end + 1))), answer):
        answer, end = more, end + 1
    while begin > end and _same(more := held_up(job, _part(spell, (begin - 1, last))), other):
        other, begin = more, begin - 1
    if not _sure(answer) or not _sure(other) or _agree(answer, other):
        return None
    return answer, other


def _same(one: Answer, other: Answer) -> bool:
    """Whether two answers are sure of the same culprit."""
    return _sure(one) is not None and _sure(other) is not None and _agree(one, other)


def _cut(job: JobFacts, spell: Episode, bounds: Sequence[int]) -> tuple[Answer, ...] | None:
    """The answers for the parts of a spell, if each convicts by itself and none the same as the next."""
    if not bounds:
        return None
    cuts = pairwise([0, *bounds, len(spell.checkpoints)])
    found = tuple(held_up(job, _part(spell, cut)) for cut in cuts)
    if any(_sure(answer) is None for answer in found):
        return None
    return None if any(_agree(one, other) for one, other in pairwise(found)) else found


Piece = tuple[int, int]


def _pieces(spell: Episode) -> list[Piece]:
    """Parts of a spell's checkpoints, from one number up to another, of `_LEAST` expired ones each."""
    expired = [n for n, c in enumerate(spell.checkpoints) if c.status is Status.EXPIRED]
    number = min(_PIECES, len(expired) // _LEAST)
    if number < 2:
        return []
    starts = [expired[place * len(expired) // number] for place in range(1, number)]
    return list(pairwise([0, *starts, len(spell.checkpoints)]))


def _part(spell: Episode, piece: Piece) -> Episode:
    """Some of the checkpoints of a spell; what follows them in it is not theirs."""
    first, end = piece
    last = end == len(spell.checkpoints)
    return replace(
        spell,
        checkpoints=spell.checkpoints[first:end],
        recovered=spell.recovered if last else None,
        warm_up=spell.warm_up and first == 0,
        ended_well=spell.ended_well and last,
        handed_on=not last,
    )


@dataclass(frozen=True, slots=True)
class _Run:
    """Pieces in a row that accuse the same, and the best answer among theirs."""

    first: Piece
    last: Piece
    answer: Answer


def _runs(asked: Sequence[tuple[Piece, Answer]]) -> list[_Run]:
    """Pieces joined with those before them, unless they accuse somebody else."""
    runs: list[_Run] = []
    for piece, answer in asked:
        if _sure(answer) is None:
            continue
        if runs and _agree(runs[-1].answer, answer):
            best = max(runs[-1].answer, answer, key=_points)
            runs[-1] = _Run(runs[-1].first, piece, best)
        else:
            runs.append(_Run(piece, piece, answer))
    return runs


def _sure(answer: Answer) -> Conviction | None:
    """The conviction, where it is more than a hint."""
    found = answer.conviction
    return None if found is None or found.confidence is Confidence.LOW else found


def _points(answer: Answer) -> int:
    return sum(vote.weight for vote in answer.conviction.votes) if answer.conviction else 0


def _agree(one: Answer, other: Answer) -> bool:
    """Whether two answers accuse the same, or one of them the task or the TaskManager of the other."""
    mine, theirs = one.conviction, other.conviction
    return mine is None or theirs is None or same_culprit(mine, theirs)


def _bound(job: JobFacts, spell: Episode, before: _Run, after: _Run) -> int:
    """Where one culprit follows another: halves of what lies about it are asked whom they accuse."""
    low, high = before.last[0], after.first[1]
    bound = after.first[0]
    while high - low >= 2 * _LEAST:
        middle = (low + high) // 2
        asked = held_up(job, _part(spell, (low, middle)))
        if _sure(asked) is None:
            break
        if _agree(before.answer, asked):
            low = bound = middle
        elif _agree(after.answer, asked):
            high = bound = middle
        else:
            break
    # What is left is told by single checkpoints, however little each of them says.
    for step, place, other in ((1, 0, before), (-1, -1, after)):
        nearest = bound + place
        if 0 < nearest < len(spell.checkpoints) - 1:
            alone = held_up(job, _part(spell, (nearest, nearest + 1)))
            rest = after if other is before else before
            if alone.conviction and _agree(other.answer, alone) and not _agree(rest.answer, alone):
                return bound + step
    return bound


_SOLE: Final = 3  # checkpoints: two in a row may be chance
_SOLE_SHARE: Final = 0.5
"""Of the checkpoints with late messages. Recorded without INFO lines: who slowed a snapshot down was alone in four
of seven of them or more; of declined checkpoints, where everybody else is late, one was alone in three of 18."""


LATE_ALONE: Final = Signal(
    "late-alone",
    1,
    "it alone was late for three checkpoints or more, where no line tells when they were triggered",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LateAlone:
    """Who alone was late for several checkpoints, where no line tells when they were triggered.

    Args:
        attempt: who.
        records: its messages of those checkpoints.
        among: how many checkpoints have late messages.
    """

    attempt: Attempt
    records: tuple[LateAcknowledgement, ...]
    among: int


def late_alone(job: JobFacts) -> LateAlone | None:
    """Who alone was late for most checkpoints of which only late messages tell: a console without INFO lines.

    Whoever takes a snapshot slowly has passed the barrier on before, so that nobody else is late. Sources are
    left out where their names tell: they are late alone when they wait for the checkpoint lock.
    """
    if any(item.after_trigger_ms is not None for item in job.late):
        return None  # then the shape along the graph says more
    senders: dict[tuple[int, int], dict[str, LateAcknowledgement]] = {}
    for item in job.late:
        senders.setdefault((item.run, item.checkpoint), {})[item.attempt.attempt_id] = item
    alone = [next(iter(each.values())) for each in senders.values() if len(each) == 1]
    times = Counter(item.attempt.attempt_id for item in alone)
    who, count = max(times.items(), key=lambda pair: (pair[1], pair[0]), default=("", 0))
    if count < _SOLE or count < _SOLE_SHARE * len(senders):
        return None
    records = tuple(item for item in alone if item.attempt.attempt_id == who)
    attempt = records[0].attempt
    if (attempt.task or "").startswith("Source"):
        return None
    return LateAlone(attempt=attempt, records=records, among=len(senders))


def sender_name(attempt: Attempt) -> str:
    """A subtask as people know it; without its name by what the id of its attempt tells, and by its place."""
    if attempt.task is not None:
        return fmt.subtask_of(attempt.task, attempt.subtask_index, attempt.parallelism)
    name = f"attempt {attempt.attempt_id[:8]}"
    if attempt.vertex_id is not None and attempt.subtask_index is not None:
        name = f"subtask {attempt.subtask_index + 1} of vertex {attempt.vertex_id[:8]}"
    if not attempt.taskmanager and not attempt.host:
        return name
    return f"{name} on {fmt.place(attempt.taskmanager, attempt.host)}"


def followed(job: JobFacts) -> Iterator[tuple[Answer, Answer]]:
    """Pairs of answers of which the second culprit took over from the first."""
    for one, other in pairwise(answers(job)):
        if one.conviction and other.conviction and not _agree(one, other):
            yield one, other


def lasted(episode: Episode) -> str:
    """Which checkpoints an episode took, and from when to when, for people."""
    first, last = episode.checkpoints[0], episode.checkpoints[-1]
    which = f"checkpoint {first.id}" if first is last else f"checkpoints {first.id} to {last.id}"
    if episode.first_us is None or episode.last_us is None:
        return which
    return f"{which}, {fmt.clock(episode.first_us)} to {fmt.clock(episode.last_us)} UTC"


def hot_spot(job: JobFacts) -> Answer | None:
    """A saturated subtask whose upstream waits, in a job whose checkpoints complete all the same.

    Returns:
        None when there is no back pressure, or where it ends is nothing to worry about; without a
        conviction when it ends where the input does not look.
    """
    view, episode = overall_view(job), _whole(job)
    if not any(root.measured for root in view.ends):
        task = unmonitored_end(view.loads, view.topology)
        if task is None or view.ends:
            return None
        return Answer(
            episode=episode,
            missing=f"back pressure ends in {fmt.shorten(task)}, and not all of its subtasks are known",
            remedy="add the logs of the TaskManagers that are missing",
        )
    found = convict(Case(job, episode, view, end=view.ends[0]))
    return None if found is None else Answer(episode=episode, conviction=found)


def slowed_by(job: JobFacts, first_us: int | None, last_us: int | None) -> Answer | None:
    """A TaskManager that is slow itself, in a job whose checkpoints are slow and complete all the same.

    A subtask that nobody waits for is nobody's trouble, however busy it is: it needs an end of back pressure
    (`hot_spot`). None where nobody is accused with medium confidence at least.

    Args:
        job: the facts.
        first_us, last_us: from when until when checkpoints were slow.
    """
    episode = replace(_whole(job), since_us=first_us if first_us is not None else job.first_us)
    found = convict(Case(job, episode, view_during(job, first_us, last_us)))
    if found is None or found.suspect.kind != "taskmanager" or found.cause is None:
        return None
    answer = Answer(episode=episode, conviction=found)
    return answer if _sure(answer) else None


def _whole(job: JobFacts) -> Episode:
    """The whole time of a job of which no checkpoint fails."""
    return Episode(
        job=job.key, checkpoints=(), recovered=None, warm_up=False, since_us=job.first_us
    )


@once
def names_somebody(job: JobFacts) -> bool:
    """Whether CP201 names a culprit for checkpoints that expired, with the cure for his cause."""
    return any(answer.conviction is not None for answer in answers(job))


@once
def _nameless(job: JobFacts) -> bool:
    """Whether any attempt that was late has no name."""
    return any(late.attempt.task is None for late in job.late)


@once
def _sampled(job: JobFacts) -> bool:
    """Whether any load is a series: one sample of a REST answer is none."""
    return any(row.samples > 1 for row in job.loads)


def _what_would_tell(case: Case) -> tuple[str, str]:
    """Why nobody was named, and the file or setting that would."""
    job = case.job
    readings = [*case.late, *case.reported]
    if readings and all(reading.whole for reading in readings):
        reason = "whole vertices are late and no subtask stands out"
    elif any(reading.laggards for reading in readings) or case.roots:
        reason = "the signals name different subtasks with the same weight"
    else:
        reason = "no input says which subtask held the checkpoints up"
    wanted = []
    if _nameless(job):
        reason = "the attempts that were late have no name in the input"
        wanted.append(
            "the part of the JobManager's log with the deployments, or the TaskManagers' logs"
        )
    if not _sampled(job):
        busy = at_least(job.version, 1, 13)
        wanted.append(
            "TaskManager logs with metric reports (the Slf4jReporter)"
            + ("" if busy is not False else ", which tell buffer usage before 1.13")
        )
    if not case.reported:
        wanted.append(
            "the answers of /jobs/:id/checkpoints/details/:checkpoint/subtasks/:vertex while the "
            "job runs, or its archive"
        )
    if not wanted:
        wanted.append(
            "DEBUG for org.apache.flink.streaming.runtime.tasks and "
            "org.apache.flink.runtime.checkpoint"
        )
    return reason, f"give {' or '.join(wanted)}"
