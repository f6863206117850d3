"""Tests the end of an application: its effects are not reported as causes, and a batch without an end is reported."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from flowdiag.analyses.model.keys import Ref
from flowdiag.analyses.model.rule import Limits
from flowdiag.analyses.rate.facts import (
    ApplicationFacts,
    Executor,
    OpenTask,
    OpenTrigger,
    Output,
    RateFacts,
    StageLoad,
    Trigger,
    Work,
)
from flowdiag.analyses.rate.rules import unexplained_failure
from flowdiag.analyses.rate.stability import Stability
from flowdiag.analyses.rate.topic import RATE
from flowdiag.analyses.selection.options import Options
from flowdiag.parsers.lines.failure_lines import KNOWN_RECORD

from . import rate_workbench as w

INTERRUPTED = "RuntimeError: reentrant call inside <_io.BufferedReader name=3>"
NO_CHANNEL = "py4j.Py4JException: Cannot obtain a new communication channel"
STOPPED = "java.lang.IllegalStateException: Cannot call methods on a stopped SparkContext."
KILLED_TASK = (
    "org.apache.spark.TaskKilledException (at org.apache.spark.api.python.BasePythonRunner)"
)
PEER_GONE = "py4j.Py4JException: Error while sending a command.\nCaused by: py4j.Py4JException: Received empty command"
NO_SCHEDULER = (
    'java.lang.NullPointerException: Cannot invoke "org.apache.spark.scheduler.DAGScheduler.cleanupQueryJobs(long)"'
    ' because the return value of "org.apache.spark.SparkContext.dagScheduler()" is null'
)
NO_SESSION = (
    'java.lang.NullPointerException: Cannot invoke "org.apache.spark.sql.classic.SparkSession.sparkContext()" because '
    'the return value of "org.apache.spark.sql.execution.SparkPlan.session()" is null'
)
END = 60_000
HEALTHY = [w.trigger(n, 900, rows=50) for n in range(30)]


def ended(cause: str, at: int) -> Any:
    return w.record(kind="spark_query", at=at, cause=cause, what="terminated", id="q", run_id="r")


def stopping(*triggers: Any, **values: Any) -> ApplicationFacts:
    """Return an application with a query that stops at `END`."""
    events = values.pop("events", ())
    unfinished = values.pop("unfinished", None)
    query = w.query(triggers or HEALTHY, events=events, unfinished=unfinished)
    app = w.application(
        queries=(query,),
        incidents=(w.record("stop-by-hook", at=END), *values.pop("incidents", ())),
        last_us=(w.T0 + END + 1_000) * 1000,
        **values,
    )
    return replace(app, ended_us=(w.T0 + END) * 1000)


@pytest.mark.parametrize(
    ("cause", "after"),
    [
        (PEER_GONE, -5_000),
        (PEER_GONE, -1),
        ("java.lang.InterruptedException", 0),
        (NO_SCHEDULER, 3),
        (NO_SESSION, -1),
        (NO_CHANNEL, -1),
        (STOPPED, 0),
    ],
)
def test_the_effects_of_a_stop_are_no_findings(cause: str, after: int) -> None:
    assert w.codes(stopping(events=(ended(cause, END + after),))) == []


@pytest.mark.parametrize("cause", [PEER_GONE, NO_CHANNEL, NO_SCHEDULER, STOPPED])
def test_the_effects_of_a_stop_hide_no_finding(cause: str) -> None:
    slow = [w.trigger(n, 1900, rows=50, interval=1900) for n in range(30)]
    lost = w.record("offsets-out-of-range", at=20_000)
    for triggers, incidents in ((slow, ()), (HEALTHY, (lost,))):
        without = stopping(*triggers, incidents=incidents)
        assert without.incidents and w.codes(without)
        ends = stopping(*triggers, incidents=incidents, events=(ended(cause, END - 1),))
        assert (w.codes(ends), w.cause(ends)) == (w.codes(without), w.cause(without))


@pytest.mark.parametrize(
    ("text", "codes"),
    [("", []), (". Trace:\npy4j.Py4JException: Method toJson([]) does not exist", ["RT108"])],
)
def test_a_call_into_a_stopped_jvm_is_an_effect_of_the_stop(text: str, codes: list[str]) -> None:
    """At WARN, the log contains no record of the stop, but the event log contains the end."""
    call = f"py4j.protocol.Py4JError: An error occurred while calling o51.awaitTermination{text}"
    failure = replace(w.record(kind="spark_failure", cause=call), time_us=None)
    failure = replace(failure, fields={"ended": "application", "certain": "yes"})
    query = w.query(HEALTHY)
    app = w.application(queries=(query,), failures=(failure,), last_us=(w.T0 + END) * 1000)
    assert w.codes(replace(app, ended_us=(w.T0 + END) * 1000)) == codes


def test_a_failure_right_before_a_stop_is_its_reason() -> None:
    app = stopping(events=(ended("ValueError: no number", END - 200),))
    assert (w.verdict(app), w.cause(app)) == ("failing", "failing-batches")


@pytest.mark.parametrize(("offset", "codes"), [(100, ["RT103"]), (300, [])])
def test_a_batch_that_fails_in_the_second_of_the_stop_failed_if_its_line_comes_first(
    offset: int, codes: list[str]
) -> None:
    batches = [w.batch(n, interval=2000) for n in range(30)]
    error = "AttributeError: 'int' object has no attribute '_jrdd'"
    batches[-1] = replace(batches[-1], failed_outputs=1, reason=error)
    time_us = (w.T0 + END) * 1000
    failed = Output(
        batch_ms=batches[-1].time_ms, output=0, name=None, duration_ms=None,
        failure=error, time_us=time_us, ref=Ref(0, offset),
    )  # fmt: skip
    stop = replace(w.record("stop-by-hook", at=END), ref=Ref(0, 200))
    app = w.application(batches, interval_ms=2000, outputs=(failed,), incidents=(stop,))
    assert w.codes(app) == codes


@pytest.mark.parametrize(("earlier", "codes"), [(15, []), (15_000, ["RT304"])])
def test_executors_that_the_stopping_jvm_ends_are_not_lost(earlier: int, codes: list[str]) -> None:
    batches = [w.batch(n, interval=2000) for n in range(30)]
    hooks = "java.lang.IllegalStateException: Shutdown hooks cannot be modified during shutdown."
    reasons = ((END - 4_500 - earlier, "Command exited with code 143"), (END - 4_500, hooks))
    gone = tuple(
        Executor(executor=str(number), removed_us=(w.T0 + at) * 1000, reason=reason)
        for number, (at, reason) in enumerate(reasons)
    )
    app = w.application(batches, interval_ms=2000, executors=gone)
    assert w.codes(replace(app, ended_us=(w.T0 + END) * 1000)) == codes


@pytest.mark.parametrize(
    ("reason", "codes"),
    [
        ("java.lang.IllegalStateException: Shutdown hooks cannot be modified during shutdown.", []),
        ("Command exited with code 1", ["RT103"]),
    ],
)
def test_the_master_of_a_local_cluster_removes_an_application_that_ends(
    reason: str, codes: list[str]
) -> None:
    """An event log contains no time for the end of a query. On a real cluster, the executors failed."""
    removed = (
        "a.SparkException: Job aborted due to stage failure: Master removed our application: FAILED"
    )
    over = replace(ended(removed, END), time_us=None)
    gone = Executor(executor="2", removed_us=(w.T0 + END - 500) * 1000, reason=reason)
    query = w.query(HEALTHY, events=(over,))
    app = w.application(queries=(query,), executors=(gone,), last_us=(w.T0 + END) * 1000)
    found = w.codes(replace(app, ended_us=(w.T0 + END) * 1000))
    assert [code for code in found if code != "RT304"] == codes


def test_the_exception_that_the_script_prints_does_not_hide_the_cause() -> None:
    gone = "java.io.FileNotFoundException: File file:/srv/checkpoint/commits does not exist"
    logged = ended(f"{gone}\n\tat org.apache.hadoop.fs.RawLocalFileSystem.exists", END - 200)
    printed = ended("StreamingQueryException: [STREAM_FAILED]", END - 100)
    fields = {**printed.fields, "class": "failing-query", "python_frame": "start(job.py:7)"}
    app = stopping(events=(logged, replace(printed, fields=fields)))
    assert w.cause(app) == "storage-failure"


def test_a_lost_peer_long_before_a_stop_is_a_failure() -> None:
    early = [w.trigger(n, 900, rows=50) for n in range(10)]
    assert w.codes(stopping(*early, events=(ended(PEER_GONE, 22_000),))) == ["RT103"]


def test_without_a_stop_the_end_of_the_log_counts() -> None:
    query = w.query(HEALTHY, events=(ended(PEER_GONE, END),))
    app = w.application(queries=(query,), last_us=(w.T0 + END) * 1000)
    assert w.codes(app) == []
    assert w.codes(replace(app, last_us=(w.T0 + 10 * END) * 1000)) == ["RT103"]


@pytest.mark.parametrize("reason", [PEER_GONE, "Cannot call methods on a stopped SparkContext"])
def test_the_last_batch_of_a_stopped_application_does_not_count_as_failed(reason: str) -> None:
    done = [w.batch(n, interval=2000) for n in range(30)]
    cut = replace(done[-1], failed_outputs=1, reason=reason)
    app = w.application([*done[:-1], cut], interval_ms=2000)
    app = replace(app, ended_us=((cut.end_ms or 0) + 300) * 1000)
    assert w.codes(app) == []
    assert w.codes(replace(app, batches=(replace(cut, reason="ValueError"), *done))) == ["RT103"]


SHUT_DOWN = "org.apache.spark.SparkException: Job 41 cancelled because SparkContext was shut down"


def test_a_stop_that_only_its_effect_shows_is_never_healthy() -> None:
    failure = w.record(at=END, cause=f"{SHUT_DOWN}\n\tat org.apache.spark.SparkContext.stop")
    pasted = w.application(failures=(failure,))
    query = w.query(HEALTHY, events=(ended(SHUT_DOWN, END),))
    ends = w.application(queries=(query,), last_us=(w.T0 + END) * 1000)
    for app in (pasted, ends):
        assert (w.codes(app), w.verdict(app)) == ([], "inconclusive")
        (reason,) = (why.reason for outcome in w.outcomes(app) for why in outcome.inconclusive)
        assert "was stopped" in reason and "Job 41 cancelled" in reason
    assert w.verdict(stopping(events=(ended(SHUT_DOWN, END),))) == "healthy"


@pytest.mark.parametrize(
    ("took", "at", "found"),
    [(42_000, 40_000, True), (42_000, 5_000, False), (2_500, 12_000, False)],
)
def test_a_trigger_that_waited_for_a_silent_broker_has_recovered(
    took: int, at: int, found: bool
) -> None:
    slow = w.trigger(5, took)
    after = [
        w.trigger(n, 900, time_us=slow.time_us + (took + n * 2_000) * 1000) for n in range(6, 16)
    ]
    requests = tuple(w.record("kafka-request-timeout", at=at, node="1") for _ in range(2))
    query = w.query([*HEALTHY[:5], slow, *after])
    outcomes = w.outcomes(w.application(queries=(query,), incidents=requests))
    of_kafka = [f for outcome in outcomes for f in outcome.findings if f.cause == "kafka-timeout"]
    assert [f.state for f in of_kafka] == (["recovered"] if found else [])
    if found:
        assert "Broker 1 of Kafka did not respond" in of_kafka[0].title
        assert "a trigger of query orders took 42 s" in of_kafka[0].title


def test_a_missing_topic_that_only_an_outer_exception_names() -> None:
    over = w.record(
        kind="spark_query", at=END, what="terminated", id="q", run_id="r",
        cause="org.apache.kafka.common.errors.UnknownTopicOrPartitionException: This server does not host this topic-partition.",
        exception="org.apache.kafka.common.errors.TimeoutException: Topic priced-orders not present in metadata after 60000 ms.",
    )  # fmt: skip
    app = w.application(queries=(w.query(HEALTHY, events=(over,)),))
    [finding] = [f for outcome in w.outcomes(app) for f in outcome.findings]
    assert finding.cause == "unknown-topic"
    assert finding.title.endswith("does not host this topic-partition (topic priced-orders)")
    assert "outer exception" not in finding.explain


# -- batches without an end --------------------------------------------------------------------


def unfinished(ms: int, **values: Any) -> OpenTrigger:
    """Return a trigger that has run for `ms` when the application stops."""
    since = (w.T0 + END - ms) * 1000
    return OpenTrigger(batch=30, since_us=since, until_us=(w.T0 + END + 1_000) * 1000, **values)


TASK = OpenTask(
    stage=9, index=1, stage_name="foreachPartition at job.py:20", executor="2",
    host="worker-2", ended=3, longest_ms=120,
)  # fmt: skip


def finding_of(app: ApplicationFacts) -> Any:
    outcomes = [outcome for outcome in w.outcomes(app) if outcome.findings]
    (finding,) = next(outcome for outcome in outcomes if outcome.code == "RT104").findings
    return finding


def test_a_task_without_an_end_is_named_with_its_siblings() -> None:
    app = stopping(*HEALTHY[:15], unfinished=unfinished(29_000, tasks=(TASK,)))
    finding = finding_of(app)
    assert (w.verdict(app), w.cause(app)) == ("failing", "hanging-batch")
    assert (finding.subject.executor, finding.subject.stage) == ("2", 9)
    assert (finding.subject.subtask_index, finding.subject.query) == (1, "orders")
    assert "running for 29 s" in finding.title and "3 tasks of its stage ended" in finding.title


@pytest.mark.parametrize(
    ("work", "text"),
    [
        (Work(jobs=1, busy_ms=40), "the driver waits in the sink"),
        (Work(jobs=1, busy_ms=None), "no running task"),
        (None, "the longest earlier batch took 900 ms"),
    ],
)
def test_without_an_open_task_the_jobs_show_where_a_batch_waits(
    work: Work | None, text: str
) -> None:
    app = stopping(*HEALTHY[:15], unfinished=unfinished(29_000, work=work))
    assert text in finding_of(app).title


@pytest.mark.parametrize(
    ("records", "ran", "text"),
    [
        ([("kafka-request-timeout", {"node": "1"})] * 2, 50_000, "Broker 1 of Kafka does not respond"),
        (
            [
                ("kafka-request-timeout", {"node": "2"}),
                ("kafka-connection-failed", {"node": "1", "address": "kafka-1.example/10.0.0.11:9092"}),
            ],
            50_000,
            "Broker 1, broker 2 of Kafka at kafka-1.example/10.0.0.11:9092 do not accept",
        ),
        ([("kafka-connection-failed", {"node": "-1"})] * 3, 50_000, "Bootstrap server of Kafka does not"),
        ([("kafka-request-timeout", {"node": "1"})], 50_000, None),
        ([("kafka-request-timeout", {"node": "1"})] * 2, 9_000, None),
    ],
)  # fmt: skip
def test_a_batch_waits_for_brokers_that_do_not_respond(
    records: list[tuple[str, dict[str, str]]], ran: int, text: str | None
) -> None:
    """A single request may meet a restart of the broker, and requests before the batch delayed nothing."""
    incidents = tuple(w.record(name, at=END - 1_000, **fields) for name, fields in records)
    early = tuple(w.record("kafka-request-timeout", at=1_000, node="3") for _ in range(3))
    app = stopping(*HEALTHY[:15], incidents=early + incidents, unfinished=unfinished(ran))
    found = [f for outcome in w.outcomes(app) for f in outcome.findings if outcome.code == "RT305"]
    assert [text in f.title for f in found if text] == ([True] if text else [])
    assert [f.cause for f in found] == (["kafka-timeout"] if text else [])


@pytest.mark.parametrize(("per_s", "hangs"), [(50.0, True), (600.0, False)])
def test_a_batch_with_the_rows_of_a_long_one_before_may_take_longer(
    per_s: float, hangs: bool
) -> None:
    # It took 8 s for 1200 rows; in the 20 s since its start, 1000 or 12,000 rows have arrived.
    before = w.trigger(5, 8_000, rows=1200, input_per_s=per_s)
    app = stopping(w.trigger(4, 900), before, unfinished=unfinished(30_000))
    assert ("RT104" in w.codes(app)) is hangs


def test_a_trigger_that_waits_for_the_cores_of_another_query_does_not_hang() -> None:
    waits = unfinished(29_000, work=Work(jobs=1, busy_ms=None))
    app = stopping(*HEALTHY[:15], unfinished=waits)
    other = w.query(HEALTHY[:15], unfinished=unfinished(15_000, tasks=(TASK,)))
    app = replace(app, queries=(*app.queries, replace(other, id="a", name="archive")))
    assert w.codes(app) == []
    reasons = [why.reason for outcome in w.outcomes(app) for why in outcome.inconclusive]
    assert any("may be waiting for cores that query archive uses" in reason for reason in reasons)


@pytest.mark.parametrize(("ms", "code"), [(400, []), (15_000, []), (29_000, ["RT104"])])
def test_a_stop_in_the_middle_of_a_batch_is_normal(ms: int, code: list[str]) -> None:
    assert w.codes(stopping(*HEALTHY[:15], unfinished=unfinished(ms))) == code


def stalled(running_ms: int, *, later: int = 0) -> ApplicationFacts:
    """Return a recorded run: a slow start, batches of two seconds every three seconds, and one that is running."""
    batches, free, interval = [], 0, 3000
    for number, took in enumerate((1897, 599, 17_831, 2278, 2398)):
        start = max(interval * number, free)
        free = start + took
        times = {"scheduling_ms": start - interval * number, "processing_ms": took}
        batches.append(
            w.batch(number, interval=interval, submission_ms=w.T0 + interval * number, **times)
        )
    hung = w.batch(5, interval=interval, state="processing", start_ms=w.T0 + free)
    waiting = [w.batch(6 + n, interval=interval, state="queued") for n in range(later)]
    return w.application(
        [*batches, *([hung] if running_ms else []), *waiting],
        interval_ms=interval,
        last_us=(w.T0 + free + running_ms) * 1000,
    )


def test_a_single_slow_batch_hides_no_hanging_one() -> None:
    app = stalled(44_000, later=18)
    assert (w.codes(app), w.cause(app), w.verdict(app)) == (["RT104"], "hanging-batch", "failing")


@pytest.mark.parametrize(
    ("app", "words"),
    [
        (stalled(25_000, later=12), "a batch is still running after 25 s"),
        (stalled(0), "batches wait for 4.7 intervals, but only a few of them have ended"),
    ],
)
def test_a_stall_is_neither_an_overload_nor_low_headroom(app: ApplicationFacts, words: str) -> None:
    (one,) = w.assessed(app).applications
    assert one.state is not None and words in one.state.because
    assert (w.codes(app), w.verdict(app)) == ([], "inconclusive")


@pytest.mark.parametrize(
    ("running_ms", "codes"), [(48_000, []), (120_000, ["RT101"]), (200_000, ["RT104", "RT101"])]
)
def test_a_first_batch_that_is_still_running_does_not_hang_yet(
    running_ms: int, codes: list[str]
) -> None:
    first = w.batch(0, interval=3000, state="processing", start_ms=w.T0 + 500)
    waiting = [w.batch(n, interval=3000, state="queued") for n in range(1, running_ms // 3000)]
    last_us = (w.T0 + 500 + running_ms) * 1000
    app = w.application([first, *waiting], interval_ms=3000, last_us=last_us)
    assert sorted(w.codes(app)) == sorted(codes)
    assert (w.verdict(app) == "inconclusive") is (not codes)


def test_a_first_batch_may_take_minutes() -> None:
    slow = [w.trigger(n, 15_000, rows=50, interval=15_000) for n in range(3)]
    app = stopping(*slow, unfinished=unfinished(29_000))
    assert "RT104" not in w.codes(app)


# -- other findings of live runs ---------------------------------------------------------------


def failed_next_to(*others: Any) -> Any:
    """Return the finding about a failed query next to queries with these triggers."""
    query = w.query(HEALTHY[:10], events=(ended("ValueError: no number", 21_000),))
    other_queries = tuple(
        replace(w.query(some), id=f"o{n}", name=f"o{n}") for n, some in enumerate(others)
    )
    (finding,) = next(
        outcome
        for outcome in w.outcomes(w.application(queries=(query, *other_queries)))
        if outcome.code == "RT103"
    ).findings
    return finding


@pytest.mark.parametrize("sources", [(0,), (0, 1), (1, 0)])
def test_the_raising_line_stays_when_the_event_log_is_added(sources: tuple[int, ...]) -> None:
    """An event log has the whole exception of a query, but not always the frame of the user's function."""
    error = "ValueError: bad order 17"
    printed = w.record(
        kind="spark_query",
        what="terminated",
        at=30_000,
        cause=error,
        run_id="r",
        python_frame="enrich(j09.py:6)",
    )
    whole = f"org.apache.spark.api.python.PythonException: Traceback (most recent call last):\n{error}\n\tat a.B.c"
    logged = w.record(
        kind="spark_query", what="terminated", cause=whole, run_id="r", origin="event-log"
    )
    events = tuple((printed, replace(logged, time_us=None))[n] for n in sources)
    app = w.application(queries=(w.query(HEALTHY, events=events),))
    (finding,) = next(outcome for outcome in w.outcomes(app) if outcome.code == "RT103").findings
    assert any("enrich(j09.py:6)" in action.text for action in finding.actions)
    assert error in finding.title


