"""Explains error codes: SQLSTATE, `ORA-01555`, `HTTP 403`, `exit code 137`, Kafka's errors, …

Each family of codes has a data file, `formats/codes-*.toml`, which cites its source. Spark's error conditions and the
descriptions of rare SQLSTATEs come from the installed PySpark. `codes_in` accepts a bare number only next to words
such as `exit code`.
"""

from __future__ import annotations

import functools
import json
import re
import zipfile
from collections.abc import Callable, Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, NamedTuple

from flowdiag.parsers.formats import read_format

_TEXT: Final = 16_384  # maximum characters searched
_MOST: Final = 8  # maximum codes returned for one text
_TEMPLATE: Final = 300

_FAMILIES: Final = (
    "exit",
    "kafka",
    "sqlstate",
    "oracle",
    "mysql",
    "sqlserver",
    "delta",
    "s3",
    "http",
    "grpc",
    "kubernetes",
    "errno",
)


class Code(NamedTuple):
    """A code and its meaning.

    Attributes:
        code: the code as people write it: `ORA-01555`, `HTTP 403`, `exit code 137`.
        family: name of its family.
        meaning: what it means, as a clause.
        check: what to check first, as a sentence; empty if the meaning is enough.
        retriable: whether the same request can succeed later; None if unknown or not a request.
    """

    code: str
    family: str
    meaning: str
    check: str = ""
    retriable: bool | None = None


Entry = Mapping[str, Any]


class Family(NamedTuple):
    """A family of codes.

    Attributes:
        name: name of the family.
        title: what users call one of its codes.
        source: origin of the codes, with versions.
        shown: format string for a code, with the placeholder `{code}`.
        patterns: patterns that find a code in a text, each with the group `code`.
        query: pattern that finds a code in a user's query.
        codes: entry of each code.
        classes: entries for whole classes of codes, by prefix.
        aliases: code by alternative name, such as a number or an exception class.
        fallback: looks up codes that have no entry.
        unless: pattern of texts from another service, whose codes have other meanings.
    """

    name: str
    title: str
    source: str
    shown: str
    patterns: tuple[re.Pattern[str], ...]
    query: re.Pattern[str]
    codes: Mapping[str, Entry]
    classes: Mapping[str, Entry]
    aliases: Mapping[str, str]
    fallback: Callable[[str], Entry | None]
    unless: re.Pattern[str] | None = None

    def entry(self, code: str) -> Entry | None:
        """Return the entry for a code or, failing that, for its fallback or its class."""
        found = self.codes.get(code) or self.fallback(code)
        if found is None:
            ends = range(len(code) - 1, 0, -1)
            found = next(
                (self.classes[code[:end]] for end in ends if code[:end] in self.classes), None
            )
        return found


def codes_in(text: str) -> tuple[Code, ...]:
    """Return the codes in the text of a failure, in order of appearance.

    >>> [code.code for code in codes_in("Container exited with a non-zero exit code 143 after 200 lines")]
    ['exit code 143']
    >>> codes_in("Removed 137 of 143 entries")
    ()
    """
    text = text[:_TEXT]
    lower = text.lower()
    found: dict[tuple[str, str], tuple[int, Code]] = {}
    for family in families():
        if family.unless is not None and family.unless.search(text) is not None:
            continue
        for pattern in family.patterns:
            for match in pattern.finditer(text):
                code = _code(family, match["code"], lower)
                if code is not None:
                    found.setdefault((family.name, code.code), (match.start("code"), code))
    return tuple(code for _, code in sorted(found.values(), key=lambda one: one[0]))[:_MOST]


def find_codes(words: str) -> tuple[Code, ...]:
    """Return the codes from any family that a user's query may refer to.

    >>> [code.code for code in find_codes("exit 239")]
    ['exit code 239']
    """
    words = " ".join(words.split())
    matches = ((one, one.query.fullmatch(words)) for one in families())
    found = (_code(one, match["code"]) for one, match in matches if match is not None)
    return tuple(code for code in found if code is not None)


