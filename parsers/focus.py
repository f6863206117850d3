"""What of a record was judged, where the record holds far more: for whoever quotes it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Focus:
    """What was judged of a record that holds much more.

    Attributes:
        metrics: names in `formats/metrics.toml`, each with the value that was judged, a mean perhaps, or
            None. The first that is there is quoted, and of its samples the one nearest to that value.
        task, subtask_index, taskmanager: whose; None where the metric is nobody's in particular.
        until_us: when the time ends that was judged; nothing after it is quoted.
    """

    metrics: tuple[tuple[str, float | None], ...] = ()
    task: str | None = None
    subtask_index: int | None = None
    taskmanager: str | None = None
    until_us: int | None = None
