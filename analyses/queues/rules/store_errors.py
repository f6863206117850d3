"""RocksDB cannot write its files.

What it reports
---------------
Tasks whose state store (RocksDB or ForSt) had an error in a background flush or compaction, for example because
the local disk is full.

Why it matters
--------------
After such an error, RocksDB rejects writes. The task fails, and fails again after a restart on the same disk.

How it decides
--------------
The metric `rocksdb.background-errors` rises, or RocksDB's LOG contains an error of a flush or a compaction.

False alarms
------------
None known: RocksDB counts no other events as background errors.
"""

from flowdiag.analyses.queues import helpers as h


def judge(job: h.JobQueues, limits: h.Limits) -> h.Iterator[h.Finding]:
    """Yield one finding per task."""
    lines = h.store_lines(job, h.ERRORS)
    failed = [s for s in h.stores_of_job(job) if (s.highest("background-errors") or 0.0) > 0]
    for task in sorted({*lines, *(store.key.task for store in failed)}):
        stores = [store for store in failed if store.key.task == task]
        yield _finding(job, task, lines.get(task, []), stores)


def _finding(
    job: h.JobQueues, task: str, lines: list[h.StoreRecord], stores: list[h.Store]
) -> h.Finding:
    full = any(line.row.reason == "no-space" for line in lines)
    text = f"RocksDB of {h.fmt.shorten(task)} cannot write its files"
    text += ": no space is left on its local disk" if full else ""
    times = [line.row.time_us for line in lines if line.row.time_us is not None]
    errors = sum(store.highest("background-errors") or 0.0 for store in stores)
    return h.task_finding(
        job,
        task,
        severity=h.Severity.WARNING,
        title=text,
        why=f"{text}: {lines[-1].row.text}" if lines and not full else text,
        cause="local-disk-fails",
        confidence=h.Confidence.HIGH,
        rank=h.Rank.ROOT_CAUSE,
        first_us=min(times, default=None),
        last_us=max(times, default=None),
        count=max(1, len(lines)),
        measurements=(h.measurement("background-errors", errors or None, "errors"),),
        evidence=h.cite(
            (
                *((line.ref, line.row.time_us) for line in lines),
                *((h.store_evidence(store, "background-errors"), None) for store in stores),
            )
        ),
        actions=h.remedies("local-disk-fails", job.job, "space" if full else "check"),
    )


RULE = h.Rule("IO304", judge, causes=("local-disk-fails",), needs="records")
