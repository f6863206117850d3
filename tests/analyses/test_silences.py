"""Gaps in logs do not count as waiting time."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from flowdiag.analyses.checkpoints.rules import RULES
from flowdiag.analyses.checkpoints.topic import CHECKPOINTS
from flowdiag.analyses.engine.reading import ORDINARY, read
from flowdiag.analyses.flink.assemble import assemble
from flowdiag.analyses.flink.clocks.settle import Writer, settle
from flowdiag.analyses.flink.clocks.survey import survey
from flowdiag.analyses.flink.failures.silences import (
    gap_notes,
    jobmanager_logged_until,
    logged_until,
    silence_notes,
)
from flowdiag.analyses.flink.job import ClusterFacts, Incident
from flowdiag.analyses.flink.settled import rare_of
from flowdiag.analyses.model.keys import Process
from flowdiag.analyses.model.rule import apply
from flowdiag.analyses.rate.facts import Batch
from flowdiag.analyses.selection.options import Options
from flowdiag.analyses.startup.assemble.steps import _last_round
from flowdiag.analyses.startup.facts import TaskTimes
from flowdiag.analyses.startup.rules.held_start import RULE as HELD
from flowdiag.parsers.discover import discover
from flowdiag.parsers.notes import Kind

from . import rate_workbench as rate
from .startup_workbench import BEGIN, facts, findings, job, start, task
from .workbench import SECOND, Bench

HOUR = 3600
DAY_S = 86_400


def silent(bench: Bench, since_s: float, until_s: float, **more: str | None) -> Incident:
    return Incident(
        kind="silent",
        time_us=bench.at(since_s),
        duration_ms=round((until_s - since_s) * 1000),
        text={"role": "jobmanager"},
        **more,  # type: ignore[arg-type]
    )


def with_hole(facts: ClusterFacts, *holes: Incident) -> ClusterFacts:
    return replace(facts, incidents=(*facts.incidents, *holes), has_jobmanager_log=True)


def codes(facts: ClusterFacts) -> set[str]:
    outcomes = apply(RULES, facts, CHECKPOINTS.subjects(facts), {})
    return {o.code for o in outcomes for f in o.findings if f.severity != "info"}


def a_record(bench: Bench, at_s: float) -> None:
    """Return a harmless record, which shows that the log continues."""
    bench.incidents.append(
        Incident(kind="checkpoint-counts", time_us=bench.at(at_s), job=bench.key, ref=bench.ref())
    )


def without(facts: ClusterFacts, first: int, last: int) -> ClusterFacts:
    """Remove the records of some checkpoints, as if a rolled file were missing."""
    (job,) = facts.jobs
    kept = tuple(c for c in job.checkpoints if not first <= c.id <= last)
    return replace(facts, jobs=(replace(job, checkpoints=kept),), has_jobmanager_log=True)


def test_missing_checkpoint_ids_are_a_gap() -> None:
    bench = Bench()
    bench.completes(20)
    (note,) = gap_notes(without(bench.facts(), 6, 12))
    assert note.kind is Kind.GAP and "checkpoints 6 to 12" in str(note)
    assert [
        *gap_notes(without(bench.facts(), 6, 7))
    ] == []  # some numbers belong to failed triggers
    assert [*gap_notes(replace(without(bench.facts(), 6, 12), has_jobmanager_log=False))] == []
    assert [*gap_notes(without(bench.facts(), 0, 0))] == []


def test_checkpoints_in_a_gap_were_not_skipped() -> None:
    bench = Bench()
    bench.completes(10)
    a_record(bench, 3 * DAY_S)
    facts = bench.facts()
    assert "CP107" in codes(facts)
    assert "CP107" not in codes(with_hole(facts, silent(bench, bench.now_s, 3 * DAY_S)))


def test_a_checkpoint_whose_end_is_missing_does_not_last_for_days() -> None:
    bench = Bench()
    bench.completes(3)
    bench.in_flight()
    a_record(bench, 3 * DAY_S)
    facts = bench.facts()
    assert "CP106" in codes(facts)
    assert "CP106" not in codes(with_hole(facts, silent(bench, bench.now_s, 3 * DAY_S)))


def test_a_gap_is_mentioned_if_checkpoints_were_due() -> None:
    bench = Bench()
    bench.completes(5)
    begun = bench.now_s
    bench.now_s += 5 * HOUR
    bench.completes(5)
    hole = silent(bench, begun, begun + 5 * HOUR)
    facts = with_hole(bench.facts(), hole)
    (note,) = CHECKPOINTS.notes(facts, facts, Options())
    assert "silent from" in note.text
    assert "5 h" in note.text
    assert note.kind is Kind.GAP
    assert ((note.last_us or 0) - (note.first_us or 0)) == 5 * HOUR * 1_000_000
    rare = with_hole(Bench(interval_s=4 * HOUR).facts(), hole)
    assert not list(silence_notes(rare))


def test_logs_that_would_mention_a_task() -> None:
    """The JobManager's log ends early, the log of TaskManager 1 continues, and that of TaskManager 2 has a gap."""

    def process(role: str, name: str | None, first: int, last: int) -> Process:
        return Process(
            source=0,
            label=None,
            role=role,
            cluster="",
            taskmanager=name,
            first_us=first * SECOND,
            last_us=last * SECOND,
        )

    facts = ClusterFacts(
        jobs=(),
        processes=(
            process("jobmanager", None, 0, 30),
            process("taskmanager", "tm-1", 10, 500),
            process("taskmanager", "tm-2", 10, 9000),
        ),
        incidents=(
            Incident(
                kind="silent",
                time_us=100 * SECOND,
                duration_ms=8_000_000,
                taskmanager="tm-2",
                text={"role": "taskmanager"},
            ),
        ),
    )

    def logged_until_s(name: str | None, since: int, until: int = 9000) -> int:
        return logged_until(facts, name, since * SECOND, until * SECOND) // SECOND

    assert logged_until_s(None, 20) == 30
    assert logged_until_s("tm-1", 20) == 500
    assert logged_until_s("tm-1", 20, until=40) == 40
    assert logged_until_s("tm-2", 20) == 100
    assert logged_until_s("tm-2", 8200) == 9000
    assert logged_until_s("tm-3", 20) == 30
    assert logged_until_s("tm-3", 400) == 400  # no log covers it
    assert logged_until(ClusterFacts(jobs=(), processes=()), "tm-1", 0, 7) == 7  # no logs: REST


