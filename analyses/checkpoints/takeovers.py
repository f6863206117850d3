"""Finds changes of the JobManager while a job runs: a new leader takes over the job, or the job is resubmitted."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from flowdiag.analyses.flink import helpers as h
from flowdiag.analyses.model.derived import once

_ELECTION_US: Final = (
    60_000_000  # maximum time between the elections for dispatcher, resource manager and REST
)
_ENDS: Final = frozenset({"cancelled", "finished", "job-failure"})
_GRANTED: Final = ("leadership-granted", "leadership-session")
# The leader election for a single job, in a process that is already leader.
_OF_A_JOB: Final = ("JobMaster", "JobManager")
# A new leader logs these events even if the job does not start.
_BEGINS: Final = frozenset({"submitted", "started", "restored", "job-running", "job-restarting"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Takeover:
    """A change of the JobManager while a job runs.

    Args:
        elected: the first record of the new leader.
        before: the job under the old leader; a different job if it was resubmitted.
        heard_us: time of the last record of the job under the old leader.
    """

    elected: h.Incident
    before: h.JobFacts
    heard_us: int

    @property
    def at_us(self) -> int:
        """The time of the election."""
        return self.elected.time_us or 0

    @property
    def without_leader_ms(self) -> float:
        """The time from the last record of the job to the election."""
        return (self.at_us - self.heard_us) / 1000

    @property
    def is_planned(self) -> bool:
        """Whether the job was suspended first, because its JobManager was stopped or gave up its leadership."""
        return any(
            i.kind == "suspended" and i.time_us is not None and i.time_us <= self.at_us
            for i in self.before.incidents
        )


def takeovers(job: h.Job, successor_s: float) -> list[Takeover]:
    """Return the changes of the JobManager while a job ran, in order.

    Args:
        job: the job and its cluster.
        successor_s: maximum time between the last record of a job and the start of its successor.
    """
    found = [*_takeovers_of(job), *_resubmitted(job, successor_s)]
    return sorted(found, key=lambda takeover: takeover.at_us)


def _takeovers_of(job: h.Job) -> Iterator[Takeover]:
    """Yield each leader elected while this job ran, if the job resumed under it or has no later record."""
    logs = {c.trigger_ref.source for c in job.checkpoints if c.trigger_ref is not None}
    for elected in _elections(job.cluster):
        at = elected.time_us or 0
        heard = _last_record_us(job, at)
        if heard is None or _continues(job, at):
            continue
        resumed = any(us >= at for us in start_times(job))
        # Another log may belong to another cluster.
        here = elected.ref is not None and elected.ref.source in logs
        namesakes = _namesakes(job.cluster).get(job.name, ())
        if resumed or (here and not any(_follows(job, other, at) for other in namesakes)):
            yield Takeover(elected=elected, before=job, heard_us=heard)


def _continues(job: h.JobFacts, at_us: int) -> bool:
    """Return whether checkpoints continue after a given time, without a restart of the job in between."""
    after = [c.triggered_us for c in job.checkpoints if c.triggered_us and c.triggered_us >= at_us]
    return bool(after) and not any(at_us <= us <= min(after) for us in start_times(job))


def _resubmitted(job: h.Job, successor_s: float) -> Iterator[Takeover]:
    """Yield the leader under which this job replaced a job with the same name."""
    begun = job.first_us
    elected = [e for e in _elections(job.cluster) if (e.time_us or 0) <= (begun or 0)]
    if begun is None or not elected:
        return
    at = elected[-1].time_us or 0
    for other in _namesakes(job.cluster).get(job.name, ()):
        heard = _last_record_us(other, at) if _follows(other, job, at) else None
        if heard is not None and begun - heard <= successor_s * 1_000_000:
            yield Takeover(elected=elected[-1], before=other, heard_us=heard)
            return


@once
def _elections(facts: h.ClusterFacts) -> tuple[h.Incident, ...]:
    """Return the first record of each election of a leader for all jobs, in order."""
    granted = {
        (incident.time_us, incident.ref): incident
        for records in (facts.incidents, *(job.incidents for job in facts.jobs))
        for incident in records
        if incident.kind == "leadership"
        and incident.time_us is not None
        and incident.text.get("template") in _GRANTED
        and not incident.text.get("component", "").startswith(_OF_A_JOB)
    }
    elected: list[h.Incident] = []
    last: dict[int, int] = {}  # by log source
    for (time_us, ref), incident in sorted(granted.items(), key=lambda pair: pair[0][0] or 0):
        if ref is None or time_us is None:
            continue
        if time_us - last.get(ref.source, -_ELECTION_US) >= _ELECTION_US:
            elected.append(incident)
        last[ref.source] = time_us
    return tuple(elected)


@once
def _namesakes(facts: h.ClusterFacts) -> Mapping[str | None, list[h.JobFacts]]:
    """Group the jobs that have a name by that name."""
    found: defaultdict[str | None, list[h.JobFacts]] = defaultdict(list)
    for job in facts.jobs:
        if job.name is not None:
            found[job.name].append(job)
    return found


def _follows(before: h.JobFacts, after: h.JobFacts, at_us: int) -> bool:
    """Return whether job `after` began after the last record of job `before`, on the same TaskManagers."""
    times = _record_times(before)
    if not times or after.first_us is None or not times[-1] < at_us <= after.first_us:
        return False
    theirs, mine = _taskmanagers(before), _taskmanagers(after)
    return not theirs or not mine or bool(theirs & mine)


@once
def start_times(job: h.JobFacts) -> tuple[int, ...]:
    """Return when the job itself started or restarted, in order."""
    return tuple(
        sorted(i.time_us for i in job.incidents if i.kind in _BEGINS and i.time_us is not None)
    )


@once
def _taskmanagers(job: h.JobFacts) -> frozenset[str]:
    return frozenset(attempt.taskmanager for attempt in job.attempts if attempt.taskmanager)


def _last_record_us(job: h.JobFacts, at_us: int) -> int | None:
    """Return the time of the job's last record before `at_us`. None if it had no checkpoint or had ended by then."""
    if not any(c.triggered_us is not None and c.triggered_us < at_us for c in job.checkpoints):
        return None
    begun = max((us for us in start_times(job) if us < at_us), default=0)
    if any(i.kind in _ENDS and begun <= (i.time_us or 0) < at_us for i in job.incidents):
        return None
    return max(us for us in _record_times(job) if us < at_us)


@once
def _record_times(job: h.JobFacts) -> tuple[int, ...]:
    """Return the times of JobManager records about the job. TaskManagers may continue for a while without it."""
    moments = [us for c in job.checkpoints for us in (c.triggered_us, c.ended_us) if us is not None]
    moments += [
        i.time_us
        for i in job.incidents
        if i.time_us is not None and i.text.get("role") != "taskmanager"
    ]
    return tuple(sorted(moments))
