"""Checkpoints wait for the JobManager's last step.

What it reports
---------------
Completed checkpoints whose finalisation took long: after the last acknowledgement, the JobManager writes
the metadata and completes the checkpoint.

Why it matters
--------------
All subtasks were on time, and still the next checkpoint has to wait. The reason is the JobManager's
storage, or large metadata (many small files, in-line state).

How it decides
--------------
From 1.14 on "Completed checkpoint" prints `finalizationTime` apart from the duration. It must reach
`finalization` and be `share` of the checkpoint's own duration or of the interval, in at least
`checkpoints` of them. It is ongoing if one of the last `at-the-end` was slow.

What to do
----------
Check the latency of the checkpoint storage from the JobManager's host, and the size of the metadata
file. To write fewer files, reduce in-line state or enable file merging (1.20+).

False alarms
------------
None known. A single slow write is not reported.
"""

from __future__ import annotations

from typing import Final

from flowdiag.analyses.flink import helpers as h


class Slow(h.Limits):
    """Thresholds of CP307."""

    finalization: float = h.limit(3000.0, "ms", "writing one small file takes milliseconds")
    share: float = h.limit(0.25, "share", "a quarter of the checkpoint or of the interval")
    checkpoints: float = h.limit(3, "checkpoints", "single slow writes happen")
    at_the_end: float = h.limit(
        3,
        "checkpoints",
        "the problem persists if one of the last few was slow: not every checkpoint is",
    )


def judge(job: h.Job, limits: Slow) -> h.Iterator[h.Finding]:
    """At most one finding per job."""
    timed = [c for c in job.completed if c.finalization_ms is not None]
    slow = [c for c in timed if _is_slow(c, job.interval_ms, limits)]
    if not slow or len(slow) < limits.checkpoints:
        return
    longest = max(c.finalization_ms or 0 for c in slow)
    yield h.checkpoint_finding(
        job,
        slow,
        among=timed,
        ongoing=slow[-1] in timed[-int(limits.at_the_end) :],
        title=f"{len(slow)} of {h.fmt.plural(len(timed), 'completed checkpoint')} waited up to "
        f"{h.fmt.duration(longest)} for the JobManager to finish them",
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


def _is_slow(checkpoint: h.Checkpoint, interval_ms: float | None, limits: Slow) -> bool:
    took = checkpoint.finalization_ms or 0
    whole = (checkpoint.duration_ms or 0) + took
    least = whole if interval_ms is None else min(whole, interval_ms)
    return took >= limits.finalization and took >= limits.share * least


RULE: Final = h.Rule("CP307", judge, Slow, causes=("slow-metadata-writes",))
