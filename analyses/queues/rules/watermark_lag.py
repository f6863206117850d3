"""The watermark of one subtask is far behind its siblings'.

What it reports
---------------
The subtask whose input watermark is minutes behind that of the other subtasks of its task.

Why it matters
--------------
Windows and timers there fire late, state piles up, and whoever joins with it waits in event time.

How it decides
--------------
`currentInputWatermark`, by window: as far as `behind` or more behind the median sibling in every window of the
input, on `samples` at least.

What to do
----------
Look at what feeds it: an idle partition or split (withIdleness), a source that is behind.

False alarms
------------
Chains that do not shuffle carry the watermark of their own source. A remark, not more.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Final

from flowdiag.analyses.queues import helpers as h

_END_OF_INPUT: Final = 9e15  # watermarks from here on say nothing about lag


class Behind(h.Limits):
    """What SK106 compares with."""

    behind: float = h.limit(60, "s", "windows of a minute are the shortest that people care about")
    samples: float = h.limit(5, "samples", "single ones are racy")


def judge(job: h.JobQueues, limits: Behind) -> h.Iterator[h.Finding]:
    """One remark per task."""
    for task in job.topology.tasks:
        steady = _steady_lags(job, task, limits.samples)
        worst = max(steady, key=lambda key: (steady[key], key), default=None)
        if worst is not None and steady[worst] >= limits.behind * 1000:
            yield _finding(job, worst, steady[worst], limits.behind)


def _steady_lags(job: h.JobQueues, task: str, enough: float) -> dict[h.SubtaskKey, float]:
    """By how much at least subtasks are behind their median sibling, in ms, in every window."""
    marks: dict[int, dict[h.SubtaskKey, float]] = defaultdict(dict)
    samples: dict[h.SubtaskKey, int] = defaultdict(int)
    for key, each in job.samples.items():
        for sample in each if key.task == task else ():
            gauge = sample.gauges.get("watermark")
            if gauge is not None and gauge.high < _END_OF_INPUT:
                marks[sample.window][key] = gauge.mean
                samples[key] += gauge.n
    windows = [known for known in marks.values() if len(known) > 1]
    lags: dict[h.SubtaskKey, list[float]] = defaultdict(list)
    for known in windows:
        middle = h.median(known.values())
        for key, mark in known.items():
            lags[key].append((middle or mark) - mark)
    return {
        key: min(each)
        for key, each in lags.items()
        if len(each) == len(windows) and samples[key] >= enough
    }


def _finding(job: h.JobQueues, key: h.SubtaskKey, lag_ms: float, most_s: float) -> h.Finding:
    each = job.samples[key]
    behind = h.fmt.duration(lag_ms)
    return h.subtask_finding(
        job,
        key,
        each[-1].taskmanager,
        title=f"The watermark of {h.subtask_name(job, key)} is {behind} behind its siblings'",
        confidence=h.Confidence.MEDIUM,
        rank=h.Rank.SYMPTOM,
        explain="What feeds this subtask holds event time back there.",
        measurements=(
            h.measurement(
                "watermark-behind",
                round(lag_ms),
                "ms",
                most_s * 1000,
                over="the smallest difference to the median sibling in any window",
            ),
        ),
        evidence=h.records_of(each, "watermark", key=key),
        actions=(
            h.Action(
                text="Look for idle partitions or splits that feed it, and mark them idle (withIdleness)"
            ),
        ),
    )


RULE: Final = h.Rule("SK106", judge, Behind)