def test_a_failed_query_next_to_running_ones_goes_unnoticed() -> None:
    finding = failed_next_to(HEALTHY)
    assert "the application continues without it" in finding.title
    assert "query o0" in finding.explain
    assert "continues" not in failed_next_to(HEALTHY[:8]).title
    assert "continues" not in failed_next_to().title


def staged(**values: Any) -> StageLoad:
    return StageLoad(
        stage=4, name="start", tasks=2, total_ms=16_000, longest_ms=8_200, index=0, executor="1",
        host="h", slowest_records=0, records=0, run_ms=16_000, **values,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("stage", "codes"),
    [
        (staged(cpu_ms=90, python=True, python_ms=15_800), ["RT314"]),  # Spark 4
        (staged(cpu_ms=90, python=True), ["RT314"]),
        (staged(cpu_ms=9_000, python=True, python_ms=2_000), []),
        (staged(cpu_ms=9_000, python=True), []),
        (staged(cpu_ms=90), []),  # no Python
    ],
)
def test_python_code_takes_the_time_of_tasks(stage: StageLoad, codes: list[str]) -> None:
    slow = [
        w.trigger(n, 8_400, rows=80, time_us=(w.T0 + n * 8_420) * 1000, stage=stage)
        for n in range(9)
    ]
    for interval in (None, 4_000):
        app = w.application(queries=(w.query(slow, trigger_interval_ms=interval),))
        assert [code for code in w.codes(app) if code != "RT101"] == codes
    calm = [w.trigger(n, 8_400, rows=80, interval=20_000, stage=stage) for n in range(9)]
    assert w.codes(w.application(queries=(w.query(calm, trigger_interval_ms=20_000),))) == []


