"""The checkpoints of each job: over time, and who was late."""

from __future__ import annotations

from flowdiag.analyses.model import fmt
from flowdiag.analyses.report.wire import CheckpointEpisode, CheckpointJob
from flowdiag.cli.render.html.charts import checkpoints, heat
from flowdiag.cli.render.html.context import Context, Part, Section, figures, split_by_severity
from flowdiag.cli.render.html.figures import Table, table
from flowdiag.cli.text import words
from flowdiag.cli.views.checkpoints import job_summary

_EPISODES = 8
_MACHINES = 12


def section(context: Context) -> Section | None:
    """The jobs; None where checkpoints were not asked for."""
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
    episodes = [_episode(one, context) for one in job.episodes[:_EPISODES]]
    hidden = len(job.episodes) - len(episodes)
    late = _late(job)
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
        tables=[("Late subtasks by TaskManager", late)] if late else [],
    )


def _episode(one: CheckpointEpisode, context: Context) -> str:
    first, last = one.first_checkpoint, one.last_checkpoint
    which = f"checkpoint {first}" if first == last else f"checkpoints {first} to {last}"
    begin = context.clock.show(one.first_seen, date=False)
    end = context.clock.show(one.last_seen, date=False)
    if one.subject is None:
        who = one.reason or "nobody could be named"
    else:
        who = f"held up by {words.subject_name(one.subject, most=120)}"
        who += f" ({one.cause}, {one.confidence} confidence)" if one.cause else ""
    return f"{begin} to {end}: {one.expired} of {which} expired, {one.state}; {who}"


def _late(job: CheckpointJob) -> Table | None:
    rows = [row for row in job.taskmanagers if row.late]
    if not rows:
        return None
    return table(
        ("TaskManager", ">subtasks", ">late", ">expected", ">ratio", ">by chance"),
        (
            (
                fmt.place(row.taskmanager, row.host),
                str(row.subtasks),
                str(row.late),
                "-" if row.expected is None else f"{row.expected:.1f}",
                "-" if row.ratio is None else words.quantity(row.ratio, "ratio"),
                "-" if row.p_value is None else fmt.share(row.p_value),
            )
            for row in rows
        ),
        _MACHINES,
    )
