"""All that a rule of `flowdiag memory` needs, under one import."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from flowdiag.analyses.flink.helpers import explanation, measurement, votes_for
from flowdiag.analyses.flink.job import Incident, JobFacts
from flowdiag.analyses.flink.options import version_of
from flowdiag.analyses.knowledge.causes import CAUSES
from flowdiag.analyses.knowledge.option_types import Value, accepted, shown, write
from flowdiag.analyses.memory import model
from flowdiag.analyses.memory.facts import (
    BufferNeeds,
    ConfigFile,
    Kill,
    MemoryFacts,
    MemoryProcess,
    Usage,
)
from flowdiag.analyses.model import fmt
from flowdiag.analyses.model.finding import (
    Action,
    Change,
    Confidence,
    Evidence,
    Finding,
    Measurement,
    Present,
    Rank,
    Severity,
    State,
    Subject,
    cite,
    weigh,
)
from flowdiag.analyses.model.keys import Ref
from flowdiag.analyses.model.rule import Limits, Rule, Signal, limit


def of_process(process: MemoryProcess | None, **said: Any) -> Finding:
    """A finding about the memory of a process: a warning, for as long as it runs.

    Args:
        process: None: no process in particular.
        said: the other fields of `Finding`; they win. Without `explain` the cause explains itself.
    """
    return _finding(None, _subject(process), said)


def of_place(
    job: JobFacts | None,
    taskmanager: str | None,
    host: str | None,
    *,
    otherwise: str = "process",
    **said: Any,
) -> Finding:
    """A finding about what the tasks of a job met on a TaskManager.

    Args:
        job: whose verdict counts it, where it is known.
        taskmanager, host: where.
        otherwise: kind of the subject where no TaskManager is named.
        said: as in `of_process`.
    """
    subject = Subject(
        kind="taskmanager" if taskmanager else otherwise,
        job_id=(job.key.job_id or None) if job else None,
        job_name=job.name if job else None,
        taskmanager=taskmanager,
        host=host,
    )
    return _finding(job, subject, said)


def _finding(job: JobFacts | None, subject: Subject, said: dict[str, Any]) -> Finding:
    usual: dict[str, Any] = {"severity": Severity.WARNING, "state": State.ONGOING}
    if "explain" not in said:
        usual["explain"] = explanation(said["cause"])
    return Finding(job=job.key if job else None, subject=subject, **(usual | said))


def _subject(process: MemoryProcess | None) -> Subject:
    if process is None:
        return Subject(kind="process")
    if process.role == "jobmanager":
        return Subject(kind="process", host=process.host)
    return Subject(kind="taskmanager", taskmanager=process.taskmanager, host=process.host)


def process_text(process: MemoryProcess) -> str:
    """A process in a sentence.

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


def advised(
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
    """What to do about a cause, where the options are those of a process.

    Args:
        cause, name: a word of `causes.CAUSES`, and which of its remedies.
        option, current, proposed: the key to set, its value now and the value to try.
        version: of Flink.
        together: what has to be set with it.
        configured: values of all options now.
        fill: what stands for the names in braces.
    """
    remedy = CAUSES[cause].remedy(name)
    seen = version_of(version)
    value = proposed if proposed is not None else remedy.proposed
    wanted = write(option, value, seen) if option is not None and value is not None else None
    return Action(
        text=remedy.text.format(**fill) if fill else remedy.text,
        option=option,
        current=present(option, current, version),
        proposed=wanted,
        unset=remedy.unset,
        measure=None if wanted else remedy.measure,
        together=changes(together or {}, configured or {}, version),
        risk=remedy.risk,
        restart_needed=remedy.restart_needed,
        verify=remedy.verify,
        command=remedy.command,
    )


def present(option: str | None, text: str | None, version: str | None = None) -> Present | None:
    """The configured value of an option; None where it is not configured."""
    return Present(shown(option, text, version_of(version))) if text is not None else None


def changes(
    options: Mapping[str, Value], configured: Mapping[str, str], version: str | None = None
) -> tuple[Change, ...]:
    """Options that have to be set together with another one.

    Args:
        options: with the values to try.
        configured: values of all options now.
        version: of Flink.
    """
    return tuple(
        Change(
            option=key,
            proposed=write(key, value, version_of(version)),
            current=present(key, configured.get(key), version),
        )
        for key, value in options.items()
    )
