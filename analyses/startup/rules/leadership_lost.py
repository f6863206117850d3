"""A JobManager lost its leadership.

What it reports
---------------
Revoked leaderships of Dispatcher, ResourceManager or JobMaster, how often and when.

Why it matters
--------------
With every leader change all jobs are suspended and restarted.

How it decides
--------------
By Flink's own log lines. A component that stops also gives up its leadership, so a revocation less than
`end` before the end of the input does not count. It counts anyway if the election itself failed less than
`after` before it: a lock was not renewed, a session timed out, or a connection was lost. A failed election
counts if it cost a leadership or suspended a job. A job suspended because its JobManager is no longer the
leader logs that reason.

What to do
----------
Check ZooKeeper or the Kubernetes API server, long pauses of the JobManager, and the lease timeouts.

False alarms
------------
A planned change of the JobManager.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Final

from flowdiag.analyses.startup import helpers as h
from flowdiag.analyses.startup.failures import leadership_signs


class Lost(h.Limits):
    """Thresholds of ST304."""

    end: float = h.limit(
        15, "s", "before the end of the input: a cluster that stops also revokes leaderships"
    )
    after: float = h.limit(60, "s", "a lost leadership suspends the jobs within seconds")


def judge(facts: h.StartupFacts, limits: Lost) -> h.Iterator[h.Finding]:
    """One finding for the cluster."""
    signs = leadership_signs(facts)
    lost = _of_templates(facts, _REVOKED) or _of_templates(facts, _LOCK)
    suspended = [
        i for i in h.incidents_of(facts) if i.kind == "suspended" and i.time_us is not None
    ]
    times = [sign.time_us or 0 for sign in signs]
    hit = [i for i in suspended if _follows(i, times, limits.after)]
    revoked = [
        i
        for i in lost
        if _follows(i, times, limits.after)
        or facts.last_us is None
        or facts.last_us - (i.time_us or 0) > limits.end * 1_000_000
    ]
    if hit or any(_follows(i, times, limits.after) for i in lost):
        yield _failed(facts, signs, revoked, hit)
    elif revoked:
        yield _revoked(revoked)


def _revoked(revoked: list[h.Incident]) -> h.Finding:
    """Revoked leaderships without a logged reason."""
    return h.cluster_finding(
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


def _failed(
    facts: h.StartupFacts,
    signs: list[h.Incident],
    revoked: list[h.Incident],
    suspended: list[h.Incident],
) -> h.Finding:
    """A failed election and its effect: no task is to blame."""
    known = {sign.ref for sign in signs}
    records = [*signs, *revoked, *(i for i in suspended if i.ref not in known)]
    records.sort(key=lambda i: i.time_us or 0)
    last = max(i.time_us or 0 for i in records)
    back = any(
        (i.time_us or 0) > last and (i.kind == "job-running" or i.text.get("template") in _GRANTED)
        for i in h.incidents_of(facts)
    )
    sign = h.fmt.shorten(" ".join((signs[0].cause or "").split()).rstrip("."), 120)
    names = {i.job: i.text.get("job_name") or (i.job.job_id if i.job else "") for i in suspended}
    what = ""
    if suspended:
        only = next(iter(names.values())) if len(names) == 1 else ""
        what = (
            f"; job {only} was suspended"
            if only
            else f"; {h.fmt.plural(len(names), 'job')} suspended"
        )
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


def _follows(one: h.Incident, signs_us: Sequence[int], after_s: float) -> bool:
    """Whether an incident comes with or soon after a sign of a failed election; signs in order."""
    at = one.time_us or 0
    before = bisect_right(signs_us, at)
    return before > 0 and at - signs_us[before - 1] <= after_s * 1_000_000


_REVOKED: Final = ("leadership-revoked",)
_LOCK: Final = ("leader-lock-lost",)
_GRANTED: Final = ("leadership-session", "leadership-granted")


def _of_templates(facts: h.StartupFacts, templates: tuple[str, ...]) -> list[h.Incident]:
    """Return the incidents of some templates in order, without the copies that each job holds."""
    seen = {
        (incident.time_us, incident.ref): incident
        for incident in h.incidents_of(facts)
        if incident.text.get("template") in templates and incident.time_us
    }
    return sorted(seen.values(), key=lambda incident: incident.time_us or 0)


RULE: Final = h.Rule("ST304", judge, Lost, whole=True, causes=("leadership-lost",))
