"""Finds the culprits of failed checkpoints, with the signals of `flink.suspects`.

A case is a spell of failed checkpoints, or a stage of a spell. Stages are necessary because culprits change, and votes
for two culprits in the same period cancel out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from operator import itemgetter
from typing import Final

from flowdiag.analyses.flink.failures.episodes import Episode, all_spells, incidents
from flowdiag.analyses.flink.job import Attempt, Checkpoint, JobFacts, LateAcknowledgement, Status
from flowdiag.analyses.flink.judging import keeps_coming_back
from flowdiag.analyses.flink.suspects import NamedCulprit, find_culprit, same_culprit
from flowdiag.analyses.flink.suspects.case import Case
from flowdiag.analyses.flink.tasks.pressure import overall_view, unmonitored_origin, view_during
from flowdiag.analyses.model import fmt
from flowdiag.analyses.model.derived import once
from flowdiag.analyses.model.finding import Confidence
from flowdiag.analyses.model.signals import signals_of

MOST_SPELLS: Final = 40
"""Number of spells to judge, counted from the last. Earlier spells do not show the current problem."""
_PIECES: Final = 8  # maximum number of pieces of a spell that are judged separately
_LEAST: Final = 2  # minimum number of expired checkpoints in a piece; one may be an accident
_NOT_ALWAYS: Final = (
    900.0  # ms of busy time per second; a subtask that is always saturated has more
)
_HEARTBEAT_US: Final = 60_000_000  # heartbeat.timeout (50 s) plus the time until it is checked
_FEW: Final = 3  # minimum number of samples; fewer show a moment, not a period


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeCulprit:
    """The culprit of one spell of failed checkpoints.

    If `culprit` is None, the result is inconclusive. `missing` then gives the reason, and `checks` the evidence that
    would help.
    """

    episode: Episode
    culprit: NamedCulprit | None = None
    missing: str | None = None
    checks: tuple[str, ...] = ()


def culprit_of(job: JobFacts, episode: Episode) -> EpisodeCulprit:
    """Return the culprit of one spell of failed checkpoints, according to the signals of that period."""
    view = view_during(job, episode.first_us, episode.last_us)
    case = Case(job, episode, view, during=" while checkpoints failed")
    found = find_culprit(case)
    if found is not None:
        return EpisodeCulprit(episode=episode, culprit=found)
    missing, checks = _missing_input(case)
    return EpisodeCulprit(episode=episode, missing=missing, checks=checks)


@once
def episode_culprits(job: JobFacts) -> tuple[EpisodeCulprit, ...]:
    """Return the culprits of the last `MOST_SPELLS` spells of expired checkpoints, in order.

    If the culprit changes during a spell, each stage of the spell has its own result.
    """
    expired = [episode for episode in all_spells(job) if episode.count(Status.EXPIRED)]
    return tuple(answer for spell in expired[-MOST_SPELLS:] for answer in _stages(job, spell))


def _stages(job: JobFacts, spell: Episode) -> tuple[EpisodeCulprit, ...]:
    """Return one result for a spell, or one per stage if its culprit changes.

    The function judges the spell piece by piece. Consecutive pieces that do not contradict each other form a stage. A
    stage counts if it alone shows a culprit with at least medium confidence.
    """
    whole = culprit_of(job, spell)
    pieces = _pieces(spell)
    if len(pieces) < 2:
        return (whole,)
    partial_culprits = [(piece, culprit_of(job, _part(spell, piece))) for piece in pieces]
    runs = _runs(partial_culprits)
    bounds = [_bound(job, spell, before, after) for before, after in pairwise(runs)]
    found = _cut(job, spell, bounds)
    changes = len(runs) > 1 or any(
        not _are_compatible(one, other) for (_, one), (_, other) in pairwise(partial_culprits)
    )
    if found is None and changes:
        # Pieces may be too short to show a culprit, so try the longer spans before and after one of their bounds.
        cuts = [_cut(job, spell, [first]) for first, _ in pieces[1:]]
        found = max(
            (cut for cut in cuts if cut), key=lambda cut: sum(map(_points, cut)), default=None
        )
    if found is None and _confident_culprit(whole) is None:
        found = _split_by_stage(job, spell, runs)
    return found or (whole,)


def _split_by_stage(
    job: JobFacts, spell: Episode, runs: Sequence[_Run]
) -> tuple[EpisodeCulprit, ...] | None:
    """Return the results for two overlapping stages of a spell.

    The first culprit delays barriers until its queue is empty, and the second one begins before that. The span in
    between implicates both, so no single bound separates them. Each stage gets the part that points to its culprit.
    """
    if len(runs) != 2:
        return None
    before, after = runs
    last = len(spell.checkpoints)
    answer, other = (
        culprit_of(job, _part(spell, (0, before.last[1]))),
        culprit_of(job, _part(spell, (after.first[0], last))),
    )
    end, begin = before.last[1], after.first[0]
    while end < begin and _have_same_culprit(
        more := culprit_of(job, _part(spell, (0, end + 1))), answer
    ):
        answer, end = more, end + 1
    while begin > end and _have_same_culprit(
        more := culprit_of(job, _part(spell, (begin - 1, last))), other
    ):
        other, begin = more, begin - 1
    if (
        not _confident_culprit(answer)
        or not _confident_culprit(other)
        or _are_compatible(answer, other)
    ):
        return None
    return answer, other


def _have_same_culprit(one: EpisodeCulprit, other: EpisodeCulprit) -> bool:
    """Return whether both results have the same culprit."""
    return (
        _confident_culprit(one) is not None
        and _confident_culprit(other) is not None
        and _are_compatible(one, other)
    )


def _cut(job: JobFacts, spell: Episode, bounds: Sequence[int]) -> tuple[EpisodeCulprit, ...] | None:
    """Cut a spell at the bounds and judge each part. Return None unless consecutive parts have different culprits."""
    if not bounds:
        return None
    cuts = pairwise([0, *bounds, len(spell.checkpoints)])
    found = tuple(culprit_of(job, _part(spell, cut)) for cut in cuts)
    if any(_confident_culprit(answer) is None for answer in found):
        return None
    return None if any(_are_compatible(one, other) for one, other in pairwise(found)) else found


Piece = tuple[int, int]


def _pieces(spell: Episode) -> list[Piece]:
    """Divide a spell into index ranges, each with at least `_LEAST` expired checkpoints."""
    expired = [n for n, c in enumerate(spell.checkpoints) if c.status is Status.EXPIRED]
    number = min(_PIECES, len(expired) // _LEAST)
    if number < 2:
        return []
    starts = [expired[place * len(expired) // number] for place in range(1, number)]
    return list(pairwise([0, *starts, len(spell.checkpoints)]))


def _part(spell: Episode, piece: Piece) -> Episode:
    """Cut a part out of a spell. Only the last part includes the recovery."""
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
    """Consecutive pieces of a spell with the same culprit, with the most confident of their results."""

    first: Piece
    last: Piece
    answer: EpisodeCulprit


def _runs(partial_culprits: Sequence[tuple[Piece, EpisodeCulprit]]) -> list[_Run]:
    """Join each piece with the run before it, unless both have known and different culprits."""
    runs: list[_Run] = []
    for piece, answer in partial_culprits:
        if _confident_culprit(answer) is None:
            continue
        if runs and _are_compatible(runs[-1].answer, answer):
            best = max(runs[-1].answer, answer, key=_points)
            runs[-1] = _Run(runs[-1].first, piece, best)
        else:
            runs.append(_Run(piece, piece, answer))
    return runs


def _confident_culprit(answer: EpisodeCulprit) -> NamedCulprit | None:
    """Return the culprit if its confidence is at least medium, otherwise None."""
    found = answer.culprit
    return None if found is None or found.confidence is Confidence.LOW else found


def _points(answer: EpisodeCulprit) -> int:
    return sum(vote.weight for vote in answer.culprit.votes) if answer.culprit else 0


def _are_compatible(one: EpisodeCulprit, other: EpisodeCulprit) -> bool:
    """Return whether two results name the same culprit, or one names the task or TaskManager of the other."""
    mine, theirs = one.culprit, other.culprit
    return mine is None or theirs is None or same_culprit(mine, theirs)


def _bound(job: JobFacts, spell: Episode, before: _Run, after: _Run) -> int:
    """Return the index at which the culprit changes, found by bisecting the checkpoints in between."""
    low, high = before.last[0], after.first[1]
    bound = after.first[0]
    while high - low >= 2 * _LEAST:
        middle = (low + high) // 2
        partial = culprit_of(job, _part(spell, (low, middle)))
        if _confident_culprit(partial) is None:
            break
        if _are_compatible(before.answer, partial):
            low = bound = middle
        elif _are_compatible(after.answer, partial):
            high = bound = middle
        else:
            break
    # Bisection ends near the bound. The single checkpoints around it decide the exact index.
    for step, place, other in ((1, 0, before), (-1, -1, after)):
        nearest = bound + place
        if 0 < nearest < len(spell.checkpoints) - 1:
            alone = culprit_of(job, _part(spell, (nearest, nearest + 1)))
            rest = after if other is before else before
            if (
                alone.culprit
                and _are_compatible(other.answer, alone)
                and not _are_compatible(rest.answer, alone)
            ):
                return bound + step
    return bound


_SOLE: Final = 3  # minimum number of checkpoints; two in a row may be a coincidence
_SOLE_SHARE: Final = 0.5
"""Minimum share of the checkpoints with late messages. In recordings without INFO lines, a subtask with slow
snapshots was the only late subtask in at least four of seven checkpoints. After a decline, all other subtasks are late:
a single subtask was late in only three of 18 checkpoints."""


(LATE_ALONE,) = signals_of("late-alone")


@dataclass(frozen=True, slots=True, kw_only=True)
class LateAlone:
    """A subtask that alone was late for several checkpoints, in a log without their triggers.

    Args:
        attempt: the subtask.
        records: its late messages for these checkpoints.
        among: number of checkpoints with late messages.
    """

    attempt: Attempt
    records: tuple[LateAcknowledgement, ...]
    among: int


def late_alone(job: JobFacts) -> LateAlone | None:
    """Return the subtask that alone was late for most checkpoints, in console output without INFO lines.

    A subtask with a slow snapshot has already forwarded the barrier, so no other subtask is late. Tasks whose names
    show that they are sources are left out, because they alone are late while they wait for the checkpoint lock.
    """
    if any(item.after_trigger_ms is not None for item in job.late):
        return (
            None  # with triggers, the pattern of late subtasks along the job graph is more precise
        )
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
    """Return the name of a subtask for readers, or its attempt ID and location if the name is unknown."""
    if attempt.task is not None:
        return fmt.subtask_of(attempt.task, attempt.subtask_index, attempt.parallelism)
    name = f"attempt {attempt.attempt_id[:8]}"
    if attempt.vertex_id is not None and attempt.subtask_index is not None:
        name = f"subtask {attempt.subtask_index + 1} of vertex {attempt.vertex_id[:8]}"
    if not attempt.taskmanager and not attempt.host:
        return name
    return f"{name} on {fmt.place(attempt.taskmanager, attempt.host)}"


def episode_text(episode: Episode) -> str:
    """Describe an episode by its checkpoints and their times."""
    first, last = episode.checkpoints[0], episode.checkpoints[-1]
    which = f"checkpoint {first.id}" if first is last else f"checkpoints {first.id} to {last.id}"
    if episode.first_us is None or episode.last_us is None:
        return which
    return f"{which}, {fmt.clock(episode.first_us)} to {fmt.clock(episode.last_us)} UTC"


def hot_spot(job: JobFacts) -> EpisodeCulprit | None:
    """Return a saturated subtask that its upstream tasks wait for, in a job whose checkpoints complete.

    Returns: None without back pressure, or if the task where back pressure ends has no problem. If the input does not
    cover all subtasks of that task, the result has no culprit.
    """
    view, episode = overall_view(job), _whole_run_episode(job)
    if not any(root.measured for root in view.ends):
        task = unmonitored_origin(view.loads, view.topology)
        if task is None or view.ends:
            return None
        return EpisodeCulprit(
            episode=episode,
            missing=f"back pressure ends in {fmt.shorten(task)}, and the input does not cover "
            "all of its subtasks",
            checks=("other-taskmanager-logs", "longer-metrics"),
        )
    found = find_culprit(Case(job, episode, view, end=view.ends[0]))
    return None if found is None else EpisodeCulprit(episode=episode, culprit=found)


def slow_taskmanager_during(
    job: JobFacts, first_us: int | None, last_us: int | None
) -> NamedCulprit | None:
    """Return a slow TaskManager in a job whose checkpoints are slow but complete.

    A busy subtask is harmless while no task waits for it, and `hot_spot` covers the origins of back pressure. The
    confidence must be at least medium.

    Args:
        job: the facts.
        first_us, last_us: start and end of the time in which checkpoints were slow.
    """
    episode = replace(
        _whole_run_episode(job), since_us=first_us if first_us is not None else job.first_us
    )
    found = find_culprit(Case(job, episode, view_during(job, first_us, last_us)))
    if found is None or found.suspect.kind != "taskmanager" or found.cause is None:
        return None
    return None if found.confidence is Confidence.LOW else found


def find_awaited_subtask(job: JobFacts, slow: Sequence[Checkpoint]) -> NamedCulprit | None:
    """Return the subtask that slow checkpoints waited for, although they completed.

    The acknowledgements of each checkpoint are judged as if it had expired at half of its duration. One subtask, and
    perhaps all subtasks downstream of it, must have acknowledged much later than the others. The result is None if
    this happened only once, if no input shows the reason, or if the confidence is below medium.
    """
    judged = tuple(
        replace(
            checkpoint,
            status=Status.EXPIRED,
            duration_ms=half_ms,
            ended_us=checkpoint.triggered_us + 1000 * half_ms,
        )
        for checkpoint in slow
        if checkpoint.triggered_us is not None
        and checkpoint.ended_us is not None
        and (half_ms := (checkpoint.ended_us - checkpoint.triggered_us) // 2000) > 0
    )
    if len(judged) < _SOLE:
        return None
    episode = Episode(
        job=job.key,
        checkpoints=judged,
        recovered=None,
        warm_up=False,
        since_us=judged[0].triggered_us,
    )
    view = view_during(job, judged[0].triggered_us, slow[-1].ended_us)
    found = find_culprit(Case(job, episode, view, during=" while checkpoints were slow"))
    if found is None or found.suspect.kind != "subtask" or found.cause is None:
        return None
    shown = any(v.signal == "subtask-acknowledgements" and v.weight > 1 for v in found.votes)
    return found if shown and found.confidence is not Confidence.LOW else None


def _whole_run_episode(job: JobFacts) -> Episode:
    """Build an episode without failed checkpoints that spans the whole job."""
    return Episode(
        job=job.key, checkpoints=(), recovered=None, warm_up=False, since_us=job.first_us
    )


@dataclass(frozen=True, slots=True)
class Delay:
    """The episodes that one culprit delayed for one cause, each with its result."""

    episodes: list[Episode] = field(default_factory=list)
    culprits: list[NamedCulprit] = field(default_factory=list)

    @property
    def best_culprit(self) -> NamedCulprit:
        """The culprit with the highest confidence. On a tie, the longest episode decides."""
        weights = [
            (culprit.confidence.weight, len(episode.checkpoints))
            for culprit, episode in zip(self.culprits, self.episodes, strict=True)
        ]
        return self.culprits[weights.index(max(weights))]


def delays(found: Sequence[EpisodeCulprit]) -> list[Delay]:
    """Group the culprits by suspect and cause, in order."""
    named: dict[object, Delay] = {}
    for answer in found:
        if (culprit := answer.culprit) is not None:
            delay = named.setdefault((culprit.suspect, culprit.cause), Delay())
            delay.episodes.append(answer.episode)
            delay.culprits.append(culprit)
    return list(named.values())


def name_of(found: NamedCulprit) -> str:
    """Return the name of the culprit for readers."""
    subject = found.subject
    if subject.kind == "taskmanager":
        return f"TaskManager {fmt.place(subject.taskmanager, subject.host)}"
    return fmt.subtask_of(subject.task, subject.subtask_index, subject.parallelism)


def successor_of(job: JobFacts, episode: Episode) -> NamedCulprit | None:
    """Return the culprit of the next failed checkpoints, if it differs from this one."""
    return next(
        (after.culprit for one, after in _culprit_changes(job) if one.episode is episode), None
    )


def _culprit_changes(job: JobFacts) -> Iterator[tuple[EpisodeCulprit, EpisodeCulprit]]:
    """Yield consecutive results with different culprits."""
    for one, other in pairwise(episode_culprits(job)):
        if one.culprit and other.culprit and not _are_compatible(one, other):
            yield one, other


def history(job: JobFacts, series: Sequence[Episode]) -> Iterator[str]:
    """Yield sentences on when the culprit delayed checkpoints, and on the culprits before and after it."""
    last = series[-1]
    yield f"It delayed {' and '.join(episode_text(episode) for episode in series[-3:])}."
    if len(series) > 3:
        yield f"Earlier, it delayed checkpoints {fmt.plural(len(series) - 3, 'more time')}."
    for one, after in _culprit_changes(job):
        if after.episode is series[0] and one.culprit is not None:
            yield f"Before it, {name_of(one.culprit)} delayed checkpoints."
            break
    successor = successor_of(job, last)
    if successor is not None:
        yield f"After it, {name_of(successor)} delayed checkpoints."
    elif keeps_coming_back(job, series):
        yield "After each recovery, checkpoints failed again."
    elif last.recovered is not None:
        yield f"The episode is over: checkpoint {last.recovered.id} completed."


def lost_meanwhile(job: JobFacts, series: Sequence[Episode], found: NamedCulprit) -> bool:
    """Return whether another TaskManager was lost soon after each of these checkpoints began.

    A lost TaskManager acknowledges nothing until its heartbeat times out, and tasks that wait for it look late.
    """
    lost = [
        i.time_us
        for i in incidents(job, "taskmanager-lost")
        if i.time_us is not None and i.taskmanager != found.subject.taskmanager
    ]
    begun = [c.triggered_us for e in series for c in e.checkpoints if c.triggered_us is not None]
    return bool(begun) and all(any(0 <= at - us <= _HEARTBEAT_US for at in lost) for us in begun)


def earlier_sibling_text(job: JobFacts, found: NamedCulprit) -> str | None:
    """Return a sentence about a sibling that was just as busy earlier, or None if the culprit was always busy.

    The latest metrics decide who the culprit is. The metrics of the longer window show whether this is recent.
    """
    about = found.subject
    windows = {
        load.subtask_index: load.busy
        for load in job.loads
        if load.task == about.task and load.samples >= _FEW and load.busy is not None
    }
    mine = windows.pop(about.subtask_index, None) if about.subtask_index is not None else None
    if mine is None or mine > _NOT_ALWAYS or not windows:
        return None
    before, busy = max(windows.items(), key=itemgetter(1))
    rest = max((each for index, each in windows.items() if index != before), default=0.0)
    if busy < mine / 2 or busy < 2 * rest:
        return None
    name = fmt.subtask_of(about.task, before, about.parallelism)
    return (
        "It became the busiest subtask only recently. Over all samples, it was busy "
        f"{fmt.percent(mine / 1000)} of the time, {name} {fmt.percent(busy / 1000)}, and the "
        f"others at most {fmt.percent(rest / 1000)}."
    )


@once
def names_culprit(job: JobFacts) -> bool:
    """Return whether CP201 names the culprit of expired checkpoints and offers remedies for its cause."""
    return any(answer.culprit is not None for answer in episode_culprits(job))


@once
def _gaps_in_input(job: JobFacts) -> tuple[bool, bool]:
    """Return whether a late attempt has no name, and whether all loads are single samples from REST."""
    nameless = any(late.attempt.task is None for late in job.late)
    return nameless, not any(row.samples > 1 for row in job.loads)


def _missing_input(case: Case) -> tuple[str, tuple[str, ...]]:
    """Return why no culprit can be named, and the evidence that would show it."""
    nameless, unsampled = _gaps_in_input(case.job)
    readings = [*case.late, *case.reported]
    if readings and all(reading.whole for reading in readings):
        reason = "whole vertices are late, and no subtask stands out"
    elif any(reading.laggards for reading in readings) or case.roots:
        reason = "signals of equal weight name different subtasks"
    else:
        reason = "no input shows which subtask delayed the checkpoints"
    checks = []
    if nameless:
        reason = "the input does not name the late attempts"
        checks.append("deployments")
    if not case.reported:
        checks.append("checkpoint-subtasks")
    if unsampled:
        checks.append("task-metrics")
    return reason, tuple(checks or ["thread-dump"])
