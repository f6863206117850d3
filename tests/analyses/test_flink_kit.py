"""Constructors of findings, votes and remedies of a Flink job."""

from __future__ import annotations

from typing import Any, Final

import pytest

from flowdiag.analyses.flink.failures.episodes import episodes
from flowdiag.analyses.flink.helpers import (
    Job,
    checkpoint_finding,
    crisis_finding,
    episode_finding,
    incident_finding,
    jobs_of,
    outcome_text,
    remedies,
    shared_remedies,
    subtask_finding,
    taskmanager_finding,
    votes_for,
)
from flowdiag.analyses.flink.options import names_of
from flowdiag.analyses.knowledge.causes import CAUSES, SHARED
from flowdiag.analyses.model.finding import CurrentValue, Origin, Rank, Severity, State, Vote
from flowdiag.analyses.model.signals import Signal

from .workbench import Bench

TEXTS: Final[dict[str, Any]] = {"title": "t", "explain": "e", "rank": Rank.SYMPTOM}
SURE: Final[dict[str, Any]] = {"severity": Severity.INFO, "state": State.RECOVERED}


def job_of(bench: Bench) -> Job:
    (job,) = jobs_of(bench.facts())
    return job


def test_a_subtask_is_named_by_its_attempt_or_by_a_record() -> None:
    bench = Bench()
    bench.completes(2)
    record = bench.happens("task-stuck", task="enrich", subtask_index=1, parallelism=4)
    job = job_of(bench)
    for who in (bench.attempt("enrich", 1), record):
        subject = subtask_finding(job, who, **TEXTS, **SURE).subject
        assert (subject.kind, subject.task, subject.subtask_index) == ("subtask", "enrich", 1)
        assert (subject.job_id, subject.job_name) == (job.key.job_id, job.name)


def test_a_taskmanager_is_known_by_its_id_by_its_host_or_not_at_all() -> None:
    bench = Bench()
    bench.completes(1)
    job = job_of(bench)
    by_id = taskmanager_finding(job, "tm-2", "host-2", **TEXTS, **SURE)
    assert (by_id.subject.kind, by_id.subject.taskmanager) == ("taskmanager", "tm-2")
    assert taskmanager_finding(job, None, "host-2", **TEXTS, **SURE).subject.host == "host-2"
    assert taskmanager_finding(job, None, None, **TEXTS, **SURE).subject.kind == "job"
    without_job = taskmanager_finding(None, "tm-2", **TEXTS, **SURE)
    assert without_job.job is None and without_job.subject.job_id is None


def test_printed_options_override_inferred_ones() -> None:
    bench = Bench()
    completed = bench.completes(4)
    found = checkpoint_finding(
        job_of(bench), completed[:2], among=completed, ongoing=False, **TEXTS
    )
    assert (found.state, found.severity, found.count) == (State.RECOVERED, Severity.WARNING, 2)
    assert (found.first_us, found.last_us) == (completed[0].triggered_us, completed[1].ended_us)
    assert len(found.evidence) == found.evidence_count == 2
    finding = checkpoint_finding(
        job_of(bench), completed[:2], among=completed, ongoing=True, count=7, **TEXTS
    )
    assert (finding.state, finding.count) == (State.ONGOING, 7)


def test_episodes_that_last_to_the_end_are_critical() -> None:
    bench = Bench()
    bench.completes(5)
    bench.expires(3)
    job = job_of(bench)
    found = episode_finding(job, episodes(job), 3, **TEXTS)
    assert (found.state, found.severity, found.count) == (State.ONGOING, Severity.CRITICAL, 3)
    assert episode_finding(job, episodes(job), 3, fatal=False, **TEXTS).severity is Severity.WARNING


def test_crises_cite_the_last_root_first() -> None:
    bench = Bench()
    bench.completes(3)
    first = bench.happens("task-failure", task="enrich", subtask_index=0, cause="java.lang.A: a")
    bench.now_s += 10
    bench.completes(3)
    last = bench.happens("task-failure", task="enrich", subtask_index=0, cause="java.lang.A: a")
    bench.now_s += 10
    job = job_of(bench)
    assert len(job.crises) == 2
    found = crisis_finding(job, job.crises, **TEXTS)
    assert found.ranked and found.state is State.ONGOING and found.count == 2
    assert [e.offset for e in found.evidence] == [
        ref.offset for ref in (last.ref, first.ref) if ref is not None
    ]
    assert outcome_text(job.crises[0]) == ""
    assert outcome_text(job.crises[-1]) == "; the job has not recovered"


def test_records_are_all_cited() -> None:
    bench = Bench()
    records = [bench.happens("not-triggered", second=float(n)) for n in range(25)]
    found = incident_finding(job_of(bench), records, ongoing=True, **TEXTS)
    assert (found.count, found.evidence_count, len(found.reported_evidence)) == (25, 25, 10)
    assert (found.first_us, found.last_us) == (records[0].time_us, records[-1].time_us)


def test_votes_have_the_published_weights() -> None:
    table = (Signal("busy", 2, "…"), Signal("late", -1, "…"))
    assert votes_for({"late": "3/4", "busy": None}, table) == (
        Vote(signal="late", text="3/4", weight=-1),
    )
    with pytest.raises(KeyError, match="idle"):
        votes_for({"idle": "1/4"}, table)


def test_remedies_fit_the_version_and_the_current_value() -> None:
    new, old = Bench(version="1.20.5"), Bench(version="1.9.3")
    for bench in (new, old):
        bench.completes(1)
    assert [a.option for a in remedies("finished-tasks", job_of(new), "let-them-finish")] == [
        "execution.checkpointing.checkpoints-after-tasks-finish.enabled"
    ]
    assert remedies("finished-tasks", job_of(old), "let-them-finish") == ()
    (advice,) = remedies("slow-taskmanager", job_of(new), "look-at-machine", place="tm-2")
    assert advice.text.startswith("Check the host of tm-2: ")
    current = CurrentValue("10 min", Origin.DEFAULT)
    (remedy,) = shared_remedies(job_of(new), "more-time", current=current)
    # The configured value overrides the value that the rule knows.
    assert (remedy.option, remedy.current) == (
        "execution.checkpointing.timeout",
        CurrentValue("10 min"),
    )
    assert remedy.proposed is None and remedy.measure


def test_every_option_of_a_remedy_is_known() -> None:
    options = {
        remedy.option
        for remedy in (
            *SHARED.values(),
            *(each for cause in CAUSES.values() for each in (cause.remedies or {}).values()),
        )
        if remedy.option is not None and "." not in remedy.option
    }
    assert options and all(names_of(option) for option in options)
