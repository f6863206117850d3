"""Another database session holds a lock that the sink is waiting for.

What it reports
---------------
How many sessions of the job wait, which process holds the lock, and what that process does.

Why it matters
--------------
The sink waits inside the database. Its task looks busy, all tasks upstream wait for it, and checkpoints do not
complete. Additional subtasks would only wait for the same lock.

How it decides
--------------
At least `snapshots` outputs of `pg_stat_activity` show a session of PostgreSQL's Java driver that waits for a lock.
In outputs of `innodb_trx`, a client's transaction must be in LOCK WAIT. `pg_blocking_pids`, a column with the
blocking thread, or the PostgreSQL log names the process that holds the lock. Without these outputs, a wait in the
server's log (`log_lock_waits`) is enough if it has not ended, or if it took at least 10 s. It is also enough if the
log of the sink shows two writes that the database aborted after a lock timeout.

False alarms
------------
The output may come from a database that the job does not use. Sessions do not show which job they belong to.
flowdiag therefore only evaluates them if a single job runs, or if a single job reports a backlog.
"""

from flowdiag.analyses.queues import helpers as h


class Limits(h.Limits):
    snapshots: float = h.snapshots_limit()


def judge(job: h.JobQueues, limits: Limits) -> h.Iterator[h.Finding]:
    """Yield at most one finding per job."""
    blocked = h.blocked_sessions(job)
    if blocked is None or (blocked.snapshots[1] and blocked.snapshots[0] < limits.snapshots):
        return
    sinks = h.pressing_sinks(job)
    name = h.service_name(job, blocked.system)
    known = ("end", "timeouts") if blocked.system == h.POSTGRES else ("find", "innodb-timeout")
    waits, why = blocked.clauses
    yield h.job_finding(
        job,
        subject=h.service_subject(job, name, sinks[0] if len(sinks) == 1 else None),
        title=f"{name} blocks the sink: {waits}",
        why=why,
        severity=h.Severity.WARNING,
        state=h.State.ONGOING if blocked.ongoing else h.State.RECOVERED,
        cause="database-lock",
        rank=h.Rank.ROOT_CAUSE,
        first_us=blocked.first_us,
        last_us=blocked.last_us,
        measurements=blocked.measurements(limits.snapshots),
        evidence=blocked.evidence,
        ranked=True,
        actions=h.remedies("database-lock", job.job, *known, holder=str(blocked.holder or "PID")),
    )


RULE = h.Rule("IO201", judge, Limits, causes=("database-lock",), needs="records")
