"""Killed containers: several reports of the same exit, and recovery of the affected jobs."""

from __future__ import annotations

import json
from pathlib import Path

from flowdiag.analyses.flink.job import Incident, JobFacts
from flowdiag.analyses.memory.facts import Kill, MemoryFacts, MemoryProcess, has_recovered
from flowdiag.analyses.memory.inputs import read_others
from flowdiag.analyses.memory.options import derive
from flowdiag.analyses.memory.out_of_memory import RULE
from flowdiag.analyses.memory.rules import unmanaged_rocksdb
from flowdiag.analyses.model.finding import Finding
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


AT = 1795855742_000_000


def killed_at(time_us: int | None, *jobs: JobFacts, unlimited: bool = False) -> list[Finding]:
    """Return the findings about a kill that only the kernel reports."""
    kill = Kill(
        reason="OOMKilled",
        exit_code=None,
        pod=None,
        limit=1200 << 20,
        text="killed",
        ref=Ref(0, 0),
        time_us=time_us,
    )
    switch = {"state.backend.rocksdb.memory.managed": "false"} if unlimited else {}
    configured = {
        "taskmanager.memory.process.size": "1200m",
        "taskmanager.numberOfTaskSlots": "2",
    } | switch
    process = MemoryProcess(
        taskmanager=POD,
        role="taskmanager",
        version="1.20.5",
        configured=configured,
        derived=derive("taskmanager", configured, "1.20.5", False),
    )
    facts = MemoryFacts(processes=(process,), jobs=jobs, kills=(kill,), backends={"a": "rocksdb"})
    return [
        found
        for rule in (RULE, unmanaged_rocksdb.RULE)
        for found in rule.judge(facts, rule.limits())
        if isinstance(found, Finding)
    ]


def test_the_kernel_names_no_taskmanager_but_the_jobmanager_loses_one() -> None:
    lost = job(
        "orders",
        incident("taskmanager-lost", AT + 1_000_000, POD),
        incident("taskmanager-lost", AT + 50_000_000, "other"),
    )
    assert [found.subject.taskmanager for found in killed_at(AT, lost)] == [POD]
    for later in (None, AT + 120_000_000):
        assert [found.subject.taskmanager for found in killed_at(later, lost)] == [None]


def test_without_a_limit_of_rocksdb_the_first_remedy_is_the_limit() -> None:
    lost = job("orders", incident("taskmanager-lost", AT, POD))
    (found,) = killed_at(AT, lost, unlimited=True)
    assert (found.cause, found.actions[0].proposed) == ("out-of-memory", "true")
    (found,) = killed_at(AT, lost)
    assert found.actions[0].option == "taskmanager.memory.jvm-overhead.min"
