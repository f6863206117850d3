"""Renders docs/components.md, and the answers of `flowdiag explain` about codes and components."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from flowdiag.parsers.codes import Code, Family, families, find_codes
from flowdiag.parsers.components import Component, component_named, components

_HEAD: Final = """\
# Components and codes

Generated from `parsers/formats/components.toml` and `parsers/formats/codes-*.toml`. flowdiag identifies
the software that threw an exception by the packages in the exception's class, message and stack trace. It also explains
error codes in the exception's text. `flowdiag explain` answers from the same tables: `flowdiag explain ORA-01555`, `flowdiag explain exit 239`, `flowdiag explain rocksdb`.

## Components

| component | what it is | check first | its own log |
|---|---|---|---|
"""
_CODES: Final = """
## Codes

A number counts as a code only next to words that mark it: `exit code 137`, not 137. Codes of Spark itself, and rare SQL
states, are read from the installed PySpark.
"""


def components_document() -> str:
    """Render docs/components.md."""
    rows = (
        f"| `{one.name}` | {one.what} | {_cell(one.check)} | {_cell(one.log)} |\n".replace(
            "\\\n", "\n"
        )
        for one in components().values()
    )
    return _HEAD + "".join(rows) + _CODES + "".join(map(_family_table, families()))


def _family_table(family: Family) -> str:
    entries = [
        *family.codes.items(),
        *((f"{key}…", entry) for key, entry in family.classes.items()),
    ]
    head = f"\n### {family.title}\n\nSource: {family.source}.\n"
    if not entries:
        return head
    rows = "".join(
        f"| `{code}` | {_cell(entry['means'])} | {_cell(entry.get('check', ''))} |\n"
        for code, entry in entries
    )
    return f"{head}\n| code | meaning | check first |\n|---|---|---|\n{rows}"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def pages_about(words: str) -> list[str]:
    """Return the pages about a code or a component, or an empty list if the words name neither.

    >>> print(pages_about("exit 239")[0].splitlines()[0])
    exit code 239
    """
    pages = ["\n".join(_code_lines(code)) + "\n" for code in find_codes(words)]
    component = components().get(words.lower()) or component_named(words)
    if component is not None:
        pages.append("\n".join(_component_lines(component)) + "\n")
    return pages


def _code_lines(code: Code) -> Iterator[str]:
    family = next(one for one in families() if one.name == code.family)
    yield code.code
    yield ""
    yield f"means    {code.meaning}"
    if code.check:
        yield f"check    {code.check}"
    if code.retriable is not None:
        yield f"retry    {'a retry can succeed' if code.retriable else 'a retry of the same request fails again'}"
    yield f"source   {family.source}"


def _component_lines(component: Component) -> Iterator[str]:
    yield component.name
    yield ""
    yield f"means    {component.what}"
    yield f"check    {component.check}"
    yield f"log      {component.log}"
    if component.packages:
        yield f"classes  {', '.join(component.packages)}"
