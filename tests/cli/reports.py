"""Synthetic reports of each kind for the tests of renderers."""

from __future__ import annotations

from dataclasses import replace

from msgspec import structs

from flowdiag.analyses.checkpoints.data import checkpoint_data
from flowdiag.analyses.contract import report as wire
from flowdiag.analyses.flink import job as x
from flowdiag.analyses.model import finding as f
from flowdiag.analyses.model.keys import JobKey, Ref
from flowdiag.analyses.model.option_types import write
from flowdiag.analyses.report.build import ReportBuilder
from flowdiag.analyses.report.evidence import Key, LocatedRecord
from flowdiag.analyses.selection.options import LOCAL_USE, Privacy

JOB = JobKey("", "a1b2c3d4e5f60718293a4b5c6d7e8f90")
START_US = 1_543_487_400_000_000  # 2018-11-29T10:30:00Z, 18:30 in the log
MINUTE_US = 60_000_000


def inputs(**changes: object) -> list[wire.Input]:
    """Return the JobManager's log in UTC+08:00, a TaskManager's log, and a file that is not a log."""
    manager = wire.Input(
        source="logs/jobmanager.log",
        kind="log",
        role="jobmanager",
        version="1.18.1",
        bytes=3_200_000,
        candidates=500,
        recognised=412,
        not_understood=0,
        first="2018-11-29T10:30:00.000Z",
        last="2018-11-29T11:02:11.000Z",
        zone="UTC+08:00",
        zone_from="trigger-timestamps",
        clock_offset_ms=None,
    )
    worker = wire.Input(
        source="logs/taskmanager-3.log.gz",
        kind="log",
        role="taskmanager",
        version="1.18.1",
        bytes=45_000,
        candidates=70,
        recognised=61,
        not_understood=0,
        first="2018-11-29T10:30:02.000Z",
        last="2018-11-29T11:02:09.000Z",
        zone="UTC+08:00",
        zone_from="transitions",
        clock_offset_ms=-1200,
    )
    other = wire.Input(
        source="logs/core.4711",
        kind="not-read",
        role="unknown",
        version=None,
        bytes=91_000_000,
        candidates=0,
        recognised=0,
        not_understood=0,
        first=None,
        last=None,
        zone=None,
        clock_offset_ms=None,
        reason="binary data",
    )
    changed = {**{name: getattr(manager, name) for name in manager.__struct_fields__}, **changes}
    return [wire.Input(**changed), worker, other]


def checkpoint(number: int, status: x.Status = x.Status.COMPLETED, **more: object) -> x.Checkpoint:
    """Return a checkpoint. There is one per minute, and expired checkpoints took ten minutes."""
    triggered = START_US + number * MINUTE_US
    duration = 600_000 if status is x.Status.EXPIRED else 1_000 + 40 * number
    values: dict[str, object] = {
        "job": JOB,
        "run": 1,
        "id": 200 + number,
        "status": status,
        "type": "checkpoint",
        "triggered_us": triggered,
        "ended_us": None if status is x.Status.IN_FLIGHT else triggered + duration * 1000,
        "duration_ms": None if status is x.Status.IN_FLIGHT else duration,
        "bytes": 3_000_000 if status is x.Status.COMPLETED else None,
    }
    return x.Checkpoint(**{**values, **more})  # type: ignore[arg-type]


def attempts(late_on: str = "tm-3") -> list[x.Attempt]:
    """Return six subtasks of a map, two on each of three TaskManagers, and a sink."""
    return [
        x.Attempt(
            job=JOB,
            attempt_id=f"{len(task):016x}{index:016x}",
            task=task,
            subtask_index=index,
            parallelism=parallelism,
            attempt=0,
            taskmanager=f"tm-{index % 3 + 1}",
            host=f"worker-{index % 3 + 1}.example",
        )
        for task, parallelism in (("Map", 9), ("Sink: out", 3))
        for index in range(parallelism)
    ]


def late(attempt: x.Attempt, number: int) -> x.LateAcknowledgement:
    """Return an acknowledgement that arrived 22 s after the checkpoint expired."""
    return x.LateAcknowledgement(
        job=JOB,
        run=1,
        checkpoint=200 + number,
        attempt=attempt,
        received_us=START_US + number * MINUTE_US + 622_000_000,
        after_trigger_ms=622_000,
        after_expiry_ms=22_000,
        expired=True,
        ref=Ref(0, 9_000 + number),
    )


