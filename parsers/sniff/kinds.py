"""Describes, for users, the lines of a text that is not a log, and the first syntax error of a JSON document."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable
from typing import Final

from flowdiag.parsers.lines.traces import is_trace_line

_MARGIN: Final = 1024
"""Number of bytes at the end of an incomplete document in which a syntax error may only mean that the data ends
there.
"""
_KINDS: Final = (
    (re.compile(r"\s*(?:#|//|--)"), "comment"),
    (re.compile(r"\s*[\w.\-\"']{1,100}\s*[:=](?:\s|$)"), "setting"),
    (re.compile(r"\s*[\[\]{}\"]"), "line of JSON"),
    (re.compile(r"\s*</?\w"), "line of markup"),
    (re.compile(r"[^|\t]{0,200}[|\t][^|\t]{0,200}[|\t]"), "row of a table"),
)


def kinds_of_lines(lines: Iterable[bytes]) -> str:
    """Count the lines of each kind, most frequent first.

    >>> kinds_of_lines([b"Hello", b"a.b: 1", b"\\tat a.B.c(B.java:1)", b"bye"])
    '2 lines of text, 1 setting, 1 stack frame'
    """
    counts = Counter(_kind_of(line.decode("utf-8", "replace")) for line in lines)
    return ", ".join(f"{n} {_plural(kind) if n > 1 else kind}" for kind, n in counts.most_common())


def _kind_of(line: str) -> str:
    if is_trace_line(line):
        return "stack frame"
    return next((kind for pattern, kind in _KINDS if pattern.match(line)), "line of text")


def _plural(kind: str) -> str:
    first, _, rest = kind.partition(" of ")
    return f"{first}s of {rest}" if rest else f"{kind}s"


def syntax_error(data: bytes, *, complete: bool) -> str | None:
    """Return the position of the first syntax error in a JSON document, or None.

    Args:
        data: the document or its beginning.
        complete: whether it is the whole document.

    >>> syntax_error(b'{"a": 1,\\n "b: 2}', complete=True)
    'line 2, column 2'
    """
    text = data.decode("utf-8", "replace")
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        if complete or error.pos < len(text) - _MARGIN:
            return f"line {error.lineno}, column {error.colno}"
    except RecursionError:
        return None
    return None
