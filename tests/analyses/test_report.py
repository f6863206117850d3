"""From findings to the report: ranking, verdicts per job, limits, inputs."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from flowdiag.analyses.checkpoints.data import checkpoint_data
from flowdiag.analyses.contract.report import iso
from flowdiag.analyses.flink.job import Checkpoint, ClusterFacts, JobFacts, Status
from flowdiag.analyses.model import finding as f
from flowdiag.analyses.model.keys import JobKey, Process
from flowdiag.analyses.report.fingerprints import fingerprint
from flowdiag.analyses.report.inputs import describe_inputs, input_problems, unknown_days
from flowdiag.analyses.report.verdicts import judge

ONE, TWO = JobKey("", "1" * 32), JobKey("", "2" * 32)


def finding(**changes: Any) -> f.Finding:
    made = f.Finding(
        job=ONE,
        severity=f.Severity.WARNING,
        state=f.State.ONGOING,
        subject=f.Subject(kind="job"),
        title="title",
        explain="",
    )
    return replace(made, **changes)


def outcome(
    *results: f.Finding | f.Inconclusive, code: str = "CP1", core: bool = True
) -> f.RuleOutcome:
    return f.RuleOutcome(
        code=code,
        name=code.lower(),
        title=code,
        core=core,
        findings=tuple(x for x in results if isinstance(x, f.Finding)),
        inconclusive=tuple(x for x in results if isinstance(x, f.Inconclusive)),
    )


def accused(name: str, **changes: Any) -> f.Finding:
    subject = f.Subject(kind="taskmanager", taskmanager=name)
    return finding(subject=subject, why=f"{name} did it", **changes)


def test_root_causes_come_before_consequences() -> None:
    results = outcome(
        accused("consequence", rank=f.Rank.CONSEQUENCE, cause="b"),
        accused("root", rank=f.Rank.ROOT_CAUSE, cause="a"),
        accused("remark", rank=f.Rank.ROOT_CAUSE, severity=f.Severity.INFO, cause="c"),
        finding(rank=f.Rank.ROOT_CAUSE, cause=None),
    )
    judgement = judge([results])
    assert [c.subject.taskmanager for c in judgement.culprits] == ["root", "consequence"]
    assert judgement.cause == "a"
    assert judgement.verdict is f.Verdict.DEGRADED


def test_the_worst_incident_comes_first() -> None:
    """Reports of one topic and of all topics give the same cause."""
    results = outcome(
        accused("near the root", rank=f.Rank.ROOT_CAUSE, cause="a"),
        accused("critical", rank=f.Rank.MECHANISM, severity=f.Severity.CRITICAL, cause="b"),
    )
    judgement = judge([results])
    assert [c.subject.taskmanager for c in judgement.culprits] == ["critical", "near the root"]
    assert (judgement.cause, judgement.verdict) == ("b", f.Verdict.FAILING)


def test_ongoing_comes_before_recovered() -> None:
    results = outcome(
        accused("over", rank=f.Rank.ROOT_CAUSE, state=f.State.RECOVERED),
        accused("lasting", rank=f.Rank.MECHANISM),
    )
    assert [c.subject.taskmanager for c in judge([results]).culprits] == ["lasting", "over"]


def test_each_culprit_is_listed_once() -> None:
    results = [
        outcome(accused("tm-1", rank=f.Rank.ROOT_CAUSE), code="CP2"),
        outcome(accused("tm-1", rank=f.Rank.MECHANISM), code="CP1"),
    ]
    assert [c.code for c in judge(results).culprits] == ["CP2"]


def test_a_task_that_waits_for_a_service_is_not_the_culprit() -> None:
    task = f.Subject(kind="task", task="deliver")
    service = f.Subject(kind="service", service="PostgreSQL", task="deliver")
    waits = finding(subject=task, why="deliver waits", cause="slow-external-call")
    slow = finding(subject=service, why="it is slow", cause="slow-database", rank=f.Rank.ROOT_CAUSE)
    alone, service_too = [outcome(waits, code="BP107")], [outcome(slow, code="IO203")]
    assert [c.subject for c in judge(alone).culprits] == [task]
    assert [c.subject for c in judge([*alone, *service_too]).culprits] == [service]


def test_each_job_has_its_own_verdict() -> None:
    results = [
        outcome(finding(severity=f.Severity.CRITICAL)),
        outcome(f.Inconclusive(reason="no log", job=TWO), code="CP2"),
    ]
    assert judge(results, ONE).verdict is f.Verdict.FAILING
    assert judge(results, TWO).verdict is f.Verdict.INCONCLUSIVE
    assert judge(results).verdict is f.Verdict.FAILING
    assert judge([], ONE).verdict is f.Verdict.HEALTHY


def test_only_core_rules_make_a_verdict_inconclusive() -> None:
    doubt = f.Inconclusive(reason="no metrics")
    assert judge([outcome(doubt, core=False)], ONE).verdict is f.Verdict.HEALTHY
    assert judge([outcome(doubt)], ONE).verdict is f.Verdict.INCONCLUSIVE


def test_a_finding_without_a_job_counts_for_all() -> None:
    assert judge([outcome(finding(job=None))], TWO).verdict is f.Verdict.DEGRADED


def test_fingerprints_survive_a_redeployment() -> None:
    kept = fingerprint("CP101", "orders", "Map", None)
    assert kept == fingerprint("CP101", "orders", "Map", None)
    others = {
        fingerprint("CP102", "orders", "Map", None),
        fingerprint("CP101", "clicks", "Map", None),
        fingerprint("CP101", "orders", "Sink", None),
        fingerprint("CP101", "orders", None, "Map"),
    }
    assert len(others | {kept}) == 5


def test_instants_outside_the_calendar() -> None:
    assert iso(2**62) is None
    assert iso(-1) == "1969-12-31T23:59:59.999Z"


def test_cut_lists_keep_unhealthy_rows() -> None:
    checkpoints = tuple(
        Checkpoint(
            job=ONE,
            run=1,
            id=number,
            status=Status.EXPIRED if number in (3, 97) else Status.COMPLETED,
            type="checkpoint",
        )
        for number in range(100)
    )
    facts = ClusterFacts(
        jobs=(JobFacts(key=ONE, name=None, version=None, checkpoints=checkpoints),), processes=()
    )
    job = checkpoint_data(facts, (), max_rows=4)[0]
    assert [c.id for c in job.checkpoints] == [0, 1, 3, 97]
    assert job.truncated and job.total.checkpoints == 100
    assert job.counts == {"completed": 98, "expired": 2}
    assert not checkpoint_data(facts, (), max_rows=100)[0].truncated


def source(index: int, **changes: Any) -> Any:
    values = {"name": f"f{index}", "kind": "log", "role": "unknown", "size": 10, "reason": None}
    return SimpleNamespace(index=index, **{**values, **changes})


def test_an_unknown_date_is_a_warning() -> None:
    process = Process(
        source=0,
        label=None,
        role="jobmanager",
        cluster="",
        version=None,
        zone_offset_ms=0,
        zone_from="assumed",
        first_us=6 * 3_600_000_000,
        last_us=30 * 3_600_000_000,
    )
    inputs = describe_inputs([source(0)], [], [process])
    assert (inputs[0].first, inputs[0].last) == (None, None)
    (note,) = unknown_days(inputs, [process])
    assert note.source == "f0" and "no input shows the date" in note.message


def test_inputs_add_up_their_splits() -> None:
    splits = [
        {
            "source": 0,
            "fields": [("bytes", "6"), ("recognised", "2"), ("sample_1", "key=s3cret x")],
        },
        {"source": 0, "fields": {"bytes": "4", "not_understood": "1", "error": "ends early"}},
    ]
    process = Process(
        source=0,
        label=None,
        role="jobmanager",
        cluster="",
        version="1.18.1",
        zone_offset_ms=28_800_000,
        zone_from="trigger-timestamps",
        first_us=1_795_240_800_000_000,
        last_us=1_795_240_801_000_000,
    )
    first, second, third = describe_inputs(
        [source(0), source(1), source(2, kind="not-read", reason="unreadable: Permission denied")],
        splits,
        [process],
    )
    assert (first.bytes, first.recognised, first.not_understood) == (10, 2, 1)
    assert (first.role, first.version, first.zone) == ("jobmanager", "1.18.1", "UTC+08:00")
    assert (first.first, first.last) == ("2026-11-21T06:00:00.000Z", "2026-11-21T06:00:01.000Z")
    assert unknown_days([first, second, third], [process]) == []
    assert (second.role, second.bytes, second.zone) == ("unknown", 10, None)
    assert [(note.source, note.message) for note in input_problems([first, second, third])] == [
        ("f0", "ends early"),
        ("f2", "unreadable: Permission denied"),
    ]


def test_printed_times_need_a_zone() -> None:
    us = 1_543_516_980_000_000
    splits = [{"source": 0, "fields": {"first_us": str(us), "last_us": "5000"}}]
    process = Process(source=0, label=None, role="x", cluster="", zone_offset_ms=28_800_000)
    assert describe_inputs([source(0)], splits)[0].first is None
    known = describe_inputs([source(0)], splits, [process])[0]
    assert (known.first, known.last) == ("2018-11-29T10:43:00.000Z", None)
