"""The source of the documentation site: every page is in the navigation, and every link has a target."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flowdiag.analyses.knowledge.causes import CAUSES
from flowdiag.cli.docs.generate import main
from flowdiag.cli.docs.site import SITUATIONS, write_site

ROOT = Path(__file__).parents[2]
LINK = re.compile(r"\]\((?!https?:|#)([^)#\s]+)(?:#([^)\s]*))?\)")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    write_site(ROOT, folder)
    return folder


def pages(site: Path) -> list[Path]:
    return sorted((site / "docs").rglob("*.md"))


def entries(nav: Any) -> Iterator[str]:
    """Yield the pages of a navigation, in order."""
    if isinstance(nav, str):
        yield nav
        return
    for item in nav.values() if isinstance(nav, dict) else nav:
        yield from entries(item)


def test_every_page_is_in_the_navigation_once(site: Path) -> None:
    nav = json.loads((site / "mkdocs.yml").read_text())["nav"]
    assert sorted(entries(nav)) == sorted(
        page.relative_to(site / "docs").as_posix() for page in pages(site)
    )


def test_every_link_has_a_target(site: Path) -> None:
    missing = [
        f"{page.relative_to(site)}: {hit[1]}"
        for page in pages(site)
        for hit in LINK.finditer(page.read_text())
        if not (page.parent / hit[1]).exists()
    ]
    assert missing == []


def test_every_cause_has_a_page_with_its_rules(site: Path) -> None:
    text = (site / "docs" / "causes" / "data-skew.md").read_text()
    assert text.startswith("# data-skew\n")
    assert (
        "[SK101](../rules/SK101.md)" in text and "## What to do" in text and "## Evidence" in text
    )
    assert {page.stem for page in (site / "docs" / "causes").glob("*.md")} == set(CAUSES)


def test_links_to_other_files_become_their_paths(site: Path) -> None:
    text = (site / "docs" / "index.md").read_text()
    assert "Apache License 2.0 (`LICENSE`)" in text and "](LICENSE)" not in text


def test_situations_name_commands_that_exist() -> None:
    texts = [(ROOT / "docs" / "situations" / f"{name}.md").read_text() for name in SITUATIONS]
    blocks = [block for text in texts for block in re.findall(r"```sh\n(.*?)```", text, re.DOTALL)]
    used = {hit for text in blocks for hit in re.findall(r"^\s*flowdiag (\w+)", text, re.MULTILINE)}
    commands = (ROOT / "docs" / "cli.md").read_text()
    assert used and all(f"## flowdiag {name}\n" in commands for name in used)


def test_the_module_writes_the_site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    assert main(["site", str(tmp_path / "site")]) == 0
    assert (tmp_path / "site" / "mkdocs.yml").exists()
