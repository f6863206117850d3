"""No source acknowledged the checkpoint.

What it reports
---------------
Checkpoints that expired without an acknowledgement from any source, although no downstream task blocked the
sources. The sources themselves do not take part in the checkpoint.

Why it matters
--------------
This problem is often mistaken for back pressure. An old-style source (SourceFunction) may read a snapshot while
it holds the checkpoint lock, as CDC connectors do in their first phase. It blocks every checkpoint until it is
done. So does an operator coordinator that never responds. Buffer tuning does not help.

How it decides
--------------
The rule reads per-subtask acknowledgements (REST, archive, dump). No subtask of any source may have
acknowledged, in at least `checkpoints` expired checkpoints and in at least `share` of those with details. Back
pressure looks the same, so metrics must show that the sources are back-pressured for less than
`back-pressured` of the time. Without metrics the rule is inconclusive.

What to do
----------
- CDC source: set a longer timeout and tolerate failures during the snapshot phase. Or use the incremental
  snapshot, which does not hold the lock.
- Other sources: take a thread dump of a TaskManager that runs a source.

False alarms
------------
None known.
"""

from __future__ import annotations

from typing import Final

from flowdiag.analyses.checkpoints.detect.sources import silent_checkpoints
from flowdiag.analyses.flink import helpers as h
from flowdiag.analyses.flink.tasks.pressure import PRESSED, overall_view
from flowdiag.analyses.flink.tasks.topology import topology_of


class Limits(h.Limits):
    checkpoints: float = h.limit(
        2, "checkpoints", "a single checkpoint may expire in a busy moment"
    )
    share: float = h.limit(0.8, "share", "a source that holds the lock blocks every checkpoint")
    back_pressured: float = h.limit(
        PRESSED,
        "share",
        "a source that waits for downstream tasks most of the time is back-pressured",
    )


def judge(job: h.Job, limits: Limits) -> h.Results:
    """At most one finding per job."""
    topology = topology_of(job)
    silent, detailed = silent_checkpoints(job, topology)
    if len(silent) < max(limits.checkpoints, limits.share * detailed):
        return
    shares = [
        load.pressed
        for key, load in overall_view(job).loads.items()
        if key.task in topology.sources and load.wait_measured and load.pressed is not None
    ]
    if not shares:
        yield h.Inconclusive(
            reason="no source acknowledged, and no input shows whether the sources are back-pressured",
            checks=("back-pressure", "task-metrics"),
            job=job.key,
        )
        return
    if (pressed := max(shares)) >= limits.back_pressured:
        return
    sources = [task for task in topology.tasks if task in topology.sources]
    name, subject = f"{len(sources)} sources", None
    if len(sources) == 1:
        name = h.fmt.shorten(sources[0])
        subject = h.Subject(
            kind="task",
            job_id=job.key.job_id or None,
            job_name=job.name,
            task=sources[0],
            parallelism=topology.parallelism.get(sources[0]) or None,
        )
    among, most = f"in {len(silent)} of {detailed} expired checkpoints", h.fmt.percent(pressed)
    signals = {
        "sources-missing": f"{among} no source acknowledged",
        "sources-not-back-pressured": f"sources wait for downstream tasks {most} of the time at most",
    }
    votes = h.votes_for(signals, RULE.signals)
    over = f"{detailed} expired ones with details"
    missing = ("checkpoints-without-source", len(silent), "checkpoints", limits.checkpoints, over)
    yield h.episode_finding(
        job,
        [e for e in h.episodes(job) if e.count(h.Status.EXPIRED)],
        len(silent),
        subject=subject,
        title=f"No source acknowledged {h.fmt.plural(len(silent), 'checkpoint')}; "
        "back pressure is not the reason",
        why=f"{name}: no acknowledgement {among}, back-pressured {most} at most",
        cause="checkpoint-lock-held",
        confidence=h.weigh(votes),
        rank=h.Rank.FIRST_MECHANISM,
        explain=h.explanation("checkpoint-lock-held"),
        measurements=(
            h.measurement(*missing),
            h.measurement("sources-back-pressured", round(pressed, 3), "share"),
        ),
        evidence=h.end_records(silent),
        actions=h.remedies("checkpoint-lock-held", job),
        votes=votes,
    )


RULE: Final = h.Rule("CP309", judge, Limits, causes=("checkpoint-lock-held",), needs="checkpoints")
