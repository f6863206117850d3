"""Identifies the part of a large record that a finding is about, so that only this part is quoted."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Focus:
    """The part of a large record that a finding is about.

    Attributes:
        metrics: metric names from `formats/metrics.toml`, each with the judged value (for example a mean) or None.
            The quote shows the first metric that the record contains, with the sample nearest to the judged value.
        task, subtask_index, taskmanager: owner of the metric; None if it has no particular owner.
        thread: name of the thread in a thread dump.
        until_us: end of the judged time range; nothing after it is quoted.
    """

    metrics: tuple[tuple[str, float | None], ...] = ()
    task: str | None = None
    subtask_index: int | None = None
    taskmanager: str | None = None
    until_us: int | None = None
    thread: str | None = None
