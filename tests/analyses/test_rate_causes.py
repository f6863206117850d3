"""Rules of `rate` that name causes: one application with the cause, and a similar one without."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowdiag.analyses.model.finding import CurrentValue, Finding, Severity
from flowdiag.analyses.model.keys import Ref
from flowdiag.analyses.rate.assessment import PeriodicDelay, StreamState, assess
from flowdiag.analyses.rate.cores import cores_of, free_cores
from flowdiag.analyses.rate.facts import (
    ApplicationFacts,
    Blocks,
    CachedRdd,
    Executor,
    Memory,
    OpenTrigger,
    Operation,
    Output,
    Partition,
    Plan,
    RateFacts,
    StageLoad,
    StreamInput,
    Trigger,
    Work,
)
from flowdiag.analyses.rate.failures.troubles import troubles
from flowdiag.analyses.rate.holding import reason_for_rate
from flowdiag.analyses.rate.model import Job, Settings
from flowdiag.analyses.rate.pid import Gains
from flowdiag.analyses.rate.rules.lagging_snapshots import INTERVAL as MAINTENANCE
from flowdiag.analyses.rate.stability import Stability
from flowdiag.analyses.rate.state_store import BOUNDED

from . import rate_workbench as w

MUCH = [1e9] * 60
JOB = Job(fixed_ms=60, per_record_ms=5)
KAFKA = "topic: orders\tpartition: {}\toffsets: {} to {}\tcount: {}"


def found(app: ApplicationFacts, code: str) -> list[Finding]:
    return [x for o in w.outcomes(app) if o.code == code for x in o.findings]


def state_of(app: ApplicationFacts) -> StreamState:
    (one,) = w.assessed(app).applications
    return one.state if one.state is not None else one.queries[0][1]


def late_batches(count: int = 40, *, took: int = 1300, **values: Any) -> list[Any]:
    """Return consecutive batches that take longer than their interval of one second."""
    batches, free = [], 0
    for n in range(count):
        ready = 1000 * n + 3
        start = max(ready, free)
        free = start + took
        if free <= 1000 * count:
            batches.append(w.batch(n, scheduling_ms=start - ready, processing_ms=took, **values))
        else:
            batches.append(w.batch(n, state="queued"))
    return batches


def load(**values: Any) -> StageLoad:
    tasks = values.pop("tasks", 4)
    longest = values.pop("longest_ms", 1000)
    return StageLoad(
        stage=1,
        name="map",
        tasks=tasks,
        total_ms=values.pop("total_ms", tasks * longest),
        longest_ms=longest,
        index=0,
        executor="1",
        host="h",
        slowest_records=0,
        records=0,
        **values,
    )


def overrun(count: int = 30, **values: Any) -> list[Trigger]:
    """Return triggers that take 2.5 intervals of two seconds."""
    return [w.trigger(n, 5000, time_us=(w.T0 + 5000 * n) * 1000, **values) for n in range(count)]


def app_of(triggers: Sequence[Trigger], **values: Any) -> ApplicationFacts:
    facts = values.pop("application", {})
    return w.application(queries=(w.query(triggers, **values),), **facts)


# -- real-time mode ------------------------------------------------------------------------------


def real_time(count: int = 20) -> list[Trigger]:
    return [
        w.trigger(
            n,
            60_000 + n % 3 * 40,
            time_us=(w.T0 + 60_050 * n) * 1000,
            rows=1000 + 90 * (n % 5),
            input_per_s=20.0,
            processed_per_s=17.0,
        )
        for n in range(count)
    ]


def test_triggers_resembling_real_time_mode_are_inconclusive() -> None:
    alone = app_of(real_time(), trigger_interval_ms=None)
    assert w.verdict(alone) == "inconclusive" and w.codes(alone) == []
    (why,) = [i for o in w.outcomes(alone) for i in o.inconclusive]
    assert "--real-time" in (why.remedy or "")
    marked = app_of(real_time(), trigger_interval_ms=2000, real_time=True, real_time_from="option")
    assert w.verdict(marked) == "healthy" and w.codes(marked) == []
    not_so = app_of(real_time(), trigger_interval_ms=2000, real_time=False)
    assert w.cause(not_so) == "overloaded"


def test_a_real_time_query_with_a_growing_backlog_is_overloaded() -> None:
    triggers = [
        replace(t, sources=({"name": "KafkaV2[x]", "backlog": 500 * n},))
        for n, t in enumerate(real_time())
    ]
    assert w.cause(app_of(triggers, trigger_interval_ms=None, real_time=True)) == "overloaded"


def test_an_overloaded_query_does_not_resemble_real_time_mode() -> None:
    triggers = [replace(t, duration_ms=20_000 + 900 * n) for n, t in enumerate(real_time())]
    assert state_of(app_of(triggers, trigger_interval_ms=None)).stability is Stability.OVERLOADED


# -- rows that foreachBatch counts again ---------------------------------------------------------


def source(rows: int, *, count: int = 2) -> dict[str, Any]:
    return {"name": "KafkaV2[t]", "advance": rows, "partition_count": count, "rows": rows}


def test_rows_read_twice_invalidate_the_rates() -> None:
    def query(times: int, sink: str = "ForeachBatchSink") -> StreamState:
        triggers = [
            w.trigger(
                n,
                400 + n % 7 * 50,
                rows=times * (100 + n % 7 * 30),
                sink=sink,
                sources=(source(100 + n % 7 * 30),),
                input_per_s=50.0 * times,
            )
            for n in range(30)
        ]
        return state_of(app_of(triggers))

    twice, once = query(2), query(1)
    assert twice.rows_overcounted and twice.records_per_s is None and twice.headroom_per_s is None
    assert (
        not once.rows_overcounted and once.records_per_s == 50.0 and once.headroom_per_s is not None
    )
    assert not query(2, sink="ConsoleSink").rows_overcounted


def test_row_counts_of_foreach_batch_need_offsets() -> None:
    triggers = [w.trigger(n, 400, sink="ForeachBatchSink") for n in range(30)]
    assert state_of(app_of(triggers)).rows_overcounted
    for jobs, void in ((1, False), (2, True)):
        counted = [replace(t, work=Work(jobs=jobs, busy_ms=300)) for t in triggers]
        assert state_of(app_of(counted)).rows_overcounted is void


# -- concurrent jobs -----------------------------------------------------------------------------


def concurrent_batches(settings: dict[str, str]) -> ApplicationFacts:
    """Return overlapping batches of 1.5 s, of which every second one ends before its predecessor."""
    batches = [
        w.batch(n, processing_ms=1900 if n % 2 == 0 else 700, scheduling_ms=2) for n in range(40)
    ]
    return w.application(batches, settings=settings)


def test_concurrent_jobs_are_not_an_overload() -> None:
    settings = {"spark.streaming.concurrentJobs": "2"}
    app = concurrent_batches(settings)
    assert state_of(app).stability is Stability.STABLE and w.codes(app) == []
    alone = w.application(late_batches(), settings={})
    assert state_of(alone).stability is Stability.OVERLOADED


def test_batches_that_overtake_each_other_mislead_the_estimator() -> None:
    settings = {"spark.streaming.concurrentJobs": "2", **w.BACK_PRESSURE}
    (finding,) = found(concurrent_batches(settings), "RT208")
    assert finding.subject.option == "spark.streaming.concurrentJobs"
    in_order = w.application([w.batch(n) for n in range(40)], settings=settings)
    assert found(in_order, "RT208") == []


def test_two_runs_in_one_log_are_not_an_overload() -> None:
    before = [w.batch(n) for n in range(20)]
    left = [w.batch(n, state="queued") for n in (20, 21)]
    hanging = w.batch(22, state="processing", start_ms=w.T0 + 22_010)
    again = [w.batch(n) for n in range(20_000, 20_040)]
    app = w.application([*before, *left, hanging, *again])
    assert w.codes(app) == ["RT107"] and w.verdict(app) == "healthy"
    state = state_of(app)
    assert state.stability is Stability.STABLE and state.queued == 0
    waiting = w.application([*before, *left, hanging], last_us=(w.T0 + 90_000) * 1000)
    assert "RT107" not in w.codes(waiting) and "RT104" in w.codes(waiting)


def test_a_watermark_that_falls_behind() -> None:
    def app(slower: float) -> ApplicationFacts:
        triggers = [
            w.trigger(
                n,
                500,
                max_event_us=(w.T0 + 2000 * n) * 1000,
                watermark_us=round((w.T0 - 10_000 + 2000 * n * slower) * 1000),
            )
            for n in range(120)
        ]
        return app_of(triggers)

    (finding,) = found(app(0.2), "RT405")
    assert finding.cause == "lagging-watermark"
    assert found(app(1.0), "RT405") == []


# -- tasks and cores -----------------------------------------------------------------------------


def executors(cores: int, count: int = 1) -> tuple[Executor, ...]:
    return tuple(Executor(executor=str(n), cores=cores) for n in range(count))


def test_few_tasks_for_many_cores() -> None:
    def app(tasks: int, **values: Any) -> ApplicationFacts:
        stage = load(tasks=tasks, longest_ms=1200)
        return w.application(late_batches(stage=stage), executors=executors(4, 3), **values)

    (finding,) = found(app(2), "RT306")
    assert finding.cause == "few-tasks" and "12 cores" in finding.title
    assert found(app(10), "RT306") == []
    calm = w.application(
        [w.batch(n, stage=load(tasks=2, longest_ms=400)) for n in range(40)],
        executors=executors(4, 3),
    )
    assert found(calm, "RT306") == []


def test_the_block_interval_is_shortened_to_one_block_per_core() -> None:
    receiver = w.record(kind="spark_receiver", what="started", stream="0", name="R-0")
    stage = load(tasks=2, longest_ms=1200)
    app = w.application(
        late_batches(stage=stage),
        executors=executors(9),
        receivers=(receiver,),
        settings={"spark.streaming.blockInterval": "500ms"},
    )
    assert free_cores(app) == 8
    ((action,),) = [x.actions for x in found(app, "RT306")]
    assert (action.current, action.proposed) == (CurrentValue("500 ms"), "125ms")


def test_cores_come_from_the_configuration_without_executors() -> None:
    def cores(**settings: str) -> int | None:
        named = {f"spark.{key.replace('_', '.')}": value for key, value in settings.items()}
        return cores_of(w.application(settings=named))

    assert cores(master="local[4]") == 4
    assert cores(master="local-cluster[2, 3, 640]") == 6
    assert cores(executor_instances="5", executor_cores="4", task_cpus="2") == 10
    assert cores(master="yarn") is None


@pytest.mark.parametrize(
    ("values", "cause"),
    [
        ({"gc_ms": 1600}, "gc-pressure"),
        ({"gc_ms": 300}, None),
        ({"fetch_ms": 2000}, "shuffle-fetch"),
        ({"fetch_ms": 400}, None),
        ({"spilled_bytes": 50_000_000}, "spill"),
        ({"spilled_bytes": 900}, None),
    ],
)
def test_overhead_of_tasks(values: dict[str, int], cause: str | None) -> None:
    slow = w.application(late_batches(stage=load(**values)))
    assert [x.cause for x in found(slow, "RT307")] == ([cause] if cause else [])
    calm = w.application([w.batch(n, stage=load(**values)) for n in range(40)])
    assert found(calm, "RT307") == []
    triggers = overrun(stage=load(**values))
    assert [x.cause for x in found(app_of(triggers), "RT307")] == ([cause] if cause else [])


@pytest.mark.parametrize(
    ("master", "option"),
    [
        ("local[2]", "spark.driver.memory"),
        ("local-cluster[2,1,512]", "spark.executor.memory"),
        ("yarn", "spark.executor.memory"),
    ],
)
def test_in_local_mode_the_heap_of_the_driver_counts(master: str, option: str) -> None:
    slow = w.application(late_batches(stage=load(gc_ms=1600)), settings={"spark.master": master})
    (finding,) = found(slow, "RT307")
    assert [action.option for action in finding.actions] == [option]


def test_the_driver_works_while_no_job_runs() -> None:
    def app(busy: int | None, **values: Any) -> ApplicationFacts:
        return w.application(late_batches(work=Work(jobs=2, busy_ms=busy)), **values)

    (finding,) = found(app(200), "RT308")
    assert finding.cause == "driver-gaps" and finding.measurements[0].value == 1100
    assert found(app(900), "RT308") == [] and found(app(None), "RT308") == []
    # A log that lost events may lack jobs.
    assert found(app(200, lost=(w.record(kind="spark_dropped", count="3"),)), "RT308") == []
    triggers = overrun(work=Work(jobs=3, busy_ms=1000))
    assert [x.subject.query for x in found(app_of(triggers), "RT308")] == ["orders"]
    assert found(app_of(overrun(work=Work(jobs=3, busy_ms=4000))), "RT308") == []


def test_one_output_operation_takes_most_of_the_time() -> None:
    def app(first: int, second: int, **values: Any) -> ApplicationFacts:
        operations = (
            Operation(output=0, name="save", batches=30, total_ms=first),
            Operation(output=1, name="print", batches=30, total_ms=second),
        )
        return w.application(late_batches(), operations=operations, **values)

    (finding,) = found(app(30_000, 3000), "RT309")
    assert finding.subject.output_operation == 0 and finding.subject.kind == "output"
    assert found(app(16_000, 15_000), "RT309") == []
    single = replace(app(30_000, 0), operations=app(1, 1).operations[:1])
    assert found(single, "RT309") == []


# -- partitions ----------------------------------------------------------------------------------


def ranges(counts: Sequence[int]) -> StreamInput:
    text = "\n".join(KAFKA.format(n, 0, count, count) for n, count in enumerate(counts))
    return StreamInput(stream=0, records=sum(counts), description=text)


@pytest.mark.parametrize(
    ("counts", "partition"),
    [
        ((300, 9000, 310, 290), "orders-1"),
        ((3000, 4000, 3100, 2900), None),
        ((3, 90, 3, 2), None),  # negligible
        ((200, 9000), None),  # of two, one has more
    ],
)
def test_a_partition_with_most_of_the_records(counts: Sequence[int], partition: str | None) -> None:
    stream = ranges(counts)
    app = w.application(late_batches(streams=(stream,), records=stream.records))
    names = [x.subject.partition for x in found(app, "RT310")]
    assert names == ([partition] if partition else [])


def test_partitions_from_the_tasks_of_executors() -> None:
    batches = [replace(b, streams=(), records=None) for b in late_batches()]

    def app(counts: Sequence[int]) -> ApplicationFacts:
        partitions = tuple(
            Partition(name=f"orders-{n}", records=40 * count, tasks=40, ref=Ref(1, n))
            for n, count in enumerate(counts)
        )
        return w.application(batches, partitions=partitions)

    (finding,) = found(app((300, 9000, 310)), "RT310")
    assert finding.subject.partition == "orders-1" and finding.evidence[0].offset == 1
    assert found(app((3000, 4000, 3100)), "RT310") == []


def test_a_partition_with_most_of_the_backlog() -> None:
    def app(waits: Sequence[int]) -> ApplicationFacts:
        triggers = [
            replace(
                t,
                sources=(
                    {
                        "name": "KafkaV2[t]",
                        "backlog": n * sum(waits),
                        "partitions": {f"t-{p}": n * each for p, each in enumerate(waits)},
                        "partition_count": len(waits),
                    },
                ),
            )
            for n, t in enumerate(overrun())
        ]
        return app_of(triggers)

    (finding,) = found(app((900, 10, 12, 8)), "RT310")
    assert (finding.subject.partition, finding.subject.query) == ("t-0", "orders")
    assert found(app((250, 230, 240, 210)), "RT310") == []


# -- Kafka, and what is lost ---------------------------------------------------------------------

POLL = "requirement failed: Failed to get records for g orders-3 12 after polling for 512"
GONE = "Offsets out of range with no configured reset policy for partitions: {orders-3=1234}"
BLOCK = "java.lang.Exception: Could not compute split, block input-0-17 of RDD 9 not found"


def lost_task(number: int, cause: str, template: str = "task-lost") -> Any:
    return w.record(template, at=1000 * number, cause=cause, task_id=str(number), executor="2")


def test_a_poll_timeout_in_several_logs_counts_once() -> None:
    polls = [lost_task(n, POLL) for n in range(1, 5)]
    again = [lost_task(n, POLL, "task-exception") for n in range(1, 5)]
    app = w.application([w.batch(n) for n in range(40)], incidents=(*polls, *again))
    (finding,) = found(app, "RT305")
    assert finding.count == 4 and finding.cause == "slow-kafka"
    assert finding.subject.partition == "orders-3"
    other = [lost_task(n, "java.lang.NullPointerException") for n in range(1, 5)]
    assert found(replace(app, incidents=tuple(other)), "RT305") == []


def test_deleted_offsets_name_the_delay_that_exceeded_the_retention() -> None:
    batches = late_batches(300)
    output = Output(batch_ms=batches[9].time_ms, output=0, name="x", duration_ms=3, failure=GONE)
    (finding,) = found(w.application(batches, outputs=(output,)), "RT305")
    assert finding.severity is Severity.CRITICAL and finding.cause == "offsets-out-of-range"
    assert finding.title.startswith("Records were deleted in Kafka before they were read")
    assert "delay exceeded the retention" in finding.explain
    assert finding.actions[0].option == "retention.ms" and finding.actions[0].proposed
    ended = w.record(kind="spark_query", what="terminated", run_id="r", cause=f"x\n{GONE}")
    query = w.query([w.trigger(n, 500) for n in range(20)], events=(ended,))
    assert [x.cause for x in found(w.application(queries=(query,)), "RT305")] == [
        "offsets-out-of-range"
    ]


def test_slow_checkpoints_and_failed_writes() -> None:
    def app(*records: Any, **values: Any) -> ApplicationFacts:
        return w.application([w.batch(n) for n in range(40)], incidents=records, **values)

    def write(n: int, took: int) -> Any:
        return w.record("graph-checkpoint", at=1000 * n, duration_ms=took)

    (slow,) = found(app(*(write(n, 800) for n in range(9))), "RT305")
    assert slow.cause == "slow-metadata-writes" and slow.measurements[0].value == 800
    assert found(app(*(write(n, 90) for n in range(9))), "RT305") == []
    failed = w.record("wal-write-failed", at=5000, cause="java.io.IOException: no space")
    assert [x.count for x in found(app(failed), "RT305")] == [1]
    closing = w.record("wal-write-failed", at=39_000, cause="close() was called on the log")
    assert found(app(closing), "RT305") == []
    ended = app(failed, ended_us=(w.T0 + 9000) * 1000)
    assert found(ended, "RT305") == []


def test_lost_blocks_are_reported_with_the_lost_executor() -> None:
    batches = [w.batch(n) for n in range(30)]
    gone = tuple(lost_task(n, BLOCK) for n in range(21, 24))
    crashed = Executor(
        executor="2", removed_us=(w.T0 + 20_000) * 1000, reason="Remote RPC client disassociated"
    )
    (finding,) = found(w.application(batches, executors=(crashed,), incidents=gone), "RT304")
    assert finding.subject.executor == "2" and "input-0-17" in finding.title
    assert finding.severity is Severity.CRITICAL
    idle = replace(crashed, reason="Executor killed by driver: idle for 60 s")
    (finding,) = found(w.application(batches, executors=(idle,), incidents=gone), "RT304")
    assert finding.cause == "blocks-lost" and finding.subject.executor == "2"
    alive = w.application(
        batches, executors=(Executor(executor="2"),), incidents=gone, origins=frozenset({"log"})
    )
    (finding,) = found(alive, "RT304")
    assert finding.subject.stream_id == 0 and "no executor was lost" in finding.title
    (finding,) = found(w.application(batches, incidents=gone), "RT304")
    assert "no executor was lost" not in finding.title
    assert found(w.application(batches, executors=(idle,)), "RT304") == []


def test_batches_that_fail_for_lost_blocks_are_a_symptom() -> None:
    crashed = Executor(executor="2", removed_us=(w.T0 + 9000) * 1000, reason="exit code 137")

    def app(reason: str) -> ApplicationFacts:
        batches = [
            w.batch(n, failed_outputs=int(n > 9), reason=reason if n > 9 else None)
            for n in range(30)
        ]
        outputs = tuple(
            Output(batch_ms=b.time_ms, output=0, name="x", duration_ms=3, failure=reason)
            for b in batches
            if b.failed_outputs
        )
        return w.application(batches, outputs=outputs, executors=(crashed,))

    assert w.cause(app(BLOCK)) == "executor-lost"
    assert w.cause(app("ValueError: no number")) == "failing-batches"


def test_unrelated_failures_are_ignored() -> None:
    batches = [w.batch(n) for n in range(9)]
    other = w.record("task-lost", cause="java.lang.OutOfMemoryError: Java heap space")
    assert troubles(w.application(batches, incidents=(other,))) == ()


NO_PRICE = "Job aborted due to stage failure: Task 1 in stage 3.0 failed 1 times\nZeroDivisionError: no price"


@pytest.mark.parametrize(
    ("cause", "titles"),
    [
        (NO_PRICE, ["2 jobs of query orders failed, and the code caught the exception"]),
        ("Job 3 cancelled part of cancelled job group 7f", []),
        ("[SPARK_JOB_CANCELLED] Job 3 cancelled Query orders [id = 7f] was stopped", []),
    ],
)
def test_failed_jobs_of_completed_triggers_were_caught(cause: str, titles: list[str]) -> None:
    def work(number: int) -> Work:
        failed = int(number in (2, 4))
        return Work(jobs=1, busy_ms=900, failed=failed, cause=cause if failed else None)

    triggers = [w.trigger(n, 1000, work=work(n)) for n in range(9)]
    findings = found(w.application(queries=(w.query(triggers),)), "RT103")
    assert [finding.title.partition(":")[0] for finding in findings] == titles


@pytest.mark.parametrize(
    ("stages", "title", "severity"),
    [
        ("3", "1 job of query orders failed, and the code caught the exception", "warning"),
        ("8", "1 task failed, and a retry succeeded", "info"),
    ],
)
def test_a_task_of_an_aborted_job_was_not_retried(stages: str, title: str, severity: str) -> None:
    failed = w.record(
        "task-lost", at=4_500, cause="ZeroDivisionError: no price", stage="3", task_id="7"
    )
    aborted = w.record("job-given-up", at=4_600, stage=stages, times="1")
    triggers = [w.trigger(n, 1000) for n in range(9)]
    app = w.application(queries=(w.query(triggers),), incidents=(failed, aborted))
    (finding,) = found(app, "RT103")
    assert (finding.title.partition(":")[0], finding.severity) == (title, severity)


@pytest.mark.parametrize(("other", "cause"), [("orders-us", "two-writers"), ("orders", None)])
def test_a_query_that_stops_a_query_with_another_name_shares_its_checkpoint(
    other: str, cause: str | None
) -> None:
    started = [
        replace(w.record(kind="spark_query", at=n, what="started", run_id=str(n)), name=name)
        for n, name in enumerate(("orders", other))
    ]
    query = w.query([w.trigger(n, 500) for n in range(9)], events=tuple(started))
    stopped = w.record("run-replaced", at=1, id="q", run_id="0")
    findings = found(w.application(queries=(query,), incidents=(stopped,)), "RT103")
    assert [finding.cause for finding in findings] == ([cause] if cause else [])


@pytest.mark.parametrize(
    ("other", "at_ms", "exception", "number"),
    [
        ("orders-us", 10_000, None, 1),
        ("orders", 10_000, None, 0),
        ("orders-us", 60_000, None, 0),
        ("orders-us", 10_000, "IllegalStateException: no price", 0),
    ],
    ids=["at once", "same name", "later", "after a failure"],
)
def test_an_event_log_shows_two_queries_with_one_checkpoint_location(
    other: str, at_ms: int, exception: str | None, number: int
) -> None:
    def event(what: str, at: int, run: str, name: str, cause: str | None = None) -> Any:
        record = w.record(kind="spark_query", at=at, what=what, run_id=run, cause=cause)
        return replace(record, name=name)

    events = (
        event("started", 0, "r1", "orders"),
        event("terminated", 0, "r1", "orders", exception),
        event("started", at_ms, "r2", other),
    )
    first = [w.trigger(n, 500, run_id="r1") for n in range(5)]
    second = [w.trigger(n + at_ms // 2000, 500, run_id="r2") for n in range(9)]
    query = w.query([*first, *second], events=events)
    findings = found(w.application(queries=(query,)), "RT103")
    writers = [finding for finding in findings if finding.cause == "two-writers"]
    assert len(writers) == number
    assert all(f.severity == "warning" and "orders-us" in f.title for f in writers)


@pytest.mark.parametrize(
    ("numbers", "title", "severity"),
    [
        (range(30), "18 tasks failed in 18 of the last 20 triggers", "warning"),
        (range(100), "18 tasks failed, and a retry succeeded", "info"),
    ],
    ids=["to the end", "only at the start"],
)
def test_tasks_that_fail_in_most_triggers_keep_failing(
    numbers: range, title: str, severity: str
) -> None:
    lost = tuple(
        w.record("task-lost", at=2000 * n + 300, cause="MemoryError", task_id=str(n))
        for n in range(12, 30)
    )
    triggers = [w.trigger(n, 1000) for n in numbers]
    app = w.application(queries=(w.query(triggers),), incidents=lost)
    (finding,) = found(app, "RT103")
    assert (finding.title.partition(":")[0], finding.severity) == (title, severity)
    assert (finding.state == "ongoing") is (severity == "warning")


@pytest.mark.parametrize(("last_ms", "severity"), [(62_000, "warning"), (300_000, "info")])
def test_tasks_keep_failing_in_a_log_with_only_late_triggers(last_ms: int, severity: str) -> None:
    lost = tuple(
        w.record("task-lost", at=2000 * n + 300, cause="MemoryError", task_id=str(n))
        for n in range(12, 30)
    )
    late = [replace(w.trigger(n, 2500), batch=None, rows=None) for n in range(12, 31)]
    app = w.application(queries=(w.query(late),), incidents=lost, last_us=(w.T0 + last_ms) * 1000)
    (finding,) = found(app, "RT103")
    assert finding.severity == severity
    assert ("keep failing until the end" in finding.title) is (severity == "warning")


def test_a_log_with_only_late_triggers_shows_no_share_of_them() -> None:
    late = [replace(w.trigger(n, 2500), batch=None, rows=None) for n in range(20)]
    (finding,) = found(w.application(queries=(w.query(late),)), "RT101")
    assert "%" not in finding.title and "only late triggers" in finding.title


@pytest.mark.parametrize("late", [True, False])
def test_an_application_handles_its_errors_if_no_task_or_query_failed(late: bool) -> None:
    errors = tuple(
        w.record(kind="failure", at=4000 * n, cause=f"could not enrich order {n}", level="ERROR")
        for n in range(20)
    )
    at_us = (w.T0 + 3000) * 1000 if late else None
    values: dict[str, Any] = {
        "failures": errors,
        "late_us": at_us,
        "last_us": (w.T0 + 80_000) * 1000,
    }
    (finding,) = found(w.application(**values), "RT108")
    assert finding.severity == ("info" if late else "warning")
    failed = w.record("task-lost", at=70_000, cause="KeyError: 7", task_id="3")
    (finding,) = found(w.application(incidents=(failed,), **values), "RT108")
    assert finding.severity == "warning"


def test_receivers_are_compared_by_bytes_without_record_counts() -> None:
    batches = [replace(b, records=None, streams=()) for b in late_batches()]

    def app(first: int, second: int) -> ApplicationFacts:
        blocks = tuple(
            Blocks(
                stream=n,
                blocks=40,
                bytes=size,
                first_ms=w.T0,
                last_ms=w.T0 + 40_000,
            )
            for n, size in enumerate((first, second))
        )
        return w.application(batches, blocks=blocks)

    (finding,) = found(app(1000, 90_000), "RT301")
    assert finding.subject.stream_id == 1 and "bytes" in finding.title
    assert found(app(50_000, 60_000), "RT301") == []


@pytest.mark.parametrize(
    ("settings", "busy_ms", "cause"),
    [(w.BACK_PRESSURE, 950, "skewed-receiver"), (w.BACK_PRESSURE, 300, None), ({}, 950, None)],
)
def test_batches_that_fill_the_interval_under_back_pressure_count_as_throttled(
    settings: dict[str, str], busy_ms: int, cause: str | None
) -> None:
    """Neither the driver's log nor the event log contains the rate limits."""
    batches = [w.batch(n, processing_ms=busy_ms, records=None, streams=()) for n in range(20)]
    blocks = tuple(
        Blocks(stream=n, blocks=40, bytes=size, first_ms=w.T0, last_ms=w.T0 + 20_000)
        for n, size in enumerate((9_000, 50_000))
    )
    assert w.cause(w.application(batches, blocks=blocks, settings=settings)) == cause


