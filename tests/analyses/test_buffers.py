"""The arithmetic of network buffers, compared with clusters that ran with too few of them."""

from __future__ import annotations

from collections import Counter

import pytest

from flowdiag.analyses.flink.tasks.buffers import (
    Edge,
    Settings,
    feeders,
    gate,
    needs,
    partition,
    worst_placement,
)

EDGES = [Edge("source", "enrich", "HASH"), Edge("enrich", "aggregate", "HASH")]
EDGES.append(Edge("aggregate", "sink", "HASH"))
PARALLELISM = {"source": 2, "enrich": 4, "aggregate": 6, "sink": 2}
# Two slots each. A cluster of 1.14 ran with 44 segments, and could not run with 43.
PLACEMENT = {
    ("source", 0): "one",
    ("source", 1): "three",
    ("enrich", 0): "one",
    ("enrich", 1): "three",
    ("enrich", 2): "two",
    ("enrich", 3): "two",
    ("aggregate", 0): "one",
    ("aggregate", 1): "three",
    ("aggregate", 2): "two",
    ("aggregate", 3): "two",
    ("aggregate", 4): "one",
    ("aggregate", 5): "three",
    ("sink", 0): "one",
    ("sink", 1): "three",
}


@pytest.mark.parametrize("version", [(1, 14), (1, 20), (2, 3)])
def test_a_recorded_placement(version: tuple[int, int]) -> None:
    found = needs("job", PARALLELISM, EDGES, PLACEMENT, Settings(floating=4), version)
    total = Counter[str]()
    for need in found:
        total[need.taskmanager] += need.required
    assert total == {"one": 44, "two": 40, "three": 44}
    assert worst_placement(PARALLELISM, EDGES, 2, Settings(floating=4), version) == 60


def test_before_credits_every_channel_counts() -> None:
    settings = Settings.of({}, (1, 4))
    assert gate(6, 4, settings, (1, 4)).required == 6
    assert gate(6, 4, settings, (1, 4)).desired == 20
    assert partition(4, settings, (1, 4)).required == 4


def test_options_are_fixed_from_2_0() -> None:
    options = {"taskmanager.network.memory.buffers-per-channel": "5"}
    assert Settings.of(options, (1, 20)).per_channel == 5
    assert Settings.of(options, (2, 0)).per_channel == 2


def test_pointwise_edges_cover_every_upstream_subtask_once() -> None:
    for up, down in ((4, 2), (2, 6), (5, 3), (3, 3)):
        fed = [feeders("RESCALE", up, down, index) for index in range(down)]
        assert {i for each in fed for i in each} == set(range(up))


def test_the_cap_of_required_buffers() -> None:
    settings = Settings.of(
        {"taskmanager.network.memory.read-buffer.required-per-gate.max": "100"}, (1, 17)
    )
    assert gate(500, 500, settings, (1, 17)).required == 100
    assert gate(10, 10, settings, (1, 17)).required == 21


def test_two_edges_between_the_same_vertices_count_twice() -> None:
    """A stream joined with itself has two inputs from one vertex."""
    placement = {("a", 0): "one", ("b", 0): "two"}
    one = needs("job", {"a": 1, "b": 1}, [Edge("a", "b", "HASH")], placement, Settings(), (1, 20))
    twice = [Edge("a", "b", "HASH"), Edge("a", "b", "HASH")]
    both = needs("job", {"a": 1, "b": 1}, twice, placement, Settings(), (1, 20))
    assert [2 * need.required for need in one] == [need.required for need in both]


def test_a_blocking_exchange_splits_a_job_into_regions() -> None:
    parallelism = {"map": 4, "reduce": 4}
    edges = [Edge("map", "reduce", "HASH", blocking=True)]
    # Sorted partitions of four maps on one TaskManager; the reducers start after the maps have ended.
    assert worst_placement(parallelism, edges, 4, Settings.of({}, (1, 20)), (1, 20)) == 4 * 512
    few = Settings.of({"taskmanager.network.sort-shuffle.min-buffers": "8"}, (1, 20))
    assert worst_placement(parallelism, edges, 4, few, (1, 20)) == 4 * (4 * 2 + 1)
    # Up to 1.14 partitions are sorted only if an option enables it.
    assert partition(4, Settings.of({}, (1, 14)), (1, 14), blocking=True).required == 5
    assert gate(4000, 4000, Settings(), (1, 20), blocking=True).required == 1000


@pytest.mark.parametrize(("cap", "segments"), [(None, 60), (2, 42)])
def test_recorded_jobs_with_just_enough_buffers(cap: int | None, segments: int) -> None:
    """`enough-buffers` (240k) and `capped-buffers` (168k) ran in segments of 4 KiB."""
    settings = Settings(floating=4, required_max=cap)
    assert worst_placement(PARALLELISM, EDGES, 2, settings, (1, 20)) == segments
