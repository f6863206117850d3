"""Checkpoints wait for the JobManager's last step.

What it reports
---------------
Completed checkpoints whose finalization took a long time. In this step, after the last acknowledgement, the
JobManager writes the metadata and completes the checkpoint.

Why it matters
--------------
The next checkpoint has to wait although all subtasks were on time. Either the JobManager writes to slow storage,
or the metadata is large because of many small files or inline state.

How it decides
--------------
From Flink 1.14 on, the line "Completed checkpoint" prints `finalizationTime` separately from the duration. A
checkpoint is slow if this time is at least `finalization`, and at least `share` of the whole checkpoint or of the
interval. The rule reports at least `checkpoints` slow checkpoints. The problem is ongoing if one of the last
`recent` completed checkpoints was slow.

What to do
----------
Check the latency of the checkpoint storage from the JobManager's host, and the size of the metadata
file. To write fewer files, reduce inline state or enable file merging (1.20+).

False alarms
------------
None known. A single slow write is not reported.
"""

from typing import Final

from flowdiag.analyses.flink import helpers as h


class Limits(h.Limits):
    finalization: float = h.limit(
        3000.0, "ms", "minimum time to finalize a checkpoint; writing metadata takes milliseconds"
    )
    share: float = h.limit(
        0.25,
        "share",
        "minimum finalization time as a share of the checkpoint or interval, whichever is shorter",
    )
    checkpoints: float = h.limit(
        3, "checkpoints", "minimum number of slow checkpoints; two may be a coincidence"
    )
    recent: float = h.limit(
        3, "checkpoints", "number of latest checkpoints; if one is slow, the problem is ongoing"
    )


def judge(job: h.Job, limits: Limits) -> h.Iterator[h.Finding]:
    """Yield at most one finding per job."""
    timed = [c for c in job.completed if c.finalization_ms is not None]
    slow = [c for c in timed if _is_slow(c, job.interval_ms, limits)]
    if not slow or len(slow) < limits.checkpoints:
        return
    longest = max(c.finalization_ms or 0 for c in slow)
    yield h.checkpoint_finding(
        job,
        slow,
        among=timed,
        ongoing=slow[-1] in timed[-int(limits.recent) :],
        title=f"{len(slow)} of {h.fmt.plural(len(timed), 'completed checkpoint')} waited up to "
        f"{h.fmt.duration(longest)} for the JobManager to finalize them",
        explain=h.explanation("slow-metadata-writes"),
        rank=h.Rank.SYMPTOM,
        cause="slow-metadata-writes",
        measurements=(
            h.measurement(
                "longest-finalization",
                longest,
                "ms",
                limits.finalization,
                over=f"{len(timed)} completed checkpoints",
            ),
        ),
        actions=h.remedies("slow-metadata-writes", job, "look-at-storage", "less-in-line"),
    )


def _is_slow(checkpoint: h.Checkpoint, interval_ms: float | None, limits: Limits) -> bool:
    took = checkpoint.finalization_ms or 0
    whole = (checkpoint.duration_ms or 0) + took
    least = whole if interval_ms is None else min(whole, interval_ms)
    return took >= limits.finalization and took >= limits.share * least


RULE: Final = h.Rule(
    "CP307", judge, Limits, causes=("slow-metadata-writes",), needs="ended-checkpoints"
)
