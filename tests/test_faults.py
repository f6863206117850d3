"""A bug in flowdiag affects only its source, job, rule or section. The tests plant one in each."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as Xml

import jsonschema
import pyarrow as pa
import pytest

from flowdiag.analyses.checkpoints.topic import CHECKPOINTS
from flowdiag.analyses.contract import encoding
from flowdiag.analyses.contract import report as wire
from flowdiag.analyses.diagnosis import InspectedInputs, diagnose, inspect_inputs, report_on
from flowdiag.analyses.engine.sql import Part
from flowdiag.analyses.faults import Faults, fault_of
from flowdiag.analyses.flink.clocks import settle as settling
from flowdiag.analyses.flink.job import ClusterFacts
from flowdiag.analyses.model.finding import Inconclusive
from flowdiag.analyses.model.keys import JobKey
from flowdiag.analyses.report import transform
from flowdiag.analyses.selection.options import Options
from flowdiag.analyses.topic import Measured
from flowdiag.analyses.topics import topic
from flowdiag.cli.app import main
from flowdiag.cli.exit_codes import exit_code
from flowdiag.cli.render import RENDERERS
from flowdiag.cli.settings import Format, Settings
from flowdiag.cli.text.page import Page
from flowdiag.parsers import discover as discovering
from flowdiag.parsers import faults, parallel
from flowdiag.parsers.discover import discover
from flowdiag.parsers.errors import FlowdiagError
from flowdiag.parsers.logs.records import Recognizer
from flowdiag.parsers.rows import RowBuilder
from flowdiag.parsers.sniff import text
from flowdiag.parsers.split import Split, parse_on_driver, plan_splits
from tests.cli import reports

pytestmark = pytest.mark.usefixtures("planted")

JOBS = ("a" * 32, "b" * 32)
TRIGGERED = (
    "2026-11-21 06:00:0{0},000 INFO  org.apache.flink.runtime.checkpoint.CheckpointCoordinator [] -"
    " Triggering checkpoint {0} (type=CHECKPOINT) @ 179524080{0}000 for job {1}.\n"
    "2026-11-21 06:00:0{0},500 INFO  org.apache.flink.runtime.checkpoint.CheckpointCoordinator [] -"
    " Completed checkpoint {0} for job {1} (1 bytes, checkpointDuration=500 ms, finalizationTime=0 ms).\n"
)
SECRET = "customer-4711"


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """Write the logs of two JobManagers with one job each. Faults are planted for `bad.log`."""
    folder = tmp_path / "logs"
    folder.mkdir()
    for name, job in zip(("bad.log", "good.log"), JOBS, strict=True):
        (folder / name).write_text("".join(TRIGGERED.format(n, job) for n in range(1, 6)))
    return folder


def document(report: wire.Report) -> Any:
    """Return the report as other programs read it, after checking its schema."""
    read = json.loads(encoding.encode(report))
    jsonschema.validate(read, transform.json_schema())
    return read


def bug(report: wire.Report) -> wire.Fault:
    """Return the only fault of a report, whose exit code must not be 0."""
    (fault,) = report.errors
    assert fault.bug and fault.fingerprint and "this is a bug in flowdiag" in fault.message
    assert report.summary.verdict != "healthy"
    assert exit_code(report, Settings(allow_inconclusive=True)) != 0
    document(report)
    return fault


def splits_of(table: pa.Table) -> list[dict[str, Any]]:
    return [
        {**dict(row["fields"]), "source": row["source"]}
        for row in table.to_pylist()
        if row["event"] == "split"
    ]


def events_of(table: pa.Table, source: int) -> int:
    return sum(row["source"] == source and row["event"] != "split" for row in table.to_pylist())


# --- what a fault is ------------------------------------------------------------------------------


def fail(what: str) -> None:
    raise KeyError(what)


def of(what: str) -> wire.Fault:
    try:
        fail(what)
    except KeyError as error:
        return fault_of(error)
    raise AssertionError


def test_a_fingerprint_identifies_the_fault_and_reveals_no_input() -> None:
    assert of(SECRET).fingerprint == of("another").fingerprint
    assert fault_of(ValueError(SECRET)).fingerprint != of(SECRET).fingerprint


@pytest.mark.parametrize("bad", [set(), {3}, {0, 999}, set(range(1000))])
def test_items_that_cause_faults_are_skipped(bad: set[int]) -> None:
    blamed: list[int] = []
    steps: list[int] = []

    def step(some: Sequence[int]) -> list[int]:
        steps.append(len(some))
        if bad & set(some):
            fail("x")
        return list(some)

    kept = faults.run_skipping_failures(range(1000), step, lambda item, error: blamed.append(item))
    assert (kept, blamed) == ([n for n in range(1000) if n not in bad], sorted(bad))
    assert len(steps) <= 2 + 22 * max(1, len(bad))


@pytest.mark.parametrize("error", [MemoryError(), OSError(28, "No space left"), FlowdiagError("x")])
def test_errors_of_the_host_or_the_user_are_not_faults(error: Exception) -> None:
    def step(some: Sequence[int]) -> None:
        raise error

    with pytest.raises(type(error)):
        faults.run_skipping_failures([1, 2], step, lambda item, error: None)
    with pytest.raises(type(error)):
        Faults().run_or_default(lambda: step(()), None)


def test_errors_that_end_java_end_the_run() -> None:
    gone = FlowdiagError("Java was killed")
    with pytest.raises(FlowdiagError, match="Java was killed"):
        Faults(lambda error: gone).run_or_default(lambda: fail("x"), None)


# --- parsers --------------------------------------------------------------------------------------


@pytest.fixture(params=[IndexError, ValueError])
def third_record_fails(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Make the recognizer fail at the third completed checkpoint of the first job.

    An accidental ValueError is a fault like any other: damaged input raises another error.
    """
    recognize = Recognizer.recognize

    def failing(self: Recognizer, head: Any) -> Any:
        if f"checkpoint 3 for job {JOBS[0]}" in head.text:
            raise request.param(SECRET)
        return recognize(self, head)

    monkeypatch.setattr(Recognizer, "recognize", failing)
    return str(request.param.__name__)


