"""The rules of `rate` judge simulated applications and hand-written facts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flowdiag.analyses.model.finding import Confidence, Finding, Severity, State
from flowdiag.analyses.model.keys import JobKey
from flowdiag.analyses.model.rule import apply
from flowdiag.analyses.rate.assessment import assess
from flowdiag.analyses.rate.facts import (
    ApplicationFacts,
    Executor,
    Output,
    RateFacts,
    StageLoad,
    StreamInput,
    Trigger,
    Work,
)
from flowdiag.analyses.rate.failures.troubles import error_line, troubles
from flowdiag.analyses.rate.model import Job, Settings
from flowdiag.analyses.rate.pid import Gains
from flowdiag.analyses.rate.rules import driver_killed
from flowdiag.analyses.rate.stability import Stability

from . import rate_workbench as w

MUCH = [1e9] * 60
LOW = Gains(min_rate=5.0)
JOB = Job(fixed_ms=60, per_record_ms=5)


@settings(max_examples=30, deadline=None)
@given(
    st.floats(0, 300),
    st.floats(0, 5),
    st.floats(1, 90),
    st.integers(20, 80),
    st.booleans(),
)
def test_applications_that_keep_up_are_not_accused(
    fixed: float, each: float, rate: float, count: int, back_pressure: bool
) -> None:
    tried = Settings(interval_ms=1000, back_pressure=back_pressure)
    app = w.simulated(Job(fixed_ms=fixed, per_record_ms=each), tried, [rate] * count)
    assert w.codes(app) == []
    assert w.verdict(app) == "healthy"


def test_an_idle_application() -> None:
    app = w.simulated(JOB, Settings(interval_ms=1000), [0.0] * 30)
    (one,) = w.assessed(app).applications
    assert one.state is not None and one.state.stability is Stability.IDLE
    assert w.codes(app) == []


def test_overloaded_without_back_pressure() -> None:
    app = w.simulated(JOB, Settings(interval_ms=1000, back_pressure=False), [60] * 20 + [400] * 40)
    assert w.cause(app) == "overloaded" and w.verdict(app) == "failing"
    (one,) = w.assessed(app).applications
    assert one.state is not None and one.state.queued > 10
    assert one.state.headroom_per_s == pytest.approx(188, rel=0.1)
    turned = (one.state.behind_since_ms or 0) - w.T0
    assert 19_000 <= turned <= 25_000


@pytest.mark.parametrize(
    ("interval", "code"), [(4000, []), (3500, ["RT101"])], ids=["drains", "stays"]
)
def test_a_draining_queue_after_a_cold_start_is_not_an_overload(
    interval: int, code: list[str]
) -> None:
    """The durations are those of a recorded run whose first batch took 23 seconds."""
    batches, free = [], 0
    for number, took in enumerate((23_280, 2_898, 4_642, 3_546, 3_207, 3_767, 2_799, 3_600)):
        start = max(interval * number, free)
        waits, free = start - interval * number, start + took
        more: dict[str, Any] = {"submission_ms": w.T0 + interval * number, "processing_ms": took}
        batches.append(w.batch(number, interval=interval, scheduling_ms=waits, **more))
    waiting = [w.batch(n, interval=interval, state="queued") for n in range(8, 14)]
    app = w.application([*batches, *waiting], interval_ms=interval)
    assert [each for each in w.codes(app) if each == "RT101"] == code


def test_three_batches_after_a_cold_start_are_inconclusive() -> None:
    """The first batch of a recorded run took 39 seconds, and 14 others wait."""
    free, batches = 0, []
    for number, took in enumerate((39_391, 1_932, 2_101)):
        start = max(3000 * number, free)
        waits, free = start - 3000 * number, start + took
        more: dict[str, Any] = {
            "submission_ms": w.T0 + 3000 * number,
            "processing_ms": took,
            "streams": (),
        }
        batches.append(w.batch(number, interval=3000, scheduling_ms=waits, **more))
    waiting = [w.batch(n, interval=3000, state="queued") for n in range(3, 17)]
    app = w.application([*batches, *waiting], interval_ms=3000)
    assert (w.codes(app), w.verdict(app)) == ([], "inconclusive")


@pytest.mark.parametrize(("begun", "text"), [(3, ""), (1, ", with 2 batches queued")])
def test_only_batches_that_have_not_begun_are_queued(begun: int, text: str) -> None:
    """An event log alone has no batch that has not begun."""
    late = [w.batch(n, scheduling_ms=1000 * n, processing_ms=2000) for n in range(30)]
    states = ["processing"] * begun + ["queued"] * (3 - begun)
    open_ones = [w.batch(30 + n, state=state) for n, state in enumerate(states)]
    app = w.application([*late, *open_ones], last_us=(w.T0 + 60_000) * 1000)
    (finding,) = (x for o in w.outcomes(app) if o.code == "RT101" for x in o.findings)
    assert f"fall further behind{text}: a batch takes 2 s" in finding.title
    assert ("queued-batches" in {m.name for m in finding.measurements}) is bool(text)


def test_an_overload_below_ten_intervals_is_degraded() -> None:
    app = w.simulated(JOB, Settings(interval_ms=1000, back_pressure=False), [220] * 40)
    assert w.verdict(app) == "degraded" and w.cause(app) == "overloaded"


def test_a_past_overload_names_its_worst_delay() -> None:
    offered = [50] * 20 + [600] * 12 + [50] * 120
    app = w.simulated(JOB, Settings(interval_ms=1000, back_pressure=False), offered)
    (finding,) = (x for o in w.outcomes(app) if o.code == "RT101" for x in o.findings)
    assert (finding.state, finding.cause) == (State.RECOVERED, "overloaded")
    assert "caught up" in finding.title


def test_an_overload_that_begins_at_the_end_is_inconclusive() -> None:
    late = [w.batch(20 + n, scheduling_ms=600 * n, processing_ms=1600) for n in range(3)]
    app = w.application([*(w.batch(n) for n in range(20)), *late])
    (one,) = w.assessed(app).applications
    assert one.state is not None and one.state.stability is Stability.INCONCLUSIVE
    assert "wait longer each time" in one.state.because
    assert w.codes(app) == [] and w.verdict(app) == "inconclusive"


def test_one_long_batch_at_the_end_is_not_an_overload() -> None:
    long = w.batch(30, processing_ms=1500)
    app = w.application([*(w.batch(n) for n in range(30)), long])
    assert w.codes(app) == [] and w.verdict(app) == "healthy"


def test_a_processed_burst_is_healthy() -> None:
    offered = [50] * 20 + [600] * 3 + [50] * 60
    assert w.codes(w.simulated(JOB, Settings(interval_ms=1000, back_pressure=False), offered)) == []


def test_a_cold_first_batch_is_healthy() -> None:
    batches = [w.batch(0, processing_ms=12_000)]
    for number in range(1, 40):
        before = batches[-1].end_ms or 0
        late = max(0, before - (w.T0 + number * 1000))
        batches.append(w.batch(number, scheduling_ms=late, processing_ms=300))
    assert w.codes(w.application(batches)) == []


def test_a_throttled_application() -> None:
    app = w.simulated(JOB, Settings(interval_ms=1000, gains=LOW, max_rate=500), MUCH)
    assert w.codes(app) == ["RT203"] and w.cause(app) == "throttled"


def test_a_rate_without_effect_is_not_throttling() -> None:
    """The first batches contain the records that arrived before the estimator's first rate."""
    waited = [2, 500, 1200, 1700, 2100]
    batches = [
        w.batch(n, records=250, processing_ms=1400, scheduling_ms=ms) for n, ms in enumerate(waited)
    ]
    app = w.application(batches, settings=w.BACK_PRESSURE)
    (one,) = w.assessed(app).applications
    assert (
        one.state is not None and one.state.caps and one.state.stability is Stability.INCONCLUSIVE
    )
    assert "RT203" not in w.codes(app)


