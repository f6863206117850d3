"""Properties of a job that need no simulation: the order of its tasks, their rates and utilization."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from flowdiag.analyses.flink.tasks.buffers import POINTWISE, feeders
from flowdiag.analyses.queues.credits.job import Edge, Flow, Job, ModelError, Task

_SHORTEST_S: Final = 10.0
_LONGEST_S: Final = 3_600.0


def is_source(job: Job, task: Task) -> bool:
    """Return whether a task has no input."""
    return all(edge.downstream != task.name for edge in job.edges)


def topological_order(job: Job) -> list[Task]:
    """Return the tasks, sources first.

    Raises:
        ModelError: there is no task, a name is not unique, an edge has an unknown task, or there is a cycle.
    """
    tasks = {task.name: task for task in job.tasks}
    if not tasks or len(tasks) != len(job.tasks):
        raise ModelError("a job needs tasks with unique names")
    before: dict[str, set[str]] = {name: set() for name in tasks}
    for edge in job.edges:
        if edge.upstream not in tasks or edge.downstream not in tasks:
            raise ModelError(
                f"the edge from '{edge.upstream}' to '{edge.downstream}' refers to an unknown task"
            )
        before[edge.downstream].add(edge.upstream)
    found: list[Task] = []
    while len(found) < len(tasks):
        done = {task.name for task in found}
        ready = [t for t in job.tasks if t.name not in done and before[t.name] <= done]
        if not ready:
            raise ModelError("the job graph has a cycle")
        found += ready
    return found


def shares(edge: Edge, consumers: Sequence[int]) -> list[float]:
    """Return the share of records that each consumer gets; equal shares by default."""
    given = [edge.shares[i] if i < len(edge.shares) else 1.0 for i in consumers]
    if not edge.shares or sum(given) <= 0:
        given = [1.0] * len(consumers)
    total = sum(given)
    return [share / total for share in given]


def consumers(edge: Edge, upstream: Task, downstream: Task, index: int) -> list[int]:
    """Return the indexes of the downstream subtasks that the upstream subtask `index` sends to."""
    if edge.pattern not in POINTWISE:
        return list(range(downstream.parallelism))
    up, down = upstream.parallelism, downstream.parallelism
    return [i for i in range(down) if index in feeders(edge.pattern, up, down, i)]


def flow_rates(job: Job) -> dict[str, float]:
    """Return the records per second of each task over all subtasks, as they would be without back pressure."""
    tasks = topological_order(job)
    rates: dict[str, float] = {}
    by_name = {task.name: task for task in tasks}
    for task in tasks:
        if is_source(job, task):
            rates[task.name] = sum(1000.0 / max(s, 1e-9) for s in task.service_ms)
            continue
        rates[task.name] = 0.0
        for edge in job.edges:
            if edge.downstream == task.name:
                up = by_name[edge.upstream]
                copies = task.parallelism if edge.pattern == "BROADCAST" else 1
                rates[task.name] += rates[up.name] * edge.selectivity * copies
    return rates


def utilization(job: Job) -> dict[str, float]:
    """Return the utilization of the busiest subtask of each task except sources, as it would be without back
    pressure.
    """
    rates = flow_rates(job)
    found = {}
    for task in job.tasks:
        if not is_source(job, task):
            loads = _loads(job, task, rates)
            pairs = zip(loads, task.service_ms, strict=True)
            found[task.name] = max(
                (load * service / 1000.0 for load, service in pairs), default=0.0
            )
    return found


def sustainable_share(job: Job) -> float:
    """Return the share of the sources' rate that the slowest subtask can process, at most 1."""
    most = max(utilization(job).values(), default=0.0)
    return 1.0 if most <= 1.0 else 1.0 / most


def _loads(job: Job, task: Task, rates: Mapping[str, float]) -> list[float]:
    """Return the records per second of each subtask, as they would be without back pressure."""
    by_name = {item.name: item for item in job.tasks}
    found = [0.0] * task.parallelism
    for edge in job.edges:
        if edge.downstream != task.name:
            continue
        up = by_name[edge.upstream]
        sent = rates[up.name] * edge.selectivity
        if edge.pattern == "BROADCAST":
            found = [value + sent for value in found]
            continue
        for index in range(up.parallelism):
            to = consumers(edge, up, task, index)
            for i, share in zip(to, shares(edge, to), strict=True):
                found[i] += sent / up.parallelism * share
    return found


def enough_seconds(job: Job, flow: Flow) -> float:
    """Return a simulated time long enough to empty the buffers several times."""
    rates, share = flow_rates(job), sustainable_share(job)
    by_name = {task.name: task for task in job.tasks}
    longest = 0.0
    for edge in job.edges:
        up, down = by_name[edge.upstream], by_name[edge.downstream]
        fan_out = len(consumers(edge, up, down, 0))
        channels = up.parallelism * fan_out
        buffers = 2 * (channels * flow.per_channel + down.parallelism * flow.floating)
        buffers += up.parallelism * (fan_out + 1)
        bytes_per_s = rates[up.name] * share * edge.selectivity * up.record_bytes
        if bytes_per_s > 0:
            longest += buffers * flow.segment_bytes / bytes_per_s
    return min(_LONGEST_S, max(_SHORTEST_S, 5.0 * longest))
