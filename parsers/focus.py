"""Selection of the judged part of a large record, for quoting."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Focus:
    """The judged part of a large record.

    Attributes:
        metrics: names in `formats/metrics.toml`, each with the judged value (for example a mean) or None.
            The quote shows the first metric present in the record, with the sample nearest to that value.
        task, subtask_index, taskmanager: owner of the metric; None if it has no particular owner.
        thread: name of the thread in a thread dump.
        until_us: end of the judged time; quotes contain nothing after it.
    """

    metrics: tuple[tuple[str, float | None], ...] = ()
    task: str | None = None
    subtask_index: int | None = None
    taskmanager: str | None = None
    until_us: int | None = None
    thread: str | None = None
