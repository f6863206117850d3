"""Groups unsuccessful checkpoints into episodes, without harmless failures.

A checkpoint may fail because the job is canceled, suspended, rescaled or already finished. These failures
do not affect the job's health. Flink prints for them, among others, "Checkpoint Coordinator is suspending.",
"CheckpointCoordinator shutdown." and "Checkpoint has been subsumed." All others are grouped into episodes. An episode lasts until a checkpoint completes.
"""

from __future__ import annotations

from bisect import bisect, bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from operator import attrgetter
from typing import Final

from flowdiag.analyses.flink.job import BREAKS, Checkpoint, Incident, JobFacts, Status
from flowdiag.analyses.model.derived import once
from flowdiag.analyses.model.finding import State
from flowdiag.analyses.model.keys import JobKey
from flowdiag.parsers.flink.failures import is_consequence, reason_kind


def reason_word(checkpoint: Checkpoint) -> str | None:
    """Return why a checkpoint did not complete, as a kind of `parsers.failures.reason_kind`."""
    if checkpoint.reason_kind not in (None, "declined"):
        return checkpoint.reason_kind
    word = reason_kind(checkpoint.reason) if checkpoint.reason else None
    if word is None and checkpoint.status is Status.EXPIRED:
        return "expired"
    return word or checkpoint.reason_kind


def counts_as_failed(checkpoint: Checkpoint, job: JobFacts) -> bool:
    """Return whether a checkpoint failed for a reason that needs attention.

    Consequences of a cancellation, a failed task, a finished source or an intended limit do not count.
    "The job has failed." is a consequence only if the input shows a failure, because 1.9 prints it for every
    decline with its own cause.
    """
    if checkpoint.status is Status.EXPIRED:
        return True
    if not checkpoint.status.unsuccessful:
        return False
    if reason_word(checkpoint) == "task_failure" and not _was_disturbed(checkpoint, job):
        return True
    return not is_blameless(checkpoint.reason, checkpoint)


_DISTURBANCES: Final = BREAKS | {"task-failure", "taskmanager-lost"}
_NEAR_US: Final = 10_000_000  # a failure fails pending checkpoints at once, but clocks may differ


def _was_disturbed(checkpoint: Checkpoint, job: JobFacts) -> bool:
    """Return whether the job failed, restarted or ended while a checkpoint was in progress."""
    low = (checkpoint.triggered_us or checkpoint.ended_us or 0) - _NEAR_US
    high = (checkpoint.ended_us or checkpoint.triggered_us or 0) + _NEAR_US
    moments, undated = _disturbances(job)
    return undated or bisect_left(moments, low) < bisect(moments, high)


@once
def _disturbances(job: JobFacts) -> tuple[list[int], bool]:
    """Return the times of failures, restarts and ends, and whether some of these have no time."""
    times = [i.time_us for i in job.incidents if i.kind in _DISTURBANCES]
    return sorted(time for time in times if time is not None), None in times


def is_blameless(reason: str | None, checkpoint: Checkpoint | None = None) -> bool:
    """Return whether a reason only reflects an event that other rules report."""
    if checkpoint is not None and reason_word(checkpoint) in _CONSEQUENCES:
        return True
    return bool(reason) and is_consequence(reason or "")


# Reasons that follow from other events (parsers/formats/flink-failures.toml).
_CONSEQUENCES: Final = frozenset(
    {
        "suspended",
        "shutdown",
        "subsumed",
        "superseded",
        "cancelled",
        "finished",
        "not_running",
        "postponed",
        "task_failure",
    }
)


