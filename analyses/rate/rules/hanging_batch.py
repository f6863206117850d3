"""A batch does not end.

What it reports
---------------
A batch that has been running for many intervals, with no other batch running.

Why it matters
--------------
Batches run one after the other, so every batch behind a hanging one waits.

How it decides
--------------
The oldest unfinished batch began more than `intervals` before the last record of the input, and has taken
`ratio` times as long as any earlier batch. RT101 covers batches that only wait, and RT107 covers batches
that later ones overtook.

What to do
----------
Take a thread dump of the executors, and look for a call without a timeout in the output function.
Speculation helps against a slow host, not against a lock.

False alarms
------------
A first batch that reads the whole backlog (see RT207). Hours without any batch are a gap in the input or a stalled
driver, and do not count.
"""

from __future__ import annotations

from flowdiag.analyses.rate import helpers as h


class Limits(h.Limits):
    intervals: float = h.limit(10.0, "intervals", "shorter stalls end on their own")
    ratio: float = h.limit(3.0, "ratio", "ratio to the longest earlier batch")


def judge(
    assessed: h.AssessedApplication, limits: Limits
) -> h.Iterator[h.Finding | h.Inconclusive]:
    """Yield one finding per application with a batch that hangs at the end."""
    app = assessed.app
    unfinished = h.batches.unfinished_batches(app)
    running = [b for b in unfinished if b.state == "processing" and b.start_ms is not None]
    if not running or not app.interval_ms or app.last_us is None:
        return
    oldest = min(running, key=lambda b: b.start_ms or 0)
    begun = oldest.start_ms or 0
    ran = min(app.last_us // 1000, h.batches.contiguous_until_ms(app, begun)) - begun
    longest = max((b.processing_ms or 0 for b in app.completed), default=0)
    if ran < max(limits.intervals * app.interval_ms, limits.ratio * longest):
        return
    yield h.batch_finding(
        assessed,
        [oldest],
        severity=h.Severity.CRITICAL,
        title=f"A batch has been running for {h.fmt.duration(ran)}; the longest earlier batch took "
        f"{h.fmt.duration(longest)}",
        why=f"one batch has been running for {h.fmt.duration(ran)}",
        cause="hanging-batch",
        rank=h.Rank.ROOT_CAUSE,
        last_us=app.last_us,
        measurements=(h.measurement("running-for", ran, "ms", longest or None),),
        actions=h.remedies("hanging-batch", app),
    )


RULE = h.Rule("RT104", judge, Limits, causes=("hanging-batch",))
