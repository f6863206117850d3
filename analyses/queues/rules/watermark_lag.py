"""The watermark of one subtask is far behind its siblings'.

What it reports
---------------
The subtask whose input watermark is minutes behind that of the other subtasks of its task.

Why it matters
--------------
Windows and timers there fire late, state piles up, and whoever joins with it waits in event time.

How it decides
--------------
`currentInputWatermark`, by window: a minute and more behind the median sibling in every window of the
input, five samples at least.

What to do
----------
Look at what feeds it: an idle partition or split (withIdleness), a source that is behind.

False alarms
------------
Chains that do not shuffle carry the watermark of their own source. A remark, not more.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from flowdiag.analyses.finding import (
    Action,
    Confidence,
    Finding,
    Inconclusive,
    Measurement,
    Rank,
    Severity,
    State,
    cite,
)
from flowdiag.analyses.flink import judging as j
from flowdiag.analyses.flink.placement import SubtaskKey
from flowdiag.analyses.flink.pressure import ENOUGH_SAMPLES, median
from flowdiag.analyses.queues.facts import JobQueues
from flowdiag.analyses.queues.judging import subtask
from flowdiag.analyses.queues.root import name_of
from flowdiag.analyses.rule import Limits, Rule, limit


class WatermarkLagLimits(Limits):
    """What SK106 compares with."""

    behind: float = limit(60, "s", "windows of a minute are the shortest that people care about")


def judge(job: JobQueues, limits: WatermarkLagLimits) -> Iterator[Finding | Inconclusive]:
    """One remark per task."""
    for task in job.topology.tasks:
        found = _behind(job, task)
        if found is not None and found[1] >= limits.behind * 1000:
            yield _finding(job, *found, limits.behind)


def _behind(job: JobQueues, task: str) -> tuple[SubtaskKey, float] | None:
    """The subtask that is furthest behind in every window, and by how much at least."""
    behind: dict[SubtaskKey, list[float]] = defaultdict(list)
    marks: dict[int, dict[SubtaskKey, float]] = defaultdict(dict)
    samples: dict[SubtaskKey, int] = defaultdict(int)
    for key, each in job.samples.items():
        if key.task != task:
            continue
        for sample in each:
            gauge = sample.gauges.get("watermark")
            # Watermarks of the end of the input say nothing about lag.
            if gauge is not None and gauge.high < 9e15:
                marks[sample.window][key] = gauge.mean
                samples[key] += gauge.n
    windows = [known for known in marks.values() if len(known) > 1]
    for known in windows:
        middle = median(known.values())
        for key, mark in known.items():
            behind[key].append((middle or mark) - mark)
    steady = {
        key: min(lags)
        for key, lags in behind.items()
        if len(lags) == len(windows) and samples[key] >= ENOUGH_SAMPLES
    }
    if not steady:
        return None
    worst = max(steady, key=lambda key: (steady[key], key))
    return worst, steady[worst]


def _finding(job: JobQueues, key: SubtaskKey, lag_ms: float, limit_s: float) -> Finding:
    each = job.samples[key]
    return Finding(
        job=job.job.key,
        severity=Severity.INFO,
        state=State.ONGOING,
        subject=subtask(job, key, each[-1].taskmanager),
        title=f"The watermark of {name_of(job, key)} is {j.duration_text(lag_ms)} behind its siblings'",
        confidence=Confidence.MEDIUM,
        rank=Rank.SYMPTOM,
        explain="What feeds this subtask holds event time back there.",
        measurements=(
            Measurement(
                name="watermark-behind",
                value=round(lag_ms),
                unit="ms",
                threshold=limit_s * 1000,
                population="the smallest difference to the median sibling in any window",
            ),
        ),
        evidence=cite((s.ref, s.first_us) for s in (*each[:1], *each[-1:])),
        actions=(
            Action(
                text="Look for idle partitions or splits that feed it, and mark them idle (withIdleness)"
            ),
        ),
    )


RULE: Final = Rule("SK106", judge, WatermarkLagLimits)
