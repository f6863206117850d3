"""Checks that doubling an input at most doubles the work, counted in calls, on any machine.

Each set of facts is large in one dimension. Every rule of the topic judges it, and the report is
built and rendered. `python -m benchmarks.load` measures whole commands on similar inputs.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final
from unittest.mock import patch

import pytest

from flowdiag.analyses.diagnosis import inspect_inputs, report_on
from flowdiag.analyses.flink.job import ClusterFacts
from flowdiag.analyses.model.keys import JobKey
from flowdiag.analyses.rate.facts import RateFacts
from flowdiag.analyses.selection.options import Options
from flowdiag.analyses.topic import Measured
from flowdiag.analyses.topics import topic
from flowdiag.cli.render import RENDERERS, table
from flowdiag.cli.settings import Format
from flowdiag.cli.text.page import Page
from flowdiag.parsers.discover import discover
from tests.analyses import rate_workbench as rate
from tests.analyses import startup_workbench as startup
from tests.analyses.queues_workbench import Queues, facts_of
from tests.analyses.workbench import Bench

Facts = Any

MORE: Final = 2.3
"""Allowed growth of the calls of a function when the input doubles; sorting takes a little more
than twice.
"""
SELDOM: Final = 300
"""Number of calls below which growth is ignored: some work starts with the second item."""
CAPPED: Final = "analyses/rate/stability.py"
"""Quadratic for at most 400 points, and a sample beyond."""

# -- facts of any size -------------------------------------------------------------------------


def wide(count: int, managers: int) -> Bench:
    """Return a job of two vertices with a number of subtasks each."""

    class Wide(Bench):
        def manager_of(self, task: str, index: int) -> str:
            return f"tm-{index % managers + 1}"

    return Wide(tasks=(("Source: orders", count), ("enrich", count)), managers=managers)


def many_checkpoints(count: int) -> Facts:
    """Return many checkpoints, one in a hundred expired."""
    bench = Bench(interval_s=1.0, timeout_s=5.0)
    for number in range(count):
        if number % 100 == 99:
            (expired,) = bench.expires()
            bench.is_late(expired, "enrich", number % 4)
        else:
            bench.completes()
    return bench.facts()


def many_crises(count: int) -> Facts:
    """Return checkpoints that fail and recover repeatedly."""
    bench = Bench()
    for number in range(count // 8):
        bench.run = 1 + number // 10
        for expired in bench.expires(3):
            bench.is_late(expired, "enrich", 1)
            bench.is_late(expired, "aggregate", 2)
        bench.completes(4)
        bench.declined(1, "No space left on device")
        bench.happens("task-failure")
    return bench.facts()


def many_subtasks(count: int) -> Facts:
    """Return subtasks that are all late, with their acknowledgements and loads."""
    bench = wide(count // 4, 20)
    bench.completes(3)
    for expired in bench.expires(3):
        for index in range(count // 4):
            bench.is_late(expired, "enrich", index)
        bench.acknowledgements(expired, missing=[("enrich", 1)])
    bench.loaded({("enrich", 1): {"busy": 1000.0, "idle": 0.0}})
    return bench.facts()


def many_taskmanagers(count: int) -> Facts:
    """Return a subtask of either vertex on each TaskManager."""
    bench = wide(count, count)
    bench.completes(10)
    for expired in bench.expires(4):
        for index in range(count // 20):
            bench.is_late(expired, "enrich", index)
    return bench.facts()


def many_jobs(count: int) -> Facts:
    """Return many faulty jobs."""
    jobs = []
    for number in range(count // 8):
        bench = Bench(key=JobKey("", f"{number:032x}"))
        bench.completes(3)
        for expired in bench.expires(4):
            bench.is_late(expired, "enrich", 1)
        jobs.append(bench.job())
    return ClusterFacts(jobs=tuple(jobs), processes=(), has_jobmanager_log=True)


def many_batches(count: int) -> Facts:
    """Return batches that take longer and longer, some of which fail."""
    batches = [
        rate.batch(
            number,
            processing_ms=700 + 900 * number // count,
            scheduling_ms=max(0, 400 * (number - count // 2)),
            state="failed" if number % 50 == 0 else "completed",
        )
        for number in range(1, count)
    ]
    return RateFacts(applications=(rate.application(batches),))


def many_triggers(count: int) -> Facts:
    """Return triggers of a query in many runs, longer than their interval."""
    triggers = [
        rate.trigger(number, 1500 + 1000 * number // count, run_id=f"r{number // 40}")
        for number in range(1, count)
    ]
    return RateFacts(applications=(rate.application(queries=(rate.query(triggers),)),))


def many_starts(count: int) -> Facts:
    """Return a job that is restarted repeatedly, with losses and errors."""
    starts = [
        startup.start(
            startup.task(0, at=n * 60 + 1), startup.task(1, at=n * 60 + 2), number=n, at=n * 60
        )
        for n in range(count // 4)
    ]
    lost = "The heartbeat of TaskManager with id tm-1 timed out"
    incidents = tuple(
        startup.incident("taskmanager-lost", n * 60.0 + 50, lost, taskmanager="tm-1")
        for n in range(count // 4)
    )
    troubles = tuple(
        startup.trouble("master-heartbeat-lost", n * 60.0 + 52, taskmanager=f"tm-{n % 7}")
        for n in range(count // 4)
    )
    return startup.facts(startup.job(*starts, incidents=incidents), troubles=troubles)


def many_workers(count: int) -> Facts:
    """Return a start of many tasks on as many TaskManagers."""
    tasks = [startup.task(n, taskmanager=f"tm-{n}", at=1 + n % 50) for n in range(count)]
    workers = tuple(startup.worker(f"tm-{n}") for n in range(count))
    return replace(startup.facts(startup.job(startup.start(*tasks))), workers=workers)


def many_queues(count: int) -> Facts:
    """Return subtasks with full input queues upstream of a slow sink."""
    size = count // 10
    bench = Queues(
        tasks=(("Source: orders", size), ("enrich", size), ("Sink: deliver", 2)), managers=20
    )
    for task in ("Source: orders", "enrich"):
        bench.set_metrics(
            task, back_pressured=700.0, is_back_pressured=1.0, out_pool=1.0, idle=300.0
        )
    bench.set_metrics("Sink: deliver", busy=990.0, idle=10.0, input_queue=16.0, in_pool=1.0)
    return facts_of(bench.job())


def many_minutes(count: int) -> Facts:
    """Return samples of several days."""
    bench = Queues(minutes=count // 10)
    bench.set_metrics(
        "Source: orders", back_pressured=700.0, idle=300.0, is_back_pressured=1.0, out_pool=1.0
    )
    bench.set_metrics("enrich", 2, busy=990.0, idle=10.0, input_queue=16.0, in_pool=1.0)
    return facts_of(bench.job())


LARGE: Final[dict[str, Callable[[int], Facts]]] = {
    "checkpoints: checkpoints": many_checkpoints,
    "checkpoints: crises": many_crises,
    "checkpoints: subtasks": many_subtasks,
    "checkpoints: TaskManagers": many_taskmanagers,
    "checkpoints: jobs": many_jobs,
    "rate: batches": many_batches,
    "rate: triggers": many_triggers,
    "startup: starts": many_starts,
    "startup: TaskManagers": many_workers,
    "queues: subtasks": many_queues,
    "queues: minutes": many_minutes,
}


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the log that the evidence quotes."""
    path = tmp_path_factory.mktemp("load") / "jobmanager.log"
    line = "2026-11-21 06:00:00,000 INFO  org.apache.flink.runtime.jobmaster.JobMaster [] - hello\n"
    path.write_text(line * 20_000)
    return path