def job_facts(*, is_failing: bool, **more: object) -> x.JobFacts:
    """Return a job with four consecutive expired checkpoints, or a healthy job."""
    statuses = {number: x.Status.COMPLETED for number in range(32)}
    if is_failing:
        statuses |= dict.fromkeys(range(24, 28), x.Status.EXPIRED)
        statuses |= {29: x.Status.DECLINED, 31: x.Status.IN_FLIGHT}
    placed = attempts()
    slow = [attempt for attempt in placed if attempt.taskmanager == "tm-3"]
    slow.append(placed[0])
    values: dict[str, object] = {
        "key": JOB,
        "name": "orders",
        "version": "1.18.1",
        "checkpoints": tuple(checkpoint(number, status) for number, status in statuses.items()),
        "attempts": tuple(placed),
        "late": tuple(late(attempt, 24) for attempt in slow) if is_failing else (),
    }
    return x.JobFacts(**{**values, **more})  # type: ignore[arg-type]


def expired(**changes: object) -> f.Finding:
    """Return the finding about expired checkpoints, the symptom in these reports."""
    values: dict[str, object] = {
        "job": JOB,
        "severity": f.Severity.WARNING,
        "state": f.State.ONGOING,
        "subject": f.Subject(kind="job", job_id=JOB.job_id, job_name="orders"),
        "title": "4 of 31 checkpoints expired, up to 4 in a row",
        "explain": "A checkpoint expires when one subtask has not acknowledged it in time.",
        "first_us": START_US + 24 * MINUTE_US,
        "last_us": START_US + 37 * MINUTE_US,
        "count": 4,
        "measurements": (
            f.Measurement(
                name="expired-checkpoints",
                value=4,
                unit="checkpoints",
                threshold=1,
                population="31 that ended",
            ),
            f.Measurement(name="timeout", value=600_000, unit="ms"),
        ),
        "evidence": (
            f.Evidence(0, 1000, START_US + 34 * MINUTE_US),
            f.Evidence(0, 2000, START_US + 35 * MINUTE_US),
        ),
        "evidence_total": 4,
        "actions": (
            f.Action(
                text="Raise the timeout if the slow part is slow for a good reason",
                option="execution.checkpointing.timeout",
                current=f.CurrentValue("10 min"),
                proposed=write("execution.checkpointing.timeout", 1_200_000),
                risk="a failure throws the job back further",
                restart_needed=True,
                verify="checkpoints complete",
            ),
        ),
    }
    return f.Finding(**{**values, **changes})  # type: ignore[arg-type]


def slow_taskmanager(**changes: object) -> f.Finding:
    """Return the finding that names the culprit."""
    values: dict[str, object] = {
        "job": JOB,
        "severity": f.Severity.CRITICAL,
        "state": f.State.ONGOING,
        "subject": f.Subject(
            kind="taskmanager",
            job_id=JOB.job_id,
            job_name="orders",
            taskmanager="tm-3",
            host="worker-3.example",
        ),
        "title": "TaskManager tm-3 is slow",
        "why": "4 of its 4 subtasks acknowledged too late, 1.7 expected by placement",
        "cause": "slow-taskmanager",
        "rank": f.Rank.ROOT_CAUSE,
        "explain": "All subtasks of one machine are late, those of the others are not.",
        "first_us": START_US + 24 * MINUTE_US,
        "last_us": START_US + 37 * MINUTE_US,
        "measurements": (
            f.Measurement(
                name="late-ratio", value=2.4, unit="ratio", threshold=2, population="3 TaskManagers"
            ),
        ),
        "votes": (
            f.Vote(signal="late-acknowledgements", text="4 of 5 come from tm-3", weight=2),
            f.Vote(signal="busy-time", text="tm-3 is busiest", weight=1),
        ),
        "confidence": f.Confidence.HIGH,
        "evidence": (f.Evidence(0, 3000, START_US + 35 * MINUTE_US),),
    }
    return f.Finding(**{**values, **changes})  # type: ignore[arg-type]


LOCATED: dict[Key, LocatedRecord] = {
    (0, 1000, None): LocatedRecord(
        8812,
        "2018-11-29 18:43:04,123 INFO  o.a.f.r.checkpoint.CheckpointCoordinator - "
        "Checkpoint 224 of job a1b2 expired before completing.",
    ),
    (0, 2000, None): LocatedRecord(8990, "Checkpoint 225 of job a1b2 expired before completing."),
    (0, 3000, None): LocatedRecord(8991, "Late message for now expired checkpoint 224 from Map-2"),
}


def outcome(code: str, name: str, *results: f.Finding | f.Inconclusive) -> f.RuleOutcome:
    return f.RuleOutcome(
        code=code,
        name=name,
        title=name.replace("-", " ").capitalize(),
        core=code != "CP104",
        findings=tuple(item for item in results if isinstance(item, f.Finding)),
        inconclusive=tuple(item for item in results if isinstance(item, f.Inconclusive)),
    )


