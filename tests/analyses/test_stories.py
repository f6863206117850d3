"""Stories of linked findings, and the table of relations. No Spark."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowdiag.analyses.contract.report import Data, Story
from flowdiag.analyses.knowledge.causes import CAUSES
from flowdiag.analyses.knowledge.relations import RELATIONS, Relation, SharedProperty
from flowdiag.analyses.model.finding import (
    Confidence,
    Finding,
    RuleOutcome,
    Severity,
    State,
    Subject,
)
from flowdiag.analyses.model.keys import JobKey
from flowdiag.analyses.report import stories
from flowdiag.analyses.report.build import ReportBuilder
from flowdiag.analyses.report.verdicts import judge
from flowdiag.analyses.topics import all_rules

JOB, OTHER = JobKey("", "a" * 32), JobKey("", "b" * 32)
MINUTE = 60_000_000
RULES = {rule.code: rule for rule in all_rules()}
EXPLAINED = sorted({code for relation in RELATIONS for code in relation.explain})


def found(
    cause: str | None = None,
    *,
    job: JobKey | None = JOB,
    at: tuple[int, int] | None = (0, 10),
    title: str = "title",
    **about: Any,
) -> Finding:
    """Return a finding that lasts for some minutes."""
    return Finding(
        job=job,
        severity=about.pop("severity", Severity.WARNING),
        state=about.pop("state", State.ONGOING),
        rank=about.pop("rank", 30),
        why=about.pop("why", f"accused of {cause}" if cause else None),
        subject=Subject(kind=about.pop("kind", "job"), **about),
        title=title,
        explain="",
        cause=cause,
        first_us=None if at is None else at[0] * MINUTE,
        last_us=None if at is None else at[1] * MINUTE,
    )


def stories_and_codes(*findings: tuple[str, Finding]) -> tuple[list[Story], dict[str, str]]:
    """Return the stories of a report, and its finding codes by fingerprint."""
    outcomes = [
        RuleOutcome(code=code, name=code.lower(), title=code, core=False, findings=(finding,))
        for code, finding in findings
    ]
    report = ReportBuilder(
        command="diagnose",
        inputs=(),
        outcomes=outcomes,
        names={},
        data=Data(),
        located={},
        assessed=True,
    ).build()
    return report.summary.stories, {found.fingerprint: found.code for found in report.findings}


def codes(story: Story, known: dict[str, str]) -> list[str]:
    return [known[mark] for mark in story.findings]


# --- the table ------------------------------------------------------------------------------------


@pytest.mark.parametrize("relation", RELATIONS, ids=lambda row: row.clause)
def test_relations_name_existing_rules_and_causes(relation: Relation) -> None:
    assert set(relation.causes) <= set(CAUSES)
    assert {*relation.rules, *relation.explain} <= set(RULES)
    assert relation.causes or relation.rules
    # A rule that explains itself would put the finding of one job under that of another.
    if not relation.same_cause and not relation.causes:
        assert set(relation.rules).isdisjoint(relation.explain)
    assert relation.source
    assert not relation.clause.endswith(".")


def test_every_cause_of_a_relation_is_a_cause_of_a_rule() -> None:
    rule_causes = {cause for rule in RULES.values() for cause in rule.causes}
    assert {cause for row in RELATIONS for cause in row.causes} <= rule_causes


# --- what is made of it ---------------------------------------------------------------------------


def test_expiries_full_queues_and_a_restart_are_one_story() -> None:
    enrich: dict[str, Any] = {
        "kind": "subtask",
        "task": "enrich",
        "subtask_index": 0,
        "taskmanager": "tm-2",
    }
    (story,), known = stories_and_codes(
        ("CP101", found(at=(2, 10), severity=Severity.CRITICAL, title="9 of 15 expired")),
        ("BP103", found(at=(1, 10), title="the input of enrich (1/4) is full", **enrich)),
        ("SK101", found("data-skew", rank=15, title="enrich (1/4) is hot", **enrich)),
        ("CP304", found(at=(5, 5), title="failed for its failed checkpoints")),
        ("CP311", found(at=(5, 6), title="3 restarts")),
    )
    assert codes(story, known) == ["SK101", "CP101", "BP103", "CP304", "CP311"]
    assert (story.cause, story.severity, story.subject.task) == ("data-skew", "critical", "enrich")
    ways = [(known[one.fingerprint], known[one.of]) for one in story.because]
    assert ways[2:] == [("CP304", "CP101"), ("CP311", "CP304")]
    assert story.narrative.startswith("enrich (1/4) is hot. ")
    assert "9 of 15 expired" in story.narrative


@pytest.mark.parametrize(("sure", "cause"), [(True, None), (False, "taskmanager-lost")])
def test_a_late_subtask_explains_expiries_better_than_an_earlier_loss(
    sure: bool, cause: str | None
) -> None:
    """A JobManager's log alone does not show why a subtask is late."""
    enrich: dict[str, Any] = {"kind": "subtask", "task": "enrich", "subtask_index": 0}
    late = found(at=(2, 10), severity=Severity.CRITICAL, rank=20, why="late in 9 of 9", **enrich)
    lost = found("taskmanager-lost", at=(1, 2), rank=20, kind="taskmanager", taskmanager="tm-3")
    linked, known = stories_and_codes(
        ("CP201", replace(late, confidence=Confidence.MEDIUM if sure else Confidence.LOW)),
        ("CP302", replace(lost, state=State.RECOVERED if sure else State.ONGOING)),
        ("CP101", found(at=(2, 10), severity=Severity.CRITICAL, title="9 of 17 expired")),
    )
    of_expiries = next(story for story in linked if "CP101" in codes(story, known))
    assert codes(of_expiries, known)[0] == ("CP201" if sure else "CP302")
    judged = judge(outcomes_with(late, lost))
    assert judged.cause == "taskmanager-lost"
    over = judge(outcomes_with(late, replace(lost, state=State.RECOVERED)))
    assert (over.cause, over.culprits[0].subject.task) == (None, "enrich")
    assert of_expiries.cause == cause


