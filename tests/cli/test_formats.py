"""The formats for programs, tickets and CI."""

from __future__ import annotations

import json
from itertools import pairwise
from xml.etree import ElementTree as Xml

import jsonschema
import msgspec
import pytest

from flowdiag.analyses.contract.encoding import encode
from flowdiag.analyses.contract.report import Report
from flowdiag.analyses.faults import fault_of
from flowdiag.analyses.report.build import failed_report
from flowdiag.analyses.report.transform import decode, json_schema
from flowdiag.analyses.selection.options import Privacy
from flowdiag.cli.render import RENDERERS
from flowdiag.cli.settings import Format
from flowdiag.cli.text.page import Page

from . import reports

PAGE = Page(width=100)
KINDS = ["failing", "healthy", "inconclusive", "nothing", "hostile"]


def report_of(kind: str) -> Report:
    made: Report = getattr(reports, kind)()
    return made


@pytest.mark.parametrize("kind", KINDS)
def test_reports_are_valid_and_decode_unchanged(kind: str) -> None:
    report = report_of(kind)
    document = RENDERERS[Format.JSON](report, PAGE)
    jsonschema.validate(json.loads(document), json_schema())
    assert encode(decode(document.encode())) == document.encode()


def test_a_failed_run_leaves_a_valid_document() -> None:
    document = json.loads(encode(failed_report("checkpoints", fault_of(KeyError("x")))))
    jsonschema.validate(document, json_schema())
    assert document["summary"] == {
        "verdict": "inconclusive",
        "first_action": None,
        "cause": None,
        "culprits": [],
        "assessed": False,
        "reason": "this is a bug in flowdiag: KeyError: 'x'",
        "stories": [],
        "understood": [],
        "suggestions": [],
        "below_min_severity": {},
        "not_assessed": None,
        "baseline": None,
    }
    (error,) = document["errors"]
    assert error["bug"] and error["what"] == "KeyError: 'x'"
    assert (error["source"], error["where"]) == (None, "measure")


def test_the_schema_rejects_other_documents() -> None:
    document = json.loads(encode(reports.failing()))
    del document["summary"]["verdict"]
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(document, json_schema())


def test_added_keys_are_not_breaking() -> None:
    document = json.loads(encode(reports.failing()))
    document["findings"][0]["new_key"] = 1
    jsonschema.validate(document, json_schema())
    assert decode(msgspec.json.encode(document)) == decode(encode(reports.failing()))


def test_the_same_input_gives_the_same_bytes() -> None:
    assert encode(reports.failing()) == encode(reports.failing())


def test_unknown_keys_of_a_subject_are_absent() -> None:
    document = json.loads(encode(reports.failing()))
    assert document["summary"]["culprits"][0]["subject"] == {
        "kind": "taskmanager",
        "job_id": "a1b2c3d4e5f60718293a4b5c6d7e8f90",
        "job_name": "orders",
        "taskmanager": "tm-3",
        "host": "worker-3.example",
    }


