"""Twice as much of anything is twice the work, not four times: counted in calls, whatever the machine does.

The facts are made by hand, large in one way each; every rule of the topic judges them, the report is made and
rendered. `python -m benchmarks.load` measures whole commands on inputs of this kind.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final

import pytest

from flowdiag.analyses.diagnosis import Measured, inspect_inputs, report_on
from flowdiag.analyses.flink.job import ClusterFacts
from flowdiag.analyses.model.keys import JobKey
from flowdiag.analyses.model.options import Options
from flowdiag.analyses.rate.facts import RateFacts
from flowdiag.analyses.topics import topic
from flowdiag.cli.options.settings import Format
from flowdiag.cli.render import RENDERERS
from flowdiag.cli.render.page import Page
from flowdiag.parsers.sources.discover import discover
from tests.analyses import rate_workbench as rate
from tests.analyses import startup_workbench as startup
from tests.analyses.queues_workbench import Queues, facts_of
from tests.analyses.workbench import Bench

Facts = Any

MORE: Final = 2.3
"""How many times as often a function may be called for twice as much; sorting takes a little more than twice."""
SELDOM: Final = 300
"""Calls that tell nothing: some work begins with the second of anything."""
CAPPED: Final = "analyses/rate/stability.py"
"""It takes the square of at most 400 points, and a sample of what is more."""

# -- facts of any size -------------------------------------------------------------------------


def wide(count: int, managers: int) -> Bench:
    """A job of two vertices with so many subtasks each."""

    class Wide(Bench):
        def manager_of(self, task: str, index: int) -> str:
            return f"tm-{index % managers + 1}"

    return Wide(tasks=(("Source: orders", count), ("enrich", count)), managers=managers)


def many_checkpoints(count: int) -> Facts:
    """One in a hundred expires."""
    bench = Bench(interval_s=1.0, timeout_s=5.0)
    for number in range(count):
        if number % 100 == 99:
            (expired,) = bench.expires()
            bench.is_late(expired, "enrich", number % 4)
        else:
            bench.completes()
    return bench.facts()


def many_crises(count: int) -> Facts:
    """It falls ill and recovers, again and again."""
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
    """All of them late, with their acknowledgements and loads."""
    bench = wide(count // 4, 20)
    bench.completes(3)
    for expired in bench.expires(3):
        for index in range(count // 4):
            bench.is_late(expired, "enrich", index)
        bench.acknowledgements(expired, missing=[("enrich", 1)])
    bench.loaded({("enrich", 1): {"busy": 1000.0, "idle": 0.0}})
    return bench.facts()


def many_taskmanagers(count: int) -> Facts:
    """A subtask of either vertex on each."""
    bench = wide(count, count)
    bench.completes(10)
    for expired in bench.expires(4):
        for index in range(count // 20):
            bench.is_late(expired, "enrich", index)
    return bench.facts()


def many_jobs(count: int) -> Facts:
    """All of them ill."""
    jobs = []
    for number in range(count // 8):
        bench = Bench(key=JobKey("", f"{number:032x}"))
        bench.completes(3)
        for expired in bench.expires(4):
            bench.is_late(expired, "enrich", 1)
        jobs.append(bench.job())
    return ClusterFacts(jobs=tuple(jobs), processes=(), has_jobmanager_log=True)


def many_batches(count: int) -> Facts:
    """They take longer and longer, and some fail."""
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
    """Triggers of a query in many runs, longer than their interval."""
    triggers = [
        rate.trigger(number, 1500 + 1000 * number // count, run_id=f"r{number // 40}")
        for number in range(1, count)
    ]
    return RateFacts(applications=(rate.application(queries=(rate.query(triggers),)),))


def many_starts(count: int) -> Facts:
    """A job that is started again and again, with losses and troubles."""
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
    """A start of many tasks on as many TaskManagers."""
    tasks = [startup.task(n, taskmanager=f"tm-{n}", at=1 + n % 50) for n in range(count)]
    workers = tuple(startup.worker(f"tm-{n}") for n in range(count))
    return replace(startup.facts(startup.job(startup.start(*tasks))), workers=workers)


def many_queues(count: int) -> Facts:
    """Subtasks whose input queues are full, behind a slow sink."""
    size = count // 10
    bench = Queues(
        tasks=(("Source: orders", size), ("enrich", size), ("Sink: deliver", 2)), managers=20
    )
    for task in ("Source: orders", "enrich"):
        bench.says(task, back_pressured=700.0, is_back_pressured=1.0, out_pool=1.0, idle=300.0)
    bench.says("Sink: deliver", busy=990.0, idle=10.0, input_queue=16.0, in_pool=1.0)
    return facts_of(bench.job())


def many_minutes(count: int) -> Facts:
    """Samples of days."""
    bench = Queues(minutes=count // 10)
    bench.says(
        "Source: orders", back_pressured=700.0, idle=300.0, is_back_pressured=1.0, out_pool=1.0
    )
    bench.says("enrich", 2, busy=990.0, idle=10.0, input_queue=16.0, in_pool=1.0)
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
    """What the evidence is quoted from."""
    path = tmp_path_factory.mktemp("load") / "jobmanager.log"
    line = "2026-11-21 06:00:00,000 INFO  org.apache.flink.runtime.jobmaster.JobMaster [] - hello\n"
    path.write_text(line * 20_000)
    return path


def report(name: str, facts: Facts, log: Path) -> Callable[[], object]:
    """What judges the facts, makes the report and renders it."""
    topics = (topic(name),)
    inspected = inspect_inputs(topics, discover([str(log)]), Options())

    def made() -> object:
        told = report_on(topics, inspected, Measured(facts={name: facts}))
        # A web page shows the sickest only, and others draw its pictures.
        return [
            render(told, Page(width=100))
            for name, render in RENDERERS.items()
            if name is not Format.HTML
        ]

    return made


def calls(act: Callable[[], object]) -> Counter[str]:
    """How often each function is called, those of C as well; generators count at each step."""
    count: dict[int, int] = {}
    codes: list[CodeType] = []  # kept, so that no number is given twice

    def counted(frame: FrameType, event: str, argument: object) -> None:
        if event in ("call", "c_call"):
            # What C does counts for who calls it: the same place in all sizes.
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


def too_many(once: Counter[str], twice: Counter[str]) -> list[str]:
    """The functions that are called more than twice as often for twice as much; rarely called ones are left out.

    Each by itself: what takes the square of a hundred is nothing beside what else is done with a hundred.
    """
    return [
        f"{name}: {once[name]}, {number} for twice as much"
        for name, number in twice.most_common()
        if number > max(SELDOM, MORE * once[name]) and CAPPED not in name
    ]


@pytest.mark.parametrize(
    "size", [pytest.param(160, id="small"), pytest.param(2000, id="large", marks=pytest.mark.full)]
)
@pytest.mark.parametrize("name", LARGE)
def test_twice_as_much_is_twice_the_work(name: str, size: int, log: Path) -> None:
    command = name.partition(":")[0]
    report(command, LARGE[name](40), log)()  # imports, and patterns that are made once
    once = calls(report(command, LARGE[name](size), log))
    twice = calls(report(command, LARGE[name](2 * size), log))
    assert not too_many(once, twice)


def test_the_square_of_anything_is_seen() -> None:
    def work(count: int) -> Callable[[], object]:
        def squared() -> object:
            return [abs(a) for a in range(count) for _ in range(count)]

        def much() -> object:
            return [abs(a) for a in range(1000 * count)]

        return lambda: (squared(), much())

    (found,) = too_many(calls(work(100)), calls(work(200)))
    assert "squared" in found