def outcomes_with(late: Finding, lost: Finding) -> list[RuleOutcome]:
    return [
        RuleOutcome(code=code, name=code.lower(), title=code, core=False, findings=(finding,))
        for code, finding in (("CP201", late), ("CP302", lost))
    ]


def test_garbage_collection_explains_slow_tasks() -> None:
    on: dict[str, Any] = {"taskmanager": "tm-2"}
    stories_, known = stories_and_codes(
        ("CP201", found("slow-taskmanager", kind="taskmanager", rank=20, at=(3, 9), **on)),
        ("CP101", found(at=(4, 9))),
        ("SK104", found("garbage-collection", kind="taskmanager", rank=25, at=(2, 9), **on)),
        ("CP302", found("taskmanager-lost", kind="taskmanager", rank=10, at=(9, 9), **on)),
        ("CP311", found(at=(9, 10))),
    )
    assert [codes(story, known) for story in stories_] == [
        ["SK104", "CP302", "CP201", "CP101", "CP311"]
    ]
    assert stories_[0].cause == "garbage-collection"


def test_a_host_is_not_blamed_for_tasks_elsewhere() -> None:
    stories_, _ = stories_and_codes(
        ("SK104", found("garbage-collection", kind="taskmanager", taskmanager="tm-1")),
        ("CP201", found("slow-subtask", kind="subtask", task="enrich", taskmanager="tm-2")),
    )
    assert len(stories_) == 2


def test_jobs_are_separate_stories() -> None:
    stories_, known = stories_and_codes(
        ("SK101", found("data-skew", task="a", rank=15)),
        ("CP101", found(job=OTHER)),
        ("CP103", found(job=OTHER)),
    )
    assert [codes(story, known) for story in stories_] == [["SK101"], ["CP101"], ["CP103"]]


def test_a_finding_that_ended_long_before_explains_nothing() -> None:
    stories_, _ = stories_and_codes(
        ("SK101", found("data-skew", task="a", at=(0, 5), state=State.RECOVERED)),
        ("CP101", found(at=(60, 70))),
    )
    assert len(stories_) == 2