def _code(family: Family, name: str, near: str | None = None) -> Code | None:
    """Look up a code by name or alias. `near` is the text around it in lower case, or None for a user's query."""
    code = family.aliases.get(name, name)
    entry = family.entry(code)
    if entry is None or (near is not None and entry.get("near", "") not in near):
        return None
    return Code(
        code=family.shown.format(code=code),
        family=family.name,
        meaning=entry["means"],
        check=entry.get("check", ""),
        retriable=entry.get("retriable"),
    )


# --- families ---------------------------------------------------------------------------------------


@functools.cache
def families() -> tuple[Family, ...]:
    """Return all families, including Spark's error conditions."""
    return (*(_family(name) for name in _FAMILIES), _spark_conditions())


def _family(name: str) -> Family:
    table = read_format(f"formats/codes-{name}.toml")
    numbers = table.get("numbers", {})
    aliases = {key: code for key, code in numbers.items() if key != "patterns"}
    aliases |= {entry["class"]: code for code, entry in table["codes"].items() if "class" in entry}
    return Family(
        name=name,
        title=table["title"],
        source=table["source"],
        shown=table["shown"],
        patterns=tuple(map(_pattern, (*table["patterns"], *numbers.get("patterns", ())))),
        query=_pattern(table["query"]),
        codes=table["codes"],
        classes=table.get("classes", {}),
        aliases=aliases,
        fallback=_sqlstate_entry if name == "sqlstate" else _none_found,
        unless=_pattern(table["unless"]) if "unless" in table else None,
    )


def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(text.replace("(?<code>", "(?P<code>"), re.ASCII)


def _none_found(_: str) -> None:
    return None


# --- PySpark's own tables ---------------------------------------------------------------------------

_CONDITION: Final = r"(?<code>[A-Z][A-Z0-9_]{4,80}(?:\.[A-Z][A-Z0-9_]{2,80})?)"


def _spark_conditions() -> Family:
    return Family(
        name="spark",
        title="Spark error condition",
        source="error/error-conditions.json of the installed PySpark",
        shown="{code}",
        patterns=(_pattern(rf"\[{_CONDITION}\]"),),
        query=_pattern(rf"\[?{_CONDITION}\]?"),
        codes={},
        classes={},
        aliases={},
        fallback=_condition,
    )


def _condition(code: str) -> Entry | None:
    """Build an entry from the message template of a Spark error condition, `MAIN` or `MAIN.SUB`."""
    main, _, sub = code.partition(".")
    known = _table("error-conditions.json").get(main)
    if known is None:
        return None
    part = known.get("subClass", {}).get(sub, {}) if sub else {}
    words = " ".join(" ".join((*known["message"], *part.get("message", ()))).split())
    state = known.get("sqlState")
    short = words if len(words) <= _TEMPLATE else f"{words[: _TEMPLATE - 1].rstrip()}…"
    return {"means": f"{short.rstrip('.')}{f' (SQLSTATE {state})' if state else ''}"}


def _sqlstate_entry(code: str) -> Entry | None:
    known = _table("error-states.json").get(code)
    if known is None:
        return None
    words = " ".join(known["description"].split()).rstrip(".")
    return {"means": words[:1].lower() + words[1:]}


@functools.cache
def _table(name: str) -> dict[str, Any]:
    """Load a JSON table from the installed PySpark. Return an empty table before PySpark 4.0, which lacks it."""
    for jar in _jars():
        try:
            with zipfile.ZipFile(jar) as archive:
                found = json.loads(archive.read(f"error/{name}"))
        except (OSError, KeyError, ValueError, zipfile.BadZipFile):
            continue
        return found if isinstance(found, dict) else {}
    return {}


def _jars() -> Iterator[Path]:
    """Yield PySpark's jars that may contain the tables, without importing PySpark."""
    try:
        spec = find_spec("pyspark")
    except (ImportError, ValueError):
        return
    for folder in (spec.submodule_search_locations or []) if spec is not None else []:
        yield from sorted(Path(folder, "jars").glob("spark-common-utils_*.jar"))
