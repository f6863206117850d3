"""Everything that the rules of `flowdiag memory` need, available through one import."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Unpack

from flowdiag.analyses.flink.advice.memory_processes import (
    TASKMANAGER,
    UNKNOWN,
    process_of_pod,
    spark_process,
)
from flowdiag.analyses.flink.helpers import explanation, measurement, votes_for
from flowdiag.analyses.flink.job import UNKNOWN_JOB, Incident, JobFacts
from flowdiag.analyses.knowledge.causes import CAUSES
from flowdiag.analyses.memory import model
from flowdiag.analyses.memory.facts import (
    BufferNeeds,
    ConfigFile,
    Kill,
    MemoryFacts,
    MemoryProcess,
    Usage,
    has_recovered,
    lost_at,
    times_of,
)
from flowdiag.analyses.model import fmt
from flowdiag.analyses.model.finding import (
    Action,
    Change,
    Confidence,
    CurrentValue,
    Evidence,
    Finding,
    FindingFields,
    Measurement,
    Rank,
    Severity,
    State,
    Subject,
    cite,
    weigh,
)
from flowdiag.analyses.model.keys import Ref
from flowdiag.analyses.model.option_types import Value, accepted, shown, write
from flowdiag.analyses.model.rule import Limits, Rule, limit
from flowdiag.analyses.model.signals import Signal
from flowdiag.parsers.units import version_of


def process_finding(process: MemoryProcess | None, **overrides: Unpack[FindingFields]) -> Finding:
    """Return a finding about the memory of a process, by default an ongoing warning.

    Args:
        process: None if no particular process is affected.
        overrides: other fields of `Finding`. The explanation defaults to that of the cause.
    """
    subject = Subject(kind="process")
    if process is not None and process.role in ("jobmanager", "unknown"):
        subject = Subject(kind="process", host=process.host)
    elif process is not None:
        subject = Subject(kind="taskmanager", taskmanager=process.taskmanager, host=process.host)
    return _finding(None, subject, overrides)


def place_finding(
    job: JobFacts | None,
    taskmanager: str | None,
    host: str | None,
    *,
    otherwise: str = "process",
    **overrides: Unpack[FindingFields],
) -> Finding:
    """Return a finding about the tasks that a job runs on a TaskManager.

    Args:
        job: the job whose verdict includes the finding, if known.
        taskmanager, host: the place.
        otherwise: kind of subject if no TaskManager is named.
        overrides: as in `process_finding`.
    """
    subject = Subject(
        kind="taskmanager" if taskmanager else otherwise,
        job_id=(job.key.job_id or None) if job else None,
        job_name=job.name if job else None,
        taskmanager=taskmanager,
        host=host,
    )
    return _finding(job, subject, overrides)


def _finding(job: JobFacts | None, subject: Subject, overrides: FindingFields) -> Finding:
    defaults: FindingFields = {"severity": Severity.WARNING, "state": State.ONGOING}
    if "explain" not in overrides:
        defaults["explain"] = explanation(overrides["cause"] or "")
    return Finding(job=job.key if job else None, subject=subject, **(defaults | overrides))


def runs_master(pod: str | None) -> bool:
    """Return whether a pod or container name belongs to a JobManager or application master.

    >>> runs_master("orders-jobmanager-0"), runs_master("container_1700000000000_0001_01_000002")
    (True, False)
    """
    return process_of_pod(pod).what not in (TASKMANAGER.what, UNKNOWN.what)


def spark_loss(pod: str | None) -> str | None:
    """Return the cause if a Spark process ended in this pod, or None for other pods."""
    return {"driver": "driver-killed", "executor": "executor-lost"}.get(spark_process(pod) or "")


def is_taskmanager(pod: str) -> bool:
    """Return whether a pod or container name belongs to a TaskManager."""
    return "taskmanager" in pod or (pod.startswith("container_") and not runs_master(pod))


def process_text(process: MemoryProcess) -> str:
    """Return the name of a process, for use in a sentence.

    >>> process_text(MemoryProcess(role="taskmanager"))
    'a TaskManager'
    """
    if process.role == "jobmanager":
        return "the JobManager"
    if process.role == "unknown":
        return "a process"
    if process.taskmanager or process.host:
        return f"TaskManager {fmt.place(process.taskmanager, process.host)}"
    return "a TaskManager"


def remedy_action(
    cause: str,
    name: str,
    *,
    option: str | None = None,
    current: str | None = None,
    proposed: Value | None = None,
    version: str | None = None,
    together: Mapping[str, Value] | None = None,
    configured: Mapping[str, str] | None = None,
    **fill: str,
) -> Action:
    """Return a remedy of a cause with the given option values.

    Args:
        cause, name: keys of `causes.CAUSES` and of the cause's remedies.
        option, current, proposed: the option to set, its current value and the value to try.
        version: Flink's version.
        together: further options to set.
        configured: current values of all options.
        fill: values for the placeholders in braces.
    """
    remedy = CAUSES[cause].remedy(name)
    seen = version_of(version)
    value = proposed if proposed is not None else remedy.proposed
    setting = write(option, value, seen) if option is not None and value is not None else None
    return Action(
        text=remedy.text.format(**fill) if fill else remedy.text,
        option=option,
        current=current_value(option, current, version),
        proposed=setting,
        unset=remedy.unset,
        measure=None if setting else remedy.measure,
        together=changes(together or {}, configured or {}, version),
        risk=remedy.risk,
        restart_needed=remedy.restart_needed,
        verify=remedy.verify,
        command=remedy.command,
    )


def current_value(
    option: str | None, text: str | None, version: str | None = None
) -> CurrentValue | None:
    """Return an option's configured value, or None if it is not configured."""
    return CurrentValue(shown(option, text, version_of(version))) if text is not None else None


def changes(
    options: Mapping[str, Value], configured: Mapping[str, str], version: str | None = None
) -> tuple[Change, ...]:
    """Return options to set together with another option.

    Args:
        options: option values to try.
        configured: current values of all options.
        version: Flink's version.
    """
    return tuple(
        Change(
            option=key,
            proposed=write(key, value, version_of(version)),
            current=current_value(key, configured.get(key), version),
        )
        for key, value in options.items()
    )