@pytest.mark.parametrize(("interval", "codes"), [(3_000, ["RT314"]), (20_000, [])])
def test_one_very_long_trigger_shows_slow_python_code(interval: int, codes: list[str]) -> None:
    stage = staged(cpu_ms=90, python=True, python_ms=15_800)
    first = w.trigger(0, 6_000, interval=interval, input_per_s=0.0, processed_per_s=0.0)
    last = w.trigger(1, 41_000, interval=interval, input_per_s=400.0, processed_per_s=98.0)
    triggers = [first, replace(last, rows=1_800, stage=stage)]
    app = w.application(queries=(w.query(triggers, trigger_interval_ms=interval),))
    assert [code for code in w.codes(app) if code != "RT101"] == codes


@pytest.mark.parametrize("interval", [None, 2_000])
@pytest.mark.parametrize(("latest_offset_ms", "codes"), [(2_490, ["RT410"]), (300, [])])
def test_a_slow_source_needs_no_interval(
    interval: int | None, latest_offset_ms: int, codes: list[str]
) -> None:
    durations = {
        "latestOffset": latest_offset_ms,
        "addBatch": 2_900 - latest_offset_ms,
        "triggerExecution": 3_000,
    }
    slow = [
        replace(w.trigger(n, 3_000, time_us=(w.T0 + n * 3_010) * 1000), durations=durations)
        for n in range(8)
    ]
    app = w.application(queries=(w.query(slow, trigger_interval_ms=interval),))
    assert [code for code in w.codes(app) if code != "RT101"] == codes


