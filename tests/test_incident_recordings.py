"""Checks that the full report on a recording has one incident per fault, and repeats facts with the
same number."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from flowdiag.analyses.contract.report import Finding, Report
from flowdiag.analyses.diagnosis import report_on
from flowdiag.analyses.selection.options import Options
from flowdiag.analyses.topic_names import EVERYTHING, names_of
from flowdiag.analyses.topics import topic

from .archives import unpacked
from .measured import Recorded

pytestmark = pytest.mark.spark

ROOT = Path(__file__).parents[1] / "fixtures" / "recordings"
TOPICS = names_of(EVERYTHING, {"flink"})
OF_MORE_RESOURCES = re.compile(r"parallelism|more subtasks|asynchronous", re.IGNORECASE)
RATIO = re.compile(
    r"(?P<subtask>[\w-]+ \(\d+/\d+\))(?:(?!\(\d+/\d+\))[^;])*?(?P<ratio>\d+\.\d) times "
    r"(?:its siblings' data|the (?:records|bytes|data) of its siblings)(?P<window> while [a-z ]+)?"
)


@pytest.fixture(scope="module")
def report_of(recorded: Callable[..., Recorded]) -> Callable[[str], Report]:
    """Return the report of all topics about a recording."""

    def of(name: str) -> Report:
        measured = recorded(unpacked(ROOT / name), topics=TOPICS)
        options = Options(everything=True)
        return report_on(tuple(map(topic, TOPICS)), measured.inspected, measured.measured, options)

    return of


def findings_with_advice(report: Report) -> list[Finding]:
    return [found for found in report.findings if found.actions and found.severity != "info"]


@pytest.mark.parametrize(
    "name",
    ["state/2.3.0/cache-thrash", pytest.param("state/1.20.5/small-memory", marks=pytest.mark.full)],
)
def test_an_operator_that_waits_for_rocksdb_is_one_incident(
    name: str, report_of: Callable[[str], Report]
) -> None:
    """The configured size of managed memory is the limit: a fraction would change nothing."""
    report = report_of(name)
    (story,) = report.summary.stories
    codes = {found.fingerprint: found.code for found in report.findings}
    assert "MM303" in {codes[each] for each in story.findings}
    assert story.subject.task == "remember"
    first = report.summary.first_action
    assert first is not None and "managed memory" in first.action.text
    for found in findings_with_advice(report):
        assert not OF_MORE_RESOURCES.search(found.actions[0].text), found.code
    proposed = {action.option for found in report.findings for action in found.actions}
    assert "taskmanager.memory.managed.size" in proposed
    assert "taskmanager.memory.managed.fraction" not in proposed


def texts_of(value: Any) -> Iterator[str]:
    """Yield all texts of a decoded report."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from texts_of(each)


def ratios_of(report: Report) -> dict[str, dict[str, set[str]]]:
    """Return the ratios in all texts of a report, by subtask and window; a title names no window."""
    found: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for text in texts_of(msgspec.to_builtins(report)):
        for each in RATIO.finditer(text):
            found[each["subtask"]][each["window"] or ""].add(each["ratio"])
    return found


hot_keys = pytest.mark.parametrize(
    "name",
    [
        "flink/1.20.5/hot-key",
        "flink/2.3.0/hot-key",
        *(
            pytest.param(name, marks=pytest.mark.full)
            for name in (
                "flink/1.10.3/hot-key-debug",
                "flink/1.14.6/hot-key",
                "flink/1.20.5/moving-hot-key",
            )
        ),
    ],
)


@hot_keys
def test_a_subtask_has_one_ratio_per_named_window(
    name: str, report_of: Callable[[str], Report]
) -> None:
    ratios = ratios_of(report_of(name))
    assert ratios
    for subtask, windows in ratios.items():
        assert {window for window, each in windows.items() if len(each) > 1} == set(), subtask
        named = {ratio for window, each in windows.items() if window for ratio in each}
        assert windows[""] <= named, subtask


@hot_keys
def test_a_subtask_has_one_ratio_in_the_whole_report(
    name: str, report_of: Callable[[str], Report]
) -> None:
    for subtask, windows in ratios_of(report_of(name)).items():
        assert len(set().union(*windows.values())) == 1, subtask


@hot_keys
@pytest.mark.parametrize("alone", ["queues", "checkpoints"])
def test_a_command_of_one_topic_gives_the_ratio_of_diagnose(
    alone: str,
    name: str,
    recorded: Callable[..., Recorded],
    report_of: Callable[[str], Report],
) -> None:
    whole = ratios_of(report_of(name))
    measured = recorded(unpacked(ROOT / name), topics=(alone,))
    part = ratios_of(measured.report(alone))
    assert part
    for subtask, windows in part.items():
        assert set().union(*windows.values()) == set().union(*whole[subtask].values()), subtask


@pytest.mark.parametrize(
    ("name", "cause"),
    [
        ("neighbours/1.20.5/broker-down", "kafka-timeout"),
        pytest.param("neighbours/2.3.0/broker-down", "kafka-timeout", marks=pytest.mark.full),
    ],
)
def test_a_broker_that_is_back_leaves_a_recovered_incident(
    name: str, cause: str, report_of: Callable[[str], Report]
) -> None:
    report = report_of(name)
    assert [(story.cause, story.state) for story in report.summary.stories] == [
        (cause, "recovered")
    ]
