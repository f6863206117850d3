"""The next evidence: every cause has some, and the report picks the cheapest that is not among its inputs."""

from __future__ import annotations

import re
from typing import Any

import pytest
from msgspec import structs

from flowdiag.analyses.contract import report as wire
from flowdiag.analyses.knowledge.causes import CAUSES, CHECKS
from flowdiag.analyses.model.finding import (
    Confidence,
    Finding,
    Inconclusive,
    RuleOutcome,
    Severity,
    State,
    Subject,
    Vote,
)
from flowdiag.analyses.model.keys import JobKey
from flowdiag.analyses.rate.assessment import assess
from flowdiag.analyses.rate.data import rate_data
from flowdiag.analyses.rate.facts import RateFacts
from flowdiag.analyses.report.build import ReportBuilder
from flowdiag.analyses.report.suggestions import Inputs, _Place, phrase_of
from flowdiag.analyses.selection.options import Privacy
from flowdiag.analyses.topics import all_rules
from flowdiag.cli.text import words
from tests.cli.reports import checkpoint, inputs, job_facts

from . import rate_workbench as spark

JOB = "a1b2c3d4e5f60718293a4b5c6d7e8f90"
CONTAINER = "container_e17_1612345678901_0042_01_000003"


def found(code: str, cause: str | None, **changes: Any) -> RuleOutcome:
    subject = changes.pop("subject", {})
    arguments: dict[str, Any] = {
        "job": JobKey(cluster="c", job_id=JOB),
        "severity": Severity.CRITICAL,
        "state": State.ONGOING,
        "subject": Subject(**{"kind": "job", "job_id": JOB} | subject),
        "title": "t",
        "explain": "e",
        "cause": cause,
        "why": "it is so",
    }
    one = Finding(**(arguments | changes))
    return RuleOutcome(code=code, name="n", title="t", core=True, findings=(one,))


def built(*outcomes: RuleOutcome, files: Any = (), **more: Any) -> wire.Report:
    arguments: dict[str, Any] = {
        "command": "diagnose",
        "names": {},
        "data": wire.Data(),
        "located": {},
    }
    return ReportBuilder(
        **(arguments | {"outcomes": outcomes, "inputs": files, "assessed": True} | more)
    ).build()


def file(**changes: Any) -> wire.Input:
    return structs.replace(inputs()[0], **({"role": "unknown"} | changes))


# --- the catalogue -------------------------------------------------------------------------------


@pytest.mark.parametrize("word", CAUSES)
def test_every_cause_has_checks_for_each_engine_that_names_it(word: str) -> None:
    checks = CAUSES[word].checks
    assert checks, "list what would confirm it or rule it out under [CAUSE.checks]"
    assert checks.keys() <= CHECKS.keys()
    for confirms, refutes in checks.values():
        assert confirms and refutes and confirms != refutes


@pytest.mark.parametrize("rule", all_rules(), ids=lambda rule: rule.code)
def test_every_rule_has_a_check_for_each_of_its_causes(rule: Any) -> None:
    for cause in (*rule.causes, None):
        made = built(found(rule.code, cause, confidence=Confidence.LOW))
        engines = {CHECKS[each.check or ""].engine for each in made.summary.suggestions}
        other = "flink" if rule.code.startswith("RT") else "spark"
        assert engines and other not in engines, (rule.code, cause)


def test_an_unrecognized_failure_needs_the_log_of_its_own_process() -> None:
    """The failure does not show the engine for certain: a TaskManager's log would mislead users of Spark."""
    for code in ("CP314", "RT108"):
        made = built(found(code, "unrecognised-failure", confidence=Confidence.MEDIUM))
        texts = [each.text for each in made.summary.suggestions]
        assert texts and not re.search("TaskManager|JobManager|executor|driver", " ".join(texts))


@pytest.mark.parametrize("name", CHECKS)
def test_every_check_can_be_filled_in(name: str) -> None:
    check = CHECKS[name]
    place = _Place((), Inputs(inputs=(), topics=frozenset(), data=wire.Data()))
    assert phrase_of(name) and 1 <= check.cost <= 4 and "any" in check.command
    assert check.command.keys() <= {"any", "spark", "yarn", "kubernetes"}
    for command in check.command.values():
        assert "{" not in re.sub(r"\{print.*?\}", "", command.format_map(place.ids()))
    for sign in check.given:
        assert sign.path is None or re.compile(sign.path)


def test_no_check_is_unused() -> None:
    used = {name for cause in CAUSES.values() for name in cause.checks}
    used |= {name for name, check in CHECKS.items() if check.helps}
    used |= {"jobmanager-log-later", "other-taskmanager-logs", "deployments", "longer-metrics"}
    used |= {"later-batches", "later-events", "listener"}
    assert CHECKS.keys() == used


# --- the choice ----------------------------------------------------------------------------------


def test_a_certain_diagnosis_needs_no_more_evidence() -> None:
    made = built(found("CP201", "data-skew"))
    assert made.summary.suggestions == [] and words.first_steps(made) == []


