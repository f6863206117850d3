"""The JobManager changed while the job ran.

What it reports
---------------
A JobManager became leader after the job had taken checkpoints, because its process restarted or another
process took over. The finding shows how long no JobManager coordinated the job. It also shows from which
checkpoint the job resumed, or that it was resubmitted under another ID.

Why it matters
--------------
When a JobManager process ends, all tasks of its jobs end too, and the work since the last checkpoint has to be
repeated. A job that is resubmitted instead of recovered loses its state unless it is restored explicitly. No task
is to blame for checkpoints that fail during that time.

How it decides
--------------
The log must show that a leader was elected for the dispatcher or the resource manager. The election must be after
a checkpoint of the job was triggered and before the job ended or was stopped. If the job simply continues, without
a new start, no new leader took it over.

After the election the job continues under its ID, or its log records end and a job with the same name begins
within `successor`. If the TaskManagers of both jobs are known, the jobs must share some of them. If the job has no
later records, only a leader in the same log counts, because another log may belong to another cluster.

The finding is a warning. It is info if the JobManager suspended the job first, as it does during a
regular stop, and a checkpoint has completed since.

False alarms
------------
A planned replacement of the JobManager is reported as a warning if the log does not show the request to stop.
"""

from typing import Final

from flowdiag.analyses.checkpoints.takeovers import Takeover, start_times, takeovers
from flowdiag.analyses.flink import helpers as h


class Limits(h.Limits):
    successor: float = h.limit(
        3600.0, "s", "maximum time between the two logs; a manual restart takes at most an hour"
    )


def judge(job: h.Job, limits: Limits) -> h.Iterator[h.Finding]:
    """Yield at most one finding per job."""
    found = takeovers(job, limits.successor)
    if not found:
        return
    first, last = found[0], found[-1]
    later = [c for c in job.completed if (c.ended_us or 0) > last.at_us]
    done = min(later, key=lambda c: c.ended_us or 0, default=None)
    planned = done is not None and all(takeover.is_planned for takeover in found)
    times = f"{h.fmt.plural(len(found), 'time')}, first " if len(found) > 1 else ""
    gap = max(takeover.without_leader_ms for takeover in found)
    records = [(takeover.elected.ref, takeover.elected.time_us) for takeover in found]
    state, until = h.State.ONGOING, job.last_us
    if done is not None:
        state, until = h.State.RECOVERED, done.ended_us
        records.append((done.end_ref, done.ended_us))
    yield h.job_finding(
        job,
        subject=h.Subject(kind="process", job_id=job.key.job_id or None, job_name=job.name),
        state=state,
        severity=h.Severity.INFO if planned else h.Severity.WARNING,
        title=f"The JobManager changed while the job ran: {times}a leader was elected at "
        f"{h.fmt.clock(first.at_us)} UTC, {h.fmt.duration(first.without_leader_ms)} after "
        "the last record of the job",
        why=f"a new JobManager became leader at {h.fmt.clock(last.at_us)} UTC",
        cause="jobmanager-lost",
        rank=h.Rank.MECHANISM,
        first_us=first.heard_us,
        last_us=until,
        count=len(found),
        explain=f"{h.explanation('jobmanager-lost')} {_resumption(job, last, done)}",
        measurements=(h.measurement("downtime", gap, "ms"),),
        evidence=h.cite(records),
        actions=h.remedies("jobmanager-lost", job, "pause", "survive"),
    )


def _resumption(job: h.Job, last: Takeover, done: h.Checkpoint | None) -> str:
    """Return sentences about how the job resumed."""
    restored = (
        i.checkpoint for i in h.incidents(job, "restored") if (i.time_us or 0) >= last.at_us
    )
    checkpoint = next((number for number in restored if number is not None), None)
    origin = "" if checkpoint is None else f" from checkpoint {checkpoint}"
    if last.before.key != job.key:
        how = (
            f"The job came back under a new ID: it was resubmitted{origin}, not recovered. "
            f"Its old ID is {last.before.key.job_id}."
        )
    elif any(us >= last.at_us for us in start_times(job)):
        how = f"The job was recovered{origin} under the same ID."
    else:
        return "The logs do not show whether the job came back."
    if done is None:
        return f"{how} No checkpoint has completed since."
    since = h.fmt.duration(((done.ended_us or 0) - last.at_us) / 1000)
    return f"{how} The first checkpoint completed {since} after the election."


RULE: Final = h.Rule("CP313", judge, Limits, causes=("jobmanager-lost",), needs="dated-records")
