"""The estimator matches the vectors of Spark's own tests, and a closed formula."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowdiag.analyses.rate.pid import Estimator, Gains, Observation, Step, replay


def observation(time: int, elements: int, processing: int, scheduling: int) -> Observation:
    return Observation(
        time_ms=time,
        elements=elements,
        processing_delay_ms=processing,
        scheduling_delay_ms=scheduling,
    )


def rates(
    *rows: tuple[int, int, int, int], interval: int = 20, gains: Gains | None = None
) -> list[Step]:
    gains = gains or Gains(proportional=1.0, integral=0.0, derived=0.0, min_rate=10.0)
    return list(
        replay([observation(*row) for row in rows], batch_interval_ms=interval, gains=gains)
    )


def test_the_first_batch_publishes_nothing() -> None:
    assert [step.new_rate for step in rates((0, 10, 10, 0), (10, 10, 10, 0))] == [None, 1000.0]


def test_no_rate_for_a_known_time() -> None:
    assert [s.outcome for s in rates((0, 10, 10, 0), (0, 10, 10, 0))] == ["first-run", "skipped"]


@pytest.mark.parametrize("row", [(9, 0, 10, 0), (9, -1, 10, 0), (9, 10, 0, 0), (9, 10, -1, 0)])
def test_no_rate_without_elements_or_delay(row: tuple[int, int, int, int]) -> None:
    steps = rates((0, 10, 10, 0), row)
    assert (steps[1].outcome, steps[1].new_rate) == ("skipped", None)


def test_the_rate_never_falls_below_the_minimum() -> None:
    gains = Gains(proportional=1.0, integral=1.0, min_rate=5.0)
    steps = rates(*((time, 1, 20, 400) for time in range(1, 50)), gains=gains)
    assert {step.new_rate for step in steps[1:]} == {5.0}
    assert all(step.is_at_floor for step in steps[1:])


@pytest.mark.parametrize("refused", [{"proportional": -1.0}, {"integral": -0.1}, {"min_rate": 0.0}])
def test_values_that_spark_rejects_are_rejected(refused: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="should be"):
        Gains(**refused)


def test_an_interval_of_zero_is_rejected() -> None:
    with pytest.raises(ValueError, match="batch interval"):
        Estimator(batch_interval_ms=0, gains=Gains())


@given(
    st.lists(
        st.tuples(st.integers(1, 10**6), st.integers(1, 10**5), st.integers(0, 10**5)),
        min_size=2,
        max_size=30,
    )
)
def test_with_default_gains_the_estimator_has_no_memory(rows: list[tuple[int, int, int]]) -> None:
    """new = max(minRate, rate * (1 - Ki * delay / interval)), regardless of earlier batches."""
    steps = rates(
        *((time, *row) for time, row in enumerate(rows, start=1)), interval=1000, gains=Gains()
    )
    for step in steps[1:]:
        seen = step.observation
        rate = seen.elements / seen.processing_delay_ms * 1000
        expected = max(100.0, rate * (1 - 0.2 * seen.scheduling_delay_ms / 1000))
        assert step.new_rate is not None
        assert math.isclose(step.new_rate, expected, rel_tol=1e-6, abs_tol=1e-3)
