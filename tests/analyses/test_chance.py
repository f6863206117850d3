"""The statistical test of `flowdiag compare`, checked by enumeration, and on series that only seem to differ."""

from __future__ import annotations

import itertools
import math
import random
from statistics import median

import pytest

from flowdiag.analyses.comparison.chance import (
    FEWEST,
    LEVEL,
    autocorrelation,
    holm,
    independent_stretches,
    rank_test,
    ranks,
    share_test,
    stretches,
)


def few(rng: random.Random) -> list[float]:
    """Generate lists of one to five values with frequent ties."""
    return [float(rng.randint(0, 4)) for _ in range(rng.randint(1, 5))]


def test_the_exact_test_equals_enumeration() -> None:
    """The p-value is the share of all assignments with at least this difference, ties included."""
    rng = random.Random(1)
    for _ in range(80):
        before, after = few(rng), few(rng)
        pooled = ranks([*before, *after])
        mean = len(before) * (len(pooled) + 1) / 2
        away = abs(sum(pooled[: len(before)]) - mean)
        dealt = list(itertools.combinations(pooled, len(before)))
        far = sum(abs(sum(some) - mean) >= away - 1e-9 for some in dealt)
        assert rank_test(before, after) == pytest.approx(far / len(dealt)), (before, after)
        assert rank_test(after, before) == pytest.approx(far / len(dealt))


def test_the_approximation_begins_where_the_counting_ends() -> None:
    rng = random.Random(3)
    for shift in (0.0, 0.5, 1.0, 2.0):
        before = [rng.gauss(0, 1) for _ in range(12)]
        after = [rng.gauss(shift, 1) for _ in range(12)]
        exact = rank_test(before, after)
        longer = rank_test([*before, 0.0], [*after, 0.0])  # one more: by the normal distribution
        assert longer == pytest.approx(exact, rel=0.5, abs=0.03)


def test_equal_values_on_both_sides_are_not_a_difference() -> None:
    assert rank_test([0.0] * 40, [0.0] * 40) == 1.0
    assert rank_test([0.0] * 5, [0.0] * 5) == 1.0


def test_a_jump_within_a_series_does_not_hide_a_change() -> None:
    """The jump causes autocorrelation; the calm series shows the normal amount."""
    rng, seen = random.Random(5), 0
    for _ in range(50):
        calm = [rng.uniform(40, 60) for _ in range(30)]
        jump = [4000 * (number > 4) for number in range(20)]
        sick = [value + rng.uniform(40, 60) for value in jump]
        assert independent_stretches(len(sick), autocorrelation(sick)) < FEWEST
        alike = autocorrelation(calm, sick)
        parts = independent_stretches(len(calm), alike), independent_stretches(len(sick), alike)
        if min(parts) >= FEWEST:
            seen += rank_test(stretches(calm, parts[0]), stretches(sick, parts[1])) <= LEVEL
    assert seen >= 30


def test_stretches_contain_every_value_once() -> None:
    for size in range(1, 40):
        values = [float(number) for number in range(size)]
        for count in range(1, size + 1):
            cut = stretches(values, count, lambda some: float(len(some)))
            assert len(cut) == count and sum(cut) == size and max(cut) - min(cut) <= 1


@pytest.mark.parametrize("rho", [0.0, 0.6, 0.9])
def test_false_positives_are_rare(rho: float) -> None:
    """docs/compare.md has figures from more series. This test has a bound that a broken correction exceeds."""
    rng, false = random.Random(11), 0
    for _ in range(200):
        before, after = _delays(rng, rho), _delays(rng, rho)
        alike = autocorrelation(before, after)
        count = independent_stretches(40, alike)
        if count >= FEWEST:
            chance = rank_test(stretches(before, count), stretches(after, count))
            false += chance <= LEVEL
    assert (
        false <= 10
    )  # of 200; without stretches 60 to 120, because consecutive values resemble each other


def test_without_stretches_similar_values_count_too_often() -> None:
    """The correction limits false positives over many tests."""
    rng = random.Random(11)
    pairs = [(_delays(rng, 0.9), _delays(rng, 0.9)) for _ in range(100)]
    assert sum(rank_test(before, after) <= LEVEL for before, after in pairs) > 25


def _delays(rng: random.Random, rho: float, count: int = 40) -> list[float]:
    value, found = rng.gauss(0, 1), []
    for _ in range(count):
        found.append(math.exp(5 + value))
        value = rho * value + math.sqrt(1 - rho * rho) * rng.gauss(0, 1)
    return found


def test_a_real_shift_is_detected() -> None:
    rng = random.Random(13)
    before, after = _delays(rng, 0.3), [4 * value for value in _delays(rng, 0.3)]
    alike = autocorrelation(before, after)
    count = independent_stretches(40, alike)
    assert rank_test(stretches(before, count), stretches(after, count)) <= LEVEL
    assert median(after) > 2 * median(before)


def test_shares_of_few_samples_are_not_tested() -> None:
    assert share_test(0.0, 9, 1.0, 100) is None
    chance = share_test(0.1, 100, 0.9, 100)
    assert chance is not None and chance < 1e-6
    same = share_test(0.5, 20, 0.5, 20)
    assert same == pytest.approx(1.0)


def test_corrected_chances_are_larger_and_keep_their_order() -> None:
    rng = random.Random(17)
    for size in range(8):
        chances = [rng.random() ** 3 for _ in range(size)]
        held = holm(chances)
        assert all(one <= other <= 1 for one, other in zip(chances, held, strict=True))
        order = sorted(range(size), key=chances.__getitem__)
        assert [held[n] for n in order] == sorted(held)
        assert not chances or held[order[0]] == min(1.0, size * chances[order[0]])
