"""A path without a command, and stable names of test cases."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree as Xml

import pytest

from flowdiag.analyses.memory.inputs import read_others
from flowdiag.analyses.report.fitting import engines_of, fits, suggested_commands
from flowdiag.analyses.topic_names import PODS, names_of
from flowdiag.cli.options.routing import with_default_command
from flowdiag.cli.render import junit
from flowdiag.cli.text.page import Page
from flowdiag.parsers.discover import discover

from . import reports

COMMANDS = ("diagnose", "checkpoints", "rate", "queues", "startup", "memory", "render")
JOBMANAGER = "2023-05-01 10:00:00,000 INFO  org.apache.flink.runtime.{} [] - {}\n"
EXPIRED = JOBMANAGER.format(
    "checkpoint.CheckpointCoordinator",
    "Checkpoint 7 of job 8dbcdd42d8b1a1f2f4b4b8d8b5e6c0a1 expired before completing.",
)
RESTARTS = 3 * JOBMANAGER.format(
    "executiongraph.ExecutionGraph",
    "Job orders (8dbcdd42d8b1a1f2f4b4b8d8b5e6c0a1) switched from state RUNNING to RESTARTING.",
)
BEHIND = (
    "23/05/01 10:00:09 WARN ProcessingTimeExecutor: Current batch is falling behind. The trigger"
    " interval is 2000 milliseconds, but spent 9475 milliseconds\n"
)
POD = """\
Name:             orders-taskmanager-1-1
Namespace:        flink
Node:             worker-3/10.0.1.12
Containers:
  flink-main-container:
    Image:         flink:1.17
    State:          Running
      Started:      Mon, 01 May 2023 10:05:12 +0000
    Last State:     Terminated
      Reason:       OOMKilled
      Exit Code:    137
      Started:      Mon, 01 May 2023 09:55:12 +0000
    Limits:
      memory:  1728Mi
"""


PROGRESS = (
    "{'id': '8c0119b7-1fe8-4de9-9ea0-63a767460287', 'runId': 'c58ef000-b8f0-429c-899a-8252a414e67f',"
    " 'name': 'orders', 'timestamp': '2026-11-21T06:00:00.000Z', 'batchId': 7, 'numInputRows': 100,"
    " 'durationMs': {'triggerExecution': 8000}, 'stateOperators': [], 'sources': []}\n"
)


@pytest.mark.parametrize(
    "text, command",
    [
        (EXPIRED, "checkpoints"),
        (RESTARTS, "startup"),
        (BEHIND, "rate"),
        (POD, "memory"),
        (PROGRESS, "rate"),
    ],
)
def test_the_fitting_command_is_detected(text: str, command: str, tmp_path: Path) -> None:
    path = tmp_path / "input.log"
    path.write_text(text)
    sources = discover([str(path)]).sources
    assert fits(sources)[0].topic == command
    engine = "spark" if command == "rate" else "flink"
    owned, engines = engines_of(sources)
    assert engines - {PODS} == {engine}
    assert command in names_of("diagnose", engines)
    assert {source.engine for source in owned if source.kind != "not-read"} <= {engine}
    assert suggested_commands("diagnose", sources, [str(path)]) == []


def test_a_path_alone_is_diagnosed(tmp_path: Path) -> None:
    path = str(tmp_path)
    assert with_default_command([path, "--format", "json"], COMMANDS) == [
        "diagnose",
        path,
        "--format",
        "json",
    ]
    assert with_default_command(["--format", "json", path], COMMANDS)[0] == "diagnose"
    assert with_default_command(["-"], COMMANDS) == ["diagnose", "-"]


def test_another_command_is_suggested(tmp_path: Path) -> None:
    path = tmp_path / "a log.txt"
    path.write_text(RESTARTS)
    sources = discover([str(path)]).sources
    ((text, line),) = suggested_commands("checkpoints", sources, [str(path)])
    assert "restarts" in text
    assert line == f"flowdiag startup '{path}'"
    assert suggested_commands("startup", sources, [str(path)]) == []


@pytest.mark.parametrize(
    "arguments", [["rules"], ["checkpoint", "."], ["--help"], [], ["checkpoints", "."]]
)
def test_other_command_lines_are_unchanged(arguments: list[str]) -> None:
    assert with_default_command(arguments, ("checkpoints", "rules")) == arguments


def test_a_described_pod_is_not_read_as_a_flink_log(tmp_path: Path) -> None:
    path = tmp_path / "pod.txt"
    path.write_text(POD)
    others = read_others(discover([str(path)]).sources)
    assert [(kill.reason, kill.exit_code, kill.pod) for kill in others.kills] == [
        ("OOMKilled", 137, "orders-taskmanager-1-1")
    ]
    assert set(others.kinds.values()) == {"kubectl"}


def test_the_version_of_a_deployment_is_read(tmp_path: Path) -> None:
    path = tmp_path / "deployment.yaml"
    path.write_text(
        "kind: FlinkDeployment\nspec:\n  flinkVersion: v1_17\n  flinkConfiguration:\n"
        "    taskmanager.memory.process.size: 4g\n"
    )
    assert read_others(discover([str(path)]).sources).version == "1.17"


def test_junit_cases_have_stable_names() -> None:
    def names(report: object) -> set[tuple[str, str]]:
        suite = Xml.fromstring(junit.render(report, Page()))  # type: ignore[arg-type]
        return {(case.get("classname", ""), case.get("name", "")) for case in suite}

    failed, passed = names(reports.failing()), names(reports.healthy())
    of_rule = {name for name in failed if name[1].startswith("CP")}
    assert of_rule
    assert {group for group, _ in of_rule} == {"orders"}
    shared = {name for name in passed if name[1].startswith("CP101")}
    assert shared
    assert shared <= failed
