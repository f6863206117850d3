"""No source acknowledged the checkpoint.

What it reports
---------------
Checkpoints that expired without an acknowledgement from any source although nothing downstream blocked
them: the sources themselves do not take part.

Why it matters
--------------
It is mistaken for back pressure. An old-style source (SourceFunction) that reads a snapshot under the
checkpoint lock, as CDC connectors do in their first phase, blocks every checkpoint until it is done. So
does an operator coordinator that never answers. Buffer tuning does not help.

How it decides
--------------
Per-subtask acknowledgements (REST, archive, dump) must show that all subtasks of all sources are
missing, in `checkpoints` of the expired checkpoints and in `share` of those with details. Back pressure
looks the same, so metrics must exclude it: the sources are back-pressured for less than
`back-pressured` of the time. Without metrics the rule is inconclusive.

What to do
----------
CDC: set a longer timeout and tolerate failures during the snapshot phase, or use the incremental
snapshot, which does not hold the lock. Other sources: take a thread dump of a source's TaskManager.

False alarms
------------
None known.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Final

from flowdiag.analyses.flink import helpers as h
from flowdiag.analyses.flink.tasks.pressure import PRESSED, overall_view
from flowdiag.analyses.flink.tasks.topology import Topology, topology_of


class NoSource(h.Limits):
    """Thresholds of CP309."""

    checkpoints: float = h.limit(2, "checkpoints", "a single one may be a busy moment")
    share: float = h.limit(0.8, "share", "a held lock blocks every checkpoint")
    back_pressured: float = h.limit(
        PRESSED,
        "share",
        "a source that waits for downstream tasks most of the time is back-pressured",
    )


def judge(job: h.Job, limits: NoSource) -> h.Iterator[h.Finding | h.Inconclusive]:
    """At most one finding per job."""
    topology = topology_of(job)
    silent, detailed = _silent_checkpoints(job, topology)
    if len(silent) < limits.checkpoints or len(silent) < limits.share * detailed:
        return
    pressed = [
        load.pressed
        for key, load in overall_view(job).loads.items()
        if key.task in topology.sources and load.wait_measured and load.pressed is not None
    ]
    if not pressed:
        yield h.Inconclusive(
            reason="no source acknowledged, and no input shows whether the sources are back-pressured",
            remedy="add TaskManager logs with metric reports (back-pressured time, 1.13+)",
            job=job.key,
        )
    elif max(pressed) < limits.back_pressured:
        yield _finding(job, topology, silent, detailed, max(pressed), limits)


def _silent_checkpoints(job: h.Job, topology: Topology) -> tuple[list[h.Checkpoint], int]:
    """Return expired checkpoints without an acknowledgement by a source, and how many show sources."""
    expired = {
        c.id: c for e in h.episodes(job) for c in e.checkpoints if c.status is h.Status.EXPIRED
    }
    acknowledged: dict[int, list[bool]] = defaultdict(list)
    for row in job.subtask_checkpoints:
        if (
            row.checkpoint in expired
            and row.source != "debug"
            and topology.canonical(row.task) in topology.sources
        ):
            acknowledged[row.checkpoint].append(row.acknowledged)
    silent = [expired[number] for number, known in sorted(acknowledged.items()) if not any(known)]
    return silent, len(acknowledged)


def _finding(
    job: h.Job,
    topology: Topology,
    silent: list[h.Checkpoint],
    detailed: int,
    pressed: float,
    limits: NoSource,
) -> h.Finding:
    sources = [task for task in topology.tasks if task in topology.sources]
    votes = h.votes_for(
        {
            "sources-missing": f"in {len(silent)} of {detailed} expired checkpoints no source "
            "acknowledged",
            "sources-not-back-pressured": "sources wait for downstream tasks "
            f"{h.fmt.percent(pressed)} of the time at most",
        },
        RULE.signals,
    )
    name = h.fmt.shorten(sources[0]) if len(sources) == 1 else f"{len(sources)} sources"
    return h.episode_finding(
        job,
        [e for e in h.episodes(job) if e.count(h.Status.EXPIRED)],
        len(silent),
        subject=h.Subject(
            kind="task",
            job_id=job.key.job_id or None,
            job_name=job.name,
            task=sources[0],
            parallelism=topology.parallelism.get(sources[0]) or None,
        )
        if len(sources) == 1
        else None,
        title=f"No source acknowledged {h.fmt.plural(len(silent), 'checkpoint')}; "
        "back pressure is not the reason",
        why=f"{name}: no acknowledgement in {len(silent)} of {detailed} expired checkpoints, "
        f"back-pressured {h.fmt.percent(pressed)} at most",
        cause="checkpoint-lock-held",
        confidence=h.weigh(votes),
        rank=h.Rank.FIRST_MECHANISM,
        explain=h.explanation("checkpoint-lock-held"),
        measurements=(
            h.measurement(
                "checkpoints-without-source",
                len(silent),
                "checkpoints",
                limits.checkpoints,
                over=f"{detailed} expired ones with details",
            ),
            h.measurement("sources-back-pressured", round(pressed, 3), "share"),
        ),
        evidence=h.end_records(silent),
        actions=h.remedies("checkpoint-lock-held", job),
        votes=votes,
    )


RULE: Final = h.Rule(
    "CP309",
    judge,
    NoSource,
    signals=(
        h.Signal("sources-missing", 2, "no subtask of any source acknowledged"),
        h.Signal("sources-not-back-pressured", 2, "their metrics show no back pressure"),
    ),
    causes=("checkpoint-lock-held",),
)
