"""What a long exception of Spark's says in the end: Python's own error, or the deepest cause."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

_PYTHON_BEGIN: Final = "Traceback (most recent call last)"
_PYTHON_ERROR: Final = re.compile(
    r"(?:[A-Za-z_][\w.]{0,200})?(?:Error|Exception|Interrupt|Exit)(?:: .*)?$"
)
_LINE: Final = 500


def python_error(lines: Iterable[str]) -> str | None:
    """The last line of the last Python traceback in a stack trace: the JVM's own words say less.

    What Py4J says is none: it only tells that the JVM failed.
    """
    inside, found = False, None
    for line in lines:
        if _PYTHON_BEGIN in line:
            inside = True
        elif inside and line[:1] not in " \t" and _PYTHON_ERROR.match(line[:_LINE].strip()):
            inside = False
            if not line.startswith("py4j."):
                found = line.strip()
    return found


def last_cause(text: str) -> str | None:
    """The line of a trace that says what went wrong; None if it has no causes.

    >>> last_cause("a.E: x\\n\\tat b.C\\nCaused by: d.F: y\\n\\tat b.C\\nCaused by: g.H: z")
    'Caused by: g.H: z'
    """
    lines = text.splitlines()
    causes = (line for line in reversed(lines) if line.startswith("Caused by: "))
    return python_error(lines) or next(causes, None)


def shortened(text: str, most: int) -> str:
    """The beginning of a long trace, and what it says in the end.

    Args:
        text: the trace.
        most: characters.
    """
    if len(text) <= most:
        return text
    last = (last_cause(text) or "")[:_LINE]
    if not last or last in text[:most]:
        return text[:most]
    return f"{text[: most - len(last) - 3].rstrip()}\n…\n{last}"
