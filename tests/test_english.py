"""All text of the project reads as plain English, as far as a program can check it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from . import english
from .english import ROOT, Text, problems, problems_in


def found(text: str) -> list[str]:
    return [problem.what.split(":")[0] for problem in problems_in(Text("a.md", 1, text))]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Mend the option.", ["'Mend'"]),
        ("The subtask holds up the barrier.", ["'holds up'"]),
        ("What was read is listed below.", ["opens with a free relative"]),
        ("What does the report show?", []),
        ("`told` is a field.", []),
        ('The log contains "goes on" here.', []),
        ("One word. " * 40, []),
        ("word " * 31 + "end.", ["32 words in a sentence"]),
        ("| " + "word " * 40 + "|", []),
        ("```\nwhoever\n```\nThe end.", []),
    ],
)
def test_the_check_finds_bad_wording_and_nothing_else(text: str, expected: list[str]) -> None:
    assert found(text) == expected


def test_python_text_is_checked_in_docstrings_comments_and_messages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(english, "ROOT", tmp_path)
    module = tmp_path / "module.py"
    module.write_text(
        '"""Mends it."""\n\n\n# in vain\nTEXT = f"{1} nobody was at hand"\nQUOTE = "in vain again, yes"  # english: quoted\n'
    )
    lines = [
        problem.line
        for piece in english.python_texts(module, literals=True)
        for problem in problems_in(piece)
    ]
    assert sorted(lines) == [1, 4, 5, 5]


def test_names_contain_no_banned_word(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(english, "ROOT", tmp_path)
    module = tmp_path / "standstill.py"
    module.write_text(
        "def told_apart(asked):\n    usual = asked.said\n    return usual\n\n\n"
        "class WhatSheSaid:\n    _BLANKS = {}\n    fine: tuple[int, ...] = (1,)\n\n\n"
        "async def seek(whence, *besides, **knows):\n    self.lone_wanted = 1\n    tell = 2\n"
        "from json import loads as unsaid, dumps as says\n"
    )
    found = [(problem.line, problem.what.split()[0]) for problem in english.name_problems(module)]
    assert sorted(found) == [
        (1, "'asked'"),
        (1, "'standstill'"),
        (1, "'told'"),
        (2, "'usual'"),
        (6, "'Said'"),
        (7, "'BLANKS'"),
        (11, "'besides'"),
        (11, "'knows'"),
        (11, "'whence'"),
        (12, "'lone'"),
        (12, "'wanted'"),
        (14, "'says'"),
    ]


def test_few_names_are_allowed_and_each_occurs() -> None:
    assert len(english.NAMES_ALLOWED) <= 5
    defined = {
        name
        for path in english.files(english.PRODUCT)
        if path.suffix == ".py"
        for _, name in english.defined_names(ast.parse(path.read_text(encoding="utf-8")))
    }
    assert english.NAMES_ALLOWED.keys() <= defined


@pytest.mark.parametrize(
    "path", sorted({path.relative_to(ROOT).parts[0] for path in english.files()})
)
def test_every_text_reads_as_plain_english(path: str) -> None:
    assert [str(problem) for problem in problems([path])] == []
