"""The newcomer's walk of CONTRIBUTING.md leads through files and functions that are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
WALK = re.findall(
    r"^\d+\. `([^`]+)` `([^`]+)`: .+$",
    TEXT.split("<!-- walk -->")[1].split("<!-- /walk -->")[0],
    re.MULTILINE,
)


def test_the_walk_is_short() -> None:
    assert 15 <= len(WALK) <= 20
    assert len({path for path, _ in WALK}) == len(WALK)


@pytest.mark.parametrize(("path", "name"), WALK)
def test_what_the_walk_names_is_there(path: str, name: str) -> None:
    text = (ROOT / path).read_text(encoding="utf-8")
    for part in name.split("."):
        wanted = rf"^\s*(?:def|class) {part}\b|^{part}\b.* = |^id = \"{part}\"|AS {part}\b"
        assert re.search(wanted, text, re.MULTILINE), f"{path} has no {part}"


@pytest.mark.parametrize("path", sorted(set(re.findall(r"tests/[\w/]+\.py", TEXT))))
def test_what_checks_an_addition_is_there(path: str) -> None:
    assert (ROOT / path).is_file()