def test_a_signal_that_answers_the_open_question_needs_no_more_evidence() -> None:
    for signal, certain in (("ended-itself", True), ("shut-down", False)):
        vote = Vote(signal=signal, text="its log ends", weight=4)
        lost = found("CP302", "taskmanager-lost", confidence=Confidence.HIGH, votes=(vote,))
        assert (built(lost).summary.suggestions == []) is certain


def test_an_uncertain_answer_names_the_evidence_and_its_command() -> None:
    subject = {
        "kind": "subtask",
        "task": "enrich",
        "taskmanager": "tm-3",
        "vertex_id": "0a448493b4782967b150582570326227",
    }
    made = built(found("CP201", "task-hangs", subject=subject, confidence=Confidence.MEDIUM))
    first, *_ = made.summary.suggestions
    assert first.check == "thread-dump" and first.cost == 1
    assert first.command == "curl -s http://JOBMANAGER:8081/taskmanagers/tm-3/thread-dump"
    assert first.decides == (
        "confirms task-hangs if its thread is in the same stack frame in both dumps, and rules it out if "
        "its stack frames differ, or it waits for input"
    )
    assert first.text == (
        "get two thread dumps of TaskManager tm-3. This shows the stack frame in which each "
        "task is working or waiting"
    )
    assert words.first_steps(made) == [
        f"next: {first.text}",
        f"run: {first.command}",
    ]


def test_a_consequence_requests_evidence_of_its_own_cause_even_if_it_is_certain() -> None:
    subject = {"kind": "taskmanager", "taskmanager": CONTAINER, "host": "worker-1"}
    made = built(found("CP302", "taskmanager-lost", subject=subject))
    commands = {each.check: each.command for each in made.summary.suggestions}
    assert commands["container-status"] == (
        "yarn logs -applicationId application_1612345678901_0042 -am ALL | grep -F -A 3 "
        + CONTAINER
    )
    assert commands["taskmanager-log-end"] == (
        f"yarn logs -applicationId application_1612345678901_0042 -containerId {CONTAINER}"
    )


def test_an_unknown_deployment_of_spark_gets_the_command_for_spark() -> None:
    subject = {"kind": "query", "query": "orders"}
    made = built(found("RT103", "two-writers", subject=subject, confidence=Confidence.MEDIUM))
    commands = {each.check: each.command for each in made.summary.suggestions}
    assert commands["running-jobs"] == "curl -s http://MASTER:8080/json/"


def test_kubernetes_is_recognised_by_the_name_of_a_pod() -> None:
    subject = {"kind": "taskmanager", "taskmanager": "orders-taskmanager-1-2"}
    made = built(found("CP302", "taskmanager-lost", subject=subject))
    assert made.summary.suggestions[0].command == "kubectl describe pod orders-taskmanager-1-2"


def test_a_file_among_the_inputs_is_never_suggested() -> None:
    subject = {"kind": "taskmanager", "taskmanager": "tm-3"}
    outcome = found("CP302", "taskmanager-lost", subject=subject)
    log = file(role="taskmanager", processes=[process("tm-3")])
    other = file(role="taskmanager", processes=[process("tm-4")])
    assert "taskmanager-log-end" in checks(built(outcome, files=[other]))
    assert "taskmanager-log-end" not in checks(built(outcome, files=[log]))
    assert "container-status" not in checks(built(outcome, files=[file(kind="kubectl")]))
    dump = file(kind="not-read", reason="looks like a thread dump")
    hanging = found("CP201", "task-hangs", subject=subject)
    assert "thread-dump" in checks(built(hanging))
    assert "thread-dump" not in checks(built(hanging, files=[dump]))
    answer = file(kind="rest", path=f"/jobs/{JOB}/vertices/0a44/backpressure")
    slow = found("CP201", "slow-operator", confidence=Confidence.LOW)
    assert "back-pressure" not in checks(built(slow, files=[answer]))


def process(taskmanager: str) -> wire.Process:
    return wire.Process(
        label=None,
        role="taskmanager",
        version=None,
        taskmanager=taskmanager,
        host=None,
        zone=None,
        zone_from=None,
        clock_offset_ms=None,
        first=None,
        last=None,
        events=1,
    )


def checks(report: wire.Report) -> set[str | None]:
    return {each.check for each in report.summary.suggestions}


def test_the_cheapest_comes_first() -> None:
    for word in CAUSES:
        costs = [
            each.cost or 0
            for each in built(found("CP301", word, confidence=Confidence.LOW)).summary.suggestions
        ]
        assert costs == sorted(costs)


def test_competing_causes_are_separated_by_one_check() -> None:
    slow, hot = (
        found(code, cause, subject={"kind": "task", "task": task, "vertex_id": task * 8})
        for code, cause, task in (("BP102", "slow-operator", "b"), ("SK101", "data-skew", "c"))
    )
    expired = found("CP101", None, why=None, rank=30)
    made = built(slow, hot, expired)
    assert made.summary.stories[0].competing
    decides = made.summary.suggestions[0].decides or ""
    assert "confirms slow-operator if" in decides and "confirms data-skew if" in decides


