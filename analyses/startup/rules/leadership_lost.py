"""A leadership was lost.

What it reports
---------------
Revoked leaderships of Dispatcher, ResourceManager or JobMaster, how often and when.

Why it matters
--------------
With every change of the leader all jobs are suspended and started again.

How it decides
--------------
From Flink's own lines. A component that stops lays its leadership down too: what comes less than `end` before
the end of the input is not counted.

What to do
----------
Look at ZooKeeper or the Kubernetes API server, at long pauses of the JobManager, and at the time-outs of
the lease.

False alarms
------------
A planned change of the JobManager.
"""

from __future__ import annotations

from typing import Final

from flowdiag.analyses.startup.kit import (
    UNKNOWN_JOB,
    Finding,
    Incident,
    Iterator,
    Limits,
    Rank,
    Rule,
    StartupFacts,
    cite,
    limit,
    of_cluster,
    remedies,
    say,
)


class Lost(Limits):
    """What ST304 compares with."""

    end: float = limit(15, "s", "before the end of the input: a cluster that stops revokes too")


def judge(facts: StartupFacts, limits: Lost) -> Iterator[Finding]:
    """One finding for the cluster."""
    revoked = [
        incident
        for incident in _revocations(facts)
        if facts.last_us is None or facts.last_us - (incident.time_us or 0) > limits.end * 1_000_000
    ]
    if not revoked:
        return
    yield of_cluster(
        None,
        ongoing=False,
        title=f"Leadership was lost {say.plural(len(revoked), 'time')}",
        why=f"{revoked[0].text.get('component', 'a component')} lost its leadership",
        cause="leadership-lost",
        rank=Rank.ROOT_CAUSE,
        first_us=revoked[0].time_us,
        last_us=revoked[-1].time_us,
        count=len(revoked),
        evidence=cite((i.ref, i.time_us) for i in revoked),
        actions=remedies("leadership-lost", UNKNOWN_JOB),
    )


def _revocations(facts: StartupFacts) -> list[Incident]:
    """Each once, though it is known to the cluster and to every job; in order."""
    seen = {
        (incident.time_us, incident.ref): incident
        for incidents in (facts.common.incidents, *(job.incidents for job in facts.common.jobs))
        for incident in incidents
        if incident.text.get("template") == "leadership-revoked" and incident.time_us
    }
    return sorted(seen.values(), key=lambda incident: incident.time_us or 0)


RULE: Final = Rule("ST304", judge, Lost, whole=True, causes=("leadership-lost",))
