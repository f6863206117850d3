"""Converts the facts of `flowdiag checkpoints` to `data.jobs` in the report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from flowdiag.analyses.checkpoints.culprit import EpisodeCulprit, episode_culprits
from flowdiag.analyses.contract import report as wire
from flowdiag.analyses.contract.redact import clean
from flowdiag.analyses.flink import job as x
from flowdiag.analyses.flink.tasks.placement import Share, shares
from flowdiag.analyses.model.finding import RuleOutcome, Verdict
from flowdiag.analyses.model.keys import JobKey
from flowdiag.analyses.report.verdicts import Judgement, judge_each
from flowdiag.analyses.selection.options import MAX_ROWS

if TYPE_CHECKING:
    from flowdiag.analyses.model.columns import Row as TableRow
    from flowdiag.analyses.model.columns import Rows

Row = TypeVar("Row")

FEW_JOBS: Final = 10
"""Maximum number of jobs for which each job has lists of up to `max_rows` rows. More jobs share half of that number,
so
that the report of a session cluster with 500 jobs is smaller than 5 MB."""


def checkpoint_data(
    facts: x.ClusterFacts,
    outcomes: Sequence[RuleOutcome],
    *,
    max_rows: int = MAX_ROWS,
    excerpts: bool = True,
) -> list[wire.CheckpointJob]:
    """Return the tables of every job, each job with its own verdict.

    Args:
        facts: the facts of the topic.
        outcomes: the outcomes of its rules.
        max_rows: maximum length of a list, or of all lists together if there are many jobs.
        excerpts: whether to include reasons, which are log text.
    """
    judgements = judge_each(outcomes, (job.key for job in facts.jobs))
    if len(facts.jobs) > FEW_JOBS:
        max_rows = max(1, max_rows // (2 * len(facts.jobs)))
    return [
        _job(job, judgements[job.key], max_rows, excerpts)
        for job in sorted(facts.jobs, key=_by_key)
    ]


def _by_key(job: x.JobFacts) -> JobKey:
    return job.key


def _job(
    job: x.JobFacts, judgement: Judgement, max_rows: int, excerpts: bool
) -> wire.CheckpointJob:
    seen = job.checkpoints or job.late or job.declines
    if judgement.verdict is Verdict.HEALTHY and not seen:  # the job is not provably healthy either
        judgement = replace(judgement, verdict=Verdict.INCONCLUSIVE)
    taskmanagers = [_share(share) for share in shares(job)]
    checkpoints = _keep(job.checkpoints, max_rows, lambda item: item.status.unsuccessful)
    late = _keep(job.late, max_rows, lambda item: item.expired)
    declines = _keep(job.declines, max_rows, lambda _: True)
    total = wire.Totals(
        checkpoints=len(job.checkpoints),
        late_acknowledgements=len(job.late),
        declines=len(job.declines),
        taskmanagers=len(taskmanagers),
    )
    return wire.CheckpointJob(
        cluster=job.key.cluster,
        job_id=job.key.job_id,
        name=job.name,
        flink_version=job.version,
        verdict=judgement.verdict,
        cause=judgement.cause,
        culprits=list(judgement.culprits),
        runs=job.runs,
        counts=dict(sorted(Counter(str(item.status) for item in job.checkpoints).items())),
        episodes=[_episode(answer) for answer in episode_culprits(job)[-max_rows:]],
        checkpoints=[_checkpoint(item, excerpts) for item in checkpoints],
        late_acknowledgements=[_late_acknowledgement(item) for item in late],
        declines=[_decline(item, excerpts) for item in declines],
        taskmanagers=taskmanagers[:max_rows],
        total=total,
        truncated=max(msgspec.structs.astuple(total)) > max_rows,
    )


def _share(share: Share) -> wire.TaskManager:
    return wire.TaskManager(
        taskmanager=share.taskmanager,
        host=share.host,
        subtasks=share.subtasks,
        late=share.late,
        expected=share.expected,
        ratio=share.ratio,
        p_value=share.p_value,
    )


def _episode(answer: EpisodeCulprit) -> wire.CheckpointEpisode:
    episode, found = answer.episode, answer.culprit
    first, last = episode.checkpoints[0], episode.checkpoints[-1]
    return wire.CheckpointEpisode(
        run=first.run,
        first_checkpoint=first.id,
        last_checkpoint=last.id,
        expired=episode.count(x.Status.EXPIRED),
        state=episode.state,
        first_seen=wire.iso(episode.first_us),
        last_seen=wire.iso(episode.last_us),
        subject=found.subject if found is not None else None,
        cause=found.cause if found is not None else None,
        confidence=found.confidence if found is not None else None,
        reason=clean(answer.missing) if answer.missing else None,
    )


def _keep(rows: Sequence[Row], limit: int, sick: Callable[[Row], bool]) -> list[Row]:
    """Return at most `limit` rows in their order. Unhealthy rows take precedence."""
    if len(rows) <= limit:
        return list(rows)
    places = sorted(range(len(rows)), key=lambda i: (not sick(rows[i]), i))[:limit]
    return [rows[i] for i in sorted(places)]


# Many checkpoints have the same few reasons.
_words = lru_cache(maxsize=256)(clean)


def _checkpoint(item: x.Checkpoint, excerpts: bool) -> wire.Checkpoint:
    return wire.Checkpoint(
        run=item.run,
        id=item.id,
        status=item.status,
        type=item.type,
        triggered_at=wire.iso(item.triggered_us),
        ended_at=wire.iso(item.ended_us),
        duration_ms=item.duration_ms,
        bytes=item.bytes,
        reason=_words(item.reason) if item.reason and excerpts else None,
    )


def _late_acknowledgement(item: x.LateAcknowledgement) -> wire.LateAcknowledgement:
    return wire.LateAcknowledgement(
        run=item.run,
        checkpoint=item.checkpoint,
        attempt_id=item.attempt.attempt_id,
        task=item.attempt.task,
        subtask=item.attempt.subtask,
        subtask_index=item.attempt.subtask_index,
        attempt=item.attempt.attempt,
        taskmanager=item.attempt.taskmanager,
        host=item.attempt.host,
        received_at=wire.iso(item.received_us),
        after_trigger_ms=item.after_trigger_ms,
        after_expiry_ms=item.after_expiry_ms,
        unmatched=not item.expired,
    )


def _decline(item: x.Decline, excerpts: bool) -> wire.Decline:
    return wire.Decline(
        run=item.run,
        checkpoint=item.checkpoint,
        attempt_id=item.attempt.attempt_id,
        task=item.attempt.task,
        subtask_index=item.attempt.subtask_index,
        taskmanager=item.attempt.taskmanager,
        host=item.attempt.host,
        reason=_words(item.reason) if item.reason and excerpts else None,
    )


# -- complete tables -----------------------------------------------------------------------------------


def checkpoint_tables(facts: x.ClusterFacts, *, excerpts: bool) -> Rows:
    """Return the complete lists as rows of `report.tables`, generated lazily.

    Args:
        facts: the facts of the topic.
        excerpts: whether to include reasons, which are log text.
    """

    def each(lists: Callable[[x.JobFacts], Iterable[msgspec.Struct]]) -> Iterator[TableRow]:
        for job in sorted(facts.jobs, key=_by_key):
            keys = {"cluster": job.key.cluster, "job_id": job.key.job_id, "job_name": job.name}
            for row in lists(job):
                yield msgspec.structs.asdict(row) | keys

    yield "checkpoints", each(lambda job: (_checkpoint(c, excerpts) for c in job.checkpoints))
    yield "late_acknowledgements", each(lambda job: map(_late_acknowledgement, job.late))
    yield "declines", each(lambda job: (_decline(d, excerpts) for d in job.declines))
    yield "late_taskmanagers", each(lambda job: map(_share, shares(job)))
    episodes = each(lambda job: map(_episode, episode_culprits(job)))
    yield "checkpoint_episodes", (_with_subject(row) for row in episodes)


def _with_subject(row: TableRow) -> TableRow:
    subject: wire.Subject | None = row["subject"]
    if subject is None:
        return {**row, "subject": None}
    named = {
        name: getattr(subject, name) for name in ("task", "subtask_index", "taskmanager", "host")
    }
    return {**row, **named, "subject": subject.kind}
