"""Trends, the token bucket, the share of a Kafka partition, and the model of a job."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowdiag.analyses.rate.model import Job, Settings, Settling, simulate
from flowdiag.analyses.rate.pid import Gains, Observation, Step
from flowdiag.analyses.rate.stability import fit, trend
from flowdiag.analyses.rate.token_bucket import TokenBucket

# -- trends --------------------------------------------------------------------------------------


def test_a_stall_is_not_a_trend() -> None:
    values = [10.0] * 30
    values[3] = 9000.0
    found = trend(list(range(30)), values)
    assert found is not None and not found.is_rising and found.slope == 0


@given(st.integers(-50, 50), st.integers(5, 60))
def test_a_fitted_line_ignores_one_outlier(slope: int, count: int) -> None:
    values = [float(slope * i) for i in range(count)]
    values[0] += 1e6
    found = trend([float(i) for i in range(count)], values)
    assert found is not None and found.low <= slope <= found.high


def test_costs_are_fitted_only_for_different_sizes() -> None:
    assert fit([100.0, 101.0, 99.0, 100.0, 102.0] * 4, [50.0, 60.0, 40.0, 55.0, 45.0] * 4) is None
    line = fit([float(n) for n in range(0, 200, 10)], [60 + 5.0 * n for n in range(0, 200, 10)])
    assert line is not None and (line.base, line.per_x) == (60, 5)


# -- the token bucket ----------------------------------------------------------------------------


def test_a_bucket_begins_empty_and_is_paid_by_the_next() -> None:
    bucket = TokenBucket(rate=10, now_us=0)
    assert [bucket.acquire(0) for _ in range(3)] == [0, 100_000, 200_000]


def test_an_idle_second_permits_a_burst_of_one_second() -> None:
    bucket = TokenBucket(rate=10, now_us=0)
    now = 5_000_000
    assert [bucket.acquire(now) for _ in range(11)] == [now] * 11
    assert bucket.acquire(now) == now + 100_000


def test_stored_permits_are_scaled_with_the_rate() -> None:
    bucket = TokenBucket(rate=10, now_us=0)
    bucket.update(100, 1_000_000)  # ten stored of ten become a hundred of a hundred
    assert bucket.count_passing(10_000, 1_000_000, 1_000_001) == 101


def test_limits_of_zero_are_ignored_and_the_ceiling_holds() -> None:
    bucket = TokenBucket(rate=10, now_us=0, max_rate=20)
    bucket.update(0, 0)
    assert bucket.rate == 10
    bucket.update(1000, 0)
    assert bucket.rate == pytest.approx(20)


@given(st.integers(1, 400), st.integers(1, 500), st.integers(1, 40))
def test_one_call_equals_many_single_steps(rate: int, offered: int, tenths: int) -> None:
    end = tenths * 100_000
    one, many = TokenBucket(rate=rate, now_us=0), TokenBucket(rate=rate, now_us=0)
    passed, now = 0, 0
    while passed < offered and (granted := one.acquire(now)) < end:
        passed, now = passed + 1, granted
    assert abs(many.count_passing(offered, 0, end) - passed) <= 1


# -- the model -----------------------------------------------------------------------------------


def test_the_rate_settles_at_a_full_interval() -> None:
    job = Job(fixed_ms=60, per_record_ms=5)
    outcome = simulate(job, Settings(interval_ms=1000, gains=Gains(min_rate=5)), [400.0] * 80)
    assert outcome.steady_per_s == pytest.approx(188, rel=0.02)
    assert outcome.delay_ms <= 1100 and outcome.settling_ms is not None


def test_a_floor_above_the_capacity_never_settles() -> None:
    job = Job(fixed_ms=60, per_record_ms=5)
    outcome = simulate(job, Settings(interval_ms=1000, gains=Gains(min_rate=250)), [400.0] * 80)
    assert outcome.queued > 10 and outcome.delay_ms > 5000


def test_without_back_pressure_every_record_is_read() -> None:
    outcome = simulate(
        Job(fixed_ms=10, per_record_ms=1),
        Settings(interval_ms=1000, back_pressure=False),
        [70.0] * 20,
    )
    assert {batch.records for batch in outcome.batches[1:]} <= {69, 70, 71}


@given(
    st.floats(0, 3000),
    st.floats(0.01, 50),
    st.floats(0.1, 3),
    st.floats(0, 2),
    st.floats(0, 1),
    st.floats(0, 1e6),
)
def test_any_settings(
    fixed: float, each: float, kp: float, ki: float, kd: float, offered: float
) -> None:
    gains = Gains(proportional=kp, integral=ki, derived=kd, min_rate=1)
    outcome = simulate(
        Job(fixed_ms=fixed, per_record_ms=each),
        Settings(interval_ms=500, gains=gains),
        [offered] * 15,
    )
    assert len(outcome.batches) == 15 and all(batch.records >= 0 for batch in outcome.batches)
    assert (outcome.settling_ms is not None) == (outcome.settling is Settling.SETTLED)


def test_an_infinite_rate_is_published_as_in_the_jvm() -> None:
    gains = Gains(proportional=0.1, integral=0.0, derived=0.4915903696512761, min_rate=1)
    job = Job(fixed_ms=0.1, per_record_ms=25.180379169258828)
    simulate(job, Settings(interval_ms=500, gains=gains), [954.9353008498608] * 15)
    observation = Observation(time_ms=0, elements=1, processing_delay_ms=1, scheduling_delay_ms=0)
    for rate, published in ((math.inf, 2**63 - 1), (math.nan, 0), (9.9, 9)):
        assert (
            Step(observation=observation, outcome="new-rate", new_rate=rate).published == published
        )


def test_concurrent_batches() -> None:
    settings = Settings(interval_ms=1000, back_pressure=False)
    one = simulate(Job(fixed_ms=500, per_record_ms=5), settings, [200.0] * 60)
    two = simulate(Job(fixed_ms=500, per_record_ms=5, at_once=2), settings, [200.0] * 60)
    assert (one.settling, two.settling) == (Settling.GROWS, Settling.SETTLED)
    assert two.delay_ms == 1500 and two.steady_per_s == 200


def test_settling_may_take_hours() -> None:
    job = Job(fixed_ms=60, per_record_ms=5)
    outcome = simulate(job, Settings(interval_ms=1000, gains=Gains(min_rate=10)), [1e6] * 60)
    assert outcome.settling is Settling.LATER and len(outcome.batches) == 60
