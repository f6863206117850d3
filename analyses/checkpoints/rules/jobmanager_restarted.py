"""The JobManager changed while the job ran.

What it reports
---------------
That a JobManager began to lead after the job had taken checkpoints: its process was started again, or another
one took over; since when nobody coordinated the job, and from which checkpoint it went on, or that it was
submitted anew under another id.

Why it matters
--------------
Every task ends with its JobManager, and what was processed since the last checkpoint is done again. A job
that is submitted anew has lost its state. No task is to blame for any checkpoint of that time.

How it decides
--------------
A leader is elected for the dispatcher or the resource manager, after a checkpoint of the job was triggered
and before the job was stopped or had ended by itself. Who is elected beside a job that goes on without
beginning again has not taken it over. The job goes on under its id; or its records end, and a job of the
same name that shares TaskManagers with it, as far as any are known, begins within `successor` after it.
Where nothing of it follows, only a leader in the same log counts: another log may be of another
cluster. A warning; information where the job was suspended first, as a JobManager does that is told to
stop.

What to do
----------
Find out why its process ended; let it recover its jobs (high availability).

False alarms
------------
A planned change of the JobManager whose log does not say that it was told to stop.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from flowdiag.analyses.flink import helpers as h
from flowdiag.analyses.model.derived import once

_ELECTION_US: Final = (
    60_000_000  # dispatcher, resource manager and REST are elected one after the other
)
_ENDS: Final = frozenset({"cancelled", "finished", "job-failure"})
_GRANTED: Final = ("leadership-granted", "leadership-session")
_OF_A_JOB: Final = (
    "JobMaster",
    "JobManager",
)  # the leader of one job, in a process that leads already
# Who begins to lead writes so whether the job begins or not.
_BEGINS: Final = frozenset({"submitted", "started", "restored", "job-running", "job-restarting"})


class Restarted(h.Limits):
    """What CP313 compares with."""

    successor: float = h.limit(
        3600.0,
        "s",
        "a JobManager is started again within minutes, by hand within the hour; logs further "
        "apart may be of two clusters",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Takeover:
    """A change of the JobManager under a job.

    Args:
        elected: the first record of the leader that came after it.
        before: the job as it was; another one than the one that is judged where it was submitted anew.
        heard_us: when the job was last heard of before.
    """

    elected: h.Incident
    before: h.JobFacts
    heard_us: int

    @property
    def at_us(self) -> int:
        """When the leader was elected."""
        return self.elected.time_us or 0


def judge(job: h.Job, limits: Restarted) -> h.Iterator[h.Finding]:
    """At most one finding per job."""
    found = [*_under(job), *_inherited(job, limits)]
    if found:
        yield _finding(job, sorted(found, key=lambda one: one.at_us))


@once
def _elections(facts: h.ClusterFacts) -> tuple[h.Incident, ...]:
    """The first record of each leader that was elected for all jobs, in order."""
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


def _under(job: h.Job) -> h.Iterator[Takeover]:
    """Leaders that were elected while this job ran, and that it went on with or was not heard of since."""
    for elected in _elections(job.cluster):
        at = elected.time_us or 0
        heard = _cut(job, at)
        if heard is None or _runs_on(job, at):
            continue
        goes_on = any(us >= at for us in _begun(job))
        followed = any(
            _follows(job, other, at) for other in _namesakes(job.cluster).get(job.name, ())
        )
        if goes_on or (_same_log(job, elected) and not followed):
            yield Takeover(elected=elected, before=job, heard_us=heard)


def _inherited(job: h.Job, limits: Restarted) -> h.Iterator[Takeover]:
    """Leaders under whom this job began in the place of one of the same name."""
    begun = job.first_us
    elected = [e for e in _elections(job.cluster) if (e.time_us or 0) <= (begun or 0)]
    if begun is None or not elected:
        return
    at = elected[-1].time_us or 0
    for other in _namesakes(job.cluster).get(job.name, ()):
        if not _follows(other, job, at):
            continue
        heard = _cut(other, at)
        if heard is not None and begun - heard <= limits.successor * 1_000_000:
            yield Takeover(elected=elected[-1], before=other, heard_us=heard)
            return


@once
def _namesakes(facts: h.ClusterFacts) -> Mapping[str | None, list[h.JobFacts]]:
    """Jobs by name; those without one are nobody's namesakes."""
    found: defaultdict[str | None, list[h.JobFacts]] = defaultdict(list)
    for job in facts.jobs:
        if job.name is not None:
            found[job.name].append(job)
    return found


