"""What of a report's tables is compared: one entry for each quantity, with what a difference must be to matter.

A smaller change is none, however sure: two runs of the same healthy job differ by a factor of 1.7 in processing time
(docs/compare.md). Sizes, rates and settings have no bad direction by themselves.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Final

from flowdiag.analyses.report.wire import Report, Subject

FACTOR: Final = 2.0
"""Durations, delays and rates that differ by less are the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A quantity.

    Args:
        name: kebab-case, the `name` of the measure.
        unit: as that of measurements of findings.
        worse_up: whether more of it is worse; else neither is.
        factor: whether the factor that the user wants decides whether a difference matters.
        least: difference below which none matters, in the unit.
        exact: it is configured or derived, and not sampled: every difference above `least` is one.
    """

    name: str
    unit: str
    worse_up: bool = False
    factor: bool = False
    least: float = 0.0
    exact: bool = False

    @property
    def middle(self) -> Callable[[Sequence[float]], float]:
        """What stands for many values: the median; of yes and no, and of shares, the mean."""
        return fmean if self.unit == "share" else median


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """What one side measured of one quantity of one subject.

    Args:
        kind: what.
        subject: of whom.
        values: in order of time; a single one for shares and exact quantities.
        samples: how many a share is the mean of.
        cut: whether `--max-rows` left some out, the healthy ones first.
    """

    kind: Kind
    subject: Subject
    values: tuple[float, ...]
    samples: int | None = None
    cut: bool = False

    @property
    def middle(self) -> float | None:
        """What stands for all of it; None: there is nothing."""
        return self.kind.middle(self.values) if self.values else None


_SETTLED: Final = 10
"""Samples of every subtask from which on its records are those of a running job, and not of a restart."""


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
    """Everything that a report measured, by what it is and whose.

    Args:
        report: of any command.
        one_job: its only job is compared with the only one of another report, whatever they are called.
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
        key = _key(each, one_job=one_job)
        before = found.get(key)
        # A job that was deployed anew within the input goes on.
        found[key] = each if before is None else _joined(before, each)
    return found


def _key(series: Series, *, one_job: bool) -> Key:
    subject = series.subject
    job = None if one_job else subject.job_name
    rest = subject.task, subject.stream_id, subject.query or subject.option
    return (series.kind.name, subject.kind, job, *rest)


def _joined(first: Series, second: Series) -> Series:
    if first.samples is not None or first.kind.exact:
        return max((first, second), key=lambda one: one.values)
    return Series(
        kind=first.kind,
        subject=first.subject,
        values=first.values + second.values,
        cut=first.cut or second.cut,
    )


def _known(values: Iterable[float | None]) -> tuple[float, ...]:
    return tuple(float(value) for value in values if value is not None)


def _checkpoints(report: Report) -> Iterator[Series]:
    """Of checkpoints, not savepoints; an expired one lasted at least as long as it was waited for."""
    for job in report.data.jobs or ():
        subject = Subject(kind="job", job_name=job.name)
        own = sorted(
            (one for one in job.checkpoints if one.type == "checkpoint"),
            key=lambda one: (one.run, one.id),
        )
        cut = len(job.checkpoints) < job.total.checkpoints
        ended = [one for one in own if one.status != "in_flight"]
        lasted = [one.duration_ms for one in ended if one.status in ("completed", "expired")]
        sizes = [one.bytes for one in ended if one.status == "completed"]
        failed = [float(one.status != "completed") for one in ended if one.status != "aborted"]
        for kind, values in (
            (CHECKPOINT_DURATION, _known(lasted)),
            (CHECKPOINT_SIZE, _known(sizes)),
            (UNSUCCESSFUL, tuple(failed)),
        ):
            yield Series(kind=kind, subject=subject, values=values, cut=cut)


def _starts(report: Report) -> Iterator[Series]:
    for attempt in report.data.attempts or ():
        yield Series(
            kind=TIME_TO_RUNNING,
            subject=Subject(kind="job", job_name=attempt.job_name),
            values=_known([attempt.running_after_ms]),
        )


def _queues(report: Report) -> Iterator[Series]:
    """Of the subtask with the most of it, as everywhere; skew is of the whole task."""
    for vertex in report.data.vertices or ():
        subject = Subject(kind="task", job_name=vertex.job_name, task=vertex.name)
        for kind, column in (
            (BUSY, "busy"),
            (BACK_PRESSURED, "back_pressured"),
            (SATURATED, "saturated_share"),
        ):
            told = [
                (value, subtask.samples)
                for subtask in vertex.subtasks
                if (value := getattr(subtask, column)) is not None
            ]
            if told:
                value, samples = max(told)
                yield Series(
                    kind=kind, subject=subject, values=(min(float(value), 1.0),), samples=samples
                )
        if vertex.subtasks and min(one.samples for one in vertex.subtasks) >= _SETTLED:
            yield Series(kind=SKEW, subject=subject, values=_known([vertex.skew]))


def _batches(report: Report) -> Iterator[Series]:
    """Of DStreams; batches that still run have no delays."""
    for app in report.data.applications or ():
        subject = Subject(kind="application", job_name=app.name)
        batches = sorted(app.batches, key=lambda one: one.batch_time_ms)
        cut = len(app.batches) < app.total.batches
        seconds = (app.batch_interval_ms or 0) / 1000
        rates = [one.records / seconds for one in batches if one.records is not None and seconds]
        ended = [one for one in batches if one.status == "completed"]
        for kind, values in (
            (PROCESSING, _known(one.processing_delay_ms for one in ended)),
            (SCHEDULING, _known(one.scheduling_delay_ms for one in ended)),
            (INPUT_RATE, _known(rates)),
            (FAILED_BATCHES, tuple(float(one.failed_outputs > 0) for one in ended)),
        ):
            yield Series(kind=kind, subject=subject, values=values, cut=cut)
        limits: defaultdict[int, list[float]] = defaultdict(list)
        for step in sorted(app.pid, key=lambda one: one.time_ms):
            if step.new_rate is not None:
                limits[step.stream_id].append(step.new_rate)
        for stream, found in sorted(limits.items()):
            one = Subject(kind="stream", job_name=app.name, stream_id=stream)
            cut = len(app.pid) < app.total.pid
            yield Series(kind=PID_RATE, subject=one, values=tuple(found), cut=cut)


def _queries(report: Report) -> Iterator[Series]:
    """Of Structured Streaming. In real-time mode a trigger lasts as long as it is told to."""
    for app in report.data.applications or ():
        for query in app.queries:
            subject = Subject(kind="query", job_name=app.name, query=query.name)
            triggers = sorted(
                query.triggers, key=lambda one: (one.started_at or "", one.batch_id or 0)
            )
            busy = [one for one in triggers if one.rows]  # the others find nothing to do
            for kind, values in (
                (TRIGGER, () if query.real_time else _known(one.duration_ms for one in busy)),
                (ROWS, _known(one.rows for one in busy)),
                (BACKLOG, _known(one.backlog for one in triggers)),
                (STATE_ROWS, _known(one.state_rows for one in busy)),
            ):
                yield Series(kind=kind, subject=subject, values=values, cut=app.truncated)


def _memory(report: Report) -> Iterator[Series]:
    """Of the processes of a role together: they are alike, and their ids change with every deployment."""
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


def paired(
    before: Mapping[Key, Series], after: Mapping[Key, Series]
) -> Sequence[tuple[Series | None, Series | None]]:
    """What both sides measured of the same, and what only one did, in the order of the first."""
    return [(before.get(key), after.get(key)) for key in dict.fromkeys([*before, *after])]
