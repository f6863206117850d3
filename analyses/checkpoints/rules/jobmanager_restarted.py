"""The JobManager changed while the job ran.

What it reports
---------------
That a JobManager became leader after the job had taken checkpoints: its process restarted, or another
process took over. Also how long no JobManager coordinated the job, and from which checkpoint it resumed, or
that it was resubmitted under another ID.

Why it matters
--------------
Every task ends with its JobManager, and the work since the last checkpoint is repeated. A resubmitted job
has lost its state. No task is to blame for checkpoints of that time.

How it decides
--------------
A leader is elected for the dispatcher or the resource manager, after a checkpoint of the job was triggered,
and before the job was stopped or had ended. A new leader next to a job that continues without a new start
has not taken it over. The job continues under its ID. Or its records end, and a job with the same name
begins within `successor` after it, on shared TaskManagers as far as any are known. If nothing of the job
follows, only a leader in the same log counts, because another log may belong to another cluster. A warning.
Information if the JobManager suspended the job first, as it does during a regular stop.

What to do
----------
Find out why its process ended. Enable high availability, so that it recovers its jobs.

False alarms
------------
A planned change of the JobManager whose log does not show the request to stop.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from flowdiag.analyses.flink import helpers as h
from flowdiag.analyses.model.derived import once

_ELECTION_US: Final = 60_000_000  # dispatcher, resource manager and REST are elected in turn
_ENDS: Final = frozenset({"cancelled", "finished", "job-failure"})
_GRANTED: Final = ("leadership-granted", "leadership-session")
_OF_A_JOB: Final = (
    "JobMaster",
    "JobManager",
)  # the leader of one job, in a process that already leads
# A new leader logs these even if the job does not start.
_BEGINS: Final = frozenset({"submitted", "started", "restored", "job-running", "job-restarting"})


class Restarted(h.Limits):
    """Thresholds of CP313."""

    successor: float = h.limit(
        3600.0,
        "s",
        "a JobManager restarts within minutes, by hand within the hour; logs further "
        "apart may belong to two clusters",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Takeover:
    """A change of the JobManager under a job.

    Args:
        elected: the first record of the new leader.
        before: the job under the old leader; a different job if it was resubmitted.
        heard_us: time of the last record of the job before.
    """

    elected: h.Incident
    before: h.JobFacts
    heard_us: int

    @property
    def at_us(self) -> int:
        """Time of the election."""
        return self.elected.time_us or 0


def judge(job: h.Job, limits: Restarted) -> h.Iterator[h.Finding]:
    """At most one finding per job."""
    found = [*_takeovers(job), *_replacements(job, limits)]
    if found:
        yield _finding(job, sorted(found, key=lambda one: one.at_us))


@once
def _elections(facts: h.ClusterFacts) -> tuple[h.Incident, ...]:
    """Return the first record of each leader elected for all jobs, in order."""
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
    last: dict[int, int] = {}  # by log
    for (time_us, ref), incident in sorted(granted.items(), key=lambda pair: pair[0][0] or 0):
        if ref is None or time_us is None:
            continue
        if time_us - last.get(ref.source, -_ELECTION_US) >= _ELECTION_US:
            elected.append(incident)
        last[ref.source] = time_us
    return tuple(elected)


def _takeovers(job: h.Job) -> h.Iterator[Takeover]:
    """Yield leaders elected while this job ran, under which it resumed or has no later records."""
    for elected in _elections(job.cluster):
        at = elected.time_us or 0
        heard = _last_record_us(job, at)
        if heard is None or _continues(job, at):
            continue
        resumed = any(us >= at for us in _start_times(job))
        followed = any(
            _follows(job, other, at) for other in _namesakes(job.cluster).get(job.name, ())
        )
        if resumed or (_same_log(job, elected) and not followed):
            yield Takeover(elected=elected, before=job, heard_us=heard)


def _replacements(job: h.Job, limits: Restarted) -> h.Iterator[Takeover]:
    """Yield the leader under which this job replaced a job of the same name."""
    begun = job.first_us
    elected = [e for e in _elections(job.cluster) if (e.time_us or 0) <= (begun or 0)]
    if begun is None or not elected:
        return
    at = elected[-1].time_us or 0
    for other in _namesakes(job.cluster).get(job.name, ()):
        if not _follows(other, job, at):
            continue
        heard = _last_record_us(other, at)
        if heard is not None and begun - heard <= limits.successor * 1_000_000:
            yield Takeover(elected=elected[-1], before=other, heard_us=heard)
            return


@once
def _namesakes(facts: h.ClusterFacts) -> Mapping[str | None, list[h.JobFacts]]:
    """Return the jobs with a name, by name."""
    found: defaultdict[str | None, list[h.JobFacts]] = defaultdict(list)
    for job in facts.jobs:
        if job.name is not None:
            found[job.name].append(job)
    return found


def _follows(before: h.JobFacts, after: h.JobFacts, at_us: int) -> bool:
    """Whether a job on the same TaskManagers began after the last record of another one."""
    times = _record_times(before)
    if not times or after.first_us is None or not times[-1] < at_us <= after.first_us:
        return False
    theirs, mine = _taskmanagers(before), _taskmanagers(after)
    return not theirs or not mine or bool(theirs & mine)


@once
def _start_times(job: h.JobFacts) -> tuple[int, ...]:
    """Return the times at which the job itself started or restarted, in order."""
    return tuple(
        sorted(i.time_us for i in job.incidents if i.kind in _BEGINS and i.time_us is not None)
    )


@once
def _taskmanagers(job: h.JobFacts) -> frozenset[str]:
    return frozenset(attempt.taskmanager for attempt in job.attempts if attempt.taskmanager)


def _last_record_us(job: h.JobFacts, at_us: int) -> int | None:
    """Return the last record of a job with checkpoints before a moment; None if it had ended by then."""
    if not any(c.triggered_us is not None and c.triggered_us < at_us for c in job.checkpoints):
        return None
    begun = max((us for us in _start_times(job) if us < at_us), default=0)
    if any(i.kind in _ENDS and begun <= (i.time_us or 0) < at_us for i in job.incidents):
        return None
    return max(us for us in _record_times(job) if us < at_us)


@once
def _record_times(job: h.JobFacts) -> tuple[int, ...]:
    """Return the times of JobManager records about the job: TaskManagers continue for a while without it."""
    moments = [us for c in job.checkpoints for us in (c.triggered_us, c.ended_us) if us is not None]
    moments += [
        i.time_us
        for i in job.incidents
        if i.time_us is not None and i.text.get("role") != "taskmanager"
    ]
    return tuple(sorted(moments))


def _continues(job: h.JobFacts, at_us: int) -> bool:
    """Whether checkpoints continue after a moment without a restart of the job in between."""
    after = [c.triggered_us for c in job.checkpoints if (c.triggered_us or 0) >= at_us]
    if not after:
        return False
    return not any(at_us <= us <= (min(filter(None, after))) for us in _start_times(job))


def _same_log(job: h.JobFacts, elected: h.Incident) -> bool:
    """Whether the leader writes to the log that contains the job's checkpoints."""
    sources = {c.trigger_ref.source for c in job.checkpoints if c.trigger_ref is not None}
    return elected.ref is not None and elected.ref.source in sources