def test_a_floor_above_the_processing_rate() -> None:
    tried = Settings(interval_ms=1000, gains=Gains(min_rate=250), max_rate=500)
    app = w.simulated(JOB, tried, MUCH)
    assert w.cause(app) == "rate-floor" and {"RT101", "RT201"} <= set(w.codes(app))


def test_a_floor_without_effect() -> None:
    tried = Settings(interval_ms=1000, gains=LOW, max_rate=500)
    app = w.simulated(Job(fixed_ms=1200, per_record_ms=5), tried, MUCH)
    assert w.cause(app) == "fixed-cost" and "RT201" not in w.codes(app)


def test_max_rate() -> None:
    tried = Settings(interval_ms=1000, max_rate=40, back_pressure=False)
    app = w.simulated(JOB, tried, MUCH)
    assert w.codes(app) == ["RT204"] and w.cause(app) == "max-rate"
    (finding,) = [x for o in w.outcomes(app) for x in o.findings]
    assert finding.subject.option == "spark.streaming.receiver.maxRate"


def test_unstable_gains() -> None:
    gains = Gains(proportional=1.9, integral=0.0, min_rate=5)
    batches = []
    rate, end = 300, 0
    # If the cost grows with the size of the batch, each overshoot causes a larger error.
    for number in range(40):
        rate = 320 if number % 2 else 60
        batches.append(
            w.batch(number, records=rate, processing_ms=100 + rate * 2 + number % 2 * 90)
        )
        end = batches[-1].end_ms or end
    options = w.BACK_PRESSURE | {
        "spark.streaming.backpressure.pid.proportional": str(gains.proportional),
        "spark.streaming.backpressure.pid.integral": "0.0",
        "spark.streaming.backpressure.pid.minRate": "5",
    }
    app = w.application(batches, settings=options)
    assert "RT205" in w.codes(app) and w.cause(app) == "unstable-gains"
    calm = w.application(batches, settings=w.BACK_PRESSURE)
    assert "RT205" not in w.codes(calm)