def writers_of(*paths: Path) -> tuple[Writer, ...]:
    sources = discover([str(path) for path in paths]).sources
    rows = survey(*rare_of(read(sources, ORDINARY))).rows
    return settle(rows, {source.index: source.group for source in sources})


def written(path: Path, *minutes: float) -> Path:
    """Write a JobManager's log with a completed checkpoint at each of these minutes."""
    begun = datetime(2026, 11, 21, 12)
    lines = []
    for number, minute in enumerate(minutes, 1):
        at = begun + timedelta(minutes=minute)
        head = f"{at:%Y-%m-%d %H:%M:%S},000 INFO  org.apache.flink.runtime.checkpoint.CheckpointCoordinator [] - "
        epoch = int((at - datetime(1970, 1, 1)).total_seconds() * 1000)
        lines.append(
            f"{head}Triggering checkpoint {number} (type=CHECKPOINT) @ {epoch} for job {'a' * 32}."
        )
        lines.append(f"{head}Completed checkpoint {number} for job {'a' * 32} (10 bytes in 5 ms).")
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize("until_minute", [9, 11, 60 * 30])
def test_silence_is_measured_within_the_logs(tmp_path: Path, until_minute: int) -> None:
    log = written(tmp_path / "jobmanager.log", 0, 1, 2, 2 + until_minute, 3 + until_minute)
    facts = assemble([], [], writers_of(log))
    found = [i.duration_ms for i in facts.incidents if i.kind == "silent"]
    assert found == ([] if until_minute < 10 else [until_minute * 60_000])