def test_back_pressure_is_not_advised_for_files() -> None:
    late = [w.batch(n, processing_ms=1_500, scheduling_ms=500 * n, streams=()) for n in range(30)]
    files = (w.record("new-files", at=1_000),)

    def options(app: ApplicationFacts) -> set[str | None]:
        found = next(outcome for outcome in w.outcomes(app) if outcome.code == "RT101").findings
        return {action.option for action in found[0].actions}

    enabled = "spark.streaming.backpressure.enabled"
    assert enabled in options(w.application(late))
    assert enabled not in options(w.application(late, incidents=files))


@pytest.mark.parametrize(
    ("lineage", "first", "back_pressure"),
    [
        ("receiver", "Enable back pressure", True),
        ("kafka state", "return None", True),
        ("other", "Add cores", False),
        ("other window=2", "Add cores", False),
        ("other window=25", "all 25 batches of the window", False),
        ("other state", "return None", False),
    ],
)
def test_advice_for_late_batches_fits_their_source_and_lineage(
    lineage: str, first: str, back_pressure: bool
) -> None:
    words = frozenset(lineage.split())
    late = [
        w.batch(n, processing_ms=1_500, scheduling_ms=500 * n, streams=(), lineage=words)
        for n in range(30)
    ]
    outcome = next(o for o in w.outcomes(w.application(late)) if o.code == "RT101")
    (found,) = outcome.findings
    assert first in found.actions[0].text
    options = {action.option for action in found.actions}
    assert ("spark.streaming.backpressure.enabled" in options) is back_pressure
    assert ("only receivers and Kafka follow a rate limit" in found.explain) is not back_pressure


