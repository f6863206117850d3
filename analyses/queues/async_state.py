"""How long the records of a task wait for asynchronous state (Flink 2.0 and later, usually in ForSt).

Busy times do not show these waits: a task that has handed its requests to the state executor is idle. By Little's law,
the mean wait is the number of records in flight divided by the rate of completed records.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from flowdiag.analyses.flink.tasks.placement import SubtaskKey
from flowdiag.analyses.model.derived import once
from flowdiag.analyses.queues.facts import JobQueues, Sample, merge_gauges, time_span
from flowdiag.analyses.queues.loads import loads_in, samples_in

HELD_S: Final = 5.0
"""Minimum mean wait of a record. By default, each request waits up to 1 s until its batch is sent
(`execution.async-state.buffer-timeout`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StateWait:
    """The records of a task that wait for asynchronous state, while upstream tasks wait for the task.

    Args:
        seconds: mean wait of a record.
        in_flight: mean number of waiting records per subtask.
        windows: the windows in which an upstream task waits.
        key: the subtask with most waiting records, with its samples.
    """

    seconds: float
    in_flight: float
    windows: tuple[int, ...]
    key: SubtaskKey
    samples: Sequence[Sample]


@once
def state_waits(job: JobQueues) -> Mapping[str, StateWait]:
    """Return the tasks that block their upstream tasks because their records wait for asynchronous state."""
    names = {
        key.task
        for key, samples in job.samples.items()
        if any("in_flight" in sample.gauges for sample in samples)
    }
    waits = {task: _state_wait(job, task) for task in names}
    return {task: wait for task, wait in waits.items() if wait is not None}


def _state_wait(job: JobQueues, task: str) -> StateWait | None:
    windows = [window for window in job.windows if _blocks_upstream(job, task, window)]
    means: dict[SubtaskKey, float] = {}
    held: dict[SubtaskKey, list[Sample]] = defaultdict(list)
    waited_s = completed = 0.0
    for key, samples in samples_in(job, windows).items():
        gauges = [sample.gauges["in_flight"] for sample in samples if "in_flight" in sample.gauges]
        gauge, (first_us, last_us) = merge_gauges(gauges), time_span(samples)
        if key.task != task or gauge is None or first_us is None or last_us is None:
            continue
        received = sum(sample.increases.get("records_in", 0.0) for sample in samples)
        completed += max(0.0, received - (gauges[-1].mean - gauges[0].mean))
        waited_s += gauge.mean * (last_us - first_us) / 1e6
        means[key], held[key] = gauge.mean, samples
    if not means or waited_s < HELD_S * max(1.0, completed):
        return None
    key = max(means, key=lambda each: (means[each], each))
    return StateWait(
        seconds=waited_s / max(1.0, completed),
        in_flight=sum(means.values()) / len(means),
        windows=tuple(windows),
        key=key,
        samples=held[key],
    )


def _blocks_upstream(job: JobQueues, task: str, window: int) -> bool:
    """Return whether tasks directly upstream wait in a window, but the task itself does not."""
    loads, before = loads_in(job, [window]).values(), job.topology.upstream.get(task, ())
    return any(load.waits for load in loads if load.key.task in before) and not any(
        load.waits for load in loads if load.key.task == task
    )
