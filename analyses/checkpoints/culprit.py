"""Who makes the checkpoints fail: the cases of a job, for the one engine of `flink.suspects`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from flowdiag.analyses import say
from flowdiag.analyses.derived import once
from flowdiag.analyses.flink.episodes import Episode, all_spells
from flowdiag.analyses.flink.job import (
    JobFacts,
    Status,
)
from flowdiag.analyses.flink.options import at_least
from flowdiag.analyses.flink.pressure import overall, unseen_end
from flowdiag.analyses.flink.suspects import Conviction, convict
from flowdiag.analyses.flink.suspects.case import Case


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
    """Who held up one spell of failed checkpoints."""
    case = Case(job, episode, overall(job))
    found = convict(case)
    if found is not None:
        return Answer(episode=episode, conviction=found)
    missing, remedy = _what_would_tell(case)
    return Answer(episode=episode, missing=missing, remedy=remedy)


def answer_of(job: JobFacts, number: int) -> Answer:
    """Who held up one of `all_spells(job)`; it is looked at once, whoever asks."""
    known = _answers(job)
    if number not in known:
        known[number] = held_up(job, all_spells(job)[number])
    return known[number]


@once
def _answers(job: JobFacts) -> dict[int, Answer]:
    return {}


def hot_spot(job: JobFacts) -> Answer | None:
    """A saturated subtask whose upstream waits, in a job whose checkpoints complete all the same.

    Returns:
        None when there is no back pressure, or where it ends is nothing to worry about; without a
        conviction when it ends where the input does not look.
    """
    view = overall(job)
    episode = Episode(
        job=job.key, checkpoints=(), recovered=None, warm_up=False, since_us=job.first_us
    )
    if not any(root.measured for root in view.ends):
        task = unseen_end(view.loads, view.topology)
        if task is None or view.ends:
            return None
        return Answer(
            episode=episode,
            missing=f"back pressure ends in {say.shorten(task)}, and not all of its subtasks are known",
            remedy="add the logs of the TaskManagers that are missing",
        )
    found = convict(Case(job, episode, view, end=view.ends[0]))
    return None if found is None else Answer(episode=episode, conviction=found)


_LOOKED_AT: Final = 40  # spells: CP201 looks at as many


@once
def names_somebody(job: JobFacts) -> bool:
    """Whether CP201 names a culprit for checkpoints that expired, with the cure for his cause."""
    sick = [n for n, e in enumerate(all_spells(job)) if e.count(Status.EXPIRED)]
    return any(answer_of(job, number).conviction is not None for number in sick[-_LOOKED_AT:])


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
    return reason, " or ".join(wanted)