@pytest.mark.parametrize(("rows", "named"), [(1_100, True), (200_000, False)])
def test_a_table_that_each_trigger_reads_again_is_named(rows: int, named: bool) -> None:
    stage = replace(staged(cpu_ms=9_000), tasks=94, records=300_000)
    late = [w.trigger(n, 9_000, rows=rows, interval=3_000, stage=stage) for n in range(9)]
    query = w.query(late, trigger_interval_ms=3_000)
    query = replace(query, plan=replace(query.plan, tables=("file:/srv/static",)))
    outcome = next(o for o in w.outcomes(w.application(queries=(query,))) if o.code == "RT101")
    (found,) = outcome.findings
    assert ("reads file:/srv/static again: 300 000 records" in (found.why or "")) is named
    assert ("cache it before the join" in found.actions[0].text) is named


REJECTED = (
    "Executor launch task task 51.0 in stage 0.0 (TID 51) failed, reason: Task org.apache.spark.executor.Executor"
    "$TaskRunner@66f006de rejected from java.util.concurrent.ThreadPoolExecutor@16566170[Terminated, pool size = 0]"
)


@pytest.mark.parametrize("text", [NO_SCHEDULER, REJECTED])
def test_failures_right_before_the_end_of_a_log_at_warn_are_effects_of_the_stop(text: str) -> None:
    failure = w.record(kind="spark_failure", at=59_000, cause=text)
    query = w.query([w.trigger(n, 500) for n in range(30)])
    app = w.application(queries=(query,), failures=(failure,), last_us=(w.T0 + 60_000) * 1000)
    assert w.assessed(app).applications[0].app.failures == ()