@pytest.mark.parametrize("cause", ["taskmanager-lost", "process-paused", "out-of-memory"])
def test_unanswered_calls_are_part_of_the_story_of_a_lost_taskmanager(cause: str) -> None:
    lost = found(cause, kind="taskmanager", taskmanager="tm-1", at=(30, 31))
    for name, count in (("tm-1", 1), ("tm-2", 2)):
        calls = found(
            "rpc-trouble", job=None, at=None, kind="taskmanager", taskmanager=name, rank=40
        )
        stories_, _ = stories_and_codes(("CP302", lost), ("ST306", calls))
        assert len(stories_) == count


def test_a_later_finding_does_not_explain_an_earlier_one() -> None:
    stories_, _ = stories_and_codes(
        ("CP302", found("taskmanager-lost", kind="taskmanager", taskmanager="tm-1", at=(30, 31))),
        ("CP311", found(at=(1, 2), state=State.RECOVERED)),
    )
    assert len(stories_) == 2


def test_competing_explanations_are_both_listed() -> None:
    stories_, known = stories_and_codes(
        ("BP104", found("task-hangs", kind="subtask", task="a", subtask_index=1, rank=15)),
        ("BP102", found("slow-operator", kind="task", task="b", rank=16)),
        ("CP101", found(severity=Severity.CRITICAL)),
    )
    assert [codes(story, known) for story in stories_] == [["BP104", "CP101"], ["BP102"]]
    assert [[known[n] for n in story.competing] for story in stories_] == [["BP102"], ["BP104"]]


def test_settings_come_after_events() -> None:
    stories_, known = stories_and_codes(
        ("MM303", found("unmanaged-rocksdb", job=None, at=None, kind="taskmanager")),
        ("CP302", found("taskmanager-lost", state=State.RECOVERED, taskmanager="tm-1")),
    )
    assert [known[story.findings[0]] for story in stories_] == ["CP302", "MM303"]


def test_an_ongoing_finding_without_a_start_is_not_a_setting() -> None:
    """Ongoing back pressure on the source ranks before a backlog that is already processed."""
    begun = found("throttled", kind="application", application="app-1")
    option: dict[str, Any] = {"kind": "option", "option": "maxRate", "application": "app-1"}
    stories_, known = stories_and_codes(
        ("RT205", replace(found("max-rate", **option), first_us=None)),
        ("RT101", found("overloaded", kind="application", state=State.RECOVERED)),
        ("RT203", replace(begun, first_us=None)),
    )
    assert [known[story.findings[0]] for story in stories_] == ["RT203", "RT101", "RT205"]


def test_a_driver_that_works_alone_explains_an_overload() -> None:
    query: dict[str, Any] = {"kind": "query", "query": "orders"}
    (story,), known = stories_and_codes(
        ("RT101", found("overloaded", rank=40, **query)),
        ("RT308", replace(found("driver-gaps", rank=20, **query), first_us=None)),
    )
    assert (codes(story, known), story.cause) == (["RT308", "RT101"], "driver-gaps")


def test_the_culprit_of_more_checkpoints_comes_first() -> None:
    hot: dict[str, Any] = {"kind": "subtask", "task": "aggregate", "subtask_index": 1, "rank": 30}
    failing: dict[str, Any] = {"kind": "subtask", "task": "enrich", "subtask_index": 0, "rank": 10}

    def first(expired: int, declined: int) -> tuple[str | None, str | None]:
        critical: dict[str, Any] = {"severity": Severity.CRITICAL}
        findings = (
            ("CP301", found("snapshot-exception", **failing, **critical)),
            ("CP103", replace(found(**critical), count=declined)),
            ("CP201", replace(found("data-skew", **hot, **critical), count=expired)),
        )
        outcomes = [
            RuleOutcome(code=code, name=code, title=code, core=False, findings=(each,))
            for code, each in findings
        ]
        judged = judge(outcomes, JOB)
        return judged.cause, judged.culprits[0].subject.task

    assert first(expired=9, declined=4) == ("data-skew", "aggregate")
    assert first(expired=3, declined=8) == ("snapshot-exception", "enrich")