def test_a_parser_fails_at_a_record(third_record_fails: str, logs: Path) -> None:
    table = parse_on_driver(plan_splits(discover([str(logs)]).sources))
    bad, good = splits_of(table)
    caught = faults.decode_fault(bad["fault"])
    log = (logs / "bad.log").read_text()
    assert (caught.source, caught.split, caught.line) == (0, 0, 6)
    assert caught.offset == log.index("2026-11-21 06:00:03,500")
    assert caught.what == f"{third_record_fails}: {SECRET}" and "failing" in caught.trace
    assert events_of(table, 0) == 5, "what comes before the fault is kept"
    assert "fault" not in good and events_of(table, 1) == 10


def test_a_row_that_arrow_rejects_affects_no_other() -> None:
    rows = RowBuilder()
    for source in range(3):
        for offset in range(4):
            absurd = source == 1 and offset % 2 == 1
            cause = 5 if absurd else "x"  # of a type that the column has not
            rows.add({"source": source, "offset": offset, "event": "known", "cause": cause})
    table = pa.Table.from_batches([rows.take()])
    assert [events_of(table, source) for source in range(3)] == [4, 2, 4]
    (split,) = splits_of(table)
    caught = faults.decode_fault(split["fault"])
    assert (split["source"], caught.source, caught.offset) == (1, 1, 1)


