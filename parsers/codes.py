"""Codes that have a meaning of their own: SQLSTATE, `ORA-01555`, `HTTP 403`, `exit code 137`, Kafka's errors, …

Each family is a data file, `formats/codes-*.toml`, which cites its source. The error conditions and SQL states of
Spark come from the installed PySpark. `codes_in` only accepts a number next to the words that make it a code.
"""

from __future__ import annotations

import functools
import pkgutil
import re
import tomllib
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from flowdiag.parsers.errors import FlowdiagError

_TEXT: Final = 16_384  # searched characters
_MOST: Final = 8  # codes of one text
_TEMPLATE: Final = 300

_FAMILIES: Final = ("exit",)


class Code(NamedTuple):
    """A code and its meaning.

    Attributes:
        code: as people write it: `ORA-01555`, `HTTP 403`, `exit code 137`.
        family: name of its family.
        meaning: a clause.
        check: what to check first, as a sentence; empty if the meaning is enough.
        retriable: whether the same request can succeed later. None: unknown or not a request.
    """

    code: str
    family: str
    meaning: str
    check: str = ""
    retriable: bool | None = None


class _Family(NamedTuple):
    name: str
    title: str
    source: str
    shown: str  # with {code}
    patterns: tuple[re.Pattern[str], ...]  # each with a group `code`
    asked: re.Pattern[str]
    codes: Mapping[str, Mapping[str, Any]]
    classes: Mapping[str, Mapping[str, Any]]


def codes_in(text: str) -> tuple[Code, ...]:
    """Return the codes in a failure text, in printed order.

    >>> [code.code for code in codes_in("Container exited with a non-zero exit code 143 after 200 lines")]
    ['exit code 143']
    >>> codes_in("Removed 137 of 143 entries")
    ()
    """
    text = text[:_TEXT]
    found: dict[tuple[str, str], tuple[int, Code]] = {}
    for family in families():
        for pattern in family.patterns:
            for match in pattern.finditer(text):
                code = _code(family, match["code"])
                if code is not None:
                    found.setdefault((family.name, code.code), (match.start("code"), code))
    return tuple(code for _, code in sorted(found.values(), key=lambda one: one[0]))[:_MOST]


def find_codes(words: str) -> tuple[Code, ...]:
    """Return the codes that a user may mean, of every family.

    >>> [code.code for code in find_codes("exit 239")]
    ['exit code 239']
    """
    words = " ".join(words.split())
    found = (
        _code(one, match["code"]) for one in families() if (match := one.asked.fullmatch(words))
    )
    return tuple(code for code in found if code is not None)


@functools.cache
def families() -> tuple[_Family, ...]:
    """Return all families."""
    return tuple(_family(name) for name in _FAMILIES)


def _family(name: str) -> _Family:
    file = f"formats/codes-{name}.toml"
    data = pkgutil.get_data("flowdiag.parsers", file)
    if data is None:
        raise FlowdiagError(
            f"the data file {file} is missing from the installation", hint="reinstall flowdiag"
        )
    entry = tomllib.loads(data.decode())
    return _Family(
        name=name,
        title=entry["title"],
        source=entry["source"],
        shown=entry["shown"],
        patterns=tuple(_pattern(one) for one in entry["patterns"]),
        asked=_pattern(entry["asked"]),
        codes=entry["codes"],
        classes=entry.get("classes", {}),
    )


def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(text.replace("(?<code>", "(?P<code>"), re.ASCII)


def _code(family: _Family, code: str) -> Code | None:
    entry = family.codes.get(code)
    if entry is None:
        prefix = next(
            (code[:n] for n in range(len(code), 0, -1) if code[:n] in family.classes), None
        )
        entry = family.classes[prefix] if prefix is not None else None
    if entry is None:
        return None
    return Code(
        code=family.shown.format(code=code),
        family=family.name,
        meaning=entry["means"],
        check=entry.get("check", ""),
        retriable=entry.get("retriable"),
    )
