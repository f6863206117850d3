"""The memory of RocksDB is too small: reads miss the block cache, or RocksDB exceeds its limit.

What it reports
---------------
- Busy tasks whose reads miss the block cache of RocksDB (or ForSt), with the size of the cache and of the state.
- Tasks whose store uses more memory than its limit.

Why it matters
--------------
Each miss reads a block from a file and decompresses it. The task is busy with state access, and everything
upstream waits. RocksDB treats its limit as a target. Memory above the limit comes from the rest of the container, which is
killed when none is left.

How it decides
--------------
The statistics `rocksdb.block_cache_hit` and `rocksdb.block_cache_miss` give the share of misses. A subtask counts if at
least `miss-share` of its reads and at least `misses` reads per second miss, while at least `cache-usage` of the cache
is in use. If the cache has free space, the misses come from compaction, or from the first read of each block. A task is
only reported if upstream tasks wait for it, or if all its subtasks are busy.

With managed memory, Flink counts blocks, pinned blocks and write buffers in `block-cache-usage`, and
`block-cache-capacity` is the limit. A store exceeds it if the usage is at least `exceeded` times the limit in most samples,
and at least `floor` larger in the last one. This is a warning from `serious` on, because Flink reserves little more than that
for native memory, and information below it.

False alarms
------------
Code that reads the whole state, for example in every timer, causes misses with a cache of any size.
"""

from flowdiag.analyses.queues import helpers as h

_MOSTLY = 0.6
"""Minimum share of the samples above the limit. Write buffers exceed it for a moment while they are flushed."""


class Limits(h.Limits):
    miss_share: float = h.limit(
        0.25, "share", "minimum share of reads that miss the cache; index blocks usually hit it"
    )
    misses: float = h.limit(
        200, "1/s", "minimum rate of misses; each miss takes up to 1 ms on an SSD"
    )
    cache_usage: float = h.limit(
        0.9, "share", "minimum share of the cache in use; below it, more space does not help"
    )
    exceeded: float = h.limit(
        1.25, "ratio", "minimum memory of a store as a multiple of its limit; small excesses pass"
    )
    floor: float = h.limit(
        8_388_608.0, "bytes", "minimum memory above the limit; less does not matter to a container"
    )
    serious: float = h.limit(
        134_217_728.0,
        "bytes",
        "memory above the limit that is a warning; the JVM overhead of a container is 192 MiB or more",
    )


def judge(job: h.JobQueues, limits: Limits) -> h.Iterator[h.Finding]:
    """Yield one finding per task."""
    found: dict[str, list[tuple[h.Store, float, float]]] = {}
    for store in h.stores_of_job(job):
        hits, misses = store.increase("block_cache_hit"), store.increase("block_cache_miss")
        used, capacity = store.latest("block-cache-usage"), store.latest("block-cache-capacity")
        if hits is None or misses is None or not used or not capacity:
            continue
        share, rate = misses[0] / max(1.0, hits[0] + misses[0]), misses[0] / misses[1]
        if (
            share >= limits.miss_share
            and rate >= limits.misses
            and used >= limits.cache_usage * capacity
        ):
            found.setdefault(store.key.task, []).append((store, share, rate))
    for task, stores in found.items():
        if h.slows_down(job, task):
            yield _finding(job, task, max(stores, key=lambda each: each[2]), len(stores), limits)
    for (task, _), known in h.by_operator(job, "block-cache-capacity").items():
        over = [(excess, store) for store in known if (excess := _excess(store, limits))]
        if over:
            yield _excess_finding(job, task, *max(over, key=lambda each: each[0]), limits)


def _excess(store: h.Store, limits: Limits) -> float | None:
    """Return by how many bytes a store exceeds its memory limit, or None if it does not."""
    used, limit = store.latest("block-cache-usage"), store.latest("block-cache-capacity")
    if not used or not limit or used - limit < limits.floor:
        return None
    most = store.share_above("block-cache-usage", limits.exceeded * limit) or 0.0
    return used - limit if most >= _MOSTLY else None


def _excess_finding(
    job: h.JobQueues, task: str, excess: float, store: h.Store, limits: Limits
) -> h.Finding:
    used, limit = store.latest("block-cache-usage"), store.latest("block-cache-capacity")
    text = f"RocksDB of {h.fmt.shorten(task)} uses {h.fmt.size(used)} of memory, and its limit is {h.fmt.size(limit)}"
    return h.store_finding(
        job,
        task,
        store,
        text,
        "block-cache-usage",
        "block-cache-capacity",
        severity=h.Severity.WARNING if excess >= limits.serious else h.Severity.INFO,
        cause="store-memory-exceeded",
        measurements=(
            h.measurement("store-memory", used, "bytes", limit),
            h.measurement("pinned-cache", store.latest("block-cache-pinned-usage"), "bytes"),
            h.measurement("write-buffers", store.latest("cur-size-all-mem-tables"), "bytes"),
        ),
        actions=h.remedies("store-memory-exceeded", job.job),
    )


def _finding(
    job: h.JobQueues, task: str, worst: tuple[h.Store, float, float], count: int, limits: Limits
) -> h.Finding:
    store, share, rate = worst
    cache = store.latest("block-cache-capacity")
    state = store.latest("live-sst-files-size") or store.latest("total-sst-files-size")
    sizes = f" of {h.fmt.size(cache)}"
    sizes += f" for {h.fmt.size(state)} of state" if state and cache and state > cache else ""
    text = f"{h.fmt.percent(share)} of the reads of {h.fmt.shorten(task)} miss the block cache of RocksDB{sizes}"
    return h.store_finding(
        job,
        task,
        store,
        text,
        "block_cache_miss",
        "block-cache-usage",
        cause="block-cache-too-small",
        measurements=(
            h.measurement("cache-misses", round(share, 4), "share", limits.miss_share),
            h.measurement("misses-per-second", round(rate, 1), "1/s", limits.misses),
            h.measurement("block-cache", cache, "bytes"),
            h.measurement("pinned-cache", store.latest("block-cache-pinned-usage"), "bytes"),
            h.measurement("state-on-disk", state, "bytes", over="of the same subtask"),
            h.measurement(
                "keys", store.latest("estimate-num-keys"), "keys", over="of the same subtask"
            ),
            h.measurement("subtasks", count, "subtasks"),
        ),
        actions=h.remedies("block-cache-too-small", job.job),
    )


RULE = h.Rule(
    "IO302",
    judge,
    Limits,
    causes=("block-cache-too-small", "store-memory-exceeded"),
    needs="stores",
)
