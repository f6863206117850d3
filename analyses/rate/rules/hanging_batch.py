"""A batch does not end.

What it reports
---------------
A batch whose processing began and did not end for many intervals, while it was the only thing to
do.

Why it matters
--------------
Batches are processed one after the other: behind one that hangs all others wait.

How it decides
--------------
The oldest batch without an end began more than `intervals` before the last sign of life, and takes
`ratio` times as long as any batch before it. Batches that only wait are RT101's matter, and those
behind which others ended RT107's.

What to do
----------
Take a thread dump of the executors: look for a call without a timeout in the output function.
Speculation helps against a slow machine, not against a lock.

False alarms
------------
A first batch that takes a whole backlog (see RT206). Hours without any batch are a hole in the input, or a
driver that stood still: they do not count.
"""

from __future__ import annotations

from flowdiag.analyses.rate import helpers as h


class Hanging(h.Limits):
    """What RT104 compares with."""

    intervals: float = h.limit(10.0, "intervals", "shorter stalls end by themselves")
    ratio: float = h.limit(3.0, "ratio", "against the longest batch before it")


def judge(assessed: h.Assessed, limits: Hanging) -> h.Iterator[h.Finding | h.Inconclusive]:
    """One finding per application with a batch that hangs at the end."""
    app = assessed.app
    running = [
        b
        for b in h.batches.unfinished_batches(app)
        if b.state == "processing" and b.start_ms is not None
    ]
    if not running or not app.interval_ms or app.last_us is None:
        return
    oldest = min(running, key=lambda b: b.start_ms or 0)
    begun = oldest.start_ms or 0
    since = min(app.last_us // 1000, h.batches.contiguous_until_ms(app, begun)) - begun
    usual = max((b.processing_ms or 0 for b in app.completed), default=0)
    if since < limits.intervals * app.interval_ms or since < limits.ratio * usual:
        return
    yield h.batch_finding(
        assessed,
        [oldest],
        severity=h.Severity.CRITICAL,
        title=f"A batch has been processed for {h.fmt.duration(since)} without an end; the longest "
        f"before it took {h.fmt.duration(usual)}",
        why=f"one batch has not ended for {h.fmt.duration(since)}",
        cause="hanging-batch",
        rank=h.Rank.ROOT_CAUSE,
        last_us=app.last_us,
        measurements=(h.measurement("running-for", since, "ms", usual or None),),
        actions=h.remedies("hanging-batch", app),
    )


RULE = h.Rule("RT104", judge, Hanging, causes=("hanging-batch",))