def build(
    job: x.JobFacts | None,
    *outcomes: f.RuleOutcome,
    located: dict[Key, LocatedRecord] = LOCATED,
    privacy: Privacy = LOCAL_USE,
    warnings: tuple[wire.Note, ...] = (),
    **changes: object,
) -> wire.Report:
    """Return a report about a job or, without one, without data."""
    facts = x.ClusterFacts(jobs=(job,) if job else (), processes=())
    return ReportBuilder(
        command="checkpoints",
        inputs=inputs(**changes),
        outcomes=outcomes,
        names={JOB: "orders"},
        data=wire.Data(jobs=checkpoint_data(facts, outcomes)),
        located=located,
        assessed=job is not None,
        warnings=warnings,
        privacy=privacy,
    ).build()


def failing(**more: object) -> wire.Report:
    """Return a report with a slow TaskManager and its consequences."""
    return build(
        job_facts(is_failing=True),
        outcome("CP101", "checkpoint-expired", expired()),
        outcome("CP104", "checkpoint-growing"),
        outcome("CP201", "slow-taskmanager", slow_taskmanager()),
        **more,  # type: ignore[arg-type]
    )


def many(count: int) -> wire.Report:
    """Return a report on `count` jobs. Of every ten, five have a slow TaskManager, two have no
    culprit, and three are healthy."""
    jobs, expiries, culprits, names = [], [], [], {}
    for number in range(count):
        key = JobKey("", f"{number:032x}")
        name = f"orders-{number}"
        kind = number % 10
        facts = job_facts(is_failing=kind < 7, key=key, name=name)
        moved = [replace(checkpoint, job=key) for checkpoint in facts.checkpoints]
        jobs.append(replace(facts, checkpoints=tuple(moved), late=(), attempts=()))
        names[key] = name
        subject = f.Subject(kind="job", job_id=key.job_id, job_name=name)
        if kind < 7:
            expiries.append(expired(job=key, subject=subject))
        if kind < 5:
            found = slow_taskmanager()
            subject = structs.replace(found.subject, job_id=key.job_id, job_name=name)
            culprits.append(replace(found, job=key, subject=subject))
    outcomes = (
        outcome("CP101", "checkpoint-expired", *expiries),
        outcome("CP201", "slow-taskmanager", *culprits),
    )
    facts_of_all = x.ClusterFacts(jobs=tuple(jobs), processes=())
    return ReportBuilder(
        command="checkpoints",
        inputs=inputs(),
        outcomes=outcomes,
        names=names,
        data=wire.Data(jobs=checkpoint_data(facts_of_all, outcomes)),
        located=LOCATED,
        assessed=True,
    ).build()


def healthy() -> wire.Report:
    """Return a report without findings."""
    return build(
        job_facts(is_failing=False),
        outcome("CP101", "checkpoint-expired"),
        outcome("CP201", "slow-taskmanager"),
    )


def inconclusive() -> wire.Report:
    """Return a report with an inconclusive core rule."""
    return build(
        job_facts(is_failing=False, checkpoints=(checkpoint(0, x.Status.IN_FLIGHT),)),
        outcome(
            "CP101",
            "checkpoint-expired",
            f.Inconclusive(
                reason="no input shows how checkpoints ended",
                checks=("checkpoint-statistics",),
                job=JOB,
            ),
        ),
        outcome("CP201", "slow-taskmanager"),
    )


def nothing() -> wire.Report:
    """Return a report without checkpoints in the inputs."""
    return build(None)


def hostile() -> wire.Report:
    """Return a report with injection attempts in names and texts."""
    evil = "[red]\x1b[31m</script><script>alert(1)</script>\u202e`|@all\n::error::x"
    facts = job_facts(is_failing=True)
    subject = f.Subject(kind="task", task=f"Map {evil}", job_id=JOB.job_id)
    located: dict[Key, LocatedRecord] = {
        (0, 1000, None): LocatedRecord(1, f.Evidence.__name__ + evil)
    }
    return build(
        facts,
        outcome(
            "CP101",
            "checkpoint-expired",
            expired(
                title=f"Title {evil}",
                explain=f"Explain {evil}",
                why=f"Why {evil}",
                subject=subject,
                evidence=(f.Evidence(0, 1000),),
                evidence_total=None,
            ),
        ),
        located=located,
        source=f"logs/{evil}.log",
        samples=[evil],
        not_understood=3,
    )
