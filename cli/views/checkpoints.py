"""The view of `flowdiag checkpoints`: how the checkpoints of a job ended, when, and on which TaskManagers they were late."""

from __future__ import annotations

from operator import itemgetter
from typing import Final

from rich.console import Group, RenderableType
from rich.text import Text

from flowdiag.analyses.contract.redact import printable
from flowdiag.analyses.contract.report import CheckpointJob, Report, TaskManager
from flowdiag.analyses.model import fmt
from flowdiag.cli.text import words
from flowdiag.cli.text.grid import (
    Column,
    Indented,
    Listing,
    and_more,
    heading,
    line,
    verdict_heading,
)
from flowdiag.cli.text.page import PROSE, Page
from flowdiag.cli.text.timeline import GLYPHS, Timeline, bucket_note, legend_word, timeline
from flowdiag.cli.views.overview import JobSummary, split_by_severity

TASKMANAGER_COLUMNS: Final = (
    Column("TaskManager", lambda row: fmt.place(row.taskmanager, row.host), "wrap"),
    Column("subtasks", lambda row: str(row.subtasks)),
    Column("late", lambda row: str(row.late)),
    Column("expected", lambda row: None if row.expected is None else f"{row.expected:.1f}"),
    Column("ratio", lambda row: None if row.ratio is None else words.quantity(row.ratio, "ratio")),
    Column("by chance", lambda row: None if row.p_value is None else fmt.share(row.p_value)),
)
LATE_TITLE: Final = "Late subtasks by TaskManager"
# By `Page.terse`: rows of TaskManagers, and of the timeline.
_TASKMANAGERS: Final = (12, 8, 5, 3, 0)
_ROWS: Final = (6, 4, 3, 2, 1)
_CELL: Final = {
    "completed": "green",
    "savepoint": "bold green",
    "expired": "bold red",
    "failed": "bold red",
    "declined": "bold yellow",
    "in_flight": "cyan",
}


def blocks(report: Report, page: Page, clock: words.Clock) -> list[RenderableType]:
    """Return a block for each job, or an overview with the worst jobs."""
    overview, shown = split_by_severity("Jobs", report.data.jobs or (), job_summary, page)
    return overview + [_job(job, page, clock) for job in shown]


def job_summary(job: CheckpointJob) -> JobSummary:
    done, total = job.counts.get("completed", 0), job.total.checkpoints
    facts = f"{fmt.thousands(done)} of {fmt.plural(total, 'checkpoint')} completed"
    facts = facts if total else "no checkpoints in the input"
    return JobSummary(job.name or job.job_id, job.verdict, job.cause, facts)


def late_taskmanagers(job: CheckpointJob) -> list[TaskManager]:
    return [row for row in job.taskmanagers if row.late]


def _job(job: CheckpointJob, page: Page, clock: words.Clock) -> RenderableType:
    title = verdict_heading("Job", printable(words.job_title(job)), job.verdict)
    shown: list[RenderableType] = [
        title,
        Indented(heading("Checkpoints", words.checkpoint_counts(job))),
    ]
    if job.checkpoints:
        picture = timeline(
            job.checkpoints, clock, min(page.width, PROSE) - 4, rows=_ROWS[page.terse]
        )
        shown.append(Indented(_timeline(picture, page, job)))
    if job.taskmanagers and (
        page.verbose or (late_taskmanagers(job) and _TASKMANAGERS[page.terse])
    ):
        shown += [Text(), Indented(_taskmanagers(job, page))]
    return Group(*shown)


def _timeline(picture: Timeline, page: Page, job: CheckpointJob) -> RenderableType:
    glyph = 0 if page.unicode else 1
    rows = []
    for row in picture.rows:
        cells = Text()
        for cell in row.cells:
            cells.append(GLYPHS[cell.kind][glyph], _CELL.get(cell.kind, "dim"))
        rows.append((line(row.label, "dim"), cells))
        bars = picture.bars(row, unicode=page.unicode)
        if bars.strip():
            rows.append((Text(), Text(bars, "dim")))
    columns = (Column("", itemgetter(0), "left"), Column("", itemgetter(1), "left"))
    legend = Text()
    for kind in picture.kinds():
        legend.append(GLYPHS[kind][glyph], _CELL.get(kind, "dim"))
        legend.append(f" {legend_word(kind)}   ", "dim")
    for note in (bucket_note(picture.per_cell), picture.scale()):
        legend.append(f"{note}   " if note else "", "dim")
    if job.truncated:
        legend.append("lists are limited by --max-rows", "yellow")
    return Group(Listing(rows, *columns, heads=None), legend)


def _taskmanagers(job: CheckpointJob, page: Page) -> RenderableType:
    rows = job.taskmanagers if page.verbose else job.taskmanagers[: _TASKMANAGERS[page.terse]]
    table = Listing(
        rows,
        *TASKMANAGER_COLUMNS,
        # Twice the expected number stands out, even where p is large on a small cluster.
        style=lambda row: "bold yellow" if row.late and (row.ratio or 0) >= 2 else "",
    )
    note = (
        "late: subtasks that acknowledged an expired checkpoint; expected: the number that "
        "their placement predicts"
    )
    if any(row.p_value is not None for row in rows):
        note += "; by chance: probability of this many late by chance"
    return Group(table, *and_more(len(job.taskmanagers) - len(rows)), line(note, "dim"))
