"""Most of RocksDB's files contain values that the job has overwritten or removed.

What it reports
---------------
Tasks whose state files in RocksDB (or ForSt) are several times as large as the data that is still valid.

Why it matters
--------------
An incremental checkpoint uploads only new files, but it refers to all files of the state. It therefore stays small,
while the full size, the local disk and each restore grow with data that no read returns. Reads slow down, because
they search more files.

How it decides
--------------
The rule compares the metrics `total-sst-files-size` and `estimate-live-data-size`, added up over the subtasks of an
operator. RocksDB estimates the valid data from files that do not overlap. The files must be at least `factor` times
as large as the largest of these estimates, and at least `floor` larger. Flink reports both metrics only if
`state.backend.rocksdb.metrics.total-sst-files-size` and `….estimate-live-data-size` are `true`.

False alarms
------------
The estimate is low while a new state has only a few files in level 0. With the default options, RocksDB compacts
them before they reach `factor`.
"""

from flowdiag.analyses.queues import helpers as h
from flowdiag.analyses.queues.detect.keys import STALE


class Limits(h.Limits):
    factor: float = h.limit(
        STALE, "ratio", "minimum ratio of file size to live data; level 0 compacts at four files"
    )
    floor: float = h.limit(
        67_108_864.0, "bytes", "minimum excess of file size over live data; less is harmless"
    )


def judge(job: h.JobQueues, limits: Limits) -> h.Iterator[h.Finding]:
    """Yield one finding per operator."""
    for (task, _), stores in h.by_operator(job, h.LIVE).items():
        size, live = h.files_and_live(stores) or (0.0, 0.0)
        if size >= limits.factor * live and size - live >= limits.floor:
            yield _finding(job, task, stores, size, live, limits)


def _finding(
    job: h.JobQueues, task: str, stores: list[h.Store], size: float, live: float, limits: Limits
) -> h.Finding:
    text = (
        f"The state files of {h.fmt.shorten(task)} take up {h.fmt.size(size)} for about "
        f"{h.fmt.size(live)} of valid data"
    )
    largest = max(stores, key=lambda store: store.bytes_on_disk or 0.0)
    return h.store_finding(
        job,
        task,
        largest,
        text,
        "total-sst-files-size",
        h.LIVE,
        cause="stale-state-files",
        measurements=(
            h.measurement("state-files", round(size), "bytes", over="of all subtasks"),
            h.measurement("valid-data", round(live), "bytes", over="of all subtasks"),
            h.measurement("ratio", round(size / max(1.0, live), 1), "ratio", limits.factor),
        ),
        actions=h.remedies("stale-state-files", job.job, *_remedies(job)),
    )


def _remedies(job: h.JobQueues) -> list[str]:
    custom = h.setting(job, "state.backend.rocksdb.options-factory") is not None
    return [*(["factory"] if custom else []), "periodic", "threads", "savepoint"]


RULE = h.Rule("IO306", judge, Limits, causes=("stale-state-files",), needs="stores")
