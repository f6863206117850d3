"""The wrappings of pasted stack traces, for the corpus of pastes.

An entry of `WRAPPINGS` turns the lines of a trace into the text of a file. Add new wrappings here.
"""

from __future__ import annotations

import html
import json
import textwrap
from collections.abc import Callable
from typing import Final


def joined(lines: list[str]) -> str:
    return "\n".join(lines) + "\n"


def marked(mark: str) -> Callable[[list[str]], str]:
    """Return a wrapping that puts the same prefix on every line."""
    return lambda lines: joined([f"{mark}{line}" for line in lines])


def wrapped(lines: list[str]) -> str:
    """Break lines as a terminal of 100 columns does."""
    return joined(
        [
            part
            for line in lines
            for part in textwrap.wrap(line.expandtabs(4), 100, break_on_hyphens=False)
        ]
    )


DATED: Final = ("date above", "table with date")
CUT: Final = ("from the middle",)
"""Wrappings that lack the first exception."""
WRAPPINGS: Final[dict[str, Callable[[list[str]], str]]] = {
    "bare": joined,
    "date above": lambda lines: joined(["2023-11-08 12:40:56", *lines]),
    "table with date": lambda lines: joined([f"2023-11-08 12:40:56\t{lines[0]}", *lines[1:]]),
    "table of counts": lambda lines: joined(["count\texception", f"12\t{lines[0]}", *lines[1:]]),
    "from the middle": lambda lines: joined(lines[2:]),
    "unindented": lambda lines: joined([line.strip() for line in lines]),
    "without at": lambda lines: joined([line.strip().removeprefix("at ") for line in lines]),
    "wrapped": wrapped,
    "comment": lambda lines: joined(["/**", *(f" * {line}" for line in lines), " */"]),
    "hash": marked("# "),
    "slashes": marked("// "),
    "quoted": marked("> "),
    "quoted twice": marked("> > "),
    "bullets": marked("- "),
    "fence": lambda lines: joined(["The job dies with", "", "```java", *lines, "```", "What now?"]),
    "json elements": lambda lines: json.dumps(lines, indent=2),
    "json elements on a line": json.dumps,
    "json value": lambda lines: json.dumps({"error": "\n".join(lines)}, indent=2),
    "html": lambda lines: f"<pre>{html.escape(joined(lines))}</pre>\n",
    "frames on a line": lambda lines: " ".join(line.strip() for line in lines) + "\n",
    "numbered": lambda lines: joined([f"{n}. {line}" for n, line in enumerate(lines, 1)]),
    "rows of a table": lambda lines: joined([f"| {line} |" for line in lines]),
    "words around": lambda lines: joined(
        ["Hi all,", "since yesterday our job dies with this:", "", *lines, "", "Any idea? Thanks."]
    ),
    "windows": lambda lines: "\r\n".join(lines) + "\r\n",
}


_FLINK: Final = (
    "2023-11-08 12:40:56,123 INFO  org.apache.flink.runtime.executiongraph.ExecutionGraph       [] - Job"
    " orders (9d1e2c6f0b7a4b43a1b1f1f0c9a85d21) switched from state FAILING to FAILED."
)
_SPARK: Final = (
    "23/11/08 12:40:56 ERROR MicroBatchExecution: Query orders [id = 6a4b3fcd-1d8f-4f39-8f6c-0c8a13d9a111,"
    " runId = 0ef5d5a4-7d5e-4c37-92a4-42f87f1f2a22] terminated with error"
)
HEADED: Final[dict[str, dict[str, Callable[[list[str]], str]]]] = {
    "flink": {"below a record": lambda lines: joined([_FLINK, *lines])},
    "spark": {"below a record": lambda lines: joined([_SPARK, *lines])},
}
"""Wrappings that are records of the engine's own log."""
