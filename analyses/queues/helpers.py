"""All names that a rule of `flowdiag queues` needs, under one import."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from typing import Unpack

from msgspec.structs import replace

from flowdiag.analyses.flink import judging, settings
from flowdiag.analyses.flink.failures.episodes import steady_checkpoints
from flowdiag.analyses.flink.helpers import (
    explanation,
    measurement,
    remedies,
    shared_remedies,
    votes_for,
)
from flowdiag.analyses.flink.job import Checkpoint, JobFacts
from flowdiag.analyses.flink.tasks.placement import SubtaskKey
from flowdiag.analyses.flink.tasks.pressure import Load, by_task, median
from flowdiag.analyses.knowledge.explanations import text
from flowdiag.analyses.model import fmt
from flowdiag.analyses.model.finding import (
    Action,
    Confidence,
    Evidence,
    Finding,
    FindingFields,
    Inconclusive,
    Measurement,
    Rank,
    Severity,
    State,
    Subject,
    SubjectFields,
    cite,
    cite_part,
    grade,
    weigh,
)
from flowdiag.analyses.model.option_types import write
from flowdiag.analyses.model.rule import Limits, Results, Rule, limit
from flowdiag.analyses.model.signals import Signal
from flowdiag.analyses.neighbours.facts import StoreRecord
from flowdiag.analyses.neighbours.locks import LockedSessions, snapshots_limit
from flowdiag.analyses.queues.async_state import HELD_S, state_waits
from flowdiag.analyses.queues.facts import (
    Flow,
    FlowPoint,
    Gauge,
    JobQueues,
    Mark,
    Sample,
    TaskManagerSample,
    merge_gauges,
    time_span,
)
from flowdiag.analyses.queues.judging import (
    culprit_text,
    evidence_of,
    host_of,
    is_whole_task,
    serious_spells,
    service_subject,
    spell_finding,
    spells_of,
    state_at_end,
    subtask_subject,
    task_subject,
    taskmanager_subject,
    waiting_tasks,
)
from flowdiag.analyses.queues.limits import SourceLimits, TrendLimits
from flowdiag.analyses.queues.loads import (
    has_task_order,
    loads_in,
    most_samples,
    samples_in,
    task_windows,
)
from flowdiag.analyses.queues.movement import Silence, job_stall, silence_of
from flowdiag.analyses.queues.neighbours.blocked import blocked_sessions, class_of
from flowdiag.analyses.queues.neighbours.hidden import HiddenRecords, hidden_records
from flowdiag.analyses.queues.neighbours.lags import (
    Trend,
    active_loads,
    affected_checkpoints,
    group_trend,
    has_back_pressured_sources,
    hot_partition,
    hot_subtask,
    is_falling_behind,
    job_trend,
    lacks_partitions,
    lag_measurements,
    partitions_of_job,
    past_rise,
    pending_of,
    read_rate,
    sees_no_lag,
    silent_subtasks,
    trend_of,
    uneven_sources,
)
from flowdiag.analyses.queues.neighbours.outages import (
    BOOTSTRAP,
    broker_stopped,
    is_unanswered,
    is_wrongly_advertised,
    node_name,
    outage_s,
    server_name,
    spells_of_records,
    unanswered_since,
)
from flowdiag.analyses.queues.neighbours.resets import LossyReset, lossy_resets
from flowdiag.analyses.queues.proof import (
    GC_TIME,
    WAITING,
    evidence_in,
    gate_evidence,
    strongest_reports,
)
from flowdiag.analyses.queues.root import (
    Spell,
    awaits_barrier,
    find_spells,
    pressed_windows,
    subtask_name,
)
from flowdiag.analyses.queues.services import (
    KAFKA,
    fetch_throttle_delay,
    is_sink,
    service_name,
    slow_service,
    small_fetches,
    source_system,
    throttle_clause,
    waits_for_response,
)
from flowdiag.analyses.queues.stores import (
    ERRORS,
    FLUSHES,
    LIVE,
    SLOWED_FILES,
    STALLS,
    Store,
    by_operator,
    files_and_live,
    store_evidence,
    store_lines,
    stores_of_job,
)
from flowdiag.parsers.focus import Focus
from flowdiag.parsers.neighbours.sessions import POSTGRES


def job_finding(
    job: JobQueues, *, subject: Subject | None = None, **overrides: Unpack[FindingFields]
) -> Finding:
    """Return a finding about the flow of a job: by default an ongoing note.

    Args:
        job: the job that the finding is about.
        subject: the culprit; by default the job itself.
        overrides: other fields of `Finding`. The default explanation belongs to the cause.
    """
    defaults: FindingFields = {"severity": Severity.INFO, "state": State.ONGOING}
    if "explain" not in overrides:
        defaults["explain"] = explanation(overrides["cause"] or "")
    found = Finding(
        job=job.job.key,
        subject=subject or judging.job_subject(job.job),
        **(defaults | overrides),
    )
    setup = settings.setup_of(job.job)
    if not setup.forst:
        return found
    return dataclasses.replace(
        found,
        title=settings.named_store(found.title, setup),
        why=settings.named_store(found.why or "", setup),
        explain=settings.named_store(found.explain, setup),
    )


def subtask_finding(
    job: JobQueues, key: SubtaskKey, taskmanager: str | None, **overrides: Unpack[FindingFields]
) -> Finding:
    """Return a finding about a subtask and its TaskManager; `overrides` as in `job_finding`."""
    return job_finding(job, subject=subtask_subject(job, key, taskmanager), **overrides)


def task_finding(job: JobQueues, name: str, **overrides: Unpack[FindingFields]) -> Finding:
    """Return a finding about a whole vertex; `overrides` as in `job_finding`."""
    return job_finding(job, subject=task_subject(job, name), **overrides)


def store_finding(
    job: JobQueues,
    task: str,
    store: Store,
    text: str,
    *names: str,
    **overrides: Unpack[FindingFields],
) -> Finding:
    """Return a finding about the state store of a task: by default a warning at the end of the store's samples.

    Args:
        job: the job that the finding is about.
        task: the task.
        store: the store whose samples give the times and the evidence.
        text: title and reason.
        names: the metrics of the evidence.
        overrides: as in `job_finding`.
    """
    defaults: FindingFields = {
        "severity": Severity.WARNING,
        "title": text,
        "why": text,
        "confidence": Confidence.MEDIUM,
        "rank": Rank.ROOT_CAUSE,
        "first_us": store.points[0].time_us,
        "last_us": store.points[-1].until_us,
        "evidence": cite([(store_evidence(store, name), None) for name in names]),
    }
    return task_finding(job, task, **(defaults | overrides))


def taskmanager_finding(job: JobQueues, name: str, **overrides: Unpack[FindingFields]) -> Finding:
    """Return a finding about a TaskManager; `overrides` as in `job_finding`."""
    return job_finding(job, subject=taskmanager_subject(job, name), **overrides)


def place_of(job: JobQueues, taskmanager: str) -> str:
    """Return the name of a TaskManager with its host, for reports."""
    return fmt.place(taskmanager, host_of(job, taskmanager))


def merged_gauge(reports: Iterable[Sample | TaskManagerSample], name: str) -> Gauge | None:
    """Return a gauge over several reports, or None if no report contains it."""
    return merge_gauges(report.gauges.get(name) for report in reports)


def records_of(
    reports: Sequence[Sample | TaskManagerSample], *gauges: str, key: SubtaskKey | None = None
) -> tuple[Evidence, ...]:
    """Return the lines of the reports of a subtask or a TaskManager, as evidence.

    Args:
        reports: the reports, in order.
        gauges: names of `measure.GAUGES`; the first gauge that a report contains is its evidence.
        key: the subtask; None for reports of TaskManagers.
    """
    return cite((evidence_in(report, gauges, key), report.first_us) for report in reports)


def with_partition(subject: Subject, partition: str | None) -> Subject:
    """Add the partition that a subject reads to the subject."""
    return replace(subject, partition=partition)


def waits_for_database(job: JobQueues, task: str) -> bool:
    """Return whether a task only waits for a database lock. `database-lock` then names the holder."""
    return blocked_sessions(job) is not None and is_sink(job, task)


def slows_down(job: JobQueues, task: str) -> bool:
    """Return whether back pressure starts at a task, or all its subtasks are busy."""
    loads = [load for load in loads_in(job).values() if load.key.task == task]
    return any(spell.task == task for spell in find_spells(job)) or (
        bool(loads) and all(load.is_working for load in loads)
    )


def store_measurements(stores: Sequence[Store], *names: tuple[str, str]) -> Iterator[Measurement]:
    """Yield the last values of these metrics, with their units, from the first store."""
    for name, unit in names if stores else ():
        if (value := stores[0].latest(name)) is not None:
            yield measurement(name, value, unit, over="of the subtask that waits longest")


def backend(job: JobFacts) -> str | None:
    """Return `heap` or `rocksdb` (also for ForSt), from the configuration or from REST, or None if unknown."""
    return settings.setup_of(job).backend


def setting(job: JobQueues, key: str) -> str | None:
    """Return the value of an option, or None if no input shows it."""
    found = settings.setting(job.job, settings.key_in_store(key, settings.setup_of(job.job)) or key)
    return None if found is None else found.value


def pressing_sinks(job: JobQueues) -> list[str]:
    """Return the sinks at which back pressure starts."""
    return [spell.task for spell in find_spells(job) if is_sink(job, spell.task)]


def mark_evidence(mark: Mark | None, until_us: int) -> Evidence | None:
    """Return the line with the last value of an event-time gauge."""
    if mark is None:
        return None
    point = mark.points[-1]
    owner = mark.key.task if mark.operator is None else mark.operator
    focus = Focus(
        metrics=((mark.name, point.last),),
        task=owner,
        subtask_index=mark.key.subtask_index,
        until_us=until_us,
    )
    return Evidence(*point.ref, point.time_us, focus)


def flow_evidence(point: FlowPoint, flow: Flow) -> Evidence | None:
    """Return the line with a counter of an operator."""
    return cite_part(point.ref, Focus(metrics=((flow.name, None),), until_us=point.until_us))


def taskmanager_of(job: JobQueues, key: SubtaskKey) -> str | None:
    """Return the TaskManager of a subtask in its last sample."""
    return next((s.taskmanager for s in reversed(job.samples.get(key, ())) if s.taskmanager), None)


def has_finished(job: JobQueues) -> bool:
    """Return whether the job reached the end of its input, or failed without a restart."""
    return any(i.kind == "finished" for i in job.job.incidents) or judging.job_failed(job.job)


def tasks_wait(job: JobQueues) -> bool:
    """Return whether any subtask, according to its metrics, waits most of the time."""
    return any(load.waits and load.wait_measured for load in loads_in(job).values())


def works_or_waits(job: JobQueues) -> bool:
    """Return whether any subtask works or waits most of the time."""
    return any(
        load.is_working or (load.waits and load.wait_measured) for load in loads_in(job).values()
    )


def has_ended(job: JobQueues) -> bool:
    """Return whether the job was canceled, finished, or failed without a restart."""
    return any(
        i.kind in ("cancelled", "finished") for i in job.job.incidents
    ) or judging.job_failed(job.job)