def test_an_inconclusive_rule_names_its_evidence_unless_it_was_given() -> None:
    doubt = Inconclusive(
        reason="no job was started in the input", checks=("jobmanager-log", "configuration")
    )
    outcome = RuleOutcome(code="ST101", name="n", title="t", core=True, inconclusive=(doubt,))
    without = built(outcome)
    assert checks(without) == {"jobmanager-log", "configuration"}
    assert without.summary.suggestions[0].decides == doubt.reason
    assert without.rules[0].reason == (
        "no job was started in the input; add the JobManager's log from its first line or the "
        "configuration of the cluster"
    )
    arguments = built(outcome, files=inputs())
    assert checks(arguments) == {"configuration"}
    assert "JobManager" not in (arguments.rules[0].reason or "")


def test_an_unknown_failure_requests_evidence() -> None:
    made = built(found("CP301", None, why=None))
    assert {"jobmanager-log", "exceptions"} <= checks(made)
    spark = built(found("RT103", None, why=None))
    assert {"driver-log", "event-log"} <= checks(spark)


@pytest.mark.parametrize(
    ("source", "has_lag"), [("KafkaV2[Subscribe[t]]", True), ("RateStreamV2[1]", False)]
)
def test_only_readers_of_kafka_have_a_consumer_group(source: str, has_lag: bool) -> None:
    app = spark.application(
        queries=(spark.query([spark.trigger(0, 1, sources=({"name": source},))]),)
    )
    facts = assess(RateFacts(applications=(app,)))
    data = wire.Data(applications=rate_data(facts, (), max_rows=9))
    late = found("RT101", "overloaded", confidence=Confidence.LOW)
    assert ("consumer-lag" in checks(built(late, data=data))) is has_lag


def test_a_failed_checkpoint_is_named() -> None:
    from flowdiag.analyses.checkpoints.data import checkpoint_data
    from flowdiag.analyses.flink.job import ClusterFacts, Status

    two = (checkpoint(0, Status.COMPLETED), checkpoint(1, Status.EXPIRED))
    facts = job_facts(is_failing=True, checkpoints=two)
    data = wire.Data(jobs=checkpoint_data(ClusterFacts(jobs=(facts,), processes=()), ()))
    slow = found("CP306", "slow-async-snapshot", confidence=Confidence.LOW)
    (breakdown,) = (
        each
        for each in built(slow, data=data).summary.suggestions
        if each.check == "checkpoint-subtasks"
    )
    number = facts.checkpoints[1].id
    assert f"/jobs/{JOB}/checkpoints/details/{number}/subtasks/VERTEX_ID" in (
        breakdown.command or ""
    )


def test_names_from_logs_cannot_run_commands() -> None:
    subject = {"kind": "taskmanager", "taskmanager": "x; rm -rf ~"}
    made = built(found("CP201", "task-hangs", subject=subject))
    assert made.summary.suggestions[0].command == (
        "curl -s http://JOBMANAGER:8081/taskmanagers/'x; rm -rf ~'/thread-dump"
    )


def test_a_live_server_is_named() -> None:
    live = file(source="http://jm.example:8081!tick-000001.json", kind="rest")
    hanging = found("CP201", "task-hangs", subject={"kind": "taskmanager", "taskmanager": "tm-1"})
    made = built(hanging, files=[live])
    assert made.summary.suggestions[0].command == (
        "curl -s http://jm.example:8081/taskmanagers/tm-1/thread-dump"
    )
    assert "task-metrics" not in checks(made)


def test_redaction_keeps_the_command_and_hides_the_names() -> None:
    subject = {
        "kind": "taskmanager",
        "taskmanager": "orders-taskmanager-1-2",
        "host": "w7.acme.com",
    }
    made = built(found("CP201", "task-hangs", subject=subject), privacy=Privacy(redact=True))
    (dump, metrics, *_) = made.summary.suggestions
    assert dump.check == "thread-dump"
    assert dump.command == "curl -s http://JOBMANAGER:8081/taskmanagers/taskmanager-1/thread-dump"
    assert dump.wants == "two thread dumps of TaskManager taskmanager-1"
    assert metrics.command == (
        "flowdiag collect flink http://JOBMANAGER:8081 --output collected/ --for 5m"
    )


def test_jobs_of_the_same_name_are_distinguished_by_id_and_engine() -> None:
    flink = found(
        "CP302", "taskmanager-lost", subject={"job_name": "orders", "kind": "taskmanager"}
    )
    spark = found(
        "RT304",
        "executor-lost",
        job=JobKey(cluster="", job_id="application_1612345678901_0042"),
        subject={
            "kind": "executor",
            "job_id": None,
            "job_name": "orders",
            "application": "application_1612345678901_0042",
        },
    )
    made = built(flink, spark)
    assert sorted(jobs for _, jobs in words.ranked_culprits(made)) == [
        [f"orders (Flink {JOB})"],
        ["orders (Spark application_1612345678901_0042)"],
    ]
    assert [jobs for _, jobs in words.ranked_culprits(built(flink))] == [["orders"]]