def test_a_failure_that_names_the_stop_dates_it() -> None:
    """A log at WARN: the workers of the tasks that a stop cancels exit, too."""
    cancelled = (
        "org.apache.spark.SparkException: Job 10 cancelled because SparkContext was shut down"
    )
    ended = w.record(kind="spark_query", what="terminated", at=59_000, cause=cancelled)
    crashed = w.record(
        kind="spark_failure", at=59_000, cause="Python worker exited unexpectedly (crashed)"
    )
    earlier = w.record(
        kind="spark_failure", at=9_000, cause="java.io.IOException: no route to host"
    )
    query = w.query([], events=(ended,))
    app = w.application(
        queries=(query,), failures=(earlier, crashed), last_us=(w.T0 + 60_000) * 1000
    )
    (assessed,) = w.assessed(app).applications
    assert assessed.app.failures == (earlier,)
    assert assessed.app.unseen_stop == cancelled


@pytest.mark.parametrize(("offset", "kept"), [(1, True), (90, False)])
def test_a_cleared_context_dates_the_stop(offset: int, kept: bool) -> None:
    """Failures above its line are not its effect; the workers of the cancelled tasks exit below the line."""
    ended = w.record(kind="spark_query", what="terminated", at=59_000, cause=NO_SCHEDULER)
    ended = replace(ended, ref=Ref(0, 9))
    crashed = w.record(
        kind="spark_failure", at=59_000, cause="Python worker exited unexpectedly (crashed)"
    )
    crashed = replace(crashed, ref=Ref(0, offset))
    app = w.application(
        queries=(w.query([], events=(ended,)),),
        failures=(crashed,),
        last_us=(w.T0 + 60_000) * 1000,
    )
    (assessed,) = w.assessed(app).applications
    assert assessed.app.failures == ((crashed,) if kept else ())


