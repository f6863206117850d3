"""The quantities of report tables that are compared, each with its minimum relevant difference.

Smaller changes do not count, even if they are significant. Two runs of the same healthy job may differ by a factor of
1.7 in processing time (docs/compare.md). Sizes, rates and settings have no bad direction.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Final

from flowdiag.analyses.contract.report import RateApplication, Report, Subject

FACTOR: Final = 2.0
"""Durations, delays and rates that differ by a smaller factor count as equal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A quantity.

    Args:
        name: the `name` of the measure, in kebab-case.
        unit: the unit, as in measurements of findings.
        worse_up: whether an increase is worse; otherwise the direction is neutral.
        factor: whether the user's factor applies.
        least: minimum relevant difference, in the unit.
        exact: whether it is configured or derived, and not sampled, so that every difference above `least` counts.
    """

    name: str
    unit: str
    worse_up: bool = False
    factor: bool = False
    least: float = 0.0
    exact: bool = False

    @property
    def summarize(self) -> Callable[[Sequence[float]], float]:
        """The function that summarizes many values: the mean for booleans and shares, otherwise the median."""
        return fmean if self.unit == "share" else median


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """The values of a quantity for one subject, in one report.

    Args:
        kind: the quantity.
        subject: the subject.
        values: the values in time order; a single one for shares and exact quantities.
        samples: number of samples of which a share is the mean.
        cut: whether `--max-rows` truncated the table, which drops healthy rows first.
    """

    kind: Kind
    subject: Subject
    values: tuple[float, ...]
    samples: int | None = None
    cut: bool = False

    @property
    def summary(self) -> float | None:
        """The summary of all values, or None without values."""
        return self.kind.summarize(self.values) if self.values else None


_SETTLED: Final = 10
"""Minimum number of samples per subtask. With fewer samples, record counts may only reflect a restart."""


Key = tuple[str, str, str | None, str | None, int | None, str | None]

CHECKPOINT_DURATION: Final = Kind(
    name="checkpoint-duration", unit="ms", worse_up=True, factor=True, least=500
)
CHECKPOINT_SIZE: Final = Kind(name="checkpoint-size", unit="bytes", factor=True, least=1 << 20)
UNSUCCESSFUL: Final = Kind(name="unsuccessful-checkpoints", unit="share", worse_up=True, least=0.2)
TIME_TO_RUNNING: Final = Kind(
    name="time-to-running", unit="ms", worse_up=True, factor=True, least=1000
)
BUSY: Final = Kind(name="busy", unit="share", worse_up=True, least=0.25)
BACK_PRESSURED: Final = Kind(name="back-pressured", unit="share", worse_up=True, least=0.25)
SATURATED: Final = Kind(name="input-queue-full", unit="share", worse_up=True, least=0.25)
SKEW: Final = Kind(name="skew", unit="points", worse_up=True, least=20, exact=True)
PROCESSING: Final = Kind(name="processing-delay", unit="ms", worse_up=True, factor=True, least=100)
SCHEDULING: Final = Kind(name="scheduling-delay", unit="ms", worse_up=True, factor=True, least=100)
INPUT_RATE: Final = Kind(name="input-rate", unit="records/s", factor=True)
PID_RATE: Final = Kind(name="rate-limit", unit="records/s", factor=True)
FAILED_BATCHES: Final = Kind(name="failing-batches", unit="share", worse_up=True, least=0.2)
TRIGGER: Final = Kind(name="trigger-duration", unit="ms", worse_up=True, factor=True, least=100)
ROWS: Final = Kind(name="rows-per-trigger", unit="rows", factor=True, least=10)
BACKLOG: Final = Kind(name="backlog", unit="rows", worse_up=True, factor=True, least=1000)
STATE_ROWS: Final = Kind(name="state-rows", unit="rows", factor=True, least=1000)
POOL: Final = Kind(name="memory", unit="bytes", least=1 << 20, exact=True)
HEAP_FLOOR: Final = Kind(name="heap-kept", unit="share", worse_up=True, least=0.2)


def series_of(report: Report, *, one_job: bool) -> dict[Key, Series]:
    """Return all series of a report by quantity and subject.

    Args:
        report: a report of any command.
        one_job: whether its only job is compared with the only job of the other report despite different names.
    """
    found: dict[Key, Series] = {}
    for each in (
        *_checkpoints(report),
        *_starts(report),
        *_queues(report),
        *_batches(report),
        *_queries(report),
        *_memory(report),
    ):
        if not each.values:
            continue
        subject = each.subject
        job = None if one_job else subject.job_name
        rest = subject.task, subject.stream_id, subject.query or subject.option
        key = (each.kind.name, subject.kind, job, *rest)
        before = found.get(key)
        # The series continues if a job was redeployed within the input.
        found[key] = each if before is None else _join(before, each)
    return found


def _join(first: Series, second: Series) -> Series:
    if first.samples is not None or first.kind.exact:
        return max((first, second), key=lambda series: series.values)
    return Series(
        kind=first.kind,
        subject=first.subject,
        values=first.values + second.values,
        cut=first.cut or second.cut,
    )


def _known_values(values: Iterable[float | None]) -> tuple[float, ...]:
    return tuple(float(value) for value in values if value is not None)


def _checkpoints(report: Report) -> Iterator[Series]:
    """Yield the series of checkpoints, without savepoints. An expired one counts with the timeout, its minimum."""
    for job in report.data.jobs or ():
        subject = Subject(kind="job", job_name=job.name)
        own = sorted(
            (checkpoint for checkpoint in job.checkpoints if checkpoint.type == "checkpoint"),
            key=lambda checkpoint: (checkpoint.run, checkpoint.id),
        )
        cut = len(job.checkpoints) < job.total.checkpoints
        ended = [checkpoint for checkpoint in own if checkpoint.status != "in_flight"]
        lasted = [
            checkpoint.duration_ms
            for checkpoint in ended
            if checkpoint.status in ("completed", "expired")
        ]
        sizes = [checkpoint.bytes for checkpoint in ended if checkpoint.status == "completed"]
        failed = [
            float(checkpoint.status != "completed")
            for checkpoint in ended
            if checkpoint.status != "aborted"
        ]
        for kind, values in (
            (CHECKPOINT_DURATION, _known_values(lasted)),
            (CHECKPOINT_SIZE, _known_values(sizes)),
            (UNSUCCESSFUL, tuple(failed)),
        ):
            yield Series(kind=kind, subject=subject, values=values, cut=cut)


def _starts(report: Report) -> Iterator[Series]:
    for attempt in report.data.attempts or ():
        yield Series(
            kind=TIME_TO_RUNNING,
            subject=Subject(kind="job", job_name=attempt.job_name),
            values=_known_values([attempt.running_after_ms]),
        )


def _queues(report: Report) -> Iterator[Series]:
    """Yield the series of the worst subtask of each task, and the skew of the task."""
    for vertex in report.data.vertices or ():
        subject = Subject(kind="task", job_name=vertex.job_name, task=vertex.name)
        for kind, column in (
            (BUSY, "busy"),
            (BACK_PRESSURED, "back_pressured"),
            (SATURATED, "saturated_share"),
        ):
            readings = [
                (value, subtask.samples)
                for subtask in vertex.subtasks
                if (value := getattr(subtask, column)) is not None
            ]
            if readings:
                value, samples = max(readings)
                yield Series(
                    kind=kind, subject=subject, values=(min(float(value), 1.0),), samples=samples
                )
        if vertex.subtasks and min(subtask.samples for subtask in vertex.subtasks) >= _SETTLED:
            yield Series(kind=SKEW, subject=subject, values=_known_values([vertex.skew]))


def _batches(report: Report) -> Iterator[Series]:
    """Yield the series of DStreams. Running batches have no delays."""
    for app in report.data.applications or ():
        subject = Subject(kind="application", job_name=app.name)
        batches = sorted(app.batches, key=lambda batch: batch.batch_time_ms)
        cut = len(app.batches) < app.total.batches
        seconds = (app.batch_interval_ms or 0) / 1000
        rates = [
            batch.records / seconds for batch in batches if batch.records is not None and seconds
        ]
        ended = [batch for batch in batches if batch.status == "completed"]
        for kind, values in (
            (PROCESSING, _known_values(batch.processing_delay_ms for batch in ended)),
            (SCHEDULING, _known_values(batch.scheduling_delay_ms for batch in ended)),
            (INPUT_RATE, _known_values(rates)),
            (FAILED_BATCHES, tuple(float(batch.failed_outputs > 0) for batch in ended)),
        ):
            yield Series(kind=kind, subject=subject, values=values, cut=cut)
        yield from _rate_limits(app)


def _rate_limits(app: RateApplication) -> Iterator[Series]:
    """Yield the rates that the PID estimator publishes for each stream."""
    limits: defaultdict[int, list[float]] = defaultdict(list)
    for step in sorted(app.pid, key=lambda step: step.time_ms):
        if step.new_rate is not None:
            limits[step.stream_id].append(step.new_rate)
    for stream, found in sorted(limits.items()):
        subject = Subject(kind="stream", job_name=app.name, stream_id=stream)
        cut = len(app.pid) < app.total.pid
        yield Series(kind=PID_RATE, subject=subject, values=tuple(found), cut=cut)


def _queries(report: Report) -> Iterator[Series]:
    """Yield the series of Structured Streaming. In real-time mode, the duration of triggers is configured."""
    for app in report.data.applications or ():
        for query in app.queries:
            subject = Subject(kind="query", job_name=app.name, query=query.name)
            triggers = sorted(
                query.triggers,
                key=lambda trigger: (trigger.started_at or "", trigger.batch_id or 0),
            )
            busy = [trigger for trigger in triggers if trigger.rows]  # other triggers have no data
            for kind, values in (
                (
                    TRIGGER,
                    ()
                    if query.real_time
                    else _known_values(trigger.duration_ms for trigger in busy),
                ),
                (ROWS, _known_values(trigger.rows for trigger in busy)),
                (BACKLOG, _known_values(trigger.backlog for trigger in triggers)),
                (STATE_ROWS, _known_values(trigger.state_rows for trigger in busy)),
            ):
                yield Series(kind=kind, subject=subject, values=values, cut=app.truncated)


def _memory(report: Report) -> Iterator[Series]:
    """Yield one series per role, because the processes of a role are alike and their IDs change at each deployment."""
    pools: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    floors: defaultdict[str, list[float]] = defaultdict(list)
    for process in report.data.processes or ():
        for pool, size in {**process.derived, **process.observed}.items():
            pools[process.role, pool].append(size)
        usage = process.usage
        if usage is not None and usage.heap_max_bytes:
            floors[process.role] += [size / usage.heap_max_bytes for size in usage.floors_bytes]
    for (role, pool), sizes in sorted(pools.items()):
        subject = Subject(kind=role, option=pool)
        yield Series(kind=POOL, subject=subject, values=(float(median(sizes)),))
    for role, shares in sorted(floors.items()):
        subject = Subject(kind=role)
        yield Series(kind=HEAP_FLOOR, subject=subject, values=tuple(shares))


def pair_series(
    before: Mapping[Key, Series], after: Mapping[Key, Series]
) -> Sequence[tuple[Series | None, Series | None]]:
    """Pair the series of both sides, in the order of the first. A series without a counterpart is paired with None."""
    return [(before.get(key), after.get(key)) for key in dict.fromkeys([*before, *after])]