def test_one_receiver_delivers_most_records() -> None:
    app = w.simulated(JOB, Settings(interval_ms=1000, gains=LOW, max_rate=500), MUCH)
    both = [
        replace(
            b,
            streams=(
                StreamInput(stream=0, records=(b.records or 0) // 20),
                StreamInput(stream=1, records=b.records or 0),
            ),
        )
        for b in app.batches
    ]
    app = replace(app, batches=tuple(both))
    assert w.cause(app) == "skewed-receiver"
    (found,) = [x for o in w.outcomes(app) if o.code == "RT301" for x in o.findings]
    assert found.subject.stream_id == 1


def failing(count: int, every: int, reason: str = "ValueError: no") -> tuple[object, ...]:
    batches = [
        w.batch(n, failed_outputs=int(n % every == 0), reason=reason if n % every == 0 else None)
        for n in range(1, count)
    ]
    outputs = tuple(
        Output(batch_ms=b.time_ms, output=0, name="x", duration_ms=3, failure=reason)
        for b in batches
        if b.failed_outputs
    )
    return w.application(batches, outputs=outputs), batches


def test_failing_batches() -> None:
    app, _ = failing(40, 4)
    assert w.cause(app) == "failing-batches" and w.verdict(app) == "failing"  # type: ignore[arg-type]


def test_an_exception_that_ended_the_script_is_that_of_its_batch() -> None:
    app, _ = failing(150, 100)
    printed = w.record(cause="ValueError: no", origin="paste", python_frame="price(job.py:7)")
    outcomes = w.outcomes(replace(app, incidents=(printed,)))  # type: ignore[type-var, arg-type]
    (finding,) = next(outcome for outcome in outcomes if outcome.code == "RT103").findings
    assert finding.severity is Severity.CRITICAL and finding.state is State.ONGOING
    assert "The exception ended the script." in finding.explain
    assert "price(job.py:7)" in finding.actions[0].text


def test_failed_tasks_of_a_fragment_without_a_batch() -> None:
    """A driver's console or an executor's log contains only the exception of a task."""
    lost = [
        w.record("task-lost", at=n, cause="KeyError: 'amount'", host="worker-3", task_id=str(n))
        for n in range(2)
    ]
    fragment = replace(w.application([], incidents=tuple(lost)), application=None)
    assert w.codes(fragment) == ["RT103"]
    (found,) = [f for o in w.outcomes(fragment) for f in o.findings]
    assert found.cause == "failing-batches"
    assert (found.severity, found.confidence) == (Severity.WARNING, Confidence.MEDIUM)
    assert found.title == "2 tasks failed: KeyError: 'amount'"
    given_up = (*lost, w.record("job-given-up", at=9, stage="7", times="4"))
    (found,) = [f for o in w.outcomes(replace(fragment, incidents=given_up)) for f in o.findings]
    assert (found.severity, found.confidence) == (Severity.CRITICAL, Confidence.HIGH)


@pytest.mark.parametrize(
    "cause",
    [
        "TaskKilled (Stage cancelled: Job 4 cancelled)",
        "TaskCommitDenied (Driver denied task commit)",
    ],
)
def test_cancelled_tasks_did_not_fail(cause: str) -> None:
    lost = (w.record("task-lost", cause=cause, task_id="3"),)
    fragment = replace(w.application([], incidents=lost), application=None)
    assert w.codes(fragment) == []


def test_failed_tasks_of_an_application_are_not_failed_batches() -> None:
    """Batches show whether a retry succeeded. The exception stays visible."""
    lost = (w.record("task-lost", cause="KeyError: 'amount'", task_id="3"),)
    app = w.application([w.batch(n) for n in range(30)], incidents=lost)
    (found,) = [f for o in w.outcomes(app) for f in o.findings]
    assert (found.severity, found.state) == (Severity.INFO, State.RECOVERED)
    assert found.title == "1 task failed, and a retry succeeded: KeyError: 'amount'"
    assert w.verdict(app) == "healthy"
    late = (w.record("task-lost", at=9_999, cause="KeyError: 'amount'", task_id="3"),)
    assert w.codes(w.application([w.batch(n) for n in range(3)], incidents=late)) == []
    assert w.codes(w.application([], incidents=lost)) == []


def test_a_stop_is_not_a_failure() -> None:
    reason = "Job 7 cancelled because SparkContext was shut down"
    app, _ = failing(40, 39, reason)
    assert w.codes(app) == []  # type: ignore[arg-type]


def test_a_hanging_batch() -> None:
    batches = [w.batch(n) for n in range(20)]
    hanging = w.batch(20, state="processing", start_ms=w.T0 + 20_010)
    app = w.application([*batches, hanging], last_us=(w.T0 + 90_000) * 1000)
    assert "RT104" in w.codes(app)


def test_a_driver_that_starts_batches_late() -> None:
    batches = [w.batch(n, submission_ms=w.T0 + n * 1000 + 800) for n in range(30)]
    assert w.codes(w.application(batches)) == ["RT105"]


def test_low_headroom() -> None:
    app = w.application([w.batch(n, processing_ms=900) for n in range(30)])
    assert w.codes(app) == ["RT106"] and w.verdict(app) == "degraded"


def test_receiver_restarts() -> None:
    def event(what: str, at: int, origin: str) -> object:
        return w.record(
            kind="spark_receiver",
            at=at,
            what=what,
            stream="0",
            origin=origin,
            name="SocketReceiver-0",
        )

    events = [event("started", 0, "listener"), event("started", 1, "log")]
    app = w.application([w.batch(n) for n in range(30)], receivers=tuple(events))
    assert w.codes(app) == []
    events += [event("stopped", 9000, "listener"), event("started", 11_000, "listener")]
    app = replace(app, receivers=tuple(events))  # type: ignore[arg-type]
    assert w.codes(app) == ["RT302"] and w.cause(app) == "receiver-restarts"


@pytest.mark.parametrize(
    ("stops", "starts", "clause"),
    [
        ((0, 2000, 4000), (1900, 3900), "restarted 2 times, and stopped once more"),
        ((0, 2000), (1900, 3900), "restarted 2 times:"),
        ((2000,), (0, 3900), "restarted once:"),
    ],
)
def test_receiver_restarts_in_a_log_that_begins_with_a_stop(
    stops: tuple[int, ...], starts: tuple[int, ...], clause: str
) -> None:
    def event(what: str, at: int, cause: str | None = None) -> Any:
        return w.record(
            kind="spark_receiver", at=at, what=what, stream="0", origin="log", cause=cause
        )

    why = "Restarting receiver with delay 2000ms: refused"
    events = [
        *(event("stopped", at, why) for at in stops),
        *(event("started", at) for at in starts),
    ]
    events += [event("stopped", 29_000, "Stopped by driver")] * (stops[-1] < starts[-1])
    events.sort(key=lambda one: one.time_us)
    app = w.application([w.batch(n) for n in range(30)], receivers=tuple(events))
    (finding,) = (f for o in w.outcomes(app) for f in o.findings)
    assert finding.cause == "receiver-restarts" and clause in finding.title
    assert "Stopped by driver" not in finding.title and why in finding.title


def test_a_poll_reported_by_task_and_query_counts_once() -> None:
    poll = "Cannot fetch record for offset 8812 in 120000 milliseconds"
    lost = f"Job aborted: Lost task 3.3 in stage 9.0 (TID 61) (h executor 4): {poll}"
    task = w.record("task-lost", cause=poll, task_id="61")
    ended = w.record(kind="spark_query", cause=poll, exception=lost, what="terminated")
    query = w.query([], events=(ended,))
    assert len(troubles(w.application(incidents=(task,), queries=(query,)))) == 1
    other = w.record("task-lost", cause=poll, task_id="62")
    assert len(troubles(w.application(incidents=(task, other), queries=(query,)))) == 2


def test_a_receiver_stopped_by_another_run_did_not_restart() -> None:
    def event(what: str, at: int, cause: str | None = None) -> Any:
        return w.record(
            kind="spark_receiver", at=at, what=what, stream="0", origin="log", cause=cause
        )

    events = (event("stopped", 0, "Stopped by driver"), event("started", 1000))
    assert w.codes(w.application([w.batch(n) for n in range(30)], receivers=events)) == []


def stage(
    longest: int,
    others: int,
    *,
    records: tuple[int, int] = (0, 0),
    state: tuple[int, int] = (0, 0),
    index: int = 2,
) -> StageLoad:
    return StageLoad(
        stage=4,
        name="x",
        tasks=4,
        total_ms=longest + 3 * others,
        longest_ms=longest,
        index=index,
        executor="1",
        host="h",
        slowest_records=records[0],
        records=records[0] + 3 * records[1],
        state_rows=state[0] + 3 * state[1],
        largest_state=state[0],
        state_partition=2 if any(state) else None,
    )


@pytest.mark.parametrize(
    ("load", "cause"),
    [
        (stage(900, 200, records=(900, 100)), "data-skew"),
        (stage(900, 200, records=(100, 100)), "stragglers"),
        (stage(900, 200, records=(100, 100), state=(5000, 100)), "skewed-state"),
        (stage(900, 200, records=(100, 100), state=(110, 100)), "stragglers"),
        (stage(900, 200, records=(100, 100), state=(5000, 100), index=1), "stragglers"),
        (stage(900, 200, records=(900, 100), state=(5000, 100)), "data-skew"),
        (stage(900, 200), "data-skew"),
        (stage(300, 200), None),
        (stage(200, 10), None),
    ],
)
def test_one_slow_task(load: StageLoad, cause: str | None) -> None:
    batches = [w.batch(n, processing_ms=950, interval=2000, stage=load) for n in range(30)]
    assert w.cause(w.application(batches, interval_ms=2000)) == cause


@pytest.mark.parametrize(
    ("stages", "ratio", "cause"),
    [(7, 4.4, "slow-executor"), (7, 3.0, None), (4, 9.0, None), (10, 2.1, "slow-executor")],
)
def test_a_clear_difference_needs_fewer_stages(
    stages: int, ratio: float, cause: str | None
) -> None:
    batches = [w.batch(n) for n in range(30)]
    slow = Executor(executor="2", host="b", tasks=90, total_ms=9, stages=stages, ratio=ratio)
    assert w.cause(w.application(batches, executors=(slow,))) == cause


def test_slow_and_lost_executors() -> None:
    batches = [w.batch(n) for n in range(30)]
    slow = Executor(executor="2", host="b", tasks=90, total_ms=9, stages=30, ratio=3.0)
    assert w.cause(w.application(batches, executors=(slow,))) == "slow-executor"
    gone = Executor(
        executor="1", removed_us=(w.T0 + 20_000) * 1000, reason="Container killed: exit code 137"
    )
    lost = w.record("block-not-found", at=21_000, block="input-0-1")
    app = w.application(batches, executors=(gone,), incidents=(lost,))
    assert w.cause(app) == "executor-lost" and w.verdict(app) == "failing"
    (finding,) = (f for o in w.outcomes(app) for f in o.findings if o.code == "RT304")
    assert "Exit code 137 means SIGKILL" in finding.explain
    limits = replace(gone, reason="Container killed by YARN for exceeding memory limits, code 137")
    assert w.cause(replace(app, executors=(limits,))) == "out-of-memory"
    for reason in ("Executor killed by driver.", "Idle timeout", "Command exited with code 0"):
        quiet = replace(gone, reason=reason)
        assert w.codes(w.application(batches, executors=(quiet,))) == []


def lost_at(seconds: int, name: str = "1") -> Executor:
    us = (w.T0 + seconds * 1000) * 1000
    return Executor(executor=name, removed_us=us, reason="Container killed: exit code 137")


def added_at(seconds: int) -> Executor:
    return Executor(executor="7", added_us=(w.T0 + seconds * 1000) * 1000)


@pytest.mark.parametrize(
    ("executors", "failed", "state"),
    [
        ((lost_at(6), added_at(8)), False, "recovered"),
        ((lost_at(6),), False, "ongoing"),  # nothing replaces it
        ((lost_at(6), lost_at(7, "2"), added_at(8)), False, "ongoing"),
        ((lost_at(6), added_at(8)), True, "ongoing"),  # a later batch failed
        ((lost_at(57), added_at(57)), False, "ongoing"),  # few batches since then
        ((lost_at(-90, "3"), lost_at(6), added_at(8), added_at(9)), False, "ongoing"),  # again
    ],
)
def test_a_replaced_executor_is_recovered_once_the_application_works(
    executors: tuple[Executor, ...], failed: bool, state: str
) -> None:
    batches = [w.batch(n) for n in range(30)]
    if failed:
        batches[20] = replace(batches[20], failed_outputs=1, reason="ValueError")
    triggers = [] if failed else [w.trigger(n, 600, interval=1000) for n in range(30)]
    for app in (
        w.application(batches, executors=executors),
        w.application(queries=(w.query(triggers),), executors=executors),
    )[: 1 if failed else 2]:
        (finding,) = (f for o in w.outcomes(app) for f in o.findings if o.code == "RT304")
        assert (finding.state, finding.severity) == (state, "warning")


def test_slow_kafka_and_metadata_writes() -> None:
    batches = [w.batch(n) for n in range(30)]
    polls = tuple(w.record("kafka-poll", at=20_000 + n) for n in range(3))
    assert w.cause(w.application(batches, incidents=polls)) == "slow-kafka"
    gone = (w.record("offsets-out-of-range", at=20_000),)
    assert w.verdict(w.application(batches, incidents=gone)) == "failing"
    writes = tuple(w.record("graph-checkpoint", at=n, duration_ms=800) for n in range(4))
    assert w.cause(w.application(batches, incidents=writes)) == "slow-metadata-writes"


@pytest.mark.parametrize(
    ("at", "cause", "verdict"),
    [
        (90_000, "org.apache.kafka.common.errors.TimeoutException: Call(...) timed out", "failing"),
        (50_000, "org.apache.kafka.common.errors.TimeoutException: Call(...) timed out", "healthy"),
        (90_000, "org.apache.kafka.common.errors.InterruptException", "healthy"),
    ],
)
def test_a_query_that_waits_for_offsets(at: int, cause: str, verdict: str) -> None:
    """The last trigger ends after a minute. A retry may succeed."""
    good = w.query([w.trigger(n, 600) for n in range(31)])
    failed = (w.record("kafka-offsets-failed", at=at, cause=cause),)
    app = w.application(queries=(good,), incidents=failed, last_us=(w.T0 + 100_000) * 1000)
    assert w.verdict(app) == verdict
    assert w.cause(app) == ("kafka-timeout" if verdict == "failing" else None)


# -- Structured Streaming ------------------------------------------------------------------------


def test_queries_that_keep_up() -> None:
    good = w.query([w.trigger(n, 600) for n in range(30)])
    nothing = w.query([w.trigger(n, 40, rows=0) for n in range(30)])
    assert w.codes(w.application(queries=(good,))) == []
    assert w.codes(w.application(queries=(nothing,))) == []


def test_a_query_that_overruns() -> None:
    app = w.application(queries=(w.query([w.trigger(n, 3000) for n in range(30)]),))
    assert w.codes(app) == ["RT101"] and w.verdict(app) == "degraded"
    worse = w.application(queries=(w.query([w.trigger(n, 30_000) for n in range(30)]),))
    assert w.verdict(worse) == "failing"


def test_an_overloaded_query_without_an_interval() -> None:
    triggers, time, duration = [], w.T0, 2000
    for number in range(7):
        rows = 300 * duration // 1000
        before, duration = duration, rows * 6
        triggers.append(
            w.trigger(
                number,
                duration,
                time_us=time * 1000,
                rows=rows,
                input_per_s=rows * 1000 / before,
                processed_per_s=rows * 1000 / duration,
            )
        )
        time += duration
    app = w.application(queries=(w.query(triggers, trigger_interval_ms=None),))
    assert w.codes(app) == ["RT101"]


def test_a_query_that_reads_everything_and_ends() -> None:
    triggers = [
        w.trigger(n, 900, time_us=(w.T0 + n * 900) * 1000, input_per_s=110.0, processed_per_s=111.0)
        for n in range(12)
    ]
    files = w.query(triggers, trigger_interval_ms=None, file_limit=40, files_taken=(40,) * 12)
    assert w.codes(w.application(queries=(files,))) == []


def test_a_limit_of_files() -> None:
    triggers = [w.trigger(n, 500) for n in range(30)]
    full = w.query(triggers, file_limit=2, files_taken=(2,) * 30)
    app = w.application(queries=(full,))
    assert w.codes(app) == ["RT204"] and w.cause(app) == "max-rate"
    some = w.query(triggers, file_limit=20, files_taken=(2,) * 30)
    assert w.codes(w.application(queries=(some,))) == []


def test_a_growing_backlog() -> None:
    triggers = [
        w.trigger(n, 500, sources=({"name": "KafkaV2[x]", "backlog": 100 * n},)) for n in range(30)
    ]
    app = w.application(queries=(w.query(triggers),))
    assert w.codes(app) == ["RT204"]
    (found,) = [x for o in w.outcomes(app) for x in o.findings]
    assert found.subject.option == "maxOffsetsPerTrigger"


def test_failed_runs() -> None:
    def ended(run: str, cause: str | None, at: int) -> object:
        return w.record(kind="spark_query", at=at, what="terminated", run_id=run, cause=cause)

    triggers = [w.trigger(n, 500, run_id="ab"[n // 10]) for n in range(20)]
    stopped = w.query(triggers, events=(ended("a", None, 20_000),))
    assert w.codes(w.application(queries=(stopped,))) == []
    failed = w.query(
        triggers,
        events=(ended("a", "x\nCaused by: E: 1", 20_000), ended("b", "E: 2", 40_000)),
    )
    app = w.application(queries=(failed,))
    assert w.codes(app) == ["RT103"] and w.verdict(app) == "failing"


def test_late_rows() -> None:
    state = ({"rows": 500, "dropped": 3},)
    app = w.application(queries=(w.query([w.trigger(n, 500, state=state) for n in range(30)]),))
    assert w.codes(app) == ["RT404"] and w.cause(app) == "late-rows"


def test_dropped_rows_are_not_reported_as_a_share_of_the_rows_read() -> None:
    """A join multiplies rows: its operator may drop more rows than the query read."""
    state = ({"rows": 500, "dropped": 90},)
    triggers = [w.trigger(n, 500, rows=12, state=state) for n in range(30)]
    outcomes = w.outcomes(w.application(queries=(w.query(triggers),)))
    (finding,) = [finding for outcome in outcomes for finding in outcome.findings]
    assert "in 30 of 30 triggers" in finding.title
    assert "%" not in finding.title
    rare = [replace(t, state=state if n == 4 else ()) for n, t in enumerate(triggers)]
    assert w.codes(w.application(queries=(w.query(rare),))) == []


def test_a_stalled_watermark() -> None:
    triggers = [
        w.trigger(n, 500, watermark_us=1, max_event_us=(w.T0 + n) * 1000) for n in range(30)
    ]
    assert w.codes(w.application(queries=(w.query(triggers),))) == ["RT405"]
    moving = [replace(t, watermark_us=n) for n, t in enumerate(triggers)]
    assert w.codes(w.application(queries=(w.query(moving),))) == []


def test_too_few_batches_are_inconclusive() -> None:
    assert w.verdict(w.application([w.batch(0)])) == "inconclusive"
    assert w.verdict(w.application(queries=(w.query([w.trigger(0, 5)]),))) == "inconclusive"


def test_the_decisive_line_of_a_stack_trace() -> None:
    assert error_line("a.b.SparkException: x\n\tat a.b.C\nCaused by: java.io.IOException: y") == (
        "java.io.IOException: y"
    )
    assert error_line(None) == "an unknown error"


@pytest.mark.parametrize("interval", [500, 1000, 2000, 5000, 10_000, 60_000])
def test_the_trigger_interval_follows_from_the_starts(interval: int) -> None:
    from flowdiag.analyses.rate.assemble.queries import observed_trigger_ms

    base = w.T0 // interval * interval
    starts = [base - interval + 220, *(base + n * interval + n % 3 for n in range(1, 20))]
    triggers = [w.trigger(n, interval // 3, time_us=at * 1000) for n, at in enumerate(starts)]
    assert observed_trigger_ms(triggers) == interval
    busy = [w.trigger(n, 900, time_us=(w.T0 + n * 903) * 1000) for n in range(20)]
    assert observed_trigger_ms(busy) is None


def test_starts_that_wait_for_rows_do_not_reveal_the_interval() -> None:
    """Rows arrive at a quarter past each second: intervals of 250 ms and 50 ms both fit."""
    from flowdiag.analyses.rate.assemble.queries import observed_trigger_ms

    triggers = [_at_a_quarter_past(n) for n in range(20)]
    assert observed_trigger_ms(triggers) is None


def _at_a_quarter_past(number: int) -> Trigger:
    at = w.T0 // 1000 * 1000 + 1000 * number + 250 + number % 3 * 4
    return w.trigger(number, 660, time_us=at * 1000)


def test_a_query_that_overruns_and_waits_for_rows_keeps_up() -> None:
    query = w.query([_at_a_quarter_past(n) for n in range(20)], trigger_interval_ms=250)
    app = w.application(queries=(query,))
    (one,) = w.assessed(app).applications
    ((_, state),) = one.queries
    assert state.stability is Stability.STABLE and state.use == pytest.approx(0.66, abs=0.01)
    assert w.codes(app) == []


@pytest.mark.parametrize(
    ("lasts", "stability"),
    [
        ([500] * 8 + [2500, 3000, 4000, 5500], Stability.OVERLOADED),
        ([500] * 8 + [3000, 4000, 5500], Stability.INCONCLUSIVE),
        ([500] * 8 + [5500, 4000, 3000, 2500], Stability.STABLE),  # a burst that it works off
        ([500] * 8 + [2500, 4000, 3000, 5500], Stability.STABLE),
    ],
)
def test_an_overload_begins_with_ever_longer_triggers(
    lasts: list[int], stability: Stability
) -> None:
    starts, now = [], w.T0
    for duration in lasts:
        starts.append(now)
        now += max(2000, duration)
    triggers = [
        w.trigger(number, duration, time_us=start * 1000, rows=max(100, duration // 20))
        for number, (start, duration) in enumerate(zip(starts, lasts, strict=True))
    ]
    app = w.application(queries=(w.query(triggers),))
    ((_, state),) = w.assessed(app).applications[0].queries
    assert state.stability is stability
    assert w.codes(app) == ["RT101"] * (stability is Stability.OVERLOADED)


def test_receivers_that_ignore_the_rate() -> None:
    app = w.simulated(JOB, Settings(interval_ms=1000, back_pressure=False), [900] * 40)
    app = replace(app, settings=w.BACK_PRESSURE | {"spark.streaming.backpressure.pid.minRate": "5"})
    assert w.cause(app) == "unheeded-rate"


def test_missing_triggers_are_not_pauses() -> None:
    """A polling script records every second progress report of a query that never pauses."""
    triggers = [w.trigger(n, 3000, time_us=(w.T0 + 3000 * n) * 1000) for n in range(60)]
    for step in (1, 2, 3):
        query = w.query(triggers[::step], trigger_interval_ms=1000)
        assert w.codes(w.application(queries=(query,))) == ["RT101"], step


def test_short_pauses_mean_low_headroom() -> None:
    triggers = [w.trigger(n, 1700, interval=2000) for n in range(30)]
    app = w.application(queries=(w.query(triggers, trigger_interval_ms=500),))
    (finding,) = (x for o in w.outcomes(app) for x in o.findings if o.code == "RT106")
    assert "85% of the time between triggers" in finding.title
    assert "interval" not in finding.actions[0].text
    assert w.assessed(app).applications[0].queries[0][1].delay_ms is None


@pytest.mark.parametrize("took", [1100, 1910, 3000])
def test_triggers_longer_than_the_interval_do_not_keep_up(took: int) -> None:
    triggers = [w.trigger(n, took, interval=took) for n in range(30)]
    late = w.application(queries=(w.query(triggers, trigger_interval_ms=1000),))
    assert w.codes(late) and w.verdict(late) != "healthy"
    titles = [finding.title for outcome in w.outcomes(late) for finding in outcome.findings]
    assert not any("keeps up" in title or "headroom" in title for title in titles)


def test_more_cores_are_not_advised_for_a_driver_that_waits() -> None:
    def advice(work: Work) -> str:
        triggers = [replace(w.trigger(n, 1800, interval=2000), work=work) for n in range(30)]
        app = w.application(queries=(w.query(triggers, trigger_interval_ms=2000),))
        (finding,) = (x for o in w.outcomes(app) for x in o.findings if o.code == "RT106")
        return finding.actions[0].text

    assert "more cores do not help" in advice(Work(jobs=1, busy_ms=40))
    assert "more cores do not help" not in advice(Work(jobs=1, busy_ms=1700))


def test_batches_as_long_as_the_interval_are_still_throttled() -> None:
    took = [990, 1005] * 30 + [1010, 1001]
    waited = [1000] * 60 + [1005, 1015]
    batches = [w.batch(n, processing_ms=took[n], scheduling_ms=waited[n]) for n in range(len(took))]
    state = w.assessed(w.application(batches)).applications[0].state
    assert state is not None and state.stability is not Stability.INCONCLUSIVE


@pytest.mark.parametrize(
    ("value", "word"),
    [
        ("-1", Stability.STABLE),
        ("9223372036854775807", Stability.STABLE),
        ("50", Stability.INCONCLUSIVE),
    ],
)
def test_a_limited_source_is_healthy_only_with_record_counts(value: str, word: Stability) -> None:
    batches = [w.batch(n, records=None, streams=()) for n in range(30)]
    app = w.application(batches, settings={"spark.streaming.receiver.maxRate": value})
    state = w.assessed(app).applications[0].state
    assert state is not None and state.stability is word


def test_queued_batches_with_records_count_after_empty_batches() -> None:
    zero = (StreamInput(stream=0, records=0),)
    first = [w.batch(n, records=0, streams=zero) for n in range(2)]
    waiting = [w.batch(n, records=900, state="queued") for n in range(2, 12)]
    app = w.application([*first, *waiting], settings=w.BACK_PRESSURE)
    assert "RT206" not in w.codes(app) and "RT101" in w.codes(app)


def test_file_streams_have_no_record_counts() -> None:
    app = w.simulated(JOB, Settings(interval_ms=1000, back_pressure=False), [400] * 40)
    zero = [replace(b, records=0, streams=(StreamInput(stream=0, records=0),)) for b in app.batches]
    assert w.cause(replace(app, batches=tuple(zero), settings=w.BACK_PRESSURE)) == "unheeded-rate"


def test_a_first_batch_without_a_limit() -> None:
    text = "topic: t\tpartition: 0\toffsets: 0 to 90000"
    first = w.batch(
        0,
        records=90_000,
        processing_ms=9000,
        streams=(StreamInput(stream=0, records=90_000, description=text),),
    )
    batches = [first, *(w.batch(n, scheduling_ms=max(0, 9000 - 700 * n)) for n in range(1, 40))]
    app = w.application(batches)
    assert w.codes(app) == ["RT207"] and w.verdict(app) == "healthy"
    limited = {"spark.streaming.kafka.maxRatePerPartition": "100000"}
    assert w.codes(replace(app, settings=limited)) == []


def test_lost_events_lower_the_confidence() -> None:
    from flowdiag.analyses.rate.topic import RATE

    app = w.application([w.batch(n, processing_ms=900) for n in range(30)])
    lossy = replace(app, lost=(w.record(kind="spark_dropped", count="3"),))
    for one, expected in ((app, "high"), (lossy, "medium")):
        outcomes = RATE.review_outcomes(w.outcomes(one), w.assessed(one))
        assert {x.confidence for o in outcomes for x in o.findings} == {expected}


def test_a_manual_clock() -> None:
    batches = [replace(w.batch(n), time_ms=1000 * n + 1000) for n in range(30)]
    assert w.codes(w.application(batches)) == []


def _truncated_log(**values: Any) -> ApplicationFacts:
    """Return an application whose event log ends during a batch."""
    last = w.batch(29, state="processing", start_ms=w.T0 + 29_050)
    app = w.application([*(w.batch(n) for n in range(29)), last], last_us=(w.T0 + 29_500) * 1000)
    return replace(app, origins=frozenset({"event-log"}), **values)


def _driver_killed(*apps: ApplicationFacts) -> dict[JobKey | None, Finding]:
    facts = assess(RateFacts(applications=apps))
    (outcome,) = apply((driver_killed.RULE,), facts, facts.applications, {})
    return {finding.job: finding for finding in outcome.findings}


def test_a_truncated_log_may_be_a_copy_of_a_running_application() -> None:
    assert _driver_killed(_truncated_log()) == {}
    app = _truncated_log(damaged=True)
    found = _driver_killed(app)[app.key]
    assert (found.severity, found.confidence) == (Severity.INFO, Confidence.LOW)
    assert "or its event log was copied" in found.title and "1 batch had not ended" in found.title
    assert [item.offset for item in found.evidence] == [28, 29]
    assert _driver_killed(replace(app, ended_us=app.last_us)) == {}


@pytest.mark.parametrize(
    ("name", "started", "severity", "state", "confidence"),
    [
        ("orders", 90_000, Severity.WARNING, State.RECOVERED, Confidence.HIGH),
        ("invoices", 90_000, Severity.CRITICAL, State.ONGOING, Confidence.MEDIUM),
        ("orders", -90_000, Severity.CRITICAL, State.ONGOING, Confidence.MEDIUM),
    ],
)
def test_later_inputs_show_whether_the_driver_was_killed(
    name: str, started: int, severity: Severity, state: State, confidence: Confidence
) -> None:
    app = _truncated_log(damaged=True)
    other = replace(
        w.application([w.batch(n) for n in range(200)]),
        key=JobKey("", "app-2"),
        application="app-2",
        name=name,
        started_us=(app.last_us or 0) + started * 1000,
        ended_us=(app.last_us or 0) + 1_200_000_000,
        last_us=(app.last_us or 0) + 1_200_000_000,
    )
    found = _driver_killed(app, other)[app.key]
    assert (found.severity, found.state, found.confidence) == (severity, state, confidence)


def test_an_executor_that_lost_its_driver() -> None:
    lost = w.record("driver-disassociated", at=29_400)
    app = replace(_truncated_log(damaged=True), incidents=(lost,))
    found = _driver_killed(app)[app.key]
    assert (found.severity, found.confidence) == (Severity.CRITICAL, Confidence.HIGH)
    # An executor may also lose its driver at a regular end of the application.
    assert _driver_killed(replace(app, ended_us=app.last_us)) == {}


def test_two_triggers_show_an_overload_that_no_start_explains() -> None:
    """400 rows arrive each second, and the second trigger processes 98 of them in 41 s of a 3 s interval."""
    first = w.trigger(0, 6000, interval=3000, input_per_s=0.0, processed_per_s=0.0)
    last = w.trigger(1, 41_000, interval=3000, input_per_s=400.0, processed_per_s=98.0)
    facts = w.application(queries=(w.query([first, last], trigger_interval_ms=3000),))
    assert "RT101" in w.codes(facts)
    (found,) = [f for o in w.outcomes(facts) if o.code == "RT101" for f in o.findings]
    assert found.confidence is Confidence.LOW
    cold = replace(last, batch=0)
    assert w.verdict(w.application(queries=(w.query([cold]),))) == "inconclusive"
    catching_up = replace(last, processed_per_s=390.0)
    facts = w.application(queries=(w.query([first, catching_up], trigger_interval_ms=3000),))
    assert w.verdict(facts) == "inconclusive"


def test_a_log_at_warn_shows_restarts_of_a_receiver_by_its_stops() -> None:
    reason = "Restarting receiver with delay 2000ms: Error connecting to localhost:9"
    stops = tuple(
        w.record(
            "receiver-deregistered",
            kind="spark_receiver",
            at=n * 2000,
            cause=reason,
            what="stopped",
            stream="0",
            origin="log",
        )
        for n in range(5)
    )
    batches = [w.batch(n) for n in range(10)]
    assert "RT302" in w.codes(w.application(batches, receivers=stops))


def test_an_input_that_ends_while_triggers_overrun_more_and_more_is_not_healthy() -> None:
    steady = [w.trigger(n, 900) for n in range(20)]
    rising = [*steady, *(w.trigger(20 + n, ms) for n, ms in enumerate((1900, 2600, 5200)))]
    assert w.verdict(w.application(queries=(w.query(rising),))) == "inconclusive"
    once = [*steady, w.trigger(20, 5200), w.trigger(21, 900)]
    assert w.verdict(w.application(queries=(w.query(once),))) == "healthy"


def test_equally_many_rows_of_files_may_be_a_limit() -> None:
    files = ({"name": "FileStreamSource[file:/in]"},)
    equal = [w.trigger(n, 500, rows=200, sources=files) for n in range(20)]
    assert w.verdict(w.application(queries=(w.query(equal),))) == "inconclusive"
    after_more = [w.trigger(0, 500, rows=900, sources=files), *equal[1:]]
    assert w.verdict(w.application(queries=(w.query(after_more),))) == "healthy"
    uneven = [replace(t, rows=200 + 50 * (n % 2)) for n, t in enumerate(equal)]
    assert w.verdict(w.application(queries=(w.query(uneven),))) == "healthy"
