"""Changes of findings and measures between two reports."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import jsonschema
import msgspec
import pytest

from flowdiag.analyses.comparison.compare import compare_reports
from flowdiag.analyses.comparison.wire import (
    Change,
    Comparison,
    Measure,
    Trend,
    decode,
    encode,
    json_schema,
    redacted,
)
from flowdiag.analyses.contract import report as wire
from flowdiag.analyses.contract.queues import QueueSubtask, QueueVertex
from flowdiag.analyses.contract.report import Report
from flowdiag.analyses.flink import job as x
from flowdiag.analyses.model import finding as f
from flowdiag.analyses.model.keys import JobKey
from flowdiag.analyses.report.transform import without_less_severe
from flowdiag.parsers.errors import FlowdiagError

from ..cli import reports
from ..cli.reports import JOB, build, expired, job_facts, outcome, slow_taskmanager


def report(*findings: f.Finding, sick: bool = False, **more: Any) -> Report:
    """Return a report with these findings of rule CP101."""
    return build(
        job_facts(is_failing=sick), outcome("CP101", "checkpoint-expired", *findings), **more
    )


def change_of(before: Report, after: Report, **more: Any) -> Any:
    """Return the only finding change of a comparison."""
    (found,) = compare_reports(before, after, **more).findings
    return found


def at(**place: Any) -> f.Finding:
    return expired(subject=f.Subject(kind="subtask", job_name="orders", task="Map", **place))


def measure(one: Comparison, name: str) -> Measure:
    return next(each for each in one.measures if each.name == name)


def test_findings_of_one_side_are_new_or_gone() -> None:
    one = compare_reports(report(), report(expired()))
    assert [found.change for found in one.findings] == [Change.NEW]
    assert one.regression and one.conclusive and one.verdict is Trend.WORSE
    other = compare_reports(report(expired()), report())
    assert [found.change for found in other.findings] == [Change.GONE]
    assert not other.regression and other.verdict is Trend.BETTER


def test_nothing_changes_between_a_report_and_itself() -> None:
    for each in (reports.failing(), reports.healthy(), reports.many(12), reports.hostile()):
        one = compare_reports(each, each)
        assert not one.regression and one.verdict is Trend.SAME
        assert {found.change for found in one.findings} <= {Change.UNCHANGED}
        assert not any(each.significant for each in one.measures)


@pytest.mark.parametrize(
    ("old", "new", "change"),
    [
        ({}, {"severity": f.Severity.CRITICAL}, Change.WORSE),
        ({"severity": f.Severity.CRITICAL}, {}, Change.BETTER),
        ({"state": f.State.RECOVERED}, {}, Change.WORSE),
        ({}, {"state": f.State.RECOVERED}, Change.BETTER),
        ({"count": 4}, {"count": 9, "title": "9 of 31 checkpoints expired"}, Change.UNCHANGED),
    ],
)
def test_a_finding_is_worse_by_its_severity_and_state(
    old: dict[str, Any], new: dict[str, Any], change: Change
) -> None:
    one = compare_reports(report(expired(**old)), report(expired(**new)))
    assert [found.change for found in one.findings] == [change]
    assert one.regression is (change is Change.WORSE)


def test_a_finding_moves_to_another_subtask_or_host() -> None:
    assert (
        change_of(report(at(subtask_index=0)), report(at(subtask_index=2))).change is Change.MOVED
    )
    machine = [
        expired(subject=f.Subject(kind="taskmanager", taskmanager=name, host=host))
        for name, host in (("tm-1", "a.example"), ("tm-9", "b.example"), ("tm-7", "a.example"))
    ]
    assert change_of(report(machine[0]), report(machine[1])).change is Change.MOVED
    # Another container on the same machine.
    assert change_of(report(machine[0]), report(machine[2])).change is Change.UNCHANGED


def test_a_redeployment_is_not_a_move() -> None:
    before = at(subtask_index=1, job_id="1" * 32, attempt_id="a" * 32, taskmanager="c_01", host="a")
    after = at(subtask_index=1, job_id="2" * 32, attempt_id="b" * 32, taskmanager="c_77", host="z")
    found = change_of(report(before), report(after))
    assert (found.change, found.moved) == (Change.UNCHANGED, False)


def test_a_move_does_not_hide_a_worse_severity() -> None:
    worse = replace(at(subtask_index=2), severity=f.Severity.CRITICAL)
    found = change_of(report(at(subtask_index=0)), report(worse))
    assert (found.change, found.moved) == (Change.WORSE, True)


def test_a_remaining_subtask_is_recognised_by_its_place() -> None:
    """Only the first of similar findings has a plain fingerprint, which the second one inherits
    here."""
    both = report(at(subtask_index=0), at(subtask_index=2))
    one = compare_reports(both, report(at(subtask_index=2)))
    changes = {
        (found.change, (found.before or found.after).subject.subtask_index)  # type: ignore[union-attr]
        for found in one.findings
    }
    assert changes == {(Change.GONE, 0), (Change.UNCHANGED, 2)}


@pytest.mark.parametrize("turned", [False, True])
def test_findings_that_a_side_could_not_assess_are_neither_new_nor_gone(turned: bool) -> None:
    inconclusive = build(
        job_facts(is_failing=False),
        outcome("CP101", "checkpoint-expired", f.Inconclusive(reason="no log", job=JOB)),
    )
    sides = (report(expired()), inconclusive) if turned else (inconclusive, report(expired()))
    one = compare_reports(*sides)
    assert [found.change for found in one.findings] == [Change.NOT_COMPARABLE]
    assert "no log" in (one.findings[0].reason or "")
    assert not one.regression and not one.conclusive


def test_ignored_or_unknown_rules_cannot_be_compared() -> None:
    without = build(job_facts(is_failing=False), outcome("CP201", "slow-taskmanager"))
    found = change_of(report(expired()), without)
    assert found.change is Change.NOT_COMPARABLE and "no rule CP101" in (found.reason or "")


def test_a_missing_job_has_not_recovered() -> None:
    key = JobKey("", "9" * 32)
    invoices = expired(
        job=key, subject=f.Subject(kind="job", job_id=key.job_id, job_name="invoices")
    )
    both, one = report(expired(), invoices), report(expired())
    changes = {
        (found.before or found.after).subject.job_name: found.change  # type: ignore[union-attr]
        for found in compare_reports(both, one).findings
    }
    assert changes["orders"] is Change.UNCHANGED
    assert changes["invoices"] is Change.NOT_COMPARABLE


def test_findings_hidden_by_min_severity_are_not_gone() -> None:
    remark = expired(severity=f.Severity.INFO)
    shown = without_less_severe(report(remark), f.Severity.WARNING)
    assert change_of(report(remark), shown).change is Change.NOT_COMPARABLE


def test_an_info_finding_is_not_a_regression() -> None:
    one = compare_reports(report(), report(expired(severity=f.Severity.INFO)))
    assert [found.change for found in one.findings] == [Change.NEW] and not one.regression


def test_inputs_without_a_job_name_belong_to_the_job() -> None:
    nameless = expired(subject=f.Subject(kind="job", job_id=JOB.job_id))
    facts = job_facts(is_failing=False, name=None)
    outcome_of_rule = outcome("CP101", "checkpoint-expired", nameless)
    before = build(facts, outcome_of_rule)
    before = msgspec.structs.replace(
        before, findings=[msgspec.structs.replace(before.findings[0], fingerprint="0" * 16)]
    )
    assert change_of(before, report(expired())).change is Change.UNCHANGED


# --- what cannot be compared ----------------------------------------------------------------------


def test_other_commands_engines_and_jobs_are_rejected() -> None:
    tool = wire.Tool(version="1", command="queues")
    with pytest.raises(FlowdiagError, match="`flowdiag queues`"):
        compare_reports(msgspec.structs.replace(report(), tool=tool), report())
    spark = msgspec.structs.replace(report(), data=wire.Data(applications=[_application()]))
    with pytest.raises(FlowdiagError, match="one side is about Flink"):
        compare_reports(report(), spark)
    renamed = build(
        job_facts(is_failing=False, name="orders-2"), outcome("CP101", "checkpoint-expired")
    )
    with pytest.raises(FlowdiagError, match="'orders' before, 'orders-2' after"):
        compare_reports(report(), renamed)


def _application() -> wire.RateApplication:
    values: dict[str, Any] = {
        name: [] for name, kind in wire.RateApplication.__annotations__.items() if "list" in kind
    }
    values |= {"application": None, "name": "orders", "spark_version": None, "kind": "dstream"}
    values |= {"batch_interval_ms": None, "batch_interval_from": None, "verdict": "healthy"}
    values |= {"cause": None, "back_pressure": None, "keeping": None, "settings": {}}
    total = wire.RateTotals(batches=0, pid=0, triggers=0)
    return wire.RateApplication(**{**values, "total": total, "truncated": False})


def test_a_renamed_job_can_be_compared_on_demand() -> None:
    key = JobKey("", "9" * 32)
    facts = job_facts(is_failing=False, key=key, name="orders-2")
    moved = expired(job=key, subject=f.Subject(kind="job", job_id=key.job_id, job_name="orders-2"))
    renamed = build(facts, outcome("CP101", "checkpoint-expired", moved))
    one = compare_reports(report(expired()), renamed, same_job=True)
    assert [found.change for found in one.findings] == [Change.UNCHANGED]
    assert measure(one, "checkpoint-duration").values[1] > 0
    with pytest.raises(FlowdiagError, match="one job on each side"):
        compare_reports(reports.many(12), renamed, same_job=True)


def test_a_report_without_assessed_jobs_cannot_be_compared() -> None:
    one = compare_reports(report(), reports.nothing())
    assert not one.conclusive and not one.regression and one.verdict is Trend.UNKNOWN


# --- measures -------------------------------------------------------------------------------------


def lasting(*durations: int, **more: Any) -> Report:
    """Return a report on a job whose checkpoints have these durations."""
    made = [
        replace(reports.checkpoint(number), duration_ms=ms, **more)
        for number, ms in enumerate(durations)
    ]
    facts = job_facts(is_failing=False, checkpoints=tuple(made))
    return build(facts, outcome("CP101", "checkpoint-expired"))


CALM = (900, 1100, 950, 1050, 980, 1020, 940, 1060, 970, 1030, 990, 1010, 930, 1070, 960, 1040)


def test_a_duration_that_trebles_is_worse() -> None:
    one = compare_reports(lasting(*CALM), lasting(*(3 * ms for ms in CALM)))
    found = measure(one, "checkpoint-duration")
    assert (found.change, found.significant) == (Trend.WORSE, True)
    assert found.p_adjusted is not None and found.p_adjusted <= 0.01
    assert one.because == ["1 worse measure: checkpoint-duration"]
    back = compare_reports(lasting(*(3 * ms for ms in CALM)), lasting(*CALM))
    assert measure(back, "checkpoint-duration").change is Trend.BETTER and not back.regression


def test_a_small_difference_is_not_a_change_however_significant() -> None:
    after = lasting(*(round(1.5 * ms) for ms in CALM))
    found = measure(compare_reports(lasting(*CALM), after), "checkpoint-duration")
    assert (found.change, found.p_adjusted is not None) == (Trend.SAME, True)
    assert found.p_adjusted is not None and found.p_adjusted <= 0.01
    closer = compare_reports(lasting(*CALM), after, factor=1.25)
    assert measure(closer, "checkpoint-duration").change is Trend.SAME  # still below half a second
    longer = [10 * ms for ms in CALM]
    before, after = lasting(*longer), lasting(*(round(1.5 * ms) for ms in longer))
    assert (
        measure(compare_reports(before, after, factor=1.25), "checkpoint-duration").change
        is Trend.WORSE
    )


def test_a_handful_of_checkpoints_is_too_few() -> None:
    found = measure(
        compare_reports(lasting(*CALM), lasting(9000, 9100, 9200)), "checkpoint-duration"
    )
    assert (found.change, found.significant) == (Trend.UNKNOWN, False)
    assert found.reason == "too few values: 16 before and 3 after"


def test_savepoints_are_excluded_and_expired_checkpoints_last_the_timeout() -> None:
    assert not any(
        each.name == "checkpoint-duration"
        for each in compare_reports(lasting(*CALM), lasting(*CALM, type="savepoint")).measures
        if each.after is not None
    )
    expiring = lasting(*(60_000 for _ in CALM), status=x.Status.EXPIRED)
    one = compare_reports(lasting(*CALM), expiring)
    assert measure(one, "checkpoint-duration").change is Trend.WORSE
    assert measure(one, "unsuccessful-checkpoints").change is Trend.WORSE


def test_lists_that_were_cut_are_not_compared() -> None:
    whole = lasting(*CALM)
    assert whole.data.jobs is not None
    (job,) = whole.data.jobs
    cut = msgspec.structs.replace(job, checkpoints=job.checkpoints[:8])
    short = msgspec.structs.replace(whole, data=wire.Data(jobs=[cut]))
    found = measure(compare_reports(whole, short), "checkpoint-duration")
    assert found.change is Trend.UNKNOWN and "--max-rows" in (found.reason or "")


def pressed(busy: float, skew: float, samples: int = 40) -> Report:
    """Return a task with two subtasks, the first of which is this busy."""
    subtasks = [_subtask(0, busy, samples), _subtask(1, 0.1, samples)]
    vertex = QueueVertex(
        job_id=JOB.job_id,
        job_name="orders",
        vertex_id=None,
        name="enrich",
        parallelism=2,
        role="root",
        busy=busy,
        back_pressured=0.0,
        idle=None,
        skew=skew,
        inputs=[],
        graph_from=None,
        subtasks=subtasks,
        total=2,
        truncated=False,
    )
    return msgspec.structs.replace(report(), data=wire.Data(vertices=[vertex]))


def _subtask(index: int, busy: float, samples: int) -> QueueSubtask:
    absent = dict.fromkeys(QueueSubtask.__struct_fields__)
    own: dict[str, Any] = {"subtask_index": index, "culprit": False, "samples": samples}
    own |= {"busy": busy, "back_pressured": 0.0, "gates": []}
    return QueueSubtask(**{**absent, **own})


def test_busy_and_skewed_tasks_are_worse() -> None:
    one = compare_reports(pressed(0.2, 5), pressed(0.95, 80))
    assert measure(one, "busy").change is Trend.WORSE
    assert measure(one, "skew").change is Trend.WORSE
    assert measure(one, "back-pressured").change is Trend.SAME
    few = compare_reports(pressed(0.2, 5, samples=6), pressed(0.95, 80, samples=6))
    assert measure(few, "busy").change is Trend.UNKNOWN
    assert not any(each.name == "skew" for each in few.measures)  # of a job that has just started


# --- the document ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (reports.healthy, reports.failing),
        (reports.failing, reports.healthy),
        (reports.failing, reports.inconclusive),
        (reports.nothing, reports.failing),
        (reports.hostile, reports.healthy),
        (lambda: reports.many(12), lambda: reports.many(14)),
    ],
)
def test_documents_are_valid_and_round_trip(before: Any, after: Any) -> None:
    one = compare_reports(before(), after())
    jsonschema.validate(json.loads(encode(one)), json_schema())
    assert encode(decode(encode(one))) == encode(one)
    again = compare_reports(before(), after())
    assert encode(again) == encode(one)
    jsonschema.validate(json.loads(encode(redacted(one))), json_schema())


def test_names_can_be_redacted() -> None:
    one = compare_reports(report(), report(slow_taskmanager()))
    text = encode(redacted(one)).decode()
    assert "worker-3.example" not in text and "orders" not in text
