"""The job restarts again and again.

What it reports
---------------
Series of restarts without a completed checkpoint between: how many, how often, and what began them.

Why it matters
--------------
Between two restarts the job does the same work again, and downstream sees the same data again. The log
is full of exceptions, most of which are not the reason.

How it decides
--------------
At least `restarts` failures in one crisis (see CP301). Critical while it goes on at the end of the input.
The first cause stands in the title; the finding itself accuses nobody, CP301 to CP303 do.

What to do
----------
Mend the first cause. Until then, a longer delay between restarts keeps the cluster usable.

False alarms
------------
Restarts that were asked for (rescaling, a savepoint and a new submission) are no failures.
"""

from __future__ import annotations

from typing import Final

from flowdiag.analyses.flink import helpers as h
from flowdiag.analyses.flink.crises import LOOP


class Loop(h.Limits):
    """What CP311 compares with."""

    restarts: float = h.limit(
        LOOP, "restarts", "twice happens when the first restart meets the same broken thing"
    )


def judge(job: h.Job, limits: Loop) -> h.Iterator[h.Finding]:
    """One finding per job, of its last loop."""
    loops = [crisis for crisis in job.crises if crisis.bursts >= limits.restarts]
    if not loops:
        return
    last = loops[-1]
    root = last.root.incident
    text = h.fmt.shorten(h.exception_text(root.cause), 120)
    name = h.subtask_name(root) if root.task is not None else "the job"
    span = None
    if last.first_us is not None and last.last_us is not None and last.last_us > last.first_us:
        span = (last.last_us - last.first_us) / 1000
    yield h.crisis_finding(
        job,
        loops,
        severity=h.grade(
            state=last.state, share=1.0, fatal=last.state is h.State.ONGOING or last.final
        ),
        title=f"{last.bursts} failures"
        + (f" within {h.fmt.duration(span)}" if span is not None else "")
        + " without a completed checkpoint"
        + (f"; the first: {name}, {text}" if text else ""),
        rank=h.Rank.REPETITION,
        count=sum(crisis.bursts for crisis in loops),
        explain="The failure that began it explains the others, unless they name another task: a "
        "restart often fails for want of slots, connections or locks that the first failure left "
        "behind.",
        measurements=(
            h.measurement(
                "failures",
                last.bursts,
                "restarts",
                limits.restarts,
                over="since the last completed checkpoint",
            ),
        ),
        actions=(
            h.Action(text="Mend the first cause (CP301, CP302, CP303)"),
            *h.shared_remedies(job, "back-off"),
        ),
    )


RULE: Final = h.Rule("CP311", judge, Loop)
