"""The contract for other programs: fingerprints, stories, culprits, topics, warnings, faults. No Spark."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import jsonschema
import msgspec
import pytest

from flowdiag.analyses.contract import encoding
from flowdiag.analyses.contract import report as wire
from flowdiag.analyses.diagnosis import InspectedInputs, report_on
from flowdiag.analyses.faults import fault_of
from flowdiag.analyses.flink.job import ClusterFacts
from flowdiag.analyses.model import finding as f
from flowdiag.analyses.model.keys import JobKey
from flowdiag.analyses.report import transform
from flowdiag.analyses.report.build import ReportBuilder
from flowdiag.analyses.report.fingerprints import fingerprint, fingerprints
from flowdiag.analyses.report.verdicts import judge, topic_of
from flowdiag.analyses.selection.options import Options
from flowdiag.analyses.topic import Measured
from flowdiag.analyses.topic_names import ENGINES
from flowdiag.analyses.topics import topic
from flowdiag.cli.exit_codes import exit_code
from flowdiag.cli.settings import FailOn, Settings
from flowdiag.parsers.notes import MEANINGS, Kind
from tests.cli import reports

JOB, OTHER = JobKey("", "a" * 32), JobKey("", "b" * 32)
NAMES = {JOB: "orders", OTHER: "orders"}


def found(subtask: int | None = None, *, job: JobKey = JOB, **more: Any) -> f.Finding:
    """Return a finding about a skewed subtask."""
    values: dict[str, Any] = {
        "job": job,
        "severity": f.Severity.WARNING,
        "state": f.State.RECOVERED,
        "subject": f.Subject(
            kind="subtask",
            job_id=job.job_id,
            job_name="orders",
            task="map",
            subtask_index=subtask,
            taskmanager=f"tm-{subtask}",
        ),
        "title": f"map ({subtask}) is hot",
        "explain": "",
        "why": "10 times the records of its siblings",
        "cause": "data-skew",
    }
    return f.Finding(**{**values, **more})


def outcome(
    *results: f.Finding | f.Inconclusive, code: str = "SK101", **more: Any
) -> f.RuleOutcome:
    return replace(reports.outcome(code, code.lower(), *results), **more)


def report(*outcomes: f.RuleOutcome, **more: Any) -> wire.Report:
    """Return a report of `diagnose`."""
    values: dict[str, Any] = {
        "command": "diagnose",
        "inputs": (),
        "outcomes": outcomes,
        "names": NAMES,
        "data": wire.Data(),
        "located": {},
        "assessed": True,
    }
    return ReportBuilder(**{**values, **more}).build()


def document(made: wire.Report) -> Any:
    """Return a report as programs read it, validated against the schema."""
    read = json.loads(encoding.encode(made))
    jsonschema.validate(read, transform.json_schema())
    return read


# --- fingerprints ---------------------------------------------------------------------------------


def marks(*findings: f.Finding) -> list[str]:
    return fingerprints([(outcome(), finding) for finding in findings], NAMES)


def test_fingerprints_are_unique() -> None:
    many = [found(1), found(0), found(job=OTHER), found(0, job=OTHER), found(0, first_us=5)]
    assert len(set(marks(*many))) == len(many)


def test_the_first_finding_keeps_its_own_fingerprint() -> None:
    alone = fingerprint("SK101", "orders", "map", None)
    assert marks(found(3)) == [alone]
    assert marks(found(3), found(1))[1] == alone
    assert marks(found(3, first_us=9), found(3, first_us=1))[1] == alone


def test_fingerprints_do_not_depend_on_the_order_nor_on_ids() -> None:
    one, other = marks(found(0), found(1))
    assert marks(found(1), found(0)) == [other, one]
    assert marks(found(0, job=OTHER), found(1, job=OTHER)) == [one, other]


# --- stories and culprits -------------------------------------------------------------------------


def test_a_story_lists_its_findings_and_their_relations() -> None:
    expired = found(severity=f.Severity.CRITICAL, why=None, cause=None, title="9 of 15 expired")
    read = document(report(outcome(found(0)), outcome(expired, code="CP101")))
    (story,) = read["summary"]["stories"]
    by_code = {each["code"]: each["fingerprint"] for each in read["findings"]}
    assert story["findings"] == [by_code["SK101"], by_code["CP101"]]
    (because,) = story["because"]
    assert because["relation"] == "late-barriers"
    assert (because["fingerprint"], because["of"]) == (by_code["CP101"], by_code["SK101"])
    assert story["culprit"] == read["summary"]["culprits"][0]
    assert story["title"] == "map (0) is hot" and story["cause"] == "data-skew"
    assert "stories" not in read


def test_stories_omit_findings_below_the_minimum_severity() -> None:
    made = report(outcome(found(0), code="CP201"), outcome(found(0), found(1)))
    shown = transform.without_less_severe(made, f.Severity.CRITICAL)
    assert not shown.findings and not shown.summary.stories
    assert transform.without_less_severe(made, f.Severity.WARNING) == made


def test_a_culprit_has_its_job_and_period() -> None:
    (culprit,) = document(report(outcome(found(0, first_us=0, last_us=60_000_000))))["summary"][
        "culprits"
    ]
    assert culprit["job_id"] == JOB.job_id and culprit["job_name"] == "orders"
    assert culprit["cause"] == "data-skew" and culprit["state"] == "recovered"
    assert culprit["first_seen"] == "1970-01-01T00:00:00.000Z"
    assert culprit["last_seen"] == "1970-01-01T00:01:00.000Z"


@pytest.mark.parametrize("command", ["checkpoints", "diagnose"])
def test_the_latest_position_of_a_culprit_comes_first(command: str) -> None:
    moved = [
        found(2, first_us=10, last_us=20, count=9, severity=f.Severity.CRITICAL),
        found(0, first_us=30, last_us=40),
        found(1, first_us=20, last_us=30, count=4),
    ]
    made = report(outcome(*moved), command=command)
    assert [culprit.subject.subtask_index for culprit in made.summary.culprits] == [0, 1, 2]
    ongoing = replace(moved[0], state=f.State.ONGOING)
    lasting = judge([outcome(ongoing, *moved[1:])]).culprits
    assert [culprit.subject.subtask_index for culprit in lasting] == [2, 0, 1]


def test_a_finding_of_low_confidence_is_not_a_move() -> None:
    weak = found(1, last_us=90, confidence=f.Confidence.LOW)
    culprits = judge([outcome(found(0, last_us=10), weak)]).culprits
    assert [culprit.subject.subtask_index for culprit in culprits] == [0, 1]


# --- topics ---------------------------------------------------------------------------------------

UNSURE = f.Inconclusive(reason="no input shows how checkpoints ended")


@pytest.mark.parametrize(
    ("results", "assessed", "expected"),
    [
        ([outcome()], True, ("assessed", "healthy", None)),
        ([outcome(found(0))], True, ("assessed", "degraded", None)),
        ([outcome(UNSURE)], True, ("inconclusive", "inconclusive", UNSURE.reason)),
        ([outcome(UNSURE, core=False)], True, ("assessed", "healthy", None)),
        ([outcome(found(0)), outcome(UNSURE)], True, ("assessed", "degraded", None)),
        ([outcome(not_assessed_reason="no batch")], False, ("nothing", "inconclusive", "no batch")),
        (
            [outcome(found(0), not_assessed_reason="no batch")],
            False,
            ("assessed", "degraded", None),
        ),
    ],
)
def test_the_result_of_a_topic(
    results: list[f.RuleOutcome], assessed: bool, expected: tuple[str, str, str | None]
) -> None:
    came = topic_of("checkpoints", results, assessed=assessed, calculated=False)
    assert (came.status, came.verdict, came.reason) == expected
    document(report(*results, topics=[came]))


def test_diagnose_names_every_topic_and_a_command_its_own() -> None:
    looked = InspectedInputs(sources=(), to_scan=(), side_inputs={}, notes=())
    measured = Measured(facts={"checkpoints": ClusterFacts(jobs=(), processes=())})
    topics = (topic("checkpoints"),)
    whole = report_on(topics, looked, measured, Options(everything=True))
    assert [each.topic for each in whole.topics] == list(ENGINES)
    assert {each.status for each in whole.topics} == {"nothing"}
    assert all(each.reason for each in whole.topics) and whole.summary.verdict == "inconclusive"
    assert [each.topic for each in report_on(topics, looked, measured).topics] == ["checkpoints"]


# --- warnings -------------------------------------------------------------------------------------


def test_every_kind_of_warning_has_a_meaning() -> None:
    assert set(MEANINGS) == set(Kind)
    assert all(meaning and not meaning.endswith(".") for meaning in MEANINGS.values())


def test_a_warning_has_a_kind_and_a_period() -> None:
    note = wire.Note(kind=Kind.GAP, text="silent", source="jm.log", since="a", until="b")
    (read,) = document(report(warnings=[note]))["warnings"]
    assert read == {
        "kind": "gap",
        "text": "silent",
        "message": "silent",
        "hint": None,
        "source": "jm.log",
        "from": "a",
        "to": "b",
    }


def test_reports_of_the_first_release_are_read() -> None:
    old = document(report(outcome(found(0))))
    del old["topics"], old["summary"]["stories"]
    old["stories"] = [{"root": 0, "consequences": []}]
    for key in ("job_id", "job_name", "cause"):
        del old["summary"]["culprits"][0][key]
    note = {"message": "ends early", "hint": None, "source": "a.gz"}
    old["warnings"], old["errors"] = [note], [note]
    read = transform.decode(msgspec.json.encode(old))
    assert (read.warnings[0].kind, read.warnings[0].text) == (Kind.OTHER, "ends early")
    assert (read.errors[0].what, read.errors[0].bug) == ("ends early", False)


# --- faults ---------------------------------------------------------------------------------------


def fault(text: str = "oops") -> wire.Fault:
    """Return a fault with one of flowdiag's functions in its stack."""
    broken = replace(found(), job=[text])  # type: ignore[arg-type]
    with pytest.raises(TypeError) as raised:
        marks(broken)
    return fault_of(raised.value, source="jm.log")


def test_a_fingerprint_of_a_fault_reveals_nothing_about_the_input() -> None:
    one = fault("one")
    assert one.bug and one.source == "jm.log" and one.where == "render"
    assert one.fingerprint == fault("other").fingerprint
    assert one.fingerprint != fault_of(KeyError("x")).fingerprint
    secret = fault_of(ValueError("password=hunter2"))
    assert "hunter2" not in secret.message + secret.what


def test_a_bug_in_flowdiag_is_never_healthy_nor_exit_code_0() -> None:
    made = report(outcome(), errors=[fault()])
    assert made.summary.verdict == "inconclusive" and made.summary.assessed
    assert "bug" in (document(made)["summary"]["reason"] or "")
    assert exit_code(made, Settings(allow_inconclusive=True)) == 3
    sick = report(outcome(found(0)), errors=[fault()])
    assert sick.summary.verdict == "degraded"
    assert exit_code(sick, Settings()) == 1
    assert exit_code(sick, Settings(fail_on=FailOn.NEVER)) == 3
    assert exit_code(report(outcome()), Settings()) == 0
