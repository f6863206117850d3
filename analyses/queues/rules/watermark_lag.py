"""The watermark of one subtask is far behind its siblings'.

What it reports
---------------
A subtask whose input watermark is minutes behind that of the other subtasks of its task.

Why it matters
--------------
Windows and timers of the subtask fire late, its state grows, and downstream joins have to wait.

How it decides
--------------
In every window of the metrics, the `currentInputWatermark` of the subtask is lower than the median of its
siblings by at least `behind`. At least `samples` are required.

What to do
----------
Check the upstream tasks for an idle partition or split (use `withIdleness`) and for a source that lags.

False alarms
------------
Without a shuffle, each chain has the watermark of its own source, so subtasks may differ. The finding is
only a note.
"""

from __future__ import annotations

from collections import defaultdict

from flowdiag.analyses.queues import helpers as h

END_OF_INPUT = 9e15  # larger watermarks mark the end of the input


class Limits(h.Limits):
    behind: float = h.limit(
        60, "s", "minimum lag behind the median; event-time windows are rarely shorter"
    )
    samples: float = h.limit(5, "samples", "minimum number of samples; fewer may be misleading")


def judge(job: h.JobQueues, limits: Limits) -> h.Iterator[h.Finding]:
    """Yield at most one note per task."""
    for task in job.topology.tasks:
        lags = _steady_lags(job, task, limits.samples)
        key = max(lags, key=lambda key: (lags[key], key), default=None)
        if key is None or lags[key] < limits.behind * 1000:
            continue
        samples = job.samples[key]
        yield h.subtask_finding(
            job,
            key,
            samples[-1].taskmanager,
            title=f"The watermark of {h.subtask_name(job, key)} is {h.fmt.duration(lags[key])} behind its "
            "siblings'",
            confidence=h.Confidence.MEDIUM,
            rank=h.Rank.SYMPTOM,
            explain="A source or task upstream of this subtask holds event time back.",
            measurements=(
                h.measurement(
                    "watermark-behind",
                    round(lags[key]),
                    "ms",
                    limits.behind * 1000,
                    over="the smallest difference to the median sibling in any window",
                ),
            ),
            evidence=h.records_of(samples, "watermark", key=key),
            actions=(
                h.Action(
                    text="Find idle partitions or splits upstream, and mark them idle (withIdleness)"
                ),
            ),
        )


def _steady_lags(job: h.JobQueues, task: str, enough: float) -> dict[h.SubtaskKey, float]:
    """Return each subtask's smallest lag behind its median sibling over all windows, in ms."""
    marks: dict[int, dict[h.SubtaskKey, float]] = defaultdict(dict)
    samples: dict[h.SubtaskKey, int] = defaultdict(int)
    for key, each in job.samples.items():
        for sample in each if key.task == task else ():
            gauge = sample.gauges.get("watermark")
            if gauge is not None and gauge.high < END_OF_INPUT:
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


RULE = h.Rule("SK106", judge, Limits)
