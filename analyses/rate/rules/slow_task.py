"""One task of a batch takes much longer than the others.

What it reports
---------------
Batches or triggers in which one task of the longest stage takes much longer than the others. If the task
also reads more records, the data is skewed. If it reads as many as the others but has more rows in its state, the
state is skewed. Otherwise it is a straggler.

Why it matters
--------------
A batch waits for its slowest task, and the other cores are idle until that task ends.

How it decides
--------------
flowdiag aggregates the tasks of each stage in the event log. In at least `share` of the recent batches, the
slowest task takes `ratio` times the mean of the others and at least `floor` longer. It also takes at least
`batch-share` of the batch.

The data is skewed if this task reads `record-ratio` times the records or bytes of the others. Spark counts no records for
receivers and for Kafka's direct stream. For these streams, the data is probably skewed if the slowest task has the
same partition number in `same-partition` of these batches, and the confidence is lower.

The state is skewed if the slowest task has `record-ratio` times the state rows of the others. The metric `number of
total state rows` of each task shows them.

What to do
----------
If the data is skewed, use another key, salt the key, or use more partitions. For Kafka, set
`minPartitions`. For stragglers, see RT304, and enable speculation if tasks may run twice.

False alarms
------------
The rule ignores stages with a single task. A receiver's long-running task does not count either, because it
is not part of a batch.
"""

from flowdiag.analyses.rate import helpers as h
from flowdiag.analyses.rate.detect.stragglers import straggler_of, task_subject, waits_for_task


class Limits(h.Limits):
    ratio: float = h.limit(
        3.0, "ratio", "minimum ratio of a task's duration to the others' mean; two is normal"
    )
    floor: float = h.limit(
        500, "ms", "minimum time above the mean; starting a task takes less time"
    )
    share: float = h.limit(
        0.6, "share", "minimum share of batches with a slow task; a single slow batch is a hiccup"
    )
    batch_share: float = h.limit(
        0.5, "share", "minimum share of the batch in the task; below it, other tasks matter more"
    )
    record_ratio: float = h.limit(
        2.0, "ratio", "minimum ratio of records to the other tasks' mean; below it, a straggler"
    )
    same_partition: float = h.limit(
        0.8, "share", "minimum share of batches with the same slowest partition"
    )


def judge(assessed: h.AssessedApplication, limits: Limits) -> h.Results:
    """Yield one finding per application or query whose batches wait for one task."""
    for flow in h.flows_of(assessed):
        units = [unit for unit in flow.units if unit.rows]
        slow = [
            (unit, unit.stage)
            for unit in units
            if unit.stage is not None
            and waits_for_task(
                unit.duration_ms,
                unit.stage,
                ratio=limits.ratio,
                floor=limits.floor,
                part=limits.batch_share,
            )
        ]
        if slow and len(slow) >= limits.share * len(units):
            yield _finding(flow, slow, len(units), limits)


def _finding(
    flow: h.Flow, slow: list[tuple[h.Unit, h.StageLoad]], count: int, limits: Limits
) -> h.Finding:
    straggler = straggler_of(
        [stage for _, stage in slow], more=limits.record_ratio, same=limits.same_partition
    )
    ratio, share, last = straggler.ratio, straggler.share, straggler.last
    cause, remedies, explain = "data-skew", ["spread"], h.text("RT303.more-records")
    confidence, rank, extra = h.Confidence.HIGH, h.Rank.ROOT_CAUSE, ""
    if not straggler.counted:
        confidence, rank, explain = h.Confidence.LOW, h.Rank.MECHANISM, h.text("RT303.no-counts")
    if straggler.skewed and share is not None:
        extra = f", with {h.fmt.percent(share)} of the records"
    if not straggler.skewed and straggler.state_share is not None:
        cause, remedies, confidence, rank = "skewed-state", [], h.Confidence.HIGH, h.Rank.ROOT_CAUSE
        explain = h.explanation(cause)
        extra = f", with {h.fmt.percent(straggler.state_share)} of the rows in the state"
    elif not straggler.skewed:
        cause, remedies, explain = "stragglers", [], h.explanation("stragglers")
    return h.flow_finding(
        flow,
        [unit for unit, _ in slow],
        subject=task_subject(flow, last, straggler.partition),
        title=f"In {len(slow)} of {flow.plural(count)}{flow.of_query}, one task takes {ratio:.1f} times as long "
        f"as the others{extra}",
        explain=explain,
        why=f"one task takes {h.fmt.duration(straggler.longest_ms)}, {ratio:.1f} times as long as the others{extra}",
        confidence=confidence,
        cause=cause,
        rank=rank,
        last_us=None,
        count=len(slow),
        measurements=(
            h.measurement(
                "ratio",
                round(ratio, 2),
                "ratio",
                limits.ratio,
                over="slowest task to the mean of the others, median",
            ),
            h.measurement("slowest-task", straggler.longest_ms, "ms"),
            h.measurement(
                "record-share",
                h.round_or_none(share),
                "share",
                over=h.fmt.plural(last.tasks, "task"),
            ),
            h.measurement(
                "state-share",
                h.round_or_none(straggler.state_share),
                "share",
                over=h.fmt.plural(last.tasks, "partition"),
            ),
        ),
        actions=h.remedies(cause, flow.assessed.app, *remedies),
    )


RULE = h.Rule(
    "RT303", judge, Limits, causes=("data-skew", "skewed-state", "stragglers"), needs="work"
)
