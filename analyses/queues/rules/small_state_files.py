"""RocksDB collects many small files that it never merges.

What it reports
---------------
Tasks whose state in RocksDB (or ForSt) consists of hundreds of small files, with their number and mean size.

Why it matters
--------------
Each file costs an open file, memory for its index and filter, and a request to the checkpoint storage, both when it
is uploaded and when it is restored.

How it decides
--------------
The metrics `num-files-at-level0` to `num-files-at-level6` count the files of a state. A subtask is reported if it has
at least `files` of them with a mean size of at most `file-size`. The finding is a note, or a warning if their
number still rises: its rank correlation with time (Kendall's tau) is at least `tau`. Flink reports these metrics only if
`state.backend.rocksdb.metrics.num-files-at-level` and `….total-sst-files-size` are `true`.

Each checkpoint writes a file, regardless of its size. RocksDB moves a file to the next level without merging it if no
other file has keys in its range. This happens if keys, timers or windows of a subtask only increase.

False alarms
------------
A state with many column families has a file for each. The rule therefore counts the files of the largest only.
"""

from flowdiag.analyses.flink.trends import kendall
from flowdiag.analyses.queues import helpers as h
from flowdiag.analyses.queues.stores import LEVELS


class Limits(h.Limits):
    files: float = h.limit(
        200, "files", "minimum number of files per subtask; 12 GB of merged state have this many"
    )
    file_size: float = h.limit(
        1_048_576.0, "bytes", "maximum mean file size; merged files are 64 MiB large"
    )
    tau: float = h.limit(
        0.8, "correlation", "minimum rank correlation with time: nine of ten pairs of samples rise"
    )


def judge(job: h.JobQueues, limits: Limits) -> h.Iterator[h.Finding]:
    """Yield one finding per task, about its subtask with the most files."""
    worst: dict[str, tuple[float, h.Store]] = {}
    for store in h.stores_of_job(job):
        files, size = sum(store.latest(name) or 0.0 for name in LEVELS), store.bytes_on_disk
        if size is None or files < max(1.0, limits.files) or size > limits.file_size * files:
            continue
        best = worst.get(store.key.task)
        if best is None or files > best[0]:
            worst[store.key.task] = files, store
    for task, (files, store) in worst.items():
        yield _finding(job, task, files, store, limits)


def _finding(
    job: h.JobQueues, task: str, files: float, store: h.Store, limits: Limits
) -> h.Finding:
    level = max(LEVELS, key=lambda name: store.latest(name) or 0.0)
    counts = [n for point in store.metrics[level].points for n in (point.first, point.last)]
    grows = kendall([n for n in counts if n is not None]) >= limits.tau
    size = (store.bytes_on_disk or 0.0) / files
    subtask = f"{h.fmt.shorten(task)} ({(store.key.subtask_index or 0) + 1})"
    text = f"The state of {subtask} has {h.fmt.number(round(files))} files of {h.fmt.size(size)} on average"
    text += ", and their number rises" if grows else ""
    return h.store_finding(
        job,
        task,
        store,
        text,
        level,
        severity=h.Severity.WARNING if grows else h.Severity.INFO,
        cause="small-state-files",
        confidence=h.Confidence.HIGH,
        measurements=(
            h.measurement("files", round(files), "files", limits.files),
            h.measurement("mean-size", round(size), "bytes", limits.file_size),
            h.measurement("level", int(level[-1])),
        ),
        actions=h.remedies("small-state-files", job.job, "merge", "interval"),
    )


RULE = h.Rule("IO307", judge, Limits, causes=("small-state-files",), needs="stores")
