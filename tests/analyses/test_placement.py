"""Expected late subtasks per TaskManager, ratios and exact p-values."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from math import comb

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flowdiag.analyses.flink.tasks.placement import (
    Pattern,
    PlaceHistory,
    SubtaskKey,
    Tails,
    place,
    subset_sums,
)

from .workbench import Bench


@settings(max_examples=60)
@given(st.lists(st.integers(0, 3), min_size=1, max_size=8), st.data())
def test_subset_sums_agree_with_enumeration(weights: list[int], data: st.DataObject) -> None:
    size = data.draw(st.integers(0, len(weights)))
    counted: dict[int, int] = {}
    for chosen in combinations(range(len(weights)), size):
        total = sum(weights[i] for i in chosen)
        counted[total] = counted.get(total, 0) + 1
    assert subset_sums(weights, size) == dict(sorted(counted.items()))


def test_tail_is_hypergeometric_for_one_vertex() -> None:
    # 3 of 12 late, 4 of 12 here, all 3 here.
    assert Tails().upper([([1] * 3 + [0] * 9, 4)], 3) == pytest.approx(4 * 3 * 2 / (12 * 11 * 10))


def test_tail_convolves_vertices() -> None:
    one = ([1, 0, 0], 1)  # one of three late, one of the three is here
    assert Tails().upper([one, one], 2) == pytest.approx(1 / 9)
    assert Tails().upper([one, one], 0) == 1.0


def test_wide_vertices_are_exact_and_fast() -> None:
    weights = [2] * 10 + [1] * 30 + [0] * 960
    tail = Tails().upper([(weights, 50)], 50)
    assert tail is not None
    assert 0 < tail < 1e-20
    assert sum(subset_sums(weights, 50).values()) == comb(1000, 50)


def test_victims_downstream_cancel() -> None:
    """One culprit and every subtask downstream late: no TaskManager stands out."""
    job = Bench(version="1.9.3", timeout_s=10)
    job.completes(5)
    for checkpoint in job.expires(2):
        job.is_late(checkpoint, "enrich", 1)
        for task, number in (("aggregate", 6), ("Sink: deliver", 2)):
            for index in range(number):
                job.is_late(checkpoint, task, index)
    placed = place(job.job())
    assert placed.pattern is Pattern.ONE_SUBTASK
    assert placed.subtask == SubtaskKey("enrich", 1)
    assert placed.taskmanager == job.manager_of("enrich", 1)
    shares = {share.taskmanager: share for share in placed.shares}
    guilty = shares[job.manager_of("enrich", 1)]
    assert guilty.late == 1 + sum(
        job.manager_of(task, i) == guilty.taskmanager
        for task, n in (("aggregate", 6), ("Sink: deliver", 2))
        for i in range(n)
    )
    assert guilty.expected is not None and guilty.expected < guilty.late < guilty.expected + 1
    # 9 distinct late subtasks, but only the choice of one out of four is informative.
    here = sum(job.manager_of("enrich", i) == guilty.taskmanager for i in range(4))
    assert guilty.p_value == pytest.approx(min(1.0, here / 4 * 3))


def test_slow_machine() -> None:
    job = Bench(tasks=(("map", 9), ("reduce", 9)), timeout_s=10)
    for checkpoint in job.expires(1):
        for task, number in job.tasks:
            for index in range(number):
                if job.manager_of(task, index) == "tm-2":
                    job.is_late(checkpoint, task, index)
    placed = place(job.job())
    assert (placed.pattern, placed.taskmanager) == (Pattern.ONE_TASKMANAGER, "tm-2")
    first = placed.shares[0]
    assert (first.taskmanager, first.late, first.subtasks) == ("tm-2", 6, 6)
    assert first.expected == pytest.approx(2.0)
    assert first.ratio == pytest.approx(3.0)
    assert first.p_value == pytest.approx(3 / comb(9, 3) ** 2, rel=1e-2)


def test_repetitions_in_several_episodes_count_once() -> None:
    """The same subtask late in ten episodes must not look like ten independent draws."""
    job = Bench(tasks=(("map", 9),), timeout_s=10)
    for _ in range(10):
        for checkpoint in job.expires(1):
            for index in (0, 3, 6, 1, 4):
                job.is_late(checkpoint, "map", index)
        job.completes(1)
    placed = place(job.job())
    first = placed.shares[0]
    assert (first.taskmanager, first.late) == ("tm-1", 30)
    # All three subtasks of tm-1 among the five late ones: C(5,3)/C(9,3), times three TaskManagers.
    assert first.p_value == pytest.approx(comb(5, 3) / comb(9, 3) * 3, rel=1e-2)


def test_no_p_value_below_five_subtasks() -> None:
    job = Bench(timeout_s=10)
    for checkpoint in job.expires(3):
        for index in range(4):
            job.is_late(checkpoint, "aggregate", index)
    placed = place(job.job())
    assert placed.distinct == 4
    assert all(share.p_value is None for share in placed.shares)
    assert sum(share.late for share in placed.shares) == 4


def test_whole_vertices_name_no_taskmanager() -> None:
    job = Bench(timeout_s=10)
    for checkpoint in job.expires(2):
        for index in range(2):
            job.is_late(checkpoint, "Sink: deliver", index)
    assert place(job.job()).pattern is Pattern.WHOLE_VERTICES


def test_spread() -> None:
    job = Bench(timeout_s=10)
    for checkpoint in job.expires(2):
        job.is_late(checkpoint, "aggregate", 0)
        job.is_late(checkpoint, "aggregate", 1)
    assert place(job.job()).pattern is Pattern.SPREAD


def test_missing_acknowledgements_count() -> None:
    job = Bench(timeout_s=10)
    for checkpoint in job.expires(2):
        job.acknowledgements(checkpoint, missing=[("enrich", 2)])
    placed = place(job.job())
    assert placed.subtask == SubtaskKey("enrich", 2)
    assert placed.distinct == 1


def test_late_messages_of_declined_checkpoints_do_not_count() -> None:
    job = Bench(timeout_s=10)
    job.expires(1)
    for checkpoint in job.declined(2):
        job.is_late(checkpoint, "aggregate", 0)
    assert place(job.job()).pattern is Pattern.NONE


def test_without_known_places_there_is_no_result() -> None:
    placed = place(Bench().job(attempts=()))
    assert (placed.shares, placed.distinct, placed.pattern) == ((), 0, Pattern.NONE)


def test_place_of_an_attempt_by_time() -> None:
    job = Bench()
    first, second = job.attempt("enrich", 0), job.attempt("enrich", 0, 1)
    second = replace(second, taskmanager="tm-9", deployed_us=job.at(500))
    key = SubtaskKey("enrich", 0)
    assert PlaceHistory([first, second]).at(job.at(100)).attempts[key] is first
    assert PlaceHistory([second, first]).at(job.at(600)).attempts[key] is second
    assert PlaceHistory([second]).at(job.at(100)).attempts[key] is second