def _follows(before: h.JobFacts, after: h.JobFacts, at_us: int) -> bool:
    """Whether a job of the same name and on the same TaskManagers began when another one was not heard of any more."""
    told = _told(before)
    if not told or after.first_us is None or not told[-1] < at_us <= after.first_us:
        return False
    theirs, mine = _managers(before), _managers(after)
    return not theirs or not mine or bool(theirs & mine)


@once
def _begun(job: h.JobFacts) -> tuple[int, ...]:
    """Moments at which the job itself began, or began again, in order."""
    return tuple(
        sorted(i.time_us for i in job.incidents if i.kind in _BEGINS and i.time_us is not None)
    )


@once
def _managers(job: h.JobFacts) -> frozenset[str]:
    return frozenset(attempt.taskmanager for attempt in job.attempts if attempt.taskmanager)


def _cut(job: h.JobFacts, at_us: int) -> int | None:
    """When a job that took checkpoints was last heard of before a moment; None if it had ended by then."""
    if not any(c.triggered_us is not None and c.triggered_us < at_us for c in job.checkpoints):
        return None
    begun = max((us for us in _begun(job) if us < at_us), default=0)
    if any(i.kind in _ENDS and begun <= (i.time_us or 0) < at_us for i in job.incidents):
        return None
    return max(us for us in _told(job) if us < at_us)


@once
def _told(job: h.JobFacts) -> tuple[int, ...]:
    """When a JobManager tells of the job; TaskManagers go on for a while after it is gone."""
    moments = [us for c in job.checkpoints for us in (c.triggered_us, c.ended_us) if us is not None]
    moments += [
        i.time_us
        for i in job.incidents
        if i.time_us is not None and i.text.get("role") != "taskmanager"
    ]
    return tuple(sorted(moments))


def _runs_on(job: h.JobFacts, at_us: int) -> bool:
    """Whether checkpoints go on after a moment, and nothing of the job began again between."""
    after = [c.triggered_us for c in job.checkpoints if (c.triggered_us or 0) >= at_us]
    if not after:
        return False
    return not any(at_us <= us <= (min(filter(None, after))) for us in _begun(job))


def _same_log(job: h.JobFacts, elected: h.Incident) -> bool:
    """Whether the leader writes where the checkpoints of the job were written."""
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
        "the last word of the job",
        why=f"a new JobManager began to lead at {h.fmt.clock(last.at_us)} UTC",
        cause="jobmanager-lost",
        rank=h.Rank.MECHANISM,
        first_us=first.heard_us,
        last_us=done.ended_us if done is not None else job.last_us,
        count=len(found),
        explain=f"{h.explanation('jobmanager-lost')} {_came_back(job, last, done)}",
        measurements=(h.measurement("without-jobmanager", gap, "ms"),),
        evidence=h.cite(
            [(one.elected.ref, one.elected.time_us) for one in found]
            + ([(done.end_ref, done.ended_us)] if done is not None else [])
        ),
        actions=h.remedies("jobmanager-lost", job, "pause", "survive"),
    )


def _suspended(one: Takeover) -> bool:
    """Whether the job was suspended before: its JobManager was told to stop, or laid its leadership down."""
    return any(
        i.kind == "suspended" and i.time_us is not None and i.time_us <= one.at_us
        for i in one.before.incidents
    )


def _first_done(job: h.JobFacts, after_us: int) -> h.Checkpoint | None:
    """The first checkpoint that completed after a moment."""
    done = [
        c
        for c in job.checkpoints
        if c.status is h.Status.COMPLETED and (c.ended_us or 0) > after_us
    ]
    return min(done, key=lambda c: c.ended_us or 0, default=None)


def _came_back(job: h.Job, last: Takeover, done: h.Checkpoint | None) -> str:
    """How the job went on, for people."""
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
            f"The job came back under a new id: it was submitted anew{origin}, not recovered; "
            f"before it was {last.before.key.job_id}."
        )
    elif any(us >= last.at_us for us in _begun(job)):
        how = f"The job was recovered{origin} under the same id."
    else:
        return "The input does not say whether the job came back."
    if done is None:
        return f"{how} No checkpoint has completed since."
    since = h.fmt.duration(((done.ended_us or 0) - last.at_us) / 1000)
    return f"{how} The first checkpoint completed {since} after the election."


RULE: Final = h.Rule("CP313", judge, Restarted, causes=("jobmanager-lost",))