def test_info_findings_are_in_no_story() -> None:
    assert stories_and_codes(("CP104", found(severity=Severity.INFO)))[0] == []


_FINDINGS = st.lists(
    st.tuples(
        st.sampled_from(sorted(RULES)),
        st.builds(
            lambda cause, job, begin, tm, task, rank: found(
                cause,
                job=job,
                at=(begin, begin + 3),
                taskmanager=tm,
                task=task,
                rank=rank,
                state=State.ONGOING if begin % 2 else State.RECOVERED,
            ),
            st.sampled_from([None, *sorted(CAUSES)]),
            st.sampled_from([JOB, OTHER, None]),
            st.integers(0, 9),
            st.sampled_from([None, "tm-1", "tm-2"]),
            st.sampled_from([None, "enrich", "sink"]),
            st.sampled_from([10, 20, 30]),
        ),
    ),
    max_size=12,
)


@given(_FINDINGS)
def test_every_finding_is_in_one_story_and_every_chain_ends_at_its_root(
    findings: list[tuple[str, Finding]],
) -> None:
    stories_, known = stories_and_codes(*findings)
    assert len(known) == len(findings)  # no two have the same fingerprint
    marks = [mark for story in stories_ for mark in story.findings]
    assert sorted(marks) == sorted(known)
    for story in stories_:
        root = story.findings[0]
        of = {one.fingerprint: one.of for one in story.because}
        assert [root, *of] == story.findings
        for one in story.because:
            mark, steps = one.of, 1
            while mark != root:
                mark, steps = of[mark], steps + 1
                assert steps <= len(of)
        assert root not in story.competing


def test_the_cost_of_many_jobs_is_the_sum_of_their_costs(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = 0
    fits = stories._fits

    def counting(*arguments: Any) -> bool:
        nonlocal compared
        compared += 1
        return fits(*arguments)

    def cost(jobs: int) -> int:
        nonlocal compared
        compared = 0
        findings: list[tuple[str, Finding]] = []
        for number in range(jobs):
            job = JobKey("", f"{number:032x}")
            findings += [("SK101", found("data-skew", job=job)), ("CP101", found(job=job))]
        assert len(stories_and_codes(*findings)[0]) == jobs
        return compared

    monkeypatch.setattr(stories, "_fits", counting)
    assert cost(200) == 10 * cost(20)


def test_shared_subjects_need_the_same_names() -> None:
    def shares(one: dict[str, Any], other: dict[str, Any]) -> bool:
        return stories._shares(SharedProperty.SUBJECT, found(**one), found(**other))

    def names(**about: Any) -> dict[str, Any]:
        return {"kind": "subtask", **about}

    assert shares(names(task="a", subtask_index=0), names(task="a", subtask_index=0))
    assert not shares(names(task="a", subtask_index=0), names(task="a", subtask_index=1))
    assert not shares(names(task="a"), names(task="b"))
    assert shares(names(taskmanager="tm-1"), names(taskmanager="tm-1"))
    assert not shares(names(taskmanager="tm-1"), names(taskmanager="tm-2"))


def test_records_that_kafka_deleted_and_the_failed_batches_are_one_incident() -> None:
    cause = "offsets-out-of-range"
    stories, known = stories_and_codes(
        ("RT305", found(cause, rank=10, kind="partition", partition="orders-3")),
        ("RT103", found(cause, rank=30)),
    )
    assert [codes(story, known) for story in stories] == [["RT305", "RT103"]]


def test_a_process_out_of_memory_and_the_restarts_after_it_are_one_incident() -> None:
    stories, known = stories_and_codes(
        ("CP303", found("out-of-memory", rank=9, kind="taskmanager", taskmanager="tm-1")),
        ("CP301", found("task-failure", rank=10, at=(1, 10))),
        ("CP311", found(at=(1, 20))),
        ("ST102", found("task-failure", at=(1, 20))),
    )
    assert [codes(story, known)[0] for story in stories] == ["CP303"]
    assert len(stories[0].findings) == 4
