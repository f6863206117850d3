"""Sources do not take part in checkpoints, or begin late.

What it reports
---------------
Checkpoints that expired without an acknowledgement from any source, although no downstream task blocked the
sources. The rule also reports slow checkpoints that waited for a source nearly all the time, and completed
immediately afterwards.

Why it matters
--------------
This problem is often mistaken for back pressure. An old-style source (SourceFunction) may read a snapshot while it
holds the checkpoint lock, as CDC connectors do in their first phase. Such a source blocks every checkpoint until
the snapshot has been read. An operator coordinator that never responds also blocks every checkpoint. Buffer tuning
does not help.

How it decides
--------------
The rule reads per-subtask acknowledgements (REST, archive, dump). In at least `checkpoints` expired checkpoints,
and in at least `share` of those with details, no subtask of any source acknowledged. Back pressure looks the same,
so metrics must show that the sources are back-pressured for less than `back-pressured` of the time. Without
metrics the rule is inconclusive. If thread dumps show that the storage blocks the checkpoints, CP306 reports it instead.

If checkpoints complete but are slow (CP104), the rule compares the time at which each source subtask began its
snapshot. At least `late-share` of the duration must have passed by then, in at least `checkpoints` slow
checkpoints and in at least `share` of those with details. The source must be neither back-pressured nor busy, and
its TaskManager must not spend that time on garbage collection. A source that calls a slow service while it holds
the lock matches all of these conditions.

What to do
----------
- CDC source: set a longer timeout and tolerate failures during the snapshot phase. Alternatively, use the incremental
  snapshot, which does not hold the lock.
- Other sources: take thread dumps of the JobManager and of a TaskManager that runs a source.

False alarms
------------
A TaskManager that pauses for seconds delays the sources on it as well. The thread dump shows the difference.
"""

from typing import Final, Unpack

from flowdiag.analyses.checkpoints.detect.sources import (
    begun_ms,
    delaying_sources,
    sender_of,
    share_if_calm,
    shares_back_pressured,
    silent_checkpoints,
    subject_of,
)
from flowdiag.analyses.checkpoints.detect.storage_waits import storage_wait
from flowdiag.analyses.checkpoints.rules.slow_checkpoint import slow_finding, slow_from_ms
from flowdiag.analyses.flink import helpers as h
from flowdiag.analyses.flink.tasks.pressure import PRESSED
from flowdiag.analyses.flink.tasks.topology import Topology, topology_of


class Limits(h.Limits):
    checkpoints: float = h.limit(
        2, "checkpoints", "minimum number of affected checkpoints; one may be a coincidence"
    )
    share: float = h.limit(
        0.8, "share", "minimum share of affected checkpoints; a held lock blocks all of them"
    )
    back_pressured: float = h.limit(
        PRESSED, "share", "maximum share of time that a source waits for downstream tasks"
    )
    late_share: float = h.limit(
        0.9,
        "share",
        "minimum share of a checkpoint that passes before the source begins its "
        "snapshot; barriers cross idle tasks in milliseconds",
    )


