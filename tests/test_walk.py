"""The walk in CONTRIBUTING.md names existing files and functions."""

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
    assert 10 <= len(WALK) <= 15
    assert len({path for path, _ in WALK}) == len(WALK)


@pytest.mark.parametrize(("path", "name"), WALK)
def test_the_walk_names_existing_code(path: str, name: str) -> None:
    text = (ROOT / path).read_text(encoding="utf-8")
    for part in name.split("."):
        pattern = rf"^\s*(?:def|class) {part}\b|^{part}\b.* = |^id = \"{part}\"|AS {part}\b"
        assert re.search(pattern, text, re.MULTILINE), f"{path} has no {part}"


@pytest.mark.parametrize("path", sorted(set(re.findall(r"tests/[\w/]+\.py", TEXT))))
def test_the_checks_of_additions_exist(path: str) -> None:
    assert (ROOT / path).is_file()