def in_order(checkpoints: Iterable[Checkpoint]) -> list[Checkpoint]:
    """Sort checkpoints by trigger. IDs increase within a run."""
    return sorted(checkpoints, key=attrgetter("run", "id"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Episode:
    """A series of unsuccessful checkpoints of one job, between two completed checkpoints.

    `warm_up` is true if no checkpoint completed since the job started, was restored or was rescaled, because
    catching up takes longer than usual. `since_us` is that start or the last completion.
    """

    job: JobKey
    checkpoints: tuple[Checkpoint, ...]
    recovered: Checkpoint | None
    warm_up: bool
    since_us: int | None
    ended_well: bool = False  # the job finished or stopped afterwards, as intended
    handed_on: bool = False  # checkpoints kept failing because of another culprit

    @property
    def state(self) -> State:
        """Ongoing if no checkpoint completed afterwards, unless another culprit took over."""
        over = self.recovered or self.ended_well or self.handed_on
        return State.RECOVERED if over else State.ONGOING

    @property
    def first_us(self) -> int | None:
        """The time when the first checkpoint was triggered or, if the trigger is missing, ended."""
        if not self.checkpoints:
            return self.since_us
        first = self.checkpoints[0]
        return first.triggered_us if first.triggered_us is not None else first.ended_us

    @property
    def last_us(self) -> int | None:
        """The time when the last checkpoint ended."""
        if not self.checkpoints:
            return None
        last = self.checkpoints[-1]
        return last.ended_us if last.ended_us is not None else last.triggered_us

    @property
    def ids(self) -> frozenset[tuple[int, int]]:
        """The unsuccessful checkpoints as (run, checkpoint ID)."""
        return frozenset((checkpoint.run, checkpoint.id) for checkpoint in self.checkpoints)

    def count(self, *statuses: Status) -> int:
        """Return the number of checkpoints with these outcomes."""
        return sum(checkpoint.status in statuses for checkpoint in self.checkpoints)


_BEGINNINGS: Final = frozenset(
    {
        "submitted",
        "started",
        "restored",
        "rescaled",
        "restart",
        "job-restarting",
        "job-running",
        "leadership",
    }
)


@once
def beginnings(job: JobFacts) -> tuple[int, ...]:
    """Return the times at which the job started or restarted, in order, in microseconds."""
    found = {
        incident.time_us
        for incident in job.incidents
        if incident.kind in _BEGINNINGS and incident.time_us is not None
    }
    return tuple(sorted(found))


@once
def finished_us(job: JobFacts) -> int | None:
    """Return when the job finished or was stopped with a savepoint. Cancellations do not count."""
    times = [
        incident.time_us
        for incident in job.incidents
        if incident.kind == "finished"
        and incident.time_us is not None
        and incident.text.get("to_state", "FINISHED").upper() == "FINISHED"
    ]
    return max(times, default=None)


@once
def episodes(job: JobFacts) -> tuple[Episode, ...]:
    """Group the unsuccessful checkpoints of a job into episodes, in order."""
    return tuple(_episodes(job))


def _episodes(job: JobFacts) -> Iterator[Episode]:
    starts = beginnings(job)
    ended_well = finished_us(job) is not None
    series: list[Checkpoint] = []
    completed: Checkpoint | None = None
    last_completed: Checkpoint | None = None
    for checkpoint in in_order(job.checkpoints):
        if counts_as_failed(checkpoint, job):
            if not series:
                last_completed = completed
            series.append(checkpoint)
        elif checkpoint.status is Status.COMPLETED:
            if series:
                yield _episode(job, series, last_completed, checkpoint, starts, False)
                series = []
            completed = checkpoint
    if series:
        yield _episode(job, series, last_completed, None, starts, ended_well)


def _episode(
    job: JobFacts,
    series: Sequence[Checkpoint],
    before: Checkpoint | None,
    after: Checkpoint | None,
    starts: Sequence[int],
    ended_well: bool,
) -> Episode:
    first = series[0].triggered_us
    if first is None:
        first = series[0].ended_us
    begun = None
    if first is not None:
        number = bisect(starts, first)
        begun = starts[number - 1] if number else None
    since = before.ended_us if before is not None else None
    fresh = begun is not None and (since is None or begun >= since)
    if before is None and not fresh:
        # IDs start at 1: an input with the first ones includes the start of the job.
        fresh = series[0].id == 1
    return Episode(
        job=job.key,
        checkpoints=tuple(series),
        recovered=after,
        warm_up=fresh,
        since_us=begun if fresh else since,
        ended_well=ended_well,
    )


# A job that fails, completes one or two checkpoints and fails again has a single fault.
BRIDGE: Final = 3


def spells(series: Sequence[Episode], job: JobFacts) -> list[Episode]:
    """Join episodes that have at most `BRIDGE` completed checkpoints in between.

    The search for a culprit covers a whole spell, because a series of checkpoints shows more than a single one.
    """
    completed = [(c.run, c.id) for c in in_order(job.checkpoints) if c.status is Status.COMPLETED]
    joined: list[list[Episode]] = []
    for episode in series:
        if joined and episode.checkpoints[0].run == joined[-1][-1].checkpoints[-1].run:
            last, first = joined[-1][-1].checkpoints[-1], episode.checkpoints[0]
            between = bisect(completed, (first.run, first.id)) - bisect(
                completed, (last.run, last.id)
            )
            if between <= BRIDGE:
                joined[-1].append(episode)
                continue
        joined.append([episode])
    return [_spell(members) for members in joined]


def _spell(members: Sequence[Episode]) -> Episode:
    if len(members) == 1:
        return members[0]
    return replace(
        members[0],
        checkpoints=tuple(c for episode in members for c in episode.checkpoints),
        recovered=members[-1].recovered,
        warm_up=all(episode.warm_up for episode in members),
        ended_well=members[-1].ended_well,
    )


@once
def all_spells(job: JobFacts) -> tuple[Episode, ...]:
    return tuple(spells(episodes(job), job))


@once
def concluded(job: JobFacts) -> tuple[Checkpoint, ...]:
    """Return the completed and failed checkpoints, including savepoints. Shares refer to them."""
    return tuple(
        checkpoint
        for checkpoint in in_order(job.checkpoints)
        if checkpoint.status is Status.COMPLETED or counts_as_failed(checkpoint, job)
    )


def share_of(part: int, job: JobFacts) -> float:
    """Return this many checkpoints as a share (0 to 1) of the job's concluded checkpoints."""
    return part / max(1, len(concluded(job)))


def incidents(job: JobFacts, *kinds: str) -> list[Incident]:
    """Return the incidents of the given kinds, in time order."""
    if len(kinds) == 1:
        return list(_by_kind(job).get(kinds[0], ()))
    return [incident for incident in job.incidents if incident.kind in kinds]


@once
def _by_kind(job: JobFacts) -> Mapping[str, Sequence[Incident]]:
    found: defaultdict[str, list[Incident]] = defaultdict(list)
    for incident in job.incidents:
        found[incident.kind].append(incident)
    return dict(found)


def steady_checkpoints(job: JobFacts, warm_up: int) -> list[list[Checkpoint]]:
    """Return the completed checkpoints during normal operation, as one list per stretch between starts.

    Savepoints are left out because users request them and they are always full. The first `warm_up`
    completed checkpoints after each start, restore or rescale are left out as well, if the input contains them
    (REST keeps only the last ten). Each start begins a new stretch, because version, parallelism or
    state backend may have changed.
    """
    found = []
    for stretch in _stretches(job):
        warming = max(0, warm_up - _missing_at_start(stretch))
        steady = [c for c in stretch.checkpoints[warming:] if not c.is_savepoint]
        if steady:
            found.append(steady)
    return found


@dataclass(frozen=True, slots=True)
class _Stretch:
    """The completed checkpoints between two starts.

    Args:
        begun_us: the time of the first start, if known.
        before: the last ID before these checkpoints, or 0 if there is none.
    """

    begun_us: int | None
    before: int
    checkpoints: list[Checkpoint]


def _missing_at_start(stretch: _Stretch) -> int:
    """Return how many checkpoints are missing between the start of a stretch and its first known checkpoint.

    The result is the lower of two estimates: the gap in the IDs and, if the start is known, the number of intervals
    since the start. IDs alone mislead after a restore from an unknown checkpoint, because the numbering continues.
    Time alone misleads while a large state is restored.
    """
    first = stretch.checkpoints[0]
    missing = first.id - 1 - stretch.before
    if stretch.begun_us is None or first.triggered_us is None:
        return missing
    times = sorted(c.triggered_us for c in stretch.checkpoints if c.triggered_us is not None)
    apart = sorted(later - earlier for earlier, later in pairwise(times))
    if not missing or not apart:
        return 0
    return min(missing, (first.triggered_us - stretch.begun_us) // max(1, apart[len(apart) // 2]))


@once
def _stretches(job: JobFacts) -> tuple[_Stretch, ...]:
    """Group the completed checkpoints by run and start."""
    starts = beginnings(job)
    stretches: dict[tuple[int, int], _Stretch] = {}
    run, before = None, 0
    for checkpoint in in_order(job.checkpoints):
        before = before if checkpoint.run == run else 0
        if checkpoint.status is Status.COMPLETED:
            begun = 0
            if checkpoint.triggered_us is not None:
                begun = bisect(starts, checkpoint.triggered_us)
            stretch = stretches.setdefault(
                (checkpoint.run, begun), _Stretch(starts[begun - 1] if begun else None, before, [])
            )
            stretch.checkpoints.append(checkpoint)
        run, before = checkpoint.run, checkpoint.id
    return tuple(stretches.values())
