"""State on the heap grows until the heap is full.

What it reports
---------------
A job whose state on the heap grows steadily and soon uses up the free heap of its TaskManagers. The finding shows
the growth per hour, and when the heap will be full at the latest.

Why it matters
--------------
A full heap causes minutes of garbage collection, then an OutOfMemoryError, and then a restart with the same state.

How it decides
--------------
The rule needs the heap state backend, and at least `checkpoints` completed checkpoints since the last start or
restore. Their sizes must grow at least `factor`-fold, with a rank correlation with time (Kendall's tau) of at
least `tau`. The growth in the second half must be at least `linearity` of that in the first half. State that fills
up after a start and levels off does not count.

The rule divides the free heap by the growth. The free heap of a TaskManager is its maximum heap minus the lowest
usage in its last minute. Objects on the heap are larger than in serialized form, so the heap may be full even
earlier. The rule never predicts further ahead than `horizon` times the length of the input.

With a full heap, a TaskManager may spend minutes in garbage collection. It then misses its heartbeats before it throws an
OutOfMemoryError. If the last metrics of a lost TaskManager show at least `full` of its heap in use,
`checkpoints-before-loss` checkpoints are enough, and the finding explains the loss.

False alarms
------------
After a start, the state of a job with a fixed set of keys grows until all keys have been seen.
"""

from flowdiag.analyses.queues import helpers as h
from flowdiag.analyses.queues.detect.heap import HeapGrowth, heap_growth, largest_state


class Limits(h.TrendLimits):
    checkpoints: float = h.limit(
        10, "checkpoints", "minimum number of checkpoints; with fewer, the halves show no trend"
    )
    checkpoints_before_loss: float = h.limit(
        5,
        "checkpoints",
        "the same if a TaskManager with a full heap was lost; the loss confirms the trend",
    )
    full: float = h.limit(
        0.85, "share", "minimum heap in use before a loss; above it, collections free little memory"
    )
    horizon: float = h.limit(
        10, "ratio", "maximum forecast as a multiple of the measured time; no trend lasts forever"
    )


def judge(job: h.JobQueues, limits: Limits) -> h.Iterator[h.Finding]:
    """Yield at most one finding per job."""
    growth = heap_growth(
        job,
        checkpoints=limits.checkpoints,
        before_loss=limits.checkpoints_before_loss,
        full=limits.full,
        factor=limits.factor,
        tau=limits.tau,
        straight=limits.linearity,
    )
    if growth is not None and growth.left_s <= limits.horizon * growth.duration_s:
        yield _finding(job, growth, limits)


def _finding(job: h.JobQueues, growth: HeapGrowth, limits: Limits) -> h.Finding:
    first, last = growth.sized[0], growth.sized[-1]
    per_hour, count = growth.rate * 3600, len(growth.sized)
    task = largest_state(job)
    owner = f"the state of {h.fmt.shorten(task)}" if task is not None else "state"
    text = f"{h.fmt.capital(owner)} on the heap grows by {h.fmt.size(per_hour)} per hour and fills the heap within {h.fmt.duration(growth.left_s * 1000)}"
    if growth.lost is not None:
        name, share = growth.lost
        text = (
            f"{h.fmt.capital(owner)} on the heap grew by {h.fmt.size(per_hour)} per hour until the heap of "
            f"{h.place_of(job, name)} was {h.fmt.percent(share)} full. Then this TaskManager was lost"
        )
    return h.job_finding(
        job,
        subject=h.task_subject(job, task) if task is not None else None,
        severity=h.Severity.WARNING if growth.lost is None else h.Severity.CRITICAL,
        title=text,
        why=text,
        cause="state-fills-heap",
        confidence=h.Confidence.MEDIUM if growth.lost is None else h.Confidence.HIGH,
        rank=h.Rank.ROOT_CAUSE,
        first_us=first.ended_us,
        last_us=last.ended_us,
        count=count,
        measurements=(
            h.measurement("growth", round(per_hour), "bytes/h", over=f"of {count} checkpoints"),
            h.measurement("free-heap", round(growth.free), "bytes", over="of its TaskManagers"),
            h.measurement(
                "time-until-full",
                round(growth.left_s),
                "s",
                round(limits.horizon * growth.duration_s),
            ),
            h.measurement("full-at", h.fmt.moment((last.ended_us or 0) + growth.left_s * 1e6)),
        ),
        evidence=h.cite((c.end_ref, c.ended_us) for c in (first, last)),
        actions=h.remedies("state-fills-heap", job.job),
    )


RULE = h.Rule(
    "IO303",
    judge,
    Limits,
    causes=("state-fills-heap",),
    needs="jvm",
    severity=h.Severity.CRITICAL,
)
