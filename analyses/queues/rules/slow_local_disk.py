"""The local disk of RocksDB is slow.

What it reports
---------------
Tasks whose state store (RocksDB or ForSt) writes small amounts for a long time, because the disk with its working
directory is slow.

Why it matters
--------------
A flush writes a write buffer to the local disk. While it waits for the disk, the write buffers fill, and RocksDB stops
writes. Each checkpoint begins with a flush in the thread of the task, so the synchronous part of its snapshots takes as long
as the flush. All stores on the disk are slow at the same time, whatever their code does.

How it decides
--------------
In RocksDB's LOG, a flush starts and finishes with a line, and another line has its size. The rule needs `flushes` flushes that
take 2 s or more, or one of at least `seconds`, and each writes less than `rate`. Without the LOG, the metric
`rocksdb.num-running-flushes` shows a flush in every sample for `seconds`, while the size of the state files stays the same.
So it is the same flush. It writes at most the content of the write buffers.

What to do
----------
Measure the disk of the TaskManagers' hosts, and move the working directory of RocksDB to a faster one.

False alarms
------------
A host whose CPUs are overloaded also flushes slowly. Then its other tasks are slow as well.
"""

from flowdiag.analyses.queues import helpers as h
from flowdiag.analyses.queues.detect.slow_flushes import RUNNING, SlowFlushes, slow_flushes


class Limits(h.Limits):
    seconds: float = h.limit(
        30, "s", "minimum duration of a single flush; an SSD takes less than 1 s for 64 MiB"
    )
    flushes: float = h.limit(
        3, "flushes", "minimum number of shorter flushes in the LOG; one or two may be a hiccup"
    )
    rate: float = h.limit(
        4_194_304.0, "bytes/s", "maximum rate of a slow flush; hard disks write 100 MB/s"
    )


def judge(job: h.JobQueues, limits: Limits) -> h.Iterator[h.Finding]:
    """Yield one finding per task."""
    for found in slow_flushes(
        job, seconds=limits.seconds, flushes=limits.flushes, rate=limits.rate
    ):
        yield _finding(job, found, limits)


def _finding(job: h.JobQueues, found: SlowFlushes, limits: Limits) -> h.Finding:
    ms, size = found.worst
    written = f"to write {h.fmt.size(size)}" if found.lines and size else "for a flush"
    text = f"The local disk of {h.fmt.shorten(found.task)} is slow: RocksDB takes {h.fmt.duration(ms)} {written}"
    return h.task_finding(
        job,
        found.task,
        severity=h.Severity.WARNING,
        title=text,
        why=text,
        cause="slow-local-disk",
        confidence=h.Confidence.HIGH if found.lines else h.Confidence.MEDIUM,
        rank=h.Rank.ROOT_CAUSE,
        first_us=min(found.times_us, default=None),
        last_us=max(found.times_us, default=None),
        count=max(1, len(found.lines)),
        measurements=_measurements(job, found, limits),
        evidence=h.cite(
            (
                *((line.ref, line.row.time_us) for line in found.lines),
                *((h.store_evidence(each.store, RUNNING), None) for each in found.flushes),
            )
        ),
        actions=h.remedies("slow-local-disk", job.job, task=h.fmt.shorten(found.task)),
    )


def _measurements(
    job: h.JobQueues, found: SlowFlushes, limits: Limits
) -> tuple[h.Measurement, ...]:
    ms, size = found.worst
    stores = len({s.key for s in h.stores_of_job(job) if s.key.task == found.task})
    over = f"of {stores} with a store" if stores else "with a slow flush"
    return (
        h.measurement("longest-flush", round(ms), "ms", 1000 * limits.seconds),
        h.measurement("flushed" if found.lines else "write-buffers", size, "bytes"),
        h.measurement("slow-flushes", len(found.lines) or None, "flushes", limits.flushes),
        h.measurement("subtasks", len(found.subtasks) or None, "subtasks", over=over),
    )


RULE = h.Rule("IO310", judge, Limits, causes=("slow-local-disk",), needs="records")
