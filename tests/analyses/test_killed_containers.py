"""Killed containers: several reports of the same exit, and recovery of the affected jobs."""

from __future__ import annotations

import json
from pathlib import Path

from flowdiag.analyses.flink.job import Incident, JobFacts
from flowdiag.analyses.memory.facts import MemoryFacts, has_recovered
from flowdiag.analyses.memory.inputs import read_others
from flowdiag.analyses.model.keys import JobKey, Ref
from flowdiag.parsers.discover import discover

POD = "orders-taskmanager-1-1"


def test_two_reports_of_one_end_are_one_kill(tmp_path: Path) -> None:
    ended = {
        "containerId": "container_1700000000000_0007_01_000002",
        "containerExitStatus": -102,
        "containerState": "COMPLETE",
        "finishedTime": 1700000000000,
    }
    again = ended | {"finishedTime": 1700000060000}
    for name, found in (("manager", [ended]), ("timeline", [ended, again])):
        (tmp_path / f"{name}.json").write_text(json.dumps({"container": found}, indent=1))
    kills = read_others(discover([str(tmp_path)]).sources).kills
    assert [kill.time_us for kill in kills] == [1700000000000000, 1700000060000000]


def job(name: str, *incidents: Incident) -> JobFacts:
    return JobFacts(key=JobKey("", name), name=name, version=None, incidents=incidents)


def incident(kind: str, time_us: int, taskmanager: str | None = None) -> Incident:
    return Incident(kind=kind, time_us=time_us, taskmanager=taskmanager, ref=Ref(0, 0))


def test_the_restart_of_another_job_is_not_a_recovery() -> None:
    lost = job("orders", incident("taskmanager-lost", 10, POD))
    other = job("billing", incident("job-running", 20))
    assert not has_recovered(MemoryFacts(processes=(), jobs=(lost, other)), 5, POD)
    restarted = job("orders", *lost.incidents, incident("job-running", 30))
    assert has_recovered(MemoryFacts(processes=(), jobs=(restarted, other)), 5, POD)


def test_without_a_job_that_names_the_pod_all_jobs_have_to_run() -> None:
    jobs = (job("orders", incident("job-running", 20)), job("billing"))
    assert not has_recovered(MemoryFacts(processes=(), jobs=jobs), 5, POD)
    assert has_recovered(MemoryFacts(processes=(), jobs=jobs[:1]), 5, POD)
    assert not has_recovered(MemoryFacts(processes=(), jobs=jobs[:1]), 25, POD)
    assert not has_recovered(MemoryFacts(processes=()), 5, POD)
