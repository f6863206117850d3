"""Detects jobs in which no subtask receives or emits records."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from flowdiag.analyses.flink.job import JobFacts
from flowdiag.analyses.flink.tasks.pressure import KNOWN_SIBLINGS
from flowdiag.analyses.flink.tasks.topology import Topology, topology_of
from flowdiag.analyses.model.derived import once

LEAST_US: Final = 20_000_000
"""Two metric refreshes of the JobManager. A shorter time may lie between two updates of a counter."""


class Step(NamedTuple):
    """The number of records that a subtask received or emitted in one metric window."""

    first_us: int
    last_us: int
    records: float | None


@dataclass(frozen=True, slots=True)
class JobStall:
    """The period at the end of the metrics in which no record moves."""

    since_us: int
    until_us: int

    @property
    def duration_ms(self) -> float:
        return (self.until_us - self.since_us) / 1000


@once
def job_stall(job: JobFacts) -> JobStall | None:
    """Return the stall at the end of the metrics, or None if records move or the stall is short."""
    steps: defaultdict[tuple[str, int], list[Step]] = defaultdict(list)
    for row in job.loads:
        if row.first_us is not None and row.last_us is not None:
            records = largest_known(row.records_in, row.records_out)
            steps[row.task, row.subtask_index].append(Step(row.first_us, row.last_us, records))
    return stall_in(steps, topology_of(job))


def stall_in(
    steps: Mapping[tuple[str, int], Sequence[Step]],
    topology: Topology,
    stalled_since: Mapping[str, int] | None = None,
) -> JobStall | None:
    """Return the stall based on the steps of each subtask, or None if too few subtasks have steps.

    Args:
        steps: the steps of each subtask.
        topology: the job graph.
        stalled_since: by task, the time since which its operators have passed no record. A task that forms a whole job
            exchanges no records, so its own counters are always zero.
    """
    if not steps or len(steps) < KNOWN_SIBLINGS * sum(topology.parallelism.values()):
        return None
    known = stalled_since or {}
    alone = {task for task in topology.tasks if is_alone(topology, task)}
    if alone - known.keys():
        return None
    since = max(
        known[task] if task in alone else _stalled_since(each) for (task, _), each in steps.items()
    )
    until = max(step.last_us for each in steps.values() for step in each)
    return JobStall(since, until) if until - since >= LEAST_US else None


def is_alone(topology: Topology, task: str) -> bool:
    """Return whether a task exchanges no records with others, because a single chain reads, processes and writes."""
    return (
        topology.exact and not topology.upstream.get(task) and not topology.direct_successors(task)
    )


def largest_known(*counts: float | None) -> float | None:
    """Return the largest known count, or None."""
    return max((count for count in counts if count is not None), default=None)


def _stalled_since(steps: Sequence[Step]) -> int:
    """Return since when the counters of a subtask have not changed, in microseconds."""
    ordered = sorted(steps)
    since = ordered[-1].last_us
    for step in reversed(ordered):
        if step.records is None or step.records > 0:
            break
        since = step.first_us
    return since
