"""All that a rule of `flowdiag queues` needs, under one import."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from flowdiag.analyses.flink import judging
from flowdiag.analyses.flink.helpers import explanation, measurement, remedies, votes_for
from flowdiag.analyses.flink.placement import SubtaskKey
from flowdiag.analyses.flink.pressure import Load, by_task, median
from flowdiag.analyses.knowledge.option_types import write
from flowdiag.analyses.model import fmt
from flowdiag.analyses.model.finding import (
    Action,
    Confidence,
    Evidence,
    Finding,
    Inconclusive,
    Measurement,
    Rank,
    Severity,
    State,
    Subject,
    cite,
    focused,
    weigh,
)
from flowdiag.analyses.model.rule import Limits, Rule, Signal, limit
from flowdiag.analyses.queues.facts import GateQueue, JobQueues, Machine, Sample, joined
from flowdiag.analyses.queues.judging import (
    host_of,
    machine,
    serious,
    subtask,
    task,
    waiting_tasks,
    who,
)
from flowdiag.analyses.queues.proof import GC_TIME, WAITING, strongest, told_in
from flowdiag.analyses.queues.root import (
    awaits_barrier,
    ends,
    find_spells,
    linked,
    loads_in,
    most_samples,
    pressed_windows,
    sampled,
    samples_in,
    subtask_name,
)
from flowdiag.parsers.focus import Focus


def job_finding(job: JobQueues, *, subject: Subject | None = None, **said: Any) -> Finding:
    """A finding about the flow of a job: a remark, for as long as it runs.

    Args:
        job: whose verdict counts it.
        subject: who it is about; None: the job itself.
        said: the other fields of `Finding`; they win. Without `explain` the cause explains itself.
    """
    usual: dict[str, Any] = {"severity": Severity.INFO, "state": State.ONGOING}
    if "explain" not in said:
        usual["explain"] = explanation(said["cause"])
    return Finding(
        job=job.job.key, subject=subject or judging.job_subject(job.job), **(usual | said)
    )


def subtask_finding(
    job: JobQueues, key: SubtaskKey, taskmanager: str | None, **said: Any
) -> Finding:
    """A finding about a subtask and where it runs; `said` as in `job_finding`."""
    return job_finding(job, subject=subtask(job, key, taskmanager), **said)


def task_finding(job: JobQueues, name: str, **said: Any) -> Finding:
    """A finding about a whole vertex; `said` as in `job_finding`."""
    return job_finding(job, subject=task(job, name), **said)


def taskmanager_finding(job: JobQueues, name: str, **said: Any) -> Finding:
    """A finding about a TaskManager; `said` as in `job_finding`."""
    return job_finding(job, subject=machine(job, name), **said)


def place_of(job: JobQueues, taskmanager: str) -> str:
    """A TaskManager, for people."""
    return fmt.place(taskmanager, host_of(job, taskmanager))


def records_of(
    reports: Sequence[Sample | Machine], *gauges: str, key: SubtaskKey | None = None
) -> tuple[Evidence, ...]:
    """Where the reports of a subtask or of a TaskManager are written.

    Args:
        reports: in order.
        gauges: by the names of `measure.GAUGES`; the first that is reported is what proves something.
        key: of the subtask; None: they are of TaskManagers.
    """
    return cite((told_in(report, gauges, key), report.first_us) for report in reports)


def tasks_wait(job: JobQueues) -> bool:
    """Whether any subtask is measured to wait most of the time."""
    return any(load.waits and load.wait_measured for load in loads_in(job).values())