def test_a_failing_sniffer_affects_only_its_file(
    logs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sniff = text.sniff

    def failing(sample: Any) -> Any:
        if sample.name.endswith("bad.log"):
            raise AttributeError(SECRET)
        return sniff(sample)

    monkeypatch.setattr(discovering, "sniff", failing)
    found = discover([str(logs)])
    assert [source.kind for source in found.sources] == ["not-read", "log"]
    inspected = inspect_inputs((CHECKPOINTS,), found, Options())
    (fault,) = inspected.faults
    assert fault.source == found.sources[0].name and fault.where == "parser"


def one_split_each(folder: Path) -> list[list[Split]]:
    return [[split for task in plan_splits(discover([str(folder)]).sources) for split in task]]


PLANTED = """
import os, signal
from flowdiag.parsers.logs.records import Recognizer
recognize = Recognizer.recognize
def planted(self, head):
    if "job {job}" in head.text:
        {act}
    return recognize(self, head)
Recognizer.recognize = planted
"""


@pytest.mark.skipif(os.name != "posix", reason="signals")
@pytest.mark.parametrize(
    ("act", "words", "is_bug"),
    [
        ("raise IndexError('planted')", "IndexError: planted", True),
        ("os._exit(3)", "ChildProcessError: the process that read it died (exit status 3)", True),
        ("os.kill(os.getpid(), signal.SIGSEGV)", "read it died (SIGSEGV)", True),
        (
            "os.kill(os.getpid(), signal.SIGKILL)",
            "was killed, possibly by the out-of-memory killer",
            False,
        ),
    ],
)
def test_a_parser_process_fails_or_dies(
    act: str, words: str, is_bug: bool, logs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant = PLANTED.format(job=JOBS[0], act=act)
    serve = parallel._SERVE.replace("; serve()", f"; exec({plant!r}); serve()")
    monkeypatch.setattr(parallel, "_SERVE", serve)
    parsed = parallel.parse_in_processes(one_split_each(logs), tmp_path / "rows", processes=1)
    table = parsed.events.table()
    bad, good = sorted(splits_of(table), key=lambda row: str(row["source"]))
    caught = faults.decode_fault(bad["fault"])
    assert words in caught.what and caught.bug is is_bug
    assert "fault" not in good
    assert events_of(table, 1) == 11, "its events and its marks"


def test_out_of_memory_in_a_process_ends_the_run(
    logs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant = PLANTED.format(job=JOBS[0], act="raise MemoryError")
    serve = parallel._SERVE.replace("; serve()", f"; exec({plant!r}); serve()")
    monkeypatch.setattr(parallel, "_SERVE", serve)
    with pytest.raises(MemoryError):
        parallel.parse_in_processes(one_split_each(logs), tmp_path / "rows", processes=1)


# --- settling, measuring --------------------------------------------------------------------------


@pytest.mark.spark
def test_a_settling_step_that_fails_skips_only_its_source(
    logs: Path, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settle = settling.settle

    def failing(rows: Sequence[Any], *more: Any) -> Any:
        if any(row["what"] == "stream" and row["source"] == 0 for row in rows):
            raise ZeroDivisionError
        return settle(rows, *more)

    monkeypatch.setattr(settling, "settle", failing)
    report = diagnose((CHECKPOINTS,), discover([str(logs)]), lambda: spark)
    fault = bug(report)
    assert (fault.where, fault.source) == ("resolve", report.inputs[0].source)
    assert [job.job_id for job in report.data.jobs or ()] == [JOBS[1]]
    assert [item.recognised for item in report.inputs] == [10, 10]


@pytest.mark.spark
def test_failing_queries_of_a_topic_skip_only_that_topic(
    logs: Path, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    startup = topic("startup")
    failing = Part("SELECT nothing FROM {rows}", {"rows": spark.range(1)})
    monkeypatch.setattr(type(startup), "queries", lambda *_: [failing])
    topics = tuple(topic(name) for name in ("checkpoints", "startup"))
    report = diagnose(topics, discover([str(logs)]), lambda: spark)
    fault = bug(report)
    assert fault.where == "measure" and fault.message.startswith("startup: this is a bug")
    came = {each.topic: (each.status, each.verdict) for each in report.topics}
    assert came == {
        "checkpoints": ("assessed", "healthy"),
        "startup": ("inconclusive", "inconclusive"),
    }
    assert {rule.status for rule in report.rules if rule.code.startswith("ST")} == {"inconclusive"}


@pytest.mark.spark
@pytest.mark.usefixtures("third_record_fails")
def test_a_parser_that_fails_is_in_the_report(logs: Path, spark: Any) -> None:
    report = diagnose((CHECKPOINTS,), discover([str(logs)]), lambda: spark)
    fault = bug(report)
    assert (fault.where, fault.source) == ("parser", report.inputs[0].source)
    assert (fault.split, fault.line) == (0, 6)
    assert [len(job.checkpoints) for job in report.data.jobs or ()] == [3, 5]


def measured(*jobs: str, **more: Any) -> tuple[InspectedInputs, Measured]:
    facts = ClusterFacts(
        jobs=tuple(
            reports.job_facts(is_failing=False, key=JobKey("", job), name=f"{SECRET}-{job[0]}")
            for job in jobs
        ),
        processes=(),
    )
    inspected = InspectedInputs(sources=(), to_scan=(), side_inputs={}, notes=())
    return inspected, Measured(facts={"checkpoints": facts}, **more)


def test_a_failing_engine_leaves_inconclusive_rules() -> None:
    inspected, found = measured()
    lost = replace(found, facts={}, faults=[of("x")])
    report = report_on((CHECKPOINTS,), inspected, lost)
    bug(report)
    assert {rule.status for rule in report.rules} == {"inconclusive"}
    assert report.data.jobs == []


# --- rules ----------------------------------------------------------------------------------------


def planted_rule(monkeypatch: pytest.MonkeyPatch, code: str, judge: Any) -> None:
    rules = tuple(
        replace(rule, judge=judge) if rule.code == code else rule for rule in CHECKPOINTS.rules
    )
    monkeypatch.setattr(CHECKPOINTS, "rules", rules, raising=False)


def test_a_rule_fails_for_one_job_of_two(monkeypatch: pytest.MonkeyPatch) -> None:
    requests: list[str] = []

    def judge(job: Any, limits: Any) -> Iterator[Inconclusive]:
        requests.append(job.key.job_id)
        yield Inconclusive(reason="said before")
        if job.key.job_id == JOBS[0]:
            raise TypeError(SECRET)

    judge.__module__ = CHECKPOINTS.rules[3].judge.__module__
    planted_rule(monkeypatch, CHECKPOINTS.rules[3].code, judge)
    report = report_on((CHECKPOINTS,), *measured(*JOBS))
    fault = bug(report)
    code = CHECKPOINTS.rules[3].code
    assert fault.where == "rule" and fault.message.startswith(
        f"{code} on {SECRET}-a: this is a bug"
    )
    (rule,) = (rule for rule in report.rules if rule.code == code)
    assert rule.status == "inconclusive"
    assert rule.reason == f"said before · a bug in flowdiag kept it from judging {SECRET}-a"
    assert requests == list(JOBS), "the other job is judged"
    (topic,) = report.topics
    assert (topic.status, topic.verdict) == ("inconclusive", "inconclusive")


def test_names_in_a_fault_are_redacted_as_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    def judge(job: Any, limits: Any) -> Iterator[Inconclusive]:
        raise TypeError(f"{job.name} password=hunter2")
        yield

    judge.__module__ = CHECKPOINTS.rules[3].judge.__module__
    planted_rule(monkeypatch, CHECKPOINTS.rules[3].code, judge)
    options = Options()
    private = replace(options, privacy=replace(options.privacy, redact=True))
    shown = encoding.encode(report_on((CHECKPOINTS,), *measured(*JOBS), private)).decode()
    assert SECRET not in shown and "hunter2" not in shown and "this is a bug" in shown


@pytest.mark.parametrize(
    ("name", "lost"), [("data", "jobs"), ("review_outcomes", ""), ("notes", "")]
)
def test_steps_of_a_topic_may_fail(name: str, lost: str, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = getattr(CHECKPOINTS, name)

    def failing(facts: Any, *more: Any) -> Any:
        if facts is None:
            return whole(facts, *more)
        raise TypeError(SECRET)

    monkeypatch.setattr(CHECKPOINTS, name, failing, raising=False)
    report = report_on((CHECKPOINTS,), *measured(*JOBS))
    bug(report)
    # Rules without their data are not assessed, with or without the step.
    assert {rule.status for rule in report.rules} == {"clear", "not-assessed"}
    assert not lost or report.data.jobs == []


def test_facts_that_fail_for_one_job_keep_the_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def seen(facts: ClusterFacts, options: Options) -> ClusterFacts:
        if any(job.key.job_id == JOBS[0] for job in facts.jobs):
            raise TypeError
        return facts

    monkeypatch.setattr(CHECKPOINTS, "derive", seen)
    report = report_on((CHECKPOINTS,), *measured(*JOBS))
    assert bug(report).message.startswith(f"{SECRET}-a: this is a bug")
    assert [job.job_id for job in report.data.jobs or ()] == [JOBS[1]]


@pytest.mark.parametrize(
    "name",
    [
        "build.ReportBuilder._link",
        "build.ReportBuilder._story",
        "build.ReportBuilder._finding",
        "build.first_action",
        "build._quote",
        "inputs.input_problems",
    ],
)
def test_a_part_of_the_report_fails(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: Any, **__: Any) -> None:
        raise LookupError(SECRET)

    monkeypatch.setattr(f"flowdiag.analyses.report.{name}", failing)
    made_by_hand = name.endswith(("_story", "_finding"))
    report = reports.failing() if made_by_hand else report_on((CHECKPOINTS,), *measured(*JOBS))
    assert {fault.where for fault in report.errors} == {"render"}
    document(report)


# --- what is shown --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("format", "place"),
    [
        (Format.TABLE, "flowdiag.cli.views.checkpoints.blocks"),
        (Format.TABLE, "flowdiag.cli.render.table.findings_block"),
        (Format.TABLE, "flowdiag.cli.render.table.inputs_block"),
        (Format.TABLE, "flowdiag.cli.render.table._verdict"),
        (Format.TABLE, "flowdiag.cli.text.grid.Listing.__rich_console__"),
        (Format.MARKDOWN, "flowdiag.cli.render.markdown._jobs"),
        (Format.MARKDOWN, "flowdiag.cli.render.markdown._finding"),
        (Format.GITHUB, "flowdiag.cli.render.github._finding"),
        (Format.JUNIT, "flowdiag.cli.render.junit._finding_text"),
        (Format.HTML, "flowdiag.cli.render.html.sections.findings._view"),
        (Format.HTML, "flowdiag.cli.render.html._culprits"),
    ],
)
def test_a_failing_section_affects_no_other(
    format: Format, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: Any, **__: Any) -> None:
        raise LookupError(SECRET)

    report = reports.failing()
    whole = RENDERERS[format](report, Page())
    monkeypatch.setattr(place, failing)
    page = Page()
    shown = RENDERERS[format](report, page)
    assert page.faults.found and {fault.where for fault in page.faults.found} == {"render"}
    assert "cannot be shown because of a bug in flowdiag" in " ".join(shown.split())
    assert SECRET not in shown
    kept = set(whole.splitlines()) & set(shown.splitlines())
    assert kept, "the rest is shown"
    if format is Format.JUNIT:
        Xml.fromstring(shown)


@pytest.fixture
def saved(tmp_path: Path) -> str:
    path = tmp_path / "report.json"
    path.write_bytes(encoding.encode(reports.failing()))
    return str(path)


@pytest.mark.parametrize("more", [[], ["--debug"]])
def test_a_saved_report_with_a_section_that_fails(
    more: list[str],
    saved: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def failing(*_: Any) -> None:
        raise LookupError(f"{SECRET} password=hunter2")

    monkeypatch.setattr("flowdiag.cli.render.table.findings_block", failing)
    assert main(["render", saved, *more]) == 4
    out, err = capsys.readouterr()
    assert "findings: cannot be shown" in out and "Verdict" in out
    assert "error: findings: this is a bug in flowdiag: LookupError" in err
    assert err.count("please report it") == 1
    assert ("Traceback" in err) is bool(more)
    assert "hunter2" not in err
    assert logging.getLogger("flowdiag").handlers == []
