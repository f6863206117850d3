"""Codes with a meaning of their own, and numbers that are none."""

from __future__ import annotations

import pytest

from flowdiag.parsers.codes import codes_in, families, find_codes


def test_entries_are_complete() -> None:
    for family in families():
        assert family.source and family.title
        for code, entry in (family.codes | family.classes).items():
            assert entry["means"] and not entry["means"].endswith("."), code
            assert not entry.get("check") or entry["check"].endswith("."), code


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Container exited with a non-zero exit code 143", ["exit code 143"]),
        ("Process exited with exit code 239.", ["exit code 239"]),
        ("exitStatus=-104, diagnostics", ["exit code -104"]),
        ("Executor 3 on host exited with code 52 (exit code 52)", ["exit code 52"]),
    ],
)
def test_codes(text: str, expected: list[str]) -> None:
    assert [code.code for code in codes_in(text)] == expected


@pytest.mark.parametrize(
    "text",
    ["Removed 137 of 143 entries", "took 239 ms", "Finished job 137 with status FINISHED", ""],
)
def test_numbers_are_no_codes(text: str) -> None:
    assert codes_in(text) == ()


@pytest.mark.parametrize(
    ("words", "expected"),
    [("exit 239", ["exit code 239"]), ("137", ["exit code 137"]), ("CP101", [])],
)
def test_questions(words: str, expected: list[str]) -> None:
    assert [code.code for code in find_codes(words)] == expected