# -- the state and the checkpoints of queries ----------------------------------------------------


def stateful(count: int, grown: int, **values: Any) -> ApplicationFacts:
    triggers = []
    for n in range(count):
        mark = {"watermark_us": values["mark"](n)} if "mark" in values else {}
        state = {
            "rows": 20_000 + grown * n,
            "bytes": 1000 * n,
            "removed": values.get("removed", 0),
        }
        triggers.append(
            w.trigger(n, 500, state=(state,), max_event_us=(w.T0 + 2000 * n) * 1000, **mark)
        )
    return app_of(triggers)


def test_unbounded_state_growth() -> None:
    (finding,) = found(stateful(40, 1000), "RT406")
    assert finding.cause == "growing-state" and "no watermark" in finding.explain
    assert found(stateful(40, 5), "RT406") == []  # almost constant
    assert found(stateful(40, 1000, removed=7), "RT406") == []
    stuck = stateful(40, 1000, mark=lambda n: 1)
    assert found(stuck, "RT406") == []  # windows fill; RT405 covers the watermark
    passed = stateful(40, 1000, mark=lambda n: (w.T0 + 2000 * n - 1000) * 1000)
    assert len(found(passed, "RT406")) == 1


@pytest.mark.parametrize(
    ("sizes", "records", "grows"),
    [
        ([100_000 * n for n in range(60)], 100, True),
        ([100_000 * n for n in range(10)], 100, False),  # too few batches
        ([1000 * n for n in range(60)], 100, False),  # small
        ([100_000 * min(n, 20) for n in range(60)], 100, False),  # a window that is full
        ([3_000_000 + 10_000 * n + 900_000 * (n % 2) for n in range(60)], 100, False),
        ([100_000 * n for n in range(60)], None, False),  # the input rises as much
    ],
)
def test_cached_data_that_grows(sizes: list[int], records: int | None, grows: bool) -> None:
    batches = [w.batch(n, records=records or 10 * n + 1) for n in range(len(sizes))]
    cached = [
        CachedRdd(rdd=10 * n + k, bytes=size // (1 + k), time_ms=(batches[n].start_ms or 0) + 100)
        for n, size in enumerate(sizes)
        for k in range(2)
    ]
    findings = found(w.application(batches, cached=tuple(cached)), "RT109")
    assert [finding.cause for finding in findings] == ["growing-state"] * grows


def test_commits_of_state_and_metadata() -> None:
    def app(commit: float, wal: int) -> ApplicationFacts:
        triggers = [
            replace(
                t,
                state=({"rows": 5, "commit_ms": commit, "partitions": 8},),
                durations={"addBatch": 4000, "walCommit": wal, "triggerExecution": 5000},
            )
            for t in overrun()
        ]
        return app_of(triggers, application={"executors": executors(4)})

    def causes(commit: float, wal: int) -> list[str | None]:
        return [x.cause for x in found(app(commit, wal), "RT407")]

    # Eight partitions on four cores: a sum of 12 s takes 3 s of the trigger.
    assert causes(12_000, 20) == ["slow-state-commits"]
    assert causes(2000, 20) == []
    assert causes(10, 1800) == ["slow-metadata-writes"]
    quick = [replace(t, duration_ms=900) for t in app(12_000, 20).queries[0].triggers]
    assert found(app_of(quick), "RT407") == []


def test_every_tenth_batch_compacts_the_log_of_the_sink() -> None:
    def app(every: int, **values: Any) -> ApplicationFacts:
        triggers = [
            w.trigger(n, 1400 if n % every == every - 1 else 500, sink="FileSink[/out]")
            for n in range(45)
        ]
        return app_of(triggers, **values)

    (finding,) = found(app(10), "RT408")
    assert finding.severity is Severity.INFO
    assert "compacts the metadata log of its file sink" in finding.title
    assert w.verdict(app(10)) == "healthy"
    (other,) = found(app(7), "RT408")
    assert "do not show why" in other.title
    (finding,) = found(
        app(7, application={"incidents": (w.record("compact-interval", batches="7"),)}), "RT408"
    )
    assert "compacts" in finding.title
    twice = [w.trigger(n, 1400 if n in (1, 17) else 500) for n in range(30)]
    assert found(app_of(twice), "RT408") == []
    noise = [w.trigger(n, 1400 if n in (3, 11, 26, 27) else 500) for n in range(45)]
    assert found(app_of(noise), "RT408") == []


def test_a_single_slow_batch_is_not_periodic() -> None:
    triggers = [w.trigger(n, 1400 if n in (9, 29) else 500) for n in range(60)]
    assert state_of(app_of(triggers)).periodic is None
    assert isinstance(
        state_of(app_of([w.trigger(n, 1400 if n % 20 == 9 else 500) for n in range(60)])).periodic,
        PeriodicDelay,
    )


def test_a_batch_begun_by_several_runs() -> None:
    triggers = [w.trigger(n, 500) for n in range(12)]
    (finding,) = found(app_of(triggers, tries={12: 3}), "RT409")
    assert "batch 12" in finding.title and "none finished it" in finding.title
    assert found(app_of(triggers, tries={12: 2}), "RT409") == []
    (passed,) = found(app_of(triggers, tries={5: 4}), "RT409")
    assert passed.state == "recovered"


def test_a_query_with_low_headroom() -> None:
    app = app_of([w.trigger(n, 1750) for n in range(30)])
    assert w.codes(app) == ["RT106"] and w.verdict(app) == "degraded"
    assert w.codes(app_of([w.trigger(n, 1300) for n in range(30)])) == []


def test_planning_that_takes_most_of_each_trigger() -> None:
    cold = {"addBatch": 60_000, "queryPlanning": 1000}
    warm = {"addBatch": 1500, "queryPlanning": 3200, "walCommit": 200}
    triggers = [replace(t, durations=warm if n else cold) for n, t in enumerate(overrun())]
    (finding,) = found(app_of(triggers), "RT101")
    assert finding.why is not None and "planning takes 64%" in finding.why
    assert ["planning time" in action.text for action in finding.actions] == [True]
    executing = [replace(t, durations={"addBatch": 4900, "queryPlanning": 50}) for t in overrun()]
    (finding,) = found(app_of(executing), "RT101")
    assert "Add cores" in finding.actions[0].text


def test_a_recovered_query_is_judged_again() -> None:
    ended = w.record(kind="spark_query", at=5000, what="terminated", run_id="a", cause="E: 1")
    triggers = [w.trigger(n, 500, run_id="ab"[n > 2]) for n in range(30)]
    assert state_of(app_of(triggers, events=(ended,))).stability is Stability.STABLE
    late = replace(ended, time_us=(w.T0 + 59_000) * 1000)
    assert state_of(app_of(triggers, events=(late,))).stability is Stability.FAILING


# -- the limit of a delay, and what holds a rate -------------------------------------------------


def test_receivers_are_limited_by_memory() -> None:
    receiver = w.record(kind="spark_receiver", what="started", stream="0", name="R-0")
    memory = Memory(
        host="h", free_bytes=1_000_000, bytes=4_000_000, first_ms=w.T0, last_ms=w.T0 + 40_000
    )
    app = w.application(late_batches(), receivers=(receiver,), memory=(memory,))
    state = state_of(app)
    assert state.limit is not None and state.limit.kind == "memory"
    # A delay that grows by about 0.23 s per s keeps 23 kB more each second, of a megabyte.
    assert state.limit.left_ms == pytest.approx(43_000, rel=0.15)
    assert any("memory" in x.explain for x in found(app, "RT101"))
    unknown = state_of(replace(app, memory=())).limit
    assert unknown is not None and unknown.left_ms is None


def test_direct_streams_are_limited_by_retention() -> None:
    app = w.application(late_batches(streams=(ranges((50, 50)),)))
    limit = state_of(app).limit
    assert limit is not None and limit.kind == "retention" and "Kafka's default" in limit.text
    facts = assess(RateFacts(applications=(app,)), retention_ms=3_600_000)
    state = facts.applications[0].state
    assert state is not None and state.limit is not None and state.limit.left_ms is not None
    assert state.limit.left_ms < (limit.left_ms or 0) and "default" not in state.limit.text
    calm = state_of(w.application([w.batch(n) for n in range(30)]))
    assert calm.limit is None


@pytest.mark.parametrize(
    ("tried", "offered", "word"),
    [
        (Settings(interval_ms=1000, gains=Gains(min_rate=5), max_rate=500), 1e9, "processing"),
        (Settings(interval_ms=1000, gains=Gains(min_rate=250), max_rate=500), 1e9, "floor"),
        (Settings(interval_ms=1000, gains=Gains(min_rate=5)), 30, "source"),
        (Settings(interval_ms=1000, max_rate=40, back_pressure=False), 1e9, "max-rate"),
        (Settings(interval_ms=1000, back_pressure=False), 30, "not-enabled"),
    ],
)
def test_the_reason_for_the_rate(tried: Settings, offered: float, word: str) -> None:
    (one,) = w.assessed(w.simulated(JOB, tried, [offered] * 60)).applications
    assert reason_for_rate(one, 0)[0] == word


def test_an_ignored_estimator_does_not_limit_the_rate() -> None:
    app = w.simulated(JOB, Settings(interval_ms=1000, back_pressure=False), [400] * 40)
    none = [replace(b, records=0, streams=(StreamInput(stream=0, records=0),)) for b in app.batches]
    (one,) = w.assessed(replace(app, batches=tuple(none), settings=w.BACK_PRESSURE)).applications
    assert reason_for_rate(one, 0)[0] == "cannot-act"
    first = w.application([w.batch(n) for n in range(1)], settings=w.BACK_PRESSURE)
    (one,) = w.assessed(first).applications
    assert reason_for_rate(one, 0)[0] == "first-batch"


# -- recommendations -----------------------------------------------------------------------------


def test_actions_predict_their_effect() -> None:
    tried = Settings(interval_ms=1000, gains=Gains(min_rate=250), max_rate=500)
    app = w.simulated(JOB, tried, MUCH)
    (floor,) = found(app, "RT201")
    assert "The model" in floor.actions[0].text and "records/s" in floor.actions[0].text


def test_a_longer_interval_is_recommended_for_a_high_fixed_cost() -> None:
    def actions(fixed: float) -> list[str | None]:
        gains = Gains(min_rate=5)
        tried = Settings(interval_ms=1000, gains=gains, initial_rate=50, max_rate=500)
        app = w.simulated(Job(fixed_ms=fixed, per_record_ms=5), tried, MUCH)
        (finding,) = found(app, "RT203")
        return [action.proposed for action in finding.actions]

    assert "Seconds(2)" in actions(500) and "Seconds(2)" not in actions(20)


def test_a_limit_is_raised_by_the_unused_part_of_the_interval() -> None:
    tried = Settings(interval_ms=1000, max_rate=40, back_pressure=False)
    (finding,) = found(w.simulated(JOB, tried, MUCH), "RT204")
    # 260 ms of a second: 40 * 0.6 / 0.26
    assert finding.actions[0].proposed == "92"


def test_a_poor_fit_predicts_nothing() -> None:
    app = w.application(late_batches(records=100))
    (finding,) = found(app, "RT101")
    assert "cannot predict" in finding.actions[0].text


def test_back_pressure_is_recommended_with_numbers() -> None:
    offered = [60] * 20 + [400] * 40
    app = w.simulated(JOB, Settings(interval_ms=1000, back_pressure=False), offered)
    (finding,) = found(app, "RT101")
    options = {a.option: a.proposed for a in finding.actions}
    assert options["spark.streaming.backpressure.enabled"] == "true"
    assert 120 <= float(options["spark.streaming.backpressure.initialRate"] or 0) <= 190
    assert 10 <= float(options["spark.streaming.backpressure.pid.minRate"] or 0) <= 25
    assert "The model" in finding.actions[0].text
    (unread,) = re.findall(
        r"At 400 records/s, (\d+)% of the records stay unread", finding.actions[0].text
    )
    assert 50 <= int(unread) <= 70


# -- triggers of an unknown interval ---------------------------------------------------------------


def runs_back_to_back(
    rows: list[int], *, pause_ms: int = 20, took_ms: int = 3000, **more: Any
) -> Any:
    """Return consecutive triggers of an unknown interval."""
    triggers = [
        w.trigger(n, took_ms, time_us=(w.T0 + n * (took_ms + pause_ms)) * 1000, rows=count)
        for n, count in enumerate(rows)
    ]
    return w.application(queries=(w.query(triggers, trigger_interval_ms=None, **more),))


def test_long_triggers_without_a_pause_are_not_healthy() -> None:
    assert w.verdict(runs_back_to_back([20] * 12)) == "inconclusive"


def test_short_triggers_and_waiting_triggers_are_healthy() -> None:
    assert w.verdict(runs_back_to_back([20] * 12, took_ms=300)) == "healthy"
    assert w.verdict(runs_back_to_back([20] * 12, pause_ms=2000)) == "healthy"


def test_a_query_that_ends_after_reading_everything_is_healthy() -> None:
    end_ms = 11 * 3020 + 3000
    over = w.record(kind="spark_query", what="terminated", run_id="r", at=end_ms + 300)
    assert w.verdict(runs_back_to_back([20] * 11 + [5], events=(over,))) == "healthy"
    stopped = w.record(kind="spark_query", what="terminated", run_id="r", at=end_ms + 2500)
    assert w.verdict(runs_back_to_back([20] * 11 + [5], events=(stopped,))) == "inconclusive"


@pytest.mark.parametrize(
    ("after_ms", "busy", "verdict"),
    [
        (40, False, "healthy"),
        (40, True, "inconclusive"),
        (900, False, "inconclusive"),
        (3100, False, "healthy"),
        (3100, True, "inconclusive"),
    ],
)
def test_a_query_with_equal_triggers_has_read_everything_if_it_ends_between_two(
    after_ms: int, busy: bool, verdict: str
) -> None:
    """A limit on files makes the triggers equal. An event log contains no time for the end of a query."""
    over = replace(w.record(kind="spark_query", what="terminated", run_id="r"), time_us=None)
    end_us = (w.T0 + 11 * 3020 + 3000 + after_ms) * 1000
    running = OpenTrigger(batch=12, since_us=end_us, until_us=end_us)
    app = runs_back_to_back(
        [20] * 12, events=(over,), run_end_us=end_us, unfinished=running if busy else None
    )
    assert w.verdict(app) == verdict


def test_two_long_pauses_show_that_a_query_waits_for_rows() -> None:
    slow = [
        w.trigger(n, 15_000 if n == 0 else 1_400, time_us=(w.T0 + n * 18_000) * 1000)
        for n in range(4)
    ]
    assert (
        w.verdict(w.application(queries=(w.query(slow, trigger_interval_ms=1_000),))) == "healthy"
    )


@pytest.mark.parametrize(("busy_ms", "part"), [(2900, "the job itself"), (90, "while no job runs")])
def test_time_without_a_job_is_not_attributed_to_the_job(busy_ms: int, part: str) -> None:
    triggers = [
        w.trigger(n, 3000, time_us=(w.T0 + n * 3000) * 1000, work=Work(jobs=1, busy_ms=busy_ms))
        for n in range(20)
    ]
    (finding,) = found(w.application(queries=(w.query(triggers),)), "RT101")
    assert part in finding.explain


def test_a_lost_executor_in_a_fragment_is_reported() -> None:
    """Fragments of a driver's log name no application. A named application without streams is a batch job."""
    gone = Executor(
        executor="4", removed_us=w.T0 * 1000, reason="exited with exit code 137 (SIGKILL)"
    )
    app = w.application((), executors=(gone,))
    assert found(app, "RT304") == []
    (finding,) = found(replace(app, application=None), "RT304")
    assert finding.cause == "executor-lost"


# -- queries of one application -------------------------------------------------------------------


def two_queries(
    alerts_ms: list[int], *, jobs_ms: int | None = None, tasks_ms: int = 80
) -> ApplicationFacts:
    """Return an application whose query `alerts` runs every 2 s, next to a query that is busy 9 of
    every 12 s.

    With `jobs_ms`, the input includes Spark jobs.
    """

    def about(duration: int) -> dict[str, Any]:
        if jobs_ms is None:
            return {}
        busy = min(jobs_ms, duration)
        return {
            "work": Work(jobs=1, busy_ms=busy),
            "stage": load(total_ms=tasks_ms, longest_ms=tasks_ms),
        }

    alerts, at = [], w.T0
    for n, lasted in enumerate(alerts_ms):
        alerts.append(w.trigger(n, lasted, time_us=at * 1000, rows=4, **about(lasted)))
        at = (at + lasted) // 2000 * 2000 + 2000
    rebuild = [w.trigger(n, 9000, time_us=(w.T0 + 2000 + 12_000 * n) * 1000) for n in range(12)]
    first = w.query(alerts)
    second = replace(w.query(rebuild, trigger_interval_ms=12_000), id="q2", name="rebuild")
    return w.application(queries=(first, second))


STARVED = [300, 300, 8700, 300, 8700, 300, 8700, 300, 8700, 300]


def test_a_query_that_waits_for_another() -> None:
    at_once = two_queries([300, *([8900, 300] * 6)])
    (by_end,) = found(at_once, "RT413")
    assert by_end.cause == "starved-query" and by_end.confidence == "medium"
    assert "query rebuild" in by_end.title and "instead of 300 ms" in by_end.title
    (by_tasks,) = found(two_queries(STARVED, jobs_ms=8000), "RT413")
    assert by_tasks.confidence == "high" and by_tasks.actions[0].proposed == "FAIR"


@pytest.mark.parametrize(
    "app",
    [
        two_queries(STARVED, jobs_ms=8000, tasks_ms=7000),
        two_queries([300] * 30, jobs_ms=200),
        two_queries([5000] * 10),
        two_queries([300, 300, 300, 300, 9000, 300, 300]),
    ],
    ids=["slow itself", "fast", "always as long", "once"],
)
def test_queries_that_do_not_wait_for_each_other(app: ApplicationFacts) -> None:
    assert found(app, "RT413") == []


# -- state stores -----------------------------------------------------------------------------------


def late_state(*custom: dict[str, int], **values: Any) -> ApplicationFacts:
    """Return triggers of 5 s that commit for 4 s; each takes the next metrics of the cycle."""
    operator = {"operator": "stateStoreSave", "rows": 50, "partitions": 8, "commit_ms": 8000.0 * 4}
    states = [({**operator, **values, "rocksdb": True, "custom": each},) for each in custom]
    triggers = [replace(t, state=states[n % len(states)]) for n, t in enumerate(overrun())]
    return app_of(triggers, application={"settings": {"spark.master": "local[2]"}})


@pytest.mark.parametrize(
    ("metric", "clause", "option"),
    [
        ("rocksdbCommitCompactLatency", "Compaction takes", "compactOnCommit"),
        (
            "rocksdbCommitFileSyncLatencyMs",
            "Uploading files takes",
            "changelogCheckpointing.enabled",
        ),
        ("rocksdbChangeLogWriterCommitLatencyMs", "Uploading changes takes", None),
    ],
)
def test_the_largest_part_of_a_commit(metric: str, clause: str, option: str | None) -> None:
    app = late_state({metric: 9000, "rocksdbCommitPauseLatency": 10}, rows=80_000)
    (one,) = found(app, "RT407")
    assert clause in (one.explain or "")
    assert (one.actions[0].option or "").endswith(option or "")


def test_many_small_state_partitions() -> None:
    (one,) = found(late_state({"rocksdbCommitFlushLatency": 9000}), "RT407")
    assert one.actions[0].option == "spark.sql.shuffle.partitions"


def test_reads_of_the_state() -> None:
    metrics = {
        "rocksdbGetLatency": 8000,
        "rocksdbGetCount": 40_000,
        "rocksdbReadBlockCacheMissCount": 900,
        "rocksdbReadBlockCacheHitCount": 100,
    }
    (one,) = found(late_state(metrics, commit_ms=10.0), "RT414")
    assert one.cause == "slow-state-access" and "80%" in one.title
    assert {m.name: m.value for m in one.measurements}["block-cache-misses"] == 0.9
    assert found(late_state({"rocksdbGetLatency": 80}), "RT414") == []


def test_state_that_is_loaded_in_each_trigger() -> None:
    (one,) = found(late_state({"rocksdbNumLoadedFromDfs": 3}), "RT414")
    assert one.cause == "state-reloaded"
    cumulative = [{"loadedMapCacheMissCount": 2 * n} for n in range(30)]
    assert [f.cause for f in found(late_state(*cumulative), "RT414")] == ["state-reloaded"]
    assert found(late_state({"loadedMapCacheMissCount": 8}), "RT414") == []


def test_a_bounded_store_needs_a_higher_limit() -> None:
    app = late_state({"rocksdbGetLatency": 8000}, commit_ms=10.0)
    for value, option in (("false", "blockCacheSizeMB"), ("true", "maxMemoryUsageMB")):
        settings = {**app.settings, BOUNDED: value}
        (one,) = found(replace(app, settings=settings), "RT414")
        assert (one.actions[0].option or "").endswith(option)


@pytest.mark.parametrize(
    ("uploaded", "interval", "reported"),
    [
        (10, "1s", True),
        (-1, "1s", True),
        (75, "1s", False),
        (80, "1s", False),  # of the last batch
        (10, "60s", False),
        (None, "1s", False),
    ],
)
def test_snapshots_that_are_not_uploaded(
    uploaded: int | None, interval: str, reported: bool
) -> None:
    custom = {} if uploaded is None else {"SnapshotLastUploaded": uploaded}
    triggers = [
        replace(w.trigger(n, 500, rows=10), state=({"rows": 50, "custom": custom},))
        for n in range(80)
    ]
    app = app_of(triggers, application={"settings": {MAINTENANCE: interval}})
    assert [f.cause for f in found(app, "RT415")] == ["lagging-snapshots"] * reported


# -- texts about the input ---------------------------------------------------------------------------


def test_input_that_rises_at_constant_cost_is_the_cause() -> None:
    tried = Settings(interval_ms=1000, back_pressure=False)
    (risen,) = found(
        w.simulated(Job(fixed_ms=10, per_record_ms=5), tried, [60] * 20 + [400] * 40), "RT101"
    )
    assert "The input rate rose from 60" in (risen.explain or "")
    assert "stay unread in the source" in risen.actions[0].text
    (steady,) = found(w.simulated(JOB, tried, [400] * 60), "RT101")
    assert "The input rate rose" not in (steady.explain or "")


@given(st.integers(10, 500), st.integers(1, 50))
def test_a_proposed_floor_never_exceeds_the_rate_that_the_job_settles_at(
    fixed_ms: int, per_record_ms: int
) -> None:
    able = (1000 - fixed_ms) / per_record_ms
    job = Job(fixed_ms=fixed_ms, per_record_ms=per_record_ms)
    offered = [able / 2] * 20 + [3 * able] * 40
    too_high = Settings(interval_ms=1000, gains=Gains(min_rate=1.5 * able))
    unlimited = Settings(interval_ms=1000, back_pressure=False)
    for tried, code in ((too_high, "RT201"), (unlimited, "RT101")):
        for finding in found(w.simulated(job, tried, offered), code):
            for action in finding.actions:
                if action.option == "spark.streaming.backpressure.pid.minRate":
                    assert 0 < float(action.proposed or "nan") < able


def test_two_hundred_tasks_are_visible_in_the_first_trigger() -> None:
    many = load(tasks=200, total_ms=7600, longest_ms=60)
    first = [w.trigger(0, 4000, rows=20, stage=many)]
    settings = {"spark.master": "local[2]"}
    (one,) = found(app_of(first, application={"settings": settings}), "RT312")
    assert one.cause == "fixed-cost" and "200 tasks for 20 records" in one.title
    # A task of the stage that reads the source may take longer than each of the small ones.
    reads = load(tasks=2, total_ms=130, longest_ms=90, largest=many)
    (one,) = found(
        app_of([w.trigger(0, 4000, rows=20, stage=reads)], application={"settings": settings}),
        "RT312",
    )
    assert "200 tasks for 20 records" in one.title
    busy = [w.trigger(0, 4000, rows=20, stage=load(tasks=200, total_ms=7600, longest_ms=3000))]
    assert found(app_of(busy, application={"settings": settings}), "RT312") == []


def test_python_functions_and_waits_are_named() -> None:
    slow = load(tasks=2, run_ms=10_000, cpu_ms=40, python_ms=9900, python=True)
    triggers = overrun(rows=100, stage=slow)
    (one,) = found(app_of(triggers, plan=Plan(functions=("ask_service",))), "RT314")
    assert one.title.startswith("ask_service (Python) takes 99%")
    assert "so the code probably waits" in (one.explain or "")
    (quick,) = found(app_of(overrun(rows=100_000, stage=slow)), "RT314")
    assert (
        quick.title.startswith("Python code takes")
        and "wait" not in (quick.explain or "").split(".")[-2]
    )


def test_foreach_batch_on_the_driver_is_named() -> None:
    triggers = overrun(work=Work(jobs=1, busy_ms=200), sink="ForeachBatchSink")
    (one,) = found(app_of(triggers), "RT308")
    assert "foreachBatch runs or waits on the driver" in one.title
