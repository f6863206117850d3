"""Locates the first failure of a restart loop."""

from __future__ import annotations

from flowdiag.analyses.startup import helpers as h


def first_failure_place(job: h.JobStarts, root: h.Incident) -> tuple[h.Subject, str]:
    """Return where the first failure happened, as a subject and as text."""
    kind, where = "job", "the job"
    if root.taskmanager or root.host:
        kind, where = "taskmanager", h.fmt.place(root.taskmanager, root.host)
    if root.subtask_index is not None:
        kind = "subtask"
    if root.task:
        where = h.fmt.subtask_of(root.task, root.subtask_index, root.parallelism)
    subject = h.job_subject(
        job,
        kind,
        task=root.task,
        subtask_index=root.subtask_index,
        parallelism=root.parallelism,
        taskmanager=root.taskmanager,
        host=root.host,
    )
    return subject, where
