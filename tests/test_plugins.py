"""Tests rules and messages of other packages: installed, broken, and missing on executors."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from flowdiag.analyses import topics
from flowdiag.analyses.contract.report import Report
from flowdiag.analyses.diagnosis import diagnose
from flowdiag.analyses.engine.reading import Resources
from flowdiag.analyses.topic_names import ENGINES
from flowdiag.parsers import catalogue, plugins
from flowdiag.parsers.discover import discover
from flowdiag.parsers.parallel import parse_in_processes
from flowdiag.parsers.rows import Event
from flowdiag.parsers.split import plan_splits

from . import plugin_packages

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOG = """\
2026-01-31 12:00:00,000 INFO  org.apache.flink.runtime.checkpoint.CheckpointCoordinator [] - \
Triggering checkpoint 7 (type=CheckpointType{name='Checkpoint', sharingFilesStrategy=FORWARD_BACKWARD}) \
@ 1769860800000 for job 7c7769847d333438dd9ce845d5a2d980.
"""
# Skipped plug-ins, and words of the reason.
BROKEN = {
    "bad_flowdiag.broken:RULE": "RuntimeError: no licence",
    "CP101": "flowdiag has a rule 'CP101'",
    "X1": "its code does not",
    "queues.none": "is neither a rule",
    "nowhere": "there is no topic",
    "its catalogue": "TOMLDecodeError",
    "no_such_event": "is not a valid Event",
    "good things happen": "the sample is not recognized",
    "four": "contains no messages",
}


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return plugin_packages.install(tmp_path_factory.mktemp("plugins"))


@pytest.fixture
def installed(target: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Put the packages on the path of this process."""
    monkeypatch.syspath_prepend(target)
    _forget()
    yield
    monkeypatch.undo()
    _forget()
    for name in ENGINES:
        topics.topic(name)  # without the rules of plug-ins


def _forget() -> None:
    topics._plugin_rules.cache_clear()
    plugins._installed_messages.cache_clear()
    catalogue._plugin_catalogue.cache_clear()
    catalogue._catalogue.cache_clear()
    plugins._skipped.clear()


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    path = tmp_path / "jobmanager.log"
    refused = [plugin_packages.LINE.format(number=number) for number in (7, 8)]
    path.write_text(LOG + "\n".join(refused) + "\n")
    return path


def run(target: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "flowdiag", *arguments],
        env={**os.environ, "PYTHONPATH": str(target)},
        capture_output=True,
        check=False,
        text=True,
        timeout=60,
    )


def test_rules_of_plugins_are_listed_and_explained(target: Path) -> None:
    listed = run(target, "rules", "--format", "json")
    rules = {rule["code"]: rule for rule in json.loads(listed.stdout)}
    assert rules["ACME101"]["plugin"] == "acme-flowdiag 1.2"
    assert rules["ACME101"]["name"] == "storage-over-quota"
    assert rules["ACME101"]["command"] == "checkpoints"
    assert rules["CP101"]["plugin"] is None and rules["CP101"]["name"] == "checkpoint-expired"
    warnings = listed.stderr.splitlines()
    assert len(warnings) == len(BROKEN), listed.stderr
    assert all(w.startswith("warning: plug-in bad-flowdiag 0.1 is skipped: ") for w in warnings)
    for word, why in BROKEN.items():
        assert sum(word in warning and why in warning for warning in warnings) == 1, (word, why)
    page = run(target, "explain", "acme101")
    assert page.returncode == 0
    assert "at least `refusals`" in page.stdout and "acme-quota" in page.stdout


@pytest.mark.usefixtures("installed")
def test_parser_processes_get_the_messages(logs: Path, tmp_path: Path) -> None:
    rows = parse_in_processes(
        plan_splits(discover([str(logs)]).sources), tmp_path / "rows", processes=1
    ).events.of_kinds([Event.EXTERNAL_FAILURE])
    assert rows["template"].to_pylist() == ["acme-storage-refused"] * 2
    assert rows["checkpoint"].to_pylist() == [7, 8]


@pytest.mark.usefixtures("installed")
def test_messages_can_be_pickled(monkeypatch: pytest.MonkeyPatch) -> None:
    sent = pickle.loads(pickle.dumps(plugins.messages()))
    assert sent[0].package == "acme-flowdiag 1.2"
    monkeypatch.setattr(plugins, "_sent", None)
    plugins.use_messages(())
    assert catalogue.load_catalogue().recognize("Acme storage refused chk-7: over quota") is None
    plugins.use_messages(sent)
    found = catalogue.load_catalogue().recognize("Acme storage refused chk-7: over quota")
    assert found is not None and found.values["cause"] == "over quota"


@pytest.mark.spark
@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("executors", [False, True])
def test_a_report_contains_findings_of_a_plugin(
    logs: Path, spark: SparkSession, executors: bool
) -> None:
    report = _report(logs, spark, executors)
    found = next(each for each in report.findings if each.code == "ACME101")
    assert found.title == "Acme's storage refused 2 checkpoints"
    assert found.cause == "acme-quota"
    assert found.evidence[0].line == 2
    assert {rule.code for rule in report.rules} > {"ACME101", "CP101"}
    assert sum("plug-in bad-flowdiag 0.1" in note.message for note in report.warnings) == len(
        BROKEN
    )


def _report(logs: Path, spark: SparkSession, executors: bool) -> Report:
    # Spark's workers have none of these packages, like executors on other hosts.
    resources = Resources(executors=True, local_bytes=-1) if executors else Resources()
    found = discover([str(logs)])
    return diagnose((topics.topic("checkpoints"),), found, lambda: spark, resources=resources)


@pytest.mark.spark
def test_a_report_without_plugins_does_not_mention_them(logs: Path, spark: SparkSession) -> None:
    report = _report(logs, spark, executors=False)
    assert not any(each.code == "ACME101" for each in report.findings)
    assert not any("plug-in" in note.message for note in report.warnings)
