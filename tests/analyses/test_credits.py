"""The model of credit-based flow control: invariants of any job, and known outcomes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from flowdiag.analyses.queues.credits import simulate
from flowdiag.analyses.queues.credits.job import (
    Debloating,
    Edge,
    Flow,
    Job,
    ModelError,
    Outcome,
    Task,
)
from flowdiag.analyses.queues.credits.static import sustainable_share, utilization

SECONDS = 6.0
slowly = settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)


def chain(
    *,
    sizes: tuple[int, ...] = (1, 2, 1),
    rate: float = 300.0,
    costs: tuple[float, ...] = (0.1, 5.0),
    size: float = 400.0,
    managers: int | None = None,
    shares: tuple[float, ...] = (),
    pattern: str = "HASH",
    legacy: bool = False,
) -> Job:
    """Return a source and downstream tasks, connected all-to-all; `shares` applies to the last edge."""
    names = [f"t{i}" for i in range(len(sizes))]
    tasks = tuple(
        Task(
            name=names[i],
            service_ms=(count * 1000.0 / rate if i == 0 else costs[i - 1],) * count,
            record_bytes=size,
            taskmanagers=tuple(f"m{k % managers}" for k in range(count)) if managers else (),
            legacy_source=legacy and i == 0,
        )
        for i, count in enumerate(sizes)
    )
    last = len(sizes) - 2
    edges = tuple(
        Edge(
            upstream=names[i],
            downstream=names[i + 1],
            shares=shares if i == last else (),
            pattern=pattern,
        )
        for i in range(len(sizes) - 1)
    )
    return Job(tasks=tasks, edges=edges)


SMALL = Flow(per_channel=2, floating=2, segment_bytes=4096, interval_ms=1000.0)

jobs = st.builds(
    chain,
    sizes=st.lists(st.integers(1, 3), min_size=2, max_size=3).map(tuple),
    rate=st.sampled_from([50.0, 200.0, 600.0]),
    costs=st.tuples(st.sampled_from([0.0, 0.5, 4.0]), st.sampled_from([0.5, 4.0, 20.0])),
    size=st.sampled_from([60.0, 400.0, 9000.0]),
    managers=st.sampled_from([None, 1, 2]),
    pattern=st.sampled_from(["HASH", "REBALANCE", "RESCALE", "BROADCAST"]),
    legacy=st.booleans(),
)
flows = st.builds(
    Flow,
    per_channel=st.integers(0, 3),
    floating=st.integers(1, 4),
    most_per_channel=st.sampled_from([None, 2, 10]),
    overdraft=st.sampled_from([0, 5]),
    segment_bytes=st.sampled_from([4096, 32768]),
    flush_ms=st.sampled_from([-1.0, 0.0, 100.0]),
    debloating=st.sampled_from([None, Debloating(target_ms=100.0)]),
    unaligned=st.booleans(),
    aligned_timeout_ms=st.sampled_from([None, 50.0]),
    interval_ms=st.sampled_from([0.0, 500.0]),
)


def last(outcome: Outcome) -> float:
    """Return the throughput at the end of the chain, in records per second."""
    return outcome.throughput(max(item.task for item in outcome.subtasks))


# -- invariants of every simulation ----------------------------------------------------------------


@slowly
@given(jobs, flows)
def test_buffers_are_neither_lost_nor_lent_twice(job: Job, flow: Flow) -> None:
    outcome = simulate(job, flow, seconds=SECONDS)
    totals = outcome.totals
    assert totals.buffers_made == totals.buffers_consumed + totals.buffers_queued
    assert totals.records_sent == totals.records_taken + totals.records_queued
    assert totals.least_credit >= 0
    assert totals.fullest_pool <= 0
    assert totals.fullest_gate <= 0
    for item in outcome.subtasks:
        assert item.queue >= 0 and item.out_queue >= 0
        assert item.busy + item.back_pressured + item.idle == pytest.approx(1.0, abs=0.02)


@slowly
@given(jobs, flows)
def test_barriers_pass_in_the_order_of_the_graph(job: Job, flow: Flow) -> None:
    # An unaligned barrier may reach the end before all inputs of a task have sent theirs.
    aligned = replace(flow, interval_ms=500.0, unaligned=False, aligned_timeout_ms=None)
    outcome = simulate(job, aligned, seconds=SECONDS)
    depth = {task.name: i for i, task in enumerate(job.tasks)}
    for barrier in outcome.barriers:
        if barrier.duration_ms is None:
            continue
        assert len(barrier.passed_ms) == sum(task.parallelism for task in job.tasks)
        assert barrier.duration_ms == max(barrier.passed_ms.values())
        assert min(barrier.passed_ms.values()) >= 0
        for first, second in zip(job.tasks, job.tasks[1:], strict=False):
            ends = [
                max(ms for (name, _), ms in barrier.passed_ms.items() if name == task.name)
                for task in (first, second)
            ]
            assert depth[first.name] < depth[second.name] and ends[0] <= ends[1] + 1e-6


@slowly
@given(jobs, flows)
def test_the_model_is_deterministic(job: Job, flow: Flow) -> None:
    assert simulate(job, flow, seconds=2.0) == simulate(job, flow, seconds=2.0)


@slowly
@given(jobs, flows)
def test_the_slowest_task_limits_the_throughput(job: Job, flow: Flow) -> None:
    outcome = simulate(job, flow, seconds=SECONDS)
    for task in job.tasks[1:]:
        most = sum(1000.0 / s if s else 1e12 for s in task.service_ms)
        assert outcome.throughput(task.name) <= most * 1.05 + 2


# Which record goes where is drawn in the order of their sending, so that a few more or less come through
# in a short time by chance alone: 5%.
@slowly
@given(jobs, flows, st.integers(1, 4))
def test_more_buffers_never_slow_a_job_down(job: Job, flow: Flow, more: int) -> None:
    flow = replace(flow, interval_ms=0.0, debloating=None)
    before = last(simulate(job, flow, seconds=SECONDS, fill=False))
    wider = replace(flow, per_channel=flow.per_channel + more, floating=flow.floating + more)
    after = last(simulate(job, wider, seconds=SECONDS, fill=False))
    assert after >= before * 0.95 - 2


@slowly
@given(st.integers(2, 4), st.floats(0.0, 1.0), st.floats(0.0, 1.0), st.sampled_from([2.0, 6.0]))
def test_less_skew_never_slows_a_job_down(
    count: int, one: float, other: float, cost: float
) -> None:
    def skewed(part: float) -> Job:
        hot = 1.0 / count + part * (1.0 - 1.0 / count)
        shares = (hot, *[(1.0 - hot) / (count - 1)] * (count - 1))
        return chain(sizes=(2, count), costs=(cost,), rate=500.0, shares=shares)

    flow = replace(SMALL, interval_ms=0.0)
    low, high = sorted((one, other))
    even, uneven = (last(simulate(skewed(part), flow, seconds=SECONDS)) for part in (low, high))
    assert even >= uneven * 0.95 - 2


# -- known outcomes ------------------------------------------------------------------------------


def test_a_job_with_room_is_not_back_pressured() -> None:
    outcome = simulate(chain(rate=100.0), SMALL, seconds=20.0)
    assert last(outcome) == pytest.approx(100, rel=0.05)
    assert all(item.back_pressured < 0.02 for item in outcome.subtasks)
    # Only records that the flusher holds back precede a barrier: ten records of 5 ms in a tenth of a second.
    assert outcome.barrier_ms is not None and outcome.barrier_ms < 80


def test_back_pressure_goes_up_to_the_source_and_ends_at_the_slow_task() -> None:
    outcome = simulate(chain(rate=600.0), SMALL, seconds=20.0)
    assert last(outcome) == pytest.approx(200, rel=0.05)
    (sink,) = outcome.of("t2")
    assert sink.busy > 0.99 and sink.back_pressured == 0
    assert all(item.back_pressured > 0.6 for name in ("t0", "t1") for item in outcome.of(name))
    # Two remote channels of two buffers, and two floating buffers.
    assert sink.capacity == 6 and sink.queue >= 5


def test_barrier_time_equals_the_time_to_process_queued_data() -> None:
    """Two tasks share one channel: all its buffers are full and ahead of the barrier."""
    job = chain(sizes=(1, 1), costs=(10.0,), rate=1000.0, size=4096.0)
    outcome = simulate(job, replace(SMALL, overdraft=0), seconds=30.0)
    # 2 + 2 received, 4 in the producer's pool, each with one record of 10 ms.
    assert outcome.barrier_ms == pytest.approx(80, abs=11)


def test_more_buffers_delay_barriers_without_raising_throughput() -> None:
    job = chain(rate=600.0)
    few, many = (
        simulate(job, replace(SMALL, per_channel=count, most_per_channel=None)) for count in (2, 8)
    )
    assert few.barrier_ms is not None and many.barrier_ms is not None
    assert 2 < many.barrier_ms / few.barrier_ms < 5
    assert last(many) == pytest.approx(last(few), rel=0.05)


def test_debloating_shrinks_queues_to_the_target() -> None:
    job = chain(rate=600.0)
    bloated, lean = (
        simulate(job, replace(SMALL, segment_bytes=32768, debloating=how), seconds=60.0)
        for how in (None, Debloating(target_ms=500.0))
    )
    assert bloated.barrier_ms is not None and lean.barrier_ms is not None
    assert lean.barrier_ms < bloated.barrier_ms / 3
    (sink,) = lean.of("t2")
    # 200 records per second: half a second of records, on both sides of its channels.
    assert 40 < sink.queued_records < 200
    assert last(lean) == pytest.approx(last(bloated), rel=0.05)


def test_unaligned_barriers_overtake_and_store_queued_data() -> None:
    job = chain(rate=600.0)
    outcome = simulate(job, replace(SMALL, unaligned=True), seconds=20.0)
    assert outcome.barrier_ms is not None and outcome.barrier_ms < 30
    assert all(b.overtaken_bytes > 4 * 4096 for b in outcome.barriers if b.duration_ms is not None)


def test_the_aligned_checkpoint_timeout_ends_the_wait() -> None:
    flow = replace(SMALL, per_channel=8, aligned_timeout_ms=300.0)
    outcome = simulate(chain(rate=600.0), flow, seconds=20.0)
    assert outcome.barrier_ms is not None and 300 <= outcome.barrier_ms < 340


def test_local_channels_hold_less() -> None:
    apart, together = (
        simulate(chain(rate=600.0, managers=managers), SMALL) for managers in (None, 1)
    )
    assert together.of("t2")[0].capacity == 0
    assert apart.barrier_ms is not None and together.barrier_ms is not None
    assert together.barrier_ms < apart.barrier_ms


def test_one_hot_subtask_limits_the_job() -> None:
    job = chain(sizes=(2, 4), costs=(4.0,), rate=800.0, shares=(0.7, 0.1, 0.1, 0.1))
    outcome = simulate(job, SMALL, seconds=30.0)
    hot, *others = outcome.of("t1")
    assert last(outcome) == pytest.approx(250 / 0.7, rel=0.08)
    assert hot.busy > 0.97 and all(item.busy < 0.25 for item in others)
    assert hot.queue > 5 * max(item.queue for item in others)


def test_queues_grow_from_empty_to_full() -> None:
    outcome = simulate(chain(rate=300.0), SMALL, seconds=20.0, fill=False)
    series = [value for _, value in outcome.queue_over_time["t2"]]
    assert series[0] <= 2 and series[-1] >= 5


def test_scarce_segments_are_distributed() -> None:
    job = chain(sizes=(2, 2), costs=(20.0,), rate=400.0, managers=2)
    rich, poor = (simulate(job, replace(SMALL, segments=count)) for count in (100, 7))
    assert sum(s.out_queue for s in poor.of("t0")) < sum(s.out_queue for s in rich.of("t0"))
    with pytest.raises(ModelError, match="it cannot start"):
        simulate(job, replace(SMALL, segments=5))


def test_branches_and_joins() -> None:
    job = Job(
        tasks=(
            Task(name="a", service_ms=(4.0,)),
            Task(name="b", service_ms=(1.0, 1.0)),
            Task(name="c", service_ms=(1.0,)),
            Task(name="d", service_ms=(1.0,)),
        ),
        edges=(
            Edge(upstream="a", downstream="b"),
            Edge(upstream="a", downstream="c", selectivity=0.5),
            Edge(upstream="b", downstream="d"),
            Edge(upstream="c", downstream="d", pattern="FORWARD"),
        ),
    )
    outcome = simulate(job, SMALL, seconds=20.0)
    assert outcome.throughput("c") == pytest.approx(125, rel=0.05)
    assert outcome.throughput("d") == pytest.approx(375, rel=0.05)
    assert utilization(job)["d"] == pytest.approx(0.375) and sustainable_share(job) == 1.0
    assert outcome.barrier_ms is not None


@pytest.mark.parametrize(
    ("job", "flow", "error"),
    [
        (Job(tasks=(), edges=()), SMALL, "needs tasks"),
        (Job(tasks=(Task(name="a", service_ms=()),), edges=()), SMALL, "for each subtask"),
        (Job(tasks=(Task(name="a", service_ms=(0.0,)),), edges=()), SMALL, "needs a rate"),
        (Job(tasks=(Task(name="a", service_ms=(float("nan"),)),), edges=()), SMALL, "time per"),
        (chain(size=0.0), SMALL, "needs a record size"),
        (
            chain(),
            replace(SMALL, per_channel=0, floating=0),
            "needs an exclusive or a floating buffer",
        ),
        (chain(sizes=(200, 200), costs=(1.0,)), SMALL, "channels"),
        (
            Job(
                tasks=(Task(name="a", service_ms=(1.0,)), Task(name="b", service_ms=(1.0,))),
                edges=(Edge(upstream="a", downstream="b"), Edge(upstream="b", downstream="a")),
            ),
            SMALL,
            "cycle",
        ),
        (
            Job(
                tasks=(Task(name="a", service_ms=(1.0,)),),
                edges=(Edge(upstream="a", downstream="b"),),
            ),
            SMALL,
            "refers to an unknown task",
        ),
    ],
)
def test_invalid_jobs_are_refused(job: Job, flow: Flow, error: str) -> None:
    with pytest.raises(ModelError, match=error):
        simulate(job, flow, seconds=5.0)


def test_large_jobs_are_simulated_with_larger_batches_of_records() -> None:
    job = chain(sizes=(4, 8, 4), rate=200_000.0, costs=(0.03, 0.03), size=100.0)
    outcome = simulate(job, Flow(interval_ms=5000.0), seconds=20.0)
    assert outcome.records_per_parcel > 1
    assert last(outcome) == pytest.approx(4 / 0.00003, rel=0.06)
