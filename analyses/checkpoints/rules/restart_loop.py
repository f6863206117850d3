"""The job keeps restarting.

What it reports
---------------
Series of restarts without a completed checkpoint in between. The finding shows the number of failures, the time
they span, and the first failure.

Why it matters
--------------
After each restart the job repeats the same work, and downstream systems receive the same data again. The log
is full of exceptions, most of which are not the cause.

How it decides
--------------
The rule reports at least `restarts` failures in one crisis, which is a series of failures without a completed
checkpoint (see CP301). The finding is critical if the loop continues at the end of the input, or if the job failed
for good. The title shows the first cause. The rule itself does not blame a task. CP301, CP302 and CP303 name the
cause.

What to do
----------
Fix the first cause. Until then, a longer delay between restarts keeps the cluster usable.

False alarms
------------
None known. Requested restarts, such as rescaling or a savepoint followed by a new submission, do not count.
"""

from typing import Final

from flowdiag.analyses.flink import helpers as h
from flowdiag.analyses.flink.failures.crises import LOOP


class Limits(h.Limits):
    restarts: float = h.limit(
        LOOP, "restarts", "minimum number of restarts; the second may succeed if the first fails"
    )


def judge(job: h.Job, limits: Limits) -> h.Iterator[h.Finding]:
    """Yield one finding per job, about its last loop."""
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
        + (" without a completed checkpoint" if job.checkpoints else "")
        + (f"; first failure: {name}, {text}" if text else ""),
        rank=h.Rank.REPETITION,
        count=sum(crisis.bursts for crisis in loops),
        explain=h.text("CP311.first-failure"),
        measurements=(
            h.measurement(
                "failures",
                last.bursts,
                "restarts",
                limits.restarts,
                over="since the last completed checkpoint" if job.checkpoints else None,
            ),
        ),
        actions=h.shared_remedies(job, "first-cause", "back-off"),
    )


RULE: Final = h.Rule("CP311", judge, Limits, needs="dated-records", severity=h.Severity.CRITICAL)
