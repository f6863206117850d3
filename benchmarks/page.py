"""Writes measured tables to pages, between marks, so that the next run finds them."""

from __future__ import annotations

from pathlib import Path
from typing import Final

PAGE: Final = Path(__file__).parent / "README.md"


def write(sections: dict[str, str], page: Path = PAGE) -> None:
    """Replace the tables between their marks on a page; new sections are appended.

    Args:
        sections: Markdown by name.
        page: gets a line `<!-- name: generated -->` above each section and `<!-- /name -->` below.
    """
    text = page.read_text(encoding="utf-8")
    for name, section in sections.items():
        begin, end = f"<!-- {name}: generated -->\n", f"<!-- /{name} -->\n"
        block = f"{begin}{section.rstrip()}\n{end}"
        if begin in text:
            before, _, rest = text.partition(begin)
            text = before + block + rest.partition(end)[2]
        else:
            text = f"{text.rstrip()}\n\n{block}"
    page.write_text(text, encoding="utf-8")