def judge(job: h.Job, limits: Limits) -> h.Results:
    """Yield at most one finding per job."""
    if storage_wait(job) is not None:
        return
    topology = topology_of(job)
    silent, detailed = silent_checkpoints(job, topology)
    if len(silent) < max(limits.checkpoints, limits.share * detailed):
        yield from _late_source_findings(job, topology, limits)
        return
    shares = shares_back_pressured(job, topology)
    if not shares:
        yield h.Inconclusive(
            reason="no source acknowledged, and no input shows whether the sources are back-pressured",
            checks=("back-pressure", "task-metrics"),
            job=job.key,
        )
        return
    if (back_pressured := max(shares)) >= limits.back_pressured:
        return
    name, subject = subject_of(job, topology)
    among, most = (
        f"in {len(silent)} of {detailed} expired checkpoints",
        h.fmt.percent(back_pressured),
    )
    signals = {
        "sources-missing": f"{among} no source acknowledged",
        "sources-not-back-pressured": f"sources wait for downstream tasks at most {most} of the time",
    }
    if not any(topology.canonical(stack.task) in topology.sources for stack in job.stacks):
        signals["no-thread-dumps"] = "no thread dump shows what a source does"
    over = f"{detailed} expired checkpoints with details"
    missing = ("checkpoints-without-source", len(silent), "checkpoints", limits.checkpoints, over)
    fields = _fields(
        job,
        signals,
        title=f"No source acknowledged {h.fmt.plural(len(silent), 'checkpoint')}; back pressure is not "
        "the cause",
        why=f"{name}: no acknowledgement {among}, back-pressured at most {most} of the time",
        measurements=(
            h.measurement(*missing),
            h.measurement("sources-back-pressured", round(back_pressured, 3), "share"),
        ),
        evidence=h.end_records(silent),
    )
    failed = [e for e in h.episodes(job) if e.count(h.Status.EXPIRED)]
    yield h.episode_finding(job, failed, len(silent), subject=subject, **fields)


def _late_source_findings(job: h.Job, topology: Topology, limits: Limits) -> h.Iterator[h.Finding]:
    """Judge slow checkpoints that completed as soon as a source had begun its snapshot."""
    slow = slow_finding(job)
    if slow is None or slow.severity is h.Severity.INFO:
        return
    late, detailed = delaying_sources(job, topology, slow_from_ms(job), limits.late_share)
    among = {row.checkpoint for row in late}
    if len(among) < max(limits.checkpoints, limits.share * len(detailed)):
        return
    back_pressured = share_if_calm(job, topology, limits.back_pressured)
    if back_pressured is None:
        return
    row = max(late, key=begun_ms)
    waited = f"{h.fmt.duration(begun_ms(row))} of {h.fmt.duration(row.end_to_end_ms or 0)}"
    signals = {
        "source-late": f"in {len(among)} of {len(detailed)} slow checkpoints, most of the duration passed before a source began",
        "sources-not-back-pressured": (
            f"sources wait for downstream tasks at most {h.fmt.percent(back_pressured)} of the time"
        ),
    }
    name = h.fmt.shorten(topology.canonical(row.task) or "a source")
    fields = _fields(
        job,
        signals,
        title=f"{name} begins its snapshot late in {h.fmt.plural(len(among), 'slow checkpoint')}; back "
        "pressure is not the cause",
        why=f"{name} began its snapshot after {waited}, in {len(among)} of {len(detailed)} slow checkpoints",
        severity=slow.severity,
        state=slow.state,
        first_us=slow.first_us,
        last_us=slow.last_us,
        measurements=(
            h.measurement(
                "checkpoints-with-late-source",
                len(among),
                "checkpoints",
                limits.checkpoints,
                f"{len(detailed)} slow checkpoints with details",
            ),
            h.measurement("sources-back-pressured", round(back_pressured, 3), "share"),
        ),
        evidence=tuple(cited for each in late if (cited := each.cited) is not None),
    )
    yield h.job_finding(job, subject=h.subtask_subject(job, sender_of(job, late)), **fields)


def _fields(
    job: h.Job, signals: dict[str, str], **fields: Unpack[h.FindingFields]
) -> h.FindingFields:
    """Return the cause, confidence and remedies that both findings share."""
    votes = h.votes_for(signals, RULE.signals)
    common: h.FindingFields = {
        "cause": "checkpoint-lock-held",
        "confidence": h.weigh(votes),
        "rank": h.Rank.FIRST_MECHANISM,
        "explain": h.explanation("checkpoint-lock-held"),
        "actions": h.remedies("checkpoint-lock-held", job),
        "votes": votes,
    }
    common.update(fields)
    return common


RULE: Final = h.Rule(
    "CP309",
    judge,
    Limits,
    causes=("checkpoint-lock-held",),
    needs="checkpoints",
    severity=h.Severity.CRITICAL,
)