def test_a_single_surrogate_does_not_break_the_document() -> None:
    report = reports.build(reports.job_facts(is_failing=False, name="or\udc80ders"))
    assert "or\\udc80ders" in json.loads(encode(report))["data"]["jobs"][0]["name"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("form", list(Format))
def test_every_format_renders_every_report(kind: str, form: Format) -> None:
    shown = RENDERERS[form](report_of(kind), PAGE)
    assert shown.endswith("\n")
    assert "\x1b" not in shown and "\u202e" not in shown


def test_markdown() -> None:
    assert (
        RENDERERS[Format.MARKDOWN](reports.failing(), PAGE)
        == """\
# flowdiag checkpoints: failing: 1 critical, 1 warning \\(slow-taskmanager\\)

1. **TaskManager tm-3 \\@ worker-3.example: 4 of its 4 subtasks acknowledged too late, 1.7 \
expected by placement** — CP201, high confidence

first: Raise the timeout if the slow part is slow for a good reason

set execution.checkpointing.timeout to 20 min \\(now 10 min\\)

2 inputs, 2018-11-29 18:30:00 to 19:02:11 UTC+08:00

- not read: `logs/core.4711`: binary data

## Job orders · a1b2c3d4e5f60718293a4b5c6d7e8f90 · Flink 1.18.1: failing

Checkpoints: 32: 26 completed, 4 expired, 1 declined, 1 in flight

```text
18:30:00 #200  ✓✓✓✓✓✓✓✓✓✓✓✓✓✓✓✓✓✓✓✓✓✓✓✓EEEE✓D✓…
               ▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁████▁▁▁
✓ completed   E expired   D declined   … in flight   median completed 1.5 s, longest 10 min
```

### Late subtasks by TaskManager

| TaskManager | subtasks | late | expected | ratio | by chance |
|---|--:|--:|--:|--:|--:|
| tm-3 \\@ worker-3.example | 4 | 4 | 1.7 | 2.4× | 4.8% |
| tm-1 \\@ worker-1.example | 4 | 1 | 1.7 | 0.6× | 100% |

## Findings: 2

### CRITICAL CP201: TaskManager tm-3 is slow

slow-taskmanager · TaskManager tm-3 \\@ worker-3.example · ongoing · high confidence · since \
2018-11-29 18:54:00

All subtasks of one machine are late, those of the others are not.

**Because** 4 of its 4 subtasks acknowledged too late, 1.7 expected by placement

**Measured** late ratio: 2.4× \\(threshold 2×; 3 TaskManagers\\)

**Evidence**

- `logs/jobmanager.log:8991`
  `Late message for now expired checkpoint 224 from Map-2`

### WARNING CP101: 4 of 31 checkpoints expired, up to 4 in a row

checkpoint-expired · job orders · ongoing · high confidence · since 2018-11-29 18:54:00

A checkpoint expires when one subtask has not acknowledged it in time.

**Measured** expired checkpoints: 4 \\(threshold 1; 31 that ended\\) · timeout: 10 min

**To do**

1. Raise the timeout if the slow part is slow for a good reason
   - execution.checkpointing.timeout: now 10 min \\(configured\\), try 20 min \\(needs a restart\\)
   - risk: a failure throws the job back further
   - check: checkpoints complete

**Evidence**

- `logs/jobmanager.log:8812`
  `2018-11-29 18:43:04,123 INFO o.a.f.r.checkpoint.CheckpointCoordinator - Checkpoint 224 of job \
a1b2 expired before completing.`
- `logs/jobmanager.log:8990`
  `Checkpoint 225 of job a1b2 expired before completing.`
- 2 more

"""
    )


@pytest.mark.parametrize("kind", KINDS)
def test_markdown_headings_skip_no_level(kind: str) -> None:
    shown = RENDERERS[Format.MARKDOWN](report_of(kind), PAGE)
    levels = [len(line) - len(line.lstrip("#")) for line in shown.splitlines() if line[:1] == "#"]
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
    fences = [line for line in shown.splitlines() if line.startswith("```")]
    assert fences == ["```text", "```"] * (len(fences) // 2)


def test_markdown_escapes_markup_in_logs() -> None:
    shown = RENDERERS[Format.MARKDOWN](reports.hostile(), PAGE)
    outside = "".join(part for n, part in enumerate(shown.split("``")) if n % 2 == 0)
    assert "<script" not in outside
    assert "\\@all" in outside


def test_junit() -> None:
    document = RENDERERS[Format.JUNIT](reports.failing(), PAGE)
    suite = Xml.fromstring(document)
    assert suite.attrib == {
        "name": "flowdiag checkpoints",
        "failures": "2",
        "errors": "0",
        "skipped": "0",
        "tests": "3",
    }
    failure = suite.find("testcase/failure")
    assert failure is not None
    assert failure.attrib == {
        "type": "warning",
        "message": "4 of 31 checkpoints expired, up to 4 in a row",
    }
    assert "execution.checkpointing.timeout: now 10 min (configured), try 20 min" in (
        failure.text or ""
    )


def test_junit_skips_unassessed_rules_and_reports_an_error_without_input() -> None:
    suite = Xml.fromstring(RENDERERS[Format.JUNIT](reports.inconclusive(), PAGE))
    skipped = suite.find("testcase/skipped")
    assert skipped is not None and "no input shows how" in skipped.attrib["message"]
    empty = Xml.fromstring(RENDERERS[Format.JUNIT](reports.nothing(), PAGE))
    assert empty.attrib["errors"] == "1"


def test_github() -> None:
    assert RENDERERS[Format.GITHUB](reports.failing(), PAGE) == (
        "::error title=flowdiag checkpoints::failing: 1 critical, 1 warning. TaskManager tm-3 @"
        " worker-3.example: 4 of its 4 subtasks acknowledged too late, 1.7 expected by placement\n"
        "::error file=logs/jobmanager.log,line=8991,title=CP201 slow-taskmanager::TaskManager tm-3 is"
        " slow%0A4 of its 4 subtasks"
        " acknowledged too late, 1.7 expected by placement%0Alogs/jobmanager.log:8991\n"
        "::warning file=logs/jobmanager.log,line=8812,title=CP101 checkpoint-expired::4 of 31"
        " checkpoints expired, up to 4 in a row%0ATo do: Raise the timeout if the slow part is slow for"
        " a good reason%0AA checkpoint expires when one subtask has not acknowledged it in time."
        "%0Alogs/jobmanager.log:8812%0Alogs/jobmanager.log:8990\n"
    )


@pytest.mark.parametrize(
    ("kind", "level"),
    [
        ("failing", "error"),
        ("hostile", "warning"),
        ("inconclusive", "warning"),
        ("nothing", "warning"),
        ("healthy", "notice"),
    ],
)
def test_the_first_annotation_has_the_level_of_the_verdict(kind: str, level: str) -> None:
    first = RENDERERS[Format.GITHUB](report_of(kind), PAGE).splitlines()[0]
    assert first.startswith(f"::{level} title=flowdiag checkpoints::")


def test_github_escapes_commands_in_logs() -> None:
    lines = RENDERERS[Format.GITHUB](reports.hostile(), PAGE).splitlines()
    assert [line.split(" ")[0] for line in lines] == ["::warning", "::warning"]


def test_redaction_is_consistent_and_keeps_contract_words() -> None:
    plain, redacted = reports.failing(), reports.failing(privacy=Privacy(redact=True))
    document = encode(redacted).decode()
    for name in ("orders", "worker-3", "tm-3", "Map", "Sink: out", "jobmanager.log"):
        assert name not in document, name
    culprit = redacted.summary.culprits[0]
    assert str(culprit.subject.taskmanager) in document
    assert redacted.data.jobs is not None
    manager = redacted.data.jobs[0].taskmanagers[0]
    assert culprit.subject.taskmanager == manager.taskmanager
    assert culprit.subject.host == manager.host
    assert culprit.subject.job_name == redacted.data.jobs[0].name == "job-1"
    assert [f.fingerprint for f in redacted.findings] == [f.fingerprint for f in plain.findings]
    assert [f.code for f in redacted.findings] == [f.code for f in plain.findings]
    jsonschema.validate(json.loads(document), json_schema())


def test_no_excerpts() -> None:
    report = reports.failing(privacy=Privacy(excerpts=False))
    assert {item.excerpt for finding in report.findings for item in finding.evidence} == {None}
    assert "logs/jobmanager.log:8991" in RENDERERS[Format.TABLE](report, PAGE)
