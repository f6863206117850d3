"""Marks the names of jobs, tasks and hosts in the sentences that rules write, so that `--redact` can replace them.

In log text, `--redact` has to search for names. In a rule's sentence, an ordinary word may look like a name:
"aggregate in two stages" does not refer to the task `aggregate`. With `--redact`, the names in the facts therefore
become `Name`s before any rule runs. A `Name` equals its text, but f-strings enclose it in marks. Only marked text
is a name.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Iterator, Mapping
from copy import copy
from dataclasses import Field, fields, is_dataclass, replace
from functools import partial
from typing import Any, Final

BEGINS: Final = (
    "\ue0f0"  # private-use characters: `without_marks` removes them if a log line contains one
)
ENDS: Final = "\ue0f1"
MARKED: Final = re.compile(f"{BEGINS}([^{BEGINS}{ENDS}]*)(?:{ENDS}|$)")


class Name(str):
    """A name that is marked when it is formatted into a sentence.

    >>> f"{Name('enrich')} waits" == f"{BEGINS}enrich{ENDS} waits", Name("enrich") == "enrich"
    (True, True)
    """

    __slots__ = ()

    def __format__(self, spec: str) -> str:
        return f"{BEGINS}{str.__str__(self)}{ENDS}".__format__(spec)

    def __add__(self, other: str) -> str:
        return f"{self}" + other

    def __radd__(self, other: str) -> str:
        return other + f"{self}"


def keep_marked(original: str, text: str) -> str:
    """Return a part of a text. If the text is a `Name`, so is the part.

    >>> type(keep_marked(Name("enrich"), "enr…")).__name__, type(keep_marked("enrich", "enr…")).__name__
    ('Name', 'str')
    """
    return Name(text) if isinstance(original, Name) else text


def without_marks(text: str) -> str:
    """Remove the marks from a text."""
    return text.replace(BEGINS, "").replace(ENDS, "")


# Fields of facts that contain a name. `name` does so only in the types of `_NAMED`.
_NAMES: Final = frozenset(
    {"task", "operator", "job_name", "taskmanager", "host", "application", "query", "receiver"}
)
_NAMED: Final = frozenset({"JobFacts", "ApplicationFacts", "QueryFacts", "StartFacts"})
_SHORTEST: Final = 2


def with_names(facts: Any) -> Any:
    """Return the facts with each name replaced by a `Name`."""
    known = {text for text in _names(facts) if len(text) >= _SHORTEST and not text.isdecimal()}
    return _mark_names(facts, known)


def _names(value: Any, field: str = "") -> Iterator[str]:
    if isinstance(value, str):
        if field in _NAMES:
            yield value
    elif is_dataclass(value) and not isinstance(value, type):
        owner = type(value).__name__
        for one in filter(_is_input, fields(value)):
            named = one.name == "name" and owner in _NAMED
            yield from _names(getattr(value, one.name), "task" if named else one.name)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _names(key)
            yield from _names(item)
    elif isinstance(value, tuple) and hasattr(value, "_fields"):
        for name, item in zip(value._fields, value, strict=True):
            yield from _names(item, name)
    elif isinstance(value, list | tuple | set | frozenset):
        for item in value:
            yield from _names(item)


def _is_input(field: Field[Any]) -> bool:
    """Return whether a field is part of the input, not a value derived by rules."""
    return field.init


def _mark_names(value: Any, known: set[str]) -> Any:
    kind = type(value)
    if kind is str:
        return Name(value) if value in known else value
    if is_dataclass(value) and not isinstance(value, type):
        return _with_marked_fields(value, known)
    if isinstance(value, Mapping):
        return {_mark_names(k, known): _mark_names(v, known) for k, v in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return kind(*map(partial(_mark_names, known=known), value))
    if kind.__module__.startswith("flowdiag.") and hasattr(value, "__dict__"):
        other = copy(value)  # for example, a graph
        other.__dict__.update({k: _mark_names(v, known) for k, v in value.__dict__.items()})
        return other
    if kind in (list, tuple, set, frozenset):
        items = [*map(partial(_mark_names, known=known), value)]
        return value if all(map(operator.is_, items, value)) else kind(items)
    return value


def _with_marked_fields(value: Any, known: set[str]) -> Any:
    changed = {
        one.name: new
        for one in filter(_is_input, fields(value))
        if (new := _mark_names(old := getattr(value, one.name), known)) is not old
    }
    return replace(value, **changed) if changed else value
