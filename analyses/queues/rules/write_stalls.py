"""RocksDB slows down or stops writes.

What it reports
---------------
Tasks whose writes to RocksDB (or ForSt) wait, and for how long. The finding also shows which limit of RocksDB was
reached: unflushed write buffers, files in level 0, or bytes that wait for compaction.

Why it matters
--------------
The task waits inside each write, so it looks like a slow operator. Barriers wait behind its input. More subtasks
or asynchronous calls do not help, because RocksDB flushes and compacts more slowly than the task writes.

How it decides
--------------
The metric `rocksdb.stall_micros` counts the time that writes waited. Without it, RocksDB counts as stalled in the
samples with a delayed write rate or stopped writes. A task is reported if one of its subtasks waits for at least
`share` of the time. In RocksDB's LOG, the rule needs at least `records` lines about stalls. These lines name the
limit. Without them, 20 files in level 0, or more than `immutable` unflushed write buffers in half of the samples,
show which limit was reached.

What to do
----------
The remedy depends on the limit. For unflushed write buffers, add managed memory so that write buffers get their
full size. For files in level 0 and pending compaction, use more background threads, a faster disk, larger write
buffers, or fewer writes.

False alarms
------------
After a restore, RocksDB may compact for some minutes. Without stall times, a short stall counts for its whole sample.
"""

from flowdiag.analyses.queues import helpers as h
from flowdiag.analyses.queues.detect.stalls import Stall, stalls_of

_REASONS = {
    "memtables": "write buffers fill up faster than RocksDB flushes them",
    "level-0": "too many files in level 0 wait for compaction",
    "compaction": "too many bytes wait for compaction",
}
_REMEDIES = {
    "memtables": ("buffers", "memory", "threads", "disk", "fewer-writes"),
    "level-0": ("buffers", "triggers", "threads", "memory", "disk", "fewer-writes"),
    "compaction": ("threads", "buffers", "disk", "memory", "fewer-writes"),
    None: ("buffers", "threads", "memory", "disk", "fewer-writes"),
}
_SHOWN_BY = ("stall_micros", "actual-delayed-write-rate", "is-write-stopped")
_SET_BY = {
    "buffers": "state.backend.rocksdb.writebuffer.size",
    "triggers": "state.backend.rocksdb.options-factory",
}


class Limits(h.Limits):
    share: float = h.limit(
        0.1, "share", "minimum share of time with stalls; occasional flushes cause less than 1%"
    )
    records: float = h.limit(
        3, "lines", "minimum number of LOG lines about stalls; one or two may be a burst"
    )
    immutable: float = h.limit(
        1, "memtables", "number of unflushed memtables at a stall; of two, one must be writable"
    )


def judge(job: h.JobQueues, limits: Limits) -> h.Iterator[h.Finding]:
    """Yield one finding per task."""
    for stall in stalls_of(job, share=limits.share, records=limits.records):
        yield _finding(job, stall, limits)


def _finding(job: h.JobQueues, stall: Stall, limits: Limits) -> h.Finding:
    share, reason = stall.share, stall.reason(limits.immutable)
    text = f"RocksDB delays the writes of {h.fmt.shorten(stall.task)}"
    text += f" {h.fmt.percent(share)} of the time" if share is not None else ""
    text += f": {_REASONS[reason]}" if reason else ""
    return h.task_finding(
        job,
        stall.task,
        severity=h.Severity.WARNING if h.slows_down(job, stall.task) else h.Severity.INFO,
        title=text,
        why=text,
        cause="write-stall",
        confidence=h.Confidence.HIGH if share is not None else h.Confidence.MEDIUM,
        rank=h.Rank.ROOT_CAUSE,
        first_us=min(stall.times_us, default=None),
        last_us=max(stall.times_us, default=None),
        count=max(1, len(stall.lines)),
        measurements=(
            h.measurement("stalled-share", share and round(share, 4), "share", limits.share),
            h.measurement("stalled-subtasks", len(stall.stores) or None, "subtasks"),
            h.measurement("stall-lines", len(stall.lines) or None, "lines", limits.records),
            *h.store_measurements(
                stall.stores,
                ("num-files-at-level0", "files"),
                ("num-immutable-mem-table", "memtables"),
                ("cur-size-all-mem-tables", "bytes"),
                ("estimate-pending-compaction-bytes", "bytes"),
            ),
        ),
        evidence=h.cite(
            (
                *((h.store_evidence(store, *_SHOWN_BY), None) for store in stall.stores),
                *((line.ref, line.row.time_us) for line in stall.lines),
            )
        ),
        actions=h.remedies("write-stall", job.job, *_remedies(job, reason)),
    )


def _remedies(job: h.JobQueues, reason: str | None) -> list[str]:
    """Return the remedies in order, except remedies that revert an option that the job does not set."""
    unset = {name for name, key in _SET_BY.items() if h.setting(job, key) is None}
    return [name for name in _REMEDIES[reason] if name not in unset]


RULE = h.Rule("IO301", judge, Limits, causes=("write-stall",), needs="stores")