def test_a_lost_channel_above_the_stop_in_the_same_second_is_its_effect() -> None:
    lost = w.record(
        kind="spark_query", at=59_000, cause="py4j.Py4JException: Received empty command"
    )
    lost = replace(lost, ref=Ref(0, 1))
    stop = replace(w.record("stop-by-hook", at=59_000), ref=Ref(0, 9))
    query = w.query([w.trigger(n, 500) for n in range(29)], events=(lost,))
    app = w.application(queries=(query,), incidents=(stop,), last_us=(w.T0 + 60_000) * 1000)
    (assessed,) = w.assessed(app).applications
    assert [event.cause for event in assessed.app.queries[0].events] == [None]


@pytest.mark.parametrize("cause", [PEER_GONE, NO_SESSION, INTERRUPTED, KILLED_TASK])
def test_a_fragment_that_shows_only_the_end_of_python_names_no_cause(cause: str) -> None:
    """The last lines of a log may begin in the middle of a stack trace."""
    gone = replace(w.record(kind="spark_failure", cause=cause), time_us=None)
    app = replace(w.application(failures=(gone,)), origins=frozenset({"other"}), last_us=None)
    assert app.kind == "other"
    (assessed,) = w.assessed(app).applications
    assert [record.cause for record in assessed.app.failures] == []


