"""The rules of `rate` judge any application, and the numbers of a finding do not contradict each other."""

from __future__ import annotations

import math
from itertools import cycle
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from flowdiag.analyses.model.keys import Ref
from flowdiag.analyses.rate.data import rate_data
from flowdiag.analyses.rate.facts import (
    ApplicationFacts,
    Batch,
    Blocks,
    Executor,
    Memory,
    Operation,
    Output,
    QueryFacts,
    StageLoad,
    StreamInput,
    Trigger,
    Work,
)
from flowdiag.analyses.rate.rules import RULES
from flowdiag.analyses.report.verdicts import judge

from . import rate_workbench as w

COUNTS = st.sampled_from([0, 1, 7, 100, 10**6, 2**53])
MILLIS = st.sampled_from([0, 1, 40, 900, 1000, 5000, 60_000, 10**9])
TEXTS = st.sampled_from(
    [
        None,
        "",
        "\x00",
        "java.lang.Exception: Could not compute split, block input-0-1 not found",
        "Failed to get records for a 1 2 after polling for 3",
        "OffsetOutOfRangeException",
        "Job 7 cancelled because SparkContext was shut down",
        "Caused by: a.B",
        "topic: t\tpartition: 0\toffsets: 0 to 90000\ntopic: t\tpartition: 1\toffsets: 5 to 9",
    ]
)
VALUES = st.sampled_from(
    ["", "true", "-1", "0", "1", "2", "100", "1e400", "NaN", "50ms", "x", "９"]
)
OPTIONS = (
    "spark.streaming.backpressure.enabled",
    "spark.streaming.backpressure.pid.minRate",
    "spark.streaming.backpressure.pid.proportional",
    "spark.streaming.backpressure.initialRate",
    "spark.streaming.receiver.maxRate",
    "spark.streaming.kafka.maxRatePerPartition",
    "spark.streaming.blockInterval",
    "spark.streaming.concurrentJobs",
    "spark.task.cpus",
    "spark.executor.instances",
    "spark.executor.cores",
    "spark.master",
)
STAGES = st.none() | st.builds(
    StageLoad,
    stage=st.integers(0, 9),
    name=TEXTS,
    tasks=st.integers(1, 300),
    total_ms=MILLIS,
    longest_ms=MILLIS,
    index=st.integers(-1, 9),
    executor=TEXTS,
    host=TEXTS,
    slowest_records=COUNTS,
    records=COUNTS,
    gc_ms=MILLIS,
    spilled_bytes=COUNTS,
    fetch_ms=MILLIS,
)
WORKS = st.none() | st.builds(Work, jobs=st.integers(1, 9), busy_ms=st.none() | MILLIS)


@st.composite
def batches(draw: st.DrawFn) -> list[Batch]:
    made, regular = [], draw(st.booleans())
    base = draw(st.sampled_from([0, w.T0]))
    typical = draw(MILLIS)
    for n in range(draw(st.integers(0, 30))):
        took = typical if regular else draw(MILLIS)
        start = base + 1000 * n + draw(MILLIS)
        made.append(
            Batch(
                time_ms=base + 1000 * n,
                state=draw(st.sampled_from(["completed", "completed", "processing", "queued"])),
                records=draw(st.none() | COUNTS),
                submission_ms=draw(st.none() | st.just(base + 1000 * n + 5)),
                start_ms=draw(st.none() | st.just(start)),
                end_ms=draw(st.none() | st.just(start + took)),
                processing_ms=draw(st.none() | st.just(took)),
                scheduling_ms=draw(st.none() | MILLIS),
                failed_outputs=draw(st.sampled_from([0, 0, 1])),
                reason=draw(TEXTS),
                streams=tuple(
                    StreamInput(stream=s, records=draw(COUNTS), description=draw(TEXTS))
                    for s in range(draw(st.integers(0, 2)))
                ),
                stage=draw(STAGES),
                work=draw(WORKS),
                ref=Ref(0, n),
            )
        )
    return made


@st.composite
def triggers(draw: st.DrawFn) -> list[Trigger]:
    made, at = [], w.T0
    typical = draw(MILLIS)
    for n in range(draw(st.integers(0, 30))):
        took = draw(st.sampled_from([typical, typical, None, 0, 60_000]))
        at += draw(st.sampled_from([0, 1000, 2000, 60_050]))
        source: dict[str, Any] = {
            "name": draw(st.sampled_from(["KafkaV2[t]", "FileStreamSource[x]", ""])),
            "rows": draw(st.none() | COUNTS),
            "backlog": draw(st.none() | COUNTS),
            "advance": draw(st.none() | COUNTS),
            "partitions": {f"t-{p}": draw(COUNTS) for p in range(draw(st.integers(0, 4)))},
            "partition_count": draw(st.integers(0, 5)),
        }
        state = {
            "rows": draw(st.none() | COUNTS),
            "dropped": draw(st.none() | COUNTS),
            "commit_ms": draw(st.none() | st.floats(0, 1e9)),
            "partitions": draw(st.none() | st.integers(0, 9)),
            "bytes": draw(st.none() | COUNTS),
        }
        made.append(
            Trigger(
                batch=draw(st.none() | st.just(n)),
                run_id=draw(st.sampled_from(["a", "b"])),
                time_us=at * 1000,
                duration_ms=took,
                rows=draw(st.none() | COUNTS),
                durations={"addBatch": draw(MILLIS), "latestOffset": draw(MILLIS)},
                sources=(source,),
                input_per_s=draw(st.none() | st.floats(0, 1e9)),
                processed_per_s=draw(st.none() | st.floats(0, 1e9)),
                watermark_us=draw(st.none() | st.just(at * 1000)),
                max_event_us=draw(st.none() | st.just(at * 1000 + 5)),
                state=(state,),
                sink=draw(st.sampled_from([None, "ForeachBatchSink", "FileSink[/x]"])),
                stage=draw(STAGES),
                work=draw(WORKS),
                ref=Ref(1, n),
            )
        )
    return made


