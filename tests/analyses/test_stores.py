"""Rules about state backends, on hand-written metrics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from flowdiag.analyses.flink.job import Checkpoint, Incident, Setting, Status, SubtaskCheckpoint
from flowdiag.analyses.flink.tasks.placement import SubtaskKey
from flowdiag.analyses.model import fmt
from flowdiag.analyses.model.finding import Confidence, Finding, Severity
from flowdiag.analyses.model.keys import Ref
from flowdiag.analyses.neighbours.facts import Neighbours, StoreRecord
from flowdiag.analyses.queues.assemble.event_times import join_samples
from flowdiag.analyses.queues.facts import JobQueues, MarkPoint, StoreMetric
from flowdiag.analyses.queues.rules import (
    heap_state,
    multiplied_state,
    slow_async_state,
    small_block_cache,
    small_state_files,
    stale_state_files,
    store_errors,
    unbounded_state,
    write_stalls,
)
from flowdiag.parsers.neighbours.store_log import StoreOwner, read_store_log

from .queues_workbench import FIRST, MINUTE, SECOND, Queues, judged

REF = Ref(0, 0)
TASK = "aggregate"


def store(name: str, *values: float, subtask: int = 0, family: str | None = "sums") -> StoreMetric:
    """Return a metric with a sample per minute."""
    points = tuple(
        MarkPoint((FIRST + i) * MINUTE, (FIRST + i) * MINUTE, 1, v, v, v, v, REF)
        for i, v in enumerate(values)
    )
    key = SubtaskKey(TASK, subtask)
    return StoreMetric(key=key, operator=TASK, name=name, family=family, points=points)


def busy_job(*stores: StoreMetric, busy: float = 1000.0) -> JobQueues:
    queues = Queues().set_metrics(TASK, busy=busy, idle=1000.0 - busy)
    if busy > 900:
        queues.set_metrics("enrich", back_pressured=900.0).set_metrics(
            "Source: orders", back_pressured=900.0
        )
    return replace(queues.job(), stores=stores)


def findings(rule: object, job: JobQueues) -> list[Finding]:
    return [*rule.RULE.judge(job, rule.RULE.limits())]  # type: ignore[attr-defined]


def stalls(job: JobQueues) -> list[Finding]:
    return findings(write_stalls, job)


def test_two_inputs_with_the_same_metric_cover_the_time_together() -> None:
    long, short = store("estimate-num-keys", *map(float, range(9))), store("estimate-num-keys", 5.0)
    begin_us, end_us = long.points[0].time_us, long.points[-1].until_us
    early, inside, late = (
        short.points[0]._replace(time_us=us, until_us=us)
        for us in (begin_us - SECOND, begin_us + SECOND, end_us + SECOND)
    )
    other = replace(short, points=(early, inside, late))
    for pair in ((long, other), (other, long)):
        assert join_samples(*pair).points == (early, *long.points, late)


def test_stall_times_are_a_share_of_the_time() -> None:
    # 30 s of each minute.
    micros = store("stall_micros", 0, 30e6, 60e6, 90e6, family=None)
    (found,) = stalls(busy_job(micros))
    assert (found.cause, found.severity, found.subject.task) == (
        "write-stall",
        Severity.WARNING,
        TASK,
    )
    assert "50% of the time" in found.title


def test_a_store_that_is_opened_again_counts_from_zero() -> None:
    micros = store("stall_micros", 90e6, 91e6, 1e6, 2e6, family=None)
    assert stalls(busy_job(micros)) == []


@pytest.mark.parametrize("values", [(0, 2e6, 4e6, 5e6), (5e6, 5e6, 5e6)])
def test_short_stalls_are_normal(values: tuple[float, ...]) -> None:
    assert stalls(busy_job(store("stall_micros", *values, family=None))) == []


def test_without_stall_times_the_delayed_rate_counts() -> None:
    delayed = store("actual-delayed-write-rate", 0, 16384, 16384, 20000)
    assert "75% of the time" in stalls(busy_job(delayed))[0].title
    assert stalls(busy_job(store("actual-delayed-write-rate", 16384))) == []


@pytest.mark.parametrize(
    ("metric", "text", "first"),
    [
        (store("num-files-at-level0", 24, 30, 31), "files in level 0", "background threads"),
        (
            store("num-immutable-mem-table", 2, 2, 2),
            "write buffers fill up faster",
            "managed memory",
        ),
        (store("num-files-at-level0", 1, 1, 1), None, "background threads"),
    ],
)
def test_the_limit_selects_the_first_remedy(
    metric: StoreMetric, text: str | None, first: str
) -> None:
    (found,) = stalls(busy_job(store("stall_micros", 0, 30e6, 60e6, family=None), metric))
    assert (text in found.title) if text else ":" not in found.title
    assert first in found.actions[0].text


def test_a_small_write_buffer_of_the_job_is_the_first_remedy() -> None:
    micros = store("stall_micros", 0, 30e6, 60e6, family=None)
    job = busy_job(micros)
    key = "state.backend.rocksdb.writebuffer.size"
    small = Setting(job=job.job.key, key=key, value="512kb", source="rest")
    (found,) = stalls(replace(job, job=replace(job.job, settings=(small,))))
    assert (found.actions[0].option, found.actions[0].proposed) == (key, "64m")


def test_a_stall_of_a_task_that_keeps_up_is_a_note() -> None:
    micros = store("stall_micros", 0, 30e6, 60e6, family=None)
    (found,) = stalls(busy_job(micros, busy=300.0))
    assert found.severity is Severity.INFO


LOG = "2026/11/26-06:36:05.123456 1399 [WARN] [/column_family.cc:984] [sums] "
"""The beginning of a line."""


def records(*texts: str, operator: str | None = None) -> tuple[StoreRecord, ...]:
    owner = None
    if operator is not None:
        owner = StoreOwner(job_id="a" * 32, operator_id=operator, subtask_index=0)
    rows = read_store_log("".join(f"{LOG}{text}\n" for text in texts))
    return tuple(StoreRecord(row, owner, REF) for row in rows)


def with_log(job: JobQueues, *texts: str) -> JobQueues:
    assert job.job.graph is not None
    vertex = next(v.vertex_id for v in job.job.graph.vertices if v.task == TASK)
    found = records(*texts, operator=vertex)
    return replace(job, neighbours=Neighbours(stores=found))


def test_the_log_of_rocksdb_names_the_limit() -> None:
    texts = ["Stopping writes because we have 36 level-0 files"] * 3
    (found,) = stalls(with_log(busy_job(), *texts))
    assert "files in level 0" in found.title
    assert found.subject.task == TASK


def test_two_lines_of_the_log_are_a_burst() -> None:
    texts = ["Stalling writes because we have 20 level-0 files rate 16384"] * 2
    assert stalls(with_log(busy_job(), *texts)) == []


def test_a_disk_error_is_not_a_stall() -> None:
    text = "Waiting after background flush error: IO error: No space left on device: While appending to file"
    job = with_log(busy_job(), *[text] * 3)
    (found,) = findings(store_errors, job)
    assert (found.cause, found.subject.task) == ("local-disk-fails", TASK)
    assert "no space is left" in found.title
    assert stalls(job) == []
    (counted,) = findings(store_errors, busy_job(store("background-errors", 0, 1)))
    assert counted.cause == "local-disk-fails"
    assert findings(store_errors, busy_job(store("background-errors", 0, 0))) == []


def cache(hit: float, miss: float, *, used: float = 100.0, busy: float = 1000.0) -> list[Finding]:
    counts = [
        store(name, *(rate * 60 * i for i in range(4)), family=None)
        for name, rate in (("block_cache_hit", hit), ("block_cache_miss", miss))
    ]
    sizes = [store("block-cache-usage", used), store("block-cache-capacity", 100.0)]
    job = busy_job(*counts, *sizes, store("live-sst-files-size", 1e9), busy=busy)
    return findings(small_block_cache, job)


def test_a_full_cache_that_most_reads_miss_is_too_small() -> None:
    (found,) = cache(1000, 4000)
    assert (found.cause, found.severity) == ("block-cache-too-small", Severity.WARNING)
    assert "80% of the reads" in found.title


@pytest.mark.parametrize(
    "values",
    [
        {"hit": 4000, "miss": 1000},
        {"hit": 10, "miss": 40},
        {"hit": 1000, "miss": 4000, "used": 50.0},
        {"hit": 1000, "miss": 4000, "busy": 300.0},
    ],
    ids=["hits", "few reads", "room in the cache", "task keeps up"],
)
def test_a_cache_that_costs_nothing_is_not_reported(values: dict[str, float]) -> None:
    assert cache(**values) == []


GIB = 1 << 30
MIB = 1 << 20


def memory(*used: float, limit: float = 256.0) -> list[Finding]:
    usage = [store("block-cache-usage", *(each * MIB for each in used))]
    return findings(
        small_block_cache,
        busy_job(*usage, store("block-cache-capacity", *(limit * MIB for _ in used)), busy=100.0),
    )


@pytest.mark.parametrize(("used", "severity"), [(300.0 + 128.0, "warning"), (330.0, "info")])
def test_a_store_that_exceeds_its_memory_is_named(used: float, severity: str) -> None:
    (found,) = memory(used, used, used, used)
    assert (found.cause, found.severity) == ("store-memory-exceeded", severity)
    assert "its limit is 256 MiB" in found.title


@pytest.mark.parametrize(
    ("used", "limit"),
    [
        ((256.0,) * 4, 256.0),
        ((270.0,) * 4, 256.0),
        ((100.0, 100.0, 100.0, 400.0), 256.0),
        ((9.0,) * 4, 4.0),
    ],
    ids=["full", "slightly above", "one peak", "a few MiB"],
)
def test_stores_within_their_memory_are_normal(used: tuple[float, ...], limit: float) -> None:
    assert memory(*used, limit=limit) == []


def heap_job(sizes: list[float], *, used: float = 0.5 * GIB, backend: str = "hashmap") -> JobQueues:
    """Return a job on one TaskManager with 1 GiB of heap, and a checkpoint every ten seconds."""
    queues = Queues(machines={"taskmanager-1": {"heap_used": used, "heap_max": float(GIB)}})
    queues.settings.append(
        Setting(job=queues.key, key="state.backend.type", value=backend, source="rest")
    )
    begun = FIRST * MINUTE
    checkpoints = tuple(
        Checkpoint(
            job=queues.key,
            run=0,
            id=number,
            status=Status.COMPLETED,
            type="checkpoint",
            triggered_us=begun + number * 10 * SECOND,
            ended_us=begun + number * 10 * SECOND + SECOND,
            bytes=int(size),
        )
        for number, size in enumerate(sizes, 1)
    )
    job = queues.job()
    return replace(job, job=replace(job.job, checkpoints=checkpoints))


def test_state_that_grows_on_the_heap_has_a_date() -> None:
    sizes = [number * 10e6 for number in range(1, 21)]
    (found,) = findings(heap_state, heap_job(sizes))
    # 512 MiB are left, and 1 MB comes each second.
    assert "3.4 GiB per hour" in found.title and "within 8 min 57 s" in found.title
    assert found.actions[1].option == "state.backend.type"
    full_by = next(m.value for m in found.measurements if m.name == "full-at")
    assert full_by == fmt.moment(FIRST * MINUTE + 201 * SECOND + (GIB / 2 / 1e6) * SECOND)


@pytest.mark.parametrize(
    "job",
    [
        heap_job([100e6 * (1 - 0.7**n) for n in range(1, 21)]),
        heap_job([n * 1e3 for n in range(1, 21)]),
        heap_job([n * 10e6 for n in range(1, 9)]),
        heap_job([10e6 * (1 + n % 5) for n in range(20)]),
        heap_job([n * 10e6 for n in range(1, 21)], backend="rocksdb"),
    ],
    ids=["levels off", "far from full", "few checkpoints", "varies", "not on the heap"],
)
def test_other_state_is_not_a_risk(job: JobQueues) -> None:
    assert findings(heap_state, job) == []


@pytest.mark.parametrize(
    ("used", "after_s", "found"), [(0.95, 30, True), (0.6, 30, False), (0.95, -30, False)]
)
def test_a_taskmanager_that_is_lost_with_a_full_heap_confirms_the_growth(
    used: float, after_s: int, found: bool
) -> None:
    """With a full heap, a TaskManager misses its heartbeats before it throws an OutOfMemoryError."""
    job = heap_job([n * 10e6 for n in range(1, 9)], used=used * GIB)
    [reports] = job.taskmanagers.values()
    loss = Incident(
        job=job.job.key,
        kind="taskmanager-lost",
        taskmanager="taskmanager-1",
        time_us=(reports[-1].last_us or 0) + after_s * SECOND,
    )
    lost = replace(job, job=replace(job.job, incidents=(loss,)))
    results = findings(heap_state, lost)
    assert bool(results) is found
    for each in results:
        assert "was 95% full. Then this TaskManager was lost" in each.title
        assert (each.severity, each.confidence) == (Severity.CRITICAL, Confidence.HIGH)


def keys(*counts: float, family: str = "sums", **settings: str) -> list[Finding]:
    """Return the findings about a state whose number of keys is counted every three minutes in two subtasks."""
    every = [count for count in counts for _ in range(3)]
    stores = [store("estimate-num-keys", *every, subtask=i, family=family) for i in range(2)]
    job = busy_job(*stores, busy=100.0)
    known = tuple(
        Setting(job=None, key=key, value=value, source="rest") for key, value in settings.items()
    )
    return findings(unbounded_state, replace(job, job=replace(job.job, settings=known)))


RISING = [1000.0 * n for n in range(1, 15)]
FILLING = [14_000 * (1 - 0.6**n) for n in range(1, 15)]


def test_a_state_that_grows_is_information() -> None:
    (found,) = keys(*RISING)
    assert (found.cause, found.severity, found.subject.task) == (
        "unbounded-state",
        Severity.INFO,
        TASK,
    )
    assert "The state sums of aggregate gained" in found.title


def test_timers_that_grow_are_a_warning() -> None:
    (found,) = keys(*RISING, family="_timer_state/event_user-timers")
    assert (found.cause, found.severity) == ("unbounded-timers", Severity.WARNING)


@pytest.mark.parametrize(
    ("ttl", "severity"), [("10 min", Severity.WARNING), ("1 d", Severity.INFO)]
)
def test_old_keys_should_be_gone_after_two_lifetimes(ttl: str, severity: Severity) -> None:
    (found,) = keys(*RISING, **{"table.exec.state.ttl": ttl})
    assert found.severity is severity
    assert ("although the time-to-live is 10 min" in found.title) is (severity is Severity.WARNING)


@pytest.mark.parametrize("counts", [FILLING, [5000.0] * 14, RISING[:6], RISING[::-1]])
def test_state_that_levels_off_or_is_too_short_is_not_growth(counts: list[float]) -> None:
    assert keys(*counts) == []


def test_an_ineffective_time_to_live_is_detected_early() -> None:
    short = RISING[:5]
    (found,) = keys(*short, **{"table.exec.state.ttl": "30 s"})
    assert "although the time-to-live is 30" in found.title
    assert keys(*short, **{"table.exec.state.ttl": "1 h"}) == keys(*short) == []


def files(size: float, live: float, *more: StoreMetric) -> JobQueues:
    return busy_job(
        store("total-sst-files-size", size), store("estimate-live-data-size", live), *more
    )


def test_files_of_old_values_are_named_with_both_sizes() -> None:
    (found,) = findings(stale_state_files, files(600 * MIB, 100 * MIB))
    assert "600 MiB for about 100 MiB" in found.title
    assert (found.cause, found.subject.task) == ("stale-state-files", TASK)


@pytest.mark.parametrize(("size", "live"), [(400, 100), (60, 1), (400, 400)])
def test_files_that_compaction_will_merge_are_normal(size: float, live: float) -> None:
    assert findings(stale_state_files, files(size * MIB, live * MIB)) == []


def test_the_valid_data_is_the_largest_estimate() -> None:
    live = store("estimate-live-data-size", 200 * MIB, 10 * MIB)
    size = store("total-sst-files-size", 300 * MIB, 300 * MIB)
    assert findings(stale_state_files, busy_job(live, size)) == []


def test_old_versions_of_a_key_are_not_new_keys() -> None:
    every = [count for count in RISING for _ in range(3)]
    grown = store("estimate-num-keys", *every)
    assert findings(unbounded_state, files(400 * MIB, 300 * MIB, grown)) != []
    assert findings(unbounded_state, files(600 * MIB, 100 * MIB, grown)) == []


@pytest.mark.parametrize(
    ("counts", "severity"),
    [(range(50, 251, 25), Severity.WARNING), ((250, 250, 250, 250), Severity.INFO)],
)
def test_many_small_files_are_counted_in_all_levels(
    counts: Sequence[float], severity: Severity
) -> None:
    levels = (store("num-files-at-level1", *counts), store("num-files-at-level0", 3))
    (found,) = findings(small_state_files, files(25 * MIB, 25 * MIB, *levels))
    assert "253 files of 101.2 KiB" in found.title
    assert found.severity is severity


@pytest.mark.parametrize(("count", "size"), [(190, 10), (250, 300)])
def test_few_or_large_files_are_normal(count: float, size: float) -> None:
    many = store("num-files-at-level1", count)
    assert findings(small_state_files, files(size * MIB, size * MIB, many)) == []


def sized_job(before: list[float], after: list[float]) -> JobQueues:
    """Return a job whose subtasks have these sizes in MiB before and after a restore."""
    job = busy_job()
    rows = tuple(
        SubtaskCheckpoint(
            job=job.job.key,
            checkpoint=number,
            vertex_id=None,
            task=TASK,
            subtask_index=index,
            acknowledged=True,
            bytes=int(size * MIB),
            ref=REF,
        )
        for number, sizes in enumerate((before, after), 1)
        for index, size in enumerate(sizes)
    )
    return replace(job, job=replace(job.job, subtask_checkpoints=rows))


@pytest.mark.parametrize(
    ("before", "after", "text", "severity"),
    [
        ([10, 10], [20, 20, 20, 20], "4 subtasks stores the whole list", Severity.WARNING),
        ([10, 10, 10], [30, 30, 30], "3 subtasks stores the whole list", Severity.WARNING),
        ([10, 10], [10, 10, 10, 10], "4 subtasks stores a copy", Severity.INFO),
    ],
)
def test_copies_of_a_state_multiply(
    before: list[float], after: list[float], text: str, severity: Severity
) -> None:
    (found,) = findings(multiplied_state, sized_job(before, after))
    assert text in found.title
    assert (found.cause, found.severity) == ("multiplied-state", severity)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ([20, 20], [10, 10, 10, 10]),
        ([10, 10], [30, 10, 10, 30]),
        ([10, 10], [15, 15, 15, 15]),
        ([1, 1], [2, 2, 2, 2]),
        ([20, 20, 20, 20], [20, 20]),
    ],
    ids=["keyed", "uneven", "grown", "small", "fewer subtasks"],
)
def test_other_sizes_are_not_copies(before: list[float], after: list[float]) -> None:
    assert findings(multiplied_state, sized_job(before, after)) == []


def async_job(in_flight: float, received: float, waits: float = 900.0) -> JobQueues:
    """Return a job whose records wait for asynchronous state in an idle task."""
    queues = Queues().set_metrics(
        TASK, busy=100.0, idle=900.0, in_flight=in_flight, records_in=received
    )
    queues.set_metrics("enrich", back_pressured=waits).set_metrics(
        "Source: orders", back_pressured=waits
    )
    return queues.job()


def test_records_that_wait_for_asynchronous_state_name_the_task() -> None:
    # 300 records in flight per subtask, and 10 records a second: each waits 30 s.
    job = async_job(300.0, 500.0)
    (found,) = findings(slow_async_state, job)
    assert (found.cause, found.subject.kind, found.subject.task) == (
        "slow-async-state",
        "task",
        TASK,
    )
    values = {m.name: m.value for m in found.measurements}
    assert values["state-wait"] == pytest.approx(35, abs=2)
    assert values["records-in-flight"] == 300
    judgement = judged(job)
    assert {(c.subject.task, c.cause) for c in judgement.culprits} == {(TASK, "slow-async-state")}


@pytest.mark.parametrize(
    ("in_flight", "received", "waits"),
    [(300.0, 6000.0, 900.0), (3.0, 500.0, 900.0), (300.0, 500.0, 0.0)],
    ids=["half a second each", "few records", "no task waits"],
)
def test_short_waits_for_state_are_no_culprit(
    in_flight: float, received: float, waits: float
) -> None:
    assert findings(slow_async_state, async_job(in_flight, received, waits)) == []


def test_findings_about_forst_name_its_options() -> None:
    stall = store("stall_micros", 0, 30e6, 60e6, 90e6, family=None)
    job = busy_job(stall)
    forst = Setting(
        job=job.job.key, key="state.backend.type", value="forst", source="rest", ref=REF
    )
    (found,) = stalls(replace(job, job=replace(job.job, version="2.3.0", settings=(forst,))))
    texts = " ".join(
        [found.title, found.why or "", found.explain, *(a.text for a in found.actions)]
    )
    assert "ForSt" in texts and "RocksDB" not in texts
    options = {action.option for action in found.actions} - {None}
    assert "state.backend.forst.thread.num" in options
    assert not any("rocksdb" in (option or "") for option in options)