@pytest.mark.parametrize(
    ("application", "causes"),
    [("local-1795707225031", []), ("app-1", ["unrecognised-failure"])],
)
def test_a_heartbeat_before_the_end_of_a_slow_start_is_not_a_failure(
    application: str, causes: list[str]
) -> None:
    failure = w.record(
        kind="spark_failure",
        at=9_000,
        cause="org.apache.spark.rpc.RpcEndpointNotFoundException: Cannot find endpoint: "
        "spark://CoarseGrainedScheduler@driver.acme:32855",
    )
    app = replace(w.application(failures=(failure,)), application=application)
    (assessed,) = w.assessed(app).applications
    found = [*unexplained_failure.judge_rest(assessed, Limits())]
    assert [finding.cause for finding in found] == causes


def test_an_event_log_does_not_show_why_an_application_ended() -> None:
    ended = w.record(kind="spark_query", what="terminated", run_id="r")
    triggers = [w.trigger(n, 500, run_id="r") for n in range(9)]
    app = w.application(queries=(w.query(triggers),), ended_us=(w.T0 + 60_000) * 1000)
    app = replace(app, origins=frozenset({"event-log"}))

    def notes(one: ApplicationFacts) -> list[str]:
        facts = RateFacts(applications=(one,))
        return [note.text for note in RATE.notes(facts, facts, Options())]

    (text,) = notes(app)
    assert "ended while query orders was active" in text and "driver's log" in text
    assert notes(replace(app, queries=(w.query(triggers, events=(ended,)),))) == []
    assert notes(replace(app, ended_us=None)) == notes(replace(app, origins=frozenset())) == []


def test_a_second_start_that_stops_the_first_run_is_a_warning() -> None:
    again = [w.record("run-replaced", at=1000 * n, id=name) for n, name in enumerate("aab")]
    facts = RateFacts(applications=(w.application(incidents=tuple(again)),))
    first, second = (note.text for note in RATE.notes(facts, facts, Options()))
    assert "active run of query a (2 times)" in first and "checkpoint location" in first
    assert "active run of query b (1 time)" in second


@pytest.mark.parametrize(
    ("triggers", "idle_at", "word"),
    [
        ([w.trigger(0, 9000), w.trigger(1, 500)], 40_000, Stability.IDLE),
        ([], 40_000, Stability.IDLE),
        ([w.trigger(0, 9000), w.trigger(1, 500)], 1000, Stability.INCONCLUSIVE),
    ],
)
def test_a_query_without_new_data_is_idle_after_its_first_triggers(
    triggers: list[Trigger], idle_at: int, word: Stability
) -> None:
    idle = w.record(kind="spark_query", what="idle", at=idle_at)
    app = w.application(queries=(w.query(triggers, runs=("r",), events=(idle,)),))
    (assessed,) = w.assessed(app).applications
    assert assessed.queries[0][1].stability is word
    assert w.verdict(app) == ("healthy" if word is Stability.IDLE else "inconclusive")


@pytest.mark.parametrize(
    ("reason", "before", "reported"),
    [
        (
            "org.apache.spark.SparkException: Job 3 cancelled because SparkContext was shut down",
            0,
            False,
        ),
        ("java.lang.IllegalStateException: no price", 20_000, True),
    ],
)
def test_python_repeats_the_exception_of_a_stopped_query(
    reason: str, before: int, reported: bool
) -> None:
    again = "pyspark.errors.exceptions.captured.StreamingQueryException: [STREAM_FAILED] Query terminated"
    printed = w.record("bare-exception", kind="spark_query", cause=again, what="terminated", id="q")
    failed = replace(ended(reason, END - before), template="query-failed")
    app = stopping(events=(replace(printed, time_us=None), failed))
    assert ("RT103" in w.codes(app)) is reported


def test_effects_of_a_stop_alone_are_not_assessed() -> None:
    """A log at WARN may begin with the stop, and everything after it is no evidence of the time before."""
    crash = "Python worker exited unexpectedly (crashed)"
    stop = w.record("stop-log-writer", at=0)
    lost = w.record(KNOWN_RECORD, cause=crash, at=5_000)
    app = w.application(origins=frozenset({"log"}), incidents=(stop, lost), last_us=w.T0 * 1000)
    assert not RATE.is_assessed(RateFacts(applications=(app,)))
    assert RATE.is_assessed(RateFacts(applications=(replace(app, incidents=(lost,)),)))
