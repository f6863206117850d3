"""Output other than reports: the list of rules, the schema, and shell completion."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest

from flowdiag.analyses.report.encoding import encode
from flowdiag.analyses.report.transform import json_schema
from flowdiag.analyses.topic_names import ENGINES
from flowdiag.analyses.topics import all_rules
from flowdiag.cli.app import main
from flowdiag.cli.docs.manual import rule_page
from flowdiag.cli.options.completion import complete_rule, complete_rules

from . import reports


def test_rules_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rules", "--format", "json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert [item["code"] for item in listed] == [rule.code for rule in all_rules()]
    assert {item["command"] for item in listed} == set(ENGINES)
    for item, rule in zip(listed, all_rules(), strict=True):
        page = rule_page(rule)
        assert (item["name"], item["core"]) == (rule.name, rule.core)
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
