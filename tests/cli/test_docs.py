"""Generated documents are current, and rules are documented."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from flowdiag.analyses.knowledge.causes import CAUSES
from flowdiag.analyses.model.rule import HEADINGS, Rule
from flowdiag.analyses.topics import all_rules
from flowdiag.cli.app import main
from flowdiag.cli.docs.generate import documents, with_blocks
from flowdiag.cli.reference.manual import rule_page, sections_of

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    "path, text", list(documents(ROOT)), ids=lambda value: Path(value).name[:20]
)
def test_generated_documents_are_current(path: Path, text: str) -> None:
    assert path.read_text(encoding="utf-8") == text, "run python -m flowdiag.cli.docs"


def test_the_readme_has_generated_blocks() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert {"exit-codes"} == set(re.findall(r"<!-- ([\w-]+): generated -->", readme))


def test_a_block_is_regenerated() -> None:
    page = with_blocks("a\n<!-- exit-codes: generated -->\nold\n<!-- /exit-codes -->\nb\n")
    assert page.startswith("a\n<!-- exit-codes: generated -->\n| code | meaning |\n")
    assert page.endswith("| 143 | ended by SIGTERM |\n<!-- /exit-codes -->\nb\n")


@pytest.mark.parametrize("rule", all_rules(), ids=lambda rule: rule.code)
def test_every_rule_is_documented(rule: Rule) -> None:
    parts = sections_of(rule)
    assert [heading for heading in HEADINGS if not parts.get(heading)] == []
    assert re.fullmatch(r"(BP|CP|IO|MM|RT|SK|ST)\d{3}", rule.code)
    assert re.fullmatch(r"[a-z]+(-[a-z]+)*", rule.name)
    assert rule.title and not rule.title.endswith(".")
    for threshold in rule.thresholds:
        assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", threshold.name) and threshold.why


def test_codes_and_names_are_unique() -> None:
    words = [word for rule in all_rules() for word in (rule.code, rule.name)]
    assert len(words) == len(set(words))


def test_every_cause_that_a_rule_names_is_documented() -> None:
    named = {
        word
        for file in (ROOT / "analyses").glob("*/rules/*.py")
        for word in re.findall(r'cause="([\w-]+)"', file.read_text())
    }
    assert named <= set(CAUSES)


@pytest.mark.parametrize("rule", all_rules(), ids=lambda rule: rule.code)
def test_a_page_lists_the_remedies_of_its_causes(rule: Rule) -> None:
    page = rule_page(rule)
    for word in rule.causes:
        assert f"{word}: {CAUSES[word].meaning}" in page
        for remedy in CAUSES[word].remedies.values():
            assert re.sub(r"\{\w+\}", "…", remedy.text) in page


def test_the_reliability_page_names_existing_tests() -> None:
    page = (ROOT / "docs" / "reliability.md").read_text(encoding="utf-8")
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py")]
    defined = re.findall(r"def (test_\w+)", "\n".join(sources))
    named = re.findall(r"`(?:test_\w+\.py::)?(?:test_|…)(\w+)…?`", page)
    assert len(named) > 80
    assert [name for name in named if not any(name in test for test in defined)] == []


@pytest.mark.parametrize(
    "command",
    [["mandoc", "-T", "lint", "-W", "warning"], ["man", "--warnings", "-l", "-P", "cat"]],
    ids=lambda value: str(value[0]),
)
def test_the_man_page_is_valid(command: list[str]) -> None:
    if shutil.which(command[0]) is None:
        pytest.skip(f"needs {command[0]}")
    page = str(ROOT / "docs" / "flowdiag.1")
    done = subprocess.run([*command, page], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    if command[0] == "man":
        assert "flowdiag collect flink" in done.stdout and "EXIT STATUS" in done.stdout


@pytest.mark.parametrize(
    ("word", "title"),
    [("cp101", "# CP101 checkpoint-expired"), ("Task-Hangs", "# task-hangs")],
)
def test_the_page_of_the_site_is_shown(
    word: str, title: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["docs", word]) == 0
    page = capsys.readouterr().out
    assert page.startswith(f"{title}\n\n") and "\n## What to do\n" in page
    assert "](" not in page  # a link to another page has no target here


def test_a_name_of_a_rule_and_a_cause_shows_both(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flowdiag.cli.output.console.is_terminal", lambda stream: True)
    monkeypatch.setenv("COLUMNS", "60")
    assert main(["docs", "data-skew"]) == 0
    page = capsys.readouterr().out
    assert "SK101 data-skew" in page and "\x1b[" in page and "##" not in page
    assert page.count("What to do") == 2


def test_a_page_that_does_not_exist(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["docs", "data-skwe"]) == 2
    assert "did you mean 'data-skew'?" in capsys.readouterr().err
