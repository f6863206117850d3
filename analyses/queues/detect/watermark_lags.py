"""How far the watermark of a subtask is behind those of its siblings."""

from __future__ import annotations

from collections import defaultdict

from flowdiag.analyses.queues import helpers as h

END_OF_INPUT = 9e15  # larger watermarks mark the end of the input


def steady_lags(job: h.JobQueues, task: str, enough: float) -> dict[h.SubtaskKey, float]:
    """Return each subtask's smallest lag behind the median of its siblings over all windows, in ms."""
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
