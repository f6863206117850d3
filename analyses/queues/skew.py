"""Whether the subtasks of a task share its work evenly, and if not, what is uneven."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from flowdiag.analyses.flink.placement import SubtaskKey
from flowdiag.analyses.flink.pressure import KNOWN_SIBLINGS
from flowdiag.analyses.queues.facts import JobQueues, joined


def skew_score(values: Iterable[float]) -> float | None:
    """Flink's own score of data skew, 0 (even) to 100: mean deviation in percent of the mean.

    As `DoubleAccumulator.DoubleDataSkew` computes it for the web interface from 1.19 on (read in 2.3.0).

    >>> skew_score([100, 100, 100]), skew_score([300, 0, 0]), skew_score([])
    (0.0, 100.0, None)
    """
    known = list(values)
    if not known:
        return None
    mean = sum(known) / len(known)
    if mean == 0:
        return 0.0
    return min(100.0, sum(abs(value - mean) for value in known) / len(known) / mean * 100)


def against_siblings(
    values: Mapping[SubtaskKey, float], key: SubtaskKey, parallelism: int, least: float
) -> float | None:
    """A subtask's number in multiples of its siblings' mean; None where that says nothing.

    Args:
        values: of the subtasks of one task.
        key: of the subtask.
        parallelism: of the task; most of its subtasks must be known.
        least: a smaller number of this subtask says nothing.
    """
    others = [value for other, value in values.items() if other != key]
    mine = values.get(key)
    if mine is None or mine < least or not others:
        return None
    if len(others) < KNOWN_SIBLINGS * (parallelism - 1):
        return None
    return mine * len(others) / max(sum(others), 1.0)


def increases(
    job: JobQueues, task: str, name: str, windows: Iterable[int] | None = None
) -> dict[SubtaskKey, float]:
    """What a counter of each subtask of a task gained in the windows; None means all of them."""
    wanted = None if windows is None else set(windows)
    found = {}
    for key, each in job.samples.items():
        known = [
            sample.increases[name]
            for sample in each
            if name in sample.increases and (wanted is None or sample.window in wanted)
        ]
        if key.task == task and known:
            found[key] = sum(known)
    return found


def means(
    job: JobQueues, task: str, name: str, windows: Iterable[int] | None = None
) -> dict[SubtaskKey, float]:
    """The mean of a gauge of each subtask of a task."""
    wanted = None if windows is None else set(windows)
    found = {}
    for key, each in job.samples.items():
        if key.task != task:
            continue
        gauge = joined(
            sample.gauges.get(name) for sample in each if wanted is None or sample.window in wanted
        )
        if gauge is not None:
            found[key] = gauge.mean
    return found
