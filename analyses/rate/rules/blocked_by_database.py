"""Another session of the database holds a lock that batches wait for.

What it reports
---------------
How many sessions of the application wait, which process holds the lock, and what that process does.

Why it matters
--------------
Tasks or the driver wait inside the database, so batches take long or do not end. Additional cores would only wait
for the same lock.

How it decides
--------------
At least `snapshots` outputs of the database's tools show that a session waits for a lock, or the server's log shows a
long wait, as for IO201.

The application must be at its limit: batches queue or take at least `use` of the interval, or a batch or trigger has
been running for `running-time`.

False alarms
------------
The output may come from a database that the application does not use. Sessions do not show which application they
belong to. flowdiag therefore only evaluates them if the input contains a single streaming application, and if only one
of its queries is slow.
"""

from flowdiag.analyses.rate import helpers as h
from flowdiag.analyses.rate.detect.code import is_hanging, is_slow


class Limits(h.Limits):
    snapshots: float = h.snapshots_limit()
    running_time: float = h.running_time_limit()
    use: float = h.use_limit()


def judge(assessed: h.AssessedApplication, limits: Limits) -> h.Results:
    """Yield at most one finding per application."""
    app = assessed.app
    if any(other.kind != "other" for other in assessed.others):
        return
    blocked = h.find_blocked(assessed.neighbours, app.last_us)
    if blocked is None or (blocked.snapshots[1] and blocked.snapshots[0] < limits.snapshots):
        return
    slow = [
        f for f in h.flows_of(assessed) if is_slow(f, use=limits.use, hanging=limits.running_time)
    ]
    if len(slow) != 1:
        return
    flow, name = slow[0], assessed.neighbours.named(blocked.system)
    known = ("end", "timeouts") if blocked.system == h.POSTGRES else ("find", "innodb-timeout")
    waits, why = blocked.clauses
    fields: h.SubjectFields = {
        "subject": h.service_subject(app, name, flow.query),
        "title": f"{name} blocks {flow.query.label if flow.query else 'the application'}: {waits}",
        "why": why,
        "severity": h.Severity.CRITICAL
        if is_hanging(flow, limits.running_time)
        else h.Severity.WARNING,
        "state": h.State.ONGOING if blocked.ongoing else h.State.RECOVERED,
        "cause": "database-lock",
        "rank": h.Rank.ROOT_CAUSE,
        "first_us": blocked.first_us,
        "last_us": blocked.last_us,
        "measurements": blocked.measurements(limits.snapshots),
        "evidence": blocked.evidence,
        "actions": h.remedies("database-lock", app, *known, holder=str(blocked.holder or "PID")),
    }
    yield h.application_finding(assessed, **fields)


RULE = h.Rule(
    "RT316", judge, Limits, causes=("database-lock",), needs="work", severity=h.Severity.CRITICAL
)
