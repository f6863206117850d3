"""Writes the source of the documentation site: `python -m flowdiag.cli.docs site FOLDER` in the repository.

Zensical builds it, or MkDocs Material (`make site`). The pages are those of `docs/`, and one page for each rule and each cause.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from flowdiag.analyses.knowledge.causes import CAUSES
from flowdiag.analyses.model.rule import Rule
from flowdiag.analyses.topic_names import ENGINES
from flowdiag.analyses.topics import own_rules_of
from flowdiag.cli.reference.manual import cause_page, page_of

SITUATIONS: Final = (
    "tutorial",
    "checkpoints",
    "restarts",
    "rescaling",
    "batches",
    "memory",
    "state",
    "lag",
    "no-output",
)
_REFERENCE: Final = (
    "cli",
    "settings",
    "inputs",
    "report",
    "tables",
    "actions",
    "components",
    "rules",
)
_LIVE: Final = (
    "live",
    "collect",
    "kubernetes",
    "yarn",
    "next",
    "compare",
    "simulation",
    "listener",
)
_OUTPUT: Final = ("ci", "container", "html", "agents", "library", "plugins")
_QUALITY: Final = ("accuracy", "diagnose", "pastes", "reliability", "scaling")

_LINK: Final = re.compile(r"\[([^\]]*)\]\((?!https?:|#)([^)#\s]+)(#[^)\s]*)?\)")
"""A link to a file of the repository: its text, the path, and the anchor."""


def write_site(root: Path, folder: Path) -> None:
    """Write the pages, and `mkdocs.yml` next to them.

    Args:
        root: the repository.
        folder: gets `docs/` with the pages and `mkdocs.yml`. Its earlier contents are removed.
    """
    shutil.rmtree(folder, ignore_errors=True)
    pages = folder / "docs"
    for name, text in _pages(root):
        path = pages / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(_with_links(text, name, root), encoding="utf-8")
    shutil.copytree(root / "docs" / "images", pages / "images")
    # JSON is YAML.
    settings = json.dumps(_settings(), indent=2)
    (folder / "mkdocs.yml").write_text(settings + "\n", encoding="utf-8")


def _rules() -> Mapping[str, Rule]:
    """Return the built-in rules by code; a rule that several topics share appears once."""
    return {rule.code: rule for name in ENGINES for rule in own_rules_of(name)}


def _pages(root: Path) -> Iterator[tuple[str, str]]:
    """Yield the path and text of every page."""
    yield "index.md", (root / "README.md").read_text(encoding="utf-8")
    for name in ("CHANGELOG.md", "CONTRIBUTING.md"):
        yield name.lower(), (root / name).read_text(encoding="utf-8")
    for path in sorted((root / "docs").rglob("*.md")):
        yield path.relative_to(root / "docs").as_posix(), path.read_text(encoding="utf-8")
    yield "dataset.md", (root / "fixtures" / "DATASET.md").read_text(encoding="utf-8")
    yield "speed.md", (root / "benchmarks" / "README.md").read_text(encoding="utf-8")
    for code, rule in _rules().items():
        yield f"rules/{code}.md", page_of(rule)
    for word in CAUSES:
        yield f"causes/{word}.md", cause_page(word)


def _with_links(text: str, page: str, root: Path) -> str:
    """Rewrite links so that they point to pages of the site. A link to any other file becomes the path of that file.

    Args:
        text: the page's Markdown.
        page: its path on the site.
        root: the repository.
    """
    moved = {
        "README.md": "index.md",
        "CHANGELOG.md": "changelog.md",
        "CONTRIBUTING.md": "contributing.md",
    }
    moved |= {"benchmarks/README.md": "speed.md", "fixtures/DATASET.md": "dataset.md"}
    homes = {"index.md": "", "changelog.md": "", "contributing.md": ""}
    homes |= {"dataset.md": "fixtures", "speed.md": "benchmarks"}
    home = Path(homes.get(page, str(Path("docs", page).parent)))

    def target(hit: re.Match[str]) -> str:
        text, path, anchor = hit[1], _normalize(home / hit[2]), hit[3] or ""
        if path in moved:
            place = moved[path]
        elif path.startswith("docs/") and path.endswith((".md", ".png", ".svg")):
            place = path.removeprefix("docs/")
        else:
            return f"`{path}`" if path in text else f"{text} (`{path}`)"
        return f"[{text}]({'../' * page.count('/')}{place}{anchor})"

    return _LINK.sub(target, text)


def _normalize(path: Path) -> str:
    """Resolve `..` in a path within the repository."""
    parts: list[str] = []
    for part in path.parts:
        if part == "..":
            parts.pop()
        else:
            parts.append(part)
    return "/".join(parts)


def _settings() -> dict[str, Any]:
    """Return the site's settings for both builders. The site works offline: no web fonts, and a local
    search."""
    return {
        "site_name": "flowdiag",
        "docs_dir": "docs",
        "site_dir": "site",
        "strict": True,
        "use_directory_urls": False,
        "theme": {
            "name": "material",
            "font": False,
            "features": ["navigation.sections", "navigation.indexes", "search.highlight"],
            "palette": [
                {"media": "(prefers-color-scheme: light)", "scheme": "default"},
                {"media": "(prefers-color-scheme: dark)", "scheme": "slate"},
            ],
        },
        "plugins": ["search", "offline"],
        "markdown_extensions": [
            "admonition",
            "tables",
            "fenced_code",
            {"toc": {"permalink": True}},
        ],
        "validation": {
            "links": {"not_found": "warn", "anchors": "warn", "unrecognized_links": "warn"},
            "nav": {"omitted_files": "warn", "not_found": "warn"},
        },
        "nav": [
            {"Home": "index.md"},
            {
                "By situation": [
                    "situations/README.md",
                    *(f"situations/{name}.md" for name in SITUATIONS),
                ]
            },
            {"Guides": [f"{name}.md" for name in (*_LIVE, *_OUTPUT)]},
            {"Reference": [f"{name}.md" for name in _REFERENCE]},
            {"Rules": [f"rules/{code}.md" for code in _rules()]},
            {"Causes": [f"causes/{word}.md" for word in CAUSES]},
            {
                "How it is measured": [
                    *(f"{name}.md" for name in _QUALITY),
                    "dataset.md",
                    "speed.md",
                ]
            },
            {"Project": ["architecture.md", "contributing.md", "changelog.md"]},
        ],
    }