@st.composite
def applications(draw: st.DrawFn) -> ApplicationFacts:
    incidents = [
        w.record(
            draw(st.sampled_from(["task-lost", "kafka-poll", "graph-checkpoint", "compaction"])),
            at=draw(MILLIS),
            cause=draw(TEXTS),
            duration_ms=draw(st.none() | MILLIS),
            partition=draw(st.sampled_from(["orders-1", "{a-1=2}", ""])),
        )
        for _ in range(draw(st.integers(0, 5)))
    ]
    made = draw(batches())
    query = QueryFacts(
        id="q",
        name=draw(TEXTS),
        runs=("a", "b"),
        triggers=tuple(draw(triggers())),
        events=tuple(
            w.record(kind="spark_query", at=draw(MILLIS), what="terminated", cause=draw(TEXTS))
            for _ in range(draw(st.integers(0, 2)))
        ),
        trigger_interval_ms=draw(st.none() | st.sampled_from([1, 1000, 10_000])),
        real_time=draw(st.none() | st.booleans()),
        tries=draw(st.dictionaries(st.integers(0, 30), st.integers(2, 5), max_size=3)),
        file_limit=draw(st.none() | st.integers(0, 5)),
        files_taken=tuple(draw(st.lists(st.integers(0, 5), max_size=20))),
    )
    return w.application(
        made,
        interval_ms=draw(st.none() | st.sampled_from([1, 1000, 60_000])),
        settings={name: draw(VALUES) for name in draw(st.lists(st.sampled_from(OPTIONS)))},
        queries=(query,) if draw(st.booleans()) else (),
        incidents=tuple(incidents),
        outputs=tuple(
            Output(batch_ms=b.time_ms, output=0, name=None, duration_ms=None, failure=draw(TEXTS))
            for b in made[:3]
        ),
        executors=tuple(
            Executor(
                executor=str(n),
                cores=draw(st.none() | st.integers(0, 64)),
                removed_us=draw(st.none() | st.just(w.T0 * 1000)),
                reason=draw(TEXTS),
                stages=draw(st.integers(0, 40)),
                ratio=draw(st.none() | st.floats(0, 9)),
            )
            for n in range(draw(st.integers(0, 3)))
        ),
        operations=tuple(
            Operation(output=n, name=None, batches=draw(st.integers(1, 40)), total_ms=draw(MILLIS))
            for n in range(draw(st.integers(0, 3)))
        ),
        blocks=tuple(
            Blocks(
                stream=n,
                blocks=1,
                bytes=draw(COUNTS),
                first_ms=draw(st.none() | MILLIS),
                last_ms=draw(st.none() | MILLIS),
            )
            for n in range(draw(st.integers(0, 2)))
        ),
        memory=tuple(
            Memory(
                host=str(n),
                free_bytes=draw(st.none() | COUNTS),
                bytes=draw(COUNTS),
                first_ms=draw(st.none() | MILLIS),
                last_ms=draw(st.none() | MILLIS),
            )
            for n in range(draw(st.integers(0, 2)))
        ),
    )


@settings(max_examples=50, deadline=None, suppress_health_check=list(HealthCheck))
@given(applications())
def test_any_application(app: ApplicationFacts) -> None:
    outcomes = w.outcomes(app)
    judge(outcomes)
    rate_data(w.assessed(app), outcomes, max_rows=5)
    for outcome in outcomes:
        for finding in outcome.findings:
            assert finding.title and finding.count >= 1
            assert (
                len(finding.reported_evidence) <= 10
                and len(finding.evidence) <= finding.evidence_count
            )
            assert finding.job == app.key and finding.actions
            for measured in finding.measurements:
                value = measured.value
                assert not isinstance(value, float) or math.isfinite(value), finding.title


FACTORS = st.sampled_from((0.0, 0.1, 0.5, 1.0, 1.5, 10.0))


@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(app=applications(), factors=st.lists(FACTORS, min_size=5, max_size=5))
def test_any_limits(app: ApplicationFacts, factors: list[float]) -> None:
    numbers = cycle(factors)
    limits = {
        rule.code: {one.name: one.value * next(numbers) for one in rule.thresholds}
        for rule in RULES
    }
    for outcome in w.outcomes(app, limits=limits):
        for finding in outcome.findings:
            assert finding.title and finding.count >= 0 and finding.actions
