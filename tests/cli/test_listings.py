"""Output other than reports: the list of rules, the schema, and shell completion."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest

from flowdiag.analyses.contract.encoding import encode
from flowdiag.analyses.model.rule import Rule
from flowdiag.analyses.report.transform import json_schema
from flowdiag.analyses.topic_names import ENGINES
from flowdiag.analyses.topics import all_rules
from flowdiag.cli.app import main
from flowdiag.cli.options.completion import complete_rule, complete_rules
from flowdiag.cli.reference.manual import rule_page

from . import reports


def test_rules_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rules", "--format", "json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert [item["code"] for item in listed] == [rule.code for rule in all_rules()]
    assert {item["command"] for item in listed} == set(ENGINES)
    for item, rule in zip(listed, all_rules(), strict=True):
        page = rule_page(rule)
        assert (item["name"], item["core"]) == (rule.name, rule.core)
        assert item["severity"] == rule.severity
        assert all(f"{limit['name']} = " in page for limit in item["thresholds"])
        assert len(item["thresholds"]) == len(rule.thresholds)
        assert all(vote["why"] in page for vote in item["votes"])
        assert item["page"]["what_to_do"] in page


@pytest.mark.parametrize(
    "command", [["rules"], ["rules", "-f", "json"], ["explain", "CP101"], ["schema"]]
)
def test_a_listing_can_be_written_to_a_file(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(command) == 0
    printed = capsys.readouterr().out
    assert main([*command, "-o", str(tmp_path / "file")]) == 0
    assert capsys.readouterr().out == ""
    assert (tmp_path / "file").read_text() == printed
    assert main([*command, "-o", str(tmp_path / "nowhere" / "file")]) == 2
    assert "cannot write" in capsys.readouterr().err


def test_the_schema_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed == json_schema()
    jsonschema.validate(json.loads(encode(reports.failing())), printed)


def test_the_shell_completes_rules(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "flowdiag"],
        env={
            **os.environ,
            "_FLOWDIAG_COMPLETE": "complete_zsh",
            "_TYPER_COMPLETE_ARGS": "flowdiag checkpoints --ignore RT1,CP10",
        },
        check=False,
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert done.stderr == ""
    assert '"RT1,CP101":"Checkpoints expire before they complete"' in done.stdout
    assert '"RT1,CP107":' in done.stdout and "CP201" not in done.stdout


def test_rule_names_are_completed() -> None:
    assert [word for word, _ in complete_rule("checkpoint-e")] == ["checkpoint-expired"]
    assert [word for word, _ in complete_rules("bp1,cp10")][:2] == ["bp1,cp101", "bp1,cp102"]
    assert len(complete_rule("")) == len(all_rules()) and complete_rule("x") == []


def test_rules_are_grouped_by_command_severity_and_cause(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["rules", "kafka-timeout", "RT4"]) == 0
    printed = capsys.readouterr().out
    heads = [line for line in printed.splitlines() if line and not line.startswith(" ")]
    assert [head.split(":")[0] for head in heads] == [
        "flowdiag checkpoints",
        "flowdiag rate",
        "flowdiag queues",
    ]
    assert "CP301  task-failure" in printed and "SK101" not in printed
    severities = [line.strip() for line in printed.splitlines() if re.match(r"  \w", line)]
    of_rate = ["up to critical", "up to warning", "info only"]
    assert severities == ["up to critical", *of_rate, "up to critical"]
    assert main(["rules", "startup", "-f", "json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert {item["command"] for item in listed} == {"startup"}
    assert main(["rules", "kafka-timout"]) == 2
    assert "kafka-timeout" in capsys.readouterr().err


def test_explain_describes_causes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "kafka-timeout"]) == 0
    printed = capsys.readouterr().out
    assert "means    Kafka does not respond in time or is unreachable" in printed
    assert "rules    CP301, " in printed and "nc -vz SERVICE_HOST PORT" in printed
    assert main(["explain", "data-skew"]) == 0  # a rule and a cause
    printed = capsys.readouterr().out
    assert printed.index("SK101 data-skew") < printed.index("Cause data-skew")


@pytest.mark.parametrize("rule", all_rules(), ids=lambda rule: rule.code)
def test_a_page_opens_with_lines_to_act_on(rule: Rule) -> None:
    head, second, *lines = rule_page(rule).splitlines()
    opening = lines[: lines.index("")]
    assert (head, second) == (f"{rule.code} {rule.name}", "")
    assert 3 <= len(opening) <= 5 and opening[0] == f"means    {rule.title}"
    assert any(line.startswith("do       ") for line in opening)
