"""Checks whether records move in a job, and whether its backlog shrinks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from flowdiag.analyses.flink.tasks.placement import SubtaskKey
from flowdiag.analyses.flink.tasks.stall import JobStall, Step, largest_known, stall_in
from flowdiag.analyses.model.derived import once
from flowdiag.analyses.queues.facts import Flow, JobQueues, Sample, merge_gauges, time_span


@once
def job_stall(job: JobQueues) -> JobStall | None:
    """Return the period at the end of the metrics in which no record moves, or None if there is none."""
    steps = {
        (key.task, key.subtask_index): [
            Step(
                sample.first_us,
                sample.last_us,
                largest_known(
                    sample.increases.get("records_in"), sample.increases.get("records_out")
                ),
            )
            for sample in each
            if sample.first_us is not None and sample.last_us is not None
        ]
        for key, each in job.samples.items()
    }
    stalled_since = {
        task: max(since for since in times if since is not None)
        for task in job.topology.tasks
        if (times := [flow.constant_since_us for flow in job.flows if _counts_records(flow, task)])
        and any(since is not None for since in times)
    }
    return stall_in({key: each for key, each in steps.items() if each}, job.topology, stalled_since)


def _counts_records(flow: Flow, task: str) -> bool:
    """Return whether a counter of a task counts its records. A committer counts results of checkpoints."""
    return flow.task == task and not (flow.operator or "").endswith("Committer")


def time_without_records_us(job: JobQueues, task: str) -> int:
    """Return how long no record counter of a task has increased at the end of the metrics."""
    flows = [
        flow
        for flow in job.flows
        if flow.task == task and flow.name in ("numRecordsIn", "numRecordsOut") and flow.points
    ]
    since = [us for flow in flows if (us := flow.constant_since_us) is not None]
    return max(flow.points[-1].until_us for flow in flows) - max(since) if since else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Silence:
    """The period at the end of the metrics in which a task emits nothing although it receives records.

    Args:
        task: the task.
        since_us, until_us: start and end of the period.
        records: number of records that the task receives in the period.
        watermark_ms: the watermark in ms since 1970; None if it advances, or if there is none.
        key, samples: a subtask and its samples, as evidence.
        operator: the operator, if only metrics of operators show the silence.
    """

    task: str
    since_us: int
    until_us: int
    records: float
    watermark_ms: float | None
    key: SubtaskKey
    samples: Sequence[Sample]
    operator: str | None = None

    @property
    def name(self) -> str:
        """The name of the operator, or of the task."""
        return self.operator or self.task

    @property
    def duration_ms(self) -> float:
        return (self.until_us - self.since_us) / 1000


def silence_of(job: JobQueues, task: str) -> Silence | None:
    """Return the silence of a task with complete metrics. None if it emits records or has no downstream task."""
    quiet = {
        key: _trailing_without_output(each) for key, each in job.samples.items() if key.task == task
    }
    if len(quiet) < job.topology.parallelism.get(task, 0) or not job.topology.direct_successors(
        task
    ):
        return None
    if not quiet or not all(quiet.values()):
        return None
    held = _in_common_windows(quiet)
    every = [*chain.from_iterable(held.values())]
    first, last = time_span(every)
    if first is None or last is None:
        return None
    key = min(held)
    return Silence(
        task=task,
        since_us=first,
        until_us=last,
        records=sum(sample.increases.get("records_in", 0.0) for sample in every),
        watermark_ms=_constant_watermark(every),
        key=key,
        samples=held[key],
    )


def _in_common_windows(
    quiet: Mapping[SubtaskKey, Sequence[Sample]],
) -> dict[SubtaskKey, list[Sample]]:
    windows = frozenset.intersection(
        *(frozenset(sample.window for sample in each) for each in quiet.values())
    )
    return {key: [s for s in each if s.window in windows] for key, each in quiet.items()}


def _constant_watermark(every: Sequence[Sample]) -> float | None:
    marks = merge_gauges(sample.gauges.get("watermark") for sample in every)
    if marks is None or marks.n < 2 or marks.low != marks.high:
        return None
    return marks.high


def _trailing_without_output(each: Sequence[Sample]) -> list[Sample]:
    """Return the last samples in which a subtask emits no record. Empty if its output is unknown."""
    found: list[Sample] = []
    for sample in reversed(each):
        if sample.increases.get("records_out") != 0:
            break
        found.append(sample)
    return found[::-1]


def is_draining(held: Mapping[SubtaskKey, Sequence[Sample]]) -> bool:
    """Return whether the job catches up: the backlog of its sources shrinks in these windows."""
    ordered: dict[int, float] = defaultdict(float)
    for each in held.values():
        for sample in each:
            for name in ("pending", "fetch_lag_ms"):
                gauge = sample.gauges.get(name)
                if gauge is not None and gauge.mean > 0:
                    ordered[sample.window] += gauge.mean
                    break
    values = [ordered[window] for window in sorted(ordered)]
    return len(values) >= 3 and values[-1] < 0.8 * values[0] and values[-1] < max(values[1:-1])
