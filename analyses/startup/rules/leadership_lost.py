"""A JobManager lost its leadership.

What it reports
---------------
The rule reports how often and when the Dispatcher, the ResourceManager or a JobMaster lost its leadership.

Why it matters
--------------
Every leader change suspends and restarts all jobs.

How it decides
--------------
The rule reads Flink's own log lines. A component that stops also gives up its leadership. A revocation less than
`shutdown` before the end of the input therefore counts only if the leader election failed at most `window` before it.
An election fails if a lock was not renewed, a session timed out or a connection was lost. The rule reports a failed
election if a component then lost its leadership or a job was suspended. It also reports a job that was suspended
because its JobManager is no longer the leader.

What to do
----------
Check ZooKeeper or the Kubernetes API server, the JobManager for long pauses, and the lease timeouts.

False alarms
------------
A planned restart of the JobManager also revokes its leadership.
"""

from typing import Final

from flowdiag.analyses.startup import helpers as h
from flowdiag.analyses.startup.detect.leadership import (
    follows,
    has_leader_after,
    suspensions,
    times_us,
)
from flowdiag.analyses.startup.failures import incidents_by_template, leadership_signs

_REVOKED: Final = ("leadership-revoked",)
_LOCK: Final = ("leader-lock-lost",)


class Limits(h.Limits):
    shutdown: float = h.limit(
        15, "s", "time before the end of the log to ignore; a shutdown also revokes leadership"
    )
    window: float = h.limit(
        60, "s", "maximum time from a failed election to the suspension of the job"
    )


def judge(facts: h.StartupFacts, limits: Limits) -> h.Iterator[h.Finding]:
    """Report all leader changes of the cluster in one finding."""
    signs = leadership_signs(facts)
    lost = incidents_by_template(facts, _REVOKED) or incidents_by_template(facts, _LOCK)
    times, after_us = times_us(signs), limits.window * 1_000_000
    suspended = [i for i in suspensions(facts) if follows(i, times, after_us)]
    failed = [i for i in lost if follows(i, times, after_us)]
    end = float("inf") if facts.last_us is None else facts.last_us - limits.shutdown * 1_000_000
    revoked = [i for i in lost if i in failed or (i.time_us or 0) < end]
    if suspended or failed:
        yield _failed_election_finding(facts, signs, revoked, suspended)
    elif revoked:
        # No reason is logged.
        yield h.cluster_finding(
            None,
            ongoing=False,
            title=f"Leadership was lost {h.fmt.plural(len(revoked), 'time')}",
            why=f"{revoked[0].text.get('component', 'a component')} lost its leadership",
            cause="leadership-lost",
            rank=h.Rank.ROOT_CAUSE,
            first_us=revoked[0].time_us,
            last_us=revoked[-1].time_us,
            count=len(revoked),
            evidence=h.cite((i.ref, i.time_us) for i in revoked),
            actions=h.remedies("leadership-lost", h.UNKNOWN_JOB),
        )


def _failed_election_finding(
    facts: h.StartupFacts,
    signs: list[h.Incident],
    revoked: list[h.Incident],
    suspended: list[h.Incident],
) -> h.Finding:
    """Report a failed election and its effect. No task is to blame."""
    known = {sign.ref for sign in signs}
    records = [*signs, *revoked, *(i for i in suspended if i.ref not in known)]
    records.sort(key=lambda i: i.time_us or 0)
    back = has_leader_after(facts, records[-1].time_us or 0)
    sign = h.fmt.shorten(" ".join((signs[0].cause or "").split()).rstrip("."), 120)
    names = {i.job: i.text.get("job_name") or (i.job.job_id if i.job else "") for i in suspended}
    what = f"; {h.fmt.plural(len(names), 'job')} suspended" if names else ""
    if len(names) == 1 and (only := next(iter(names.values()))):
        what = f"; job {only} was suspended"
    return h.cluster_finding(
        facts,
        ongoing=bool(suspended) and not back,
        title=f"The JobManager lost its leadership: {sign}{what}",
        why=f"the JobManager lost its leadership: {sign}",
        cause="leadership-lost",
        rank=h.Rank.ROOT_CAUSE,
        first_us=records[0].time_us,
        last_us=records[-1].time_us,
        count=max(1, len(revoked)),
        evidence=h.cite((i.ref, i.time_us) for i in records),
        actions=h.remedies("leadership-lost", h.UNKNOWN_JOB),
    )


RULE: Final = h.Rule(
    "ST304",
    judge,
    Limits,
    whole=True,
    causes=("leadership-lost",),
    needs="dated-records",
    severity=h.Severity.CRITICAL,
)
