"""A leadership was lost.

What it reports
---------------
Revoked leaderships of Dispatcher, ResourceManager or JobMaster, how often and when.

Why it matters
--------------
With every change of the leader all jobs are suspended and started again.

How it decides
--------------
From Flink's own lines. A component that stops lays its leadership down too; that is not counted.

What to do
----------
Look at ZooKeeper or the Kubernetes API server, at long pauses of the JobManager, and at the time-outs of
the lease.

False alarms
------------
A planned change of the JobManager.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from flowdiag.analyses.finding import (
    Action,
    Finding,
    Inconclusive,
    Rank,
    Severity,
    State,
    Subject,
    cite,
)
from flowdiag.analyses.flink import judging as j
from flowdiag.analyses.rule import Limits, Rule
from flowdiag.analyses.startup.facts import StartupFacts


def judge(facts: StartupFacts, limits: Limits) -> Iterator[Finding | Inconclusive]:
    """One finding for the cluster."""
    seen = {}
    for incident in (
        *facts.common.incidents,
        *(i for job in facts.common.jobs for i in job.incidents),
    ):
        if incident.text.get("template") == "leadership-revoked" and incident.time_us:
            seen[(incident.time_us, incident.ref)] = incident
    revoked = [
        i
        for i in sorted(seen.values(), key=lambda i: i.time_us or 0)
        if facts.last_us is None or facts.last_us - (i.time_us or 0) > 15_000_000
    ]
    if not revoked:
        return
    yield Finding(
        job=None,
        severity=Severity.WARNING,
        state=State.RECOVERED,
        subject=Subject(kind="process"),
        title=f"Leadership was lost {j.count_text(len(revoked), 'time')}",
        why=f"{revoked[0].text.get('component', 'a component')} lost its leadership",
        cause="leadership-lost",
        rank=Rank.ROOT_CAUSE,
        first_us=revoked[0].time_us,
        last_us=revoked[-1].time_us,
        count=len(revoked),
        explain="All jobs of a leader that is gone are started again by the next one.",
        evidence=cite((i.ref, i.time_us) for i in revoked[:8]),
        actions=(
            Action(text="Look at ZooKeeper or the Kubernetes API server, and at pauses of the JVM"),
        ),
    )


RULE: Final = Rule("ST304", judge, whole=True)