def _finding(job: h.Job, found: h.Sequence[Takeover]) -> h.Finding:
    first, last = found[0], found[-1]
    done = _first_done(job, last.at_us)
    state = h.State.ONGOING if done is None else h.State.RECOVERED
    orderly = all(_suspended(one) for one in found)
    gap = max((one.at_us - one.heard_us) / 1000 for one in found)
    many = f"{h.fmt.plural(len(found), 'time')}, first" if len(found) > 1 else ""
    return h.job_finding(
        job,
        subject=h.Subject(kind="process", job_id=job.key.job_id or None, job_name=job.name),
        state=state,
        severity=h.Severity.INFO if orderly and done is not None else h.Severity.WARNING,
        title=f"The JobManager changed while the job ran: {f'{many} ' if many else ''}a leader was elected at "
        f"{h.fmt.clock(first.at_us)} UTC, {h.fmt.duration((first.at_us - first.heard_us) / 1000)} after "
        "the last record of the job",
        why=f"a new JobManager became leader at {h.fmt.clock(last.at_us)} UTC",
        cause="jobmanager-lost",
        rank=h.Rank.MECHANISM,
        first_us=first.heard_us,
        last_us=done.ended_us if done is not None else job.last_us,
        count=len(found),
        explain=f"{h.explanation('jobmanager-lost')} {_resumption(job, last, done)}",
        measurements=(h.measurement("without-jobmanager", gap, "ms"),),
        evidence=h.cite(
            [(one.elected.ref, one.elected.time_us) for one in found]
            + ([(done.end_ref, done.ended_us)] if done is not None else [])
        ),
        actions=h.remedies("jobmanager-lost", job, "pause", "survive"),
    )


def _suspended(one: Takeover) -> bool:
    """Whether the job was suspended before: its JobManager received a stop, or gave up its leadership."""
    return any(
        i.kind == "suspended" and i.time_us is not None and i.time_us <= one.at_us
        for i in one.before.incidents
    )


def _first_done(job: h.JobFacts, after_us: int) -> h.Checkpoint | None:
    """Return the first checkpoint that completed after a moment."""
    done = [
        c
        for c in job.checkpoints
        if c.status is h.Status.COMPLETED and (c.ended_us or 0) > after_us
    ]
    return min(done, key=lambda c: c.ended_us or 0, default=None)


def _resumption(job: h.Job, last: Takeover, done: h.Checkpoint | None) -> str:
    """Return how the job resumed, for readers."""
    restored = next(
        (
            i.checkpoint
            for i in job.incidents
            if i.kind == "restored" and (i.time_us or 0) >= last.at_us and i.checkpoint is not None
        ),
        None,
    )
    origin = "" if restored is None else f" from checkpoint {restored}"
    if last.before.key != job.key:
        how = (
            f"The job came back under a new ID: it was resubmitted{origin}, not recovered. "
            f"Its old ID is {last.before.key.job_id}."
        )
    elif any(us >= last.at_us for us in _start_times(job)):
        how = f"The job was recovered{origin} under the same ID."
    else:
        return "The input does not show whether the job came back."
    if done is None:
        return f"{how} No checkpoint has completed since."
    since = h.fmt.duration(((done.ended_us or 0) - last.at_us) / 1000)
    return f"{how} The first checkpoint completed {since} after the election."


RULE: Final = h.Rule("CP313", judge, Restarted, causes=("jobmanager-lost",))
