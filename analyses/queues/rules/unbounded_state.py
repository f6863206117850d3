"""The number of keys in a state rises steadily, and none expire.

What it reports
---------------
The state whose keys increase at a constant rate, with its task and the rate. The state may also be the timers of
an operator.

Why it matters
--------------
Growing checkpoints show that some state is unbounded, but not which. This finding names the state. Restores,
compaction and checkpoints take longer and longer, until a disk is full or a checkpoint times out.

How it decides
--------------
RocksDB and ForSt estimate their keys in the metric `estimate-num-keys`, with one column family per state. The rule
adds up the subtasks of an operator. Over at least `span`, the keys must increase at least `factor`-fold, with a
rank correlation with time (Kendall's tau) of at least `tau`. The increase in the second half must be at least
`linearity` of that in the first half. State that fills up after a start and levels off does not count.

Growth alone is info, because no input shows when an entry or a timer is due: the state of a window or a timeout
of half an hour also rises for half an hour. It is a warning for timers, and if the keys have increased for `expired`
times the configured `table.exec.state.ttl`: old keys should be gone by then. In that case, `span-with-ttl` replaces
`span`. The time-to-live of the DataStream API appears in no metric and no configuration, and timers on the heap
(`state.backend.rocksdb.timer-service.factory: HEAP`, or the heap state backend) appear in no metric.

False alarms
------------
After a start, a job with a fixed set of keys collects them until all have been seen. The estimate counts deleted
keys until they are compacted.
"""

from flowdiag.analyses.queues import helpers as h
from flowdiag.analyses.queues.detect.keys import KEYS, KeyGrowth, key_growths
from flowdiag.parsers.units import duration_ms


class Limits(h.TrendLimits):
    span: float = h.limit(1_800_000.0, "ms", "minimum time span; a shorter rise is not a trend")
    span_with_ttl: float = h.limit(
        180_000.0, "ms", "minimum span with a time-to-live; the first compaction is over by then"
    )
    expired: float = h.limit(
        2.0, "ratio", "minimum time in lifetimes of a key; after two, keys expire as they arrive"
    )


def judge(job: h.JobQueues, limits: Limits) -> h.Iterator[h.Finding]:
    """Yield one finding per operator."""
    ttl = duration_ms(h.setting(job, "table.exec.state.ttl"))
    for growth in key_growths(
        job,
        span_ms=min(limits.span, max(limits.span_with_ttl, limits.expired * ttl))
        if ttl
        else limits.span,
        factor=limits.factor,
        tau=limits.tau,
        straight=limits.linearity,
    ):
        ineffective = bool(ttl) and growth.duration_ms >= limits.expired * (ttl or 0)
        if ineffective or growth.duration_ms >= limits.span:
            yield _finding(job, growth, ttl, ineffective=ineffective)


def _finding(
    job: h.JobQueues, growth: KeyGrowth, ttl: float | None, *, ineffective: bool
) -> h.Finding:
    task = growth.largest.key.task
    what = "The timers" if growth.are_timers else f"The state {growth.state or ''}".rstrip()
    cause = "unbounded-timers" if growth.are_timers else "unbounded-state"
    rate = h.fmt.number(round(growth.per_hour))
    text = f"{what} of {h.fmt.shorten(task)} gained {rate} keys per hour"
    if ineffective:
        text += f", although the time-to-live is {h.fmt.duration(ttl)}"
    return h.task_finding(
        job,
        task,
        severity=h.Severity.WARNING if growth.are_timers or ineffective else h.Severity.INFO,
        title=text,
        why=text,
        cause=cause,
        confidence=h.Confidence.MEDIUM,
        rank=h.Rank.ROOT_CAUSE,
        first_us=growth.first_us,
        last_us=growth.last_us,
        measurements=(
            h.measurement("keys-before", growth.counts[0], "keys", over="of all subtasks"),
            h.measurement("keys-now", growth.counts[-1], "keys", over="of all subtasks"),
            h.measurement("growth-per-hour", round(growth.per_hour), "keys/h"),
            h.measurement("time-to-live", ttl, "ms"),
        ),
        evidence=h.cite([(h.store_evidence(growth.largest, KEYS), None)]),
        actions=h.remedies(cause, job.job),
    )


RULE = h.Rule(
    "IO305", judge, Limits, causes=("unbounded-state", "unbounded-timers"), needs="stores"
)
