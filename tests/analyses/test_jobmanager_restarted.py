"""CP313: a JobManager restarts, or another takes over, while a job runs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from flowdiag.analyses.checkpoints.rules import RULES
from flowdiag.analyses.flink.job import ClusterFacts, Incident, JobFacts
from flowdiag.analyses.model.finding import Finding, Severity, State, Verdict
from flowdiag.analyses.model.keys import JobKey, Ref
from flowdiag.analyses.report.verdicts import judge

from .judged import outcomes_of
from .workbench import SECOND, T0, Bench

DOWN = 330.0  # seconds: after five checkpoints, one a minute


def elected(second: float, source: int = 0, template: str = "leadership-granted") -> Incident:
    return Incident(
        kind="leadership",
        time_us=T0 + round(second * SECOND),
        text={"template": template, "component": "DefaultDispatcherRunner"},
        ref=Ref(source, round(second)),
    )


def findings_of(facts: ClusterFacts) -> list[Finding]:
    outcomes = outcomes_of(RULES, facts)
    assert all(culprit.subject.kind == "process" for culprit in judge(outcomes).culprits)
    return [f for outcome in outcomes if outcome.code == "CP313" for f in outcome.findings]


def recovered(**restored: int) -> Bench:
    """Return a job that resumes under the same ID some seconds after an election."""
    job = Bench()
    job.completes(5)
    job.now_s = DOWN + 20
    job.happens("restored", **restored)
    job.happens("job-running")
    job.completes(3)
    return job


def test_a_recovered_job_keeps_its_id() -> None:
    job = recovered(checkpoint=5)
    (finding,) = findings_of(job.facts(incidents=(elected(-30), elected(DOWN), elected(DOWN + 1))))
    assert (finding.cause, finding.state) == ("jobmanager-lost", State.RECOVERED)
    assert (finding.severity, finding.subject.kind) == (Severity.WARNING, "process")
    assert (finding.first_us, finding.count) == (job.at(241), 1)
    assert finding.last_us == job.checkpoints[5].ended_us
    assert "recovered from checkpoint 5 under the same ID" in finding.explain
    assert (
        judge(outcomes_of(RULES, job.facts(incidents=(elected(DOWN),)))).verdict is Verdict.DEGRADED
    )
    assert "1 min 29 s after the last record" in finding.title


def test_a_stopped_jobmanager_is_mentioned() -> None:
    job = recovered(checkpoint=5)
    job.happens("suspended", DOWN - 20)
    (finding,) = findings_of(job.facts(incidents=(elected(DOWN),)))
    assert finding.severity is Severity.INFO


def _resubmitted(second: float) -> tuple[JobFacts, JobFacts]:
    """Return a job without a recorded end, and a later job of the same name."""
    old, new = Bench(), Bench(key=JobKey("", "b" * 32), now_s=second)
    old.completes(5)
    new.happens("submitted")
    new.completes(3)
    return old.job(), new.job(first_us=new.at(second))


def test_a_resubmitted_job_has_another_id() -> None:
    old, new = _resubmitted(DOWN + 10)
    # Tasks fail when their heartbeats time out, which may be after the election.
    lapsed = Incident(
        kind="task-failure", time_us=T0 + round((DOWN + 5) * SECOND), text={"role": "taskmanager"}
    )
    old = replace(old, incidents=(*old.incidents, lapsed), last_us=lapsed.time_us)
    facts = Bench().facts(jobs=(old, new), incidents=(elected(-30), elected(DOWN, source=1)))
    (finding,) = findings_of(facts)
    assert (finding.job, finding.state) == (new.key, State.RECOVERED)
    assert f"resubmitted, not recovered. Its old ID is {'a' * 32}" in finding.explain


@pytest.mark.parametrize(
    ("name", "later_s", "elsewhere"),
    [("another", 10.0, False), ("orders", 9000.0, False), ("orders", 10.0, True)],
)
def test_logs_of_two_clusters_are_not_a_restart(name: str, later_s: float, elsewhere: bool) -> None:
    old, new = _resubmitted(DOWN + later_s)
    attempts = [replace(a, taskmanager=f"far-{a.taskmanager}") for a in new.attempts]
    new = replace(new, name=name, attempts=tuple(attempts) if elsewhere else new.attempts)
    at = elected(DOWN + later_s - 5, source=1)
    assert findings_of(Bench().facts(jobs=(old, new), incidents=(elected(-30), at))) == []


def test_a_job_missing_from_the_log_of_the_new_jobmanager() -> None:
    job = Bench()
    job.completes(5)
    (finding,) = findings_of(job.facts(incidents=(elected(-30), elected(DOWN))))
    assert (finding.state, finding.severity) == (State.ONGOING, Severity.WARNING)
    assert "do not show whether the job came back" in finding.explain


def test_a_job_that_ended_before_the_restart_is_unaffected() -> None:
    job = Bench()
    job.completes(5)
    job.happens("cancelled", DOWN - 10)
    assert findings_of(job.facts(incidents=(elected(-30), elected(DOWN)))) == []


def test_an_election_does_not_affect_a_job_that_continues() -> None:
    job = Bench()
    job.completes(10)
    assert findings_of(job.facts(incidents=(elected(-30), elected(DOWN)))) == []
    revoked = elected(DOWN, template="leadership-revoked")
    assert findings_of(recovered().facts(incidents=(elected(-30), revoked))) == []
