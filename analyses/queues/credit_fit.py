"""Fits the parameters of the credit model to an observed job, and forecasts the effect of other settings.

A task's time per record is its busy time divided by the number of its records. Up to Flink 1.12, busy times are
unknown. A task where back pressure starts is busy all the time, so its rate gives its time per record. All
other tasks are assumed to be fast. A simulation tests the fit: it compares throughput, queue and barrier time
with the observed values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Final

from flowdiag.analyses.flink.tasks.buffers import Version
from flowdiag.analyses.queues.credit_facts import (
    ObservedJob,
    ObservedSubtask,
    ObservedTask,
    debloating_of,
)
from flowdiag.analyses.queues.credits import simulate
from flowdiag.analyses.queues.credits.job import Edge, Flow, Job, ModelError, Outcome, Task
from flowdiag.analyses.queues.credits.static import utilization

POOR: Final = 1.5  # a fit that is wrong by a larger factor is useless
DEFAULT_RECORD_BYTES: Final = 100.0
_SECOND: Final = 1000.0
_SATURATED: Final = 850.0  # ms per second: a task this busy has no time left
_PRESSED: Final = (
    0.5  # share of the samples in which a task is back-pressured (without times, up to 1.12)
)
_LEAST_FREE: Final = (
    0.05  # share of time: the maximum rate of a source with less free time is unknown
)
_QUICK: Final = (
    0.1  # assumed share of the time between records that a task needs, if only its rate is known
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FitQuantity:
    """An observed quantity, and its value in the fitted model."""

    name: str
    observed: float
    modelled: float

    @property
    def times(self) -> float:
        """The ratio of the larger value to the smaller value."""
        low, high = sorted((max(self.observed, 1e-9), max(self.modelled, 1e-9)))
        return high / low


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """The fitted parameters of a job, and how well they fit.

    Args:
        job: the parameters.
        flow: the observed options.
        version: Flink's version.
        bottleneck: the task with the least headroom; None if no task is near its limit.
        compared: observed quantities and their values in the model with the observed options.
        scale: observed divided by modeled barrier time; 1 if unknown.
        overhead_ms: duration of a checkpoint without the wait for barriers.
        notes: the assumptions, for the report.
        outcome: the simulation with the observed options.
    """

    job: Job
    flow: Flow
    version: Version
    bottleneck: str | None
    compared: tuple[FitQuantity, ...]
    scale: float
    overhead_ms: float
    notes: tuple[str, ...]
    outcome: Outcome

    @property
    def error(self) -> float | None:
        """The largest factor between observed and modeled values, or None if nothing was compared."""
        return max((item.times for item in self.compared), default=None)

    @property
    def is_poor(self) -> bool:
        """Whether the predictions are unreliable."""
        return self.error is None or self.error > POOR


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """The forecast for a change.

    Args:
        name: the change, for the report.
        flow, job: the simulated options and job.
        outcome: the simulation; None if the job cannot start.
        task: the task whose throughput and queue are forecast.
        throughput: records per second of `task`.
        queue, queued_records: mean number of buffers and of records that wait before all its subtasks.
        barrier_ms: duration of a checkpoint; None if no checkpoint completes in the simulated time.
        at_least_ms: how long an unfinished checkpoint has run at the end.
        problem: why there is no forecast.
    """

    name: str
    flow: Flow
    job: Job
    outcome: Outcome | None
    task: str
    throughput: float = 0.0
    queue: float = 0.0
    queued_records: float = 0.0
    barrier_ms: float | None = None
    at_least_ms: float | None = None
    problem: str | None = None


def fit(observed: ObservedJob, *, interval_ms: float | None = None) -> Fit:
    """Derive the parameters of a job from a recorded run.

    Args:
        observed: the measured job.
        interval_ms: checkpoint interval, if the options do not set it.

    Raises:
        ModelError: the input is not sufficient for a model.
    """
    notes: list[str] = []
    job = _job(observed, notes)
    flow = observed.flow
    if flow.interval_ms <= 0:
        flow = replace(flow, interval_ms=interval_ms or 10_000.0)
    outcome = simulate(job, flow)
    bottleneck = _bottleneck(observed)
    compared = _fit_quantities(observed, outcome, bottleneck)
    scale = next((c.observed / c.modelled for c in compared if c.name == "barrier"), 1.0)
    return Fit(
        job=job,
        flow=flow,
        version=observed.version,
        bottleneck=bottleneck,
        compared=tuple(compared),
        scale=scale if 1 / POOR <= scale <= POOR else 1.0,
        overhead_ms=observed.overhead_ms or 0.0,
        notes=tuple(notes),
        outcome=outcome,
    )


def fit_of_settings(job: Job, flow: Flow, version: Version) -> Fit:
    """Return a fit for a job that never ran. The parameters are those given, without observations to compare.

    Raises:
        ModelError: the parameters are invalid.
    """
    slowest, use = max(utilization(job).items(), key=lambda item: item[1], default=("", 0.0))
    return Fit(
        job=job,
        flow=flow,
        version=version,
        bottleneck=slowest if use * _SECOND >= _SATURATED else None,
        compared=(),
        scale=1.0,
        overhead_ms=0.0,
        notes=(),
        outcome=simulate(job, flow),
    )


def predict(
    fitted: Fit, name: str, *, flow: Flow | None = None, job: Job | None = None
) -> Prediction:
    """Simulate the fitted job with other options, or a changed job.

    The forecast corrects the waiting time of aligned barriers by the error of the fit. Unaligned barriers do not wait,
    so only the overhead of a checkpoint remains.
    """
    options, changed = flow or fitted.flow, job or fitted.job
    task = reference_task(fitted.bottleneck, changed)
    try:
        unchanged = (changed, options) == (fitted.job, fitted.flow)
        outcome = fitted.outcome if unchanged else simulate(changed, options)
    except ModelError as error:
        return Prediction(
            name=name, flow=options, job=changed, outcome=None, task=task, problem=str(error)
        )
    barrier, unfinished = outcome.barrier_ms, outcome.unfinished_ms
    scale = 1.0 if options.unaligned else fitted.scale
    return Prediction(
        name=name,
        flow=options,
        job=changed,
        outcome=outcome,
        task=task,
        throughput=outcome.throughput(task),
        queue=sum(item.queue for item in outcome.of(task)),
        queued_records=sum(item.queued_records for item in outcome.of(task)),
        barrier_ms=None if barrier is None else barrier * scale + fitted.overhead_ms,
        at_least_ms=unfinished if barrier is None else None,
    )


def what_if(fitted: Fit, unchanged: str) -> list[Prediction]:
    """Forecast the job without a change (named `unchanged`), then the effect of each usual remedy on its own.

    Remedies that the version does not have or that are already in effect are left out.
    """
    flow, version = fitted.flow, fitted.version
    found = [predict(fitted, unchanged)]
    if version < (2, 0) and (flow.per_channel > 1 or flow.floating > 2):
        fewer = replace(
            flow, per_channel=min(flow.per_channel, 1), floating=max(1, flow.floating // 2)
        )
        name = f"fewer buffers ({fewer.per_channel} per channel, {fewer.floating} floating)"
        found.append(predict(fitted, name, flow=fewer))
    if version >= (1, 14) and flow.debloating is None:
        debloating = debloating_of(version, 1000.0)
        found.append(
            predict(fitted, "buffer debloating (1 s)", flow=replace(flow, debloating=debloating))
        )
    if version >= (1, 11) and not flow.unaligned:
        free = replace(flow, unaligned=True, aligned_timeout_ms=None)
        found.append(predict(fitted, "unaligned checkpoints", flow=free))
    if fitted.bottleneck is not None:
        wide = with_more_subtasks(fitted.job, fitted.bottleneck, 2)
        count = next(t.parallelism for t in wide.tasks if t.name == fitted.bottleneck)
        found.append(predict(fitted, f"{fitted.bottleneck} with {count} subtasks", job=wide))
    return found


def reference_task(bottleneck: str | None, job: Job) -> str:
    """Return the task whose throughput stands for the job: the bottleneck or, without one, the last task."""
    ends = [t.name for t in job.tasks if all(edge.upstream != t.name for edge in job.edges)]
    return bottleneck or ends[-1]


def with_more_subtasks(job: Job, name: str, times: int) -> Job:
    """Return a job in which one task has `times` as many subtasks.

    The key groups of each subtask are split evenly. If a subtask has more than twice the mean load, the surplus
    counts as one hot key, which cannot be split. The new subtasks run on the same TaskManagers in turn.
    """

    def spread(shares: Sequence[float]) -> tuple[float, ...]:
        if not shares:
            return ()
        mean = sum(shares) / len(shares)
        found: list[float] = []
        for share in shares:
            hot = share - mean if share > 2 * mean else 0.0
            rest = (share - hot) / times
            found += [rest + hot, *[rest] * (times - 1)]
        return tuple(found)

    tasks = tuple(
        replace(
            task,
            service_ms=tuple(s for s in task.service_ms for _ in range(times)),
            taskmanagers=tuple(p for p in task.taskmanagers for _ in range(times)),
        )
        if task.name == name
        else task
        for task in job.tasks
    )
    edges = tuple(
        replace(
            edge,
            shares=spread(edge.shares),
            pattern="REBALANCE" if edge.pattern == "FORWARD" else edge.pattern,
        )
        if edge.downstream == name
        else replace(edge, pattern="REBALANCE")
        if edge.upstream == name and edge.pattern == "FORWARD"
        else edge
        for edge in job.edges
    )
    return Job(tasks=tasks, edges=edges)


# -- the parameters ------------------------------------------------------------------------------


def _job(observed: ObservedJob, notes: list[str]) -> Job:
    tasks = {task.name: task for task in observed.tasks}
    has_input = {down for _, down, _ in observed.edges}
    found = []
    for task in observed.tasks:
        source = task.name not in has_input
        services = (
            _source_services(task, observed, notes) if source else _services(task, observed, notes)
        )
        places = tuple(s.taskmanager or f"{task.name}/{s.subtask_index}" for s in task.subtasks)
        found.append(
            Task(
                name=task.name,
                service_ms=services,
                record_bytes=_record_bytes(task.name, observed, notes),
                taskmanagers=places,
                legacy_source=source
                and (observed.version < (1, 12) or all(s.busy is None for s in task.subtasks)),
                snapshot_ms=observed.snapshot_ms.get(task.name, 0.0),
            )
        )
    edges = []
    for up, down, pattern in observed.edges:
        if up not in tasks or down not in tasks:
            raise ModelError(f"'{up if up not in tasks else down}' is unknown")
        edges.append(
            Edge(
                upstream=up,
                downstream=down,
                pattern=pattern,
                selectivity=_selectivity(up, down, pattern, observed),
                shares=_shares(tasks[down], pattern),
            )
        )
    return Job(tasks=tuple(found), edges=tuple(edges))


def _total(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) * len(values) / len(known) if known else None


def _received(task: ObservedTask) -> float | None:
    return _total([s.records_in for s in task.subtasks])


def _sent_records(name: str, observed: ObservedJob) -> float | None:
    """Return how many records a task sent or, if unknown, how many its consumers received."""
    task = next(t for t in observed.tasks if t.name == name)
    if sent := _total([s.records_out for s in task.subtasks]):
        return sent
    taken = [
        _received(t)
        for t in observed.tasks
        for up, down, _ in observed.edges
        if (up, down) == (name, t.name)
    ]
    known = [value for value in taken if value is not None]
    return max(known) if known else None


def _source_services(
    task: ObservedTask, observed: ObservedJob, notes: list[str]
) -> tuple[float, ...]:
    """Return the time between two records of each source subtask, as it would be without back pressure.

    Raises:
        ModelError: the source sent nothing.
    """
    total = _sent_records(task.name, observed)
    if not total:
        raise ModelError(f"'{task.name}' sent nothing during the observed time")
    services = []
    for subtask in task.subtasks:
        rate = subtask.records_out or total / len(task.subtasks)
        if subtask.back_pressured is None:
            notes.append(
                f"the maximum rate of {task.name} is unknown, so flowdiag assumes twice its current rate"
            )
            free = 0.5
        else:
            free = 1.0 - min(1.0, subtask.back_pressured / _SECOND)
        if free < _LEAST_FREE:
            notes.append(f"{task.name} was nearly stalled: its maximum rate is a guess")
            free = _LEAST_FREE
        services.append(_SECOND / rate * free)
    return tuple(services)


def _services(task: ObservedTask, observed: ObservedJob, notes: list[str]) -> tuple[float, ...]:
    if any(s.busy is not None for s in task.subtasks):
        known = {
            s.subtask_index: min(_SECOND, s.busy) / s.records_in
            for s in task.subtasks
            if s.busy is not None and s.records_in
        }
    else:
        saturated = _ends_pressure(task, observed)
        known = {}
        for s in task.subtasks:
            if s.records_in:
                share = 1.0 if saturated and not _is_back_pressured(s) else _QUICK
                known[s.subtask_index] = _SECOND * share / s.records_in
        if saturated:
            # The metrics do not show which subtasks have time left. The one with the highest time per record has none.
            least = min(known.values(), default=0.0)
            known = {index: min(value, 2 * least) for index, value in known.items()}
        else:
            notes.append(
                f"the busy time of {task.name} is unknown, so flowdiag assumes that it is fast"
            )
    if not known:
        notes.append(f"{task.name} received no records, so flowdiag assumes that it is fast")
        return tuple(0.0 for _ in task.subtasks)
    otherwise = median(known.values())
    return tuple(known.get(s.subtask_index, otherwise) for s in task.subtasks)


def _is_back_pressured(subtask: ObservedSubtask) -> bool:
    if subtask.back_pressured is not None:
        return subtask.back_pressured >= _PRESSED * _SECOND
    return (subtask.is_back_pressured or 0.0) >= _PRESSED


def _ends_pressure(task: ObservedTask, observed: ObservedJob) -> bool:
    """Return whether back pressure ends at this task: tasks upstream are back-pressured, the task itself is not."""
    before = {up for up, down, _ in observed.edges if down == task.name}
    above = any(
        _is_back_pressured(s) for t in observed.tasks if t.name in before for s in t.subtasks
    )
    return above and not any(_is_back_pressured(s) for s in task.subtasks)


def _record_bytes(name: str, observed: ObservedJob, notes: list[str]) -> float:
    downs = {down for up, down, _ in observed.edges if up == name}
    pairs = [
        (s.bytes_in, s.records_in)
        for t in observed.tasks
        if t.name in downs
        for s in t.subtasks
        if s.bytes_in and s.records_in
    ]
    if pairs:
        return max(1.0, sum(b for b, _ in pairs) / sum(r for _, r in pairs))
    if downs:
        size = f"{DEFAULT_RECORD_BYTES:g} bytes are assumed"
        notes.append(f"the size of {name}'s records is unknown: {size}")
    return DEFAULT_RECORD_BYTES


def _selectivity(up: str, down: str, pattern: str, observed: ObservedJob) -> float:
    """Return the records that cross an edge per record received upstream (for a source, per record sent)."""
    tasks = {task.name: task for task in observed.tasks}
    inputs = [u for u, d, _ in observed.edges if d == down]
    taken = _received(tasks[down])
    offered = sum(_sent_records(u, observed) or 0.0 for u in inputs)
    sent = _sent_records(up, observed)
    if taken is None or not offered or not sent:
        return 1.0
    copies = len(tasks[down].subtasks) if pattern == "BROADCAST" else 1
    on_edge = sent * taken / offered / copies
    source = all(d != up for _, d, _ in observed.edges)
    base = sent if source else _received(tasks[up])
    return on_edge / base if base else 1.0


def _shares(task: ObservedTask, pattern: str) -> tuple[float, ...]:
    if pattern == "BROADCAST":
        return ()
    rates = [s.records_in for s in task.subtasks]
    known = [rate for rate in rates if rate is not None]
    if not known or sum(known) <= 0:
        return ()
    mean = sum(known) / len(known)
    return tuple(mean if rate is None else rate for rate in rates)


# -- the quality of the fit ----------------------------------------------------------------------


def _bottleneck(observed: ObservedJob) -> str | None:
    """Return the task that blocks its upstream tasks and has the least spare time."""
    has_input = {down for _, down, _ in observed.edges}
    candidates: list[tuple[float, str]] = []
    for task in observed.tasks:
        if task.name not in has_input:
            continue
        busy = max((s.busy for s in task.subtasks if s.busy is not None), default=None)
        if busy is not None and busy >= _SATURATED:
            candidates.append((busy, task.name))
        elif busy is None and _ends_pressure(task, observed):
            candidates.append((_SECOND, task.name))
    return max(candidates)[1] if candidates else None


def _fit_quantities(
    observed: ObservedJob, outcome: Outcome, bottleneck: str | None
) -> list[FitQuantity]:
    by_name: Mapping[str, ObservedTask] = {task.name: task for task in observed.tasks}
    last = bottleneck or observed.tasks[-1].name
    figures: list[tuple[str, float | None, float | None]] = [
        ("throughput", _received(by_name[last]), outcome.throughput(last))
    ]
    if bottleneck is not None:
        if observed.version >= (1, 9):
            queue = _total([s.queue for s in by_name[bottleneck].subtasks])
            figures.append(("queue", queue, sum(s.queue for s in outcome.of(bottleneck))))
        if observed.checkpoint_ms is not None and not observed.flow.unaligned:
            waited = max(0.0, observed.checkpoint_ms - (observed.overhead_ms or 0.0))
            figures.append(("barrier", waited, outcome.barrier_ms or None))
    return [
        FitQuantity(name=name, observed=value, modelled=modelled)
        for name, value, modelled in figures
        if value and modelled is not None
    ]