def test_parts_of_one_log_fill_each_others_gaps(tmp_path: Path) -> None:
    first = written(tmp_path / "jobmanager.log.1", 0, 5, 30)
    second = written(tmp_path / "jobmanager.log", 10, 15, 20, 25)
    assert not [i for i in assemble([], [], writers_of(first, second)).incidents]


def test_the_end_of_a_log() -> None:
    bench = Bench()
    facts = with_hole(bench.facts(), silent(bench, 100, 200))
    at = bench.at
    assert jobmanager_logged_until(facts, at(50), at(90)) == at(90)
    assert jobmanager_logged_until(facts, at(50), at(300)) == at(100)
    assert jobmanager_logged_until(facts, at(150), at(300)) == at(150)
    assert jobmanager_logged_until(facts, at(250), at(300)) == at(300)


# --- Spark ----------------------------------------------------------------------------------------

DAYS = 2 * DAY_S


@pytest.mark.parametrize(
    ("behind", "hangs"),
    [
        ([], False),
        ([rate.batch(DAYS)], False),
        ([rate.batch(n, state="queued") for n in range(32, 60)], True),
    ],
    ids=["nothing", "a batch days later", "batches that wait"],
)
def test_a_batch_hangs_only_while_other_batches_are_added(behind: list[Batch], hangs: bool) -> None:
    begun = rate.batch(31, state="processing", start_ms=rate.T0 + 31_005)
    batches = [*(rate.batch(n) for n in range(1, 31)), begun, *behind]
    last = rate.T0 + (60 if hangs else DAYS) * 1000
    app = rate.application(batches, last_us=last * 1000)
    assert ("RT104" in rate.codes(app)) is hangs


# --- starts ---------------------------------------------------------------------------------------


def _processes(*ends: tuple[str, float]) -> tuple[Process, ...]:
    """Return processes with TaskManager logs from the beginning to the given second."""
    return tuple(
        Process(
            source=number,
            label=None,
            role="taskmanager",
            cluster="c",
            taskmanager=name,
            first_us=BEGIN,
            last_us=BEGIN + round(end * SECOND),
        )
        for number, (name, end) in enumerate(ends)
    )


@pytest.mark.parametrize(("logged_until", "held"), [(5, False), (300, True)])
def test_a_task_waits_until_its_log_ends(logged_until: float, held: bool) -> None:
    stuck = task(1, taskmanager="tm-2", initializing_us=None, running_us=None)
    begun = start(task(0), stuck, held="deployment", running_us=None, expected=2)
    seen = facts(job(begun), last_us=BEGIN + 300 * SECOND)
    common = replace(seen.common, processes=_processes(("tm-1", 300), ("tm-2", logged_until)))
    assert bool(findings(HELD, replace(seen, common=common))) is held


def test_tasks_without_a_log_may_run() -> None:
    """The JobManager's log begins later, and the TaskManager's log contains some of the tasks."""
    begun = start(task(0), task(1), held="deployment", running_us=None, expected=6)
    seen = facts(job(begun), last_us=BEGIN + 300 * SECOND)
    common = replace(seen.common, has_jobmanager_log=True)
    assert not findings(HELD, replace(seen, common=common))


def test_two_rounds_of_deployment_are_not_one_long_one() -> None:
    tasks = [task(0, at=1), task(1, at=2), task(2, at=40), task(3, at=41)]

    def round_of(*tried: TaskTimes) -> list[int | None]:
        last = _last_round(tried, lambda t: t.deploying_us, lambda t: t.running_us)
        return [t.subtask_index for t in last]

    assert round_of(*tasks) == [2, 3]
    stuck = replace(tasks[0], running_us=None)
    assert round_of(stuck, *tasks[1:]) == [0, 1, 2, 3]
