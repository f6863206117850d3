"""Tests that rolled files are recognized by their names only."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowdiag.parsers.sources.rolling import group_of


@pytest.mark.parametrize(
    "name",
    [
        "x.log",
        "x.log.1",
        "x.log.10",
        "x.log.2.gz",
        "x.log.zst",
        "x.log.2026-01-01",
        "x.log.2026-01-01.3",
        "x.log.2026-01-01-13",
        "x.log.2026-01-01T13",
        "x.log-20260101",
        "x.log-20260101-1690000000.gz",
        "x-2026-01-01.log",
        "x-2026-01-01-3.log.gz",
        "x-20260101.log",
        "x.2026-01-01_13-05.log",
        "x.log.old",
        "x.log_1",
    ],
)
def test_rolled_parts(name: str) -> None:
    assert group_of(name) == "x.log"
    assert group_of("a.log.1/" + name) == "a.log.1/x.log"


@pytest.mark.parametrize(
    "name",
    [
        "flink-user-taskexecutor-0-host.log",
        "flink-user-taskexecutor-1-host.log",
        "taskmanager-1-2.log",
        "taskmanager_3.log",
        "taskmanager.1",
        "ip-10-0-0-1.log",
        "0.log",
        "2026-01-01.log",
        "container_1690000000000_0001_01_000002",
        "-",
        "",
    ],
)
def test_other_names_are_unchanged(name: str) -> None:
    assert group_of(name) == name


def test_numbers_count_only_next_to_the_unnumbered_name() -> None:
    siblings = {"a/x", "a/x.1", "a/y.log", "a/y.2.log"}
    assert group_of("a/x.1", siblings) == "a/x"
    assert group_of("a/y.2.log", siblings) == "a/y.log"
    assert group_of("b/x.1", siblings) == "b/x.1"


@given(st.text(alphabet="ab.log-_0123/19", max_size=60))
def test_a_group_is_its_own_group_and_in_the_same_folder(name: str) -> None:
    group = group_of(name)
    assert len(group) <= len(name)
    assert group.rpartition("/")[0] == name.rpartition("/")[0]


@pytest.mark.parametrize(
    "hostile", [".log.1" * 60, "x.log-" + "20260101" * 45, "a-2026-01-01" * 33, "." * 400]
)
def test_hostile_names_take_linear_time(hostile: str) -> None:
    start = time.process_time()
    group_of(hostile + "!")
    group_of("x" * 100_000)
    assert time.process_time() - start < 0.5