def report(name: str, facts: Facts, log: Path) -> Callable[[], object]:
    """Return a function that judges the facts, builds the report and renders it."""
    topics = (topic(name),)
    inspected = inspect_inputs(topics, discover([str(log)]), Options())

    def made() -> object:
        report = report_on(topics, inspected, Measured(facts={name: facts}))
        # A web page details only the worst jobs and draws charts of the others.
        # The table is rendered again, more briefly, if it is too long.
        with patch.object(table, "LINES", sys.maxsize):
            return [
                render(report, Page(width=100))
                for name, render in RENDERERS.items()
                if name is not Format.HTML
            ]

    return made


def calls(act: Callable[[], object]) -> Counter[str]:
    """Count the calls of each function, including C functions; generators count at each step."""
    count: dict[int, int] = {}
    codes: list[CodeType] = []  # kept alive, so that no ID is reused

    def counted(frame: FrameType, event: str, argument: object) -> None:
        if event in ("call", "c_call"):
            # Calls of C functions count for the caller: the same place in all sizes.
            number = id(frame.f_code)
            if number not in count:
                count[number] = 0
                codes.append(frame.f_code)
            count[number] += 1

    before = sys.getprofile()
    sys.setprofile(counted)
    try:
        act()
    finally:
        sys.setprofile(before)
    named: Counter[str] = Counter()
    for code in codes:
        named[f"{code.co_filename}:{code.co_firstlineno} {code.co_qualname}"] += count[id(code)]
    return named


def growing_too_fast(once: Counter[str], twice: Counter[str]) -> list[str]:
    """Return the functions with more than twice the calls for twice the input; rarely called ones
    are omitted.

    Each function is judged alone: quadratic work on a hundred items would hide in the total.
    """
    return [
        f"{name}: {once[name]}, {number} for twice as much"
        for name, number in twice.most_common()
        if number > max(SELDOM, MORE * once[name]) and CAPPED not in name
    ]


@pytest.mark.parametrize(
    "size",
    [pytest.param(320, id="small"), pytest.param(2000, id="large", marks=pytest.mark.full)],
)
@pytest.mark.parametrize("name", LARGE)
def test_twice_the_input_is_twice_the_work(name: str, size: int, log: Path) -> None:
    command = name.partition(":")[0]
    report(command, LARGE[name](40), log)()  # imports and patterns that are loaded once
    once = calls(report(command, LARGE[name](size), log))
    twice = calls(report(command, LARGE[name](2 * size), log))
    assert not growing_too_fast(once, twice)


def test_quadratic_work_is_detected() -> None:
    def work(count: int) -> Callable[[], object]:
        def squared() -> object:
            return [abs(a) for a in range(count) for _ in range(count)]

        def much() -> object:
            return [abs(a) for a in range(1000 * count)]

        return lambda: (squared(), much())

    (found,) = growing_too_fast(calls(work(100)), calls(work(200)))
    assert "squared" in found
