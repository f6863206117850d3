"""Collects the failures that no rule with a known cause reports."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from flowdiag.analyses.flink import helpers as h
from flowdiag.analyses.flink.failures.crises import FATAL, SHUTDOWN_US, Crisis
from flowdiag.analyses.flink.failures.process_exits import exits_of
from flowdiag.analyses.flink.job import Incident
from flowdiag.analyses.knowledge.unknown_failures import (
    FailureGroup,
    Occurrence,
    failure_groups,
)
from flowdiag.parsers.components import component_of, components
from flowdiag.parsers.exceptions import classify, is_root_cause
from flowdiag.parsers.flink.failures import failure_kind, is_consequence
from flowdiag.parsers.lines.failure_lines import ended_by, is_routine

_NUMBERS: Final = re.compile(r"\d+")
OUTLIVED_US: Final = 10_000_000
"""Minimum time from a handled failure to the end of the log. A task that fails logs it within a second."""


_AGAIN: Final = 20  # minimum number of equal exceptions that show that tasks run on


def is_failure(one: Incident) -> bool:
    """Return whether an incident is a failure of the job or a process, rather than a failed request or election."""
    failed = one.kind in _FAILURES or "exception" in one.text
    return failed and bool(one.cause) and not is_routine((one.cause or "",))


def restarts_of(incidents: Sequence[Incident]) -> list[Incident]:
    """Return the job restarts after failures. A rescale restarts the job through other states.

    TaskManagers that stop shortly before their JobManager cause a restart, too.
    """
    stops = [one.time_us for one in incidents if _is_stop_of_jobmanager(one) and one.time_us]
    return [
        one
        for one in incidents
        if one.kind == _RESTART
        and not any(0 <= stop - (one.time_us or 0) <= SHUTDOWN_US for stop in stops)
    ]


def _is_stop_of_jobmanager(one: Incident) -> bool:
    text = one.text
    return text.get("template") == "signal-received" and text.get("role") == "jobmanager"


def open_errors(jobs: Sequence[h.JobFacts], incidents: Sequence[Incident]) -> list[Incident]:
    """Return the exceptions logged at ERROR after which the input does not show that a job continued or ended.

    If the job continued after an earlier one with the same text, the code handles it.
    """
    changes = [one.time_us for one in incidents if one.kind in _LIFE and one.time_us is not None]
    last = max(changes, default=0)
    errors = [one for one in incidents if _is_logged_error(one)]
    outlived = {_wording(one) for one in errors if _is_outlived(one, jobs, last)}
    return [one for one in errors if _wording(one) not in outlived]


def _is_outlived(one: Incident, jobs: Sequence[h.JobFacts], last_us: int) -> bool:
    """Return whether a job changed its state or completed a checkpoint after an error."""
    return (one.time_us or 0) <= last_us or any(
        isinstance(job, h.Job) and job.completed_after(one.time_us) for job in jobs
    )


def _is_logged_error(one: Incident) -> bool:
    grave = "exception" in one.text and one.text.get("level") in ("ERROR", "FATAL")
    return grave and _is_candidate(one) and is_failure(one)


def _wording(one: Incident) -> str:
    """Return the exception of an incident without numbers, which differ from record to record."""
    return _NUMBERS.sub("#", one.cause or "")


def failures_of_rest(
    jobs: Sequence[h.JobFacts], unassigned: Sequence[Incident]
) -> Sequence[Incident]:
    """Return the failures of all jobs and those of unknown jobs, for an input in which no other rule finds anything."""
    incidents = [one for job in jobs for one in job.incidents]
    incidents += [one for one in unassigned if one not in incidents]
    if any(shows_life(job) for job in jobs):
        failures = open_errors(jobs, incidents)
    else:
        failures = [one for one in incidents if is_failure(one)] or restarts_of(incidents)
    return [one for one in failures if one.kind != "repeated-failure"] or failures


def handled_spans(facts: h.ClusterFacts) -> dict[int, tuple[int, int]]:
    """Return, by TaskManager log, the period in which its tasks must have handled any logged failure.

    Tasks ran, none failed, and the log continues. A task that throws an exception logs immediately that it failed. Without
    the start of a task, an exception that is logged repeatedly shows that tasks ran.
    """
    jobs = [job for job in h.jobs_of(facts) if isinstance(job, h.Job)]
    deployed = [each.deployed_us for job in jobs for each in job.attempts if each.deployed_us]
    began = deployed or _repeated_us(one for job in jobs for one in job.incidents)
    if not began or any(job.crises for job in jobs):
        return {}
    return {
        process.source: (min(began) - 1, process.last_us - OUTLIVED_US)
        for process in facts.processes
        if process.last_us is not None
    }


def _repeated_us(incidents: Iterable[Incident]) -> list[int]:
    """Return the times of exceptions that were logged at least `_AGAIN` times, for at least ten seconds."""
    times: defaultdict[str, list[int]] = defaultdict(list)
    for one in incidents:
        if one.kind == "failure" and one.time_us is not None and "own_frame" in one.text:
            times[_wording(one)].append(one.time_us)
    several = (us for us in times.values() if len(us) >= _AGAIN)
    return [time for us in several if max(us) - min(us) >= OUTLIVED_US for time in us]


def failures_of(job: h.Job, before_s: float) -> list[Incident]:
    """Return the failures of a job that no other rule explains.

    Args:
        job: a job or a fragment of one.
        before_s: the longest time from a failure to the failure of the task or job that it caused.
    """
    if shows_work(job):
        return _failures_of_work(job, before_s)
    found = failures_of_fragment(job, job.crises, job.incidents)
    if not job.crises:
        return found
    own = [i for i in found if i.kind != "failure" or _precedes_failure(job, i, before_s)]
    return own or [one for one in job.incidents if _has_separate_cause(job, one)]


def _failures_of_work(job: h.Job, before_s: float) -> list[Incident]:
    """Return the fatal errors of processes that CP302 does not report, and the failures that ended a task or the job."""
    found = [one for one in job.incidents if _is_candidate(one) and not _is_warning(one)]
    exits = [each.error for each in exits_of(job.cluster)]
    return [
        one
        for one in found
        if one not in exits
        and (one.kind == "process-stopped" or _precedes_failure(job, one, before_s))
    ]


def failures_of_fragment(
    job: h.JobFacts, crises: Sequence[Crisis], incidents: Sequence[Incident]
) -> list[Incident]:
    """Return the failures in a fragment. Without any, return the last process that ended with an error."""
    found = [
        one
        for one in incidents
        if _is_candidate(one)
        or _has_own_cause(crises, one)
        or (one.kind in _SNAPSHOTS and not (job.checkpoints or job.declines))
    ]
    return found or [one for one in incidents if not crises and _stop(one)][-1:]


def groups_of(
    found: list[Incident],
    incidents: tuple[Incident, ...],
    handled: Mapping[int, tuple[int, int]] = MappingProxyType({}),
) -> list[FailureGroup]:
    """Group the failures that no other incident reports. `handled` is as for `occurrence_of`."""
    reported = [
        text
        for incident in incidents
        if incident not in found and not _is_candidate(incident)
        for text in (incident.cause, incident.text.get("exception"))
        if text
    ]
    return failure_groups((occurrence_of(one, handled) for one in found), reported)


def occurrence_of(
    incident: Incident, handled: Mapping[int, tuple[int, int]] = MappingProxyType({})
) -> Occurrence:
    """Return a failure with its texts. `handled` are the times in which tasks handled failures (`handled_spans`)."""
    text = dict(incident.text)
    if incident.kind in _SURVIVABLE and _is_within(incident, handled):
        text["survived"] = "tasks"
    if incident.kind == "process-stopped":
        named = f"{text.get('role')} {text.get('component')} {text.get('template')}"
        of_task = re.search("(?i)task(?:manager|executor|-)", named) is not None
        of_cluster = text.get("template") == "fatal-cluster-error" and not of_task
        ended = "jobmanager" if of_cluster else ended_by((text.get("exception", ""),))
        text["ended"] = ended or "process"
        text.setdefault("process", "flink-taskmanager" if of_task else "flink-jobmanager")
    elif incident.kind in _PROCESSES:
        text.setdefault("process", _PROCESSES[incident.kind])
    text |= _class_of(incident)
    if incident.task is not None:
        text["named"] = "task"
    if is_consequence(incident.cause or ""):
        text["follows"] = "yes"
    if text.get("component") not in components():  # fatal errors name a part of Flink there
        text["component"] = _component(incident)
    return Occurrence(
        failure=_failure(incident),
        text=text,
        time_us=incident.time_us,
        ref=incident.ref,
        place=h.subtask_name(incident) if incident.task is not None else incident.taskmanager,
    )


def _is_within(incident: Incident, spans: Mapping[int, tuple[int, int]]) -> bool:
    """Return whether an incident lies in the time span of its source."""
    if incident.ref is None or incident.time_us is None or incident.ref.source not in spans:
        return False
    after_us, until_us = spans[incident.ref.source]
    return after_us < incident.time_us <= until_us


def _class_of(incident: Incident) -> dict[str, str]:
    """Return the exception class in the text of a failure. Rows of pasted exceptions already contain their class."""
    if "class" in incident.text or (incident.kind == "failure" and "exception" in incident.text):
        return {}
    known = classify([incident.text.get("exception", ""), incident.cause or ""], "flink")
    return {} if known is None else {"class": known.name}


def _component(incident: Incident) -> str:
    """Return the name of the software outside Flink that threw an exception, or an empty string."""
    source = component_of([incident.text.get("exception", ""), incident.cause or ""])
    return source.name if source is not None and source.role == "part" else ""


def _failure(incident: Incident) -> str:
    """Return the deepest exception of an incident, or the message of its record."""
    text = incident.text
    if incident.kind == "process-stopped" and text.get("template") not in FATAL:
        return _stop_with_cause(_stop(incident) or "", incident.cause or "")
    found = incident.cause or text.get("exception")
    if found is None and incident.kind == _RESTART:
        return "The job restarted after a failure that is not in the input"
    if found is None and incident.kind in _SNAPSHOTS:
        reason = text.get("reason", "")
        number = "" if incident.checkpoint is None else f" of checkpoint {incident.checkpoint}"
        return f"The snapshot{number} failed{': ' * bool(reason)}{reason}"
    return found or _stop(incident) or text.get("message", "")


def _stop_with_cause(stop: str, cause: str) -> str:
    """Return why a process ended, followed by how it ended. Flink prints `null` for no cause.

    >>> _stop_with_cause("Entrypoint ended", "null."), _stop_with_cause("Entrypoint ended", "no lock")
    ('Entrypoint ended', 'no lock (Entrypoint ended)')
    """
    known = bool(cause) and cause.rstrip(".") != "null"
    return f"{cause} ({stop})" if stop and known and stop not in cause else stop


def _stop(incident: Incident) -> str | None:
    """Return how a process ended, if it ended with an error."""
    text, template = incident.text, incident.text.get("template")
    if incident.kind != "process-stopped":
        return None
    if template in FATAL:
        place = text.get("component") or f"thread {text.get('name', 'unknown')}"
        return f"Fatal error in {place.removeprefix('in ')}; the input contains no exception for it"
    if text.get("status") == "FAILED":
        return f"{text.get('component', 'A process')} ended with the status FAILED"
    code = text.get("exit_code", "0")
    if code in _ORDINARY_EXITS:
        return None
    return f"{text.get('component', 'TaskManagerRunner')} ended with exit code {code}"


_PROCESSES: Final = {
    "task-failure": "flink-taskmanager",
    **dict.fromkeys(
        ("worker", "leadership", "not-triggered", "coordinator-stopped"), "flink-jobmanager"
    ),
}
_RESTART: Final = "job-restarting"
_SURVIVABLE: Final = ("failure", "commit-failed")  # kinds that do not show what failed with them
_SNAPSHOTS: Final = ("snapshot-failed", "async-failure")
_ORDINARY_EXITS: Final = ("0", "143", "1445")  # session clusters exit with 1445 after a normal stop
_FAILURES: Final = frozenset(
    {"failure", "repeated-failure", "exception", "task-failure", "job-failure", "job-failing", "taskmanager-lost", "worker-lost", "external-failure"}
    | {"out-of-memory", "network-buffers", "no-resource", "task-stuck", *_SNAPSHOTS}
)  # fmt: skip


def _is_candidate(incident: Incident) -> bool:
    """Return whether an incident is an independent failure, not the consequence of another one."""
    if incident.kind == "process-stopped":
        return incident.text.get("template") in FATAL and bool(incident.cause)
    if incident.kind != "failure":
        return False
    text = f"{incident.text.get('exception', '')}\n{incident.cause or ''}"
    return failure_kind(text) != "cancelled" and not is_consequence(text)


def _has_own_cause(crises: Sequence[Crisis], incident: Incident) -> bool:
    """Return whether an exception needs its own explanation although no crisis starts with it."""
    return (
        incident.kind == "exception"
        and bool(crises)
        and all(crisis.root.incident is not incident for crisis in crises)
        and is_root_cause(incident.text.get("class", ""))
        and not is_consequence(incident.cause or "")
    )


def _has_separate_cause(job: h.Job, incident: Incident) -> bool:
    """Return whether an undated error has its own cause. In a console, it may belong to the next statement."""
    dated = incident.time_us or any(crisis.failures[0].time_us for crisis in job.crises)
    grave = incident.text.get("level") in ("ERROR", "FATAL")
    known = incident.kind == "failure" and "class" in incident.text
    return not dated and grave and known


def _is_warning(incident: Incident) -> bool:
    """Return whether the failure was logged below ERROR, because Flink retries or another rule reports the effect."""
    return incident.kind == "failure" and incident.text.get("level") in ("WARN", "INFO", "DEBUG")


def shows_work(job: h.JobFacts) -> bool:
    """Return whether the input shows the job running, so that its outcome is known."""
    return any(attempt.deployed_us is not None for attempt in job.attempts) or shows_life(job)


def shows_life(job: h.JobFacts) -> bool:
    """Return whether the input shows that the job ran. Attempts alone do not, because all of them may have failed."""
    return bool(job.checkpoints) or any(one.kind in _LIFE for one in job.incidents)


_LIFE: Final = frozenset(
    {"started", "job-running", "finished", "cancelled", "restored", "suspended"}
)


def _precedes_failure(job: h.Job, one: Incident, before_s: float) -> bool:
    """Return whether a task or the job failed soon after this failure."""
    for crisis in job.crises:
        began, at = crisis.failures[0].time_us, one.time_us
        if at is not None and began and 0 <= began - at <= before_s * 1_000_000:
            return True
        root = crisis.root.incident.ref
        if (
            (at is None or not began)
            and root is not None
            and one.ref is not None
            and one.ref <= root
        ):
            return True
    return False
