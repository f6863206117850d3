"""No source acknowledged the checkpoint.

What it reports
---------------
Checkpoints that expired without a single acknowledgement from any source although nothing downstream
held them up: the sources themselves do not take part.

Why it matters
--------------
It is mistaken for back pressure. A source of the old kind (SourceFunction) that reads a snapshot under
the checkpoint lock, as CDC connectors do in their first phase, or an operator coordinator that never
answers, blocks every checkpoint until it is done, and no tuning of buffers helps.

How it decides
--------------
Per-subtask acknowledgements (REST, archive, dump) must show that all subtasks of all sources are
missing, in `checkpoints` of the expired checkpoints and in `share` of those that tell. Back pressure
looks the same from there, so it must be excluded: metrics must show that the sources are back-pressured
for less than half of the time. Without metrics it says that it cannot tell.

What to do
----------
For CDC: a longer time-out and tolerated failures during the snapshot phase, or the incremental snapshot
that does not hold the lock. For others: a thread dump of a source's TaskManager.

False alarms
------------
None known.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from flowdiag.analyses.checkpoints.signals import pressures
from flowdiag.analyses.finding import (
    Action,
    Finding,
    Inconclusive,
    Measurement,
    Rank,
    Subject,
    Vote,
    weigh,
)
from flowdiag.analyses.flink import judging as j
from flowdiag.analyses.flink.episodes import concluded, episodes
from flowdiag.analyses.flink.job import Checkpoint, JobFacts, Status
from flowdiag.analyses.flink.kit import Job
from flowdiag.analyses.flink.options import option
from flowdiag.analyses.flink.pressure import PRESSED
from flowdiag.analyses.flink.topology import Topology, topology_of
from flowdiag.analyses.rule import Limits, Rule, Signal, limit


class NoSourceAcknowledgedLimits(Limits):
    """What CP309 compares with."""

    checkpoints: float = limit(2, "checkpoints", "once may be a busy moment")
    share: float = limit(0.8, "share", "a held lock holds every checkpoint up")


def judge(job: Job, limits: NoSourceAcknowledgedLimits) -> Iterator[Finding | Inconclusive]:
    """At most one finding per job."""
    topology = topology_of(job)
    silent, telling = silent_checkpoints(job, topology)
    if len(silent) < limits.checkpoints or len(silent) < limits.share * telling:
        return
    loads = pressures(job).loads
    pressed = [
        load.pressed
        for key, load in loads.items()
        if key.task in topology.sources and load.wait_measured and load.pressed is not None
    ]
    if not pressed:
        yield Inconclusive(
            reason="no source acknowledged, and no input says whether they are back-pressured",
            remedy="TaskManager logs with metric reports (back-pressured time, 1.13+)",
            job=job.key,
        )
    elif max(pressed) < PRESSED:
        yield _finding(job, topology, silent, telling, max(pressed), limits)


def silent_checkpoints(job: JobFacts, topology: Topology) -> tuple[list[Checkpoint], int]:
    """Expired checkpoints without any source's acknowledgement, and how many tell about sources."""
    expired = {c.id: c for e in episodes(job) for c in e.checkpoints if c.status is Status.EXPIRED}
    states: dict[int, list[bool]] = defaultdict(list)
    for row in job.subtask_checkpoints:
        if (
            row.checkpoint in expired
            and row.source != "debug"
            and topology.canonical(row.task) in topology.sources
        ):
            states[row.checkpoint].append(row.acknowledged)
    silent = [expired[number] for number, known in sorted(states.items()) if not any(known)]
    return silent, len(states)


def _finding(
    job: JobFacts,
    topology: Topology,
    silent: list[Checkpoint],
    telling: int,
    pressed: float,
    limits: NoSourceAcknowledgedLimits,
) -> Finding:
    series = [e for e in episodes(job) if e.count(Status.EXPIRED)]
    sources = [task for task in topology.tasks if task in topology.sources]
    votes = (
        Vote(
            signal="sources-missing",
            says=f"in {len(silent)} of {telling} expired checkpoints no source acknowledged",
            weight=2,
        ),
        Vote(
            signal="sources-not-back-pressured",
            says=f"sources wait for those downstream {pressed * 100:.0f} % of the time at most",
            weight=2,
        ),
    )
    name = j.shorten(sources[0]) if len(sources) == 1 else f"{len(sources)} sources"
    cited = j.ends(silent)
    return Finding(
        job=job.key,
        severity=j.severity_of(job, series, len(silent), len(concluded(job))),
        state=j.state_of(series),
        subject=Subject(
            kind="task",
            job_id=job.key.job_id or None,
            job_name=job.name,
            task=sources[0],
            parallelism=topology.parallelism.get(sources[0]) or None,
        )
        if len(sources) == 1
        else j.job_subject(job),
        title=f"No source acknowledged {j.count_text(len(silent), 'checkpoint')}; it is not back pressure",
        why=f"{name}: no acknowledgement in {len(silent)} of {telling} expired checkpoints, "
        f"back-pressured {pressed * 100:.0f} % at most",
        cause="checkpoint-lock-held",
        confidence=weigh(votes),
        rank=Rank.FIRST_MECHANISM,
        first_us=series[0].first_us,
        last_us=series[-1].last_us,
        count=len(silent),
        explain=(
            "Barriers are born at the sources. A source that holds the checkpoint lock, or whose "
            "coordinator does not answer, never emits one."
        ),
        measurements=(
            Measurement(
                name="checkpoints-without-source",
                value=len(silent),
                unit="checkpoints",
                threshold=limits.checkpoints,
                population=f"{telling} expired ones with details",
            ),
            Measurement(name="sources-back-pressured", value=round(pressed, 3), unit="share"),
        ),
        evidence=cited,
        actions=(
            Action(
                text="If a snapshot phase is running: use the incremental snapshot that holds no lock, or "
                "wait for its end",
                verify="the first checkpoint after the snapshot phase completes",
            ),
            Action(
                text="Meanwhile, give checkpoints more time and tolerate failed ones",
                option=option("timeout", job.version),
                current=j.configured(job, *j.TIMEOUT_KEYS),
                restart_needed=True,
            ),
            Action(text="Otherwise take a thread dump of a source's TaskManager"),
        ),
        votes=votes,
    )


RULE: Final = Rule(
    "CP309",
    judge,
    NoSourceAcknowledgedLimits,
    signals=(
        Signal("sources-missing", 2, "no subtask of any source acknowledged"),
        Signal("sources-not-back-pressured", 2, "their metrics show no back pressure"),
    ),
)
