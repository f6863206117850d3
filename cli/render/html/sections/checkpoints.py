"""The section about checkpoints: their course over time, and the TaskManagers with late subtasks."""

from __future__ import annotations

from flowdiag.analyses.contract.report import CheckpointEpisode, CheckpointJob
from flowdiag.analyses.model import fmt
from flowdiag.cli.render.html.charts import checkpoints, heat
from flowdiag.cli.render.html.context import Context, Part, Section, figures, split_by_severity
from flowdiag.cli.render.html.figures import table
from flowdiag.cli.text import words
from flowdiag.cli.views.checkpoints import (
    LATE_TITLE,
    TASKMANAGER_COLUMNS,
    job_summary,
    late_taskmanagers,
)

_EPISODES = 8
_TASKMANAGERS = 12


def section(context: Context) -> Section | None:
    """Return the jobs, or None for a report without checkpoints."""
    jobs = context.report.data.jobs or []
    if not jobs:
        return None
    overview, shown = split_by_severity(jobs, job_summary, context.page)
    return Section(
        title="Checkpoints",
        count=fmt.plural(len(jobs), "job"),
        shown={"overview": overview, "parts": [_part(job, context) for job in shown]},
    )


def _part(job: CheckpointJob, context: Context) -> Part:
    vertices = [v for v in context.report.data.vertices or () if v.job_id == job.job_id]
    episodes = [_episode(episode, context) for episode in job.episodes[:_EPISODES]]
    hidden = len(job.episodes) - len(episodes)
    late = table(TASKMANAGER_COLUMNS, late_taskmanagers(job), _TASKMANAGERS)
    return Part(
        title=words.job_title(job),
        verdict=job.verdict,
        lines=[
            f"Checkpoints {words.checkpoint_counts(job)}",
            *episodes,
            *([f"and {fmt.plural(hidden, 'episode')} more"] if hidden else []),
        ],
        figures=figures(
            checkpoints.checkpoints(job, context.clock, context.renderer),
            heat.late(job, vertices, context.renderer),
        ),
        tables=[(LATE_TITLE, late)] if late.rows else [],
    )


def _episode(episode: CheckpointEpisode, context: Context) -> str:
    first, last = episode.first_checkpoint, episode.last_checkpoint
    which = f"checkpoint {first}" if first == last else f"checkpoints {first} to {last}"
    begin = context.clock.show(episode.first_seen, date=False)
    end = context.clock.show(episode.last_seen, date=False)
    if episode.subject is None:
        culprit = episode.reason or "no culprit found"
    else:
        culprit = f"delayed by {words.subject_name(episode.subject, most=120)}"
        if episode.cause:
            culprit += f" ({episode.cause}, {episode.confidence} confidence)"
    return f"{begin} to {end}: {episode.expired} of {which} expired, {episode.state}; {culprit}"
