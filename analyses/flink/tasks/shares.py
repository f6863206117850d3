"""Compares a subtask's records and bytes with those of its siblings, over the time in which the data was skewed.

Back pressure, failed checkpoints and the whole input cover different times, so their ratios for one subtask differ.
All rules report the ratio of the windows in which the subtask received at least `pressure.SKEWED` times its siblings'
data. A report therefore has one ratio per subtask.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from flowdiag.analyses.flink.job import JobFacts, SubtaskLoad
from flowdiag.analyses.flink.tasks.placement import SubtaskKey
from flowdiag.analyses.flink.tasks.pressure import (
    SKEWED,
    Load,
    Loads,
    bytes_ratio,
    data_ratio,
    read_loads,
    records_ratio,
)
from flowdiag.analyses.flink.tasks.topology import topology_of
from flowdiag.analyses.model.derived import once


@dataclass(frozen=True, slots=True)
class DataShare:
    """A subtask's records and bytes as multiples of its siblings' mean, and a clause that describes the time."""

    records: float | None
    bytes: float | None
    during: str

    @property
    def ratio(self) -> float:
        """The larger ratio, or 0 without data."""
        return max(self.records or 0.0, self.bytes or 0.0)

    @property
    def text(self) -> str:
        """The larger ratio, its unit and the time."""
        unit = "records" if self.ratio == self.records else "bytes"
        return f"{self.ratio:.1f} times the {unit} of its siblings{self.during}"


def data_share(
    windows: Iterable[Loads], load: Load, members: Sequence[Load], parallelism: int, during: str
) -> DataShare:
    """Return the data of a subtask compared with its siblings'.

    Args:
        windows: the loads of its task in each window.
        load, members, during: of the time that the rule judges; they count if no window shows skewed data.
        parallelism: the parallelism of the task.
    """
    skewed = [each for each in windows if _is_skewed(each, load.key, parallelism)]
    if skewed:
        total = _added_up(skewed)
        load, members, during = total[load.key], [*total.values()], " while the skew lasted"
    return DataShare(
        records_ratio(load, members, parallelism), bytes_ratio(load, members, parallelism), during
    )


def _is_skewed(window: Loads, key: SubtaskKey, parallelism: int) -> bool:
    load = window.get(key)
    ratio = None if load is None else data_ratio(load, [*window.values()], parallelism)
    return ratio is not None and ratio >= SKEWED


def _added_up(windows: Iterable[Loads]) -> dict[SubtaskKey, Load]:
    """Return the loads with the records, bytes and samples of all windows."""
    total: dict[SubtaskKey, Load] = {}
    for window in windows:
        for key, load in window.items():
            known = total.get(key)
            total[key] = load if known is None else _sum(known, load)
    return total


def _sum(one: Load, other: Load) -> Load:
    return replace(
        one,
        records=_total(one.records, other.records),
        bytes=_total(one.bytes, other.bytes),
        samples=one.samples + other.samples,
    )


def _total(one: float | None, other: float | None) -> float | None:
    return None if one is None and other is None else (one or 0.0) + (other or 0.0)


def windows_of(job: JobFacts, task: str) -> list[Loads]:
    """Return the loads of a task's subtasks in each window of the job's metrics, in the order of time."""
    windows = _rows_by_window(job).get(task, {})
    return [read_loads(job, topology_of(job), windows[number]) for number in sorted(windows)]


@once
def _rows_by_window(job: JobFacts) -> Mapping[str, Mapping[int, list[SubtaskLoad]]]:
    topology = topology_of(job)
    found: defaultdict[str, defaultdict[int, list[SubtaskLoad]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for row in job.loads:
        task = topology.canonical(row.task)
        if row.window is not None and task is not None:
            found[task][row.window].append(row)
    return found
